//! Quantities as conditions, limits and examples write them: a number and a unit.

use super::diagnostic::nearest;
use crate::fact::{BitRate, Bytes, PerSecond, Percent, Seconds, Value};

/// The units, with what one of each is in the base unit.
const UNITS: [(&str, UnitKind, f64); 20] = [
    ("b/s", UnitKind::BitRate, 1.0),
    ("kb/s", UnitKind::BitRate, 1e3),
    ("Mb/s", UnitKind::BitRate, 1e6),
    ("Gb/s", UnitKind::BitRate, 1e9),
    ("Tb/s", UnitKind::BitRate, 1e12),
    ("B", UnitKind::Bytes, 1.0),
    ("KiB", UnitKind::Bytes, 1024.0),
    ("MiB", UnitKind::Bytes, 1048576.0),
    ("GiB", UnitKind::Bytes, 1073741824.0),
    ("TiB", UnitKind::Bytes, 1099511627776.0),
    ("us", UnitKind::Seconds, 1e-6),
    ("ms", UnitKind::Seconds, 1e-3),
    ("s", UnitKind::Seconds, 1.0),
    ("min", UnitKind::Seconds, 60.0),
    ("h", UnitKind::Seconds, 3600.0),
    ("d", UnitKind::Seconds, 86400.0),
    ("/s", UnitKind::PerSecond, 1.0),
    ("/min", UnitKind::PerSecond, 1.0 / 60.0),
    ("/h", UnitKind::PerSecond, 1.0 / 3600.0),
    ("%", UnitKind::Percent, 1.0),
];

#[derive(Clone, Copy)]
enum UnitKind {
    BitRate,
    Bytes,
    Seconds,
    PerSecond,
    Percent,
}

/// Whether a word is a unit.
pub(super) fn is_unit(word: &str) -> bool {
    UNITS.iter().any(|(unit, ..)| *unit == word)
}

/// What to write in place of something that is no unit.
pub(super) fn unit_help(written: &str) -> String {
    let lower = written.to_ascii_lowercase();
    let known = match &*lower {
        "gbps" | "gbit/s" | "gb" | "gbit" | "g" => Some("Gb/s"),
        "mbps" | "mbit/s" | "mb/s" | "mbit" => Some("Mb/s"),
        "kb" | "k" | "kbyte" => Some("KiB"),
        "mb" | "m" | "mbyte" => Some("MiB"),
        "gbyte" => Some("GiB"),
        "bytes" | "byte" => Some("B"),
        "µs" | "usec" => Some("us"),
        "sec" | "seconds" | "second" => Some("s"),
        "m/s" | "hz" => Some("/s"),
        "minutes" | "minute" => Some("min"),
        "hours" | "hour" => Some("h"),
        "days" | "day" => Some("d"),
        "percent" => Some("%"),
        _ => nearest(written, UNITS.iter().map(|(unit, ..)| *unit)),
    };
    match known {
        Some(unit) => format!("write `{unit}`"),
        None => format!("the units are {}", UNITS.map(|(unit, ..)| unit).join(", ")),
    }
}

/// The value of a number with its unit, or of a whole number without one.
pub(super) fn value(number: &str, unit: Option<&str>) -> Result<Value, String> {
    let Some(unit) = unit else {
        if number.contains('.') {
            return Err(format!(
                "`{number}` has no unit, and a number without one is whole"
            ));
        }
        return number
            .parse()
            .map(Value::Count)
            .map_err(|_| format!("`{number}` is too large"));
    };
    let Some((_, kind, factor)) = UNITS.iter().find(|(name, ..)| *name == unit) else {
        return Err(format!("`{unit}` is not a unit"));
    };
    let parsed: f64 = number
        .parse()
        .map_err(|_| format!("`{number}` is not a number"))?;
    let scaled = parsed * factor;
    Ok(match kind {
        UnitKind::BitRate => Value::BitRate(BitRate(whole(number, scaled, *factor)?)),
        UnitKind::Bytes => Value::Bytes(Bytes(whole(number, scaled, *factor)?)),
        UnitKind::Seconds => Value::Seconds(Seconds(scaled)),
        UnitKind::PerSecond => Value::PerSecond(PerSecond(scaled)),
        UnitKind::Percent => Value::Percent(Percent(scaled)),
    })
}

/// A quantity that is counted in whole base units.
fn whole(number: &str, scaled: f64, factor: f64) -> Result<u64, String> {
    if let Ok(units) = number.parse::<u64>() {
        // Integer arithmetic keeps every digit; every factor of such a unit is a whole number.
        return units
            .checked_mul(factor as u64)
            .ok_or_else(|| format!("`{number}` is too large"));
    }
    let nearest = scaled.round();
    if nearest > 9e15 {
        return Err(format!("`{number}` is too large"));
    }
    if (scaled - nearest).abs() > 1e-6 * scaled.max(1.0) {
        return Err(format!("`{number}` is not a whole number of the base unit"));
    }
    Ok(nearest as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_the_values_of_their_units() {
        for (number, unit, expected) in [
            ("400", "Gb/s", Value::BitRate(BitRate(400_000_000_000))),
            ("2.5", "Gb/s", Value::BitRate(BitRate(2_500_000_000))),
            ("64", "MiB", Value::Bytes(Bytes(64 << 20))),
            ("1.5", "GiB", Value::Bytes(Bytes(3 << 29))),
            ("10", "%", Value::Percent(Percent(10.0))),
            ("30", "/min", Value::PerSecond(PerSecond(0.5))),
            ("4", "d", Value::Seconds(Seconds(345_600.0))),
        ] {
            assert_eq!(value(number, Some(unit)), Ok(expected), "{number} {unit}");
        }
        assert_eq!(value("7", None), Ok(Value::Count(7)));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for (number, unit) in [
            ("2.5", None),
            ("99999999999999999999", None),
            ("99999999999999999999", Some("B")),
            ("99999999999", Some("Gb/s")),
            ("0.3", Some("B")),
            ("1", Some("Gbps")),
        ] {
            assert!(value(number, unit).is_err(), "{number} {unit:?}");
        }
        assert_eq!(unit_help("Gbps"), "write `Gb/s`");
        assert_eq!(unit_help("KB"), "write `KiB`");
    }
}
