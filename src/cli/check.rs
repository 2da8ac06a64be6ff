//! `rdma-doctor check`: from a machine, or its recording, to a verdict.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::Builder;
use std::time::Duration;

use clap::Args;

use super::bench::measuring::bytes_within;
use super::budget::{self, Foreign, REPORTING};
use super::hosts;
use super::input::{BadInput, BadUsage, bad_usage};
use super::judging::JudgeArgs;
use super::many::ClusterMemory;
use super::together::meet::{self, Outcome};
use super::together::{self, NodePlacement, Role, TogetherArgs};
use super::{AskArgs, SelectArgs, baseline, evidence, input, log, many, output};
use crate::check::Catalogue;
use crate::exit::Exit;
use crate::live::{self, deadline, judging_child};
use crate::nodeset;
use crate::probe::nccl_log;
use crate::report::{self, Policy, Report, html, json, text};
use crate::source::recording::Recording;
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

    /// The nodes that --expect names.
    pub(super) fn expected(&self) -> Result<Option<Vec<String>>, BadUsage> {
        let names = self.expect.as_deref().map(nodeset::expand).transpose();
        names.map_err(|e| BadUsage(format!("--expect: {e}")))
    }
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
    if !args.with.is_empty() {
        return with_results(args, policy);
    }
    let hosts = hosts::named(&args.together.hosts)?;
    if let Some(reports) = evidence::reports(args, policy)? {
        return shown(args, &reports);
    }
    // A check of recordings, a tree, or other hosts examines no node that others wait for.
    let of_this_machine = args.recordings.is_empty() && args.ask.root.is_none() && hosts.is_none();
    let role = together::role(&args.together, of_this_machine)?;
    if args.baseline.is_some()
        && (args.recordings.len() > 1 || args.expect.is_some() || role.is_some())
    {
        return Err(bad_usage("--baseline: for one node, not several"));
    }
    let several = args.recordings.len() > 1 || args.each || args.expect.is_some();
    if role.is_none() && hosts.is_none() && !several {
        return alone(args, policy);
    }
    let catalogue = input::catalogue(&args.select)?;
    if let Some(deadline) = args.ask.deadline {
        end_of_several(
            deadline + args.together.wait,
            role.as_ref(),
            hosts.is_some(),
        );
    }
    match (role, hosts) {
        (Some(Role::Idle), _) => Ok(Exit::Healthy),
        (Some(Role::Node(place)), _) => launched(args, &place, &catalogue, policy),
        (None, Some(hosts)) => {
            let (ask, wait) = (&args.ask, args.together.wait);
            let given = hosts::gather(&args.together.hosts, &hosts, wait, ask, args.memory)?;
            budget::bounded(Some(args.memory), || {
                let report = many::of_hosts(&catalogue, &hosts, &given, args.memory, policy)?;
                shown(args, &[report])
            })
        }
        (None, None) if args.each => shown(args, &each(args, &catalogue, policy)?),
        (None, None) => {
            let limits = (args.expected()?, args.memory);
            let report = many::files(&catalogue, &args.recordings, limits, policy)?;
            shown(args, &[report])
        }
    }
}

/// Ends a check of several nodes that takes longer than they may take to answer and their report
/// to be written. A node of another rank may wait as long for rank 0 to begin.
fn end_of_several(answering: Duration, role: Option<&Role>, of_hosts: bool) {
    let of_all = answering + REPORTING;
    match role {
        Some(Role::Node(place)) if place.own.rank > 0 => deadline::end_after(answering + of_all),
        Some(Role::Node(_)) => deadline::end_after(of_all),
        None if of_hosts => deadline::end_after(of_all),
        Some(Role::Idle) | None => {}
    }
}

/// Judges one node by itself, by the deadline.
fn alone(args: &CheckArgs, policy: &Policy) -> anyhow::Result<Exit> {
    let Some(path) = args.recordings.first() else {
        deadline::end_after(args.ask.deadline() + REPORTING);
        return shown(args, &[one(args, policy)?]);
    };
    let report = budget::file(path, || one(args, policy));
    let report = report.unwrap_or_else(|why| Err(BadInput::of(path, why).into()))?;
    shown(args, &[report])
}

/// Takes part in a launch; rank 0 judges all, and tells the others.
fn launched(
    args: &CheckArgs,
    place: &NodePlacement,
    catalogue: &Catalogue,
    policy: &Policy,
) -> anyhow::Result<Exit> {
    let own = || match args.recordings.as_slice() {
        [] => input::record(&args.ask),
        [one] => Ok(input::open_recording(one)?),
        _ => Err(bad_usage("one RECORDING replaces this node, not several")),
    };
    let times = (args.ask.deadline(), args.fanin);
    match meet::run(place, &args.together, times, own, args.memory)? {
        Outcome::VerdictOfRank0(exit) => Ok(exit),
        Outcome::Gathered(nodes) => {
            let exit = budget::bounded(Some(args.memory), || {
                let report = nodes.judged(catalogue, args.memory, policy);
                let exit = shown(args, std::slice::from_ref(&report))?;
                judging_child::note(&report.headline.to_string());
                Ok(exit)
            })?;
            let headline = judging_child::noted();
            if !headline.is_empty() {
                nodes.tell(headline, exit);
            }
            Ok(exit)
        }
    }
}

/// Judges each recording alone.
fn each(args: &CheckArgs, catalogue: &Catalogue, policy: &Policy) -> anyhow::Result<Vec<Report>> {
    // As many at a time as there are processors: of ten thousand recordings few are in memory.
    let (mut last, mut reports) = (None, Vec::with_capacity(args.recordings.len()));
    let budget = args.memory.of_each();
    let judge = |path: &Path| {
        let one = Recording::open_within(path, budget).map_err(|error| error.to_string())?;
        Ok(many::judged(catalogue, &[one], policy))
    };
    let judged = |at: usize| {
        let path = &args.recordings[at];
        let report = budget::file(path, || judge(path));
        report.unwrap_or_else(|why| Err(format!("{}: {why}", terminal::path(path))))
    };
    many::each(args.recordings.len(), args.memory, judged, |_, report| {
        // The others go on.
        reports.push(report.unwrap_or_else(|why: String| {
            last = Some(BadInput(why.clone()));
            Report::without_nodes(&why)
        }));
    });
    match last {
        Some(error) if reports.iter().all(|report| report.nodes.is_empty()) => Err(error.into()),
        _ => Ok(reports),
    }
}

/// Writes the reports, and gives the exit status.
fn shown(args: &CheckArgs, reports: &[Report]) -> anyhow::Result<Exit> {
    show(args, reports)?;
    Ok(exit_of(args, reports))
}

/// Judges one node by itself: this machine, a tree, or a recording. The checks are read while the node is.
fn one(args: &CheckArgs, policy: &Policy) -> anyhow::Result<Report> {
    // What may be mistyped is looked at before a machine is asked, which can take long.
    let select = &args.select;
    let plain = select.only.is_empty() && select.skip.is_empty() && select.checks.is_empty();
    let plain = plain && select.waivers.is_none();
    let first = match args.recordings.is_empty() && !plain {
        true => Some(input::catalogue(select)?),
        false => None,
    };
    std::thread::scope(|scope| {
        let reading = match first {
            Some(catalogue) => Err(catalogue),
            None => match Builder::new().spawn_scoped(scope, || input::catalogue(select)) {
                Ok(reading) => Ok(reading),
                // Without a thread it is read first.
                Err(_) => Err(input::catalogue(select)?),
            },
        };
        let recording = match args.recordings.as_slice() {
            [] => input::record(&args.ask).map(|recording| vec![recording]),
            paths => input::open(paths),
        };
        let catalogue = match reading {
            Err(catalogue) => catalogue,
            Ok(reading) => match reading.join() {
                Ok(catalogue) => catalogue?,
                Err(panic) => std::panic::resume_unwind(panic),
            },
        };
        // The process ends when the report is out: to take apart what it was drawn from would be for nothing.
        let recordings: &'static [Recording] = recording?.leak();
        let (mut facts, nodes) = input::facts_within(catalogue.limits.clone(), recordings);
        let verdicts = many::verdicts(&catalogue, &mut facts, &nodes, recordings);
        let mut report = report::report(&catalogue, &facts, &verdicts, &nodes, policy);
        if let Some(path) = &args.baseline {
            report.baseline = Some(baseline::changes(
                path,
                &catalogue,
                policy,
                &report,
                (&facts, recordings),
            )?);
        }
        if let ([node], true) = (nodes.as_slice(), args.judge.draws()) {
            report.drawn = html::of_node(&catalogue, &facts, &verdicts, node.id)?;
        }
        std::mem::forget((catalogue, facts));
        Ok(report)
    })
}

/// Reports on machines, and on what ran on them.
fn with_results(args: &CheckArgs, policy: &Policy) -> anyhow::Result<Exit> {
    let catalogue = input::catalogue(&args.select)?;
    let recordings = match args.recordings.as_slice() {
        [] => vec![input::record(&args.ask)?],
        paths => input::open(paths)?,
    };
    budget::bounded(None, || {
        let with = || log::log(&args.with, None);
        let results = judging_child::endless_input("the results", with);
        let results = results.map_err(|why| BadInput(format!("--with: {why}")))??;
        refuse_unrecognised(&args.with, &results)?;
        let all = [recordings.as_slice(), &[results]].concat();
        let judge = || many::judged(&catalogue, &all, policy);
        let report = judging_child::input("nodes and results", judge);
        shown(args, &[report.map_err(BadInput)?])
    })
}

/// A result in which nothing is recognised was given for nothing: whoever gave it believes that it
/// was judged.
fn refuse_unrecognised(with: &[PathBuf], results: &Recording) -> Result<(), BadInput> {
    let recognised = nccl_log::recognised(results);
    let is_below = |path: &PathBuf| {
        let path = terminal::path(path);
        recognised
            .iter()
            .any(|file| Path::new(&**file).starts_with(&path))
    };
    let is_recording = matches!(with, [one] if live::log::is_recording(one));
    match with.iter().find(|path| !is_below(path)) {
        Some(path) if !is_recording || recognised.is_empty() => {
            let why = "holds no line of NCCL, no result of a benchmark, and no output of a tool \
                       that is read";
            Err(BadInput::of(path, why))
        }
        _ => Ok(()),
    }
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
            (args.judge).write_each(&named, text, |out| output::write_json(out, &many))
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
