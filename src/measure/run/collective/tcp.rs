//! The TCP backend: sockets and host memory, for machines without RDMA.
//!
//! Between two ranks there are several connections, called *lanes*. Each lane carries its own slice
//! of every part in a thread of its own, which sends and receives as soon as either can proceed:
//! received data is forwarded while the rest is still under way.

use crate::fact::Bytes;
use crate::live::{clock, random, tcp_info};
use std::cmp::Ordering;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::backend::{Backend, Identity};
use super::rank_exchange::RankExchange;
use super::rank_messages::RankJob;
use super::rank_steps::{self, BufferPart as Part, RankSteps, ReceiveStep};
use crate::live::element;
use crate::live::failure::Failure;
use crate::live::pages::PageMemory;
use crate::measure::plan::collective::{Collective, DataType, Reduction};
use crate::measure::plan::run::Point;
use crate::source::Errno;

/// Bytes that are sent or received at once, if nobody names another number.
const CHUNK: usize = 128 << 10;
/// All steps process this many bytes of a part before the next ones, so that data just received and
/// reduced is sent from the CPU's cache.
const PIECE: usize = 256 << 10;
/// An operation uses one lane for each this many bytes at most.
const OF_A_LANE: usize = 1 << 20;
/// The most lanes between two ranks.
const LANES: usize = 8;
/// How long a peer may take to identify itself.
const HELLO: Duration = Duration::from_secs(5);
/// What the output buffer holds before an operation.
const POISON: u8 = 0xa5;

/// Connects this rank with its neighbours.
///
/// # Errors
///
/// No address to bind to, or another rank that cannot be reached.
pub(super) fn connect(
    job: &RankJob,
    exchange: &mut RankExchange,
) -> Result<Box<dyn Backend>, Failure> {
    let given = exchange.all_gather(json!(job.place.node))?;
    let alone = given.windows(2).all(|pair| pair[0] == pair[1]);
    let here = given.iter().filter(|node| **node == job.place.node).count();
    let address = match &job.place.device {
        Some(text) => text
            .parse::<IpAddr>()
            .map_err(|e| Failure::new("bind", format!("{text}: {e}")))?,
        None if alone => IpAddr::V4(Ipv4Addr::LOCALHOST),
        None => return Err(Failure::new("bind", "no address was given for this rank")),
    };
    let of = |function: &str, e: &std::io::Error| io_failure(function, &address.to_string(), e);
    let listener = TcpListener::bind((address, 0)).map_err(|e| of("bind", &e))?;
    if let Some(mtu) = job.place.mtu {
        // A segment is shorter than its packet by the headers of IP and TCP.
        let headers = if address.is_ipv6() { 60 } else { 40 };
        let segment = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
        tcp_info::limit_segments(&listener, segment).map_err(|e| of("setsockopt", &e))?;
    }
    let message = job.place.message.unwrap_or(CHUNK as u64);
    let message = message.clamp(64, 1 << 30) as usize;
    let bound = listener.local_addr().map_err(|e| of("getsockname", &e))?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let lanes = (job.place.streams).map_or(cpus / here.max(1), |streams| streams as usize);
    let lanes = lanes.clamp(1, LANES);
    let own = Peer {
        address: bound,
        lanes,
        token: random::random_bytes().map_err(|e| of("getrandom", &e))?,
    };
    let given = exchange.all_gather(json!(own))?;
    let peers: Result<Vec<Peer>, _> = given.into_iter().map(serde_json::from_value).collect();
    let bad = |e| Failure::new("exchange", format!("another rank gave no address: {e}"));
    let peers = peers.map_err(bad)?;
    let lanes = peers.iter().map(|peer| peer.lanes).min().unwrap_or(1);
    let lanes = lanes.clamp(1, LANES);
    let s = if lanes == 1 { "" } else { "s" };
    let used = format!(
        "{address}, {lanes} connection{s}, {} a write",
        Bytes(message as u64)
    );
    let mut identity = Identity {
        device: Some(used.clone()),
        ..Identity::default()
    };
    exchange.report_identity(identity.clone());
    let mut tcp = TcpBackend {
        rank: exchange.rank,
        listener,
        peers,
        lanes: (0..lanes).map(|_| Lane::default()).collect(),
        own: BackendBuffer::default(),
        held: BackendBuffer::default(),
        work: BackendBuffer::default(),
        result: 0,
        sent: 0,
        in_place: false,
        message,
    };
    for lane in &mut tcp.lanes {
        lane.connections.resize_with(tcp.peers.len(), || None);
    }
    let ranks = tcp.peers.len();
    let (next, previous) = ((tcp.rank + 1) % ranks, (tcp.rank + ranks - 1) % ranks);
    tcp.connect_missing(&[next, previous])?;
    let stream = tcp.lanes[0].connections[next].as_ref();
    if let Some(segment) = stream.and_then(tcp_info::segment) {
        identity.device = Some(format!("{used}, {segment} B a segment"));
        exchange.report_identity(identity);
    }
    Ok(Box::new(tcp))
}

fn io_failure(function: &str, what: &str, e: &std::io::Error) -> Failure {
    Failure {
        function: function.into(),
        code: e.raw_os_error().map(i64::from),
        error: format!("{what}: {e}"),
    }
}

/// A rank: where it listens, how many lanes it has CPUs for, and the token that it requires.
#[derive(Serialize, Deserialize)]
struct Peer {
    address: SocketAddr,
    lanes: usize,
    token: [u8; 16],
}

#[derive(Default)]
struct Lane {
    /// By rank; `None` if there is no connection.
    connections: Vec<Option<TcpStream>>,
}

/// The memory of an operation, in huge pages if the kernel provides them: with small ones page
/// table walks take as long as the copy.
#[derive(Default)]
struct BackendBuffer {
    memory: Option<PageMemory>,
    length: usize,
}

impl BackendBuffer {
    /// Resizes the buffer; its content is lost if the size changes.
    fn hold(&mut self, length: usize) -> Result<(), Failure> {
        if self.length == length {
            return Ok(());
        }
        // Frees the old memory before mapping the new.
        *self = BackendBuffer::default();
        if length > 0 {
            let enomem = |errno: Errno| {
                let why = format!("no {length} bytes of memory");
                Failure::new("mmap", why).code(errno.0)
            };
            let mut memory = PageMemory::new(length).map_err(enomem)?;
            // Touches all pages, which must not be part of the measurement.
            memory.write(0..length).fill(0);
            (self.memory, self.length) = (Some(memory), length);
        }
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        let memory = self.memory.as_ref();
        memory.map_or(&[], |memory| memory.read(0..self.length))
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let length = self.length;
        let memory = self.memory.as_mut();
        memory.map_or(&mut [], |memory| memory.write(0..length))
    }
}

struct TcpBackend {
    rank: usize,
    listener: TcpListener,
    peers: Vec<Peer>,
    lanes: Vec<Lane>,
    /// The input; empty for an operation in place.
    own: BackendBuffer,
    held: BackendBuffer,
    work: BackendBuffer,
    /// Where in `held` the result begins, and the input of an operation in place.
    result: usize,
    sent: usize,
    in_place: bool,
    /// Bytes that are sent or received at once.
    message: usize,
}

impl TcpBackend {
    /// Connects to those of these ranks to which there is no connection yet. All ranks do this at
    /// the same time.
    fn connect_missing(&mut self, others: &[usize]) -> Result<(), Failure> {
        let mut missing: Vec<usize> = others.to_vec();
        missing.sort_unstable();
        missing.dedup();
        let connected = |other: &usize| self.lanes[0].connections[*other].is_some();
        missing.retain(|other| *other != self.rank && !connected(other));
        for other in missing.iter().filter(|other| **other > self.rank) {
            let peer = &self.peers[*other];
            let of = |function: &str, e: &std::io::Error| {
                io_failure(function, &format!("rank {other} at {}", peer.address), e)
            };
            for (number, lane) in self.lanes.iter_mut().enumerate() {
                let mut stream = TcpStream::connect(peer.address).map_err(|e| of("connect", &e))?;
                let hello = hello(peer.token, self.rank, number);
                stream.write_all(&hello).map_err(|e| of("send", &e))?;
                ready(&stream).map_err(|e| of("setsockopt", &e))?;
                lane.connections[*other] = Some(stream);
            }
        }
        let lower = missing.iter().filter(|other| **other < self.rank).count();
        let mut wanted = lower * self.lanes.len();
        while wanted > 0 {
            let of = |function: &str, e: &std::io::Error| io_failure(function, "listening", e);
            let (mut stream, _) = self.listener.accept().map_err(|e| of("accept", &e))?;
            // A peer without the token is not a rank.
            stream
                .set_read_timeout(Some(HELLO))
                .map_err(|e| of("setsockopt", &e))?;
            let mut said = [0; 32];
            let begun = clock::now();
            if stream.read_exact(&mut said).is_err() || begun.elapsed() > 2 * HELLO {
                continue;
            }
            let Some((rank, number)) = parse_hello(&said, self.peers[self.rank].token) else {
                continue;
            };
            let lane = self.lanes.get_mut(number);
            let place = lane.and_then(|lane| lane.connections.get_mut(rank));
            if let Some(place) = place.filter(|place| place.is_none()) {
                ready(&stream).map_err(|e| of("setsockopt", &e))?;
                *place = Some(stream);
                wanted -= 1;
            }
        }
        Ok(())
    }

    /// A barrier: one byte goes around the ring, and a second one confirms that it returned.
    fn ring_barrier(&mut self) -> Result<(), Failure> {
        let ranks = self.peers.len();
        if ranks < 2 {
            return Ok(());
        }
        let (next, previous) = ((self.rank + 1) % ranks, (self.rank + ranks - 1) % ranks);
        for _ in 0..2 {
            if self.rank != 0 {
                self.lanes[0].receive_byte(previous)?;
            }
            self.lanes[0].send_byte(next)?;
            if self.rank == 0 {
                self.lanes[0].receive_byte(previous)?;
            }
        }
        Ok(())
    }
}

fn hello(token: [u8; 16], rank: usize, lane: usize) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&token);
    bytes[16..24].copy_from_slice(&(rank as u64).to_be_bytes());
    bytes[24..].copy_from_slice(&(lane as u64).to_be_bytes());
    bytes
}

/// The peer's rank and lane, if its hello has this token.
fn parse_hello(bytes: &[u8; 32], token: [u8; 16]) -> Option<(usize, usize)> {
    let (said, rest) = bytes.split_first_chunk::<16>()?;
    let (rank, lane) = rest.split_first_chunk::<8>()?;
    let number = |bytes: &[u8; 8]| usize::try_from(u64::from_be_bytes(*bytes)).ok();
    (*said == token).then_some((number(rank)?, number(lane.first_chunk::<8>()?)?))
}

fn ready(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

impl Backend for TcpBackend {
    fn prepare(&mut self, _: &mut RankExchange, point: &Point) -> Result<(), Failure> {
        let (rank, ranks) = (self.rank, self.peers.len());
        let size = point.dtype.size();
        let elements = usize::try_from(point.bytes).unwrap_or(usize::MAX) / size;
        let shape = point.collective.shape(elements, ranks);
        if point.in_place
            && matches!(
                point.collective,
                Collective::AllToAll | Collective::SendRecv
            )
        {
            let name = point.collective.word();
            return Err(Failure::new(name, "this collective has no in-place form"));
        }
        let steps = rank_steps::plan_steps(point.collective, rank, ranks);
        let to = steps.sends.iter().map(|send| send.to);
        let from = steps.receives.iter().map(|receive| receive.from);
        self.connect_missing(&to.chain(from).collect::<Vec<_>>())?;
        let whole = elements / ranks * ranks * size;
        let needs_scratch = rank_steps::needs_scratch(point.collective, ranks);
        let work = if needs_scratch { whole } else { 0 };
        self.in_place = point.in_place;
        let (own, held) = if point.in_place {
            (0, shape.send.max(shape.receive) * size)
        } else {
            (shape.send * size, shape.receive * size)
        };
        // In place, a part is at its offset in the whole.
        let part = |part: usize, whole: usize| {
            if point.in_place && part < whole {
                rank * part * size
            } else {
                0
            }
        };
        self.result = part(shape.receive, shape.send);
        self.sent = part(shape.send, shape.receive);
        for (buffer, length) in [
            (&mut self.own, own),
            (&mut self.held, held),
            (&mut self.work, work),
        ] {
            buffer.hold(length)?;
        }
        Ok(())
    }

    fn fill(&mut self, at: usize, send: &[u8]) -> Result<(), Failure> {
        let (buffer, at) = if self.in_place {
            (&mut self.held, self.sent + at)
        } else {
            (&mut self.own, at)
        };
        buffer.bytes_mut()[at..at + send.len()].copy_from_slice(send);
        Ok(())
    }

    fn poison(&mut self) -> Result<(), Failure> {
        self.held.bytes_mut().fill(POISON);
        Ok(())
    }

    fn run(&mut self, _: &mut RankExchange, point: &Point) -> Result<Duration, Failure> {
        let ranks = self.peers.len();
        let steps = rank_steps::plan_steps(point.collective, self.rank, ranks);
        let (own_parts, held_parts) = rank_steps::parts(point.collective, ranks);
        let bytes = usize::try_from(point.bytes).unwrap_or(usize::MAX);
        let lanes = (bytes / OF_A_LANE).clamp(1, self.lanes.len());
        let pieces = (bytes / ranks.max(1) / lanes / PIECE).max(1);
        let held_parts = if self.in_place {
            own_parts.max(held_parts)
        } else {
            held_parts
        };
        self.ring_barrier()?;
        let size = point.dtype.size();
        let own = cut(self.own.bytes(), own_parts, lanes, size);
        let held = cut_mut(self.held.bytes_mut(), held_parts, lanes, size);
        let work = cut_mut(self.work.bytes_mut(), ranks, lanes, size);
        let own_is_held = self.in_place.then_some(InPlace {
            rank: self.rank,
            own_parts,
            held_parts: rank_steps::parts(point.collective, ranks).1,
        });
        let of_lanes = own.into_iter().zip(held).zip(work);
        let of_lanes = of_lanes.map(|((own, held), work)| LaneSlices {
            own,
            held,
            work,
            own_is_held,
        });
        let mut slices: Vec<LaneSlices<'_>> = of_lanes.collect();
        let (steps, message) = (&steps, self.message);
        let drive = |lane: &Lane, slices: &mut LaneSlices<'_>| -> Result<(), Failure> {
            let mut scratch = vec![0; message];
            for _ in 0..point.iterations {
                LaneOperation {
                    lane,
                    steps,
                    pieces,
                    dtype: point.dtype,
                    op: point.op,
                    scratch: &mut scratch,
                    kept: 0,
                }
                .operation(slices)?;
            }
            Ok(())
        };
        let begun = clock::now();
        let mut pairs = self.lanes.iter().zip(&mut slices);
        let first = pairs.next();
        let done = std::thread::scope(|scope| {
            let others: Vec<_> = pairs
                .map(|(lane, slices)| scope.spawn(move || drive(lane, slices)))
                .collect();
            let mut done = first.map_or(Ok(()), |(lane, slices)| drive(lane, slices));
            for other in others {
                let other = other
                    .join()
                    .unwrap_or_else(|_| Err(Failure::new("thread", "the thread panicked")));
                done = done.and(other);
            }
            done
        });
        done.map(|()| begun.elapsed())
    }

    fn result(&mut self, from: usize, into: &mut [u8]) -> Result<(), Failure> {
        let from = self.result + from;
        into.copy_from_slice(&self.held.bytes()[from..from + into.len()]);
        Ok(())
    }
}

/// The bounds of a lane's slice of a part, in elements.
fn bound(elements: usize, part: usize, parts: usize, lane: usize, lanes: usize) -> usize {
    let (begin, end) = (elements * part / parts, elements * (part + 1) / parts);
    begin + (end - begin) * lane / lanes
}

/// A lane's slices of each part, for each lane.
fn cut(buffer: &[u8], parts: usize, lanes: usize, size: usize) -> Vec<Vec<&[u8]>> {
    let elements = buffer.len() / size;
    (0..lanes)
        .map(|lane| {
            (0..parts)
                .map(|part| {
                    let at = |lane| bound(elements, part, parts, lane, lanes) * size;
                    &buffer[at(lane)..at(lane + 1)]
                })
                .collect()
        })
        .collect()
}

fn cut_mut(buffer: &mut [u8], parts: usize, lanes: usize, size: usize) -> Vec<Vec<&mut [u8]>> {
    let elements = buffer.len() / size;
    let mut cut: Vec<Vec<&mut [u8]>> = (0..lanes).map(|_| Vec::with_capacity(parts)).collect();
    let mut rest = buffer;
    for part in 0..parts {
        for (lane, slices) in cut.iter_mut().enumerate() {
            let at = |lane| bound(elements, part, parts, lane, lanes);
            let (slice, after) = rest.split_at_mut((at(lane + 1) - at(lane)) * size);
            slices.push(slice);
            rest = after;
        }
    }
    cut
}

/// How input and output share one buffer.
#[derive(Clone, Copy)]
struct InPlace {
    rank: usize,
    own_parts: usize,
    held_parts: usize,
}

/// A lane's slice of each part.
struct LaneSlices<'b> {
    own: Vec<&'b [u8]>,
    held: Vec<&'b mut [u8]>,
    work: Vec<&'b mut [u8]>,
    own_is_held: Option<InPlace>,
}

impl LaneSlices<'_> {
    /// The slice that holds a part.
    fn of(&self, part: Part) -> Part {
        let Some(place) = self.own_is_held else {
            return part;
        };
        match part {
            Part::Input(_) if place.own_parts < place.held_parts => Part::Output(place.rank),
            Part::Input(part) => Part::Output(part),
            Part::Output(_) if place.held_parts < place.own_parts => Part::Output(place.rank),
            other => other,
        }
    }

    fn read(&self, part: Part) -> &[u8] {
        match self.of(part) {
            Part::Input(part) => self.own[part],
            Part::Output(part) => self.held[part],
            Part::Scratch(part) => self.work[part],
        }
    }

    /// The slice to write, and the one to reduce it with if that is another.
    fn write(&mut self, part: Part, with: Option<Part>) -> (&mut [u8], Option<&[u8]>) {
        let (part, with) = (self.of(part), with.map(|with| self.of(with)));
        let other = |at: Part| Some(at).filter(|at| *at != part);
        match (part, with.and_then(other)) {
            (Part::Output(part), Some(Part::Input(with))) => {
                (&mut *self.held[part], Some(self.own[with]))
            }
            (Part::Scratch(part), Some(Part::Input(with))) => {
                (&mut *self.work[part], Some(self.own[with]))
            }
            (Part::Scratch(part), Some(Part::Output(with))) => {
                (&mut *self.work[part], Some(&*self.held[with]))
            }
            (Part::Scratch(part), _) => (&mut *self.work[part], None),
            (Part::Output(part) | Part::Input(part), _) => (&mut *self.held[part], None),
        }
    }
}

impl Lane {
    fn to(&self, rank: usize) -> Result<&TcpStream, Failure> {
        let connection = self.connections.get(rank).and_then(Option::as_ref);
        connection.ok_or_else(|| Failure::new("connect", format!("no connection to rank {rank}")))
    }

    fn send_byte(&self, to: usize) -> Result<(), Failure> {
        let mut stream = self.to(to)?;
        loop {
            match stream.write(&[1]) {
                Ok(1) => return Ok(()),
                Ok(_) => {}
                Err(e) => self.wait(&e, "send", to, PollFlags::OUT)?,
            }
        }
    }

    fn receive_byte(&self, from: usize) -> Result<(), Failure> {
        let mut stream = self.to(from)?;
        let mut byte = [0];
        loop {
            match stream.read(&mut byte) {
                Ok(0) => return Err(closed(from)),
                Ok(_) => return Ok(()),
                Err(e) => self.wait(&e, "recv", from, PollFlags::IN)?,
            }
        }
    }

    /// Waits until one of the connections is ready, if any is awaited.
    fn wait(
        &self,
        e: &std::io::Error,
        function: &str,
        peer: usize,
        flags: PollFlags,
    ) -> Result<(), Failure> {
        match e.kind() {
            ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(self.to(peer)?, flags)];
                pause(&mut fds)
            }
            ErrorKind::Interrupted => Ok(()),
            _ => Err(io_failure(function, &format!("rank {peer}"), e)),
        }
    }
}

fn pause(fds: &mut [PollFd<'_>]) -> Result<(), Failure> {
    match poll(fds, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(io_failure("poll", "connections", &e.into())),
    }
}

fn closed(rank: usize) -> Failure {
    Failure::new("recv", format!("rank {rank} closed the connection"))
}

/// The current step of the current piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct StepProgress {
    piece: usize,
    step: usize,
}

impl StepProgress {
    /// Advances to the next step.
    fn advance(&mut self, steps: usize) {
        self.step += 1;
        if self.step >= steps {
            (self.piece, self.step) = (self.piece + 1, 0);
        }
    }
}

/// One operation on one lane.
struct LaneOperation<'d> {
    lane: &'d Lane,
    steps: &'d RankSteps,
    /// The number of pieces of each part: the same on all ranks.
    pieces: usize,
    dtype: DataType,
    op: Reduction,
    scratch: &'d mut [u8],
    /// Bytes in `scratch` of an incomplete element.
    kept: usize,
}

impl LaneOperation<'_> {
    fn operation(mut self, slices: &mut LaneSlices<'_>) -> Result<(), Failure> {
        for (from, to) in &self.steps.copies {
            // The same memory if the operation is in place.
            if let (to, Some(from)) = slices.write(*to, Some(*from)) {
                to.copy_from_slice(from);
            }
        }
        // The current send and receive, piece by piece, with their progress in bytes.
        let steps = self.steps;
        let (mut send, mut sent) = (StepProgress::default(), 0);
        let (mut receive, mut received) = (StepProgress::default(), 0);
        loop {
            let mut moved = false;
            let mut waits_for = None;
            while let Some(step) = self.at(&steps.receives, receive) {
                let bounds = self.bounds(slices.read(step.into), receive.piece);
                if received == bounds.len() {
                    receive.advance(steps.receives.len());
                    received = 0;
                    continue;
                }
                match self.receive(slices, step, bounds.start + received, bounds.end)? {
                    Some(bytes) => {
                        received += bytes;
                        moved = true;
                    }
                    None => waits_for = Some(step.from),
                }
                break;
            }
            let mut may_send = None;
            while let Some(step) = self.at(&steps.sends, send) {
                let part = slices.read(step.from);
                let part = &part[self.bounds(part, send.piece)];
                if sent == part.len() {
                    send.advance(steps.sends.len());
                    sent = 0;
                    continue;
                }
                let there = match step
                    .after
                    .map(|step| receive.cmp(&StepProgress { step, ..send }))
                {
                    Some(Ordering::Less) => 0,
                    Some(Ordering::Equal) => received,
                    Some(Ordering::Greater) | None => part.len(),
                };
                if there == sent {
                    break;
                }
                let end = there.min(sent + self.scratch.len());
                let mut stream = self.lane.to(step.to)?;
                match stream.write(&part[sent..end]) {
                    Ok(bytes) => {
                        sent += bytes;
                        moved = true;
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => may_send = Some(step.to),
                    Err(e) if e.kind() == ErrorKind::Interrupted => moved = true,
                    Err(e) => return Err(io_failure("send", &format!("rank {}", step.to), &e)),
                }
                break;
            }
            let done = self.at(&steps.sends, send).is_none();
            if done && self.at(&steps.receives, receive).is_none() {
                return Ok(());
            }
            if !moved {
                let mut fds = Vec::with_capacity(2);
                if let Some(from) = waits_for {
                    fds.push(PollFd::new(self.lane.to(from)?, PollFlags::IN));
                }
                if let Some(to) = may_send {
                    fds.push(PollFd::new(self.lane.to(to)?, PollFlags::OUT));
                }
                // Otherwise only step boundaries were crossed.
                if !fds.is_empty() {
                    pause(&mut fds)?;
                }
            }
        }
    }

    /// The current step.
    fn at<'s, S>(&self, steps: &'s [S], turn: StepProgress) -> Option<&'s S> {
        if turn.piece < self.pieces {
            steps.get(turn.step)
        } else {
            None
        }
    }

    /// Where a piece of a part is.
    fn bounds(&self, part: &[u8], piece: usize) -> Range<usize> {
        let size = self.dtype.size();
        let at = |piece: usize| part.len() / size * piece / self.pieces * size;
        at(piece)..at(piece + 1)
    }

    /// Receives bytes of a step, within one piece; returns how many, `None` if none were available.
    fn receive(
        &mut self,
        slices: &mut LaneSlices<'_>,
        step: &ReceiveStep,
        at: usize,
        end: usize,
    ) -> Result<Option<usize>, Failure> {
        let (into, own) = slices.write(step.into, step.with);
        let mut stream = self.lane.to(step.from)?;
        let end = end.min(at + self.scratch.len());
        let read = match step.with {
            None => stream.read(&mut into[at..end]),
            Some(_) => {
                let room = (end - at).min(self.scratch.len());
                stream.read(&mut self.scratch[self.kept..room])
            }
        };
        let bytes = match read {
            Ok(0) => return Err(closed(step.from)),
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(e) if e.kind() == ErrorKind::Interrupted => return Ok(Some(0)),
            Err(e) => return Err(io_failure("recv", &format!("rank {}", step.from), &e)),
        };
        if step.with.is_none() {
            return Ok(Some(bytes));
        }
        let there = self.kept + bytes;
        let whole = there / self.dtype.size() * self.dtype.size();
        element::combine(
            self.dtype,
            self.op,
            &mut into[at..at + whole],
            own.map(|own| &own[at..at + whole]),
            &self.scratch[..whole],
        );
        self.scratch.copy_within(whole..there, 0);
        self.kept = there - whole;
        Ok(Some(whole))
    }
}
