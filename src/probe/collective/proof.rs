//! Proof of transport: what each pair of ranks used, by NCCL's own log, and whether a variable took away what it forbids.
//!
//! On one node `Using network IB` proves nothing, since no channel uses it: the lines of connected channels count. NCCL reads some variables
//! only where it gets to them (`NCCL_SHM_DISABLE` where P2P was refused: `src/graph/paths.cc`, `ncclTopoComputePaths`), so one that it did not
//! read may have had nothing to take away.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::arm::{ArmApplied, GpuDirectUse, InterNodeTransport};
use crate::fact::channel::Transport;
use crate::fact::factor::FactorChange;
use crate::fact::run::Carrier;
use crate::fact::{Facts, Id, Subject, channel, env, run};
use crate::measure::plan::ablation::{Set, kind};
use crate::nccl_log::Digest;
use crate::probe::nccl_log;
use crate::small_sort;

/// What the runs of an arm used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Proof {
    /// Whether the log tells of connected channels.
    pub(super) channels: bool,
    /// How many nodes take part, by NCCL's count.
    pub(super) nodes: Option<u64>,
    /// What carried the traffic between nodes; `None` where the log does not say.
    pub(super) between: Option<InterNodeTransport>,
    /// What each pair of ranks used, in NCCL's words: `P2P/CUMEM`, `SHM`, `NET/IB/GDRDMA`; and whether both are on one node.
    pub(super) pairs: BTreeMap<(u64, u64), BTreeSet<Path>>,
    /// Whether channels over NVLink SHARP were set up.
    pub(super) nvls: Option<bool>,
    /// Whether NCCL says which variables it read.
    pub(super) env_logged: bool,
    /// The variables that it read, with their values.
    pub(super) read: BTreeMap<String, String>,
}

/// What carries channels of a pair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path {
    /// In NCCL's words.
    pub(super) word: String,
    /// What kind of transport that is.
    pub(super) kind: Kind,
    /// Whether both ranks are on one node; `None` where nobody knows.
    pub(super) inside: Option<bool>,
}

/// Kinds of transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// From GPU to GPU.
    P2p,
    /// The host's shared memory.
    Shm,
    /// A network: whether it is RDMA, where that is known, and whether it reaches the GPU's memory.
    Net(Option<bool>, bool),
}

impl Proof {
    /// What the log of a run says.
    pub(super) fn of_log(name: &str, digest: Digest) -> Self {
        let mut scratch = Facts::new();
        let runs = nccl_log::establish_digest(name, digest, &mut scratch);
        let mut proof = Proof::default();
        for run in runs {
            proof.join(Proof::of_run(&scratch, run));
        }
        proof
    }

    fn of_run(facts: &Facts, id: Id) -> Self {
        let mut proof = Proof {
            env_logged: facts.known(id, run::ENV_LOGGED) == Some(true),
            ..Proof::default()
        };
        for channel in facts.below(id, Subject::Channel) {
            let (Some(from), Some(to), Some(transport)) = (
                facts.known(channel, channel::FROM),
                facts.known(channel, channel::TO),
                facts.known(channel, channel::TRANSPORT),
            ) else {
                continue;
            };
            let kind = facts.known(channel, channel::KIND).unwrap_or_default();
            let gdr = facts.known(channel, channel::GDR) == Some(true);
            let (word, kind) = match transport {
                Transport::P2p => (format!("P2P/{kind}"), Kind::P2p),
                Transport::Shm => ("SHM".to_owned(), Kind::Shm),
                Transport::Net | Transport::CollNet => {
                    let rdma = facts.known(channel, channel::RDMA);
                    let suffix = if gdr { "/GDRDMA" } else { "" };
                    (format!("NET/{kind}{suffix}"), Kind::Net(rdma, gdr))
                }
            };
            let path = Path {
                word: word.trim_end_matches('/').to_owned(),
                kind,
                inside: facts.known(channel, channel::INSIDE_NODE),
            };
            let ends = (from.min(to), from.max(to));
            proof.pairs.entry(ends).or_default().insert(path);
        }
        proof.channels = !proof.pairs.is_empty();
        proof.between = match facts.known(id, run::NODES) {
            Some(1) => Some(InterNodeTransport::None),
            _ => facts.known(id, run::CARRIER).map(|carrier| match carrier {
                Carrier::Rdma => InterNodeTransport::Rdma,
                Carrier::Socket => InterNodeTransport::Socket,
                // NVLink between nodes is no network that an arm could take away.
                Carrier::Nvlink | Carrier::DirectTcp | Carrier::Mixed | Carrier::Plugin => {
                    InterNodeTransport::Other
                }
            }),
        };
        proof.nodes = facts.known(id, run::NODES);
        proof.nvls = facts.known(id, run::NVLS);
        for variable in facts.below(id, Subject::Env) {
            if let (Some(name), Some(value)) = (
                facts.known(variable, env::NAME),
                facts.known(variable, env::VALUE),
            ) {
                proof.env_logged = true;
                proof.read.insert(name.to_string(), value.to_string());
            }
        }
        proof
    }

    /// A backend without NCCL: what it is, it uses.
    pub(super) fn of_backend(between: InterNodeTransport) -> Self {
        Proof {
            between: Some(between),
            ..Proof::default()
        }
    }

    /// Adds what another run of the arm used.
    pub(super) fn join(&mut self, other: Proof) {
        self.channels |= other.channels;
        self.env_logged |= other.env_logged;
        self.nodes = self.nodes.max(other.nodes);
        self.between = match (self.between, other.between) {
            (Some(a), Some(b)) if a != b => Some(InterNodeTransport::Other),
            (a, b) => a.or(b),
        };
        self.nvls = match (self.nvls, other.nvls) {
            (Some(a), Some(b)) => Some(a || b),
            (a, b) => a.or(b),
        };
        for (ends, paths) in other.pairs {
            self.pairs.entry(ends).or_default().extend(paths);
        }
        self.read.extend(other.read);
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.pairs.values().flatten()
    }

    /// Pairs of ranks that use a path of this kind.
    pub(super) fn count(&self, is: impl Fn(&Path) -> bool) -> u64 {
        let pairs = self.pairs.values();
        pairs.filter(|paths| paths.iter().any(&is)).count() as u64
    }

    /// The first pair of ranks that uses a path of this kind.
    pub(super) fn first(&self, is: impl Fn(&Path) -> bool) -> Option<(u64, u64)> {
        let mut pairs = self.pairs.iter();
        let found = pairs.find(|(_, paths)| paths.iter().any(&is));
        found.map(|(ends, _)| *ends)
    }

    /// What carried the traffic inside nodes, in NCCL's words.
    pub(super) fn inside(&self) -> Vec<String> {
        let inside = self.paths().filter(|path| path.inside == Some(true));
        let words: BTreeSet<&String> = inside.map(|path| &path.word).collect();
        words.into_iter().cloned().collect()
    }

    /// Each path with how many pairs of ranks use it: `14 pairs P2P/CUMEM, 2 pairs NET/IB/GDRDMA`.
    pub(super) fn in_short(&self) -> String {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for paths in self.pairs.values() {
            let words: BTreeSet<&str> = paths.iter().map(|path| path.word.as_str()).collect();
            for word in words {
                *counts.entry(word).or_default() += 1;
            }
        }
        let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
        small_sort::by_key(&mut counts, |(_, count)| std::cmp::Reverse(*count));
        let texts: Vec<String> = counts
            .iter()
            .map(|(word, count)| match count {
                1 => format!("1 pair {word}"),
                n => format!("{n} pairs {word}"),
            })
            .collect();
        texts.join(", ")
    }

    /// Whether GPUDirect RDMA was used.
    pub(super) fn direct(&self) -> GpuDirectUse {
        if !self.channels {
            return GpuDirectUse::NotLogged;
        }
        let net = |wanted: Option<bool>| {
            self.paths().any(|path| match path.kind {
                Kind::Net(_, gdr) => wanted.is_none_or(|wanted| gdr == wanted),
                _ => false,
            })
        };
        match (net(Some(true)), net(Some(false))) {
            (true, true) => GpuDirectUse::Some,
            (true, false) => GpuDirectUse::All,
            (false, true) => GpuDirectUse::None,
            (false, false) => GpuDirectUse::NoNetwork,
        }
    }

    /// Whether what a change forbids is used; `None` where the log does not say, or where the change forbids nothing that could be seen.
    fn uses(&self, change: FactorChange) -> Option<bool> {
        let any = |is: &dyn Fn(&Path) -> bool| self.channels.then(|| self.paths().any(is));
        match change {
            FactorChange::IbOff => match self.channels {
                true => any(&|path| matches!(path.kind, Kind::Net(Some(true), _))),
                // Without channels the network that was chosen decides, and on one node it proves nothing.
                false => match self.between? {
                    InterNodeTransport::Rdma => Some(true),
                    InterNodeTransport::Socket => Some(false),
                    InterNodeTransport::Other
                    | InterNodeTransport::None
                    | InterNodeTransport::NotLogged => None,
                },
            },
            FactorChange::ShmOff => any(&|path| path.kind == Kind::Shm),
            FactorChange::P2pOff => any(&|path| path.kind == Kind::P2p),
            FactorChange::GdrOff => any(&|path| matches!(path.kind, Kind::Net(_, true))),
            FactorChange::NvlsOff => self.nvls,
            _ => None,
        }
    }

    /// Whether NCCL says that it read the variable; `None` where it says so of none.
    fn was_read(&self, name: &str) -> Option<bool> {
        // From 2.7.3 to 2.22.3 NCCL_P2P_DISABLE is printed as the level that it stands for.
        let also = match name {
            "NCCL_P2P_DISABLE" => Some("NCCL_P2P_LEVEL"),
            _ => None,
        };
        let has = |name: &str| self.read.contains_key(name);
        self.env_logged.then(|| has(name) || also.is_some_and(has))
    }
}

/// What a change forbids, in words.
fn forbidden(change: FactorChange) -> Option<&'static str> {
    Some(match change {
        FactorChange::IbOff => "RDMA",
        FactorChange::ShmOff => "shared memory",
        FactorChange::P2pOff => "P2P",
        FactorChange::GdrOff => "GPUDirect RDMA",
        FactorChange::NvlsOff => "NVLink SHARP",
        _ => return None,
    })
}

/// Whether runs with a change did without what it forbids, and on what that rests.
pub(super) fn honour(change: &Set, before: &Proof, after: &Proof) -> (ArmApplied, String) {
    let mut all: Vec<(ArmApplied, String)> = change
        .iter()
        .map(|(name, value)| one(name, value, before, after))
        .collect();
    // What spoils a comparison leads; of the rest what was really taken away.
    let rank = |honour: ArmApplied| match honour {
        ArmApplied::Ignored => 0,
        ArmApplied::NotRead => 1,
        ArmApplied::NotLogged => 2,
        ArmApplied::Honoured => 3,
        ArmApplied::NotSeen => 4,
        ArmApplied::Nothing => 5,
    };
    small_sort::by_key(&mut all, |(honour, _)| rank(*honour));
    let mut all = all.into_iter();
    match all.next() {
        Some(first) => first,
        None => (ArmApplied::NotSeen, "it sets nothing".into()),
    }
}

fn one(name: &str, value: &str, before: &Proof, after: &Proof) -> (ArmApplied, String) {
    let change = kind(name, value);
    let read = after.was_read(name);
    let what = forbidden(change);
    let (was, is) = (before.uses(change), after.uses(change));
    let Some(what) = what else {
        return match read {
            Some(true) => (ArmApplied::NotSeen, format!("NCCL read {name}")),
            Some(false) => (
                ArmApplied::NotRead,
                format!("NCCL does not say that it read {name}"),
            ),
            None => (
                ArmApplied::NotLogged,
                format!("no line says whether NCCL read {name}"),
            ),
        };
    };
    match (was, is, read) {
        (_, Some(true), _) => (
            ArmApplied::Ignored,
            format!("channels use {what} though {name}={value}"),
        ),
        (Some(false), Some(false), _) => (
            ArmApplied::Nothing,
            format!("no channel used {what} without {name} either"),
        ),
        (Some(true), Some(false), Some(false)) => (
            ArmApplied::NotRead,
            format!("{what} is gone, and NCCL does not say that it read {name}"),
        ),
        (Some(true), Some(false), _) => (
            ArmApplied::Honoured,
            format!("channels used {what} without {name}, and none does with it"),
        ),
        (_, None, Some(false)) => (
            ArmApplied::NotRead,
            format!("NCCL does not say that it read {name}"),
        ),
        (None, Some(false), Some(true)) | (_, None, _) | (None, Some(false), _) => (
            ArmApplied::NotLogged,
            format!("no line says whether channels used {what}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(kinds: &[Kind], read: &[&str]) -> Proof {
        let mut proof = Proof {
            channels: !kinds.is_empty(),
            env_logged: true,
            ..Proof::default()
        };
        for (at, kind) in kinds.iter().enumerate() {
            let path = Path {
                word: format!("{kind:?}"),
                kind: *kind,
                inside: Some(true),
            };
            proof
                .pairs
                .insert((at as u64, at as u64 + 1), [path].into());
        }
        for name in read {
            proof.read.insert((*name).to_owned(), "1".to_owned());
        }
        proof
    }

    fn off(name: &str) -> Set {
        [(name.to_owned(), "1".to_owned())].into()
    }

    #[test]
    fn a_variable_is_honoured_where_it_was_read_and_its_path_is_gone() {
        let p2p = "NCCL_P2P_DISABLE";
        let before = proof(&[Kind::P2p], &[]);
        for (after, honour_is) in [
            (proof(&[Kind::Shm], &[p2p]), ArmApplied::Honoured),
            (
                proof(&[Kind::Shm], &["NCCL_P2P_LEVEL"]),
                ArmApplied::Honoured,
            ),
            (proof(&[Kind::Shm], &["NCCL_DEBUG"]), ArmApplied::NotRead),
            (proof(&[Kind::Shm, Kind::P2p], &[p2p]), ArmApplied::Ignored),
            (proof(&[], &[p2p]), ArmApplied::NotLogged),
        ] {
            assert_eq!(honour(&off(p2p), &before, &after).0, honour_is, "{after:?}");
        }
        // Without P2P before there is nothing to take away, whether it was read or not.
        let none = proof(&[Kind::Shm], &[]);
        let after = proof(&[Kind::Shm], &[]);
        assert_eq!(honour(&off(p2p), &none, &after).0, ArmApplied::Nothing);
    }

    #[test]
    fn on_one_node_the_chosen_network_proves_nothing() {
        let one = Proof {
            between: Some(InterNodeTransport::None),
            ..proof(&[], &["NCCL_IB_DISABLE"])
        };
        assert_eq!(
            honour(&off("NCCL_IB_DISABLE"), &one, &one).0,
            ArmApplied::NotLogged
        );
        let rdma = proof(&[Kind::Net(Some(true), true)], &[]);
        let socket = proof(&[Kind::Net(Some(false), false)], &["NCCL_IB_DISABLE"]);
        assert_eq!(
            honour(&off("NCCL_IB_DISABLE"), &rdma, &socket).0,
            ArmApplied::Honoured
        );
        assert_eq!(rdma.direct(), GpuDirectUse::All);
        assert_eq!(socket.direct(), GpuDirectUse::None);
    }

    #[test]
    fn what_spoils_a_comparison_leads() {
        let before = proof(&[Kind::P2p, Kind::Shm], &[]);
        let after = proof(&[Kind::Shm], &["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"]);
        let both: Set = ["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"]
            .map(|name| (name.to_owned(), "1".to_owned()))
            .into();
        assert_eq!(honour(&both, &before, &after).0, ArmApplied::Ignored);
        let queue: Set = [("NCCL_IB_QPS_PER_CONNECTION".to_owned(), "4".to_owned())].into();
        assert_eq!(honour(&queue, &before, &after).0, ArmApplied::NotRead);
    }
}
