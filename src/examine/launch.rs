//! The nodes of a launch meet: each records itself, rank 0 gathers, judges, and says the verdict.

mod absent_nodes;
pub mod reach;
pub mod session;
mod unreached;

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, ToSocketAddrs};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::absent_nodes::{AbsentNode, absent_nodes};
use super::budget::ClusterMemory;
use super::given::{LaunchRequest, NodePlacement};
use super::many::{self, Gathering};
use super::recording_text::to_text;
use super::sink::Sink;
use super::unusable::{BadInput, bad_usage};
use crate::check::Catalogue;
use crate::cluster::clock_offset::ClockOffset;
use crate::cluster::gather_tree;
use crate::cluster::key::Trust;
use crate::cluster::rendezvous::{Gathered, JoinError, JoinedNode, Rendezvous};
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::exit::Exit;
use crate::fact::Limits;
use crate::live::worker::Progress;
use crate::measure::plan::pairs::Silent;
use crate::measure::plan::reach::TriedWays;
use crate::probe::together;
use crate::report::{Policy, Report};
use crate::source::recording::Recording;

/// How many names are looked up at once.
const LOOK_UPS: usize = 64;
/// The longest message of rank 0: a verdict, or the names of all nodes.
const MOST_SAID: u64 = 16 << 20;
/// The step of a session in which rank 0 says its verdict.
const VERDICT: &str = "verdict";
/// How long rank 0 tries to say its verdict.
const TELLING: Duration = Duration::from_secs(10);

/// What rank 0 tells the others.
#[derive(Debug, Serialize, Deserialize)]
struct VerdictMessage {
    exit: u8,
    headline: String,
}

/// What rank 0 says to nodes that gave their recordings.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum MessageOfRank0 {
    /// Try the ways between these nodes, by their ranks.
    Try(BTreeMap<u64, String>),
    /// The verdict.
    Verdict(VerdictMessage),
}

/// What this node does, and the report where it is rank 0's.
pub enum Outcome {
    /// What rank 0 has of all nodes; the others wait to be told.
    Gathered(Box<GatheredNodes>),
    /// What rank 0 said.
    VerdictOfRank0(Exit),
}

/// What rank 0 has of all nodes, and its way to them.
pub struct GatheredNodes {
    own: Recording,
    given: Vec<(String, Vec<u8>)>,
    expected: Option<Vec<String>>,
    silent: Vec<Silent>,
    unauthenticated: bool,
    way: WayToNodes,
    tried: Option<TriedWays>,
}

/// How rank 0 reaches the others until they know its verdict.
enum WayToNodes {
    /// As their recordings came.
    Gathered(Box<Gathered>),
    /// In the session in which they tried the ways between them.
    Session(Session),
}

impl GatheredNodes {
    /// Judges all.
    pub fn judged(&self, catalogue: &Catalogue, memory: ClusterMemory, policy: &Policy) -> Report {
        let gathering = Gathering {
            own: &self.own,
            given: &self.given,
            expected: self.expected.clone(),
            silent: self.silent.clone(),
            memory,
            tried: self.tried.as_ref(),
        };
        let mut report = many::gathered(catalogue, gathering, policy);
        report.unauthenticated = self.unauthenticated;
        if report.unauthenticated {
            let trusted = "; the nodes had no key: each is believed by its address, and none tried to reach another";
            report.headline = report.headline.then_optionally(trusted);
        }
        report
    }

    /// Tells the others the verdict, and says which did not hear it.
    pub fn send_verdict(self, headline: String, exit: Exit, sink: &dyn Sink) {
        let said = VerdictMessage {
            exit: exit.code(),
            headline,
        };
        // Two plain members: there is nothing that JSON cannot hold.
        let deaf = match self.way {
            WayToNodes::Gathered(mut gathered) => {
                let said = MessageOfRank0::Verdict(said);
                let text = serde_json::to_vec(&said).unwrap_or_default();
                let deaf = gathered.broadcast(&text, TELLING);
                deaf.into_iter().map(|(_, name)| name).collect()
            }
            WayToNodes::Session(session) => {
                let value = serde_json::to_value(&said).unwrap_or_default();
                let all = session.exchange(VERDICT, &[], StepAudience::Rank0, TELLING, value);
                let missing = all.map(|all| all.missing).unwrap_or_default();
                missing
                    .into_keys()
                    .map(|rank| session.name(rank))
                    .collect::<Vec<_>>()
            }
        };
        for name in deaf {
            sink.say(&format!("the verdict did not reach {name}"));
        }
    }
}

/// Takes part: gives this node's recording, or judges all.
///
/// # Errors
///
/// Rank 0 is not reached, or does not answer; its port is taken; the node's own recording cannot be made.
pub(super) fn run(
    request: &LaunchRequest,
    memory: ClusterMemory,
    limits: &Limits,
    sink: &dyn Sink,
) -> anyhow::Result<Outcome> {
    let place = &request.place;
    // The others start when they do, and need their own time to look.
    let wait = request.deadline + request.wait;
    let fanin = gather_tree::fanin(place.nodes, request.fanin);
    if place.own.rank != 0 {
        return guest(request, (wait, limits), fanin, sink).map(Outcome::VerdictOfRank0);
    }
    sink.say(&place.understood);
    if !place.trust.is_authenticated() {
        sink.say(
            "unauthenticated: no key was given (`export RDMA_DOCTOR_KEY=$(uuidgen)` before srun, or --key-file); what others say is believed by their addresses, and whether nodes reach each other is not tried",
        );
    }
    let host = listen(place)?.with_fanin(fanin);
    let (own, mut gathered) = std::thread::scope(|scope| {
        let gathering = Builder::new().spawn_scoped(scope, || {
            let others = place.nodes - 1;
            let told = |count| {
                sink.progress(Progress::Counted {
                    count: count as u64,
                    of: others,
                    what: "nodes answered",
                });
            };
            let most = memory.message(place.nodes);
            let gathered = host.gather(place.nodes, wait, most, told);
            sink.progress(Progress::Done);
            gathered
        })?;
        let own = own_recording(request, sink);
        let gathered = gathering.join().unwrap_or_default();
        anyhow::Ok((own, gathered))
    })?;
    drop(host);
    let mut own = own?;
    // It is its own measure.
    let same = ClockOffset {
        ns: 0,
        within_ns: 0,
    };
    note(&mut own, same, gathered.run, gathered.address());
    for who in &gathered.refused {
        sink.say(&format!("turned away: {who}"));
    }
    let untold = gathered.refused_count - gathered.refused.len() as u64;
    if untold > 0 {
        sink.say(&format!("turned away: {untold} more"));
    }
    let silent = silent(place, &own, &gathered, wait);
    let given: Vec<(String, Vec<u8>)> = gathered
        .nodes
        .values_mut()
        .map(|came| (came.name.clone(), std::mem::take(&mut came.message)))
        .collect();
    let all_named = place.names.len() as u64 == place.nodes;
    let (way, tried) = way_to_nodes(request, &own, gathered, limits)?;
    Ok(Outcome::Gathered(Box::new(GatheredNodes {
        own,
        given,
        expected: all_named.then(|| place.names.clone()),
        silent,
        unauthenticated: !place.trust.is_authenticated(),
        way,
        tried,
    })))
}

/// Whether the nodes try the ways between them: only if they have a key, and not in a run so large
/// that most of them have no connection to rank 0.
fn tries_ways(request: &LaunchRequest) -> bool {
    let place = &request.place;
    let is_star = gather_tree::fanin(place.nodes, request.fanin).is_none();
    matches!(place.trust, Trust::Key(_)) && is_star && !request.no_reach
}

/// Has the nodes try the ways between them, where they do; and how rank 0 reaches them afterwards.
///
/// # Errors
///
/// A connection cannot be configured.
fn way_to_nodes(
    request: &LaunchRequest,
    own: &Recording,
    gathered: Gathered,
    limits: &Limits,
) -> anyhow::Result<(WayToNodes, Option<TriedWays>)> {
    // What stands for another machine has no way to anybody.
    let stands_for_another = !own.path.as_os_str().is_empty() || own.header.tree;
    if stands_for_another || gathered.nodes.is_empty() || !tries_ways(request) {
        return Ok((WayToNodes::Gathered(Box::new(gathered)), None));
    }
    let session = reach::begin(&request.place.own.name, gathered)?;
    let tried = reach::try_ways(&session, own, limits);
    Ok((WayToNodes::Session(session), Some(tried)))
}

/// Adds to a recording of this machine how far its clock is from rank 0's, and the address by which
/// it met the others. One that stands for the machine says nothing of these.
fn note(recording: &mut Recording, offset: ClockOffset, run: u64, met: Option<IpAddr>) {
    if recording.path.as_os_str().is_empty() && !recording.header.tree {
        together::note(recording, offset.ns, offset.within_ns, run);
        if let Some(address) = met {
            together::note_meeting(recording, address);
        }
    }
}

/// The nodes that did not connect, each by its best name, and the reason if it is known.
fn silent(
    place: &NodePlacement,
    own: &Recording,
    gathered: &Gathered,
    wait: Duration,
) -> Vec<Silent> {
    // The facts of the packet filter take a while: they are asked for only if a node is absent.
    let filtered = LazyCell::new(|| unreached::inward(own, place.port));
    let seconds = wait.as_secs_f64();
    let why = |absent: &AbsentNode<'_>| {
        let strangers = gathered.strangers().map(|who| format!("; {who}"));
        let strangers = strangers.unwrap_or_default();
        let there = gathered
            .without_message
            .iter()
            .find(|(rank, name)| absent.matches(**rank, name));
        let turned = gathered.refused.iter().rev().find(|who| {
            let claims = who.claims.as_ref();
            claims.is_some_and(|(rank, name)| absent.matches(*rank, name))
        });
        match (there, turned, &*filtered) {
            (Some((_, name)), ..) => {
                format!("{name} came, and gave no recording in {seconds:.0} s")
            }
            (None, Some(who), _) => format!("turned away: {who}"),
            (None, None, Some(rule)) => {
                format!(
                    "it did not connect to rank 0 within {seconds:.0} s; the packet filter of {} decides: {rule}{strangers}",
                    place.own.name
                )
            }
            (None, None, None) => {
                format!("it did not connect to rank 0 within {seconds:.0} s{strangers}")
            }
        }
    };
    absent_nodes(place, gathered, why)
}

/// The recording that this node gives.
fn own_recording(request: &LaunchRequest, sink: &dyn Sink) -> anyhow::Result<Recording> {
    let mut all = request.own.recordings(sink)?;
    match (all.pop(), all.is_empty()) {
        (Some(own), true) => Ok(own),
        _ => Err(bad_usage("one RECORDING replaces this node, not several")),
    }
}

fn guest(
    request: &LaunchRequest,
    (wait, limits): (Duration, &Limits),
    fanin: Option<u64>,
    sink: &dyn Sink,
) -> anyhow::Result<Exit> {
    let place = &request.place;
    // Rank 0 is told at once that this node is there, which then may take its time to look.
    let (joined, recording) = std::thread::scope(|scope| {
        let joining = Builder::new()
            .spawn_scoped(scope, || join_rank_0(place, request.wait, fanin.is_some()))?;
        let recording = own_recording(request, sink);
        anyhow::Ok((joining.join(), recording))
    })?;
    let mut recording = recording?;
    let mut guest = match joined {
        Ok(Ok(guest)) => guest,
        Ok(Err(error)) => {
            let text = unreached::outward(&error, &recording, place);
            return Err(BadInput(text).into());
        }
        Err(_) => return Err(anyhow::anyhow!("the thread that joins rank 0 panicked")),
    };
    if let Some(clock) = guest.clock {
        note(&mut recording, clock, guest.run, guest.address());
    }
    let text = to_text(&recording, None);
    let packed = zstd::encode_all(text.as_bytes(), 3).context("the recording cannot be packed")?;
    guest.send(&packed).map_err(|error| {
        BadInput(format!(
            "rank 0 ended before it took the recording: {error}"
        ))
    })?;
    let ended =
        |error: &dyn Display| BadInput(format!("rank 0 ended before it said its verdict: {error}"));
    let text = guest.receive(2 * wait, MOST_SAID);
    let text = text.map_err(|error| ended(&error))?;
    let said = match serde_json::from_slice(&text).context("what rank 0 says")? {
        MessageOfRank0::Verdict(said) => said,
        MessageOfRank0::Try(names) => {
            let session = Session::for_joined_node(place.own.rank, names, guest)?;
            reach::try_ways(&session, &recording, limits);
            let hears = StepAudience::Rank0;
            let said = session.exchange(VERDICT, &[], hears, 2 * wait, Value::Null);
            let said = said.map_err(|error| ended(&error))?.values.remove(&0);
            let said = said.ok_or_else(|| ended(&"it said none"))?;
            let said: VerdictMessage = serde_json::from_value(said).context("its verdict")?;
            return Ok(request.exit_on.elsewhere(Some(said.exit.into())));
        }
    };
    for deaf in guest.unreached_children() {
        sink.say(&format!("the verdict did not reach {deaf}"));
    }
    Ok(request.exit_on.elsewhere(Some(said.exit.into())))
}

/// Joins rank 0; `relays` says whether further nodes can join through this one.
fn join_rank_0(
    place: &NodePlacement,
    wait: Duration,
    relays: bool,
) -> Result<JoinedNode, JoinError> {
    let NodePlacement {
        host, port, own, ..
    } = place;
    JoinedNode::join(host, *port, own, &place.trust, wait, relays)
}

/// Opens the port of rank 0, at which the other nodes connect.
fn listen(place: &NodePlacement) -> anyhow::Result<Rendezvous> {
    let host = Rendezvous::open(place.port, place.own.clone(), place.trust.clone());
    let names = place.names.clone();
    let host = host.map(|host| match place.trust.is_authenticated() {
        // Without a key only these addresses are admitted at all.
        true => host.with_expected(move || addresses_of_all(&names)),
        false => host,
    });
    Ok(host.map_err(|error| {
        let port = place.port;
        BadInput(format!(
            "rank 0 cannot listen at port {port}: {error}; give another one to all (--rendezvous HOST:PORT)"
        ))
    })?)
}

/// The addresses of hosts, looked up at once: a name server may take seconds for each name that it does not know.
pub fn addresses_of_all(names: &[String]) -> Vec<IpAddr> {
    fn resolve(names: &[String]) -> Vec<IpAddr> {
        names.iter().flat_map(|name| addresses(name)).collect()
    }
    std::thread::scope(|scope| {
        let parts = names.chunks(names.len().div_ceil(LOOK_UPS).max(1));
        let parts: Vec<_> = parts
            .map(|part| {
                (
                    part,
                    Builder::new().spawn_scoped(scope, move || resolve(part)),
                )
            })
            .collect();
        // Without a thread they are looked up here.
        let found = |(part, thread): (_, std::io::Result<ScopedJoinHandle<'_, Vec<IpAddr>>>)| {
            thread.map_or_else(
                |_| resolve(part),
                |thread| thread.join().unwrap_or_default(),
            )
        };
        parts.into_iter().flat_map(found).collect()
    })
}

/// The addresses of a host; none where its name leads to none.
pub fn addresses(host: &str) -> Vec<IpAddr> {
    let found = (host, 0).to_socket_addrs();
    let found = found.into_iter().flatten();
    found.map(|at| at.ip().to_canonical()).collect()
}
