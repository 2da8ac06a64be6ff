//! The CPUs that this process may use.

use std::sync::Arc;

use super::CPU;
use crate::cpu_list;
use crate::fact::{Fact, Facts, Id, node};
use crate::probe::Ask;

/// States them, and gives how many are online.
pub(super) fn establish(
    ask: &Ask<'_>,
    facts: &mut Facts,
    node: Id,
    online: Fact<Arc<str>>,
    status: Fact<Arc<str>>,
    quota: Fact<Option<f64>>,
) -> Option<usize> {
    let online = online.and_then(|text| cpu_list::numbers(&text));
    let count = online.known().map(Vec::len);
    let allowed = status.and_then(|text| cpu_list::allowed(&text));
    facts.set(node, node::CPUS_ONLINE, online.map(|all| all.len() as u64));
    let usable = match (&allowed, quota) {
        (Fact::Known(allowed, _), Fact::Known(Some(quota), origin))
            if quota < allowed.len() as f64 =>
        {
            let by = format!("the quota of its control group is {quota:.1} CPUs");
            Fact::Known((quota as u64, by), origin)
        }
        (Fact::Known(allowed, origin), Fact::Known(..)) => {
            let by = format!("it is bound to {}", list(allowed));
            Fact::Known((allowed.len() as u64, by), origin.clone())
        }
        (Fact::Unknown(gap), _) => Fact::Unknown(gap.clone()),
        (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
    };
    let by = usable.clone().map(|(_, by)| by.into());
    facts.set(node, node::CPUS_LIMITED_BY, by);
    facts.set(node, node::CPUS_USABLE, usable.map(|(count, _)| count));
    facts.set(node, node::CPUS_ISOLATED, isolated(ask, allowed));
    count
}

/// The isolated CPUs among those allowed. One alone has nothing to balance.
fn isolated(ask: &Ask<'_>, allowed: Fact<Vec<u64>>) -> Fact<Arc<str>> {
    // Linux before 4.2 does not say.
    let isolated = ask.text_if_any(format!("{CPU}/isolated"));
    let isolated = isolated.parse(Vec::new(), cpu_list::numbers);
    isolated.zip(allowed).map(|(isolated, mut allowed)| {
        allowed.retain(|cpu| isolated.contains(cpu));
        match allowed.len() {
            0 | 1 => "none".into(),
            _ => list(&allowed).into(),
        }
    })
}

/// CPUs in words: `CPUs 0-3,8`.
fn list(cpus: &[u64]) -> String {
    let name = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    format!("{name} {}", ranges(cpus))
}

/// Numbers as the kernel lists them: `0-3,8`.
pub(in crate::probe) fn ranges(numbers: &[u64]) -> String {
    let parts = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let parts = parts.map(|part| match part {
        [first, .., last] => format!("{first}-{last}"),
        part => part.iter().map(u64::to_string).collect(),
    });
    parts.collect::<Vec<_>>().join(",")
}
