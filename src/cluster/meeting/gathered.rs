//! Who came to rank 0, and what rank 0 tells them.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::visit::Visit;
use super::{SAID, TICK};
use crate::cluster::frame::Frames;

/// How many of those that were turned away are told apart.
const TOLD: usize = 20;

/// A node that came, and what it gave.
pub struct Came {
    /// Its name.
    pub name: String,
    /// What it gave.
    pub message: Vec<u8>,
    /// The connection on which it came, for reading, where nothing else is read of it.
    pub(super) reading: Option<(TcpStream, Frames)>,
}

/// A connection to a node that sits at rank 0, for writing.
pub(super) struct Way {
    pub(super) stream: TcpStream,
    pub(super) to: Frames,
}

/// Who came until the deadline.
#[derive(Default)]
pub struct Gathered {
    /// By rank. Rank 0 is not among them.
    pub came: BTreeMap<u64, Came>,
    /// Who proved to be a node of the run and gave nothing until the deadline, by rank.
    pub present: BTreeMap<u64, String>,
    /// Who was turned away, and why; at most 20 are told apart.
    pub turned_away: Vec<TurnedAway>,
    /// How many these were.
    pub turned_away_count: u64,
    /// How many sat at rank 0 itself.
    pub connections: usize,
    /// A number of the run, which no other one has.
    pub run: u64,
    pub(super) ways: BTreeMap<u64, Way>,
    pub(super) late: Option<Late>,
}

/// Rank 0 goes on listening to those that lose the node above them while it judges.
pub(super) struct Late {
    pub(super) over: Arc<AtomicBool>,
    pub(super) thread: JoinHandle<Gathered>,
}

/// Somebody who connected and took no part.
#[derive(Debug)]
pub struct TurnedAway {
    /// From where.
    pub at: SocketAddr,
    /// The rank and the name that it said; proved by nothing.
    pub claims: Option<(u64, String)>,
    /// Why, or what went wrong.
    pub why: String,
}

impl std::fmt::Display for TurnedAway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = SocketAddr::new(self.at.ip().to_canonical(), self.at.port());
        match &self.claims {
            None => write!(f, "{at}: {}", self.why),
            Some((rank, name)) => {
                write!(f, "{at}, by its word {name}, rank {rank}: {}", self.why)
            }
        }
    }
}

impl Gathered {
    pub(super) fn take(&mut self, visit: Visit) {
        match visit {
            Visit::Known(rank, name, way) => {
                if !self.came.contains_key(&rank) {
                    self.present.insert(rank, name);
                }
                if let Some(way) = way {
                    self.ways.insert(rank, way);
                    self.connections = self.connections.max(self.ways.len());
                }
            }
            Visit::Came(rank, came) => {
                self.present.remove(&rank);
                self.came.insert(rank, *came);
            }
            Visit::TurnedAway(rank, who) => {
                if let Some(rank) = rank {
                    self.present.remove(&rank);
                    self.ways.remove(&rank);
                }
                self.turned_away_count += 1;
                if self.turned_away.len() < TOLD {
                    self.turned_away.push(who);
                }
            }
        }
    }

    /// Tells all nodes that came the same, and names those that did not hear it; of those that sit at another node, that node tells.
    #[expect(clippy::disallowed_methods, reason = "keeps the nodes' time")]
    pub fn tell(&mut self, message: &[u8], deadline: Duration) -> Vec<(u64, String)> {
        if let Some(late) = self.late.take() {
            late.over.store(true, Ordering::Relaxed);
            if let Ok(late) = late.thread.join() {
                self.ways.extend(late.ways);
            }
        }
        let ends = Instant::now() + deadline;
        let mut deaf = Vec::new();
        for (rank, way) in &mut self.ways {
            let left = ends.saturating_duration_since(Instant::now());
            let told = way.write(SAID, message, left);
            if let (Err(error), Some(came)) = (told, self.came.get(rank)) {
                deaf.push((*rank, format!("{}: {error}", came.name)));
            }
        }
        deaf
    }

    /// The names of those that came, and the connections to them, whose ends know each other. Nobody sits at another node.
    pub(crate) fn into_connections(mut self) -> Vec<(u64, String, TcpStream, Frames, Frames)> {
        let came = std::mem::take(&mut self.came);
        let of = |(rank, came): (u64, Came)| {
            let (stream, from) = came.reading?;
            let way = self.ways.remove(&rank)?;
            Some((rank, came.name, stream, from, way.to))
        };
        came.into_iter().filter_map(of).collect()
    }
}

impl Way {
    pub(super) fn write(&mut self, kind: u8, message: &[u8], within: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(within.max(TICK)))?;
        let mut frame = Vec::with_capacity(1 + message.len());
        frame.push(kind);
        frame.extend(message);
        self.to.write(&mut self.stream, &frame)
    }
}
