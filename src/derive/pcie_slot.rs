//! Whether equal GPUs sit in equal slots.

use super::Derivation;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fact::{BitRate, Fact, Facts, Gap, Id, Subject, gpu, known};

/// The derivation.
pub(super) const DERIVATION: Derivation =
    Derivation::new("pcie_slot", &["gpu.slot_bandwidth"], derive);

/// Works out what the links of most GPUs of one kind can carry.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let gpus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
    let mut open = facts.members(Subject::Gpu, node).err();
    let mut kinds: BTreeMap<Arc<str>, Vec<BitRate>> = BTreeMap::new();
    for id in &gpus {
        // A virtual function has no link of its own.
        if facts.known(*id, gpu::VIRTUAL_FUNCTION) == Some(true) {
            continue;
        }
        match (facts.get(*id, gpu::ID), facts.get(*id, gpu::SLOT_BANDWIDTH)) {
            (Fact::Known(kind, _), Fact::Known(rate, _)) => {
                kinds.entry(kind).or_default().push(rate)
            }
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => open = open.or(Some(gap)),
        }
    }
    for id in gpus {
        let fact = siblings(facts, id, &kinds, open.as_ref());
        facts.set(id, gpu::SIBLINGS_SLOT_BANDWIDTH, fact);
    }
}

fn siblings(
    facts: &Facts,
    id: Id,
    kinds: &BTreeMap<Arc<str>, Vec<BitRate>>,
    open: Option<&Gap>,
) -> Fact<BitRate> {
    let own = known!(
        facts
            .get(id, gpu::ID)
            .zip(facts.get(id, gpu::SLOT_BANDWIDTH))
    );
    if let Some(gap) = open {
        return Fact::Unknown(gap.clone());
    }
    let rates = kinds.get(&own.0).map_or(&[][..], Vec::as_slice);
    let votes = |rate: BitRate| rates.iter().filter(|other| **other == rate).count();
    match rates
        .iter()
        .copied()
        .find(|rate| 2 * votes(*rate) > rates.len())
    {
        Some(rate) => Fact::derived(rate, format!("{} of {} GPUs", votes(rate), rates.len())),
        None => Fact::derived(own.1, "no value has a majority"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{node, stated};
    use crate::fact::{Membership, Origin};

    fn gpus(rates: &[u64]) -> (Facts, Vec<Id>) {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        facts.set_members(Subject::Gpu, n, Membership::Known(Origin::Stated));
        let ids = (0..rates.len())
            .map(|i| facts.instance(Subject::Gpu, n, &format!("0000:0{i}:00.0")))
            .collect::<Vec<_>>();
        for (id, rate) in ids.iter().zip(rates) {
            facts.set(*id, gpu::ID, stated("10de:2330".into()));
            facts.set(*id, gpu::VIRTUAL_FUNCTION, stated(false));
            facts.set(*id, gpu::SLOT_BANDWIDTH, stated(BitRate(*rate)));
        }
        derive(&mut facts, n);
        (facts, ids)
    }

    #[test]
    fn a_majority_speaks_and_two_that_differ_do_not() {
        let (facts, ids) = gpus(&[500, 500, 250, 500]);
        let of = |i: usize| facts.known(ids[i], gpu::SIBLINGS_SLOT_BANDWIDTH);
        assert_eq!(of(2), Some(BitRate(500)));
        assert_eq!(of(0), Some(BitRate(500)));
        let (facts, ids) = gpus(&[500, 250]);
        assert_eq!(
            facts.known(ids[1], gpu::SIBLINGS_SLOT_BANDWIDTH),
            Some(BitRate(250))
        );
    }
}
