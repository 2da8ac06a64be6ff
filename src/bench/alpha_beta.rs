//! The time of an operation as a start and a rate: `time = α + β · bytes` (the postal model of Hockney).

/// What the line says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// What an operation costs whatever its size, in seconds.
    pub alpha: f64,
    /// What a byte costs, in seconds.
    pub beta: f64,
    /// The size from which on bytes cost more than the start: α / β. There half of the bandwidth is reached.
    pub knee: f64,
    /// How far the measured time that lies farthest from the line is from it, of itself, in percent.
    pub apart: f64,
}

/// Fits the line to sizes in bytes and times in seconds, so that the sum of the squared relative errors is least: absolute ones would see the
/// largest sizes only. `None` of fewer than three sizes, or where no line with a positive start and a positive rate fits.
pub fn fit(measured: &[(f64, f64)]) -> Option<Fit> {
    let points: Vec<(f64, f64)> = measured
        .iter()
        .copied()
        .filter(|(bytes, time)| *bytes > 0.0 && *time > 0.0 && time.is_finite())
        .collect();
    if points.len() < 3 {
        return None;
    }
    // Each equation `α + β · bytes = time`, divided by its time.
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
    let beta = (b1 * aa - a1 * ab) / determinant;
    let is_line = alpha > 0.0 && beta > 0.0 && alpha.is_finite() && beta.is_finite();
    let apart = |(bytes, time): &(f64, f64)| 100.0 * ((alpha + beta * bytes - time) / time).abs();
    is_line.then(|| Fit {
        alpha,
        beta,
        knee: alpha / beta,
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
        let fit = fit(&measured).unwrap();
        assert!((fit.alpha / alpha - 1.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.beta / beta - 1.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.knee / 800e3 - 1.0).abs() < 1e-6, "{fit:?}");
        assert!(fit.apart < 1e-3);
    }

    #[test]
    fn noise_of_a_tenth_moves_the_line_by_about_as_much() {
        let sizes = [8.0, 1024.0, 65536.0, 1e6, 64e6, 1e9];
        let noise = [1.1, 0.9, 1.05, 0.95, 1.1, 0.92];
        let pairs = sizes.iter().zip(noise);
        let measured: Vec<(f64, f64)> = pairs.map(|(s, n)| (*s, n * (50e-6 + s / 10e9))).collect();
        let fit = fit(&measured).unwrap();
        assert!((fit.alpha / 50e-6 - 1.0).abs() < 0.15, "{fit:?}");
        assert!((fit.beta * 10e9 - 1.0).abs() < 0.15, "{fit:?}");
        assert!(fit.apart > 5.0 && fit.apart < 20.0, "{fit:?}");
    }

    #[test]
    fn what_is_no_line_has_no_fit() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[(8.0, 1e-6), (16.0, 1e-6)]), None);
        // Larger is faster.
        assert_eq!(fit(&[(8.0, 3e-6), (1e6, 2e-6), (1e9, 1e-6)]), None);
        // One size three times.
        assert_eq!(fit(&[(8.0, 1e-6), (8.0, 1e-6), (8.0, 1e-6)]), None);
        assert_eq!(fit(&[(8.0, f64::NAN), (9.0, 0.0), (1e3, 1.0)]), None);
    }
}
