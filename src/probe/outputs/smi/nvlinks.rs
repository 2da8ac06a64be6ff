//! NVLinks, as `nvidia-smi nvlink -s` and `-e` print them.

use std::sync::Arc;

use crate::fact::{Fact, Facts, Id, Membership, Subject, Type, gpu, nvlink};
use crate::probe::outputs::{Output, OutputLine, matrix, named};

/// What lines belong to above which no GPU is named: somebody left that line out.
const UNNAMED: &str = "unnamed GPU";

/// `GPU 0: …`, and below it `Link 0: 26.562 GB/s`, `Link 2: <inactive>`, `Link 0: Replay Errors: 0`.
pub(in crate::probe::outputs) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let mut gpu_above: Option<Id> = None;
    for line in output.lines() {
        let text = line.text.trim();
        let Some((subject, says)) = text.split_once(": ") else {
            continue;
        };
        if let Some(number) = subject.strip_prefix("GPU ") {
            let gpu = named_gpu(output, facts, node, number, says, &line);
            gpu_above = Some(gpu);
            continue;
        }
        // `NVML: Unable to retrieve NVLink information as all links are inActive`
        if text.to_lowercase().ends_with("all links are inactive") {
            let gpu = gpu_above.unwrap_or_else(|| facts.instance(Subject::Gpu, node, UNNAMED));
            facts.set(gpu, gpu::NVLINKS_ACTIVE, line.known(0));
            continue;
        }
        let link_number = subject.strip_prefix("Link ");
        let Some(number) = link_number.and_then(|n| n.parse::<u64>().ok()) else {
            continue;
        };
        let gpu = gpu_above.unwrap_or_else(|| facts.instance(Subject::Gpu, node, UNNAMED));
        link(facts, gpu, number, says, &line);
    }
    judge_inactive(facts, node);
}

/// The GPU of a heading: `NVIDIA H100 80GB HBM3 (UUID: GPU-…)`.
fn named_gpu(
    output: &Output,
    facts: &mut Facts,
    node: Id,
    number: &str,
    says: &str,
    line: &OutputLine<'_>,
) -> Id {
    let name = matrix::name_of(facts, node, &format!("GPU{number}"));
    let gpu = facts.instance(Subject::Gpu, node, &name);
    let shows_state = output.has("-s") || output.has("--status");
    if !output.is_cut && !output.by_mark && shows_state {
        facts.set_members(Subject::Nvlink, gpu, Membership::Known(line.origin()));
    }
    let model = says.split(" (UUID").next().unwrap_or(says).trim();
    if !model.is_empty() {
        facts.set(gpu, gpu::MODEL, line.known(Arc::from(model)));
    }
    gpu
}

fn link(facts: &mut Facts, gpu: Id, number: u64, says: &str, line: &OutputLine<'_>) {
    let name = format!("{} link {number}", facts.name(gpu));
    let id = facts.instance(Subject::Nvlink, gpu, &name);
    facts.set(id, nvlink::LINK, line.known(number));
    if let Some((what, count)) = says.split_once(": ") {
        named::state(facts, id, named::NVLINK, (what, count), line);
    } else if says == "<inactive>" {
        facts.set(id, nvlink::ACTIVE, line.known(false));
    } else if let Some(rate) = named::read(Type::BitRate, says) {
        named::fact(facts, id, "speed", Some((rate, *line)));
        facts.set(id, nvlink::ACTIVE, line.known(true));
    }
}

/// Whether GPUs of this model are on a baseboard that connects all of their links.
fn is_on_baseboard(model: &str) -> bool {
    const BOARDS: [&str; 4] = ["SXM", "HBM3", "B200", "B300"];
    const OTHERS: [&str; 5] = ["GB200", "GB300", "GH200", "NVL", "PCIe"];
    let is_board = BOARDS.iter().any(|word| model.contains(word)) || model == "NVIDIA H200";
    is_board && !OTHERS.iter().any(|word| model.contains(word))
}

/// An NVLink, as the output lists it.
struct ListedLink {
    id: Id,
    number: Option<u64>,
    active: Option<bool>,
}

fn listed_links(facts: &Facts, gpu: Id) -> Vec<ListedLink> {
    let links = facts.below(gpu, Subject::Nvlink);
    let listed = links.map(|id| ListedLink {
        id,
        number: facts.known(id, nvlink::LINK),
        active: facts.known(id, nvlink::ACTIVE),
    });
    listed.collect()
}

/// The numbers of the links that are active at other GPUs of the model, as far as models are known.
fn up_at_equals(facts: &Facts, gpus: &[Id], gpu: Id) -> Vec<u64> {
    let model = facts.known(gpu, gpu::MODEL);
    let mut up = Vec::new();
    for &other in gpus.iter().filter(|other| **other != gpu) {
        let of_other = facts.known(other, gpu::MODEL);
        if model.is_some() && of_other.is_some() && of_other != model {
            continue;
        }
        let links = listed_links(facts, other).into_iter();
        let active = links.filter(|link| link.active == Some(true));
        up.extend(active.filter_map(|link| link.number));
    }
    up
}

/// Says of each link and each GPU that is known to be inactive whether that is odd: its model has
/// all links in use, or another GPU of the model has this link up.
fn judge_inactive(facts: &mut Facts, node: Id) {
    let gpus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
    for &gpu in &gpus {
        let up_elsewhere = up_at_equals(facts, &gpus, gpu);
        let model = facts.known(gpu, gpu::MODEL);
        let on_baseboard = model.as_deref().is_none_or(is_on_baseboard);
        let own = listed_links(facts, gpu);
        let each_inactive = own.iter().all(|link| link.active == Some(false));
        let all_inactive =
            facts.known(gpu, gpu::NVLINKS_ACTIVE) == Some(0) || own.len() > 1 && each_inactive;
        let is_told = all_inactive || own.iter().any(|link| link.active.is_some());
        for link in own {
            let is_up_elsewhere = link
                .number
                .is_some_and(|number| up_elsewhere.contains(&number));
            let odd = link.active == Some(false) && (on_baseboard || is_up_elsewhere);
            if let Fact::Known(_, origin) = facts.get(link.id, nvlink::ACTIVE) {
                facts.set(link.id, nvlink::ODD_IN_PASTE, Fact::Known(odd, origin));
            }
        }
        if !is_told {
            continue;
        }
        let odd = all_inactive && (on_baseboard || !up_elsewhere.is_empty());
        facts.derive(
            gpu,
            gpu::NVLINKS_ODD_IN_PASTE,
            odd,
            "nvlink.active of its links",
        );
    }
}
