//! The cost of many small operations compared to a large one, and of a flag compared to gathered objects.

use std::io::{self, Write};

use crate::terminal::Paint;
use serde::Serialize;

use super::collective::text::{self, digits};
use super::collective::{Collectives, MeasuredPoint};
use crate::derive::bandwidth_model;
use crate::fact::{Bytes, Seconds};
use crate::measure::plan::flags::Flags;
use crate::measure::plan::latency::Latency;

/// Version of the JSON form of `bench latency`.
pub const LATENCY: &str = "rdma-doctor-latency/1.0";
/// Version of the JSON form of `bench flags`.
pub const FLAGS: &str = "rdma-doctor-flags/1.0";

/// One large operation against many small ones. Times are in seconds.
#[derive(Debug, Serialize)]
pub struct LatencyReport {
    /// Bytes of the large operation.
    pub large: u64,
    /// How long it took.
    pub large_time: f64,
    /// Bytes of a small one.
    pub small: u64,
    /// How long one took.
    pub small_time: f64,
    /// How many small ones there were.
    pub operations: u64,
    /// How many times as long as the large one all the small ones took.
    pub ratio: f64,
    /// The fixed cost of an operation.
    pub start: Option<f64>,
    /// The bus bandwidth that sizes without end would reach, in bits per second.
    pub busbw: Option<u64>,
    /// The size at which half of it is reached.
    pub knee: Option<u64>,
    /// How far the size that fits least is from that, in percent.
    pub apart: Option<f64>,
}

impl LatencyReport {
    /// The measurement.
    pub fn of(latency: &Latency) -> Self {
        let line = latency.fit.map(|fit| fit.line);
        LatencyReport {
            large: latency.large.0,
            large_time: latency.large.1,
            small: latency.small.0,
            small_time: latency.small.1,
            operations: latency.operations,
            ratio: latency.ratio,
            start: line.map(|line| line.alpha),
            busbw: line.map(|line| bandwidth_model::rate(line.beta).0),
            knee: line.and_then(|line| Some(line.knee()? as u64)),
            apart: latency.fit.map(|fit| fit.apart),
        }
    }

    /// Writes it for people, with the table of all sizes.
    ///
    /// # Errors
    ///
    /// The output's.
    pub fn write(&self, out: &mut dyn Write, measured: &Collectives) -> io::Result<()> {
        writeln!(
            out,
            "{} · {} all-reduces of {} take {}, one of {} takes {}: {} times as long",
            measured.node.bold(),
            self.operations,
            Bytes(self.small),
            time(self.small_time * self.operations as f64),
            Bytes(self.large),
            time(self.large_time),
            digits(self.ratio),
        )?;
        text::over(out, measured)?;
        writeln!(out, "\none small operation: {}", time(self.small_time))?;
        match (self.start, self.knee, self.busbw, self.apart) {
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
}

/// A flag by reduction against gathered objects. Times are in seconds, of one round.
#[derive(Debug, Serialize)]
pub struct FlagsReport {
    /// How many rounds there were.
    pub rounds: u64,
    /// How long the flag took.
    pub flag: f64,
    /// How long gathering took: the lengths of objects, and the objects.
    pub gathering: f64,
    /// Of it, the lengths.
    pub lengths: f64,
    /// Of it, the objects.
    pub objects: f64,
    /// How many times as long as the flag.
    pub ratio: f64,
}

impl FlagsReport {
    /// The measurement.
    pub fn of(flags: &Flags) -> Self {
        FlagsReport {
            rounds: flags.rounds,
            flag: flags.flag,
            gathering: flags.gathering(),
            lengths: flags.lengths,
            objects: flags.objects,
            ratio: flags.ratio(),
        }
    }

    /// Writes it for people.
    ///
    /// # Errors
    ///
    /// The output's.
    pub fn write(&self, out: &mut dyn Write, measured: &Collectives) -> io::Result<()> {
        let rounds = self.rounds as f64;
        writeln!(
            out,
            "{} · {} flags by all-reduce take {}, by gathering objects {}: {} times as long",
            measured.node.bold(),
            self.rounds,
            time(self.flag * rounds),
            time(self.gathering * rounds),
            digits(self.ratio),
        )?;
        text::over(out, measured)?;
        writeln!(
            out,
            "\n  a flag, one number reduced     {}",
            time(self.flag)
        )?;
        writeln!(
            out,
            "  gathered: lengths of objects   {}",
            time(self.lengths)
        )?;
        writeln!(
            out,
            "  gathered: objects, padded      {}",
            time(self.objects)
        )?;
        writeln!(
            out,
            "{}",
            "of one round; what pickling costs in Python comes on top of gathering".dimmed()
        )
    }
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
