//! NVML: whether it works, its GPUs, their links, and what each two can do with each other.

use std::time::Duration;

use super::{Ask, Probe};
use crate::fact::{Facts, Id};

/// The probe.
pub const PROBE: Probe = Probe {
    name: "nvml",
    about: "NVML: GPUs, NVLink, peer-to-peer",
    budget: Duration::from_secs(10),
    run,
};

fn run(_ask: &Ask<'_>, _facts: &mut Facts, _node: Id) {}
