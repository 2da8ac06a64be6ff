//! What the devices are that the kernel's log speaks of.

use super::Derivation;
use crate::fact::kernel_event::{self, AffectedDevice, EventClass};
use crate::fact::{BitRate, Fact, Facts, Gap, Id, Subject, device, function, gpu, port};

/// The derivation.
pub(super) const DERIVATION: Derivation =
    Derivation::new("kernel_event", &["port.intended"], derive);

/// Says of each event whether it concerns RDMA or a GPU, and relates it with the devices that it is
/// about.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    beside_odd(facts, node);
    relate_waiting(facts, node);
    let mut places: Vec<(std::sync::Arc<str>, Id, AffectedDevice)> = Vec::new();
    let mut paths = Vec::new();
    let mut open = None;
    for id in facts.below(node, Subject::Device) {
        places.push((facts.name(id).into(), id, AffectedDevice::Rdma));
        if let Some(pci) = facts.known(id, device::PCI) {
            places.push((pci, id, AffectedDevice::Rdma));
        }
    }
    for id in facts.below(node, Subject::Function) {
        places.push((facts.name(id).into(), id, AffectedDevice::Rdma));
        match facts.get(id, function::PATH) {
            Fact::Known(path, _) => paths.push(path),
            Fact::Unknown(gap) => open = Some(gap),
        }
    }
    for id in facts.below(node, Subject::Gpu) {
        places.push((facts.name(id).into(), id, AffectedDevice::Gpu));
        if let Some(pci) = facts.known(id, gpu::PCI) {
            places.push((pci, id, AffectedDevice::Gpu));
        }
        match facts.get(id, gpu::PATH) {
            Fact::Known(path, _) => paths.push(path),
            Fact::Unknown(gap) => open = Some(gap),
        }
    }
    for id in facts.below(node, Subject::Netdev) {
        places.push((facts.name(id).into(), id, AffectedDevice::Rdma));
    }
    for subject in [Subject::Device, Subject::Function, Subject::Gpu] {
        if let Err(gap) = facts.members(subject, node) {
            open = Some(gap);
        }
    }
    for event in facts.below(node, Subject::KernelEvent).collect::<Vec<_>>() {
        let Some(about) = facts.known(event, kernel_event::ABOUT) else {
            continue;
        };
        let met: Vec<(Id, AffectedDevice)> = places
            .iter()
            .filter(|(name, ..)| *name == about)
            .map(|(_, id, what)| (*id, *what))
            .collect();
        let concerns = match (met.first(), &open) {
            (Some((_, what)), _) => Fact::derived(*what, format!("{about} is one")),
            _ if paths.iter().any(|path| path.contains(&about)) => {
                Fact::derived(AffectedDevice::Path, format!("{about} is above one"))
            }
            // This driver has no other adapters.
            (None, Some(_)) if of_mlx5(facts, event) => {
                Fact::derived(AffectedDevice::Rdma, "a line of mlx5_core")
            }
            (None, Some(gap)) if &*about != "none" => Fact::Unknown(gap.clone()),
            (None, _) => Fact::derived(AffectedDevice::Other, format!("{about} is neither")),
        };
        facts.set(event, kernel_event::CONCERNS, concerns);
        facts.set(event, kernel_event::PORT_RATE, port_rate(facts, &met));
        let mut met: Vec<Id> = met.into_iter().map(|(id, _)| id).collect();
        met.sort_unstable();
        met.dedup();
        // A session of storage is called as its controller is.
        let sessions = facts.below(node, Subject::Mount);
        met.extend(sessions.filter(|id| facts.name(*id) == &*about));
        for id in met {
            facts.relate(event, id);
        }
    }
}

/// Relates servers of files that do not respond with the tasks that hang: who waits for a file
/// hangs. A tool of the driver waits for the driver.
fn relate_waiting(facts: &mut Facts, node: Id) {
    let mut servers = of_class(facts, node, EventClass::ServerSilent);
    servers.extend(of_class(facts, node, EventClass::LustreLost));
    for task in of_class(facts, node, EventClass::HungTask) {
        let name = facts.known(task, kernel_event::ABOUT);
        if name.is_some_and(|name| name.starts_with("nvidia")) {
            continue;
        }
        for server in &servers {
            facts.relate(*server, task);
        }
    }
}

fn of_class(facts: &Facts, node: Id, class: EventClass) -> Vec<Id> {
    let events = facts.below(node, Subject::KernelEvent);
    events
        .filter(|id| facts.known(*id, kernel_event::CLASS) == Some(class))
        .collect()
}

/// Whether the driver of the adapter wrote the line.
fn of_mlx5(facts: &Facts, event: Id) -> bool {
    let line = facts.known(event, kernel_event::LINE);
    line.is_some_and(|line| line.starts_with("mlx5_core "))
}

/// Xids of NVLink: a fault of one GPU makes all that it talks to log one too.
const NVLINK: std::ops::RangeInclusive<u64> = 144..=150;

/// Says of each Xid of NVLink how many GPUs have it, where one GPU alone has another.
fn beside_odd(facts: &mut Facts, node: Id) {
    let events = facts.below(node, Subject::KernelEvent);
    let xids: Vec<(Id, u64)> = events
        .filter(|id| facts.known(*id, kernel_event::CLASS) == Some(EventClass::Xid))
        .filter_map(|id| Some((id, facts.known(id, kernel_event::CODE)?)))
        .collect();
    let gpus = |code: u64| xids.iter().filter(|(_, of)| *of == code).count() as u64;
    let is_odd = |code: u64| NVLINK.contains(&code) && gpus(code) == 1;
    let any_odd = xids.iter().any(|(_, code)| is_odd(*code));
    for (id, code) in &xids {
        let count = if any_odd && NVLINK.contains(code) && !is_odd(*code) {
            gpus(*code)
        } else {
            0
        };
        let how = "the numbers of the Xids of all GPUs";
        facts.derive(*id, kernel_event::BESIDE_ODD, count, how);
    }
}

/// What the ports can carry at most, where that is known of each: the rate of the line, not of its
/// encoding.
fn port_rate(facts: &Facts, met: &[(Id, AffectedDevice)]) -> Fact<BitRate> {
    let devices = met
        .iter()
        .filter(|(id, _)| facts.subject(*id) == Subject::Device);
    let (mut sum, mut ports) = (0u64, 0);
    let mut seen = Vec::new();
    for (id, _) in devices {
        if seen.contains(id) {
            continue;
        }
        seen.push(*id);
        for port in facts.below(*id, Subject::Port) {
            match (facts.get(port, port::INTENDED), facts.get(port, port::RATE)) {
                (Fact::Known(false, _), _) => {}
                (Fact::Known(true, _), Fact::Known(rate, _)) => {
                    sum = sum.saturating_add(rate.0);
                    ports += 1;
                }
                (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => return Fact::Unknown(gap),
            }
        }
    }
    match ports {
        0 => Fact::Unknown(Gap::missing("port.rate")),
        _ => Fact::derived(BitRate(sum), format!("the sum of {ports} port(s)")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{node, port, stated};
    use super::*;
    use crate::fact::port::PortState;
    use crate::fact::{Membership, Origin};

    fn event(facts: &mut Facts, node: Id, about: &str) -> Id {
        let id = facts.instance(Subject::KernelEvent, node, &format!("e {about}"));
        facts.set(id, kernel_event::ABOUT, stated(about.into()));
        id
    }

    #[test]
    fn addresses_find_their_devices() {
        let mut facts = Facts::new();
        let node = node(&mut facts);
        facts.set_members(Subject::Gpu, node, Membership::Known(Origin::Stated));
        let p = port(&mut facts, node, "mlx5_0", PortState::Active, 400);
        let device = facts.parent(p).unwrap();
        facts.set(device, device::PCI, stated("0000:1a:00.0".into()));
        facts.set(p, port::INTENDED, stated(true));
        let gpu = facts.instance(Subject::Gpu, node, "0000:1b:00.0");
        let path: [std::sync::Arc<str>; 2] = ["pci0000:19".into(), "0000:19:01.0".into()];
        facts.set(gpu, gpu::PATH, stated(path.into()));
        let events: Vec<Id> = [
            "0000:1a:00.0",
            "mlx5_0",
            "0000:1b:00.0",
            "0000:19:01.0",
            "0000:77:00.0",
            "none",
        ]
        .iter()
        .map(|about| event(&mut facts, node, about))
        .collect();
        derive(&mut facts, node);
        let concerns: Vec<_> = events
            .iter()
            .map(|id| facts.known(*id, kernel_event::CONCERNS))
            .collect();
        assert_eq!(
            concerns,
            [
                Some(AffectedDevice::Rdma),
                Some(AffectedDevice::Rdma),
                Some(AffectedDevice::Gpu),
                Some(AffectedDevice::Path),
                Some(AffectedDevice::Other),
                Some(AffectedDevice::Other)
            ]
        );
        assert!(facts.touches(events[0], p));
        assert_eq!(
            facts.known(events[0], kernel_event::PORT_RATE),
            Some(BitRate(400_000_000_000))
        );
        assert_eq!(facts.known(events[3], kernel_event::PORT_RATE), None);
    }

    #[test]
    fn where_gpus_are_not_known_another_device_may_be_one() {
        let mut facts = Facts::new();
        let node = node(&mut facts);
        let id = event(&mut facts, node, "0000:77:00.0");
        derive(&mut facts, node);
        assert_eq!(facts.known(id, kernel_event::CONCERNS), None);
    }
}
