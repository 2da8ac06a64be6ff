//! The layout of a rank's memory: input, output, scratch, and slots for pieces that are reduced.
//!
//! It follows from the point, the rank and the number of ranks, so that every rank knows where its
//! writes go in another rank's memory.

use std::ops::Range;

use crate::live::failure::Failure;
use crate::measure::plan::collective::Collective;
use crate::measure::plan::run::Point;
use crate::measure::run::collective::rank_steps::{self, BufferPart, RankSteps};

/// How many pieces may be under way from one rank to another.
pub(super) const WINDOW: usize = 16;
/// How many pieces without slots a rank grants in advance, so that a receiver that is busy sending
/// does not delay the sender.
pub(super) const AHEAD: usize = 4 * WINDOW;
/// Parts up to this many bytes go through slots even if nothing is reduced: slots are free before
/// the operation begins, so that no sender waits for a credit.
const SMALL: usize = 4096;
/// The alignment of buffers.
const PAGE: usize = 4096;
/// The gap between input and output: buffers a power of two apart contend for the same cache sets.
const APART: usize = 5 * PAGE;

/// A message that this rank receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Incoming {
    pub(super) from: usize,
    pub(super) into: Range<usize>,
    /// The part that it is reduced with.
    pub(super) own: Option<Range<usize>>,
    /// Where its slots begin, if it goes through slots.
    pub(super) slots: Option<usize>,
}

/// A rank's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) length: usize,
    /// The most bytes of a piece, and the size of a slot.
    pub(super) piece: usize,
    pub(super) send: Range<usize>,
    pub(super) receive: Range<usize>,
    own: (Range<usize>, usize),
    held: (Range<usize>, usize),
    work: (Range<usize>, usize),
    size: usize,
    pub(super) incoming: Vec<Incoming>,
}

/// A part of a buffer: parts differ by one element at most.
fn part((buffer, parts): &(Range<usize>, usize), size: usize, number: usize) -> Range<usize> {
    let elements = (buffer.len() / size) as u128;
    let parts = (*parts).max(1) as u128;
    let at = |number: usize| buffer.start + (elements * number as u128 / parts) as usize * size;
    at(number)..at(number + 1)
}

impl Layout {
    /// The layout of this rank, with pieces of `piece` bytes at most.
    pub(super) fn new(
        point: &Point,
        steps: &RankSteps,
        rank: usize,
        ranks: usize,
        piece: usize,
    ) -> Result<Self, Failure> {
        let collective = point.collective;
        let refused = |error: &str| Failure::new(collective.word(), error);
        if point.in_place && matches!(collective, Collective::AllToAll | Collective::SendRecv) {
            return Err(refused("this collective has no in-place form"));
        }
        if point.gpu_memory && collective.reduces() {
            return Err(refused(
                "reductions run on the CPU, which needs the host's memory",
            ));
        }
        let size = point.dtype.size();
        let elements = usize::try_from(point.bytes).unwrap_or(usize::MAX) / size;
        let shape = collective.shape(elements, ranks);
        let (send, receive) = (shape.send * size, shape.receive * size);
        let parts = rank_steps::parts(collective, ranks);
        let (send, receive) = if point.in_place {
            // In place: a part is at its offset in the whole.
            let within = |length: usize| {
                if length < send.max(receive) {
                    rank * length..(rank + 1) * length
                } else {
                    0..length
                }
            };
            (within(send), within(receive))
        } else {
            let second = send.next_multiple_of(PAGE) + APART;
            (0..send, second..second + receive)
        };
        let mut end = send.end.max(receive.end).next_multiple_of(PAGE);
        let longest = |buffer: &Range<usize>, parts: usize| {
            (buffer.len() / size).div_ceil(parts.max(1)) * size
        };
        let longest = longest(&send, parts.0).max(longest(&receive, parts.1));
        // Slots are aligned to cache lines.
        let piece = piece.min(longest).max(1).next_multiple_of(64);
        let work = if rank_steps::needs_scratch(collective, ranks) {
            end..end + send.len()
        } else {
            end..end
        };
        end = work.end.next_multiple_of(PAGE);
        let mut layout = Layout {
            length: 0,
            piece,
            own: (send.clone(), parts.0),
            held: (receive.clone(), parts.1),
            work: (work, parts.0),
            send,
            receive,
            size,
            incoming: Vec::new(),
        };
        let mut slots: Vec<(usize, usize)> = Vec::new();
        for receive in &steps.receives {
            let (into, own) = (layout.place(receive.into), receive.with);
            let own = own.map(|own| layout.place(own));
            // The CPU copies from slots, so pieces for GPU memory go directly to their place.
            let small = longest <= SMALL && !point.gpu_memory;
            let base = (own.is_some() || small).then(|| {
                let known = slots.iter().find(|(from, _)| *from == receive.from);
                if let Some((_, base)) = known {
                    return *base;
                }
                let base = end;
                slots.push((receive.from, base));
                end = (base + WINDOW * piece).next_multiple_of(PAGE);
                base
            });
            layout.incoming.push(Incoming {
                from: receive.from,
                into,
                own,
                slots: base,
            });
        }
        layout.length = end;
        Ok(layout)
    }

    /// Where a part lies.
    pub(super) fn place(&self, place: BufferPart) -> Range<usize> {
        match place {
            BufferPart::Input(number) => part(&self.own, self.size, number),
            BufferPart::Output(number) => part(&self.held, self.size, number),
            BufferPart::Scratch(number) => part(&self.work, self.size, number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::collective::{DataType, Reduction};

    fn point(elements: u64) -> Point {
        Point {
            collective: Collective::AllReduce,
            bytes: elements * 4,
            dtype: DataType::Float32,
            op: Reduction::Sum,
            in_place: false,
            iterations: 1,
            warmups: Some(0),
            trials: 1,
            awaited: false,
            adaptive: false,
            gpu_memory: false,
        }
    }

    fn layout(collective: Collective, elements: u64, rank: usize, ranks: usize) -> Layout {
        let point = Point {
            collective,
            ..point(elements)
        };
        let steps = rank_steps::plan_steps(collective, rank, ranks);
        Layout::new(&point, &steps, rank, ranks, 1 << 16).unwrap()
    }

    #[test]
    fn parts_of_any_size_make_up_the_whole() {
        let layout = layout(Collective::AllReduce, 10, 0, 3);
        let parts: Vec<_> = (0..3).map(|n| layout.place(BufferPart::Input(n))).collect();
        assert_eq!(parts, [0..12, 12..24, 24..40]);
        let second = 6 * 4096;
        assert_eq!(
            layout.place(BufferPart::Output(2)),
            second + 24..second + 40
        );
        assert_eq!(layout.piece, 64);
    }

    #[test]
    fn large_parts_go_straight_to_their_place() {
        let sum = layout(Collective::AllReduce, 1 << 20, 1, 2);
        let slots: Vec<_> = sum.incoming.iter().map(|i| i.slots.is_some()).collect();
        assert_eq!(slots, [true, false]);
        assert_eq!(sum.piece, 1 << 16);
        assert_eq!(sum.length, (8 << 20) + APART + WINDOW * (1 << 16));
        let small = layout(Collective::AllGather, 64, 1, 4);
        assert!(
            small
                .incoming
                .iter()
                .all(|incoming| incoming.slots.is_some())
        );
        let moved = layout(Collective::AllToAll, 1 << 20, 1, 4);
        assert!(
            moved
                .incoming
                .iter()
                .all(|incoming| incoming.slots.is_none())
        );
        assert_eq!(moved.length, (8 << 20) + APART);
    }

    /// In GPU memory the CPU neither copies from slots nor reduces.
    #[test]
    fn on_gpus_every_piece_goes_straight_to_its_place() {
        for collective in Collective::ALL.iter().copied() {
            let mut point = point(64);
            point.collective = collective;
            point.gpu_memory = true;
            let steps = rank_steps::plan_steps(collective, 1, 4);
            match Layout::new(&point, &steps, 1, 4, 1 << 16) {
                Ok(layout) => assert!(layout.incoming.iter().all(|i| i.slots.is_none())),
                Err(refused) => {
                    assert!(collective.reduces(), "{refused}");
                    assert!(refused.error.contains("host's memory"), "{refused}");
                }
            }
        }
    }

    /// Sender and receiver use the same piece size.
    #[test]
    fn pieces_are_alike() {
        for collective in Collective::ALL.iter().copied() {
            for elements in [0, 1, 7, 100, 9001, 1 << 20] {
                let of = |rank| layout(collective, elements, rank, 5).piece;
                assert!((1..5).all(|rank| of(rank) == of(0)), "{collective:?}");
            }
        }
    }
}
