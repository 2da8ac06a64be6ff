//! Which ranks take part in a measurement: by the node's facts and by what was asked for.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::gpu_choice::{choose_gpus, occupied};
use super::nccl_library;
use super::pairs::rail_choice::choose_rails;
use super::port_choice::{nearest_port, port_names};
use super::run::{Arm, Backend, Plan, Point, RankPlacement, Run};
use crate::fact::{Facts, Id};

/// What is asked for of a node's ranks. What is absent or empty is chosen.
#[derive(Clone, Debug, Default)]
pub struct RankRequest {
    /// The backend that moves the data.
    pub backend: Option<Backend>,
    /// Whether an NCCL library was named.
    pub is_nccl_named: bool,
    /// How many ranks.
    pub ranks: Option<u64>,
    /// The GPUs, by CUDA's numbers or PCI addresses.
    pub gpus: Vec<String>,
    /// The RDMA ports, or the addresses, that the ranks use in turn.
    pub device: Vec<String>,
    /// The row of the port's GID table.
    pub gid_index: Option<u64>,
    /// Connections to each other rank.
    pub qps: Option<u64>,
    /// Bytes of an RDMA write at most.
    pub message: Option<u64>,
    /// Whether RDMA writes go between GPUs.
    pub on_gpus: bool,
    /// Whether GPUs take part that other processes use.
    pub force: bool,
}

impl RankRequest {
    /// The placement of a rank. Named ports are used in turn; without a name it is `port`.
    fn placement(&self, rank: usize, gpu: Option<String>, port: Option<String>) -> RankPlacement {
        let named = self.device.get(rank % self.device.len().max(1)).cloned();
        RankPlacement {
            gpu,
            device: named.or(port),
            gid_index: self.gid_index,
            queue_pairs: self.qps,
            message: self.message,
            rails: self.device.clone(),
            ..RankPlacement::default()
        }
    }
}

/// Why no ranks were chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankChoiceError {
    /// The request contradicts itself, or names what the node does not have.
    #[error("{0}")]
    Request(String),
    /// The node cannot measure this.
    #[error("{0}")]
    Node(String),
}

/// The ranks that take part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChosenRanks {
    /// The backend that moves the data.
    pub backend: Backend,
    /// NCCL's file.
    pub library: Option<String>,
    /// The ranks.
    pub ranks: Vec<RankPlacement>,
}

impl ChosenRanks {
    /// The plan of these operations in so many runs of the baseline. The seed must differ from that
    /// of each earlier measurement: what a buffer still holds of it is wrong then.
    pub fn plan(self, points: Vec<Point>, rounds: u64, seed: u64) -> Plan {
        Plan {
            backend: self.backend,
            library: self.library,
            ranks: self.ranks,
            points,
            baseline_points: Vec::new(),
            arms: vec![Arm::baseline()],
            runs: (0..rounds).map(|round| Run { arm: 0, round }).collect(),
            seed,
        }
    }
}

/// The ranks of this node. `notes` gets what a person must know of the choice, also if it fails.
///
/// # Errors
///
/// Why there are none.
pub fn choose_ranks(
    facts: &Facts,
    node: Id,
    request: &RankRequest,
    notes: &mut Vec<String>,
) -> Result<ChosenRanks, RankChoiceError> {
    let gpus = choose_gpus(facts, node, &request.gpus).map_err(RankChoiceError::Request)?;
    let library = nccl_library::choose(facts, node);
    let backend = choose_backend(request, &gpus, library.as_ref().err(), notes)?;
    for (name, given) in [
        ("--gid-index", request.gid_index),
        ("--qps", request.qps),
        ("--message", request.message),
    ] {
        if given.is_some() && backend != Backend::Verbs {
            let why = format!("{name}: only verbs has it");
            return Err(RankChoiceError::Request(why));
        }
    }
    match backend {
        Backend::Nccl => choose_nccl_ranks(facts, node, request, gpus, library, notes),
        Backend::Verbs if request.on_gpus => choose_verbs_on_gpus(facts, node, request, &gpus),
        Backend::Verbs => choose_in_host_memory(request, backend, &port_names(facts, node, None)),
        Backend::Tcp => choose_in_host_memory(request, backend, &[]),
    }
}

/// The backend that was asked for; else NCCL, if there are GPUs and the library, else sockets.
fn choose_backend(
    request: &RankRequest,
    gpus: &[Arc<str>],
    no_library: Option<&String>,
    notes: &mut Vec<String>,
) -> Result<Backend, RankChoiceError> {
    let why = match (request.backend, gpus.is_empty(), no_library) {
        (Some(backend), ..) => return Ok(backend),
        (None, false, None) => return Ok(Backend::Nccl),
        (None, true, _) => "CUDA shows no GPU",
        (None, false, Some(why)) => why,
    };
    if request.is_nccl_named || !request.gpus.is_empty() {
        return Err(RankChoiceError::Node(why.to_owned()));
    }
    notes.push(format!(
        "measuring over sockets, in the host's memory: {why}"
    ));
    Ok(Backend::Tcp)
}

/// Ranks with their data in the host's memory.
fn choose_in_host_memory(
    request: &RankRequest,
    backend: Backend,
    ports: &[&str],
) -> Result<ChosenRanks, RankChoiceError> {
    if !request.gpus.is_empty() {
        let why = format!("--gpus: {} uses none", backend.word());
        return Err(RankChoiceError::Request(why));
    }
    let ranks = 0..request.ranks.unwrap_or(2) as usize;
    let mut ranks: Vec<RankPlacement> = ranks
        .map(|rank| request.placement(rank, None, ports.first().map(|name| (*name).into())))
        .collect();
    if request.device.is_empty() {
        let rails = || ports.iter().map(|name| (*name).into()).collect();
        ranks.iter_mut().for_each(|rank| rank.rails = rails());
    }
    Ok(ChosenRanks {
        backend,
        library: None,
        ranks,
    })
}

/// A rank of NCCL for each GPU.
fn choose_nccl_ranks(
    facts: &Facts,
    node: Id,
    request: &RankRequest,
    mut gpus: Vec<Arc<str>>,
    library: Result<nccl_library::Choice, String>,
    notes: &mut Vec<String>,
) -> Result<ChosenRanks, RankChoiceError> {
    if !request.device.is_empty() {
        let why = "--device: NCCL chooses its own (NCCL_IB_HCA)";
        return Err(RankChoiceError::Request(why.into()));
    }
    if gpus.is_empty() {
        return Err(RankChoiceError::Node("CUDA shows no GPU".into()));
    }
    let library = library.map_err(RankChoiceError::Node)?;
    notes.push(format!("NCCL {}, {}", library.path, library.why));
    refuse_occupied(facts, node, request, &gpus)?;
    if let Some(ranks) = request.ranks {
        if ranks as usize > gpus.len() {
            let why = format!("--ranks {ranks}: CUDA shows {} GPUs", gpus.len());
            return Err(RankChoiceError::Request(why));
        }
        gpus.truncate(ranks as usize);
    }
    let place = |gpu: &Arc<str>| RankPlacement {
        gpu: Some(gpu.to_string()),
        ..RankPlacement::default()
    };
    Ok(ChosenRanks {
        backend: Backend::Nccl,
        library: Some(library.path.to_string()),
        ranks: gpus.iter().map(place).collect(),
    })
}

/// Ranks with RDMA writes from GPU to GPU: one for each GPU, and two at least, which share a single
/// GPU.
fn choose_verbs_on_gpus(
    facts: &Facts,
    node: Id,
    request: &RankRequest,
    gpus: &[Arc<str>],
) -> Result<ChosenRanks, RankChoiceError> {
    if gpus.is_empty() {
        return Err(RankChoiceError::Node("CUDA shows no GPU".into()));
    }
    refuse_occupied(facts, node, request, gpus)?;
    let count = request.ranks.unwrap_or(gpus.len().max(2) as u64);
    let ranks = (0..count as usize).zip(gpus.iter().cycle());
    let ranks = ranks.map(|(rank, gpu)| {
        let port = nearest_port(facts, node, gpu);
        request.placement(rank, Some(gpu.to_string()), port)
    });
    Ok(ChosenRanks {
        backend: Backend::Verbs,
        library: None,
        ranks: ranks.collect(),
    })
}

/// Refuses the first of these GPUs that cannot be measured.
fn refuse_occupied(
    facts: &Facts,
    node: Id,
    request: &RankRequest,
    gpus: &[Arc<str>],
) -> Result<(), RankChoiceError> {
    let mut obstacles = gpus.iter().filter_map(|gpu| occupied(facts, node, gpu));
    match obstacles.next().filter(|_| !request.force) {
        Some(why) => Err(RankChoiceError::Node(format!(
            "{why} (--force measures at the same time)"
        ))),
        None => Ok(()),
    }
}

/// Gives ranks that use sockets the addresses of these names, which may be interfaces, else those
/// of the node's rails; ranks that use RDMA an address for sockets in its place, where the node has
/// one.
///
/// # Errors
///
/// A name has no address, or the node has none.
pub fn assign_addresses(
    facts: &Facts,
    node: Id,
    names: &[String],
    to_rank_0: Option<IpAddr>,
    mut ranks: ChosenRanks,
) -> Result<ChosenRanks, String> {
    if ranks.backend != Backend::Tcp {
        let address = to_rank_0.map(|address| address.to_string());
        let all = ranks.ranks.iter_mut();
        all.for_each(|rank| rank.address.clone_from(&address));
        return Ok(ranks);
    }
    let is_address = |name: &String| name.parse::<IpAddr>().is_ok();
    let addresses: Vec<String> = if names.iter().all(is_address) && !names.is_empty() {
        names.to_vec()
    } else {
        choose_rails(facts, node, names, to_rank_0)?
            .into_iter()
            .map(|rail| rail.address)
            .collect()
    };
    for (rank, place) in ranks.ranks.iter_mut().enumerate() {
        place.device = addresses.get(rank % addresses.len().max(1)).cloned();
        place.rails.clone_from(&addresses);
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_gpus_sockets_are_measured_unless_nccl_was_asked_for() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        let mut notes = Vec::new();
        let mut choose = |request: RankRequest| choose_ranks(&facts, node, &request, &mut notes);
        let chosen = choose(RankRequest::default()).unwrap();
        assert_eq!((chosen.backend, chosen.ranks.len()), (Backend::Tcp, 2));
        let named = choose(RankRequest {
            is_nccl_named: true,
            ..RankRequest::default()
        });
        let no_gpu = RankChoiceError::Node("CUDA shows no GPU".into());
        assert_eq!(named, Err(no_gpu.clone()));
        let on_gpus = choose(RankRequest {
            backend: Some(Backend::Verbs),
            on_gpus: true,
            ..RankRequest::default()
        });
        assert_eq!(on_gpus, Err(no_gpu));
        let without_effect = choose(RankRequest {
            qps: Some(2),
            ..RankRequest::default()
        });
        let why = "--qps: only verbs has it".to_owned();
        assert_eq!(without_effect, Err(RankChoiceError::Request(why)));
        assert!(notes[0].starts_with("measuring over sockets"), "{notes:?}");
    }

    #[test]
    fn named_ports_are_used_in_turn() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        let request = RankRequest {
            backend: Some(Backend::Verbs),
            ranks: Some(3),
            device: vec!["mlx5_0/1".into(), "mlx5_1/1".into()],
            ..RankRequest::default()
        };
        let chosen = choose_ranks(&facts, node, &request, &mut Vec::new()).unwrap();
        let devices: Vec<_> = chosen
            .ranks
            .iter()
            .map(|rank| rank.device.as_deref())
            .collect();
        let (first, second) = (Some("mlx5_0/1"), Some("mlx5_1/1"));
        assert_eq!(devices, [first, second, first]);
    }
}
