//! What rank 0 gathered from the nodes of a run, and the connections over which it broadcasts its
//! result.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::admission::AdmissionEvent;
use super::{FRAME_RESULT, POLL_INTERVAL};
use crate::cluster::frame::Frames;
use crate::live::clock;

/// How many refused connections are listed.
const MAX_REFUSED: usize = 20;
/// Of how many addresses refused connections are counted.
const MAX_ADDRESSES: usize = 256;
/// How many of these are named in a sentence.
const NAMED_ADDRESSES: usize = 4;

/// A node and the message that it sent.
pub struct GatherResult {
    /// The node's name.
    pub name: String,
    /// The node's message.
    pub message: Vec<u8>,
    /// The connection for reading, if nothing else reads from it.
    pub(super) reading: Option<(TcpStream, Frames)>,
}

/// A connection to a node whose parent is this one, for writing.
pub(super) struct NodeConnection {
    pub(super) stream: TcpStream,
    pub(super) writer: Frames,
}

/// The nodes that joined until the deadline.
#[derive(Default)]
pub struct Gathered {
    /// The nodes whose message arrived, by rank, without rank 0.
    pub nodes: BTreeMap<u64, GatherResult>,
    /// Names of the nodes that authenticated but sent no message until the deadline, by rank.
    pub without_message: BTreeMap<u64, String>,
    /// Connections that were refused, and why: the first 20.
    pub refused: Vec<RefusedConnection>,
    /// How many connections were refused.
    pub refused_count: u64,
    /// How many of those came from each address, of the first addresses.
    pub strangers: BTreeMap<IpAddr, u64>,
    /// How many nodes were connected to rank 0 itself.
    pub connections: usize,
    /// The id of the run.
    pub run: u64,
    pub(super) connections_by_rank: BTreeMap<u64, NodeConnection>,
    pub(super) late: Option<LateJoins>,
}

/// The thread that still accepts nodes that lost their relay while rank 0 judges.
pub(super) struct LateJoins {
    pub(super) over: Arc<AtomicBool>,
    pub(super) thread: JoinHandle<Gathered>,
}

/// A connection that was refused.
#[derive(Debug)]
pub struct RefusedConnection {
    /// The address from which it came.
    pub at: SocketAddr,
    /// The rank and the name that it claimed, without proof.
    pub claims: Option<(u64, String)>,
    /// Why it was refused, or what failed.
    pub why: String,
}

impl std::fmt::Display for RefusedConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = SocketAddr::new(self.at.ip().to_canonical(), self.at.port());
        match &self.claims {
            None => write!(f, "{at}: {}", self.why),
            Some((rank, name)) => {
                write!(
                    f,
                    "{at}, which claims to be {name}, rank {rank}: {}",
                    self.why
                )
            }
        }
    }
}

impl Gathered {
    /// Rank 0's own address on its first connection.
    pub fn address(&self) -> Option<IpAddr> {
        let (_, first) = self.connections_by_rank.first_key_value()?;
        Some(first.stream.local_addr().ok()?.ip().to_canonical())
    }

    pub(super) fn apply(&mut self, visit: AdmissionEvent) {
        match visit {
            AdmissionEvent::Joined(rank, name, way) => {
                if !self.nodes.contains_key(&rank) {
                    self.without_message.insert(rank, name);
                }
                if let Some(way) = way {
                    self.connections_by_rank.insert(rank, way);
                    self.connections = self.connections.max(self.connections_by_rank.len());
                }
            }
            AdmissionEvent::Received(rank, came) => {
                self.without_message.remove(&rank);
                self.nodes.insert(rank, *came);
            }
            AdmissionEvent::Refused(rank, who) => {
                if let Some(rank) = rank {
                    self.without_message.remove(&rank);
                    self.connections_by_rank.remove(&rank);
                }
                self.refused_count += 1;
                let from = who.at.ip().to_canonical();
                if self.strangers.len() < MAX_ADDRESSES || self.strangers.contains_key(&from) {
                    *self.strangers.entry(from).or_default() += 1;
                }
                if self.refused.len() < MAX_REFUSED {
                    self.refused.push(who);
                }
            }
        }
    }

    /// How many connections were refused and from where, most first; `None` if none was.
    pub fn strangers(&self) -> Option<String> {
        let mut all: Vec<_> = self.strangers.iter().collect();
        all.sort_by_key(|(at, count)| (std::cmp::Reverse(**count), **at));
        let named: Vec<String> = all
            .iter()
            .take(NAMED_ADDRESSES)
            .map(|(at, count)| format!("{at} ({count})"))
            .collect();
        let more = match all.len().saturating_sub(NAMED_ADDRESSES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (count, named) = (self.refused_count, named.join(", "));
        (count > 0).then(|| format!("rank 0 refused {count} connections, from {named}{more}"))
    }

    /// Sends a message to all joined nodes, and returns those that it did not reach. A relay
    /// forwards the message to its children.
    pub fn broadcast(&mut self, message: &[u8], deadline: Duration) -> Vec<(u64, String)> {
        if let Some(late) = self.late.take() {
            late.over.store(true, Ordering::Relaxed);
            if let Ok(late) = late.thread.join() {
                self.connections_by_rank.extend(late.connections_by_rank);
            }
        }
        let ends = clock::now() + deadline;
        let mut deaf = Vec::new();
        for (rank, way) in &mut self.connections_by_rank {
            let left = ends.saturating_duration_since(clock::now());
            let told = way.write(FRAME_RESULT, message, left);
            if let (Err(error), Some(came)) = (told, self.nodes.get(rank)) {
                deaf.push((*rank, format!("{}: {error}", came.name)));
            }
        }
        deaf
    }

    /// The ranks and names of the joined nodes with their authenticated connections. Only for a run
    /// without relays.
    pub(crate) fn into_connections(mut self) -> Vec<(u64, String, TcpStream, Frames, Frames)> {
        let came = std::mem::take(&mut self.nodes);
        let of = |(rank, came): (u64, GatherResult)| {
            let (stream, from) = came.reading?;
            let way = self.connections_by_rank.remove(&rank)?;
            Some((rank, came.name, stream, from, way.writer))
        };
        came.into_iter().filter_map(of).collect()
    }
}

impl NodeConnection {
    pub(super) fn write(&mut self, kind: u8, message: &[u8], within: Duration) -> io::Result<()> {
        self.stream
            .set_write_timeout(Some(within.max(POLL_INTERVAL)))?;
        let mut frame = Vec::with_capacity(1 + message.len());
        frame.push(kind);
        frame.extend(message);
        self.writer.write(&mut self.stream, &frame)
    }
}
