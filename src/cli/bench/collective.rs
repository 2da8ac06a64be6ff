//! `rdma-doctor bench all-reduce` and the other collectives.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::assembly;
use super::measuring::{self, MeasureArgs, NOT_OF_A_RECORDING, bytes};
use super::shared_verdict::MeasurementEnd;
use crate::cli::input::{self, BadUsage, bad_usage};
use crate::cli::together::{TogetherArgs, starter};
use crate::cli::{MeasurementFormat, output, seconds};
use crate::exit::Exit;
use crate::fact::limit;
use crate::measure::plan::collective::IN_HOST_MEMORY;
use crate::measure::plan::collective::{Collective, DataType, Reduction};
use crate::measure::plan::memory_request::MemoryRequest;
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::run::{Backend, Point};
use crate::measure::run::team::BisectionLimits;
use crate::measure::run::team::PartRequest;
use crate::report::collective::{nccl_tests, text};
use crate::report::html::{Markup, charts};

/// The size of the reference benchmark: 500,000 × 2,000 elements of four bytes.
pub const REFERENCE: u64 = 4_000_000_000;

/// What of a collective is measured.
#[derive(Debug, Args)]
pub struct CollectiveArgs {
    /// Show what this recording has, in place of measuring
    #[arg(value_name = "RECORDING", conflicts_with_all = NOT_OF_A_RECORDING, conflicts_with_all = ["begin", "end", "factor", "dtype", "op", "in_place", "warmups", "trials", "memory", "deadline", "bisect", "cluster", "rank", "hosts", "hostfile"])]
    pub recording: Option<PathBuf>,
    /// The smallest size, as 8, 32M, 1G [default: 4000000000 with NCCL, 256M in the host's memory; less where an operation takes longer than a second]
    #[arg(short = 'b', long, visible_alias = "size", value_name = "BYTES", value_parser = bytes)]
    pub begin: Option<u64>,
    /// The largest size [default: the smallest]
    #[arg(short = 'e', long, value_name = "BYTES", value_parser = bytes)]
    pub end: Option<u64>,
    /// How many times larger than the one before each size is
    #[arg(short = 'f', long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1024), default_value = "2")]
    pub factor: u64,
    /// The type of an element: float32, float16, bfloat16, uint8, int32
    #[arg(long, value_name = "TYPE", value_parser = dtype, default_value = "float32")]
    pub dtype: DataType,
    /// How elements are put together: sum, min, max
    #[arg(long, value_name = "OP", value_parser = reduction, default_value = "sum")]
    pub op: Reduction,
    /// Let the result replace what is sent
    #[arg(long)]
    pub in_place: bool,
    /// Trials that come first and do not count [default: until three in a row differ by 5 % at most, 20 trials and 2 seconds at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub warmups: Option<u64>,
    /// Timed trials
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000), default_value = "5")]
    pub trials: u64,
    /// Where the data is (verbs): GPUs' memory takes GPUDirect RDMA, by DMA-BUF or nvidia_peermem; both says what it is worth against the host's
    #[arg(long, value_name = "host|gpu|both", value_enum, hide_possible_values = true, default_value_t = MemoryRequest::Host)]
    pub memory: MemoryRequest,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "120")]
    pub deadline: Duration,
    /// Measure halves of the nodes too, and halves of what is slow, until it is found which nodes make the whole slow, or what lies between them
    #[arg(long)]
    pub bisect: bool,
    /// Look for that no longer than this
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "600", requires = "bisect")]
    pub bisect_for: Duration,
    /// The nodes that take part.
    #[command(flatten)]
    pub who: MeasureArgs,
    /// How nodes come together.
    #[command(flatten)]
    pub together: TogetherArgs,
    /// The output's format
    #[arg(long, value_enum, default_value_t = CollectiveFormat::Text)]
    pub format: CollectiveFormat,
}

/// The format of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CollectiveFormat {
    /// For people.
    Text,
    /// For programs: one object.
    Json,
    /// For what reads the JSON of nccl-tests (-J): version 1 of its form, with means.
    NcclTests,
    /// For a browser: one file with charts, which loads nothing.
    Html,
}

/// The checks that judge what was measured.
const CHECKS: &str = "bench/*";

fn dtype(name: &str) -> Result<DataType, String> {
    DataType::from_name(name)
        .ok_or_else(|| "one of float32, float16, bfloat16, uint8, int32".into())
}

fn reduction(name: &str) -> Result<Reduction, String> {
    Reduction::from_word(name).ok_or_else(|| "one of sum, min, max".into())
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, options that contradict each other, an output that cannot be written.
pub fn run(collective: Collective, args: &CollectiveArgs) -> anyhow::Result<Exit> {
    if args.in_place && matches!(collective, Collective::AllToAll | Collective::SendRecv) {
        let name = collective.word();
        return Err(bad_usage(format!(
            "--in-place: {name} is not done in place"
        )));
    }
    (args.memory.check(collective, args.who.backend)).map_err(BadUsage)?;
    if let Some(exit) = starter::over_hosts(&args.together)? {
        return Ok(exit);
    }
    let who = &MeasureArgs {
        memory: args.memory,
        ..args.who.clone()
    };
    let recorded = args.recording.as_deref();
    let points = |chosen: &ChosenRanks| points(chosen, collective, args);
    let end = assembly::read_or_measure(recorded, || {
        let slow_below = input::site_catalogue()?.limits.get(limit::SLOW_BESIDE_PART);
        let parts = PartRequest {
            inside: true,
            bisect: args.bisect.then_some(BisectionLimits {
                within: args.bisect_for,
                slow_below,
            }),
        };
        assembly::measure(who, &args.together, args.deadline, parts, points)
    })?;
    let (recording, why, verdict) = match end {
        MeasurementEnd::Here(recording, why, verdict) => (*recording, why, verdict),
        MeasurementEnd::Elsewhere(exit) => return Ok(exit),
    };
    measuring::keep(&recording, &args.who)?;
    let (mut facts, nodes) = input::facts_of_site(std::slice::from_ref(&recording))?;
    let Some(node) = nodes.first().map(|node| node.id) else {
        return Ok(Exit::Undecided);
    };
    let (collectives, _) = measuring::collectives(&facts, node, &recording, why);
    let report = measuring::judged(&mut facts, &recording, node, CHECKS)?;
    let text = |out: &mut dyn Write| text::write(out, &collectives);
    let draw = |page: &mut Markup| charts::bandwidth(page, &collectives, None);
    let format = match args.format {
        CollectiveFormat::Text => MeasurementFormat::Text,
        CollectiveFormat::Html => MeasurementFormat::Html,
        CollectiveFormat::Json | CollectiveFormat::NcclTests => MeasurementFormat::Json,
    };
    match args.format {
        CollectiveFormat::NcclTests => {
            let (utc, micros) = (&recording.header.utc, recording.duration());
            output::print_json(&nccl_tests::json(&collectives, utc, micros))?;
        }
        _ => measuring::show(format, &collectives, report.as_ref(), text, draw)?,
    }
    let exit = measuring::exit(
        collectives.is_measured(),
        collectives.went_badly(),
        report.as_ref(),
    );
    verdict.say(exit);
    Ok(exit)
}

/// All sizes that are measured.
fn points(
    chosen: &ChosenRanks,
    collective: Collective,
    args: &CollectiveArgs,
) -> anyhow::Result<Vec<Point>> {
    let first = args.begin.or(args.end).unwrap_or(match chosen.backend {
        Backend::Nccl => REFERENCE,
        Backend::Verbs | Backend::Tcp => IN_HOST_MEMORY,
    });
    let last = args.end.unwrap_or(first);
    let ranks = chosen.ranks.len() as u64;
    let sizes = sizes(first, last, args.factor, args.dtype, ranks)
        .ok_or_else(|| BadUsage(format!("-e {last}: less than -b {first}")))?;
    let point = |bytes: u64| Point {
        collective,
        bytes,
        dtype: args.dtype,
        op: args.op,
        in_place: args.in_place,
        adaptive: args.begin.or(args.end).is_none(),
        warmups: args.warmups,
        trials: args.trials,
        ..Point::all_reduce(bytes, ranks)
    };
    Ok(args.memory.place(sizes.into_iter().map(point).collect()))
}

/// The sizes from the first to the last, each so many times as large; rounded down to whole elements for each rank.
fn sizes(first: u64, last: u64, factor: u64, dtype: DataType, ranks: u64) -> Option<Vec<u64>> {
    if last < first {
        return None;
    }
    let mut sizes = Vec::new();
    let mut size = first;
    loop {
        sizes.push(dtype.whole(size, ranks));
        match size.checked_mul(factor).filter(|next| *next <= last) {
            Some(next) => size = next,
            None => break,
        }
    }
    sizes.dedup();
    Some(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_ends_at_the_last_size_and_has_whole_elements_for_each_rank() {
        let f32 = DataType::Float32;
        assert_eq!(sizes(8, 64, 2, f32, 2), Some(vec![8, 16, 32, 64]));
        assert_eq!(sizes(8, 100, 4, f32, 2), Some(vec![8, 32]));
        assert_eq!(sizes(8, 64, 2, f32, 8), Some(vec![32, 64]));
        assert_eq!(sizes(100, 100, 2, f32, 3), Some(vec![96]));
        assert_eq!(
            sizes(REFERENCE, REFERENCE, 2, f32, 8),
            Some(vec![REFERENCE])
        );
        assert_eq!(sizes(64, 8, 2, f32, 2), None);
    }
}
