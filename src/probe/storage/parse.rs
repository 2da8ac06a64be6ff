//! Mounts, and what BeeGFS, Lustre and fstab say of them.

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::fact::mount::MountTransport;
use crate::network::Network;

/// A mount of a file system that another machine serves.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mount {
    pub(super) point: Arc<str>,
    /// beegfs, lustre, nfs, cifs, gpfs, wekafs.
    pub(super) kind: &'static str,
    pub(super) source: String,
    pub(super) options: String,
}

impl Mount {
    /// The value of an option; the empty text for one without value.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        option(&self.options, name)
    }
}

fn option<'o>(options: &'o str, name: &str) -> Option<&'o str> {
    options
        .split(',')
        .find_map(|option| match option.split_once('=') {
            Some((found, value)) => (found == name).then_some(value),
            None => (option == name).then_some(""),
        })
}

fn kind(file_system: &str) -> Option<&'static str> {
    Some(match file_system {
        "beegfs" | "beegfs_nodev" => "beegfs",
        "lustre" => "lustre",
        "nfs" | "nfs4" => "nfs",
        "cifs" | "smb3" => "cifs",
        "gpfs" => "gpfs",
        "wekafs" => "wekafs",
        _ => return None,
    })
}

/// The mounts of /proc/self/mountinfo (proc_pid_mountinfo(5)) that another machine serves, each once, however often it is bound.
pub(super) fn mounts(text: &str) -> Result<Vec<Mount>, String> {
    let mut found: Vec<(&str, Mount)> = Vec::new();
    for line in text.lines() {
        let (left, right) = line
            .split_once(" - ")
            .ok_or_else(|| format!("a line without separator: {}", shortened(line)))?;
        let mut left = left.split(' ').skip(2);
        let (device, _root, point) = (left.next(), left.next(), left.next());
        let mut right = right.split(' ');
        let (file_system, source, options) = (right.next(), right.next(), right.next());
        let Some(kind) = file_system.and_then(kind) else {
            continue;
        };
        let (Some(device), Some(point), Some(source), Some(options)) =
            (device, point, source, options)
        else {
            return Err(format!("a line with too few fields: {}", shortened(line)));
        };
        if found.iter().any(|(known, _)| *known == device) {
            continue;
        }
        let mount = Mount {
            point: unescaped(point).into(),
            kind,
            source: unescaped(source),
            options: options.to_owned(),
        };
        found.push((device, mount));
    }
    Ok(found.into_iter().map(|(_, mount)| mount).collect())
}

fn shortened(line: &str) -> String {
    line.chars().take(40).collect()
}

/// White space and backslashes are written as octal numbers.
fn unescaped(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

/// The places for which fstab(5) asks for NFS over RDMA.
pub(super) fn fstab_rdma(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|l| !l.trim_start().starts_with('#'));
    lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (_source, point, kind, options) =
                (words.next()?, words.next()?, words.next()?, words.next()?);
            let rdma = option(options, "rdma").is_some()
                || option(options, "proto").is_some_and(|p| p.starts_with("rdma"));
            (matches!(kind, "nfs" | "nfs4") && rdma).then(|| unescaped(point))
        })
        .collect()
}

/// How NFS or SMB says that a mount's data travel.
pub(super) fn transport(mount: &Mount) -> Result<MountTransport, String> {
    if mount.kind == "cifs" {
        return Ok(match mount.option("rdma") {
            Some(_) => MountTransport::Rdma,
            None => MountTransport::Tcp,
        });
    }
    match mount.option("proto") {
        Some("rdma" | "rdma6") => Ok(MountTransport::Rdma),
        Some("tcp" | "tcp6") => Ok(MountTransport::Tcp),
        Some("udp" | "udp6") => Ok(MountTransport::Udp),
        Some(other) => Err(format!("proto={other}")),
        None => Err("the mount has no option proto".into()),
    }
}

/// Connections of a BeeGFS client: `Connections: TCP: 2 (ADDRESS [fallback route]); RDMA: 4 (ADDRESS);` below each server
/// (client_module/source/filesystem/ProcFsHelper.c).
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Connections {
    /// How many to each server that is reached over TCP, and its address if that is IPv4.
    pub(super) by_tcp: Vec<(u64, Option<Ipv4Addr>)>,
    pub(super) rdma: u64,
    pub(super) fallback_routes: u64,
}

impl Connections {
    pub(super) fn add(mut self, other: Self) -> Self {
        self.by_tcp.extend(other.by_tcp);
        self.rdma += other.rdma;
        self.fallback_routes += other.fallback_routes;
        self
    }

    pub(super) fn tcp(&self) -> u64 {
        self.by_tcp.iter().map(|(count, _)| count).sum()
    }

    /// Connections over TCP to addresses that are in none of these networks.
    pub(super) fn tcp_outside(&self, networks: &[Network]) -> u64 {
        let inside = |address: &Option<Ipv4Addr>| {
            address.is_some_and(|address| networks.iter().any(|net| net.has(address.into())))
        };
        let outside = self.by_tcp.iter().filter(|(_, address)| !inside(address));
        outside.map(|(count, _)| count).sum()
    }

    pub(super) fn transport(&self) -> MountTransport {
        transport_of(self.tcp(), self.rdma)
    }
}

/// How a mount's data travel that has this many connections.
pub(super) fn transport_of(tcp: u64, rdma: u64) -> MountTransport {
    match (tcp, rdma) {
        (0, 0) => MountTransport::None,
        (0, _) => MountTransport::Rdma,
        (_, 0) => MountTransport::Tcp,
        _ => MountTransport::Mixed,
    }
}

/// Reads BeeGFS's list of servers.
pub(super) fn connections(text: &str) -> Result<Connections, String> {
    let mut sum = Connections::default();
    for line in text.lines() {
        let Some(rest) = line.trim().strip_prefix("Connections:") else {
            continue;
        };
        let parts = rest.split(';').map(str::trim);
        for part in parts.filter(|part| !part.is_empty() && *part != "<none>") {
            let odd = || format!("connections {:?}", shortened(part));
            let (kind, rest) = part.split_once(':').ok_or_else(odd)?;
            let mut words = rest.split_whitespace();
            let count: u64 = words.next().and_then(|n| n.parse().ok()).ok_or_else(odd)?;
            let address = words.next().and_then(|word| {
                let word = word.trim_start_matches('(').trim_end_matches(')');
                word.split(':').next()?.parse().ok()
            });
            match kind.trim() {
                "RDMA" => sum.rdma = sum.rdma.saturating_add(count),
                _ => sum.by_tcp.push((count, address)),
            }
            sum.fallback_routes += u64::from(part.contains("[fallback route]"));
        }
    }
    Ok(sum)
}

/// A network of BeeGFS's filters, of IPv4, or an address.
pub(super) fn network(text: &str) -> Result<Network, String> {
    let network = match text.parse() {
        Ok(address) => Network::of(address, 32).filter(|net| !net.six),
        Err(_) => Network::read(text).ok().filter(|net| !net.six),
    };
    network.ok_or_else(|| format!("{:?} is not an IPv4 network", shortened(text)))
}

/// The entries of a list that BeeGFS's configuration names: one a line, comments after `#`.
pub(super) fn list(text: &str) -> Arc<[Arc<str>]> {
    let lines = text.lines().map(str::trim);
    let entries = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    entries.map(Arc::from).collect()
}

/// The networks of LNet's interfaces that carry RDMA, and whether each is up: `10.0.0.1@o2ib  up  0  1 …`, after a line of headings.
pub(super) fn rdma_interfaces(text: &str) -> Result<Vec<(Arc<str>, bool)>, String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(nid), Some(status)) = (words.next(), words.next()) else {
            continue;
        };
        if nid == "nid" || !nid.contains('@') {
            continue;
        }
        let up = match status {
            "up" => true,
            "down" => false,
            other => return Err(format!("an interface is {:?}", shortened(other))),
        };
        if is_rdma_net(nid) {
            found.push((Arc::from(nid), up));
        }
    }
    Ok(found)
}

fn is_rdma_net(nid: &str) -> bool {
    let net = nid.rsplit('@').next().unwrap_or("");
    net.starts_with("o2ib") || net.starts_with("kfi")
}

/// A value of BeeGFS's configuration, as its client has it in effect: `connUseRDMA = 1`.
pub(super) fn beegfs_value<'t>(text: &'t str, name: &str) -> Result<&'t str, String> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .find(|(found, _)| found.trim() == name)
        .map(|(_, value)| value.trim())
        .ok_or_else(|| format!("no {name}"))
}

/// Whether a NID, or a list of them, names an InfiniBand network: `10.0.0.1@o2ib1`.
pub(super) fn has_o2ib(text: &str) -> bool {
    text.contains("@o2ib")
}

/// The network of the NID at the end of a connection's name: `10.0.0.1@tcp`, also in brackets.
pub(super) fn is_tcp_nid(text: &str) -> Result<bool, String> {
    let net = text
        .trim()
        .rsplit('@')
        .next()
        .unwrap_or("")
        .trim_end_matches([']', '\'']);
    match net.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "tcp" => Ok(true),
        "o2ib" | "kfi" | "gni" | "lo" => Ok(false),
        _ => Err(format!("no network in {:?}", shortened(text))),
    }
}
