//! The results of the copy benchmark as matrices: between GPUs, and between GPUs and the host.

pub mod text;

use serde::Serialize;

use crate::fact::{Facts, Id, Subject, gpu, limit};
use crate::measure::plan::p2p::{End, Results};

/// Version of the JSON form: `major.minor`. Fields are added in a minor version; a major one changes or removes some.
pub const SCHEMA: &str = "rdma-doctor-p2p/1.0";

/// The measurements of a node. Quantities are numbers in their base unit: bytes, bits per second, seconds.
#[derive(Debug, Default, Serialize)]
pub struct Copies {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The node's name.
    pub node: String,
    /// Bytes of a copy.
    pub size: u64,
    /// Timed trials of each measurement, whose median counts.
    pub trials: u64,
    /// The GPUs, in the order of their numbers in CUDA.
    pub gpus: Vec<Gpu>,
    /// Each measurement.
    pub copies: Vec<Copy>,
    /// Why nothing was measured; `null` where something was.
    pub nothing: Option<String>,
}

/// A GPU.
#[derive(Debug, Serialize)]
pub struct Gpu {
    /// Its PCI address.
    pub pci: String,
    /// Its number in CUDA, as this process counts.
    pub index: Option<u64>,
    /// Its model.
    pub model: Option<String>,
}

/// A measurement.
#[derive(Debug, Serialize)]
pub struct Copy {
    /// Where the bytes come from: a PCI address, or "host".
    pub from: String,
    /// Their destination.
    pub to: String,
    /// Whether as many go back at the same time; the bandwidth is then that of both directions together.
    pub both: bool,
    /// What became of it: "verified" (each byte was right in each trial), "corrupt", "denied", "failed", "hung", "died", "not measured",
    /// "not recorded".
    pub outcome: &'static str,
    /// Why the outcome is not "verified".
    pub why: Option<String>,
    /// The bandwidth, the median of the trials.
    pub bandwidth: Option<u64>,
    /// The interquartile range of the trials, in percent of the median.
    pub spread: Option<f64>,
    /// Whether the trials agree enough for the median to count.
    pub steady: Option<bool>,
    /// How long a small copy takes, of many in a row.
    pub latency: Option<f64>,
    /// Whether the bytes go from GPU to GPU, and not through memory of the host.
    pub direct: Option<bool>,
}

impl Copies {
    /// The results of a node.
    pub fn of(facts: &Facts, node: Id, results: &Results) -> Self {
        let gpu = |pci: &str| {
            let id = facts.find(Subject::Gpu, node, pci);
            Gpu {
                pci: pci.to_owned(),
                index: id.and_then(|id| facts.known(id, gpu::CUDA_INDEX)),
                model: id
                    .and_then(|id| facts.known(id, gpu::MODEL))
                    .map(|model| model.to_string()),
            }
        };
        let copies = results.cells.iter().map(|(cell, outcome)| {
            let numbers = outcome.numbers();
            let trouble = outcome.trouble();
            let limit = facts.limit(limit::COPY_SPREAD);
            Copy {
                from: cell.from.to_string(),
                to: cell.to.to_string(),
                both: cell.both,
                outcome: trouble.map_or("verified", |(word, _)| word),
                why: trouble.map(|(_, why)| why.to_owned()),
                bandwidth: numbers.map(|numbers| numbers.bandwidth.0),
                spread: numbers.map(|numbers| numbers.spread.0),
                steady: numbers.map(|numbers| numbers.is_steady(limit)),
                latency: numbers
                    .and_then(|numbers| numbers.latency)
                    .map(|time| time.0),
                direct: numbers.and_then(|numbers| numbers.direct),
            }
        });
        Copies {
            schema: SCHEMA,
            node: facts.name(node).to_owned(),
            size: results.plan.size,
            trials: results.plan.trials,
            gpus: results.plan.gpus.iter().map(|pci| gpu(pci)).collect(),
            copies: copies.collect(),
            nothing: None,
        }
    }

    /// Nothing was measured, for this reason.
    pub fn nothing(facts: &Facts, node: Id, why: String) -> Self {
        Copies {
            schema: SCHEMA,
            node: facts.name(node).to_owned(),
            nothing: Some(why),
            ..Copies::default()
        }
    }

    /// Whether a copy was begun.
    pub fn is_measured(&self) -> bool {
        self.copies
            .iter()
            .any(|copy| !copy.outcome.starts_with("not "))
    }

    pub(super) fn get(&self, from: &str, to: &str, both: bool) -> Option<&Copy> {
        self.copies.iter().find(|copy| {
            copy.both == both
                && ((copy.from == from && copy.to == to)
                    || (both && copy.from == to && copy.to == from))
        })
    }
}

/// The host's name among the ends of copies.
fn host() -> String {
    End::Host.to_string()
}
