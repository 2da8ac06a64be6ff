//! GPUs of AMD, as amd-smi and rocm-smi print them.

use std::collections::BTreeMap;

use super::{Output, OutputLine, named};
use crate::fact::{Facts, Id, Subject, gpu};

/// States what all these outputs say: `static` has the addresses of what `metric` numbers.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    let all = || outputs.iter().flat_map(of);
    let is_address = |key: &str| key == "BDF" || key == "PCI Bus";
    let addresses = all().filter(|(_, key, ..)| is_address(key));
    let addresses: BTreeMap<&str, &str> =
        addresses.map(|(gpu, _, value, _)| (gpu, value)).collect();
    for (number, key, value, line) in all() {
        let own = format!("GPU{number}");
        let address = addresses.get(number).copied();
        let id = facts.instance(Subject::Gpu, node, address.unwrap_or(&own));
        match address.filter(|_| is_address(key)) {
            Some(address) => facts.set(id, gpu::PCI, line.known(address.into())),
            None => named::state(facts, id, named::AMD, (key, value), &line),
        }
    }
}

/// What an output says of each GPU: its number, a name and a value. amd-smi has `GPU: 0` above, rocm-smi `GPU[0] : ` in each line.
fn of<'o>(output: &'o Output) -> Vec<(&'o str, &'o str, &'o str, OutputLine<'o>)> {
    let mut at = "";
    let of_line = |line: OutputLine<'o>| {
        let text = line.text.trim();
        match output.tool() {
            "amd-smi" => {
                let (key, value) = text.split_once(": ")?;
                if key == "GPU" {
                    at = value;
                }
                Some((at, key, value, line))
            }
            "rocm-smi" => {
                let (number, rest) = text.strip_prefix("GPU[")?.split_once(']')?;
                let (key, value) = rest
                    .trim_start_matches(['\t', ' ', ':'])
                    .rsplit_once(": ")?;
                Some((number, key, value, line))
            }
            _ => None,
        }
    };
    let all = output.lines().filter_map(of_line);
    all.filter(|(gpu, ..)| !gpu.is_empty()).collect()
}
