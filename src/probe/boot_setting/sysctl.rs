//! Parameters of the kernel in /proc/sys, beside sysctl.d(5).

use super::{
    AfterBoot, BootFile, BootFiles, BootSettingKind, FILES, Found, SYSCTL_TOOLS, Settings,
};
use crate::fact::Fact;
use crate::probe::Ask;

/// A parameter, and the kernel's own value, or those of older and newer kernels.
struct Key {
    name: &'static str,
    own: &'static [&'static str],
}

impl Key {
    const fn new(name: &'static str, own: &'static [&'static str]) -> Self {
        Key { name, own }
    }
}

/// Parameters that jobs or their network need, with the kernel's own value where it has one on every machine:
/// `net/core/sock.c` (`SK_RMEM_MAX` of 64-bit machines), `net/ipv4/arp.c`, `include/linux/mm.h` (`DEFAULT_MAX_MAP_COUNT`).
const KEYS: [Key; 13] = [
    Key::new("net.core.rmem_max", &["212992", "4194304"]),
    Key::new("net.core.wmem_max", &["212992", "4194304"]),
    Key::new("net.ipv4.neigh.default.gc_thresh1", &["128"]),
    Key::new("net.ipv4.neigh.default.gc_thresh2", &["512"]),
    Key::new("net.ipv4.neigh.default.gc_thresh3", &["1024"]),
    Key::new("net.ipv4.conf.all.arp_ignore", &["0"]),
    Key::new("net.ipv4.conf.all.arp_announce", &["0"]),
    Key::new("net.ipv4.conf.all.rp_filter", &[]),
    Key::new("vm.max_map_count", &["65530"]),
    Key::new("vm.zone_reclaim_mode", &["0"]),
    Key::new("vm.nr_hugepages", &[]),
    Key::new("kernel.numa_balancing", &[]),
    Key::new("kernel.pid_max", &[]),
];

const PLACES: [&str; 5] = [
    "/usr/lib/sysctl.d/",
    "/usr/local/lib/sysctl.d/",
    "/run/sysctl.d/",
    "/etc/sysctl.d/",
    CONF,
];
/// The file of before sysctl.d(5).
const CONF: &str = "/etc/sysctl.conf";
/// The profile that tuned applies at boot, and with it parameters of the kernel.
const TUNED: &str = "/etc/tuned/active_profile";

/// The keys, as the question names them.
pub(super) fn keys() -> String {
    KEYS.map(|key| key.name).join(" ")
}

pub(super) fn find(ask: &Ask<'_>, files: &BootFiles, settings: &mut Settings) {
    let has_others = files.running(&SYSCTL_TOOLS).next().is_some()
        || files.below(&[TUNED]).any(|file| !file.lines.is_empty());
    let is_open = has_others || files.hides(&PLACES);
    for Key { name, own } in &KEYS {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let now = match ask.text(path) {
            Fact::Known(text, _) => text
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
            Fact::Unknown(gap) => {
                settings.lacks_value(name, BootSettingKind::Sysctl, &gap);
                continue;
            }
        };
        let (next, after, file) = match set(files, name) {
            Some((value, file)) if value == now => (value, AfterBoot::Stays, file),
            // Other tools may have set it since, and do so after each boot.
            _ if is_open => continue,
            Some((value, file)) => (value, AfterBoot::Changes, file),
            None if own.is_empty() || own.contains(&&*now) => continue,
            None => (own.join(" or "), AfterBoot::Lost, "/etc/sysctl.d"),
        };
        settings.found.push(Found {
            name: (*name).to_owned(),
            word: (*name).to_owned(),
            kind: BootSettingKind::Sysctl,
            rail: Fact::derived(false, FILES),
            now,
            next,
            after,
            file: file.to_owned(),
        });
    }
}

/// The value that sysctl.d(5) leaves in force, and the file: the last by name, where a file in /etc stands for those of its
/// name elsewhere.
fn set<'f>(files: &'f BootFiles, key: &str) -> Option<(String, &'f str)> {
    let mut all: Vec<&BootFile> = files.below(&PLACES).collect();
    all.sort_by_key(|file| (name(file), place(file)));
    let mut value = None;
    for (at, file) in all.iter().enumerate() {
        let is_masked = all
            .get(at + 1)
            .is_some_and(|next| name(next) == name(file) && next.path != CONF);
        for line in file.lines.iter().filter(|_| !is_masked) {
            let Some((name, set)) = line.split_once('=') else {
                continue;
            };
            if name.trim().trim_start_matches('-').replace('/', ".") == key {
                value = Some((set.trim().to_owned(), &*file.path));
            }
        }
    }
    value
}

fn place(file: &BootFile) -> Option<usize> {
    PLACES.iter().position(|place| file.path.starts_with(place))
}

/// The name by which files are sorted; distributions read /etc/sysctl.conf as 99-sysctl.conf.
fn name(file: &BootFile) -> &str {
    if file.path == CONF {
        "99-sysctl.conf"
    } else {
        file.path.rsplit('/').next().unwrap_or(&file.path)
    }
}
