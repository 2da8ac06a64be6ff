//! A flag that all ranks must know of, by a reduction of one number, against gathering objects.
//!
//! PyTorch gathers objects in two steps (`torch/distributed/distributed_c10d.py`,
//! `all_gather_object`): each rank's pickle has its own length, so the lengths are gathered first
//! (one int64 of each rank), then the pickles, each padded to the longest. Both steps are awaited,
//! since the host must read what came; a flag is awaited too. What pickling itself costs, in
//! Python, comes on top and is not measured.

use serde::Serialize;

use super::collective::{Collective, DataType, Reduction};
use super::results::Row;
use crate::measure::plan::run::Point;

/// Bytes of a number that is reduced, and of a length that is gathered.
const FLAG: u64 = 4;
const LENGTH: u64 = 8;

/// The operations of a round: lengths, objects, flag. `object` is the length of a pickle.
pub fn points(ranks: u64, object: u64, rounds: u64, trials: u64) -> Vec<Point> {
    let point = |collective, bytes, dtype| Point {
        collective,
        bytes,
        dtype,
        op: Reduction::Max,
        iterations: rounds,
        awaited: true,
        warmups: Some(1),
        trials,
        ..Point::all_reduce(bytes, ranks)
    };
    let gather = |bytes: u64| point(Collective::AllGather, ranks * bytes, DataType::Uint8);
    vec![
        gather(LENGTH),
        gather(object),
        point(Collective::AllReduce, FLAG, DataType::Int32),
    ]
}

/// What was measured: a flag by reduction against gathered objects. Times are in seconds, of one
/// round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flags {
    /// How many rounds there were.
    pub rounds: u64,
    /// How long a flag by reduction took.
    pub flag: f64,
    /// How long gathering took: the lengths of objects, and the objects.
    pub gathering: f64,
    /// Of it, the lengths.
    pub lengths: f64,
    /// Of it, the objects.
    pub objects: f64,
    /// How many times as long as the flag gathering took.
    pub ratio: f64,
}

impl Flags {
    /// Reads the rows of a plan of [`points`]; `None` where they are of something else, or one was
    /// not measured.
    pub fn of(rows: &[Row]) -> Option<Self> {
        let [lengths, objects, flag] = rows else {
            return None;
        };
        let is = |row: &Row, collective| row.point.collective == collective && row.point.awaited;
        let gather = Collective::AllGather;
        if !is(lengths, gather) || !is(objects, gather) || !is(flag, Collective::AllReduce) {
            return None;
        }
        let rounds = flag.point.iterations;
        let (flag, lengths, objects) = (flag.time()?, lengths.time()?, objects.time()?);
        let gathering = lengths + objects;
        Some(Flags {
            rounds,
            flag,
            gathering,
            lengths,
            objects,
            ratio: gathering / flag,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_told_again_from_its_rows() {
        let times = [20e-6, 22e-6, 7e-6];
        let rows: Vec<Row> = points(8, 4, 1000, 5)
            .into_iter()
            .zip(times)
            .map(|(point, time)| Row {
                point,
                seconds: vec![time],
                warmups: 1,
                checked: 1,
                wrong: 0,
                first_wrong: None,
            })
            .collect();
        assert_eq!(rows[0].point.bytes, 64);
        let flags = Flags::of(&rows).unwrap();
        assert_eq!((flags.rounds, flags.flag), (1000, 7e-6));
        assert!((flags.ratio - 6.0).abs() < 1e-9);
        assert_eq!(Flags::of(&rows[1..]), None);
        let mut other = rows;
        other.swap(0, 2);
        assert_eq!(Flags::of(&other), None);
    }
}
