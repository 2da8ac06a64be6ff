//! What the logs of an arm's runs say that was used, and whether that is what the arm left.

use std::sync::Arc;

use super::honour::honour;
use crate::fact::arm::{ArmApplied, GpuDirectUse, InterNodeTransport};
use crate::fact::arms::{ArmRuns, Arms, PairPath, PathKind, TransportProof};
use crate::fact::{Fact, Facts, Gap, Id, Key, Why, arm, measurement};

/// What shows what channels used.
const SUBSYSTEMS: &str = "run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING";

/// The facts of what was used, which an arm has, and a measurement of its baseline.
pub(super) struct Keys {
    between: Key<InterNodeTransport>,
    direct: Key<GpuDirectUse>,
    nvls: Key<bool>,
    shm: Key<u64>,
    net: Key<u64>,
    paths: Key<Arc<str>>,
}

const OF_ARM: Keys = Keys {
    between: arm::BETWEEN,
    direct: arm::DIRECT,
    nvls: arm::NVLS,
    shm: arm::PAIRS_SHM,
    net: arm::PAIRS_NET,
    paths: arm::PATHS,
};

pub(super) const OF_MEASUREMENT: Keys = Keys {
    between: measurement::BETWEEN,
    direct: measurement::DIRECT,
    nvls: measurement::NVLS,
    shm: measurement::PAIRS_SHM,
    net: measurement::PAIRS_NET,
    paths: measurement::PATHS,
};

impl Arms {
    /// What was seen of the runs.
    pub(super) fn used(&self, facts: &mut Facts, id: Id, at: usize) {
        let Some(seen) = self.runs_of(at) else {
            self.transport(facts, id, None, &OF_ARM);
            facts.set(id, arm::HONOURED, self.know(ArmApplied::NotLogged));
            let why = "somebody else ran it, and nothing of its log is here";
            facts.set(id, arm::HONOURED_WHY, self.know(why.into()));
            let valid = self.know(!self.figures.get(at).is_none_or(|f| f.rounds.is_empty()));
            facts.set(id, arm::VALID, valid);
            return;
        };
        let before = self.baseline().and_then(|at| self.runs_of(at));
        self.transport(facts, id, Some(seen), &OF_ARM);
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
    pub(super) fn transport(&self, facts: &mut Facts, id: Id, seen: Option<&ArmRuns>, keys: &Keys) {
        let gap = seen.and_then(|seen| seen.log_gap.as_ref());
        let proof = seen.map(|seen| &seen.proof);
        let between = proof.and_then(|proof| proof.between);
        let between = self.unless(gap, between.unwrap_or(InterNodeTransport::NotLogged));
        facts.set(id, keys.between, between);
        let direct = proof.map_or(GpuDirectUse::NotLogged, TransportProof::direct);
        facts.set(id, keys.direct, self.unless(gap, direct));
        let missing = || gap.cloned().unwrap_or_else(|| self.not_logged());
        let nvls = match proof.and_then(|proof| proof.nvls) {
            Some(nvls) => self.unless(gap, nvls),
            None => Fact::Unknown(missing()),
        };
        facts.set(id, keys.nvls, nvls);
        let channels = proof.filter(|proof| proof.channels);
        let inside = |path: &PairPath| path.inside == Some(true);
        let count = |is: &dyn Fn(&PairPath) -> bool| match channels {
            Some(proof) => self.unless(gap, proof.count(is)),
            None => Fact::Unknown(missing()),
        };
        let shm = count(&|path| path.kind == PathKind::Shm);
        facts.set(id, keys.shm, shm);
        let net = count(&|path| inside(path) && matches!(path.kind, PathKind::Net(..)));
        facts.set(id, keys.net, net);
        let paths = match channels.or(proof.filter(|proof| !proof.devices.is_empty())) {
            Some(proof) => self.unless(gap, proof.in_short().into()),
            None => Fact::Unknown(missing()),
        };
        facts.set(id, keys.paths, paths);
    }

    /// What the log says of the pairs of ranks on one node.
    fn not_logged(&self) -> Gap {
        Gap::new(Why::NotLogged(SUBSYSTEMS), self.origin.clone())
    }
}
