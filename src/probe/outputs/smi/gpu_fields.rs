//! Which field of `nvidia-smi -q` gives which fact of a GPU.

use std::sync::Arc;

use super::sections::Section;
use crate::fact::{Facts, Id, Value, gpu};
use crate::probe::nvml::device::{CLOCK_BITS, reason_names};
use crate::probe::outputs::named;

pub(super) fn text(value: &str) -> Option<Arc<str>> {
    (!value.is_empty() && value != "N/A").then(|| value.into())
}

/// States the facts of a GPU that its fields give.
pub(super) fn state(facts: &mut Facts, id: Id, section: &Section<'_>) {
    for (fact, ends) in named::GPU {
        if let Some((_, of)) = named::place(facts, id, fact) {
            let said = section.find(ends, |value| named::read(of, value));
            named::fact(facts, id, fact, said);
        }
    }
    for (fact, names) in named::SUMS {
        if let [heading, end] = names {
            let sum = section.sum(heading, end);
            let sum = sum.map(|(sum, line)| (Value::Count(sum), line));
            named::fact(facts, id, fact, sum);
        }
    }
    // Each of these alone tells whether it remaps rows.
    let of_rows = [
        "remapped_rows/pending",
        "remapped_row_pending",
        "remapped_rows_pending",
        "remapped_rows",
        "remapping_failure_occurred",
        "remapped_row_failure",
        "remapped_rows_failure",
        "remapped_row_unc",
        "remapped_rows_uncorrectable",
    ];
    let remaps = section.find(&of_rows, |value| Some(Value::Bool(value != "N/A")));
    named::fact(facts, id, "remaps_rows", remaps);
    // What counts or waits, is there; what the GPU has not, is N/A.
    let counts_pages = section.find(
        &["retired_pages/double_bit_ecc", "pending_page_blacklist"],
        |value| (value != "N/A" && !value.is_empty()).then_some(Value::Bool(true)),
    );
    named::fact(facts, id, "retires_pages", counts_pages);
    let of_one_bit = section.find(&["retired_pages/single_bit_ecc"], |value| {
        value.parse::<u64>().ok()
    });
    let of_two_bits = facts.known(id, gpu::PAGES_RETIRED_DOUBLE_BIT);
    if let (Some((one, line)), Some(two)) = (of_one_bit, of_two_bits) {
        facts.set(id, gpu::PAGES_RETIRED, line.known(one.saturating_add(two)));
    }
    if facts.known(id, gpu::FABRIC_STATE).is_some() {
        let success = |value: &str| (value == "Success").then(|| Value::Text("success".into()));
        let status = section.find(&["fabric/status"], success);
        named::fact(facts, id, "fabric_status", status);
    }
    losses(facts, id, section);
    reasons(facts, id, section);
}

/// What stands in place of values where the driver has lost a GPU, or wants it reset.
fn losses(facts: &mut Facts, id: Id, section: &Section<'_>) {
    let any = |word: &str| {
        section
            .fields
            .iter()
            .find(|field| field.value.contains(word))
            .map(|field| field.line)
    };
    let served = section.find(
        &["gpu_current_temp", "gpu_temp", "power_draw", "product_name"],
        |value| (!value.is_empty()).then_some(()),
    );
    match (any("GPU is lost"), served) {
        (Some(line), _) => facts.set(id, gpu::LOST, line.known(true)),
        (None, Some(((), line))) => facts.set(id, gpu::LOST, line.known(false)),
        _ => {}
    }
    let reset = section.find(&["reset_required"], named::typed::<bool>);
    match (any("GPU requires reset"), reset, served) {
        (Some(line), ..) | (_, Some((true, line)), _) => {
            facts.set(id, gpu::RESET_REQUIRED, line.known(true))
        }
        (_, _, Some(((), line))) => facts.set(id, gpu::RESET_REQUIRED, line.known(false)),
        _ => {}
    }
}

/// The clocks' event reasons by NVML's names. All of them stand in one part.
fn reasons(facts: &mut Facts, id: Id, section: &Section<'_>) {
    let said = named::REASONS.iter().filter_map(|(name, ends)| {
        let (is_active, line) = section.find(ends, named::typed::<bool>)?;
        Some((*name, is_active, line))
    });
    let said: Vec<_> = said.collect();
    if let Some((.., line)) = said.first() {
        let active = said.iter().filter(|(_, is_active, _)| *is_active);
        let active: Arc<[Arc<str>]> = active.map(|(name, ..)| Arc::from(*name)).collect();
        facts.set(id, gpu::CLOCK_REASONS, line.known(active));
        return;
    }
    // `clocks_event_reasons.active` has all of them in one number.
    const ACTIVE: [&str; 2] = [
        "clocks_event_reasons_active",
        "clocks_throttle_reasons_active",
    ];
    let bits = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    if let Some((bits, line)) = section.find(&ACTIVE, bits) {
        for (key, bit) in CLOCK_BITS {
            facts.set(id, key, line.known(bits & bit != 0));
        }
        facts.set(id, gpu::CLOCK_REASONS, line.known(reason_names(bits)));
    }
}
