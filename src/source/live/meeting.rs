//! The nodes of a run meet over TCP: rank 0 listens, the others join, give what they have, and wait for what it says.
//!
//! It listens as long as the run lasts and not longer. Who is no node of the run is not spoken to ([`crate::cluster::handshake`]). Of many nodes
//! most give what they have to others, which pass it on ([`crate::cluster::seats`]).

mod guest;
mod relay;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cluster::clock::{Answer, Offset};
use crate::cluster::frame::{FrameError, Frames};
use crate::cluster::handshake::{self, HandshakeError, Known, Party, Refused};
use crate::cluster::key::Trust;
use crate::cluster::passing::{self, Assembly, Passed, What};
use crate::cluster::seats::{self, Ask, Card, Seat, Seats};

pub use guest::{Guest, JoinError};

/// How long two nodes may take to find out whether they belong together.
const GREETING: Duration = Duration::from_secs(10);
/// How often rank 0 looks whether somebody came, and a node tries again to reach it.
const TICK: Duration = Duration::from_millis(20);
/// How many strangers are listened to at once: more wait in the kernel's queue. Who is known to be a node is no stranger.
const AT_ONCE: usize = 512;
/// How many of those that were turned away are told apart.
const TOLD: usize = 20;
/// How often a node is asked for its time: the answer that was under way for the shortest time counts.
const CLOCK_ASKED: usize = 4;
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

/// A node that came, and what it gave.
pub struct Came {
    /// Its name.
    pub name: String,
    /// What it gave.
    pub message: Vec<u8>,
    /// The connection on which it came, for reading, where nothing else is read of it.
    reading: Option<(TcpStream, Frames)>,
}

/// A connection to a node that sits at rank 0, for writing.
struct Way {
    stream: TcpStream,
    to: Frames,
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
    ways: BTreeMap<u64, Way>,
    late: Option<Late>,
}

/// Rank 0 goes on listening to those that lose the node above them while it judges.
struct Late {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Gathered>,
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
    /// It proved to be a node and has a seat, with the connection where that is at rank 0; what it gives is still to come.
    Known(u64, String, Option<Way>),
    Came(u64, Box<Came>),
    /// It was not, or gave nothing after it was known.
    TurnedAway(Option<u64>, TurnedAway),
}

/// What all that speak with nodes share.
struct Desk {
    own: Party,
    trust: Trust,
    /// The text of a key for the nodes among themselves, where they have none.
    key: Option<String>,
    seats: Mutex<Seats>,
    in_tree: bool,
    /// A number of this run.
    run: u64,
    most: u64,
    ends: Instant,
    /// Whether who did not come yet comes too late.
    late: AtomicBool,
    came: Mutex<std::collections::BTreeSet<u64>>,
}

impl Desk {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn came(&self) -> MutexGuard<'_, std::collections::BTreeSet<u64>> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
            std::thread::spawn(move || {
                // Where the gathering is over, nobody listens.
                let tell = |visit| drop(sender.send(visit));
                visit(stream, at, &desk, tell);
            });
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
            super::allow_many_files();
        }
        let ends = Instant::now() + deadline;
        let run = super::number_of_run();
        let mut gathered = Gathered {
            run,
            ..Gathered::default()
        };
        let (sender, visits) = mpsc::channel();
        // Who has no key of its own gets one; a kernel that has no random numbers gives none, and then nobody is sent to another.
        let of_run = || {
            Some(hex(&[
                super::random_bytes().ok()?,
                super::random_bytes().ok()?,
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
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn hex(bytes: &[[u8; 16]]) -> String {
    let bytes = bytes.iter().flatten();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

impl Gathered {
    fn take(&mut self, visit: Visit) {
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
    pub(super) fn into_connections(mut self) -> Vec<(u64, String, TcpStream, Frames, Frames)> {
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
    fn write(&mut self, kind: u8, message: &[u8], within: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(within.max(TICK)))?;
        let mut frame = Vec::with_capacity(1 + message.len());
        frame.push(kind);
        frame.extend(message);
        self.to.write(&mut self.stream, &frame)
    }
}

/// Greets who came.
fn admit(
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
    let nonce = super::random_bytes().map_err(io)?;
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
        let asked = super::wall_clock();
        handshake::say(stream, &mut known.to, &Ask::Clock)?;
        let answer: Answer = handshake::hear(stream, &mut known.from)?;
        clock = Some(Offset::of(asked, answer, super::wall_clock()).or(clock));
    }
    let guest = seats::Guest {
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
fn visit(mut stream: TcpStream, at: SocketAddr, desk: &Desk, tell: impl Fn(Visit)) {
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
            .and_then(|()| from.read(&mut stream, passing::MOST));
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
fn without_recording(error: &FrameError) -> String {
    match error {
        FrameError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it came, and was gone before it gave its recording".to_owned()
        }
        _ => format!("it came, and gave no recording: {error}"),
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
                        Guest::join("127.0.0.1", port, &own, &key(SECRET), SOON, false).unwrap();
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
            let mut guest = Guest::join(
                "127.0.0.1",
                port,
                &party(2, 3),
                &Trust::Loopback,
                SOON,
                false,
            )
            .unwrap();
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
            Guest::join("127.0.0.1", port, &own, &key(SECRET), SOON, false).err()
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
        let error = Guest::join(
            "127.0.0.1",
            port,
            &party(1, 2),
            &Trust::Loopback,
            wait,
            false,
        )
        .err();
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
        let join = move || {
            Guest::join(
                "127.0.0.1",
                port,
                &party(1, 2),
                &Trust::Loopback,
                SOON,
                false,
            )
        };
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
        let error = Guest::join(host, 9, &party(1, 2), &Trust::Loopback, wait, false).err();
        assert!(matches!(error, Some(JoinError::NoAddress { .. })));
    }

    #[test]
    fn a_message_that_is_too_long_is_not_taken() {
        let host = Host::open(0, party(0, 2), Trust::Loopback).unwrap();
        let port = host.port().unwrap();
        let joining = std::thread::spawn(move || {
            let mut guest = Guest::join(
                "127.0.0.1",
                port,
                &party(1, 2),
                &Trust::Loopback,
                SOON,
                false,
            )
            .unwrap();
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

    /// Joins as a node that takes what others have.
    fn in_tree(port: u16, rank: u64, ranks: u64) -> Guest {
        let (own, trust) = (party(rank, ranks), key(SECRET));
        Guest::join("127.0.0.1", port, &own, &trust, SOON, true).unwrap()
    }

    /// What a node gives: longer than a part.
    fn of(rank: u64) -> Vec<u8> {
        let length = usize::try_from(rank * 997 % 150_000).unwrap();
        vec![rank.to_le_bytes()[0]; length]
    }

    #[test]
    fn many_nodes_give_through_a_tree_and_each_silent_one_is_named() {
        crate::source::live::allow_many_files();
        let nodes = 260;
        let (killed, silent, other_key) = (1, 200, 201);
        let host = Host::open(0, party(0, nodes), key(SECRET)).unwrap();
        let host = host.with_fanin(Some(8));
        let port = host.port().unwrap();
        let (all_in, in_seats) = mpsc::channel();
        let (go, going) = mpsc::channel::<()>();
        let wait = Duration::from_secs(12);
        let gathering = std::thread::spawn(move || host.gather(nodes, wait, 1 << 20, |_| {}));
        // The first to come is the first to which others are sent.
        let first = in_tree(port, killed, nodes);
        let going = Arc::new(Mutex::new(going));
        let guests: Vec<_> = (1..nodes)
            .filter(|rank| ![killed, other_key].contains(rank))
            .map(|rank| {
                let all_in = all_in.clone();
                let going = Arc::clone(&going);
                std::thread::spawn(move || {
                    let mut guest = in_tree(port, rank, nodes);
                    all_in.send(rank).unwrap();
                    if rank == silent {
                        return guest.wait(SOON, 99).map_err(|e| e.to_string());
                    }
                    // Half of them give before the first is killed, and half after it.
                    if rank % 2 == 1 {
                        let _ = going.lock().unwrap().recv();
                    }
                    guest.give(&of(rank)).unwrap();
                    guest.wait(SOON, 99).map_err(|e| e.to_string())
                })
            })
            .collect();
        let stranger = std::thread::spawn(move || {
            let own = party(other_key, nodes);
            let trust = key("another secret of sixteen");
            Guest::join("127.0.0.1", port, &own, &trust, SOON, true).err()
        });
        for _ in 0..nodes - 3 {
            in_seats.recv().unwrap();
        }
        drop(first);
        drop(go);
        let mut gathered = gathering.join().unwrap();
        let missing: Vec<u64> = (1..nodes)
            .filter(|rank| !gathered.came.contains_key(rank))
            .collect();
        assert_eq!(missing, [killed, silent, other_key]);
        for (rank, came) in &gathered.came {
            assert_eq!(came.name, format!("n{rank}"));
            assert!(came.message == of(*rank), "of {rank}");
        }
        assert_eq!(gathered.present, [(silent, "n200".to_owned())].into());
        let why: Vec<String> = gathered
            .turned_away
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(why.len(), 2, "{why:?}");
        let said = |who: &str, what: &str| {
            let is = |text: &&String| text.contains(who) && text.ends_with(what);
            assert!(why.iter().any(|text| is(&text)), "{who} {what}: {why:?}");
        };
        said(
            "by its word n1, rank 1",
            "it came, and was gone before it gave its recording",
        );
        said(
            "by its word n201, rank 201",
            "it was told: this node's key is another one",
        );
        assert!(matches!(
            stranger.join().unwrap(),
            Some(JoinError::Answered {
                error: HandshakeError::Impostor,
                ..
            })
        ));
        // Those that sat below the first found room below others, or nearly all did.
        assert!(gathered.connections <= 8 + 8, "{}", gathered.connections);
        assert_eq!(gathered.tell(b"healthy", SOON), []);
        for guest in guests {
            assert_eq!(guest.join().unwrap(), Ok(b"healthy".to_vec()));
        }
    }

    #[test]
    fn who_loses_the_node_above_while_rank_0_judges_hears_its_verdict() {
        let host = Host::open(0, party(0, 4), key(SECRET)).unwrap();
        let host = host.with_fanin(Some(1));
        let port = host.port().unwrap();
        let gathering = std::thread::spawn(move || host.gather(4, SOON, 99, |_| {}));
        // Each sits below the one before it.
        let mut chain: Vec<Guest> = (1..4).map(|rank| in_tree(port, rank, 4)).collect();
        for (guest, text) in chain.iter_mut().zip([b"one", b"two", b"six"]) {
            guest.give(text).unwrap();
        }
        let mut gathered = gathering.join().unwrap();
        assert_eq!(gathered.connections, 1);
        assert_eq!(gathered.came[&3].message, b"six");
        drop(chain.remove(1));
        // Another process of a rank that came is still refused.
        let (other, trust, soon) = (party(1, 4), key(SECRET), Duration::from_millis(100));
        let other = Guest::join("127.0.0.1", port, &other, &trust, soon, true).err();
        let other = other.map(|error| error.to_string()).unwrap();
        assert!(other.contains("rank 1 is there already: n1"), "{other}");
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(gathered.tell(b"healthy", SOON), []);
        for guest in &mut chain {
            assert_eq!(guest.wait(SOON, 99).unwrap(), b"healthy");
        }
    }

    #[test]
    fn who_has_no_key_gets_one_for_the_nodes_among_themselves() {
        let trust = || Trust::Allocation(vec![Ipv4Addr::LOCALHOST.into()]);
        let host = Host::open(0, party(0, 6), trust()).unwrap();
        let host = host.with_fanin(Some(2));
        let port = host.port().unwrap();
        let guests: Vec<_> = (1..6)
            .map(|rank| {
                std::thread::spawn(move || {
                    let trust = Trust::Allocation(Vec::new());
                    let own = party(rank, 6);
                    let mut guest =
                        Guest::join("127.0.0.1", port, &own, &trust, SOON, true).unwrap();
                    let clock = guest.clock().unwrap();
                    assert!(clock.ns.unsigned_abs() <= clock.within_ns, "{clock:?}");
                    guest.give(&of(rank)).unwrap();
                    guest.wait(SOON, 99).unwrap()
                })
            })
            .collect();
        let mut gathered = host.gather(6, SOON, 1 << 20, |_| {});
        assert_eq!(gathered.connections, 2);
        assert!(
            gathered
                .came
                .iter()
                .all(|(rank, came)| came.message == of(*rank))
        );
        assert_eq!(gathered.tell(b"healthy", SOON), []);
        for guest in guests {
            assert_eq!(guest.join().unwrap(), b"healthy");
        }
    }
}
