//! A bandwidth in words, for the sentences of measurements.

/// Bits per second in words, three digits: `12.5 GB/s`, of a rate below that of any cluster's
/// network `117 kB/s`.
pub fn rate(rate: u64) -> String {
    let bytes = rate as f64 / 8.0;
    let (value, unit) = match bytes {
        bytes if bytes >= 1e8 => (bytes / 1e9, "GB/s"),
        bytes if bytes >= 1e6 => (bytes / 1e6, "MB/s"),
        bytes => (bytes / 1e3, "kB/s"),
    };
    let decimals =
        usize::from(value < 100.0) + usize::from(value < 10.0) + usize::from(value < 1.0);
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_three_digits() {
        let of = |bytes: u64| rate(bytes * 8);
        assert_eq!(of(48_800_000_000), "48.8 GB/s");
        assert_eq!(of(119_000_000), "0.119 GB/s");
        assert_eq!(
            (of(1_250_000), of(117_000)),
            ("1.25 MB/s".into(), "117 kB/s".into())
        );
    }
}
