//! Channels: between which ranks and hosts, over what, and what that adds up to.

use std::collections::{BTreeMap, BTreeSet};

use super::carrier::{carrier, ofi_provider};
use super::line::Line;
use super::{INFO, RunView, nodes, not_logged};
use crate::fact::channel::{self as fact, Direction};
use crate::fact::run::{self, Carrier};
use crate::fact::{Fact, Facts, Gap, Key, Membership, Origin, Percent, Subject};
use crate::nccl_log::channel::{Channel, ChannelLine, Transport, read};
use crate::small_sort;

/// Channels that become instances of their own. A job of thousands of ranks has more: those inside nodes are left out first.
const TOLD: usize = 2048;

/// The sums over the channels of a host, or of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct ChannelSums {
    pub(super) inter: u64,
    pub(super) rdma: u64,
    pub(super) socket: u64,
    pub(super) direct_tcp: u64,
    pub(super) sends: u64,
    pub(super) receives: u64,
    pub(super) gdr_sends: u64,
    pub(super) gdr_receives: u64,
    pub(super) intra: u64,
    pub(super) p2p: u64,
    pub(super) shm: u64,
    pub(super) intra_net: u64,
    pub(super) collnet: u64,
    /// Between nodes, over NVLink.
    pub(super) nvlink: u64,
    /// Channels between nodes by network.
    pub(super) networks: BTreeMap<String, u64>,
    /// The first line of each: between nodes, inside.
    pub(super) first_inter: Option<Origin>,
    pub(super) first_intra: Option<Origin>,
    pub(super) first_nvlink: Option<Origin>,
}

/// A channel's line with what is known of its ends.
struct LocatedChannel<'l, 'd> {
    line: &'l Line<'d>,
    host: &'d str,
    channel: Channel<'d>,
    /// The communicator's number.
    comm: Option<usize>,
    peer_host: Option<&'d str>,
    inside: Option<bool>,
    carrier: Option<Carrier>,
}

pub(super) fn state(view: &mut RunView<'_, '_>, facts: &mut Facts) {
    let log = view.log;
    let provider = view
        .lines()
        .find_map(|(line, _)| ofi_provider(line.message));
    // Of a communicator that no line names, the writers of channels are its ranks.
    let mut unnamed: BTreeMap<u64, &str> = BTreeMap::new();
    let mut told: Vec<LocatedChannel<'_, '_>> = Vec::new();
    for (line, host) in view.lines() {
        let ChannelLine::Channel(channel) = read(line.message.as_bytes()) else {
            continue;
        };
        let own = if channel.receives {
            channel.to
        } else {
            channel.from
        };
        let highest = channel.from.max(channel.to);
        let comm = line
            .writer
            .and_then(|writer| log.comms.of_channel(writer, channel.comm, own, highest));
        if comm.is_none() && line.writer.is_some() {
            unnamed.entry(own).or_insert(host);
        }
        told.push(LocatedChannel {
            line,
            host,
            channel,
            comm,
            peer_host: None,
            inside: None,
            carrier: None,
        });
    }
    let one_node = match view.nodes {
        Some((nodes, _)) => nodes == 1,
        None => false,
    };
    // Machines of one name: NCCL counts more of them than there are names, and takes the network between them.
    let one_name = match (view.nodes, view.largest()) {
        (Some((nodes, true)), Some(largest)) => {
            let comm = &log.comms.all[largest];
            nodes > view.hosts_seen() && comm.members.len() as u64 >= comm.ranks
        }
        _ => false,
    };
    let mut unseen_peer = false;
    for one in &mut told {
        let peer = if one.channel.receives {
            one.channel.from
        } else {
            one.channel.to
        };
        one.peer_host = match one.comm {
            Some(comm) => log.comms.all[comm]
                .members
                .get(&peer)
                .map(|member| member.host),
            None => unnamed.get(&peer).copied(),
        };
        one.peer_host = one.peer_host.filter(|host| !view.is_nameless(host));
        one.inside = match (one.channel.transport, one.peer_host) {
            (Transport::P2p, _) if one.channel.kind == b"MNNVL" => {
                one.peer_host.map(|peer| peer == one.host)
            }
            (Transport::P2p | Transport::Shm, _) => Some(true),
            (Transport::CollNet, _) => Some(false),
            (Transport::Net, Some(peer)) => Some(peer == one.host && !one_name),
            (Transport::Net, None) if one_node => Some(true),
            (Transport::Net, None) => None,
        };
        if one.channel.transport == Transport::Net || one.channel.transport == Transport::CollNet {
            one.carrier = carrier(text(one.channel.kind), provider);
        }
        unseen_peer |= one.channel.transport == Transport::Net && one.inside.is_none();
    }
    if view.nodes.is_none() && unseen_peer {
        // NCCL takes the network to ranks of the same node only if it is forced to.
        view.nodes = Some((2, false));
        let how = "channels over the network to ranks that are not in the log: at least two nodes";
        facts.set(view.id, run::NODES, Fact::derived(2, how));
    }
    let apart = |one: &LocatedChannel<'_, '_>| {
        let local = matches!(one.channel.transport, Transport::P2p | Transport::Shm);
        !local || one.channel.kind == b"MNNVL"
    };
    if view.nodes.is_none() && !log.has_crowd() && !told.iter().any(apart) {
        let channels = told.iter().map(|one| (one.channel.from, one.channel.to));
        if nodes::is_closed(view, &channels.collect::<BTreeSet<_>>()) {
            view.nodes = Some((1, false));
            let how = "channels inside the node that lead around all ranks";
            facts.set(view.id, run::NODES, view.total(1, how));
        }
    }
    for one in &told {
        let sums = view.sums.entry(one.host).or_default();
        sums.add(
            &one.channel,
            one.inside,
            one.carrier,
            one.line.kept.count,
            one.line.origin(),
        );
    }
    for (_, digest) in log.files {
        for crowd in &digest.crowd {
            let Some((host, _)) = view.hosts.get_key_value(crowd.host.as_str()) else {
                continue;
            };
            // Dropped channels are counted by host; if it has several runs, they belong to the first.
            if log.first_run.get(host).is_some_and(|run| *run < view.run) {
                continue;
            }
            let transport = match crowd.transport.as_str() {
                "p2p" => Transport::P2p,
                "shm" => Transport::Shm,
                "collnet" => Transport::CollNet,
                _ => Transport::Net,
            };
            let channel = Channel {
                from: 0,
                to: 0,
                receives: crowd.receives,
                transport,
                kind: crowd.kind.as_bytes(),
                adapter: 0,
                pxn: false,
                gdr: crowd.gdr,
                comm: 0,
            };
            let inside = match transport {
                Transport::P2p | Transport::Shm => Some(true),
                Transport::Net | Transport::CollNet => Some(one_node),
            };
            let origin = Origin::derived("lines of channels beyond those that were kept");
            let sums = view.sums.entry(host).or_default();
            sums.add(
                &channel,
                inside,
                carrier(&crowd.kind, provider),
                crowd.count,
                &origin,
            );
        }
    }
    totals(view, facts, &told);
    instances(view, facts, told);
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("")
}

impl ChannelSums {
    fn add(
        &mut self,
        channel: &Channel<'_>,
        inside: Option<bool>,
        carrier: Option<Carrier>,
        count: u64,
        origin: &Origin,
    ) {
        // What switches add up is no channel between two ranks.
        if channel.transport == Transport::CollNet {
            self.collnet += count;
            return;
        }
        if inside == Some(true) {
            self.intra += count;
            self.first_intra.get_or_insert_with(|| origin.clone());
            match channel.transport {
                Transport::P2p => self.p2p += count,
                Transport::Shm => self.shm += count,
                Transport::Net | Transport::CollNet => self.intra_net += count,
            }
            return;
        }
        if channel.transport == Transport::P2p {
            self.nvlink += count;
            self.first_nvlink.get_or_insert_with(|| origin.clone());
            return;
        }
        // A rank that wrote nothing is taken to be on another node where the network leads to it.
        self.inter += count;
        self.first_inter.get_or_insert_with(|| origin.clone());
        *self
            .networks
            .entry(text(channel.kind).to_owned())
            .or_default() += count;
        match carrier {
            Some(Carrier::Rdma) => self.rdma += count,
            Some(Carrier::Socket) => self.socket += count,
            Some(Carrier::DirectTcp) => self.direct_tcp += count,
            _ => {}
        }
        let gdr = if channel.gdr { count } else { 0 };
        match channel.receives {
            true => {
                self.receives += count;
                self.gdr_receives += gdr;
            }
            false => {
                self.sends += count;
                self.gdr_sends += gdr;
            }
        }
    }

    fn join(&mut self, other: &ChannelSums) {
        for (mine, theirs) in [
            (&mut self.inter, other.inter),
            (&mut self.rdma, other.rdma),
            (&mut self.socket, other.socket),
            (&mut self.direct_tcp, other.direct_tcp),
            (&mut self.sends, other.sends),
            (&mut self.receives, other.receives),
            (&mut self.gdr_sends, other.gdr_sends),
            (&mut self.gdr_receives, other.gdr_receives),
            (&mut self.intra, other.intra),
            (&mut self.p2p, other.p2p),
            (&mut self.shm, other.shm),
            (&mut self.intra_net, other.intra_net),
            (&mut self.collnet, other.collnet),
            (&mut self.nvlink, other.nvlink),
        ] {
            *mine += theirs;
        }
        for (network, count) in &other.networks {
            *self.networks.entry(network.clone()).or_default() += count;
        }
        for (mine, theirs) in [
            (&mut self.first_inter, &other.first_inter),
            (&mut self.first_intra, &other.first_intra),
            (&mut self.first_nvlink, &other.first_nvlink),
        ] {
            *mine = mine.take().or_else(|| theirs.clone());
        }
    }
}

/// Hundredths of a whole that is not nothing.
pub(super) fn share(part: u64, whole: u64) -> Option<Percent> {
    (whole > 0).then(|| Percent(part as f64 * 100.0 / whole as f64))
}

fn totals(view: &RunView<'_, '_>, facts: &mut Facts, told: &[LocatedChannel<'_, '_>]) {
    let mut sums = ChannelSums::default();
    for host in view.sums.values() {
        sums.join(host);
    }
    let any = sums.inter + sums.intra + sums.nvlink > 0;
    let how = "lines of connected channels";
    let mut count = |key: Key<u64>, value: u64, first: &Option<Origin>| {
        let fact = match (any, first) {
            (true, Some(origin)) if value > 0 => Fact::Known(value, origin.clone()),
            (true, _) => Fact::derived(value, how),
            (false, _) => Fact::Unknown(not_logged(INFO)),
        };
        facts.set(view.id, key, view.whole(fact));
    };
    let first = |fits: &dyn Fn(&LocatedChannel<'_, '_>) -> bool| {
        let line = told.iter().find(|one| fits(one)).map(|one| one.line);
        line.map(|line| line.origin().clone())
    };
    let first_of = |wanted| first(&|t| t.inside != Some(true) && t.carrier == Some(wanted));
    count(run::INTER, sums.inter, &sums.first_inter);
    count(run::INTER_RDMA, sums.rdma, &first_of(Carrier::Rdma));
    count(run::INTER_SOCKET, sums.socket, &first_of(Carrier::Socket));
    let first_gdr = first(&|t| t.inside != Some(true) && t.channel.gdr);
    count(
        run::INTER_GDR,
        sums.gdr_sends + sums.gdr_receives,
        &first_gdr,
    );
    count(run::INTER_NVLINK, sums.nvlink, &sums.first_nvlink);
    count(run::INTRA, sums.intra, &sums.first_intra);
    let first_by = |wanted| first(&|t| t.inside == Some(true) && t.channel.transport == wanted);
    count(run::INTRA_P2P, sums.p2p, &first_by(Transport::P2p));
    count(run::INTRA_SHM, sums.shm, &first_by(Transport::Shm));
    count(run::INTRA_NET, sums.intra_net, &first_by(Transport::Net));
    for (key, part, whole) in [
        (run::GDR_SEND, sums.gdr_sends, sums.sends),
        (run::GDR_RECEIVE, sums.gdr_receives, sums.receives),
    ] {
        let fact = match (share(part, whole), &sums.first_inter) {
            (Some(share), Some(origin)) => view.whole(Fact::Known(share, origin.clone())),
            _ => Fact::Unknown(not_logged(INFO)),
        };
        facts.set(view.id, key, fact);
    }
    let collnet = told
        .iter()
        .find(|t| t.channel.transport == Transport::CollNet);
    if let Some(told) = collnet {
        let count = Fact::Known(sums.collnet, told.line.origin().clone());
        facts.set(view.id, run::COLLNET_CHANNELS, view.whole(count));
    }
    let collnet = collnet.and_then(|told| Some((told.carrier?, told.line.origin().clone())));
    super::carrier::state(view, facts, &sums, collnet);
    let carrier = facts.known(view.id, run::CARRIER);
    let is_shown = matches!(carrier, Some(Carrier::Rdma | Carrier::Nvlink));
    facts.derive(view.id, run::RDMA_SHOWN, is_shown, "what the lines show");
}

fn instances(view: &RunView<'_, '_>, facts: &mut Facts, mut told: Vec<LocatedChannel<'_, '_>>) {
    small_sort::by_key(&mut told, |t| match t.channel.transport {
        Transport::Net | Transport::CollNet => 0,
        Transport::Shm => 1,
        Transport::P2p => 2,
    });
    let members = match &view.log.missing {
        Some(gap) => Membership::Unknown(gap.clone()),
        None if view.log.has_crowd() || told.len() > TOLD => Membership::Unknown(Gap::not_said(
            "the log has more channels than can be distinguished",
            Origin::derived("the log"),
        )),
        None => Membership::Known(Origin::derived("the channels that the log tells of")),
    };
    for id in view.hosts.values() {
        facts.set_members(Subject::Channel, *id, members.clone());
    }
    let largest = view.largest();
    for one in told.into_iter().take(TOLD) {
        let Some(host) = view.host(one.host) else {
            continue;
        };
        let Channel {
            from,
            to,
            receives,
            adapter,
            gdr,
            ..
        } = one.channel;
        let transport = match one.channel.transport {
            Transport::P2p => fact::Transport::P2p,
            Transport::Shm => fact::Transport::Shm,
            Transport::Net => fact::Transport::Net,
            Transport::CollNet => fact::Transport::CollNet,
        };
        let networked = matches!(transport, fact::Transport::Net | fact::Transport::CollNet);
        let kind = text(one.channel.kind);
        let mut name = match transport {
            fact::Transport::P2p => format!("{from} to {to} by P2P/{kind}"),
            fact::Transport::Shm => format!("{from} to {to} by SHM"),
            _ => {
                let verb = if receives { "receives" } else { "sends" };
                let suffix = if gdr { "/GDRDMA" } else { "" };
                let net = match transport {
                    fact::Transport::CollNet => "COLLNET",
                    _ => "NET",
                };
                format!("{from} to {to} {verb} by {net}/{kind}/{adapter}{suffix}")
            }
        };
        if let Some(comm) = one.comm.filter(|comm| Some(*comm) != largest) {
            name.push_str(&format!(" of communicator {}", comm + 1));
        }
        let id = facts.instance(Subject::Channel, host, &name);
        let origin = one.line.origin();
        facts.know(id, fact::FROM, from, origin);
        facts.know(id, fact::TO, to, origin);
        facts.know(id, fact::COUNT, one.line.kept.count, origin);
        let direction = if receives {
            Direction::Receive
        } else {
            Direction::Send
        };
        facts.know(id, fact::DIRECTION, direction, origin);
        facts.know(id, fact::TRANSPORT, transport, origin);
        facts.know(id, fact::KIND, kind.into(), origin);
        if networked {
            facts.know(id, fact::GDR, gdr, origin);
            if let Some(carrier) = one.carrier {
                facts.know(id, fact::RDMA, carrier == Carrier::Rdma, origin);
            }
        }
        if let Some(inside) = one.inside {
            facts.know(id, fact::INSIDE_NODE, inside, origin);
        }
    }
}
