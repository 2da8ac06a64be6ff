//! `rdma-doctor triage`: look, measure, take away, and say the one cause.

mod nodes;
mod plan;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::bench::assembly::{self, Start};
use super::bench::collective as collective_bench;
use super::bench::measuring::{self, MeasureArgs};
use super::bench::shared_verdict::{MeasurementEnd, SharedVerdict};
use super::judging::JudgeArgs;
use super::together::{TogetherArgs, starter};
use super::{SelectArgs, input, output, seconds};
use crate::examine::budget::ClusterMemory;
use crate::examine::many::{self, Gathering};
use crate::examine::one;
use crate::examine::recording_text::to_text;
use crate::exit::Exit;
use crate::fact::port::PortState;
use crate::fact::{self, Facts, Id, Subject, limit, port};
use crate::live::clock;
use crate::live::worker::Progress;
use crate::measure::plan::ablation_arms::{ArmFamily, ArmRequest, parse_variables};
use crate::measure::plan::p2p;
use crate::measure::plan::pairs::Silent;
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::run::{Backend, NAME, Point};
use crate::measure::plan::scope::Scopes;
use crate::measure::run::ablation::{AblationRequest, measure_arms};
use crate::measure::run::copies::measure_copies;
use crate::measure::run::ranks::RankProcess;
use crate::measure::run::team::{PartRequest, Team};
use crate::nccl_log::Digest;
use crate::probe::nccl_log;
use crate::report::ablation::{self as matrix, Ablation};
use crate::report::html::{self, Markup, charts};
use crate::report::triage::Answer;
use crate::report::{self, text};
use crate::sentence::Sentence;
use crate::source::recording::Recording;

/// Why is multi-node slower than single-node: examine this node, measure, take one path after the other away, and name the cause.
///
/// Several nodes are compared with one node, with pairs of them and with what their links can carry. Where nothing tells why they are slow, triage goes on
/// by itself: parts of the nodes, latency, other connections, sizes and rails, TCP in place of RDMA. --dry-run shows the steps with their times.
/// It uses the GPUs and the network: do not run it while a job runs. With --record all of it replays anywhere to the same verdict.
#[derive(Debug, Args)]
pub struct TriageArgs {
    /// Judge what this recording has, in place of this machine
    #[arg(value_name = "RECORDING", conflicts_with_all = measuring::NOT_OF_A_RECORDING, conflicts_with_all = ["quick", "full", "dry_run", "size", "time_budget", "deadline", "cluster", "rank", "hosts", "hostfile"])]
    pub recording: Option<PathBuf>,
    /// About a minute: smaller messages, each of the three paths taken away alone (and GPUDirect between nodes, where it is used), twice where time is left
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Some ten minutes: copies between all GPUs, all eight combinations, algorithms, GPUDirect and queue pairs, and the reference size of 4 GB
    #[arg(long)]
    pub full: bool,
    /// Show what would be measured and for how long, and measure nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The size of the all-reduce by which arms are compared [default: 512M; 256M with --quick, 1G and 4 GB with --full]
    #[arg(long, value_name = "BYTES", value_parser = measuring::bytes)]
    pub size: Option<u64>,
    /// Begin no further run after this many seconds [default: 180; 60 with --quick, 600 with --full]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time_budget: Option<Duration>,
    /// Give up a run after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    pub deadline: Duration,
    /// The nodes that take part.
    #[command(flatten)]
    pub who: MeasureArgs,
    /// How nodes come together.
    #[command(flatten)]
    pub together: TogetherArgs,
    /// Which checks are judged.
    #[command(flatten)]
    pub select: SelectArgs,
    /// How the verdict is shown, and its exit status.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

/// The size by which arms are compared, where neither --quick nor --full is asked for.
const SIZE: u64 = 512 << 20;
/// The size with --quick: the least that nccl-tests' users judge by bandwidth.
const SIZE_QUICK: u64 = 256 << 20;
/// The variables that --quick sets, each alone.
const ALONE: [&str; 3] = [
    "NCCL_IB_DISABLE=1",
    "NCCL_SHM_DISABLE=1",
    "NCCL_P2P_DISABLE=1",
];
/// A copy between GPUs, and how often it is timed; where a smaller size was asked for, what still tells of bandwidth.
const COPY: u64 = 256 << 20;
const COPY_LEAST: u64 = 16 << 20;
const COPIES: u64 = 5;

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, options that contradict each other, an output that cannot be written.
pub fn run(args: &TriageArgs) -> anyhow::Result<Exit> {
    if args.dry_run {
        let nodes = plan::nodes(&args.together)?;
        output::print(|out| plan::write(out, args, nodes))?;
        return Ok(Exit::Healthy);
    }
    if let Some(exit) = starter::over_hosts(&args.together)? {
        return Ok(exit);
    }
    let catalogue = input::catalogue(&args.select)?;
    let (recording, why, others, verdict) = match &args.recording {
        Some(path) => {
            let recording = input::open(&[path])?.remove(0);
            (recording, None, None, SharedVerdict::alone())
        }
        None => match measured(args)? {
            Ok(measured) => measured,
            Err(exit) => return Ok(exit),
        },
    };
    measuring::keep(&recording, &args.who)?;
    let limits = catalogue.limits.clone();
    let own = std::slice::from_ref(&recording);
    let (mut facts, nodes) = one::facts_within(limits, own);
    let policy = &args.judge.policy()?;
    let mut report = match others {
        None => {
            let verdicts = one::verdicts(&catalogue, &mut facts, &nodes, own);
            let mut report = report::report(&catalogue, &facts, &verdicts, &nodes, policy);
            if let ([node], true) = (nodes.as_slice(), args.judge.draws()) {
                report.drawn = html::of_node(&catalogue, &facts, &verdicts, node.id)?;
            }
            report
        }
        Some(others) => {
            let gathering = Gathering {
                own: &recording,
                given: &others.given,
                expected: None,
                silent: others.silent,
                memory: ClusterMemory::default(),
            };
            many::gathered(&catalogue, gathering, policy)
        }
    };
    let ablation = nodes.first().map(|node| Ablation::of(&facts, node.id));
    let ablation = ablation.filter(Ablation::is_measured);
    // What a bisection alone measured was compared with no pairs and no node.
    let is_compared = |node: Id| facts.known(node, fact::node::COMPARED) == Some(true);
    let scopes = Scopes::read(&recording.of(NAME)).unwrap_or_default();
    let scopes = match nodes.first().is_some_and(|node| is_compared(node.id)) {
        true => scopes,
        false => Scopes::default(),
    };
    let answer = Answer::of(&report, &scopes, facts.limit(limit::SLOW_NODES));
    if let Some(answer) = &answer
        && (answer.has_finding() || report.causes.is_empty())
    {
        report.headline.clone_from(&answer.sentence);
    }
    let nothing = match (&ablation, &why) {
        (Some(_), _) => None,
        (None, Some(why)) => Some(format!("not measured: {why}")),
        (None, None) => Some("not measured: this recording holds no measurement".into()),
    };
    let nothing = nothing.map(Sentence::from);
    if nothing.is_some() || answer.as_ref().is_some_and(|answer| answer.is_open) {
        report.leave_open();
    }
    if let (Some(nothing), true) = (&nothing, report.causes.is_empty()) {
        report.headline.clone_from(nothing);
    }
    // A triage's answer may take a second line.
    let measured = |first: &&report::Finding| {
        let kinds = ["ablation/", "bench/", "pairs/"];
        kinds.iter().any(|kind| first.check.starts_with(kind))
    };
    if let Some(first) = report.causes.first().filter(measured)
        && answer.is_none()
        && !report.headline.begins_with(&first.sentence)
    {
        let others = report::other_causes(report.causes.len(), "");
        report.headline = first.sentence.then_optionally(others);
    }
    let said = match &ablation {
        _ if answer.is_some() => answer
            .as_ref()
            .filter(|answer| answer.sentence != report.headline)
            .map(|answer| answer.sentence.clone()),
        Some(ablation) => ablation
            .sentence()
            .map(|said| Sentence::from("measured: ").then(said)),
        None => nothing.filter(|nothing| *nothing != report.headline),
    };
    if args.judge.draws() {
        let mut page = Markup::default();
        page.put(
            "<p class=\"said\">{}</p>\n",
            &[&said.clone().unwrap_or_default()],
        );
        if let (Some(ablation), true) = (&ablation, report.nodes.len() > 1) {
            charts::ablation(&mut page, ablation)?;
        }
        page.append(&report.drawn);
        report.drawn = page;
    }
    let shown_text = |out: &mut dyn Write| {
        let (detail, width) = (args.judge.detail(), output::width());
        text::headline(out, &report)?;
        if detail.quiet {
            return Ok(());
        }
        if let Some(said) = &said {
            text::paragraph(out, "", 0, said, width)?;
        }
        if let Some(ablation) = &ablation {
            matrix::text::write(out, ablation, width)?;
        }
        text::body(out, &report, detail, width, None)
    };
    let shown_json = |out: &mut dyn Write| {
        let mut value = serde_json::to_value(&report)?;
        value["answer"] = serde_json::to_value(&answer)?;
        value["measured"] = serde_json::to_value(&ablation)?;
        value["not_measured"] = serde_json::to_value(&why)?;
        output::write_json(out, &value)
    };
    args.judge.write(&report, shown_text, shown_json)?;
    let exit = args.judge.exit(&report);
    verdict.say(exit);
    Ok(exit)
}

/// What rank 0 has of the other nodes.
struct Others {
    given: Vec<(String, Vec<u8>)>,
    silent: Vec<Silent>,
}

type Measured = (Recording, Option<String>, Option<Others>, SharedVerdict);

/// Records the node, then measures, with the nodes of the launch where there are several; or why nothing was measured. Where rank 0
/// has it, how this process ends.
fn measured(args: &TriageArgs) -> anyhow::Result<Result<Measured, Exit>> {
    let request = |facts: &Facts, node: Id| {
        // Between nodes sockets tell of the network too.
        let chosen = without_gpus(facts, node, args);
        Ok(with_backend(
            args,
            chosen.map(|found| found.unwrap_or(Backend::Tcp)),
        ))
    };
    let ready = match assembly::start(&args.who, &args.together, request)? {
        Start::Alone => {
            plan::say(args, 1);
            let (recording, why) = alone(args)?;
            return Ok(Ok((recording, why, None, SharedVerdict::alone())));
        }
        Start::Over(MeasurementEnd::Elsewhere(exit)) => return Ok(Err(exit)),
        Start::Over(MeasurementEnd::Here(recording, why, verdict)) => {
            return Ok(Ok((*recording, why, None, verdict)));
        }
        Start::Ready(ready) => *ready,
    };
    let begun = clock::now();
    let team = &ready.assembled.team;
    if team.leads() {
        let nodes = 1 + team.session().names().keys().max().copied().unwrap_or(0);
        plan::say(args, nodes);
    }
    // Rank 0 keeps its own.
    let text = match team.leads() {
        true => String::new(),
        false => to_text(&ready.recording, None),
    };
    let given = team.gather_texts(text)?;
    let mut recording = ready.recording;
    let (all, own) = (&ready.assembled.all, &ready.assembled.own);
    let why = match all.backend {
        Backend::Nccl if team.leads() => {
            let why = measure(&mut recording, all.clone(), args, Some(team))?;
            team.over()?;
            why
        }
        Backend::Nccl => {
            team.follow_runs(&RankProcess::of(&recording, args.deadline))?;
            None
        }
        Backend::Verbs | Backend::Tcp => {
            let points = in_host_memory(args, all);
            let parts = PartRequest::default();
            team.measure(&mut recording, (all, own), points, parts, args.deadline)?
        }
    };
    nodes::compare(
        &mut recording,
        &ready.assembled,
        (args, begun),
        &ready.silent,
    )?;
    output::progress(Progress::Done);
    if !team.leads() {
        return Ok(Err(ready.verdict.hear()));
    }
    let silent = ready.silent;
    let others = Others { given, silent };
    Ok(Ok((recording, why, Some(others), ready.verdict)))
}

/// Records the node, then measures; or why nothing was measured.
fn alone(args: &TriageArgs) -> anyhow::Result<(Recording, Option<String>)> {
    let choose = |facts: &Facts, node| match without_gpus(facts, node, args).transpose() {
        Ok(backend) => measuring::choose(facts, node, &with_backend(args, backend)),
        Err(why) => Ok(Err(why)),
    };
    measuring::measured(&args.who, choose, |recording, chosen| {
        measure(recording, chosen, args, None)
    })
}

fn with_backend(args: &TriageArgs, backend: Option<Backend>) -> MeasureArgs {
    MeasureArgs {
        backend: backend.or(args.who.backend),
        ..args.who.clone()
    }
}

/// What moves the data where CUDA shows no GPU and nobody named a backend: RDMA, where a port is active; sockets between processes of one node would
/// tell nothing of its network.
fn without_gpus(facts: &Facts, node: Id, args: &TriageArgs) -> Option<Result<Backend, String>> {
    let named = args.who.backend.is_some() || args.who.nccl.is_some() || !args.who.gpus.is_empty();
    let gpus = facts
        .below(node, Subject::Gpu)
        .any(|id| facts.known(id, fact::gpu::IN_CUDA) == Some(true));
    if named || gpus {
        return None;
    }
    let active = facts
        .below(node, Subject::Port)
        .any(|id| facts.known(id, port::STATE) == Some(PortState::Active));
    Some(match active {
        true => Ok(Backend::Verbs),
        false => Err("CUDA shows no GPU, and no RDMA port is active; next: measure the network between nodes, `rdma-doctor triage --hosts NODE,NODE`".into()),
    })
}

/// Measures with these ranks; or says why nothing was measured.
fn measure(
    recording: &mut Recording,
    ranks: ChosenRanks,
    args: &TriageArgs,
    team: Option<&Team>,
) -> anyhow::Result<Option<String>> {
    let show = output::progress;
    let mut request = ablation(args)?;
    if ranks.backend != Backend::Nccl {
        let points = in_host_memory(args, &ranks);
        request.begun = Some(ranks.clone().plan(points, 0, clock::boottime_ns()));
        request.arms = ArmRequest::of_switches();
    } else if args.full {
        let own = team.map(|team| team.own_of(&ranks));
        let own = own.as_ref().unwrap_or(&ranks);
        let gpus = own.ranks.iter().filter_map(|rank| rank.gpu.as_deref());
        let plan = p2p::Plan {
            size: args.size.map_or(COPY, |size| size.clamp(COPY_LEAST, COPY)),
            trials: COPIES,
            gpus: gpus.map(Into::into).collect(),
        };
        measure_copies(recording, &plan, args.deadline, show);
    }
    measure_arms(recording, ranks, &request, team, show)
}

/// One all-reduce in the host's memory.
fn in_host_memory(args: &TriageArgs, ranks: &ChosenRanks) -> Vec<Point> {
    let bytes = args.size.unwrap_or(match args.quick {
        true => collective_bench::IN_HOST_MEMORY / 4,
        false => collective_bench::IN_HOST_MEMORY,
    });
    vec![Point {
        adaptive: args.size.is_none(),
        ..Point::all_reduce(bytes, ranks.ranks.len() as u64)
    }]
}

/// How long a triage takes at most, where nobody says it.
fn budget(args: &TriageArgs) -> Duration {
    let seconds = match (args.quick, args.full) {
        (true, _) => 60,
        (_, true) => 600,
        _ => 180,
    };
    args.time_budget.unwrap_or(Duration::from_secs(seconds))
}

/// The ablation that finds the cause in the time that there is.
fn ablation(args: &TriageArgs) -> anyhow::Result<AblationRequest> {
    let alone = ALONE.iter().filter(|_| args.quick);
    let variables: Result<_, String> = alone.map(|set| parse_variables(set)).collect();
    Ok(AblationRequest {
        arms: ArmRequest {
            switches: !args.quick,
            families: match args.full {
                true => vec![ArmFamily::Gdr, ArmFamily::Algo, ArmFamily::Qps],
                false => Vec::new(),
            },
            variables: variables.map_err(anyhow::Error::msg)?,
        },
        size: match (args.size, args.quick, args.full) {
            (Some(size), _, _) => Some(size),
            (_, true, _) => Some(SIZE_QUICK),
            // What ablate measures by itself: arms of 1 GiB, and the baseline at 4 GB too.
            (_, _, true) => None,
            _ => Some(SIZE),
        },
        rounds: if args.quick { 2 } else { 3 },
        budget: budget(args),
        deadline: args.deadline,
        begun: None,
        uses_gdr: Some(gdr_between_nodes),
    })
}

/// Whether channels between nodes reach GPUs' memory directly, by NCCL's log of a run.
fn gdr_between_nodes(digest: Digest) -> bool {
    let mut scratch = Facts::new();
    nccl_log::establish_digest("baseline", digest, &mut scratch)
        .iter()
        .filter(|id| (scratch.known(**id, fact::run::NODES)).is_some_and(|nodes| nodes > 1))
        .any(|id| {
            let mut channels = scratch.below(*id, Subject::Channel);
            channels.any(|channel| scratch.known(channel, fact::channel::GDR) == Some(true))
        })
}
