//! How a GPU compares with its equals: under load in clock and temperature, at any time in PCIe
//! replays and retired pages.

use super::Derivation;
use super::gpu_equals::equals;
use crate::fact::{Fact, Facts, Gap, Id, Key, Origin, Percent, Subject, Typed, gpu};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("gpu_load", &[], derive);

const HOW: &str = "the median of the GPUs of its model that are not idle";
const OF_ALL: &str = "the median of the GPUs of its model";

/// Which GPUs are compared.
type Compared = fn(&Facts, Id) -> Fact<bool>;

/// Figures of which less is better: by how much each exceeds the median, and of which GPUs.
const LESS_IS_BETTER: [(Key<u64>, Key<u64>, Compared, &str); 3] = [
    (gpu::TEMPERATURE, gpu::HOTTER_BY, is_busy, HOW),
    (gpu::PCIE_REPLAYS, gpu::PCIE_REPLAYS_ABOVE, is_any, OF_ALL),
    (gpu::PAGES_RETIRED, gpu::PAGES_RETIRED_ABOVE, is_any, OF_ALL),
];

/// Compares each GPU that is not idle with those of its model that are not.
fn derive(facts: &mut Facts, node: Id) {
    let gpus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
    for id in gpus {
        let equals = equals(facts, node, id);
        let clock = figures(facts, &equals, gpu::SM_CLOCK, is_busy);
        let below = facts.get(id, gpu::SM_CLOCK).map(|own| {
            let (low, high) = clock.median(own);
            let worse = |median: u64| {
                Percent(100.0 - 100.0 * own.min(median) as f64 / median.max(1) as f64)
            };
            (low.map_or(Percent(0.0), worse), high.map(worse))
        });
        set(facts, id, gpu::CLOCK_BELOW, below, &clock.open, HOW);
        for (figure, excess, is_compared, how) in LESS_IS_BETTER {
            let others = figures(facts, &equals, figure, is_compared);
            let above = facts.get(id, figure).map(|own| {
                let (low, high) = others.median(own);
                let worse = |median: u64| own.saturating_sub(median);
                (high.map_or(0, worse), low.map(worse))
            });
            set(facts, id, excess, above, &others.open, how);
        }
    }
}

fn is_any(_: &Facts, _: Id) -> Fact<bool> {
    Fact::Known(true, Origin::Stated)
}

fn is_busy(facts: &Facts, id: Id) -> Fact<bool> {
    facts.get(id, gpu::IDLE).map(|idle| !idle)
}

/// States by how much a GPU is worse: at least and at most, which are one where all its equals
/// answered.
fn set<T: Typed + PartialEq + Copy>(
    facts: &mut Facts,
    id: Id,
    key: Key<T>,
    worse: Fact<(T, Option<T>)>,
    open: &Option<Gap>,
    how: &'static str,
) {
    match (worse, open) {
        (Fact::Unknown(gap), _) => facts.set(id, key, Fact::Unknown(gap)),
        (Fact::Known((least, most), _), Some(gap)) if most != Some(least) => {
            facts.set_at_least(id, key, Fact::Unknown(gap.clone()), least);
        }
        (Fact::Known((least, _), _), _) => facts.derive(id, key, least, how),
    }
}

/// The figures of the equals that are compared.
struct Figures {
    /// In ascending order.
    known: Vec<u64>,
    /// How many more there may be, of any figure; nobody knows how many, if `None`.
    unknown: Option<usize>,
    /// Why the first of those is not known.
    open: Option<Gap>,
}

fn figures(
    facts: &Facts,
    equals: &Result<Vec<Id>, Gap>,
    key: Key<u64>,
    is_compared: Compared,
) -> Figures {
    let equals = match equals {
        Ok(equals) => equals,
        Err(gap) => {
            return Figures {
                known: Vec::new(),
                unknown: None,
                open: Some(gap.clone()),
            };
        }
    };
    let of = |other: &Id| is_compared(facts, *other).zip(facts.get(*other, key));
    let all: Vec<Fact<(bool, u64)>> = equals.iter().map(of).collect();
    let gaps = || all.iter().filter_map(|one| one.as_result().err());
    let answered = all.iter().filter_map(Fact::known);
    let compared = answered.filter(|(is_compared, _)| *is_compared);
    let mut known: Vec<u64> = compared.map(|(_, figure)| *figure).collect();
    known.sort_unstable();
    Figures {
        known,
        unknown: Some(gaps().count()),
        open: gaps().next().cloned(),
    }
}

impl Figures {
    /// The least and the greatest that their median can be, whatever the unknown ones are; of fewer
    /// than three it is `own`, since of two the better is no measure of the other.
    fn median(&self, own: u64) -> (Option<u64>, Option<u64>) {
        let Some(unknown) = self.unknown else {
            return (None, None);
        };
        let few = self.known.len() < 3;
        if few && self.known.len() + unknown < 3 {
            return (Some(own), Some(own));
        }
        let middle = (self.known.len() + unknown) / 2;
        let at = |place: Option<usize>| place.and_then(|place| self.known.get(place)).copied();
        let (low, high) = (at(middle.checked_sub(unknown)), at(Some(middle)));
        if few {
            (low.map(|low| low.min(own)), high.map(|high| high.max(own)))
        } else {
            (low, high)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{node as bare_node, stated};
    use crate::fact::{Membership, Value};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// GPUs of one model: whether each is idle, its clock in MHz and its temperature in degrees
    /// Celsius; one that does not answer has none.
    fn facts_of(all: &[Option<(bool, u64, u64)>]) -> Facts {
        let mut facts = Facts::new();
        let node = bare_node(&mut facts);
        facts.set_members(Subject::Gpu, node, Membership::Known(Origin::Stated));
        for (at, says) in all.iter().enumerate() {
            let id = facts.instance(Subject::Gpu, node, &format!("0000:0{at}:00.0"));
            facts.set(id, gpu::MODEL, stated("NVIDIA H100 80GB HBM3".into()));
            facts.set(id, gpu::IN_NVML, stated(true));
            if let Some((idle, clock, heat)) = says {
                facts.set(id, gpu::IDLE, stated(*idle));
                facts.set(id, gpu::SM_CLOCK, stated(*clock));
                facts.set(id, gpu::TEMPERATURE, stated(*heat));
            }
        }
        derive(&mut facts, node);
        facts
    }

    fn compared(all: &[Option<(bool, u64, u64)>]) -> Vec<(Option<Percent>, Option<u64>)> {
        let facts = facts_of(all);
        let both = |id| {
            (
                facts.known(id, gpu::CLOCK_BELOW),
                facts.known(id, gpu::HOTTER_BY),
            )
        };
        facts.all(Subject::Gpu).map(both).collect()
    }

    /// Of each GPU's clock and temperature: what it is worse by at least, and if that is known.
    fn bounds(all: &[Option<(bool, u64, u64)>]) -> Vec<[(f64, Option<f64>); 2]> {
        let facts = facts_of(all);
        let number = |value: &Value| match value {
            Value::Percent(percent) => percent.0,
            Value::Count(count) => *count as f64,
            other => panic!("{other:?}"),
        };
        let of = |id| {
            let clock = facts.known(id, gpu::CLOCK_BELOW).map(|below| below.0);
            let heat = facts.known(id, gpu::HOTTER_BY).map(|by| by as f64);
            [
                (clock, gpu::CLOCK_BELOW.index),
                (heat, gpu::HOTTER_BY.index),
            ]
            .map(|(known, index)| {
                let least = facts.at_least(id, index).map_or(0.0, number);
                (known.unwrap_or(least), known)
            })
        };
        facts.all(Subject::Gpu).map(of).collect()
    }

    const WELL: Option<(bool, u64, u64)> = Some((false, 1980, 60));

    #[test]
    fn the_slow_and_hot_one_is_told_from_those_under_load() {
        let slow = Some((false, 990, 85));
        let idle = Some((true, 345, 30));
        let all = compared(&[WELL, WELL, slow, WELL, idle, idle, idle, idle]);
        assert_eq!(all[2], (Some(Percent(50.0)), Some(25)));
        assert_eq!(all[0], (Some(Percent(0.0)), Some(0)));
        // Of two nobody knows which is right.
        let two = compared(&[WELL, slow, idle]);
        assert_eq!(two[1], (Some(Percent(0.0)), Some(0)));
    }

    #[test]
    fn one_that_does_not_answer_hides_no_slow_one() {
        let slow = Some((false, 990, 85));
        let all = compared(&[WELL, WELL, slow, WELL, None]);
        assert_eq!(all[2], (Some(Percent(50.0)), Some(25)));
        assert_eq!(all[0], (Some(Percent(0.0)), Some(0)));
        assert_eq!(all[4], (None, None));
        // The third of four may be the slow one's equal.
        let all = compared(&[WELL, slow, None]);
        assert_eq!(all[1], (None, None));
        assert_eq!(all[0], (Some(Percent(0.0)), Some(0)));
    }

    proptest! {
        /// What is known of a part of the GPUs holds for all of them.
        #[test]
        fn what_a_part_says_the_whole_says(
            gpus in vec((any::<bool>(), prop::sample::select(&[500_u64, 1000, 1980][..]), prop::sample::select(&[30_u64, 60, 90][..])), 1..7),
            hidden in vec(any::<bool>(), 7),
        ) {
            let whole: Vec<_> = gpus.iter().map(|gpu| Some(*gpu)).collect();
            let part: Vec<_> = whole.iter().zip(&hidden).map(|(gpu, hidden)| gpu.filter(|_| !hidden)).collect();
            let whole = bounds(&whole);
            for ((least, known), (_, is)) in bounds(&part).into_iter().flatten().zip(whole.into_iter().flatten()) {
                prop_assert!(known.is_none() || known == is);
                prop_assert!(is.is_none_or(|is| least <= is));
            }
        }
    }

    #[test]
    fn a_gpu_that_replays_more_than_its_equals_is_told_by_how_much() {
        let mut facts = facts_of(&[None; 4]);
        let node = facts.all(Subject::Node).next().expect("a node");
        let gpus: Vec<Id> = facts.all(Subject::Gpu).collect();
        for (id, count) in gpus.iter().zip([3, 5, 4000]) {
            facts.set(*id, gpu::PCIE_REPLAYS, stated(count));
        }
        // The fourth did not answer: the median is 5 or 4000.
        derive(&mut facts, node);
        let above = |facts: &Facts| facts.known(gpus[2], gpu::PCIE_REPLAYS_ABOVE);
        assert_eq!(above(&facts), None);
        facts.set(gpus[3], gpu::PCIE_REPLAYS, stated(0));
        derive(&mut facts, node);
        assert_eq!(above(&facts), Some(3995));
        assert_eq!(facts.known(gpus[2], gpu::PAGES_RETIRED_ABOVE), None);
    }
}
