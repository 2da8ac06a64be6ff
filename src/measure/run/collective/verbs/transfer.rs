//! The schedule of an operation: which piece may be sent, received and copied when.
//!
//! The pieces to each other rank are numbered from the point's beginning; piece n goes over queue
//! pair n modulo their number. The receiver grants credits, the number of pieces allowed in all,
//! and the sender stays below. Pieces of one queue pair arrive in order, those of different ones
//! need not.

use std::ops::Range;

use super::layout::{AHEAD, Incoming, Layout, WINDOW};
use crate::live::failure::Failure;
use crate::measure::plan::collective::{DataType, Reduction};
use crate::measure::plan::run::Point;
use crate::measure::run::collective::rank_steps::RankSteps;

/// Bytes of a local copy between two polls.
const COPY: usize = 256 << 10;
/// The same in GPU memory, if a copy is awaited: this many take less than a message's latency.
const COPY_ON_GPU: usize = 16 << 20;
/// The bits of a credit for the number of pieces; the bits above are the point's epoch.
const NUMBER: u32 = 0x00ff_ffff;

/// What the transport reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransportEvent {
    /// A piece of this rank has arrived at the other one, and its memory is free.
    Sent {
        /// The other rank.
        to: usize,
    },
    /// A piece from the other rank has arrived.
    Arrived {
        /// The other rank.
        from: usize,
        /// Over which connection.
        pair: usize,
    },
    /// The other rank granted credits.
    Credit {
        /// The other rank.
        from: usize,
        /// The number.
        number: u32,
    },
}

/// A rank's connections and memory. No method blocks.
pub(super) trait PieceTransport {
    /// Writes a piece to an offset in the other rank's memory; false if the queue is full.
    fn write(
        &mut self,
        to: usize,
        pair: usize,
        from: Range<usize>,
        place: usize,
    ) -> Result<bool, Failure>;

    /// Grants credits to the other rank; false if the queue is full.
    fn send_credit(&mut self, to: usize, number: u32) -> Result<bool, Failure>;

    /// Reports what has happened since the last poll.
    fn poll(&mut self, each: &mut dyn FnMut(TransportEvent)) -> Result<(), Failure>;

    /// Copies within this rank's memory.
    fn copy(&mut self, from: Range<usize>, to: Range<usize>) -> Result<(), Failure>;

    /// Reduces what arrived with the rank's own data; `own` is absent if that is at the result's
    /// place already.
    fn combine(
        &mut self,
        kind: (DataType, Reduction),
        into: Range<usize>,
        own: Option<Range<usize>>,
        came: Range<usize>,
    );
}

/// Where the pieces of a message go in the other rank's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    /// One after the other, from this offset.
    Straight(usize),
    /// To the slots that begin at this offset.
    Slots(usize),
}

/// A message that this rank sends.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outgoing {
    to: usize,
    from: Range<usize>,
    /// The received message that this one forwards.
    after: Option<usize>,
    goes: Destination,
}

/// The flow of pieces between this rank and another one.
#[derive(Clone, Debug, Default)]
struct PieceFlow {
    /// Pieces that the other rank has granted since the point's beginning, which is where all of
    /// these count from.
    granted: u64,
    /// Pieces that were posted.
    posted: u64,
    /// Posted pieces that are not acknowledged yet.
    under_way: u64,
    /// Pieces that arrived over each queue pair.
    arrived: Vec<u64>,
    /// Pieces that are at their final place.
    done: u64,
    /// Pieces that this rank has granted.
    allowed: u64,
    /// The messages of an operation: the number after each one's last piece, and whether it goes
    /// through slots.
    messages: Vec<(u64, bool)>,
}

impl PieceFlow {
    /// The pieces of one operation.
    fn pieces_per_operation(&self) -> u64 {
        self.messages.last().map_or(0, |(end, _)| *end)
    }

    /// How many pieces to grant in all after `operations` operations: a slot must be free for each
    /// piece, and a piece without slot needs its operation to have begun.
    fn limit(&self, operations: u64) -> u64 {
        let free = self.done + WINDOW as u64;
        if self.messages.iter().all(|(_, slots)| *slots) {
            return free;
        }
        // Places beyond the operation's end are not free before the next one.
        let begun = operations * self.pieces_per_operation();
        let mut limit = free.min(begun + self.pieces_per_operation());
        for (end, slots) in &self.messages {
            let end = begun + end;
            if limit >= end {
                continue;
            }
            if *slots {
                break;
            }
            limit = end.min(self.done + AHEAD as u64);
        }
        limit
    }
}

/// The operations of a point.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    epoch: u8,
    pairs: usize,
    piece: usize,
    kind: (DataType, Reduction),
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    copies: Vec<(Range<usize>, Range<usize>)>,
    copied_at_once: usize,
    flows: Vec<PieceFlow>,
    operations: u64,
    /// The message that is being sent, received or copied, and its progress.
    sending: (usize, usize),
    receiving: (usize, usize),
    copying: (usize, usize),
    /// Whether progress needs an event of the transport.
    waits: bool,
}

impl Transfer {
    /// The operations of a point for this rank. `layout_of` returns the other ranks' layouts; the
    /// epoch tells apart late credits of an earlier point.
    pub(super) fn new(
        point: &Point,
        steps: &RankSteps,
        layout: &Layout,
        (rank, ranks): (usize, usize),
        (epoch, pairs): (u8, usize),
        layout_of: impl Fn(usize) -> Result<Layout, Failure>,
    ) -> Result<Self, Failure> {
        let mut flows = vec![PieceFlow::default(); ranks];
        for flow in &mut flows {
            flow.arrived = vec![0; pairs];
        }
        for incoming in &layout.incoming {
            let flow = &mut flows[incoming.from];
            let pieces = incoming.into.len().div_ceil(layout.piece) as u64;
            let end = flow.pieces_per_operation() + pieces;
            flow.messages.push((end, incoming.slots.is_some()));
        }
        let mut outgoing = Vec::with_capacity(steps.sends.len());
        let mut others: Vec<Option<std::vec::IntoIter<Incoming>>> = Vec::new();
        others.resize_with(ranks, || None);
        for send in &steps.sends {
            if others[send.to].is_none() {
                let from_here = layout_of(send.to)?.incoming.into_iter();
                let from_here: Vec<_> = from_here.filter(|i| i.from == rank).collect();
                others[send.to] = Some(from_here.into_iter());
            }
            let theirs = others[send.to].as_mut().and_then(Iterator::next);
            let theirs = theirs.ok_or_else(|| {
                Failure::new(
                    "schedule",
                    format!("rank {} does not expect what is sent", send.to),
                )
            })?;
            outgoing.push(Outgoing {
                to: send.to,
                from: layout.place(send.from),
                after: send.after,
                goes: match theirs.slots {
                    Some(base) => Destination::Slots(base),
                    None => Destination::Straight(theirs.into.start),
                },
            });
        }
        let copies = steps
            .copies
            .iter()
            .map(|(from, to)| (layout.place(*from), layout.place(*to)));
        Ok(Transfer {
            epoch,
            pairs,
            piece: layout.piece,
            kind: (point.dtype, point.op),
            outgoing,
            incoming: layout.incoming.clone(),
            copies: copies.filter(|(from, to)| from != to).collect(),
            copied_at_once: if point.gpu_memory { COPY_ON_GPU } else { COPY },
            flows,
            operations: 0,
            sending: (0, 0),
            receiving: (0, 0),
            copying: (0, 0),
            waits: false,
        })
    }

    /// The ranks that pieces go to, or come from.
    pub(super) fn others(&self) -> Vec<usize> {
        let mut others: Vec<usize> = self.outgoing.iter().map(|out| out.to).collect();
        others.extend(self.incoming.iter().map(|incoming| incoming.from));
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Begins an operation; the one before is done.
    pub(super) fn begin(&mut self) {
        (self.sending, self.receiving, self.copying) = ((0, 0), (0, 0), (0, 0));
        self.waits = false;
    }

    /// Makes as much progress as possible; returns whether the operation is done, and whether there
    /// was any progress.
    pub(super) fn turn(&mut self, wire: &mut dyn PieceTransport) -> Result<(bool, bool), Failure> {
        let mut moved = false;
        let (epoch, flows) = (self.epoch, &mut self.flows);
        wire.poll(&mut |event| {
            moved = true;
            match event {
                TransportEvent::Sent { to } => {
                    flows[to].under_way = flows[to].under_way.saturating_sub(1)
                }
                TransportEvent::Arrived { from, pair } => flows[from].arrived[pair] += 1,
                TransportEvent::Credit { from, number } if number >> 24 == u32::from(epoch) => {
                    let flow = &mut flows[from];
                    let more = number.wrapping_sub(flow.granted as u32) & NUMBER;
                    flow.granted += u64::from(more);
                }
                TransportEvent::Credit { .. } => {}
            }
        })?;
        // A look for nothing is short: the processor may be needed, by soft-RoCE for one.
        if self.waits && !moved {
            return Ok((false, false));
        }
        self.waits = true;
        moved |= self.receive_pieces(wire)?;
        self.allow(wire)?;
        moved |= self.grant_credits(wire)?;
        moved |= self.copy(wire)?;
        let done = self.sending.0 == self.outgoing.len()
            && self.receiving.0 == self.incoming.len()
            && self.copying.0 == self.copies.len()
            && self.flows.iter().all(|flow| flow.under_way == 0);
        if done {
            self.operations += 1;
        }
        self.waits &= !moved;
        Ok((done, moved))
    }

    /// Takes the pieces that are there, in their order.
    fn receive_pieces(&mut self, wire: &mut dyn PieceTransport) -> Result<bool, Failure> {
        let mut moved = false;
        while let Some(incoming) = self.incoming.get(self.receiving.0) {
            let at = self.receiving.1;
            let left = incoming.into.len() - at;
            if left == 0 {
                self.receiving = (self.receiving.0 + 1, 0);
                continue;
            }
            let flow = &mut self.flows[incoming.from];
            let pair = (flow.done % self.pairs as u64) as usize;
            if flow.arrived[pair] <= flow.done / self.pairs as u64 {
                break;
            }
            let length = left.min(self.piece);
            if let Some(base) = incoming.slots {
                let slot = base + (flow.done % WINDOW as u64) as usize * self.piece;
                let came = slot..slot + length;
                let place = |range: &Range<usize>| {
                    let start = range.start + at;
                    start..start + length
                };
                let into = place(&incoming.into);
                match incoming.own.as_ref().map(place) {
                    None => wire.copy(came, into)?,
                    Some(own) if own == into => wire.combine(self.kind, into, None, came),
                    Some(own) => wire.combine(self.kind, into, Some(own), came),
                }
            }
            flow.done += 1;
            self.receiving.1 += length;
            moved = true;
        }
        Ok(moved)
    }

    /// Allows the other ranks more pieces, not one by one.
    fn allow(&mut self, wire: &mut dyn PieceTransport) -> Result<(), Failure> {
        for (other, flow) in self.flows.iter_mut().enumerate() {
            if flow.pieces_per_operation() == 0 {
                continue;
            }
            let limit = flow.limit(self.operations);
            let more = limit.saturating_sub(flow.allowed);
            let waits = flow.arrived.iter().sum::<u64>() >= flow.allowed;
            let end = (self.operations + 1) * flow.pieces_per_operation();
            if more == 0 || !(waits || more >= (limit - flow.done) / 4 || limit == end) {
                continue;
            }
            let number = u32::from(self.epoch) << 24 | limit as u32 & NUMBER;
            if wire.send_credit(other, number)? {
                flow.allowed = limit;
            } else {
                // Room comes without a word.
                self.waits = false;
            }
        }
        Ok(())
    }

    /// Sends the next piece, if it may go. One at a time: soft-RoCE carries it within the call, and
    /// the other rank waits for what this one allows.
    fn grant_credits(&mut self, wire: &mut dyn PieceTransport) -> Result<bool, Failure> {
        while let Some(out) = self.outgoing.get(self.sending.0) {
            let at = self.sending.1;
            let left = out.from.len() - at;
            if left == 0 {
                self.sending = (self.sending.0 + 1, 0);
                continue;
            }
            let length = left.min(self.piece);
            let there = match out.after {
                Some(before) if before > self.receiving.0 => 0,
                Some(before) if before == self.receiving.0 => self.receiving.1,
                _ => usize::MAX,
            };
            let flow = &mut self.flows[out.to];
            if there < at + length || flow.posted >= flow.granted || flow.under_way >= WINDOW as u64
            {
                break;
            }
            let place = match out.goes {
                Destination::Straight(start) => start + at,
                Destination::Slots(base) => {
                    base + (flow.posted % WINDOW as u64) as usize * self.piece
                }
            };
            let pair = (flow.posted % self.pairs as u64) as usize;
            let start = out.from.start + at;
            if !wire.write(out.to, pair, start..start + length, place)? {
                self.waits = false;
                break;
            }
            flow.posted += 1;
            flow.under_way += 1;
            self.sending.1 += length;
            return Ok(true);
        }
        Ok(false)
    }

    /// Copies some of the rank's own part.
    fn copy(&mut self, wire: &mut dyn PieceTransport) -> Result<bool, Failure> {
        let Some((from, to)) = self.copies.get(self.copying.0) else {
            return Ok(false);
        };
        let at = self.copying.1;
        let length = (from.len() - at).min(self.copied_at_once);
        let place = |range: &Range<usize>| range.start + at..range.start + at + length;
        wire.copy(place(from), place(to))?;
        self.copying.1 += length;
        if self.copying.1 == from.len() {
            self.copying = (self.copying.0 + 1, 0);
        }
        Ok(true)
    }

    /// Describes what the operation waits for.
    pub(super) fn waits_for(&self) -> String {
        let receives = self
            .incoming
            .get(self.receiving.0)
            .map(|incoming| incoming.from);
        let sends = self.outgoing.get(self.sending.0).map(|out| out.to);
        match (receives, sends) {
            (Some(from), _) => format!("data from rank {from}"),
            (None, Some(to)) => format!("leave to send to rank {to}"),
            (None, None) => "its own data to arrive".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
