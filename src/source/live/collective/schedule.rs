//! Which rank sends what to whom, and when: the nine collectives as data.
//!
//! All-reduce, all-gather and reduce-scatter go round a ring, broadcast and reduce along it; scatter, gather, all-to-all and send/recv go straight to
//! the rank that they are for. In every direction a rank then sends as many bytes as the operation's bus bandwidth counts. Backends that move bytes
//! themselves follow a schedule ([`super::streams::drive`] is one way); none has an algorithm of its own.
//!
//! A rank's buffers lie in one stretch of memory: what it sends, what it receives (within the former where the result replaces it), and room for
//! partial results. All places are byte ranges of it.

use std::ops::Range;

use super::backend::Failure;
use crate::bench::collective::{Collective, DataType, Reduction};
use crate::bench::plan::Point;

/// Where a buffer begins: a page, so that no two share one.
const ALIGNMENT: usize = 4096;

/// What a rank does for one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The bytes of all buffers together.
    pub length: usize,
    /// What the rank sends, as the harness fills it.
    pub send: Range<usize>,
    /// What it receives, as the harness reads it. It lies within `send`, or `send` within it, where the result replaces what was sent.
    pub receive: Range<usize>,
    /// The rank's own part, which no other has to send: copied from the first place to the second, at any time.
    pub copy: Option<(Range<usize>, Range<usize>)>,
    /// The steps, in order: sends are made in this order, and receives are.
    pub steps: Vec<Step>,
    /// The type of the elements.
    pub dtype: DataType,
    /// How they are put together.
    pub op: Reduction,
}

/// A send and a receive at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// What is sent.
    pub send: Option<Send>,
    /// What is received.
    pub receive: Option<Receive>,
}

/// Bytes for another rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// The rank.
    pub to: usize,
    /// Where they are.
    pub from: Range<usize>,
    /// Whether they are what the step before received: they may go as far as those are there. Other bytes are there from the beginning.
    pub follows: bool,
}

/// Bytes from another rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The rank.
    pub from: usize,
    /// Where they, or the results, go.
    pub into: Range<usize>,
    /// What they are put together with; without it they are kept as they come. A receive that puts together begins when all sends of the steps before
    /// are done, because partial results share their room. (Bytes kept as they come may be written at any time of the operation: where a place was
    /// sent from before, what comes there has been through the rank that it was sent to.)
    pub with: Option<Range<usize>>,
}

/// How a number of things is cut into so many parts: where each begins. The parts differ by one at most.
fn cut(things: usize, parts: usize, at: usize) -> usize {
    (things as u128 * at as u128 / parts.max(1) as u128) as usize
}

struct Plan<'p> {
    point: &'p Point,
    elements: usize,
    rank: usize,
    ranks: usize,
    schedule: Schedule,
    scratch: usize,
}

impl Schedule {
    /// The schedule of a rank.
    ///
    /// # Errors
    ///
    /// A collective that has no result in place.
    pub fn new(point: &Point, rank: usize, ranks: usize) -> Result<Self, Failure> {
        let collective = point.collective;
        if point.in_place && matches!(collective, Collective::AllToAll | Collective::SendRecv) {
            return Err(Failure {
                function: collective.name().to_owned(),
                code: None,
                error: "in place, what arrives would replace what is still to be sent".to_owned(),
            });
        }
        let size = point.dtype.size();
        let elements = usize::try_from(point.bytes).unwrap_or(usize::MAX) / size;
        let shape = collective.shape(elements, ranks);
        let (send, receive) = (shape.send * size, shape.receive * size);
        let page = |at: usize| at.next_multiple_of(ALIGNMENT);
        let (send, receive, end) = if point.in_place {
            // As nccl-tests places them: a part lies where it belongs in the whole.
            let part = |length: usize| match length < send.max(receive) {
                true => rank * length..(rank + 1) * length,
                false => 0..length,
            };
            (part(send), part(receive), page(send.max(receive)))
        } else {
            let second = page(send);
            (0..send, second..second + receive, page(second + receive))
        };
        let mut plan = Plan {
            point,
            elements,
            rank,
            ranks,
            scratch: end,
            schedule: Schedule {
                length: end,
                send,
                receive,
                copy: None,
                steps: Vec::new(),
                dtype: point.dtype,
                op: point.op,
            },
        };
        match collective {
            Collective::AllReduce => plan.all_reduce(),
            Collective::AllGather => plan.all_gather(),
            Collective::ReduceScatter => plan.reduce_scatter(),
            Collective::Broadcast => plan.broadcast(),
            Collective::Reduce => plan.reduce(),
            Collective::Scatter => plan.scatter(),
            Collective::Gather => plan.gather(),
            Collective::AllToAll => plan.all_to_all(),
            Collective::SendRecv => plan.send_recv(),
        }
        Ok(plan.schedule)
    }

    /// The longest message that goes to a rank or comes from one.
    pub fn longest(&self) -> usize {
        let lengths = self.steps.iter().flat_map(|step| {
            let send = step.send.as_ref().map(|send| send.from.len());
            let receive = step.receive.as_ref().map(|receive| receive.into.len());
            [send, receive]
        });
        lengths.flatten().max().unwrap_or(0)
    }
}

impl Plan<'_> {
    /// The rank that comes so many places after this one.
    fn after(&self, places: usize) -> usize {
        (self.rank + places) % self.ranks
    }

    /// The rank that comes so many places before this one, which may be more than there are.
    fn before(&self, places: usize) -> usize {
        (self.rank + self.ranks - places % self.ranks) % self.ranks
    }

    /// A part of a buffer that holds all ranks' parts.
    fn part(&self, buffer: &Range<usize>, rank: usize) -> Range<usize> {
        let length = buffer.len() / self.ranks;
        let start = buffer.start + rank * length;
        start..start + length
    }

    /// A part of a buffer that need not be a multiple of the number of ranks.
    fn chunk(&self, buffer: &Range<usize>, chunk: usize) -> Range<usize> {
        let size = self.point.dtype.size();
        let at = |chunk: usize| buffer.start + cut(self.elements, self.ranks, chunk) * size;
        at(chunk)..at(chunk + 1)
    }

    /// Room for so many bytes behind the buffers.
    fn room(&mut self, bytes: usize) -> Range<usize> {
        let room = self.scratch..self.scratch + bytes;
        self.scratch = room.end.next_multiple_of(ALIGNMENT);
        self.schedule.length = self.scratch;
        room
    }

    fn buffers(&self) -> (Range<usize>, Range<usize>) {
        (self.schedule.send.clone(), self.schedule.receive.clone())
    }

    fn copy(&mut self, from: Range<usize>, to: Range<usize>) {
        self.schedule.copy = (from != to).then_some((from, to));
    }

    fn step(&mut self, send: Option<Send>, receive: Option<Receive>) {
        self.schedule.steps.push(Step { send, receive });
    }

    fn all_reduce(&mut self) {
        let (send, receive) = self.buffers();
        if self.ranks == 1 {
            return self.copy(send, receive);
        }
        let (next, previous) = (self.after(1), self.before(1));
        // Round the ring until each rank has the whole of one chunk: its own.
        for step in 0..self.ranks - 1 {
            let from = if step == 0 { &send } else { &receive };
            let (out, into) = (self.before(step + 1), self.before(step + 2));
            let send = Send {
                to: next,
                from: self.chunk(from, out),
                follows: step > 0,
            };
            let receive = Receive {
                from: previous,
                into: self.chunk(&receive, into),
                with: Some(self.chunk(&self.schedule.send, into)),
            };
            self.step(Some(send), Some(receive));
        }
        for step in 0..self.ranks - 1 {
            let send = Send {
                to: next,
                from: self.chunk(&receive, self.before(step)),
                follows: true,
            };
            let receive = Receive {
                from: previous,
                into: self.chunk(&receive, self.before(step + 1)),
                with: None,
            };
            self.step(Some(send), Some(receive));
        }
    }

    fn all_gather(&mut self) {
        let (send, receive) = self.buffers();
        self.copy(send.clone(), self.part(&receive, self.rank));
        for step in 0..self.ranks - 1 {
            let from = match step {
                0 => send.clone(),
                _ => self.part(&receive, self.before(step)),
            };
            let out = Send {
                to: self.after(1),
                from,
                follows: step > 0,
            };
            let into = Receive {
                from: self.before(1),
                into: self.part(&receive, self.before(step + 1)),
                with: None,
            };
            self.step(Some(out), Some(into));
        }
    }

    fn reduce_scatter(&mut self) {
        let (send, receive) = self.buffers();
        if self.ranks == 1 {
            return self.copy(send, receive);
        }
        // One partial result is sent while the next one is made.
        let rooms = match self.ranks {
            2 => [0..0, 0..0],
            3 => [self.room(receive.len()), 0..0],
            _ => [self.room(receive.len()), self.room(receive.len())],
        };
        for step in 0..self.ranks - 1 {
            let from = match step {
                0 => self.part(&send, self.before(1)),
                step => rooms[(step - 1) % 2].clone(),
            };
            let out = Send {
                to: self.after(1),
                from,
                follows: step > 0,
            };
            let part = self.before(step + 2);
            let into = Receive {
                from: self.before(1),
                into: match step == self.ranks - 2 {
                    true => receive.clone(),
                    false => rooms[step % 2].clone(),
                },
                with: Some(self.part(&send, part)),
            };
            self.step(Some(out), Some(into));
        }
    }

    fn broadcast(&mut self) {
        let (send, receive) = self.buffers();
        let last = self.ranks - 1;
        if self.rank == 0 {
            self.copy(send.clone(), receive);
            if last > 0 {
                let out = Send {
                    to: 1,
                    from: send,
                    follows: false,
                };
                self.step(Some(out), None);
            }
            return;
        }
        let into = Receive {
            from: self.rank - 1,
            into: receive.clone(),
            with: None,
        };
        self.step(None, Some(into));
        if self.rank < last {
            let out = Send {
                to: self.rank + 1,
                from: receive,
                follows: true,
            };
            self.step(Some(out), None);
        }
    }

    /// From rank 1 along the ring to rank 0, which is the last.
    fn reduce(&mut self) {
        let (send, receive) = self.buffers();
        if self.ranks == 1 {
            return self.copy(send, receive);
        }
        let next = self.after(1);
        if self.rank == 1 {
            let out = Send {
                to: next,
                from: send,
                follows: false,
            };
            return self.step(Some(out), None);
        }
        // Only rank 0 has a result; what others send stays as it is.
        let sum = match self.point.in_place && self.rank != 0 {
            true => self.room(send.len()),
            false => receive,
        };
        let into = Receive {
            from: self.before(1),
            into: sum.clone(),
            with: Some(send),
        };
        self.step(None, Some(into));
        if self.rank != 0 {
            let out = Send {
                to: next,
                from: sum,
                follows: true,
            };
            self.step(Some(out), None);
        }
    }

    fn scatter(&mut self) {
        let (send, receive) = self.buffers();
        if self.rank != 0 {
            let into = Receive {
                from: 0,
                into: receive,
                with: None,
            };
            return self.step(None, Some(into));
        }
        self.copy(self.part(&send, 0), receive);
        for rank in 1..self.ranks {
            let out = Send {
                to: rank,
                from: self.part(&send, rank),
                follows: false,
            };
            self.step(Some(out), None);
        }
    }

    fn gather(&mut self) {
        let (send, receive) = self.buffers();
        if self.rank != 0 {
            let out = Send {
                to: 0,
                from: send,
                follows: false,
            };
            return self.step(Some(out), None);
        }
        self.copy(send, self.part(&receive, 0));
        for rank in 1..self.ranks {
            let into = Receive {
                from: rank,
                into: self.part(&receive, rank),
                with: None,
            };
            self.step(None, Some(into));
        }
    }

    /// Each step pairs every rank with another one, so that all links are used all the time.
    fn all_to_all(&mut self) {
        let (send, receive) = self.buffers();
        self.copy(self.part(&send, self.rank), self.part(&receive, self.rank));
        for step in 1..self.ranks {
            let (to, from) = (self.after(step), self.before(step));
            let out = Send {
                to,
                from: self.part(&send, to),
                follows: false,
            };
            let into = Receive {
                from,
                into: self.part(&receive, from),
                with: None,
            };
            self.step(Some(out), Some(into));
        }
    }

    fn send_recv(&mut self) {
        let (send, receive) = self.buffers();
        if self.ranks == 1 {
            return self.copy(send, receive);
        }
        let out = Send {
            to: self.after(1),
            from: send,
            follows: false,
        };
        let into = Receive {
            from: self.before(1),
            into: receive,
            with: None,
        };
        self.step(Some(out), Some(into));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(collective: Collective, elements: u64, in_place: bool) -> Point {
        Point {
            collective,
            bytes: elements * 4,
            dtype: DataType::Int32,
            op: Reduction::Sum,
            in_place,
            iterations: 1,
            warmups: 0,
            trials: 1,
        }
    }

    fn all(point: &Point, ranks: usize) -> Vec<Schedule> {
        let one = |rank| Schedule::new(point, rank, ranks).unwrap();
        (0..ranks).map(one).collect()
    }

    fn places() -> impl Iterator<Item = (Point, usize)> {
        let all = Collective::ALL.into_iter();
        let sizes = all.flat_map(|c| [0, 1, 3, 1000].map(|elements| (c, elements)));
        sizes.flat_map(|(c, elements)| {
            (1..=5).flat_map(move |ranks| {
                [false, true].map(|in_place| (point(c, elements, in_place), ranks))
            })
        })
    }

    /// What a rank sends to another one is, message by message, what that one receives from it.
    #[test]
    fn who_sends_is_heard() {
        for (point, ranks) in places() {
            if Schedule::new(&point, 0, ranks).is_err() {
                continue;
            }
            let schedules = all(&point, ranks);
            for (from, sender) in schedules.iter().enumerate() {
                for (to, receiver) in schedules.iter().enumerate() {
                    let sent = sender.steps.iter().filter_map(|step| step.send.as_ref());
                    let sent = sent.filter(|send| send.to == to).map(|s| s.from.len());
                    let heard = receiver.steps.iter().filter_map(|s| s.receive.as_ref());
                    let heard = heard.filter(|r| r.from == from).map(|r| r.into.len());
                    let (sent, heard): (Vec<_>, Vec<_>) = (sent.collect(), heard.collect());
                    assert_eq!(sent, heard, "{point:?} {ranks} ranks, {from} to {to}");
                    assert!(from != to || sent.is_empty(), "{point:?}");
                }
            }
        }
    }

    #[test]
    fn all_lies_within_the_memory_and_what_follows_is_what_came() {
        for (point, ranks) in places() {
            for rank in 0..ranks {
                let Ok(schedule) = Schedule::new(&point, rank, ranks) else {
                    continue;
                };
                let mut before: Option<Range<usize>> = None;
                let mut inside = vec![schedule.send.clone(), schedule.receive.clone()];
                for step in &schedule.steps {
                    if let Some(send) = &step.send {
                        if send.follows {
                            assert_eq!(Some(&send.from), before.as_ref(), "{point:?}");
                        }
                        inside.push(send.from.clone());
                    }
                    before = step.receive.as_ref().map(|receive| receive.into.clone());
                    if let Some(receive) = &step.receive {
                        let lengths = receive.with.as_ref().map(|with| with.len());
                        assert_eq!(lengths.unwrap_or(receive.into.len()), receive.into.len());
                        inside.extend([receive.into.clone()]);
                    }
                }
                let end = inside.iter().map(|range| range.end).max().unwrap();
                assert!(end <= schedule.length, "{point:?}: {end}");
                let shape = point.collective.shape(point.bytes as usize / 4, ranks);
                assert_eq!(schedule.send.len(), shape.send * 4);
                assert_eq!(schedule.receive.len(), shape.receive * 4);
            }
        }
    }

    /// A ring is worth its name when each rank sends what the bus factor says.
    #[test]
    fn no_rank_sends_more_than_the_bus_bandwidth_counts() {
        for collective in Collective::ALL {
            for ranks in 1..=5 {
                let point = point(collective, 60_000, false);
                let factor = collective.bus_factor(ranks as u64);
                let most = match ranks {
                    1 => 0.0,
                    _ => factor * point.bytes as f64,
                };
                for schedule in all(&point, ranks) {
                    let sends = schedule.steps.iter().filter_map(|step| step.send.as_ref());
                    let sent: usize = sends.map(|send| send.from.len()).sum();
                    assert!(sent as f64 <= most + 0.5, "{collective:?} {ranks}: {sent}");
                }
            }
        }
    }

    #[test]
    fn in_place_a_part_lies_where_it_belongs() {
        let schedules = all(&point(Collective::AllGather, 8, true), 2);
        assert_eq!(
            (&schedules[1].send, &schedules[1].receive),
            (&(16..32), &(0..32))
        );
        assert_eq!(schedules[1].copy, None);
        let schedules = all(&point(Collective::ReduceScatter, 8, true), 2);
        assert_eq!(
            (&schedules[1].send, &schedules[1].receive),
            (&(0..32), &(16..32))
        );
        for collective in [Collective::AllToAll, Collective::SendRecv] {
            let refused = Schedule::new(&point(collective, 8, true), 0, 2).unwrap_err();
            assert_eq!(refused.function, collective.name());
        }
    }
}
