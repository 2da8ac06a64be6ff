//! `rdma-doctor bench latency` and `bench flags`: what small operations cost.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::assembly;
use super::collective::REFERENCE;
use super::measuring::{self, MeasureArgs, NOT_OF_A_RECORDING, bytes};
use super::shared_verdict::MeasurementEnd;
use crate::cli::input;
use crate::cli::together::{TogetherArgs, starter};
use crate::cli::{MeasurementFormat, output, seconds};
use crate::exit::Exit;
use crate::measure::plan::collective::IN_HOST_MEMORY;
use crate::measure::plan::flags::{self, Flags};
use crate::measure::plan::latency::{self, Latency};
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::results::Results;
use crate::measure::plan::run::{Backend, Point};
use crate::measure::run::team::PartRequest;
use crate::report::collective::{Collectives, text};
use crate::report::html::charts;
use crate::report::latency::{FLAGS, LATENCY, is_whole, write_flags, write_latency};

/// What of latency is measured.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    /// Bytes of the large operation; each of the thousand small ones has a thousandth [default: 4000000000 with NCCL, 256M in the host's memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes, conflicts_with = "recording")]
    pub size: Option<u64>,
    /// What figures of small operations share.
    #[command(flatten)]
    pub figure: FigureArgs,
}

/// What of flags is measured.
#[derive(Debug, Args)]
pub struct FlagsArgs {
    /// Flags that are told one after the other
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000), default_value = "1000", conflicts_with = "recording")]
    pub rounds: u64,
    /// Bytes of a gathered object: four are Python's True
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1_048_576), default_value = "4", conflicts_with = "recording")]
    pub object: u64,
    /// What figures of small operations share.
    #[command(flatten)]
    pub figure: FigureArgs,
}

/// What figures of small operations share.
#[derive(Debug, Args)]
pub struct FigureArgs {
    /// Show what this recording has, in place of measuring
    #[arg(value_name = "RECORDING", conflicts_with_all = NOT_OF_A_RECORDING, conflicts_with_all = ["trials", "deadline", "cluster", "rank", "hosts", "hostfile"])]
    pub recording: Option<PathBuf>,
    /// Timed trials
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000), default_value = "5")]
    pub trials: u64,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300")]
    pub deadline: Duration,
    /// The nodes that take part.
    #[command(flatten)]
    pub who: MeasureArgs,
    /// How nodes come together.
    #[command(flatten)]
    pub together: TogetherArgs,
    /// The output's format
    #[arg(long, value_enum, default_value_t = MeasurementFormat::Text)]
    pub format: MeasurementFormat,
}

/// Runs `bench latency`.
///
/// # Errors
///
/// Unreadable input, options that contradict each other, an output that cannot be written.
pub fn latency(args: &LatencyArgs) -> anyhow::Result<Exit> {
    let points = |chosen: &ChosenRanks| {
        let size = args.size.unwrap_or(match chosen.backend {
            Backend::Nccl => REFERENCE,
            Backend::Verbs | Backend::Tcp => IN_HOST_MEMORY,
        });
        latency::points(size, chosen.ranks.len() as u64, args.figure.trials)
    };
    let figure = |results: &Results, ranks: u64| Latency::of(&results.rows(0), ranks);
    args.figure
        .run((LATENCY, "latency"), points, figure, write_latency)
}

/// Runs `bench flags`.
///
/// # Errors
///
/// Unreadable input, options that contradict each other, an output that cannot be written.
pub fn flags(args: &FlagsArgs) -> anyhow::Result<Exit> {
    let points = |chosen: &ChosenRanks| {
        let ranks = chosen.ranks.len() as u64;
        flags::points(ranks, args.object, args.rounds, args.figure.trials)
    };
    let figure = |results: &Results, _| Flags::of(&results.rows(0));
    args.figure
        .run((FLAGS, "flags"), points, figure, write_flags)
}

impl FigureArgs {
    /// Measures, or reads the recording that was named, and shows the figure of this schema and name; `figure` draws it from the results and the number
    /// of ranks.
    fn run<R: serde::Serialize>(
        &self,
        (schema, what): (&str, &str),
        points: impl Fn(&ChosenRanks) -> Vec<Point>,
        figure: impl FnOnce(&Results, u64) -> Option<R>,
        write: fn(&R, &mut dyn Write, &Collectives) -> std::io::Result<()>,
    ) -> anyhow::Result<Exit> {
        if let Some(exit) = starter::over_hosts(&self.together)? {
            return Ok(exit);
        }
        let end = assembly::read_or_measure(self.recording.as_deref(), || {
            let (parts, points) = (PartRequest::default(), |chosen: &_| Ok(points(chosen)));
            assembly::measure(&self.who, &self.together, self.deadline, parts, points)
        })?;
        let (recording, why, verdict) = match end {
            MeasurementEnd::Here(recording, why, verdict) => (*recording, why, verdict),
            MeasurementEnd::Elsewhere(exit) => return Ok(exit),
        };
        measuring::keep(&recording, &self.who)?;
        let (facts, nodes) = input::facts_of_site(std::slice::from_ref(&recording))?;
        let node = nodes
            .first()
            .map(|node| node.id)
            .ok_or_else(|| input::BadInput("the recording is of no node".into()))?;
        let (collectives, results) = measuring::collectives(&facts, node, &recording, why);
        let ranks = collectives.ranks.len() as u64;
        let figure = results
            .and_then(|results| figure(&results, ranks))
            .filter(|_| is_whole(&collectives.rows));
        let text = |out: &mut dyn Write| match &figure {
            Some(figure) => write(figure, out, &collectives),
            None => write_without_figure(out, &collectives, what),
        };
        match self.format {
            MeasurementFormat::Text => output::print(text)?,
            MeasurementFormat::Html => {
                let knee = serde_json::to_value(&figure)?["knee"].as_f64();
                measuring::show_page(None, text, |page| {
                    charts::bandwidth(page, &collectives, knee)
                })?;
            }
            MeasurementFormat::Json => {
                let mut value = serde_json::to_value(&collectives)?;
                value["schema"] = schema.into();
                value["figure"] = serde_json::to_value(&figure)?;
                output::print_json(&value)?;
            }
        }
        let badly = collectives.went_badly();
        let measured = collectives.is_measured() && (figure.is_some() || badly);
        let exit = measuring::exit(measured, badly, None);
        verdict.say(exit);
        Ok(exit)
    }
}

/// Writes the operations of a measurement without a figure: ranks that failed, wrong values, another measurement.
fn write_without_figure(
    out: &mut dyn Write,
    collectives: &Collectives,
    what: &str,
) -> std::io::Result<()> {
    text::write(out, collectives)?;
    if collectives.is_measured() && !collectives.went_badly() {
        writeln!(out, "this is not a measurement of {what}")?;
    }
    Ok(())
}
