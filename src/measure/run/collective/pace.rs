//! Sizes and repetitions that fit the time of a run: a slow network is measured with less, and not
//! called a hang. All ranks decide by the slowest one, so that all decide alike.

use std::time::Duration;

use serde_json::{Value, json};

use super::backend::Backend;
use super::rank_exchange::RankExchange;
use super::rank_messages::RankJob;
use crate::fact::Bytes;
use crate::live::clock;
use crate::live::failure::Failure;
use crate::measure::plan::run::{Point, STEADY, iterations};
use std::time::Instant;

/// The first size that is tried.
const FIRST: u64 = 64 << 10;
/// How much larger the next one is.
const GROWTH: u64 = 16;
/// Warm-up trials that get steady, at most.
pub(super) const WARM_UPS: u64 = 20;
/// How much longer than the fastest of the last ones the slowest of steady trials takes at most.
const APART: f64 = 1.05;
/// How long warm-up trials go on that do not get steady.
const WARM_UP_TIME: Duration = Duration::from_secs(2);
/// How long an operation of a size that nobody asked for takes at most, in seconds: longer ones say
/// no more.
const LONG: f64 = 1.0;

/// The point with a size and repetitions that fit: each trial takes a part of `share` seconds.
pub(super) fn settle(
    job: &RankJob,
    point: &Point,
    share: f64,
    backend: &mut dyn Backend,
    exchange: &mut RankExchange,
) -> Result<Point, Failure> {
    // Points with and without GPUs' memory are compared with each other, and so are repetitions
    // that somebody chose.
    let is_own = point.iterations != iterations(point.bytes) || point.iterations == 1;
    let is_fixed = !point.adaptive && is_own;
    if is_fixed || job.points.iter().any(|point| point.gpu_memory) {
        return Ok(point.clone());
    }
    let most = (share / point.steps() as f64).min(LONG);
    let ranks = job.ranks as u64;
    let once = |bytes: u64| Point {
        bytes: point.dtype.whole(bytes, ranks),
        iterations: 1,
        ..point.clone()
    };
    let mut tried = if point.adaptive {
        once(FIRST.min(point.bytes))
    } else {
        Point {
            bytes: point.bytes,
            ..once(point.bytes)
        }
    };
    let seconds = loop {
        let size = Bytes(tried.bytes);
        exchange.report_step(&format!("{} of {size}: first try", point.collective.word()));
        backend.prepare(exchange, &tried)?;
        exchange.all_gather(Value::Null)?;
        let seconds = slowest(backend.run(exchange, &tried)?, exchange)?;
        if tried.bytes >= point.bytes || seconds * GROWTH as f64 > most {
            break seconds;
        }
        tried = once((tried.bytes * GROWTH).min(point.bytes));
    };
    Ok(fit(point, &tried, seconds, most, ranks))
}

/// The point that takes `most` seconds at most, by an operation that took `seconds`.
fn fit(point: &Point, tried: &Point, seconds: f64, most: f64, ranks: u64) -> Point {
    // Sizes that people read: powers of two.
    let room = tried.bytes as f64 * most / seconds.max(1e-9);
    let bytes = if point.adaptive && room < point.bytes as f64 {
        point
            .dtype
            .whole((1 << (room.max(1.0).log2() as u32)).max(FIRST), ranks)
    } else {
        point.bytes
    };
    let of_one = seconds * bytes as f64 / tried.bytes.max(1) as f64;
    let often = (most / of_one.max(1e-9)) as u64;
    let wanted = if bytes == point.bytes {
        point.iterations
    } else {
        iterations(bytes)
    };
    Point {
        bytes,
        iterations: often.clamp(1, wanted.max(1)),
        ..point.clone()
    }
}

/// The longest time of all ranks, in seconds.
fn slowest(own: Duration, exchange: &mut RankExchange) -> Result<f64, Failure> {
    let all = exchange.all_gather(json!(own.as_secs_f64()))?;
    let all = all.iter().filter_map(Value::as_f64);
    Ok(all.fold(own.as_secs_f64(), f64::max))
}

/// How many trials a point has time for.
pub(super) struct Pace {
    begun: Instant,
    share: f64,
    longest: f64,
}

impl Pace {
    pub(super) fn new(share: f64) -> Self {
        Pace {
            begun: clock::now(),
            share,
            longest: 0.0,
        }
    }

    /// An operation took so long.
    pub(super) fn took(&mut self, time: Duration) {
        self.longest = self.longest.max(time.as_secs_f64());
    }

    /// Whether warm-up ends on all ranks after trials of these times: the last of them are steady,
    /// or it took long enough.
    pub(super) fn is_warm(
        &self,
        times: &[Duration],
        exchange: &mut RankExchange,
    ) -> Result<bool, Failure> {
        let last = times.iter().rev().take(STEADY as usize);
        let (least, most) = (last.clone().min(), last.max());
        let is_steady = times.len() >= STEADY as usize
            && least
                .zip(most)
                .is_some_and(|(a, b)| b.as_secs_f64() <= APART * a.as_secs_f64());
        let is_long = times.len() > 1 && self.begun.elapsed() > WARM_UP_TIME;
        let all = exchange.all_gather(json!(is_steady || is_long))?;
        Ok(all.iter().all(|one| one.as_bool() == Some(true)))
    }

    /// Whether all ranks have time for one more, for `further` after it, and to verify. All ranks
    /// begin together after it.
    pub(super) fn go_on(&self, exchange: &mut RankExchange, further: u64) -> Result<bool, Failure> {
        let left = self.share - self.begun.elapsed().as_secs_f64();
        let own = (2 + further) as f64 * self.longest <= left;
        let all = exchange.all_gather(json!(own))?;
        Ok(all.iter().all(|one| one.as_bool() != Some(false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(bytes: u64, adaptive: bool) -> Point {
        Point {
            adaptive,
            ..Point::all_reduce(bytes, 2)
        }
    }

    #[test]
    fn a_size_that_nobody_asked_for_gets_smaller_and_another_one_is_kept() {
        let tried = point(1 << 20, true);
        // 1 MiB takes 0.2 s: 5 MiB take a second.
        let fits = fit(&point(256 << 20, true), &tried, 0.2, 1.0, 2);
        assert_eq!((fits.bytes, fits.iterations), (4 << 20, 1));
        let fits = fit(&point(256 << 20, true), &tried, 0.001, 1.0, 2);
        assert_eq!((fits.bytes, fits.iterations), (256 << 20, 1));
        let given = point(1 << 20, false);
        assert_eq!(given.iterations, 10);
        let fits = fit(&given, &given, 0.3, 1.0, 2);
        assert_eq!((fits.bytes, fits.iterations), (1 << 20, 3));
        let fits = fit(&given, &given, 7.0, 1.0, 2);
        assert_eq!((fits.bytes, fits.iterations), (1 << 20, 1));
    }
}
