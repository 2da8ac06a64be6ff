//! Recordings and texts whose judging would take memory or time without end: the report comes in
//! bounded time and memory, the others are judged, and what was
//! not judged is named.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::place::{Scratch, doctor, free_port};
use crate::process::{Ended, start};
use crate::together::{KEY, ROCE, last_of_three, replaying, wait_for};

/// Lowers the limits of one input: megabytes and seconds.
const LIMITS: &str = "RDMA_DOCTOR_JUDGING";

/// A whole recording of a node with GPUs at these addresses on its PCI bus.
fn node_with_gpus(name: &str, addresses: &[String]) -> String {
    const DEVICES: &str = "/sys/bus/pci/devices";
    let mut lines = vec![json!({ "q": { "list": DEVICES }, "names": addresses })];
    for address in addresses {
        for (file, text) in [
            ("class", "0x030200"),
            ("vendor", "0x10de"),
            ("device", "0x2330"),
        ] {
            let path = format!("{DEVICES}/{address}/{file}");
            lines.push(json!({ "q": { "read": path }, "text": text }));
        }
    }
    recording(name, "gpu", &mut lines)
}

/// A whole recording of these replies.
fn recording(name: &str, probe: &str, lines: &mut [serde_json::Value]) -> String {
    let mut text = format!(
        "{}\n",
        json!({ "rdma-doctor-recording": "1.0", "node": name })
    );
    for line in &mut *lines {
        line["probe"] = probe.into();
        writeln!(text, "{line}").unwrap();
    }
    let end = json!({ "complete": true, "lines": lines.len() });
    writeln!(text, "{end}").unwrap();
    text
}

/// The doctor in a gigabyte of memory.
fn bounded(words: &[&str]) -> Ended {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -d 1048576; exec \"$@\"", "sh", doctor()])
        .args(words)
        .stdin(Stdio::null());
    start(&mut command).ends()
}

/// The verdict on this input, as JSON: undecided.
fn verdict(name: &str, content: &str) -> Ended {
    let ended = judged(name, content);
    assert_eq!(ended.status, 3, "{ended:?}");
    ended
}

fn judged(name: &str, content: &str) -> Ended {
    let scratch = Scratch::new("judging");
    let path = scratch.join(name);
    std::fs::write(&path, content).unwrap();
    bounded(&["check", "--format", "json", path.to_str().unwrap()])
}

fn gpus(count: usize) -> Vec<String> {
    let address = |at: usize| format!("{:04x}:{:02x}:00.0", at / 256, at % 256);
    (0..count).map(address).collect()
}

#[test]
fn a_gpu_without_a_name_is_said_and_ends_nothing() {
    for name in ["", " "] {
        let addresses = ["0000:19:00.0".to_owned(), name.to_owned()];
        let ended = verdict("n1.jsonl", &node_with_gpus("n1", &addresses));
        assert!(
            ended.out.contains("n1 has a GPU without a name"),
            "{ended:?}"
        );
    }
}

#[test]
fn of_a_thousand_gpus_the_first_are_judged_and_the_others_counted() {
    let ended = verdict("n1.jsonl", &node_with_gpus("n1", &gpus(1000)));
    let said = "1000 GPUs, of which 64 were judged";
    assert!(ended.report().0["headline"].to_string().contains(said));
    let areas = ended.report().0["areas"].to_string();
    assert!(areas.contains(said), "{areas}");
}

#[test]
fn rows_of_many_gpus_in_a_text_are_bounded_too() {
    let mut text = "$ nvidia-smi --query-gpu=index,pci.bus_id,name --format=csv\n".to_owned();
    text.push_str("index, pci.bus_id, name\n");
    for at in 0..1500 {
        let (bus, device) = (at / 32, at % 32);
        writeln!(
            text,
            "{at}, 00000000:{bus:02X}:{device:02X}.0, NVIDIA H100 80GB HBM3"
        )
        .unwrap();
    }
    let ended = verdict("rows.txt", &text);
    let said = "1500 GPUs, of which 64 were judged";
    assert!(ended.out.contains(said), "{ended:?}");
}

#[test]
fn rows_of_several_hosts_in_a_text_are_several_nodes() {
    let mut text =
        "$ pdsh -w n[1-30] nvidia-smi --query-gpu=index,pci.bus_id,name --format=csv,noheader\n"
            .to_owned();
    for (host, gpu) in (1..=30).flat_map(|host| (0..8).map(move |gpu| (host, gpu))) {
        writeln!(
            text,
            "n{host}: {gpu}, 00000000:{gpu:02X}:00.0, NVIDIA H100 80GB HBM3"
        )
        .unwrap();
    }
    let ended = judged("rows.txt", &text);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(ended.report().nodes().len(), 30, "{ended:?}");
    assert!(!ended.out.contains("were judged"), "{ended:?}");
}

/// A whole recording that takes a hundred megabytes and more than a tenth of a second.
fn large() -> String {
    let text = "x".repeat(1 << 20);
    let reply = |at| json!({ "q": { "read": format!("/x{at}") }, "text": text });
    recording("n7", "host", &mut (0..100).map(reply).collect::<Vec<_>>())
}

/// A directory with that recording and a small one, and their paths.
fn large_and_small() -> (Scratch, [String; 2]) {
    let scratch = Scratch::new("judging");
    let small = node_with_gpus("n1", &gpus(1));
    let paths = [("n7.jsonl", large()), ("n1.jsonl", small)].map(|(name, text)| {
        let path = scratch.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    });
    (scratch, paths)
}

/// The doctor, with limits of one input where they are given.
fn limited(limits: Option<&str>, words: &[&str]) -> Ended {
    let mut command = Command::new(doctor());
    command.args(words).stdin(Stdio::null());
    if let Some(limits) = limits {
        command.env(LIMITS, limits);
    }
    start(&mut command).ends()
}

#[test]
fn a_recording_that_takes_too_much_memory_is_named_and_the_others_are_judged() {
    let (scratch, [large, small]) = large_and_small();
    let limits = Some("48,30");
    let said = "took more than 48 MB of memory";
    let ended = limited(limits, &["check", "--json", &large, &small]);
    assert_eq!(ended.report().nodes(), ["n1"], "{ended:?}");
    assert!(ended.status == 2 && ended.out.contains(said), "{ended:?}");
    // It is there: to look for it in the network is of no use.
    let report = ended.report();
    let (sentence, nodes) = report.finding("cluster/node-unjudged").unwrap();
    assert!(sentence.starts_with("the recording of n7 could not be judged: "));
    assert_eq!(nodes, ["n7"]);
    assert!(report.finding("cluster/node-silent").is_none(), "{ended:?}");
    let ended = limited(limits, &["check", "--json", "--each", &small, &large]);
    let reports: Vec<serde_json::Value> = serde_json::from_str(&ended.out).unwrap();
    assert!(reports[0]["nodes"][0]["name"] == "n1", "{ended:?}");
    assert!(
        reports[1]["headline"].to_string().contains(said),
        "{ended:?}"
    );
    let ended = limited(limits, &["test", scratch.to_str().unwrap()]);
    assert!(ended.status == 1 && ended.out.contains(said), "{ended:?}");
    // Alone it is an input that cannot be judged.
    for words in [["check", &large], ["facts", &large], ["topo", &large]] {
        let ended = limited(limits, &words);
        assert!(ended.status == 65 && ended.out.is_empty(), "{ended:?}");
        assert!(ended.err.contains(said), "{ended:?}");
    }
    // Without such a limit it is judged as any other.
    let ended = limited(None, &["check", "--json", &large, &small]);
    assert_eq!(ended.report().nodes().len(), 2, "{ended:?}");
}

#[test]
fn a_recording_whose_judging_does_not_end_is_named() {
    let (_scratch, [large, _]) = large_and_small();
    let ended = limited(Some("1000,0.02"), &["check", &large]);
    assert!(ended.status == 65, "{ended:?}");
    assert!(
        ended
            .err
            .contains("n7.jsonl: its judging took more than 0.02 s"),
        "{ended:?}"
    );
}

#[test]
fn the_deadline_holds_for_judging_too() {
    let (_scratch, [large, _]) = large_and_small();
    let ended = limited(None, &["check", "--deadline", "0.02", &large]);
    assert_eq!((ended.status, ended.out.as_str()), (124, ""), "{ended:?}");
    assert!(ended.err.contains("no report within 0.02 s"), "{ended:?}");
}

#[test]
fn a_rank_whose_recording_takes_too_much_memory_is_named_and_the_others_are_told() {
    let port = free_port();
    let mut rank_0 = replaying(0, 3, port, ROCE);
    let rank_0 = start(rank_0.env("RDMA_DOCTOR_KEY", KEY).env(LIMITS, "48,30"));
    wait_for(port);
    let rank_1 = start(replaying(1, 3, port, ROCE).env("RDMA_DOCTOR_KEY", KEY));
    let mut rank_2 = last_of_three(port);
    let packed = zstd::encode_all(large().as_bytes(), 1).unwrap();
    rank_2.send(&packed).unwrap();
    let ended = rank_0.ends();
    assert_eq!(ended.report().nodes().len(), 2, "{ended:?}");
    assert!(ended.out.contains("bomber"), "{ended:?}");
    assert!(ended.out.contains("MB of memory"), "{ended:?}");
    let heard = rank_1.ends();
    assert!(heard.status <= 3, "{heard:?}");
}
