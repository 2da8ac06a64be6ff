//! `rdma-doctor bench … --backend verbs --memory gpu`: who takes part, and what is refused. That bytes arrive in GPUs' memory shows the VM (`tests/vm`).

use std::path::Path;
use std::process::Command;

use crate::stage::Stage;
use serde_json::{Value, json};

#[test]
fn what_does_not_go_together_is_said_with_what_does() {
    for (args, words) in [
        (
            &["all-reduce", "--backend", "verbs", "--memory", "gpu"][..],
            "rdma-doctor bench send-recv --backend verbs --memory both",
        ),
        (
            &["send-recv", "--memory", "both"],
            "only --backend verbs has the choice",
        ),
        (
            &["all-gather", "--backend", "tcp", "--memory", "gpu"],
            "only --backend verbs has the choice",
        ),
        (
            &["pairs", "--backend", "tcp", "--memory", "both"],
            "--memory: sockets have the host's only",
        ),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
            .arg("bench")
            .args(args)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(64), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

/// The plan of a measurement with these options, on a node with eight GPUs.
fn plan(args: &[&str]) -> Option<Value> {
    let stage = Stage::new("cuda-h100.toml")?.library("standin_cuda", "libcuda.so.1");
    let stage = stage.library("standin_nvidia_ml", "libnvidia-ml.so.1");
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memory-{}.jsonl", args.len()));
    let to = to.to_string_lossy();
    let fixed = [
        "bench",
        "send-recv",
        "--backend",
        "verbs",
        "--device",
        "nothing_0/1",
        "-b",
        "64K",
        "--record",
        &to,
        "--no-redact",
    ];
    let out = stage.run(&[&fixed[..], args].concat());
    // There is no such adapter: each rank says so.
    assert_eq!(
        out.status.code(),
        Some(2),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = std::fs::read_to_string(&*to).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut lines = lines.filter(|line: &Value| line["q"] == json!({"bench": "collective"}));
    lines.next().map(|line| line["value"].clone())
}

#[test]
fn a_rank_for_each_gpu_and_both_memories_in_one_run() {
    let Some(both) = plan(&["--memory", "both"]) else {
        return;
    };
    let ranks = both["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 8);
    assert_eq!(ranks[0]["gpu"], "0000:1b:00.0");
    assert_eq!(ranks[0]["device"], "nothing_0/1");
    let points = both["points"].as_array().unwrap();
    let on_gpus: Vec<bool> = points.iter().map(|p| p["gpu_memory"] == true).collect();
    assert_eq!(on_gpus, [false, true]);
    assert_eq!(points[0]["bytes"], points[1]["bytes"]);

    // Where there are more ranks than GPUs they share them.
    let shared = plan(&["--memory", "gpu", "--gpus", "1", "--ranks", "2"]).unwrap();
    let ranks = shared["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 2);
    assert_eq!(ranks[0]["gpu"], ranks[1]["gpu"]);
    assert_eq!(shared["points"].as_array().unwrap().len(), 1);
}
