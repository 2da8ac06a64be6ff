//! PCIe links, bridges and the IOMMU.

use super::{Ask, BUDGET, Probe};
use crate::fact::{Facts, Id};

/// The probe.
pub const PROBE: Probe = Probe {
    name: "pcie",
    about: "PCIe links, bridges and the IOMMU",
    budget: BUDGET,
    run,
};

fn run(_ask: &Ask<'_>, _facts: &mut Facts, _node: Id) {}
