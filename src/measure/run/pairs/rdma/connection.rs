//! A reliable connection to another node's port, and the measurements over it.

use std::net::Ipv6Addr;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{GreetingResult, WriteResult};
use crate::live::clock;
use crate::live::failure::Failure;
use crate::live::verbs::address::{Address, mtu_bytes};
use crate::live::verbs::failure::LibraryCall;
use crate::live::verbs::library::completion::{Arrival, CompletionQueue, status_words};
use crate::live::verbs::library::context::Context;
use crate::live::verbs::library::domain::Domain;
use crate::live::verbs::library::pair::{Attempts, LocalEndpoint, QueuePair, Target};

/// Bytes of a write: as perftest's `ib_write_bw`, and enough for any link.
const PIECE: usize = 64 << 10;
/// The most writes under way.
const DEPTH: usize = 64;
/// The data under way is limited to what was carried in this time, so that a link that loses every
/// second packet drains soon after the window.
const AHEAD: Duration = Duration::from_millis(20);
/// The fewest writes under way.
const LEAST: usize = 2;
/// How many writes are enough to see whether data gets there: 1 MB.
pub(super) const ENOUGH_TO_SEE: usize = 16;
/// Bytes of a word.
const WORD: usize = 8;
/// Words that may arrive before they are polled.
const RECEIVES: u32 = 16;
/// How long the device may take to acknowledge or to give up: seven retries with a timeout up to
/// four times the requested one (IBTA, vol. 1, 9.7.6.1.3).
const GIVING_UP: Duration = Duration::from_secs(60);
/// How long to wait for a word once the other direction is known to work, and once it is known not
/// to.
const ON_ITS_WAY: Duration = Duration::from_secs(5);
const A_MOMENT: Duration = Duration::from_millis(500);
/// How long to spin before yielding the processor, and to yield before sleeping: soft-RoCE needs
/// it, too.
const SPINNING: Duration = Duration::from_micros(20);
const YIELDING: Duration = Duration::from_millis(1);
/// The longest sleep.
const ASLEEP: Duration = Duration::from_millis(20);
/// The words.
const GREETING: u32 = 1;
const QUESTION: u32 = 2;
const ANSWER: u32 = 3;
const ENOUGH: u32 = 4;
/// `IBV_WC_WR_FLUSH_ERR`: work that was flushed because an earlier request failed.
const FLUSHED: u32 = 5;

/// The address that the other end needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConnectionEnd {
    address: Address,
    /// The queue pair's number.
    pair: u32,
    memory: u64,
    key: u32,
}

/// Ids of work requests.
const WRITE: u64 = 0;
const SAY: u64 = 1;
const RECEIVE: u64 = 2;

/// Registered memory, host's or GPU's: its local key, and its remote key for the other end. It
/// outlives the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryRegion {
    pub(super) near: Target,
    pub(super) far: Target,
}

/// A queue pair, and the memory that it writes from and to.
pub(super) struct Connection {
    pair: QueuePair,
    queue: Rc<CompletionQueue>,
    region: MemoryRegion,
    near: LocalEndpoint,
    attempts: Attempts,
    end: ConnectionEnd,
    /// The other end, once connected.
    far: Option<ConnectionEnd>,
}

/// The completions since the last poll.
#[derive(Default)]
struct CompletedWork {
    written: usize,
    said: usize,
    heard: Vec<u32>,
    failed: Option<String>,
}

impl Connection {
    /// Bytes of the region: the pieces under way, and the words.
    pub(super) const MEMORY: usize = DEPTH * PIECE + 4096;
    /// The pieces.
    pub(super) const DATA: Range<usize> = 0..DEPTH * PIECE;
    const WORDS: Range<usize> = DEPTH * PIECE..DEPTH * PIECE + WORD;

    /// A new queue pair, not yet connected.
    pub(super) fn new(
        context: &Rc<Context>,
        domain: &Rc<Domain>,
        region: MemoryRegion,
        (near, attempts): (LocalEndpoint, Attempts),
        address: Address,
    ) -> Result<Self, Failure> {
        let sends = DEPTH as u32 + 8;
        let room = (sends + RECEIVES) as usize;
        let queue = CompletionQueue::new(context, room)
            .in_call("ibv_create_cq", format_args!("{room} entries"))?;
        let queue = Rc::new(queue);
        let pair = QueuePair::new(domain, &queue, sends, RECEIVES).in_call("ibv_create_qp", "")?;
        pair.initialise(&near).in_call("ibv_modify_qp", "INIT")?;
        for _ in 0..RECEIVES {
            pair.receive(RECEIVE).in_call("ibv_post_recv", "")?;
        }
        let end = ConnectionEnd {
            address,
            pair: pair.number(),
            memory: region.far.address,
            key: region.far.key,
        };
        Ok(Connection {
            pair,
            queue,
            region,
            near,
            attempts,
            end,
            far: None,
        })
    }

    /// The address that the other end needs.
    pub(super) fn end(&self) -> &ConnectionEnd {
        &self.end
    }

    /// The byte that this end writes, and the byte of the other end: they differ on every
    /// connection.
    pub(super) fn marks(&self) -> (u8, u8) {
        const MARKS: (u8, u8) = (0x5a, 0xa5);
        let place = |end: &ConnectionEnd| (end.address.gid, end.address.lid, end.pair, end.key);
        match &self.far {
            Some(far) if place(far) < place(&self.end) => (MARKS.1, MARKS.0),
            _ => MARKS,
        }
    }

    /// The failure for data that arrived wrong.
    pub(super) fn mismatch_failure(&self, wrong: usize, of: usize) -> Failure {
        let from = self.far.as_ref().map(|far| far.address.gid);
        let from = from.map_or("?".to_owned(), |from| from.to_string());
        failed(format!(
            "{wrong} of {of} bytes arrived wrong: RDMA write from GID {from} to GID {}",
            self.end.address.gid
        ))
    }

    /// Connects it; returns how many bytes its packets carry.
    pub(super) fn connect(&mut self, far: ConnectionEnd) -> Result<u64, Failure> {
        let (own, theirs) = (&self.end.address, &far.address);
        if own.ethernet != theirs.ethernet {
            return Err(Failure::new(
                "connect",
                format!(
                    "this port is {}, the other one {}",
                    own.kind(),
                    theirs.kind()
                ),
            ));
        }
        let to = format!("from GID {} to GID {}", own.gid, theirs.gid);
        let way = own.far(theirs, far.pair);
        self.pair
            .ready_to_receive(&self.near, &way)
            .in_call("ibv_modify_qp", format_args!("RTR, {to}"))?;
        self.pair
            .ready_to_send(&self.near, self.attempts)
            .in_call("ibv_modify_qp", format_args!("RTS, {to}"))?;
        self.far = Some(far);
        Ok(u64::from(mtu_bytes(way.mtu)))
    }

    /// A word each way.
    pub(super) fn greet(&mut self) -> GreetingResult {
        let (mut own, mut heard) = (None, false);
        if let Err(failure) = self.send_word(GREETING) {
            own = Some(Err(failure.to_string()));
        }
        let begun = clock::now();
        let mut rest = IdleWait::default();
        loop {
            let look = match self.poll_completions() {
                Ok(look) => look,
                Err(failure) => {
                    own.get_or_insert(Err(failure.to_string()));
                    break;
                }
            };
            heard |= look.heard.contains(&GREETING);
            if look.said > 0 {
                own.get_or_insert(Ok(()));
            }
            if let Some(why) = look.failed {
                own.get_or_insert(Err(why));
            }
            let late = begun.elapsed() > GIVING_UP;
            match (&own, heard) {
                (Some(_), true) => break,
                (Some(Err(_)), false) if begun.elapsed() > A_MOMENT => break,
                (Some(Ok(())), false) if begun.elapsed() > ON_ITS_WAY => break,
                _ if late => break,
                _ => {}
            }
            rest.wait(&self.queue);
        }
        let silent = || Err(format!("no completion within {} s", GIVING_UP.as_secs()));
        GreetingResult {
            own: own.unwrap_or_else(silent),
            heard,
        }
    }

    /// Writes data to the other end for `window`, and so many pieces at most.
    pub(super) fn write_for(
        &mut self,
        window: Duration,
        most: Option<usize>,
    ) -> Result<WriteResult, Failure> {
        let begun = clock::now();
        let (mut under_way, mut done, mut next) = (0, 0usize, 0);
        let mut last = begun;
        let mut rest = IdleWait::default();
        loop {
            let passed = begun.elapsed();
            let is_enough = most.is_some_and(|most| done + under_way >= most);
            let is_over = passed >= window || is_enough;
            let allowed = (done as u128 * AHEAD.as_nanos()) / passed.as_nanos().max(1);
            let allowed = usize::try_from(allowed)
                .unwrap_or(DEPTH)
                .clamp(LEAST, DEPTH);
            let room = most.map_or(allowed, |most| allowed.min(most.saturating_sub(done)));
            while !is_over && under_way < room {
                let from = next * PIECE..(next + 1) * PIECE;
                let to = self.target(from.start);
                self.pair
                    .write(WRITE, self.region.near, from, to, None)
                    .in_call("ibv_post_send", "")?;
                next = (next + 1) % DEPTH;
                under_way += 1;
            }
            let look = self.poll_completions()?;
            if let Some(why) = look.failed {
                return Err(failed(why));
            }
            if look.written > 0 {
                done += look.written;
                under_way -= look.written.min(under_way);
                last = clock::now();
                rest = IdleWait::default();
            }
            if is_over && under_way == 0 {
                break;
            }
            if begun.elapsed() > window + GIVING_UP {
                let seconds = GIVING_UP.as_secs();
                return Err(failed(format!(
                    "{under_way} writes were not acknowledged within {seconds} s"
                )));
            }
            if look.written == 0 {
                rest.wait(&self.queue);
            }
        }
        let bytes = (done * PIECE) as u64;
        let mtu = match &self.far {
            Some(far) => mtu_bytes(self.end.address.mtu.min(far.address.mtu)),
            None => 0,
        };
        Ok(WriteResult {
            bytes,
            micros: u64::try_from((last - begun).as_micros()).unwrap_or(u64::MAX),
            packets: bytes.div_ceil(u64::from(mtu.max(256))),
        })
    }

    /// Writes words, each once the last one was answered; returns the shortest round trip in
    /// nanoseconds.
    pub(super) fn measure_latency(&mut self, window: Duration) -> Result<u64, Failure> {
        let begun = clock::now();
        let mut least = Duration::MAX;
        while begun.elapsed() < window || least == Duration::MAX {
            let asked = clock::now();
            self.send_word(QUESTION)?;
            self.wait_for(&[ANSWER])?;
            least = least.min(asked.elapsed());
        }
        self.send_word(ENOUGH)?;
        self.wait_for(&[])?;
        Ok(u64::try_from(least.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Answers words until the other end stops.
    pub(super) fn answer(&mut self) -> Result<(), Failure> {
        while self.wait_for_word(&[QUESTION, ENOUGH])? == QUESTION {
            self.send_word(ANSWER)?;
        }
        Ok(())
    }

    /// Waits until this end's word is acknowledged and one of `words` has arrived; if there are
    /// none, only for the acknowledgement.
    fn wait_for(&mut self, words: &[u32]) -> Result<(), Failure> {
        self.wait(1, words).map(|_| ())
    }

    fn wait_for_word(&mut self, words: &[u32]) -> Result<u32, Failure> {
        let came = self.wait(0, words)?;
        came.ok_or_else(|| failed("no word arrived".to_owned()))
    }

    fn wait(&mut self, acknowledged: usize, words: &[u32]) -> Result<Option<u32>, Failure> {
        let begun = clock::now();
        let (mut said, mut came) = (0, None);
        let mut rest = IdleWait::default();
        loop {
            let look = self.poll_completions()?;
            if let Some(why) = look.failed {
                return Err(failed(why));
            }
            said += look.said;
            came = came.or_else(|| look.heard.into_iter().find(|word| words.contains(word)));
            if said >= acknowledged && (came.is_some() || words.is_empty()) {
                return Ok(came);
            }
            if begun.elapsed() > GIVING_UP {
                let seconds = GIVING_UP.as_secs();
                return Err(failed(format!("no answer within {seconds} s")));
            }
            rest.wait(&self.queue);
        }
    }

    fn target(&self, at: usize) -> Target {
        let far = self.far.as_ref();
        far.map_or(Target { address: 0, key: 0 }, |far| Target {
            address: far.memory + at as u64,
            key: far.key,
        })
    }

    /// Writes a word to the other end with an immediate, so that it notices.
    fn send_word(&self, word: u32) -> Result<(), Failure> {
        let to = self.target(Self::WORDS.start);
        (self.pair)
            .write(SAY, self.region.near, Self::WORDS, to, Some(word))
            .in_call("ibv_post_send", "")
    }

    /// Polls for completions.
    fn poll_completions(&self) -> Result<CompletedWork, Failure> {
        let mut look = CompletedWork::default();
        let mut again = 0;
        // Flushed work is a consequence; the first other error is the failure.
        let mut flushed = None;
        let taken = self.queue.poll(|completion| {
            if completion.status != 0 {
                // Receives are flushed only after another failure.
                let words = self.describe_failure(completion.status, completion.vendor);
                match completion.status {
                    FLUSHED if completion.id == RECEIVE => {}
                    FLUSHED => flushed = flushed.take().or(Some(words)),
                    _ => look.failed = look.failed.take().or(Some(words)),
                }
                return;
            }
            match (completion.id, completion.arrived) {
                (WRITE, _) => look.written += 1,
                (SAY, _) => look.said += 1,
                (_, Arrival::Write(word)) => {
                    again += 1;
                    look.heard.push(word);
                }
                _ => again += 1,
            }
        });
        taken.in_call("ibv_poll_cq", "")?;
        if look.failed.is_none() {
            look.failed = flushed;
        }
        for _ in 0..again {
            self.pair.receive(RECEIVE).in_call("ibv_post_recv", "")?;
        }
        Ok(look)
    }

    /// Describes a failed completion with both ends.
    fn describe_failure(&self, status: u32, vendor: u32) -> String {
        let far = self.far.as_ref().map(|far| far.address.gid);
        failure_words(status, vendor, self.end.address.gid, far)
    }
}

fn failure_words(status: u32, vendor: u32, from: Ipv6Addr, to: Option<Ipv6Addr>) -> String {
    let (words, name) = status_words(status);
    let to = to.map_or("?".to_owned(), |to| to.to_string());
    format!("{words} ({name}, vendor error {vendor}): RDMA write from GID {from} to GID {to}")
}

fn failed(error: String) -> Failure {
    Failure::new("ibv_poll_cq", error)
}

/// Waits with growing patience while there are no completions.
#[derive(Default)]
struct IdleWait {
    since: Option<Instant>,
    looks: u32,
    armed: bool,
}

impl IdleWait {
    fn wait(&mut self, queue: &CompletionQueue) {
        self.looks = self.looks.wrapping_add(1);
        if !self.looks.is_multiple_of(8) {
            std::hint::spin_loop();
            return;
        }
        let since = self.since.get_or_insert_with(clock::now).elapsed();
        if since < SPINNING {
            return;
        }
        if since < YIELDING {
            rustix::thread::sched_yield();
            return;
        }
        // Earlier completions are seen by the next poll; later ones wake. If the queue cannot be
        // armed, the timeout does.
        if self.armed {
            self.armed = false;
            let _ = queue.wait(ASLEEP);
        } else {
            self.armed = queue.arm().is_ok()
        }
        self.looks = 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_status_and_both_ends() {
        let from = "::ffff:10.0.0.1".parse().unwrap();
        let to = "::ffff:10.0.0.2".parse().unwrap();
        assert_eq!(
            failure_words(12, 129, from, Some(to)),
            "transport retry counter exceeded (IBV_WC_RETRY_EXC_ERR, vendor error 129): RDMA write from GID ::ffff:10.0.0.1 to GID ::ffff:10.0.0.2"
        );
        assert!(
            failure_words(13, 0, from, None)
                .starts_with("RNR retry counter exceeded (IBV_WC_RNR_RETRY_EXC_ERR")
        );
    }
}
