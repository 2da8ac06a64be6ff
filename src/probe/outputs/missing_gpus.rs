//! GPUs of NVIDIA that lspci shows and nvidia-smi does not list.

use std::collections::BTreeMap;

use super::{Output, lspci};
use crate::fact::{Facts, Id, Origin, Subject, gpu, node};

/// States how many lspci shows, and which of them no list of nvidia-smi has, if their addresses are said. A GPU of another driver is none of them: it
/// may be a virtual machine's.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    let mut shown: BTreeMap<String, Origin> = BTreeMap::new();
    let outputs = outputs.iter().filter(|output| output.tool() == "lspci");
    for line in outputs.flat_map(Output::lines) {
        if let Some(address) = lspci::nvidia_gpu(line.text)
            && let Some(id) = facts.find(Subject::Gpu, node, &address)
            && facts
                .known(id, gpu::DRIVER)
                .is_none_or(|driver| &*driver == "nvidia")
        {
            shown.insert(address, line.origin());
        }
    }
    let Some(origin) = shown.values().next().cloned() else {
        return;
    };
    facts.know(node, node::LSPCI_GPUS, shown.len() as u64, &origin);
    let is_listed = |id: Id| facts.known(id, gpu::IN_NVML) == Some(true);
    let listed = facts.below(node, Subject::Gpu);
    let listed = listed.filter(|id| is_listed(*id)).count() as u64;
    if facts.known(node, node::NVML_GPUS) != Some(listed) {
        return;
    }
    let unlisted = |address: &&String| {
        let id = facts.find(Subject::Gpu, node, address);
        !id.is_some_and(is_listed)
    };
    let unlisted: Vec<&str> = shown.keys().filter(unlisted).map(String::as_str).collect();
    if !unlisted.is_empty() {
        let unlisted = unlisted.join(", ");
        facts.know(node, node::UNLISTED_GPUS, unlisted.into(), &origin);
    }
}
