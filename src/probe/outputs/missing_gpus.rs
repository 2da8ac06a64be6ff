//! GPUs of NVIDIA that lspci shows and nvidia-smi does not list.

use std::collections::BTreeMap;

use super::{Output, lspci};
use crate::fact::{Facts, Id, Origin, Subject, gpu, node};

/// States how many lspci shows, and which of them no list of nvidia-smi has, if their addresses are said. A GPU of another driver is none of them: it
/// may be a virtual machine's.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    let mut shown: BTreeMap<String, Origin> = BTreeMap::new();
    for output in outputs.iter().filter(|output| output.tool() == "lspci") {
        let mut at = None;
        for line in output.lines() {
            if !line.text.starts_with(char::is_whitespace) {
                at = lspci::nvidia_gpu(line.text);
                let gpu = at.clone().map(|address| (address, line.origin()));
                shown.extend(gpu);
            }
            let driver = line.text.trim().strip_prefix("Kernel driver in use: ");
            if let (Some(address), true) = (&at, driver.is_some_and(|name| name != "nvidia")) {
                shown.remove(address);
            }
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
