//! The nodes of a launch try whether they reach each other, before rank 0 judges: each the next one
//! in a ring and one far away, over the interface by which they met and over their RDMA ports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::session::{admitted, join};

use super::{MessageOfRank0, TELLING, join_rank_0, unreached};
use crate::cluster::rendezvous::{Gathered, JoinError};
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::cluster::ssh_child::RunAssignment;
use crate::examine::given::NodePlacement;
use crate::examine::one::own_facts;
use crate::examine::sink::Sink;
use crate::examine::ways_message::WaysMessage;
use crate::fact::{Facts, Id, Limits};
use crate::live::worker::Progress;
use crate::measure::plan::pairs::backend_choice::BackendRequest;
use crate::measure::plan::pairs::{Extent, Results, host_only, rail_choice};
use crate::measure::plan::reach::TriedWays;
use crate::measure::run::pairs::backend_decision::{BackendDecision, PairRequest, decide};
use crate::measure::run::pairs::rdma::Purpose;
use crate::measure::run::pairs::rounds::{PairTimes, measure_pairs};
use crate::nodeset;
use crate::source::recording::Recording;

/// How long a node may take to say which ports it has.
const SAYING: Duration = Duration::from_secs(20);
/// For how long data flows each way at most.
const FLOW: Duration = Duration::from_millis(25);

/// Rank 0 begins a session with the nodes that came, and tells them who they are.
///
/// # Errors
///
/// A connection cannot be configured.
pub(super) fn begin(own: &str, mut gathered: Gathered) -> anyhow::Result<Session> {
    let mut names: BTreeMap<u64, String> = [(0, own.to_owned())].into();
    let came = gathered.nodes.iter();
    names.extend(came.map(|(rank, came)| (*rank, came.name.clone())));
    let text = serde_json::to_vec(&MessageOfRank0::Try(names))?;
    // Who does not hear it is missing soon.
    gathered.broadcast(&text, TELLING);
    Ok(Session::for_rank_0(own, gathered)?)
}

/// Takes part in a run of hosts that only try the ways between them, and gives what this node says
/// of it.
///
/// # Errors
///
/// Rank 0's port is taken; rank 0 has no address by its name, or ended.
pub fn of_host(
    place: &NodePlacement,
    told: &RunAssignment,
    recording: &Recording,
    wait: Duration,
    limits: &Limits,
    sink: &dyn Sink,
) -> anyhow::Result<WaysMessage> {
    let joined = if place.own.rank == 0 {
        join(place, wait, Some(told), sink)?
    } else {
        match join_rank_0(place, wait, false) {
            Ok(guest) => admitted(place, wait, guest)?,
            Err(JoinError::Unreachable { at, error, .. }) => {
                return Ok(WaysMessage {
                    unreached: Some(unreached::of_listening(at, &error, recording)),
                    ..WaysMessage::default()
                });
            }
            Err(error) => return Err(error.into()),
        }
    };
    let tried = try_ways(&joined.session, recording, limits);
    Ok(WaysMessage::of_tried_ways(&tried))
}

/// Tries the ways. All nodes call it; at rank 0 it returns what came of them.
pub(super) fn try_ways(session: &Session, recording: &Recording, limits: &Limits) -> TriedWays {
    let mut tried = TriedWays::default();
    let by_sockets = over_meeting_interface(session, recording, limits);
    add(
        &mut tried,
        "the interface by which the nodes met",
        by_sockets,
    );
    let by_rdma = over_rdma(session, recording, limits, &mut tried.left_out);
    add(&mut tried, "RDMA", by_rdma);
    tried
}

/// Adds what came of one kind of way.
fn add(tried: &mut TriedWays, what: &str, came: anyhow::Result<Option<Results>>) {
    match came {
        Ok(Some(results)) => {
            for node in &results.plan.unable {
                tried
                    .left_out
                    .push(format!("{what}: {}: {}", node.host, node.why));
            }
            tried.parts.push(results);
        }
        Ok(None) => {}
        Err(why) => tried.left_out.push(format!("{what}: {why}")),
    }
}

fn times<'l>(limits: &'l Limits, prefix: &'l str) -> PairTimes<'l> {
    PairTimes {
        limits,
        flow: FLOW,
        extent: Extent::Neighbours,
        across: false,
        once: false,
        prefix,
    }
}

fn over_meeting_interface(
    session: &Session,
    recording: &Recording,
    limits: &Limits,
) -> anyhow::Result<Option<Results>> {
    let (facts, node) = own_facts(recording);
    let rail = rail_choice::rail_to_rank_0(&facts, node, session.address());
    let decided = BackendDecision::by_sockets(rail.map(|rail| vec![rail]));
    measure_pairs(session, decided, &[], &times(limits, "meeting "), unseen)
}

fn over_rdma(
    session: &Session,
    recording: &Recording,
    limits: &Limits,
    left_out: &mut Vec<String>,
) -> anyhow::Result<Option<Results>> {
    let (facts, node) = own_facts(recording);
    let CommonPorts { ports, others } = common_ports(session, active_ports(&facts, node))?;
    if !others.is_empty() {
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let names = nodeset::list(&others);
        left_out.push(format!("RDMA: not active on all nodes: {names}"));
    }
    if ports.is_empty() {
        return Ok(None);
    }
    let request = PairRequest {
        backend: BackendRequest::Auto,
        device: &ports,
        gid_index: None,
        memory: host_only(),
        force: false,
        purpose: Purpose::Try,
    };
    let decided = decide(session, (&facts, node), &request)?;
    drop(facts);
    if decided.is_by_sockets() {
        anyhow::bail!("{}", decided.reason());
    }
    measure_pairs(session, decided, &[], &times(limits, "rdma "), unseen)
}

fn active_ports(facts: &Facts, node: Id) -> Vec<String> {
    let rails = rail_choice::choose_rdma_rails(facts, node, &[]).unwrap_or_default();
    rails.into_iter().filter_map(|rail| rail.device).collect()
}

/// Active ports of the nodes, by their names.
#[derive(Default)]
struct CommonPorts {
    /// Those that all nodes have.
    ports: Vec<String>,
    /// Those that only some have.
    others: BTreeSet<String>,
}

/// The ports that all nodes have active, by their names: where one node lacks the first, its second
/// is not the other nodes' first. None where no node has any.
///
/// # Errors
///
/// Rank 0 is gone; or which nodes have none, or that they have none in common.
fn common_ports(session: &Session, own: Vec<String>) -> anyhow::Result<CommonPorts> {
    let value = serde_json::to_value(&own)?;
    let all = session.exchange("ports", &[], StepAudience::Everyone, SAYING, value)?;
    let mut lists: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (rank, value) in all.values {
        lists.insert(rank, serde_json::from_value(value).unwrap_or_default());
    }
    if lists.values().all(Vec::is_empty) {
        return Ok(CommonPorts::default());
    }
    let mut without = Vec::new();
    for rank in lists.keys().filter(|rank| lists[rank].is_empty()) {
        without.push(session.name(*rank));
    }
    if !without.is_empty() {
        let names: Vec<&str> = without.iter().map(String::as_str).collect();
        anyhow::bail!("no active port on {}", nodeset::list(&names));
    }
    let mut ports = own;
    ports.retain(|port| lists.values().all(|ports| ports.contains(port)));
    if ports.is_empty() {
        anyhow::bail!("no port is active on all nodes under one name");
    }
    let mut others: BTreeSet<String> = lists.into_values().flatten().collect();
    others.retain(|port| !ports.contains(port));
    Ok(CommonPorts { ports, others })
}

/// It is over before a person reads it.
fn unseen(_: Progress<'_>) {}
