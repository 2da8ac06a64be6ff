//! The nodes of a run talk with each other after they have met: over the connections to rank 0, in the steps of [`crate::cluster::steps`].
//!
//! Each connection has a thread that reads and one that writes, so that a node that is stuck holds up nobody. A node whose connection closes is gone,
//! and is not waited for; where rank 0 is gone, all are told.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::meeting::{Gathered, Guest};
use crate::cluster::frame::Frames;
use crate::cluster::steps::{All, Ends, Give, Hears, Hub, MOST};

/// How long a message to a node may take to go.
const SENDING: Duration = Duration::from_secs(10);
/// How long what rank 0 says may be on its way, after a step's time is up.
const UNDERWAY: Duration = Duration::from_secs(5);
/// How often rank 0 looks at the time where no step is open.
const IDLE: Duration = Duration::from_secs(1);

/// A node's part in a run.
pub struct Session {
    own: u64,
    /// The nodes that take part, by rank.
    names: BTreeMap<u64, String>,
    /// This node's address on its way to rank 0; of rank 0 to the first other node.
    address: Option<IpAddr>,
    out: Out,
    waiting: Arc<Waiting>,
    /// What is to be waited for at the end.
    threads: Vec<JoinHandle<()>>,
    streams: Vec<TcpStream>,
}

/// Where what this node gives goes.
#[derive(Clone)]
enum Out {
    /// Rank 0: to the one who passes it on.
    Hub(Sender<Event>),
    /// To rank 0.
    Host(Sender<Vec<u8>>),
}

enum Event {
    Given(u64, Give),
    Gone(u64, String),
    End,
}

/// Who in this process waits for which step.
#[derive(Default)]
struct Waiting {
    steps: Mutex<HashMap<String, Sender<All>>>,
    /// Why nothing more can come.
    lost: Mutex<Option<String>>,
}

/// Why a step was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The connection to rank 0 is gone.
    #[error("rank 0 is gone: {0}")]
    Lost(String),
    /// Rank 0 says nothing.
    #[error("rank 0 did not answer in {0:.0} s (step {1})")]
    Silent(u64, String),
}

impl Waiting {
    fn told(&self, all: All) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waits) = steps.remove(&all.step) {
            let _ = waits.send(all);
        }
    }

    fn lose(&self, why: &str) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.get_or_insert_with(|| why.to_owned());
        drop(lost);
        // Who waits sees that its sender is gone.
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.clear();
    }

    fn why(&self) -> Option<String> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.clone()
    }
}

impl Session {
    /// Rank 0's part, with those that came.
    ///
    /// # Errors
    ///
    /// A connection cannot be set up.
    pub fn of_host(own: &str, gathered: Gathered) -> io::Result<Self> {
        let mut names: BTreeMap<u64, String> = [(0, own.to_owned())].into();
        let (events, inbox) = mpsc::channel();
        let mut tell: BTreeMap<u64, Sender<Vec<u8>>> = BTreeMap::new();
        let mut threads = Vec::new();
        let mut streams = Vec::new();
        let mut address = None;
        for (rank, name, stream, mut from, to) in gathered.into_connections() {
            names.insert(rank, name);
            address = address.or_else(|| stream.local_addr().ok());
            let (reading, writing) = both(&stream)?;
            streams.push(stream);
            let sender = events.clone();
            std::thread::spawn(move || {
                let why = read(reading, &mut from, |message| {
                    let give = serde_json::from_slice(&message);
                    let given = give.map_err(|e| format!("what it says is not understood: {e}"))?;
                    let sent = sender.send(Event::Given(rank, given));
                    sent.map_err(|_| "the run is over".to_owned())
                });
                let _ = sender.send(Event::Gone(rank, why));
            });
            let (lines, messages) = mpsc::channel();
            threads.push(std::thread::spawn(move || write(writing, to, &messages)));
            tell.insert(rank, lines);
        }
        let waiting = Arc::new(Waiting::default());
        let own_waiting = Arc::clone(&waiting);
        let hub = Hub::new(names.keys().copied());
        // The first, so that it ends before the writers, whose messages it holds.
        threads.insert(
            0,
            std::thread::spawn(move || pass_on(hub, &inbox, &tell, &own_waiting)),
        );
        Ok(Session {
            own: 0,
            names,
            address: address.map(|at| at.ip().to_canonical()),
            out: Out::Hub(events),
            waiting,
            threads,
            streams,
        })
    }

    /// A node's part, which joined rank 0. `names` are those that take part.
    ///
    /// # Errors
    ///
    /// The connection cannot be set up.
    pub fn of_guest(own: u64, names: BTreeMap<u64, String>, guest: Guest) -> io::Result<Self> {
        let (stream, mut from, to) = guest.into_connection()?;
        let address = stream.local_addr().ok();
        let (reading, writing) = both(&stream)?;
        let waiting = Arc::new(Waiting::default());
        let own_waiting = Arc::clone(&waiting);
        std::thread::spawn(move || {
            let why = read(reading, &mut from, |message| {
                let all: All = serde_json::from_slice(&message)
                    .map_err(|e| format!("what it says is not understood: {e}"))?;
                own_waiting.told(all);
                Ok(())
            });
            own_waiting.lose(&why);
        });
        let (lines, messages) = mpsc::channel();
        let writer = std::thread::spawn(move || write(writing, to, &messages));
        Ok(Session {
            own,
            names,
            address: address.map(|at| at.ip().to_canonical()),
            out: Out::Host(lines),
            waiting,
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

    /// This node's address on its way to rank 0; of rank 0 to the first other node.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Gives a value to a step, and returns what each member gave: no later than `wait`, and who is missing is named. Members are all where none is
    /// named. Several threads may be in steps of their own at the same time.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone, or says nothing.
    pub fn exchange(
        &self,
        step: &str,
        members: &[u64],
        hears: Hears,
        wait: Duration,
        value: Value,
    ) -> Result<All, SessionError> {
        self.step(Give {
            step: step.to_owned(),
            members: members.to_vec(),
            hears,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            ends: Ends::WhenAllGave,
            value,
        })
    }

    /// Waits until a member ends this step, or is gone, or until the time is up; what was said then.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone, or says nothing.
    pub fn watch(&self, step: &str, wait: Duration) -> Result<All, SessionError> {
        self.step(Give {
            step: step.to_owned(),
            members: Vec::new(),
            hears: Hears::Everyone,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            ends: Ends::WhenToldTo,
            value: Value::Null,
        })
    }

    /// Ends a step that is watched, with this word to those that watch it.
    pub fn end(&self, step: &str, value: Value) {
        let give = Give {
            step: step.to_owned(),
            members: Vec::new(),
            hears: Hears::Everyone,
            wait_ms: 0,
            ends: Ends::Now,
            value,
        };
        // Where rank 0 is gone, all know it.
        let _ = self.send(give);
    }

    fn send(&self, give: Give) -> Result<(), ()> {
        match &self.out {
            Out::Hub(events) => events.send(Event::Given(self.own, give)).map_err(|_| ()),
            Out::Host(lines) => {
                // Names, numbers and JSON only: there is nothing that JSON cannot hold.
                let text = serde_json::to_vec(&give).unwrap_or_default();
                lines.send(text).map_err(|_| ())
            }
        }
    }

    fn step(&self, give: Give) -> Result<All, SessionError> {
        let (step, wait) = (give.step.clone(), Duration::from_millis(give.wait_ms));
        let lost = || SessionError::Lost(self.waiting.why().unwrap_or_else(|| "closed".into()));
        let (sender, told) = mpsc::channel();
        {
            let mut steps = (self.waiting.steps.lock()).unwrap_or_else(PoisonError::into_inner);
            steps.insert(step.clone(), sender);
        }
        // Looked at after the step was noted: what is lost later takes the note away.
        if self.waiting.why().is_some() {
            return Err(lost());
        }
        self.send(give).map_err(|()| lost())?;
        // The others may come as late as `wait` after this one, and then wait as long.
        let limit = 2 * wait + UNDERWAY;
        match told.recv_timeout(limit) {
            Ok(all) => Ok(all),
            Err(RecvTimeoutError::Timeout) => Err(SessionError::Silent(limit.as_secs(), step)),
            Err(RecvTimeoutError::Disconnected) => Err(lost()),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Out::Hub(events) = &self.out {
            let _ = events.send(Event::End);
        }
        // The writers end with what they have to write when nobody can give them more.
        let (nowhere, _) = mpsc::channel();
        self.out = Out::Host(nowhere);
        for thread in self.threads.drain(..) {
            // It ended with a bug, which its panic told.
            let _ = thread.join();
        }
        for stream in &self.streams {
            // One that is closed already needs no more.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn both(stream: &TcpStream) -> io::Result<(TcpStream, TcpStream)> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(Some(SENDING))?;
    Ok((stream.try_clone()?, stream.try_clone()?))
}

/// Reads messages until the stream ends; says why it did.
fn read(
    mut stream: TcpStream,
    from: &mut Frames,
    mut hear: impl FnMut(Vec<u8>) -> Result<(), String>,
) -> String {
    loop {
        let message = match from.read(&mut stream, MOST) {
            Ok(message) => message,
            Err(crate::cluster::frame::FrameError::Io(error))
                if error.kind() == io::ErrorKind::UnexpectedEof =>
            {
                return "its connection closed".into();
            }
            Err(error) => return error.to_string(),
        };
        if let Err(why) = hear(message) {
            return why;
        }
    }
}

/// Writes messages until nobody gives any more.
fn write(mut stream: TcpStream, mut to: Frames, messages: &Receiver<Vec<u8>>) {
    for message in messages {
        if to.write(&mut stream, &message).is_err() {
            // Its reader sees the end too.
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// Rank 0 passes on what is given.
#[expect(clippy::disallowed_methods, reason = "keeps the nodes' time")]
fn pass_on(
    mut hub: Hub,
    inbox: &Receiver<Event>,
    tell: &BTreeMap<u64, Sender<Vec<u8>>>,
    own: &Waiting,
) {
    let began = Instant::now();
    loop {
        let until = hub
            .next()
            .map_or(IDLE, |at| at.saturating_sub(began.elapsed()));
        let told = match inbox.recv_timeout(until) {
            Ok(Event::Given(rank, give)) => hub.give(rank, give, began.elapsed()),
            Ok(Event::Gone(rank, why)) => hub.gone(rank, &why),
            Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => hub.late(began.elapsed()),
        };
        for (rank, all) in told {
            match tell.get(&rank) {
                None => own.told(all),
                Some(lines) => {
                    let text = serde_json::to_vec(&all).unwrap_or_default();
                    // One that is gone misses nothing.
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
    use crate::cluster::handshake::Party;
    use crate::cluster::key::{Key, Trust};
    use crate::cluster::meeting::Host;

    const SOON: Duration = Duration::from_secs(20);

    fn party(rank: u64, ranks: u64) -> Party {
        Party {
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

    /// Sessions of so many nodes, the host's first.
    fn sessions(count: u64) -> Vec<Session> {
        let host = Host::open(0, party(0, count), trust()).unwrap();
        let port = host.port().unwrap();
        let names: BTreeMap<u64, String> = (0..count).map(|n| (n, format!("n{n}"))).collect();
        let guests: Vec<_> = (1..count)
            .map(|rank| {
                let names = names.clone();
                std::thread::spawn(move || {
                    let own = party(rank, count);
                    let mut guest =
                        Guest::join("127.0.0.1", port, &own, &trust(), SOON, false).unwrap();
                    guest.give(b"card").unwrap();
                    guest.wait(SOON, 99).unwrap();
                    Session::of_guest(rank, names, guest).unwrap()
                })
            })
            .collect();
        let mut gathered = host.gather(count, SOON, 99, |_| {});
        assert_eq!(gathered.tell(b"go", SOON), []);
        let mut all = vec![Session::of_host("n0", gathered).unwrap()];
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
                            .exchange(&step, &pair, Hears::Everyone, SOON, json!(own))
                            .unwrap();
                        assert_eq!(all.came.len(), 2);
                    }
                    let all = session
                        .exchange("all", &[], Hears::Everyone, SOON, json!(own))
                        .unwrap();
                    let gave: Vec<u64> = all.came.values().filter_map(Value::as_u64).collect();
                    assert_eq!(gave, [0, 1, 2, 3]);
                    let all = session
                        .exchange("end", &[], Hears::Host, SOON, json!("bye"))
                        .unwrap();
                    assert_eq!(all.came.len(), if own == 0 { 4 } else { 1 });
                });
            }
        });
    }

    #[test]
    fn who_goes_is_named_and_who_is_silent_too() {
        let mut sessions = sessions(3);
        let silent = sessions.pop().unwrap();
        let wait = Duration::from_millis(300);
        std::thread::scope(|scope| {
            for session in &sessions {
                scope.spawn(move || {
                    let all = session
                        .exchange("a", &[], Hears::Everyone, wait, Value::Null)
                        .unwrap();
                    assert_eq!(all.missing.keys().collect::<Vec<_>>(), [&2]);
                    assert!(all.missing[&2].starts_with("nothing came of it"));
                });
            }
        });
        drop(silent);
        std::thread::scope(|scope| {
            for session in &sessions {
                scope.spawn(move || {
                    let all = session
                        .exchange("b", &[], Hears::Everyone, SOON, Value::Null)
                        .unwrap();
                    assert!(all.missing.contains_key(&2), "{all:?}");
                });
            }
        });
        let guest = sessions.pop().unwrap();
        drop(sessions);
        let lost = guest.exchange("c", &[], Hears::Everyone, SOON, Value::Null);
        assert_eq!(
            lost,
            Err(SessionError::Lost("its connection closed".into()))
        );
    }
}
