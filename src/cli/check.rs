//! `rdma-doctor check`: from a machine, or its recording, to a verdict.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::bench::measuring::bytes_within;
use super::input::{self, BadUsage, bad_usage};
use super::judging::JudgeArgs;
use super::output::{self, StandardError};
use super::together::{self, Role, TogetherArgs};
use super::{AskArgs, SelectArgs, hosts};
use crate::examine::budget::{self, ClusterMemory, Foreign};
use crate::examine::examination::{Checks, Examination};
use crate::examine::examine;
use crate::examine::given::{Given, LaunchRequest};
use crate::exit::Exit;
use crate::live::{self, files};
use crate::nodeset;
use crate::report::json::{self, ReportJson};
use crate::report::{Report, plural, text};
use crate::terminal;

/// Judge this machine, a copied tree, or recordings.
#[derive(Debug, Args)]
#[command(mut_args(this_machines))]
pub struct CheckArgs {
    /// Recordings to judge in place of this machine, or texts, directories and archives with outputs of tools; several are judged as one cluster
    #[arg(value_name = "RECORDING", conflicts_with_all = super::NOT_OF_A_RECORDING, conflicts_with_all = ["hosts", "hostfile"])]
    pub recordings: Vec<PathBuf>,
    /// Judge each recording alone
    #[arg(long, requires = "recordings")]
    pub each: bool,
    /// Nodes that are expected among the recordings, as n[01-16]: one of them without a recording is a finding
    #[arg(
        long,
        value_name = "NODES",
        requires = "recordings",
        conflicts_with = "each"
    )]
    pub expect: Option<String>,
    /// Say what changed since this recording or report (--format json) of the node, or, of a directory, since its own recording in there, else against most of them
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["each", "hosts", "hostfile", "cluster"])]
    pub baseline: Option<PathBuf>,
    /// The result of a benchmark that ran on this machine or on the recorded ones (nccl-tests, all_reduce_bench), or a log of NCCL: judged together, a bandwidth against what the adapters carry (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["each", "expect", "baseline", "hosts", "hostfile", "cluster"])]
    pub with: Vec<PathBuf>,
    /// How a machine is asked.
    #[command(flatten)]
    pub ask: AskArgs,
    /// How nodes come together.
    #[command(flatten)]
    pub together: TogetherArgs,
    /// So many nodes give their recordings to one, which passes them on; without it 32 above 500 nodes, and of fewer all give them to rank 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1024))]
    pub fanin: Option<u64>,
    /// Do not try whether the nodes reach each other; without it hosts do, and the nodes of a launch where they have a key
    #[arg(long)]
    pub no_reach: bool,
    /// Memory for the recordings of all nodes together; a node whose recording needs more than its part is named, and the others are judged
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = memory)]
    pub memory: ClusterMemory,
    /// Which checks are judged.
    #[command(flatten)]
    pub select: SelectArgs,
    /// How the verdict is shown, and its exit status.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

impl CheckArgs {
    /// What it judges that others wrote. Who joins others gathers before it judges.
    pub(super) fn foreign(&self) -> Option<Foreign> {
        let is_foreign = !self.recordings.is_empty() && !self.together.is_asked();
        is_foreign.then(|| Foreign {
            together: (self.recordings.len() > 1).then_some(self.memory),
            deadline: self.ask.deadline,
        })
    }

    /// Puts the recordings in a directory in its place, if it holds nothing else but their expected verdicts. Texts beside
    /// them may hold a fault: with these it is read as the bundle that it is, and says that recordings are in it.
    pub(super) fn find_recordings(&mut self) {
        let given = std::mem::take(&mut self.recordings);
        for path in given {
            let files = match files::is_directory(&path) {
                true => files::input_files_in(&path).unwrap_or_default(),
                false => Vec::new(),
            };
            let (recordings, others): (Vec<_>, Vec<_>) =
                files.into_iter().partition(|file| is_recording(file));
            let is_expectation = |file: &PathBuf| file.to_string_lossy().ends_with(".expect.toml");
            if others.iter().all(is_expectation) && !recordings.is_empty() {
                self.recordings.extend(recordings);
                continue;
            }
            if !recordings.is_empty() {
                terminal::say(&format!(
                    "rdma-doctor: {}: reading the texts in it; {} beside them can be given by name",
                    terminal::path(&path),
                    plural(recordings.len() as u64, "recording"),
                ));
            }
            self.recordings.push(path);
        }
    }

    /// The nodes that --expect names.
    pub(super) fn expected(&self) -> Result<Option<Vec<String>>, BadUsage> {
        let names = self.expect.as_deref().map(nodeset::expand).transpose();
        names.map_err(|e| BadUsage(format!("--expect: {e}")))
    }
}

/// Whether a file is a recording, by its name and by how it begins.
fn is_recording(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    (name.ends_with(".jsonl") || name.ends_with(".zst")) && live::log::is_recording(file)
}

/// What only this machine answers to goes with no hosts.
fn this_machines(arg: clap::Arg) -> clap::Arg {
    match arg.get_id().as_str() {
        "root" | "job" => arg.conflicts_with_all(["hosts", "hostfile"]),
        _ => arg,
    }
}

fn memory(text: &str) -> Result<ClusterMemory, String> {
    bytes_within(text, 128 << 20..=1 << 40).map(ClusterMemory)
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, an output that cannot be written.
pub fn run(args: &CheckArgs) -> anyhow::Result<Exit> {
    let policy = &args.judge.policy()?;
    let Some(given) = parse_given(args)? else {
        return Ok(Exit::Healthy);
    };
    let select = &args.select;
    let are_plain = select.only.is_empty() && select.skip.is_empty() && select.checks.is_empty();
    let examination = Examination {
        given,
        with: &args.with,
        each: args.each,
        expected: args.expected()?,
        baseline: args.baseline.as_deref(),
        draws: args.judge.draws(),
        deadline: args.ask.deadline,
        memory: args.memory,
        policy,
        checks: Checks {
            read: &|| input::catalogue(select),
            are_chosen: !are_plain || select.waivers.is_some(),
        },
        sink: &StandardError,
    };
    examine(&examination, &|reports| shown(args, reports))
}

/// What is examined; nothing where another process of this node acts for it.
fn parse_given(args: &CheckArgs) -> anyhow::Result<Option<Vec<Given>>> {
    let given: Vec<Given> = match args.recordings.as_slice() {
        [] => vec![args.ask.given()],
        paths => paths.iter().map(|path| budget::given_at(path)).collect(),
    };
    let is_recording = |given: &Given| matches!(given, Given::Recording(_));
    if !args.with.is_empty() || !args.recordings.is_empty() && !given.iter().all(is_recording) {
        return Ok(Some(given));
    }
    if let Some(request) = hosts::request(&args.together, &args.ask, args.no_reach)? {
        return Ok(Some(vec![Given::Hosts(request)]));
    }
    // A check of recordings, or of a tree, examines no node that others wait for.
    let of_this_machine = args.recordings.is_empty() && args.ask.root.is_none();
    let place = match together::role(&args.together, of_this_machine)? {
        None => return Ok(Some(given)),
        Some(Role::Idle) => return Ok(None),
        Some(Role::Node(place)) => *place,
    };
    if args.baseline.is_some() {
        return Err(bad_usage("--baseline: for one node, not several"));
    }
    let own = match <[Given; 1]>::try_from(given) {
        Ok([own]) => own,
        Err(_) => return Err(bad_usage("one RECORDING replaces this node, not several")),
    };
    Ok(Some(vec![Given::Launch(Box::new(LaunchRequest {
        place,
        own,
        wait: args.together.wait,
        deadline: args.ask.request().deadline(),
        no_reach: args.no_reach,
        fanin: args.fanin,
        exit_on: args.together.exit_on,
    }))]))
}

/// Writes the reports, and gives the exit status.
fn shown(args: &CheckArgs, reports: &[Report]) -> anyhow::Result<Exit> {
    show(args, reports)?;
    Ok(exit_of(args, reports))
}

/// Writes the reports.
fn show(args: &CheckArgs, reports: &[Report]) -> anyhow::Result<()> {
    let text = |out: &mut dyn Write| {
        let detail = args.judge.detail();
        for (i, one) in reports.iter().enumerate() {
            if args.each {
                if i > 0 && !detail.quiet {
                    writeln!(out)?;
                }
                write!(out, "{}: ", terminal::path(&args.recordings[i]))?;
            }
            text::write(out, one, detail, output::width())?;
        }
        Ok(())
    };
    match reports {
        [one] if !args.each => args.judge.write(one, text, |out| json::write(out, one)),
        many => {
            let named = args.recordings.iter().zip(many);
            let named = named.map(|(path, report)| (terminal::path(path), report));
            let named: Vec<_> = named.collect();
            let each: Vec<ReportJson<'_>> = many.iter().map(ReportJson::of).collect();
            (args.judge).write_each(&named, text, |out| output::write_json(out, &each))
        }
    }
}

/// A format with an exit status of its own is for one report.
fn exit_of(args: &CheckArgs, reports: &[Report]) -> Exit {
    match reports {
        [one] => args.judge.exit(one),
        _ => worst(reports),
    }
}

/// Of several reports, errors before undecided before warnings before healthy.
fn worst(reports: &[Report]) -> Exit {
    let rank = |exit: Exit| match exit {
        Exit::Healthy => 0,
        Exit::Warnings => 1,
        Exit::Undecided => 2,
        _ => 3,
    };
    reports
        .iter()
        .map(Report::exit)
        .max_by_key(|e| rank(*e))
        .unwrap_or(Exit::Undecided)
}
