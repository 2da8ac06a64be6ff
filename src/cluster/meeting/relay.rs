//! A node that takes what others have, passes it on towards rank 0, and tells them what rank 0 says.
//!
//! It holds one part of what each gives ([`crate::cluster::relay_frames`]), and says so often that it lives that those below notice soon where it does not.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::gathered::Way;
use super::guest::{TELLING, Upward};
use super::visit::{admit, without_recording};
use super::{BEAT, SAID, TICK};
use crate::cluster::frame::FrameError;
use crate::cluster::gather_tree::Sits;
use crate::cluster::handshake::{self, HandshakeError, Party};
use crate::cluster::key::Trust;
use crate::cluster::relay_frames;
use crate::cluster::relay_frames::{Passed, What};

/// How often it says that it lives.
const BEATS: Duration = Duration::from_millis(500);
/// How many strangers are listened to at once.
const AT_ONCE: usize = 64;

/// A node that takes what others have.
pub(super) struct Relay {
    below: Arc<Below>,
}

/// Who sits below.
#[derive(Default)]
struct Below {
    /// By the seat's number.
    ways: Mutex<BTreeMap<u64, (String, Way)>>,
    over: AtomicBool,
    greeted: AtomicUsize,
}

impl Below {
    fn ways(&self) -> MutexGuard<'_, BTreeMap<u64, (String, Way)>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.below.over.store(true, Ordering::Relaxed);
        self.let_go();
    }
}

impl Relay {
    /// Listens to those that rank 0 sends, until it is dropped.
    pub(super) fn start(
        listener: TcpListener,
        own: Party,
        trust: Trust,
        upward: &Arc<Upward>,
    ) -> Self {
        let below = Arc::new(Below::default());
        let (of_thread, upward) = (Arc::clone(&below), Arc::clone(upward));
        std::thread::spawn(move || listen(&listener, &own, &trust, &of_thread, &upward));
        Relay { below }
    }

    /// Lets all go that sit below: they come to rank 0 again.
    pub(super) fn let_go(&self) {
        for (_, (_, way)) in std::mem::take(&mut *self.below.ways()) {
            // One that is closed already needs no more.
            let _ = way.stream.shutdown(Shutdown::Both);
        }
    }

    /// Tells all that sit below what rank 0 said, and names those that did not hear it.
    #[expect(clippy::disallowed_methods, reason = "keeps the nodes' time")]
    pub(super) fn tell(&self, said: &[u8]) -> Vec<String> {
        let ends = Instant::now() + TELLING;
        let mut deaf = Vec::new();
        for (name, way) in self.below.ways().values_mut() {
            let left = ends.saturating_duration_since(Instant::now());
            if let Err(error) = way.write(SAID, said, left) {
                deaf.push(format!("{name}: {error}"));
            }
        }
        deaf
    }
}

#[expect(clippy::disallowed_methods, reason = "keeps the nodes' time")]
fn listen(
    listener: &TcpListener,
    own: &Party,
    trust: &Trust,
    below: &Arc<Below>,
    upward: &Arc<Upward>,
) {
    let mut beat = Instant::now();
    while !below.over.load(Ordering::Relaxed) {
        if below.greeted.load(Ordering::Relaxed) < AT_ONCE
            && let Ok((stream, at)) = listener.accept()
        {
            below.greeted.fetch_add(1, Ordering::Relaxed);
            let (own, trust) = (own.clone(), trust.clone());
            let (below, upward) = (Arc::clone(below), Arc::clone(upward));
            let greeted = Arc::clone(&below);
            let speak = move || take(stream, at, &own, &trust, &below, &upward);
            if Builder::new().spawn(speak).is_err() {
                // It finds another way.
                greeted.greeted.fetch_sub(1, Ordering::Relaxed);
            }
            continue;
        }
        if beat.elapsed() >= BEATS {
            beat = Instant::now();
            for (_, way) in below.ways().values_mut() {
                // Who does not hear it is gone, or too full to.
                let _ = way.write(BEAT, &[], TICK);
            }
        }
        std::thread::sleep(TICK);
    }
}

/// Takes what a node has, and what those below it have.
fn take(
    mut stream: TcpStream,
    at: SocketAddr,
    own: &Party,
    trust: &Trust,
    below: &Below,
    upward: &Upward,
) {
    // Before it is known: what is lost from here on is lost with it.
    let losses = upward.losses();
    let admitted = admit(&mut stream, at, own, trust, |_, _| None);
    let io = |error: io::Error| HandshakeError::from(FrameError::from(error));
    let seated = admitted.and_then(|mut known| {
        let sits: Sits = handshake::hear(&mut stream, &mut known.from)?;
        let writing = stream.try_clone().map_err(io)?;
        stream.set_read_timeout(None).map_err(io)?;
        Ok((known, sits.seat, writing))
    });
    below.greeted.fetch_sub(1, Ordering::Relaxed);
    // A stranger, which rank 0 did not send: it is told by the handshake, and nobody else is.
    let Ok((known, seat, writing)) = seated else {
        return;
    };
    let (rank, name, to, mut from) = (known.rank, known.name, known.to, known.from);
    let way = Way {
        stream: writing,
        to,
    };
    below.ways().insert(seat, (name, way));
    let mut left = None;
    loop {
        if upward.losses() != losses {
            break;
        }
        let frame = match from.read(&mut stream, relay_frames::MOST) {
            Ok(frame) => frame,
            Err(error) => {
                let gone = Passed {
                    rank,
                    seat,
                    what: What::Gone(without_recording(&error)),
                };
                if left != Some(0) {
                    // Where this fails, all below begin again.
                    let _ = upward.pass(&gone.write(), losses);
                }
                break;
            }
        };
        if let Some(Passed {
            rank: of,
            what: What::Part(whole, part),
            ..
        }) = Passed::read(&frame)
            && of == rank
        {
            let before = left.unwrap_or(whole);
            left = Some(before.saturating_sub(part.len() as u64));
        }
        if upward.pass(&frame, losses).is_err() {
            break;
        }
    }
    below.ways().remove(&seat);
    let _ = stream.shutdown(Shutdown::Both);
}
