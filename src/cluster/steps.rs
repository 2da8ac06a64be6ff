//! What the nodes of a run tell each other after the hello: in *steps*, each of which has a name, members, and a deadline.
//!
//! ```text
//! member   give   step, members, who hears, time to wait, value
//! rank 0   all    what each member gave; who is missing, and why
//! ```
//!
//! Rank 0 keeps what members give until all have given, one of them is gone, or the time is up; then each member is told. So a step is a barrier, an
//! all-gather, or a broadcast, and none of them waits for longer than it says. Several steps are open at the same time: pairs of nodes do not wait
//! for each other.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest message: what a rank measured, with its log.
pub const MOST: u64 = 64 << 20;

/// Who is told what the members gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hears {
    /// Each member hears all.
    Everyone,
    /// Rank 0 hears all, each other member what rank 0 gave.
    Host,
}

/// When a step ends, unless its time is up before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ends {
    /// When each member gave, or is gone.
    #[default]
    WhenAllGave,
    /// When a member ends it, or is gone: who gives so wants to hear of it.
    WhenToldTo,
    /// Now.
    Now,
}

/// What a member gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Give {
    /// The step. No two steps of a run have one name.
    pub step: String,
    /// The ranks that take part in it; all of the run where there are none.
    pub members: Vec<u64>,
    /// Who hears it.
    pub hears: Hears,
    /// For how long the others are waited for, in milliseconds.
    pub wait_ms: u64,
    /// When it ends.
    #[serde(default)]
    pub ends: Ends,
    /// What is given.
    pub value: Value,
}

/// What a member is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct All {
    /// The step.
    pub step: String,
    /// What each rank gave.
    pub came: BTreeMap<u64, Value>,
    /// Why nothing came of a rank.
    pub missing: BTreeMap<u64, String>,
}

/// A step that is open.
struct Open {
    members: BTreeSet<u64>,
    hears: Hears,
    ends: Duration,
    waited: Duration,
    watched: bool,
    came: BTreeMap<u64, Value>,
}

/// Rank 0's side: what was given, and who is to be told. Times are since any one moment.
pub struct Hub {
    ranks: BTreeSet<u64>,
    gone: BTreeMap<u64, String>,
    open: BTreeMap<String, Open>,
    closed: HashSet<String>,
}

/// Whom to tell what.
pub type Tell = Vec<(u64, All)>;

impl Hub {
    /// A run of these ranks.
    pub fn new(ranks: impl IntoIterator<Item = u64>) -> Self {
        Hub {
            ranks: ranks.into_iter().collect(),
            gone: BTreeMap::new(),
            open: BTreeMap::new(),
            closed: HashSet::new(),
        }
    }

    /// A member gives.
    pub fn give(&mut self, from: u64, give: Give, now: Duration) -> Tell {
        let Give {
            step,
            members,
            hears,
            wait_ms,
            ends,
            value,
        } = give;
        let late = |why: &str| {
            let missing = [(from, why.to_owned())].into();
            let came = BTreeMap::new();
            let step = step.clone();
            vec![(
                from,
                All {
                    step,
                    came,
                    missing,
                },
            )]
        };
        if let Some(why) = self.gone.get(&from) {
            return late(why);
        }
        if self.closed.contains(&step) {
            return late("it came when the others had gone on");
        }
        let all = || match members.is_empty() {
            true => self.ranks.clone(),
            false => members.iter().copied().collect(),
        };
        let waited = Duration::from_millis(wait_ms);
        let open = self.open.entry(step.clone()).or_insert_with(|| Open {
            members: all(),
            hears,
            ends: now,
            waited,
            watched: false,
            came: BTreeMap::new(),
        });
        if !open.members.contains(&from) {
            return late("it is not of this step");
        }
        // Who comes last has waited for nobody, and may still be told.
        open.ends = open.ends.max(now + waited);
        open.came.insert(from, value);
        open.watched |= ends == Ends::WhenToldTo;
        match ends {
            Ends::Now => self.close(&step),
            _ => self.whole(&step),
        }
    }

    /// A rank is gone: nobody waits for it any more.
    pub fn gone(&mut self, rank: u64, why: &str) -> Tell {
        self.gone.entry(rank).or_insert_with(|| why.to_owned());
        let steps: Vec<String> = self.open.keys().cloned().collect();
        steps.iter().flat_map(|step| self.whole(step)).collect()
    }

    /// Ends the steps whose time is up. Who kept others waiting so long is not waited for again.
    pub fn late(&mut self, now: Duration) -> Tell {
        let of = |(step, open): (&String, &Open)| (open.ends <= now).then(|| step.clone());
        let steps: Vec<String> = self.open.iter().filter_map(of).collect();
        let mut told = Vec::new();
        for step in steps {
            let Some(open) = self.open.get(&step) else {
                continue;
            };
            let seconds = open.waited.as_secs_f64();
            let why = format!("nothing came of it in {seconds:.0} s (step {step})");
            let silent: Vec<u64> = open
                .members
                .iter()
                .filter(|rank| !open.watched && !open.came.contains_key(rank))
                .copied()
                .collect();
            for rank in silent {
                told.extend(self.gone(rank, &why));
            }
            told.extend(self.close(&step));
        }
        told
    }

    /// When the next step's time is up.
    pub fn next(&self) -> Option<Duration> {
        self.open.values().map(|open| open.ends).min()
    }

    /// Ends a step for which nobody is waited any more.
    fn whole(&mut self, step: &str) -> Tell {
        let is = |open: &Open| {
            let mut members = open.members.iter();
            match open.watched {
                true => members.any(|rank| self.gone.contains_key(rank)),
                false => {
                    members.all(|rank| open.came.contains_key(rank) || self.gone.contains_key(rank))
                }
            }
        };
        match self.open.get(step).is_some_and(is) {
            true => self.close(step),
            false => Vec::new(),
        }
    }

    fn close(&mut self, step: &str) -> Tell {
        let Some(open) = self.open.remove(step) else {
            return Vec::new();
        };
        self.closed.insert(step.to_owned());
        let missing: BTreeMap<u64, String> = open
            .members
            .iter()
            .filter(|rank| !open.came.contains_key(rank))
            .map(|rank| (*rank, self.gone.get(rank).cloned().unwrap_or_default()))
            .collect();
        let listeners = open
            .came
            .keys()
            .filter(|rank| !self.gone.contains_key(rank));
        let tell = |rank: &u64| {
            let hosts = |(from, _): &(&u64, &Value)| **from == 0;
            let came = match (open.hears, rank) {
                (Hears::Host, 1..) => {
                    let host = open.came.iter().find(hosts);
                    host.map(|(k, v)| (*k, v.clone())).into_iter().collect()
                }
                _ => open.came.clone(),
            };
            let all = All {
                step: step.to_owned(),
                came,
                missing: missing.clone(),
            };
            (*rank, all)
        };
        listeners.map(tell).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn give(step: &str, members: &[u64], hears: Hears, value: Value) -> Give {
        Give {
            step: step.into(),
            members: members.into(),
            hears,
            wait_ms: 2000,
            ends: Ends::WhenAllGave,
            value,
        }
    }

    const AT: Duration = Duration::from_secs(1);

    #[test]
    fn all_hear_when_the_last_one_gave() {
        let mut hub = Hub::new(0..3);
        let of = |value| give("a", &[], Hears::Everyone, value);
        assert_eq!(hub.give(0, of(json!("x")), AT), []);
        assert_eq!(hub.give(2, of(json!("z")), AT), []);
        let told = hub.give(1, of(json!("y")), AT);
        assert_eq!(
            told.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        let all: Vec<&Value> = told[1].1.came.values().collect();
        assert_eq!(all, [&json!("x"), &json!("y"), &json!("z")]);
        assert!(told[1].1.missing.is_empty());
        assert_eq!(hub.next(), None);
    }

    #[test]
    fn what_is_for_rank_0_alone_the_others_do_not_hear() {
        let mut hub = Hub::new(0..3);
        let of = |value| give("a", &[], Hears::Host, value);
        hub.give(1, of(json!(1)), AT);
        hub.give(2, of(json!(2)), AT);
        let told = hub.give(0, of(json!("verdict")), AT);
        assert_eq!(told[0].1.came.len(), 3);
        assert_eq!(told[2].1.came, [(0, json!("verdict"))].into());
    }

    #[test]
    fn two_pairs_do_not_wait_for_each_other() {
        let mut hub = Hub::new(0..4);
        hub.give(0, give("0-1", &[0, 1], Hears::Everyone, json!(0)), AT);
        hub.give(2, give("2-3", &[2, 3], Hears::Everyone, json!(2)), AT);
        let told = hub.give(3, give("2-3", &[2, 3], Hears::Everyone, json!(3)), AT);
        assert_eq!(told.len(), 2);
        assert_eq!(hub.late(AT), []);
        // A stranger to the step is told so.
        let told = hub.give(2, give("0-1", &[0, 1], Hears::Everyone, json!(9)), AT);
        assert_eq!(told[0].1.missing[&2], "it is not of this step");
    }

    #[test]
    fn who_does_not_come_is_named_when_the_time_is_up() {
        let mut hub = Hub::new(0..3);
        let of = |value| give("a", &[], Hears::Everyone, value);
        hub.give(0, of(json!(0)), AT);
        hub.give(1, of(json!(1)), AT);
        assert_eq!(hub.next(), Some(Duration::from_secs(3)));
        assert_eq!(hub.late(Duration::from_millis(2999)), []);
        let told = hub.late(Duration::from_secs(3));
        assert_eq!(told.len(), 2);
        assert_eq!(
            told[0].1.missing,
            [(2, "nothing came of it in 2 s (step a)".into())].into()
        );
        // It comes after all, and nobody waits for it any more.
        let told = hub.give(2, of(json!(2)), Duration::from_secs(4));
        assert!(told[0].1.missing[&2].starts_with("nothing came of it"));
        let of = |value| give("b", &[], Hears::Everyone, value);
        hub.give(0, of(json!(0)), AT);
        assert_eq!(hub.give(1, of(json!(1)), AT).len(), 2);
    }

    #[test]
    fn who_is_gone_is_not_waited_for() {
        let mut hub = Hub::new(0..3);
        let of = |step: &str| give(step, &[], Hears::Everyone, Value::Null);
        hub.give(0, of("a"), AT);
        hub.give(1, of("a"), AT);
        let told = hub.gone(2, "its connection closed");
        assert_eq!(told.len(), 2);
        assert_eq!(told[0].1.missing[&2], "its connection closed");
        hub.give(0, of("b"), AT);
        assert_eq!(hub.give(1, of("b"), AT).len(), 2);
    }

    #[test]
    fn who_watches_hears_when_one_ends_it_or_is_gone() {
        let watch = || Give {
            ends: Ends::WhenToldTo,
            ..give("w", &[], Hears::Everyone, Value::Null)
        };
        let mut hub = Hub::new(0..3);
        for rank in 0..3 {
            assert_eq!(hub.give(rank, watch(), AT), []);
        }
        let end = Give {
            ends: Ends::Now,
            ..give("w", &[], Hears::Everyone, json!("rank 5 died"))
        };
        let told = hub.give(2, end, AT);
        assert_eq!(told.len(), 3);
        assert_eq!(told[0].1.came[&2], "rank 5 died");
        let mut hub = Hub::new(0..3);
        hub.give(0, watch(), AT);
        let told = hub.gone(1, "its connection closed");
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].1.missing[&1], "its connection closed");
    }
}
