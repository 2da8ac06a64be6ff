//! `rdma-doctor advise` as its user meets it: answers, their JSON, and what is refused.
//!
//! `INSTA_UPDATE=always` (make bless) writes the answers.

use std::path::PathBuf;
use std::process::{Command, Output};

fn advise(args: &str) -> Output {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
        .arg("advise")
        .args(args.split(' ').map(|word| word.replace('_', " ")))
        .current_dir(fixtures)
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

#[test]
fn answers() {
    for (name, args) in [
        (
            "measured on two nodes",
            "--params 7B --parallel zero3 --nodes 8 --gpus-per-node 8 --busbw 180_GB/s --measured-nodes 2 --size 4GB --latency 40us --bucket 400MB --step-time 2 --compute-time 1.7 --single-node-step-time 1.75",
        ),
        (
            "ceiling",
            "modelled-gpu-nvml.jsonl --params 70e9 --parallel ddp --nodes 4",
        ),
        (
            "a step without its computation",
            "--params 1.5B --dtype fp16 --parallel ddp --gpus 16 --gpus-per-node 8 --busbw 10_GB/s --bucket 25MB --step-time 900ms --single-node-step-time 500ms",
        ),
        (
            "tensor parallelism",
            "modelled-gpu-nvml.jsonl --params 7B --parallel fsdp --tensor-parallel 2",
        ),
        (
            "stages on a slow network",
            "--params 176B --parallel zero1 --nodes 48 --gpus-per-node 8 --tensor-parallel 4 --pipeline-parallel 12 --micro-batches 64 --activations 117.440512MB --busbw 12.5_GB/s --step-time 30 --compute-time 20",
        ),
    ] {
        let output = advise(args);
        assert!(output.status.success(), "{output:?}");
        let page = String::from_utf8(output.stdout).unwrap();
        for line in page.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        insta::assert_snapshot!(name.replace(' ', "_"), page);
    }
}

#[test]
fn json_has_numbers_in_their_base_units() {
    let output = advise(
        "modelled-gpu-nvml.jsonl --params 7B --parallel zero3 --gpus 64 --gpus-per-node 8 --format json",
    );
    assert!(output.status.success(), "{output:?}");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["schema"], "rdma-doctor-advice/1.1");
    assert_eq!(value["training"]["nodes"], 8);
    assert_eq!(value["bandwidth"]["busbw"], 1_589_908_000_000_u64);
    assert_eq!(value["bandwidth"]["measured"], false);
    // 14 GB * 3 * 63/64.
    assert_eq!(value["communication"]["sent_by_each"], 41_343_750_000.0);
    let seconds = value["communication"]["seconds"].as_f64().unwrap();
    assert!((seconds - 41.34375 / 198.7385).abs() < 1e-9, "{seconds}");
    assert_eq!(value["class"]["class"], "ideal");
    assert!(value["step"].is_null() && value["slowdown"].is_null());
    assert!(value["assumptions"].as_array().unwrap().len() >= 3);
}

#[test]
fn nonsense_is_a_wrong_command_line() {
    let shape = "--nodes 8 --gpus-per-node 8";
    let model = "--params 7B --parallel ddp";
    for (args, words) in [
        (format!("{model} {shape} --busbw 180"), "no unit"),
        (format!("{model} {shape} --busbw=-5_GB/s"), "does not begin"),
        (format!("{model} {shape} --busbw 0_GB/s"), "not a bandwidth"),
        (
            "--params 0 --parallel ddp --nodes 2 --gpus-per-node 8 --busbw 5_GB/s".into(),
            "not a number of parameters",
        ),
        ("--params 7X --parallel ddp".into(), "not a unit"),
        ("--params 7B --parallel zero9".into(), "zero9"),
        ("--params 7B".into(), "--parallel"),
        (
            format!("{model} --nodes 0 --gpus-per-node 8 --busbw 5_GB/s"),
            "--nodes",
        ),
        (
            format!("{model} {shape} --gpus 65 --busbw 5_GB/s"),
            "do not make 65",
        ),
        (
            format!("{model} --gpus 65 --gpus-per-node 8 --busbw 5_GB/s"),
            "do not fill",
        ),
        (
            format!("{model} --gpus 65 --nodes 8 --busbw 5_GB/s"),
            "are not divided",
        ),
        (
            format!("{model} {shape} --tensor-parallel 3 --busbw 5_GB/s"),
            "does not divide",
        ),
        (
            format!("{model} {shape} --pipeline-parallel 4 --busbw 5_GB/s"),
            "--micro-batches",
        ),
        (
            format!(
                "{model} {shape} --pipeline-parallel 5 --micro-batches 8 --activations 1MB --busbw 5_GB/s"
            ),
            "do not divide 64",
        ),
        (
            format!("{model} {shape} --busbw 5_GB/s --measured-nodes 1"),
            "does not apply",
        ),
        (
            format!("{model} {shape} --busbw 5_GB/s --step-time 1 --compute-time 2"),
            "cannot compute",
        ),
        (
            format!("{model} {shape} --busbw 5_GB/s --latency 1s --size 1MB"),
            "is longer than a whole all-reduce",
        ),
        (format!("{model} {shape} --measured-nodes 2"), "--busbw"),
        (
            format!("{model} {shape} --busbw 5_GB/s --single-node-step-time 1"),
            "--step-time",
        ),
        (format!("modelled-roce.jsonl {model}"), "no GPU of NVIDIA"),
        (format!("modelled-ib.jsonl {model} {shape}"), "name --busbw"),
        (
            format!("modelled-gpu-host.jsonl {model} --nodes 2"),
            "name --busbw",
        ),
    ] {
        let output = advise(&args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{args}: {said}");
        assert!(said.contains(words), "{args}: {said}");
        assert!(output.stdout.is_empty(), "{args}");
    }
}

#[test]
fn a_recording_that_is_none_is_bad_input() {
    let output = advise("Cargo.toml --params 7B --parallel ddp");
    assert_eq!(output.status.code(), Some(65), "{output:?}");
}
