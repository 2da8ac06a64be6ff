//! What nvidia-smi prints where NVML fails, or fails for one GPU.

use super::{listed, works};
use crate::fact::node;
use crate::fact::{Facts, Id, gpu};
use crate::probe::nvml::{fails_with, words};
use crate::probe::outputs::Output;

/// What it says of a driver that is not there (NVML_ERROR_DRIVER_NOT_LOADED).
const NO_DRIVER: &str = "couldn't communicate with the NVIDIA driver";

/// States what these lines tell; each message ends in the words of `nvmlErrorString`.
pub(in crate::probe::outputs) fn state(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        let text = line.text.trim();
        let failed = match text.strip_prefix("Failed to initialize NVML: ") {
            None => text.contains(NO_DRIVER).then_some(NO_DRIVER),
            words => words,
        };
        if let Some(error) = failed {
            facts.set(node, node::NVML, line.known(fails_with(error)));
            facts.set(node, node::NVML_ERROR, line.known(error.into()));
        } else if let Some(version) = text.strip_prefix("NVML library version: ") {
            facts.set(node, node::NVML_VERSION, line.known(version.into()));
        } else if text == "No devices were found" {
            works(facts, node, &line.origin());
            facts.set(node, node::NVML_GPUS, line.known(0));
        } else if let Some((address, error)) = without_handle(text) {
            let id = listed(facts, node, address, output);
            facts.set(id, gpu::NVML_ERROR, line.known(error.into()));
            let is = |name| line.known(error.starts_with(&*words(name)));
            facts.set(id, gpu::LOST, is("GpuIsLost"));
            facts.set(id, gpu::RESET_REQUIRED, is("ResetRequired"));
        }
    }
}

/// `Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU`, newer also `GPU0: 0000:3B:00.0: …`:
/// the address, and the words.
fn without_handle(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("Unable to determine the device handle for ")?;
    let (before, words) = rest.rsplit_once(": ")?;
    let begin = before.rfind([' ', 'U', 'u']).map_or(0, |at| at + 1);
    let address = before.get(begin..)?;
    let words = words.split(".  ").next().unwrap_or(words);
    (address.matches(':').count() == 2).then_some((address, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_without_a_handle_by_each_way_of_saying_so() {
        let of = |text: &str| {
            let line = format!("Unable to determine the device handle for {text}");
            without_handle(&line).map(|(address, words)| format!("{address} {words}"))
        };
        let lost = Some("0000:3B:00.0 GPU is lost".to_owned());
        assert_eq!(
            of("GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU"),
            lost
        );
        let unknown = Some("0000:3B:00.0 Unknown Error".to_owned());
        for text in [
            "GPU 0000:3B:00.0: Unknown Error",
            "GPU0000:3B:00.0: Unknown Error",
            "gpu 0000:3B:00.0: Unknown Error",
            "GPU0: 0000:3B:00.0: Unknown Error",
        ] {
            assert_eq!(of(text), unknown, "{text}");
        }
        assert_eq!(of("GPU 3: Unknown Error"), None);
    }
}
