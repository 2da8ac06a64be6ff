//! How all nodes decide together whether pairs are measured with RDMA writes or with sockets.

use std::time::Duration;

use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::fact::{Facts, Id};
use crate::measure::plan::pairs::backend_choice::{BackendRequest, NodeAbility, choose_backend};
use crate::measure::plan::pairs::rail_choice::{assign_gpus, choose_rails, choose_rdma_rails};
use crate::measure::plan::pairs::{self, Gpu, Memory, Rail, Why};
use crate::measure::plan::run::Backend;
use crate::measure::run::pairs::port_process;
use crate::measure::run::pairs::port_process::PortProcess;
use crate::measure::run::pairs::rdma::Purpose;

/// How long a node may take to record itself and to open its ports.
const ABLE: Duration = Duration::from_secs(90);

/// What is asked for of the pairs.
pub struct PairRequest<'a> {
    /// The backend that moves the data.
    pub backend: BackendRequest,
    /// The names of the rails; empty if they are chosen.
    pub device: &'a [String],
    /// The row of each port's GID table.
    pub gid_index: Option<u64>,
    /// The memories of the data, in turn.
    pub memory: Vec<Memory>,
    /// Whether GPUs take part that other processes use.
    pub force: bool,
    /// For what ports are opened.
    pub purpose: Purpose,
}

/// What was decided, and what this node has for it.
pub struct BackendDecision {
    /// The backend that moves the data.
    pub(super) backend: Backend,
    /// Why.
    pub(super) why: Why,
    /// Where the data is, in turn.
    pub(super) memory: Vec<Memory>,
    /// This node's rails; why it has none, where it has none.
    pub rails: Result<Vec<Rail>, String>,
    /// The processes that have their ports, one for each rail; none where sockets are used.
    pub(super) stations: Vec<PortProcess>,
}

impl BackendDecision {
    /// Sockets over these rails, by nobody's choice.
    pub fn by_sockets(rails: Result<Vec<Rail>, String>) -> Self {
        BackendDecision {
            backend: Backend::Tcp,
            why: Why::AskedFor,
            memory: pairs::host_only(),
            rails,
            stations: Vec::new(),
        }
    }

    /// Why it was that backend, in words.
    pub fn reason(&self) -> String {
        self.why.words()
    }

    /// Whether sockets move the data.
    pub fn is_by_sockets(&self) -> bool {
        self.backend == Backend::Tcp
    }
}

/// Decides with all other nodes.
///
/// # Errors
///
/// Rank 0 is gone.
pub fn decide(
    session: &Session,
    (facts, node): (&Facts, Id),
    request: &PairRequest<'_>,
) -> anyhow::Result<BackendDecision> {
    let with_gpus = request.memory.contains(&Memory::Gpu);
    let able = match request.backend {
        BackendRequest::Tcp => Err("sockets were asked for".to_owned()),
        _ => choose_rdma_rails(facts, node, request.device).and_then(|mut rails| {
            if with_gpus {
                assign_gpus(facts, node, &mut rails, request.force);
            }
            open(rails, request)
        }),
    };
    let ability = NodeAbility {
        request: request.backend,
        memory: request.memory.clone(),
        unable: able.as_ref().err().cloned(),
    };
    let value = serde_json::to_value(&ability)?;
    let taking = if with_gpus {
        port_process::TAKING
    } else {
        Duration::ZERO
    };
    let all = session.exchange("backend", &[], StepAudience::Everyone, ABLE + taking, value)?;
    let nodes: Vec<(String, NodeAbility)> = all
        .values
        .into_iter()
        .filter_map(|(rank, value)| Some((session.name(rank), serde_json::from_value(value).ok()?)))
        .collect();
    let (backend, why) = choose_backend(&nodes);
    let memory = match (backend, nodes.first()) {
        (Backend::Verbs, Some((_, ability))) => ability.memory.clone(),
        _ => pairs::host_only(),
    };
    let (rails, stations) = match (backend, able) {
        (Backend::Verbs, Ok((rails, stations))) => (Ok(rails), stations),
        (Backend::Verbs, Err(why)) => (Err(why), Vec::new()),
        _ => (
            choose_rails(facts, node, request.device, session.address()),
            Vec::new(),
        ),
    };
    Ok(BackendDecision {
        backend,
        why,
        memory,
        rails,
        stations,
    })
}

/// Opens all ports at once: only using them shows whether they work.
fn open(
    rails: Vec<Rail>,
    request: &PairRequest<'_>,
) -> Result<(Vec<Rail>, Vec<PortProcess>), String> {
    let one = |rail: &Rail| {
        let device = rail.device.as_deref().unwrap_or_default();
        let (mut station, opened) = PortProcess::open(device, request.gid_index, request.purpose)?;
        let gpu = rail.gpu.clone().map(|gpu| take_gpu(&mut station, gpu));
        Ok((station, opened, gpu))
    };
    let opened: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = rails.iter().map(|rail| scope.spawn(|| one(rail))).collect();
        let gone = |_| Err("a thread panicked".to_owned());
        all.into_iter()
            .map(|one| one.join().unwrap_or_else(gone))
            .collect()
    });
    let mut stations = Vec::with_capacity(rails.len());
    let mut named = Vec::with_capacity(rails.len());
    for (rail, opened) in rails.into_iter().zip(opened) {
        let device = rail.device.clone().unwrap_or_default();
        let (station, opened, gpu) = opened.map_err(|why: String| format!("{device}: {why}"))?;
        stations.push(station);
        named.push(Rail {
            port: Some(opened.port),
            gid: Some(opened.gid),
            gpu,
            ..rail
        });
    }
    Ok((named, stations))
}

/// The GPU, with the adapter's access to its memory.
fn take_gpu(station: &mut PortProcess, gpu: Gpu) -> Gpu {
    let Some(pci) = gpu.pci.as_deref().filter(|_| gpu.why.is_none()) else {
        return gpu;
    };
    let (access, why) = match station.open_gpu(pci) {
        Ok(tried) => match (tried.no_dma_buf, tried.no_peer_memory) {
            (Some(file), Some(peer)) => {
                let why = format!("{file}; peer memory fails too: {peer}");
                (tried.way, Some(why))
            }
            (why, _) => (tried.way, why),
        },
        // CUDA does not give memory: the adapter's access to it stays unknown.
        Err(why) => return Gpu::none(gpu.pci, why),
    };
    Gpu {
        way: access,
        why,
        ..gpu
    }
}
