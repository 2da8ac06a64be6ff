//! NCCL over several nodes, by its stand-in: two processes that meet over this machine's loopback, each with two of four GPUs. NCCL's unique id and all
//! barriers go over their session. No GPU is needed, and no number here was measured on hardware.

use std::net::TcpListener;

use crate::stage::Stage;
use serde_json::Value;

fn stage() -> Option<Stage> {
    let stage = Stage::new("nccl-two-nodes.toml")?;
    Some(
        stage
            .library("standin_cuda", "libcuda.so.1")
            .library("standin_nvidia_ml", "libnvidia-ml.so.1")
            .library("standin_nccl", "libnccl.so.2"),
    )
}

/// Both processes do this; gives what rank 0 says, and how both ended.
fn both(stage: &Stage, args: &[&str]) -> (Value, Vec<Option<i32>>) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = port.local_addr().unwrap().to_string();
    drop(port);
    let one = |rank: usize| {
        let (number, gpus) = [("0", "0,1"), ("1", "2,3")][rank];
        let who = ["--rank", number, "--nodes", "2", "--rendezvous", &at];
        stage.run(&[args, &who, &["--gpus", gpus, "--format", "json"]].concat())
    };
    let outs = std::thread::scope(|scope| {
        let all: Vec<_> = (0..2).map(|rank| scope.spawn(move || one(rank))).collect();
        let all = all.into_iter().map(|one| one.join().unwrap());
        all.collect::<Vec<_>>()
    });
    let errors: String = outs
        .iter()
        .map(|out| String::from_utf8_lossy(&out.stderr))
        .collect();
    let value = serde_json::from_slice(&outs[0].stdout).unwrap_or_else(|e| {
        panic!(
            "{e}: {}\n{errors}",
            String::from_utf8_lossy(&outs[0].stdout)
        )
    });
    let codes = outs.iter().map(|out| out.status.code()).collect();
    (value, codes)
}

#[test]
fn ranks_of_two_processes_reduce_together() {
    let Some(stage) = stage() else { return };
    let size = ["-b", "64K", "--trials", "2"];
    let (value, codes) = both(&stage, &[&["bench", "all-reduce"][..], &size].concat());
    assert_eq!(value["backend"], "nccl", "{value:#}");
    assert_eq!(value["ranks"].as_array().unwrap().len(), 4);
    assert_eq!(value["troubles"], serde_json::json!([]), "{value:#}");
    assert_eq!(value["rows"][0]["wrong"], 0);
    assert_eq!(value["rows"][0]["checked"], 4 * (64 << 10) / 4);
    assert_eq!(value["scopes"]["inside"].as_array().unwrap().len(), 2);
    assert_eq!(value["scopes"]["between"]["ranks"], 2);
    assert_ne!(codes[0], Some(70));
    assert_eq!(codes[1], Some(0));
}

#[test]
fn arms_are_led_by_rank_0() {
    let Some(stage) = stage() else { return };
    let how = [
        "ablate",
        "--size",
        "64K",
        "--rounds",
        "1",
        "--time-budget",
        "600",
    ];
    let (value, codes) = both(&stage, &how);
    let arms = value["measurements"][0]["arms"].as_array();
    let arms = arms.unwrap_or_else(|| panic!("{value:#}"));
    assert_eq!(arms.len(), 8, "{value:#}");
    assert_eq!(codes[1], Some(0));
}

#[test]
fn triage_judges_all_nodes_and_all_carry_its_verdict() {
    let Some(stage) = stage() else { return };
    let how = ["triage", "--quick", "--size", "64K", "--exit-on", "all"];
    let (value, codes) = both(&stage, &how);
    assert!(value["measured"].is_object(), "{value:#}");
    assert_eq!(value["not_measured"], Value::Null);
    assert_eq!(value["nodes"].as_array().unwrap().len(), 2, "{value:#}");
    assert_eq!(codes[0], codes[1]);
    let (value, codes) = both(
        &stage,
        &["bench", "latency", "--size", "64K", "--trials", "1"],
    );
    assert_eq!(value["ranks"].as_array().unwrap().len(), 4, "{value:#}");
    assert_eq!(codes[1], Some(0));
}
