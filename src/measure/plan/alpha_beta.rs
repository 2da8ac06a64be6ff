//! The time of an all-reduce as a latency and a bandwidth (the postal model of Hockney):
//! `t = α + S * 2(n-1)/n / β`.

use crate::measure::plan::collective::Collective;

/// What an all-reduce over so many ranks costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlphaBeta {
    /// Latency: what it costs whatever its size, in seconds.
    pub alpha: f64,
    /// Bandwidth in GB/s, as busbw of an endless buffer.
    pub beta: f64,
    /// Ranks.
    pub ranks: u64,
}

impl AlphaBeta {
    /// How long one of this many bytes takes, in seconds.
    pub fn time(self, size: f64) -> f64 {
        self.alpha + size * Collective::AllReduce.bus_factor(self.ranks) / (self.beta * 1e9)
    }

    /// Its busbw, in GB/s.
    pub fn busbw(self, size: f64) -> f64 {
        size * Collective::AllReduce.bus_factor(self.ranks) / self.time(size) / 1e9
    }

    /// The size, in bytes, at which latency and bandwidth take as long: half of β is reached there.
    /// `None` without a latency.
    pub fn knee(self) -> Option<f64> {
        let factor = Collective::AllReduce.bus_factor(self.ranks);
        (self.alpha > 0.0 && factor > 0.0).then(|| self.alpha * self.beta * 1e9 / factor)
    }
}

/// What was measured, as one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The line.
    pub line: AlphaBeta,
    /// How far the measured time that lies farthest from it is from it, of itself, in percent.
    pub apart: f64,
}

/// Fits the line to sizes in bytes and times in seconds, so that the sum of the squared relative
/// errors is least: absolute ones would see the largest sizes only. `None` of fewer than three
/// sizes, of one rank, or where no line with a positive start and a positive rate fits.
pub fn fit(measured: &[(f64, f64)], ranks: u64) -> Option<Fit> {
    let points: Vec<(f64, f64)> = measured
        .iter()
        .copied()
        .filter(|(bytes, time)| *bytes > 0.0 && *time > 0.0 && time.is_finite())
        .collect();
    if points.len() < 3 || ranks < 2 {
        return None;
    }
    // Each equation `α + bytes * each = time`, divided by its time.
    let (mut aa, mut ab, mut bb, mut a1, mut b1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (bytes, time) in &points {
        let (a, b) = (1.0 / time, bytes / time);
        aa += a * a;
        ab += a * b;
        bb += b * b;
        a1 += a;
        b1 += b;
    }
    let determinant = aa * bb - ab * ab;
    let alpha = (a1 * bb - b1 * ab) / determinant;
    let each = (b1 * aa - a1 * ab) / determinant;
    if !(alpha > 0.0 && each > 0.0 && alpha.is_finite() && each.is_finite()) {
        return None;
    }
    let line = AlphaBeta {
        alpha,
        beta: Collective::AllReduce.bus_factor(ranks) / each / 1e9,
        ranks,
    };
    let apart = |(bytes, time): &(f64, f64)| 100.0 * ((line.time(*bytes) - time) / time).abs();
    Some(Fit {
        line,
        apart: points.iter().map(apart).fold(0.0, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let (alpha, beta) = (20e-6, 1.0 / 40e9);
        let sizes = [8.0, 1024.0, 65536.0, 1e6, 64e6, 1e9];
        let measured: Vec<(f64, f64)> = sizes.iter().map(|s| (*s, alpha + beta * s)).collect();
        // Over four ranks each byte crosses the bus one and a half times.
        let fit = fit(&measured, 4).unwrap();
        assert!((fit.line.alpha / alpha - 1.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.line.beta / 60.0 - 1.0).abs() < 1e-6, "{fit:?}");
        assert!(
            (fit.line.knee().unwrap() / 800e3 - 1.0).abs() < 1e-6,
            "{fit:?}"
        );
        assert!(fit.apart < 1e-3);
    }

    #[test]
    fn noise_of_a_tenth_moves_the_line_by_about_as_much() {
        let sizes = [8.0, 1024.0, 65536.0, 1e6, 64e6, 1e9];
        let noise = [1.1, 0.9, 1.05, 0.95, 1.1, 0.92];
        let pairs = sizes.iter().zip(noise);
        let measured: Vec<(f64, f64)> = pairs.map(|(s, n)| (*s, n * (50e-6 + s / 10e9))).collect();
        let fit = fit(&measured, 2).unwrap();
        assert!((fit.line.alpha / 50e-6 - 1.0).abs() < 0.15, "{fit:?}");
        assert!((fit.line.beta / 10.0 - 1.0).abs() < 0.15, "{fit:?}");
        assert!(fit.apart > 5.0 && fit.apart < 20.0, "{fit:?}");
    }

    #[test]
    fn what_is_no_line_has_no_fit() {
        assert_eq!(fit(&[], 2), None);
        assert_eq!(fit(&[(8.0, 1e-6), (16.0, 1e-6)], 2), None);
        // Larger is faster.
        assert_eq!(fit(&[(8.0, 3e-6), (1e6, 2e-6), (1e9, 1e-6)], 2), None);
        // One rank sends nothing.
        assert_eq!(fit(&[(8.0, 1e-6), (1e6, 2e-6), (1e9, 1e-3)], 1), None);
        // One size three times.
        assert_eq!(fit(&[(8.0, 1e-6), (8.0, 1e-6), (8.0, 1e-6)], 2), None);
        assert_eq!(fit(&[(8.0, f64::NAN), (9.0, 0.0), (1e3, 1.0)], 2), None);
    }
}
