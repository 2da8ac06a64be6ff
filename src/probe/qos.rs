//! PFC, ECN, DSCP and traffic classes of RoCE.

use super::{Ask, BUDGET, Probe};
use crate::fact::{Facts, Id};

/// The probe.
pub const PROBE: Probe = Probe {
    name: "qos",
    about: "PFC, ECN, DSCP and traffic classes of RoCE",
    budget: BUDGET,
    run,
};

fn run(_ask: &Ask<'_>, _facts: &mut Facts, _node: Id) {}
