//! The packet filter's rules.

use super::{Ask, BUDGET, Probe};
use crate::fact::{Facts, Id};

/// The probe.
pub const PROBE: Probe = Probe {
    name: "firewall",
    about: "the packet filter's rules",
    budget: BUDGET,
    run,
};

fn run(_ask: &Ask<'_>, _facts: &mut Facts, _node: Id) {}
