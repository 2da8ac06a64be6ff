//! What stands in one text is one situation: what tools and the kernel say beside the lines of a run
//! touches what failed in it.

use super::gid_table;
use crate::fact::event::{self, LogClass};
use crate::fact::kernel_event::EventClass;
use crate::fact::{Facts, Id, Subject, kernel_event, node};

/// Relates what the kernel says with the whole run, unless it came after all that failed; and the
/// only machine with the events of the only host.
pub(super) fn relate(facts: &mut Facts, run: Id, hosts: &[Id], events: &[Id]) {
    let nodes: Vec<Id> = (facts.all(Subject::Node))
        .filter(|node| facts.known(*node, node::PASTED) == Some(true))
        .collect();
    let failures: Vec<Id> = (events.iter().copied())
        .filter(|id| !matches!(facts.known(*id, event::CLASS), Some(LogClass::Exception)))
        .collect();
    let of_rdma: Vec<Id> = (failures.iter().copied())
        .filter(|id| is_of_rdma(facts, *id))
        .collect();
    for node in &nodes {
        for one in (facts.below(*node, Subject::KernelEvent)).collect::<Vec<_>>() {
            if failures.is_empty() || may_precede(facts, one, &failures) {
                facts.relate(one, run);
            }
            if is_adapters_link(facts, one) {
                let is_felt = may_precede(facts, one, &of_rdma);
                let how = "the times of the line and of failures of RDMA in the same text";
                facts.derive(one, kernel_event::FELT, is_felt, how);
            }
        }
    }
    let only = match (nodes.as_slice(), hosts.len()) {
        ([node], 0..=1) => Some(*node),
        _ => None,
    };
    if let Some(node) = only {
        for event in events {
            facts.relate(*event, node);
        }
    }
    for variable in facts.below(run, Subject::Env).collect::<Vec<_>>() {
        gid_table::state_gid_listed(facts, variable, only);
    }
}

/// Whether one of the failures may have come after the kernel's line: two clocks of one machine
/// agree, and of others nobody knows the order.
fn may_precede(facts: &Facts, one: Id, failures: &[Id]) -> bool {
    let Some(logged) = facts.known(one, kernel_event::AT) else {
        return !failures.is_empty();
    };
    failures.iter().any(|failure| {
        let failed = facts.known(*failure, event::AT);
        failed.is_none_or(|failed| logged.0 <= failed.0)
    })
}

/// Drivers of adapters that do RDMA, as the kernel's lines begin.
const DRIVERS: [&str; 6] = ["mlx5_", "mlx4_", "bnxt_", "ice ", "ionic", "hns3"];

/// Whether an adapter that does RDMA lost its link.
fn is_adapters_link(facts: &Facts, one: Id) -> bool {
    let line = facts.known(one, kernel_event::LINE).unwrap_or_default();
    facts.known(one, kernel_event::CLASS) == Some(EventClass::LinkDown)
        && DRIVERS.iter().any(|driver| line.starts_with(driver))
}

/// Whether it is a request or a call of RDMA that failed.
fn is_of_rdma(facts: &Facts, id: Id) -> bool {
    matches!(
        facts.known(id, event::CLASS),
        Some(LogClass::Completion | LogClass::VerbsCall)
    )
}
