//! NVML's facts about pairs of GPUs: P2P capabilities.
//!
//! A pair is named as the topology names it: both addresses, in the order in which the GPUs were found.

use std::collections::HashMap;

use serde_json::Value;

use super::device::nth;
use super::leave_open;
use super::reply::{NvmlReply, ReplyObject};
use crate::fact::gpu_pair::{self, P2p};
use crate::fact::{Fact, Facts, Gap, Id, Key, Subject, gpu, known, nvlink};

/// A capability as NVML calls it, and the fact of it in each direction.
type Capability = (&'static str, Key<P2p>, Option<Key<P2p>>);

const CAPABILITIES: [Capability; 3] = [
    ("read", gpu_pair::P2P_READ, Some(gpu_pair::P2P_READ_BACK)),
    ("write", gpu_pair::P2P_WRITE, Some(gpu_pair::P2P_WRITE_BACK)),
    ("nvlink", gpu_pair::P2P_NVLINK, None),
];

/// States what the pairs can do. `by_index` has NVML's numbers of the GPUs.
pub(super) fn state(
    facts: &mut Facts,
    node: Id,
    said: &Result<NvmlReply, Gap>,
    by_index: &HashMap<u64, Id>,
) {
    let mut ids: Vec<Id> = by_index.values().copied().collect();
    let is_virtual = |id| facts.known(id, gpu::VIRTUAL_FUNCTION) == Some(true);
    ids.retain(|id| !is_virtual(*id) && !facts.is_left_out(*id));
    // In the order in which they were found, as the topology has them.
    ids.sort_unstable();
    let said = match said {
        Ok(said) => said,
        Err(gap) => {
            for_each(&ids, |first, second| {
                let pair = pair(facts, node, first, second);
                leave_open(facts, pair, &gpu_pair::SCHEMA, gap);
            });
            return;
        }
    };
    let empty = Vec::new();
    let list = said.value.get("pairs").and_then(Value::as_array);
    let by_ids: HashMap<(Id, Id), &Value> = list
        .unwrap_or(&empty)
        .iter()
        .filter_map(|value| {
            let id = |name: &str| by_index.get(&value.get(name)?.as_u64()?).copied();
            Some(((id("first")?, id("second")?), value))
        })
        .collect();
    for_each(&ids, |first, second| {
        let pair = pair(facts, node, first, second);
        let nvlinks = straight(facts, first, second);
        facts.set(pair, gpu_pair::NVLINKS, nvlinks);
        let there = by_ids.get(&(first, second));
        let back = by_ids.get(&(second, first));
        for (name, key, key_back) in CAPABILITIES {
            let status = |value: &Value| {
                let number = ReplyObject::within(said, value).number(name);
                // The words are declared in the order of `nvmlGpuP2PStatus_t`.
                number.and_then(nth(P2p::ALL))
            };
            if let Some(value) = there {
                facts.set(pair, key, status(value));
            }
            if let (Some(value), Some(key)) = (back, key_back) {
                facts.set(pair, key, status(value));
            }
        }
        let gap = Gap::not_understood(&said.question, "the pair is not in it");
        leave_open(facts, pair, &gpu_pair::SCHEMA, &gap);
    });
}

fn for_each(ids: &[Id], mut each: impl FnMut(Id, Id)) {
    for (at, first) in ids.iter().enumerate() {
        for second in ids.iter().skip(at + 1) {
            each(*first, *second);
        }
    }
}

fn pair(facts: &mut Facts, node: Id, first: Id, second: Id) -> Id {
    let name = format!("{} - {}", facts.name(first), facts.name(second));
    facts.instance(Subject::GpuPair, node, &name)
}

/// How many active links lead straight from one GPU to the other.
fn straight(facts: &Facts, first: Id, second: Id) -> Fact<u64> {
    if let Err(gap) = facts.members(Subject::Nvlink, first) {
        return Fact::Unknown(gap);
    }
    let mut count = 0;
    for link in facts.below(first, Subject::Nvlink) {
        if !known!(facts.get(link, nvlink::ACTIVE)) {
            continue;
        }
        match known!(facts.get(link, nvlink::REMOTE)) {
            nvlink::Remote::Gpu => {}
            nvlink::Remote::Unknown => return Fact::Unknown(Gap::missing("nvlink.remote")),
            _ => continue,
        }
        let pci = known!(facts.get(link, nvlink::REMOTE_PCI));
        count += u64::from(*pci == *facts.name(second));
    }
    Fact::derived(count, "the remote ends of its links")
}
