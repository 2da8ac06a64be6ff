//! What ranks exchange to connect: their ports once, and their memory and queue pairs for each
//! point.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::live::failure::Failure;
use crate::live::verbs::address::Address;

/// A rank's port, and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RankPort {
    /// How it is reached.
    #[serde(flatten)]
    pub(super) address: Address,
    /// Queue pairs to each other rank.
    pub(super) pairs: usize,
    /// The most bytes of one write.
    pub(super) piece: usize,
}

/// A rank's memory, and its new queue pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RankMemory {
    /// Where the memory begins.
    pub(super) address: u64,
    /// The memory's remote key.
    pub(super) key: u32,
    /// The numbers of the new queue pairs, by the rank that they lead to.
    pub(super) pairs: BTreeMap<usize, Vec<u32>>,
}

/// Parses the value of each rank.
pub(super) fn parse_all<T: for<'v> Deserialize<'v>>(given: &[Value]) -> Result<Vec<T>, Failure> {
    let one = |(rank, value): (usize, &Value)| {
        T::deserialize(value).map_err(|e| {
            Failure::new(
                "exchange",
                format!("rank {rank} gave something else than its address: {e}"),
            )
        })
    };
    given.iter().enumerate().map(one).collect()
}

/// The limits that hold for all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommonLimits {
    pub(super) pairs: usize,
    pub(super) piece: usize,
}

/// The smallest limits of all ranks.
///
/// # Errors
///
/// A port has another link layer than this rank's.
pub(super) fn common_limits(cards: &[RankPort], rank: usize) -> Result<CommonLimits, Failure> {
    let refused = |error: String| Failure::new("verbs", error);
    let own = cards
        .get(rank)
        .ok_or_else(|| refused("no card".to_owned()))?;
    let is_other = |card: &RankPort| card.address.ethernet != own.address.ethernet;
    if let Some(other) = cards.iter().position(is_other) {
        let (theirs, ours) = (cards[other].address.kind(), own.address.kind());
        return Err(refused(format!(
            "rank {other}'s port is {theirs}, this rank's is {ours}"
        )));
    }
    Ok(CommonLimits {
        pairs: cards
            .iter()
            .map(|card| card.pairs)
            .min()
            .unwrap_or(1)
            .max(1),
        piece: cards
            .iter()
            .map(|card| card.piece)
            .min()
            .unwrap_or(0)
            .max(64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn card() -> RankPort {
        RankPort {
            address: Address {
                ethernet: true,
                lid: 0,
                gid: "::ffff:10.77.0.2".parse().unwrap(),
                mtu: 3,
                first_packet: 77,
            },
            pairs: 4,
            piece: 1 << 19,
        }
    }

    #[test]
    fn cards_are_json() {
        let value = serde_json::to_value(card()).unwrap();
        assert_eq!(value["gid"], "::ffff:10.77.0.2");
        assert_eq!(parse_all::<RankPort>(&[value]).unwrap(), [card()]);
        let opened = RankMemory {
            address: u64::MAX,
            key: 5,
            pairs: [(1, vec![17, 18])].into(),
        };
        let value = serde_json::to_value(&opened).unwrap();
        assert_eq!(parse_all::<RankMemory>(&[value]).unwrap(), [opened]);
        let bad = parse_all::<RankPort>(&[
            serde_json::to_value(card()).unwrap(),
            json!({"lid": 70_000}),
        ]);
        let bad = bad.unwrap_err();
        assert_eq!(bad.function, "exchange");
        assert!(bad.error.starts_with("rank 1 gave something else"), "{bad}");
    }

    #[test]
    fn what_all_can_do() {
        let less = RankPort {
            pairs: 1,
            piece: 4096,
            ..card()
        };
        let all = CommonLimits {
            pairs: 1,
            piece: 4096,
        };
        assert_eq!(common_limits(&[card(), less.clone()], 0), Ok(all));
        let mut other = less;
        other.address.ethernet = false;
        let refused = common_limits(&[card(), other], 0).unwrap_err();
        assert_eq!(
            refused.error,
            "rank 1's port is InfiniBand, this rank's is Ethernet"
        );
    }
}
