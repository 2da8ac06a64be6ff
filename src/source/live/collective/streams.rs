//! Follows a schedule over streams of bytes, one to each rank and one from each: what a backend over sockets has.

use std::ops::Range;

use super::arithmetic::combine;
use super::backend::Failure;
use super::schedule::{Receive, Schedule, Send};

/// The most bytes that wait for being put together.
const STAGE: usize = 256 << 10;

/// The streams between this rank and the others. Neither of the first two waits.
pub trait Streams {
    /// Sends as many of these bytes as go now.
    ///
    /// # Errors
    ///
    /// The way to the rank is broken.
    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<usize, Failure>;

    /// Receives as many bytes as are there.
    ///
    /// # Errors
    ///
    /// The way from the rank is broken, or it left.
    fn receive(&mut self, from: usize, into: &mut [u8]) -> Result<usize, Failure>;

    /// Waits until a byte can go to the one rank or has come from the other one. One of them is given at least.
    ///
    /// # Errors
    ///
    /// The wait failed.
    fn wait(&mut self, to: Option<usize>, from: Option<usize>) -> Result<(), Failure>;
}

/// Copies this rank's own part.
pub fn copy_own(schedule: &Schedule, memory: &mut [u8]) {
    if let Some((from, to)) = &schedule.copy {
        memory.copy_within(from.clone(), to.start);
    }
}

/// Puts what came together with the rank's own elements, from this byte of the receive on.
pub fn put_together(
    schedule: &Schedule,
    receive: &Receive,
    memory: &mut [u8],
    at: usize,
    came: &[u8],
) {
    let place = |range: &Range<usize>| range.start + at..range.start + at + came.len();
    let into = place(&receive.into);
    let (dtype, op) = (schedule.dtype, schedule.op);
    match receive.with.as_ref().map(place) {
        None => memory[into].copy_from_slice(came),
        Some(with) if with == into => combine(dtype, op, &mut memory[into], None, came),
        Some(with) => {
            // A result lies where the rank's own elements do, or apart from them.
            if let Ok([into, with]) = memory.get_disjoint_mut([into, with]) {
                combine(dtype, op, into, Some(with), came);
            }
        }
    }
}

/// Does one operation: all of the schedule's steps, sends and receives each as early as they may be.
///
/// # Errors
///
/// A stream's.
pub fn drive(
    schedule: &Schedule,
    memory: &mut [u8],
    streams: &mut dyn Streams,
) -> Result<(), Failure> {
    copy_own(schedule, memory);
    let mut stage = Vec::new();
    let mut going = Going::default();
    going.skip_empty(schedule);
    while !going.done(schedule) {
        let mut moved = false;
        let may = going.may_send(schedule);
        let mut to = None;
        if let Some((send, bytes)) = may {
            let sent = streams.send(send.to, &memory[bytes])?;
            going.sent += sent;
            moved |= sent > 0;
            to = Some(send.to);
        }
        let mut from = None;
        if let Some(receive) = going.may_receive(schedule) {
            from = Some(receive.from);
            let left = receive.into.len() - going.received;
            let came = match &receive.with {
                None => {
                    let at = receive.into.start + going.received;
                    let came = streams.receive(receive.from, &mut memory[at..at + left])?;
                    going.received += came;
                    came
                }
                Some(_) => {
                    stage.resize(STAGE, 0);
                    let room = left.min(STAGE);
                    let staged = going.staged;
                    let came = streams.receive(receive.from, &mut stage[staged..room])?;
                    let there = staged + came;
                    // The last element may have come in part.
                    let whole = there - there % schedule.dtype.size();
                    put_together(schedule, receive, memory, going.received, &stage[..whole]);
                    stage.copy_within(whole..there, 0);
                    going.received += whole;
                    going.staged = there - whole;
                    came
                }
            };
            moved |= came > 0;
        }
        going.skip_empty(schedule);
        if !moved && !going.done(schedule) {
            streams.wait(to, from)?;
        }
    }
    Ok(())
}

/// How far an operation is.
#[derive(Default)]
struct Going {
    /// The step whose send is going on, and how much of it is sent.
    send_step: usize,
    sent: usize,
    /// The step whose receive is going on, and how much of it is where it belongs.
    receive_step: usize,
    received: usize,
    /// Bytes that came and are not put together yet.
    staged: usize,
}

impl Going {
    /// Goes on past what is finished, and past steps that have no such half.
    fn skip_empty(&mut self, schedule: &Schedule) {
        while let Some(step) = schedule.steps.get(self.send_step)
            && step.send.as_ref().is_none_or(|s| s.from.len() == self.sent)
        {
            (self.send_step, self.sent) = (self.send_step + 1, 0);
        }
        while let Some(step) = schedule.steps.get(self.receive_step)
            && (step.receive.as_ref()).is_none_or(|r| r.into.len() == self.received)
        {
            (self.receive_step, self.received) = (self.receive_step + 1, 0);
        }
    }

    fn done(&self, schedule: &Schedule) -> bool {
        let steps = schedule.steps.len();
        self.send_step == steps && self.receive_step == steps
    }

    /// The bytes that may be sent now.
    fn may_send<'s>(&self, schedule: &'s Schedule) -> Option<(&'s Send, Range<usize>)> {
        let send = schedule.steps.get(self.send_step)?.send.as_ref()?;
        let there = match send.follows {
            true if self.receive_step >= self.send_step => send.from.len(),
            true if self.receive_step + 1 == self.send_step => self.received,
            true => 0,
            false => send.from.len(),
        };
        let bytes = send.from.start + self.sent..send.from.start + there;
        (!bytes.is_empty()).then_some((send, bytes))
    }

    /// The receive that may go on now.
    fn may_receive<'s>(&self, schedule: &'s Schedule) -> Option<&'s Receive> {
        let receive = schedule.steps.get(self.receive_step)?.receive.as_ref()?;
        let ready = receive.with.is_none() || self.send_step >= self.receive_step;
        ready.then_some(receive)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Condvar, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::bench::collective::{Collective, DataType, Reduction};
    use crate::bench::plan::Point;

    /// What each rank's buffer holds to begin with, at each element.
    pub(crate) fn element(rank: usize, at: usize) -> i32 {
        (rank as i32 + 1) * 1_000 + at as i32 % 997
    }

    /// What a rank has to end with; `None` where the collective leaves it open.
    pub(crate) fn expected(point: &Point, rank: usize, ranks: usize, at: usize) -> Option<i32> {
        let elements = point.bytes as usize / 4;
        let part = elements / ranks;
        let together = |at: usize| {
            let all = (0..ranks).map(|rank| element(rank, at));
            match point.op {
                Reduction::Sum => all.sum(),
                Reduction::Min => all.min().unwrap_or_default(),
                Reduction::Max => all.max().unwrap_or_default(),
            }
        };
        match point.collective {
            Collective::AllReduce => Some(together(at)),
            Collective::AllGather => Some(element(at / part, at % part)),
            Collective::ReduceScatter => Some(together(rank * part + at)),
            Collective::Broadcast => Some(element(0, at)),
            Collective::Reduce => (rank == 0).then(|| together(at)),
            Collective::Scatter => Some(element(0, rank * part + at)),
            Collective::Gather => (rank == 0).then(|| element(at / part, at % part)),
            Collective::AllToAll => Some(element(at / part, rank * part + at % part)),
            Collective::SendRecv => Some(element((rank + ranks - 1) % ranks, at)),
        }
    }

    pub(crate) fn fill(schedule: &Schedule, memory: &mut [u8], rank: usize) {
        memory[schedule.receive.clone()].fill(0xee);
        for (at, bytes) in memory[schedule.send.clone()]
            .chunks_exact_mut(4)
            .enumerate()
        {
            bytes.copy_from_slice(&element(rank, at).to_ne_bytes());
        }
    }

    pub(crate) fn verify(point: &Point, schedule: &Schedule, memory: &[u8], rank: usize, n: usize) {
        for (at, bytes) in memory[schedule.receive.clone()].chunks_exact(4).enumerate() {
            let found = i32::from_ne_bytes(bytes.try_into().unwrap());
            if let Some(expected) = expected(point, rank, n, at) {
                assert_eq!(found, expected, "rank {rank} of {n}, at {at}: {point:?}");
            }
        }
    }

    type Pipe = VecDeque<u8>;

    /// Streams within the process, of so many bytes each, that take odd amounts at a time.
    struct Pipes {
        rank: usize,
        most: usize,
        odd: usize,
        all: Arc<(Mutex<Vec<Vec<Pipe>>>, Condvar)>,
    }

    impl Pipes {
        fn odd(&mut self) -> usize {
            self.odd = self.odd.wrapping_mul(6_364_136_223).wrapping_add(1_442_695);
            1 + (self.odd >> 7) % self.most
        }
    }

    impl Streams for Pipes {
        fn send(&mut self, to: usize, bytes: &[u8]) -> Result<usize, Failure> {
            let amount = self.odd().min(bytes.len());
            let mut all = self.all.0.lock().unwrap();
            let pipe = &mut all[self.rank][to];
            let amount = amount.min(self.most - pipe.len().min(self.most));
            pipe.extend(&bytes[..amount]);
            self.all.1.notify_all();
            Ok(amount)
        }

        fn receive(&mut self, from: usize, into: &mut [u8]) -> Result<usize, Failure> {
            let amount = self.odd().min(into.len());
            let mut all = self.all.0.lock().unwrap();
            let pipe = &mut all[from][self.rank];
            let amount = amount.min(pipe.len());
            for (into, byte) in into.iter_mut().zip(pipe.drain(..amount)) {
                *into = byte;
            }
            self.all.1.notify_all();
            Ok(amount)
        }

        fn wait(&mut self, to: Option<usize>, from: Option<usize>) -> Result<(), Failure> {
            let rank = self.rank;
            let most = self.most;
            let nothing = |all: &mut Vec<Vec<Pipe>>| {
                to.is_none_or(|to| all[rank][to].len() >= most)
                    && from.is_none_or(|from| all[from][rank].is_empty())
            };
            let all = self.all.0.lock().unwrap();
            let limit = Duration::from_secs(10);
            let waited = self.all.1.wait_timeout_while(all, limit, nothing).unwrap();
            assert!(!waited.1.timed_out(), "rank {rank} waits for ever");
            Ok(())
        }
    }

    fn together(point: &Point, ranks: usize, most: usize) {
        let pipes = vec![vec![Pipe::new(); ranks]; ranks];
        let all = Arc::new((Mutex::new(pipes), Condvar::new()));
        std::thread::scope(|scope| {
            for rank in 0..ranks {
                let all = Arc::clone(&all);
                scope.spawn(move || {
                    let mut pipes = Pipes {
                        rank,
                        most,
                        odd: rank + most,
                        all,
                    };
                    let schedule = Schedule::new(point, rank, ranks).unwrap();
                    let mut memory = vec![0; schedule.length];
                    for _ in 0..2 {
                        fill(&schedule, &mut memory, rank);
                        drive(&schedule, &mut memory, &mut pipes).unwrap();
                        verify(point, &schedule, &memory, rank, ranks);
                    }
                });
            }
        });
    }

    pub(crate) fn point(collective: Collective, elements: usize, in_place: bool) -> Point {
        Point {
            collective,
            bytes: elements as u64 * 4,
            dtype: DataType::Int32,
            op: Reduction::Sum,
            in_place,
            iterations: 1,
            warmups: 0,
            trials: 1,
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(60))]
        #[test]
        fn each_rank_ends_with_what_it_should(
            collective in 0..9usize, ranks in 1..6usize, elements in 0..300usize,
            most in 1..700usize, op in 0..3usize, in_place in proptest::bool::ANY,
        ) {
            let mut point = point(Collective::ALL[collective], elements, in_place);
            point.op = [Reduction::Sum, Reduction::Min, Reduction::Max][op];
            if Schedule::new(&point, 0, ranks).is_ok() {
                together(&point, ranks, most);
            }
        }
    }

    #[test]
    fn more_than_fits_the_stage() {
        for collective in [Collective::AllReduce, Collective::Reduce] {
            together(&point(collective, 3 * STAGE / 4 + 5, false), 3, 100_003);
        }
    }
}
