//! Proof of transport: what each pair of ranks used, by NCCL's own log. On one node `Using network IB` proves nothing, since no channel uses it: the lines
//! of connected channels count.

use crate::fact::arm::InterNodeTransport;
use crate::fact::arms::{PairPath, PathKind, TransportProof};
use crate::fact::channel::Transport;
use crate::fact::run::Carrier;
use crate::fact::{Facts, Id, Subject, channel, env, run};
use crate::nccl_log::Digest;
use crate::probe::nccl_log;

impl TransportProof {
    /// What the log of a run says.
    pub(super) fn of_log(name: &str, digest: Digest) -> Self {
        let mut scratch = Facts::new();
        let runs = nccl_log::establish_digest(name, digest, &mut scratch);
        let mut proof = TransportProof::default();
        for run in runs {
            proof.join(TransportProof::of_run(&scratch, run));
        }
        proof
    }

    fn of_run(facts: &Facts, id: Id) -> Self {
        let mut proof = TransportProof {
            env_logged: facts.known(id, run::ENV_LOGGED) == Some(true),
            ..TransportProof::default()
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
                Transport::P2p => (format!("P2P/{kind}"), PathKind::P2p),
                Transport::Shm => ("SHM".to_owned(), PathKind::Shm),
                Transport::Net | Transport::CollNet => {
                    let rdma = facts.known(channel, channel::RDMA);
                    let suffix = if gdr { "/GDRDMA" } else { "" };
                    (format!("NET/{kind}{suffix}"), PathKind::Net(rdma, gdr))
                }
            };
            let path = PairPath {
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

    /// A backend without NCCL: what it is, it uses, by the devices that its ranks name: `mlx5_0/1 GID 3, 1 queue pair, 512 KiB a write`.
    pub(super) fn of_backend<'r>(
        between: InterNodeTransport,
        named: impl Iterator<Item = &'r str>,
    ) -> Self {
        let mut proof = TransportProof {
            between: Some(between),
            ..TransportProof::default()
        };
        for (device, how) in named.filter_map(|named| named.split_once(", ")) {
            let devices = proof.devices.entry(how.to_owned()).or_default();
            devices.insert(device.to_owned());
        }
        proof
    }

    /// Adds what another run of the arm used.
    pub(super) fn join(&mut self, other: TransportProof) {
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
        for (how, devices) in other.devices {
            self.devices.entry(how).or_default().extend(devices);
        }
        for (ends, paths) in other.pairs {
            self.pairs.entry(ends).or_default().extend(paths);
        }
        self.read.extend(other.read);
    }
}
