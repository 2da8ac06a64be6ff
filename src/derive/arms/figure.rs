//! A figure in words.

use crate::fact::arms::Unit;
use crate::fact::{BitRate, Seconds};
use crate::measure::plan::bandwidth_words as words;

impl Unit {
    /// A figure in words.
    pub(super) fn show(&self, value: f64) -> String {
        match self {
            Unit::Busbw => bandwidth(BitRate(value.max(0.0) as u64)),
            Unit::Number(unit) => format!("{} {unit}", digits(value)).trim_end().to_owned(),
            Unit::Lower => digits(1.0 / value),
            Unit::Time => Seconds(1.0 / value).to_string(),
        }
    }
}

/// A bandwidth as benchmarks of collectives print it, and as links are rated.
pub(in crate::derive) fn bandwidth(rate: BitRate) -> String {
    let bytes = rate.0 as f64 / 8e9;
    if bytes < 0.1 {
        return format!("{} ({:.0} Mb/s)", words::rate(rate.0), rate.0 as f64 / 1e6);
    }
    let decimals = usize::from(bytes < 100.0) + usize::from(bytes < 10.0);
    format!("{bytes:.decimals$} GB/s ({:.0} Gb/s)", rate.0 as f64 / 1e9)
}

/// Four digits of a number.
fn digits(value: f64) -> String {
    let whole = value.abs().max(1e-9).log10().floor() as i32;
    let decimals = usize::try_from(3 - whole).unwrap_or(0).min(9);
    format!("{value:.decimals$}")
}
