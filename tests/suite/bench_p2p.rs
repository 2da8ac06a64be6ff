//! `rdma-doctor bench p2p` over a stand-in of libcuda.so.1: the real binary, its children, deadlines, recording and replay; no GPU is needed.
//!
//! What the stand-in answers is made up (`tests/standin/machines`); no number here was measured on hardware.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::process::{PATIENT, Process};
use crate::stage::Stage;
use serde_json::Value;

/// The GPUs of the stand-in machine hgx-h100, by their PCI addresses.
pub(crate) const GPU: [&str; 8] = [
    "0000:1b:00.0",
    "0000:43:00.0",
    "0000:52:00.0",
    "0000:61:00.0",
    "0000:9d:00.0",
    "0000:c3:00.0",
    "0000:d1:00.0",
    "0000:df:00.0",
];

/// Measures a machine, in how long; `None` where there can be no stage.
fn bench(machine: &str, args: &[&str]) -> Option<(Output, Duration)> {
    let stage = Stage::new(machine)?.library("standin_cuda", "libcuda.so.1");
    let mut all = vec!["bench", "p2p", "--size", "1M", "--trials", "3"];
    all.extend(args);
    let begun = Instant::now();
    let out = stage.run(&all);
    Some((out, begun.elapsed()))
}

fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)))
}

fn copy<'v>(value: &'v Value, from: &str, to: &str, both: bool) -> &'v Value {
    let copies = value["copies"].as_array().unwrap();
    let same = |c: &&Value| c["from"] == from && c["to"] == to && c["both"] == both;
    copies.iter().find(same).unwrap()
}

/// Gigabytes in a second.
fn rate(copy: &Value) -> f64 {
    copy["bandwidth"].as_f64().unwrap() / 8e9
}

fn checks(value: &Value) -> Vec<&str> {
    let findings = value["findings"].as_array().unwrap();
    let mut ids: Vec<&str> = findings
        .iter()
        .map(|f| f["check"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[test]
fn eight_gpus_that_are_well() {
    let Some((out, _)) = bench("cuda-h100.toml", &["--format", "json"]) else {
        return;
    };
    let value = json(&out);
    assert_eq!(value["schema"], "rdma-doctor-p2p/1.0");
    assert_eq!(value["gpus"].as_array().unwrap().len(), 8);
    // Two directions and both at once, of each GPU with the host and of each two GPUs.
    assert_eq!(value["copies"].as_array().unwrap().len(), 3 * (8 + 28));
    for one in value["copies"].as_array().unwrap() {
        assert_eq!(one["outcome"], "verified", "{one}");
        assert_eq!(one["steady"], true);
        assert_eq!(
            one["direct"].as_bool(),
            (one["from"] != "host" && one["to"] != "host").then_some(true)
        );
    }
    let forth = copy(&value, GPU[2], GPU[5], false);
    assert!((rate(forth) - 371.0).abs() < 0.5, "{forth}");
    assert!((forth["latency"].as_f64().unwrap() - 2.2e-6).abs() < 1e-8);
    let both = copy(&value, GPU[2], GPU[5], true);
    assert!((rate(both) - 742.0).abs() < 1.0, "{both}");
    assert!((rate(copy(&value, "host", GPU[0], false)) - 55.2).abs() < 0.1);
    assert!((rate(copy(&value, GPU[0], "host", false)) - 55.4).abs() < 0.1);
    assert_eq!(checks(&value), Vec::<&str>::new());
    assert_eq!(out.status.code(), Some(0), "{value}");
}

#[test]
fn corrupt_slow_staged_and_unsteady_pairs_are_told_apart_and_replay() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench-p2p.jsonl.zst");
    let path = path.to_str().unwrap();
    let Some((out, _)) = bench("cuda-broken-pair.toml", &["--format", "json", "-o", path]) else {
        return;
    };
    let value = json(&out);
    let corrupt = copy(&value, GPU[7], GPU[0], false);
    assert_eq!(corrupt["outcome"], "corrupt");
    let why = corrupt["why"].as_str().unwrap();
    assert_eq!(
        why,
        "3 of 1048576 bytes are wrong, from byte 1024 on, in trial 0"
    );
    assert!(
        corrupt["bandwidth"].is_null(),
        "no number where bytes are wrong"
    );
    assert_eq!(copy(&value, GPU[0], GPU[7], false)["outcome"], "verified");
    assert_eq!(copy(&value, GPU[0], GPU[7], true)["outcome"], "corrupt");
    let staged = copy(&value, GPU[1], GPU[4], false);
    assert_eq!(staged["direct"], false);
    assert!((rate(staged) - 18.0).abs() < 0.1);
    assert_eq!(copy(&value, GPU[2], GPU[5], false)["direct"], true);
    assert_eq!(copy(&value, GPU[5], GPU[2], false)["direct"], false);
    assert!((rate(copy(&value, GPU[3], GPU[6], false)) - 24.0).abs() < 0.1);
    assert_eq!(copy(&value, GPU[0], GPU[2], false)["steady"], false);
    assert!((rate(copy(&value, "host", GPU[6], false)) - 12.0).abs() < 0.1);
    let found = checks(&value);
    for id in ["p2p/copy-corrupts-data", "p2p/access-missing"] {
        assert!(found.contains(&id), "{id}: {found:?}");
    }
    assert_eq!(out.status.code(), Some(2));

    // The recording gives the same matrix, and the same verdict to whoever has neither GPU nor library.
    let doctor = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
            .args(args)
            .output()
            .unwrap()
    };
    let again = json(&doctor(&["bench", "p2p", "--format", "json", path]));
    assert_eq!(again["copies"], value["copies"]);
    assert_eq!(checks(&again), found);
    let judged = doctor(&["check", "--only", "p2p/*", path]);
    assert_eq!(judged.status.code(), Some(2));
    let said = String::from_utf8(judged.stdout).unwrap();
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(
        (words.join(" ")).contains("GPU 0000:df:00.0 to GPU 0000:1b:00.0 corrupt"),
        "{said}"
    );
    let page = String::from_utf8(doctor(&["bench", "p2p", path]).stdout).unwrap();
    assert!(
        page.lines()
            .any(|line| line.contains("GPU7") && line.contains("CORRUPT")),
        "{page}"
    );
    assert!(page.contains("18.0s") && page.contains('~'), "{page}");
    assert_eq!(
        doctor(&["bench", "p2p", path, "--size", "1M"])
            .status
            .code(),
        Some(64)
    );
}

#[test]
fn a_copy_that_hangs_dies_or_fails_costs_its_own_cell() {
    let Some((out, took)) = bench(
        "cuda-hangs.toml",
        &["--format", "json", "--deadline", "2", "--gpus", "0,1,2,3"],
    ) else {
        return;
    };
    let value = json(&out);
    assert_eq!(copy(&value, GPU[1], GPU[3], false)["outcome"], "hung");
    assert_eq!(copy(&value, GPU[3], GPU[1], false)["outcome"], "verified");
    // Not tried in both directions at once: it would hang again.
    let both = copy(&value, GPU[1], GPU[3], true);
    assert_eq!(both["outcome"], "not measured");
    assert!(both["why"].as_str().unwrap().contains("hung"), "{both}");
    let died = copy(&value, GPU[2], GPU[0], false);
    assert_eq!(died["outcome"], "died");
    assert!(died["why"].as_str().unwrap().contains("signal 6"));
    let failed = copy(&value, GPU[3], GPU[0], false);
    assert_eq!(failed["outcome"], "failed");
    assert_eq!(
        failed["why"],
        "cuMemcpyPeerAsync: CUDA_ERROR_ILLEGAL_ADDRESS (700)"
    );
    let verified = value["copies"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["outcome"] == "verified");
    assert_eq!(verified.count(), 3 * (4 + 6) - 6);
    // Two seconds of waiting, and what a busy machine takes for the rest.
    assert!(took < PATIENT, "{took:?}");
    let found = checks(&value);
    assert!(found.contains(&"p2p/copy-fails"), "{found:?}");
    assert!(found.contains(&"p2p/copy-fails"), "{found:?}");
    assert_eq!(out.status.code(), Some(2));
    let of_stage = |one: &Process| {
        let environment = std::fs::read(format!("/proc/{}/environ", one.pid)).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains("cuda-hangs.toml")
    };
    let left = Process::all().any(|one| one.has("__measure") && of_stage(&one));
    assert!(!left, "a child is left");
}

#[test]
fn a_gpu_that_gives_no_context_is_left_out_of_the_rest() {
    let Some((out, took)) = bench(
        "cuda-context-hangs.toml",
        &["--format", "json", "--deadline", "2", "--gpus", "0,1,2,3"],
    ) else {
        return;
    };
    let value = json(&out);
    assert_eq!(copy(&value, "host", GPU[2], false)["outcome"], "hung");
    assert_eq!(
        copy(&value, GPU[1], GPU[2], false)["outcome"],
        "not measured"
    );
    assert_eq!(copy(&value, GPU[1], GPU[3], false)["outcome"], "verified");
    assert!(took < PATIENT, "{took:?}");
    assert_eq!(checks(&value), ["p2p/host-copy-fails"]);

    let Some((out, _)) = bench(
        "cuda-exclusive.toml",
        &["--format", "json", "--gpus", "0000:1b:00.0,43:00.0"],
    ) else {
        return;
    };
    let value = json(&out);
    let denied = copy(&value, "host", GPU[1], false);
    assert_eq!(denied["outcome"], "denied");
    assert!(
        denied["why"]
            .as_str()
            .unwrap()
            .contains("CUDA_ERROR_DEVICE_UNAVAILABLE (46)")
    );
    assert_eq!(copy(&value, "host", GPU[0], false)["outcome"], "verified");
    assert_eq!(checks(&value), ["p2p/host-copy-fails"]);
}

#[test]
fn nothing_to_measure_is_said_and_is_no_success() {
    let Some((out, _)) = bench("cuda-error-802.toml", &[]) else {
        return;
    };
    assert_eq!(out.status.code(), Some(3));
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(
        said.contains(
            "no copy was measured: CUDA does not start: CUDA_ERROR_SYSTEM_NOT_READY (802)"
        ),
        "{said}"
    );
    let Some((out, _)) = bench("cuda-h100.toml", &["--gpus", "9"]) else {
        return;
    };
    assert_eq!(out.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&out.stderr).contains("CUDA shows no such GPU"));

    // This machine, whatever it has: where it has no driver, the answer is that.
    if !std::path::Path::new("/proc/driver/nvidia/version").exists() {
        let out = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
            .args(["bench", "p2p"])
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(3));
        assert!(String::from_utf8_lossy(&out.stdout).contains("NVIDIA's driver is not loaded"));
    }
}
