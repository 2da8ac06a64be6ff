//! The facts of a host, and of the adapters that NCCL lists there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::carrier::{carrier, in_use, ofi_provider};
use super::channels::{ChannelSums, share};
use super::line::Line;
use super::listed::{interface, listed_alone, using_ib, using_old, using_socket};
use super::{DRIVER, Distinct, GRAPH, INFO, NET, RunView, fact_of, not_logged};
use crate::fact::hca;
use crate::fact::host::{self as fact, PathType};
use crate::fact::run::Carrier;
use crate::fact::{BitRate, Fact, Facts, Id, Key, Origin, Subject};
use crate::nccl_log::channel::{ChannelLine, read};

/// The network that a line says was chosen.
pub(super) fn network(message: &str) -> Option<&str> {
    let starts = [
        "Using network ",
        "Using internal Network ",
        "Using external Network ",
    ];
    let network = starts
        .iter()
        .find_map(|start| message.strip_prefix(start))?
        // A quote of who exported it, or what an editor could not read.
        .trim_matches(|c: char| !c.is_ascii_alphanumeric());
    (!network.is_empty()).then_some(network)
}

/// The networks that lines of a run say were chosen, without what only a torn line says: `I` where others say `IB`, or `IBstep 12`.
pub(super) fn networks_named<'d>(view: &RunView<'_, 'd>) -> BTreeSet<&'d str> {
    let said: BTreeSet<&str> = view
        .lines()
        .filter_map(|(line, _)| network(line.message))
        .collect();
    // The beginnings of names that nobody else in this run says whole.
    const NAMES: [&str; 8] = [
        "Socket",
        "IBext",
        "AWS Libfabric",
        "FastSocket",
        "GPUDirectTCPX",
        "FasTrak",
        "Spectrum-X",
        "gIB",
    ];
    let is_torn = |name: &str| {
        let whole = |other: &&str| {
            *other != name
                && carrier(other, None).is_some()
                && (other.starts_with(name) || name.starts_with(*other))
        };
        carrier(name, None).is_none()
            && (said.iter().any(whole) || NAMES.iter().any(|whole| whole.starts_with(name)))
    };
    said.iter().copied().filter(|name| !is_torn(name)).collect()
}

/// The network that is left where no line of the run says which was chosen: before 2.6 NCCL does not say it, and an excerpt may lack it.
pub(super) fn left_over<'l, 'd: 'l>(
    lines: impl Iterator<Item = &'l Line<'d>>,
) -> Option<(&'d str, Origin)> {
    let (mut assigned, mut used, mut plugin) = (None, None, None);
    let (mut adapters, mut none, mut sockets) = (None, None, None);
    for line in lines {
        let message = line.message;
        let at = || line.origin().clone();
        if let Some(rest) = message.strip_prefix("Assigned NET plugin ") {
            let name = rest.split(" to comm").next().unwrap_or(rest).trim();
            assigned = Some((name, at()));
        } else if let Some(name) = in_use(message) {
            used.get_or_insert((name, at()));
        } else if let Some(name) = message.strip_prefix("P2P plugin ") {
            plugin.get_or_insert(name.trim());
        } else if let Some(name) = message.strip_prefix("NET/Plugin: Loaded net plugin ") {
            plugin.get_or_insert(name.split(' ').next().unwrap_or(name));
        } else if let Some(listed) = using_ib(message) {
            match listed.is_empty() {
                true => none.get_or_insert(at()),
                false => adapters.get_or_insert(at()),
            };
        } else if message.starts_with("NCCL_IB_DISABLE set by environment to ") {
            if !message.trim_end_matches('.').ends_with(" 0") {
                none.get_or_insert(at());
            }
        } else if message.starts_with("NET/IB : No device found")
            || message.contains("Failed to open libibverbs")
        {
            none.get_or_insert(at());
        } else if using_socket(message).is_some_and(|names| !names.is_empty()) {
            sockets.get_or_insert(at());
        }
    }
    let listed = adapters.and_then(|origin| match plugin {
        None => Some(("IB", origin)),
        Some(name) if name.starts_with("IBext") => Some((name, origin)),
        // Whether it found its devices nobody knows.
        Some(_) => None,
    });
    let only_sockets = || none.filter(|_| plugin.is_none() && sockets.is_some());
    assigned
        .or(used)
        .or(listed)
        .or_else(|| only_sockets().map(|origin| ("Socket", origin)))
}

fn first<'l, 'd: 'l, T>(
    lines: &[&'l Line<'d>],
    read: impl Fn(&'d str) -> Option<T>,
) -> Option<(T, Origin)> {
    lines
        .iter()
        .find_map(|line| Some((read(line.message)?, line.origin().clone())))
}

/// Of all values the least, with its origin.
fn least<'l, 'd: 'l>(
    lines: &[&'l Line<'d>],
    read: impl Fn(&'d str) -> Option<u64>,
) -> Option<(u64, Origin)> {
    let values = lines
        .iter()
        .filter_map(|line| Some((read(line.message)?, line.origin())));
    values
        .min_by_key(|(value, _)| *value)
        .map(|(value, origin)| (value, origin.clone()))
}

/// What the fullest list names: of a torn line less is left, and a plugin and the internal transport both list what they find. Until 2.3 each
/// has a line of its own.
fn fullest<'l, 'd: 'l, T>(
    lines: &[&'l Line<'d>],
    listed: impl Fn(&'d str) -> Option<Vec<T>>,
    alone: impl Fn(&'d str) -> Option<T>,
) -> Option<(Vec<T>, Origin)> {
    let lists = lines
        .iter()
        .filter_map(|line| Some((listed(line.message)?, line.origin())));
    let fullest = lists.max_by_key(|(listed, _)| listed.len());
    let alone = || {
        let old = lines
            .iter()
            .filter_map(|line| Some((alone(line.message)?, line.origin())));
        let (listed, origins): (Vec<T>, Vec<_>) = old.unzip();
        Some((listed, *origins.first()?))
    };
    let fullest = fullest.or_else(alone);
    fullest.map(|(listed, origin)| (listed, origin.clone()))
}

/// Each of these once.
fn distinct<'d>(texts: impl IntoIterator<Item = &'d str>) -> Arc<[Arc<str>]> {
    let mut seen = BTreeSet::new();
    let new = texts.into_iter().filter(|text| seen.insert(*text));
    new.map(Arc::from).collect()
}

pub(super) fn state(view: &RunView<'_, '_>, facts: &mut Facts) {
    let by_host = view.by_host();
    let named = networks_named(view);
    for (host, id) in &view.hosts {
        let none = Vec::new();
        let lines = by_host.get(host).unwrap_or(&none);
        networks(view, facts, *id, lines, &named);
        one(view, facts, host, *id, lines);
    }
}

fn one(view: &RunView<'_, '_>, facts: &mut Facts, host: &str, id: Id, lines: &[&Line<'_>]) {
    let processes = view.total(view.processes_of(host), "the processes that wrote lines");
    facts.set(id, fact::PROCESSES, processes);
    adapters(view, facts, id, lines);
    let bootstrap = first(lines, |m| {
        let rest = ["Bootstrap : Using ", "Bootstrap: Using "]
            .iter()
            .find_map(|start| m.strip_prefix(start));
        rest.map_or_else(|| using_old(m), interface)
    });
    let split = bootstrap.map(|((name, address), origin)| {
        (
            (Arc::from(name), origin.clone()),
            (Arc::from(address), origin),
        )
    });
    let (name, address) = split.unzip();
    facts.set(id, fact::BOOTSTRAP_INTERFACE, fact_of(name, INFO));
    facts.set(id, fact::BOOTSTRAP_ADDRESS, fact_of(address, INFO));
    let sockets = fullest(lines, using_socket, |m| Some(using_old(m)?.0));
    let sockets = sockets.map(|(names, origin)| (distinct(names), origin));
    facts.set(id, fact::SOCKET_INTERFACES, fact_of(sockets, INFO));
    let driver = first(lines, |m| {
        let rest = m.strip_prefix("cudaDriverVersion ")?;
        rest.split(' ').next()?.parse().ok()
    });
    facts.set(id, fact::DRIVER, fact_of(driver, DRIVER));
    let mut versions = Distinct::default();
    for line in lines {
        if let Some((version, ..)) = super::runs::version(line.message) {
            versions.add(version, line.kept.count, line.origin());
        }
    }
    facts.set(id, fact::VERSION, versions.most(INFO));
    traffic(view, facts, host, id);
    graph(facts, id, lines);
    let affinity = least(lines, affinity);
    facts.set(id, fact::AFFINITY_CPUS, fact_of(affinity, INFO));
    let unread: u64 = lines
        .iter()
        .filter(|line| {
            line.message.contains("Topology detection") && line.message.contains("could not read")
        })
        .map(|line| line.kept.count)
        .sum();
    if unread > 0 || view.has_sort(crate::nccl_log::message::MessageGroup::Graph) {
        let unread = view.total(unread, "lines that say so");
        facts.set(id, fact::TOPOLOGY_UNREAD, unread);
    }
}

fn networks(
    view: &RunView<'_, '_>,
    facts: &mut Facts,
    id: Id,
    lines: &[&Line<'_>],
    named: &BTreeSet<&str>,
) {
    let provider = first(lines, |m| ofi_provider(m).map(Arc::<str>::from));
    let mut chosen = Distinct::default();
    let mut missing = Distinct::default();
    for line in lines {
        let message = line.message;
        if let Some(network) = network(message).filter(|name| named.contains(name)) {
            chosen.add(network, line.kept.count, line.origin());
        }
        if message.contains("Plugin")
            && (message.contains("No plugin found") || message.contains("Could not find"))
        {
            let words = message.split([' ', ':', '(', ')', ',']);
            let mut files = words.filter(|word| word.contains(".so")).peekable();
            if files.peek().is_none() {
                missing.add("libnccl-net.so", 1, line.origin());
            }
            for file in files {
                missing.add(file.trim_end_matches('.'), 1, line.origin());
            }
        }
    }
    if named.is_empty()
        && let Some((network, origin)) = left_over(lines.iter().copied())
    {
        chosen.add(network, 1, &origin);
    }
    let most = chosen.most(INFO);
    let said_by = provider.as_ref().map(|(provider, _)| &**provider);
    let carrier_of = |name: &str| carrier(name, said_by).unwrap_or(Carrier::Plugin);
    let kind = most.clone().map(|name| {
        let kind = carrier_of(&name);
        let same = chosen.texts.iter().all(|other| carrier_of(other) == kind);
        if same { kind } else { Carrier::Mixed }
    });
    facts.set(id, fact::CARRIER, kind);
    facts.set(id, fact::NETWORK, most);
    facts.set(id, fact::NETWORKS, view.whole(chosen.all(INFO)));
    facts.set(id, fact::PLUGINS_MISSING, view.whole(missing.all(INFO)));
    facts.set(id, fact::OFI_PROVIDER, fact_of(provider, INFO));
}

/// What `Dev 0 Port 1 qpn 74 mtu 5 GID 3 (80FE/8D01A8C0FFFF0000)` says of a connection: the MTU in bytes; for RoCE the index of the
/// local GID, and whether it is link-local. NCCL prints the halves of the GID in the order of the wire, read by a little-endian CPU.
pub(super) fn connection(message: &str) -> Option<(u64, Option<(u64, bool)>)> {
    let (_, rest) = message.strip_prefix("NET/IB: ")?.split_once(" mtu ")?;
    let (mtu, rest) = rest.split_once(' ')?;
    // The number of enum ibv_mtu: 1 is 256.
    let mtu = mtu
        .parse::<u32>()
        .ok()
        .filter(|mtu| (1..=5).contains(mtu))?;
    let gid = match rest.split_once("GID ") {
        Some((_, gid)) => {
            let (index, gid) = gid.split_once(" (")?;
            let (subnet, _) = gid.split_once('/')?;
            Some((index.parse().ok()?, subnet == "80FE"))
        }
        None if rest.starts_with("LID ") => None,
        None => return None,
    };
    Some((128 << mtu, gid))
}

fn connections(facts: &mut Facts, id: Id, lines: &[&Line<'_>]) {
    let made: Vec<_> = lines
        .iter()
        .filter_map(|line| Some((connection(line.message)?, line.origin())))
        .collect();
    let least = made.iter().min_by_key(|((mtu, _), _)| *mtu);
    let least = least.map(|((mtu, _), origin)| (*mtu, (*origin).clone()));
    facts.set(id, fact::QUEUE_MTU, fact_of(least, NET));
    let gids: Vec<_> = made
        .iter()
        .filter_map(|((_, gid), origin)| Some(((*gid)?, *origin)))
        .collect();
    let index = gids
        .first()
        .map(|((index, _), origin)| (*index, (*origin).clone()));
    let same = gids
        .iter()
        .all(|((other, _), _)| index.as_ref().is_none_or(|(index, _)| other == index));
    if same {
        facts.set(id, fact::QUEUE_GID_INDEX, fact_of(index, NET));
    }
    let local = gids.iter().find(|((_, local), _)| *local).or(gids.first());
    let local = local.map(|((_, local), origin)| (*local, (*origin).clone()));
    facts.set(id, fact::QUEUE_LINK_LOCAL, fact_of(local, NET));
}

fn adapters(view: &RunView<'_, '_>, facts: &mut Facts, id: Id, lines: &[&Line<'_>]) {
    connections(facts, id, lines);
    let none = first(lines, |m| {
        m.starts_with("NET/IB : No device found").then_some(())
    });
    let fullest = fullest(lines, using_ib, listed_alone);
    let (listed, origin) = match (&fullest, &none) {
        (Some((listed, origin)), _) => (listed.as_slice(), origin.clone()),
        (None, Some(((), origin))) => (&[][..], origin.clone()),
        (None, None) => {
            let open = [
                fact::HCAS.index,
                fact::LINK_LAYERS.index,
                fact::IB_PORTS.index,
            ];
            facts.leave_open(id, &open, &not_logged(INFO));
            return;
        }
    };
    let origin = match listed.is_empty() {
        true => none.as_ref().map_or(origin, |((), origin)| origin.clone()),
        false => origin,
    };
    facts.know(id, fact::IB_PORTS, listed.len() as u64, &origin);
    let devices = distinct(listed.iter().map(|port| port.device));
    facts.know(id, fact::HCAS, devices, &origin);
    let layers = distinct(listed.iter().filter_map(|port| port.link_layer));
    facts.know(id, fact::LINK_LAYERS, layers, &origin);
    let mut direct = Distinct::default();
    let mut any = None;
    for line in lines {
        // The socket transport says of its interfaces that they have none.
        let rdma =
            in_use(line.message).is_some_and(|name| carrier(name, None) != Some(Carrier::Socket));
        if rdma && line.message.contains(" for HCA ") {
            any.get_or_insert(line.origin());
            if line.message.contains("RDMA Enabled") {
                let device = line.message.split('\'').nth(1).unwrap_or("?");
                direct.add(device, 1, line.origin());
            }
        }
    }
    let direct = any.map(|origin| (direct.texts.len() as u64, origin.clone()));
    facts.set(id, fact::GDR_HCAS, fact_of(direct, NET));
    let mut channels: BTreeMap<u64, u64> = BTreeMap::new();
    for line in lines {
        if let ChannelLine::Channel(channel) = read(line.message.as_bytes())
            && channel.transport == crate::nccl_log::channel::Transport::Net
        {
            *channels.entry(channel.adapter).or_default() += line.kept.count;
        }
    }
    for port in listed {
        let name = match port.port {
            Some(number) => format!("{}:{number}", port.device),
            None => port.device.to_owned(),
        };
        let hca = facts.instance(Subject::Hca, id, &name);
        facts.know(hca, hca::DEVICE, port.device.into(), &origin);
        // What was not used is known only where channels are told at all.
        let used = match channels.is_empty() {
            true => Fact::Unknown(not_logged(INFO)),
            false => {
                let used = channels.get(&port.index).copied().unwrap_or(0);
                view.total(used, "lines of channels that name it")
            }
        };
        facts.set(hca, hca::CHANNELS, used);
    }
}

fn traffic(view: &RunView<'_, '_>, facts: &mut Facts, host: &str, id: Id) {
    let sums = view.sums.get(host).cloned().unwrap_or_default();
    let ChannelSums { inter, intra, .. } = sums;
    let how = "lines of connected channels";
    let count = |value: u64| match inter + intra {
        0 => Fact::Unknown(not_logged(INFO)),
        _ => view.total(value, how),
    };
    let pairs: [(Key<u64>, u64); 8] = [
        (fact::INTER, inter),
        (fact::INTER_RDMA, sums.rdma),
        (fact::INTER_SOCKET, sums.socket),
        (fact::RECEIVES, sums.receives),
        (fact::INTRA, intra),
        (fact::INTRA_P2P, sums.p2p),
        (fact::INTRA_SHM, sums.shm),
        (fact::INTRA_NET, sums.intra_net),
    ];
    for (key, value) in pairs {
        facts.set(id, key, count(value));
    }
    for (key, part, whole) in [
        (fact::GDR_SEND, sums.gdr_sends, sums.sends),
        (fact::GDR_RECEIVE, sums.gdr_receives, sums.receives),
    ] {
        let share = match (share(part, whole), &sums.first_inter) {
            (Some(share), Some(origin)) => view.whole(Fact::Known(share, origin.clone())),
            (Some(share), None) => view.total(share, how),
            (None, _) => Fact::Unknown(not_logged(INFO)),
        };
        facts.set(id, key, share);
    }
}

/// How many CPUs a mask such as `ff,ffffffff` has.
pub(super) fn affinity(message: &str) -> Option<u64> {
    let rest = message.strip_prefix("Setting affinity for GPU ")?;
    let (_, mask) = rest.split_once(" to ")?;
    let mask = mask.trim();
    let hex = |b: u8| b.is_ascii_hexdigit() || b == b',';
    // Later versions write a list: `0-47,96-143`.
    if mask.contains('-') {
        let spans = mask.split(',').map(|span| {
            let (first, last) = span.split_once('-').unwrap_or((span, span));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            Some(last.checked_sub(first)? + 1)
        });
        return spans.sum();
    }
    let digits = mask.bytes().all(hex) && !mask.is_empty();
    digits.then(|| {
        mask.chars()
            .filter_map(|c| c.to_digit(16))
            .map(|d| u64::from(d.count_ones()))
            .sum()
    })
}

/// `Pattern 4, crossNic 0, nChannels 16, bw 24.000000/24.000000, type NVL/PXB, sameChannels 1`; pattern 4 is the ring's: the farthest path from a GPU
/// to its adapter.
fn pattern(message: &str) -> Option<PathType> {
    let mut parts = message.strip_prefix("Pattern 4, ")?.split(", ");
    let (_, far) = parts
        .find_map(|part| part.trim().strip_prefix("type "))?
        .split_once('/')?;
    PathType::from_word(far)
}

fn graph(facts: &mut Facts, id: Id, lines: &[&Line<'_>]) {
    let path = fact_of(first(lines, pattern), GRAPH);
    facts.set(id, fact::GRAPH_PATH_INTER, path);
    let links = lines.iter().filter_map(|line| {
        let (_, rest) = line
            .message
            .trim_start()
            .strip_prefix("+ ")?
            .split_once("PCI[")?;
        // In GB/s.
        let speed: f64 = rest.split(']').next()?.parse().ok()?;
        Some((BitRate((speed * 8e9).round() as u64), line.origin().clone()))
    });
    let lowest = links.min_by_key(|(rate, _)| *rate);
    facts.set(id, fact::PCI_LOWEST, fact_of(lowest, GRAPH));
}
