//! `rdma-doctor triage`: look, measure, take away, and say the one cause.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::bench::assembly::{self, Start};
use super::bench::measuring::{self, MeasureArgs};
use super::bench::shared_verdict::{MeasurementEnd, SharedVerdict};
use super::judging::JudgeArgs;
use super::option_values::bit_rate;
use super::together::{Role, TogetherArgs, role, starter};
use super::{SelectArgs, input, output, seconds};
use crate::examine::plan::{self, Measured, OtherNodes, SeveralNodes, TriagePlan, preview};
use crate::examine::recording_text::to_text;
use crate::exit::Exit;
use crate::fact::port::PortState;
use crate::fact::{self, BitRate, Facts, Id, Subject, port};
use crate::live::clock;
use crate::live::worker::Progress;
use crate::measure::plan::ablation_arms::{ArmFamily, ArmRequest, parse_variables};
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::run::Backend;
use crate::measure::run::ablation::{AblationRequest, measure_arms};
use crate::nccl_log::Digest;
use crate::probe::nccl_log;
use crate::report::json::ReportJson;
use crate::report::{ablation as matrix, text};
use crate::source::recording::Recording;

/// Why is multi-node slower than single-node: examine this node, measure, take one path after the other away, and name the cause.
///
/// Several nodes are compared with one node, with pairs of them and with what their links can carry. Where nothing tells why they are slow, triage goes on
/// by itself: parts of the nodes, latency, other connections, sizes and rails, TCP in place of RDMA. --dry-run shows the steps with their times.
/// It uses the GPUs and the network: do not run it while a job runs. With --record all of it replays anywhere to the same verdict.
#[derive(Debug, Args)]
pub struct TriageArgs {
    /// Judge what this recording has, in place of this machine
    #[arg(value_name = "RECORDING", conflicts_with_all = measuring::NOT_OF_A_RECORDING, conflicts_with_all = ["quick", "full", "dry_run", "size", "link", "time_budget", "deadline", "cluster", "rank", "hosts", "hostfile"])]
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
    /// The size of the all-reduce by which runs are compared [default: 512M; 256M with --quick, 1G and 4 GB with --full]
    #[arg(long, value_name = "BYTES", value_parser = measuring::bytes)]
    pub size: Option<u64>,
    /// Begin no further run after this many seconds [default: 180; 60 with --quick, 600 with --full]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time_budget: Option<Duration>,
    /// Give up a run after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    pub deadline: Duration,
    /// What each node's network link should carry, such as 400G: what nodes reach is judged by it
    #[arg(long, value_name = "BITS_PER_SECOND", value_parser = bit_rate)]
    pub link: Option<BitRate>,
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

/// The size by which runs are compared, where neither --quick nor --full is asked for.
const SIZE: u64 = 512 << 20;
/// The size with --quick: the least that nccl-tests' users judge by bandwidth.
const SIZE_QUICK: u64 = 256 << 20;
/// The variables that --quick sets, each alone.
const ALONE: [&str; 3] = [
    "NCCL_IB_DISABLE=1",
    "NCCL_SHM_DISABLE=1",
    "NCCL_P2P_DISABLE=1",
];

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, options that contradict each other, an output that cannot be written.
pub fn run(args: &TriageArgs) -> anyhow::Result<Exit> {
    let plan = triage_plan(args)?;
    if args.dry_run {
        let lines = preview::lines(&plan, expected_nodes(&args.together)?);
        output::print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))?;
        return Ok(Exit::Healthy);
    }
    if let Some(exit) = starter::over_hosts(&args.together)? {
        return Ok(exit);
    }
    let catalogue = input::catalogue(&args.select)?;
    let (measured, verdict) = match &args.recording {
        Some(path) => (
            only(input::open(&[path])?.remove(0), None),
            SharedVerdict::alone(),
        ),
        None => match measure(args, &plan)? {
            Ok(measured) => measured,
            Err(exit) => return Ok(exit),
        },
    };
    measuring::keep(&measured.recording, &args.who)?;
    let draws = args.judge.draws();
    let triage = plan::judge(&catalogue, measured, &args.judge.policy()?, draws)?;
    let report = &triage.report;
    let shown_text = |out: &mut dyn Write| {
        let (detail, width) = (args.judge.detail(), output::width());
        text::headline(out, report)?;
        if detail.quiet {
            return Ok(());
        }
        if let Some(said) = &triage.said {
            text::paragraph(out, "", 0, said, width)?;
        }
        if let Some(ablation) = &triage.ablation {
            matrix::text::write(out, ablation, width)?;
        }
        text::body(out, report, detail, width, Vec::new())
    };
    let shown_json = |out: &mut dyn Write| {
        let mut value = serde_json::to_value(ReportJson::of(report))?;
        value["answer"] = serde_json::to_value(&triage.answer)?;
        value["measured"] = serde_json::to_value(&triage.ablation)?;
        value["not_measured"] = serde_json::to_value(&triage.why)?;
        output::write_json(out, &value)
    };
    args.judge.write(report, shown_text, shown_json)?;
    let exit = args.judge.exit(report);
    verdict.say(exit);
    Ok(exit)
}

/// The plan that the options ask for.
fn triage_plan(args: &TriageArgs) -> anyhow::Result<TriagePlan> {
    let request = ablation(args)?;
    Ok(TriagePlan {
        quick: args.quick,
        full: args.full,
        size: args.size,
        budget: budget(args),
        deadline: args.deadline,
        gid_index: args.who.gid_index,
        force: args.who.force,
        link: args.link.map(|link| link.0),
        arms: request,
    })
}

/// How many nodes would take part.
fn expected_nodes(together: &TogetherArgs) -> anyhow::Result<u64> {
    Ok(match role(together, true)? {
        Some(Role::Node(place)) => place.nodes,
        Some(Role::Idle) | None => 1,
    })
}

/// What one node measured.
fn only(recording: Recording, why: Option<String>) -> Measured {
    Measured {
        recording,
        why,
        others: None,
    }
}

/// Records the node, then measures, with the nodes of the launch where there are several. Where rank 0 has all, how this process ends.
fn measure(
    args: &TriageArgs,
    plan: &TriagePlan,
) -> anyhow::Result<Result<(Measured, SharedVerdict), Exit>> {
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
            say_plan(plan, 1);
            let (recording, why) = alone(args, plan)?;
            return Ok(Ok((only(recording, why), SharedVerdict::alone())));
        }
        Start::Over(MeasurementEnd::Elsewhere(exit)) => return Ok(Err(exit)),
        Start::Over(MeasurementEnd::Here(recording, why, verdict)) => {
            return Ok(Ok((only(*recording, why), verdict)));
        }
        Start::Ready(ready) => *ready,
    };
    let team = &ready.assembled.team;
    let leads = team.leads();
    if leads {
        let nodes = 1 + team.session().names().keys().max().copied().unwrap_or(0);
        say_plan(plan, nodes);
    }
    // Rank 0 keeps its own.
    let text = match leads {
        true => String::new(),
        false => to_text(&ready.recording, None),
    };
    let given = team.gather_texts(text)?;
    let mut recording = ready.recording;
    let several = SeveralNodes {
        plan,
        limits: &input::site_catalogue()?.limits,
        silent: &ready.silent,
        show: output::progress,
    };
    let why = several.measure(&mut recording, ready.assembled)?;
    output::progress(Progress::Done);
    if !leads {
        return Ok(Err(ready.verdict.hear()));
    }
    let silent = ready.silent;
    let measured = Measured {
        recording,
        why,
        others: Some(OtherNodes { given, silent }),
    };
    Ok(Ok((measured, ready.verdict)))
}

/// Says the plan to a person before anything is measured.
fn say_plan(plan: &TriagePlan, nodes: u64) {
    for line in preview::lines(plan, nodes) {
        output::say(&line);
    }
}

/// Records the node, then measures; or why nothing was measured.
fn alone(args: &TriageArgs, plan: &TriagePlan) -> anyhow::Result<(Recording, Option<String>)> {
    let choose = |facts: &Facts, node| match without_gpus(facts, node, args).transpose() {
        Ok(backend) => measuring::choose(facts, node, &with_backend(args, backend)),
        Err(why) => Ok(Err(why)),
    };
    measuring::measured(&args.who, choose, |recording, ranks| {
        measure_alone(recording, ranks, args, plan)
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

/// Measures with this node's ranks; or says why nothing was measured.
fn measure_alone(
    recording: &mut Recording,
    ranks: ChosenRanks,
    args: &TriageArgs,
    plan: &TriagePlan,
) -> anyhow::Result<Option<String>> {
    let mut request = plan.arms.clone();
    if ranks.backend != Backend::Nccl {
        let points = plan.in_host_memory(&ranks);
        request.begun = Some(ranks.clone().plan(points, 0, clock::boottime_ns()));
        request.arms = ArmRequest::of_switches();
    } else if args.full {
        plan.copies(recording, &ranks, output::progress);
    }
    measure_arms(recording, ranks, &request, None, output::progress)
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
