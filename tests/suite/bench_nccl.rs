//! `rdma-doctor bench` with NCCL over stand-ins of libnccl.so.2 and libcuda.so.1: the real binary, its ranks, deadlines and words; no GPU is needed.
//!
//! What the stand-ins answer is made up (`tests/standin/machines`); no number here was measured on hardware.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process::{ranks_of, signal, wait_until};
use crate::stage::Stage;
use rdma_doctor::measure::plan::collective::{Collective, Reduction};
use rdma_doctor::measure::plan::reply::{Ended, RankReply};
use rdma_doctor::measure::plan::run::{Arm, Backend, Plan, Point, RankPlacement, Run};
use rdma_doctor::measure::run::ranks::{self, RankProcess};
use rdma_doctor::nccl_log::Digest;
use rdma_doctor::source::Answer;
use rdma_doctor::source::wire::Line;
use rustix::process::Signal;
use serde_json::Value;

/// A stage with the libraries of NVIDIA's driver; `None` where there can be none.
fn driver(machine: &str) -> Option<Stage> {
    let stage = Stage::new(machine)?.library("standin_cuda", "libcuda.so.1");
    Some(stage.library("standin_nvidia_ml", "libnvidia-ml.so.1"))
}

/// The same with NCCL.
fn node(machine: &str) -> Option<Stage> {
    Some(driver(machine)?.library("standin_nccl", "libnccl.so.2"))
}

/// Measures, and gives the report, the exit status and what else was said.
fn bench(stage: &Stage, args: &[&str]) -> (Value, i32, String) {
    let out = stage.run(&[&["bench"], args, &["--format", "json"]].concat());
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    (value, out.status.code().unwrap(), said)
}

/// The ranks that did not end well, as `(rank, how, step, why)`.
fn troubles(value: &Value) -> Vec<(u64, String, String, String)> {
    let text = |trouble: &Value, name: &str| trouble[name].as_str().unwrap().to_owned();
    let troubles = value["troubles"].as_array().unwrap().iter();
    troubles
        .map(|one| {
            (
                one["rank"].as_u64().unwrap(),
                text(one, "ended"),
                text(one, "step"),
                text(one, "why"),
            )
        })
        .collect()
}

/// Gigabytes in a second.
fn busbw(row: &Value) -> f64 {
    row["busbw"].as_f64().unwrap() / 8e9
}

#[test]
fn the_bus_bandwidth_of_a_node_that_is_well_is_what_its_links_carry() {
    let Some(stage) = node("nccl-nvlink.toml") else {
        return;
    };
    let (value, status, said) = bench(&stage, &["all-reduce", "-b", "256K", "-e", "1M", "-f", "4"]);
    assert_eq!(value["schema"], "rdma-doctor-collective/1.1");
    assert_eq!(value["backend"], "nccl");
    assert_eq!(value["version"], "2.27.5");
    let library = stage.path_of("libnccl.so.2");
    assert_eq!(value["library"], library.to_str().unwrap());
    assert!(said.contains("found by LD_LIBRARY_PATH"), "{said}");
    let ranks = value["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 8);
    assert_eq!(ranks[5]["gpu"], "0000:c3:00.0");
    let rows = value["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        // The device's clock is the model's: a busy machine changes nothing.
        assert!((busbw(row) / 368.0 - 1.0).abs() < 0.01, "{row}");
        assert_eq!(row["wrong"], 0);
        assert_eq!(row["steady"], true);
        let elements = row["size"].as_u64().unwrap() / 4;
        assert_eq!(row["checked"].as_u64(), Some(8 * elements));
    }
    assert_eq!(troubles(&value), []);
    assert_eq!(status, 0, "{value}");
}

#[test]
fn each_collective_of_each_type_gives_each_rank_what_is_right() {
    let Some(stage) = node("nccl-nvlink.toml") else {
        return;
    };
    let points = crate::points::all([4_099 * 4, 8 << 10, 48, 16]);
    let points = points.map(|of| Point {
        collective: of.collective,
        bytes: of.bytes,
        dtype: of.dtype,
        op: of.op,
        in_place: of.in_place,
        iterations: 1,
        awaited: of.op == Reduction::Max,
        adaptive: false,
        gpu_memory: false,
        warmups: Some(0),
        trials: 1,
    });
    let points = points.collect();
    let gpus = ["0000:1b:00.0", "0000:43:00.0", "0000:52:00.0"];
    let plan = Plan {
        backend: Backend::Nccl,
        library: Some(stage.path_of("libnccl.so.2").to_str().unwrap().to_owned()),
        ranks: gpus
            .map(|gpu| RankPlacement {
                gpu: Some(gpu.to_owned()),
                ..RankPlacement::default()
            })
            .to_vec(),
        points,
        baseline_points: Vec::new(),
        arms: vec![Arm::baseline()],
        runs: vec![Run { arm: 0, round: 0 }],
        seed: 7,
    };
    let running = RankProcess {
        started_ns: 0,
        deadline: Duration::from_secs(120),
        base: &[],
        program: Some(stage.program()),
    };
    let lines = ranks::run(&running, &plan, plan.runs[0], |_, _| {});
    let value = |line: &Line| match line {
        Line::Reply { reply, .. } => match &reply.said {
            Ok(Answer::Value(value)) => (**value).clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let (log, replies) = lines.split_last().unwrap();
    for (rank, reply) in replies.iter().enumerate() {
        let reply: RankReply = serde_json::from_value(value(reply)).unwrap();
        assert_eq!(reply.ended, Ended::Well, "{}", reply.step);
        assert_eq!(reply.version.as_deref(), Some("2.27.5"));
        assert_eq!(reply.points.len(), plan.points.len());
        for one in reply.points {
            assert_eq!(one.wrong, 0, "rank {rank}: {one:?}");
            assert_eq!(one.ms.len(), 1, "rank {rank}: {one:?}");
            let nothing = matches!(
                one.point.collective,
                Collective::Reduce | Collective::Gather
            ) && rank != 0;
            assert_eq!(one.checked == 0, nothing, "rank {rank}: {one:?}");
        }
    }
    // NCCL's log came with them: each hop of the ring, of two channels, by the one that sends.
    let log: Digest = serde_json::from_value(value(log)).unwrap();
    assert_eq!(log.processes.len(), 3);
    let hop = "0[0] -> 1[1] via P2P/CUMEM";
    let kept = |what: &str| log.kept.iter().any(|kept| kept.text.contains(what));
    assert!(kept(hop), "{:?}", log.kept);
    assert!(kept("NCCL version 2.27.5+cuda12.9"));
}

#[test]
fn wrong_values_are_named_with_rank_and_place() {
    let Some(stage) = node("nccl-wrong.toml") else {
        return;
    };
    let small = ["all-reduce", "-b", "16K", "--trials", "2", "--ranks", "4"];
    let (value, status, _) = bench(&stage, &small);
    let row = &value["rows"][0];
    assert_eq!(row["wrong"], 3);
    assert_eq!(row["first_wrong"], serde_json::json!([2, 1000]));
    assert_eq!(status, 2);
    let out = stage.run(&[&["bench"], &small[..]].concat());
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        text.contains("the first wrong value is element 1000 on rank 2"),
        "{text}"
    );
}

#[test]
fn ranks_that_hang_are_named_with_the_step_that_they_reached() {
    let args = |size| {
        [
            "all-reduce",
            "-b",
            size,
            "--trials",
            "2",
            "--ranks",
            "4",
            "--deadline",
            "15",
        ]
    };
    // A collective is of all: who waits inside of it cannot say for whom.
    let Some(stage) = node("nccl-hangs.toml") else {
        return;
    };
    let (value, status, _) = bench(&stage, &args("64K"));
    let found = troubles(&value);
    assert_eq!(found.len(), 4);
    for (_, ended, step, _) in found {
        assert_eq!(ended, "hung");
        assert_eq!(step, "all-reduce of 64 KiB: warm-up 1");
    }
    assert_eq!(status, 2);
    let (value, _, _) = bench(&node("nccl-hangs-in-init.toml").unwrap(), &args("64K"));
    assert_eq!(troubles(&value).len(), 4);
    for (_, ended, step, _) in troubles(&value) {
        assert_eq!((&*ended, &*step), ("hung", "ncclCommInitRank"));
    }
    // Where one does not come to it, the others say for whom they waited.
    let (value, _, _) = bench(&node("nccl-gpu-hangs.toml").unwrap(), &args("64K"));
    let found = troubles(&value);
    assert_eq!(found.len(), 4);
    assert_eq!((found[0].0, &*found[0].1), (3, "hung"));
    assert_eq!(found[0].2, "all-reduce of 64 KiB: first try");
    for (_, ended, _, why) in &found[1..] {
        assert_eq!(
            (ended.as_str(), why.as_str()),
            ("stopped", "waited for rank 3, which hung")
        );
    }
}

#[test]
fn what_nccl_says_of_a_failure_is_said() {
    let Some(stage) = node("nccl-small-shm.toml") else {
        return;
    };
    let small = ["all-reduce", "-b", "64K", "--trials", "2", "--ranks", "4"];
    let (value, status, _) = bench(&stage, &small);
    // What failed is known though no rank joined the others.
    assert_eq!(value["version"], "2.27.5");
    for (_, ended, step, why) in troubles(&value) {
        assert_eq!((&*ended, &*step), ("failed", "ncclCommInitRank"));
        assert!(why.starts_with("ncclCommInitRank: unhandled system error: "));
        assert!(why.contains("No space left on device (28)"), "{why}");
    }
    assert_eq!(status, 2);
    // A communicator that breaks while its operation runs: the operation never ends, and is not waited for.
    let (value, status, _) = bench(&node("nccl-breaks.toml").unwrap(), &small);
    let found = troubles(&value);
    assert_eq!((found[0].0, &*found[0].1), (3, "failed"));
    for words in [
        "ncclAllReduce: remote process exited or there was a network error",
        "status=12 opcode=0 len=0 vendor err 129",
        "(6)",
    ] {
        assert!(found[0].3.contains(words), "{}", found[0].3);
    }
    assert!(found[1..].iter().all(|one| one.1 == "stopped"), "{found:?}");
    assert_eq!(status, 2);
}

#[test]
fn a_library_that_lacks_a_function_costs_what_needs_it() {
    let Some(stage) = driver("nccl-old.toml") else {
        return;
    };
    let lacks = ["ncclSend", "ncclRecv", "ncclGetLastError"];
    let stage = stage.older_library("standin_nccl", "libnccl.so.2", &lacks);
    let args = |collective| [collective, "-b", "16K", "--trials", "2", "--ranks", "2"];
    let (value, status, _) = bench(&stage, &args("all-reduce"));
    assert_eq!(value["version"], "2.4.8");
    assert_eq!((&value["rows"][0]["wrong"], status), (&Value::from(0), 0));
    let (value, status, _) = bench(&stage, &args("send-recv"));
    let found = troubles(&value);
    assert_eq!(
        found[0].3,
        "ncclSend: the library has no such function (NCCL 2.4.8)"
    );
    assert_eq!(status, 2);
}

#[test]
fn a_library_that_is_not_there_or_is_none_is_said() {
    let Some(stage) = driver("nccl-nvlink.toml") else {
        return;
    };
    let small = ["all-reduce", "-b", "64K", "--ranks", "2"];
    let nccl = [&small[..], &["--backend", "nccl"]].concat();
    let (value, status, _) = bench(&stage, &nccl);
    let nothing = value["nothing"].as_str().unwrap();
    assert!(nothing.contains("no libnccl.so.2 is found"), "{nothing}");
    assert_eq!(status, 3);
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let (value, status, _) = bench(&stage, &[&nccl[..], &["--nccl", text]].concat());
    for (_, ended, step, why) in troubles(&value) {
        assert_eq!((&*ended, &*step), ("failed", "loading NCCL"));
        assert!(why.starts_with("dlopen: "), "{why}");
        assert!(why.contains("Cargo.toml"), "{why}");
    }
    assert_eq!(status, 2);
}

#[test]
fn a_rank_that_is_killed_is_named() {
    let Some(stage) = node("nccl-nvlink.toml") else {
        return;
    };
    let mut doctor = Command::new(stage.program())
        .args(["bench", "all-reduce", "-b", "4M", "--trials", "1000"])
        .args(["--ranks", "4", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ranks = Vec::new();
    wait_until("four ranks", || {
        ranks = ranks_of(doctor.id());
        ranks.len() == 4
    });
    // Ranks are started in their order, and so are their processes' numbers.
    signal(ranks[2], Signal::KILL);
    let mut text = String::new();
    doctor
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(doctor.wait().unwrap().code(), Some(2));
    let value: Value = serde_json::from_str(&text).unwrap();
    let found = troubles(&value);
    assert_eq!((found[0].0, &*found[0].1), (2, "died"), "{found:?}");
    assert_eq!(found[0].3, "killed by signal 9");
    assert_eq!(found.len(), 4);
    assert!(
        found[1..].iter().all(|one| one.3.contains("rank 2")),
        "{found:?}"
    );
}
