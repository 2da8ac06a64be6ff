//! Counters over the time since boot.

use super::Derivation;
use crate::fact::{Fact, Facts, Gap, Id, PerSecond, Phrase, Seconds, Subject, counter, node};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation {
    name: "counter_rate",
    inputs: &[],
    run: derive,
};

/// Divides each counter by the uptime.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let uptime = facts.get(node, node::UPTIME);
    // Most counters stand at zero: what is said of one is said of all.
    let mut zero: Option<Phrase> = None;
    let mut said = |value: u64, up: Seconds| {
        let words = || Phrase::from(format!("{value} in {up}"));
        match value {
            0 => zero.get_or_insert_with(words).clone(),
            _ => words(),
        }
    };
    for id in facts.below(node, Subject::Counter).collect::<Vec<_>>() {
        let fact = match (facts.get(id, counter::VALUE), &uptime) {
            (Fact::Known(value, _), Fact::Known(up, _)) if up.0 >= 1.0 => {
                Fact::derived(PerSecond(value as f64 / up.0), said(value, *up))
            }
            (Fact::Known(..), Fact::Known(..)) => {
                Fact::Unknown(Gap::missing("an uptime of more than a second"))
            }
            (Fact::Unknown(gap), _) => Fact::Unknown(gap),
            (_, Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
        };
        facts.set(id, counter::PER_UPTIME, fact);
    }
}
