//! Routing and ARP of several rails, bonds.

use super::{Ask, BUDGET, Probe};
use crate::fact::{Facts, Id};

/// The probe.
pub const PROBE: Probe = Probe {
    name: "rail",
    about: "routing and ARP of several rails, bonds",
    budget: BUDGET,
    run,
};

fn run(_ask: &Ask<'_>, _facts: &mut Facts, _node: Id) {}
