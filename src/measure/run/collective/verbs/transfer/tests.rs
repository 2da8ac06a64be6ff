//! All ranks in one thread, over a fabric that delivers late, and across connections out of order.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::*;
use crate::live::element;
use crate::live::pages::PageMemory;
use crate::measure::plan::collective::Collective;
use crate::measure::run::collective::rank_steps;

/// Something on its way.
enum Packet {
    Piece { place: usize, bytes: Vec<u8> },
    Number(u32),
}

struct Fabric {
    memories: Vec<PageMemory>,
    /// Of each rank to each other one, over each connection.
    ways: Vec<Vec<Vec<VecDeque<Packet>>>>,
    events: Vec<VecDeque<TransportEvent>>,
    chance: u64,
}

impl Fabric {
    fn chance(&mut self, of: u64) -> u64 {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.chance >> 33) % of
    }

    /// Delivers one packet of a way, any of them.
    fn deliver(&mut self) {
        let ranks = self.ways.len() as u64;
        let pairs = self.ways[0][0].len() as u64;
        let (from, to) = (self.chance(ranks) as usize, self.chance(ranks) as usize);
        let pair = self.chance(pairs) as usize;
        match self.ways[from][to][pair].pop_front() {
            Some(Packet::Piece { place, bytes }) => {
                let target = self.memories[to].write(place..place + bytes.len());
                assert_eq!(target.len(), bytes.len(), "a write outside of the memory");
                target.copy_from_slice(&bytes);
                self.events[to].push_back(TransportEvent::Arrived { from, pair });
                self.events[from].push_back(TransportEvent::Sent { to });
            }
            Some(Packet::Number(number)) => {
                self.events[to].push_back(TransportEvent::Credit { from, number });
            }
            None => {}
        }
    }
}

struct End<'f> {
    rank: usize,
    fabric: &'f RefCell<Fabric>,
}

impl PieceTransport for End<'_> {
    fn write(
        &mut self,
        to: usize,
        pair: usize,
        from: Range<usize>,
        place: usize,
    ) -> Result<bool, Failure> {
        let mut fabric = self.fabric.borrow_mut();
        assert_ne!(to, self.rank);
        assert!(!from.is_empty());
        if fabric.chance(8) == 0 {
            return Ok(false);
        }
        let bytes = fabric.memories[self.rank].read(from).to_vec();
        let way = &mut fabric.ways[self.rank][to][pair];
        way.push_back(Packet::Piece { place, bytes });
        assert!(
            way.len() <= AHEAD + 2 * WINDOW,
            "more on the way than the receiver has room for"
        );
        Ok(true)
    }

    fn send_credit(&mut self, to: usize, number: u32) -> Result<bool, Failure> {
        let mut fabric = self.fabric.borrow_mut();
        if fabric.chance(8) == 0 {
            return Ok(false);
        }
        fabric.ways[self.rank][to][0].push_back(Packet::Number(number));
        Ok(true)
    }

    fn poll(&mut self, each: &mut dyn FnMut(TransportEvent)) -> Result<(), Failure> {
        let events = std::mem::take(&mut self.fabric.borrow_mut().events[self.rank]);
        events.into_iter().for_each(each);
        Ok(())
    }

    fn copy(&mut self, from: Range<usize>, to: Range<usize>) -> Result<(), Failure> {
        self.fabric.borrow_mut().memories[self.rank].copy(from, to);
        Ok(())
    }

    fn combine(
        &mut self,
        (dtype, op): (DataType, Reduction),
        into: Range<usize>,
        own: Option<Range<usize>>,
        came: Range<usize>,
    ) {
        let memory = &mut self.fabric.borrow_mut().memories[self.rank];
        let mut called = false;
        memory.three(into, own, came, &mut |into, own, came| {
            element::combine(dtype, op, into, own, came);
            called = true;
        });
        assert!(called, "places that overlap, or lie outside");
    }
}

/// What each rank's buffer holds to begin with.
fn element(rank: usize, at: usize) -> i32 {
    (rank as i32 + 1) * 1_000 + at as i32 % 997
}

/// What a rank has to end with; `None` if the collective leaves it open.
fn expected(point: &Point, rank: usize, ranks: usize, at: usize) -> Option<i32> {
    let part = point.bytes as usize / 4 / ranks;
    let together = |at: usize| {
        let all = (0..ranks).map(|rank| element(rank, at));
        match point.op {
            Reduction::Sum => all.sum(),
            Reduction::Min => all.min().unwrap(),
            Reduction::Max => all.max().unwrap(),
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

fn point(collective: Collective, elements: usize) -> Point {
    Point {
        collective,
        bytes: elements as u64 * 4,
        dtype: DataType::Int32,
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

/// Does the operation three times, with all ranks as far apart as they get.
fn together(point: &Point, ranks: usize, pairs: usize, piece: usize, seed: u64) {
    let layout = |rank: usize| {
        let steps = rank_steps::plan_steps(point.collective, rank, ranks);
        Layout::new(point, &steps, rank, ranks, piece)
    };
    if layout(0).is_err() {
        return;
    }
    let way = || (0..pairs).map(|_| VecDeque::new()).collect();
    let fabric = RefCell::new(Fabric {
        memories: (0..ranks)
            .map(|rank| PageMemory::new(layout(rank).unwrap().length).unwrap())
            .collect(),
        ways: (0..ranks)
            .map(|_| (0..ranks).map(|_| way()).collect())
            .collect(),
        events: vec![VecDeque::new(); ranks],
        chance: seed,
    });
    let mut all: Vec<(Transfer, Layout, u32)> = (0..ranks)
        .map(|rank| {
            let steps = rank_steps::plan_steps(point.collective, rank, ranks);
            let own = layout(rank).unwrap();
            let ids = (7, pairs);
            let transfer = Transfer::new(point, &steps, &own, (rank, ranks), ids, layout).unwrap();
            (transfer, own, 0)
        })
        .collect();
    let fill = |rank: usize, layout: &Layout| {
        let memory = &mut fabric.borrow_mut().memories[rank];
        memory.write(layout.receive.clone()).fill(0xee);
        let bytes = memory.write(layout.send.clone());
        for (at, bytes) in bytes.chunks_exact_mut(4).enumerate() {
            bytes.copy_from_slice(&element(rank, at).to_ne_bytes());
        }
    };
    for (rank, (transfer, layout, _)) in all.iter_mut().enumerate() {
        fill(rank, layout);
        transfer.begin();
    }
    for turn in 0.. {
        assert!(turn < 4_000_000, "{point:?}: {ranks} ranks go on for ever");
        if all.iter().all(|(.., operations)| *operations == 3) {
            break;
        }
        let packets = fabric.borrow_mut().chance(8);
        for _ in 0..packets {
            fabric.borrow_mut().deliver();
        }
        let rank = fabric.borrow_mut().chance(ranks as u64) as usize;
        let (transfer, layout, operations) = &mut all[rank];
        if *operations == 3 {
            continue;
        }
        let mut end = End {
            rank,
            fabric: &fabric,
        };
        let (done, _) = transfer.turn(&mut end).unwrap();
        if !done {
            continue;
        }
        *operations += 1;
        let received = fabric.borrow().memories[rank]
            .read(layout.receive.clone())
            .to_vec();
        for (at, bytes) in received.chunks_exact(4).enumerate() {
            let found = i32::from_ne_bytes(bytes.try_into().unwrap());
            if let Some(expected) = expected(point, rank, ranks, at) {
                assert_eq!(
                    found, expected,
                    "rank {rank} of {ranks}, at {at}: {point:?}"
                );
            }
        }
        fill(rank, layout);
        transfer.begin();
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(150))]
    #[test]
    fn each_rank_ends_with_what_it_should(
        collective in 0..9usize, ranks in 1..6usize, elements in 0..3000usize, pairs in 1..4usize,
        piece in 1..40usize, op in 0..3usize, in_place in proptest::bool::ANY, gpu_memory in proptest::bool::ANY, seed in 0..u64::MAX,
    ) {
        let mut point = point(Collective::ALL[collective], elements);
        point.op = [Reduction::Sum, Reduction::Min, Reduction::Max][op];
        point.in_place = in_place;
        point.gpu_memory = gpu_memory;
        together(&point, ranks, pairs, piece * 64, seed);
    }
}

/// Longer than the window, and not through slots: each collective, on each number of ranks.
#[test]
fn large_parts_arrive_in_their_places() {
    for collective in Collective::ALL.iter().copied() {
        for ranks in 1..=5 {
            together(&point(collective, 12_007), ranks, 2, 512, 11 + ranks as u64);
        }
    }
}

#[test]
fn what_is_late_from_another_point_is_not_counted() {
    let point = point(Collective::SendRecv, 5000);
    let layout = |rank: usize| {
        let steps = rank_steps::plan_steps(point.collective, rank, 2);
        Layout::new(&point, &steps, rank, 2, 1 << 16)
    };
    let steps = rank_steps::plan_steps(point.collective, 0, 2);
    let own = layout(0).unwrap();
    let mut transfer = Transfer::new(&point, &steps, &own, (0, 2), (3, 1), layout).unwrap();
    let fabric = RefCell::new(Fabric {
        memories: (0..2)
            .map(|_| PageMemory::new(own.length).unwrap())
            .collect(),
        ways: vec![
            vec![vec![VecDeque::new()], vec![VecDeque::new()]],
            Vec::new(),
        ],
        events: vec![VecDeque::new(), VecDeque::new()],
        chance: 5,
    });
    let mut end = End {
        rank: 0,
        fabric: &fabric,
    };
    transfer.begin();
    let told = |number: u32| {
        let event = TransportEvent::Credit { from: 1, number };
        fabric.borrow_mut().events[0].push_back(event);
    };
    let pieces = || {
        let way = &fabric.borrow().ways[0][1][0];
        way.iter()
            .filter(|packet| matches!(packet, Packet::Piece { .. }))
            .count()
    };
    told(2 << 24 | 5);
    for _ in 0..50 {
        transfer.turn(&mut end).unwrap();
    }
    assert_eq!(pieces(), 0);
    assert_eq!(transfer.waits_for(), "data from rank 1");
    told(3 << 24 | 1);
    for _ in 0..50 {
        transfer.turn(&mut end).unwrap();
    }
    assert_eq!(pieces(), 1);
}
