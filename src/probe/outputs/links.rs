//! PCIe links that trained below what their own end supports, whichever tool printed both.

use crate::fact::pcie::LinkKeys;
use crate::fact::{Fact, Facts, Id, Subject, function, gpu};

/// States of each GPU and function whose link is known whether it trained below its own maximum.
pub(super) fn state_below(facts: &mut Facts, node: Id) {
    let ends = [
        (Subject::Gpu, gpu::LINK, gpu::LINK_BELOW),
        (Subject::Function, function::LINK, function::LINK_BELOW),
    ];
    for (subject, link, key) in ends {
        let ids: Vec<Id> = facts.below(node, subject).collect();
        for id in ids {
            let Fact::Known(_, origin) = facts.get(id, link.width) else {
                continue;
            };
            if let Some(below) = link_below(facts, id, &link) {
                facts.know(id, key, below.as_str().into(), &origin);
            }
        }
    }
}

/// What a link trained at and what its own end supports, if that is more; "none" if not. A GPU that
/// is idle lowers its speed.
fn link_below(facts: &Facts, id: Id, link: &LinkKeys) -> Option<String> {
    // A link that is down has no lanes.
    let width = facts.known(id, link.width).filter(|width| *width > 0)?;
    let max_width = facts.known(id, link.max_width)?;
    let generation = facts.known(id, link.generation);
    let max_generation = facts.known(id, link.max_generation);
    let is_slower = facts.subject(id) != Subject::Gpu && generation < max_generation;
    if width >= max_width && !(is_slower && generation.is_some()) {
        return Some("none".to_owned());
    }
    Some(match (generation, max_generation) {
        (Some(generation), Some(most)) => {
            format!("Gen{generation} x{width}, of Gen{most} x{max_width}")
        }
        _ => format!("x{width}, of x{max_width}"),
    })
}
