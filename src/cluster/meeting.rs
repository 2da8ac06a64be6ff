//! The nodes of a run meet over TCP: rank 0 listens, the others join, give what they have, and wait for what it says.
//!
//! It listens as long as the run lasts and not longer. Who is no node of the run is not spoken to ([`crate::cluster::handshake`]). Of many nodes
//! most give what they have to others, which pass it on ([`crate::cluster::gather_tree`]).

mod gathered;
mod guest;
mod relay;
mod visit;

use crate::live::{own_process, random};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

use self::gathered::Late;
use self::visit::{Desk, Visit, visit};
use crate::cluster::gather_tree::Seats;
use crate::cluster::handshake::Party;
use crate::cluster::key::Trust;

pub use gathered::{Came, Gathered, TurnedAway};
pub use guest::{Guest, JoinError};

/// How long two nodes may take to find out whether they belong together.
const GREETING: Duration = Duration::from_secs(10);
/// How often rank 0 looks whether somebody came, and a node tries again to reach it.
const TICK: Duration = Duration::from_millis(20);
/// How many strangers are listened to at once: more wait in the kernel's queue. Who is known to be a node is no stranger.
const AT_ONCE: usize = 512;
/// How many may wait in it: all nodes of a job come within the same moment, and who finds it full tries again after a second, then after three. The kernel has
/// its own bound (`net.core.somaxconn`, 4096 since Linux 5.4).
const WAITING: i32 = 16_384;
/// From so many nodes on, more files may have to be open than a process is given at first (1024).
const MANY: u64 = 500;

/// What goes down to a node begins with this where nothing but life is meant,
const BEAT: u8 = 0;
/// and with this where it is what rank 0 says.
const SAID: u8 = 1;

/// Rank 0, listening.
pub struct Host {
    listener: Arc<TcpListener>,
    own: Party,
    trust: Trust,
    fanin: Option<u64>,
}

/// Rank 0's table: who speaks, and what came of it.
struct Table {
    listener: Arc<TcpListener>,
    desk: Arc<Desk>,
    sender: Sender<Visit>,
    visits: Receiver<Visit>,
    open: usize,
}

impl Table {
    /// Lets in who stands there, and notes what one of those said that were let in.
    fn turn(&mut self, gathered: &mut Gathered) -> bool {
        while self.open < AT_ONCE
            && let Ok((stream, at)) = self.listener.accept()
        {
            self.open += 1;
            let (desk, sender) = (Arc::clone(&self.desk), self.sender.clone());
            let speak = move || {
                // Where the gathering is over, nobody listens.
                let tell = |visit| drop(sender.send(visit));
                visit(stream, at, &desk, tell);
            };
            if Builder::new().spawn(speak).is_err() {
                // A limit of processes or of memory: its connection is closed, and it comes again.
                self.open -= 1;
                break;
            }
        }
        let Ok(visit) = self.visits.recv_timeout(TICK) else {
            return false;
        };
        let ends_greeting = matches!(visit, Visit::Known(..) | Visit::TurnedAway(None, _));
        self.open -= usize::from(ends_greeting);
        gathered.take(visit);
        true
    }
}

impl Host {
    /// Listens at a port, 0 for any. Where nobody but this machine is trusted, nobody else can connect.
    ///
    /// # Errors
    ///
    /// The port is taken, or not allowed.
    pub fn open(port: u16, own: Party, trust: Trust) -> io::Result<Self> {
        Ok(Host {
            listener: Arc::new(listen(port, &trust)?),
            own,
            trust,
            fanin: None,
        })
    }

    /// Nodes give what they have through others: so many below each.
    pub fn with_fanin(self, fanin: Option<u64>) -> Self {
        Host { fanin, ..self }
    }

    /// The port at which it listens.
    ///
    /// # Errors
    ///
    /// The kernel does not say.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Waits until all of so many nodes, this one counted, came and gave something of at most `most` bytes, or until the deadline. `progress` is told
    /// how many came.
    #[expect(clippy::disallowed_methods, reason = "keeps the nodes' time")]
    pub fn gather(
        &self,
        nodes: u64,
        deadline: Duration,
        most: u64,
        mut progress: impl FnMut(usize),
    ) -> Gathered {
        if nodes > MANY {
            own_process::allow_many_files();
        }
        let ends = Instant::now() + deadline;
        let run = random::number_of_run();
        let mut gathered = Gathered {
            run,
            ..Gathered::default()
        };
        let (sender, visits) = mpsc::channel();
        // Who has no key of its own gets one; a kernel that has no random numbers gives none, and then nobody is sent to another.
        let of_run = || {
            Some(hex(&[
                random::random_bytes().ok()?,
                random::random_bytes().ok()?,
            ]))
        };
        let (key, fanin) = match (&self.trust, self.fanin) {
            (Trust::Allocation(_), Some(fanin)) => {
                let key = of_run();
                let fanin = key.is_some().then_some(fanin);
                (key, fanin)
            }
            (_, fanin) => (None, fanin),
        };
        let desk = Arc::new(Desk {
            own: self.own.clone(),
            trust: self.trust.clone(),
            key,
            seats: Mutex::new(Seats::new(fanin)),
            in_tree: fanin.is_some(),
            run,
            most,
            ends,
            late: AtomicBool::new(false),
            came: Mutex::default(),
        });
        let mut table = Table {
            listener: Arc::clone(&self.listener),
            desk: Arc::clone(&desk),
            sender,
            visits,
            open: 0,
        };
        while gathered.came.len() as u64 + 1 < nodes && Instant::now() < ends {
            if table.turn(&mut gathered) {
                progress(gathered.came.len());
            }
        }
        if desk.in_tree {
            desk.late.store(true, Ordering::Relaxed);
            let over = Arc::new(AtomicBool::new(false));
            let is_over = Arc::clone(&over);
            let thread = std::thread::spawn(move || {
                let mut late = Gathered::default();
                while !is_over.load(Ordering::Relaxed) {
                    table.turn(&mut late);
                }
                late
            });
            gathered.late = Some(Late { over, thread });
        }
        gathered
    }
}

/// Listens at a port, 0 for any: where nobody but this machine is trusted, on its loopback interface.
fn listen(port: u16, trust: &Trust) -> io::Result<TcpListener> {
    let bind = |ip: IpAddr| TcpListener::bind(SocketAddr::new(ip, port));
    let listener = match trust {
        Trust::Loopback => bind(Ipv4Addr::LOCALHOST.into())?,
        // A kernel without IPv6 has no such address.
        _ => bind(Ipv6Addr::UNSPECIFIED.into()).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Err(error),
            _ => bind(Ipv4Addr::UNSPECIFIED.into()),
        })?,
    };
    // The standard library asks for 128. Where the kernel does not let it, those stay.
    let _ = rustix::net::listen(&listener, WAITING);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn hex(bytes: &[[u8; 16]]) -> String {
    let bytes = bytes.iter().flatten();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
