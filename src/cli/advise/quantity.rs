//! Quantities as people write them on the command line.

/// A number and what stands behind it.
fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(at, c)| {
            // The `e` of 7e9 is followed by a digit or a sign.
            let exponent = matches!(c, 'e' | 'E')
                && text[at + 1..]
                    .starts_with(|next: char| next.is_ascii_digit() || next == '-' || next == '+');
            let sign = matches!(c, '+' | '-') && text[..*at].ends_with(['e', 'E']);
            !(c.is_ascii_digit() || *c == '.' || exponent || sign)
        })
        .map_or(text.len(), |(at, _)| at);
    let (number, unit) = text.split_at(end);
    let number: f64 = number
        .parse()
        .map_err(|_| format!("`{text}` does not begin with a number"))?;
    Ok((number, unit.trim()))
}

/// The number times its unit's factor, within bounds.
fn scaled(
    text: &str,
    units: &[(&str, f64)],
    bounds: std::ops::RangeInclusive<f64>,
    what: &str,
) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let names: Vec<&str> = units
            .iter()
            .map(|(name, _)| *name)
            .filter(|n| !n.is_empty())
            .collect();
        return Err(match unit {
            "" => format!("`{text}` has no unit: {}", names.join(", ")),
            unit => format!("`{unit}` is not a unit here: {}", names.join(", ")),
        });
    };
    let value = number * factor;
    match bounds.contains(&value) {
        true => Ok(value),
        false => Err(format!("`{text}` is not {what}")),
    }
}

/// A number of parameters: `7B`, `350M`, `70e9`, `1.5T`.
pub(super) fn parameters(text: &str) -> Result<f64, String> {
    let units = [
        ("", 1.0),
        ("K", 1e3),
        ("M", 1e6),
        ("B", 1e9),
        ("G", 1e9),
        ("T", 1e12),
    ];
    scaled(text, &units, 1.0..=1e15, "a number of parameters")
}

/// A bandwidth in GB/s, with its unit: `180 GB/s`, `1440 Gb/s`.
pub(super) fn bandwidth(text: &str) -> Result<f64, String> {
    let units = [
        ("GB/s", 1.0),
        ("MB/s", 1e-3),
        ("TB/s", 1e3),
        ("Gb/s", 0.125),
        ("Mb/s", 0.125e-3),
        ("Tb/s", 125.0),
    ];
    scaled(
        text,
        &units,
        1e-3..=1e5,
        "a bandwidth between 1 MB/s and 100 TB/s",
    )
}

/// A time in seconds: `1.8`, `1.8 s`, `40us`, `350 ms`.
pub(super) fn time(text: &str) -> Result<f64, String> {
    let units = [
        ("", 1.0),
        ("s", 1.0),
        ("ms", 1e-3),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("min", 60.0),
        ("h", 3600.0),
    ];
    scaled(
        text,
        &units,
        1e-7..=1e6,
        "a time between 100 ns and a million seconds",
    )
}

/// A size in bytes: `4GB`, `256MiB`, `25e6`.
pub(super) fn size(text: &str) -> Result<f64, String> {
    let units = [
        ("", 1.0),
        ("B", 1.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ];
    scaled(text, &units, 1.0..=1e15, "a size")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_people_write_them() {
        for (text, expected) in [
            ("7B", 7e9),
            ("70e9", 7e10),
            ("1.5T", 1.5e12),
            ("350M", 3.5e8),
            ("7 B", 7e9),
            ("1e+3", 1e3),
            ("12", 12.0),
        ] {
            assert_eq!(parameters(text), Ok(expected), "{text}");
        }
        assert_eq!(bandwidth("180 GB/s"), Ok(180.0));
        assert_eq!(bandwidth("1440Gb/s"), Ok(180.0));
        assert_eq!(bandwidth("1.5 TB/s"), Ok(1500.0));
        assert_eq!(time("1.8"), Ok(1.8));
        assert_eq!(time("500 ms"), Ok(0.5));
        assert_eq!(time("2min"), Ok(120.0));
        assert_eq!(size("25MB"), Ok(25e6));
        assert_eq!(size("256MiB"), Ok(268_435_456.0));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "", "B", "seven", "-7B", "0", "7X", "1e99", "NaN", "inf", "7e", "7..2B",
        ] {
            assert!(parameters(text).is_err(), "{text}");
        }
        for text in ["180", "180 Gbps", "0 GB/s", "-1 GB/s", "1e9 GB/s"] {
            assert!(bandwidth(text).is_err(), "{text}");
        }
        assert!(bandwidth("180").unwrap_err().contains("no unit"));
        for text in ["0", "-2", "2 days", "1e9"] {
            assert!(time(text).is_err(), "{text}");
        }
        for text in ["0", "4 GBit", "0.5"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
