//! The time that is before a message, in the forms of NCCL, kubectl, syslog-like tools and glog (PyTorch).

/// A time. Two of them have an order if both have a date of the same completeness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// Seconds since 1970, or since the beginning of a year that is not said.
    pub seconds: f64,
    /// Whether the year is said.
    pub year: bool,
    /// Whether it says the zone: UTC, or another.
    pub zone: bool,
}

impl Time {
    /// How much later this one is than another; `None` if the two cannot be compared.
    pub fn since(self, other: Time) -> Option<f64> {
        (self.year == other.year && self.zone == other.zone).then_some(self.seconds - other.seconds)
    }

    /// The same time in the year that brings it nearest to another, if it says none itself: frameworks
    /// leave out the year that other lines of the log say.
    pub fn in_year_of(self, other: Time) -> Time {
        if self.year || !other.year || other.zone {
            return self;
        }
        let day = (other.seconds / DAY).floor() as i64;
        let about = 1970 + day.div_euclid(366);
        let dated = (about - 1..=about + 2).map(|year| Time {
            seconds: self.seconds_in(year),
            year: true,
            zone: false,
        });
        let distance = |time: &Time| (time.seconds - other.seconds).abs();
        dated
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
            .unwrap_or(self)
    }

    /// Seconds since 1970 of a time without a year, in this one.
    fn seconds_in(self, year: i64) -> f64 {
        let begin = days(year, 1, 1);
        let is_leap = days(year, 3, 1) - begin == LEAP_DAY + 1;
        // It was reckoned in a leap year.
        let skipped = !is_leap && self.seconds >= (LEAP_DAY + 1) as f64 * DAY;
        begin as f64 * DAY + self.seconds - if skipped { DAY } else { 0.0 }
    }
}

/// Seconds of a day.
const DAY: f64 = 86400.0;
/// Days of a leap year before 29 February.
const LEAP_DAY: i64 = 59;

/// The names of months as ctime(3) has them.
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The time of a line of the kernel, with its year: as `dmesg -T` has it, or before the line's words.
pub fn of_kernel_line(line: &str) -> Option<Time> {
    let in_brackets = line.split('[').skip(1).take(4).find_map(of_ctime);
    let found = in_brackets.or_else(|| Some(last(line.as_bytes())?.0));
    found.filter(|time| time.year)
}

/// `Fri Jan  2 03:03:58 2026] text`
fn of_ctime(line: &str) -> Option<Time> {
    let (stamp, _) = line.split_once(']')?;
    let words: Vec<&str> = stamp.split_whitespace().collect();
    let [_, month, day, time, year] = words.as_slice() else {
        return None;
    };
    let month = MONTHS.iter().position(|name| name == month)? as u32 + 1;
    let mut of_day = time.splitn(3, ':').map(|part| part.parse::<u32>().ok());
    let (hours, minutes, seconds) = (of_day.next()??, of_day.next()??, of_day.next()??);
    let days = days(year.parse().ok()?, month, day.parse().ok()?);
    Some(Time {
        seconds: days as f64 * 86400.0 + f64::from(hours * 3600 + minutes * 60 + seconds),
        year: true,
        zone: false,
    })
}

/// The last time in a text, and where it begins and ends.
pub fn last(text: &[u8]) -> Option<(Time, usize, usize)> {
    // A time has colons after its hours and minutes: only there can one be.
    let mut found = None;
    let mut at = 0;
    while let Some(colon) = text.get(at..).and_then(|rest| memchr::memchr(b':', rest)) {
        let hours = at + colon;
        at = hours + 1;
        if let Some(time) = around(text, hours) {
            at = time.2;
            found = Some(time);
        }
    }
    found
}

/// The time whose hours end before this colon.
fn around(text: &[u8], colon: usize) -> Option<(Time, usize, usize)> {
    let two = |at: usize| -> Option<u32> {
        let pair = text.get(at..at + 2)?;
        let both = pair.iter().all(u8::is_ascii_digit);
        both.then(|| u32::from(pair[0] - b'0') * 10 + u32::from(pair[1] - b'0'))
    };
    let hours_at = colon.checked_sub(2)?;
    let (hours, minutes, seconds) = (two(hours_at)?, two(colon + 1)?, two(colon + 4)?);
    if text.get(colon + 3) != Some(&b':') || hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let mut end = colon + 6;
    let mut fraction = 0.0;
    if matches!(text.get(end), Some(b'.' | b',')) {
        let mut unit = 0.1;
        let mut at = end + 1;
        while let Some(digit) = text.get(at).filter(|b| b.is_ascii_digit()) {
            fraction += f64::from(digit - b'0') * unit;
            unit /= 10.0;
            at += 1;
        }
        if at > end + 1 {
            end = at;
        }
    }
    let of_day = f64::from(hours * 3600 + minutes * 60 + seconds) + fraction;
    let mut zone = false;
    match text.get(end) {
        Some(b'Z') => {
            zone = true;
            end += 1;
        }
        Some(b'+' | b'-') if two(end + 1).is_some() => return None,
        _ => {}
    }
    // `2025-02-01 12:00:00`, `2025-02-01T12:00:00`, `2025/02/01 12:00:00`
    if let Some(date) = hours_at.checked_sub(11)
        && matches!(text.get(hours_at - 1), Some(b' ' | b'T' | b'_'))
        && matches!(text.get(date + 4), Some(b'-' | b'/'))
        && text.get(date + 4) == text.get(date + 7)
        && let (Some(century), Some(years), Some(month), Some(day)) =
            (two(date), two(date + 2), two(date + 5), two(date + 8))
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
    {
        let days = days(i64::from(century * 100 + years), month, day);
        let seconds = days as f64 * 86400.0 + of_day;
        return Some((
            Time {
                seconds,
                year: true,
                zone,
            },
            date,
            end,
        ));
    }
    // glog: `E0514 21:53:28.123456`, and PyTorch's `E514 21:53:28.123456789`.
    let before = text.get(..hours_at)?.trim_ascii_end();
    let digits = before
        .iter()
        .rev()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let date = before.len() - digits;
    if !(3..=4).contains(&digits)
        || !matches!(
            before.get(date.checked_sub(1)?),
            Some(b'I' | b'W' | b'E' | b'F' | b'V')
        )
    {
        return None;
    }
    let day = two(before.len() - 2)?;
    let month = match digits {
        4 => two(date)?,
        _ => u32::from(before.get(date)? - b'0'),
    };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Of a leap year, so that no day of another is out of its order.
    let seconds = (days(2000, month, day) - days(2000, 1, 1)) as f64 * 86400.0 + of_day;
    Some((
        Time {
            seconds,
            year: false,
            zone: false,
        },
        date - 1,
        end,
    ))
}

/// Days since 1970 of a date of the Gregorian calendar.
fn days(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let month = i64::from(month);
    let of_year =
        (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_year_is_of_the_nearest_one() {
        let time = |text: &str| last(text.as_bytes()).unwrap().0;
        let seconds = |text: &str, other: &str| time(text).in_year_of(time(other)).seconds;
        for (text, other) in [
            ("E1103 04:12:10", "2026-11-03 04:12:10"),
            ("E0301 00:00:01", "2026-03-01 00:00:01"),
            ("E0301 00:00:01", "2028-03-01 00:00:01"),
            ("E0101 00:00:01", "2027-01-01 00:00:01"),
        ] {
            assert_eq!(seconds(text, other), time(other).seconds, "{text} {other}");
        }
        let before = seconds("E1231 23:59:59", "2027-01-01 00:00:01");
        assert_eq!(before, time("2026-12-31 23:59:59").seconds);
        assert!(
            !time("E1103 04:12:10")
                .in_year_of(time("2026-11-03T04:12:10Z"))
                .year
        );
    }

    #[test]
    fn lines_of_the_kernel_have_the_time_of_their_form() {
        let stamps = [
            "[Fri Jan  2 03:03:58 2026] mlx5_core 0000:3b:00.0 ens3f0: Link down",
            "Jan  2 03:03:58 n1 kernel: [Fri Jan  2 03:03:58 2026] mlx5_core",
            "2026-01-02T03:03:58 n1 kernel: mlx5_core 0000:3b:00.0 ens3f0: Link down",
        ];
        for line in stamps {
            let time = of_kernel_line(line);
            assert_eq!(
                time.map(|time| time.seconds),
                Some(1_767_323_038.0),
                "{line}"
            );
        }
        for line in [
            "[ 1234.567890] mlx5_core 0000:3b:00.0 ens3f0: Link down",
            "Jan  2 03:03:58 n1 kernel: mlx5_core 0000:3b:00.0 ens3f0: Link down",
            "[Fri Jan  2 03:03 2026] cut",
        ] {
            assert_eq!(of_kernel_line(line), None, "{line}");
        }
    }
}
