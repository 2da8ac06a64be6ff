//! Parts and rates of what a GPU counts.

use super::Derivation;
use crate::fact::{Bytes, Fact, Facts, Id, Key, PerSecond, Percent, Seconds, Subject, gpu, node};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("gpu_share", &[], derive);

/// Works out, for each GPU, parts of what it has and rates of what it has counted.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let gpus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
    let uptime = facts.get(node, node::UPTIME);
    for id in gpus {
        let limit = share(
            facts.get(id, gpu::POWER_LIMIT).map(|watts| watts as f64),
            facts
                .get(id, gpu::DEFAULT_POWER_LIMIT)
                .map(|watts| watts as f64),
            "gpu.power_limit of gpu.default_power_limit",
        );
        facts.set(id, gpu::POWER_LIMIT_SHARE, limit);
        let bytes = |key: Key<Bytes>| facts.get(id, key).map(|bytes| bytes.0 as f64);
        let taken = share(
            bytes(gpu::MEMORY_USED),
            bytes(gpu::MEMORY),
            "gpu.memory_used of gpu.memory",
        );
        facts.set(id, gpu::MEMORY_TAKEN, taken);
        let replays = rate(facts.get(id, gpu::PCIE_REPLAYS), &uptime);
        facts.set(id, gpu::PCIE_REPLAY_RATE, replays);
        let brake = share(
            facts.get(id, gpu::POWER_BRAKE_TIME).map(|time| time.0),
            uptime.clone().map(|time| time.0),
            "of the time since boot",
        );
        facts.set(id, gpu::POWER_BRAKE_SHARE, brake);
    }
}

/// A part of a whole; unknown where the whole is nothing.
fn share(part: Fact<f64>, whole: Fact<f64>, how: &str) -> Fact<Percent> {
    part.zip(whole).and_then(|(part, whole)| {
        if whole > 0.0 {
            Ok(Percent(100.0 * part / whole))
        } else {
            Err(format!("{how}, which is 0"))
        }
    })
}

/// How often at least something was counted: the driver counts since it was loaded, which is no
/// longer ago than boot.
pub(super) fn rate(count: Fact<u64>, uptime: &Fact<Seconds>) -> Fact<PerSecond> {
    match (count, uptime) {
        (Fact::Known(0, origin), _) => Fact::Known(PerSecond(0.0), origin),
        (Fact::Known(count, _), Fact::Known(uptime, _)) if uptime.0 > 0.0 => Fact::derived(
            PerSecond(count as f64 / uptime.0),
            format!("{count} in {uptime} since boot"),
        ),
        (Fact::Known(..), Fact::Known(uptime, origin)) => Fact::Known(*uptime, origin.clone())
            .and_then(|uptime| Err(format!("{uptime} since boot"))),
        (Fact::Unknown(gap), _) => Fact::Unknown(gap),
        (_, Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{node, stated};
    use crate::fact::Gap;

    #[test]
    fn parts_of_wholes_and_counts_over_time() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        facts.set(n, node::UPTIME, stated(Seconds(1000.0)));
        let id = facts.instance(Subject::Gpu, n, "0000:1b:00.0");
        facts.set(id, gpu::POWER_LIMIT, stated(350));
        facts.set(id, gpu::DEFAULT_POWER_LIMIT, stated(700));
        facts.set(id, gpu::MEMORY_USED, stated(Bytes(8 << 30)));
        facts.set(id, gpu::MEMORY, stated(Bytes(80 << 30)));
        facts.set(id, gpu::PCIE_REPLAYS, stated(500));
        facts.set(id, gpu::POWER_BRAKE_TIME, stated(Seconds(10.0)));
        derive(&mut facts, n);
        assert_eq!(facts.known(id, gpu::POWER_LIMIT_SHARE), Some(Percent(50.0)));
        assert_eq!(facts.known(id, gpu::MEMORY_TAKEN), Some(Percent(10.0)));
        assert_eq!(facts.known(id, gpu::PCIE_REPLAY_RATE), Some(PerSecond(0.5)));
        assert_eq!(facts.known(id, gpu::POWER_BRAKE_SHARE), Some(Percent(1.0)));
    }

    #[test]
    fn nothing_is_a_part_of_nothing() {
        assert_eq!(share(stated(0.0), stated(0.0), "x").known(), None);
        let gap = || Fact::Unknown(Gap::missing("x"));
        assert_eq!(share(gap(), stated(1.0), "x").known(), None);
        assert_eq!(rate(stated(3), &stated(Seconds(0.0))).known(), None);
        let never = Fact::Unknown(Gap::missing("x"));
        assert_eq!(rate(stated(3), &never).known(), None);
        // Nothing counted is no rate, however long.
        assert_eq!(rate(stated(0), &never).known(), Some(&PerSecond(0.0)));
    }
}
