//! Quantities with their units, and how they are written.

use std::fmt;

use serde::Serialize;

/// Bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct BitRate(pub u64);

/// A number of bytes; [`Bytes::UNLIMITED`] for a limit that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Bytes(pub u64);

/// A duration in seconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
pub struct Seconds(pub f64);

/// Events per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
pub struct PerSecond(pub f64);

/// Hundredths.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
pub struct Percent(pub f64);

impl Bytes {
    /// No limit, as `RLIM_INFINITY`.
    pub const UNLIMITED: Bytes = Bytes(u64::MAX);

    /// A number of bytes as people write it: with K, M or G (1024 and its powers, as nccl-tests reads them), and `B` or `iB` behind it or not.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            _ => return Err("not a number of bytes, as 65536, 64K, 256M, 1G"),
        };
        match number.parse::<u64>() {
            Ok(number) => (number.checked_mul(1 << shift))
                .map(Bytes)
                .ok_or("too large"),
            Err(_) if number.is_empty() => Err("not a number of bytes, as 65536, 64K, 256M, 1G"),
            Err(_) => Err("too large"),
        }
    }
}

/// A number with at most `digits` decimals, and no trailing zeros.
fn trimmed(f: &mut fmt::Formatter<'_>, number: f64, digits: usize) -> fmt::Result {
    let text = format!("{number:.digits$}");
    match text.split_once('.') {
        Some((whole, decimals)) => match decimals.trim_end_matches('0') {
            "" => f.write_str(whole),
            rest => write!(f, "{whole}.{rest}"),
        },
        None => f.write_str(&text),
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => {
                trimmed(f, n as f64 / 1e9, 3)?;
                f.write_str(" Gb/s")
            }
            n if n >= 1_000_000 => {
                trimmed(f, n as f64 / 1e6, 3)?;
                f.write_str(" Mb/s")
            }
            n => write!(f, "{n} b/s"),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [
            (1 << 40, "TiB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
        ];
        if *self == Bytes::UNLIMITED {
            return f.write_str("unlimited");
        }
        // Small numbers are MTUs and the like: they are known by their bytes.
        match UNITS
            .iter()
            .find(|(unit, _)| self.0 >= *unit && self.0 >= 16 << 10)
        {
            Some((unit, name)) => {
                trimmed(f, self.0 as f64 / *unit as f64, 1)?;
                write!(f, " {name}")
            }
            None => write!(f, "{} B", self.0),
        }
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(f64, &str); 3] = [(86400.0, "d"), (3600.0, "h"), (60.0, "min")];
        match UNITS.iter().find(|(unit, _)| self.0 >= 2.0 * unit) {
            Some((unit, name)) => {
                trimmed(f, self.0 / unit, 1)?;
                write!(f, " {name}")
            }
            None if self.0 > 0.0 && self.0 < 1e-3 => {
                trimmed(f, self.0 * 1e6, 1)?;
                f.write_str(" µs")
            }
            None if self.0 >= 1e-3 && self.0 < 1e-2 => {
                trimmed(f, self.0 * 1e3, 2)?;
                f.write_str(" ms")
            }
            None => {
                trimmed(f, self.0, 3)?;
                f.write_str(" s")
            }
        }
    }
}

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(f64, f64, &str); 3] = [
            (1.0, 1.0, "/s"),
            (1.0 / 60.0, 60.0, "/min"),
            (0.0, 3600.0, "/h"),
        ];
        let (_, factor, name) = UNITS
            .iter()
            .find(|(least, ..)| self.0.abs() >= *least)
            .unwrap_or(&UNITS[0]);
        trimmed(
            f,
            self.0 * factor,
            if self.0 * factor < 10.0 { 2 } else { 0 },
        )?;
        write!(f, " {name}")
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        trimmed(f, self.0, 1)?;
        f.write_str(" %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, size) in [
            ("8", 8),
            ("32M", 32 << 20),
            ("1G", 1 << 30),
            ("1GiB", 1 << 30),
            ("4k", 4096),
            ("64 KB", 65536),
            (" 512 MiB ", 512 << 20),
            ("4000000000", 4_000_000_000),
        ] {
            assert_eq!(Bytes::parse(text), Ok(Bytes(size)), "{text}");
        }
        for text in ["", "M", "-1", "1T", "4KK", "4iB", "1.5G", "G1"] {
            let why = Bytes::parse(text).unwrap_err();
            assert!(why.starts_with("not a number of bytes"), "{text}: {why}");
        }
        for text in ["18446744073709551615G", "99999999999999999999"] {
            assert_eq!(Bytes::parse(text), Err("too large"), "{text}");
        }
    }

    #[test]
    fn quantities_read_as_the_field_writes_them() {
        for (written, expected) in [
            (BitRate(400_000_000_000).to_string(), "400 Gb/s"),
            (BitRate(2_500_000_000).to_string(), "2.5 Gb/s"),
            (BitRate(0).to_string(), "0 b/s"),
            (Bytes(4096).to_string(), "4096 B"),
            (Bytes(65536).to_string(), "64 KiB"),
            (Bytes(8 << 20).to_string(), "8 MiB"),
            (Bytes(3 << 29).to_string(), "1.5 GiB"),
            (Bytes::UNLIMITED.to_string(), "unlimited"),
            (Seconds(2.0).to_string(), "2 s"),
            (Seconds(0.25).to_string(), "0.25 s"),
            (Seconds(0.000_17).to_string(), "170 µs"),
            (Seconds(0.0).to_string(), "0 s"),
            (Seconds(7200.0).to_string(), "2 h"),
            (Seconds(300_000.0).to_string(), "3.5 d"),
            (PerSecond(12.0).to_string(), "12 /s"),
            (PerSecond(0.5).to_string(), "30 /min"),
            (PerSecond(1.0 / 3600.0).to_string(), "1 /h"),
            (PerSecond(0.0).to_string(), "0 /h"),
            (Percent(12.5).to_string(), "12.5 %"),
        ] {
            assert_eq!(written, expected);
        }
    }
}
