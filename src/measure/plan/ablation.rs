//! What arms say against each other: effects with their intervals, each change over all pairs that
//! differ by it alone, and where changes interact.
//!
//! Arms are measured in rounds, one start of each arm in a round, so that a drift of the machine
//! falls on all of them; an effect is therefore taken round by round. Of a few rounds nobody can
//! say more than between which values they lie: up to five the interval is from the least to the
//! most, widened by how far the rounds of the baseline lie apart; from six on it is that of order
//! statistics.

use super::host_arms;
use super::statistics::{extremes, median, range_of_median};
use crate::fact::arm::Outcome;
pub use crate::fact::arms::{Figures, Set};
use crate::fact::factor::FactorChange;
use crate::fact::{Limits, limit};
use crate::sentence::shell::assignment;
use crate::small_sort;

/// From where on a difference between arms is a change, in percent: limits of checks, as plain
/// numbers.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// A smaller difference is none.
    pub change: f64,
    /// The least difference that one run alone proves.
    pub change_of_one_run: f64,
}

impl Thresholds {
    /// The thresholds that these limits set.
    pub fn new(limits: &Limits) -> Self {
        Thresholds {
            change: limits.get(limit::CHANGE).0,
            change_of_one_run: limits.get(limit::CHANGE_OF_ONE_RUN).0,
        }
    }
}

impl Figures {
    /// The median of the rounds.
    pub fn figure(&self) -> Option<f64> {
        median(&self.values())
    }

    /// What the rounds reached, in their order.
    pub fn values(&self) -> Vec<f64> {
        self.rounds.values().copied().collect()
    }

    /// How far all rounds lie apart, of their median, in percent.
    pub fn apart(&self) -> Option<f64> {
        let values = self.values();
        let (low, high) = extremes(&values)?;
        let median = median(&values).filter(|m| *m > 0.0)?;
        Some(100.0 * (high - low) / median)
    }

    /// How much the figure changed from the first round to the last, in percent of their median,
    /// either way; zero where it went up and down. Of fewer than three rounds nobody can tell a
    /// drift from noise.
    pub fn drift(&self) -> Option<f64> {
        let values = self.values();
        let (first, last) = (values.first()?, values.last()?);
        let median = median(&values).filter(|m| *m > 0.0 && values.len() > 2)?;
        let falls = values.is_sorted_by(|a, b| a >= b);
        Some(if falls || values.is_sorted() {
            100.0 * (last - first).abs() / median
        } else {
            0.0
        })
    }
}

/// The effect of a change, in percent of the reference's throughput: below zero is slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The median over the rounds.
    pub effect: f64,
    /// The least of the interval.
    pub lower: f64,
    /// The most of the interval.
    pub upper: f64,
    /// How many rounds both arms have.
    pub rounds: usize,
    /// Whether the rounds of both arms lie so far from each other that noise cannot be the reason,
    /// however noisy other arms are.
    pub is_apart: bool,
}

impl Effect {
    /// The effect of an arm against a reference. `noise` is how far the rounds of the baseline lie
    /// apart, in percent.
    pub fn of(reference: &Figures, arm: &Figures, noise: f64) -> Option<Self> {
        let paired = paired(reference, arm);
        let (values, paired) = if paired.is_empty() {
            let before = reference.figure().filter(|before| *before > 0.0)?;
            (vec![percent(before, arm.figure()?)], false)
        } else {
            (paired, true)
        };
        let effect = median(&values)?;
        let ends = range_of_median(&values);
        let few = ends.is_none();
        let (mut lower, mut upper) = ends.or_else(|| extremes(&values))?;
        // What was rounded when it was written down may be half a digit more or less, at both ends.
        if let (Some(before), Some(after)) = (reference.figure(), arm.figure())
            && before > reference.resolution
            && reference.resolution + arm.resolution > 0.0
        {
            lower = lower.min(percent(
                before + reference.resolution,
                after - arm.resolution,
            ));
            upper = upper.max(percent(
                before - reference.resolution,
                after + arm.resolution,
            ));
        }
        if few || !paired {
            lower -= noise;
            upper += noise;
        }
        Some(Effect {
            effect,
            lower,
            upper,
            rounds: values.len(),
            is_apart: are_apart(&reference.values(), &arm.values()),
        })
    }

    /// What the change did. Of a measurement that is not quiet only arms that lie apart tell.
    pub fn outcome(&self, quiet: bool, thresholds: &Thresholds) -> Outcome {
        if self.is_apart && self.effect.abs() >= thresholds.change_of_one_run {
            return if self.effect < 0.0 {
                Outcome::Slower
            } else {
                Outcome::Faster
            };
        }
        if !quiet {
            return Outcome::Undecided;
        }
        if self.lower > -thresholds.change && self.upper < thresholds.change {
            return Outcome::Unchanged;
        }
        let enough = match self.rounds {
            // Of two rounds nobody knows whether one was odd.
            0..=2 => thresholds.change_of_one_run,
            _ => thresholds.change,
        };
        if self.upper < 0.0 && self.effect <= -enough {
            Outcome::Slower
        } else if self.lower > 0.0 && self.effect >= enough {
            Outcome::Faster
        } else {
            Outcome::Undecided
        }
    }
}

/// Whether the ranges of two arms do not overlap. Of few rounds that may be chance: then the gap
/// between them has to be as wide as the wider range.
fn are_apart(reference: &[f64], arm: &[f64]) -> bool {
    const MANY: usize = 4;
    let fewest = reference.len().min(arm.len());
    let (Some(before), Some(after)) = (extremes(reference), extremes(arm)) else {
        return false;
    };
    let gap = (after.0 - before.1).max(before.0 - after.1);
    let widest = (before.1 - before.0).max(after.1 - after.0);
    match fewest {
        0..=2 => false,
        3..MANY => gap > widest,
        _ => gap > 0.0,
    }
}

fn percent(before: f64, after: f64) -> f64 {
    100.0 * (after / before - 1.0)
}

/// The effect in each round that both arms have, in percent.
fn paired(reference: &Figures, arm: &Figures) -> Vec<f64> {
    let rounds = reference.rounds.iter().filter(|(_, before)| **before > 0.0);
    rounds
        .filter_map(|(round, before)| Some(percent(*before, *arm.rounds.get(round)?)))
        .collect()
}

/// The effect of a change over all its pairs of arms, if these agree: each pair's interval holds
/// it. `None` where it differs from pair to pair, and where there are too few rounds to tell.
pub fn pooled(arms: &[Figures], pairs: &[(&Pair, Effect)]) -> Option<Effect> {
    let all = pairs.iter();
    let all = all.flat_map(|(pair, _)| paired(&arms[pair.reference], &arms[pair.arm]));
    let values: Vec<f64> = all.collect();
    let (lower, upper) = range_of_median(&values)?;
    let effect = median(&values)?;
    let agree = |(_, own): &(&Pair, Effect)| own.lower <= effect && effect <= own.upper;
    pairs.iter().all(agree).then_some(Effect {
        effect,
        lower,
        upper,
        rounds: values.len(),
        is_apart: false,
    })
}

/// Between which values the median lies: what order statistics say of six values or more, else the
/// least and the most, widened by `noise` percent.
pub fn ends_of(values: &[f64], noise: f64) -> Option<(f64, f64)> {
    if let Some(ends) = range_of_median(values) {
        return Some(ends);
    }
    let (low, high) = extremes(values)?;
    Some((
        low * (1.0 - noise / 100.0).max(0.0),
        high * (1.0 + noise / 100.0),
    ))
}

/// Two arms that differ by one change.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The arm without the change, by its place.
    pub reference: usize,
    /// The arm with it.
    pub arm: usize,
    /// What the arm sets besides what the reference sets.
    pub change: Set,
    /// What both set.
    pub held: Set,
}

/// All pairs of arms of which one sets one variable more than the other. An arm that is no such
/// other's is held against the one that sets nothing.
pub fn pairs(arms: &[Figures]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (arm, own) in arms.iter().enumerate() {
        let before = pairs.len();
        for (reference, other) in arms.iter().enumerate() {
            let within = other
                .set
                .iter()
                .all(|(name, value)| own.set.get(name) == Some(value));
            if within && other.set.len() + 1 == own.set.len() {
                pairs.push(pair(arms, reference, arm));
            }
        }
        let nothing = arms.iter().position(|a| a.set.is_empty());
        if let Some(reference) = nothing
            && pairs.len() == before
            && !own.set.is_empty()
        {
            pairs.push(pair(arms, reference, arm));
        }
    }
    pairs
}

fn pair(arms: &[Figures], reference: usize, arm: usize) -> Pair {
    let held = arms[reference].set.clone();
    let more = |(name, value): (&String, &String)| {
        (!held.contains_key(name)).then(|| (name.clone(), value.clone()))
    };
    Pair {
        reference,
        arm,
        change: arms[arm].set.iter().filter_map(more).collect(),
        held,
    }
}

/// By how much time and throughput of two arms contradict each other, in percent: the arm is slower
/// by one, and faster by the other. Zero where both agree, or one of them is not known.
pub fn contradiction(reference: &Figures, arm: &Figures) -> f64 {
    let figures = [
        reference.seconds,
        arm.seconds,
        reference.figure(),
        arm.figure(),
    ];
    let [Some(before), Some(after), Some(low), Some(high)] = figures else {
        return 0.0;
    };
    if [before, after, low, high]
        .iter()
        .any(|figure| *figure <= 0.0)
    {
        return 0.0;
    }
    let by_time = before / after - 1.0;
    let by_figure = high / low - 1.0;
    let exact = (reference.resolution + arm.resolution) / low;
    if by_time * by_figure < 0.0 && by_figure.abs() > exact {
        100.0 * (by_time - by_figure).abs()
    } else {
        0.0
    }
}

/// A change beside which another has another effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Interaction {
    /// The change that is held.
    pub with: (String, String),
    /// The effects beside it, from the least to the most.
    pub beside: (f64, f64),
    /// The effects without it.
    pub without: (f64, f64),
}

/// Beside which other change this one's effects differ most: the effects lie apart from each other,
/// by more than `change` percent.
pub fn interaction(pairs: &[(&Pair, Effect)], change: f64) -> Option<Interaction> {
    let mut held: Vec<(&String, &String)> = pairs.iter().flat_map(|(p, _)| &p.held).collect();
    held.sort_unstable();
    held.dedup();
    let mut found: Option<(f64, Interaction)> = None;
    for (name, value) in held {
        let (beside, without): (Vec<_>, Vec<_>) = pairs
            .iter()
            .partition(|(pair, _)| pair.held.get(name) == Some(value));
        let (Some(beside), Some(without)) = (ends(&beside), ends(&without)) else {
            continue;
        };
        let apart = (without.0 - beside.1).max(beside.0 - without.1);
        let means = ((beside.0 + beside.1) - (without.0 + without.1)).abs() / 2.0;
        if apart > 0.0 && means > change && found.as_ref().is_none_or(|(most, _)| means > *most) {
            let with = (name.clone(), value.clone());
            found = Some((
                means,
                Interaction {
                    with,
                    beside,
                    without,
                },
            ));
        }
    }
    found.map(|(_, interaction)| interaction)
}

/// The least and the most of these effects, the ends of their intervals not counted.
fn ends(pairs: &[&(&Pair, Effect)]) -> Option<(f64, f64)> {
    let effects = || pairs.iter().map(|(_, effect)| effect.effect);
    Some((effects().reduce(f64::min)?, effects().reduce(f64::max)?))
}

/// What a variable with this value takes away, or turns.
pub fn kind(name: &str, value: &str) -> FactorChange {
    let on = value.trim().parse::<i64>().is_ok_and(|n| n != 0);
    let lower = value.to_ascii_lowercase();
    match name {
        "NCCL_IB_DISABLE" if on => FactorChange::IbOff,
        "NCCL_NET" if lower == "socket" => FactorChange::IbOff,
        "NCCL_SHM_DISABLE" if on => FactorChange::ShmOff,
        "NCCL_P2P_DISABLE" if on => FactorChange::P2pOff,
        "NCCL_P2P_LEVEL" if lower == "loc" || lower == "0" => FactorChange::P2pOff,
        "NCCL_NET_GDR_LEVEL" if lower == "loc" || lower == "0" => FactorChange::GdrOff,
        "NCCL_NET_GDR_LEVEL" if lower == "sys" => FactorChange::GdrAnywhere,
        "NCCL_NVLS_ENABLE" if lower == "0" => FactorChange::NvlsOff,
        "NCCL_PXN_DISABLE" if on => FactorChange::PxnOff,
        "NCCL_CROSS_NIC" => FactorChange::CrossNic,
        "NCCL_IB_QPS_PER_CONNECTION" => FactorChange::QueuePairs,
        "NCCL_ALGO" => FactorChange::Algorithm,
        "NCCL_IB_PCI_RELAXED_ORDERING" => FactorChange::RelaxedOrdering,
        "NCCL_IB_AR_THRESHOLD" => FactorChange::AdaptiveRouting,
        "NCCL_SOCKET_NTHREADS" | "NCCL_NSOCKS_PERTHREAD" => FactorChange::SocketThreads,
        host_arms::STREAMS => FactorChange::SocketThreads,
        host_arms::RAIL => FactorChange::Rail,
        host_arms::MTU => FactorChange::PacketSize,
        _ => FactorChange::Other,
    }
}

/// Whether a set of variables has this effect among others.
pub fn has(set: &Set, wanted: FactorChange) -> bool {
    set.iter().any(|(name, value)| kind(name, value) == wanted)
}

/// Variables as people write them before a command, in one line.
pub fn variables(set: &Set) -> String {
    let all: Vec<String> = set.iter().map(|(n, v)| assignment(n, v)).collect();
    all.join(" ")
}

/// The name of an arm that sets these variables: `ib-off+shm-off`; `baseline` where it sets none.
pub fn name_of(set: &Set) -> String {
    if set.is_empty() {
        return crate::measure::plan::run::Arm::BASELINE.into();
    }
    let of = |(name, value): (&String, &String)| match kind(name, value) {
        kind @ (FactorChange::IbOff
        | FactorChange::ShmOff
        | FactorChange::P2pOff
        | FactorChange::GdrOff
        | FactorChange::GdrAnywhere
        | FactorChange::NvlsOff
        | FactorChange::PxnOff) => kind.word().to_owned(),
        kind @ (FactorChange::CrossNic | FactorChange::QueuePairs | FactorChange::Algorithm) => {
            format!("{}={}", kind.word(), value.to_ascii_lowercase())
        }
        _ => {
            let short = name.strip_prefix("NCCL_").unwrap_or(name);
            format!("{}={value}", short.to_ascii_lowercase().replace('_', "-"))
        }
    };
    // InfiniBand first, as people name them.
    let mut names: Vec<(bool, String)> = set
        .iter()
        .map(|pair| (kind(pair.0, pair.1) == FactorChange::P2pOff, of(pair)))
        .collect();
    small_sort::by_key(&mut names, |(last, _)| *last);
    let names: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
    names.join("+")
}

/// The size of an effect in words, without its sign: `28 %`, `1.3 %`.
pub fn size(effect: f64) -> String {
    let effect = effect.abs();
    match effect {
        e if e >= 10.0 => format!("{e:.0} %"),
        e => format!("{e:.1} %"),
    }
}

/// The sizes of effects of one sign in words, outwards to the next whole percent: `11–12 %`. With
/// their signs where these differ, unless all that counts is of one: `up to 97 %`.
pub fn sizes(least: f64, most: f64) -> String {
    if least.abs().max(most.abs()) < 0.1 {
        return "0.0 %".into();
    }
    if least < 0.0 && most > 0.0 {
        let (smaller, larger) = (least.abs().min(most.abs()), least.abs().max(most.abs()));
        return if 10.0 * smaller < larger {
            format!("up to {}", size(larger))
        } else {
            format!("{least:+.1} to {most:+.1} %")
        };
    }
    let (low, high) = if least.abs() < most.abs() {
        (least.abs(), most.abs())
    } else {
        (most.abs(), least.abs())
    };
    if high - low < 1e-9 {
        return size(high);
    }
    match (low.floor(), high.ceil()) {
        (low, high) if low >= 10.0 && low == high => format!("{low:.0} %"),
        (low, high) if low >= 10.0 => format!("{low:.0}–{high:.0} %"),
        _ if (high - low) < 0.1 => format!("{high:.1} %"),
        _ => format!("{low:.1}–{high:.1} %"),
    }
}

/// The order of the arms in a round: each round begins with another, so that no arm always runs on
/// a machine that another has just heated or left busy.
pub fn order(arms: usize, round: u64) -> Vec<usize> {
    let first = match arms {
        0 => 0,
        // Not by one: neighbours would stay neighbours.
        _ => (round as usize).wrapping_mul((arms / 2 + 1).min(arms - 1).max(1)) % arms,
    };
    (0..arms).map(|at| (first + at) % arms.max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thresholds() -> Thresholds {
        Thresholds::new(&Limits::default())
    }

    fn set(names: &[&str]) -> Set {
        names
            .iter()
            .map(|name| (format!("NCCL_{name}_DISABLE"), "1".to_owned()))
            .collect()
    }

    fn arm(names: &[&str], rounds: &[f64]) -> Figures {
        Figures {
            name: name_of(&set(names)),
            set: set(names),
            rounds: (0..).zip(rounds.iter().copied()).collect(),
            resolution: 0.0,
            seconds: None,
        }
    }

    #[test]
    fn an_effect_is_taken_round_by_round() {
        // The machine slows down by a tenth in each round; the arm costs a fifth in each.
        let reference = arm(&[], &[100.0, 90.0, 81.0]);
        let other = arm(&["IB"], &[80.0, 72.0, 64.8]);
        let effect = Effect::of(&reference, &other, 0.0).unwrap();
        assert!((effect.effect + 20.0).abs() < 1e-9 && effect.rounds == 3);
        assert!((effect.upper - effect.lower).abs() < 1e-9);
        assert_eq!(effect.outcome(true, &thresholds()), Outcome::Slower);
        // But such a baseline drifts: what is near it by the last round is not told from that.
        assert!(reference.drift().unwrap() > 10.0);
        assert_eq!(effect.outcome(false, &thresholds()), Outcome::Undecided);
        assert_eq!(arm(&[], &[100.0, 60.0, 90.0]).drift(), Some(0.0));
        assert_eq!(arm(&[], &[100.0, 60.0]).drift(), None);
        let back = Effect::of(&other, &reference, 0.0).unwrap();
        assert_eq!(back.outcome(true, &thresholds()), Outcome::Faster);
    }

    #[test]
    fn noise_widens_the_interval_of_few_rounds() {
        let (a, b) = (
            arm(&[], &[100.0, 101.0, 99.0]),
            arm(&["IB"], &[97.0, 98.0, 96.0]),
        );
        let quiet = Effect::of(&a, &b, 0.5).unwrap();
        assert_eq!(quiet.outcome(true, &thresholds()), Outcome::Unchanged);
        let noisy = Effect::of(&a, &b, 8.0).unwrap();
        assert_eq!(noisy.outcome(true, &thresholds()), Outcome::Undecided);
        // An effect that is larger than the noise stays one.
        let large = Effect::of(&a, &arm(&["P2P"], &[50.0, 51.0, 49.0]), 8.0).unwrap();
        assert_eq!(large.outcome(true, &thresholds()), Outcome::Slower);
    }

    #[test]
    fn arms_that_lie_apart_differ_whatever_other_arms_do() {
        let outcome = |rounds: &[f64], of: &[f64]| {
            let effect = Effect::of(&arm(&[], rounds), &arm(&["IB"], of), 40.0).unwrap();
            effect.outcome(false, &thresholds())
        };
        let shared = [100.0, 84.0, 96.0];
        assert_eq!(outcome(&shared, &[10.0, 9.0, 11.0]), Outcome::Slower);
        assert_eq!(outcome(&shared, &[250.0, 240.0, 251.0]), Outcome::Faster);
        // Of three rounds each a small gap may be chance, and of four not.
        assert_eq!(outcome(&shared, &[80.0, 70.0, 75.0]), Outcome::Undecided);
        let longer = [100.0, 84.0, 96.0, 99.0];
        assert_eq!(outcome(&longer, &[80.0, 70.0, 75.0, 72.0]), Outcome::Slower);
        // One run of each, and ranges that overlap, tell nothing.
        assert_eq!(outcome(&[100.0], &[10.0]), Outcome::Undecided);
        assert_eq!(
            outcome(&longer, &[90.0, 70.0, 75.0, 72.0]),
            Outcome::Undecided
        );
    }

    #[test]
    fn one_run_is_believed_a_large_difference_only() {
        let one = |value| Effect::of(&arm(&[], &[100.0]), &arm(&["IB"], &[value]), 0.0).unwrap();
        for (value, outcome) in [
            (100.0, Outcome::Unchanged),
            (96.0, Outcome::Unchanged),
            (93.0, Outcome::Undecided),
            (88.0, Outcome::Slower),
            (107.0, Outcome::Undecided),
            (112.0, Outcome::Faster),
        ] {
            assert_eq!(one(value).outcome(true, &thresholds()), outcome, "{value}");
        }
        assert_eq!(Effect::of(&arm(&[], &[]), &arm(&["IB"], &[1.0]), 0.0), None);
        assert_eq!(
            Effect::of(&arm(&[], &[0.0]), &arm(&["IB"], &[1.0]), 0.0),
            None
        );
    }

    #[test]
    fn arms_pair_where_one_change_is_between_them() {
        let names: [&[&str]; 8] = [
            &[],
            &["IB"],
            &["SHM"],
            &["P2P"],
            &["IB", "SHM"],
            &["IB", "P2P"],
            &["SHM", "P2P"],
            &["IB", "SHM", "P2P"],
        ];
        let arms: Vec<Figures> = names.iter().map(|names| arm(names, &[1.0])).collect();
        let found = pairs(&arms);
        assert_eq!(found.len(), 12);
        for name in ["IB", "SHM", "P2P"] {
            let of = found.iter().filter(|pair| pair.change == set(&[name]));
            assert_eq!(of.count(), 4, "{name}");
        }
        // Two variables that nobody measured one by one are one change.
        let arms = [arm(&[], &[1.0]), arm(&["IB", "SHM"], &[1.0])];
        let found = pairs(&arms);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].change.len(), 2);
        assert!(pairs(&[arm(&["IB"], &[1.0])]).is_empty());
    }

    #[test]
    fn changes_interact_where_their_effects_lie_apart() {
        let arms = [
            arm(&[], &[1.089]),
            arm(&["SHM"], &[1.075]),
            arm(&["P2P"], &[0.789]),
            arm(&["SHM", "P2P"], &[0.698]),
        ];
        let pairs = pairs(&arms);
        let of = |name: &str| -> Vec<(&Pair, Effect)> {
            let some = pairs.iter().filter(|pair| pair.change == set(&[name]));
            some.map(|pair| {
                (
                    pair,
                    Effect::of(&arms[pair.reference], &arms[pair.arm], 0.0).unwrap(),
                )
            })
            .collect()
        };
        let found = interaction(&of("SHM"), 5.0).unwrap();
        assert_eq!(found.with.0, "NCCL_P2P_DISABLE");
        assert_eq!(sizes(found.beside.0, found.beside.1), "12 %");
        assert_eq!(interaction(&[], 5.0), None);
        assert_eq!(interaction(&of("SHM")[..1], 5.0), None);
    }

    #[test]
    fn time_and_throughput_contradict_each_other_beyond_what_is_rounded() {
        let with = |seconds: f64, figure: f64| Figures {
            rounds: [(0, figure)].into(),
            resolution: 0.0005,
            seconds: Some(seconds),
            ..Figures::default()
        };
        assert!(contradiction(&with(6258.0, 1.075), &with(6612.0, 1.087)) > 3.0);
        assert!(contradiction(&with(6233.0, 1.089), &with(6220.0, 1.089)) < 3.0);
        assert!(contradiction(&with(9382.0, 0.698), &with(9434.0, 0.697)) < 3.0);
        assert!(contradiction(&with(6612.0, 1.087), &with(9434.0, 0.697)) < 3.0);
        // Half a percent either way is what a clock that counts the start-up too makes.
        assert!(contradiction(&with(1000.0, 1.0), &with(1005.0, 1.002)) < 3.0);
        assert!(contradiction(&with(1000.0, 1.0), &arm(&[], &[2.0])) < 3.0);
    }

    #[test]
    fn sizes_in_words() {
        for (least, most, words) in [
            (-11.55, -11.53, "11–12 %"),
            (-35.9, -27.5, "27–36 %"),
            (-0.8, 1.1, "-0.8 to +1.1 %"),
            (-96.8, 0.1, "up to 97 %"),
            (-0.1, 1.1, "up to 1.1 %"),
            (-1.3, -0.2, "0.2–1.3 %"),
            (20.0, 20.0, "20 %"),
            (-0.03, 0.02, "0.0 %"),
        ] {
            assert_eq!(sizes(least, most), words);
        }
        assert_eq!(size(-27.55), "28 %");
        assert_eq!(size(1.26), "1.3 %");
    }

    #[test]
    fn names_of_arms() {
        assert_eq!(name_of(&Set::new()), "baseline");
        assert_eq!(
            name_of(&set(&["P2P", "IB", "SHM"])),
            "ib-off+shm-off+p2p-off"
        );
        let of = |name: &str, value: &str| name_of(&[(name.to_owned(), value.to_owned())].into());
        assert_eq!(of("NCCL_ALGO", "Ring"), "algorithm=ring");
        assert_eq!(of("NCCL_CROSS_NIC", "0"), "cross-nic=0");
        assert_eq!(of("NCCL_NET_GDR_LEVEL", "LOC"), "gdr-off");
        assert_eq!(of("NCCL_MIN_NCHANNELS", "32"), "min-nchannels=32");
        assert_eq!(of("NCCL_IB_DISABLE", "0"), "ib-disable=0");
    }

    #[test]
    fn each_round_begins_with_another_arm() {
        for arms in 1..12 {
            let mut firsts: Vec<usize> = (0..3).map(|round| order(arms, round)[0]).collect();
            for round in 0..3 {
                let mut order = order(arms, round);
                order.sort_unstable();
                assert_eq!(order, (0..arms).collect::<Vec<_>>());
            }
            firsts.dedup();
            assert!(arms < 2 || firsts.len() > 1, "{arms} arms");
        }
        assert!(order(0, 5).is_empty());
    }
}
