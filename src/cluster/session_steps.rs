//! Steps in which the nodes of a run exchange values. A step has a name, members and a deadline.
//!
//! ```text
//! member   input    step, members, audience, time to wait, value
//! rank 0   result   the members' values; which members are missing, and why
//! ```
//!
//! Rank 0 collects the inputs until all members contributed, one is lost, or the deadline passes;
//! then it sends the result to each member. A step is a barrier, an all-gather or a broadcast, and
//! never waits longer than its deadline. Several steps are open at the same time: pairs of nodes do
//! not wait for each other.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest message in bytes: a rank's measurements with its log.
pub const MAX_MESSAGE: u64 = 64 << 20;

/// Which members get which values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepAudience {
    /// Each member gets all values.
    Everyone,
    /// Rank 0 gets all values, each other member only rank 0's.
    #[serde(rename = "host")]
    Rank0,
}

/// When a step ends before its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepEnd {
    /// When each member contributed or is lost.
    #[default]
    #[serde(rename = "when-all-gave")]
    AllGiven,
    /// When a member ends it or is lost: the contributor only watches.
    #[serde(rename = "when-told-to")]
    OnSignal,
    /// Now.
    Now,
}

/// A member's contribution to a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepInput {
    /// The step's name, unique in the run.
    pub step: String,
    /// The member ranks; all of the run if empty.
    pub members: Vec<u64>,
    /// Which members get which values.
    #[serde(rename = "hears")]
    pub audience: StepAudience,
    /// How long to wait for the other members, in milliseconds.
    pub wait_ms: u64,
    /// When the step ends.
    #[serde(default, rename = "ends")]
    pub end: StepEnd,
    /// The contributed value.
    pub value: Value,
}

/// The result that a member gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// The step's name.
    pub step: String,
    /// The values by rank.
    #[serde(rename = "came")]
    pub values: BTreeMap<u64, Value>,
    /// Why a rank's value is missing.
    pub missing: BTreeMap<u64, String>,
}

/// A step that is open.
struct OpenStep {
    members: BTreeSet<u64>,
    audience: StepAudience,
    deadline: Duration,
    wait: Duration,
    watched: bool,
    values: BTreeMap<u64, Value>,
}

/// Rank 0's side: the open steps, and the lost ranks. Times count from any fixed moment.
pub struct StepCoordinator {
    ranks: BTreeSet<u64>,
    gone: BTreeMap<u64, String>,
    open: BTreeMap<String, OpenStep>,
    closed: HashSet<String>,
}

/// Results to send, with the rank that gets each.
pub type StepDeliveries = Vec<(u64, StepResult)>;

impl StepCoordinator {
    /// A coordinator for these ranks.
    pub fn new(ranks: impl IntoIterator<Item = u64>) -> Self {
        StepCoordinator {
            ranks: ranks.into_iter().collect(),
            gone: BTreeMap::new(),
            open: BTreeMap::new(),
            closed: HashSet::new(),
        }
    }

    /// Applies a member's contribution.
    pub fn add_input(&mut self, from: u64, give: StepInput, now: Duration) -> StepDeliveries {
        let StepInput {
            step,
            members,
            audience: hears,
            wait_ms,
            end: ends,
            value,
        } = give;
        let late = |why: &str| {
            let missing = [(from, why.to_owned())].into();
            let values = BTreeMap::new();
            let step = step.clone();
            vec![(
                from,
                StepResult {
                    step,
                    values,
                    missing,
                },
            )]
        };
        if let Some(why) = self.gone.get(&from) {
            return late(why);
        }
        if self.closed.contains(&step) {
            return late("it contributed after the step had ended");
        }
        let all = || {
            if members.is_empty() {
                self.ranks.clone()
            } else {
                members.iter().copied().collect()
            }
        };
        let waited = Duration::from_millis(wait_ms);
        let open = self.open.entry(step.clone()).or_insert_with(|| OpenStep {
            members: all(),
            audience: hears,
            deadline: now,
            wait: waited,
            watched: false,
            values: BTreeMap::new(),
        });
        if !open.members.contains(&from) {
            return late("it is not a member of this step");
        }
        // The last member to contribute may wait as long as the first.
        open.deadline = open.deadline.max(now + waited);
        open.values.insert(from, value);
        open.watched |= ends == StepEnd::OnSignal;
        match ends {
            StepEnd::Now => self.close(&step),
            _ => self.close_if_complete(&step),
        }
    }

    /// Marks a rank as lost, so that no step waits for it.
    pub fn mark_gone(&mut self, rank: u64, why: &str) -> StepDeliveries {
        self.gone.entry(rank).or_insert_with(|| why.to_owned());
        let steps: Vec<String> = self.open.keys().cloned().collect();
        steps
            .iter()
            .flat_map(|step| self.close_if_complete(step))
            .collect()
    }

    /// Ends the steps whose deadline passed. Ranks that missed it count as lost.
    pub fn expire(&mut self, now: Duration) -> StepDeliveries {
        let of = |(step, open): (&String, &OpenStep)| (open.deadline <= now).then(|| step.clone());
        let steps: Vec<String> = self.open.iter().filter_map(of).collect();
        let mut told = Vec::new();
        for step in steps {
            let Some(open) = self.open.get(&step) else {
                continue;
            };
            let seconds = open.wait.as_secs_f64();
            let why = format!("it did not respond within {seconds:.0} s (step {step})");
            let unresponsive: Vec<u64> = open
                .members
                .iter()
                .filter(|rank| !open.watched && !open.values.contains_key(rank))
                .copied()
                .collect();
            for rank in unresponsive {
                told.extend(self.mark_gone(rank, &why));
            }
            told.extend(self.close(&step));
        }
        told
    }

    /// The earliest deadline of an open step.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.open.values().map(|open| open.deadline).min()
    }

    /// Ends a step that waits for no member any more.
    fn close_if_complete(&mut self, step: &str) -> StepDeliveries {
        let is_complete = |open: &OpenStep| {
            let mut members = open.members.iter();
            if open.watched {
                members.any(|rank| self.gone.contains_key(rank))
            } else {
                members.all(|rank| open.values.contains_key(rank) || self.gone.contains_key(rank))
            }
        };
        if self.open.get(step).is_some_and(is_complete) {
            self.close(step)
        } else {
            Vec::new()
        }
    }

    fn close(&mut self, step: &str) -> StepDeliveries {
        let Some(open) = self.open.remove(step) else {
            return Vec::new();
        };
        self.closed.insert(step.to_owned());
        let missing: BTreeMap<u64, String> = open
            .members
            .iter()
            // A member that watched and is lost since is missing; one that did not watch yet is
            // not.
            .filter(|rank| {
                if open.watched {
                    self.gone.contains_key(rank)
                } else {
                    !open.values.contains_key(rank)
                }
            })
            .map(|rank| (*rank, self.gone.get(rank).cloned().unwrap_or_default()))
            .collect();
        let receivers = open
            .values
            .keys()
            .filter(|rank| !self.gone.contains_key(rank));
        let result = |rank: &u64| {
            let is_rank_0 = |(from, _): &(&u64, &Value)| **from == 0;
            let came = match (open.audience, rank) {
                (StepAudience::Rank0, 1..) => {
                    let host = open.values.iter().find(is_rank_0);
                    host.map(|(k, v)| (*k, v.clone())).into_iter().collect()
                }
                _ => open.values.clone(),
            };
            let all = StepResult {
                step: step.to_owned(),
                values: came,
                missing: missing.clone(),
            };
            (*rank, all)
        };
        receivers.map(result).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step_input(step: &str, members: &[u64], hears: StepAudience, value: Value) -> StepInput {
        StepInput {
            step: step.into(),
            members: members.into(),
            audience: hears,
            wait_ms: 2000,
            end: StepEnd::AllGiven,
            value,
        }
    }

    const AT: Duration = Duration::from_secs(1);

    #[test]
    fn all_members_get_all_values() {
        let mut hub = StepCoordinator::new(0..3);
        let of = |value| step_input("a", &[], StepAudience::Everyone, value);
        assert_eq!(hub.add_input(0, of(json!("x")), AT), []);
        assert_eq!(hub.add_input(2, of(json!("z")), AT), []);
        let told = hub.add_input(1, of(json!("y")), AT);
        assert_eq!(
            told.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        let all: Vec<&Value> = told[1].1.values.values().collect();
        assert_eq!(all, [&json!("x"), &json!("y"), &json!("z")]);
        assert!(told[1].1.missing.is_empty());
        assert_eq!(hub.next_deadline(), None);
    }

    #[test]
    fn values_for_rank_0_stay_there() {
        let mut hub = StepCoordinator::new(0..3);
        let of = |value| step_input("a", &[], StepAudience::Rank0, value);
        hub.add_input(1, of(json!(1)), AT);
        hub.add_input(2, of(json!(2)), AT);
        let told = hub.add_input(0, of(json!("verdict")), AT);
        assert_eq!(told[0].1.values.len(), 3);
        assert_eq!(told[2].1.values, [(0, json!("verdict"))].into());
    }

    #[test]
    fn two_pairs_do_not_wait_for_each_other() {
        let mut hub = StepCoordinator::new(0..4);
        hub.add_input(
            0,
            step_input("0-1", &[0, 1], StepAudience::Everyone, json!(0)),
            AT,
        );
        hub.add_input(
            2,
            step_input("2-3", &[2, 3], StepAudience::Everyone, json!(2)),
            AT,
        );
        let told = hub.add_input(
            3,
            step_input("2-3", &[2, 3], StepAudience::Everyone, json!(3)),
            AT,
        );
        assert_eq!(told.len(), 2);
        assert_eq!(hub.expire(AT), []);
        // A rank that is not a member is told so.
        let told = hub.add_input(
            2,
            step_input("0-1", &[0, 1], StepAudience::Everyone, json!(9)),
            AT,
        );
        assert_eq!(told[0].1.missing[&2], "it is not a member of this step");
    }

    #[test]
    fn a_member_that_misses_the_deadline_is_missing() {
        let mut hub = StepCoordinator::new(0..3);
        let of = |value| step_input("a", &[], StepAudience::Everyone, value);
        hub.add_input(0, of(json!(0)), AT);
        hub.add_input(1, of(json!(1)), AT);
        assert_eq!(hub.next_deadline(), Some(Duration::from_secs(3)));
        assert_eq!(hub.expire(Duration::from_millis(2999)), []);
        let told = hub.expire(Duration::from_secs(3));
        assert_eq!(told.len(), 2);
        assert_eq!(
            told[0].1.missing,
            [(2, "it did not respond within 2 s (step a)".into())].into()
        );
        // It responds after all, but no step waits for it any more.
        let told = hub.add_input(2, of(json!(2)), Duration::from_secs(4));
        assert!(told[0].1.missing[&2].starts_with("it did not respond"));
        let of = |value| step_input("b", &[], StepAudience::Everyone, value);
        hub.add_input(0, of(json!(0)), AT);
        assert_eq!(hub.add_input(1, of(json!(1)), AT).len(), 2);
    }

    #[test]
    fn lost_ranks_are_not_waited_for() {
        let mut hub = StepCoordinator::new(0..3);
        let of = |step: &str| step_input(step, &[], StepAudience::Everyone, Value::Null);
        hub.add_input(0, of("a"), AT);
        hub.add_input(1, of("a"), AT);
        let told = hub.mark_gone(2, "its connection closed");
        assert_eq!(told.len(), 2);
        assert_eq!(told[0].1.missing[&2], "its connection closed");
        hub.add_input(0, of("b"), AT);
        assert_eq!(hub.add_input(1, of("b"), AT).len(), 2);
    }

    #[test]
    fn watchers_hear_of_an_end_and_of_a_loss() {
        let watch = || StepInput {
            end: StepEnd::OnSignal,
            ..step_input("w", &[], StepAudience::Everyone, Value::Null)
        };
        let mut hub = StepCoordinator::new(0..3);
        for rank in 0..3 {
            assert_eq!(hub.add_input(rank, watch(), AT), []);
        }
        let end = StepInput {
            end: StepEnd::Now,
            ..step_input("w", &[], StepAudience::Everyone, json!("rank 5 died"))
        };
        let told = hub.add_input(2, end, AT);
        assert_eq!(told.len(), 3);
        assert_eq!(told[0].1.values[&2], "rank 5 died");
        let mut hub = StepCoordinator::new(0..3);
        hub.add_input(0, watch(), AT);
        let told = hub.mark_gone(1, "its connection closed");
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].1.missing[&1], "its connection closed");
        // The lost one watched too.
        let mut hub = StepCoordinator::new(0..3);
        for rank in 0..3 {
            hub.add_input(rank, watch(), AT);
        }
        let told = hub.mark_gone(2, "its connection closed");
        let missing: Vec<_> = told
            .iter()
            .map(|(rank, all)| (*rank, &all.missing))
            .collect();
        let lost = [(2, "its connection closed".to_owned())].into();
        assert_eq!(missing, [(0, &lost), (1, &lost)]);
    }
}
