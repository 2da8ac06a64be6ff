//! Which RDMA ports carry the data.

use crate::fact::port::PortState;
use crate::fact::{Facts, Id, Subject, gpu, port};

/// The active ports that jobs use, sorted by name.
pub(super) fn active_ports(facts: &Facts, node: Id) -> Vec<Id> {
    let is = |id: &Id| {
        facts.known(*id, port::INTENDED) == Some(true)
            && facts.known(*id, port::STATE) == Some(PortState::Active)
    };
    let mut ports: Vec<Id> = facts.below(node, Subject::Port).filter(is).collect();
    ports.sort_by_key(|id| facts.name(*id).to_owned());
    ports
}

/// The names of the active ports that jobs use; with `of`, those of one device.
pub(super) fn port_names<'f>(facts: &'f Facts, node: Id, of: Option<&str>) -> Vec<&'f str> {
    let is_of = |id: &Id| {
        let device = facts.ancestor(*id, Subject::Device);
        of.is_none_or(|of| device.is_some_and(|device| facts.name(device) == of))
    };
    let ports = active_ports(facts, node).into_iter().filter(is_of);
    ports.map(|id| facts.name(id)).collect()
}

/// The port for a GPU's data: that of the nearest adapter with an active port, else the first.
pub(super) fn nearest_port(facts: &Facts, node: Id, pci: &str) -> Option<String> {
    let id = facts.find(Subject::Gpu, node, pci);
    let nearest = id.and_then(|id| {
        let own = facts.known(id, gpu::NEAR_NIC);
        let others = facts.known(id, gpu::NEAR_NICS);
        let others = others.iter().flat_map(|all| all.iter().cloned());
        let ports = own
            .into_iter()
            .chain(others)
            .filter_map(|nic| Some((*port_names(facts, node, Some(&nic)).first()?).to_owned()));
        ports.take(1).next()
    });
    nearest.or_else(|| Some((*port_names(facts, node, None).first()?).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Fact, Origin};

    fn stated<T>(value: T) -> Fact<T> {
        Fact::Known(value, Origin::Stated)
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
}
