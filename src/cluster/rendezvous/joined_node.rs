//! A node other than rank 0: joins the run, sends its recording to rank 0 or to the relay that rank
//! 0 names, and receives rank 0's result over the same connection.

use crate::live::{clock, random};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::relay::Relay;
use super::{FRAME_RESULT, HANDSHAKE_TIMEOUT, POLL_INTERVAL};
use crate::cluster::clock_offset::{ClockOffset, ClockReply};
use crate::cluster::frame::{FrameError, Frames};
use crate::cluster::gather_tree::{ChildHello, JoinReply, JoinRequest, LostParent, TreePosition};
use crate::cluster::handshake::{
    self, AuthenticatedPeer, HandshakeError, JoinRefusal, NodeIdentity, Nonce,
};
use crate::cluster::key::{Key, Trust};
use crate::cluster::relay_frames;
use crate::cluster::relay_frames::RelayFrame;

/// How long a relay may take to accept a connection before the node falls back to rank 0.
const PARENT_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A relay that sends nothing for this long is lost; it sends several heartbeats in this time.
const PARENT_SILENCE_LIMIT: Duration = Duration::from_secs(4);
/// How long rank 0, which was reached before, may take to accept a new connection.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest result of rank 0, in bytes.
const MAX_RESULT: u64 = 16 << 20;
/// How long forwarding the result to the children may take.
pub(super) const CHILD_SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// A node that joined a run.
pub struct JoinedNode {
    upward: Arc<UplinkConnection>,
    /// The clock offset to rank 0, as rank 0 measured it.
    pub clock: Option<ClockOffset>,
    /// The id of the run.
    pub run: u64,
    keeper: Option<JoinHandle<Option<(TcpStream, Frames)>>>,
}

impl Drop for JoinedNode {
    fn drop(&mut self) {
        if self.keeper.is_some() {
            self.upward
                .finish(Err((io::ErrorKind::ConnectionAborted, "given up".into())));
            self.upward.close();
        }
    }
}

/// Why a node did not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The name of rank 0's host does not resolve.
    #[error("{host} has no address: {error}")]
    NoAddress {
        /// The host's name.
        host: String,
        /// The resolver's error.
        error: io::Error,
    },
    /// No connection succeeded until the deadline.
    #[error("rank 0 was not reached at {at} in {seconds:.0} s: {error}")]
    Unreachable {
        /// The last address tried.
        at: SocketAddr,
        /// How long it was tried.
        seconds: f64,
        /// The last error of the kernel.
        error: io::Error,
    },
    /// The handshake failed.
    #[error("{at} answered: {error}")]
    Answered {
        /// Where.
        at: SocketAddr,
        /// Why it failed.
        error: HandshakeError,
    },
}

/// What a node needs to connect, and to connect again.
struct Joiner {
    host: String,
    port: u16,
    own: NodeIdentity,
    trust: Trust,
    process: Nonce,
    /// The port on which it relays for other nodes.
    relay_port: Option<u16>,
}

/// The connection to the parent: rank 0 or a relay.
struct ParentConnection {
    stream: TcpStream,
    /// Taken by the [`UplinkConnection`], which writes to it.
    to: Option<Frames>,
    from: Frames,
    position: TreePosition,
}

/// The connection towards rank 0, shared by the node's own message and those that it relays.
#[derive(Default)]
pub(super) struct UplinkConnection {
    state: Mutex<UplinkState>,
    changed: Condvar,
}

#[derive(Default)]
struct UplinkState {
    connection: Option<ParentLink>,
    /// How often the parent was lost.
    losses: u64,
    /// This node's own message, once it has one.
    message: Option<Arc<Vec<u8>>>,
    result: Option<Result<Vec<u8>, DeferredError>>,
    unreached_children: Vec<String>,
}

struct ParentLink {
    stream: TcpStream,
    to: Frames,
    rank: u64,
    position: u64,
    is_rank_0: bool,
}

/// An error that is returned later than it happened.
type DeferredError = (io::ErrorKind, String);

impl UplinkConnection {
    fn state(&self) -> MutexGuard<'_, UplinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the parent was lost so far.
    pub(super) fn losses(&self) -> u64 {
        self.state().losses
    }

    /// Forwards a child's frame that arrived when the parent had been lost `losses` times; waits
    /// until there is a parent.
    ///
    /// # Errors
    ///
    /// The parent was lost meanwhile together with frames under way: the children have to send
    /// again.
    pub(super) fn forward(&self, frame: &[u8], losses: u64) -> io::Result<()> {
        let mut state = self.state();
        while state.connection.is_none() && state.losses == losses && state.result.is_none() {
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        let now = state.losses;
        match &mut state.connection {
            Some(up) if now == losses => up.write(frame),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sends this node's own message.
    fn send_own(&self, message: &[u8]) -> io::Result<()> {
        let (rank, seat, losses) = {
            let state = self.state();
            let up = state.connection.as_ref();
            let up = up.ok_or(io::ErrorKind::NotConnected)?;
            (up.rank, up.position, state.losses)
        };
        // Part by part, so that the children's frames are interleaved.
        relay_frames::parts(rank, seat, message)
            .try_for_each(|part: RelayFrame<'_>| self.forward(&part.write(), losses))
    }

    /// Closes the connection to the parent.
    fn close(&self) {
        if let Some(up) = &self.state().connection {
            // It may be closed already.
            let _ = up.stream.shutdown(Shutdown::Both);
        }
    }

    fn finish(&self, said: Result<Vec<u8>, DeferredError>) {
        self.state().result.get_or_insert(said);
        self.changed.notify_all();
    }
}

impl ParentLink {
    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.to.write(&mut self.stream, frame)
    }
}

impl JoinedNode {
    /// Joins the run of rank 0, which may start later than this node. With `relays`, other nodes
    /// may send their messages through this one.
    ///
    /// # Errors
    ///
    /// Rank 0 is not reached until the deadline, or refuses.
    pub fn join(
        host: &str,
        port: u16,
        own: &NodeIdentity,
        trust: &Trust,
        deadline: Duration,
        relays: bool,
    ) -> Result<Self, JoinError> {
        let upward = Arc::new(UplinkConnection::default());
        // Without random numbers the handshake fails too, and reports that.
        let life = random::random_bytes().unwrap_or_default();
        // The same port as rank 0's, which a firewall lets through; another process of this host
        // may have it.
        let listener = || {
            super::listen(port, trust)
                .or_else(|_| super::listen(0, trust))
                .ok()
        };
        let listener = relays.then(listener).flatten();
        let door = Joiner {
            host: host.to_owned(),
            port,
            own: own.clone(),
            trust: trust.clone(),
            process: life,
            relay_port: listener
                .as_ref()
                .and_then(|one| Some(one.local_addr().ok()?.port())),
        };
        let mut seated = door.connect(None, deadline)?;
        let (clock, run) = (seated.position.clock, seated.position.run);
        let among = match (&seated.position.key, trust) {
            (Some(text), Trust::Allocation(_)) => Key::from_text(text).ok().map(Trust::Key),
            (_, Trust::Allocation(_)) => None,
            (_, trust) => Some(trust.clone()),
        };
        let relay = listener
            .zip(among)
            .map(|(listener, trust)| Relay::start(listener, own.clone(), trust, &upward));
        let keeping = Arc::clone(&upward);
        upward.state().connection = seated.take_uplink(&door);
        let keeper =
            std::thread::spawn(move || maintain_uplink(&door, seated, relay.as_ref(), &keeping));
        Ok(JoinedNode {
            upward,
            clock,
            run,
            keeper: Some(keeper),
        })
    }

    /// This node's address on its connection to rank 0 or a relay.
    pub fn address(&self) -> Option<IpAddr> {
        let state = self.upward.state();
        let own = state.connection.as_ref()?.stream.local_addr().ok()?;
        Some(own.ip().to_canonical())
    }

    /// Sends this node's message to rank 0.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.upward.state().message = Some(Arc::new(message.to_vec()));
        let given = self.upward.send_own(message);
        let state = self.upward.state();
        match (given, &state.connection) {
            // A message that a lost relay had is sent again.
            (Err(error), Some(up)) if up.is_rank_0 && state.losses == 0 => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for rank 0's result, of at most `most` bytes.
    ///
    /// # Errors
    ///
    /// No result arrives until the deadline, or rank 0 is gone.
    pub fn receive(&mut self, deadline: Duration, most: u64) -> Result<Vec<u8>, FrameError> {
        let ends = clock::now() + deadline.max(POLL_INTERVAL);
        let mut state = self.upward.state();
        loop {
            match &state.result {
                Some(Ok(said)) if said.len() as u64 > most => {
                    return Err(FrameError::TooLong(said.len() as u64, most));
                }
                Some(Ok(said)) => return Ok(said.clone()),
                Some(Err((kind, why))) => return Err(io::Error::new(*kind, why.clone()).into()),
                None => {}
            }
            let left = ends.saturating_duration_since(clock::now());
            if left.is_zero() {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            let waited = self.upward.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The children that the result did not reach.
    pub fn unreached_children(&self) -> Vec<String> {
        std::mem::take(&mut self.upward.state().unreached_children)
    }

    /// The authenticated connection to rank 0: stream, reader, writer. Only after the result
    /// arrived.
    ///
    /// # Errors
    ///
    /// It is gone.
    pub(crate) fn into_connection(mut self) -> io::Result<(TcpStream, Frames, Frames)> {
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        let keeper = self.keeper.take().ok_or_else(gone)?;
        let (stream, from) = keeper.join().ok().flatten().ok_or_else(gone)?;
        let up = self.upward.state().connection.take().ok_or_else(gone)?;
        Ok((stream, from, up.to))
    }
}

/// Reads from the parent until rank 0's result arrives. If a relay is lost, the node asks rank 0
/// for another position.
fn maintain_uplink(
    door: &Joiner,
    mut seated: ParentConnection,
    relay: Option<&Relay>,
    upward: &UplinkConnection,
) -> Option<(TcpStream, Frames)> {
    loop {
        let above = seated.position.parent.clone();
        let heard = receive_result(&mut seated);
        match heard {
            Ok(said) => {
                let deaf = relay.map_or_else(Vec::new, |relay| relay.broadcast(&said));
                upward.state().unreached_children = deaf;
                upward.finish(Ok(said));
                return Some((seated.stream, seated.from));
            }
            Err(error) => {
                // Wakes the threads that write to it.
                let _ = seated.stream.shutdown(Shutdown::Both);
                let is_given_up = {
                    let mut state = upward.state();
                    state.connection = None;
                    state.losses += 1;
                    state.result.is_some()
                };
                upward.changed.notify_all();
                // Messages of the children may be lost with the parent.
                if let Some(relay) = relay {
                    relay.disconnect_children();
                }
                if is_given_up {
                    return None;
                }
                let Some(above) = above else {
                    upward.finish(Err(failure(&error)));
                    return None;
                };
                let lost = LostParent {
                    rank: above.rank,
                    reached: true,
                };
                seated = match door.connect(Some(lost), RECONNECT_TIMEOUT) {
                    Ok(seated) => seated,
                    Err(again) => {
                        let why = format!("{} is gone ({error}), and {again}", above.name);
                        upward.finish(Err((io::ErrorKind::NotConnected, why)));
                        return None;
                    }
                };
                let message = {
                    let mut state = upward.state();
                    state.connection = seated.take_uplink(door);
                    state.message.clone()
                };
                upward.changed.notify_all();
                if let (Some(message), false) = (message, seated.position.has_recording) {
                    // If this fails, the next read from the parent fails too.
                    let _ = upward.send_own(&message);
                }
            }
        }
    }
}

fn failure(error: &FrameError) -> DeferredError {
    match error {
        FrameError::Io(error) => (error.kind(), error.to_string()),
        other => (io::ErrorKind::InvalidData, other.to_string()),
    }
}

/// Waits for rank 0's result.
fn receive_result(seated: &mut ParentConnection) -> Result<Vec<u8>, FrameError> {
    let patience = seated
        .position
        .parent
        .is_some()
        .then_some(PARENT_SILENCE_LIMIT);
    seated.stream.set_read_timeout(patience)?;
    loop {
        let mut frame = seated.from.read(&mut seated.stream, MAX_RESULT)?;
        if frame.first() == Some(&FRAME_RESULT) {
            frame.remove(0);
            return Ok(frame);
        }
    }
}

impl ParentConnection {
    fn new(stream: TcpStream, known: AuthenticatedPeer, position: TreePosition) -> Self {
        ParentConnection {
            stream,
            to: Some(known.to),
            from: known.from,
            position,
        }
    }

    fn take_uplink(&mut self, door: &Joiner) -> Option<ParentLink> {
        Some(ParentLink {
            stream: self.stream.try_clone().ok()?,
            to: self.to.take()?,
            rank: door.own.rank,
            position: self.position.id,
            is_rank_0: self.position.parent.is_none(),
        })
    }
}

impl Joiner {
    /// Asks rank 0 for a position and connects to the parent that it names.
    fn connect(
        &self,
        lost: Option<LostParent>,
        deadline: Duration,
    ) -> Result<ParentConnection, JoinError> {
        let mut card = JoinRequest {
            relay_port: self.relay_port,
            lost,
        };
        let seated = self.connect_to_rank_0(&card, deadline)?;
        let Some(above) = seated.position.parent.clone() else {
            return Ok(seated);
        };
        if let Ok((reached, known)) = self.connect_to_parent(above.at, &seated.position) {
            return Ok(ParentConnection::new(reached, known, seated.position));
        }
        card.lost = Some(LostParent {
            rank: above.rank,
            reached: false,
        });
        self.connect_to_rank_0(&card, deadline.max(RECONNECT_TIMEOUT))
    }

    /// Connects to a relay.
    fn connect_to_parent(
        &self,
        at: SocketAddr,
        seat: &TreePosition,
    ) -> Result<(TcpStream, AuthenticatedPeer), HandshakeError> {
        let of_run = seat
            .key
            .as_deref()
            .and_then(|text| Key::from_text(text).ok());
        let key = self.trust.key().or(of_run.as_ref());
        let mut stream = TcpStream::connect_timeout(&at, PARENT_CONNECT_TIMEOUT)?;
        let mut known = authenticate(
            &mut stream,
            &self.own,
            key,
            self.process,
            PARENT_CONNECT_TIMEOUT,
        )?;
        let sits = ChildHello { position: seat.id };
        handshake::send(&mut stream, &mut known.to, &sits)?;
        stream.set_write_timeout(None)?;
        Ok((stream, known))
    }

    fn connect_to_rank_0(
        &self,
        card: &JoinRequest,
        deadline: Duration,
    ) -> Result<ParentConnection, JoinError> {
        let host = self.host.as_str();
        let began = clock::now();
        let mut last: Option<(SocketAddr, io::Error)> = None;
        // Rank 0 may not have noticed yet that an earlier connection of this node timed out.
        let mut taken: Option<JoinError> = None;
        let mut pause = POLL_INTERVAL;
        loop {
            // Resolved each time: a pod's name appears when it starts, and its address changes when
            // it restarts.
            let found = (host, self.port).to_socket_addrs().map(Vec::from_iter);
            for &at in found.iter().flatten() {
                let left = deadline.saturating_sub(began.elapsed());
                if left.is_zero() {
                    break;
                }
                match TcpStream::connect_timeout(&at, left) {
                    Ok(stream) => match self.request_position(stream, card) {
                        Ok(seated) => return Ok(seated),
                        // Rank 0 ended, or a proxy accepted before rank 0 was there: try again.
                        Err(HandshakeError::Frame(FrameError::Io(error))) => {
                            last = Some((at, error));
                        }
                        Err(error @ HandshakeError::Refused(JoinRefusal::Taken { .. })) => {
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
                    // The name resolves to no address.
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

    /// Authenticates to rank 0, answers its clock questions, and receives a position.
    fn request_position(
        &self,
        mut stream: TcpStream,
        card: &JoinRequest,
    ) -> Result<ParentConnection, HandshakeError> {
        let key = self.trust.key();
        let mut known = authenticate(&mut stream, &self.own, key, self.process, HANDSHAKE_TIMEOUT)?;
        handshake::send(&mut stream, &mut known.to, card)?;
        let seat = loop {
            let ask: JoinReply = handshake::receive(&mut stream, &mut known.from)?;
            match ask {
                JoinReply::Position(seat) => break *seat,
                JoinReply::Clock => {
                    let now = clock::wall_clock();
                    let answer = ClockReply {
                        received: now,
                        sent: now,
                    };
                    handshake::send(&mut stream, &mut known.to, &answer)?;
                }
            }
        };
        stream.set_write_timeout(None)?;
        Ok(ParentConnection::new(stream, known, seat))
    }
}

fn authenticate(
    stream: &mut TcpStream,
    own: &NodeIdentity,
    key: Option<&Key>,
    life: Nonce,
    within: Duration,
) -> Result<AuthenticatedPeer, HandshakeError> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(within))?;
    stream.set_write_timeout(Some(within))?;
    let nonce = random::random_bytes()?;
    handshake::join(stream, own, key, (nonce, life))
}
