//! Counters over the time since boot.

use crate::fact::{Fact, Facts, Gap, Id, PerSecond, Seconds, Subject, counter, node};

/// Divides each counter by the uptime.
pub fn derive(facts: &mut Facts, node: Id) {
    let uptime = facts.get(node, node::UPTIME);
    for id in facts.below(node, Subject::Counter).collect::<Vec<_>>() {
        let fact = match (facts.get(id, counter::VALUE), &uptime) {
            (Fact::Known(value, _), Fact::Known(up, _)) if up.0 >= 1.0 => Fact::derived(
                PerSecond(value as f64 / up.0),
                format!("{value} in {}", Seconds(up.0)),
            ),
            (Fact::Known(..), Fact::Known(..)) => {
                Fact::Unknown(Gap::missing("an uptime of more than a second"))
            }
            (Fact::Unknown(gap), _) => Fact::Unknown(gap),
            (_, Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
        };
        facts.set(id, counter::PER_UPTIME, fact);
    }
}
