//! A node that joins: it gives what it has to rank 0 or to the node that rank 0 names, and hears what rank 0 says the same way.

use crate::live::{clock, random};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::relay::Relay;
use super::{GREETING, SAID, TICK};
use crate::cluster::clock_offset::{Answer, Offset};
use crate::cluster::frame::{FrameError, Frames};
use crate::cluster::gather_tree::{Ask, Card, Lost, Seat, Sits};
use crate::cluster::handshake::{self, HandshakeError, Known, Nonce, Party, Refused};
use crate::cluster::key::{Key, Trust};
use crate::cluster::relay_frames;
use crate::cluster::relay_frames::Passed;

/// How long a node above may take to answer, before rank 0 itself is asked.
const REACHING: Duration = Duration::from_secs(3);
/// After so much silence a node above is lost: it says several times in it that it lives.
const SILENT: Duration = Duration::from_secs(4);
/// How long rank 0, which was there, may take to be reached again.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest that rank 0 says.
const MOST_SAID: u64 = 16 << 20;
/// How long the nodes below may take to hear what rank 0 says.
pub(super) const TELLING: Duration = Duration::from_secs(10);

/// A node that joined.
pub struct Guest {
    upward: Arc<Upward>,
    clock: Option<Offset>,
    run: u64,
    keeper: Option<JoinHandle<Option<(TcpStream, Frames)>>>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        if self.keeper.is_some() {
            self.upward
                .end(Err((io::ErrorKind::ConnectionAborted, "given up".into())));
            self.upward.cut();
        }
    }
}

/// Why a node did not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The name of rank 0's host leads to no address.
    #[error("{host} has no address: {error}")]
    NoAddress {
        /// The name.
        host: String,
        /// What the resolver says.
        error: io::Error,
    },
    /// Nobody answered until the deadline.
    #[error("rank 0 was not reached at {at} in {seconds:.0} s: {error}")]
    Unreachable {
        /// The address that was tried last.
        at: SocketAddr,
        /// For how long.
        seconds: f64,
        /// What the kernel said last.
        error: io::Error,
    },
    /// Somebody answered.
    #[error("{at} answered: {error}")]
    Answered {
        /// Where.
        at: SocketAddr,
        /// What was wrong with it.
        error: HandshakeError,
    },
}

/// How a node came in.
struct Door {
    host: String,
    port: u16,
    own: Party,
    trust: Trust,
    life: Nonce,
    /// The port at which it takes what others have.
    listens: Option<u16>,
}

/// A connection to the node above.
struct Seated {
    stream: TcpStream,
    /// Until something goes up.
    to: Option<Frames>,
    from: Frames,
    seat: Seat,
}

/// What goes up.
#[derive(Default)]
pub(super) struct Upward {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    up: Option<Up>,
    /// How often the node above was lost.
    losses: u64,
    /// What this node gives, as soon as it has it.
    message: Option<Arc<Vec<u8>>>,
    said: Option<Result<Vec<u8>, Failure>>,
    deaf: Vec<String>,
}

struct Up {
    stream: TcpStream,
    to: Frames,
    rank: u64,
    seat: u64,
    is_rank_0: bool,
}

/// An error that is told later.
type Failure = (io::ErrorKind, String);

impl Upward {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the node above was lost by now.
    pub(super) fn losses(&self) -> u64 {
        self.state().losses
    }

    /// Passes on what a node below gives, which came after so many losses; waits until there is somebody above.
    ///
    /// # Errors
    ///
    /// The node above was lost meanwhile, with what was under way: those below have to begin again.
    pub(super) fn pass(&self, frame: &[u8], losses: u64) -> io::Result<()> {
        let mut state = self.state();
        while state.up.is_none() && state.losses == losses && state.said.is_none() {
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        let now = state.losses;
        match &mut state.up {
            Some(up) if now == losses => up.write(frame),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Gives this node's own.
    fn give(&self, message: &[u8]) -> io::Result<()> {
        let (rank, seat, losses) = {
            let state = self.state();
            let up = state.up.as_ref();
            let up = up.ok_or(io::ErrorKind::NotConnected)?;
            (up.rank, up.seat, state.losses)
        };
        // One part after the other: those below have their turn between them.
        relay_frames::parts(rank, seat, message)
            .try_for_each(|part: Passed<'_>| self.pass(&part.write(), losses))
    }

    /// Closes what goes up.
    fn cut(&self) {
        if let Some(up) = &self.state().up {
            // One that is closed already needs no more.
            let _ = up.stream.shutdown(Shutdown::Both);
        }
    }

    fn end(&self, said: Result<Vec<u8>, Failure>) {
        self.state().said.get_or_insert(said);
        self.changed.notify_all();
    }
}

impl Up {
    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.to.write(&mut self.stream, frame)
    }
}

impl Guest {
    /// Joins rank 0, which may start later than this node does. Where it `relays`, others may give it what they have, which it passes on.
    ///
    /// # Errors
    ///
    /// It is not reached until the deadline, or what answers is not this run's.
    pub fn join(
        host: &str,
        port: u16,
        own: &Party,
        trust: &Trust,
        deadline: Duration,
        relays: bool,
    ) -> Result<Self, JoinError> {
        let upward = Arc::new(Upward::default());
        // Without random numbers there is no greeting either, which says so.
        let life = random::random_bytes().unwrap_or_default();
        // The same port as rank 0's, which a packet filter lets through; another process of this host may hold it.
        let listener = || {
            super::listen(port, trust)
                .or_else(|_| super::listen(0, trust))
                .ok()
        };
        let listener = relays.then(listener).flatten();
        let door = Door {
            host: host.to_owned(),
            port,
            own: own.clone(),
            trust: trust.clone(),
            life,
            listens: listener
                .as_ref()
                .and_then(|one| Some(one.local_addr().ok()?.port())),
        };
        let mut seated = door.sit(None, deadline)?;
        let (clock, run) = (seated.seat.clock, seated.seat.run);
        let among = match (&seated.seat.key, trust) {
            (Some(text), Trust::Allocation(_)) => Key::from_text(text).ok().map(Trust::Key),
            (_, Trust::Allocation(_)) => None,
            (_, trust) => Some(trust.clone()),
        };
        let relay = listener
            .zip(among)
            .map(|(listener, trust)| Relay::start(listener, own.clone(), trust, &upward));
        let keeping = Arc::clone(&upward);
        upward.state().up = seated.up(&door);
        let keeper = std::thread::spawn(move || keep(&door, seated, relay.as_ref(), &keeping));
        Ok(Guest {
            upward,
            clock,
            run,
            keeper: Some(keeper),
        })
    }

    /// How far this node's clock is ahead of rank 0's, as rank 0 measured it.
    pub fn clock(&self) -> Option<Offset> {
        self.clock
    }

    /// The number of the run.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Gives rank 0 what this node has.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn give(&mut self, message: &[u8]) -> io::Result<()> {
        self.upward.state().message = Some(Arc::new(message.to_vec()));
        let given = self.upward.give(message);
        let state = self.upward.state();
        match (given, &state.up) {
            // What another node loses is given again.
            (Err(error), Some(up)) if up.is_rank_0 && state.losses == 0 => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for what rank 0 says, of at most so many bytes.
    ///
    /// # Errors
    ///
    /// It says nothing until the deadline, or is gone.
    #[expect(clippy::disallowed_methods, reason = "keeps its own time")]
    pub fn wait(&mut self, deadline: Duration, most: u64) -> Result<Vec<u8>, FrameError> {
        let ends = Instant::now() + deadline.max(TICK);
        let mut state = self.upward.state();
        loop {
            match &state.said {
                Some(Ok(said)) if said.len() as u64 > most => {
                    return Err(FrameError::TooLong(said.len() as u64, most));
                }
                Some(Ok(said)) => return Ok(said.clone()),
                Some(Err((kind, why))) => return Err(io::Error::new(*kind, why.clone()).into()),
                None => {}
            }
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            let waited = self.upward.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Which nodes that gave this one what they have did not hear what rank 0 said.
    pub fn deaf(&self) -> Vec<String> {
        std::mem::take(&mut self.upward.state().deaf)
    }

    /// The connection to rank 0, whose ends know each other: what comes, what goes. After rank 0 said something.
    ///
    /// # Errors
    ///
    /// It is gone.
    pub(crate) fn into_connection(mut self) -> io::Result<(TcpStream, Frames, Frames)> {
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        let keeper = self.keeper.take().ok_or_else(gone)?;
        let (stream, from) = keeper.join().ok().flatten().ok_or_else(gone)?;
        let up = self.upward.state().up.take().ok_or_else(gone)?;
        Ok((stream, from, up.to))
    }
}

/// Hears what comes from above until rank 0 said what it has to say. Where another node is above, and lost, rank 0 itself is.
fn keep(
    door: &Door,
    mut seated: Seated,
    relay: Option<&Relay>,
    upward: &Upward,
) -> Option<(TcpStream, Frames)> {
    loop {
        let above = seated.seat.above.clone();
        let heard = hear(&mut seated);
        match heard {
            Ok(said) => {
                let deaf = relay.map_or_else(Vec::new, |relay| relay.tell(&said));
                upward.state().deaf = deaf;
                upward.end(Ok(said));
                return Some((seated.stream, seated.from));
            }
            Err(error) => {
                // Who writes to it does so no longer.
                let _ = seated.stream.shutdown(Shutdown::Both);
                let is_given_up = {
                    let mut state = upward.state();
                    state.up = None;
                    state.losses += 1;
                    state.said.is_some()
                };
                upward.changed.notify_all();
                // What they gave may be lost with the node above.
                if let Some(relay) = relay {
                    relay.let_go();
                }
                if is_given_up {
                    return None;
                }
                let Some(above) = above else {
                    upward.end(Err(failure(&error)));
                    return None;
                };
                let lost = Lost {
                    rank: above.rank,
                    reached: true,
                };
                seated = match door.sit(Some(lost), AGAIN) {
                    Ok(seated) => seated,
                    Err(again) => {
                        let why = format!("{} is gone ({error}), and {again}", above.name);
                        upward.end(Err((io::ErrorKind::NotConnected, why)));
                        return None;
                    }
                };
                let message = {
                    let mut state = upward.state();
                    state.up = seated.up(door);
                    state.message.clone()
                };
                upward.changed.notify_all();
                if let (Some(message), false) = (message, seated.seat.have) {
                    // Where this fails, what comes from above ends too.
                    let _ = upward.give(&message);
                }
            }
        }
    }
}

fn failure(error: &FrameError) -> Failure {
    match error {
        FrameError::Io(error) => (error.kind(), error.to_string()),
        other => (io::ErrorKind::InvalidData, other.to_string()),
    }
}

/// Waits for what rank 0 says.
fn hear(seated: &mut Seated) -> Result<Vec<u8>, FrameError> {
    let patience = seated.seat.above.is_some().then_some(SILENT);
    seated.stream.set_read_timeout(patience)?;
    loop {
        let mut frame = seated.from.read(&mut seated.stream, MOST_SAID)?;
        if frame.first() == Some(&SAID) {
            frame.remove(0);
            return Ok(frame);
        }
    }
}

impl Seated {
    fn up(&mut self, door: &Door) -> Option<Up> {
        Some(Up {
            stream: self.stream.try_clone().ok()?,
            to: self.to.take()?,
            rank: door.own.rank,
            seat: self.seat.number,
            is_rank_0: self.seat.above.is_none(),
        })
    }
}

impl Door {
    /// Takes a seat: at rank 0, or where rank 0 says.
    fn sit(&self, lost: Option<Lost>, deadline: Duration) -> Result<Seated, JoinError> {
        let mut card = Card {
            listens: self.listens,
            lost,
        };
        let (mut stream, known, seat) = self.reach_rank_0(&card, deadline)?;
        let Some(above) = &seat.above else {
            return Ok(Seated {
                stream,
                to: Some(known.to),
                from: known.from,
                seat,
            });
        };
        let there = self.reach(above.at, &seat);
        if let Ok((reached, known)) = there {
            stream = reached;
            return Ok(Seated {
                stream,
                to: Some(known.to),
                from: known.from,
                seat,
            });
        }
        card.lost = Some(Lost {
            rank: above.rank,
            reached: false,
        });
        let (stream, known, seat) = self.reach_rank_0(&card, deadline.max(AGAIN))?;
        Ok(Seated {
            stream,
            to: Some(known.to),
            from: known.from,
            seat,
        })
    }

    /// Reaches the node above.
    fn reach(&self, at: SocketAddr, seat: &Seat) -> Result<(TcpStream, Known), HandshakeError> {
        let io = |error: io::Error| HandshakeError::from(FrameError::from(error));
        let of_run = seat
            .key
            .as_deref()
            .and_then(|text| Key::from_text(text).ok());
        let key = self.trust.key().or(of_run.as_ref());
        let mut stream = TcpStream::connect_timeout(&at, REACHING).map_err(io)?;
        let mut known = greet(&mut stream, &self.own, key, self.life, REACHING)?;
        let sits = Sits { seat: seat.number };
        handshake::say(&mut stream, &mut known.to, &sits)?;
        stream.set_write_timeout(None).map_err(io)?;
        Ok((stream, known))
    }

    #[expect(clippy::disallowed_methods, reason = "keeps its own time")]
    fn reach_rank_0(
        &self,
        card: &Card,
        deadline: Duration,
    ) -> Result<(TcpStream, Known, Seat), JoinError> {
        let host = self.host.as_str();
        let began = Instant::now();
        let mut last: Option<(SocketAddr, io::Error)> = None;
        // Rank 0 may not have seen yet that an earlier connection of this node's own, which took too long, is gone.
        let mut taken: Option<JoinError> = None;
        let mut pause = TICK;
        loop {
            // A pod has a name as late as it starts, and another address after it was started anew.
            let found = (host, self.port).to_socket_addrs().map(Vec::from_iter);
            for &at in found.iter().flatten() {
                let left = deadline.saturating_sub(began.elapsed());
                if left.is_zero() {
                    break;
                }
                match TcpStream::connect_timeout(&at, left) {
                    Ok(stream) => match self.present(stream, card) {
                        Ok(seated) => return Ok(seated),
                        // Rank 0 ended, or was not yet there behind a proxy: it may come.
                        Err(HandshakeError::Frame(FrameError::Io(error))) => {
                            last = Some((at, error));
                        }
                        Err(error @ HandshakeError::Refused(Refused::Taken { .. })) => {
                            taken = Some(JoinError::Answered { at, error });
                        }
                        Err(error) => return Err(JoinError::Answered { at, error }),
                    },
                    Err(error) => last = Some((at, error)),
                }
            }
            if began.elapsed() >= deadline {
                let seconds = began.elapsed().as_secs_f64();
                let host = host.to_owned();
                if let Some(taken) = taken {
                    return Err(taken);
                }
                return Err(match (last, found) {
                    (Some((at, error)), _) => JoinError::Unreachable { at, seconds, error },
                    (None, Err(error)) => JoinError::NoAddress { host, error },
                    // A name that leads nowhere.
                    (None, Ok(_)) => JoinError::NoAddress {
                        host,
                        error: io::ErrorKind::AddrNotAvailable.into(),
                    },
                });
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(500));
        }
    }

    /// Proves to rank 0 what this node is, says what time it is here, and hears its seat.
    fn present(
        &self,
        mut stream: TcpStream,
        card: &Card,
    ) -> Result<(TcpStream, Known, Seat), HandshakeError> {
        let io = |error: io::Error| HandshakeError::from(FrameError::from(error));
        let key = self.trust.key();
        let mut known = greet(&mut stream, &self.own, key, self.life, GREETING)?;
        handshake::say(&mut stream, &mut known.to, card)?;
        let seat = loop {
            let ask: Ask = handshake::hear(&mut stream, &mut known.from)?;
            match ask {
                Ask::Seat(seat) => break *seat,
                Ask::Clock => {
                    let now = clock::wall_clock();
                    let answer = Answer {
                        heard: now,
                        said: now,
                    };
                    handshake::say(&mut stream, &mut known.to, &answer)?;
                }
            }
        };
        stream.set_write_timeout(None).map_err(io)?;
        Ok((stream, known, seat))
    }
}

fn greet(
    stream: &mut TcpStream,
    own: &Party,
    key: Option<&Key>,
    life: Nonce,
    within: Duration,
) -> Result<Known, HandshakeError> {
    let io = |error: io::Error| HandshakeError::from(FrameError::from(error));
    stream.set_nodelay(true).map_err(io)?;
    stream.set_read_timeout(Some(within)).map_err(io)?;
    stream.set_write_timeout(Some(within)).map_err(io)?;
    let nonce = random::random_bytes().map_err(io)?;
    handshake::join(stream, own, key, (nonce, life))
}
