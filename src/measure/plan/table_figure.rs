//! Times and throughputs as people write them into tables: `1:50:12`, `101.2s`, `1h 43m`,
//! `1,089 tokens/s`, `1.089 ± 0.003`.

/// A number above zero, half of its last digit, and the unit that stands behind it (empty if none
/// does).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WrittenNumber<'t> {
    /// The number.
    pub(super) value: f64,
    /// Half of its last digit: what was rounded when it was written.
    pub(super) half: f64,
    /// Its unit.
    pub(super) unit: &'t str,
}

/// A number above zero with its unit; a spread behind it (`± 0.003`, `(0.3 %)`) is passed over.
pub(super) fn number(text: &str) -> Option<WrittenNumber<'_>> {
    let text = text.trim();
    let text = text
        .split(['±', '('])
        .next()?
        .split("+/-")
        .next()?
        .trim_end();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = unit.trim();
    if unit.starts_with(|c: char| !c.is_alphabetic())
        || text[end..].starts_with(['e', 'E'])
            && unit[1..].starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-')
    {
        return None;
    }
    let plain = without_thousands(digits)?;
    let value: f64 = plain.parse().ok()?;
    let half = half_digit(&plain)?;
    (value > 0.0 && value.is_finite()).then_some(WrittenNumber { value, half, unit })
}

/// `1,089,412.5` as `1089412.5`; a comma elsewhere separates no thousands.
fn without_thousands(digits: &str) -> Option<String> {
    let (whole, rest) = digits.split_once('.').unwrap_or((digits, ""));
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let good = !whole.contains(',')
        || ((1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3));
    (good && !rest.contains(',')).then(|| digits.replace(',', ""))
}

/// A time, and half of its last digit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WrittenTime {
    /// In seconds.
    pub(super) seconds: f64,
    /// In seconds: what was rounded when it was written.
    pub(super) half: f64,
}

/// A time in seconds: `2:37:14`, `43:40`, `6220`, `6,220.5 s`, `622 ms`, `1h 43m 40s`, `12 min`.
pub(super) fn seconds(text: &str) -> Option<f64> {
    Some(time(text)?.seconds)
}

/// The same, with half of its last digit.
pub(super) fn time(text: &str) -> Option<WrittenTime> {
    let text = text.trim();
    let time = if text.contains(':') {
        by_colons(text)?
    } else {
        by_units(text)?
    };
    (time.seconds > 0.0 && time.seconds.is_finite()).then_some(time)
}

/// Half of the last digit of a number.
fn half_digit(digits: &str) -> Option<f64> {
    let decimals = digits.split_once('.').map_or(0, |(_, rest)| rest.len());
    Some(0.5 * 0.1f64.powi(i32::try_from(decimals).ok()?))
}

fn by_colons(text: &str) -> Option<WrittenTime> {
    let text = text.strip_suffix('s').map_or(text, str::trim_end);
    let mut all = 0.0;
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    for (at, part) in parts.iter().enumerate() {
        let digits = part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let value: f64 = part.parse().ok().filter(|_| digits)?;
        if at > 0 && value >= 60.0 {
            return None;
        }
        all = 60.0 * all + value;
    }
    Some(WrittenTime {
        seconds: all,
        half: half_digit(parts.last()?)?,
    })
}

/// A number with its unit, or several from large to small; without a unit it is seconds.
fn by_units(text: &str) -> Option<WrittenTime> {
    let (mut all, mut half, mut least) = (0.0, 0.0, f64::INFINITY);
    let mut rest = text.split(['±', '(']).next()?.split("+/-").next()?.trim();
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')
            .unwrap_or(rest.len());
        let (digits, behind) = rest.split_at(end);
        let behind = behind.trim_start();
        let end = behind
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(behind.len());
        let (word, behind) = behind.split_at(end);
        let unit = unit_of_time(word)?;
        let plain = without_thousands(digits)?;
        let value: f64 = plain.parse().ok()?;
        if unit >= least {
            return None;
        }
        least = unit;
        all += value * unit;
        half = half_digit(&plain)? * unit;
        rest = behind.trim_start();
    }
    Some(WrittenTime { seconds: all, half })
}

/// What a word for a unit of time is in seconds; without a word it is a second.
pub(super) fn unit_of_time(word: &str) -> Option<f64> {
    match word.to_ascii_lowercase().as_str() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "us" | "µs" | "μs" | "usec" => Some(1e-6),
        "ms" | "msec" | "millisecond" | "milliseconds" => Some(1e-3),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(3600.0),
        "d" | "day" | "days" => Some(86400.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, value) in [
            ("2:37:14", Some(9434.0)),
            ("43:40", Some(2620.0)),
            ("6220.5 s", Some(6220.5)),
            ("101.2s", Some(101.2)),
            ("6,220", Some(6220.0)),
            ("622 ms", Some(0.622)),
            ("1h 43m 40s", Some(6220.0)),
            ("1 h", Some(3600.0)),
            ("101.2 ± 0.3 s", Some(101.2)),
            ("0", None),
            ("1:2:3:4", None),
            ("1:60", None),
            ("nan", None),
            ("inf", None),
            ("-5", None),
            ("5 s 3 h", None),
            ("5 apples", None),
        ] {
            let found = seconds(text);
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(
                found == value || found.zip(value).is_some_and(|(a, b)| near(a, b)),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn what_was_rounded_is_half_of_the_last_digit() {
        for (text, half) in [
            ("1:50:12", 0.5),
            ("622 ms", 0.0005),
            ("101.2s", 0.05),
            ("1h 43m", 30.0),
        ] {
            let found = time(text).unwrap().half;
            assert!((found - half).abs() < 1e-9, "{text}: {found}");
        }
    }

    #[test]
    fn numbers() {
        for (text, value, unit) in [
            ("1.089", 1.089, ""),
            ("1,089,412", 1_089_412.0, ""),
            ("180.2 GB/s", 180.2, "GB/s"),
            ("412TFLOPs", 412.0, "TFLOPs"),
            ("1.089 ± 0.003", 1.089, ""),
            ("12.1 (0.2 %)", 12.1, ""),
        ] {
            let found = number(text).unwrap();
            assert_eq!((found.value, found.unit), (value, unit), "{text}");
        }
        assert!((number("0.697").unwrap().half - 0.0005).abs() < 1e-12);
        for text in ["-4", "1e9", "0", "hang", "", "1,08", "1.089,4", "10 %"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
