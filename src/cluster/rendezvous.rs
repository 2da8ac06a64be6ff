//! Rendezvous over TCP: rank 0 listens; every other node joins, sends its recording, and waits for
//! rank 0's result.
//!
//! Rank 0 listens only while the run lasts, and answers only nodes that pass the handshake
//! ([`crate::cluster::handshake`]). In a large run most nodes send their recordings through other
//! nodes ([`crate::cluster::gather_tree`]).

mod admission;
mod gather_result;
mod greeting;
mod joined_node;
mod relay;

use crate::live::clock;
use crate::live::{own_process, random};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Builder;
use std::time::Duration;

use self::admission::{AdmissionEvent, AdmissionState, serve_connection};
use self::gather_result::LateJoins;
use self::greeting::{AdmitError, Greetings, MAX_WAITING};
use crate::cluster::gather_tree::GatherTree;
use crate::cluster::handshake::NodeIdentity;
use crate::cluster::key::Trust;

pub use gather_result::{GatherResult, Gathered, RefusedConnection};
pub use joined_node::{JoinError, JoinedNode};

/// How long a node waits for each message of rank 0 in the handshake: rank 0 may serve many others
/// first.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often rank 0 polls for connections, and the first pause of a node that tries again to reach
/// it.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The length of the kernel's queue of connections. All nodes of a job connect at the same moment,
/// and a node that finds the queue full tries again after one second, then after three. The kernel
/// has its own limit (`net.core.somaxconn`, 4096 since Linux 5.4).
const LISTEN_BACKLOG: i32 = 16_384;

/// The first byte of a frame to a node that only shows that the sender is alive.
const FRAME_HEARTBEAT: u8 = 0;
/// The first byte of a frame to a node that carries rank 0's result.
const FRAME_RESULT: u8 = 1;

/// Rank 0's listening socket, and the identity with which it admits nodes.
pub struct Rendezvous {
    listener: Arc<TcpListener>,
    own: NodeIdentity,
    trust: Trust,
    fanin: Option<u64>,
    /// The addresses of the job's nodes, once they are known.
    expected: Arc<OnceLock<Vec<IpAddr>>>,
}

/// Accepts connections on rank 0, serves each in a thread, and collects their events.
struct Acceptor {
    listener: Arc<TcpListener>,
    desk: Arc<AdmissionState>,
    sender: Sender<(u64, AdmissionEvent)>,
    visits: Receiver<(u64, AdmissionEvent)>,
    greetings: Greetings,
    /// Accepted connections that wait for a place.
    waiting: VecDeque<(TcpStream, SocketAddr)>,
    expected: Arc<OnceLock<Vec<IpAddr>>>,
}

impl Acceptor {
    /// Accepts waiting connections, then applies one event to `gathered`; false if none came in
    /// time.
    fn accept_and_receive(&mut self, gathered: &mut Gathered) -> bool {
        while self.waiting.len() < MAX_WAITING
            && let Ok(accepted) = self.listener.accept()
        {
            self.waiting.push_back(accepted);
        }
        for _ in 0..self.waiting.len() {
            let Some((stream, at)) = self.waiting.pop_front_if(|_| self.greetings.have_room())
            else {
                break;
            };
            let expected = self.expected.get();
            let is_expected = |from: IpAddr| expected.map(|all| all.contains(&from));
            let number = match self.greetings.admit(&stream, at, is_expected) {
                Ok(number) => number,
                Err(AdmitError::Wait) => {
                    self.waiting.push_back((stream, at));
                    continue;
                }
                // It closes, and the node connects again.
                Err(AdmitError::NoDescriptor) => break,
            };
            let (desk, sender) = (Arc::clone(&self.desk), self.sender.clone());
            let speak = move || {
                // The receiver is gone once the gathering is over.
                let tell = |visit| drop(sender.send((number, visit)));
                serve_connection(stream, at, &desk, tell);
            };
            if Builder::new().spawn(speak).is_err() {
                // No thread left: the connection closes, and the node connects again.
                self.greetings.end(number);
                break;
            }
        }
        let Ok((number, visit)) = self.visits.recv_timeout(POLL_INTERVAL) else {
            return false;
        };
        let ends_greeting = matches!(
            visit,
            AdmissionEvent::Joined(..) | AdmissionEvent::Refused(None, _)
        );
        if ends_greeting {
            self.greetings.end(number);
        }
        gathered.apply(visit);
        true
    }
}

impl Rendezvous {
    /// Listens on a port, 0 for any. Without a key or an allocation only this machine can connect.
    ///
    /// # Errors
    ///
    /// The port is in use, or binding to it is not permitted.
    pub fn open(port: u16, own: NodeIdentity, trust: Trust) -> io::Result<Self> {
        Ok(Rendezvous {
            listener: Arc::new(listen(port, &trust)?),
            own,
            trust,
            fanin: None,
            expected: Arc::default(),
        })
    }

    /// Prefers nodes at these addresses while strangers keep it busy. They are looked up meanwhile:
    /// a name server may take seconds.
    pub fn with_expected(self, addresses: impl FnOnce() -> Vec<IpAddr> + Send + 'static) -> Self {
        let expected = Arc::clone(&self.expected);
        // Without a thread all addresses are alike.
        let _ = Builder::new().spawn(move || {
            let found = addresses();
            if !found.is_empty() {
                let _ = expected.set(found);
            }
        });
        self
    }

    /// Gathers through a tree in which each node relays for this many others; `None` connects all
    /// nodes to rank 0.
    pub fn with_fanin(self, fanin: Option<u64>) -> Self {
        Rendezvous { fanin, ..self }
    }

    /// The port on which it listens.
    ///
    /// # Errors
    ///
    /// The kernel does not return the address.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Waits until all nodes (`nodes` counts this one) have sent a message of at most `most` bytes,
    /// or until the deadline. `progress` gets the number of nodes that did.
    pub fn gather(
        &self,
        nodes: u64,
        deadline: Duration,
        most: u64,
        mut progress: impl FnMut(usize),
    ) -> Gathered {
        // For many nodes, and for strangers who keep connections open.
        own_process::allow_many_files();
        let ends = clock::now() + deadline;
        let run = random::number_of_run();
        let mut gathered = Gathered {
            run,
            ..Gathered::default()
        };
        let (sender, visits) = mpsc::channel();
        // Nodes without a key of their own get one for this run. Without random numbers there is no
        // key, and then no node relays for another.
        let (key, fanin) = match (&self.trust, self.fanin) {
            (Trust::Allocation(_), Some(fanin)) => {
                let key = random::hex_key().ok();
                let fanin = key.is_some().then_some(fanin);
                (key, fanin)
            }
            (_, fanin) => (None, fanin),
        };
        let desk = Arc::new(AdmissionState {
            own: self.own.clone(),
            trust: self.trust.clone(),
            key,
            tree: Mutex::new(GatherTree::new(fanin)),
            in_tree: fanin.is_some(),
            run,
            most,
            ends,
            late: AtomicBool::new(false),
            received: Mutex::default(),
        });
        let mut table = Acceptor {
            listener: Arc::clone(&self.listener),
            desk: Arc::clone(&desk),
            sender,
            visits,
            greetings: Greetings::default(),
            waiting: VecDeque::new(),
            expected: Arc::clone(&self.expected),
        };
        while gathered.nodes.len() as u64 + 1 < nodes && clock::now() < ends {
            if table.accept_and_receive(&mut gathered) {
                progress(gathered.nodes.len());
            }
        }
        if desk.in_tree {
            desk.late.store(true, Ordering::Relaxed);
            let over = Arc::new(AtomicBool::new(false));
            let is_over = Arc::clone(&over);
            let thread = Builder::new().spawn(move || {
                let mut late = Gathered::default();
                while !is_over.load(Ordering::Relaxed) {
                    table.accept_and_receive(&mut late);
                }
                late
            });
            // Without a thread, nodes that lose their relay now do not hear the result.
            gathered.late = thread.ok().map(|thread| LateJoins { over, thread });
        }
        gathered
    }
}

/// Listens on a port, 0 for any; without a key or an allocation on the loopback interface only.
fn listen(port: u16, trust: &Trust) -> io::Result<TcpListener> {
    let bind = |ip: IpAddr| TcpListener::bind(SocketAddr::new(ip, port));
    let listener = match trust {
        Trust::Loopback => bind(Ipv4Addr::LOCALHOST.into())?,
        // The kernel may be built without IPv6.
        _ => bind(Ipv6Addr::UNSPECIFIED.into()).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Err(error),
            _ => bind(Ipv4Addr::UNSPECIFIED.into()),
        })?,
    };
    // The standard library asks for 128. If the kernel refuses more, those remain.
    let _ = rustix::net::listen(&listener, LISTEN_BACKLOG);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests;
