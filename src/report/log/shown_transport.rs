//! What the lines of a run show of the transport between its nodes, as far as a claim can rest on it.

use super::{Channels, channels};
use crate::fact::run::{self, Carrier, TransportProof};
use crate::fact::{Facts, Id, Subject, host};

/// What carried the traffic of a run between nodes.
#[derive(Clone, Debug)]
pub struct ShownTransport {
    /// What it was; unknown where no line says it.
    pub carrier: Option<Carrier>,
    /// Whether that was used, and not only chosen.
    pub is_used: bool,
    /// Whether the run has one node, so that nothing goes between nodes.
    pub is_one_node: bool,
    /// Lines of channels between nodes.
    pub channels: Option<Channels>,
    /// Whether the OFI plugin uses EFA; unknown where no line names its provider.
    pub is_efa: Option<bool>,
}

impl ShownTransport {
    pub(super) fn of(facts: &Facts, id: Id) -> Self {
        let proof = facts.known(id, run::PROOF);
        let hosts = || facts.below(id, Subject::Host);
        let mut providers = hosts()
            .filter_map(|host| facts.known(host, host::OFI_PROVIDER))
            .peekable();
        let named = providers.peek().is_some();
        let all_efa = providers.all(|provider| provider.starts_with("efa"));
        ShownTransport {
            carrier: facts.known(id, run::CARRIER),
            is_used: matches!(
                proof,
                Some(TransportProof::Channels | TransportProof::Requests)
            ),
            is_one_node: facts.known(id, run::NODES).is_some_and(|nodes| nodes < 2),
            channels: channels(facts, id),
            is_efa: named.then_some(all_efa),
        }
    }
}
