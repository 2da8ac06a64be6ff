//! Premises that a check assumes. If one is not known to hold, the finding states it as its condition.

use super::Condition;
use crate::fact::value::written;

written! {
    /// A premise that a check assumes.
    pub enum Premise {
        /// The run takes more than one node, and so needs a network.
        SeveralNodes = "several-nodes",
        /// The event is what failed, or the run takes more than one node: it needs the network either way.
        NeedsNetwork = "needs-network",
    }
}

impl Premise {
    /// When it is met.
    pub(super) fn condition(self) -> &'static str {
        match self {
            Premise::SeveralNodes => "run.nodes > 1",
            Premise::NeedsNetwork => "run.nodes > 1 or event.role == \"failure\"",
        }
    }

    /// As a finding says it.
    pub fn sentence(self) -> &'static str {
        match self {
            Premise::SeveralNodes | Premise::NeedsNetwork => "if more than one node takes part: ",
        }
    }
}

/// The premise of a check, with its condition typed for the check's subject.
#[derive(Debug)]
pub struct CheckPremise {
    /// Which it is.
    pub premise: Premise,
    pub(super) condition: Condition,
}
