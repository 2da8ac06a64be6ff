//! `--memory`: where the data of RDMA writes is, and which port a GPU's data goes over where nobody named one.

use std::sync::Arc;

use clap::ValueEnum;

use super::pairs::rails;
use crate::fact::{Facts, Id, Subject, device, gpu};
use crate::measure::plan::collective::Collective;
use crate::measure::plan::pairs;
use crate::measure::plan::run::{Backend, Point};

/// Where the data is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Memory {
    /// In the host's memory
    #[default]
    Host,
    /// In the memory of GPUs: GPUDirect RDMA
    Gpu,
    /// First in the host's memory, then in that of GPUs, over the same ports
    Both,
}

impl Memory {
    /// Whether ranks have GPUs.
    pub fn on_gpus(self) -> bool {
        self != Memory::Host
    }

    /// Whether it goes with an operation and a backend.
    ///
    /// # Errors
    ///
    /// In words, why it does not.
    pub fn goes_with(self, collective: Collective, backend: Option<Backend>) -> Result<(), String> {
        if !self.on_gpus() {
            return Ok(());
        }
        if backend != Some(Backend::Verbs) {
            return Err(
                "--memory: only --backend verbs has the choice; NCCL's data is always on GPUs, that of sockets never"
                    .into(),
            );
        }
        if collective.reduces() {
            return Err(format!(
                "--memory: {} puts together what arrives, which the processor does in the host's memory; \
                 what GPUDirect RDMA carries tells `rdma-doctor bench send-recv --backend verbs --memory both`",
                collective.name()
            ));
        }
        Ok(())
    }

    /// Where the data of pairs is, in turn.
    pub fn of_pairs(self) -> Vec<pairs::Memory> {
        match self {
            Memory::Host => vec![pairs::Memory::Host],
            Memory::Gpu => vec![pairs::Memory::Gpu],
            Memory::Both => vec![pairs::Memory::Host, pairs::Memory::Gpu],
        }
    }

    /// The operations with their data where it is to be. GPUs come last: their figures are what was asked for.
    pub fn of(self, points: Vec<Point>) -> Vec<Point> {
        let on_gpus = points.iter().map(|point| Point {
            gpu_memory: true,
            ..point.clone()
        });
        let on_gpus: Vec<Point> = on_gpus.collect();
        match self {
            Memory::Host => points,
            Memory::Gpu => on_gpus,
            Memory::Both => points.into_iter().chain(on_gpus).collect(),
        }
    }
}

/// The ports that jobs use, by name; of one device, where it is given.
fn usable<'f>(facts: &'f Facts, node: Id, of: Option<&str>) -> Vec<&'f str> {
    let is_of = |id: &Id| {
        let device = facts.ancestor(*id, Subject::Device);
        of.is_none_or(|of| device.is_some_and(|device| facts.name(device) == of))
    };
    let ports = rails::in_use(facts, node).into_iter().filter(is_of);
    ports.map(|id| facts.name(id)).collect()
}

/// The first port that is active and meant to be used; the backend chooses where the facts do not say.
pub(super) fn first_port(facts: &Facts, node: Id) -> Option<String> {
    usable(facts, node, None)
        .first()
        .map(|name| (*name).to_owned())
}

/// The port that a GPU's data goes over: of the nearest adapter that has one in use, else the first.
pub(super) fn nearest_port(facts: &Facts, node: Id, pci: &str) -> Option<String> {
    let id = facts.find(Subject::Gpu, node, pci);
    let nearest = id.and_then(|id| {
        let own = facts.known(id, gpu::NEAR_NIC);
        let others = facts.known(id, gpu::NEAR_NICS);
        let others = others.iter().flat_map(|all| all.iter().cloned());
        let ports = own
            .into_iter()
            .chain(others)
            .filter_map(|nic| Some((*usable(facts, node, Some(&nic)).first()?).to_owned()));
        ports.take(1).next()
    });
    nearest.or_else(|| first_port(facts, node))
}

/// The GPUs whose data goes over these ports, of those that CUDA shows: the one whose nearest adapter a port belongs to, or else one to which it is as near as
/// any, or one of its NUMA node; where all are far, each port in turn has another one.
pub(super) fn nearest_gpus(
    facts: &Facts,
    node: Id,
    shown: &[Arc<str>],
    ports: &[&str],
) -> Vec<Option<Arc<str>>> {
    let known: Vec<(Id, &Arc<str>)> = shown
        .iter()
        .filter_map(|pci| Some((facts.find(Subject::Gpu, node, pci)?, pci)))
        .collect();
    let nearest = |(at, port): (usize, &&str)| {
        let name = port.split('/').next().unwrap_or(port);
        let numa = facts
            .find(Subject::Device, node, name)
            .and_then(|device| facts.known(device, device::NUMA_NODE));
        let own = |gpu: Id| facts.known(gpu, gpu::NEAR_NIC).is_some_and(|n| *n == *name);
        let near = |gpu: Id| {
            let all = facts.known(gpu, gpu::NEAR_NICS);
            all.is_some_and(|all| all.iter().any(|one| **one == *name))
        };
        let beside = |gpu: Id| numa.is_some() && facts.known(gpu, gpu::NUMA_NODE) == numa;
        let ways: [&dyn Fn(Id) -> bool; 3] = [&own, &near, &beside];
        let found = ways
            .iter()
            .find_map(|is| known.iter().find(|(id, _)| is(*id)));
        let found = found.map(|(_, pci)| *pci);
        let other = shown.get(at % shown.len().max(1));
        found.or(other).map(Arc::clone)
    };
    ports.iter().enumerate().map(nearest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::port::PortState;
    use crate::fact::{Fact, Origin, port};

    fn stated<T>(value: T) -> Fact<T> {
        Fact::Known(value, Origin::Stated)
    }

    #[test]
    fn what_adds_up_stays_with_the_host() {
        let goes = |memory: Memory, collective, backend| memory.goes_with(collective, backend);
        let verbs = Some(Backend::Verbs);
        assert!(goes(Memory::Host, Collective::AllReduce, None).is_ok());
        assert!(goes(Memory::Both, Collective::SendRecv, verbs).is_ok());
        let why = goes(Memory::Gpu, Collective::AllReduce, verbs).unwrap_err();
        assert!(
            why.contains("send-recv --backend verbs --memory both"),
            "{why}"
        );
        let why = goes(Memory::Gpu, Collective::SendRecv, None).unwrap_err();
        assert!(why.contains("--backend verbs"), "{why}");
        assert!(goes(Memory::Gpu, Collective::SendRecv, Some(Backend::Nccl)).is_err());
    }

    #[test]
    fn a_gpus_data_goes_over_the_nearest_port_in_use() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        for (device, state) in [
            ("mlx5_0", PortState::Active),
            ("mlx5_1", PortState::Active),
            ("mlx5_2", PortState::Down),
        ] {
            let id = facts.instance(Subject::Device, node, device);
            let id = facts.instance(Subject::Port, id, &format!("{device}/1"));
            facts.set(id, port::STATE, stated(state));
            facts.set(id, port::INTENDED, stated(true));
        }
        for (pci, near) in [
            ("0000:1a:00.0", "mlx5_1"),
            ("0000:1b:00.0", "mlx5_2"),
            ("0000:1c:00.0", ""),
        ] {
            let id = facts.instance(Subject::Gpu, node, pci);
            if !near.is_empty() {
                facts.set(id, gpu::NEAR_NIC, stated(near.into()));
            }
        }
        let of = |pci| nearest_port(&facts, node, pci);
        assert_eq!(of("0000:1a:00.0").as_deref(), Some("mlx5_1/1"));
        assert_eq!(of("0000:1b:00.0").as_deref(), Some("mlx5_0/1"));
        assert_eq!(of("0000:1c:00.0").as_deref(), Some("mlx5_0/1"));
    }

    #[test]
    fn a_ports_data_is_on_the_nearest_gpu() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        for (device, numa) in [("mlx5_0", 0), ("mlx5_1", 0), ("mlx5_2", 1), ("mlx5_3", 7)] {
            let id = facts.instance(Subject::Device, node, device);
            facts.set(id, device::NUMA_NODE, stated(numa));
        }
        let gpus: [(&str, &str, &[&str], u64); 3] = [
            ("0000:1a:00.0", "mlx5_0", &["mlx5_0", "mlx5_1"], 0),
            ("0000:1b:00.0", "mlx5_0", &["mlx5_0"], 0),
            ("0000:9a:00.0", "", &[], 1),
        ];
        for (pci, own, near, numa) in gpus {
            let id = facts.instance(Subject::Gpu, node, pci);
            if !own.is_empty() {
                facts.set(id, gpu::NEAR_NIC, stated(own.into()));
            }
            let near: Arc<[Arc<str>]> = near.iter().map(|name| Arc::from(*name)).collect();
            facts.set(id, gpu::NEAR_NICS, stated(near));
            facts.set(id, gpu::NUMA_NODE, stated(numa));
        }
        let shown: Vec<Arc<str>> = gpus.iter().map(|gpu| Arc::from(gpu.0)).collect();
        let ports = ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1"];
        let of = |shown: &[Arc<str>]| nearest_gpus(&facts, node, shown, &ports);
        let near: Vec<_> = of(&shown).into_iter().flatten().collect();
        let expected = [
            "0000:1a:00.0",
            "0000:1a:00.0",
            "0000:9a:00.0",
            "0000:1a:00.0",
        ];
        assert_eq!(near, expected.map(Arc::from));
        // What CUDA does not show is not taken.
        let one = of(&shown[2..]);
        assert!(one.iter().all(|gpu| gpu.as_deref() == Some("0000:9a:00.0")));
        assert_eq!(of(&[]), [None, None, None, None]);
    }
}
