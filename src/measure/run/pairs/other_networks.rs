//! The networks between all nodes that the pairs do not use: each is tried for a moment, so that an
//! idle one that is faster is known.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::backend_decision::BackendDecision;
use super::rounds::{PairTimes, measure_pairs};
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::fact::Limits;
use crate::measure::plan::pairs::rail_choice::UnusedRail;
use crate::measure::plan::pairs::{Extent, OtherNetwork, Results};
use crate::measure::run::progress::ShowProgress;

/// How many are tried at most.
const TRIED: usize = 4;
/// For how long data flows each way of a pair.
const FLOW: Duration = Duration::from_millis(150);
/// How long a node may take to say which interfaces it has.
const SAYING: Duration = Duration::from_secs(20);

/// Tries the networks that all nodes have beside the one in use; rank 0 has what they carry.
///
/// # Errors
///
/// Rank 0 is gone.
pub fn try_other_networks(
    session: &Session,
    own: &[UnusedRail],
    limits: &Limits,
    show: ShowProgress,
) -> anyhow::Result<Vec<OtherNetwork>> {
    let value = serde_json::to_value(own)?;
    let all = session.exchange("networks", &[], StepAudience::Everyone, SAYING, value)?;
    let nodes: Vec<Vec<UnusedRail>> = (all.values.into_values())
        .filter_map(|value| serde_json::from_value(value).ok())
        .collect();
    let mut found = Vec::new();
    for (number, network) in common(&nodes).into_iter().take(TRIED).enumerate() {
        let Some(own) = own.iter().find(|rail| rail.network == network) else {
            continue;
        };
        let decided = BackendDecision::by_sockets(Ok(vec![own.rail.clone()]));
        let times = PairTimes {
            limits,
            flow: FLOW,
            extent: Extent::All,
            across: false,
            once: true,
            prefix: &format!("network {number} "),
        };
        let results = measure_pairs(session, decided, &[], &times, show)?;
        found.extend(results.as_ref().and_then(carried));
    }
    Ok(found)
}

/// The networks in which each node has an address of its own, in a fixed order.
fn common(nodes: &[Vec<UnusedRail>]) -> Vec<String> {
    let mut addresses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for rail in nodes.iter().flatten() {
        let all = addresses.entry(&rail.network).or_default();
        all.insert(&rail.rail.address);
    }
    let is_common = |(network, all): &(&str, BTreeSet<&str>)| {
        let has = |node: &&Vec<UnusedRail>| node.iter().any(|rail| rail.network == *network);
        nodes.iter().filter(has).count() == nodes.len() && all.len() >= nodes.len()
    };
    let common = addresses.into_iter().filter(is_common);
    common.map(|(network, _)| network.to_owned()).collect()
}

/// What the slowest pair of those that were tried carries; `None` where one carried nothing.
fn carried(results: &Results) -> Option<OtherNetwork> {
    let rates: Option<Vec<f64>> = results.first.values().map(|flow| flow.rate()).collect();
    let rate = rates?.into_iter().min_by(f64::total_cmp)?;
    let rails = results.plan.nodes.iter().flat_map(|node| &node.rails);
    let interfaces: BTreeSet<String> = rails.map(|rail| rail.interface.clone()).collect();
    Some(OtherNetwork {
        interfaces: interfaces.into_iter().collect(),
        rate: rate as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::pairs::Rail;

    fn unused(network: &str, address: &str) -> UnusedRail {
        UnusedRail {
            rail: Rail {
                address: address.into(),
                ..Rail::default()
            },
            network: network.into(),
        }
    }

    #[test]
    fn a_network_is_common_if_each_node_has_an_address_of_its_own_in_it() {
        let bridge = || unused("172.17.0.0/16", "172.17.0.1");
        let nodes = [
            vec![unused("10.1.0.0/24", "10.1.0.1"), bridge()],
            vec![
                unused("10.1.0.0/24", "10.1.0.2"),
                bridge(),
                unused("10.2.0.0/24", "10.2.0.2"),
            ],
        ];
        assert_eq!(common(&nodes), ["10.1.0.0/24"]);
    }
}
