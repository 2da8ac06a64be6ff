//! The nodes of a launch come together to measure: rank 0 says who is there, and a session begins.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::absent_nodes::absent_nodes;
use super::{join_rank_0, listen, unreached};
use crate::cluster::key::Trust;
use crate::cluster::rendezvous::JoinedNode;
use crate::cluster::session::Session;
use crate::cluster::ssh_child::stdio;
use crate::cluster::ssh_child::{ChildMessage, RunAssignment};
use crate::examine::given::{self, MachineRequest, NodePlacement};
use crate::examine::sink::Sink;
use crate::examine::unusable::{BadInput, bad_usage};
use crate::measure::plan::pairs::Silent;

/// The longest list of names.
const MOST: u64 = 16 << 20;
/// How long rank 0 may take to say who is there, beyond the time in which the others come.
const TELLING: Duration = Duration::from_secs(10);

/// The nodes that connected.
#[derive(Debug, Serialize, Deserialize)]
struct Attendance {
    names: BTreeMap<u64, String>,
    silent: Vec<Silent>,
}

/// A session, and who is missing in it.
pub struct Joined {
    /// The session.
    pub session: Session,
    /// The expected nodes that did not connect.
    pub silent: Vec<Silent>,
}

/// Joins the others. `told` is what who started this process from another host said, where somebody did.
///
/// # Errors
///
/// There is no key; rank 0 is not reached, or its port is taken.
pub fn join(
    place: &NodePlacement,
    wait: Duration,
    told: Option<&RunAssignment>,
    sink: &dyn Sink,
) -> anyhow::Result<Joined> {
    if matches!(place.trust, Trust::Allocation(_)) {
        return Err(bad_usage(
            "measuring between nodes needs a key that all of them have, since a job's id is public: `export RDMA_DOCTOR_KEY=$(uuidgen)` before srun, which passes it on (mpirun: -x RDMA_DOCTOR_KEY), or --key-file; --alone measures each node by itself",
        ));
    }
    if place.own.rank != 0 {
        return guest(place, wait, sink);
    }
    sink.say(&place.understood);
    let host = listen(place)?;
    let port = host.port().context("the port")?;
    if told.is_some() {
        stdio::send(&ChildMessage::Listening(port))
            .context("the process that started this node has ended")?;
    }
    let mut gathered = host.gather(place.nodes, wait, MOST, |_| {});
    drop(host);
    for who in &gathered.refused {
        sink.say(&format!("turned away: {who}"));
    }
    let seconds = wait.as_secs_f64();
    let why = || format!("it did not connect to rank 0 within {seconds:.0} s");
    let mut silent = match told {
        None => absent_nodes(place, &gathered, |_| why()),
        Some(told) => {
            let names = (1..).zip(told.names.iter().skip(1));
            let away = names.filter(|(rank, _)| !gathered.nodes.contains_key(rank));
            let away = away.map(|(_, name)| (name.clone(), why()));
            let all = told.absent.iter().cloned().chain(away);
            all.map(|(host, why)| Silent { host, why }).collect()
        }
    };
    if !silent.is_empty()
        && let Some(rule) = own_filter(place, port, sink)
    {
        for node in &mut silent {
            let own = &place.own.name;
            node.why += &format!("; the packet filter of {own} decides: {rule}");
        }
    }
    let mut names: BTreeMap<u64, String> = [(0, place.own.name.clone())].into();
    names.extend(
        gathered
            .nodes
            .iter()
            .map(|(rank, came)| (*rank, came.name.clone())),
    );
    let there = Attendance { names, silent };
    // Names and reasons only: there is nothing that JSON cannot hold.
    let text = serde_json::to_vec(&there).unwrap_or_default();
    for (_, deaf) in gathered.broadcast(&text, TELLING) {
        sink.say(&format!("no list of nodes reached: {deaf}"));
    }
    let session = Session::for_rank_0(&place.own.name, gathered).context("the session")?;
    Ok(Joined {
        session,
        silent: there.silent,
    })
}

/// The rule of this node's packet filter by which nobody reaches its port, where one decides.
fn own_filter(place: &NodePlacement, port: u16, sink: &dyn Sink) -> Option<String> {
    let recording = given::record(&MachineRequest::default(), None, sink);
    match recording {
        Ok(recording) => unreached::inward(&recording, port),
        Err(error) => {
            sink.say(&format!("{}: {error}", place.own.name));
            None
        }
    }
}

fn guest(place: &NodePlacement, wait: Duration, sink: &dyn Sink) -> anyhow::Result<Joined> {
    match join_rank_0(place, wait, false) {
        Ok(guest) => admitted(place, wait, guest),
        Err(error) => {
            // Only now: this node's packet filter may be the reason.
            let recording = given::record(&MachineRequest::default(), None, sink)?;
            Err(BadInput(unreached::outward(&error, &recording, place)).into())
        }
    }
}

/// A node that is connected to rank 0 hears who is there.
///
/// # Errors
///
/// Rank 0 ended.
pub(super) fn admitted(
    place: &NodePlacement,
    wait: Duration,
    mut guest: JoinedNode,
) -> anyhow::Result<Joined> {
    guest
        .send(b"")
        .map_err(|error| BadInput(format!("rank 0 did not accept this node's card: {error}")))?;
    let text = guest.receive(wait + TELLING, MOST).map_err(|error| {
        BadInput(format!(
            "rank 0 ended before it sent the list of nodes: {error}"
        ))
    })?;
    let there: Attendance = serde_json::from_slice(&text).context("who is there")?;
    let session =
        Session::for_joined_node(place.own.rank, there.names, guest).context("the session")?;
    Ok(Joined {
        session,
        silent: there.silent,
    })
}
