//! `rdma-doctor bench p2p`: copies between GPUs, and with the host.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::measuring::{self, bytes_within};

use crate::cli::input::{self, BadUsage};
use crate::cli::{MeasurementFormat, output, record, seconds};
use crate::examine::one::own_facts;
use crate::exit::Exit;
use crate::fact::node::Cuda;
use crate::fact::{Fact, Facts, Id, node};
use crate::measure::plan::gpu_choice::choose_gpus;
use crate::measure::plan::p2p::{NAME, Plan, Results};
use crate::measure::run::copies::measure_copies;
use crate::report::html::charts;
use crate::report::p2p::{Copies, text};
use crate::source::Refusal;
use crate::source::recording::Recording;

/// Copies between every two GPUs, and between each GPU and the host: verified byte by byte, bandwidth and latency.
///
/// Each measurement has a process of its own that can be killed, so a copy that hangs costs its own cell of the matrix and nothing else. It uses
/// the GPUs' memory and links: do not run it while a job runs.
#[derive(Debug, Args)]
pub struct P2pArgs {
    /// Show what this recording has, in place of measuring
    #[arg(value_name = "RECORDING", conflicts_with_all = ["size", "trials", "deadline", "gpus", "record"])]
    pub recording: Option<PathBuf>,
    /// Bytes of a copy, as 256M
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "256M")]
    pub size: u64,
    /// Timed trials of each measurement; one more goes before them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(3..=100), default_value = "5")]
    pub trials: u64,
    /// Give up a measurement after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    pub deadline: Duration,
    /// Measure these GPUs only: numbers as CUDA counts, or PCI addresses, separated by commas
    #[arg(long, value_name = "GPU", value_delimiter = ',')]
    pub gpus: Vec<String>,
    /// Write a recording of the node and of what was measured, for rdma-doctor check
    #[arg(long, value_name = "FILE", value_parser = crate::cli::output_file())]
    pub record: Option<PathBuf>,
    /// Leave names, addresses and serial numbers in the recording as they are
    #[arg(long, requires = "record")]
    pub no_redact: bool,
    /// The output's format
    #[arg(long, value_enum, default_value_t = MeasurementFormat::Text)]
    pub format: MeasurementFormat,
}

/// The checks that judge what was measured.
const CHECKS: &str = "p2p/*";

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, a GPU that is named and not there, an output that cannot be written.
pub fn run(args: &P2pArgs) -> anyhow::Result<Exit> {
    let recording = match &args.recording {
        Some(path) => input::open(&[path])?.remove(0),
        None => measured(args)?,
    };
    record::keep(&recording, args.record.as_deref(), args.no_redact)?;
    let (mut facts, nodes) = input::facts_of_site(std::slice::from_ref(&recording))?;
    let Some(node) = nodes.first().map(|node| node.id) else {
        return Ok(Exit::Undecided);
    };
    let copies = match Results::read(&recording.of(NAME)) {
        Ok(results) => Copies::of(&facts, node, &results),
        Err(refusal) => Copies::nothing(&facts, node, nothing(&facts, node, &refusal)),
    };
    let report = measuring::judged(&mut facts, &recording, node, CHECKS)?;
    let text = |out: &mut dyn Write| text::write(out, &copies, output::width());
    measuring::show(args.format, &copies, report.as_ref(), text, |page| {
        charts::copies(page, &copies)
    })?;
    let is_measured = copies.is_measured();
    Ok(measuring::exit(is_measured, false, report.as_ref()))
}

/// Why nothing was measured: what CUDA says, else what the recording does.
fn nothing(facts: &Facts, node: Id, refusal: &Refusal) -> String {
    match facts.get(node, node::CUDA) {
        Fact::Known(Cuda::Works, _) => refusal.to_string(),
        Fact::Known(Cuda::NoDriver, _) => "NVIDIA's driver is not loaded".into(),
        Fact::Known(Cuda::NoControlDevice, _) => {
            "/dev/nvidiactl or /dev/nvidia-uvm is missing".into()
        }
        Fact::Known(Cuda::NoLibrary, _) => "there is no libcuda.so.1".into(),
        Fact::Known(state, _) => match facts.known(node, node::CUDA_ERROR) {
            Some(error) => format!("CUDA does not start: {error}"),
            None => format!("CUDA does not start: {}", state.word()),
        },
        Fact::Unknown(gap) => format!("whether CUDA works is unknown: {gap}"),
    }
}

/// Records the node, then measures.
fn measured(args: &P2pArgs) -> anyhow::Result<Recording> {
    let mut recording = input::record_this_machine()?;
    let (facts, node) = own_facts(&recording);
    let gpus = choose_gpus(&facts, node, &args.gpus).map_err(BadUsage)?;
    drop(facts);
    if !gpus.is_empty() {
        let plan = Plan {
            size: args.size,
            trials: args.trials,
            gpus,
        };
        measure_copies(&mut recording, &plan, args.deadline, output::progress);
    }
    Ok(recording)
}

/// The size of a copy: smaller ones have no bandwidth, larger ones leave no memory.
fn bytes(text: &str) -> Result<u64, String> {
    bytes_within(text, 64 << 10..=16 << 30)
}
