//! `rdma-doctor bench latency` and `bench flags`: what small operations cost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::assembly;
use super::collective::{IN_HOST_MEMORY, REFERENCE};
use super::measuring::{self, MeasureArgs, NOT_OF_A_RECORDING, bytes};
use super::shared_verdict::{MeasurementEnd, SharedVerdict};
use crate::cli::input;
use crate::cli::together::{TogetherArgs, starter};
use crate::cli::{Format, output};
use crate::exit::Exit;
use crate::measure::plan::flags::{self, Flags};
use crate::measure::plan::latency::{self, Latency};
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::results::Results;
use crate::measure::plan::run::{Backend, Point};
use crate::measure::run::team::PartRequest;
use crate::report::collective::{Collectives, text};
use crate::report::latency::{FLAGS, FlagsReport, LATENCY, LatencyReport, is_whole};

/// What of latency is measured.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    /// Show what this recording has, in place of measuring
    #[arg(value_name = "RECORDING", conflicts_with_all = NOT_OF_A_RECORDING, conflicts_with_all = ["size", "trials", "deadline", "cluster", "rank", "hosts", "hostfile"])]
    pub recording: Option<PathBuf>,
    /// Bytes of the large operation; each of the thousand small ones has a thousandth [default: 4000000000 with NCCL, 256M in the host's memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub size: Option<u64>,
    /// Timed trials
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000), default_value = "5")]
    pub trials: u64,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = measuring::deadline, default_value = "300")]
    pub deadline: Duration,
    /// Who takes part.
    #[command(flatten)]
    pub who: MeasureArgs,
    /// How nodes come together.
    #[command(flatten)]
    pub together: TogetherArgs,
    /// The output's format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// What of flags is measured.
#[derive(Debug, Args)]
pub struct FlagsArgs {
    /// Show what this recording has, in place of measuring
    #[arg(value_name = "RECORDING", conflicts_with_all = NOT_OF_A_RECORDING, conflicts_with_all = ["rounds", "object", "trials", "deadline", "cluster", "rank", "hosts", "hostfile"])]
    pub recording: Option<PathBuf>,
    /// Flags that are told one after the other
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000), default_value = "1000")]
    pub rounds: u64,
    /// Bytes of a gathered object: four are Python's True
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1_048_576), default_value = "4")]
    pub object: u64,
    /// Timed trials
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000), default_value = "5")]
    pub trials: u64,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = measuring::deadline, default_value = "120")]
    pub deadline: Duration,
    /// Who takes part.
    #[command(flatten)]
    pub who: MeasureArgs,
    /// How nodes come together.
    #[command(flatten)]
    pub together: TogetherArgs,
    /// The output's format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Runs `bench latency`.
///
/// # Errors
///
/// Unreadable input, wishes that do not go together, an output that cannot be written.
pub fn latency(args: &LatencyArgs) -> anyhow::Result<Exit> {
    if let Some(exit) = starter::over_hosts(&args.together)? {
        return Ok(exit);
    }
    let points = |chosen: &ChosenRanks| {
        let size = args.size.unwrap_or(match chosen.backend {
            Backend::Nccl => REFERENCE,
            Backend::Verbs | Backend::Tcp => IN_HOST_MEMORY,
        });
        Ok(latency::points(
            size,
            chosen.ranks.len() as u64,
            args.trials,
        ))
    };
    let request = MeasurementRequest {
        recorded: args.recording.as_deref(),
        who: &args.who,
        together: &args.together,
        deadline: args.deadline,
    };
    let (collectives, rows, verdict) = match request.rows(points)? {
        Ok(all) => all,
        Err(exit) => return Ok(exit),
    };
    let ranks = collectives.ranks.len() as u64;
    let latency = rows.as_ref().and_then(|results| {
        let rows = results.rows(0);
        Some(LatencyReport::of(&Latency::of(&rows, ranks)?))
    });
    let latency = latency.filter(|_| is_whole(&collectives.rows));
    let exit = show(
        args.format,
        LATENCY,
        &collectives,
        &latency,
        |out| match &latency {
            Some(latency) => latency.write(out, &collectives),
            None => other(out, &collectives, "latency"),
        },
    )?;
    verdict.say(exit);
    Ok(exit)
}

/// Runs `bench flags`.
///
/// # Errors
///
/// Unreadable input, wishes that do not go together, an output that cannot be written.
pub fn flags(args: &FlagsArgs) -> anyhow::Result<Exit> {
    if let Some(exit) = starter::over_hosts(&args.together)? {
        return Ok(exit);
    }
    let points = |chosen: &ChosenRanks| {
        let ranks = chosen.ranks.len() as u64;
        Ok(flags::points(ranks, args.object, args.rounds, args.trials))
    };
    let request = MeasurementRequest {
        recorded: args.recording.as_deref(),
        who: &args.who,
        together: &args.together,
        deadline: args.deadline,
    };
    let (collectives, rows, verdict) = match request.rows(points)? {
        Ok(all) => all,
        Err(exit) => return Ok(exit),
    };
    let flags = rows
        .as_ref()
        .and_then(|results| Flags::of(&results.rows(0)))
        .map(|flags| FlagsReport::of(&flags))
        .filter(|_| is_whole(&collectives.rows));
    let exit = show(
        args.format,
        FLAGS,
        &collectives,
        &flags,
        |out| match &flags {
            Some(flags) => flags.write(out, &collectives),
            None => other(out, &collectives, "flags"),
        },
    )?;
    verdict.say(exit);
    Ok(exit)
}

/// What was measured, and whom to tell the verdict.
type Measured = (Collectives, Option<Results>, SharedVerdict);

/// By what is measured, or where that is recorded.
struct MeasurementRequest<'a> {
    recorded: Option<&'a Path>,
    who: &'a MeasureArgs,
    together: &'a TogetherArgs,
    deadline: Duration,
}

impl MeasurementRequest<'_> {
    /// What the recording that was named has, else what is measured, and whom to tell the verdict; how this process ends, where another one has it.
    fn rows(
        &self,
        points: impl Fn(&ChosenRanks) -> anyhow::Result<Vec<Point>>,
    ) -> anyhow::Result<Result<Measured, Exit>> {
        let (who, together) = (self.who, self.together);
        let end = assembly::read_or_measure(self.recorded, || {
            assembly::measure(who, together, self.deadline, PartRequest::default(), points)
        })?;
        let (recording, why, verdict) = match end {
            MeasurementEnd::Here(recording, why, verdict) => (*recording, why, verdict),
            MeasurementEnd::Elsewhere(exit) => return Ok(Err(exit)),
        };
        measuring::keep(&recording, who)?;
        let (facts, nodes) = input::facts_of_site(std::slice::from_ref(&recording))?;
        let node = nodes
            .first()
            .map(|node| node.id)
            .ok_or_else(|| input::BadInput("the recording is of no node".into()))?;
        let (collectives, rows) = measuring::collectives(&facts, node, &recording, why);
        Ok(Ok((collectives, rows, verdict)))
    }
}

/// What there is where the figure itself is not: ranks that ended badly, wrong values, another measurement.
fn other(
    out: &mut dyn std::io::Write,
    collectives: &Collectives,
    what: &str,
) -> std::io::Result<()> {
    text::write(out, collectives)?;
    if collectives.is_measured() && !collectives.went_badly() {
        writeln!(out, "this is no measurement of {what}")?;
    }
    Ok(())
}

fn show<R: serde::Serialize>(
    format: Format,
    schema: &str,
    collectives: &Collectives,
    figure: &Option<R>,
    text: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
) -> anyhow::Result<Exit> {
    output::print(|out| match format {
        Format::Json => {
            let mut value = serde_json::to_value(collectives)?;
            value["schema"] = schema.into();
            value["figure"] = serde_json::to_value(figure)?;
            serde_json::to_writer_pretty(&mut *out, &value)?;
            writeln!(out)
        }
        Format::Text => text(out),
    })?;
    let measured = collectives.is_measured() && (figure.is_some() || collectives.went_badly());
    Ok(measuring::exit(measured, collectives.went_badly(), None))
}
