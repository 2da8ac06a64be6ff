//! How far the clocks of nodes are apart that one run gathered. Each was compared with one clock,
//! within what question and answer were under way.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Sample, sides};
use crate::fact::{Facts, Id, Limits, Seconds, limit, node};
use crate::sentence::{Sentence, sentence};

/// A node's clock, against that of who gathered it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clock {
    /// In which run.
    run: u64,
    /// How far it is ahead, in seconds.
    offset: f64,
    /// How far that may be wrong.
    within: f64,
}

impl Clock {
    /// It is at least so far ahead.
    fn least(&self) -> f64 {
        self.offset - self.within
    }

    /// It is at most so far ahead.
    fn most(&self) -> f64 {
        self.offset + self.within
    }
}

/// Takes a node's clock.
pub(super) fn take(facts: &Facts, node: Id, sample: &mut Sample) {
    let offset = facts.known(node, node::CLOCK_OFFSET);
    let within = facts.known(node, node::CLOCK_OFFSET_WITHIN);
    let run = facts.known(node, node::CLOCK_OFFSET_RUN);
    sample.clock = match (run, offset, within) {
        (Some(run), Some(Seconds(offset)), Some(Seconds(within))) => Some(Clock {
            run,
            offset,
            within,
        }),
        _ => None,
    };
}

/// What clocks say together.
#[derive(Debug, PartialEq)]
pub(super) struct Apart {
    /// The two that are furthest apart are so at least by so many seconds,
    pub(super) least: f64,
    /// and at most by so many; `Err` where more is not known, why.
    pub(super) most: Result<f64, Arc<str>>,
    /// How far, where that is known exactly.
    pub(super) exactly: Result<f64, Arc<str>>,
    /// Those that are far from the middle; both where there are two.
    pub(super) odd: Vec<Arc<str>>,
    /// All that in a sentence.
    pub(super) summary: Sentence,
}

/// Compares clocks; `None` where fewer than two were compared with one and the same.
pub(super) fn compare(clocks: &[(Arc<str>, Option<Clock>)], limits: &Limits) -> Option<Apart> {
    let mut runs: BTreeMap<u64, Vec<(&Arc<str>, Clock)>> = BTreeMap::new();
    for (name, clock) in clocks {
        if let Some(clock) = clock {
            runs.entry(clock.run).or_default().push((name, *clock));
        }
    }
    let several = runs.len() > 1;
    let of_run = runs.into_values().max_by_key(Vec::len)?;
    let others = clocks.len() - of_run.len();
    if of_run.len() < 2 {
        return None;
    }
    let all = || of_run.iter().map(|(_, clock)| clock);
    let spread = |of: fn(&Clock) -> f64, to: fn(&Clock) -> f64| {
        let high = all().map(of).fold(f64::NEG_INFINITY, f64::max);
        let low = all().map(to).fold(f64::INFINITY, f64::min);
        high - low
    };
    let least = spread(Clock::least, Clock::most).max(0.0);
    let most = spread(Clock::most, Clock::least);
    let mut sorted: Vec<f64> = all().map(|clock| clock.offset).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.get((sorted.len() - 1) / 2).copied()?;
    let beyond = |clock: &Clock| (clock.least() - middle).max(middle - clock.most());
    let two = of_run.len() == 2;
    let is_odd =
        |(_, clock): &&(&Arc<str>, Clock)| two || beyond(clock) > limits.get(limit::CLOCK_ODD).0;
    let odd: Vec<_> = of_run.iter().filter(is_odd).collect();
    let exactly = if most - least <= limits.get(limit::CLOCK_EXACT).0 {
        Ok((most + least) / 2.0)
    } else {
        Err(Arc::from(format!(
            "it is between {} and {}",
            Seconds(rounded(least)),
            Seconds(rounded(most))
        )))
    };
    let missing: Option<Arc<str>> = match (others, several) {
        (0, _) => None,
        (_, true) => Some("recordings were gathered in several runs".into()),
        (1, false) => Some("the clock of one node was not compared".into()),
        (n, false) => Some(format!("the clocks of {n} nodes were not compared").into()),
    };
    let names: Vec<Arc<str>> = odd.iter().map(|(name, _)| Arc::clone(name)).collect();
    let distance = match &exactly {
        Ok(exactly) => format!("{} apart", Seconds(rounded(*exactly))),
        Err(_) if least > 0.0 => format!("at least {} apart", Seconds(rounded(least))),
        Err(_) => format!("at most {} apart", Seconds(rounded(most))),
    };
    let (all, off, listed) = (of_run.len(), names.len(), sides::names(&names));
    let whose = match (two, odd.as_slice()) {
        (true, _) => sentence!("the clocks of {listed} are {distance}"),
        (false, [(name, clock)]) => {
            let by = Seconds(rounded((clock.offset - middle).abs()));
            let side = if clock.offset > middle {
                "ahead of"
            } else {
                "behind"
            };
            sentence!(
                "the clocks of {all} nodes are {distance}",
                ": that of {name} is {by} {side} most others"
            )
        }
        (false, []) => sentence!("the clocks of {all} nodes are {distance}"),
        (false, _) => sentence!(
            "the clocks of {all} nodes are {distance}",
            ": {off} of them are off, {listed}"
        ),
    };
    Some(Apart {
        least,
        most: missing.clone().map_or(Ok(most), Err),
        exactly: missing.map_or(exactly, Err),
        odd: names,
        summary: whose,
    })
}

/// Three digits, or milliseconds: more is not known.
fn rounded(seconds: f64) -> f64 {
    match seconds {
        s if s >= 100.0 => s.round(),
        s if s >= 10.0 => (s * 10.0).round() / 10.0,
        s if s >= 1.0 => (s * 100.0).round() / 100.0,
        s if s >= 0.001 => (s * 1000.0).round() / 1000.0,
        s => (s * 1e6).round() / 1e6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(of: &[(f64, f64)]) -> Vec<(Arc<str>, Option<Clock>)> {
        let clock = |(at, (offset, within)): (usize, &(f64, f64))| {
            let clock = Clock {
                run: 7,
                offset: *offset,
                within: *within,
            };
            (format!("n{}", at + 1).into(), Some(clock))
        };
        of.iter().enumerate().map(clock).collect()
    }

    #[test]
    fn one_that_is_off_is_named() {
        let mut all = vec![(0.0, 0.0); 15];
        all.insert(6, (-3.25, 0.0002));
        let apart = compare(&clocks(&all), &Limits::default()).unwrap();
        assert_eq!(apart.odd, ["n7".into()]);
        assert_eq!(
            apart.summary,
            "the clocks of 16 nodes are 3.25 s apart: that of n7 is 3.25 s behind most others"
        );
        assert!((apart.exactly.unwrap() - 3.25).abs() < 1e-9);
        // The one to which all were compared may be the odd one.
        let mut all = vec![(86_400.0, 0.001); 15];
        all.insert(0, (0.0, 0.0));
        let apart = compare(&clocks(&all), &Limits::default()).unwrap();
        assert_eq!(apart.odd, ["n1".into()]);
        assert!(
            apart
                .summary
                .to_string()
                .ends_with("n1 is 24 h behind most others"),
            "{}",
            apart.summary
        );
    }

    #[test]
    fn two_that_differ_are_both_named_and_several_too() {
        let apart = compare(&clocks(&[(0.0, 0.0), (5.0, 0.001)]), &Limits::default()).unwrap();
        assert_eq!(apart.summary, "the clocks of n[1-2] are 5 s apart");
        assert_eq!(apart.odd.len(), 2);
        let apart = compare(
            &clocks(&[(0.0, 0.0), (2.0, 0.0), (0.0, 0.0), (-4.0, 0.0)]),
            &Limits::default(),
        )
        .unwrap();
        assert_eq!(
            apart.summary,
            "the clocks of 4 nodes are 6 s apart: 2 of them are off, n[2,4]"
        );
    }

    #[test]
    fn what_is_within_its_uncertainty_is_not_judged() {
        let apart = compare(&clocks(&[(0.0, 0.6), (0.8, 0.6)]), &Limits::default()).unwrap();
        assert_eq!(apart.least, 0.0);
        assert_eq!(apart.most, Ok(2.0));
        assert_eq!(apart.exactly, Err("it is between 0 s and 2 s".into()));
        assert_eq!(apart.summary, "the clocks of n[1-2] are at most 2 s apart");
        let apart = compare(&clocks(&[(0.0, 0.5), (60.0, 0.5)]), &Limits::default()).unwrap();
        assert_eq!((apart.least, apart.most), (59.0, Ok(61.0)));
        assert_eq!(
            apart.summary,
            "the clocks of n[1-2] are at least 59 s apart"
        );
    }

    #[test]
    fn clocks_of_several_runs_have_no_common_moment() {
        let mut all = clocks(&[(0.0, 0.0), (5.0, 0.0)]);
        if let Some((_, Some(clock))) = all.get_mut(1) {
            clock.run = 8;
        }
        assert_eq!(compare(&all, &Limits::default()), None);
        all.extend(clocks(&[(9.0, 0.0)]));
        let apart = compare(&all, &Limits::default()).unwrap();
        assert_eq!(apart.least, 9.0);
        assert!(apart.most.is_err());
        let mut all = clocks(&[(0.0, 0.0), (0.0, 0.0)]);
        all.push(("n3".into(), None));
        assert_eq!(
            compare(&all, &Limits::default()).unwrap().most,
            Err("the clock of one node was not compared".into())
        );
        assert_eq!(
            compare(
                &[("n1".into(), None), ("n2".into(), None)],
                &Limits::default()
            ),
            None
        );
    }
}
