//! What carried the traffic between nodes: by channels, by what failed or was asked for, else by the network that was chosen.

use std::sync::Arc;

use super::channels::ChannelSums;
use super::line::Line;
use super::{INFO, RunView, not_logged};
use crate::fact::run::{self, Carrier, TransportProof};
use crate::fact::{Fact, Facts, Origin};
use crate::nccl_log::prefix::LogLevel;

/// What kind of network one of this name is; `None` for a plugin that is not known.
pub(super) fn carrier(network: &str, ofi_provider: Option<&str>) -> Option<Carrier> {
    let lower = network.to_ascii_lowercase();
    let begins = |names: &[&str]| names.iter().any(|name| lower.starts_with(name));
    if begins(&["socket", "fastsocket"]) {
        Some(Carrier::Socket)
    } else if begins(&["gpudirecttcpx", "fastrak", "tcpx"]) {
        Some(Carrier::DirectTcp)
    } else if begins(&["aws libfabric", "libfabric", "ofi"]) {
        match ofi_provider {
            Some(provider) if provider.contains("tcp") || provider.contains("sockets") => {
                Some(Carrier::Socket)
            }
            _ => Some(Carrier::Rdma),
        }
    } else if lower == "ib"
        || begins(&[
            "ib_",
            "ibext",
            // RCCL's own.
            "ib-cast",
            "ib-rocm",
            "gib",
            "spectrum",
            "spcx",
            "sharp",
            "ucx",
            "rccl-anp",
            "anp",
            "ainic",
            "cxi",
            "rdma_plugin",
        ])
    {
        Some(Carrier::Rdma)
    } else {
        None
    }
}

/// Whether a name of no known network is what torn lines left of another here, which most channels have: "NET/B" beside "NET/IB", or what one channel alone
/// has, as "NET/IBIB", is no network of its own.
fn is_torn(name: &str, here: &std::collections::BTreeMap<String, u64>) -> bool {
    let is_part = |whole: &str| {
        let mut letters = whole.chars();
        name.len() < whole.len() && name.chars().all(|letter| letters.any(|one| one == letter))
    };
    let once = here.get(name) == Some(&1);
    carrier(name, None).is_none()
        && here.iter().any(|(other, channels)| {
            carrier(other, None).is_some() && (is_part(other) || once && *channels > 1)
        })
}

/// The provider that the OFI plugin says it selected.
pub(super) fn ofi_provider(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("rovider is ")?;
    let word = rest
        .split([' ', ',', '('])
        .next()?
        .trim_matches(['"', '\'', '.']);
    (!word.is_empty()).then_some(word)
}

/// The network of which a line says that it was connected, or asked for GPUDirect RDMA: only the chosen one is.
pub(super) fn in_use(message: &str) -> Option<&str> {
    if ofi_provider(message).is_some() {
        return Some("AWS Libfabric");
    }
    if message.starts_with("NET/Socket: Using ") && message.contains(" threads") {
        return Some("Socket");
    }
    if let Some(rest) = message.strip_prefix("NET/") {
        let (name, _) = rest.split_once(" : GPU Direct RDMA ")?;
        return Some(name);
    }
    let of_gpu = message.starts_with("GPU Direct RDMA ") && message.contains(" for GPU ");
    of_gpu.then_some("IB")
}

/// States what carried the traffic.
pub(super) fn state(
    view: &RunView<'_, '_>,
    facts: &mut Facts,
    sums: &ChannelSums,
    collnet: Option<(Carrier, Origin)>,
) {
    if sums.inter > 0 {
        let origin = sums
            .first_inter
            .clone()
            .unwrap_or_else(|| Origin::derived("lines of channels"));
        let names = || sums.networks.keys().map(String::as_str);
        let torn = |name: &&str| is_torn(name, &sums.networks);
        let torn_channels: u64 = names().filter(torn).map(|name| sums.networks[name]).sum();
        let whole = sums.inter - torn_channels;
        let carrier = match (sums.rdma, sums.socket, sums.direct_tcp) {
            (r, 0, 0) if r == whole => Carrier::Rdma,
            (0, s, 0) if s == whole => Carrier::Socket,
            (0, 0, d) if d == whole => Carrier::DirectTcp,
            (0, 0, 0) => Carrier::Plugin,
            _ => Carrier::Mixed,
        };
        let carrier = view.whole(Fact::Known(carrier, origin.clone()));
        facts.set(view.id, run::CARRIER, carrier);
        facts.know(view.id, run::PROOF, TransportProof::Channels, &origin);
        let networks = names().filter(|name| !torn(name)).map(Arc::from).collect();
        let networks = view.whole(Fact::Known(networks, origin));
        facts.set(view.id, run::NETWORKS, networks);
        return;
    }
    let nvlink = sums.first_nvlink.clone();
    let nvlink = nvlink.map(|origin| (Carrier::Nvlink, origin));
    // Switches that add up are reached over the network, too.
    if let Some((carrier, origin)) = nvlink.or(collnet) {
        facts.know(view.id, run::PROOF, TransportProof::Channels, &origin);
        let carrier = view.whole(Fact::Known(carrier, origin));
        facts.set(view.id, run::CARRIER, carrier);
        return;
    }
    if view.nodes.is_some_and(|(nodes, _)| nodes < 2) {
        return;
    }
    let failed = failed(view);
    let (chosen, proof) = chosen(view);
    let provider = view
        .lines()
        .find_map(|(line, _)| ofi_provider(line.message));
    let kind = |name: &str| carrier(name, provider).unwrap_or(Carrier::Plugin);
    let mut kinds = chosen.texts.iter().map(|name| kind(name));
    let first = kinds.next();
    let one = first.filter(|first| kinds.all(|kind| kind == *first));
    let used = || {
        view.lines()
            .any(|(line, _)| in_use(line.message).is_some_and(|name| Some(kind(name)) == one))
    };
    // If it is not known that there are several nodes, a list of adapters and the choice of them are of a run on one node too.
    let is_told =
        view.nodes.is_some() || matches!(one, Some(Carrier::Socket | Carrier::DirectTcp)) || used();
    let chose = chosen.origin.clone().filter(|_| first.is_some() && is_told);
    let (carrier, proof, origin) = match (&chose, failed) {
        (Some(_), Some(failed)) if one == Some(failed.0) => failed,
        (Some(origin), _) => (one.unwrap_or(Carrier::Mixed), proof, origin.clone()),
        (None, Some(failed)) => failed,
        (None, None) => {
            if view.nodes.is_some() {
                facts.set(view.id, run::CARRIER, Fact::Unknown(not_logged(INFO)));
                facts.set(view.id, run::PROOF, Fact::Unknown(not_logged(INFO)));
            }
            return;
        }
    };
    if chose.is_some() {
        facts.set(view.id, run::NETWORKS, view.whole(chosen.all(INFO)));
    } else if carrier == Carrier::Socket {
        let sockets = Fact::Known(["Socket".into()].into(), origin.clone());
        facts.set(view.id, run::NETWORKS, view.whole(sockets));
    }
    let carrier = view.whole(Fact::Known(carrier, origin.clone()));
    facts.set(view.id, run::CARRIER, carrier);
    facts.set(view.id, run::PROOF, Fact::Known(proof, origin));
}

/// The networks that hosts chose. The channels are made when they are first used (2.22 and later), and level WARN does not tell of them.
fn chosen(view: &RunView<'_, '_>) -> (super::Distinct, TransportProof) {
    let mut chosen = super::Distinct::default();
    let named = super::hosts::networks_named(view);
    for (line, _) in view.lines() {
        let network = super::hosts::network(line.message);
        if let Some(network) = network.filter(|name| named.contains(name)) {
            chosen.add(network, line.kept.count, line.origin());
        }
    }
    if !named.is_empty() {
        return (chosen, TransportProof::Network);
    }
    for lines in view.by_host().values() {
        if let Some((network, origin)) = super::hosts::left_over(lines.iter().copied()) {
            chosen.add(network, 1, &origin);
        }
    }
    (chosen, TransportProof::Adapters)
}

/// The transport that failures of a network's own connections prove: only its users make them.
fn failed(view: &RunView<'_, '_>) -> Option<(Carrier, TransportProof, Origin)> {
    let rdma = failed_rdma(view).map(|(proof, origin)| (Carrier::Rdma, proof, origin));
    rdma.or_else(|| {
        // The bootstrap has sockets too, of another file.
        let of_sockets = |line: &Line<'_>| {
            line.level == Some(LogLevel::Warn)
                && line.message.starts_with("NET/Socket : ")
                && !line.message.contains("interface")
                || line.message.starts_with("transport/net_socket.cc:")
                    && line.message.contains(" -> ")
        };
        let (line, _) = view.lines().find(|(line, _)| of_sockets(line))?;
        Some((
            Carrier::Socket,
            TransportProof::Requests,
            line.origin().clone(),
        ))
    })
}

/// Whether RDMA requests failed, or its queues could not be made: only users of RDMA make them.
fn failed_rdma(view: &RunView<'_, '_>) -> Option<(TransportProof, Origin)> {
    let warnings = || {
        view.lines()
            .map(|(line, _)| line)
            .filter(|line| line.level == Some(LogLevel::Warn))
    };
    // An event of a queue also proves requests.
    let request = |line: &&Line<'_>| {
        line.message.contains("Got completion")
            && (line.message.contains("with status=") || line.message.contains("with error"))
            || line.message.contains("async")
                && QUEUE_EVENTS
                    .iter()
                    .any(|event| line.message.contains(event))
    };
    // The kernel's events of an adapter that concern a queue (ibv_event_type_str).
    const QUEUE_EVENTS: [&str; 7] = [
        " on QP",
        "work queue",
        "communication established",
        "send queue drained",
        "last WQE reached",
        "path migrat",
        "CQ error",
    ];
    if let Some(line) = warnings().find(request) {
        return Some((TransportProof::Requests, line.origin().clone()));
    }
    const CALLS: [&str; 5] = [
        "ibv_modify_qp",
        "ibv_create_qp",
        "ibv_create_cq",
        "ibv_reg_mr",
        "ibv_post_",
    ];
    let call = |line: &&Line<'_>| {
        line.message.contains("failed") && CALLS.iter().any(|call| line.message.contains(call))
    };
    if let Some(line) = warnings().find(call) {
        return Some((TransportProof::Queues, line.origin().clone()));
    }
    // The first warning is lost; where it passed tells that a connection of RDMA failed.
    let connecting = |line: &&Line<'_>| {
        line.message.contains("operation Connect") || line.message.contains("operation=Connect")
    };
    warnings().find(connecting)?;
    let passed = |line: &&Line<'_>| {
        line.message.starts_with("transport/net_ib") && line.message.contains(" -> ")
    };
    let (line, _) = view.lines().find(|(line, _)| passed(line))?;
    Some((TransportProof::Queues, line.origin().clone()))
}
