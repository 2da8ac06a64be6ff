//! Connections whose node has not proved yet that it belongs to the run: each has one deadline, and
//! no address can take all places.

use crate::live::clock;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long a whole greeting may take, however slowly its bytes arrive.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);
/// How many greetings are served at once; more wait in the kernel's queue.
pub(super) const MAX_GREETINGS: usize = 512;
/// How many of these addresses may have that are not of the job, where its addresses are known.
const MAX_OF_STRANGERS: usize = MAX_GREETINGS / 4;
/// How many of these one address may have.
const MAX_OF_ADDRESS: usize = 64;
/// How many connections may wait for a place; further ones are closed, and their nodes connect
/// again.
pub(super) const MAX_WAITING: usize = 1024;
/// A greeting that has lasted so long gives its place to a newer one of its address: that of a node
/// takes a few milliseconds, and more on a busy machine.
const SLOW_GREETING: Duration = Duration::from_secs(1);

/// A stream whose reads and writes fail when the greeting's time is over.
pub(super) struct GreetingStream<'s> {
    stream: &'s mut TcpStream,
    ends: Instant,
}

impl<'s> GreetingStream<'s> {
    /// Begins a greeting on an accepted connection.
    pub(super) fn begin(stream: &'s mut TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let ends = clock::now() + GREETING_TIMEOUT;
        Ok(GreetingStream { stream, ends })
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.ends.saturating_duration_since(clock::now());
        if left.is_zero() {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "its greeting took too long",
            ))
        } else {
            Ok(left)
        }
    }
}

impl Read for GreetingStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for GreetingStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A greeting that is being served.
struct Greeting {
    number: u64,
    from: IpAddr,
    /// Whether its address is known not to be one of the job's.
    is_stranger: bool,
    since: Instant,
    /// A second handle, to end it.
    stream: TcpStream,
}

/// Why a connection is not served now.
pub(super) enum AdmitError {
    /// Its address has its share of the places.
    Wait,
    /// No descriptor is left for it.
    NoDescriptor,
}

/// The greetings that are being served.
#[derive(Default)]
pub(super) struct Greetings {
    served: Vec<Greeting>,
    next: u64,
}

impl Greetings {
    /// Whether another one can be served.
    pub(super) fn have_room(&self) -> bool {
        self.served.len() < MAX_GREETINGS
    }

    /// Takes a connection in. `is_expected` says whether an address is one of the job's, where
    /// these are known.
    pub(super) fn admit(
        &mut self,
        stream: &TcpStream,
        at: SocketAddr,
        is_expected: impl Fn(IpAddr) -> Option<bool>,
    ) -> Result<u64, AdmitError> {
        let from = at.ip().to_canonical();
        let of_address = self.served.iter().filter(|one| one.from == from);
        if of_address.count() >= MAX_OF_ADDRESS {
            // They are in the order in which they came.
            let mut all = self.served.iter();
            let oldest = all.position(|one| one.from == from);
            match oldest.filter(|at| self.served[*at].since.elapsed() >= SLOW_GREETING) {
                // It may be closed already.
                Some(oldest) => {
                    let _ = self.served.remove(oldest).stream.shutdown(Shutdown::Both);
                }
                None => return Err(AdmitError::Wait),
            }
        }
        let is_stranger = is_expected(from) == Some(false);
        let strangers = self.served.iter().filter(|one| one.is_stranger);
        if is_stranger && strangers.count() >= MAX_OF_STRANGERS {
            return Err(AdmitError::Wait);
        }
        let second = stream.try_clone();
        let second = second.map_err(|_| AdmitError::NoDescriptor)?;
        let number = self.next;
        self.next += 1;
        self.served.push(Greeting {
            number,
            from,
            is_stranger,
            since: clock::now(),
            stream: second,
        });
        Ok(number)
    }

    /// Ends one: its node is admitted, or was refused.
    pub(super) fn end(&mut self, number: u64) {
        self.served.retain(|one| one.number != number);
    }
}
