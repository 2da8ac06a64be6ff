//! Which kernel modules this machine's RDMA hardware needs.

use super::Derivation;
use crate::fact::kleene::Several;
use crate::fact::port::LinkLayer;
use crate::fact::{Fact, Facts, Gap, Id, Subject, function, module, port};

/// The RDMA half of a driver whose network half binds to the function.
const HALVES: [(&str, &str); 2] = [("mlx5_core", "mlx5_ib"), ("mlx4_core", "mlx4_ib")];

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("module_wanted", &[], derive);

/// Works out which modules are wanted, and by what.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    for id in facts.below(node, Subject::Module).collect::<Vec<_>>() {
        let name = facts.name(id).to_owned();
        let wanted = wanted(facts, node, &name);
        let by = match &wanted {
            Fact::Known(true, origin) => {
                Fact::derived(origin.to_string().into(), "hardware of this machine")
            }
            Fact::Known(false, origin) => Fact::Known("nothing".into(), origin.clone()),
            Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
        };
        let how = "the modules that matter";
        facts.derive(id, module::NAME, name.as_str().into(), how);
        facts.set(id, module::WANTED, wanted);
        facts.set(id, module::WANTED_BY, by);
    }
}

/// Management datagrams are sent on InfiniBand ports only.
fn for_infiniband(facts: &Facts, node: Id) -> Fact<bool> {
    let layers = Several::of(facts, node, port::LINK_LAYER);
    match layers.find(|(_, layer)| *layer == LinkLayer::InfiniBand) {
        Ok(Some((id, _))) => Fact::derived(true, format!("InfiniBand port {}", facts.name(*id))),
        Ok(None) => Fact::derived(false, "no InfiniBand port"),
        Err(gap) => Fact::Unknown(gap),
    }
}

fn wanted(facts: &Facts, node: Id, module: &str) -> Fact<bool> {
    let driver = match HALVES.iter().find(|(_, rdma)| *rdma == module) {
        Some((driver, _)) => Some(*driver),
        None if matches!(module, "ib_core" | "ib_uverbs") => None,
        None if module == "ib_umad" => return for_infiniband(facts, node),
        None => return Fact::derived(false, "no hardware of this machine needs it"),
    };
    if driver.is_none()
        && let Some(device) = facts.below(node, Subject::Device).next()
    {
        return Fact::derived(true, format!("RDMA device {}", facts.name(device)));
    }
    let mut open: Option<Gap> = facts.members(Subject::Function, node).err();
    if driver.is_none() {
        open = open.or(facts.members(Subject::Device, node).err());
    }
    for id in facts.below(node, Subject::Function) {
        match (
            facts.get(id, function::RDMA_EXPECTED),
            facts.get(id, function::DRIVER),
        ) {
            (Fact::Known(false, _), _) => {}
            (Fact::Known(true, _), Fact::Known(bound, _)) => {
                if driver.is_none_or(|d| *bound == *d) {
                    return Fact::derived(true, format!("{} of driver {bound}", facts.name(id)));
                }
            }
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => open = Some(gap),
        }
    }
    Fact::derived(false, "no hardware of this machine needs it").unless(open)
}
