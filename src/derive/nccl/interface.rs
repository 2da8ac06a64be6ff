//! Which network interfaces NCCL uses (`ncclFindInterfaces` of `src/misc/socket.cc`).

use std::net::IpAddr;
use std::sync::Arc;

use super::list::List;
use crate::fact::nccl_version::Version;
use crate::fact::selection::InterfaceReach;
use crate::fact::{Facts, Gap, Id, Subject, interface, netdev};
use crate::network::Network;

/// Interfaces that NCCL uses at most.
const MOST: usize = 16;

/// An entry of getifaddrs(3) that has an IP address.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: Arc<str>,
    running: bool,
    pub(super) address: IpAddr,
    prefix: u8,
}

/// The entries, in getifaddrs' order: all of IPv4, then all of IPv6, by interface.
pub(super) fn entries(facts: &Facts, node: Id) -> Result<Vec<Entry>, Gap> {
    facts.members(Subject::Interface, node)?;
    let mut four = Vec::new();
    let mut six = Vec::new();
    for id in facts.below(node, Subject::Interface) {
        let addresses = facts.get(id, interface::ADDRESSES);
        let addresses = addresses.as_result().map_err(|gap| (*gap).clone())?;
        if addresses.is_empty() {
            continue;
        }
        let running = facts.get(id, interface::RUNNING);
        let running = *running.as_result().map_err(|gap| (*gap).clone())?;
        for text in addresses.iter() {
            let parsed = text
                .split_once('/')
                .and_then(|(address, prefix)| Some((address.parse().ok()?, prefix.parse().ok()?)));
            let Some((address, prefix)) = parsed else {
                return Err(Gap::missing("interface.addresses"));
            };
            let entry = Entry {
                name: facts.name(id).into(),
                running,
                address,
                prefix,
            };
            match address {
                IpAddr::V4(_) => four.push(entry),
                IpAddr::V6(_) => six.push(entry),
            }
        }
    }
    four.append(&mut six);
    Ok(four)
}

/// What the choice goes by.
#[derive(Clone, Debug, Default)]
pub(super) struct SocketVariables {
    /// `NCCL_SOCKET_IFNAME`
    pub(super) names: Option<Arc<str>>,
    /// `NCCL_SOCKET_FAMILY`
    pub(super) family: Option<Arc<str>>,
    /// `NCCL_COMM_ID`
    pub(super) comm_id: Option<Arc<str>>,
}

/// The interfaces that were chosen, and by which rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) names: Vec<Arc<str>>,
    pub(super) forced: bool,
    pub(super) why: String,
}

/// The interface of the bootstrap. With `NCCL_COMM_ID` only one in its subnet will do, whatever
/// else is set (`bootstrapNetInit`).
pub(super) fn bootstrap(
    entries: &[Entry],
    wish: &SocketVariables,
    version: Version,
) -> Result<Choice, Gap> {
    match wish.comm_id.as_deref().filter(|id| id.len() > 1) {
        Some(id) => Ok(Choice {
            names: same_subnet(entries, id)?,
            forced: true,
            why: format!("NCCL_COMM_ID is {id:?}, and the bootstrap stays in its subnet"),
        }),
        None => choose(entries, wish, version),
    }
}

/// What this version chooses for the exchange before RDMA connections and for the Socket transport.
pub(super) fn choose(
    entries: &[Entry],
    wish: &SocketVariables,
    version: Version,
) -> Result<Choice, Gap> {
    let find = |list: &str| find(entries, list, wish.family.as_deref(), version);
    let chosen = |names: Vec<Arc<str>>, why: String| Choice {
        names,
        forced: false,
        why,
    };
    // A text of one character counts as none.
    if let Some(list) = wish.names.as_deref().filter(|list| list.len() > 1) {
        return Ok(Choice {
            names: find(list),
            forced: true,
            why: format!("NCCL_SOCKET_IFNAME is {list:?}"),
        });
    }
    let ib = find("ib");
    if !ib.is_empty() {
        return Ok(chosen(
            ib,
            "its name begins with \"ib\"; those come first".into(),
        ));
    }
    if let Some(id) = wish.comm_id.as_deref().filter(|id| id.len() > 1) {
        let same = same_subnet(entries, id)?;
        if !same.is_empty() {
            return Ok(chosen(
                same,
                format!("it is in the subnet of NCCL_COMM_ID {id}"),
            ));
        }
    }
    let rest: &[&str] = if version.wants_running() {
        &["^docker,lo,virbr", "docker", "lo", "virbr"]
    } else {
        &["^docker,lo", "docker", "lo"]
    };
    for list in rest {
        let names = find(list);
        if !names.is_empty() {
            let why = match list.strip_prefix('^') {
                Some(others) => format!(
                    "it is the first whose name does not begin with {}",
                    others.replace(',', ", ")
                ),
                None => format!("there is none but those that begin with {list}"),
            };
            return Ok(chosen(names, why));
        }
    }
    Ok(chosen(Vec::new(), "no interface has an address".into()))
}

fn find(entries: &[Entry], list: &str, family: Option<&str>, version: Version) -> Vec<Arc<str>> {
    let list = List::parse(list, MOST);
    let mut names: Vec<Arc<str>> = Vec::new();
    for entry in entries {
        let fits_family = match (family, entry.address) {
            (Some("AF_INET"), address) => address.is_ipv4(),
            (Some("AF_INET6"), address) => address.is_ipv6(),
            _ => true,
        };
        let loopback = entry.address.is_ipv6() && entry.address.is_loopback();
        if !fits_family || loopback || (version.wants_running() && !entry.running) {
            continue;
        }
        if list.takes(&entry.name, None) && !names.contains(&entry.name) {
            names.push(Arc::clone(&entry.name));
            if names.len() == MOST {
                break;
            }
        }
    }
    names
}

/// The first interface in the subnet of a NCCL_COMM_ID that is an address.
fn same_subnet(entries: &[Entry], id: &str) -> Result<Vec<Arc<str>>, Gap> {
    let host = match id.strip_prefix('[') {
        Some(rest) => rest.split([']', '%']).next().unwrap_or(""),
        None => id.split(':').next().unwrap_or(""),
    };
    let Ok(wanted) = host.parse::<IpAddr>() else {
        return Err(Gap::missing(
            "the address of the host that NCCL_COMM_ID names",
        ));
    };
    let inside = |entry: &&Entry| {
        let net = Network::of(entry.address, entry.prefix);
        net.is_some_and(|net| net.has(wanted))
    };
    Ok(entries
        .iter()
        .find(inside)
        .map(|e| Arc::clone(&e.name))
        .into_iter()
        .collect())
}

/// Interfaces that container engines, hypervisors and tunnels make.
const VIRTUAL_NAMES: &str = "\
    docker br- veth virbr cni flannel cali lxcbr lxdbr incusbr podman tunl tailscale wg tun tap \
    zt kube- nodelocal vnet vmnet ip6tnl";
const VIRTUAL_KINDS: &str = "tun wireguard vxlan ipip sit ip6tnl gre ifb vti";

/// What an interface is good for between nodes. The veth of a container is its network; the host's
/// end of one is not.
pub(in crate::derive) fn reach(facts: &Facts, node: Id, name: Option<&str>) -> InterfaceReach {
    let Some(name) = name else {
        return InterfaceReach::None;
    };
    let id = facts.find(Subject::Interface, node, name);
    let is_loopback = id.and_then(|id| facts.known(id, interface::LOOPBACK)) == Some(true);
    let kind = id.and_then(|id| facts.known(id, interface::KIND));
    if is_loopback {
        InterfaceReach::Loopback
    } else if VIRTUAL_NAMES
        .split(' ')
        .any(|begin| name.starts_with(begin))
        || kind.is_some_and(|kind| VIRTUAL_KINDS.split(' ').any(|one| one == &*kind))
    {
        InterfaceReach::Virtual
    } else if id.is_some_and(|id| is_of_one_link(facts, node, id)) {
        InterfaceReach::LinkLocal
    } else {
        InterfaceReach::Network
    }
}

/// Whether an interface has addresses of its link alone, and no RDMA port: two nodes on one cable
/// may well use such addresses for RDMA.
fn is_of_one_link(facts: &Facts, node: Id, id: Id) -> bool {
    let addresses: Vec<Arc<str>> = facts.texts(id, interface::ADDRESSES).collect();
    let mut nets = addresses.iter().filter_map(|text| Network::read(text).ok());
    let has_port = facts
        .find(Subject::Netdev, node, facts.name(id))
        .is_some_and(|netdev| facts.texts(netdev, netdev::PORTS).next().is_some());
    !addresses.is_empty() && !has_port && nets.all(Network::is_link_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Version = Version(2, 27, 7);
    const NEW: Version = Version(2, 30, 7);

    /// `name address/prefix`, with `!` before what is not running, in getifaddrs' order.
    fn host(lines: &[&str]) -> Vec<Entry> {
        let entry = |line: &&str| {
            let (name, address) = line.split_once(' ').unwrap();
            let (address, prefix) = address.split_once('/').unwrap();
            Entry {
                name: name.trim_start_matches('!').into(),
                running: !name.starts_with('!'),
                address: address.parse().unwrap(),
                prefix: prefix.parse().unwrap(),
            }
        };
        lines.iter().map(entry).collect()
    }

    fn names(lines: &[&str], ifname: &str, version: Version) -> String {
        let wish = SocketVariables {
            names: Some(ifname.into()),
            ..SocketVariables::default()
        };
        choose(&host(lines), &wish, version)
            .unwrap()
            .names
            .join(" ")
    }

    const USUAL: &[&str] = &[
        "lo 127.0.0.1/8",
        "eth0 10.0.0.5/24",
        "!docker0 172.17.0.1/16",
        "ib0 10.1.0.5/24",
        "lo ::1/128",
        "eth0 fe80::1/64",
        "veth1 fe80::2/64",
    ];

    #[test]
    fn infiniband_first_then_all_but_docker_and_loopback() {
        assert_eq!(names(USUAL, "", OLD), "ib0");
        let without: Vec<&str> = USUAL
            .iter()
            .copied()
            .filter(|l| !l.contains("ib0"))
            .collect();
        assert_eq!(names(&without, "", OLD), "eth0 veth1");
        assert_eq!(names(&without[..1], "", OLD), "lo");
        assert_eq!(
            names(&["lo 127.0.0.1/8", "!docker0 172.17.0.1/16"], "", OLD),
            "docker0"
        );
        assert_eq!(
            names(&["lo 127.0.0.1/8", "!docker0 172.17.0.1/16"], "", NEW),
            "lo"
        );
        assert_eq!(
            names(&["virbr0 192.168.122.1/24", "eth0 10.0.0.5/24"], "", OLD),
            "virbr0 eth0"
        );
        assert_eq!(
            names(&["virbr0 192.168.122.1/24", "eth0 10.0.0.5/24"], "", NEW),
            "eth0"
        );
    }

    #[test]
    fn what_the_user_says_is_taken_literally() {
        assert_eq!(names(USUAL, "^docker", OLD), "lo eth0 ib0 veth1");
        assert_eq!(names(USUAL, "eth1", OLD), "");
        assert_eq!(names(USUAL, "=eth", OLD), "");
        assert_eq!(names(USUAL, "=eth0", OLD), "eth0");
        assert_eq!(
            names(USUAL, "e", OLD),
            "ib0",
            "one character counts as none"
        );
        assert_eq!(names(USUAL, "docker0", OLD), "docker0");
        assert_eq!(names(USUAL, "docker0", NEW), "", "not running");
        assert_eq!(names(USUAL, "eth0\r", OLD), "");
    }

    #[test]
    fn families_and_the_subnet_of_the_comm_id() {
        let mut wish = SocketVariables {
            family: Some("AF_INET6".into()),
            ..SocketVariables::default()
        };
        let chosen =
            |wish: &SocketVariables| choose(&host(USUAL), wish, OLD).unwrap().names.join(" ");
        assert_eq!(chosen(&wish), "eth0 veth1");
        wish.family = Some("ipv6".into());
        assert_eq!(chosen(&wish), "ib0");
        let lines = ["eth0 10.0.0.5/24", "eth1 10.2.0.5/24"];
        wish.comm_id = Some("10.2.0.9:1234".into());
        let chosen = choose(&host(&lines), &wish, OLD).unwrap();
        assert_eq!(chosen.names.join(" "), "eth1");
        wish.comm_id = Some("head:1234".into());
        assert!(choose(&host(&lines), &wish, OLD).is_err());
    }

    /// Observed with the libraries themselves: 2.18.3, 2.22.3, 2.27.5 on one side, 2.28.3, 2.30.3
    /// and 2.32.3 on the other, in network namespaces with these interfaces (`ncclGetUniqueId`, the
    /// line `Bootstrap: Using`). The row of 10.0.1.7 alone was not seen: it follows from the source
    /// (`ncclFindInterfaceMatchSubnet`).
    #[test]
    fn as_the_libraries_were_seen_to_choose() {
        let all = &[
            "lo 127.0.0.1/8",
            "eth0 10.0.0.5/24",
            "eth0:1 10.0.1.9/24",
            "ib0 10.1.0.5/24",
            "docker0 172.17.0.1/16",
            "virbr0 192.168.122.1/24",
            "lo ::1/128",
            "eth0 fe80::1/64",
            "ib0 fe80::2/64",
        ][..];
        let without = |names: &[&str]| -> Vec<&'static str> {
            let of = |line: &&'static str| {
                let name = line.split(' ').next().unwrap_or("").trim_start_matches('!');
                !names
                    .iter()
                    .any(|n| name == *n || name.split(':').next() == Some(n))
            };
            all.iter().copied().filter(of).collect()
        };
        let no_carrier: Vec<&str> = vec![
            "lo 127.0.0.1/8",
            "!eth0 10.0.0.5/24",
            "docker0 172.17.0.1/16",
        ];
        let docker_down = vec!["lo 127.0.0.1/8", "!docker0 172.17.0.1/16"];
        let only = without(&["ib0", "eth0", "virbr0"]);
        let name = |name: &str| SocketVariables {
            names: Some(name.into()),
            ..SocketVariables::default()
        };
        let family = |family: &str| SocketVariables {
            family: Some(family.into()),
            ..SocketVariables::default()
        };
        let comm_id = |id: &str| SocketVariables {
            comm_id: Some(id.into()),
            ..SocketVariables::default()
        };
        for (lines, wish, old, new) in [
            (all.to_vec(), SocketVariables::default(), "ib0", "ib0"),
            (all.to_vec(), name("^docker"), "lo", "lo"),
            (all.to_vec(), name("^ib,lo"), "eth0", "eth0"),
            (all.to_vec(), name("e"), "ib0", "ib0"),
            (all.to_vec(), name("=eth0"), "eth0", "eth0"),
            (all.to_vec(), name("virbr0"), "virbr0", "virbr0"),
            (all.to_vec(), name(" eth0"), "none", "none"),
            (all.to_vec(), family("AF_INET6"), "ib0", "ib0"),
            (all.to_vec(), family("ipv6"), "ib0", "ib0"),
            (all.to_vec(), comm_id("10.0.1.7:1234"), "eth0:1", "eth0:1"),
            (all.to_vec(), comm_id("172.99.0.7:1234"), "none", "none"),
            (
                without(&["ib0"]),
                SocketVariables::default(),
                "eth0",
                "eth0",
            ),
            (no_carrier, SocketVariables::default(), "eth0", "docker0"),
            (
                only.clone(),
                SocketVariables::default(),
                "docker0",
                "docker0",
            ),
            (docker_down, SocketVariables::default(), "docker0", "lo"),
            (only[..1].to_vec(), SocketVariables::default(), "lo", "lo"),
        ] {
            for (version, expected) in [(OLD, old), (NEW, new)] {
                let choice = bootstrap(&host(&lines), &wish, version).unwrap();
                let first = choice.names.first().map_or("none", |name| name);
                assert_eq!(first, expected, "{wish:?} {version}");
            }
        }
    }
}
