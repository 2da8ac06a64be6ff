//! What NCCL_IB_HCA leaves out of a matrix that somebody gave: of the machine itself the ports say it.

use std::sync::Arc;

use super::Derivation;
use super::nccl::{List, setting};
use crate::fact::gpu_nic::Distance;
use crate::fact::{Facts, Id, Subject, gpu, gpu_nic, node};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new(
    "listed_nics",
    &["gpu_nic", "gpu_nic.nic", "gpu_nic.distance"],
    derive,
);

/// An adapter of the matrix, and how far a GPU is from it.
struct ListedNic {
    name: Arc<str>,
    distance: Distance,
}

/// States of each GPU of a pasted matrix which adapters next to it the variable leaves out.
fn derive(facts: &mut Facts, node: Id) {
    if facts.known(node, node::PASTED) != Some(true) {
        return;
    }
    let Ok(Some(text)) = setting(facts, node, "NCCL_IB_HCA") else {
        return;
    };
    let list = List::parse(&text, 32);
    for gpu in facts.below(node, Subject::Gpu).collect::<Vec<_>>() {
        let Some(nics) = listed_nics(facts, gpu) else {
            continue;
        };
        let left_out = left_out(&list, &nics).unwrap_or_else(|| "none".to_owned());
        let how = format!("the matrix, and NCCL_IB_HCA={text}");
        facts.derive(gpu, gpu::LEFT_OUT_IN_MATRIX, left_out.into(), how);
    }
}

/// The adapters of the matrix; `None` where one has no name but its number there.
fn listed_nics(facts: &Facts, gpu: Id) -> Option<Vec<ListedNic>> {
    let mut nics = Vec::new();
    for pair in facts.below(gpu, Subject::GpuNic) {
        // Of functions that another output lists, no distance is shown.
        let Some(distance) = facts.known(pair, gpu_nic::DISTANCE) else {
            continue;
        };
        let name = facts.known(pair, gpu_nic::NIC)?;
        if name.starts_with("NIC") {
            return None;
        }
        nics.push(ListedNic { name, distance });
    }
    Some(nics)
}

/// The adapters on the GPU's own switches, where the list takes none of them and another one of the
/// matrix.
fn left_out(list: &List, nics: &[ListedNic]) -> Option<String> {
    let near: Vec<&ListedNic> = nics.iter().filter(|nic| nic.distance.is_near()).collect();
    let first = near.first()?;
    let mut taken = nics.iter().filter(|nic| list.takes(&nic.name, None));
    if near.iter().any(|nic| list.takes(&nic.name, None)) {
        return None;
    }
    let other = taken.next()?;
    let names: Vec<&str> = near.iter().map(|nic| &*nic.name).collect();
    Some(format!(
        "{} ({}); {} is at {}",
        names.join(", "),
        first.distance.word(),
        other.name,
        other.distance.word()
    ))
}
