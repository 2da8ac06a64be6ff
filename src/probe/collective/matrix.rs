//! The arms of a measurement side by side: what each reached, and what each change does.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::proof::{Kind, Path, Proof, honour};
use crate::fact::arm::{ArmApplied, GpuDirectUse, InterNodeTransport, Outcome};
use crate::fact::factor::FactorChange;
use crate::fact::{
    BitRate, Fact, Facts, Gap, Id, Key, Membership, Origin, Percent, Seconds, Subject, Why, arm,
    effect, factor, kleene, limit, measurement,
};
use crate::measure::plan::ablation::{
    self, Effect, Figures, Interaction, Pair, Set, Thresholds, contradiction, has, interaction,
    kind, pairs, size, sizes, variables,
};
use crate::measure::plan::statistics::median;

/// What shows what channels used.
const SUBSYSTEMS: &str = "run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING";

/// The facts of what was used, which an arm has, and a measurement of its baseline.
struct Keys {
    between: Key<InterNodeTransport>,
    direct: Key<GpuDirectUse>,
    nvls: Key<bool>,
    p2p: Key<u64>,
    shm: Key<u64>,
    net: Key<u64>,
    paths: Key<Arc<str>>,
}

const OF_ARM: Keys = Keys {
    between: arm::BETWEEN,
    direct: arm::DIRECT,
    nvls: arm::NVLS,
    p2p: arm::PAIRS_P2P,
    shm: arm::PAIRS_SHM,
    net: arm::PAIRS_NET,
    paths: arm::PATHS,
};

const OF_MEASUREMENT: Keys = Keys {
    between: measurement::BETWEEN,
    direct: measurement::DIRECT,
    nvls: measurement::NVLS,
    p2p: measurement::PAIRS_P2P,
    shm: measurement::PAIRS_SHM,
    net: measurement::PAIRS_NET,
    paths: measurement::PATHS,
};

/// What figures are.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Unit {
    /// Bus bandwidth, in bits per second.
    Busbw,
    /// A throughput with this unit.
    Number(String),
    /// The inverse of a figure of which less is better: what is shown is the figure.
    Lower,
    /// Runs per second: what is shown is the time.
    Time,
}

impl Unit {
    /// A figure in words.
    fn show(&self, value: f64) -> String {
        match self {
            Unit::Busbw => bandwidth(BitRate(value.max(0.0) as u64)),
            Unit::Number(unit) => format!("{} {unit}", digits(value)).trim_end().to_owned(),
            Unit::Lower => digits(1.0 / value),
            Unit::Time => Seconds(1.0 / value).to_string(),
        }
    }
}

/// A bandwidth as benchmarks of collectives print it, and as links are rated.
fn bandwidth(rate: BitRate) -> String {
    let bytes = rate.0 as f64 / 8e9;
    let decimals = usize::from(bytes < 100.0) + usize::from(bytes < 10.0);
    format!("{bytes:.decimals$} GB/s ({:.0} Gb/s)", rate.0 as f64 / 1e9)
}

/// Four digits of a number.
fn digits(value: f64) -> String {
    let whole = value.abs().max(1e-9).log10().floor() as i32;
    let decimals = usize::try_from(3 - whole).unwrap_or(0).min(9);
    format!("{value:.decimals$}")
}

/// What was seen of the runs of an arm.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// How many runs there were.
    pub(super) started: u64,
    /// The ranks that did not end by the deadline, each with the last step that it reached.
    pub(super) hung: Vec<(String, String)>,
    /// What failed: the first of each kind.
    pub(super) failures: Vec<String>,
    /// Elements with a wrong value, in all runs.
    pub(super) wrong: u64,
    /// The first of them.
    pub(super) wrong_where: Option<String>,
    /// How long one operation took, in seconds: the median of all trials.
    pub(super) time: Option<f64>,
    /// The slowest rank, and how much longer than the median of the ranks it took, in percent.
    pub(super) slowest: Option<(String, f64)>,
    /// How far the trials of a run lie apart, of their median, in percent: the median of the runs.
    pub(super) trials_apart: Option<f64>,
    /// What was really used.
    pub(super) proof: Proof,
    /// Why the log of a run is missing, where one is.
    pub(super) log_gap: Option<Gap>,
    /// Why it is not known what became of all runs, where it is not.
    pub(super) gap: Option<Gap>,
}

/// A measurement's arms.
pub(super) struct Matrix {
    /// What each arm reached; the baseline first where there is one.
    pub(super) figures: Vec<Figures>,
    /// What the figures are.
    pub(super) unit: Unit,
    /// What somebody wrote of each arm: the figure, and time and figure together.
    pub(super) written: Vec<Option<(String, Option<String>)>>,
    /// What was seen of each arm's runs; `None` where somebody else made them.
    pub(super) seen: Option<Vec<Seen>>,
    /// Where the figures come from.
    pub(super) origin: Origin,
}

impl Matrix {
    /// States the facts of the measurement, its arms, and their differences.
    pub(super) fn state(&self, facts: &mut Facts, id: Id) {
        let known = Origin::clone(&self.origin);
        for subject in [Subject::Arm, Subject::Factor] {
            facts.set_members(subject, id, Membership::Known(known.clone()));
        }
        let noise = self.whole(facts, id);
        for at in 0..self.figures.len() {
            self.arm(facts, id, at, &noise);
        }
        let pairs = pairs(&self.figures);
        let mut changes: Vec<&Set> = Vec::new();
        for pair in &pairs {
            if !changes.contains(&&pair.change) {
                changes.push(&pair.change);
            }
        }
        let mut matter = 0;
        for change in &changes {
            let of: Vec<&Pair> = pairs.iter().filter(|p| p.change == **change).collect();
            matter += u64::from(self.factor(facts, id, change, &of, &noise));
        }
        let count = |n: u64| Fact::Known(n, known.clone());
        facts.set(id, measurement::FACTORS, count(changes.len() as u64));
        let matter = match &noise.gap {
            Some(gap) => Fact::Unknown(gap.clone()),
            None => count(matter),
        };
        facts.set(id, measurement::FACTORS_THAT_MATTER, matter);
    }

    fn seen(&self, at: usize) -> Option<&Seen> {
        self.seen.as_ref()?.get(at)
    }

    fn figure(&self, at: usize) -> Option<String> {
        match self.written.get(at) {
            Some(Some((text, _))) => Some(text.clone()),
            _ => Some(self.unit.show(self.figures.get(at)?.figure()?)),
        }
    }

    /// The arm that sets nothing.
    fn baseline(&self) -> Option<usize> {
        self.figures.iter().position(|arm| arm.set.is_empty())
    }

    /// The facts of the measurement as a whole; gives how noisy it is.
    fn whole(&self, facts: &mut Facts, id: Id) -> Noise {
        let arms = self.know(self.figures.len() as u64);
        facts.set(id, measurement::ARMS, arms);
        let rounds = self.figures.iter().map(|arm| arm.rounds.len()).max();
        let all = || (0..self.figures.len()).filter_map(|at| self.seen(at));
        let gap = all().find_map(|seen| seen.gap.as_ref());
        let rounds = self.unless(gap, rounds.unwrap_or(0) as u64);
        facts.set(id, measurement::ROUNDS, rounds);
        let baseline = self.baseline();
        let figure = baseline.and_then(|at| self.figure(at));
        let figure: Fact<Arc<str>> = self.some(figure.map(Into::into), "a valid baseline");
        facts.set(id, measurement::FIGURE, figure);
        let figures = baseline.and_then(|at| self.figures.get(at));
        if let (Unit::Busbw, Some(figure)) = (&self.unit, figures.and_then(Figures::figure)) {
            let rate = self.know(BitRate(figure as u64));
            facts.set(id, measurement::BUSBW, rate);
        }
        if matches!(self.unit, Unit::Busbw) {
            let time = baseline
                .and_then(|at| self.seen(at))
                .and_then(|seen| seen.time);
            let time = self.some(time.map(Seconds), "a valid baseline");
            facts.set(id, measurement::TIME, time);
        }
        let trials = baseline
            .and_then(|at| self.seen(at))
            .and_then(|seen| seen.trials_apart);
        let apart = match figures {
            Some(arm) if arm.rounds.len() > 1 => arm.apart(),
            // Of one round its trials are all that there is; what somebody wrote down once tells nothing of noise.
            _ => trials,
        };
        // A run that nobody knows may have been the baseline once more, and noisy.
        let open = all().find_map(|seen| seen.gap.as_ref().or(seen.log_gap.as_ref()));
        let open = open.filter(|_| self.figures.len() > 1);
        let apart = match self.again(baseline) {
            Some(again) => Some(apart.map_or(again, |apart| apart.max(again))),
            None => apart,
        };
        let drift = figures.and_then(Figures::drift);
        facts.set(
            id,
            measurement::SPREAD,
            self.unless_open(open, apart.map(Percent), "a second round"),
        );
        facts.set(
            id,
            measurement::DRIFT,
            self.some(drift.map(Percent), "a third round"),
        );
        let (most, most_drift) = (
            facts.limit(limit::BASELINE_SPREAD).0,
            facts.limit(limit::BASELINE_DRIFT).0,
        );
        let quiet =
            apart.map(|apart| apart <= most && drift.is_none_or(|drift| drift <= most_drift));
        facts.set(
            id,
            measurement::QUIET,
            self.unless_open(open, quiet, "a second round"),
        );
        let used = baseline.and_then(|at| self.seen(at));
        self.transport(facts, id, used, &OF_MEASUREMENT);
        if let Some(seen) = baseline.and_then(|at| self.seen(at)) {
            let none = figures.is_none_or(|arm| arm.rounds.is_empty());
            let gap = seen.gap.as_ref();
            facts.set(id, measurement::BASELINE_FAILED, self.unless(gap, none));
            let hung = self.seen_or(gap, !seen.hung.is_empty(), true, false);
            facts.set(id, measurement::BASELINE_HUNG, hung);
            let wrong = self.seen_or(gap, seen.wrong > 0, true, false);
            facts.set(id, measurement::BASELINE_WRONG, wrong);
        }
        if self.seen.is_none() {
            // What somebody wrote down had ended.
            facts.set(id, measurement::BASELINE_FAILED, self.know(false));
        }
        // Where the baseline has no figures, the other arms say how noisy it is.
        let others: Vec<f64> = self.figures.iter().filter_map(Figures::apart).collect();
        Noise {
            percent: apart.or(median(&others)).unwrap_or(0.0),
            quiet: quiet.unwrap_or(gap.is_none()),
            gap: open.cloned(),
            thresholds: Thresholds::new(facts.limits()),
        }
    }

    /// How far runs of the baseline lie from those of arms that had nothing to take away: these are the baseline once more, and tell how noisy it is.
    fn again(&self, baseline: Option<usize>) -> Option<f64> {
        let baseline = baseline?;
        let before = self.seen(baseline)?;
        let is_same = |at: &usize| {
            let seen = self.seen(*at).filter(|seen| seen.log_gap.is_none());
            let set = self.figures.get(*at).map(|own| &own.set);
            set.zip(seen).is_some_and(|(set, seen)| {
                honour(set, &before.proof, &seen.proof).0 == ArmApplied::Nothing
            })
        };
        let others = (0..self.figures.len()).filter(|at| *at != baseline);
        let same: Vec<f64> = others
            .filter(is_same)
            .filter_map(|at| self.figures.get(at)?.figure())
            .chain(self.figures.get(baseline)?.figure())
            .collect();
        let median = median(&same).filter(|middle| *middle > 0.0 && same.len() > 1)?;
        let (least, most) = (
            same.iter().copied().reduce(f64::min)?,
            same.iter().copied().reduce(f64::max)?,
        );
        Some(100.0 * (most - least) / median)
    }

    /// The value, unless something of it is missing.
    fn unless<T>(&self, gap: Option<&Gap>, value: T) -> Fact<T> {
        match gap {
            Some(gap) => Fact::Unknown(gap.clone()),
            None => self.know(value),
        }
    }

    /// What was seen of a rank, where it was: it holds whatever became of the others. Else `none`, unless a reply is missing.
    fn seen_or<T>(&self, gap: Option<&Gap>, is_seen: bool, seen: T, none: T) -> Fact<T> {
        match kleene::proven(is_seen, gap) {
            Ok(true) => self.know(seen),
            Ok(false) => self.know(none),
            Err(gap) => Fact::Unknown(gap),
        }
    }

    fn know<T>(&self, value: T) -> Fact<T> {
        Fact::Known(value, self.origin.clone())
    }

    /// The value, unless something of it is missing, or all.
    fn unless_open<T>(&self, gap: Option<&Gap>, value: Option<T>, what: &str) -> Fact<T> {
        match gap {
            Some(gap) => Fact::Unknown(gap.clone()),
            None => self.some(value, what),
        }
    }

    fn some<T>(&self, value: Option<T>, what: &str) -> Fact<T> {
        match value {
            Some(value) => self.know(value),
            None => Fact::Unknown(Gap::missing(what.to_owned())),
        }
    }

    fn arm(&self, facts: &mut Facts, measurement: Id, at: usize, noise: &Noise) {
        let Some(own) = self.figures.get(at) else {
            return;
        };
        let id = facts.instance(Subject::Arm, measurement, &own.name);
        let text = |text: String| -> Fact<Arc<str>> { self.know(text.into()) };
        facts.set(id, arm::NAME, text(own.name.clone()));
        let set = match own.set.is_empty() {
            true => "none".into(),
            false => variables(&own.set),
        };
        facts.set(id, arm::VARIABLES, text(set));
        facts.set(id, arm::CHANGES, self.know(own.set.len() as u64));
        facts.set(id, arm::IS_BASELINE, self.know(own.set.is_empty()));
        for (key, change) in [
            (arm::IB_OFF, FactorChange::IbOff),
            (arm::SHM_OFF, FactorChange::ShmOff),
            (arm::P2P_OFF, FactorChange::P2pOff),
            (arm::GDR_OFF, FactorChange::GdrOff),
        ] {
            facts.set(id, key, self.know(has(&own.set, change)));
        }
        let rails = own
            .set
            .get("NCCL_CROSS_NIC")
            .is_some_and(|value| value == "0");
        facts.set(id, arm::CROSS_NIC_0, self.know(rails));
        let figure = self.figure(at);
        facts.set(
            id,
            arm::FIGURE,
            self.some(figure.map(Into::into), "a valid run"),
        );
        facts.set(id, arm::RUNS, self.know(own.rounds.len() as u64));
        facts.set(
            id,
            arm::SPREAD,
            self.some(own.apart().map(Percent), "a valid run"),
        );
        if self.unit == Unit::Busbw {
            self.busbw(facts, id, own, noise);
        }
        self.against_baseline(facts, id, own, noise);
        self.used(facts, id, at);
    }

    fn busbw(&self, facts: &mut Facts, id: Id, own: &Figures, noise: &Noise) {
        let values = own.values();
        let ends = ablation::ends_of(&values, noise.percent);
        let figure = median(&values);
        let open = noise.gap.as_ref();
        let rates: [(Key<BitRate>, Option<f64>, Option<&Gap>); 3] = [
            (arm::BUSBW, figure, None),
            (arm::LOWER, ends.map(|(low, _)| low), open),
            (arm::UPPER, ends.map(|(_, high)| high), open),
        ];
        for (key, value, gap) in rates {
            let rate = value.map(|value| BitRate(value.max(0.0) as u64));
            facts.set(id, key, self.unless_open(gap, rate, "a valid run"));
        }
    }

    /// The effect of the whole arm against the one that sets nothing.
    fn against_baseline(&self, facts: &mut Facts, id: Id, own: &Figures, noise: &Noise) {
        let baseline = self.baseline().and_then(|at| self.figures.get(at));
        let effect = baseline.and_then(|other| Effect::of(other, own, noise.percent));
        let what = "a valid run of it and of the baseline";
        let open = noise.gap.as_ref();
        let percent = |of: fn(&Effect) -> f64, gap| {
            self.unless_open(gap, effect.as_ref().map(of).map(Percent), what)
        };
        facts.set(id, arm::EFFECT, percent(|e| e.effect, None));
        facts.set(id, arm::EFFECT_LOWER, percent(|e| e.lower, open));
        facts.set(id, arm::EFFECT_UPPER, percent(|e| e.upper, open));
        let outcome = effect.as_ref().map(|e| noise.outcome(e));
        facts.set(id, arm::OUTCOME, self.unless_open(open, outcome, what));
        let words = effect.as_ref().map(|e| size(e.effect).into());
        facts.set(id, arm::CHANGE, self.some(words, what));
    }

    /// What was seen of the runs.
    fn used(&self, facts: &mut Facts, id: Id, at: usize) {
        let Some(seen) = self.seen(at) else {
            self.transport(facts, id, None, &OF_ARM);
            facts.set(id, arm::HONOURED, self.know(ArmApplied::NotLogged));
            let why = "somebody else ran it, and nothing of its log is here";
            facts.set(id, arm::HONOURED_WHY, self.know(why.into()));
            let valid = self.know(!self.figures.get(at).is_none_or(|f| f.rounds.is_empty()));
            facts.set(id, arm::VALID, valid);
            return;
        };
        let before = self.baseline().and_then(|at| self.seen(at));
        self.transport(facts, id, Some(seen), &OF_ARM);
        self.inside(facts, id, seen);
        let (honour, why) = match before {
            _ if self.figures.get(at).is_none_or(|own| own.set.is_empty()) => {
                (ArmApplied::NotSeen, "it sets nothing".into())
            }
            Some(before) => honour(&self.figures[at].set, &before.proof, &seen.proof),
            None => (ArmApplied::NotLogged, "there is no baseline".into()),
        };
        let gap = before.into_iter().chain([seen]);
        let gap = gap.filter_map(|seen| seen.log_gap.as_ref()).next();
        facts.set(id, arm::HONOURED, self.unless(gap, honour));
        facts.set(id, arm::HONOURED_WHY, self.unless(gap, why.into()));
        self.ended(facts, id, at, seen);
    }

    /// What the log says that was used: of an arm, and of the baseline of the measurement.
    fn transport(&self, facts: &mut Facts, id: Id, seen: Option<&Seen>, keys: &Keys) {
        let gap = seen.and_then(|seen| seen.log_gap.as_ref());
        let proof = seen.map(|seen| &seen.proof);
        let between = proof.and_then(|proof| proof.between);
        let between = self.unless(gap, between.unwrap_or(InterNodeTransport::NotLogged));
        facts.set(id, keys.between, between);
        let direct = proof.map_or(GpuDirectUse::NotLogged, Proof::direct);
        facts.set(id, keys.direct, self.unless(gap, direct));
        let missing = || gap.cloned().unwrap_or_else(|| self.not_logged());
        facts.set(
            id,
            keys.nvls,
            match proof.and_then(|proof| proof.nvls) {
                Some(nvls) => self.unless(gap, nvls),
                None => Fact::Unknown(missing()),
            },
        );
        let channels = proof.filter(|proof| proof.channels);
        let inside = |path: &Path| path.inside == Some(true);
        let count = |is: &dyn Fn(&Path) -> bool| match channels {
            Some(proof) => self.unless(gap, proof.count(is)),
            None => Fact::Unknown(missing()),
        };
        let p2p = count(&|path| path.kind == Kind::P2p);
        facts.set(id, keys.p2p, p2p);
        let shm = count(&|path| path.kind == Kind::Shm);
        facts.set(id, keys.shm, shm);
        let net = count(&|path| inside(path) && matches!(path.kind, Kind::Net(..)));
        facts.set(id, keys.net, net);
        let paths = match channels {
            Some(proof) => self.unless(gap, proof.in_short().into()),
            None => Fact::Unknown(missing()),
        };
        facts.set(id, keys.paths, paths);
    }

    /// What the log says of the pairs of ranks on one node.
    fn inside(&self, facts: &mut Facts, id: Id, seen: &Seen) {
        let (proof, gap) = (&seen.proof, seen.log_gap.as_ref());
        if !proof.channels {
            let gap = gap.cloned().unwrap_or_else(|| self.not_logged());
            facts.set(id, arm::INSIDE, Fact::Unknown(gap.clone()));
            facts.set(id, arm::SHM_PAIR, Fact::Unknown(gap));
            return;
        }
        let words = proof.inside().into_iter().map(Into::into).collect();
        facts.set(id, arm::INSIDE, self.unless(gap, words));
        let pair = proof.first(|path| path.kind == Kind::Shm);
        let pair = pair.map(|(a, b)| format!("ranks {a} and {b}").into());
        let what = "a pair of ranks that uses shared memory";
        facts.set(id, arm::SHM_PAIR, self.some(pair, what));
    }

    fn not_logged(&self) -> Gap {
        Gap {
            why: Why::NotLogged(SUBSYSTEMS),
            origin: self.origin.clone(),
        }
    }

    /// How the runs ended.
    fn ended(&self, facts: &mut Facts, id: Id, at: usize, seen: &Seen) {
        let gap = seen.gap.as_ref();
        facts.set(id, arm::STARTED, self.unless(gap, seen.started));
        let hung = !seen.hung.is_empty();
        facts.set(id, arm::HUNG, self.seen_or(gap, hung, true, false));
        let ranks = seen.hung.iter().map(|(rank, _)| rank.as_str().into());
        let ranks = self.seen_or(gap, hung, ranks.collect(), Arc::default());
        facts.set(id, arm::HUNG_RANKS, ranks);
        let steps = last_steps(&seen.hung).into();
        facts.set(
            id,
            arm::LAST_STEP,
            self.seen_or(gap, hung, steps, "none".into()),
        );
        let failed = !seen.failures.is_empty();
        facts.set(id, arm::FAILED, self.seen_or(gap, failed, true, false));
        let failure = match seen.failures.split_first() {
            None => "none".to_owned(),
            Some((first, [])) => first.clone(),
            Some((first, rest)) => format!("{first}, and {} more", rest.len()),
        };
        facts.set(
            id,
            arm::FAILURE,
            self.seen_or(gap, failed, failure.into(), "none".into()),
        );
        let wrong = seen.wrong > 0;
        facts.set(id, arm::WRONG, self.seen_or(gap, wrong, seen.wrong, 0));
        let place = seen.wrong_where.as_deref().unwrap_or("none").into();
        facts.set(
            id,
            arm::WRONG_WHERE,
            self.seen_or(gap, wrong, place, "none".into()),
        );
        let (rank, excess) = match &seen.slowest {
            Some((rank, excess)) => (Some(rank.as_str().into()), Some(Percent(*excess))),
            None => (None, None),
        };
        let what = "a run of several ranks that ended well";
        facts.set(id, arm::SLOWEST_RANK, self.some(rank, what));
        facts.set(id, arm::SLOWEST_EXCESS, self.some(excess, what));
        let rounds = self.figures.get(at).map_or(0, |own| own.rounds.len());
        facts.set(id, arm::VALID, self.unless(gap, rounds > 0));
        let why = match (rounds, seen) {
            (1.., _) => "none".into(),
            (_, seen) if !seen.hung.is_empty() => "it hung".to_owned(),
            (_, seen) if !seen.failures.is_empty() => "it failed".into(),
            (_, seen) if seen.wrong > 0 => format!("{} elements came wrong", seen.wrong),
            _ => "no run ended well".into(),
        };
        facts.set(id, arm::INVALID_WHY, self.unless(gap, why.into()));
    }

    /// States one change over all pairs that differ by it alone; gives whether it makes a difference.
    fn factor(
        &self,
        facts: &mut Facts,
        measurement: Id,
        change: &Set,
        pairs: &[&Pair],
        noise: &Noise,
    ) -> bool {
        let id = facts.instance(Subject::Factor, measurement, &variables(change));
        let kind = match change.iter().collect::<Vec<_>>().as_slice() {
            [(name, value)] => kind(name, value),
            _ => FactorChange::Other,
        };
        let mut measured: Vec<(&Pair, Effect)> = Vec::new();
        for pair in pairs {
            let (before, after) = (&self.figures[pair.reference], &self.figures[pair.arm]);
            if let Some(effect) = Effect::of(before, after, noise.percent) {
                self.effect(facts, id, pair, &effect, noise);
                measured.push((pair, effect));
            }
        }
        facts.set(id, factor::CHANGE, self.know(variables(change).into()));
        facts.set(id, factor::KIND, self.know(kind));
        let arms = || pairs.iter().flat_map(|pair| [pair.reference, pair.arm]);
        let missing = |of: fn(&Seen) -> Option<&Gap>| {
            arms().filter_map(|at| self.seen(at)).filter_map(of).next()
        };
        let honoured = self.unless(missing(|seen| seen.log_gap.as_ref()), self.honoured(pairs));
        facts.set(id, factor::HONOURED, honoured);
        let members = match missing(|seen| seen.gap.as_ref()) {
            // A pair that is not known is not one that there is not.
            Some(gap) => Membership::Unknown(gap.clone()),
            None => Membership::Known(self.origin.clone()),
        };
        facts.set_members(Subject::Effect, id, members);
        if let Some(gap) = missing(|seen| seen.gap.as_ref()).or(noise.gap.as_ref()) {
            // Of pairs that are not all known nobody says how many are alike.
            for key in [
                factor::PAIRS,
                factor::UNCHANGED,
                factor::SLOWER,
                factor::FASTER,
                factor::UNDECIDED,
            ] {
                facts.set(id, key, Fact::Unknown(gap.clone()));
            }
            for key in [factor::CURES, factor::BREAKS, factor::INTERACTS] {
                facts.set(id, key, Fact::Unknown(gap.clone()));
            }
            facts.set(id, factor::OUTCOME, Fact::Unknown(gap.clone()));
            return false;
        }
        facts.set(id, factor::PAIRS, self.know(measured.len() as u64));
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, effect) in &measured {
            *counts.entry(noise.outcome(effect).word()).or_default() += 1;
        }
        for (key, outcome) in [
            (factor::UNCHANGED, Outcome::Unchanged),
            (factor::SLOWER, Outcome::Slower),
            (factor::FASTER, Outcome::Faster),
            (factor::UNDECIDED, Outcome::Undecided),
        ] {
            let count = counts.get(outcome.word()).copied().unwrap_or(0);
            facts.set(id, key, self.know(count));
        }
        self.sizes(facts, id, &measured, noise);
        let all_off = |(pair, effect): &(&Pair, Effect)| {
            has(&pair.held, FactorChange::P2pOff)
                && has(&pair.held, FactorChange::ShmOff)
                && noise.outcome(effect) == Outcome::Unchanged
        };
        let all_off = measured.iter().any(all_off);
        let even = match all_off {
            true => {
                ", not even where P2P and shared memory are off and all traffic takes the network"
            }
            false => "",
        };
        facts.set(id, factor::EVEN, self.know(even.into()));
        let each = measured.iter().map(|(pair, effect)| {
            let (before, after) = (&self.figures[pair.reference], &self.figures[pair.arm]);
            format!("{} to {}: {:+.1} %", before.name, after.name, effect.effect).into()
        });
        facts.set(id, factor::EACH, self.know(each.collect()));
        self.cures(facts, id, pairs);
        measured
            .iter()
            .any(|(_, effect)| matches!(noise.outcome(effect), Outcome::Slower | Outcome::Faster))
    }

    fn sizes(&self, facts: &mut Facts, id: Id, measured: &[(&Pair, Effect)], noise: &Noise) {
        let alone = measured.iter().find(|(pair, _)| pair.held.is_empty());
        let outcome = alone.map(|(_, effect)| noise.outcome(effect));
        facts.set(
            id,
            factor::OUTCOME,
            self.some(outcome, "a valid pair with the baseline"),
        );
        let alone = alone.map(|(_, effect)| effect.effect);
        let what = "a valid pair of arms";
        facts.set(id, factor::EFFECT, self.some(alone.map(Percent), what));
        let words = alone.map(|effect| size(effect).into());
        facts.set(id, factor::COST, self.some(words, what));
        let effects = || measured.iter().map(|(_, effect)| effect.effect);
        let (least, most) = (effects().reduce(f64::min), effects().reduce(f64::max));
        facts.set(id, factor::LEAST, self.some(least.map(Percent), what));
        facts.set(id, factor::MOST, self.some(most.map(Percent), what));
        let range = least.zip(most).map(|(a, b)| sizes(a, b).into());
        facts.set(id, factor::RANGE, self.some(range, what));
        let change = noise.thresholds.change;
        let found = interaction(measured, change);
        facts.set(id, factor::INTERACTS, self.know(found.is_some()));
        let Some(found) = found else { return };
        let Interaction {
            with,
            beside,
            without,
        } = found;
        let with = format!("{}={}", with.0, with.1);
        facts.set(id, factor::INTERACTS_WITH, self.know(with.into()));
        let beside_words = sizes(beside.0, beside.1);
        facts.set(id, factor::COST_WITH, self.know(beside_words.into()));
        let without_words = sizes(without.0, without.1);
        facts.set(id, factor::COST_WITHOUT, self.know(without_words.into()));
        let only = beside.1 <= -change && without.0 > -change;
        facts.set(id, factor::ONLY_WITH, self.know(only));
    }

    fn effect(&self, facts: &mut Facts, factor: Id, pair: &Pair, found: &Effect, noise: &Noise) {
        let (before, after) = (&self.figures[pair.reference], &self.figures[pair.arm]);
        let name = format!("{} to {}", before.name, after.name);
        let id = facts.instance(Subject::Effect, factor, &name);
        let text = |text: &str| -> Fact<Arc<str>> { self.know(text.into()) };
        facts.set(id, effect::REFERENCE, text(&before.name));
        facts.set(id, effect::ARM, text(&after.name));
        let held = match pair.held.is_empty() {
            true => "nothing".into(),
            false => variables(&pair.held),
        };
        facts.set(id, effect::HELD, text(&held));
        for (key, at) in [(effect::BEFORE, pair.reference), (effect::AFTER, pair.arm)] {
            let figure = self.figure(at).map(Into::into);
            facts.set(id, key, self.some(figure, "a valid run"));
        }
        facts.set(id, effect::EFFECT, self.know(Percent(found.effect)));
        let open = noise.gap.as_ref();
        facts.set(id, effect::LOWER, self.unless(open, Percent(found.lower)));
        facts.set(id, effect::UPPER, self.unless(open, Percent(found.upper)));
        let outcome = self.unless(open, noise.outcome(found));
        facts.set(id, effect::OUTCOME, outcome);
        facts.set(id, effect::ROUNDS, self.know(found.rounds as u64));
        let contradiction = Percent(contradiction(before, after));
        facts.set(id, effect::CONTRADICTION, self.know(contradiction));
        for (key, of) in [(effect::TIME_BEFORE, before), (effect::TIME_AFTER, after)] {
            let time = of.seconds.map(Seconds);
            facts.set(id, key, self.some(time, "a time that somebody wrote down"));
        }
        let both = |at: usize| self.written.get(at)?.as_ref()?.1.clone();
        let figures = both(pair.reference)
            .zip(both(pair.arm))
            .map(|(a, b)| format!("{a} and {b}").into());
        facts.set(
            id,
            effect::FIGURES,
            self.some(figures, "time and throughput of both"),
        );
    }

    /// What a change cured, or broke, where its reference hung, failed or had wrong results.
    fn cures(&self, facts: &mut Facts, id: Id, pairs: &[&Pair]) {
        if self.seen.is_none() {
            let gap = Gap {
                why: Why::Missing("what became of the runs".into()),
                origin: self.origin.clone(),
            };
            facts.set(id, factor::CURES, Fact::Unknown(gap.clone()));
            facts.set(id, factor::BREAKS, Fact::Unknown(gap));
            return;
        }
        // One run of several that ended badly may be chance: what never ended well counts.
        let trouble = |at: usize| -> Option<&'static str> {
            let seen = self.seen(at)?;
            if self
                .figures
                .get(at)
                .is_some_and(|arm| !arm.rounds.is_empty())
            {
                None
            } else if !seen.hung.is_empty() {
                Some("hung")
            } else if !seen.failures.is_empty() {
                Some("failed")
            } else if seen.wrong > 0 {
                Some("had wrong results")
            } else {
                None
            }
        };
        let well = |at: usize| {
            let clean =
                |seen: &Seen| seen.hung.is_empty() && seen.failures.is_empty() && seen.wrong == 0;
            self.seen(at).is_some_and(clean)
                && self
                    .figures
                    .get(at)
                    .is_some_and(|arm| !arm.rounds.is_empty())
        };
        let cured = pairs
            .iter()
            .find_map(|pair| trouble(pair.reference).filter(|_| well(pair.arm)));
        facts.set(id, factor::CURES, self.know(cured.is_some()));
        facts.set(id, factor::CURED, self.know(cured.unwrap_or("none").into()));
        let breaks = pairs
            .iter()
            .any(|pair| trouble(pair.arm).is_some() && well(pair.reference));
        facts.set(id, factor::BREAKS, self.know(breaks));
    }

    /// What is known of all pairs' arms together: what spoils a comparison leads.
    fn honoured(&self, pairs: &[&Pair]) -> ArmApplied {
        let of = |pair: &&Pair| {
            let (before, after) = (self.seen(pair.reference)?, self.seen(pair.arm)?);
            Some(honour(&pair.change, &before.proof, &after.proof).0)
        };
        let all: Vec<ArmApplied> = pairs.iter().filter_map(of).collect();
        // What spoils a comparison leads; what one pair had to take away was taken away.
        let order = [
            ArmApplied::Ignored,
            ArmApplied::NotRead,
            ArmApplied::NotLogged,
            ArmApplied::Honoured,
            ArmApplied::NotSeen,
            ArmApplied::Nothing,
        ];
        let mut found = order.into_iter().filter(|honour| all.contains(honour));
        found.next().unwrap_or(ArmApplied::NotLogged)
    }
}

/// Who hung where: those that reached the same step together.
fn last_steps(hung: &[(String, String)]) -> String {
    let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
    for (rank, step) in hung {
        match steps.iter_mut().find(|(other, _)| other == step) {
            Some((_, ranks)) => ranks.push(rank),
            None => steps.push((step, vec![rank])),
        }
    }
    let each = steps.iter().map(|(step, ranks)| match ranks.as_slice() {
        [rank] => format!("{rank}: {step}"),
        ranks => {
            let step = step.replacen("its last step", "their last step", 1);
            format!("{}: {step}", ranks.join(", "))
        }
    });
    match hung {
        [] => "none".to_owned(),
        _ => each.collect::<Vec<_>>().join("; "),
    }
}

/// How noisy a measurement is.
struct Noise {
    /// How far the rounds of the baseline lie apart, in percent.
    percent: f64,
    /// Whether that lets arms be compared.
    quiet: bool,
    /// Which run is missing that may have shown more of it.
    gap: Option<Gap>,
    /// From where on a difference is a change.
    thresholds: Thresholds,
}

impl Noise {
    /// What a change did.
    fn outcome(&self, effect: &Effect) -> Outcome {
        effect.outcome(self.quiet, &self.thresholds)
    }
}
