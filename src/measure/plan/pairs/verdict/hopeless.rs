//! What is not worth trying any more: a device takes up to half a minute to give a connection up,
//! and a node that is cut off is in a pair of every round.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::measure::plan::pairs::schedule::End;
use crate::measure::plan::pairs::{Flow, PairDirection, Results};

/// Ends, and pairs of rails, whose pairs have all failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hopeless {
    ends: BTreeSet<End>,
    rails: BTreeSet<(usize, usize)>,
}

impl Hopeless {
    /// Whether a way is worth a try.
    ///
    /// # Errors
    ///
    /// Why it is not.
    pub fn allows(&self, way: PairDirection) -> Result<(), String> {
        let (one, other) = rails(way);
        if [way.from, way.to].iter().any(|end| self.ends.contains(end)) {
            return Err("not tried: one of its ends failed with others already".into());
        }
        if self.rails.contains(&(one, other)) {
            return Err(format!(
                "not tried: rails {one} and {other} did not reach each other elsewhere"
            ));
        }
        Ok(())
    }
}

fn rails(way: PairDirection) -> (usize, usize) {
    let (a, b) = (way.from.1, way.to.1);
    (a.min(b), a.max(b))
}

/// What has failed so often that it is not tried any more: an end that failed with two others that
/// work with somebody, or whole rails where none works with anybody; two rails of which two pairs
/// failed and none did not.
pub fn hopeless(results: &Results) -> Hopeless {
    of(&results.first, &results.across)
}

/// The same of what goes from GPU to GPU, where both memories are measured.
pub fn hopeless_on_gpus(results: &Results) -> Hopeless {
    of(&results.on_gpus, &BTreeMap::new())
}

fn of(along: &BTreeMap<PairDirection, Flow>, across: &BTreeMap<PairDirection, Flow>) -> Hopeless {
    let mut good: BTreeSet<End> = BTreeSet::new();
    let mut failed: BTreeMap<End, BTreeSet<End>> = BTreeMap::new();
    let works = |flow: &Flow| flow.failed.is_none();
    for (way, flow) in along {
        if works(flow) {
            good.extend([way.from, way.to]);
        } else if flow.arrived.is_some() {
            failed.entry(way.from).or_default().insert(way.to);
            failed.entry(way.to).or_default().insert(way.from);
        }
    }
    let alive: BTreeSet<usize> = good.iter().map(|end| end.1).collect();
    let is_hopeless = |(end, partners): &(&End, &BTreeSet<End>)| {
        let working = partners.iter().filter(|partner| good.contains(partner));
        let enough = working.count() >= 2 || (partners.len() >= 2 && !alive.contains(&end.1));
        enough && !good.contains(end)
    };
    let ends = failed.iter().filter(is_hopeless);
    let ends = ends.map(|(end, _)| *end).collect();
    let mut apart: BTreeMap<(usize, usize), (usize, usize)> = BTreeMap::new();
    for (way, flow) in across {
        let (all, good) = apart.entry(rails(*way)).or_default();
        *all += 1;
        *good += usize::from(works(flow));
    }
    // Each pair has two ways.
    let rails = apart
        .iter()
        .filter(|(_, (all, good))| *all >= 4 && *good == 0);
    Hopeless {
        ends,
        rails: rails.map(|(rails, _)| *rails).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Plan;
    use super::*;
    use crate::measure::plan::run::Backend;

    fn broken() -> Flow {
        Flow {
            arrived: Some(false),
            ..Flow::failed("transport retry counter exceeded")
        }
    }

    fn nothing() -> Results {
        Results::new(Plan {
            backend: Backend::Verbs,
            across: true,
            ..Plan::of(Vec::new(), 100)
        })
    }

    fn tried(results: &mut Results, from: End, to: End, flow: &Flow) {
        for way in [
            PairDirection { from, to },
            PairDirection { from: to, to: from },
        ] {
            match from.1 == to.1 {
                true => results.first.insert(way, flow.clone()),
                false => results.across.insert(way, flow.clone()),
            };
        }
    }

    #[test]
    fn who_failed_with_two_that_work_is_not_tried_again() {
        let mut results = nothing();
        let good = Flow::default();
        tried(&mut results, (0, 0), (3, 0), &broken());
        tried(&mut results, (1, 0), (2, 0), &good);
        tried(&mut results, (1, 0), (3, 0), &broken());
        let way = |from, to| PairDirection {
            from: (from, 0),
            to: (to, 0),
        };
        // The first one did nothing else yet.
        assert_eq!(hopeless(&results), Hopeless::default());
        tried(&mut results, (0, 0), (2, 0), &good);
        let found = hopeless(&results);
        assert_eq!(found.ends, [(3, 0)].into());
        assert!(found.allows(way(0, 1)).is_ok() && found.allows(way(2, 3)).is_err());
        // What is another node's loss is no evidence.
        let mut results = nothing();
        for to in 1..4 {
            tried(&mut results, (0, 0), (to, 0), &Flow::failed("it is gone"));
        }
        assert_eq!(hopeless(&results), Hopeless::default());
    }

    #[test]
    fn a_rail_where_nobody_works_and_two_rails_apart_are_left_alone() {
        let mut results = nothing();
        tried(&mut results, (0, 1), (1, 1), &broken());
        tried(&mut results, (0, 1), (2, 1), &broken());
        tried(&mut results, (0, 0), (1, 0), &Flow::default());
        assert_eq!(hopeless(&results).ends, [(0, 1)].into());
        tried(&mut results, (0, 0), (1, 1), &broken());
        assert!(hopeless(&results).rails.is_empty());
        tried(&mut results, (0, 1), (1, 0), &broken());
        let found = hopeless(&results);
        assert_eq!(found.rails, [(0, 1)].into());
        let way = PairDirection {
            from: (4, 1),
            to: (5, 0),
        };
        assert!(found.allows(way).unwrap_err().contains("rails 0 and 1"));
    }
}
