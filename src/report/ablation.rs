//! The results of an ablation: each arm with its bandwidth, each change with its effect, and whether it was applied.

pub mod text;

use std::sync::Arc;

use serde::Serialize;

use crate::check::{Catalogue, Check, Outcome, Verdict};
use crate::diagnosis::{self, FactRelations};
use crate::fact::arm::{ArmApplied, InterNodeTransport, Outcome as Did};
use crate::fact::factor::FactorChange;
use crate::fact::measurement::{MeasurementBackend, NodeSpan};
use crate::fact::{
    BitRate, Facts, Id, Key, Percent, Subject, Typed, arm, effect, factor, limit, measurement,
};
use crate::sentence::Sentence;

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
    pub fn sentence(&self) -> Option<Sentence> {
        let compared = self.measurements.iter().find(|m| !m.factors.is_empty());
        let Some(compared) = compared else {
            let last = self.measurements.last()?;
            let baseline = last.arms.first()?;
            return Some(format!("{}: {}", last.name, baseline.figure.as_ref()?).into());
        };
        let mut factors: Vec<&Factor> = compared.factors.iter().collect();
        let size = |factor: &Factor| {
            let [least, most] = factor.range.unwrap_or_default();
            least.abs().max(most.abs())
        };
        factors.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let said = factors.iter().take(3);
        let said = said.map(|factor| format!("{} {}", factor.change, factor.says).into());
        (!factors.is_empty()).then(|| Sentence::joined(said, "; "))
    }
}

/// The facts of one subject, as a report has them.
#[derive(Clone, Copy)]
struct Of<'f>(&'f Facts, Id);

impl Of<'_> {
    fn known<T: Typed>(self, key: Key<T>) -> Option<T> {
        self.0.known(self.1, key)
    }

    fn text(self, key: Key<Arc<str>>) -> Option<String> {
        self.known(key).map(|text| text.to_string())
    }

    fn percent(self, key: Key<Percent>) -> Option<f64> {
        self.known(key).map(|percent| percent.0)
    }

    fn interval(self, least: Key<Percent>, most: Key<Percent>) -> Option<[f64; 2]> {
        Some([self.percent(least)?, self.percent(most)?])
    }

    fn rate(self, key: Key<BitRate>) -> Option<u64> {
        self.known(key).map(|rate| rate.0)
    }

    fn count(self, key: Key<u64>) -> u64 {
        self.known(key).unwrap_or(0)
    }

    fn each<T>(self, subject: Subject, of: impl Fn(Of<'_>) -> T) -> Vec<T> {
        let below = self.0.below(self.1, subject);
        below.map(|id| of(Of(self.0, id))).collect()
    }
}

impl Measurement {
    fn of(facts: &Facts, id: Id) -> Self {
        let of = Of(facts, id);
        let notes = of.known(measurement::READ_AS);
        Measurement {
            name: facts.name(id).to_owned(),
            means: of.known(measurement::MEANS).map(MeasurementBackend::word),
            user_reported: of.known(measurement::USER_REPORTED) == Some(true),
            read_as: notes.map_or(Vec::new(), |notes| {
                notes.iter().map(ToString::to_string).collect()
            }),
            nodes: of.known(measurement::NODES).or_else(|| {
                let span = of.known(measurement::SPAN);
                (span == Some(NodeSpan::One)).then_some(1)
            }),
            ranks: of.known(measurement::RANKS),
            library: of.text(measurement::LIBRARY),
            library_version: of.text(measurement::LIBRARY_VERSION),
            rounds: of.known(measurement::ROUNDS),
            spread: of.percent(measurement::SPREAD),
            drift: of.percent(measurement::DRIFT),
            quiet: of.known(measurement::QUIET),
            ceiling: of.rate(measurement::CEILING),
            arms: of.each(Subject::Arm, Arm::of),
            factors: of.each(Subject::Factor, Factor::of),
        }
    }
}

impl Arm {
    fn of(of: Of<'_>) -> Self {
        let valid = of.known(arm::VALID);
        let trouble = match (of.known(arm::HUNG), of.known(arm::FAILED)) {
            (Some(true), _) => of.text(arm::LAST_STEP).map(|step| format!("hung; {step}")),
            (_, Some(true)) => of.text(arm::FAILURE),
            _ if of.count(arm::WRONG) > 0 => of
                .text(arm::WRONG_WHERE)
                .map(|place| format!("wrong results: {place}")),
            _ if valid == Some(false) => of.text(arm::INVALID_WHY),
            _ => None,
        };
        Arm {
            name: of.0.name(of.1).to_owned(),
            variables: of.text(arm::VARIABLES),
            figure: of.text(arm::FIGURE),
            busbw: of.rate(arm::BUSBW),
            interval: of.rate(arm::LOWER).zip(of.rate(arm::UPPER)).map(Into::into),
            runs: of.known(arm::RUNS),
            started: of.known(arm::STARTED),
            effect: of.percent(arm::EFFECT),
            effect_interval: of.interval(arm::EFFECT_LOWER, arm::EFFECT_UPPER),
            outcome: of.known(arm::OUTCOME).map(Did::word),
            between: of.known(arm::BETWEEN).map(InterNodeTransport::word),
            paths: of.text(arm::PATHS),
            honoured: of.known(arm::HONOURED).map(ArmApplied::word),
            honoured_why: of.text(arm::HONOURED_WHY),
            valid,
            trouble,
        }
    }
}

impl Factor {
    fn of(of: Of<'_>) -> Self {
        Factor {
            change: of.0.name(of.1).to_owned(),
            kind: of.known(factor::KIND).map(FactorChange::word),
            says: effect_sentence(of),
            pairs: of.count(factor::PAIRS),
            unchanged: of.count(factor::UNCHANGED),
            slower: of.count(factor::SLOWER),
            faster: of.count(factor::FASTER),
            undecided: of.count(factor::UNDECIDED),
            effect: of.percent(factor::EFFECT),
            range: of.interval(factor::LEAST, factor::MOST),
            interacts_with: of.text(factor::INTERACTS_WITH),
            honoured: of.known(factor::HONOURED).map(ArmApplied::word),
            effects: of.each(Subject::Effect, Effect::of),
        }
    }
}

impl Effect {
    fn of(of: Of<'_>) -> Self {
        let contradiction = of.known(effect::CONTRADICTION);
        Effect {
            reference: of.text(effect::REFERENCE),
            arm: of.text(effect::ARM),
            effect: of.percent(effect::EFFECT),
            interval: of.interval(effect::LOWER, effect::UPPER),
            outcome: of.known(effect::OUTCOME).map(Did::word),
            contradictory: contradiction.is_some_and(|by| by > of.0.limit(limit::CONTRADICTION)),
        }
    }
}

/// The effect of a change, in words.
fn effect_sentence(of: Of<'_>) -> String {
    let word = |key| of.text(key).unwrap_or_default();
    let pairs = of.count(factor::PAIRS);
    let (unchanged, slower, faster) = (
        of.count(factor::UNCHANGED),
        of.count(factor::SLOWER),
        of.count(factor::FASTER),
    );
    let several = |n: u64| match pairs {
        1 => String::new(),
        _ => format!(" in {n} of {pairs} pairs"),
    };
    if pairs == 0 {
        return match of.known(factor::CURES) {
            Some(true) => format!(
                "lets it end well; without it the run {}",
                word(factor::CURED)
            ),
            _ => "was not compared: no valid pair of runs".into(),
        };
    }
    if unchanged == pairs {
        return format!("changes nothing{}", several(unchanged));
    }
    if of.known(factor::ONLY_WITH) == Some(true) {
        return format!(
            "costs {} alone, and {} with {}",
            word(factor::COST_WITHOUT),
            word(factor::COST_WITH),
            word(factor::INTERACTS_WITH)
        );
    }
    let alone = word(factor::COST);
    if of.known(factor::OUTCOME) == Some(Did::Unchanged) {
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
    let (mut failures, subjects) = diagnosis::failures_of(facts, &verdicts);
    let mut relations = FactRelations::new(facts, &failures, &subjects);
    for cause in diagnosis::diagnose(catalogue, &mut failures, &mut relations) {
        let all = cause.failures.into_iter().chain(cause.consequences);
        let all: Vec<(usize, Id)> = all.map(|at| (failures[at].check, subjects[at])).collect();
        if all.iter().any(|(check, _)| of(*check)) {
            kept.extend(all);
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
