//! Which ranks take part in a measurement: by the node's facts and by what was asked for.

use std::net::IpAddr;
use std::sync::Arc;

use super::gpu_choice::{choose_gpus, occupied};
use super::nccl_library;
use super::pairs::rail_choice::choose_rails;
use super::port_choice::{first_port, nearest_port};
use super::run::{Arm, Backend, Plan, Point, RankPlace, Run};
use crate::fact::{Facts, Id};

/// What is asked for of a node's ranks. What is absent or empty is chosen.
#[derive(Clone, Debug, Default)]
pub struct RankRequest {
    /// Who moves the data.
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
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenRanks {
    /// Who moves the data.
    pub backend: Backend,
    /// NCCL's file.
    pub library: Option<String>,
    /// The ranks.
    pub ranks: Vec<RankPlace>,
}

impl ChosenRanks {
    /// The plan of these operations in so many runs of the baseline. The seed must differ from that of each earlier measurement: what a buffer still holds of it
    /// is wrong then.
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
    let bad = |what: String| Err(RankChoiceError::Request(what));
    let unable = |why: &str| Err(RankChoiceError::Node(why.to_owned()));
    let gpus = choose_gpus(facts, node, &request.gpus).map_err(RankChoiceError::Request)?;
    let library = nccl_library::choose(facts, node);
    let backend = match request.backend {
        Some(backend) => backend,
        None => {
            let why = match (gpus.is_empty(), &library) {
                (false, Ok(_)) => None,
                (true, _) => Some("CUDA shows no GPU"),
                (false, Err(why)) => Some(why.as_str()),
            };
            match why {
                None => Backend::Nccl,
                Some(why) if request.is_nccl_named || !request.gpus.is_empty() => {
                    return unable(why);
                }
                Some(why) => {
                    notes.push(format!(
                        "measuring over sockets, in the host's memory: {why}"
                    ));
                    Backend::Tcp
                }
            }
        }
    };
    for (name, given) in [
        ("--gid-index", request.gid_index),
        ("--qps", request.qps),
        ("--message", request.message),
    ] {
        if given.is_some() && backend != Backend::Verbs {
            return bad(format!("{name}: only verbs has it"));
        }
    }
    if backend == Backend::Verbs && request.on_gpus {
        return choose_verbs_on_gpus(facts, node, request, &gpus).map_err(RankChoiceError::Node);
    }
    if backend != Backend::Nccl {
        if !request.gpus.is_empty() {
            return bad(format!("--gpus: {} uses none", backend.name()));
        }
        let count = request.ranks.unwrap_or(2);
        let first = match backend {
            Backend::Verbs => first_port(facts, node),
            _ => None,
        };
        let place = |rank: u64| RankPlace {
            device: request
                .device
                .get(rank as usize % request.device.len().max(1))
                .cloned()
                .or_else(|| first.clone()),
            gid_index: request.gid_index,
            queue_pairs: request.qps,
            message: request.message,
            ..RankPlace::default()
        };
        return Ok(ChosenRanks {
            backend,
            library: None,
            ranks: (0..count).map(place).collect(),
        });
    }
    if !request.device.is_empty() {
        return bad("--device: NCCL chooses its own (NCCL_IB_HCA)".into());
    }
    if gpus.is_empty() {
        return unable("CUDA shows no GPU");
    }
    let library = match library {
        Ok(library) => library,
        Err(why) => return unable(&why),
    };
    notes.push(format!("NCCL {}, {}", library.path, library.why));
    if let Some(why) = first_occupied(facts, node, request, &gpus) {
        return unable(&why);
    }
    let mut gpus = gpus;
    if let Some(ranks) = request.ranks {
        if ranks as usize > gpus.len() {
            let there = gpus.len();
            return bad(format!("--ranks {ranks}: CUDA shows {there} GPUs"));
        }
        gpus.truncate(ranks as usize);
    }
    let place = |gpu: &Arc<str>| RankPlace {
        gpu: Some(gpu.to_string()),
        ..RankPlace::default()
    };
    Ok(ChosenRanks {
        backend,
        library: Some(library.path.to_string()),
        ranks: gpus.iter().map(place).collect(),
    })
}

/// Ranks with RDMA writes from GPU to GPU: one for each GPU, and two at least, which share a single GPU.
fn choose_verbs_on_gpus(
    facts: &Facts,
    node: Id,
    request: &RankRequest,
    gpus: &[Arc<str>],
) -> Result<ChosenRanks, String> {
    if gpus.is_empty() {
        return Err("CUDA shows no GPU".into());
    }
    if let Some(why) = first_occupied(facts, node, request, gpus) {
        return Err(why);
    }
    let count = request.ranks.unwrap_or(gpus.len().max(2) as u64);
    let in_turn = |of: &[String], rank: usize| of.get(rank % of.len().max(1)).cloned();
    let ranks = (0..count as usize).zip(gpus.iter().cycle());
    let ranks = ranks.map(|(rank, gpu)| RankPlace {
        gpu: Some(gpu.to_string()),
        device: in_turn(&request.device, rank).or_else(|| nearest_port(facts, node, gpu)),
        gid_index: request.gid_index,
        queue_pairs: request.qps,
        message: request.message,
        ..RankPlace::default()
    });
    Ok(ChosenRanks {
        backend: Backend::Verbs,
        library: None,
        ranks: ranks.collect(),
    })
}

/// Why one of these GPUs cannot be measured.
fn first_occupied(
    facts: &Facts,
    node: Id,
    request: &RankRequest,
    gpus: &[Arc<str>],
) -> Option<String> {
    if request.force {
        return None;
    }
    let why = gpus.iter().find_map(|gpu| occupied(facts, node, gpu))?;
    Some(format!("{why} (--force measures beside it)"))
}

/// Gives ranks that use sockets the addresses of these names, which may be interfaces, else those of the node's rails.
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
        return Ok(ranks);
    }
    let is_address = |name: &String| name.parse::<IpAddr>().is_ok();
    let addresses: Vec<String> = match names.iter().all(is_address) && !names.is_empty() {
        true => names.to_vec(),
        false => choose_rails(facts, node, names, to_rank_0)?
            .into_iter()
            .map(|rail| rail.address)
            .collect(),
    };
    for (rank, place) in ranks.ranks.iter_mut().enumerate() {
        place.device = addresses.get(rank % addresses.len().max(1)).cloned();
    }
    Ok(ranks)
}
