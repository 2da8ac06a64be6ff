//! The facts of a setting that holds now, beside what the next boot makes of it.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

words! {
    /// What kind of setting it is.
    pub enum BootSettingKind {
        /// The MTU of a network interface.
        Mtu = "mtu",
        /// A parameter in /proc/sys.
        Sysctl = "sysctl",
        /// A word of the kernel's command line.
        Parameter = "parameter",
        /// A module that nothing but a file or a person loads.
        Module = "module",
    }
}

words! {
    /// What the next boot makes of a setting.
    pub enum AfterBoot {
        /// It stays.
        Stays = "stays",
        /// No file sets it: the kernel's own value comes back.
        Lost = "lost",
        /// A file sets another value, which does not hold now.
        Changes = "changes",
        /// It is written where only the tool that makes the boot loader's file reads it.
        Unmade = "unmade",
    }
}

subject! {
    /// A setting that holds now or that a file sets, beside what the next boot makes of it.
    BootSetting = "boot_setting" from "boot_setting";

    /// What kind of setting it is.
    KIND: BootSettingKind = "kind" from "boot_setting";
    /// The bare name: the interface, the key, the word of the command line, the module.
    WORD: Arc<str> = "word" from "boot_setting";
    /// Whether it is of an interface that carries RDMA.
    RAIL: bool = "rail" from "boot_setting";
    /// What it is now, before the next boot.
    NOW: Arc<str> = "now" from "boot_setting";
    /// What the next boot makes of it.
    NEXT: Arc<str> = "next" from "boot_setting";
    /// Whether it stays over a reboot.
    AFTER: AfterBoot = "after" from "boot_setting";
    /// The file that sets it, or that would have to.
    FILE: Arc<str> = "file" from "boot_setting";
}
