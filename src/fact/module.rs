//! The facts of a kernel module.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A kernel module that matters to RDMA and GPUs, loaded or not.
    Module = "module" from "module";

    /// The module's name, as the kernel writes it: with underscores. Known for each module that is a subject, loaded or not.
    NAME: Arc<str> = "name" from "derive module_wanted";
    /// Whether the module is in the running kernel, loaded or built in. Source: /proc/modules, /sys/module, modules.builtin.
    PRESENT: bool = "present" from "module";
    /// Whether the module is part of the kernel's image, so that lsmod does not list it.
    BUILTIN: bool = "builtin" from "module";
    /// The module's version; "none" where it states none. Source: /sys/module/NAME/version.
    VERSION: Arc<str> = "version" from "module";
    /// Whether this machine's RDMA devices or functions need it, and do not bring it themselves.
    WANTED: bool = "wanted" from "derive module_wanted";
    /// The part of this machine that needs the module; "nothing" if none does.
    WANTED_BY: Arc<str> = "wanted_by" from "derive module_wanted";
}
