//! The facts of a host, and of the adapters that NCCL lists there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::carrier::{carrier, in_use, ofi_provider};
use super::channels::{ChannelSums, share};
use super::line::Line;
use super::listed::{
    Listed, described, interface, listed_alone, using_ib, using_old, using_socket,
};
use super::{DRIVER, Distinct, GRAPH, INFO, NET, RunView, TIMES, not_logged};
use crate::fact::hca;
use crate::fact::host::{self as fact, PathType};
use crate::fact::run::Carrier;
use crate::fact::{BitRate, Fact, Facts, Id, Key, Origin, Seconds, Subject, Typed};
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
        } else if let Some((listed, ..)) = using_ib(message) {
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

fn fact_of<T: Typed>(found: Option<(T, Origin)>, setting: &'static str) -> Fact<T> {
    match found {
        Some((value, origin)) => Fact::Known(value, origin),
        None => Fact::Unknown(not_logged(setting)),
    }
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
    facts.set(
        id,
        fact::PROCESSES,
        view.total(view.processes_of(host), "the processes that wrote lines"),
    );
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
    // Of a torn line less is left.
    let lists = lines
        .iter()
        .filter_map(|line| Some((using_socket(line.message)?, line.origin())));
    let sockets = lists.max_by_key(|(names, _)| names.len());
    // Until 2.3 each has a line of its own.
    let alone = || {
        let old = lines
            .iter()
            .filter_map(|line| Some((using_old(line.message)?.0, line.origin())));
        let (names, origins): (BTreeSet<&str>, Vec<_>) = old.unzip();
        Some((names.into_iter().collect(), *origins.first()?))
    };
    let sockets = sockets.or_else(alone).map(|(names, origin)| {
        let names: Arc<[Arc<str>]> = names.into_iter().map(Arc::from).collect();
        (names, origin.clone())
    });
    facts.set(id, fact::SOCKET_INTERFACES, fact_of(sockets, INFO));
    let number = |start: &'static str| {
        move |m: &str| {
            m.strip_prefix(start)?
                .split(' ')
                .next()?
                .parse::<u64>()
                .ok()
        }
    };
    facts.set(
        id,
        fact::DRIVER,
        fact_of(first(lines, number("cudaDriverVersion ")), DRIVER),
    );
    let mut versions = Distinct::default();
    for line in lines {
        if let Some((version, ..)) = super::runs::version(line.message) {
            versions.add(version, line.kept.count, line.origin());
        }
    }
    facts.set(id, fact::VERSION, versions.most(INFO));
    let dmabuf = first(lines, |m| {
        m.starts_with("DMA-BUF is available").then_some(true)
    });
    facts.set(id, fact::DMABUF, fact_of(dmabuf, INFO));
    let nvls = first(lines, |m| {
        m.strip_prefix("NVLS multicast support is ")
            .map(|rest| rest.starts_with("available"))
    });
    facts.set(id, fact::NVLS, fact_of(nvls, INFO));
    channel_counts(view, facts, id, lines);
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
        facts.set(
            id,
            fact::TOPOLOGY_UNREAD,
            view.total(unread, "lines that say so"),
        );
    }
    let file = first(lines, |m| {
        m.strip_prefix("Loading topology file ")
            .map(|file| Arc::from(file.trim()))
    });
    facts.set(id, fact::TOPOLOGY_FILE, fact_of(file, GRAPH));
    let mut longest: [Option<(Seconds, Origin)>; 2] = [None, None];
    for line in lines {
        for (slot, time) in longest
            .iter_mut()
            .zip(super::runs::init_times(line.message))
        {
            if let Some(time) = time
                && slot.as_ref().is_none_or(|(most, _)| time > most.0)
            {
                *slot = Some((Seconds(time), line.origin().clone()));
            }
        }
    }
    let [total, bootstrap] = longest;
    facts.set(id, fact::INIT_TIME, fact_of(total, TIMES));
    facts.set(id, fact::BOOTSTRAP_TIME, fact_of(bootstrap, TIMES));
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
    let mut tried = Distinct::default();
    let mut missing = Distinct::default();
    let mut plugin = None;
    for line in lines {
        let message = line.message;
        if let Some(network) = network(message).filter(|name| named.contains(name)) {
            chosen.add(network, line.kept.count, line.origin());
        }
        let starts = [
            "P2P plugin ",
            "Initialized NET plugin ",
            "Assigned NET plugin ",
            "Failed to initialize NET plugin ",
            "NET/Plugin: Loaded net plugin ",
        ];
        if let Some(rest) = starts.iter().find_map(|start| message.strip_prefix(start)) {
            let name = rest
                .split(" (")
                .next()
                .and_then(|name| name.split(" to comm").next())
                .unwrap_or(rest)
                .trim();
            tried.add(name, 1, line.origin());
            if message.starts_with("NET/Plugin: Loaded net") || message.starts_with("P2P plugin") {
                plugin.get_or_insert((Arc::<str>::from(name), line.origin().clone()));
            }
        }
        if message.contains("Plugin")
            && (message.contains("No plugin found") || message.contains("Could not find"))
        {
            let mut any = false;
            for file in message
                .split([' ', ':', '(', ')', ','])
                .filter(|word| word.contains(".so"))
            {
                missing.add(file.trim_end_matches('.'), 1, line.origin());
                any = true;
            }
            if !any {
                missing.add("libnccl-net.so", 1, line.origin());
            }
        }
    }
    if named.is_empty()
        && let Some((network, origin)) = left_over(lines.iter().copied())
    {
        chosen.add(network, 1, &origin);
    }
    let most = chosen.most(INFO);
    let kind = match &most {
        Fact::Known(name, origin) => {
            let provider = provider.as_ref().map(|(provider, _)| &**provider);
            let kinds: Vec<_> = chosen
                .texts
                .iter()
                .map(|name| carrier(name, provider).unwrap_or(Carrier::Plugin))
                .collect();
            let first = carrier(name, provider).unwrap_or(Carrier::Plugin);
            let one = kinds.iter().all(|kind| *kind == first);
            Fact::Known(if one { first } else { Carrier::Mixed }, origin.clone())
        }
        Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
    };
    facts.set(id, fact::CARRIER, kind);
    facts.set(id, fact::NETWORK, most);
    facts.set(id, fact::NETWORKS, view.whole(chosen.all(INFO)));
    facts.set(id, fact::TRIED, view.whole(tried.all(INFO)));
    facts.set(id, fact::PLUGINS_MISSING, view.whole(missing.all(INFO)));
    facts.set(id, fact::PLUGIN, fact_of(plugin, INFO));
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
    // A plugin and the internal transport both list what they find; the fuller list is the one that is used.
    let lists = lines
        .iter()
        .filter_map(|line| Some((using_ib(line.message)?, line.origin())));
    let fullest = lists.max_by_key(|((listed, ..), _)| listed.len());
    // Until 2.3 each port has a line of its own.
    let alone = || {
        let old = lines
            .iter()
            .filter_map(|line| Some((listed_alone(line.message)?, line.origin())));
        let (listed, origins): (Vec<Listed<'_>>, Vec<_>) = old.unzip();
        Some(((listed, false, None), *origins.first()?))
    };
    let fullest = fullest.or_else(alone);
    let (listed, relaxed, oob, origin) = match (&fullest, &none) {
        (Some(((listed, relaxed, oob), origin)), _) => {
            (listed.as_slice(), Some(*relaxed), *oob, (*origin).clone())
        }
        (None, Some(((), origin))) => (&[][..], None, None, origin.clone()),
        (None, None) => {
            for key in [fact::HCAS, fact::LINK_LAYERS] {
                facts.set(id, key, Fact::Unknown(not_logged(INFO)));
            }
            facts.set(id, fact::IB_PORTS, Fact::Unknown(not_logged(INFO)));
            return;
        }
    };
    let origin = match listed.is_empty() {
        true => none.as_ref().map_or(origin, |((), origin)| origin.clone()),
        false => origin,
    };
    let texts = |texts: Vec<&str>| {
        let mut distinct: Vec<Arc<str>> = Vec::new();
        for text in texts {
            if !distinct.iter().any(|t| &**t == text) {
                distinct.push(text.into());
            }
        }
        Fact::Known(distinct.into(), origin.clone())
    };
    facts.set(
        id,
        fact::IB_PORTS,
        Fact::Known(listed.len() as u64, origin.clone()),
    );
    facts.set(
        id,
        fact::HCAS,
        texts(listed.iter().map(|port| port.device).collect()),
    );
    facts.set(
        id,
        fact::LINK_LAYERS,
        texts(listed.iter().filter_map(|port| port.link_layer).collect()),
    );
    if let (Some(relaxed), false) = (relaxed, listed.is_empty()) {
        facts.set(
            id,
            fact::RELAXED_ORDERING,
            Fact::Known(relaxed, origin.clone()),
        );
    }
    if let Some((name, _)) = oob {
        facts.set(
            id,
            fact::OOB_INTERFACE,
            Fact::Known(name.into(), origin.clone()),
        );
    }
    let (mut with, mut without) = (Distinct::default(), Distinct::default());
    for line in lines {
        // The socket transport says of its interfaces that they have none.
        let rdma =
            in_use(line.message).is_some_and(|name| carrier(name, None) != Some(Carrier::Socket));
        if rdma && line.message.contains(" for HCA ") {
            let device = line.message.split('\'').nth(1).unwrap_or("?");
            let list = if line.message.contains("RDMA Enabled") {
                &mut with
            } else {
                &mut without
            };
            list.add(device, 1, line.origin());
        }
    }
    match (&with.origin, &without.origin) {
        (None, None) => {
            facts.set(id, fact::GDR_HCAS, Fact::Unknown(not_logged(NET)));
            facts.set(id, fact::NO_GDR_HCAS, Fact::Unknown(not_logged(NET)));
        }
        (first, second) => {
            let origin = second
                .clone()
                .or(first.clone())
                .unwrap_or_else(|| Origin::derived("the log"));
            facts.set(
                id,
                fact::GDR_HCAS,
                Fact::Known(with.texts.len() as u64, origin.clone()),
            );
            facts.set(
                id,
                fact::NO_GDR_HCAS,
                Fact::Known(without.texts.len() as u64, origin),
            );
        }
    }
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
        facts.set(
            hca,
            hca::DEVICE,
            Fact::Known(port.device.into(), origin.clone()),
        );
        facts.set(hca, hca::INDEX, Fact::Known(port.index, origin.clone()));
        facts.set(
            hca,
            hca::MERGED,
            Fact::Known(port.merged || port.device.contains("bond"), origin.clone()),
        );
        if let Some(number) = port.port {
            facts.set(hca, hca::PORT, Fact::Known(number, origin.clone()));
        }
        if let Some(layer) = port.link_layer {
            facts.set(
                hca,
                hca::LINK_LAYER,
                Fact::Known(layer.into(), origin.clone()),
            );
        }
        let told = lines.iter().find_map(|line| {
            Some((described(line.message)?, line.origin())).filter(
                |((_, device, number, ..), _)| {
                    *device == port.device && port.port.is_none_or(|p| p == *number)
                },
            )
        });
        match told {
            Some(((_, _, _, speed, provider, routing), origin)) => {
                facts.set(hca, hca::SPEED, Fact::Known(speed, origin.clone()));
                facts.set(
                    hca,
                    hca::PROVIDER,
                    Fact::Known(provider.into(), origin.clone()),
                );
                facts.set(
                    hca,
                    hca::ADAPTIVE_ROUTING,
                    Fact::Known(routing, origin.clone()),
                );
            }
            None => {
                facts.set(hca, hca::SPEED, Fact::Unknown(not_logged(NET)));
                facts.set(hca, hca::PROVIDER, Fact::Unknown(not_logged(NET)));
                facts.set(hca, hca::ADAPTIVE_ROUTING, Fact::Unknown(not_logged(NET)));
            }
        }
        let is = |list: &Distinct| list.texts.iter().any(|t| &**t == port.device);
        let gdr = match (is(&with), is(&without)) {
            (_, true) => without.origin.clone().map(|origin| (false, origin)),
            (true, false) => with.origin.clone().map(|origin| (true, origin)),
            (false, false) => None,
        };
        facts.set(hca, hca::GDR, fact_of(gdr, NET));
        // What was not used is known only where channels are told at all.
        if !channels.is_empty() {
            let used = channels.get(&port.index).copied().unwrap_or(0);
            facts.set(
                hca,
                hca::CHANNELS,
                view.total(used, "lines of channels that name it"),
            );
        } else {
            facts.set(hca, hca::CHANNELS, Fact::Unknown(not_logged(INFO)));
        }
    }
}

fn channel_counts(view: &RunView<'_, '_>, facts: &mut Facts, id: Id, lines: &[&Line<'_>]) {
    let before = |message: &str, what: &str| -> Option<u64> {
        let (head, _) = message.split_once(what)?;
        head.rsplit([' ', ','])
            .find(|word| !word.is_empty())?
            .parse()
            .ok()
    };
    let coll = least(lines, |m| {
        m.contains("p2p channels")
            .then(|| before(m, " coll channels"))
            .flatten()
    });
    let p2p = least(lines, |m| {
        m.contains("coll channels")
            .then(|| before(m, " p2p channels,"))
            .flatten()
    });
    facts.set(id, fact::COLL_CHANNELS, view.whole(fact_of(coll, INFO)));
    facts.set(id, fact::P2P_CHANNELS, view.whole(fact_of(p2p, INFO)));
}

fn traffic(view: &RunView<'_, '_>, facts: &mut Facts, host: &str, id: Id) {
    let sums = view.sums.get(host).cloned().unwrap_or_default();
    let ChannelSums { inter, intra, .. } = sums;
    let how = "lines of connected channels";
    let count = |value: u64| match inter + intra {
        0 => Fact::Unknown(not_logged(INFO)),
        _ => view.total(value, how),
    };
    let pairs: [(Key<u64>, u64); 10] = [
        (fact::INTER, inter),
        (fact::INTER_RDMA, sums.rdma),
        (fact::INTER_SOCKET, sums.socket),
        (fact::SENDS, sums.sends),
        (fact::RECEIVES, sums.receives),
        (fact::PXN, sums.pxn),
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
        facts.set(
            id,
            key,
            match share(part, whole) {
                Some(share) => match &sums.first_inter {
                    Some(origin) => view.whole(Fact::Known(share, origin.clone())),
                    None => view.total(share, how),
                },
                None => Fact::Unknown(not_logged(INFO)),
            },
        );
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

/// `Pattern 4, crossNic 0, nChannels 16, bw 24.000000/24.000000, type NVL/PXB, sameChannels 1`; pattern 4 is the ring's.
fn pattern(message: &str) -> Option<([f64; 2], [PathType; 2])> {
    let rest = message.strip_prefix("Pattern 4, ")?;
    let field = |name: &str| {
        rest.split(", ")
            .find_map(|part| part.trim().strip_prefix(name)?.strip_prefix(' '))
    };
    let (intra, inter) = field("bw").or_else(|| field("speed"))?.split_once('/')?;
    let (path, far) = field("type")?.split_once('/')?;
    Some((
        [intra.parse().ok()?, inter.parse().ok()?],
        [PathType::from_word(path)?, PathType::from_word(far)?],
    ))
}

/// Bits per second of NCCL's GB/s.
fn gigabytes(value: f64) -> BitRate {
    BitRate((value * 8e9).round() as u64)
}

fn graph(facts: &mut Facts, id: Id, lines: &[&Line<'_>]) {
    let found = first(lines, pattern);
    let (intra, inter, path, far) = match found {
        Some((([intra, inter], [path, far]), origin)) => (
            Some((gigabytes(intra), origin.clone())),
            Some((gigabytes(inter), origin.clone())),
            Some((path, origin.clone())),
            Some((far, origin)),
        ),
        None => (None, None, None, None),
    };
    facts.set(id, fact::GRAPH_INTRA, fact_of(intra, GRAPH));
    facts.set(id, fact::GRAPH_INTER, fact_of(inter, GRAPH));
    facts.set(id, fact::GRAPH_PATH_INTRA, fact_of(path, GRAPH));
    facts.set(id, fact::GRAPH_PATH_INTER, fact_of(far, GRAPH));
    let links = lines.iter().filter_map(|line| {
        let (_, rest) = line
            .message
            .trim_start()
            .strip_prefix("+ ")?
            .split_once("PCI[")?;
        let speed: f64 = rest.split(']').next()?.parse().ok()?;
        Some((gigabytes(speed), line.origin().clone()))
    });
    let links: Vec<_> = links.collect();
    facts.set(
        id,
        fact::PCI_LOWEST,
        fact_of(links.iter().min_by_key(|(rate, _)| *rate).cloned(), GRAPH),
    );
    facts.set(
        id,
        fact::PCI_HIGHEST,
        fact_of(links.iter().max_by_key(|(rate, _)| *rate).cloned(), GRAPH),
    );
}
