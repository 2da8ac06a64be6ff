//! Services of the system.

use super::{Ask, BUDGET, Probe};
use crate::fact::{Facts, Id};

/// The probe.
pub const PROBE: Probe = Probe {
    name: "service",
    about: "services of the system",
    budget: BUDGET,
    run,
};

fn run(_ask: &Ask<'_>, _facts: &mut Facts, _node: Id) {}
