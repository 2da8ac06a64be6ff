//! Which obstacles a job meets, and how much of an interface's speed a shaper leaves.

use std::sync::Arc;

use super::Derivation;
use super::firewall::candidates;
use crate::fact::kleene::Several;
use crate::fact::obstacle::ObstacleKind;
use crate::fact::{Fact, Facts, Id, Percent, Subject, device, interface, netdev, obstacle, port};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new(
    "obstacle",
    &["port.intended", "selection", "selection.interface"],
    derive,
);

fn derive(facts: &mut Facts, node: Id) {
    let all: Vec<Id> = facts.below(node, Subject::Obstacle).collect();
    if all.is_empty() {
        return;
    }
    let (candidates, open) = candidates(facts, node);
    let open = open.or(facts.incomplete(node, Subject::Port));
    for id in all {
        let Some(name) = facts.known(id, obstacle::INTERFACE) else {
            continue;
        };
        let riders = riders(facts, node, &name);
        let mut uses: Vec<Fact<bool>> = Vec::new();
        for candidate in &candidates {
            if riders.contains(&candidate.name) {
                uses.push(candidate.used.clone());
            }
        }
        // Adapters ask the kernel for the way to a peer, and send by themselves.
        let of_way = !matches!(
            facts.known(id, obstacle::KIND),
            Some(
                ObstacleKind::Loss
                    | ObstacleKind::Delay
                    | ObstacleKind::Rate
                    | ObstacleKind::NoRoom
                    | ObstacleKind::Drops
                    | ObstacleKind::RouteMtu
            )
        );
        for port in facts.below(node, Subject::Port).collect::<Vec<_>>() {
            if !facts
                .known(port, port::NETDEV)
                .is_some_and(|name| riders.contains(&name))
            {
                continue;
            }
            let software = facts
                .parent(port)
                .map(|device| facts.get(device, device::SOFTWARE));
            let met = match software {
                Some(Fact::Known(false, _)) if !of_way => continue,
                Some(Fact::Unknown(gap)) if !of_way => Fact::Unknown(gap),
                _ => facts.get(port, port::INTENDED),
            };
            facts.relate(id, port);
            uses.push(met);
        }
        let uses = Several::from_iter(uses).or_others(open.clone());
        let how = "the interfaces of jobs and the netdevs of ports";
        facts.set(id, obstacle::USED, Fact::of(uses.any(|used| *used), how));
        let speed = match facts.find(Subject::Netdev, node, &name) {
            Some(netdev) => facts.get(netdev, netdev::SPEED),
            None => Fact::Unknown(crate::fact::Gap::missing("netdev.speed")),
        };
        if let (Some(rate), Fact::Known(speed, origin)) = (facts.known(id, obstacle::RATE), &speed)
        {
            let share = 100.0 * rate.0 as f64 / speed.0.max(1) as f64;
            facts.know(id, obstacle::SHARE, Percent(share), origin);
        }
        facts.set(id, obstacle::SPEED, speed);
    }
}

/// The interface, and those that send through it: VLANs on it, the bond or bridge that it is a
/// member of, VLANs on those.
pub(super) fn riders(facts: &Facts, node: Id, name: &Arc<str>) -> Vec<Arc<str>> {
    let mut all = vec![Arc::clone(name)];
    let mut at = 0;
    while let Some(below) = all.get(at).cloned() {
        at += 1;
        let mut above: Vec<Arc<str>> = Vec::new();
        for id in facts.below(node, Subject::Interface) {
            if facts.known(id, interface::LOWER).as_ref() == Some(&below) {
                above.push(facts.name(id).into());
            }
        }
        let own = facts.find(Subject::Interface, node, &below);
        above.extend(own.and_then(|id| facts.known(id, interface::MASTER)));
        above.retain(|name| &**name != "none" && !all.contains(name));
        all.extend(above);
    }
    all
}
