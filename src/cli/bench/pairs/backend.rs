//! Whether pairs are measured with RDMA writes or with sockets: all nodes decide it together.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::rails;
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::measure::plan::pairs::{self, Gpu, Memory, Rail, Silent, Why};
use crate::measure::plan::run::Backend;
use crate::measure::run::pairs::port_process;
use crate::measure::run::pairs::port_process::PortProcess;
use crate::source::recording::Recording;

/// How long a node may take to record itself, and to open its ports, before it says what it can.
const ABLE: Duration = Duration::from_secs(90);

/// What a person asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wish {
    /// RDMA writes where each node has a port that works, else sockets
    #[default]
    Auto,
    /// RDMA writes: a node that cannot is named
    Verbs,
    /// Sockets
    Tcp,
}

/// What is asked for.
pub(super) struct Asked<'a> {
    /// Who is to move the data.
    pub(super) wish: Wish,
    /// The rails, where they are named.
    pub(super) device: &'a [String],
    /// The row of each port's GID table, where it is named.
    pub(super) gid_index: Option<u64>,
    /// Where the data is to be, in turn.
    pub(super) memory: Vec<Memory>,
    /// Whether GPUs are taken that other processes use.
    pub(super) force: bool,
}

/// What a node can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Card {
    wish: Wish,
    memory: Vec<Memory>,
    /// Why it cannot use RDMA; absent where it can.
    #[serde(default)]
    unable: Option<String>,
}

/// What was decided, and what this node has for it.
pub(super) struct Decided {
    /// Who moves the data.
    pub(super) backend: Backend,
    /// Why.
    pub(super) why: Why,
    /// Where the data is, in turn.
    pub(super) memory: Vec<Memory>,
    /// This node's rails; why it has none, where it has none.
    pub(super) rails: Result<Vec<Rail>, String>,
    /// The processes that have their ports, one for each rail; none where sockets are used.
    pub(super) stations: Vec<PortProcess>,
}

/// Decides with all other nodes. `gid_index` is the row of its GID table that each port uses, where one is named.
///
/// # Errors
///
/// Rank 0 is gone.
pub(super) fn decide(
    session: &Session,
    recording: &Recording,
    asked: &Asked<'_>,
) -> anyhow::Result<Decided> {
    let with_gpus = asked.memory.contains(&Memory::Gpu);
    let able = match asked.wish {
        Wish::Tcp => Err("sockets were asked for".to_owned()),
        _ => rails::with_rdma(recording, asked.device).and_then(|mut rails| {
            if with_gpus {
                rails::give_gpus(recording, &mut rails, asked.force);
            }
            open(rails, asked.gid_index)
        }),
    };
    let card = Card {
        wish: asked.wish,
        memory: asked.memory.clone(),
        unable: able.as_ref().err().cloned(),
    };
    let value = serde_json::to_value(&card)?;
    let taking = match with_gpus {
        true => port_process::TAKING,
        false => Duration::ZERO,
    };
    let all = session.exchange("backend", &[], StepAudience::Everyone, ABLE + taking, value)?;
    let cards: Vec<(String, Card)> = all
        .values
        .into_iter()
        .filter_map(|(rank, value)| {
            let name = session.names().get(&rank).cloned();
            let name = name.unwrap_or_else(|| format!("rank {rank}"));
            Some((name, serde_json::from_value(value).ok()?))
        })
        .collect();
    let (backend, why) = choose(&cards);
    let memory = match (backend, cards.first()) {
        (Backend::Verbs, Some((_, card))) => card.memory.clone(),
        _ => pairs::host_only(),
    };
    let (rails, stations) = match (backend, able) {
        (Backend::Verbs, Ok((rails, stations))) => (Ok(rails), stations),
        (Backend::Verbs, Err(why)) => (Err(why), Vec::new()),
        _ => (
            rails::choose(recording, asked.device, session.address()),
            Vec::new(),
        ),
    };
    Ok(Decided {
        backend,
        why,
        memory,
        rails,
        stations,
    })
}

/// Opens the ports, all at once: whether they work is seen by using them.
fn open(rails: Vec<Rail>, gid_index: Option<u64>) -> Result<(Vec<Rail>, Vec<PortProcess>), String> {
    let one = |rail: &Rail| {
        let (mut station, opened) =
            PortProcess::open(rail.device.as_deref().unwrap_or_default(), gid_index)?;
        let gpu = rail.gpu.clone().map(|gpu| taken(&mut station, gpu));
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

/// The GPU, and how the adapter comes to its memory.
fn taken(station: &mut PortProcess, gpu: Gpu) -> Gpu {
    let Some(pci) = gpu.pci.as_deref().filter(|_| gpu.why.is_none()) else {
        return gpu;
    };
    let (way, why) = match station.take_gpu(pci) {
        Ok(tried) => match (tried.no_dma_buf, tried.no_peer_memory) {
            (Some(file), Some(peer)) => {
                let why = format!("{file}; nor does it go by peer memory: {peer}");
                (tried.way, Some(why))
            }
            (why, _) => (tried.way, why),
        },
        // CUDA does not give memory: nothing is said of the way to it.
        Err(why) => return Gpu::none(gpu.pci, why),
    };
    Gpu { way, why, ..gpu }
}

/// Rank 0's wish is that of all; where it leaves the choice, all have to be able.
fn choose(cards: &[(String, Card)]) -> (Backend, Why) {
    let wish = cards.first().map_or(Wish::Tcp, |(_, card)| card.wish);
    let unable = |(host, card): &(String, Card)| {
        let (host, why) = (host.clone(), card.unable.clone()?);
        Some(Why::Without(Silent { host, why }))
    };
    match wish {
        Wish::Tcp => (Backend::Tcp, Why::AskedFor),
        Wish::Verbs => (Backend::Verbs, Why::AskedFor),
        Wish::Auto => match cards.iter().find_map(unable) {
            Some(why) => (Backend::Tcp, why),
            None => (Backend::Verbs, Why::AllCan),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, wish: Wish, unable: Option<&str>) -> (String, Card) {
        let unable = unable.map(str::to_owned);
        let memory = pairs::host_only();
        let card = Card {
            wish,
            memory,
            unable,
        };
        (name.to_owned(), card)
    }

    #[test]
    fn rdma_is_used_where_all_can() {
        let can = card("n1", Wish::Auto, None);
        let all = [can.clone(), card("n2", Wish::Auto, None)];
        assert_eq!(choose(&all), (Backend::Verbs, Why::AllCan));
        let one = [can, card("n2", Wish::Auto, Some("mlx5_0/1: no library"))];
        let (backend, why) = choose(&one);
        assert_eq!(backend, Backend::Tcp);
        assert_eq!(
            why.words(),
            "n2 has no RDMA port that works: mlx5_0/1: no library"
        );
        let forced = [
            card("n1", Wish::Verbs, None),
            card("n2", Wish::Tcp, Some("x")),
        ];
        assert_eq!(choose(&forced).0, Backend::Verbs);
        let forced = [card("n1", Wish::Tcp, None), card("n2", Wish::Auto, None)];
        assert_eq!(choose(&forced).0, Backend::Tcp);
    }
}
