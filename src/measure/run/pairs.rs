//! Measurements between two nodes over sockets: reachability, packet size, bandwidth and round
//! trip. RDMA writes are measured in [`rdma`].
//!
//! Each adapter has a *responder*: a TCP listener that answers pings, receives data and echoes
//! bytes, and a UDP socket that reports the size of packets. It ignores peers without its token.

pub mod backend_decision;
mod dial;
pub mod other_networks;
mod packet;
pub mod port_process;
pub mod rdma;
mod rdma_pair;
pub mod rounds;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

pub use packet::largest_packet;

use crate::live::clock;
use crate::measure::plan::pairs::{Counted, Flow};
use crate::source::Errno;

/// Proves that a request comes from a node of the run.
pub type Token = [u8; 16];

/// How long a peer may take to send its request.
const HELLO: Duration = Duration::from_secs(5);
/// How often a responder checks whether it must stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes that are sent or received at once.
const CHUNK: usize = 256 << 10;
/// How long data may be under way after the sending ended.
const LATE: Duration = Duration::from_secs(3);
/// How many connections a responder serves at once: one that measures, and pings.
const MAX_CONNECTIONS: usize = 1024;

/// A request to a responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeRequest {
    /// Only answer.
    Ping,
    /// Receive data for this many milliseconds, and report how much arrived.
    Receive(u32),
    /// Send each byte back.
    Echo,
}

impl ProbeRequest {
    fn bytes(self, token: &Token) -> [u8; 24] {
        let (kind, number) = match self {
            ProbeRequest::Ping => (1, 0),
            ProbeRequest::Receive(ms) => (2, ms),
            ProbeRequest::Echo => (3, 0),
        };
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(token);
        bytes[16] = kind;
        bytes[20..].copy_from_slice(&u32::to_be_bytes(number));
        bytes
    }

    fn read(bytes: &[u8; 24], token: &Token) -> Option<Self> {
        let (said, rest) = bytes.split_first_chunk::<16>()?;
        if said != token {
            return None;
        }
        let number = u32::from_be_bytes(*rest.last_chunk()?);
        match rest.first()? {
            1 => Some(ProbeRequest::Ping),
            2 => Some(ProbeRequest::Receive(number)),
            3 => Some(ProbeRequest::Echo),
            _ => None,
        }
    }
}

/// An adapter's responder. It stops when it is dropped.
pub struct Responder {
    /// Its TCP port.
    pub tcp: u16,
    /// Its UDP port.
    pub udp: u16,
    stop: Arc<AtomicBool>,
}

impl Responder {
    /// Starts a responder on an address.
    ///
    /// # Errors
    ///
    /// The address is not one of this node's, or no port is free.
    pub fn open(address: IpAddr, token: Token) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::new(address, 0))?;
        listener.set_nonblocking(true)?;
        let packets = UdpSocket::bind(SocketAddr::new(address, 0))?;
        packets.set_read_timeout(Some(POLL_INTERVAL))?;
        let stop = Arc::new(AtomicBool::new(false));
        let post = Responder {
            tcp: listener.local_addr()?.port(),
            udp: packets.local_addr()?.port(),
            stop: Arc::clone(&stop),
        };
        let stopped = Arc::clone(&stop);
        Builder::new().spawn(move || accept_requests(&listener, token, &stopped))?;
        Builder::new().spawn(move || packet::answer(&packets, token, &stop))?;
        Ok(post)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Accepts connections until it must stop.
fn accept_requests(listener: &TcpListener, token: Token, stop: &AtomicBool) {
    let visitors = Arc::new(());
    while !stop.load(Ordering::Relaxed) {
        let full = Arc::strong_count(&visitors) > MAX_CONNECTIONS;
        match listener.accept() {
            Ok((stream, _)) if !full => {
                let visitor = Arc::clone(&visitors);
                // Without a thread the connection is closed.
                let _ = Builder::new().spawn(move || {
                    // The other end reports a connection that breaks.
                    let _ = serve(stream, &token);
                    drop(visitor);
                });
            }
            // Beyond the limit the connection is closed.
            Ok(_) => {}
            Err(_) => {
                let _ = wait_readable(listener);
            }
        }
    }
}

fn wait_readable(listener: &TcpListener) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let tick = Timespec::try_from(POLL_INTERVAL).map_err(io::Error::other)?;
    poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&tick))?;
    Ok(())
}

fn serve(mut stream: TcpStream, token: &Token) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HELLO))?;
    stream.set_write_timeout(Some(HELLO))?;
    let mut said = [0; 24];
    stream.read_exact(&mut said)?;
    match ProbeRequest::read(&said, token) {
        None => Ok(()),
        Some(ProbeRequest::Ping) => stream.write_all(b"k"),
        Some(ProbeRequest::Echo) => {
            let mut byte = [0];
            while stream.read(&mut byte)? > 0 {
                stream.write_all(&byte)?;
            }
            Ok(())
        }
        Some(ProbeRequest::Receive(ms)) => {
            let mut chunk = vec![0; CHUNK];
            let window = Duration::from_millis(ms.into());
            let mut taken = stream.read(&mut chunk)? as u64;
            let began = clock::now();
            let mut last = began;
            loop {
                let left = window.saturating_sub(began.elapsed());
                if left.is_zero() {
                    break;
                }
                stream.set_read_timeout(Some(left))?;
                match stream.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(bytes) => {
                        taken += bytes as u64;
                        last = clock::now();
                    }
                    Err(error) if is_late(&error) => break,
                    Err(error) => return Err(error),
                }
            }
            // A window that ended without further data counts in full.
            let end = if began.elapsed() >= window {
                window
            } else {
                last - began
            };
            let mut report = [0; 16];
            report[..8].copy_from_slice(&taken.to_be_bytes());
            let micros = u64::try_from(end.as_micros()).unwrap_or(u64::MAX);
            report[8..].copy_from_slice(&micros.to_be_bytes());
            stream.write_all(&report)?;
            // Drains the rest, so that the sender sees no reset.
            stream.set_read_timeout(Some(LATE))?;
            while began.elapsed() < window + 2 * LATE && stream.read(&mut chunk)? > 0 {}
            Ok(())
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Pings a responder, and returns the time until it answered.
///
/// # Errors
///
/// Why it did not answer.
pub fn ping(
    from: IpAddr,
    to: SocketAddr,
    token: &Token,
    wait: Duration,
) -> Result<Duration, String> {
    let began = clock::now();
    let mut stream = dial::connect(from, to, wait).map_err(|e| no_connection(&e))?;
    let mut answer = [0];
    let mut ask = || -> io::Result<()> {
        stream.set_read_timeout(Some(wait))?;
        stream.set_write_timeout(Some(wait))?;
        stream.write_all(&ProbeRequest::Ping.bytes(token))?;
        stream.read_exact(&mut answer)
    };
    match ask() {
        Ok(()) => Ok(began.elapsed()),
        Err(error) if is_late(&error) => Err("connected, but got no answer".into()),
        Err(error) => Err(no_connection(&error)),
    }
}

/// Why a connection failed, in a few words.
pub fn no_connection(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "no answer".into(),
        ErrorKind::ConnectionRefused => "refused".into(),
        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => "closed by the other end".into(),
        ErrorKind::HostUnreachable => "no route to the host".into(),
        ErrorKind::NetworkUnreachable => "no route to the network".into(),
        _ => match error.raw_os_error().map(Errno) {
            // What connect(2) says of routes of the own node.
            Some(Errno::EINVAL) => "its own route is a blackhole".into(),
            Some(Errno::EACCES) => "its own route prohibits it".into(),
            Some(Errno::EPERM) => "its own packet filter or policy refuses it".into(),
            Some(errno) => errno.meaning(),
            None => error.to_string(),
        },
    }
}

/// Measures the bandwidth of a connection to a responder and the shortest round trip of a byte.
pub fn measure_flow(from: IpAddr, to: SocketAddr, token: &Token, window: Duration) -> Flow {
    let round_trip = match measure_round_trip(from, to, token, window / 5) {
        Ok(least) => least,
        Err(error) => return Flow::failed(no_connection(&error)),
    };
    match send_data(from, to, token, window) {
        Ok(flow) => Flow {
            round_trip_ns: u64::try_from(round_trip.as_nanos()).ok(),
            ..flow
        },
        Err(error) => Flow::failed(no_connection(&error)),
    }
}

/// How long an answer is waited for: where data flows for a moment only, somebody waits for all of it.
fn patience(window: Duration) -> Duration {
    LATE.min(40 * window)
}

fn measure_round_trip(
    from: IpAddr,
    to: SocketAddr,
    token: &Token,
    window: Duration,
) -> io::Result<Duration> {
    let patience = patience(5 * window);
    let mut stream = dial::connect(from, to, patience)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(&ProbeRequest::Echo.bytes(token))?;
    let began = clock::now();
    let mut least = Duration::MAX;
    while began.elapsed() < window || least == Duration::MAX {
        let sent = clock::now();
        stream.write_all(b"e")?;
        stream.read_exact(&mut [0])?;
        least = least.min(sent.elapsed());
    }
    Ok(least)
}

fn send_data(from: IpAddr, to: SocketAddr, token: &Token, window: Duration) -> io::Result<Flow> {
    let mut stream = dial::connect(from, to, patience(window))?;
    stream.set_read_timeout(Some(window + patience(window)))?;
    // Blocked writes return often enough to notice the end of the window.
    stream.set_write_timeout(Some(POLL_INTERVAL))?;
    let ms = u32::try_from(window.as_millis()).unwrap_or(u32::MAX);
    stream.write_all(&ProbeRequest::Receive(ms).bytes(token))?;
    let chunk = vec![0x5a; CHUNK];
    let began = clock::now();
    while began.elapsed() < window {
        match stream.write(&chunk) {
            Ok(_) => {}
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let counted = crate::live::tcp_info::read(&stream);
    let mut report = [0; 16];
    stream.read_exact(&mut report)?;
    // Discards unsent data on close.
    let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    Ok(Flow {
        bytes: number(&report[..8]),
        micros: number(&report[8..]),
        segments: counted.map(|c| c.segments),
        again: counted.map(|c| c.again),
        ..Flow::default()
    })
}

/// The counters of an interface for lost packets: drops and errors of each direction.
const LOSSES: [&str; 9] = [
    "rx_crc_errors",
    "rx_dropped",
    "rx_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "tx_carrier_errors",
    "tx_dropped",
    "tx_errors",
    "tx_fifo_errors",
];

/// The current counters of an interface (Documentation/ABI/testing/sysfs-class-net-statistics).
#[expect(clippy::disallowed_methods, reason = "the counters are read")]
pub fn counters(interface: &str) -> Counted {
    let mut counted = BTreeMap::new();
    // Rejects names that would leave the directory.
    if interface.contains('/') || interface == ".." {
        return counted;
    }
    for name in LOSSES {
        let path = format!("/sys/class/net/{interface}/statistics/{name}");
        let text = std::fs::read_to_string(path).ok();
        if let Some(number) = text.and_then(|text| text.trim().parse().ok()) {
            counted.insert(name.to_owned(), number);
        }
    }
    counted
}

/// The current values of a port's (`mlx5_0/1`) `wanted` counters
/// (Documentation/ABI/stable/sysfs-class-infiniband: `counters` and `hw_counters`; some drivers,
/// such as mlx4 and bnxt_re, have the latter at the device).
#[expect(clippy::disallowed_methods, reason = "the counters are read")]
pub fn port_counters(port: &str, wanted: impl Fn(&str) -> bool) -> Counted {
    let mut counted = BTreeMap::new();
    let Some((device, number)) = port.split_once('/') else {
        return counted;
    };
    if device.is_empty() || device.starts_with('.') || number.parse::<u8>().is_err() {
        return counted;
    }
    let device = format!("/sys/class/infiniband/{device}");
    for folder in [
        format!("{device}/ports/{number}/counters"),
        format!("{device}/ports/{number}/hw_counters"),
        format!("{device}/hw_counters"),
    ] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().ok();
            let Some(name) = name.filter(|name| wanted(name) && !counted.contains_key(name)) else {
                continue;
            };
            let text = std::fs::read_to_string(entry.path()).ok();
            if let Some(number) = text.and_then(|text| text.trim().parse().ok()) {
                counted.insert(name, number);
            }
        }
    }
    counted
}

/// The counters that rose between two readings.
pub fn risen(before: &Counted, after: &Counted) -> Counted {
    let rise = |(name, now): (&String, &u64)| {
        let by = now.checked_sub(*before.get(name)?)?;
        (by > 0).then(|| (name.clone(), by))
    };
    after.iter().filter_map(rise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = [7; 16];
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn requests_need_the_token() {
        for wish in [
            ProbeRequest::Ping,
            ProbeRequest::Receive(250),
            ProbeRequest::Echo,
        ] {
            let bytes = wish.bytes(&TOKEN);
            assert_eq!(ProbeRequest::read(&bytes, &TOKEN), Some(wish));
            assert_eq!(ProbeRequest::read(&bytes, &[8; 16]), None);
        }
    }

    #[test]
    fn a_post_answers_takes_and_echoes() {
        let post = Responder::open(HERE, TOKEN).unwrap();
        let at = SocketAddr::new(HERE, post.tcp);
        let wait = Duration::from_secs(5);
        assert!(ping(HERE, at, &TOKEN, wait).is_ok());
        let strange = ping(HERE, at, &[8; 16], wait);
        assert_eq!(strange, Err("closed by the other end".into()));
        let flow = measure_flow(HERE, at, &TOKEN, Duration::from_millis(100));
        assert_eq!(flow.failed, None);
        assert!(flow.rate().unwrap() > 1e6, "{flow:?}");
        assert!(flow.round_trip_ns.unwrap() > 0 && flow.segments.unwrap() > 0);
        let packets = SocketAddr::new(HERE, post.udp);
        assert_eq!(
            largest_packet(HERE, packets, &TOKEN, 65_000),
            Ok(Some(65_000))
        );
        drop(post);
        std::thread::sleep(5 * POLL_INTERVAL);
        assert_eq!(ping(HERE, at, &TOKEN, wait), Err("refused".into()));
    }

    #[test]
    fn counters_are_differences() {
        let of = |n: u64, m: u64| -> Counted {
            [("rx_dropped".to_owned(), n), ("tx_errors".to_owned(), m)].into()
        };
        assert_eq!(
            risen(&of(3, 5), &of(10, 5)),
            [("rx_dropped".to_owned(), 7)].into()
        );
        assert!(counters("lo").contains_key("rx_dropped"));
        assert!(counters("../lo").is_empty());
        assert!(port_counters("../net/lo/1", |_| true).is_empty());
        assert!(port_counters("mlx5_99/1", |_| true).is_empty());
    }
}
