//! Exchange of values between the nodes of a run after the rendezvous: over their connections to
//! rank 0, in the steps of [`crate::cluster::session_steps`].
//!
//! Each connection has a reader and a writer thread, so that a stuck node delays no other. A node
//! whose connection closes is gone and is no longer waited for; if rank 0 is gone, every step
//! fails.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt;
use serde_json::Value;

use super::rendezvous::{Gathered, JoinedNode};
use crate::cluster::frame::Frames;
use crate::cluster::session_steps::{
    MAX_MESSAGE, StepAudience, StepCoordinator, StepEnd, StepInput, StepResult,
};
use crate::live::clock;

/// How long sending a message may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// A peer that acknowledges nothing for so long is lost: its link died, or its kernel.
const SILENCE: Duration = Duration::from_secs(15);
/// When the kernel first asks an idle peer whether it is still there, and how often it asks again.
const FIRST_PROBE: Duration = Duration::from_secs(5);
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// How long a result of rank 0 may be under way after the step's deadline.
const DELIVERY_MARGIN: Duration = Duration::from_secs(5);
/// How often rank 0 checks deadlines if no step is open.
const IDLE: Duration = Duration::from_secs(1);

/// A node's side of the session.
pub struct Session {
    own: u64,
    /// The nodes that take part, by rank.
    names: BTreeMap<u64, String>,
    /// This node's address on its connection to rank 0; on rank 0, that of the first connection.
    address: Option<IpAddr>,
    outbound: Outbound,
    pending: Arc<PendingSteps>,
    /// Joined when the session ends.
    threads: Vec<JoinHandle<()>>,
    streams: Vec<TcpStream>,
}

/// Where this node's inputs go.
#[derive(Clone)]
enum Outbound {
    /// On rank 0: to the coordinating thread.
    Hub(Sender<SessionEvent>),
    /// On other nodes: to rank 0.
    Host(Sender<Vec<u8>>),
}

enum SessionEvent {
    Given(u64, StepInput),
    Gone(u64, String),
    End,
}

/// The steps for which threads of this process wait.
#[derive(Default)]
struct PendingSteps {
    steps: Mutex<HashMap<String, Sender<StepResult>>>,
    /// Why no result can arrive any more.
    lost: Mutex<Option<String>>,
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The connection to rank 0 is lost.
    #[error("rank 0 is gone: {0}")]
    Lost(String),
    /// Rank 0 did not respond.
    #[error("rank 0 did not respond within {0:.0} s (step {1})")]
    NoReply(u64, String),
}

impl PendingSteps {
    fn deliver(&self, all: StepResult) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waits) = steps.remove(&all.step) {
            let _ = waits.send(all);
        }
    }

    fn fail_all(&self, why: &str) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.get_or_insert_with(|| why.to_owned());
        drop(lost);
        // Waiting threads notice that their sender is dropped.
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.clear();
    }

    fn failure(&self) -> Option<String> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.clone()
    }
}

impl Session {
    /// Rank 0's side, with the nodes that joined.
    ///
    /// # Errors
    ///
    /// A connection cannot be configured.
    pub fn for_rank_0(own: &str, gathered: Gathered) -> io::Result<Self> {
        let mut names: BTreeMap<u64, String> = [(0, own.to_owned())].into();
        let (events, inbox) = mpsc::channel();
        let mut tell: BTreeMap<u64, Sender<Vec<u8>>> = BTreeMap::new();
        let mut threads = Vec::new();
        let mut streams = Vec::new();
        let mut address = None;
        for (rank, name, stream, mut from, to) in gathered.into_connections() {
            names.insert(rank, name);
            address = address.or_else(|| stream.local_addr().ok());
            let (reading, writing) = duplicate_stream(&stream)?;
            streams.push(stream);
            let sender = events.clone();
            std::thread::spawn(move || {
                let why = read(reading, &mut from, |message| {
                    let give = serde_json::from_slice(&message);
                    let given = give.map_err(|e| format!("its message cannot be parsed: {e}"))?;
                    let sent = sender.send(SessionEvent::Given(rank, given));
                    sent.map_err(|_| "the run is over".to_owned())
                });
                let _ = sender.send(SessionEvent::Gone(rank, why));
            });
            let (lines, messages) = mpsc::channel();
            threads.push(std::thread::spawn(move || write(writing, to, &messages)));
            tell.insert(rank, lines);
        }
        let waiting = Arc::new(PendingSteps::default());
        let own_waiting = Arc::clone(&waiting);
        let hub = StepCoordinator::new(names.keys().copied());
        // First in the list, so that it is joined before the writers whose channels it holds.
        threads.insert(
            0,
            std::thread::spawn(move || coordinate(hub, &inbox, &tell, &own_waiting)),
        );
        Ok(Session {
            own: 0,
            names,
            address: address.map(|at| at.ip().to_canonical()),
            outbound: Outbound::Hub(events),
            pending: waiting,
            threads,
            streams,
        })
    }

    /// The side of a node that joined rank 0. `names` are the nodes that take part.
    ///
    /// # Errors
    ///
    /// The connection cannot be configured.
    pub fn for_joined_node(
        own: u64,
        names: BTreeMap<u64, String>,
        guest: JoinedNode,
    ) -> io::Result<Self> {
        let (stream, mut from, to) = guest.into_connection()?;
        let address = stream.local_addr().ok();
        let (reading, writing) = duplicate_stream(&stream)?;
        let waiting = Arc::new(PendingSteps::default());
        let own_waiting = Arc::clone(&waiting);
        std::thread::spawn(move || {
            let why = read(reading, &mut from, |message| {
                let all: StepResult = serde_json::from_slice(&message)
                    .map_err(|e| format!("its message cannot be parsed: {e}"))?;
                own_waiting.deliver(all);
                Ok(())
            });
            own_waiting.fail_all(&why);
        });
        let (lines, messages) = mpsc::channel();
        let writer = std::thread::spawn(move || write(writing, to, &messages));
        Ok(Session {
            own,
            names,
            address: address.map(|at| at.ip().to_canonical()),
            outbound: Outbound::Host(lines),
            pending: waiting,
            threads: vec![writer],
            streams: vec![stream],
        })
    }

    /// This node's rank.
    pub fn rank(&self) -> u64 {
        self.own
    }

    /// The nodes that take part, by rank.
    pub fn names(&self) -> &BTreeMap<u64, String> {
        &self.names
    }

    /// The name of the node of this rank.
    pub fn name(&self, rank: u64) -> String {
        let name = self.names.get(&rank).cloned();
        name.unwrap_or_else(|| format!("rank {rank}"))
    }

    /// This node's address on its connection to rank 0; on rank 0, that of the first connection.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Contributes a value to a step, and returns what each member contributed, after `wait` at the
    /// latest; members that did not are listed as missing. An empty `members` means all nodes.
    /// Several threads may run steps at the same time.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone or does not respond.
    pub fn exchange(
        &self,
        step: &str,
        members: &[u64],
        hears: StepAudience,
        wait: Duration,
        value: Value,
    ) -> Result<StepResult, SessionError> {
        self.step(StepInput {
            step: step.to_owned(),
            members: members.to_vec(),
            audience: hears,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            end: StepEnd::AllGiven,
            value,
        })
    }

    /// What rank 0 gives to a step, to which all contribute; null if it gave nothing.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone or does not respond.
    pub fn of_rank_0(&self, step: &str, wait: Duration, own: Value) -> Result<Value, SessionError> {
        let mut all = self.exchange(step, &[], StepAudience::Rank0, wait, own)?;
        Ok(all.values.remove(&0).unwrap_or_default())
    }

    /// Waits until a member ends this step or is lost, or until the deadline; returns the values by
    /// then.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone or does not respond.
    pub fn watch(
        &self,
        step: &str,
        members: &[u64],
        wait: Duration,
    ) -> Result<StepResult, SessionError> {
        self.step(StepInput {
            step: step.to_owned(),
            members: members.to_vec(),
            audience: StepAudience::Everyone,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            end: StepEnd::OnSignal,
            value: Value::Null,
        })
    }

    /// Ends a watched step, and passes this value to those that watch it.
    pub fn end(&self, step: &str, members: &[u64], value: Value) {
        let give = StepInput {
            step: step.to_owned(),
            members: members.to_vec(),
            audience: StepAudience::Everyone,
            wait_ms: 0,
            end: StepEnd::Now,
            value,
        };
        // If rank 0 is gone, all nodes notice.
        let _ = self.send(give);
    }

    fn send(&self, give: StepInput) -> Result<(), ()> {
        match &self.outbound {
            Outbound::Hub(events) => events
                .send(SessionEvent::Given(self.own, give))
                .map_err(|_| ()),
            Outbound::Host(lines) => {
                // Serialising plain data cannot fail.
                let text = serde_json::to_vec(&give).unwrap_or_default();
                lines.send(text).map_err(|_| ())
            }
        }
    }

    fn step(&self, give: StepInput) -> Result<StepResult, SessionError> {
        let (step, wait) = (give.step.clone(), Duration::from_millis(give.wait_ms));
        let lost = || SessionError::Lost(self.pending.failure().unwrap_or_else(|| "closed".into()));
        let (sender, told) = mpsc::channel();
        {
            let mut steps = (self.pending.steps.lock()).unwrap_or_else(PoisonError::into_inner);
            steps.insert(step.clone(), sender);
        }
        // Checked after the step was registered: a later failure drops its sender.
        if self.pending.failure().is_some() {
            return Err(lost());
        }
        self.send(give).map_err(|()| lost())?;
        // Another member may start its step `wait` later, and then waits as long.
        let limit = 2 * wait + DELIVERY_MARGIN;
        match told.recv_timeout(limit) {
            Ok(all) => Ok(all),
            Err(RecvTimeoutError::Timeout) => Err(SessionError::NoReply(limit.as_secs(), step)),
            Err(RecvTimeoutError::Disconnected) => Err(lost()),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Outbound::Hub(events) = &self.outbound {
            let _ = events.send(SessionEvent::End);
        }
        // The writers flush and end once all senders are dropped.
        let (nowhere, _) = mpsc::channel();
        self.outbound = Outbound::Host(nowhere);
        for thread in self.threads.drain(..) {
            // A panic was already reported.
            let _ = thread.join();
        }
        for stream in &self.streams {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn duplicate_stream(stream: &TcpStream) -> io::Result<(TcpStream, TcpStream)> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    notice_silence(stream)?;
    Ok((stream.try_clone()?, stream.try_clone()?))
}

/// Has the kernel end the connection to a peer that fell silent: nothing else tells of a dead link.
fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    let silence = u32::try_from(SILENCE.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, FIRST_PROBE)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_user_timeout(stream, silence)?;
    Ok(())
}

/// Reads messages until the stream ends; returns why it did.
fn read(
    mut stream: TcpStream,
    from: &mut Frames,
    mut hear: impl FnMut(Vec<u8>) -> Result<(), String>,
) -> String {
    loop {
        let message = match from.read(&mut stream, MAX_MESSAGE) {
            Ok(message) => message,
            Err(crate::cluster::frame::FrameError::Io(error))
                if error.kind() == io::ErrorKind::UnexpectedEof =>
            {
                return "its connection closed".into();
            }
            Err(crate::cluster::frame::FrameError::Io(error)) if is_silence(&error) => {
                let seconds = SILENCE.as_secs();
                return format!("it acknowledged nothing for {seconds} s");
            }
            Err(error) => return error.to_string(),
        };
        if let Err(why) = hear(message) {
            return why;
        }
    }
}

/// Whether the kernel gave a peer up.
fn is_silence(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::TimedOut,
        io::ErrorKind::HostUnreachable,
        io::ErrorKind::NetworkUnreachable,
    ];
    kinds.contains(&error.kind())
}

/// Writes messages until all senders are dropped.
fn write(mut stream: TcpStream, mut to: Frames, messages: &Receiver<Vec<u8>>) {
    for message in messages {
        if to.write(&mut stream, &message).is_err() {
            // The reader notices that it is closed.
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// Runs the steps on rank 0: applies inputs, losses and deadlines, and sends the results.
fn coordinate(
    mut hub: StepCoordinator,
    inbox: &Receiver<SessionEvent>,
    tell: &BTreeMap<u64, Sender<Vec<u8>>>,
    own: &PendingSteps,
) {
    let began = clock::now();
    loop {
        let until = hub
            .next_deadline()
            .map_or(IDLE, |at| at.saturating_sub(began.elapsed()));
        let told = match inbox.recv_timeout(until) {
            Ok(SessionEvent::Given(rank, give)) => hub.add_input(rank, give, began.elapsed()),
            Ok(SessionEvent::Gone(rank, why)) => hub.mark_gone(rank, &why),
            Ok(SessionEvent::End) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => hub.expire(began.elapsed()),
        };
        for (rank, all) in told {
            match tell.get(&rank) {
                None => own.deliver(all),
                Some(lines) => {
                    let text = serde_json::to_vec(&all).unwrap_or_default();
                    // The writer of a lost node may have ended.
                    let _ = lines.send(text);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::handshake::NodeIdentity;
    use crate::cluster::key::{Key, Trust};
    use crate::cluster::rendezvous::Rendezvous;

    const SOON: Duration = Duration::from_secs(20);

    fn party(rank: u64, ranks: u64) -> NodeIdentity {
        NodeIdentity {
            version: "1".into(),
            job: "7".into(),
            rank,
            ranks,
            name: format!("n{rank}"),
        }
    }

    fn trust() -> Trust {
        Trust::Key(Key::from_text("a secret of sixteen").unwrap())
    }

    /// Sessions of this many nodes, the host's first.
    fn sessions(count: u64) -> Vec<Session> {
        let host = Rendezvous::open(0, party(0, count), trust()).unwrap();
        let port = host.port().unwrap();
        let names: BTreeMap<u64, String> = (0..count).map(|n| (n, format!("n{n}"))).collect();
        let guests: Vec<_> = (1..count)
            .map(|rank| {
                let names = names.clone();
                std::thread::spawn(move || {
                    let own = party(rank, count);
                    let mut guest =
                        JoinedNode::join("127.0.0.1", port, &own, &trust(), SOON, false).unwrap();
                    guest.send(b"card").unwrap();
                    guest.receive(SOON, 99).unwrap();
                    Session::for_joined_node(rank, names, guest).unwrap()
                })
            })
            .collect();
        let mut gathered = host.gather(count, SOON, 99, |_| {});
        assert_eq!(gathered.broadcast(b"go", SOON), []);
        let mut all = vec![Session::for_rank_0("n0", gathered).unwrap()];
        all.extend(guests.into_iter().map(|guest| guest.join().unwrap()));
        all
    }

    #[test]
    fn all_hear_what_each_gave_in_several_steps_at_once() {
        let sessions = sessions(4);
        assert_eq!(sessions[2].address(), Some("127.0.0.1".parse().unwrap()));
        std::thread::scope(|scope| {
            for session in &sessions {
                scope.spawn(move || {
                    let own = session.rank();
                    for round in 0..20 {
                        let pair = [own / 2 * 2, own / 2 * 2 + 1];
                        let step = format!("{round}:{pair:?}");
                        let all = session
                            .exchange(&step, &pair, StepAudience::Everyone, SOON, json!(own))
                            .unwrap();
                        assert_eq!(all.values.len(), 2);
                    }
                    let all = session
                        .exchange("all", &[], StepAudience::Everyone, SOON, json!(own))
                        .unwrap();
                    let gave: Vec<u64> = all.values.values().filter_map(Value::as_u64).collect();
                    assert_eq!(gave, [0, 1, 2, 3]);
                    let all = session
                        .exchange("end", &[], StepAudience::Rank0, SOON, json!("bye"))
                        .unwrap();
                    assert_eq!(all.values.len(), if own == 0 { 4 } else { 1 });
                });
            }
        });
    }

    #[test]
    fn lost_and_unresponsive_nodes_are_named() {
        let mut sessions = sessions(3);
        let silent = sessions.pop().unwrap();
        let wait = Duration::from_millis(300);
        std::thread::scope(|scope| {
            for session in &sessions {
                scope.spawn(move || {
                    let all = session
                        .exchange("a", &[], StepAudience::Everyone, wait, Value::Null)
                        .unwrap();
                    assert_eq!(all.missing.keys().collect::<Vec<_>>(), [&2]);
                    assert!(all.missing[&2].starts_with("it did not respond"));
                });
            }
        });
        drop(silent);
        std::thread::scope(|scope| {
            for session in &sessions {
                scope.spawn(move || {
                    let all = session
                        .exchange("b", &[], StepAudience::Everyone, SOON, Value::Null)
                        .unwrap();
                    assert!(all.missing.contains_key(&2), "{all:?}");
                });
            }
        });
        let guest = sessions.pop().unwrap();
        drop(sessions);
        let lost = guest.exchange("c", &[], StepAudience::Everyone, SOON, Value::Null);
        assert_eq!(
            lost,
            Err(SessionError::Lost("its connection closed".into()))
        );
    }
}
