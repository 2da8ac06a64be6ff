use super::*;
use crate::fact::arm::{ArmApplied, GpuDirectUse, InterNodeTransport, Outcome};
use crate::fact::measurement::{GpuDirect, Memory, NodeSpan};
use crate::fact::{Fact, arm, factor, measurement};
use crate::measure::plan::ablation::Set;
use crate::measure::plan::collective::{Collective, DataType, Reduction};
use crate::measure::plan::reply::{Ended, GpuMemory, GpuMemoryAccess, PointReply, RankReply};
use crate::measure::plan::run::{Arm, Backend, Point, RankPlacement, Run};
use crate::nccl_log::{Limits, Reader};
use crate::source::recording::Recording;
use crate::source::wire::{Header, Line};
use crate::source::{Answer, Reply};

const LIMITS: Limits = Limits {
    lines: 1000,
    bytes: 1 << 20,
    events: 100,
    processes: 100,
    text: 0,
};

/// What a run is: its arm's set, its milliseconds for each rank (`Err` for how it ended), and its log.
struct Made {
    set: Set,
    ms: Result<f64, Ended>,
    log: String,
}

fn point() -> Point {
    Point {
        collective: Collective::AllReduce,
        bytes: 1 << 30,
        dtype: DataType::Float32,
        op: Reduction::Sum,
        in_place: false,
        iterations: 1,
        awaited: false,
        adaptive: false,
        gpu_memory: false,
        warmups: Some(1),
        trials: 3,
    }
}

fn line(question: Question, said: Result<serde_json::Value, Refusal>) -> Line {
    Line::Reply {
        probe: "collective".into(),
        question,
        repeat: 0,
        reply: Reply {
            at: 1,
            said: said.map(|value| Answer::Value(Arc::new(value))),
        },
    }
}

/// A recording of arms that were each run twice, on two ranks.
fn recorded(made: &[Made]) -> Vec<Line> {
    let runs = [0, 1]
        .into_iter()
        .flat_map(|round| (0..made.len()).map(move |arm| Run { arm, round }));
    let plan = Plan {
        backend: Backend::Nccl,
        library: None,
        ranks: vec![RankPlacement::default(), RankPlacement::default()],
        points: vec![point()],
        baseline_points: Vec::new(),
        arms: made
            .iter()
            .map(|made| Arm {
                name: crate::measure::plan::ablation::name_of(&made.set),
                set: made.set.clone(),
            })
            .collect(),
        runs: runs.collect(),
        seed: 1,
    };
    let no = Refusal::not_asked("it was not asked for");
    let mut lines = vec![
        line(Plan::question(), Ok(plan.to_value())),
        line(ablation_table::question(), Err(no)),
    ];
    for run in &plan.runs {
        let made = &made[run.arm];
        for rank in 0..2 {
            let reply = RankReply {
                ended: made.ms.clone().err().unwrap_or(Ended::Well),
                step: "trial 2 of 3".into(),
                points: made
                    .ms
                    .iter()
                    .map(|ms| PointReply {
                        point: point(),
                        ms: vec![*ms, ms * 1.01, ms * 0.99],
                        waited: None,
                        checked: 100,
                        wrong: 0,
                        first_wrong: None,
                    })
                    .collect(),
                library: None,
                version: Some("2.27.5".into()),
                device: None,
                host: Some("n".into()),
                carried: None,
                gpu_memory: None,
                removed: Vec::new(),
            };
            let value = serde_json::to_value(reply).unwrap();
            lines.push(line(plan.question_of(*run, rank), Ok(value)));
        }
        let mut reader = Reader::new(LIMITS);
        reader.feed(made.log.as_bytes());
        let digest = serde_json::to_value(reader.finish(None)).unwrap();
        lines.push(line(plan.log_of(*run), Ok(digest)));
    }
    lines
}

fn facts(lines: Vec<Line>) -> (Facts, Id) {
    let mut recording = Recording::new(Header::default());
    for line in lines {
        recording.add(line);
    }
    let mut facts = Facts::new();
    let node = facts.new_node("n");
    (PROBE.run)(&Ask::new(&recording.of(PROBE.name)), &mut facts, node);
    crate::derive::arms::derive(&mut facts, node);
    (facts, node)
}

/// NCCL's lines of two ranks on as many hosts as there are names.
fn log(hosts: [&str; 2], via: &str, read: &[&str]) -> String {
    let nodes = if hosts[0] == hosts[1] { 1 } else { 2 };
    let mut text = String::new();
    for (rank, host) in hosts.into_iter().enumerate() {
        let before = format!("{host}:{}:{} [{rank}] NCCL INFO", 100 + rank, 200 + rank);
        for name in read {
            text += &format!("{before} {name} set by environment to 1.\n");
        }
        text += &format!(
            "{before} ncclCommInitRank comm 0x5{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId 1000 commId 0x7e1f - Init START\n"
        );
        text += &format!(
            "{before} comm 0x5{rank} rank {rank} nRanks 2 nNodes {nodes} localRanks {} localRank 0 MNNVL 0\n",
            2 / nodes
        );
        let to = 1 - rank;
        let side = if via.starts_with("NET") {
            " [send]"
        } else {
            ""
        };
        text += &format!("{before} Channel 00/0 : {rank}[{rank}] -> {to}[{to}]{side} via {via}\n");
        text += &format!(
            "{before} ncclCommInitRank comm 0x5{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId 1000 commId 0x7e1f - Init COMPLETE\n"
        );
    }
    text
}

fn off(name: &str) -> Set {
    [(format!("NCCL_{name}_DISABLE"), "1".to_owned())].into()
}

fn one(facts: &Facts, subject: Subject, name: &str) -> Id {
    let mut all = facts.all(subject);
    all.find(|id| facts.name(*id) == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn two_nodes_over_rdma_and_without() {
    let ib = "NCCL_IB_DISABLE";
    let (facts, node) = facts(recorded(&[
        Made {
            set: Set::new(),
            ms: Ok(25.0),
            log: log(["a", "b"], "NET/IB/0/GDRDMA", &[]),
        },
        Made {
            set: off("IB"),
            ms: Ok(500.0),
            log: log(["a", "b"], "NET/Socket/0", &[ib]),
        },
    ]));
    assert!(facts.members(Subject::Measurement, node).is_ok());
    let id = one(&facts, Subject::Measurement, "all-reduce 1 GiB");
    assert_eq!(facts.known(id, measurement::SPAN), Some(NodeSpan::Several));
    assert_eq!(facts.known(id, measurement::RANKS_PER_NODE), Some(1));
    assert_eq!(
        facts.known(id, measurement::BETWEEN),
        Some(InterNodeTransport::Rdma)
    );
    assert_eq!(
        facts.known(id, measurement::DIRECT),
        Some(GpuDirectUse::All)
    );
    assert_eq!(facts.known(id, measurement::QUIET), Some(true));
    // 1 GiB in 25 ms on two ranks: busbw is algbw.
    let busbw = facts.known(id, measurement::BUSBW).unwrap();
    assert_eq!(busbw.0 / 1_000_000_000, 343);
    let arm = one(&facts, Subject::Arm, "ib-off");
    assert_eq!(facts.known(arm, arm::HONOURED), Some(ArmApplied::Honoured));
    assert_eq!(facts.known(arm, arm::OUTCOME), Some(Outcome::Slower));
    assert_eq!(
        facts.known(arm, arm::PATHS).as_deref(),
        Some("1 pair NET/Socket")
    );
    let factor = one(&facts, Subject::Factor, "NCCL_IB_DISABLE=1");
    assert_eq!(facts.known(factor, factor::COST).as_deref(), Some("95 %"));
    assert_eq!(facts.known(factor, factor::SLOWER), Some(1));
}

#[test]
fn an_arm_that_had_nothing_to_take_away_tells_the_noise() {
    // Shared memory was not in use: that it is slower without it is the network of others.
    let (facts, _) = facts(recorded(&[
        Made {
            set: Set::new(),
            ms: Ok(25.0),
            log: log(["a", "b"], "NET/IB/0/GDRDMA", &[]),
        },
        Made {
            set: off("SHM"),
            ms: Ok(40.0),
            log: log(["a", "b"], "NET/IB/0/GDRDMA", &["NCCL_SHM_DISABLE"]),
        },
        Made {
            set: off("IB"),
            ms: Ok(60.0),
            log: log(["a", "b"], "NET/Socket/0", &["NCCL_IB_DISABLE"]),
        },
    ]));
    let id = one(&facts, Subject::Measurement, "all-reduce 1 GiB");
    assert_eq!(facts.known(id, measurement::QUIET), Some(false));
    assert!(facts.known(id, measurement::SPREAD).unwrap().0 > 40.0);
    for change in ["NCCL_SHM_DISABLE=1", "NCCL_IB_DISABLE=1"] {
        let factor = one(&facts, Subject::Factor, change);
        assert_eq!(facts.known(factor, factor::UNDECIDED), Some(1), "{change}");
    }
}

#[test]
fn a_run_that_hangs_is_told_by_rank_and_step_and_what_cures_it() {
    let (facts, _) = facts(recorded(&[
        Made {
            set: Set::new(),
            ms: Err(Ended::Hung),
            log: log(["a", "a"], "P2P/CUMEM", &[]),
        },
        Made {
            set: off("P2P"),
            ms: Ok(25.0),
            log: log(["a", "a"], "SHM/direct/direct", &["NCCL_P2P_DISABLE"]),
        },
    ]));
    let id = one(&facts, Subject::Measurement, "all-reduce 1 GiB");
    assert_eq!(facts.known(id, measurement::SPAN), Some(NodeSpan::One));
    assert_eq!(facts.known(id, measurement::BASELINE_FAILED), Some(true));
    assert_eq!(facts.known(id, measurement::BUSBW), None);
    let arm = one(&facts, Subject::Arm, "baseline");
    assert_eq!(facts.known(arm, arm::HUNG), Some(true));
    let step = facts.known(arm, arm::LAST_STEP).unwrap();
    assert!(
        step.contains("rank 0, rank 1: their last step is trial 2 of 3"),
        "{step}"
    );
    let factor = one(&facts, Subject::Factor, "NCCL_P2P_DISABLE=1");
    assert_eq!(facts.known(factor, factor::CURES), Some(true));
    assert_eq!(facts.known(factor, factor::CURED).as_deref(), Some("hung"));
    assert_eq!(facts.known(factor, factor::PAIRS), Some(0));
    assert_eq!(
        facts.known(factor, factor::HONOURED),
        Some(ArmApplied::Honoured)
    );
}

#[test]
fn a_line_that_is_missing_leaves_open_what_rests_on_it() {
    let made = || {
        [
            Made {
                set: Set::new(),
                ms: Ok(25.0),
                log: log(["a", "b"], "NET/IB/0", &[]),
            },
            Made {
                set: off("IB"),
                ms: Ok(25.0),
                log: log(["a", "b"], "NET/Socket/0", &["NCCL_IB_DISABLE"]),
            },
        ]
    };
    let all = recorded(&made());
    for missing in 0..all.len() {
        let mut lines = recorded(&made());
        let lost = lines.remove(missing);
        let (facts, node) = facts(lines);
        let Line::Reply { question, .. } = lost else {
            panic!("a reply")
        };
        if question == Plan::question() || question == ablation_table::question() {
            assert!(facts.members(Subject::Measurement, node).is_err());
            continue;
        }
        let factor = one(&facts, Subject::Factor, "NCCL_IB_DISABLE=1");
        let unchanged = facts.known(factor, factor::UNCHANGED);
        let honoured = facts.known(factor, factor::HONOURED);
        assert!(
            unchanged.is_none() || honoured.is_none(),
            "{question}: {unchanged:?} {honoured:?}"
        );
    }
}

#[test]
fn where_nothing_was_measured_there_is_nothing() {
    let no = || Err(Refusal::not_asked("nobody asked"));
    let (facts, node) = facts(vec![
        line(Plan::question(), no()),
        line(ablation_table::question(), no()),
    ]);
    assert!(facts.members(Subject::Measurement, node).is_ok());
    assert_eq!(facts.all(Subject::Measurement).count(), 0);
    let broken = serde_json::json!({ "table": { "file": "t", "rows": [{ "line": 1 }] } });
    let (facts, node) = self::facts(vec![
        line(Plan::question(), no()),
        line(ablation_table::question(), Ok(broken)),
    ]);
    assert!(facts.members(Subject::Measurement, node).is_err());
}

#[test]
fn a_job_is_judged_by_its_own_figure() {
    use crate::measure::plan::job::{JobEnded, JobPlan, JobReply};
    let plan = JobPlan {
        command: vec!["train.sh".into(), "--steps".into(), "50".into()],
        metric: Some("samples/s: ([0-9.]+)".into()),
        lower_is_better: false,
        arms: vec![
            Arm::baseline(),
            Arm {
                name: "p2p-off".into(),
                set: off("P2P"),
            },
        ],
        runs: vec![Run { arm: 0, round: 0 }, Run { arm: 1, round: 0 }],
    };
    let no = Refusal::not_asked("nobody asked");
    let mut lines = vec![
        line(Plan::question(), Err(no)),
        line(ablation_table::question(), Ok(plan.to_value())),
    ];
    for (run, figure, via) in [
        (plan.runs[0], "1.089", "P2P/IPC"),
        (plan.runs[1], "0.789", "SHM/direct/direct"),
    ] {
        let reply = JobReply {
            ended: JobEnded::Status(0),
            figure: Some(figure.into()),
            seconds: 60.0,
        };
        let value = serde_json::to_value(reply).unwrap();
        lines.push(line(plan.question_of(run), Ok(value)));
        let mut reader = Reader::new(LIMITS);
        reader.feed(log(["a", "a"], via, &["NCCL_P2P_DISABLE"]).as_bytes());
        let digest = serde_json::to_value(reader.finish(None)).unwrap();
        lines.push(line(plan.log_of(run), Ok(digest)));
    }
    let (facts, _) = facts(lines);
    let id = one(&facts, Subject::Measurement, "train.sh --steps 50");
    assert_eq!(
        facts.known(id, measurement::FIGURE).as_deref(),
        Some("1.089")
    );
    assert_eq!(facts.known(id, measurement::SPAN), Some(NodeSpan::One));
    let factor = one(&facts, Subject::Factor, "NCCL_P2P_DISABLE=1");
    assert_eq!(facts.known(factor, factor::COST).as_deref(), Some("28 %"));
    assert!(matches!(
        facts.get(factor, factor::HONOURED),
        Fact::Known(ArmApplied::Honoured, _)
    ));
}

/// A send-recv by RDMA writes between two ranks, of these points (whether on GPUs, milliseconds, wrong values); the second rank ended so.
fn writes(
    points: &[(bool, f64, u64)],
    planned: usize,
    ended: Ended,
    gpu_memory: GpuMemory,
) -> (Facts, Id) {
    let point = |gpu_memory: bool| Point {
        collective: Collective::SendRecv,
        gpu_memory,
        ..point()
    };
    let plan = Plan {
        backend: Backend::Verbs,
        library: None,
        ranks: vec![RankPlacement::default(), RankPlacement::default()],
        points: [false, true].map(point)[2 - planned..].to_vec(),
        baseline_points: Vec::new(),
        arms: vec![Arm::baseline()],
        runs: vec![Run { arm: 0, round: 0 }],
        seed: 1,
    };
    let no = Refusal::not_asked("it was not asked for");
    let mut lines = vec![
        line(Plan::question(), Ok(plan.to_value())),
        line(ablation_table::question(), Err(no)),
    ];
    for (rank, ended) in [Ended::Well, ended].into_iter().enumerate() {
        let measured = points.iter().map(|(on_gpus, ms, wrong)| PointReply {
            point: point(*on_gpus),
            ms: vec![*ms, ms * 1.01, ms * 0.99],
            waited: None,
            checked: 100,
            wrong: *wrong,
            first_wrong: (*wrong > 0).then_some(3),
        });
        let reply = RankReply {
            ended,
            step: "verifying".into(),
            points: measured.collect(),
            library: None,
            version: None,
            device: Some("mlx5_0/1 LID 3 MTU 4096".into()),
            host: Some("n".into()),
            carried: None,
            gpu_memory: Some(gpu_memory.clone()),
            removed: Vec::new(),
        };
        let value = serde_json::to_value(reply).unwrap();
        lines.push(line(plan.question_of(plan.runs[0], rank), Ok(value)));
    }
    let digest = serde_json::to_value(Reader::new(LIMITS).finish(None)).unwrap();
    lines.push(line(plan.log_of(plan.runs[0]), Ok(digest)));
    let (facts, _) = facts(lines);
    let id = one(
        &facts,
        Subject::Measurement,
        "send-recv 1 GiB (verbs, GPU memory)",
    );
    (facts, id)
}

#[test]
fn gpudirect_works_or_says_why_not() {
    let by = |way: Option<GpuMemoryAccess>| GpuMemory {
        way,
        ..GpuMemory::default()
    };
    let failed = |function: &str, code: i64| Ended::Failed {
        function: function.into(),
        code: Some(code),
        error: "it said so".into(),
    };
    let (dma_buf, none) = (by(Some(GpuMemoryAccess::DmaBuf)), by(None));
    let became = |(facts, id): (Facts, Id)| {
        let why = facts.known(id, measurement::GPUDIRECT_WHY);
        let share = facts.known(id, measurement::OF_HOST);
        (
            facts.known(id, measurement::GPUDIRECT),
            why.as_deref().unwrap_or("").to_owned(),
            share.map(|share| share.0.round()),
        )
    };
    let host = (false, 10.0, 0);

    let (facts, id) = writes(
        &[host, (true, 40.0, 0)],
        2,
        Ended::Well,
        by(Some(GpuMemoryAccess::PeerMemory)),
    );
    assert_eq!(facts.known(id, measurement::MEMORY), Some(Memory::Gpu));
    assert!(facts.known(id, measurement::HOST_FIGURE).is_some());
    let works = became((facts, id));
    assert_eq!(
        works,
        (Some(GpuDirect::Works), "peer memory".into(), Some(25.0))
    );
    // Without the host's memory there is nothing to compare with.
    let alone = writes(&[(true, 40.0, 0)], 1, Ended::Well, dma_buf.clone());
    assert_eq!(
        became(alone),
        (Some(GpuDirect::Works), "DMA-BUF".into(), None)
    );

    let refused = writes(&[host], 2, failed("ibv_reg_dmabuf_mr", 95), none);
    let (what, why, _) = became(refused);
    assert_eq!(what, Some(GpuDirect::Refused));
    assert_eq!(why, "rank 1: ibv_reg_dmabuf_mr: it said so");

    // What went well in the host's memory does not fail for the network's sake.
    let lost = failed("ibv_poll_cq", 12);
    let fails = became(writes(&[host], 2, lost.clone(), dma_buf.clone()));
    assert_eq!(fails.0, Some(GpuDirect::Fails));
    assert_eq!(became(writes(&[], 1, lost, dma_buf.clone())).0, None);
    let protection = failed("ibv_poll_cq", 4);
    let fails = became(writes(&[], 1, protection, dma_buf.clone()));
    assert_eq!(fails.0, Some(GpuDirect::Fails));
    // No memory to be had is another matter.
    let full = became(writes(
        &[host],
        2,
        failed("cuMemAlloc_v2", 2),
        dma_buf.clone(),
    ));
    assert_eq!(full.0, None);

    let wrong = became(writes(&[host, (true, 10.0, 7)], 2, Ended::Well, dma_buf));
    assert_eq!(wrong.0, Some(GpuDirect::Wrong));
    assert_eq!(
        wrong.1,
        "rank 0: 7 of 100 values arrived wrong, the first is element 3"
    );
}
