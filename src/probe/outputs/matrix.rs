//! How far GPUs and adapters are from each other, as `nvidia-smi topo` prints it.

use std::sync::Arc;

use super::{Output, OutputLine, named};
use crate::fact::gpu_nic::Distance;
use crate::fact::gpu_pair::P2p;
use crate::fact::{Facts, Id, Key, Membership, Subject, gpu, gpu_nic, gpu_pair};

/// A cell that says something: which row and column, in which line.
struct Cell<'p> {
    row: &'p str,
    column: &'p str,
    says: &'p str,
    line: OutputLine<'p>,
}

/// States the pairs of GPUs, and the adapters near each.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let mut columns: Vec<&str> = Vec::new();
    let mut cells: Vec<Cell<'_>> = Vec::new();
    let mut nics: Vec<(&str, &str)> = Vec::new();
    // `-p2p r` asks for a kind of access, and each matrix has one.
    let asked = (output
        .argv
        .iter()
        .skip_while(|arg| &***arg != "-p2p")
        .nth(1))
    .and_then(|kind| kind.chars().next());
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let Some(first) = words.first().copied() else {
            continue;
        };
        if columns.is_empty() {
            columns = words.into_iter().filter(|word| is_device(word)).collect();
        } else if let Some(legend) = first
            .strip_suffix(':')
            .filter(|name| name.starts_with("NIC"))
        {
            nics.extend(words.get(1).map(|name| (legend, *name)));
        } else if is_device(first) {
            let says = words.iter().skip(1);
            cells.extend(columns.iter().zip(says).map(|(column, says)| Cell {
                row: first,
                column,
                says,
                line,
            }));
        }
    }
    let Some(first) = output.lines().next() else {
        return;
    };
    let gpus: Vec<&str> = columns
        .iter()
        .copied()
        .filter(|name| name.starts_with("GPU"))
        .collect();
    let origin = first.origin();
    // A truncated matrix lacks rows.
    let whole = gpus
        .iter()
        .all(|gpu| cells.iter().any(|cell| cell.row == *gpu));
    if gpus.is_empty() || !whole {
        return;
    }
    let names: Vec<Arc<str>> = gpus.iter().map(|gpu| name_of(facts, node, gpu)).collect();
    for gpu in &names {
        let id = facts.instance(Subject::Gpu, node, gpu);
        facts.set_members(Subject::GpuNic, id, Membership::Known(origin.clone()));
    }
    facts.set_members(Subject::Gpu, node, Membership::Known(origin.clone()));
    facts.set_members(Subject::GpuPair, node, Membership::Known(origin));
    let place = |name: &str| gpus.iter().position(|gpu| *gpu == name);
    for cell in &cells {
        match (place(cell.row), place(cell.column)) {
            (Some(row), Some(column)) if row != column => {
                let (low, high) = (row.min(column), row.max(column));
                let (Some(low), Some(high)) = (names.get(low), names.get(high)) else {
                    continue;
                };
                let is_judged = |name: &str| facts.find(Subject::Gpu, node, name).is_some();
                if !is_judged(low) || !is_judged(high) {
                    continue;
                }
                let id = facts.instance(Subject::GpuPair, node, &format!("{low} - {high}"));
                facts.set(id, gpu_pair::FIRST, cell.line.known(Arc::clone(low)));
                facts.set(id, gpu_pair::SECOND, cell.line.known(Arc::clone(high)));
                facts.set(id, gpu_pair::IN_NVML, cell.line.known(true));
                match asked {
                    Some(kind) => peers(facts, id, kind, row < column, cell),
                    None => pair(facts, id, cell),
                }
            }
            (Some(row), None) if asked.is_none() => {
                let of = names.get(row).map_or(cell.row, |name| &**name);
                let named = nics.iter().find(|(nic, _)| *nic == cell.column);
                let nic = named.map_or(cell.column, |(_, name)| *name);
                if let (Some(gpu), Some(distance)) = (
                    facts.find(Subject::Gpu, node, of),
                    named::typed::<Distance>(cell.says),
                ) {
                    let name = format!("{of} {nic}");
                    let id = facts.instance(Subject::GpuNic, gpu, &name);
                    facts.set(id, gpu_nic::NIC, cell.line.known(nic.into()));
                    facts.set(id, gpu_nic::DISTANCE, cell.line.known(distance));
                }
            }
            _ => {}
        }
    }
    if asked.is_none() {
        judge_distances(facts, node, &names);
    }
}

/// The nearest adapter of a GPU in the matrix.
struct NearestNic {
    gpu: Id,
    distance: Distance,
    nic: Arc<str>,
}

fn nearest_nic(facts: &Facts, gpu: Id) -> Option<NearestNic> {
    let mut best: Option<NearestNic> = None;
    for pair in facts.below(gpu, Subject::GpuNic) {
        let distance = facts.known(pair, gpu_nic::DISTANCE)?;
        if best
            .as_ref()
            .is_none_or(|best| (distance as u8) < best.distance as u8)
        {
            let nic = facts.known(pair, gpu_nic::NIC)?;
            best = Some(NearestNic { gpu, distance, nic });
        }
    }
    best
}

/// Says of each GPU whether its nearest adapter is far although half of the GPUs have a near one.
fn judge_distances(facts: &mut Facts, node: Id, names: &[Arc<str>]) {
    let gpus = names
        .iter()
        .filter_map(|name| facts.find(Subject::Gpu, node, name));
    let nearest: Vec<NearestNic> = gpus.filter_map(|gpu| nearest_nic(facts, gpu)).collect();
    let all = nearest.len();
    let near = nearest.iter().filter(|one| one.distance.is_near()).count();
    for one in &nearest {
        let distance = one.distance.word();
        let far = if !one.distance.is_near() && 2 * near >= all {
            format!(
                "{distance} from {}; GPUs with one at PIX or PXB: {near} of {all}",
                one.nic
            )
        } else {
            "none".to_owned()
        };
        let how = format!("the least of its distances, {distance}");
        facts.derive(one.gpu, gpu::FAR_IN_MATRIX, far.into(), how);
    }
}

/// The GPU of this number as other outputs name it, else as the matrix does.
pub(super) fn name_of(facts: &Facts, node: Id, gpu: &str) -> Arc<str> {
    let index = gpu.strip_prefix("GPU").and_then(|n| n.parse::<u64>().ok());
    let is_it = |id: &Id| index.is_some() && facts.known(*id, gpu::INDEX) == index;
    let known = facts.below(node, Subject::Gpu).find(is_it);
    known.map_or_else(|| gpu.into(), |id| facts.name(id).into())
}

/// `GPU0`, `NIC3`, or in older drivers the adapter's own name. `GPU` alone is of the column "GPU NUMA ID".
fn is_device(word: &str) -> bool {
    ["GPU", "NIC", "mlx"]
        .iter()
        .any(|head| word.starts_with(head))
        && word.ends_with(|c: char| c.is_ascii_digit())
}

fn pair(facts: &mut Facts, id: Id, cell: &Cell<'_>) {
    if let Some(distance) = named::typed::<Distance>(cell.says) {
        facts.set(id, gpu_pair::DISTANCE, cell.line.known(distance));
        facts.set(id, gpu_pair::NVLINK, cell.line.known(false));
    } else if cell
        .says
        .strip_prefix("NV")
        .is_some_and(|n| n.parse::<u64>().is_ok())
    {
        facts.set(id, gpu_pair::NVLINK, cell.line.known(true));
    }
}

fn peers(facts: &mut Facts, id: Id, asked: char, forth: bool, cell: &Cell<'_>) {
    let Some(status) = named::typed::<P2p>(cell.says) else {
        return;
    };
    let key: Key<P2p> = match (asked, forth) {
        ('r', true) => gpu_pair::P2P_READ,
        ('r', false) => gpu_pair::P2P_READ_BACK,
        ('w', true) => gpu_pair::P2P_WRITE,
        ('w', false) => gpu_pair::P2P_WRITE_BACK,
        ('n', true) => gpu_pair::P2P_NVLINK,
        _ => return,
    };
    facts.set(id, key, cell.line.known(status));
}
