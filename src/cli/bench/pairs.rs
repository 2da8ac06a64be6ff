//! `rdma-doctor bench pairs`: the nodes of a launch with each other.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::measuring;
use crate::cli::input::{self, bad_usage};
use crate::cli::output::{self, StandardError};
use crate::cli::together::{Part, TogetherArgs, part, starter};
use crate::cli::{MeasurementFormat, record, seconds};
use crate::examine::given::{self, MachineRequest};
use crate::examine::one::own_facts;
use crate::examine::plan::put_pairs;
use crate::exit::Exit;
use crate::live::worker::Progress;
use crate::measure::plan::memory_request::MemoryRequest;
use crate::measure::plan::pairs::backend_choice::BackendRequest;
use crate::measure::plan::pairs::verdict;
use crate::measure::plan::pairs::{Extent, NAME, Results};
use crate::measure::run::pairs::backend_decision::{PairRequest, decide};
use crate::measure::run::pairs::rdma::Purpose;
use crate::measure::run::pairs::rounds::{PairTimes, measure_pairs};
use crate::report::html::charts;
use crate::report::pairs::{Pairs, text};
use crate::source::recording::Recording;

/// What is measured between nodes.
#[derive(Debug, Args)]
pub struct PairsArgs {
    /// Show what this recording has, in place of measuring
    #[arg(value_name = "RECORDING", conflicts_with_all = ["device", "flow", "backend", "gid_index", "across", "memory", "force", "record", "cluster", "rank", "hosts", "hostfile"])]
    pub recording: Option<PathBuf>,
    /// The rails: interfaces, RDMA devices (mlx5_0) or their ports (mlx5_0/1) of each node, separated by commas [default: those of the ports that jobs use,
    /// else the interface that leads to rank 0]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub device: Vec<String>,
    /// Transport that moves the data
    #[arg(long, value_enum, value_name = "auto|verbs|tcp", default_value_t = BackendRequest::Auto)]
    pub backend: BackendRequest,
    /// Where the data of RDMA writes is: that of the GPU nearest to each port takes GPUDirect RDMA, by DMA-BUF or nvidia_peermem; both says what it is worth
    /// against the host's
    #[arg(long, value_name = "host|gpu|both", value_enum, hide_possible_values = true, default_value_t = MemoryRequest::Host)]
    pub memory: MemoryRequest,
    /// Measure from GPUs also where another process uses them
    #[arg(long)]
    pub force: bool,
    /// The row of each port's GID table (verbs, which it asks for) [default: the one that NCCL would choose]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=255))]
    pub gid_index: Option<u64>,
    /// Measure adapters of different rails with each other, too
    #[arg(long)]
    pub across: bool,
    /// Send so many seconds each way
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0.3")]
    pub flow: Duration,
    /// Write a recording of the node and of what was measured, for rdma-doctor check (rank 0)
    #[arg(long, value_name = "FILE", value_parser = crate::cli::output_file())]
    pub record: Option<PathBuf>,
    /// Leave names, addresses and serial numbers in the recording as they are
    #[arg(long, requires = "record")]
    pub no_redact: bool,
    /// How nodes come together.
    #[command(flatten)]
    pub together: TogetherArgs,
    /// The output's format
    #[arg(long, value_enum, default_value_t = MeasurementFormat::Text)]
    pub format: MeasurementFormat,
}

/// The checks that judge what was measured.
const CHECKS: &str = "pairs/*";
/// How long a node may take to record itself: a slow one is measured too.
const RECORDING: Duration = Duration::from_secs(45);
/// How long rank 0 may take to judge.
const JUDGING: Duration = Duration::from_secs(60);

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, no launch of several nodes, an interface that is not there, an output that cannot be written.
pub fn run(args: &PairsArgs) -> anyhow::Result<Exit> {
    if let Some(exit) = starter::over_hosts(&args.together)? {
        return Ok(exit);
    }
    if let Some(path) = &args.recording {
        return show(&input::open(&[path])?.remove(0), args.format);
    }
    let backend = match (args.backend, args.gid_index) {
        // Over sockets it would be without effect.
        (BackendRequest::Auto, Some(_)) => BackendRequest::Verbs,
        (BackendRequest::Tcp, Some(_)) => {
            return Err(bad_usage("--gid-index: only verbs has it"));
        }
        (backend, _) => backend,
    };
    if args.memory.on_gpus() && args.backend == BackendRequest::Tcp {
        return Err(bad_usage("--memory: sockets have the host's only"));
    }
    let joined = match part(&args.together)? {
        Part::Idle => return Ok(Exit::Healthy),
        Part::Alone => {
            return Err(bad_usage(
                "pairs are of several nodes: start one process on each (srun, mpirun, torchrun with --cluster), name them with --hosts, or give --rank, --nodes and --rendezvous",
            ));
        }
        Part::Joined(joined) => joined,
    };
    let session = &joined.session;
    let request = MachineRequest {
        deadline: Some(RECORDING),
        ..MachineRequest::default()
    };
    let mut recording = given::record(&request, None, &StandardError)?;
    let request = PairRequest {
        // A GPU's memory takes RDMA: a node that has none is named.
        backend: match args.memory.on_gpus() {
            true => BackendRequest::Verbs,
            false => backend,
        },
        device: &args.device,
        gid_index: args.gid_index,
        memory: args.memory.of_pairs(),
        force: args.force,
        purpose: Purpose::Measure,
    };
    let (facts, node) = own_facts(&recording);
    let decided = decide(session, (&facts, node), &request)?;
    drop(facts);
    let limits = input::site_catalogue()?.limits;
    let times = PairTimes {
        limits: &limits,
        flow: args.flow,
        extent: Extent::All,
        across: args.across,
        once: false,
        prefix: "",
    };
    let measured = measure_pairs(session, decided, &joined.silent, &times, output::progress)?;
    output::progress(Progress::Done);
    let Some(results) = measured else {
        // Rank 0 has the report; the others repeat its sentence.
        let said = session.of_rank_0("verdict", JUDGING, Value::Null)?;
        output::say(said.get("sentence").and_then(|s| s.as_str()).unwrap_or(""));
        let code = said.get("exit").and_then(Value::as_u64);
        return Ok(args.together.exit_on.elsewhere(code));
    };
    put_pairs(&mut recording, &results);
    record::keep(&recording, args.record.as_deref(), args.no_redact)?;
    let exit = show(&recording, args.format)?;
    let suspects = verdict::suspects(&results, &limits);
    let sentence = verdict::sentence(&results, &suspects);
    let verdict = json!({ "sentence": sentence, "exit": exit.code() });
    session.of_rank_0("verdict", JUDGING, verdict)?;
    Ok(exit)
}

/// Shows what a recording has, and what checks say of it.
fn show(recording: &Recording, format: MeasurementFormat) -> anyhow::Result<Exit> {
    let (mut facts, nodes) = input::facts_of_site(std::slice::from_ref(recording))?;
    let Some(node) = nodes.first().map(|node| node.id) else {
        return Ok(Exit::Undecided);
    };
    let pairs = match Results::read(&recording.of(NAME)) {
        Ok(results) => Pairs::of(&results, facts.limits()),
        Err(refusal) => Pairs::nothing(refusal.to_string()),
    };
    let report = measuring::judged(&mut facts, recording, node, CHECKS)?;
    let text = |out: &mut dyn Write| text::write(out, &pairs);
    measuring::show(format, &pairs, report.as_ref(), text, |page| {
        charts::pairs(page, &pairs)
    })?;
    let is_measured = pairs.nothing.is_none();
    Ok(measuring::exit(is_measured, false, report.as_ref()))
}
