//! Which RDMA ports NCCL uses (`ncclIbInitDevices` of `src/transport/net_ib`).

use std::sync::Arc;

use super::list::{Entry, List};
use crate::fact::nccl_version::Version;
use crate::fact::node::CharDevice;
use crate::fact::port::{LinkLayer, PortState};
use crate::fact::{Fact, Facts, Gap, Id, Subject, device, function, port};
use crate::small_sort;

/// A port, with what NCCL asks of it.
pub(super) struct Port {
    pub(super) id: Id,
    pub(super) device: Arc<str>,
    pub(super) number: i64,
    pub(super) active: Fact<bool>,
    pub(super) layer: Fact<LinkLayer>,
    usable: Fact<bool>,
    place: Option<Arc<str>>,
}

impl Port {
    /// As NCCL's log writes it.
    pub(super) fn name(&self) -> Arc<str> {
        format!("{}:{}", self.device, self.number).into()
    }
}

/// The ports of the node.
pub(super) struct Ports {
    /// Those that are known, in the order of their devices.
    pub(super) known: Vec<Port>,
    /// The devices of which not all ports are known, and why.
    open: Vec<(Arc<str>, Gap)>,
    /// Why there may be further devices.
    others: Option<Gap>,
}

impl Ports {
    /// All ports.
    pub(super) fn all(&self) -> Result<&[Port], Gap> {
        match self
            .others
            .as_ref()
            .or(self.open.first().map(|(_, gap)| gap))
        {
            Some(gap) => Err(gap.clone()),
            None => Ok(&self.known),
        }
    }

    /// The known ports, where a list of names leaves out whatever others there may be.
    pub(super) fn listed(&self, list: &List) -> Result<&[Port], Gap> {
        let may_be_taken = |device: &str| {
            if list.excludes {
                let whole = |entry: &Entry| entry.port.is_none() && list.fits(entry, device, None);
                !list.entries.iter().any(whole)
            } else {
                list.takes(device, None)
            }
        };
        let open = self.open.iter().find(|(device, _)| may_be_taken(device));
        match self.others.as_ref().or(open.map(|(_, gap)| gap)) {
            Some(gap) => Err(gap.clone()),
            None => Ok(&self.known),
        }
    }
}

/// The ports of the node, in the order of its devices.
pub(super) fn ports(facts: &Facts, node: Id) -> Ports {
    let one = |id: Id| {
        let of = facts.parent(id)?;
        let (_, number) = facts.name(id).rsplit_once('/')?;
        let pci = facts.known(of, device::PCI);
        let path = pci.as_ref().and_then(|pci| {
            let function = facts.find(Subject::Function, node, pci)?;
            let above = facts.known(function, function::PATH)?;
            Some(Arc::from(format!("{}/{pci}", above.join("/"))))
        });
        let state = facts.get(id, port::STATE);
        Some(Port {
            id,
            device: facts.name(of).into(),
            number: number.parse().ok()?,
            active: state.map(|state| state == PortState::Active),
            layer: facts.get(id, port::LINK_LAYER),
            usable: usable(facts, of),
            place: path.or(pci),
        })
    };
    let open = facts.below(node, Subject::Device).filter_map(|id| {
        let gap = facts.members(Subject::Port, id).err()?;
        Some((facts.name(id).into(), gap))
    });
    Ports {
        known: facts.below(node, Subject::Port).filter_map(one).collect(),
        open: open.collect(),
        others: facts.members(Subject::Device, node).err(),
    }
}

/// Whether a process can open the device: without a provider or its node NCCL passes over it.
fn usable(facts: &Facts, of: Id) -> Fact<bool> {
    let opens = facts.get(of, device::CHAR_DEVICE);
    let opens = opens.map(|says| says == CharDevice::Usable);
    match (facts.get(of, device::PROVIDER), opens) {
        (Fact::Known(false, origin), _) | (_, Fact::Known(false, origin)) => {
            Fact::Known(false, origin)
        }
        (Fact::Unknown(gap), _) => Fact::Unknown(gap),
        (Fact::Known(true, _), opens) => opens,
    }
}

/// The ports that this version uses, in its order, as places in the list.
pub(super) fn choose(
    ports: &Ports,
    list: Option<&str>,
    version: Version,
) -> Result<Vec<usize>, Gap> {
    let list = List::parse(list.unwrap_or(""), version.most_hcas());
    let ports = ports.listed(&list)?;
    let mut order: Vec<usize> = (0..ports.len()).collect();
    if version.sorts_by_pci() {
        small_sort::by_key(&mut order, |at| {
            ports.get(*at).map(|p| (p.place.clone(), p.number))
        });
    }
    let mut chosen = Vec::new();
    for at in order {
        let Some(port) = ports.get(at) else { continue };
        if !list.takes(&port.device, Some(port.number)) {
            continue;
        }
        let layer = |layer| matches!(layer, LinkLayer::InfiniBand | LinkLayer::Ethernet);
        let facts = [&port.active, &port.usable, &port.layer.clone().map(layer)];
        // One that is known to be false decides, whatever the others are.
        if facts.iter().any(|fact| fact.known() == Some(&false)) {
            continue;
        }
        if let Some(gap) = facts.iter().find_map(|fact| fact.as_result().err()) {
            return Err(gap.clone());
        }
        if chosen.len() < version.most_hcas() {
            chosen.push(at);
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{node, port, stated};
    use super::*;

    fn machine(facts: &mut Facts) -> Id {
        let n = node(facts);
        for i in 0..12 {
            let state = if i == 3 {
                PortState::Down
            } else {
                PortState::Active
            };
            let p = port(facts, n, &format!("mlx5_{i}"), state, 400);
            let d = facts.parent(p).unwrap();
            facts.set(d, device::PROVIDER, stated(true));
            facts.set(
                d,
                device::CHAR_DEVICE,
                stated(if i == 4 {
                    CharDevice::Denied
                } else {
                    CharDevice::Usable
                }),
            );
            // The first device is the last on the bus.
            facts.set(
                d,
                device::PCI,
                stated(format!("0000:{:02x}:00.0", 0xf0 - i).into()),
            );
        }
        n
    }

    fn chosen(list: &str, version: Version) -> String {
        let mut facts = Facts::new();
        let n = machine(&mut facts);
        let ports = ports(&facts, n);
        let chosen = choose(&ports, Some(list), version).unwrap();
        let name = |at: &usize| ports.known[*at].name().to_string();
        chosen.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ports_that_are_not_active_or_cannot_be_opened_are_left_out_in_silence() {
        let old = Version(2, 27, 5);
        assert_eq!(chosen("=mlx5_2,mlx5_3,mlx5_4", old), "mlx5_2:1");
        assert_eq!(chosen("mlx5_1", old), "mlx5_1:1 mlx5_10:1 mlx5_11:1");
        assert_eq!(chosen("=mlx5_1:2", old), "");
        assert_eq!(
            chosen("^mlx5_1,mlx5_5,mlx5_6,mlx5_7,mlx5_8", old),
            "mlx5_0:1 mlx5_2:1 mlx5_9:1"
        );
    }

    #[test]
    fn the_order_is_that_of_the_bus_since_2_29_7() {
        assert_eq!(
            chosen("=mlx5_0,mlx5_2", Version(2, 28, 9)),
            "mlx5_0:1 mlx5_2:1"
        );
        assert_eq!(
            chosen("=mlx5_0,mlx5_2", Version(2, 29, 7)),
            "mlx5_2:1 mlx5_0:1"
        );
    }

    #[test]
    fn a_state_that_is_not_known_matters_only_for_a_port_that_is_listed() {
        let mut facts = Facts::new();
        let n = machine(&mut facts);
        let d = facts.instance(Subject::Device, n, "mlx5_99");
        facts.instance(Subject::Port, d, "mlx5_99/1");
        facts.set_members(
            Subject::Port,
            d,
            crate::fact::Membership::Known(crate::fact::Origin::Stated),
        );
        let ports = ports(&facts, n);
        let v = Version(2, 27, 5);
        assert!(choose(&ports, None, v).is_err());
        assert!(choose(&ports, Some("=mlx5_0"), v).is_ok());
        assert!(choose(&ports, Some("mlx5_9"), v).is_err());
    }

    #[test]
    fn a_device_whose_ports_are_not_known_matters_only_where_the_list_may_take_it() {
        let mut facts = Facts::new();
        let n = machine(&mut facts);
        facts.instance(Subject::Device, n, "mlx5_99");
        let ports = ports(&facts, n);
        let v = Version(2, 27, 5);
        assert!(ports.all().is_err());
        assert_eq!(choose(&ports, Some("=mlx5_77"), v), Ok(Vec::new()));
        assert_eq!(choose(&ports, Some("=mlx5_0"), v).unwrap().len(), 1);
        assert_eq!(choose(&ports, Some("^mlx5_9"), v).unwrap().len(), 9);
        for list in [
            None,
            Some("=mlx5_99:2"),
            Some("^mlx5_99:1"),
            Some("mlx5_9"),
            Some("^mlx5_1"),
        ] {
            assert!(choose(&ports, list, v).is_err(), "{list:?}");
        }
    }
}
