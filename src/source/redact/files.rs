//! How each file is redacted, by its path, and the files whose format must be parsed to find the identities in them.

use std::net::Ipv4Addr;

use super::key::Key;
use super::text::{self, Kind};
use super::{Names, kept, nvml, settings};
use crate::source::{Question, wire};

/// How the content of a file is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileRule {
    /// Numbers that could be taken for addresses, and no address among them.
    Plain,
    /// Text; of settings without their comments.
    Text(Kind),
    /// Text in which `#` begins no comment.
    Whole(Kind),
    /// A serial number, or another number of this one thing.
    Serial,
    /// A host's name.
    Host,
    /// The description of an InfiniBand node: a host's name and a device's.
    Description,
    /// A hardware identifier in bare digits.
    Identifier,
    /// /proc/net/route.
    Route,
    /// NCCL's configuration: variables, one a line.
    Variables,
    /// Settings, one on a line.
    Settings,
    /// Hosts, one on a line.
    Hostfile,
    /// limits.conf(5).
    LoginLimits,
    /// Tables of mounts.
    Mounts,
    /// The kernel's command line.
    CommandLine,
    /// os-release(5).
    OsRelease,
    /// The name of a program.
    Program,
    /// PCI configuration space.
    PciConfig,
    /// Identities in a form that is not known here, or nothing but identities.
    LeftOut,
}

/// The rule for what is read from this path.
pub(super) fn rule(path: &str) -> FileRule {
    let name = path.rsplit('/').next().unwrap_or("");
    let kernel = is_kernel(path);
    let parts = || path.split('/').skip(1);
    let proc = path.starts_with("/proc/");
    match name {
        // Lustre's name for the NID of a connection.
        "ost_conn_uuid" | "mds_conn_uuid" => FileRule::Text(Kind::KERNEL),
        "status" | "maps" | "smaps" | "limits" | "modules" | "iomem" | "interrupts" if proc => {
            FileRule::Plain
        }
        "resource" | "modalias" | "pkeys" if kernel => FileRule::Plain,
        "hostname" | "domainname" | "nodename" => FileRule::Host,
        "node_desc" => FileRule::Description,
        ".nccl.conf" | "nccl.conf" => FileRule::Variables,
        "phys_switch_id" | "phys_port_id" => FileRule::Identifier,
        "route" if proc && parts().any(|p| p == "net") => FileRule::Route,
        "config" if kernel && !proc => FileRule::PciConfig,
        "vpd" | "environ" | "hosts" | "resolv.conf" | "known_hosts" | "shadow" | "passwd"
        | "group" | "rom" => FileRule::LeftOut,
        "tcp" | "tcp6" | "udp" | "udp6" | "raw" | "raw6" | "rt_cache" if proc => FileRule::LeftOut,
        "boot_id" | "machine-id" | "uniqueid" | "wwid" | "wwn" | "eui" | "nguid" | "iq_id" => {
            FileRule::Serial
        }
        name if ["serial", "uuid", "asset_tag"]
            .iter()
            .any(|part| name.contains(part)) =>
        {
            FileRule::Serial
        }
        // Names that lead on to a path: read as that path is.
        "cgroup" | "cpuset" if proc => FileRule::Whole(Kind::PLACE),
        "os-release" => FileRule::OsRelease,
        "version" | "osrelease" => FileRule::Whole(Kind {
            bare: false,
            free: true,
            ..Kind::NAME
        }),
        "cmdline" if path == "/proc/cmdline" => FileRule::CommandLine,
        "comm" => FileRule::Program,
        "mounts" | "mountinfo" | "fstab" => FileRule::Mounts,
        _ if path.starts_with("/etc/security/limits.") => FileRule::LoginLimits,
        "ucx.conf" | "openmpi-mca-params.conf" => FileRule::Settings,
        name if name.contains("hostfile") && !kernel => FileRule::Hostfile,
        name if name.ends_with(".conf") && parts().any(|p| p == "beegfs") => FileRule::Settings,
        "config" if proc && parts().any(|p| p == "beegfs") => FileRule::Settings,
        "cmdline" | "mountstats" | "ifalias" | "arp" => FileRule::Text(Kind::FREE),
        name => {
            let base = if kernel { Kind::KERNEL } else { Kind::FREE };
            FileRule::Text(Kind {
                dotted: !text::is_version_word(name) && !name.ends_with("version"),
                ..base
            })
        }
    }
}

/// The rule for a file that is read in one of [`crate::source::named_format::NamedFormat`]'s formats.
pub(super) fn rule_of_named(format: &str) -> FileRule {
    match format {
        "nccl" => FileRule::Variables,
        "topology" => FileRule::Text(Kind::FREE),
        "hosts" => FileRule::Hostfile,
        _ => FileRule::LeftOut,
    }
}

/// The names that this machine has by its own files: /etc/hostname, the kernel's, and those of its command line.
pub(super) fn own_names<'t>(path: &str, text: &'t str) -> impl Iterator<Item = &'t str> {
    let is_name = matches!(path.rsplit('/').next(), Some("hostname" | "nodename"));
    let is_line = path == "/proc/cmdline";
    text.split_whitespace()
        .flat_map(move |word| match word.split_once('=') {
            _ if is_name => Some(word),
            // ip=CLIENT:SERVER:GATEWAY:NETMASK:HOST:DEVICE (Documentation/admin-guide/nfs/nfsroot.rst)
            Some(("ip", settings)) if is_line => settings.split(':').nth(4),
            Some(("hostname" | "systemd.hostname" | "rd.hostname", name)) if is_line => Some(name),
            _ => None,
        })
        .filter(|name| !name.is_empty())
}

/// Whether a path is in a file system of the kernel's, where no file speaks of users.
pub(super) fn is_kernel(path: &str) -> bool {
    ["/sys/", "/proc/", "/dev/"]
        .iter()
        .any(|root| path.starts_with(root))
}

/// What may stand in a path. The kernel's files have the kernel's names; control groups and devices are named by whoever makes them. A kernel's release
/// leads to its modules, and is itself kept.
pub(super) fn kind_of_path(path: &str) -> Kind {
    let begins = |roots: &[&str]| roots.iter().any(|root| path.starts_with(root));
    if begins(&["/sys/fs/cgroup", "/dev"]) {
        Kind {
            free: false,
            ..Kind::PLACE
        }
    } else if is_kernel(path) || begins(&["/sys", "/proc", "/lib/modules/"]) {
        Kind::NAME
    } else {
        Kind::PLACE
    }
}

/// Whether a question lists network or RDMA devices.
pub(super) fn holds_devices(question: &Question) -> bool {
    matches!(
        question.path(),
        Some("/sys/class/net" | "/sys/class/infiniband")
    )
}

/// Rewrites a file's text; `None` if it has to be left out.
pub(super) fn content(names: &Names, rule: FileRule, content: &str) -> Option<String> {
    Some(match rule {
        FileRule::Plain => content.to_owned(),
        FileRule::Text(kind) if kind.free => names.scan(&settings::without_comments(content), kind),
        FileRule::Text(kind) => names.scan(content, kind),
        FileRule::Whole(kind) => names.scan(content, kind),
        FileRule::CommandLine => kept::command_line(names, content),
        FileRule::OsRelease => kept::os_release(names, content),
        FileRule::Program => nvml::program(&names.key, content.trim_end()) + "\n",
        FileRule::Serial => names.key.serial(content),
        FileRule::Host => host(&names.key, content),
        FileRule::Description => node_description(names, content),
        FileRule::Identifier => identifier(&names.key, content),
        FileRule::Route => route(names, content),
        FileRule::Variables => super::value::assignments(names, content),
        FileRule::Settings => settings::assignments(names, content),
        FileRule::Hostfile => settings::hostfile(names, content),
        FileRule::LoginLimits => settings::login_limits(names, content),
        FileRule::Mounts => settings::mounts(names, content),
        FileRule::PciConfig | FileRule::LeftOut => return None,
    })
}

/// A file that holds a host's name and nothing else; `(none)` is what the kernel reports about a domain that was not set.
pub(super) fn host(key: &Key, content: &str) -> String {
    let name = content.trim_end();
    let blank = content.get(name.len()..).unwrap_or("");
    match name {
        "" | "(none)" => content.to_owned(),
        name => key.host(name) + blank,
    }
}

/// `node1720 HCA-5`, `node1720 mlx5_0`: what comes before the device is a host's name, this node's or an earlier one's.
pub(super) fn node_description(names: &Names, content: &str) -> String {
    let mut words = content.split_whitespace();
    let (first, device) = (words.next(), words.next());
    let is_device = |device: &str| {
        let letters = device.trim_end_matches(|c: char| c.is_ascii_digit());
        letters.len() < device.len() && letters.ends_with(['-', '_'])
    };
    match (first, device) {
        (Some(first), Some(device)) if is_device(device) && content.starts_with(first) => {
            names.key.host(first) + content.get(first.len()..).unwrap_or("")
        }
        _ => names.free(content),
    }
}

/// `phys_switch_id`: a GUID or a MAC address in bare digits, or a name of the driver's own making.
fn identifier(key: &Key, content: &str) -> String {
    let digits = content.trim_end();
    let mapped = wire::from_hex(digits).and_then(|bytes| key.hardware(&bytes));
    match mapped {
        Some(bytes) => {
            let blank = content.get(digits.len()..).unwrap_or("");
            wire::to_hex(&bytes) + blank
        }
        None => key.serial(content),
    }
}

/// /proc/net/route: addresses as hexadecimal numbers in the machine's byte order, in columns 2 and 3, the mask in column 8.
/// A line of another form than that is dropped, unless it is the heading.
fn route(names: &Names, content: &str) -> String {
    let mut out = String::with_capacity(content.len());
    for line in content.split_inclusive('\n') {
        let mut columns: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let number = |at: usize| {
            let text = columns.get(at).filter(|text| text.trim().len() == 8)?;
            let number = u32::from_str_radix(text.trim(), 16).ok()?;
            Some(Ipv4Addr::from(number.swap_bytes()))
        };
        let addresses = (number(1), number(2), number(7));
        if let (Some(net), Some(gateway), Some(mask)) = addresses {
            let net = names.key.ipv4_net(net, u32::from(mask).count_ones());
            let written = |address| format!("{:08X}", u32::from(address).swap_bytes());
            columns[0] = names.name(&columns[0]);
            columns[1] = written(net);
            columns[2] = written(names.key.ipv4(gateway));
        } else if !line.starts_with("Iface") {
            continue;
        }
        out.push_str(&columns.join("\t"));
    }
    out
}

/// PCI configuration space: the capability "device serial number" (0x0003) holds an EUI-64, which NICs make of their MAC address.
pub(super) fn pci_config(key: &Key, bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut at = 0x100;
    // Each capability takes at least eight bytes, so a chain has at most 480; a loop ends here too.
    for _ in 0..480 {
        let Some(header) = out
            .get(at..at + 4)
            .and_then(|b| b.try_into().ok())
            .map(u32::from_le_bytes)
        else {
            break;
        };
        if header & 0xffff == 3
            && let Some(serial) = out.get_mut(at + 4..at + 12)
            && let Ok(bytes) = <[u8; 8]>::try_from(&*serial)
        {
            serial.copy_from_slice(&key.guid(u64::from_le_bytes(bytes)).to_le_bytes());
        }
        at = (header >> 20) as usize;
        if at < 0x100 {
            break;
        }
    }
    out
}
