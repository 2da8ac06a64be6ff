//! Rank 0 speaks with one that connected: whether it is a node of the run, where it sits, and what it gives.

use crate::live::{clock, random};
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::gathered::{Came, TurnedAway, Way};
use super::{GREETING, TICK};
use crate::cluster::clock_offset::{Answer, Offset};
use crate::cluster::frame::FrameError;
use crate::cluster::gather_tree;
use crate::cluster::gather_tree::{Ask, Card, Seat, Seats};
use crate::cluster::handshake::{self, HandshakeError, Known, Party, Refused};
use crate::cluster::key::Trust;
use crate::cluster::relay_frames;
use crate::cluster::relay_frames::{Assembly, Passed, What};

/// How often a node is asked for its time: the answer that was under way for the shortest time counts.
const CLOCK_ASKED: usize = 4;

/// What becomes of one connection.
pub(super) enum Visit {
    /// It proved to be a node and has a seat, with the connection where that is at rank 0; what it gives is still to come.
    Known(u64, String, Option<Way>),
    Came(u64, Box<Came>),
    /// It was not, or gave nothing after it was known.
    TurnedAway(Option<u64>, TurnedAway),
}

/// What all that speak with nodes share.
pub(super) struct Desk {
    pub(super) own: Party,
    pub(super) trust: Trust,
    /// The text of a key for the nodes among themselves, where they have none.
    pub(super) key: Option<String>,
    pub(super) seats: Mutex<Seats>,
    pub(super) in_tree: bool,
    /// A number of this run.
    pub(super) run: u64,
    pub(super) most: u64,
    pub(super) ends: Instant,
    /// Whether who did not come yet comes too late.
    pub(super) late: AtomicBool,
    pub(super) came: Mutex<BTreeSet<u64>>,
}

impl Desk {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn came(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Greets who came.
pub(super) fn admit(
    stream: &mut TcpStream,
    at: SocketAddr,
    own: &Party,
    trust: &Trust,
    wrong_with: impl Fn(u64, &handshake::Nonce) -> Option<Refused>,
) -> Result<Known, HandshakeError> {
    let io = |error: io::Error| HandshakeError::from(FrameError::from(error));
    stream.set_nonblocking(false).map_err(io)?;
    stream.set_nodelay(true).map_err(io)?;
    stream.set_read_timeout(Some(GREETING)).map_err(io)?;
    stream.set_write_timeout(Some(GREETING)).map_err(io)?;
    let nonce = random::random_bytes().map_err(io)?;
    handshake::admit(stream, own, trust, at.ip(), nonce, wrong_with)
}

/// Gives a node that is known its seat.
fn seat(
    stream: &mut TcpStream,
    at: SocketAddr,
    known: &mut Known,
    desk: &Desk,
) -> Result<Seat, HandshakeError> {
    let card: Card = handshake::hear(stream, &mut known.from)?;
    let mut clock: Option<Offset> = None;
    for _ in 0..CLOCK_ASKED {
        let asked = clock::wall_clock();
        handshake::say(stream, &mut known.to, &Ask::Clock)?;
        let answer: Answer = handshake::hear(stream, &mut known.from)?;
        clock = Some(Offset::of(asked, answer, clock::wall_clock()).or(clock));
    }
    let guest = gather_tree::Guest {
        rank: known.rank,
        name: known.name.clone(),
        at,
        life: known.life,
    };
    let (number, above) = desk.seats().sit(guest, &card);
    let seat = Seat {
        number,
        above,
        have: desk.came().contains(&known.rank),
        key: desk.key.clone(),
        clock,
        run: desk.run,
    };
    handshake::say(stream, &mut known.to, &Ask::Seat(Box::new(seat.clone())))?;
    Ok(seat)
}

/// Speaks with who connected, and tells what becomes of it.
#[expect(clippy::disallowed_methods, reason = "keeps the nodes' time")]
pub(super) fn visit(mut stream: TcpStream, at: SocketAddr, desk: &Desk, tell: impl Fn(Visit)) {
    let wrong_with = |rank: u64, life: &handshake::Nonce| {
        let seats = desk.seats();
        let name = match rank {
            0 => Some(desk.own.name.as_str()),
            rank => seats.taken(rank, life),
        };
        if let Some(name) = name {
            let name = name.to_owned();
            return Some(Refused::Taken { rank, name });
        }
        let is_late = desk.late.load(Ordering::Relaxed) && !seats.knows(rank, life);
        is_late.then_some(Refused::Over)
    };
    let admitted = admit(&mut stream, at, &desk.own, &desk.trust, wrong_with);
    let seated = admitted.and_then(|mut known| {
        let seat = seat(&mut stream, at, &mut known, desk)?;
        let io = |error: io::Error| HandshakeError::from(FrameError::from(error));
        let writing = stream.try_clone().map_err(io)?;
        Ok((known, seat, writing))
    });
    let (known, seat, writing) = match seated {
        Ok(seated) => seated,
        Err(error) => {
            let claims = match &error {
                HandshakeError::TurnedAway { rank, name, .. } => Some((*rank, name.clone())),
                _ => None,
            };
            let why = error.to_string();
            return tell(Visit::TurnedAway(None, TurnedAway { at, claims, why }));
        }
    };
    let Known {
        name,
        rank,
        to,
        mut from,
        ..
    } = known;
    if seat.above.is_some() {
        return tell(Visit::Known(rank, name, None));
    }
    let way = Way {
        stream: writing,
        to,
    };
    tell(Visit::Known(rank, name, Some(way)));
    let gone = |rank: u64, seat: u64, why: String| {
        // It may come again.
        if let Some((name, at)) = desk.seats().leave(rank, seat) {
            let claims = Some((rank, name));
            tell(Visit::TurnedAway(
                Some(rank),
                TurnedAway { at, claims, why },
            ));
        }
    };
    let mut assembly = Assembly::default();
    let mut gave = seat.have;
    loop {
        let left = desk
            .ends
            .saturating_duration_since(Instant::now())
            .max(TICK);
        let frame = stream
            .set_read_timeout(Some(left))
            .map_err(FrameError::from)
            .and_then(|()| from.read(&mut stream, relay_frames::MOST));
        let frame = match frame {
            Ok(frame) => frame,
            Err(_) if gave => return,
            Err(error) => return gone(rank, seat.number, without_recording(&error)),
        };
        let Some(passed) = Passed::read(&frame) else {
            if gave {
                return;
            }
            return gone(rank, seat.number, without_recording(&FrameError::Foreign));
        };
        let (of, number) = (passed.rank, passed.seat);
        if !desk.seats().holds(of, number) {
            assembly.forget(of, number);
            continue;
        }
        match passed.what {
            What::Gone(why) => {
                assembly.forget(of, number);
                gone(of, number, why);
            }
            What::Part(whole, part) => {
                match assembly.take((of, number), (whole, part), desk.most) {
                    Ok(None) => {}
                    Ok(Some(message)) => {
                        let is_last = of == rank && !desk.in_tree;
                        gave |= of == rank;
                        desk.came().insert(of);
                        let name = desk.seats().name(of).unwrap_or_default().to_owned();
                        let came = |reading| {
                            Box::new(Came {
                                name,
                                message,
                                reading,
                            })
                        };
                        if is_last {
                            return tell(Visit::Came(of, came(Some((stream, from)))));
                        }
                        tell(Visit::Came(of, came(None)));
                    }
                    Err(error) => {
                        gone(of, number, without_recording(&error));
                        if of == rank {
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// What is said of a node whose connection brought no recording.
pub(super) fn without_recording(error: &FrameError) -> String {
    match error {
        FrameError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it came, and was gone before it gave its recording".to_owned()
        }
        _ => format!("it came, and gave no recording: {error}"),
    }
}
