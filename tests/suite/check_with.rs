//! `rdma-doctor check --with`: a result that people have is judged by what the machines beside it carry.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::place;

/// A table of nccl-tests on two hosts with eight GPUs each.
fn table(rows: &[(u64, f64, f64)]) -> String {
    let mut text = "# Using devices\n".to_owned();
    for rank in 0..16 {
        let (host, device) = (1 + rank / 8, rank % 8);
        text += &format!(
            "#  Rank {rank:2} Group  0 Pid {:6} on n{host} device {device:2} [0000:{:02x}:00] NVIDIA H100 80GB HBM3\n",
            4000 + rank,
            0x19 + device
        );
    }
    text += "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";
    for (size, micros, busbw) in rows {
        let half = format!("{micros:9.1} {:7.2} {busbw:7.2}      0", busbw / 1.875);
        let count = size / 4;
        text += &format!("{size:12} {count:13}     float     sum      -1 {half} {half}\n");
    }
    text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n#\n"
}

fn fixture(name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    dir.join(name).to_string_lossy().into_owned()
}

/// The exit status, and of which checks there are findings about benchmarks.
fn judged(args: &[&str]) -> (i32, Vec<String>) {
    let mut command = Command::new(place::doctor());
    let output = command.args(args).args(["--format", "json"]).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{args:?}: {error}: {said}"));
    let findings = ["causes", "notes"].map(|key| report[key].as_array().unwrap().clone());
    let checks = findings.iter().flatten().map(|one| one["check"].as_str());
    let of_tests = checks.flatten().filter(|id| id.starts_with("log/test-"));
    let ids = of_tests.map(str::to_owned).collect();
    (output.status.code().unwrap(), ids)
}

fn kept(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("check-with-{name}.log"));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_result_is_judged_by_what_the_node_carries() {
    let node = fixture("modelled-gpu-nvml.jsonl");
    let ports_only = fixture("modelled-ib.jsonl");
    let (far, below) = ("log/test-below-adapters", "log/test-below-adapters");
    for (name, rows, exit, checks) in [
        ("sockets", vec![(8 << 30, 5.6e6, 2.87)], 2, vec![far]),
        ("one-port", vec![(8 << 30, 327e3, 49.2)], 1, vec![below]),
        ("healthy", vec![(8 << 30, 85920.0, 187.5)], 0, vec![]),
        // A tree over two hosts passes what the adapters carry.
        ("tree", vec![(8 << 30, 52e3, 310.0)], 0, vec![]),
        (
            "small",
            vec![(8, 38.0, 0.0), (1 << 20, 1204.7, 1.63)],
            0,
            vec![],
        ),
        (
            "late",
            vec![(8, 2380.0, 0.0)],
            1,
            vec!["log/test-latency-high"],
        ),
    ] {
        let path = kept(name, &table(&rows));
        let result = path.to_str().unwrap();
        for node in [&node, &ports_only] {
            let found = judged(&["check", node, "--with", result]);
            let checks: Vec<String> = checks.iter().map(|id| (*id).to_owned()).collect();
            assert_eq!(found, (exit, checks.clone()), "{name}, check {node}");
            let found = judged(&["log", result, "--with", node]);
            assert_eq!(found, (exit, checks), "{name}, log --with {node}");
        }
    }
}

#[test]
fn several_machines_are_compared_with_the_slowest_of_them() {
    let path = kept("several", &table(&[(8 << 30, 327e3, 49.2)]));
    let nodes = ["modelled-gpu-nvml.jsonl", "modelled-ib.jsonl"].map(fixture);
    let args = [
        "check",
        &nodes[0],
        &nodes[1],
        "--with",
        path.to_str().unwrap(),
    ];
    assert_eq!(judged(&args).1, ["log/test-below-adapters"]);
}

#[test]
fn gpus_of_the_node_tell_how_many_hosts_held_the_ranks() {
    let text = "The average bandwidth of all_reduce over 16 ranks (5 warmups / 20 trials):\n\n\
        | payload |    busbw   |    algbw   |\n| ------: | ---------: | ---------: |\n|    16GB |   2.87GBps |   1.53GBps |\n";
    let path = kept("all-reduce-bench", text);
    let node = fixture("modelled-gpu-nvml.jsonl");
    let found = judged(&["check", &node, "--with", path.to_str().unwrap()]);
    assert_eq!(found, (2, vec!["log/test-below-adapters".to_owned()]));
}

#[test]
fn a_result_in_which_nothing_is_recognised_is_invalid_input() {
    let node = fixture("modelled-gpu-nvml.jsonl");
    let result = kept("recognised", &table(&[(8_589_934_592, 40_000.0, 380.0)]));
    let result = result.to_string_lossy().into_owned();
    let program = std::fs::read(place::doctor()).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("check-with-nothing");
    // An earlier run left a log there.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("notes.txt"), "the run was slow\n").unwrap();
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("blank", b"\n\n"),
        ("prose", b"it was slow today, and nobody knows why\n"),
        ("binary", &program[..100_000]),
        ("missing", b""),
        ("folder", b""),
    ] {
        let path = match name {
            "folder" => folder.clone(),
            name => Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("check-with-{name}")),
        };
        if !matches!(name, "missing" | "folder") {
            std::fs::write(&path, bytes).unwrap();
        }
        let path = path.to_string_lossy().into_owned();
        for with in [
            vec!["--with", &path],
            vec!["--with", &result, "--with", &path],
        ] {
            // A log beside a log is no node.
            let commands = ["check", "log"];
            for command in &commands[..if with.len() > 2 { 1 } else { 2 }] {
                let mut doctor = Command::new(place::doctor());
                let first = if *command == "log" { &result } else { &node };
                let ran = doctor
                    .args([*command, first.as_str()])
                    .args(&with)
                    .output()
                    .unwrap();
                let said = String::from_utf8_lossy(&ran.stderr);
                assert_eq!(ran.status.code(), Some(65), "{command} {with:?}: {said}");
                assert!(said.contains(&path), "{command} {with:?}: {said}");
            }
        }
    }
    // The log's own recording is one, and a folder with one result among other texts.
    std::fs::write(
        folder.join("run.log"),
        table(&[(8_589_934_592, 40_000.0, 380.0)]),
    )
    .unwrap();
    let recorded = format!("{}/check-with-recorded.jsonl", env!("CARGO_TARGET_TMPDIR"));
    let mut doctor = Command::new(place::doctor());
    let ran = doctor
        .args(["log", &result, "--record", &recorded])
        .output();
    assert!(ran.unwrap().status.code().is_some_and(|code| code < 4));
    for good in [&recorded, &folder.to_string_lossy().into_owned()] {
        assert!(judged(&["check", &node, "--with", good]).0 < 4, "{good}");
    }
}
