//! The arms where the host moves the data (verbs, sockets): what each changes of a rank's
//! placement, since no library reads a variable there.

use super::ablation::Set;
use super::ablation_arms::gdr_off;
use super::rank_choice::ChosenRanks;
use super::run::{Backend, RankPlacement};

/// Sockets in place of RDMA: NCCL's variable, so that the same checks judge it.
const SOCKETS: (&str, &str) = ("NCCL_IB_DISABLE", "1");
/// All ranks on one of their node's rails: its number from 1, and the name of the first node's
/// port.
pub(super) const RAIL: &str = "rail";
/// Connections between two ranks.
pub(super) const STREAMS: &str = "streams";
/// Bytes of an RDMA write, and of what a socket takes at once.
const MESSAGE: &str = "message";
/// Bytes of a packet.
pub(super) const MTU: &str = "mtu";

/// Whether what is on GPUs in the baseline is there in an arm that sets this: sockets carry the
/// host's memory, and so does an adapter that may reach no GPU.
pub(super) fn is_on_gpus(set: &Set, backend: Backend) -> bool {
    let is_off = |(name, value): (&str, &str)| set.get(name).is_some_and(|own| own == value);
    let without_gdr = || (gdr_off().iter()).all(|(name, value)| is_off((name, value)));
    backend == Backend::Nccl || !(is_off(SOCKETS) || without_gdr())
}

/// The sets of these ranks' arms, without the baseline.
pub fn host_arms(chosen: &ChosenRanks) -> Vec<Set> {
    let one = |(name, value): (&str, &str)| Set::from([(name.to_owned(), value.to_owned())]);
    let mut sets: Vec<Set> = match chosen.backend {
        Backend::Nccl => return Vec::new(),
        // The least MTU of IPv6 passes everywhere, tunnels too.
        Backend::Tcp => [
            (STREAMS, "1"),
            (STREAMS, "4"),
            (MESSAGE, "16384"),
            (MTU, "1280"),
        ]
        .map(one)
        .into(),
        Backend::Verbs => [
            ("NCCL_IB_QPS_PER_CONNECTION", "4"),
            (MESSAGE, "65536"),
            (MESSAGE, "4194304"),
            (MTU, "1024"),
        ]
        .map(one)
        .into(),
    };
    let ranks = &chosen.ranks;
    let first = ranks.first().map_or(0, |rank| rank.node);
    let is_alone = ranks.iter().all(|rank| rank.node == first);
    let has_addresses = ranks.iter().all(|rank| rank.address.is_some());
    if chosen.backend == Backend::Verbs && !is_alone && has_addresses {
        sets.insert(0, one(SOCKETS));
    }
    let rails = ranks.iter().map(|rank| rank.rails.len()).min();
    for rail in 0..rails.filter(|rails| *rails > 1).unwrap_or(0) {
        let is_other = |rank: &RankPlacement| rank.rails.get(rail) != rank.device.as_ref();
        if !ranks.iter().any(is_other) {
            continue;
        }
        let number = rail + 1;
        let value = match (chosen.backend, ranks.first()) {
            (Backend::Verbs, Some(rank)) => format!("{number}:{}", rank.rails[rail]),
            _ => number.to_string(),
        };
        sets.push(one((RAIL, &value)));
    }
    sets
}

/// The backend and the placement of a rank in an arm that sets this.
pub(super) fn placed(
    set: &Set,
    backend: Backend,
    mut rank: RankPlacement,
) -> (Backend, RankPlacement) {
    if backend == Backend::Nccl {
        return (backend, rank);
    }
    let number = |name: &str| set.get(name)?.parse::<u64>().ok();
    let rail = set.get(RAIL).and_then(|rail| rail.split(':').next());
    let rail = rail.and_then(|number| number.parse::<usize>().ok()?.checked_sub(1));
    if let Some(device) = rail.and_then(|rail| rank.rails.get(rail)) {
        rank.device = Some(device.clone());
    }
    rank.streams = number(STREAMS).or(rank.streams);
    rank.message = number(MESSAGE).or(rank.message);
    rank.mtu = number(MTU).or(rank.mtu);
    if backend == Backend::Verbs {
        // A number that --qps names would hide the variable.
        rank.queue_pairs = number("NCCL_IB_QPS_PER_CONNECTION").or(rank.queue_pairs);
        if set.get(SOCKETS.0).is_some_and(|value| value == SOCKETS.1) {
            rank.device = rank.address.take();
            return (Backend::Tcp, rank);
        }
    }
    (backend, rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::ablation::variables;

    fn ranks(backend: Backend, nodes: u64, rails: &[&str]) -> ChosenRanks {
        let rank = |node| RankPlacement {
            node,
            device: rails.first().map(|rail| (*rail).to_owned()),
            rails: rails.iter().map(|rail| (*rail).to_owned()).collect(),
            address: Some(format!("10.0.0.{node}")),
            ..RankPlacement::default()
        };
        ChosenRanks {
            backend,
            library: None,
            ranks: (0..nodes).map(rank).collect(),
        }
    }

    #[test]
    fn each_arm_changes_the_placement_that_it_names() {
        let chosen = ranks(Backend::Verbs, 2, &["a/1", "b/1"]);
        let sets = host_arms(&chosen);
        let names: Vec<String> = sets.iter().map(variables).collect();
        assert_eq!(
            names,
            [
                "NCCL_IB_DISABLE=1",
                "NCCL_IB_QPS_PER_CONNECTION=4",
                "message=65536",
                "message=4194304",
                "mtu=1024",
                "rail=2:b/1",
            ]
        );
        let of = |at: usize| placed(&sets[at], Backend::Verbs, chosen.ranks[1].clone());
        let (backend, rank) = of(0);
        assert_eq!(
            (backend, rank.device.as_deref()),
            (Backend::Tcp, Some("10.0.0.1"))
        );
        assert_eq!(of(1).1.queue_pairs, Some(4));
        assert_eq!(of(3).1.message, Some(4 << 20));
        assert_eq!(of(4).1.mtu, Some(1024));
        assert_eq!(of(5).1.device.as_deref(), Some("b/1"));
        // NCCL reads its variables itself.
        let alone = placed(&sets[1], Backend::Nccl, RankPlacement::default());
        assert_eq!(alone, (Backend::Nccl, RankPlacement::default()));
    }

    #[test]
    fn one_node_has_no_network_to_take_away_and_one_rail_no_other() {
        let names = |chosen| -> Vec<String> { host_arms(&chosen).iter().map(variables).collect() };
        let verbs = names(ranks(Backend::Verbs, 1, &["a/1"]));
        assert_eq!(verbs[0], "NCCL_IB_QPS_PER_CONNECTION=4");
        assert!(
            !verbs.iter().any(|name| name.starts_with("rail")),
            "{verbs:?}"
        );
        let mut sockets = ranks(Backend::Tcp, 3, &["10.0.0.1", "10.1.0.1"]);
        sockets.ranks[1].device = Some("10.1.0.1".into());
        assert_eq!(
            names(sockets),
            [
                "streams=1",
                "streams=4",
                "message=16384",
                "mtu=1280",
                "rail=1",
                "rail=2"
            ]
        );
    }
}
