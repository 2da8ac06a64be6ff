//! On how many of a machine's CPUs a shell may run, where one output says the part and another one the whole.

use super::self_tests::add;
use super::{Output, OutputLine};
use crate::cpu_list;
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Facts, Id, limit};

/// A number of CPUs, and the line that says it.
struct Counted<'o> {
    line: OutputLine<'o>,
    count: u64,
}

/// States a shell that is bound to few CPUs.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    let whole = outputs.iter().filter_map(of_machine);
    let part = outputs.iter().filter_map(of_shell);
    let whole = whole.max_by_key(|one| one.count);
    let part = part.min_by_key(|one| one.count);
    if let (Some(whole), Some(part)) = (whole, part)
        && is_few(facts, part.count, whole.count)
    {
        let words = format!("{} of {} CPUs", part.count, whole.count);
        let kind = ToolResultKind::BoundToFew;
        add(facts, node, kind, "this shell", (&part.line, &words));
    }
}

fn is_few(facts: &Facts, part: u64, whole: u64) -> bool {
    let share = part as f64 / whole.max(1) as f64 * 100.0;
    share <= facts.limit(limit::FEW_CPUS).0
}

/// All CPUs: `CPU(s): 224` of lscpu(1), `nproc --all`.
fn of_machine(output: &Output) -> Option<Counted<'_>> {
    let is_all = output.tool() == "nproc" && output.has("--all");
    output.lines().find_map(|line| {
        let text = line.text.trim();
        let count = match output.tool() {
            "lscpu" => text.strip_prefix("CPU(s):")?.trim().parse().ok()?,
            "nproc" if is_all => text.parse().ok()?,
            _ => return None,
        };
        Some(Counted { line, count })
    })
}

/// Those of a shell: `physcpubind: 0 1` of numactl(8), `pid 1's current affinity list: 0-3` of taskset(1), nproc(1).
fn of_shell(output: &Output) -> Option<Counted<'_>> {
    let is_all = output.has("--all");
    output.lines().find_map(|line| {
        let text = line.text.trim();
        let numbers = |list: &str| cpu_list::numbers(list).ok().map(|all| all.len() as u64);
        let count = match output.tool() {
            "numactl" => {
                let words = text.strip_prefix("physcpubind:")?.split_whitespace();
                words.count() as u64
            }
            "taskset" => numbers(text.split_once("affinity list: ")?.1)?,
            "nproc" if !is_all => text.parse().ok()?,
            _ => return None,
        };
        Some(Counted { line, count }).filter(|one| one.count > 0)
    })
}
