//! `rdma-doctor ablate`: what each path is worth, by taking one away after the other.

pub mod arms;
mod job;
pub mod rounds;

use crate::live::clock;
use std::cell::Cell;
use std::path::{Path, PathBuf};

use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use super::bench::measuring::{self, Chosen, MeasureArgs, bytes};
use super::bench::team::{self, Made, Start, Team, Verdict};
use super::input::{self, BadInput};
use super::together::{TogetherArgs, starter};
use super::{Format, output, seconds};
use crate::check::{Catalogue, judge};
use crate::exit::Exit;
use crate::fact::{self, Facts, Subject};
use crate::live;
use crate::live::worker::Progress;
use crate::measure::plan::ablation::Set;
use crate::measure::plan::ablation_table;
use crate::measure::plan::ablation_table::Table;
use crate::measure::plan::reply::RankReply;
use crate::measure::plan::results::{Results, RunResult};
use crate::measure::plan::run::{Arm, Backend, NAME, Plan, Point, Run};
use crate::measure::run::ranks::{self, RankProcess};
use crate::nccl_log::Digest;
use crate::probe::{collective, nccl_log};
use crate::report::ablation::{self as answer, Ablation};
use crate::report::{self, Finding, Policy, Report};
use crate::source::recording::Recording;
use crate::source::wire::{self, Header, Line};
use crate::source::{Answer, Refusal, Reply};
use arms::With;
use rounds::{Came, Rounds};

/// The size by which arms are compared, with NCCL.
const SIZE: u64 = 1 << 30;
/// The size in the host's memory.
const SIZE_IN_HOST_MEMORY: u64 = 64 << 20;
/// The size of the reference benchmark, which the baseline has besides.
const REFERENCE: u64 = 4_000_000_000;

/// How long a run of an all-reduce may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// When no further run of an all-reduce begins.
const BUDGET: Duration = Duration::from_secs(300);

/// Take one path after the other away, and say from the figures which one the job waits for.
///
/// An arm is a run with some of NCCL's variables set; the baseline sets none. Arms are measured in rounds, each in another order, and each run in fresh
/// processes, since NCCL reads its environment once. A table of what somebody measured already is judged the same way, by its figures alone.
#[derive(Debug, Args)]
pub struct AblateArgs {
    /// Show what this recording has, in place of measuring; with --table, judge the table together with it
    #[arg(value_name = "RECORDING", conflicts_with_all = ["backend", "nccl", "ranks", "gpus", "device", "force", "with", "arms", "size", "rounds", "time_budget", "deadline", "cluster", "rank", "hosts", "hostfile"])]
    pub recording: Option<PathBuf>,
    /// Judge a table of arms that somebody measured: Markdown, CSV or TSV, with a column for each variable and one for time or throughput
    #[arg(long, value_name = "FILE", conflicts_with_all = ["backend", "nccl", "ranks", "gpus", "device", "force", "with", "arms", "size", "rounds", "time_budget", "deadline", "cluster", "rank", "hosts", "hostfile"])]
    pub table: Option<PathBuf>,
    /// Measure these changes too, beside the eight combinations of NCCL_IB_DISABLE, NCCL_SHM_DISABLE and NCCL_P2P_DISABLE
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub with: Vec<With>,
    /// Measure an arm with these variables too (repeatable)
    #[arg(long = "arm", value_name = "NAME=VALUE,...", value_parser = arms::set)]
    pub arms: Vec<Set>,
    /// Take GPUDirect RDMA away too, where the first run of the baseline uses it between nodes: triage asks for it.
    #[arg(skip)]
    pub gdr_where_used: bool,
    /// Leave the eight combinations out: the baseline, --with and --arm only
    #[arg(long)]
    pub only: bool,
    /// The size of the all-reduce by which arms are compared [default: 1G, and the baseline also 4 GB; 64M in the host's memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub size: Option<u64>,
    /// Rounds at least; more while the figures of an arm lie more than 5 % apart and time is left
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100), default_value = "3")]
    pub rounds: u64,
    /// Begin no further run after this many seconds; each arm is run once all the same [default: 300; none for a job]
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
    #[arg(long, value_name = "FILE", requires = "job")]
    pub output: Option<PathBuf>,
    /// Run this job, in place of an all-reduce, once for each arm and round, with the arm's variables in its environment
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["recording", "table", "backend", "ranks", "gpus", "device", "size", "cluster", "rank", "hosts", "hostfile"])]
    pub job: Vec<String>,
    /// Who takes part.
    #[command(flatten)]
    pub who: MeasureArgs,
    /// How nodes come together; --nodes is also how many took part in the runs of a table.
    #[command(flatten)]
    pub together: TogetherArgs,
    /// The output's format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, wishes that do not go together, an output that cannot be written.
pub fn run(args: &AblateArgs) -> anyhow::Result<Exit> {
    if let Some(exit) = starter::over_hosts(&args.together)? {
        return Ok(exit);
    }
    let mut verdict = Verdict::alone();
    let (recording, why) = match (&args.recording, &args.table) {
        (recording, Some(file)) => {
            let recording = match recording {
                Some(path) => input::open(&[path])?.remove(0),
                None => nothing_but(),
            };
            (with_table(recording, file, args.together.nodes)?, None)
        }
        (Some(path), None) => (input::open(&[path])?.remove(0), None),
        (None, None) if !args.job.is_empty() => (job::measured(args)?, None),
        (None, None) => {
            let deadline = args.deadline.unwrap_or(DEADLINE);
            match team::start(&args.who, &args.together, |_, _| Ok(args.who.clone()))? {
                Start::Over(Made::Elsewhere(exit)) => return Ok(exit),
                Start::Over(Made::Here(recording, why, said)) => {
                    verdict = said;
                    (*recording, why)
                }
                Start::Ready(ready) if !ready.team.leads() => {
                    return ready.team.follow(&ready.recording, deadline);
                }
                Start::Ready(ready) => {
                    let mut recording = ready.recording;
                    let why = measure(&mut recording, ready.chosen, args, Some(&ready.team))?;
                    ready.team.over()?;
                    verdict = ready.team.verdict;
                    (recording, why)
                }
                Start::Alone => measuring::measured(&args.who, |recording, chosen| {
                    measure(recording, chosen, args, None)
                })?,
            }
        }
    };
    measuring::keep(&recording, &args.who)?;
    let exit = show(&recording, args.format, why)?;
    verdict.say(exit);
    Ok(exit)
}

/// Measures with those who were chosen, and puts all into the recording; else says why nothing was measured.
///
/// # Errors
///
/// The processes of a run cannot be started.
pub fn measure(
    recording: &mut Recording,
    chosen: Chosen,
    args: &AblateArgs,
    team: Option<&Team>,
) -> anyhow::Result<Option<String>> {
    let on_gpus = chosen.backend == Backend::Nccl;
    if !on_gpus && args.arms.is_empty() {
        let name = chosen.backend.name();
        let why = format!(
            "{name} has one path and no variables that take it away: NCCL is what is ablated (--arm NAME=VALUE measures a variable all the same)"
        );
        return Ok(Some(why));
    }
    let size = args.size.unwrap_or(match on_gpus {
        true => SIZE,
        false => SIZE_IN_HOST_MEMORY,
    });
    let ranks = chosen.ranks.len() as u64;
    let points = vec![Point::all_reduce(size, ranks)];
    let own = team.map(|team| team.own_of(&chosen));
    if let Err(why) = measuring::hold(own.as_ref().unwrap_or(&chosen), &points) {
        return Ok(Some(why));
    }
    let also = on_gpus && args.size.is_none();
    let arms = arms::all(on_gpus && !args.only, &args.with, &args.arms);
    let largest = also.then(|| Point::all_reduce(REFERENCE, ranks));
    let mut plan = Plan {
        arms,
        baseline_points: largest.into_iter().collect(),
        ..chosen.plan(points, 0)
    };
    make(recording, &mut plan, args, team)?;
    Ok(None)
}

/// Makes the runs of the plan, which grows by them, and puts all into the recording.
fn make(
    recording: &mut Recording,
    plan: &mut Plan,
    args: &AblateArgs,
    team: Option<&Team>,
) -> anyhow::Result<()> {
    let how = RankProcess {
        started_ns: recording.header.boottime_ns,
        deadline: args.deadline.unwrap_or(DEADLINE),
        base: &[],
        program: None,
    };
    let budget = Rounds {
        rounds: args.rounds,
        budget: args.time_budget.unwrap_or(BUDGET),
    };
    let arms = Cell::new(plan.arms.len());
    let mut all: Vec<Line> = Vec::new();
    rounds::make(&budget, &arms, |arm, round| {
        let run = Run { arm, round };
        plan.runs.push(run);
        let name = plan.arms.get(arm).map_or("", |arm| &arm.name);
        // One rank speaks for all.
        let say = |step: &str| {
            let what = format!("round {} of {}: {name}: {step}", round + 1, args.rounds);
            output::progress(Progress::Waiting(&[&what]));
        };
        let lines = match team {
            Some(team) => team.lead(recording, plan, run, how.deadline, say)?,
            None => ranks::run(&how, plan, run, |rank, step| {
                if rank == 0 {
                    say(step);
                }
            }),
        };
        let came = came(plan, run, &lines);
        if args.gdr_where_used && (arm, round) == (0, 0) && gdr_between_nodes(plan, run, &lines) {
            let further = arms::all(false, &[], &[arms::gdr_off()]);
            let more = further.into_iter().skip(1);
            let is_new = |arm: &Arm| plan.arms.iter().all(|other| other.set != arm.set);
            let more: Vec<Arm> = more.filter(is_new).collect();
            plan.arms.extend(more);
            arms.set(plan.arms.len());
        }
        all.extend(lines);
        Ok(came)
    })?;
    output::progress(Progress::Done);
    recording.replace(NAME, Plan::question(), plan.to_value());
    for line in all {
        recording.add(line);
    }
    recording.end();
    Ok(())
}

/// What the lines of a run say of it.
fn came(plan: &Plan, run: Run, lines: &[Line]) -> Came {
    let ranks: Vec<Result<RankReply, String>> = lines
        .iter()
        .take(plan.ranks.len())
        .map(|line| match line {
            Line::Reply {
                reply:
                    Reply {
                        said: Ok(Answer::Value(value)),
                        ..
                    },
                ..
            } => serde::Deserialize::deserialize(&**value).map_err(|e| e.to_string()),
            _ => Err("no reply".into()),
        })
        .collect();
    let at = lines.iter().filter_map(|line| match line {
        Line::Reply { reply, .. } => Some(reply.at),
        _ => None,
    });
    let result = RunResult {
        run,
        at: at.take(ranks.len()).collect(),
        ranks,
    };
    let well = result.ranks.iter().all(Result::is_ok) && result.troubles().is_empty();
    let results = Results {
        plan: Plan {
            runs: vec![run],
            ..plan.clone()
        },
        runs: vec![result],
    };
    // Arms are compared by the last of their points.
    let rows = results.rows(run.arm);
    let last = plan.points.len().saturating_sub(1);
    let row = rows.get(last).filter(|row| well && row.wrong == 0);
    match row.and_then(|row| row.time()) {
        Some(time) if time > 0.0 => Came::Well(1.0 / time),
        _ => Came::Badly,
    }
}

/// Whether channels between nodes reach GPUs' memory by themselves: by the log of a run.
fn gdr_between_nodes(plan: &Plan, run: Run, lines: &[Line]) -> bool {
    let digest = lines.iter().find_map(|line| match line {
        Line::Reply {
            question, reply, ..
        } if *question == plan.log_of(run) => match &reply.said {
            Ok(Answer::Value(value)) => Digest::deserialize(&**value).ok(),
            _ => None,
        },
        _ => None,
    });
    let Some(digest) = digest else {
        return false;
    };
    let mut scratch = Facts::new();
    nccl_log::establish_digest("baseline", digest, &mut scratch)
        .iter()
        .filter(|id| (scratch.known(**id, fact::run::NODES)).is_some_and(|nodes| nodes > 1))
        .any(|id| {
            let mut channels = scratch.below(*id, Subject::Channel);
            channels.any(|channel| scratch.known(channel, fact::channel::GDR) == Some(true))
        })
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

/// The recording with the table in the place where it says that nothing was measured.
fn with_table(
    mut recording: Recording,
    file: &Path,
    nodes: Option<u64>,
) -> anyhow::Result<Recording> {
    let bad = |what: String| BadInput(format!("{}: {what}", file.display()));
    let text = live::files::read_input(file).map_err(|e| bad(e.to_string()))?;
    let name = file
        .file_name()
        .map_or_else(|| "table".into(), |name| name.to_string_lossy());
    let mut table = Table::read(&name, &text).map_err(bad)?;
    table.nodes = nodes;
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
    Ok(recording)
}

/// Judges what a recording holds of measurements, and shows it.
fn show(recording: &Recording, format: Format, why: Option<String>) -> anyhow::Result<Exit> {
    let mut catalogue = input::site_catalogue()?;
    // Of a machine that was not recorded nothing is asked.
    let machine = !recording.header.node.is_empty();
    if !machine {
        catalogue.checks.retain(answer::is_of_measurements);
    }
    // The question is what the paths are worth, not whether the node is fit.
    catalogue.areas.retain(|area| &*area.name == "measurement");
    let limits = catalogue.limits.clone();
    let (facts, nodes) = input::facts_within(limits, std::slice::from_ref(recording));
    let Some(node) = nodes.first().map(|node| node.id) else {
        return Ok(Exit::Undecided);
    };
    let ablation = Ablation::of(&facts, node);
    let verdicts = answer::relevant(&catalogue, &facts, judge(&catalogue, &facts));
    let mut report = report::report(
        &catalogue,
        &facts,
        &verdicts,
        &nodes,
        &Policy::default(),
        false,
    );
    headline(&mut report, &catalogue, &ablation, why.as_deref());
    if !machine {
        report.nodes.clear();
    }
    output::print(|out| match format {
        Format::Json => {
            let mut value = serde_json::to_value(&ablation)?;
            value["report"] = serde_json::to_value(&report)?;
            serde_json::to_writer_pretty(&mut *out, &value)?;
            writeln!(out)
        }
        Format::Text => {
            let width = output::width();
            report::text::headline(out, &report)?;
            answer::text::write(out, &ablation, width)?;
            let detail = report::text::Detail::Normal;
            report::text::body(out, &report, detail, width, Some(Vec::new()))
        }
    })?;
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
        report.headline = format!("undecided: nothing was measured: {why}");
    } else if !report.causes.is_empty() {
    } else if let Some(note) = report.notes.iter().find(of_a_change) {
        report.headline.clone_from(&note.sentence);
    } else if let Some(sentence) = ablation.sentence() {
        report.headline = sentence;
    }
}
