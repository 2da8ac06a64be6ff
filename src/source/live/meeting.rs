//! The nodes of a run meet over TCP: rank 0 listens, the others join, give what they have, and wait for what it says.
//!
//! It listens as long as the run lasts and not longer. Who is no node of the run is not spoken to ([`crate::cluster::handshake`]).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cluster::frame::FrameError;
use crate::cluster::handshake::{self, HandshakeError, Known, Party, Refused};
use crate::cluster::key::Trust;

/// How long two nodes may take to find out whether they belong together.
const GREETING: Duration = Duration::from_secs(10);
/// How often rank 0 looks whether somebody came, and a node tries again to reach it.
const TICK: Duration = Duration::from_millis(20);
/// How many strangers are listened to at once: more wait in the kernel's queue. Who is known to be a node is no stranger.
const AT_ONCE: usize = 512;
/// How many of those that were turned away are told apart.
const TOLD: usize = 20;

/// Rank 0, listening.
pub struct Host {
    listener: TcpListener,
    own: Party,
    trust: Trust,
}

/// A node that came, and what it gave.
pub struct Came {
    /// Its name.
    pub name: String,
    /// What it gave.
    pub message: Vec<u8>,
    stream: TcpStream,
    known: Known,
}

impl Came {
    /// The connection to it, whose ends know each other.
    pub(super) fn into_connection(self) -> (TcpStream, Known) {
        (self.stream, self.known)
    }
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

/// What becomes of one connection.
enum Visit {
    /// It proved to be a node; what it gives is still to come.
    Known(u64, String),
    Came(u64, Box<Came>),
    /// It was not, or gave nothing after it was known.
    TurnedAway(Option<u64>, TurnedAway),
}

impl Host {
    /// Listens at a port, 0 for any. Where nobody but this machine is trusted, nobody else can connect.
    ///
    /// # Errors
    ///
    /// The port is taken, or not allowed.
    pub fn open(port: u16, own: Party, trust: Trust) -> io::Result<Self> {
        let bind = |ip: IpAddr| TcpListener::bind(SocketAddr::new(ip, port));
        let listener = match trust {
            Trust::Loopback => bind(Ipv4Addr::LOCALHOST.into())?,
            // A kernel without IPv6 has no such address.
            _ => bind(Ipv6Addr::UNSPECIFIED.into()).or_else(|error| match error.kind() {
                io::ErrorKind::AddrInUse => Err(error),
                _ => bind(Ipv4Addr::UNSPECIFIED.into()),
            })?,
        };
        listener.set_nonblocking(true)?;
        Ok(Host {
            listener,
            own,
            trust,
        })
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
        let ends = Instant::now() + deadline;
        let mut gathered = Gathered::default();
        let names: Arc<Mutex<BTreeMap<u64, String>>> = Arc::default();
        let (sender, visits) = mpsc::channel();
        let mut open = 0;
        while gathered.came.len() as u64 + 1 < nodes && Instant::now() < ends {
            while open < AT_ONCE
                && let Ok((stream, at)) = self.listener.accept()
            {
                open += 1;
                let (own, trust) = (self.own.clone(), self.trust.clone());
                let (sender, names) = (sender.clone(), Arc::clone(&names));
                std::thread::spawn(move || {
                    // Where the gathering is over, nobody listens.
                    let tell = |visit| drop(sender.send(visit));
                    visit(stream, at, &own, &trust, &names, (most, ends), tell);
                });
            }
            match visits.recv_timeout(TICK) {
                Ok(visit) => {
                    let was_known =
                        matches!(visit, Visit::Came(..) | Visit::TurnedAway(Some(_), _));
                    open -= usize::from(!was_known);
                    gathered.take(visit);
                    progress(gathered.came.len());
                }
                Err(_) => continue,
            }
        }
        gathered
    }
}

impl Gathered {
    fn take(&mut self, visit: Visit) {
        match visit {
            Visit::Known(rank, name) => {
                self.present.insert(rank, name);
            }
            Visit::Came(rank, came) => {
                self.present.remove(&rank);
                self.came.insert(rank, *came);
            }
            Visit::TurnedAway(rank, who) => {
                if let Some(rank) = rank {
                    self.present.remove(&rank);
                }
                self.turned_away_count += 1;
                if self.turned_away.len() < TOLD {
                    self.turned_away.push(who);
                }
            }
        }
    }

    /// Tells all nodes that came the same, and names those that did not hear it.
    #[expect(clippy::disallowed_methods, reason = "keeps the nodes' time")]
    pub fn tell(&mut self, message: &[u8], deadline: Duration) -> Vec<(u64, String)> {
        let ends = Instant::now() + deadline;
        let mut deaf = Vec::new();
        for (rank, came) in &mut self.came {
            let left = ends.saturating_duration_since(Instant::now());
            let told = came
                .stream
                .set_write_timeout(Some(left.max(TICK)))
                .and_then(|()| came.known.to.write(&mut came.stream, message));
            if let Err(error) = told {
                deaf.push((*rank, format!("{}: {error}", came.name)));
            }
        }
        deaf
    }
}

/// Speaks with who connected, and tells what becomes of it.
#[expect(clippy::disallowed_methods, reason = "keeps the nodes' time")]
fn visit(
    mut stream: TcpStream,
    at: SocketAddr,
    own: &Party,
    trust: &Trust,
    names: &Mutex<BTreeMap<u64, String>>,
    (most, ends): (u64, Instant),
    tell: impl Fn(Visit),
) {
    let names_of = || names.lock().unwrap_or_else(PoisonError::into_inner);
    let mut admitted = || -> Result<Known, HandshakeError> {
        let io = |error: io::Error| HandshakeError::from(FrameError::from(error));
        stream.set_nonblocking(false).map_err(io)?;
        stream.set_nodelay(true).map_err(io)?;
        stream.set_read_timeout(Some(GREETING)).map_err(io)?;
        stream.set_write_timeout(Some(GREETING)).map_err(io)?;
        let nonce = super::random_bytes().map_err(io)?;
        handshake::admit(&mut stream, own, trust, at.ip(), nonce, |rank| match rank {
            0 => Some(own.name.clone()),
            rank => names_of().get(&rank).cloned(),
        })
    };
    let mut known = match admitted() {
        Ok(known) => known,
        Err(error) => {
            let claims = match &error {
                HandshakeError::TurnedAway { rank, name, .. } => Some((*rank, name.clone())),
                _ => None,
            };
            let why = error.to_string();
            return tell(Visit::TurnedAway(None, TurnedAway { at, claims, why }));
        }
    };
    let (rank, name) = (known.rank, known.name.clone());
    names_of().insert(rank, name.clone());
    tell(Visit::Known(rank, name.clone()));
    let given = || -> Result<Vec<u8>, FrameError> {
        let left = ends.saturating_duration_since(Instant::now()).max(TICK);
        stream.set_read_timeout(Some(left))?;
        known.from.read(&mut stream, most)
    };
    match { given }() {
        Ok(message) => tell(Visit::Came(
            rank,
            Box::new(Came {
                name,
                message,
                stream,
                known,
            }),
        )),
        Err(error) => {
            // It may come again.
            names_of().remove(&rank);
            let why = match &error {
                FrameError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    "it came, and was gone before it gave its recording".to_owned()
                }
                _ => format!("it came, and gave no recording: {error}"),
            };
            let claims = Some((rank, name));
            tell(Visit::TurnedAway(
                Some(rank),
                TurnedAway { at, claims, why },
            ));
        }
    }
}

/// A node that joined rank 0.
pub struct Guest {
    stream: TcpStream,
    known: Known,
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

impl Guest {
    /// Joins rank 0, which may start later than this node does.
    ///
    /// # Errors
    ///
    /// It is not reached until the deadline, or what answers is not this run's.
    #[expect(clippy::disallowed_methods, reason = "keeps its own time")]
    pub fn join(
        host: &str,
        port: u16,
        own: &Party,
        trust: &Trust,
        deadline: Duration,
    ) -> Result<Self, JoinError> {
        use std::net::ToSocketAddrs;
        let began = Instant::now();
        let mut last: Option<(SocketAddr, io::Error)> = None;
        // Rank 0 may not have seen yet that an earlier connection of this node's own, which took too long, is gone.
        let mut taken: Option<JoinError> = None;
        let mut pause = TICK;
        loop {
            // A pod has a name as late as it starts, and another address after it was started anew.
            let found = (host, port).to_socket_addrs().map(Vec::from_iter);
            for &at in found.iter().flatten() {
                let left = deadline.saturating_sub(began.elapsed());
                if left.is_zero() {
                    break;
                }
                match TcpStream::connect_timeout(&at, left) {
                    Ok(stream) => match greet(stream, own, trust) {
                        Ok(guest) => return Ok(guest),
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

    /// Gives rank 0 what this node has.
    ///
    /// # Errors
    ///
    /// The connection fails.
    pub fn give(&mut self, message: &[u8]) -> io::Result<()> {
        self.known.to.write(&mut self.stream, message)
    }

    /// Waits for what rank 0 says, of at most so many bytes.
    ///
    /// # Errors
    ///
    /// It says nothing until the deadline, or is gone.
    pub fn wait(&mut self, deadline: Duration, most: u64) -> Result<Vec<u8>, FrameError> {
        self.stream.set_read_timeout(Some(deadline.max(TICK)))?;
        self.known.from.read(&mut self.stream, most)
    }

    /// The connection to rank 0, whose ends know each other.
    pub(super) fn into_connection(self) -> (TcpStream, Known) {
        (self.stream, self.known)
    }
}

/// The address from which this node speaks to another one, as its routes have it; `None` where there is no route. Nothing is sent.
pub fn source_of(to: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn greet(mut stream: TcpStream, own: &Party, trust: &Trust) -> Result<Guest, HandshakeError> {
    let io = |error: io::Error| HandshakeError::from(FrameError::from(error));
    stream.set_nodelay(true).map_err(io)?;
    stream.set_read_timeout(Some(GREETING)).map_err(io)?;
    stream.set_write_timeout(Some(GREETING)).map_err(io)?;
    let nonce = super::random_bytes().map_err(io)?;
    let known = handshake::join(&mut stream, own, trust.key(), nonce)?;
    stream.set_write_timeout(None).map_err(io)?;
    Ok(Guest { stream, known })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::cluster::key::Key;

    fn party(rank: u64, ranks: u64) -> Party {
        Party {
            version: "1".into(),
            job: "7".into(),
            rank,
            ranks,
            name: format!("n{rank}"),
        }
    }

    fn key(text: &str) -> Trust {
        Trust::Key(Key::from_text(text).unwrap())
    }

    const SECRET: &str = "a secret of sixteen";
    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn all_come_give_and_hear() {
        let host = Host::open(0, party(0, 4), key(SECRET)).unwrap();
        let port = host.port().unwrap();
        let guests: Vec<_> = (1..4)
            .map(|rank| {
                std::thread::spawn(move || {
                    let own = party(rank, 4);
                    let mut guest =
                        Guest::join("127.0.0.1", port, &own, &key(SECRET), SOON).unwrap();
                    guest.give(format!("of {rank}").as_bytes()).unwrap();
                    guest.wait(SOON, 99).unwrap()
                })
            })
            .collect();
        // A scanner between them costs nothing.
        let mut scanner = TcpStream::connect(("127.0.0.1", port)).unwrap();
        scanner.write_all(b"\x16\x03\x01\x02\x00").unwrap();
        let mut gathered = host.gather(4, SOON, 99, |_| {});
        let of = |rank| gathered.came[&rank].message.clone();
        assert_eq!((of(1), of(3)), (b"of 1".to_vec(), b"of 3".to_vec()));
        assert_eq!(gathered.tell(b"healthy", SOON), []);
        for guest in guests {
            assert_eq!(guest.join().unwrap(), b"healthy");
        }
    }

    #[test]
    fn who_does_not_come_is_missing_when_the_time_is_up() {
        let host = Host::open(0, party(0, 3), Trust::Loopback).unwrap();
        let port = host.port().unwrap();
        let came = std::thread::spawn(move || {
            let mut guest =
                Guest::join("127.0.0.1", port, &party(2, 3), &Trust::Loopback, SOON).unwrap();
            guest.give(b"x").unwrap();
            guest
        });
        let gathered = host.gather(3, Duration::from_millis(700), 99, |_| {});
        assert_eq!(gathered.came.keys().collect::<Vec<_>>(), [&2]);
        drop(came.join());
    }

    #[test]
    fn a_node_that_is_not_of_the_run_is_told_why() {
        let host = Host::open(0, party(0, 2), key(SECRET)).unwrap();
        let port = host.port().unwrap();
        let joining = std::thread::spawn(move || {
            let own = Party {
                job: "8".into(),
                ..party(1, 2)
            };
            Guest::join("127.0.0.1", port, &own, &key(SECRET), SOON).err()
        });
        let gathered = host.gather(2, Duration::from_millis(700), 99, |_| {});
        assert!(gathered.came.is_empty());
        assert!(matches!(
            joining.join().unwrap(),
            Some(JoinError::Answered {
                error: HandshakeError::Refused(Refused::Job { .. }),
                ..
            })
        ));
        assert_eq!(gathered.turned_away_count, 1);
    }

    #[test]
    fn an_unreachable_host_is_named_with_its_port() {
        let free = Host::open(0, party(0, 2), Trust::Loopback).unwrap();
        let port = free.port().unwrap();
        drop(free);
        let wait = Duration::from_millis(100);
        let error = Guest::join("127.0.0.1", port, &party(1, 2), &Trust::Loopback, wait).err();
        let said = error.map(|error| error.to_string()).unwrap();
        assert!(
            said.starts_with(&format!("rank 0 was not reached at 127.0.0.1:{port} in ")),
            "{said}"
        );
        assert!(
            said.ends_with("Connection refused (os error 111)"),
            "{said}"
        );
    }

    #[test]
    fn a_node_whose_first_connection_broke_is_taken_once_it_is_gone() {
        let host = Host::open(0, party(0, 2), Trust::Loopback).unwrap();
        let port = host.port().unwrap();
        let join = move || Guest::join("127.0.0.1", port, &party(1, 2), &Trust::Loopback, SOON);
        let joining = std::thread::spawn(move || {
            // The second comes while rank 0 still waits for what the first gives.
            let first = join().unwrap();
            let second = std::thread::spawn(move || join().unwrap());
            std::thread::sleep(Duration::from_millis(100));
            drop(first);
            let mut second = second.join().unwrap();
            second.give(b"again").unwrap();
            second
        });
        let gathered = host.gather(2, SOON, 99, |_| {});
        assert_eq!(gathered.came[&1].message, b"again");
        drop(joining.join());
    }

    #[test]
    fn a_host_without_an_address_is_asked_for_until_the_time_is_up() {
        let wait = Duration::from_millis(300);
        let host = "no-such-host.invalid";
        let error = Guest::join(host, 9, &party(1, 2), &Trust::Loopback, wait).err();
        assert!(matches!(error, Some(JoinError::NoAddress { .. })));
    }

    #[test]
    fn a_message_that_is_too_long_is_not_taken() {
        let host = Host::open(0, party(0, 2), Trust::Loopback).unwrap();
        let port = host.port().unwrap();
        let joining = std::thread::spawn(move || {
            let mut guest =
                Guest::join("127.0.0.1", port, &party(1, 2), &Trust::Loopback, SOON).unwrap();
            let _ = guest.give(&[0; 100]);
            guest.wait(SOON, 9).is_err()
        });
        let gathered = host.gather(2, Duration::from_millis(700), 99, |_| {});
        let why = &gathered.turned_away[0].why;
        assert_eq!(
            why,
            "it came, and gave no recording: a message of 100 bytes, of which 99 are allowed"
        );
        assert!(joining.join().unwrap());
    }
}
