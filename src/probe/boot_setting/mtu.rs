//! The MTU of interfaces, beside the files of netplan, systemd-networkd, NetworkManager, sysconfig and ifupdown.

use super::netplan::{self, NetplanDevice};
use super::{AfterBoot, BootFile, BootFiles, BootSettingKind, Found, Settings};
use crate::fact::Fact;
use crate::probe::{Ask, inside, whole_number};
use crate::source::Question;

/// What Ethernet has without a setting.
const ETHERNET: u64 = 1500;

const NETPLAN: [&str; 3] = ["/etc/netplan/", "/usr/lib/netplan/", "/run/netplan/"];
const NETWORKD: [&str; 2] = ["/etc/systemd/network/", "/usr/lib/systemd/network/"];
const KEYFILES: [&str; 1] = ["/etc/NetworkManager/system-connections/"];
const SYSCONFIG: [&str; 2] = [
    "/etc/sysconfig/network-scripts/ifcfg-",
    "/etc/sysconfig/network/ifcfg-",
];
const IFUPDOWN: [&str; 1] = ["/etc/network/interfaces"];

/// An interface of this machine.
struct Interface<'n> {
    name: &'n str,
    mac: Option<String>,
}

/// What one file says of an interface.
struct Said<'f> {
    file: &'f str,
    mtu: Option<u64>,
    /// A server may give it another one.
    dhcp: bool,
}

pub(super) fn find(ask: &Ask<'_>, files: &BootFiles, settings: &mut Settings) {
    let places = [&NETPLAN[..], &NETWORKD, &KEYFILES, &SYSCONFIG, &IFUPDOWN].concat();
    if files.below(&places).next().is_none() {
        return;
    }
    let hides = files.hides(&places);
    match ask.names("/sys/class/net") {
        Fact::Known(names, _) => {
            for name in names.iter().filter(|name| &***name != "lo") {
                of_interface(ask, files, name, hides, settings);
            }
        }
        Fact::Unknown(gap) => settings.lacks(&gap),
    }
}

fn of_interface(
    ask: &Ask<'_>,
    files: &BootFiles,
    name: &str,
    hides: bool,
    settings: &mut Settings,
) {
    let directory = inside("/sys/class/net", name);
    let setting = format!("MTU of {name}");
    let mac = ask.text(format!("{directory}/address"));
    if let Fact::Unknown(gap) = &mac {
        settings.lacks(gap);
    }
    let interface = Interface {
        name,
        mac: mac.known().map(|mac| mac.to_lowercase()),
    };
    let said = said(files, &interface);
    let Some((first, rest)) = said.split_first() else {
        return;
    };
    let now = ask.parse(format!("{directory}/mtu"), whole_number);
    let now = match now {
        Fact::Known(now, _) => now,
        Fact::Unknown(gap) => return settings.lacks_value(&setting, BootSettingKind::Mtu, &gap),
    };
    let mut set = said.iter().filter(|one| one.mtu.is_some());
    let is_by_script = is_set_by_script(files, name);
    let (next, after, file) = match set.next() {
        Some(one) => {
            let next = one.mtu.unwrap_or(now);
            // Managers that disagree: which one wins is not known.
            if set.any(|other| other.mtu != one.mtu) {
                return;
            }
            (next, AfterBoot::Changes, one.file)
        }
        None => {
            let is_told = rest.is_empty() && !first.dhcp;
            if !is_told || now <= ETHERNET {
                return;
            }
            // A VLAN has its parent's, a bridge its ports', and a bond's may stand in a file of its own.
            match ask.answers(Question::link(format!("{directory}/device"))) {
                Fact::Known(true, _) => {}
                Fact::Known(false, _) => return,
                Fact::Unknown(gap) => {
                    return settings.lacks_value(&setting, BootSettingKind::Mtu, &gap);
                }
            }
            // A bond gives its members its own.
            match ask.answers(Question::link(format!("{directory}/master"))) {
                Fact::Known(false, _) => (ETHERNET, AfterBoot::Lost, first.file),
                Fact::Known(true, _) => return,
                Fact::Unknown(gap) => {
                    return settings.lacks_value(&setting, BootSettingKind::Mtu, &gap);
                }
            }
        }
    };
    let after = if next == now { AfterBoot::Stays } else { after };
    if after != AfterBoot::Stays && (hides || is_by_script) {
        return;
    }
    settings.found.push(Found {
        name: setting,
        word: name.to_owned(),
        kind: BootSettingKind::Mtu,
        rail: ask.exists(&format!("{directory}/device/infiniband")),
        now: now.to_string(),
        next: next.to_string(),
        after,
        file: file.to_owned(),
    });
}

/// Whether a script has a line that sets the MTU of this interface, or of one that it does not name.
fn is_set_by_script(files: &BootFiles, name: &str) -> bool {
    let all = files.all.iter().flat_map(|file| &file.lines);
    let lines = all.filter_map(|line| line.strip_prefix("runs "));
    let mut of_mtu = lines.filter(|line| line.contains(" mtu "));
    of_mtu.any(|line| line.contains(name) || line.contains('$'))
}

/// What files say of an interface, each that names it.
fn said<'f>(files: &'f BootFiles, interface: &Interface<'_>) -> Vec<Said<'f>> {
    let mut all = of_netplan(files, interface);
    all.extend(of_networkd(files, interface));
    all.extend(files.below(&KEYFILES).filter_map(|file| {
        let sections = sections(&file.lines);
        let of = |section: &str, key: &str| value(&sections, section, key);
        let is_named = of("connection", "interface-name") == Some(interface.name);
        let mac = ["ethernet", "802-3-ethernet", "infiniband"]
            .iter()
            .find_map(|section| of(section, "mac-address"));
        let is_meant = is_named || (mac.is_some() && mac.map(str::to_lowercase) == interface.mac);
        let mtu = ["ethernet", "802-3-ethernet", "infiniband"]
            .iter()
            .find_map(|section| of(section, "mtu")?.parse().ok());
        is_meant.then(|| Said {
            file: &file.path,
            mtu: mtu.filter(|mtu| *mtu > 0),
            dhcp: of("ipv4", "method") == Some("auto"),
        })
    }));
    all.extend(files.below(&SYSCONFIG).filter_map(|file| {
        let of = |key: &str| {
            let mut values = file.lines.iter();
            let value = values.find_map(|line| {
                line.trim()
                    .strip_prefix(key)?
                    .trim_start()
                    .strip_prefix('=')
            })?;
            Some(value.trim().trim_matches(['"', '\'']))
        };
        let own = file.path.rsplit("ifcfg-").next();
        let is_meant = of("DEVICE").or(own) == Some(interface.name);
        let bootproto = of("BOOTPROTO").unwrap_or_default().to_lowercase();
        is_meant.then(|| Said {
            file: &file.path,
            mtu: of("MTU").and_then(|mtu| mtu.parse().ok()),
            dhcp: bootproto.contains("dhcp"),
        })
    }));
    all.extend(
        files
            .below(&IFUPDOWN)
            .flat_map(|file| of_ifupdown(file, interface)),
    );
    all
}

fn of_netplan<'f>(files: &'f BootFiles, interface: &Interface<'_>) -> Vec<Said<'f>> {
    let mut merged: Vec<Said<'f>> = Vec::new();
    for file in files.below(&NETPLAN) {
        for device in netplan::devices(&file.lines) {
            if !is_netplans(&device, interface) {
                continue;
            }
            let mtu = device.mtu.as_deref().and_then(|mtu| mtu.parse().ok());
            // Later files add to earlier ones.
            match merged.first_mut() {
                Some(one) => {
                    if mtu.is_some() {
                        (one.mtu, one.file) = (mtu, &file.path);
                    }
                    one.dhcp |= device.dhcp;
                }
                None => merged.push(Said {
                    file: &file.path,
                    mtu,
                    dhcp: device.dhcp,
                }),
            }
        }
    }
    merged
}

fn is_netplans(device: &NetplanDevice, interface: &Interface<'_>) -> bool {
    if device.set_name.as_deref() == Some(interface.name) {
        return true;
    }
    match (&device.name, &device.mac) {
        (Some(name), _) => matches_glob(name, interface.name),
        (None, Some(mac)) => Some(mac) == interface.mac.as_ref(),
        (None, None) => device.id == interface.name,
    }
}

/// The first file by name that matches decides of addresses; links have files of their own (systemd.network(5), systemd.link(5)).
fn of_networkd<'f>(files: &'f BootFiles, interface: &Interface<'_>) -> Vec<Said<'f>> {
    let matching = |suffix: &'static str| {
        let all = files.below(&NETWORKD);
        let mut all: Vec<_> = all.filter(|file| file.path.ends_with(suffix)).collect();
        all.sort_by_key(|file| file.path.rsplit('/').next());
        all.into_iter().find_map(|file| {
            let sections = sections(&file.lines);
            let of = |section: &str, key: &str| value(&sections, section, key);
            let names = of("match", "name").or(of("match", "originalname"));
            let mac = of("match", "macaddress").map(str::to_lowercase);
            let is_meant = match (names, mac) {
                (None, None) => false,
                (names, mac) => {
                    let by_name = names.is_none_or(|names| {
                        let mut globs = names.split_whitespace();
                        globs.any(|glob| matches_glob(glob, interface.name))
                    });
                    by_name && mac.is_none_or(|mac| Some(mac) == interface.mac)
                }
            };
            let dhcp = of("network", "dhcp").unwrap_or("no");
            is_meant.then(|| Said {
                file: &file.path,
                mtu: of("link", "mtubytes").and_then(bytes),
                dhcp: !["no", "false", "ipv6"].contains(&dhcp),
            })
        })
    };
    match (matching(".network"), matching(".link")) {
        (Some(network), Some(link)) if network.mtu.is_none() => vec![Said {
            file: if link.mtu.is_some() {
                link.file
            } else {
                network.file
            },
            mtu: link.mtu,
            dhcp: network.dhcp,
        }],
        (Some(network), _) => vec![network],
        // A link's file alone says who has the name, and its MTU if it has one.
        (None, Some(link)) if link.mtu.is_some() => vec![link],
        (None, _) => Vec::new(),
    }
}

/// `9000`, `9K` (1024 bytes each).
fn bytes(text: &str) -> Option<u64> {
    let (number, factor) = match text.strip_suffix(['K', 'k']) {
        Some(number) => (number, 1024),
        None => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The stanzas of an interface: `iface NAME inet METHOD` up to the next (interfaces(5)).
fn of_ifupdown<'f>(file: &'f BootFile, interface: &Interface<'_>) -> Vec<Said<'f>> {
    let mut all: Vec<Said<'f>> = Vec::new();
    let mut is_own = false;
    for line in &file.lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["iface", name, ..] = words.as_slice() {
            is_own = *name == interface.name;
            if is_own {
                let dhcp = words.last() == Some(&"dhcp");
                match all.first_mut() {
                    Some(one) => one.dhcp |= dhcp,
                    None => all.push(Said {
                        file: &file.path,
                        mtu: None,
                        dhcp,
                    }),
                }
            }
            continue;
        }
        let at = words.iter().position(|word| *word == "mtu");
        let mtu = at.and_then(|at| words.get(at + 1)?.parse().ok());
        if let (true, Some(one), Some(mtu)) = (is_own, all.first_mut(), mtu) {
            one.mtu = Some(mtu);
        }
    }
    all
}

/// A key of a file of sections, all in small letters but the value.
struct Setting<'f> {
    section: String,
    key: String,
    value: &'f str,
}

/// The keys below `[ethernet]` and the like.
fn sections(lines: &[String]) -> Vec<Setting<'_>> {
    let mut all = Vec::new();
    let mut section = String::new();
    for line in lines.iter().map(|line| line.trim()) {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = name.to_lowercase();
        } else if let Some((key, value)) = line.split_once('=') {
            all.push(Setting {
                section: section.clone(),
                key: key.trim().to_lowercase(),
                value: value.trim(),
            });
        }
    }
    all
}

fn value<'f>(settings: &[Setting<'f>], section: &str, key: &str) -> Option<&'f str> {
    let mut all = settings.iter();
    let found = all.find(|one| one.section == section && one.key == key);
    found.map(|one| one.value)
}

/// Whether a name is of a pattern with stars (fnmatch(3)); other signs stand for themselves.
fn matches_glob(glob: &str, name: &str) -> bool {
    let Some((first, others)) = glob.split_once('*') else {
        return glob == name;
    };
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = others.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
