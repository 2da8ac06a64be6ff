//! The cost of many small operations compared to a large one, and of a flag compared to gathered objects.

use std::io::{self, Write};

use crate::terminal::Paint;

use super::collective::text::{self, digits};
use super::collective::{Collectives, MeasuredPoint};
use crate::fact::{Bytes, Seconds};
use crate::measure::plan::flags::Flags;
use crate::measure::plan::latency::Latency;

/// Version of the JSON form of `bench latency`.
pub const LATENCY: &str = "rdma-doctor-latency/1.0";
/// Version of the JSON form of `bench flags`.
pub const FLAGS: &str = "rdma-doctor-flags/1.0";

/// Writes many small operations against a large one for people, with the table of all sizes.
///
/// # Errors
///
/// The output's.
pub fn write_latency(of: &Latency, out: &mut dyn Write, measured: &Collectives) -> io::Result<()> {
    writeln!(
        out,
        "{} · {} all-reduces of {} take {}, one of {} takes {}: {} times as long",
        measured.node.bold(),
        of.operations,
        Bytes(of.small),
        time(of.small_time * of.operations as f64),
        Bytes(of.large),
        time(of.large_time),
        digits(of.ratio),
    )?;
    text::over(out, measured)?;
    writeln!(out, "\none small operation: {}", time(of.small_time))?;
    match (of.start, of.knee, of.busbw, of.apart) {
        (Some(start), Some(knee), Some(busbw), Some(apart)) => {
            writeln!(
                out,
                "start of an operation: {}; then a bus bandwidth of {} GB/s ({} Gb/s)",
                time(start),
                digits(text::gigabytes(busbw)),
                digits(busbw as f64 / 1e9),
            )?;
            writeln!(
                out,
                "the knee is at {}: smaller operations wait longer than they transfer; combine them",
                Bytes(knee)
            )?;
            if apart > 50.0 {
                let apart = digits(apart);
                writeln!(
                    out,
                    "the times do not follow one line (up to {apart} % off): NCCL changes its algorithm or protocol in between"
                )?;
            }
        }
        _ if measured.ranks.len() < 2 => writeln!(
            out,
            "one rank sends nothing: neither start time nor rate can be measured"
        )?,
        _ => writeln!(
            out,
            "the times follow no line: neither start time nor rate can be derived"
        )?,
    }
    writeln!(out)?;
    text::table(out, &measured.rows)
}

/// Writes a flag by reduction against gathered objects for people.
///
/// # Errors
///
/// The output's.
pub fn write_flags(of: &Flags, out: &mut dyn Write, measured: &Collectives) -> io::Result<()> {
    let rounds = of.rounds as f64;
    writeln!(
        out,
        "{} · {} flags by all-reduce take {}, by gathering objects {}: {} times as long",
        measured.node.bold(),
        of.rounds,
        time(of.flag * rounds),
        time(of.gathering * rounds),
        digits(of.ratio),
    )?;
    text::over(out, measured)?;
    writeln!(out, "\n  a flag, one number reduced     {}", time(of.flag))?;
    writeln!(out, "  gathered: lengths of objects   {}", time(of.lengths))?;
    writeln!(out, "  gathered: objects, padded      {}", time(of.objects))?;
    writeln!(
        out,
        "{}",
        "of one round; what pickling costs in Python comes on top of gathering".dimmed()
    )
}

/// Three digits of a time, with its unit.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 => return Seconds((s * 1000.0).round() / 1000.0).to_string(),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    format!("{} {unit}", digits(value))
}

/// Whether a value of a row is wrong, or a row has no time: then figures drawn from several rows count for nothing.
pub fn is_whole(rows: &[MeasuredPoint]) -> bool {
    rows.iter().all(|row| row.wrong == 0 && row.time.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_their_unit() {
        for (seconds, text) in [
            (7.25e-6, "7.25 µs"),
            (123.4e-6, "123 µs"),
            (0.0112, "11.2 ms"),
            (2.5, "2.5 s"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }
}
