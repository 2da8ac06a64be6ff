//! What copies between GPUs, and with the host, are worth: against equal pairs and GPUs, and
//! against what PCIe carries.

use super::Derivation;
use super::gpu_ends::{Ends, ends};
use crate::fact::gpu_pair::{P2p, P2pAccess};
use crate::fact::kleene::Several;
use crate::fact::{
    BitRate, Fact, Facts, Gap, Id, Key, Limit, Percent, Subject, gpu, gpu_pair, known, limit, node,
};
use crate::measure::plan::statistics;
use crate::small_sort;

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new(
    "p2p",
    &[
        "gpu.path_bandwidth",
        "gpu.slot_bandwidth",
        "gpu_pair",
        "gpu_pair.distance",
        "gpu_pair.first",
        "gpu_pair.second",
    ],
    derive,
);

/// Works out the facts of a node's GPUs and their pairs.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let gpus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
    let pairs: Vec<Id> = facts.below(node, Subject::GpuPair).collect();
    let planned = facts.get(node, node::P2P_MEASURED);
    for gpu in &gpus {
        not_in_the_plan(facts, &planned, *gpu, gpu::HOST_COPY_MEASURED);
        host_copy(facts, *gpu);
    }
    for pair in &pairs {
        not_in_the_plan(facts, &planned, *pair, gpu_pair::COPY_MEASURED);
        facts.set(*pair, gpu_pair::ACCESS, access(facts, *pair));
        facts.set(*pair, gpu_pair::NVLINK, nvlink(facts, *pair));
    }
    let ends: Vec<Ends> = pairs.iter().map(|pair| ends(facts, node, *pair)).collect();
    let each = pairs.iter().zip(&ends);
    let kinds: Vec<Fact<PairKind>> = each.map(|(pair, ends)| kind(facts, *pair, ends)).collect();
    for ((pair, ends), own) in pairs.iter().zip(&ends).zip(&kinds) {
        facts.set(*pair, gpu_pair::SLOT_BANDWIDTH, slot_bandwidth(facts, ends));
        let equals = Equals {
            facts,
            all: &pairs,
            kinds: &kinds,
            own,
        };
        let majority = equals.majority();
        let rate = |facts: &Facts, id| facts.get(id, gpu_pair::COPY_BANDWIDTH).map(|r| r.0 as f64);
        let bandwidth = equals.of_median(*pair, rate, limit::COPY_OF_PAIRS);
        let time = |facts: &Facts, id| facts.get(id, gpu_pair::COPY_LATENCY).map(|time| time.0);
        let latency = equals.of_median(*pair, time, limit::COPY_LATENCY_OF_PAIRS);
        facts.set(*pair, gpu_pair::PEERS_ACCESS, majority);
        facts.set(*pair, gpu_pair::COPY_OF_PEERS, bandwidth);
        facts.set(*pair, gpu_pair::LATENCY_OF_PEERS, latency);
    }
    let kinds: Vec<Fact<PairKind>> = gpus
        .iter()
        .map(|gpu| facts.get(*gpu, gpu::ID).map(|id| id.to_string()))
        .collect();
    for (gpu, own) in gpus.iter().zip(&kinds) {
        let equals = Equals {
            facts,
            all: &gpus,
            kinds: &kinds,
            own,
        };
        let of = equals.of_median(*gpu, slower_host_copy, limit::HOST_COPY_OF_GPUS);
        facts.set(*gpu, gpu::HOST_COPY_OF_PEERS, of);
    }
}

/// What the plan does not have was not measured.
fn not_in_the_plan(facts: &mut Facts, planned: &Fact<bool>, id: Id, key: Key<bool>) {
    if facts.look(id, key.index).is_some() {
        return;
    }
    facts.set(id, key, planned.clone().map(|_| false));
}

fn access(facts: &Facts, pair: Id) -> Fact<P2pAccess> {
    let forth = facts.get(pair, gpu_pair::CUDA_ACCESS);
    let both = forth.zip(facts.get(pair, gpu_pair::CUDA_ACCESS_BACK));
    both.map(|both| match both {
        (true, true) => P2pAccess::Both,
        (false, false) => P2pAccess::None,
        _ => P2pAccess::OneWay,
    })
}

/// Whether NVLink joins two GPUs: by NVML's word, or by active links that lead straight from one to
/// the other.
fn nvlink(facts: &Facts, pair: Id) -> Fact<bool> {
    let straight = facts.get(pair, gpu_pair::NVLINKS);
    match (facts.get(pair, gpu_pair::P2P_NVLINK), straight) {
        (Fact::Known(P2p::Ok, origin), _) => Fact::Known(true, origin),
        (_, Fact::Known(links, origin)) if links > 0 => Fact::Known(true, origin),
        (Fact::Known(_, origin), Fact::Known(..)) => Fact::Known(false, origin),
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
    }
}

/// What makes pairs, or GPUs, equal.
type PairKind = String;

/// Pairs are equal that are of the same models, and joined alike: by as many NVLinks, or at the
/// same distance over PCIe.
fn kind(facts: &Facts, pair: Id, ends: &Ends) -> Fact<PairKind> {
    let known = || -> Result<PairKind, Gap> {
        let [a, b] = *ends.as_ref().map_err(Gap::clone)?;
        let id = |gpu| facts.value(gpu, gpu::ID);
        let mut models = [id(a)?, id(b)?];
        small_sort::by(&mut models, Ord::cmp);
        let way = if facts.value(pair, gpu_pair::NVLINK)? {
            let links = facts.value(pair, gpu_pair::NVLINKS)?;
            format!("NVLink {links}")
        } else {
            let distance = facts.value(pair, gpu_pair::DISTANCE)?;
            distance.word().to_owned()
        };
        let [a, b] = models;
        Ok(format!("{a} {b} {way}"))
    };
    Fact::of(known(), "models and how they are joined")
}

/// The equals of one pair or GPU, itself among them.
struct Equals<'f> {
    facts: &'f Facts,
    all: &'f [Id],
    kinds: &'f [Fact<PairKind>],
    own: &'f Fact<PairKind>,
}

impl Equals<'_> {
    /// What is asked of each equal; a gap for one of which it is not known what it is, for it could
    /// be an equal.
    fn each<T>(&self, own: &PairKind, ask: impl Fn(Id) -> Option<Fact<T>>) -> Several<T> {
        let all = self.all.iter().zip(self.kinds);
        all.filter_map(|(id, kind)| match kind {
            Fact::Known(kind, _) if kind != own => None,
            Fact::Known(..) => ask(*id),
            Fact::Unknown(gap) => Some(Fact::Unknown(gap.clone())),
        })
        .collect()
    }

    fn majority(&self) -> Fact<bool> {
        // One of which it is not known what it reaches counts as one that may have access.
        let access = |id| Some(self.facts.get(id, gpu_pair::ACCESS));
        let equals = self.each(known!(self.own), access);
        let both = |access: &P2pAccess| *access == P2pAccess::Both;
        let (all, (_, with)) = (equals.members(), equals.counted(both));
        let how = format!("{with} of {all} equal pairs have access");
        Fact::of(equals.at_least(all / 2 + 1, both), how)
    }

    /// The number of one, of the median of all equals that have one; a median needs three of them.
    /// Where some are missing, it is known if none of them could bring it to the other side of the
    /// limit.
    fn of_median(
        &self,
        id: Id,
        number: impl Fn(&Facts, Id) -> Fact<f64>,
        limit: Limit<Percent>,
    ) -> Fact<Percent> {
        let own = known!(number(self.facts, id));
        let equals = self.each(known!(self.own), |id| match number(self.facts, id) {
            // One that came wrong, or not at all, has no number to compare with. What else has none
            // could turn the median.
            Fact::Unknown(_) if has_none(self.facts, id) => None,
            number => Some(number),
        });
        let (known, limit) = (equals.answered(), self.facts.limit(limit));
        let share = |values: &[f64]| {
            let median = statistics::median(values).filter(|median| *median > 0.0)?;
            Some(Percent((1000.0 * own / median).round() / 10.0))
        };
        let is_below = |missing: f64| {
            let missing = vec![missing; equals.members() - known.len()];
            Some(share(&[known, &missing].concat())? < limit)
        };
        let decided = is_below(0.0).is_some() && is_below(0.0) == is_below(f64::MAX);
        match (share(known).filter(|_| known.len() >= 3), equals.open()) {
            (_, Some(gap)) if !decided => Fact::Unknown(gap.clone()),
            (Some(share), _) => {
                Fact::derived(share, format!("the median of {} equals", known.len()))
            }
            (None, Some(gap)) => Fact::Unknown(gap.clone()),
            (None, None) => Fact::derived(Percent(100.0), "fewer than three equals have no median"),
        }
    }
}

/// Whether it is known that a pair's, or a GPU's, copies have no number that counts: not measured,
/// not right, or not steady.
fn has_none(facts: &Facts, id: Id) -> bool {
    let is = |key: Key<bool>, value: bool| facts.known(id, key) == Some(value);
    let unsteady = |key, most| {
        let spread = facts.known::<Percent>(id, key);
        spread.is_some_and(|spread| spread > facts.limit(most))
    };
    match facts.subject(id) {
        Subject::GpuPair => {
            is(gpu_pair::COPY_MEASURED, false)
                || is(gpu_pair::COPY_VERIFIED, false)
                || unsteady(gpu_pair::COPY_SPREAD, limit::COPY_SPREAD)
        }
        _ => {
            is(gpu::HOST_COPY_MEASURED, false)
                || is(gpu::HOST_COPY_CORRUPT, true)
                || is(gpu::HOST_COPY_FAILED, true)
                || is(gpu::HOST_COPY_HUNG, true)
                || unsteady(gpu::HOST_COPY_SPREAD, limit::COPY_SPREAD)
        }
    }
}

/// What PCIe carries between two GPUs at best.
fn slot_bandwidth(facts: &Facts, ends: &Ends) -> Fact<BitRate> {
    let [a, b] = *known!(ok ends);
    facts
        .get(a, gpu::SLOT_BANDWIDTH)
        .zip(facts.get(b, gpu::SLOT_BANDWIDTH))
        .map(|(a, b)| a.min(b))
}

/// What the slower direction of copies with the host carries, in bits per second.
fn slower_host_copy(facts: &Facts, gpu: Id) -> Fact<f64> {
    host_rates(facts, gpu).map(|(low, _)| low)
}

fn host_rates(facts: &Facts, gpu: Id) -> Fact<(f64, f64)> {
    facts
        .get(gpu, gpu::H2D_BANDWIDTH)
        .zip(facts.get(gpu, gpu::D2H_BANDWIDTH))
        .map(|(to, from)| (to.min(from).0 as f64, to.max(from).0 as f64))
}

/// A part of a whole, to a tenth of a percent.
fn percent(part: f64, whole: f64) -> Percent {
    Percent((1000.0 * part / whole.max(1.0)).round() / 10.0)
}

fn host_copy(facts: &mut Facts, gpu: Id) {
    let rates = host_rates(facts, gpu);
    let balance = rates.clone().map(|(low, high)| percent(low, high));
    facts.set(gpu, gpu::HOST_COPY_BALANCE, balance);
    let both = rates.zip(facts.get(gpu, gpu::PATH_BANDWIDTH));
    let of_path = both.flat_map(|((low, _), path)| {
        let share = percent(low, path.0 as f64);
        Fact::derived(share, format!("its path carries {path}"))
    });
    facts.set(gpu, gpu::HOST_COPY_OF_PATH, of_path);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{node as bare_node, stated};
    use super::*;
    use crate::fact::gpu_nic::Distance;
    use crate::fact::{Membership, Origin, Seconds};

    /// Four GPUs of one model, all pairs joined by NVSwitches.
    fn machine() -> (Facts, Id) {
        let mut facts = Facts::new();
        let n = bare_node(&mut facts);
        facts.set_members(Subject::Gpu, n, Membership::Known(Origin::Stated));
        facts.set(n, node::P2P_MEASURED, stated(true));
        let names: Vec<String> = (1..5).map(|at| format!("0000:{at:02x}:00.0")).collect();
        for name in &names {
            let id = facts.instance(Subject::Gpu, n, name);
            facts.set(id, gpu::ID, stated("10de:2330".into()));
            facts.set(id, gpu::SLOT_BANDWIDTH, stated(BitRate(504_000_000_000)));
            facts.set(id, gpu::PATH_BANDWIDTH, stated(BitRate(504_000_000_000)));
            facts.set(id, gpu::HOST_COPY_MEASURED, stated(true));
            facts.set(id, gpu::H2D_BANDWIDTH, stated(BitRate(440_000_000_000)));
            facts.set(id, gpu::D2H_BANDWIDTH, stated(BitRate(430_000_000_000)));
        }
        for (at, first) in names.iter().enumerate() {
            for second in &names[at + 1..] {
                let pair = facts.instance(Subject::GpuPair, n, &format!("{first} - {second}"));
                facts.set(pair, gpu_pair::FIRST, stated(first.as_str().into()));
                facts.set(pair, gpu_pair::SECOND, stated(second.as_str().into()));
                facts.set(pair, gpu_pair::DISTANCE, stated(Distance::Sys));
                facts.set(pair, gpu_pair::P2P_NVLINK, stated(P2p::Ok));
                facts.set(pair, gpu_pair::NVLINKS, stated(0));
                facts.set(pair, gpu_pair::COPY_MEASURED, stated(true));
                facts.set(pair, gpu_pair::COPY_LATENCY, stated(Seconds(2e-6)));
            }
        }
        (facts, n)
    }

    fn pair(facts: &Facts, at: usize) -> Id {
        facts.all(Subject::GpuPair).nth(at).unwrap()
    }

    #[test]
    fn a_slow_pair_is_slow_against_the_median_of_its_equals() {
        let (mut facts, n) = machine();
        for at in 0..6 {
            let rate = if at == 4 { 200 } else { 3000 };
            let id = pair(&facts, at);
            facts.set(
                id,
                gpu_pair::COPY_BANDWIDTH,
                stated(BitRate(rate * 1_000_000_000)),
            );
            facts.set(id, gpu_pair::CUDA_ACCESS, stated(true));
            facts.set(id, gpu_pair::CUDA_ACCESS_BACK, stated(at != 4));
        }
        derive(&mut facts, n);
        let of = |at: usize, key| facts.known(pair(&facts, at), key);
        assert_eq!(of(4, gpu_pair::COPY_OF_PEERS), Some(Percent(6.7)));
        assert_eq!(of(0, gpu_pair::COPY_OF_PEERS), Some(Percent(100.0)));
        assert_eq!(of(0, gpu_pair::LATENCY_OF_PEERS), Some(Percent(100.0)));
        assert_eq!(
            facts.known(pair(&facts, 4), gpu_pair::ACCESS),
            Some(P2pAccess::OneWay)
        );
        assert_eq!(
            facts.known(pair(&facts, 4), gpu_pair::PEERS_ACCESS),
            Some(true)
        );
        assert_eq!(facts.known(pair(&facts, 0), gpu_pair::NVLINK), Some(true));
        assert_eq!(
            facts.known(pair(&facts, 0), gpu_pair::SLOT_BANDWIDTH),
            Some(BitRate(504_000_000_000))
        );
    }

    #[test]
    fn equals_without_a_number_leave_the_median_open_if_they_could_turn_it() {
        let slow_beside = |missing: usize| {
            let (mut facts, n) = machine();
            for at in 0..6 - missing {
                let id = pair(&facts, at);
                let rate = BitRate(if at == 0 { 1_000_000 } else { 3_000_000 });
                facts.set(id, gpu_pair::COPY_BANDWIDTH, stated(rate));
            }
            derive(&mut facts, n);
            assert_eq!(facts.known(pair(&facts, 0), gpu_pair::ACCESS), None);
            facts.known(pair(&facts, 0), gpu_pair::COPY_OF_PEERS)
        };
        assert_eq!(slow_beside(1), Some(Percent(33.3)));
        assert_eq!(slow_beside(3), None);
        // In the middle of the others it is slow or not, as the missing one is fast or slow.
        let (mut facts, n) = machine();
        for (at, rate) in [3, 1, 1, 14, 31].into_iter().enumerate() {
            let id = pair(&facts, at);
            facts.set(id, gpu_pair::COPY_BANDWIDTH, stated(BitRate(rate)));
        }
        derive(&mut facts, n);
        assert_eq!(facts.known(pair(&facts, 0), gpu_pair::COPY_OF_PEERS), None);
    }

    #[test]
    fn a_pair_whose_copies_came_wrong_is_no_equal_to_compare_with() {
        let (mut facts, n) = machine();
        for at in 0..6 {
            let id = pair(&facts, at);
            facts.set(id, gpu_pair::COPY_VERIFIED, stated(at != 5));
            if at != 5 {
                let rate = BitRate(if at == 0 { 1_000_000 } else { 2_000_000 });
                facts.set(id, gpu_pair::COPY_BANDWIDTH, stated(rate));
            }
        }
        derive(&mut facts, n);
        let of = facts.known(pair(&facts, 0), gpu_pair::COPY_OF_PEERS);
        assert_eq!(of, Some(Percent(50.0)));
    }

    #[test]
    fn copies_with_the_host_against_the_path_and_the_others() {
        let (mut facts, n) = machine();
        derive(&mut facts, n);
        let gpu = facts.all(Subject::Gpu).next().unwrap();
        assert_eq!(
            facts.known(gpu, gpu::HOST_COPY_OF_PATH),
            Some(Percent(85.3))
        );
        assert_eq!(
            facts.known(gpu, gpu::HOST_COPY_BALANCE),
            Some(Percent(97.7))
        );
        assert_eq!(
            facts.known(gpu, gpu::HOST_COPY_OF_PEERS),
            Some(Percent(100.0))
        );
    }

    #[test]
    fn what_is_not_in_the_plan_was_not_measured() {
        for (said, expected) in [
            (Some(true), Some(false)),
            (Some(false), Some(false)),
            (None, None),
        ] {
            let mut facts = Facts::new();
            let n = bare_node(&mut facts);
            if let Some(said) = said {
                facts.set(n, node::P2P_MEASURED, stated(said));
            }
            let id = facts.instance(Subject::Gpu, n, "0000:1b:00.0");
            derive(&mut facts, n);
            assert_eq!(
                facts.known(id, gpu::HOST_COPY_MEASURED),
                expected,
                "{said:?}"
            );
        }
    }
}
