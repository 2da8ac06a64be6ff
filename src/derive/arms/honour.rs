//! Whether a variable took away what it forbids. NCCL reads some variables only where it gets to
//! them (`NCCL_SHM_DISABLE` where P2P was refused: `src/graph/paths.cc`, `ncclTopoComputePaths`),
//! so one that it did not read may have had nothing to take away.

use crate::fact::arm::{ArmApplied, InterNodeTransport};
use crate::fact::arms::{PairPath, PathKind, Set, TransportProof};
use crate::fact::factor::FactorChange;
use crate::measure::plan::ablation::kind;

impl TransportProof {
    /// Whether what a change forbids is used; `None` where the log does not say, or where the
    /// change forbids nothing that could be seen.
    fn uses(&self, change: FactorChange) -> Option<bool> {
        let any = |is: &dyn Fn(&PairPath) -> bool| self.channels.then(|| self.paths().any(is));
        match change {
            FactorChange::IbOff if self.channels => {
                any(&|path| matches!(path.kind, PathKind::Net(Some(true), _)))
            }
            // Without channels the network that was chosen decides, and on one node it proves
            // nothing.
            FactorChange::IbOff => match self.between? {
                InterNodeTransport::Rdma => Some(true),
                InterNodeTransport::Socket => Some(false),
                InterNodeTransport::Other
                | InterNodeTransport::None
                | InterNodeTransport::NotLogged => None,
            },
            FactorChange::ShmOff => any(&|path| path.kind == PathKind::Shm),
            FactorChange::P2pOff => any(&|path| path.kind == PathKind::P2p),
            FactorChange::GdrOff => any(&|path| matches!(path.kind, PathKind::Net(_, true))),
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

/// What spoils a comparison leads; of the rest what was really taken away.
pub(super) const LEADING: [ArmApplied; 6] = [
    ArmApplied::Ignored,
    ArmApplied::NotRead,
    ArmApplied::NotLogged,
    ArmApplied::Honoured,
    ArmApplied::NotSeen,
    ArmApplied::Nothing,
];

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
pub(super) fn honour(
    change: &Set,
    before: &TransportProof,
    after: &TransportProof,
) -> (ArmApplied, String) {
    let all: Vec<(ArmApplied, String)> = change
        .iter()
        .map(|(name, value)| one(name, value, before, after))
        .collect();
    let mut leads = LEADING.iter();
    let first = leads.find_map(|lead| all.iter().find(|(honour, _)| honour == lead));
    let nothing = || (ArmApplied::NotSeen, "it sets nothing".into());
    first.cloned().unwrap_or_else(nothing)
}

fn one(
    name: &str,
    value: &str,
    before: &TransportProof,
    after: &TransportProof,
) -> (ArmApplied, String) {
    let change = kind(name, value);
    let read = after.was_read(name);
    let what = forbidden(change);
    let (was, is) = (before.uses(change), after.uses(change));
    let Some(what) = what else {
        // Without NCCL nobody reads variables: what ranks say that they used tells.
        if !before.devices.is_empty() || !after.devices.is_empty() {
            return if before.devices == after.devices {
                (
                    ArmApplied::Nothing,
                    format!("ranks are connected as without {name}"),
                )
            } else {
                (ArmApplied::Honoured, "ranks say so".into())
            };
        }
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
    use crate::fact::arm::GpuDirectUse;

    fn proof(kinds: &[PathKind], read: &[&str]) -> TransportProof {
        let mut proof = TransportProof {
            channels: !kinds.is_empty(),
            env_logged: true,
            ..TransportProof::default()
        };
        for (at, kind) in kinds.iter().enumerate() {
            let path = PairPath {
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
        let before = proof(&[PathKind::P2p], &[]);
        for (after, honour_is) in [
            (proof(&[PathKind::Shm], &[p2p]), ArmApplied::Honoured),
            (
                proof(&[PathKind::Shm], &["NCCL_P2P_LEVEL"]),
                ArmApplied::Honoured,
            ),
            (
                proof(&[PathKind::Shm], &["NCCL_DEBUG"]),
                ArmApplied::NotRead,
            ),
            (
                proof(&[PathKind::Shm, PathKind::P2p], &[p2p]),
                ArmApplied::Ignored,
            ),
            (proof(&[], &[p2p]), ArmApplied::NotLogged),
        ] {
            assert_eq!(honour(&off(p2p), &before, &after).0, honour_is, "{after:?}");
        }
        // Without P2P before there is nothing to take away, whether it was read or not.
        let none = proof(&[PathKind::Shm], &[]);
        let after = proof(&[PathKind::Shm], &[]);
        assert_eq!(honour(&off(p2p), &none, &after).0, ArmApplied::Nothing);
    }

    #[test]
    fn on_one_node_the_chosen_network_proves_nothing() {
        let one = TransportProof {
            between: Some(InterNodeTransport::None),
            ..proof(&[], &["NCCL_IB_DISABLE"])
        };
        assert_eq!(
            honour(&off("NCCL_IB_DISABLE"), &one, &one).0,
            ArmApplied::NotLogged
        );
        let rdma = proof(&[PathKind::Net(Some(true), true)], &[]);
        let socket = proof(&[PathKind::Net(Some(false), false)], &["NCCL_IB_DISABLE"]);
        assert_eq!(
            honour(&off("NCCL_IB_DISABLE"), &rdma, &socket).0,
            ArmApplied::Honoured
        );
        assert_eq!(rdma.direct(), GpuDirectUse::All);
        assert_eq!(socket.direct(), GpuDirectUse::None);
    }

    #[test]
    fn what_spoils_a_comparison_leads() {
        let before = proof(&[PathKind::P2p, PathKind::Shm], &[]);
        let after = proof(&[PathKind::Shm], &["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"]);
        let both: Set = ["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"]
            .map(|name| (name.to_owned(), "1".to_owned()))
            .into();
        assert_eq!(honour(&both, &before, &after).0, ArmApplied::Ignored);
        let queue: Set = [("NCCL_IB_QPS_PER_CONNECTION".to_owned(), "4".to_owned())].into();
        assert_eq!(honour(&queue, &before, &after).0, ArmApplied::NotRead);
    }
}
