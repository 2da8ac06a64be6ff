//! Rank 0's side of one connection: authenticates the node, assigns its position in the gather
//! tree, and receives its message.

use crate::live::{clock, random};
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::POLL_INTERVAL;
use super::gather_result::{GatherResult, NodeConnection, RefusedConnection};
use super::greeting::GreetingStream;
use crate::cluster::clock_offset::{ClockOffset, ClockReply};
use crate::cluster::frame::{FrameError, Frames};
use crate::cluster::gather_tree;
use crate::cluster::gather_tree::{GatherTree, JoinReply, JoinRequest, TreePosition};
use crate::cluster::handshake::{
    self, AuthenticatedPeer, HandshakeError, JoinRefusal, NodeIdentity,
};
use crate::cluster::key::Trust;
use crate::cluster::relay_frames;
use crate::cluster::relay_frames::{Reassembly, RelayFrame, RelayPayload};

/// How often a node's clock is read; the reading with the shortest round trip counts.
const CLOCK_SAMPLES: usize = 4;

/// What happened on a connection.
pub(super) enum AdmissionEvent {
    /// The node is authenticated and has a position; the connection is present if its parent is
    /// rank 0. Its message is still to come.
    Joined(u64, String, Option<NodeConnection>),
    Received(u64, Box<GatherResult>),
    /// The connection was refused, or closed before the node's message was complete.
    Refused(Option<u64>, RefusedConnection),
}

/// What the threads that serve connections share.
pub(super) struct AdmissionState {
    pub(super) own: NodeIdentity,
    pub(super) trust: Trust,
    /// The text of a key for connections between nodes, if they have none of their own.
    pub(super) key: Option<String>,
    pub(super) tree: Mutex<GatherTree>,
    pub(super) in_tree: bool,
    /// The id of this run.
    pub(super) run: u64,
    pub(super) most: u64,
    pub(super) ends: Instant,
    /// Whether nodes that have not joined yet are refused.
    pub(super) late: AtomicBool,
    pub(super) received: Mutex<BTreeSet<u64>>,
}

impl AdmissionState {
    fn tree(&self) -> MutexGuard<'_, GatherTree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn received(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Performs the handshake as the side that accepts.
pub(super) fn admit(
    stream: &mut GreetingStream<'_>,
    at: SocketAddr,
    own: &NodeIdentity,
    trust: &Trust,
    wrong_with: impl Fn(u64, &handshake::Nonce) -> Option<JoinRefusal>,
) -> Result<AuthenticatedPeer, HandshakeError> {
    let nonce = random::random_bytes()?;
    handshake::admit(stream, own, trust, at.ip(), nonce, wrong_with)
}

/// Measures the node's clock offset and assigns its position in the tree.
fn assign_position(
    stream: &mut GreetingStream<'_>,
    at: SocketAddr,
    known: &mut AuthenticatedPeer,
    desk: &AdmissionState,
) -> Result<TreePosition, HandshakeError> {
    let card: JoinRequest = handshake::receive(stream, &mut known.from)?;
    let mut clock: Option<ClockOffset> = None;
    for _ in 0..CLOCK_SAMPLES {
        let asked = clock::wall_clock();
        handshake::send(stream, &mut known.to, &JoinReply::Clock)?;
        let answer: ClockReply = handshake::receive(stream, &mut known.from)?;
        clock =
            Some(ClockOffset::from_exchange(asked, answer, clock::wall_clock()).better_of(clock));
    }
    let guest = gather_tree::JoiningNode {
        rank: known.rank,
        name: known.name.clone(),
        at,
        process: known.process,
    };
    let (number, above) = desk.tree().place(guest, &card);
    let seat = TreePosition {
        id: number,
        parent: above,
        has_recording: desk.received().contains(&known.rank),
        key: desk.key.clone(),
        clock,
        run: desk.run,
    };
    handshake::send(
        stream,
        &mut known.to,
        &JoinReply::Position(Box::new(seat.clone())),
    )?;
    Ok(seat)
}

/// Why a node with this rank cannot join.
fn refusal_of(desk: &AdmissionState, rank: u64, life: &handshake::Nonce) -> Option<JoinRefusal> {
    let seats = desk.tree();
    let name = match rank {
        0 => Some(desk.own.name.as_str()),
        rank => seats.holder_of_rank(rank, life),
    };
    if let Some(name) = name {
        let name = name.to_owned();
        return Some(JoinRefusal::Taken { rank, name });
    }
    let is_late = desk.late.load(Ordering::Relaxed) && !seats.has_placed(rank, life);
    is_late.then_some(JoinRefusal::TooLate)
}

/// Proves who connects, and gives it its position. The second stream is for writing.
fn admit_to_tree(
    stream: &mut TcpStream,
    at: SocketAddr,
    desk: &AdmissionState,
) -> Result<(AuthenticatedPeer, TreePosition, TcpStream), HandshakeError> {
    let mut greeting = GreetingStream::begin(stream)?;
    let refusal = |rank: u64, life: &handshake::Nonce| refusal_of(desk, rank, life);
    let mut known = admit(&mut greeting, at, &desk.own, &desk.trust, refusal)?;
    let seat = assign_position(&mut greeting, at, &mut known, desk)?;
    let writing = stream.try_clone()?;
    Ok((known, seat, writing))
}

/// Removes a node that went away; it may reconnect.
fn drop_node(
    desk: &AdmissionState,
    tell: &impl Fn(AdmissionEvent),
    rank: u64,
    position: u64,
    why: String,
) {
    if let Some((name, at)) = desk.tree().remove(rank, position) {
        let claims = Some((rank, name));
        tell(AdmissionEvent::Refused(
            Some(rank),
            RefusedConnection { at, claims, why },
        ));
    }
}

/// Reads the next frame, until the run ends.
fn read_frame(
    stream: &mut TcpStream,
    from: &mut Frames,
    ends: Instant,
) -> Result<Vec<u8>, FrameError> {
    let left = ends.saturating_duration_since(clock::now());
    stream.set_read_timeout(Some(left.max(POLL_INTERVAL)))?;
    from.read(stream, relay_frames::MAX_FRAME)
}

/// Serves one connection to its end, and passes each event to `tell`.
pub(super) fn serve_connection(
    mut stream: TcpStream,
    at: SocketAddr,
    desk: &AdmissionState,
    tell: impl Fn(AdmissionEvent),
) {
    let (known, seat, writing) = match admit_to_tree(&mut stream, at, desk) {
        Ok(admitted) => admitted,
        Err(error) => {
            let claims = match &error {
                HandshakeError::RefusedPeer { rank, name, .. } => Some((*rank, name.clone())),
                _ => None,
            };
            let why = error.to_string();
            return tell(AdmissionEvent::Refused(
                None,
                RefusedConnection { at, claims, why },
            ));
        }
    };
    let AuthenticatedPeer {
        name,
        rank,
        to,
        mut from,
        ..
    } = known;
    if seat.parent.is_some() {
        return tell(AdmissionEvent::Joined(rank, name, None));
    }
    let way = NodeConnection {
        stream: writing,
        writer: to,
    };
    tell(AdmissionEvent::Joined(rank, name, Some(way)));
    let mut assembly = Reassembly::default();
    let mut gave = seat.has_recording;
    loop {
        let frame = match read_frame(&mut stream, &mut from, desk.ends) {
            Ok(frame) => frame,
            Err(_) if gave => return,
            Err(error) => {
                let why = explain_missing_recording(&error);
                return drop_node(desk, &tell, rank, seat.id, why);
            }
        };
        let Some(passed) = RelayFrame::read(&frame) else {
            if gave {
                return;
            }
            let why = explain_missing_recording(&FrameError::Foreign);
            return drop_node(desk, &tell, rank, seat.id, why);
        };
        let (of, number) = (passed.rank, passed.position);
        if !desk.tree().is_current(of, number) {
            assembly.discard(of, number);
            continue;
        }
        match passed.payload {
            RelayPayload::Lost(why) => {
                assembly.discard(of, number);
                drop_node(desk, &tell, of, number, why);
            }
            RelayPayload::Part(whole, part) => {
                match assembly.add_part((of, number), (whole, part), desk.most) {
                    Ok(None) => {}
                    Ok(Some(message)) => {
                        let is_last = of == rank && !desk.in_tree;
                        gave |= of == rank;
                        desk.received().insert(of);
                        let name = desk.tree().name(of).unwrap_or_default().to_owned();
                        let came = |reading| {
                            Box::new(GatherResult {
                                name,
                                message,
                                reading,
                            })
                        };
                        if is_last {
                            return tell(AdmissionEvent::Received(of, came(Some((stream, from)))));
                        }
                        tell(AdmissionEvent::Received(of, came(None)));
                    }
                    Err(error) => {
                        let why = explain_missing_recording(&error);
                        drop_node(desk, &tell, of, number, why);
                        if of == rank {
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// Why a connection brought no recording.
pub(super) fn explain_missing_recording(error: &FrameError) -> String {
    match error {
        FrameError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it connected, but disconnected before it sent its recording".to_owned()
        }
        _ => format!("it connected, but sent no recording: {error}"),
    }
}
