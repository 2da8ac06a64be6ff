//! The command line: one file a subcommand.

pub mod ablate;
pub mod advise;
pub mod bench;
pub mod check;
pub mod collect_script;
pub mod completions;
pub mod deferred;
pub mod expect;
pub mod explain;
mod explain_json;
mod explain_page;
pub mod fabric;
mod fact_names;
#[cfg(test)]
mod fact_use_tests;
pub mod facts;
mod help_end;
pub mod hosts;
pub mod input;
pub mod integrate;
pub mod job;
pub mod judging;
pub mod log;
pub mod nccl_env;
mod option_values;
pub mod output;
pub mod reach;
pub mod record;
pub mod require;
pub mod schema;
pub mod short_help;
mod site_checks;
mod site_config;
pub mod spelling;
pub mod test;
pub mod together;
pub mod topo;
pub mod triage;
pub mod version;
pub mod waive;

use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::examine::budget::{self, ClusterMemory, Foreign};
use crate::examine::given::{Given, MachineRequest};
use crate::examine::unusable;
use crate::exit::Exit;
use deferred::Deferred;
use output::StandardError;

/// Diagnose a node's RDMA network and GPUs, and say what to do about it. Changes nothing.
///
/// Looks at RDMA devices and their ports, PCIe paths, RoCE settings, routing, the packet filter, drivers and services, the kernel's log,
/// limits, NCCL's environment and storage, judges them by a catalogue of checks, and leads with the root cause. A live machine is recorded first; a recording gives the same verdict anywhere.
#[derive(Debug, Parser)]
#[command(
    name = "rdma-doctor",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(
    after_help = "Without a command it examines this node, as check does. --version --verbose says how it was built."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// When to use colour; NO_COLOR in the environment means never.
    #[arg(long, value_enum, default_value_t = Color::Auto, global = true, help_heading = "Global options")]
    pub color: Color,
    /// Short for --format json
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// The site's file: format, checks, areas, limits and the inventory. Default: /etc/rdma-doctor/config.toml
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        help_heading = "Global options"
    )]
    pub config: Option<PathBuf>,
    /// Print help with all options
    #[arg(long, action = ArgAction::HelpLong, global = true, hide = true)]
    pub help_all: Option<bool>,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Judge this machine, a copied tree, or recordings
    Check(Deferred<check::CheckArgs>),
    /// Record this machine, or a copied tree, for a verdict elsewhere
    Record(Deferred<record::RecordArgs>),
    /// Print a shell script that collects evidence for check on a machine that cannot run this program
    #[command(name = "collect-script")]
    CollectScript(Deferred<collect_script::CollectScriptArgs>),
    /// Explain a check: what it judges, why it matters, what to do; without an id, list all
    Explain(Deferred<explain::ExplainArgs>),
    /// Show the facts of this machine or of a recording, or the schema of all facts
    Facts(Deferred<facts::FactsArgs>),
    /// Show NCCL's variables as NCCL reads them, and the devices that it will choose
    #[command(name = "nccl-env")]
    NcclEnv(Deferred<nccl_env::NcclEnvArgs>),
    /// Read an NCCL log: was RDMA used, and what failed first
    Log(Deferred<log::LogArgs>),
    /// Say whether a job moves, and which rank it waits for: from its processes on this node or on all of its nodes, dumps of PyTorch's flight recorder, NCCL's RAS, and logs
    Job(Deferred<job::JobArgs>),
    /// Judge an InfiniBand fabric by what its tools print: the link, switch or host that is not like its equals
    Fabric(Deferred<fabric::FabricArgs>),
    /// Find why multi-node is slow: check, measure, ablate, and name one cause
    Triage(Deferred<triage::TriageArgs>),
    /// Draw GPUs, adapters and PCIe switches as a tree, with a matrix of distances
    Topo(Deferred<topo::TopoArgs>),
    /// Measure: collectives between ranks, pairs of nodes, copies between GPUs. Uses GPUs and links: not while a job runs
    Bench(Deferred<bench::BenchArgs>),
    /// Disable NCCL's paths one at a time and infer the bottleneck; or judge a table of such results
    Ablate(Deferred<ablate::AblateArgs>),
    /// Print a ready-made configuration for Slurm, node-problem-detector, Nagios, Prometheus, Grafana, Kubernetes, Helm, systemd, GitHub or GitLab
    Integrate(Deferred<integrate::IntegrateArgs>),
    /// Compare recordings with their expected verdicts, for a site's CI
    Test(Deferred<test::TestArgs>),
    /// Print the inventory of good nodes, for the site's file
    Expect(Deferred<expect::ExpectArgs>),
    /// Print a waivers.toml entry for a finding that the site accepts until a date
    Waive(Deferred<waive::WaiveArgs>),
    /// Print the JSON Schema of a report or of a recording
    Schema(Deferred<schema::SchemaArgs>),
    /// Estimate whether the network is fast enough for a training: bytes sent per step, and the time for them
    Advise(Deferred<advise::AdviseArgs>),
    /// Try the ways to the other hosts of a check
    #[command(hide = true)]
    Reach(Deferred<reach::ReachArgs>),
    /// Print completions for bash, zsh or fish
    Completions(Deferred<completions::CompletionsArgs>),
}

/// How a machine is asked.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "This machine")]
pub struct AskArgs {
    /// Examine a directory that holds copies of sys/, proc/ and etc/, in place of this machine
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Read counters twice, this many seconds apart, and judge their rates
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub sample: Option<std::time::Duration>,
    /// The NCCL library that the job loads, or its version, if several are installed or none is found
    #[arg(long, value_name = "PATH|VERSION")]
    pub nccl: Option<String>,
    /// Judge the limits and the environment of this process of a running job too, in addition to those of the doctor's own
    #[arg(long = "as", value_name = "PID", conflicts_with = "root", value_parser = clap::value_parser!(u32).range(1..))]
    pub job: Option<u32>,
    /// Leave out the self-test, which tries the first second of a job on this node: no queue pair, no connection to its own
    /// address, no file, no echo or ARP request to gateways and known neighbours
    #[arg(long = "no-self-test")]
    pub no_rehearsal: bool,
    /// Stop probing after this many seconds, 20 without it, and report the rest as unknown. Where
    /// no report is out 10 seconds later, or of recordings by then,
    /// the exit status is 124. Over several nodes --wait comes to that
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub deadline: Option<std::time::Duration>,
}

impl AskArgs {
    /// How the machine, or the tree, is asked.
    pub fn request(&self) -> MachineRequest {
        MachineRequest {
            sample: self.sample,
            nccl: self.nccl.clone(),
            job: self.job,
            no_rehearsal: self.no_rehearsal,
            deadline: self.deadline,
        }
    }

    /// The machine, or the tree, that is asked.
    pub fn given(&self) -> Given {
        match &self.root {
            Some(root) => Given::Tree(root.clone(), self.request()),
            None => Given::Machine(self.request()),
        }
    }
}

/// The options that only a machine, or a tree, answers to: with a recording they have no effect.
const NOT_OF_A_RECORDING: [&str; 5] = ["root", "sample", "nccl", "job", "no_rehearsal"];

/// One node: a recording of it, or how it is asked.
#[derive(Clone, Debug, Args)]
pub struct NodeArgs {
    /// The recording to read in place of this machine
    #[arg(value_name = "RECORDING", conflicts_with_all = NOT_OF_A_RECORDING)]
    pub recording: Option<PathBuf>,
    /// How a machine is asked.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// The format of what is shown of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one object.
    Json,
}

/// The format of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MeasurementFormat {
    /// For people.
    Text,
    /// For programs: one object.
    Json,
    /// For a browser: one file with charts, which loads nothing.
    Html,
}

/// Which checks are judged.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Checks")]
pub struct SelectArgs {
    /// Judge only the checks with these ids or globs (repeatable)
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Leave out the checks with these ids or globs (repeatable)
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub skip: Vec<String>,
    /// Judge the checks in this directory too, in addition to the built-in ones and /etc/rdma-doctor/checks.d
    #[arg(long, value_name = "DIR")]
    pub checks: Vec<PathBuf>,
    /// The waivers: findings that the site accepts for a time. Without it those of /etc/rdma-doctor/waivers.toml count
    #[arg(long, value_name = "FILE")]
    pub waivers: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.01..=86400.0).contains(&number) {
        return Err("between 0.01 and 86400".into());
    }
    Ok(std::time::Duration::from_secs_f64(number))
}

/// The path of an output: in a directory that exists, which is looked at before anything is
/// examined or measured.
fn output_file() -> impl clap::builder::TypedValueParser<Value = PathBuf> {
    use clap::builder::TypedValueParser as _;
    clap::builder::PathBufValueParser::new().try_map(|path| match crate::live::files::no_output_at(
        &path,
    ) {
        Some(why) => Err(why),
        None => Ok(path),
    })
}

/// The command line's definition, from which the manual page is made.
pub fn definition() -> clap::Command {
    Cli::command()
}

/// Runs the program.
///
/// # Errors
///
/// What cannot be expressed as a report: unreadable input, an output that cannot be written.
pub fn run(cli: Cli) -> anyhow::Result<Exit> {
    output::set_color(cli.color);
    if let Some(path) = cli.config {
        site_config::set_path(path);
    }
    let mut command = match cli.command {
        Some(command) => command,
        // Without one, this node is examined.
        None => match Cli::try_parse_from(["rdma-doctor", "check"])?.command {
            Some(command) => command,
            None => anyhow::bail!("no subcommand"),
        },
    };
    if let Command::Check(args) = &mut command {
        args.find_recordings();
    }
    match foreign(&command) {
        Some(foreign) => budget::foreign(&foreign, &StandardError, || run_command(&command)),
        None => run_command(&command),
    }
}

/// What a command judges that others wrote; nothing where it asks this machine, or gathers first.
fn foreign(command: &Command) -> Option<Foreign> {
    let is_recorded = match command {
        Command::Check(args) => return args.foreign(),
        Command::Log(args) => return Some(args.foreign()),
        Command::Job(args) => return args.foreign(),
        Command::Fabric(args) => return Some(args.foreign()),
        Command::Test(_) => return Some(Foreign::of_several(ClusterMemory::default())),
        Command::Expect(_) => true,
        Command::Facts(args) => args.is_of_recording(),
        Command::Topo(args) => args.node.recording.is_some(),
        Command::NcclEnv(args) => args.recording.is_some(),
        Command::Triage(args) => args.recording.is_some(),
        Command::Ablate(args) => args.is_of_files(),
        _ => false,
    };
    is_recorded.then(Foreign::default)
}

fn run_command(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Check(args) => check::run(args),
        Command::Reach(args) => reach::run(args),
        Command::Record(args) => record::run(args),
        Command::CollectScript(args) => collect_script::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Facts(args) => facts::run(args),
        Command::NcclEnv(args) => nccl_env::run(args),
        Command::Log(args) => log::run(args),
        Command::Job(args) => job::run(args),
        Command::Fabric(args) => fabric::run(args),
        Command::Triage(args) => triage::run(args),
        Command::Topo(args) => topo::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Ablate(args) => ablate::run(args),
        Command::Integrate(args) => integrate::run(args),
        Command::Test(args) => test::run(args),
        Command::Expect(args) => expect::run(args),
        Command::Waive(args) => waive::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Completions(args) => completions::run(args),
    }
}

/// How the program ends: an error is said.
pub fn ended(result: anyhow::Result<Exit>) -> Exit {
    unusable::ended(result, &StandardError)
}
