//! The connections of a rank: queue pairs to the others, one completion queue, and its memory.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use super::layout::{AHEAD, WINDOW};
use super::transfer::{PieceTransport, TransportEvent};
use crate::live::element;
use crate::live::failure::Failure;
use crate::live::verbs::failure::LibraryCall;
use crate::live::verbs::gpu::Gpu;
use crate::live::verbs::library::completion::{Arrival, CompletionQueue, status_words};
use crate::live::verbs::library::context::Context;
use crate::live::verbs::library::domain::Domain;
use crate::live::verbs::library::pair::{
    LocalEndpoint, MEASURED, QueuePair, RemoteEndpoint, Target,
};
use crate::live::verbs::registered_memory::RegisteredMemory;
use crate::measure::plan::collective::{DataType, Reduction};
use crate::measure::plan::reply::GpuMemory;

/// Send work requests of a queue pair: the pieces of two windows, acknowledged or not, and credits.
const SENDS: u32 = 4 * WINDOW as u32;
/// Receive work requests of a queue pair: all granted pieces, and all credits that may be under
/// way.
const RECEIVES: u32 = (AHEAD + 2 * WINDOW) as u32;

/// The kind of a work request, which is encoded in its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkKind {
    Write = 0,
    Credit = 1,
    LivenessProbe = 2,
    Receive = 3,
}

/// The id of a work request: kind, other rank, queue pair.
fn work_id(work: WorkKind, other: usize, pair: usize) -> u64 {
    work as u64 | (pair as u64) << 8 | (other as u64) << 32
}

fn parse_work_id(id: u64) -> (WorkKind, usize, usize) {
    let work = match id & 0xff {
        0 => WorkKind::Write,
        1 => WorkKind::Credit,
        2 => WorkKind::LivenessProbe,
        _ => WorkKind::Receive,
    };
    (work, (id >> 32) as usize, (id >> 8 & 0x00ff_ffff) as usize)
}

/// The queue pairs to another rank.
struct PeerConnections {
    pairs: Vec<QueuePair>,
    /// Outstanding work of each.
    busy: Vec<u32>,
    memory: Target,
    probing: bool,
}

/// The failure if no operation was prepared.
pub(super) fn unprepared() -> Failure {
    Failure::new("verbs", "no operation was prepared")
}

/// The connections of a rank, and its memory.
pub(super) struct Connections {
    peers: Vec<Option<PeerConnections>>,
    memory: Option<RegisteredMemory>,
    queue: Rc<CompletionQueue>,
    domain: Rc<Domain>,
    near: LocalEndpoint,
    pairs: usize,
}

impl Connections {
    /// No connections yet; `pairs` queue pairs are made to each other rank.
    pub(super) fn new(
        context: &Rc<Context>,
        near: LocalEndpoint,
        ranks: usize,
        pairs: usize,
    ) -> Result<Self, Failure> {
        let domain = Domain::new(context).in_call("ibv_alloc_pd", "")?;
        let room = ranks.saturating_sub(1).max(1) * pairs * (SENDS + RECEIVES) as usize;
        let queue = CompletionQueue::new(context, room)
            .in_call("ibv_create_cq", format_args!("{room} entries"))?;
        let mut ways = Vec::new();
        ways.resize_with(ranks, || None);
        Ok(Connections {
            peers: ways,
            memory: None,
            queue: Rc::new(queue),
            domain: Rc::new(domain),
            near,
            pairs,
        })
    }

    /// Ensures that many bytes of registered host memory, reusing what is there.
    pub(super) fn ensure_memory(&mut self, length: usize) -> Result<(), Failure> {
        if matches!(&self.memory, Some(held @ RegisteredMemory::Host(_)) if held.length() >= length)
        {
            return Ok(());
        }
        // Frees the old memory first: both may not fit.
        self.memory = None;
        self.memory = Some(RegisteredMemory::new_host(&self.domain, length)?);
        Ok(())
    }

    /// The same for GPU memory. `tried` gets how it was registered, or why not.
    pub(super) fn ensure_gpu_memory(
        &mut self,
        gpu: &Rc<Gpu>,
        length: usize,
        tried: impl FnOnce(GpuMemory),
    ) -> Result<(), Failure> {
        if matches!(&self.memory, Some(held @ RegisteredMemory::Gpu(_)) if held.length() >= length)
        {
            return Ok(());
        }
        self.memory = None;
        self.memory = Some(RegisteredMemory::new_gpu(&self.domain, gpu, length, tried)?);
        Ok(())
    }

    /// The memory's address and key.
    pub(super) fn memory_target(&self) -> Target {
        let none = Target { address: 0, key: 0 };
        self.memory
            .as_ref()
            .map_or(none, RegisteredMemory::remote_target)
    }

    /// Copies bytes into the memory.
    pub(super) fn write(&mut self, range: Range<usize>, bytes: &[u8]) -> Result<(), Failure> {
        (self.memory.as_mut().ok_or_else(unprepared)?).write(range, bytes)
    }

    /// Sets every byte of a range.
    pub(super) fn set(&mut self, range: Range<usize>, byte: u8) -> Result<(), Failure> {
        (self.memory.as_mut().ok_or_else(unprepared)?).set(range, byte)
    }

    /// Reads a range, ordered after all arrived writes.
    pub(super) fn get(&self, range: Range<usize>, into: &mut [u8]) -> Result<(), Failure> {
        (self.memory.as_ref().ok_or_else(unprepared)?).get(range, into)
    }

    /// Makes queue pairs to another rank if there are none; returns their numbers.
    pub(super) fn open(&mut self, other: usize) -> Result<Option<Vec<u32>>, Failure> {
        let at = format!("for rank {other}");
        if self.peers.get(other).is_none_or(Option::is_some) {
            return Ok(None);
        }
        let mut pairs = Vec::with_capacity(self.pairs);
        for number in 0..self.pairs {
            let pair = QueuePair::new(&self.domain, &self.queue, SENDS, RECEIVES)
                .in_call("ibv_create_qp", &at)?;
            pair.initialise(&self.near)
                .in_call("ibv_modify_qp", format_args!("INIT, {at}"))?;
            for _ in 0..RECEIVES {
                pair.receive(work_id(WorkKind::Receive, other, number))
                    .in_call("ibv_post_recv", &at)?;
            }
            pairs.push(pair);
        }
        let numbers = pairs.iter().map(QueuePair::number).collect();
        self.peers[other] = Some(PeerConnections {
            busy: vec![0; pairs.len()],
            pairs,
            memory: Target { address: 0, key: 0 },
            probing: false,
        });
        Ok(Some(numbers))
    }

    /// Connects one of the queue pairs with the other rank's.
    pub(super) fn connect(
        &mut self,
        other: usize,
        number: usize,
        far: &RemoteEndpoint,
    ) -> Result<(), Failure> {
        let way = self.peers.get(other).and_then(Option::as_ref);
        let Some(pair) = way.and_then(|way| way.pairs.get(number)) else {
            return Ok(());
        };
        let to = match far.gid {
            Some(gid) => format!("rank {other}, {gid}"),
            None => format!("rank {other}, LID {}", far.lid),
        };
        pair.ready_to_receive(&self.near, far)
            .in_call("ibv_modify_qp", format_args!("RTR, to {to}"))?;
        pair.ready_to_send(&self.near, MEASURED)
            .in_call("ibv_modify_qp", format_args!("RTS, to {to}"))
    }

    /// Sets the address and key of the other rank's memory.
    pub(super) fn set_remote_memory(&mut self, other: usize, memory: Target) {
        if let Some(Some(way)) = self.peers.get_mut(other) {
            way.memory = memory;
        }
    }

    /// Requests a wake-up for the next completion; the queue must be polled once more before
    /// waiting.
    pub(super) fn arm(&self) -> Result<(), Failure> {
        self.queue.arm().in_call("ibv_req_notify_cq", "")
    }

    /// Waits for the next completion, `at_most` this long.
    pub(super) fn wait(&self, at_most: Duration) -> Result<(), Failure> {
        self.queue.wait(at_most).in_call("ibv_get_cq_event", "")
    }

    /// Sends an empty write to each of these ranks: if the device does not respond, a completion
    /// reports it.
    pub(super) fn probe_liveness(&mut self, others: &[usize]) -> Result<(), Failure> {
        for other in others {
            let Some(Some(way)) = self.peers.get_mut(*other) else {
                continue;
            };
            if way.probing || way.busy[0] >= SENDS {
                continue;
            }
            way.pairs[0]
                .probe_liveness(work_id(WorkKind::LivenessProbe, *other, 0), way.memory)
                .in_call("ibv_post_send", format_args!("to rank {other}"))?;
            way.probing = true;
            way.busy[0] += 1;
        }
        Ok(())
    }
}

/// The failure of a completion with an error.
fn completion_failure(work: WorkKind, other: usize, status: u32, vendor: u32) -> Failure {
    let (words, name) = status_words(status);
    let what = match work {
        WorkKind::Write => "RDMA write to",
        WorkKind::Credit => "message to",
        WorkKind::LivenessProbe => "liveness probe to",
        WorkKind::Receive => "receive from",
    };
    Failure::new(
        "ibv_poll_cq",
        format!("{words} ({name}, vendor error {vendor}): {what} rank {other}"),
    )
    .code(i64::from(status))
}

impl PieceTransport for Connections {
    fn write(
        &mut self,
        to: usize,
        pair: usize,
        from: Range<usize>,
        place: usize,
    ) -> Result<bool, Failure> {
        let (Some(Some(way)), Some(held)) = (self.peers.get_mut(to), &self.memory) else {
            return Ok(false);
        };
        if way.busy[pair] >= SENDS {
            return Ok(false);
        }
        let target = Target {
            address: way.memory.address + place as u64,
            key: way.memory.key,
        };
        way.pairs[pair]
            .write(
                work_id(WorkKind::Write, to, pair),
                held.local_target(),
                from,
                target,
                Some(0),
            )
            .in_call("ibv_post_send", format_args!("to rank {to}"))?;
        way.busy[pair] += 1;
        Ok(true)
    }

    fn send_credit(&mut self, to: usize, number: u32) -> Result<bool, Failure> {
        let Some(Some(way)) = self.peers.get_mut(to) else {
            return Ok(false);
        };
        if way.busy[0] >= SENDS {
            return Ok(false);
        }
        way.pairs[0]
            .send_immediate(work_id(WorkKind::Credit, to, 0), number)
            .in_call("ibv_post_send", format_args!("to rank {to}"))?;
        way.busy[0] += 1;
        Ok(true)
    }

    fn poll(&mut self, each: &mut dyn FnMut(TransportEvent)) -> Result<(), Failure> {
        // Flushed work is a consequence; the first other error is the failure.
        let mut failure: Option<(bool, Failure)> = None;
        let mut again: Vec<(usize, usize)> = Vec::new();
        let ways = &mut self.peers;
        let taken = self.queue.poll(|completion| {
            let (work, other, pair) = parse_work_id(completion.id);
            if completion.status != 0 {
                let flushed = completion.status == 5;
                if failure.as_ref().is_none_or(|(was, _)| *was && !flushed) {
                    let said =
                        completion_failure(work, other, completion.status, completion.vendor);
                    failure = Some((flushed, said));
                }
                return;
            }
            let Some(Some(way)) = ways.get_mut(other) else {
                return;
            };
            match work {
                WorkKind::Receive => {
                    again.push((other, pair));
                    match completion.arrived {
                        Arrival::Write(_) => each(TransportEvent::Arrived { from: other, pair }),
                        Arrival::Message(number) => each(TransportEvent::Credit {
                            from: other,
                            number,
                        }),
                        Arrival::Nothing => {}
                    }
                }
                _ => {
                    way.busy[pair] = way.busy[pair].saturating_sub(1);
                    match work {
                        WorkKind::Write => each(TransportEvent::Sent { to: other }),
                        WorkKind::LivenessProbe => way.probing = false,
                        _ => {}
                    }
                }
            }
        });
        taken.in_call("ibv_poll_cq", "")?;
        if let Some((_, failure)) = failure {
            return Err(failure);
        }
        for (other, pair) in again {
            if let Some(Some(way)) = self.peers.get(other) {
                way.pairs[pair]
                    .receive(work_id(WorkKind::Receive, other, pair))
                    .in_call("ibv_post_recv", format_args!("for rank {other}"))?;
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: Range<usize>, to: Range<usize>) -> Result<(), Failure> {
        match &mut self.memory {
            Some(RegisteredMemory::Host(registered)) => {
                registered.memory_mut().copy(from, to);
                Ok(())
            }
            Some(RegisteredMemory::Gpu(registered)) => registered.memory().copy(from, to),
            None => Ok(()),
        }
    }

    fn combine(
        &mut self,
        (dtype, op): (DataType, Reduction),
        into: Range<usize>,
        own: Option<Range<usize>>,
        came: Range<usize>,
    ) {
        // The CPU reduces, which cannot reach GPU memory: no layout asks for it there.
        if let Some(RegisteredMemory::Host(registered)) = &mut self.memory {
            let memory = registered.memory_mut();
            memory.three(into, own, came, &mut |into, own, came| {
                element::combine(dtype, op, into, own, came);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Refusal;

    #[test]
    fn work_is_known_by_its_id() {
        for (work, other, pair) in [
            (WorkKind::Write, 0, 0),
            (WorkKind::Credit, 4095, 0),
            (WorkKind::LivenessProbe, 1, 0),
            (WorkKind::Receive, 70_000, 127),
        ] {
            assert_eq!(
                parse_work_id(work_id(work, other, pair)),
                (work, other, pair)
            );
        }
    }

    #[test]
    fn failures_name_the_status_and_the_rank() {
        let failure = completion_failure(WorkKind::Write, 3, 12, 129);
        assert_eq!(failure.code, Some(12));
        assert_eq!(
            failure.to_string(),
            "ibv_poll_cq: transport retry counter exceeded (IBV_WC_RETRY_EXC_ERR, vendor error 129): RDMA write to rank 3"
        );
        let refused: Result<(), _> = Err(Refusal::Errno(crate::source::Errno::ENOMEM));
        let failure = refused.in_call("ibv_reg_mr", "4096 bytes").unwrap_err();
        assert_eq!(failure.code, Some(12));
        assert!(failure.error.starts_with("4096 bytes: "), "{failure}");
    }
}
