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
    let all = all.filter(|(gpu, ..)| !gpu.is_empty()).collect();
    match output.tool() {
        "rocm-smi" => [all, of_table(output)].concat(),
        _ => all,
    }
}

/// `0  2  0x74a1, 55354  51.0°C  152.0W  NPS1, SPX, 0 … 750.0W …`: the temperature counts where the heading says that it is the junction's.
fn of_table<'o>(output: &'o Output) -> Vec<(&'o str, &'o str, &'o str, OutputLine<'o>)> {
    let is_junction = output.lines().any(|line| line.text.contains("(Junction)"));
    let row = |line: OutputLine<'o>| {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let number = words.first().filter(|word| word.parse::<u8>().is_ok());
        let with = |unit: &str| -> Vec<&'o str> {
            let values = words.iter().filter_map(|word| word.strip_suffix(unit));
            values
                .filter(|value| value.parse::<f64>().is_ok())
                .collect()
        };
        let (degrees, watts) = (with("°C"), with("W"));
        let degrees = degrees.first().filter(|_| is_junction);
        let (power, cap) = match watts.as_slice() {
            [power, cap] => (Some(power), Some(cap)),
            _ => (None, None),
        };
        let named = [
            ("temperature (sensor junction) (c)", degrees),
            ("average graphics package power (w)", power),
            ("max graphics package power (w)", cap),
        ];
        let value =
            |(name, value): (&'o str, Option<&&'o str>)| Some((*number?, name, *value?, line));
        named.into_iter().filter_map(value).collect::<Vec<_>>()
    };
    output.lines().flat_map(row).collect()
}
