//! A node that relays for others: forwards their messages towards rank 0, and rank 0's result to
//! them.
//!
//! It holds one part of each message ([`crate::cluster::relay_frames`]), and sends heartbeats, so
//! that its children notice soon if it is lost.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use super::admission::{admit, explain_missing_recording};
use super::gather_result::NodeConnection;
use super::greeting::GreetingStream;
use super::joined_node::{CHILD_SEND_TIMEOUT, UplinkConnection};
use super::{FRAME_HEARTBEAT, FRAME_RESULT, POLL_INTERVAL};
use crate::cluster::gather_tree::ChildHello;
use crate::cluster::handshake::{self, HandshakeError, NodeIdentity};
use crate::cluster::key::Trust;
use crate::cluster::relay_frames;
use crate::cluster::relay_frames::{RelayFrame, RelayPayload};
use crate::live::clock;

/// How often it sends a heartbeat.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
/// How many unauthenticated connections are served at once.
const MAX_HANDSHAKES: usize = 64;

/// A node's listening side for its children.
pub(super) struct Relay {
    children: Arc<RelayChildren>,
}

/// The children of a relay.
#[derive(Default)]
struct RelayChildren {
    /// By the id of the position: the child's name, and the connection to it.
    connections: Mutex<BTreeMap<u64, (String, NodeConnection)>>,
    over: AtomicBool,
    greeted: AtomicUsize,
}

impl RelayChildren {
    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, (String, NodeConnection)>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.children.over.store(true, Ordering::Relaxed);
        self.disconnect_children();
    }
}

impl Relay {
    /// Accepts the children that rank 0 sends, until it is dropped.
    pub(super) fn start(
        listener: TcpListener,
        own: NodeIdentity,
        trust: Trust,
        upward: &Arc<UplinkConnection>,
    ) -> Self {
        let below = Arc::new(RelayChildren::default());
        let (of_thread, upward) = (Arc::clone(&below), Arc::clone(upward));
        std::thread::spawn(move || listen(&listener, &own, &trust, &of_thread, &upward));
        Relay { children: below }
    }

    /// Disconnects all children; they ask rank 0 for another position.
    pub(super) fn disconnect_children(&self) {
        for (_, (_, way)) in std::mem::take(&mut *self.children.connections()) {
            // It may be closed already.
            let _ = way.stream.shutdown(Shutdown::Both);
        }
    }

    /// Sends rank 0's result to all children, and returns those that it did not reach.
    pub(super) fn broadcast(&self, said: &[u8]) -> Vec<String> {
        let ends = clock::now() + CHILD_SEND_TIMEOUT;
        let mut deaf = Vec::new();
        for (name, way) in self.children.connections().values_mut() {
            let left = ends.saturating_duration_since(clock::now());
            if let Err(error) = way.write(FRAME_RESULT, said, left) {
                deaf.push(format!("{name}: {error}"));
            }
        }
        deaf
    }
}

fn listen(
    listener: &TcpListener,
    own: &NodeIdentity,
    trust: &Trust,
    below: &Arc<RelayChildren>,
    upward: &Arc<UplinkConnection>,
) {
    let mut beat = clock::now();
    while !below.over.load(Ordering::Relaxed) {
        if below.greeted.load(Ordering::Relaxed) < MAX_HANDSHAKES
            && let Ok((stream, at)) = listener.accept()
        {
            below.greeted.fetch_add(1, Ordering::Relaxed);
            let (own, trust) = (own.clone(), trust.clone());
            let (below, upward) = (Arc::clone(below), Arc::clone(upward));
            let greeted = Arc::clone(&below);
            let speak = move || relay_child(stream, at, &own, &trust, &below, &upward);
            if Builder::new().spawn(speak).is_err() {
                // No thread left: the child asks rank 0 for another position.
                greeted.greeted.fetch_sub(1, Ordering::Relaxed);
            }
            continue;
        }
        if beat.elapsed() >= HEARTBEAT_INTERVAL {
            beat = clock::now();
            for (_, way) in below.connections().values_mut() {
                // A child that cannot receive it is gone or overloaded.
                let _ = way.write(FRAME_HEARTBEAT, &[], POLL_INTERVAL);
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Serves one child: forwards its frames, and those of its own children, to the parent.
fn relay_child(
    mut stream: TcpStream,
    at: SocketAddr,
    own: &NodeIdentity,
    trust: &Trust,
    below: &RelayChildren,
    upward: &UplinkConnection,
) {
    // Read before the handshake: frames that arrive later are lost with the parent that was there
    // then.
    let losses = upward.losses();
    let greet = |stream: &mut TcpStream| {
        let mut greeting = GreetingStream::begin(stream)?;
        let mut known = admit(&mut greeting, at, own, trust, |_, _| None)?;
        let sits: ChildHello = handshake::receive(&mut greeting, &mut known.from)?;
        let writing = stream.try_clone()?;
        stream.set_read_timeout(None)?;
        Ok((known, sits.position, writing))
    };
    let seated: Result<_, HandshakeError> = greet(&mut stream);
    below.greeted.fetch_sub(1, Ordering::Relaxed);
    // Rank 0 did not send it; the handshake tells it so.
    let Ok((known, seat, writing)) = seated else {
        return;
    };
    let (rank, name, to, mut from) = (known.rank, known.name, known.to, known.from);
    let way = NodeConnection {
        stream: writing,
        writer: to,
    };
    below.connections().insert(seat, (name, way));
    let mut left = None;
    loop {
        if upward.losses() != losses {
            break;
        }
        let frame = match from.read(&mut stream, relay_frames::MAX_FRAME) {
            Ok(frame) => frame,
            Err(error) => {
                let gone = RelayFrame {
                    rank,
                    position: seat,
                    payload: RelayPayload::Lost(explain_missing_recording(&error)),
                };
                if left != Some(0) {
                    // If this fails, all children start over.
                    let _ = upward.forward(&gone.write(), losses);
                }
                break;
            }
        };
        if let Some(RelayFrame {
            rank: of,
            payload: RelayPayload::Part(whole, part),
            ..
        }) = RelayFrame::read(&frame)
            && of == rank
        {
            let before = left.unwrap_or(whole);
            left = Some(before.saturating_sub(part.len() as u64));
        }
        if upward.forward(&frame, losses).is_err() {
            break;
        }
    }
    below.connections().remove(&seat);
    let _ = stream.shutdown(Shutdown::Both);
}
