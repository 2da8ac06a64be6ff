//! The results of an ablation: each arm with its bandwidth, each change with its effect, and whether it was applied.

pub mod text;

use serde::Serialize;

use crate::check::{Catalogue, Check, Outcome, Verdict};
use crate::diagnosis;
use crate::fact::arm::{ArmApplied, Outcome as Did};
use crate::fact::measurement::{MeasurementBackend, NodeSpan};
use crate::fact::{Facts, Id, Subject, arm, effect, factor, limit, measurement};

/// Version of the JSON form: `major.minor`. Fields are added in a minor version; a major one changes or removes some.
pub const SCHEMA: &str = "rdma-doctor-ablation/1.0";

/// The measurements of a node, or of a table.
#[derive(Debug, Serialize)]
pub struct Ablation {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The measurements, in the order in which they were made.
    pub measurements: Vec<Measurement>,
}

/// A measurement. Quantities are numbers in their base unit: bytes, bits per second; effects are in percent, below zero is slower.
#[derive(Debug, Serialize)]
pub struct Measurement {
    /// Its name.
    pub name: String,
    /// The backend that moved the data, or the source of the table: `nccl`, `verbs`, `tcp`, `job`, `table`.
    pub means: Option<&'static str>,
    /// Whether the figures are what somebody wrote down.
    pub user_reported: bool,
    /// What of a table was read in one of several ways, or left out.
    pub read_as: Vec<String>,
    /// How many nodes took part, if that is known.
    pub nodes: Option<u64>,
    /// How many ranks took part, if that is known.
    pub ranks: Option<u64>,
    /// The library that the ranks loaded.
    pub library: Option<String>,
    /// Its version.
    pub library_version: Option<String>,
    /// How many rounds there were.
    pub rounds: Option<u64>,
    /// The spread of the baseline's rounds, in percent.
    pub spread: Option<f64>,
    /// How much the baseline drifted, in percent.
    pub drift: Option<f64>,
    /// Whether that lets arms be compared; `null` if there was one round.
    pub quiet: Option<bool>,
    /// The highest bandwidth on this hardware.
    #[serde(skip)]
    pub ceiling: Option<u64>,
    /// The arms.
    pub arms: Vec<Arm>,
    /// The changes.
    pub factors: Vec<Factor>,
}

/// An arm.
#[derive(Debug, Serialize)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// The variables that it sets.
    pub variables: Option<String>,
    /// Its result, in words.
    pub figure: Option<String>,
    /// Its bus bandwidth.
    pub busbw: Option<u64>,
    /// The interval in which the bus bandwidth lies.
    pub interval: Option<[u64; 2]>,
    /// How many runs count, of how many.
    pub runs: Option<u64>,
    /// How many runs were started; `null` where somebody else made them.
    pub started: Option<u64>,
    /// By how much it differs from the baseline.
    pub effect: Option<f64>,
    /// The interval in which that lies.
    pub effect_interval: Option<[f64; 2]>,
    /// `slower`, `faster`, `unchanged` or `undecided`.
    pub outcome: Option<&'static str>,
    /// What carried the traffic between nodes.
    pub between: Option<&'static str>,
    /// The transport of each pair of ranks.
    pub paths: Option<String>,
    /// Whether the arm's variables took effect.
    pub honoured: Option<&'static str>,
    /// On what that rests.
    pub honoured_why: Option<String>,
    /// Whether its figure counts.
    pub valid: Option<bool>,
    /// Why it does not.
    pub trouble: Option<String>,
}

/// A change over all pairs of arms that differ by it alone.
#[derive(Debug, Serialize)]
pub struct Factor {
    /// The variable with its value.
    pub change: String,
    /// What it disables or changes.
    pub kind: Option<&'static str>,
    /// Its effect, in words.
    pub says: String,
    /// How many pairs there are.
    pub pairs: u64,
    /// In how many of them nothing changes.
    pub unchanged: u64,
    /// In how many it is slower.
    pub slower: u64,
    /// In how many it is faster.
    pub faster: u64,
    /// In how many the effect is unknown.
    pub undecided: u64,
    /// The effect against the baseline alone.
    pub effect: Option<f64>,
    /// The least and the most over all pairs.
    pub range: Option<[f64; 2]>,
    /// The other change with which its effect differs.
    pub interacts_with: Option<String>,
    /// Whether the arms' variables took effect.
    pub honoured: Option<&'static str>,
    /// Each pair.
    pub effects: Vec<Effect>,
}

/// Two arms that differ by one change.
#[derive(Debug, Serialize)]
pub struct Effect {
    /// The arm without the change.
    pub reference: Option<String>,
    /// The arm with it.
    pub arm: Option<String>,
    /// By how much the throughput differs.
    pub effect: Option<f64>,
    /// The interval in which that lies.
    pub interval: Option<[f64; 2]>,
    /// `slower`, `faster`, `unchanged` or `undecided`.
    pub outcome: Option<&'static str>,
    /// Whether time and throughput contradict each other.
    pub contradictory: bool,
}

impl Ablation {
    /// The measurements below a node.
    pub fn of(facts: &Facts, node: Id) -> Self {
        let measurements = facts.below(node, Subject::Measurement);
        Ablation {
            schema: SCHEMA,
            measurements: measurements.map(|id| Measurement::of(facts, id)).collect(),
        }
    }

    /// Whether anything was measured.
    pub fn is_measured(&self) -> bool {
        self.measurements
            .iter()
            .any(|measurement| !measurement.arms.is_empty())
    }

    /// The effects of the changes, the largest first: shown if no check has a finding.
    pub fn sentence(&self) -> Option<String> {
        let compared = self.measurements.iter().find(|m| !m.factors.is_empty());
        let Some(compared) = compared else {
            let last = self.measurements.last()?;
            let baseline = last.arms.first()?;
            return Some(format!("{}: {}", last.name, baseline.figure.as_ref()?));
        };
        let mut factors: Vec<&Factor> = compared.factors.iter().collect();
        let size = |factor: &Factor| {
            let [least, most] = factor.range.unwrap_or_default();
            least.abs().max(most.abs())
        };
        factors.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let said: Vec<String> = factors
            .iter()
            .take(3)
            .map(|factor| format!("{} {}", factor.change, factor.says))
            .collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

impl Measurement {
    fn of(facts: &Facts, id: Id) -> Self {
        let text = |key| {
            facts
                .known(id, key)
                .map(|text: std::sync::Arc<str>| text.to_string())
        };
        Measurement {
            name: facts.name(id).to_owned(),
            means: facts
                .known(id, measurement::MEANS)
                .map(MeasurementBackend::word),
            user_reported: facts.known(id, measurement::USER_REPORTED) == Some(true),
            read_as: facts
                .known(id, measurement::READ_AS)
                .map_or(Vec::new(), |notes| {
                    notes.iter().map(ToString::to_string).collect()
                }),
            nodes: facts.known(id, measurement::NODES).or_else(|| {
                match facts.known(id, measurement::SPAN) {
                    Some(NodeSpan::One) => Some(1),
                    _ => None,
                }
            }),
            ranks: facts.known(id, measurement::RANKS),
            library: text(measurement::LIBRARY),
            library_version: text(measurement::LIBRARY_VERSION),
            rounds: facts.known(id, measurement::ROUNDS),
            spread: facts.known(id, measurement::SPREAD).map(|p| p.0),
            drift: facts.known(id, measurement::DRIFT).map(|p| p.0),
            quiet: facts.known(id, measurement::QUIET),
            ceiling: facts.known(id, measurement::CEILING).map(|rate| rate.0),
            arms: facts
                .below(id, Subject::Arm)
                .map(|id| Arm::of(facts, id))
                .collect(),
            factors: facts
                .below(id, Subject::Factor)
                .map(|id| Factor::of(facts, id))
                .collect(),
        }
    }
}

impl Arm {
    fn of(facts: &Facts, id: Id) -> Self {
        let text = |key| {
            facts
                .known(id, key)
                .map(|text: std::sync::Arc<str>| text.to_string())
        };
        let rate = |key| {
            facts
                .known(id, key)
                .map(|rate: crate::fact::BitRate| rate.0)
        };
        let percent = |key| facts.known(id, key).map(|p: crate::fact::Percent| p.0);
        let valid = facts.known(id, arm::VALID);
        let trouble = match (facts.known(id, arm::HUNG), facts.known(id, arm::FAILED)) {
            (Some(true), _) => text(arm::LAST_STEP).map(|step| format!("hung; {step}")),
            (_, Some(true)) => text(arm::FAILURE),
            _ if facts.known(id, arm::WRONG).is_some_and(|wrong| wrong > 0) => {
                text(arm::WRONG_WHERE).map(|place| format!("wrong results: {place}"))
            }
            _ if valid == Some(false) => text(arm::INVALID_WHY),
            _ => None,
        };
        Arm {
            name: facts.name(id).to_owned(),
            variables: text(arm::VARIABLES),
            figure: text(arm::FIGURE),
            busbw: rate(arm::BUSBW),
            interval: rate(arm::LOWER).zip(rate(arm::UPPER)).map(|(a, b)| [a, b]),
            runs: facts.known(id, arm::RUNS),
            started: facts.known(id, arm::STARTED),
            effect: percent(arm::EFFECT),
            effect_interval: percent(arm::EFFECT_LOWER)
                .zip(percent(arm::EFFECT_UPPER))
                .map(|(a, b)| [a, b]),
            outcome: facts.known(id, arm::OUTCOME).map(Did::word),
            between: facts
                .known(id, arm::BETWEEN)
                .map(crate::fact::arm::InterNodeTransport::word),
            paths: text(arm::PATHS),
            honoured: facts.known(id, arm::HONOURED).map(ArmApplied::word),
            honoured_why: text(arm::HONOURED_WHY),
            valid,
            trouble,
        }
    }
}

impl Factor {
    fn of(facts: &Facts, id: Id) -> Self {
        let text = |key| {
            facts
                .known(id, key)
                .map(|text: std::sync::Arc<str>| text.to_string())
        };
        let count = |key| facts.known(id, key).unwrap_or(0);
        let percent = |key| facts.known(id, key).map(|p: crate::fact::Percent| p.0);
        Factor {
            change: facts.name(id).to_owned(),
            kind: facts
                .known(id, factor::KIND)
                .map(crate::fact::factor::FactorChange::word),
            says: effect_sentence(facts, id),
            pairs: count(factor::PAIRS),
            unchanged: count(factor::UNCHANGED),
            slower: count(factor::SLOWER),
            faster: count(factor::FASTER),
            undecided: count(factor::UNDECIDED),
            effect: percent(factor::EFFECT),
            range: percent(factor::LEAST)
                .zip(percent(factor::MOST))
                .map(|(a, b)| [a, b]),
            interacts_with: text(factor::INTERACTS_WITH),
            honoured: facts.known(id, factor::HONOURED).map(ArmApplied::word),
            effects: facts
                .below(id, Subject::Effect)
                .map(|id| Effect::of(facts, id))
                .collect(),
        }
    }
}

impl Effect {
    fn of(facts: &Facts, id: Id) -> Self {
        let text = |key| {
            facts
                .known(id, key)
                .map(|text: std::sync::Arc<str>| text.to_string())
        };
        let percent = |key| facts.known(id, key).map(|p: crate::fact::Percent| p.0);
        Effect {
            reference: text(effect::REFERENCE),
            arm: text(effect::ARM),
            effect: percent(effect::EFFECT),
            interval: percent(effect::LOWER)
                .zip(percent(effect::UPPER))
                .map(|(a, b)| [a, b]),
            outcome: facts.known(id, effect::OUTCOME).map(Did::word),
            contradictory: facts
                .known(id, effect::CONTRADICTION)
                .is_some_and(|by| by > facts.limit(limit::CONTRADICTION)),
        }
    }
}

/// The effect of a change, in words.
fn effect_sentence(facts: &Facts, id: Id) -> String {
    let count = |key| facts.known(id, key).unwrap_or(0);
    let word = |key| {
        let text: Option<std::sync::Arc<str>> = facts.known(id, key);
        text.map_or_else(String::new, |text| text.to_string())
    };
    let pairs = count(factor::PAIRS);
    let (unchanged, slower, faster) = (
        count(factor::UNCHANGED),
        count(factor::SLOWER),
        count(factor::FASTER),
    );
    let several = |n: u64| match pairs {
        1 => String::new(),
        _ => format!(" in {n} of {pairs} pairs"),
    };
    if pairs == 0 {
        return match facts.known(id, factor::CURES) {
            Some(true) => format!(
                "lets it end well; without it the run {}",
                word(factor::CURED)
            ),
            _ => "was not compared: no valid pair of arms".into(),
        };
    }
    if unchanged == pairs {
        return format!("changes nothing{}", several(unchanged));
    }
    if facts.known(id, factor::ONLY_WITH) == Some(true) {
        return format!(
            "costs {} alone, and {} with {}",
            word(factor::COST_WITHOUT),
            word(factor::COST_WITH),
            word(factor::INTERACTS_WITH)
        );
    }
    let alone = word(factor::COST);
    if facts.known(id, factor::OUTCOME) == Some(Did::Unchanged) {
        let range = word(factor::RANGE);
        return format!("changes nothing alone ({range} over {pairs} pairs)");
    }
    let range = word(factor::RANGE);
    let size = match (alone.is_empty(), pairs) {
        (false, 1) => alone,
        (false, _) => format!("{alone} ({range} over {pairs} pairs)"),
        (true, _) => range,
    };
    match (slower, faster) {
        (0, 0) => format!(
            "does what cannot be told from noise ({})",
            word(factor::RANGE)
        ),
        (_, 0) => format!("costs {size}"),
        (0, _) => format!("gains {size}"),
        _ => format!("differs by {}", word(factor::RANGE)),
    }
}

/// Whether a check is judged of measurements.
pub fn is_of_measurements(check: &Check) -> bool {
    check.subject.scope().any(|s| s == Subject::Measurement)
}

/// The verdicts that count for what was measured: those of measurements, and of what is found on the node that which explains one of these.
pub fn relevant(catalogue: &Catalogue, facts: &Facts, verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let of = |check: usize| catalogue.checks.get(check).is_some_and(is_of_measurements);
    let mut kept: Vec<(usize, Id)> = Vec::new();
    for cause in diagnosis::diagnose(catalogue, facts, &verdicts) {
        if of(cause.check) || cause.consequences.iter().any(|(check, _)| of(*check)) {
            kept.extend(cause.subjects.iter().map(|id| (cause.check, *id)));
            kept.extend(cause.consequences);
        }
    }
    let mut verdicts = verdicts;
    verdicts.retain(|verdict| {
        of(verdict.check)
            || (verdict.outcome == Outcome::Fails
                && kept.contains(&(verdict.check, verdict.subject)))
    });
    verdicts
}
