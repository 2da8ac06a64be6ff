//! The steps of one rank in each collective: what it sends to and receives from which rank, in
//! order.
//!
//! A buffer is a list of parts. Steps may run in chunks: a step that forwards what an earlier step
//! received may send each byte as soon as it arrived. Reductions go around a ring; data for one
//! rank goes there directly.

use crate::measure::plan::collective::Collective;

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferPart {
    /// Of the data that this rank sends.
    Input(usize),
    /// Of the data that it receives.
    Output(usize),
    /// Of scratch memory for data that it only forwards.
    Scratch(usize),
}

/// A part that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendStep {
    /// The rank that gets it.
    pub to: usize,
    /// The part.
    pub from: BufferPart,
    /// The index in [`RankSteps::receives`] of the step that receives it, if it comes from another
    /// rank.
    pub after: Option<usize>,
}

/// A part that is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveStep {
    /// The rank that sends it.
    pub from: usize,
    /// Where it is stored.
    pub into: BufferPart,
    /// The part that it is reduced with before it is stored.
    pub with: Option<BufferPart>,
}

/// The steps of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankSteps {
    /// Local copies from input to output; not made if the operation is in place.
    pub copies: Vec<(BufferPart, BufferPart)>,
    /// The sends, in order.
    pub sends: Vec<SendStep>,
    /// The receives, in order.
    pub receives: Vec<ReceiveStep>,
}

impl RankSteps {
    fn send(&mut self, to: usize, from: BufferPart, after: Option<usize>) {
        self.sends.push(SendStep { to, from, after });
    }

    fn receive(&mut self, from: usize, into: BufferPart, with: Option<BufferPart>) {
        self.receives.push(ReceiveStep { from, into, with });
    }
}

/// A rank's place in the ring of all ranks.
#[derive(Clone, Copy)]
struct RingPosition {
    rank: usize,
    ranks: usize,
}

impl RingPosition {
    fn next(self) -> usize {
        (self.rank + 1) % self.ranks
    }

    fn previous(self) -> usize {
        self.nth_before(1)
    }

    /// The part or rank that is `back` places before this one.
    fn nth_before(self, back: usize) -> usize {
        (self.rank + 2 * self.ranks - back) % self.ranks
    }
}

/// The receive whose data a step of a ring sends on; none for the first step.
fn receive_before(step: usize) -> Option<usize> {
    step.checked_sub(1)
}

/// Reduces each part around the ring, then passes the results around it.
fn all_reduce(ring: RingPosition) -> RankSteps {
    use BufferPart::{Input, Output};
    let mut steps = RankSteps::default();
    for step in 0..ring.ranks - 1 {
        let sent = ring.nth_before(step);
        let from = if step == 0 { Input(sent) } else { Output(sent) };
        steps.send(ring.next(), from, receive_before(step));
        let reduced = ring.nth_before(step + 1);
        steps.receive(ring.previous(), Output(reduced), Some(Input(reduced)));
    }
    for step in 0..ring.ranks - 1 {
        let from = Output(ring.nth_before(step + ring.ranks - 1));
        steps.send(ring.next(), from, receive_before(ring.ranks - 1 + step));
        steps.receive(ring.previous(), Output(ring.nth_before(step)), None);
    }
    steps
}

/// Passes each rank's part around the ring.
fn all_gather(ring: RingPosition) -> RankSteps {
    use BufferPart::{Input, Output};
    let mut steps = RankSteps::default();
    steps.copies.push((Input(0), Output(ring.rank)));
    for step in 0..ring.ranks - 1 {
        let from = match step {
            0 => Input(0),
            _ => Output(ring.nth_before(step)),
        };
        steps.send(ring.next(), from, receive_before(step));
        let into = Output(ring.nth_before(step + 1));
        steps.receive(ring.previous(), into, None);
    }
    steps
}

/// Reduces each part around the ring, which ends at the rank that gets it.
fn reduce_scatter(ring: RingPosition) -> RankSteps {
    use BufferPart::{Input, Output, Scratch};
    let mut steps = RankSteps::default();
    for step in 0..ring.ranks - 1 {
        let sent = ring.nth_before(step + 1);
        let from = if step == 0 {
            Input(sent)
        } else {
            Scratch(sent)
        };
        steps.send(ring.next(), from, receive_before(step));
        let reduced = ring.nth_before(step + 2);
        let into = if step == ring.ranks - 2 {
            Output(0)
        } else {
            Scratch(reduced)
        };
        steps.receive(ring.previous(), into, Some(Input(reduced)));
    }
    steps
}

/// The number of parts of the input and of the output.
pub fn parts(collective: Collective, ranks: usize) -> (usize, usize) {
    match collective {
        Collective::AllReduce | Collective::AllToAll => (ranks, ranks),
        Collective::AllGather | Collective::Gather => (1, ranks),
        Collective::ReduceScatter | Collective::Scatter => (ranks, 1),
        Collective::Broadcast | Collective::Reduce | Collective::SendRecv => (1, 1),
    }
}

/// Whether the steps need scratch memory.
pub fn needs_scratch(collective: Collective, ranks: usize) -> bool {
    collective == Collective::ReduceScatter && ranks > 2
}

/// The steps of this rank.
pub fn plan_steps(collective: Collective, rank: usize, ranks: usize) -> RankSteps {
    use BufferPart::{Input, Output};
    let n = ranks.max(1);
    let ring = RingPosition { rank, ranks: n };
    let (next, previous) = (ring.next(), ring.previous());
    let mut steps = RankSteps::default();
    if n == 1 {
        steps.copies.push((Input(0), Output(0)));
        return steps;
    }
    match collective {
        Collective::AllReduce => return all_reduce(ring),
        Collective::AllGather => return all_gather(ring),
        Collective::ReduceScatter => return reduce_scatter(ring),
        Collective::Broadcast => {
            if rank == 0 {
                steps.copies.push((Input(0), Output(0)));
                steps.send(next, Input(0), None);
            } else {
                steps.receive(previous, Output(0), None);
                if next != 0 {
                    steps.send(next, Output(0), Some(0));
                }
            }
        }
        Collective::Reduce => match rank {
            1 => steps.send(next, Input(0), None),
            _ => {
                steps.receive(previous, Output(0), Some(Input(0)));
                if rank != 0 {
                    steps.send(next, Output(0), Some(0));
                }
            }
        },
        Collective::Scatter => {
            if rank == 0 {
                steps.copies.push((Input(0), Output(0)));
                for other in 1..n {
                    steps.send(other, Input(other), None);
                }
            } else {
                steps.receive(0, Output(0), None);
            }
        }
        Collective::Gather => {
            if rank == 0 {
                steps.copies.push((Input(0), Output(0)));
                for other in 1..n {
                    steps.receive(other, Output(other), None);
                }
            } else {
                steps.send(0, Input(0), None);
            }
        }
        Collective::AllToAll => {
            steps.copies.push((Input(rank), Output(rank)));
            for apart in 1..n {
                let to = (rank + apart) % n;
                steps.send(to, Input(to), None);
                let from = ring.nth_before(apart);
                steps.receive(from, Output(from), None);
            }
        }
        Collective::SendRecv => {
            steps.send(next, Input(0), None);
            steps.receive(previous, Output(0), None);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, VecDeque};

    /// An element by its contributions: rank, and part of that rank.
    type Part = Vec<(usize, usize)>;

    struct Rank {
        own: Vec<Part>,
        held: Vec<Part>,
        work: Vec<Part>,
        sent: usize,
        received: usize,
    }

    impl Rank {
        fn at(&mut self, place: BufferPart) -> &mut Part {
            match place {
                BufferPart::Input(part) => &mut self.own[part],
                BufferPart::Output(part) => &mut self.held[part],
                BufferPart::Scratch(part) => &mut self.work[part],
            }
        }
    }

    /// Simulates the steps of all ranks in any possible order, with whole parts as chunks.
    fn simulate(collective: Collective, ranks: usize) -> Vec<Vec<Part>> {
        let (own, held) = parts(collective, ranks);
        let mut all: Vec<Rank> = (0..ranks)
            .map(|rank| Rank {
                own: (0..own).map(|part| vec![(rank, part)]).collect(),
                held: vec![Vec::new(); held],
                work: vec![
                    Vec::new();
                    if needs_scratch(collective, ranks) {
                        ranks
                    } else {
                        0
                    }
                ],
                sent: 0,
                received: 0,
            })
            .collect();
        let programs: Vec<RankSteps> = (0..ranks)
            .map(|r| plan_steps(collective, r, ranks))
            .collect();
        let mut wires: BTreeMap<(usize, usize), VecDeque<Part>> = BTreeMap::new();
        for (rank, steps) in all.iter_mut().zip(&programs) {
            for (from, to) in &steps.copies {
                *rank.at(*to) = rank.at(*from).clone();
            }
        }
        loop {
            let mut moved = false;
            for (number, steps) in programs.iter().enumerate() {
                let rank = &mut all[number];
                if let Some(send) = steps.sends.get(rank.sent)
                    && send.after.is_none_or(|after| after < rank.received)
                {
                    let part = rank.at(send.from).clone();
                    assert!(!part.is_empty(), "sends what it has not");
                    wires.entry((number, send.to)).or_default().push_back(part);
                    rank.sent += 1;
                    moved = true;
                }
                if let Some(receive) = steps.receives.get(rank.received)
                    && let Some(part) = wires.entry((receive.from, number)).or_default().pop_front()
                {
                    let mut sum = receive.with.map_or(Vec::new(), |own| rank.at(own).clone());
                    sum.extend(part);
                    sum.sort_unstable();
                    *rank.at(receive.into) = sum;
                    rank.received += 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        for (rank, steps) in all.iter().zip(&programs) {
            assert_eq!(rank.sent, steps.sends.len(), "{collective:?} of {ranks}");
            assert_eq!(rank.received, steps.receives.len());
        }
        assert!(wires.values().all(VecDeque::is_empty));
        all.into_iter().map(|rank| rank.held).collect()
    }

    #[test]
    fn each_rank_ends_with_what_the_operation_gives_it() {
        for ranks in 1..=9 {
            let of_all = |part: usize| -> Part { (0..ranks).map(|r| (r, part)).collect() };
            for collective in Collective::ALL.iter().copied() {
                for (rank, held) in simulate(collective, ranks).into_iter().enumerate() {
                    let expected: Vec<Part> = match collective {
                        Collective::AllReduce => (0..ranks).map(of_all).collect(),
                        Collective::AllGather => (0..ranks).map(|r| vec![(r, 0)]).collect(),
                        Collective::ReduceScatter => vec![of_all(rank)],
                        Collective::Broadcast => vec![vec![(0, 0)]],
                        Collective::Reduce if rank == 0 => vec![of_all(0)],
                        Collective::Scatter => vec![vec![(0, rank)]],
                        Collective::Gather if rank == 0 => {
                            (0..ranks).map(|r| vec![(r, 0)]).collect()
                        }
                        Collective::AllToAll => (0..ranks).map(|r| vec![(r, rank)]).collect(),
                        Collective::SendRecv => vec![vec![((rank + ranks - 1) % ranks, 0)]],
                        // The output of the other ranks is undefined.
                        Collective::Reduce | Collective::Gather => continue,
                    };
                    assert_eq!(held, expected, "{collective:?}, rank {rank} of {ranks}");
                }
            }
        }
    }

    #[test]
    fn bytes_sent_are_those_of_the_bus_bandwidth() {
        for ranks in 2..=9usize {
            for collective in Collective::ALL.iter().copied() {
                let (own, held) = parts(collective, ranks);
                let parts = own.max(held) as f64;
                let busiest = (0..ranks)
                    .map(|rank| plan_steps(collective, rank, ranks))
                    .map(|steps| steps.sends.len().max(steps.receives.len()))
                    .max()
                    .unwrap();
                let factor = collective.bus_factor(ranks as u64);
                assert!(
                    (busiest as f64 / parts - factor).abs() < 1e-9,
                    "{collective:?}"
                );
            }
        }
    }
}
