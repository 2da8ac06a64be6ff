//! One large reduction against a thousand small ones of the same bytes together, and what
//! operations of all sizes cost.
//!
//! The large one is the last point of the plan, the small ones the one before: so a recording tells
//! them again.

use serde::Serialize;

use super::results::Row;
use crate::measure::plan::alpha_beta;
use crate::measure::plan::run::{Point, iterations};

/// How many small operations have the bytes of the large one.
pub const SMALL: u64 = 1000;
/// The least size of the sweep in bytes, and how many times larger each next one is.
const LEAST: u64 = 8;
const FACTOR: u64 = 8;

/// The operations: a sweep from few bytes to many, then the small ones, then the large one.
pub fn points(bytes: u64, ranks: u64, trials: u64) -> Vec<Point> {
    let point = |bytes: u64, iterations: u64| Point {
        iterations,
        warmups: Some(1),
        trials,
        ..Point::all_reduce(bytes, ranks)
    };
    let mut points = Vec::new();
    let mut size = LEAST;
    while size < bytes {
        points.push(point(size, iterations(size)));
        size = size.saturating_mul(FACTOR);
    }
    points.dedup_by_key(|point| point.bytes);
    points.push(point(bytes / SMALL, SMALL));
    points.push(point(bytes, 1));
    points
}

/// What was measured: one large operation against many small ones. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Bytes of the large operation.
    pub large: u64,
    /// How long it took.
    pub large_time: f64,
    /// Bytes of a small one.
    pub small: u64,
    /// How long one took.
    pub small_time: f64,
    /// How many small ones there were.
    pub operations: u64,
    /// How many times as long as the large one all the small ones took.
    pub ratio: f64,
    /// The fixed cost of an operation, where the sweep follows a line.
    pub start: Option<f64>,
    /// The bus bandwidth that sizes without end would reach, in bits per second.
    pub busbw: Option<u64>,
    /// The size at which half of it is reached.
    pub knee: Option<u64>,
    /// How far the size that fits least is from that, in percent.
    pub apart: Option<f64>,
}

impl Latency {
    /// Reads the rows of a plan of [`points`] over so many ranks; `None` where they are of
    /// something else, or one of the two was not measured.
    pub fn of(rows: &[Row], ranks: u64) -> Option<Self> {
        let (large, rest) = rows.split_last()?;
        let (small, sweep) = rest.split_last()?;
        let operations = small.point.iterations;
        if operations != SMALL || large.point.iterations != 1 || sweep.is_empty() {
            return None;
        }
        let (all, each) = (large.time()?, small.time()?);
        let sizes = sweep.iter().chain([large]);
        let measured: Vec<(f64, f64)> = sizes
            .filter_map(|row| Some((row.point.bytes as f64, row.time()?)))
            .collect();
        let fit = alpha_beta::fit(&measured, ranks);
        let line = fit.map(|fit| fit.line);
        Some(Latency {
            large: large.point.bytes,
            large_time: all,
            small: small.point.bytes,
            small_time: each,
            operations,
            ratio: each * operations as f64 / all,
            start: line.map(|line| line.alpha),
            // Whole megabits.
            busbw: line.map(|line| (line.beta.max(0.0) * 8000.0).round() as u64 * 1_000_000),
            knee: line.and_then(|line| Some(line.knee()? as u64)),
            apart: fit.map(|fit| fit.apart),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(point: Point, seconds: f64) -> Row {
        Row {
            point,
            seconds: vec![seconds; 3],
            warmups: 1,
            checked: 1,
            wrong: 0,
            first_wrong: None,
        }
    }

    #[test]
    fn a_thousand_small_ones_have_the_bytes_of_the_large_one() {
        let points = points(4_000_000_000, 8, 5);
        let (large, rest) = points.split_last().unwrap();
        let small = rest.last().unwrap();
        assert_eq!(large.bytes, 4_000_000_000);
        assert_eq!(small.bytes * small.iterations, large.bytes);
        assert_eq!(points[0].bytes, 32);
        let sizes: Vec<u64> = points[..points.len() - 2].iter().map(|p| p.bytes).collect();
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
    }

    #[test]
    fn start_and_rate_come_from_the_sweep_and_the_ratio_from_the_two() {
        let time = |point: &Point| 30e-6 + point.bytes as f64 / 100e9;
        let rows: Vec<Row> = points(4_000_000_000, 2, 5)
            .into_iter()
            .map(|point| row(point.clone(), time(&point)))
            .collect();
        let latency = Latency::of(&rows, 2).unwrap();
        assert!((latency.start.unwrap() / 30e-6 - 1.0).abs() < 1e-6);
        assert!((latency.knee.unwrap() as f64 / 3e6 - 1.0).abs() < 1e-6);
        // A thousand starts, of 30 µs each, on top of 40 ms.
        assert!((latency.ratio - 0.07 / 0.04003).abs() < 1e-6, "{latency:?}");
        assert_eq!(Latency::of(&rows[..3], 2), None);
        assert_eq!(Latency::of(&[], 2), None);
    }
}
