//! `rdma-doctor triage` over stand-ins of NVIDIA's libraries: the whole way from a node to one cause, and the same cause from the recording of it.
//!
//! What the stand-ins answer is made up (`tests/standin/machines`); no number here was measured on hardware.

use std::path::PathBuf;
use std::process::Command;

use crate::stage::Stage;
use serde_json::Value;

/// What the kernel of the machine that runs the tests has logged is left out.
const OWN_LOG: [&str; 2] = ["--skip", "kernel/*"];

/// A stage with the driver's libraries and NCCL; `None` where there can be none.
fn node(machine: &str) -> Option<Stage> {
    let stage = Stage::new(machine)?.library("standin_cuda", "libcuda.so.1");
    let stage = stage.library("standin_nvidia_ml", "libnvidia-ml.so.1");
    Some(stage.library("standin_nccl", "libnccl.so.2"))
}

fn read(out: &std::process::Output) -> Value {
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)))
}

/// The checks of the root causes.
fn causes(value: &Value) -> Vec<&str> {
    let causes = value["causes"].as_array().unwrap().iter();
    causes
        .map(|cause| cause["check"].as_str().unwrap())
        .collect()
}

/// The report of a triage of this machine, and that of its recording, which are to agree.
fn triage(machine: &str) -> Option<Value> {
    triage_with(machine, &["--quick"])
}

fn triage_with(machine: &str, more: &[&str]) -> Option<Value> {
    let stage = node(machine)?;
    // Tests of one machine run beside each other, each in a process of its own.
    let to = format!("triage-{}.jsonl", std::process::id());
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(to);
    let to = to.to_string_lossy().into_owned();
    let args = [
        "triage", "--size", "64K", "--ranks", "4", "--format", "json", "--record", &to,
    ];
    let out = stage.run(&[&args[..], &OWN_LOG, more].concat());
    let live = read(&out);
    // Without the stage: a machine that has none of these libraries.
    let replay = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
        .args(["triage", &to, "--format", "json"])
        .args(OWN_LOG)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), replay.status.code(), "{machine}");
    let replayed = read(&replay);
    assert_eq!(causes(&live), causes(&replayed), "{machine}");
    assert_eq!(live["headline"], replayed["headline"], "{machine}");
    assert_eq!(live["status"], replayed["status"], "{machine}");
    assert_eq!(
        live["measured"]["measurements"][0]["arms"]
            .as_array()
            .map(Vec::len),
        replayed["measured"]["measurements"][0]["arms"]
            .as_array()
            .map(Vec::len),
        "{machine}"
    );
    // check reads the same recording to the same causes.
    let check = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
        .args(["check", &to, "--format", "json"])
        .args(OWN_LOG)
        .output()
        .unwrap();
    assert_eq!(causes(&read(&check)), causes(&live), "{machine}");
    std::fs::remove_file(&to).unwrap();
    Some(live)
}

#[test]
fn a_node_that_never_used_rdma_is_told_so_and_its_recording_says_the_same() {
    let Some(value) = triage("nccl-socket.toml") else {
        return;
    };
    let causes = causes(&value);
    assert!(
        causes.iter().any(|check| {
            matches!(
                *check,
                "ablation/rdma-never-in-use" | "bench/network-over-tcp"
            )
        }),
        "{causes:?}"
    );
    let arms = value["measured"]["measurements"][0]["arms"]
        .as_array()
        .unwrap();
    let names: Vec<&str> = arms
        .iter()
        .map(|arm| arm["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["baseline", "ib-off", "shm-off", "p2p-off"]);
    assert!(value["not_measured"].is_null());
}

/// The one cause of a world is what leads, and nothing else is found beside it.
fn one_cause(machine: &str, more: &[&str], cause: &str) -> Option<Value> {
    let value = triage_with(machine, more)?;
    assert_eq!(causes(&value), [cause], "{machine}: {:#}", value["causes"]);
    let headline = value["headline"].as_str().unwrap();
    let sentence = value["causes"][0]["sentence"].as_str().unwrap();
    assert!(headline.starts_with(sentence), "{headline}");
    Some(value)
}

#[test]
fn each_world_has_its_headline_and_no_other() {
    let once = ["--quick", "--time-budget", "1"];
    if one_cause("nccl-socket.toml", &once, "ablation/rdma-never-in-use").is_none() {
        return;
    }
    one_cause("nccl-small-shm-pcie.toml", &once, "ablation/change-cures");
    one_cause("nccl-ib-broken.toml", &once, "ablation/ib-off-faster");
    let noisy = one_cause("nccl-noisy.toml", &once, "ablation/unsteady").unwrap();
    // Nothing is drawn from arms that cannot be told from noise.
    let notes = noisy["notes"].as_array().unwrap().iter();
    let drawn = notes.filter(|note| note["check"].as_str().unwrap().starts_with("ablation/"));
    assert_eq!(drawn.count(), 0, "{noisy}");
    let hung = ["--quick", "--time-budget", "1", "--deadline", "10"];
    let hung = one_cause("nccl-hangs-in-init.toml", &hung, "bench/rank-hung").unwrap();
    let headline = hung["headline"].as_str().unwrap();
    for words in [
        "rank 0 (",
        "rank 3 (",
        "their last step is ncclCommInitRank",
    ] {
        assert!(headline.contains(words), "{headline}");
    }
}

/// The names of the arms that were measured.
fn arms(value: &Value) -> Vec<&str> {
    let arms = value["measured"]["measurements"][0]["arms"].as_array();
    let names = arms
        .unwrap()
        .iter()
        .map(|arm| arm["name"].as_str().unwrap());
    names.collect()
}

#[test]
fn gpudirect_that_acs_redirects_is_found_with_what_uses_it() {
    let once = ["--time-budget", "1"];
    let cause = "ablation/gdr-off-faster";
    let Some(value) = one_cause("nccl-gdr-acs.toml", &once, cause) else {
        return;
    };
    assert_eq!(arms(&value).last(), Some(&"gdr-off"));
    assert_eq!(arms(&value).len(), 9);
    let quick = ["--quick", "--time-budget", "1"];
    let value = one_cause("nccl-gdr-acs.toml", &quick, cause).unwrap();
    assert_eq!(
        arms(&value),
        ["baseline", "ib-off", "shm-off", "p2p-off", "gdr-off"]
    );
}

#[test]
fn gpudirect_that_acs_redirects_is_found_with_full() {
    let full = ["--full", "--time-budget", "1"];
    one_cause("nccl-gdr-acs.toml", &full, "ablation/gdr-off-faster");
}

#[test]
fn what_cures_wrong_results_leads_them() {
    let Some(value) = triage("nccl-wrong.toml") else {
        return;
    };
    // Copies between two GPUs are wrong: that they are right without P2P says where.
    assert_eq!(causes(&value), ["ablation/change-cures"], "{value}");
    let folded = value["causes"][0]["consequences"].as_array().unwrap();
    assert!(!folded.is_empty());
    assert!(
        folded
            .iter()
            .all(|one| one["check"] == "bench/results-wrong")
    );
    assert_eq!(value["status"], "errors");
}

#[test]
fn a_node_without_gpus_and_without_rdma_says_that_nothing_was_measured() {
    let out = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
        .args(["triage", "--quick", "--size", "1M", "--format", "json"])
        .output()
        .unwrap();
    if !out.status.success() && out.stdout.is_empty() {
        panic!("{}", String::from_utf8_lossy(&out.stderr));
    }
    let value = read(&out);
    let (measured, why) = (&value["measured"], &value["not_measured"]);
    // A machine that runs the tests may have an RDMA device.
    assert!(measured.is_null() != why.is_null(), "{value}");
    if let Some(why) = why.as_str() {
        assert_eq!(out.status.code(), Some(3), "{value}");
        assert_ne!(value["status"], "ok", "{value}");
        assert!(
            why.contains("no RDMA port is active") || why.contains("memory"),
            "{why}"
        );
    }
}
