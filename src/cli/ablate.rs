//! `rdma-doctor ablate`: what each path is worth, by taking one away after the other.

use crate::live::clock;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use std::time::Duration;

use clap::Args;

mod arm_files;
use regex_lite::Regex;

use super::bench::assembly::{self, Start};
use super::bench::measuring::{self, MeasureArgs, bytes};
use super::bench::shared_verdict::{MeasurementEnd, SharedVerdict};
use super::input::{self, BadInput, BadUsage, bad_usage};
use super::output::StandardError;
use super::together::{TogetherArgs, starter};
use super::{MeasurementFormat, output, seconds};
use crate::check::Catalogue;
use crate::examine::live_job;
use crate::examine::one::Judged;
use crate::exit::Exit;
use crate::fact::Facts;
use crate::fact::Subject;
use crate::live;
use crate::measure::plan::ablation::Set;
use crate::measure::plan::ablation_arms::{ArmFamily, ArmRequest, arms, parse_variables};
use crate::measure::plan::ablation_table;
use crate::measure::plan::ablation_table::Table;
use crate::measure::plan::job::JobPlan;
use crate::measure::plan::memory_request::MemoryRequest;
use crate::measure::plan::run::{Backend, Plan};
use crate::measure::run::ablation::job::{JobRuns, measure_job};
use crate::measure::run::ablation::{AblationRequest, measure_arms};
use crate::probe::collective;
use crate::report::ablation::{self as answer, Ablation};
use crate::report::html::{self, charts};
use crate::report::json::ReportJson;
use crate::report::{self, Finding, Policy, Report};
use crate::source::recording::Recording;
use crate::source::wire::{self, Header, Line};
use crate::source::{Refusal, Reply};

/// How long a run of an all-reduce may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long a run of a job may take.
const JOB_DEADLINE: Duration = Duration::from_secs(3600);
/// When no further run of an all-reduce begins.
const BUDGET: Duration = Duration::from_secs(300);

/// Take one path after the other away, and say from the figures which one the job waits for.
///
/// Each run has some of NCCL's variables set; the baseline has none. Without NCCL (--backend verbs, tcp) runs change the connections, the rail,
/// the size of writes and packets, and between nodes take RDMA away; with --backend verbs --with gdr data goes between GPUs, and a run has it in the host's
/// memory. Arms are measured in rounds, each in another order, and each run in fresh
/// processes, since NCCL reads its environment once. A table of what somebody measured already is judged the same way, by its figures alone.
#[derive(Debug, Args)]
pub struct AblateArgs {
    /// Show what this recording has, in place of measuring; with --table, judge the table together with it
    #[arg(value_name = "RECORDING", conflicts_with_all = ["backend", "nccl", "ranks", "gpus", "device", "force", "with", "arms", "size", "rounds", "time_budget", "deadline", "cluster", "rank", "hosts", "hostfile"])]
    pub recording: Option<PathBuf>,
    /// Judge a table of runs that somebody measured, `-` for standard input: Markdown, CSV, aligned text, or one line for each run, with the settings that were
    /// in force and a time or throughput
    #[arg(long, value_name = "FILE", conflicts_with_all = ["backend", "nccl", "ranks", "gpus", "device", "force", "with", "arms", "size", "rounds", "time_budget", "deadline", "cluster", "rank", "hosts", "hostfile"])]
    pub table: Option<PathBuf>,
    /// Judge the output of a benchmark (nccl-tests, all_reduce_bench, perftest) as a run; NAME is its settings: `baseline`, `NCCL_IB_DISABLE=1`, "no P2P"
    /// (repeatable)
    #[arg(long = "run-file", value_name = "NAME=FILE", value_parser = arm_files::parse, conflicts_with_all = ["table", "backend", "nccl", "ranks", "gpus", "device", "force", "with", "arms", "size", "rounds", "time_budget", "deadline", "cluster", "rank", "hosts", "hostfile"])]
    pub arm_files: Vec<arm_files::ArmFile>,
    /// Measure these changes too, in addition to the eight combinations of NCCL_IB_DISABLE, NCCL_SHM_DISABLE and NCCL_P2P_DISABLE
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub with: Vec<ArmFamily>,
    /// Measure a run with these variables too (repeatable)
    #[arg(long = "run", value_name = "NAME=VALUE,...", value_parser = parse_variables)]
    pub arms: Vec<Set>,
    /// Leave the eight combinations out: the baseline, --with and --run only
    #[arg(long)]
    pub only: bool,
    /// The size of the all-reduce by which runs are compared [default: 1G, and the baseline also 4 GB; 64M in the host's memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub size: Option<u64>,
    /// Rounds at least; more while the figures of a run lie more than 5 % apart and time is left
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100), default_value = "3")]
    pub rounds: u64,
    /// Begin no further run after this many seconds; each kind is run once all the same [default: 300; none for a job]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time_budget: Option<Duration>,
    /// Give up a run after this many seconds [default: 60; 3600 for a job]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub deadline: Option<Duration>,
    /// What finds the figure of merit in the job's output: a regular expression, of which the group counts where there is one; the last match counts.
    /// Without it the time that the job takes does
    #[arg(long, value_name = "REGEX", requires = "job")]
    pub metric: Option<String>,
    /// Take a lower figure of merit for the better one
    #[arg(long, requires = "metric")]
    pub lower_is_better: bool,
    /// Write the job's output there, and not to standard error
    #[arg(long, value_name = "FILE", requires = "job", value_parser = super::output_file())]
    pub job_output: Option<PathBuf>,
    /// Run this job, in place of an all-reduce, once for each set of variables and round, with these variables in its environment
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["recording", "table", "backend", "ranks", "gpus", "device", "size", "cluster", "rank", "hosts", "hostfile"])]
    pub job: Vec<String>,
    /// The nodes that take part.
    #[command(flatten)]
    pub who: MeasureArgs,
    /// How nodes come together; --nodes is also how many took part in the runs of a table.
    #[command(flatten)]
    pub together: TogetherArgs,
    /// The output's format
    #[arg(long, value_enum, default_value_t = MeasurementFormat::Text)]
    pub format: MeasurementFormat,
}

impl AblateArgs {
    /// Whether it judges what is written down.
    pub(super) fn is_of_files(&self) -> bool {
        self.recording.is_some() || self.table.is_some() || !self.arm_files.is_empty()
    }

    /// The ranks that are asked for. An adapter's way to GPUs can only be taken away where the data is on them.
    fn ranks(&self) -> anyhow::Result<MeasureArgs> {
        let mut who = self.who.clone();
        let allowed: &[ArmFamily] = match who.backend {
            None | Some(Backend::Nccl) => return Ok(who),
            Some(Backend::Verbs) => &[ArmFamily::Gdr],
            Some(Backend::Tcp) => &[],
        };
        if self.with.iter().any(|family| !allowed.contains(family)) {
            let why = "--with: NCCL alone has these runs; --backend verbs has gdr";
            return Err(bad_usage(why));
        }
        if !self.with.is_empty() {
            who.memory = MemoryRequest::Gpu;
        }
        Ok(who)
    }
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, options that contradict each other, an output that cannot be written.
pub fn run(args: &AblateArgs) -> anyhow::Result<Exit> {
    if let Some(exit) = starter::over_hosts(&args.together)? {
        return Ok(exit);
    }
    let who = &args.ranks()?;
    let mut verdict = SharedVerdict::alone();
    let table = match (&args.table, args.arm_files.is_empty()) {
        (Some(file), _) => Some(read_table(file)?),
        (None, false) => Some(arm_files::table(&args.arm_files)?),
        (None, true) => None,
    };
    let (recording, why) = match (&args.recording, table) {
        (recording, Some(mut table)) => {
            let recording = match recording {
                Some(path) => input::open(&[path])?.remove(0),
                None => nothing_but(),
            };
            table.nodes = args.together.nodes.or(table.nodes);
            (with_table(recording, &table), None)
        }
        (Some(path), None) => (input::open(&[path])?.remove(0), None),
        (None, None) if !args.job.is_empty() => (measure_users_job(args)?, None),
        (None, None) => {
            let request = request(args);
            match assembly::start(who, &args.together, |_, _| Ok(who.clone()))? {
                Start::Over(MeasurementEnd::Elsewhere(exit)) => return Ok(exit),
                Start::Over(MeasurementEnd::Here(recording, why, said)) => {
                    verdict = said;
                    (*recording, why)
                }
                Start::Ready(ready) if !ready.assembled.team.leads() => {
                    return ready.follow(request.deadline);
                }
                Start::Ready(ready) => {
                    let (mut recording, assembled) = (ready.recording, ready.assembled);
                    let team = Some(&assembled.team);
                    let show = output::progress;
                    let why = measure_arms(&mut recording, assembled.all, &request, team, show)?;
                    assembled.team.over()?;
                    verdict = ready.verdict;
                    (recording, why)
                }
                Start::Alone => {
                    let choose = |facts: &Facts, node| measuring::choose(facts, node, who);
                    measuring::measured(who, choose, |recording, ranks| {
                        measure_arms(recording, ranks, &request, None, output::progress)
                    })?
                }
            }
        }
    };
    measuring::keep(&recording, &args.who)?;
    let exit = show(&recording, args.format, why)?;
    verdict.say(exit);
    Ok(exit)
}

fn arm_request(args: &AblateArgs) -> ArmRequest {
    ArmRequest {
        switches: !args.only,
        families: args.with.clone(),
        variables: args.arms.clone(),
    }
}

fn request(args: &AblateArgs) -> AblationRequest {
    AblationRequest {
        arms: arm_request(args),
        size: args.size,
        rounds: args.rounds,
        budget: args.time_budget.unwrap_or(BUDGET),
        deadline: args.deadline.unwrap_or(DEADLINE),
        begun: None,
        uses_gdr: None,
    }
}

/// Records the node, then runs the user's job.
#[expect(
    clippy::disallowed_methods,
    reason = "the user names the file for the job's output"
)]
fn measure_users_job(args: &AblateArgs) -> anyhow::Result<Recording> {
    let regex = |text: &String| {
        Regex::new(text).map_err(|error| BadUsage(format!("--metric {text}: {error}")))
    };
    let metric = args.metric.as_ref().map(regex).transpose()?;
    let mut job_output: Box<dyn Write> = match &args.job_output {
        None => Box::new(std::io::stderr()),
        Some(path) => {
            let file = File::create(path);
            Box::new(file.map_err(|error| BadInput::of(path, error))?)
        }
    };
    let mut recording = measuring::node_recording(&args.who)?;
    let plan = JobPlan {
        command: args.job.clone(),
        metric: args.metric.clone(),
        lower_is_better: args.lower_is_better,
        arms: arms(&arm_request(args)),
        runs: Vec::new(),
    };
    let runs = JobRuns {
        metric: metric.as_ref(),
        rounds: args.rounds,
        budget: args.time_budget.unwrap_or(Duration::MAX),
        deadline: args.deadline.unwrap_or(JOB_DEADLINE),
        look: &|pids| live_job::look(pids, &StandardError),
    };
    measure_job(
        &mut recording,
        plan,
        &runs,
        &mut job_output,
        output::progress,
    );
    Ok(recording)
}

/// A recording of no machine.
fn nothing_but() -> Recording {
    Recording::new(Header {
        version: wire::VERSION.into(),
        utc: clock::utc_now(),
        boottime_ns: clock::boottime_ns(),
        doctor: env!("CARGO_PKG_VERSION").into(),
        ..Header::default()
    })
}

/// The table in a file, or in standard input.
fn read_table(file: &Path) -> anyhow::Result<Table> {
    if file.as_os_str() == live::log::STANDARD_INPUT {
        let input = Path::new("standard input");
        let text = std::io::read_to_string(std::io::stdin()).map_err(|e| BadInput::of(input, e))?;
        return Ok(Table::read("standard input", &text).map_err(|e| BadInput::of(input, e))?);
    }
    let text = live::files::read_input(file).map_err(|e| BadInput::of(file, e))?;
    let name = file.file_name().map(|name| name.to_string_lossy());
    let table = Table::read(name.as_deref().unwrap_or("table"), &text);
    Ok(table.map_err(|e| BadInput::of(file, e))?)
}

/// The recording of a table, and of no machine.
pub fn recording_of(table: &Table) -> Recording {
    with_table(nothing_but(), table)
}

/// The recording with the table in the place where it says that nothing was measured.
fn with_table(mut recording: Recording, table: &Table) -> Recording {
    let probe = collective::PROBE.name;
    let alone = recording.lines() == 0;
    if alone {
        // No machine was asked, and nothing else was measured: both are known.
        let said = Refusal::NotAsked("a table was read".into());
        recording.add(Line::Reply {
            probe: probe.into(),
            question: Plan::question(),
            repeat: 0,
            reply: Reply {
                at: 0,
                said: Err(said),
            },
        });
    }
    recording.replace(probe, ablation_table::question(), table.to_value());
    recording.end();
    recording
}

/// Judges what a recording holds of measurements, and shows it.
fn show(
    recording: &Recording,
    format: MeasurementFormat,
    why: Option<String>,
) -> anyhow::Result<Exit> {
    let mut catalogue = input::site_catalogue()?;
    // Of a machine that was not recorded nothing is asked.
    let machine = !recording.header.node.is_empty();
    if !machine {
        catalogue.checks.retain(answer::is_of_measurements);
    }
    // The question is what the paths are worth, not whether the node is fit.
    catalogue.areas.retain(|area| &*area.name == "measurement");
    let mut judged = Judged::new(&catalogue, std::slice::from_ref(recording));
    let Some(node) = judged.nodes.first().map(|node| node.id) else {
        return Ok(Exit::Undecided);
    };
    let ablation = Ablation::of(&judged.facts, node);
    judged.verdicts = answer::relevant(&catalogue, &judged.facts, judged.verdicts);
    let mut report = judged.report(&Policy::default());
    headline(&mut report, &catalogue, &ablation, why.as_deref());
    if !machine {
        report.nodes.clear();
    }
    if format == MeasurementFormat::Html {
        charts::ablation(&mut report.drawn.above, &ablation)?;
    }
    let text = |out: &mut dyn Write| {
        let width = output::width();
        report::text::headline(out, &report)?;
        answer::text::write(out, &ablation, width)?;
        let detail = report::text::Detail::default();
        report::text::body(out, &report, detail, width, Vec::new())
    };
    match format {
        MeasurementFormat::Html => {
            let mut page = Vec::new();
            (html::FORMAT.write)(&mut page, &report)?;
            output::print_raw(&page)?;
        }
        MeasurementFormat::Text => output::print(text)?,
        MeasurementFormat::Json => {
            let mut value = serde_json::to_value(&ablation)?;
            value["report"] = serde_json::to_value(ReportJson::of(&report))?;
            output::print_json(&value)?;
        }
    }
    Ok(match ablation.is_measured() {
        true => report.exit(),
        false => Exit::Undecided,
    })
}

/// Where no check finds a cause, what a note says of a change does, else the figures: how they were measured is no answer.
fn headline(report: &mut Report, catalogue: &Catalogue, ablation: &Ablation, why: Option<&str>) {
    let of_a_change = |finding: &&Finding| {
        let check = catalogue.get(&finding.check);
        check.is_some_and(|check| check.subject == Subject::Factor)
    };
    if !ablation.is_measured() {
        let why = why.unwrap_or("this recording holds no measurement");
        report.headline = format!("undecided: nothing was measured: {why}").into();
    } else if !report.causes.is_empty() {
    } else if let Some(note) = report.notes.iter().find(of_a_change) {
        report.headline.clone_from(&note.sentence);
    } else if let Some(sentence) = ablation.sentence() {
        report.headline = sentence;
    }
}
