//! Recordings and texts whose judging would take memory or time without end: the report comes in bounded time and memory, the others are judged, and what was
//! not judged is named.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::place::{Scratch, doctor};
use crate::process::{Ended, start};

/// A whole recording of a node with GPUs at these addresses on its PCI bus.
pub(crate) fn node_with_gpus(name: &str, addresses: &[String]) -> String {
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
pub(crate) fn bounded(words: &[&str]) -> Ended {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -d 1048576; exec \"$@\"", "sh", doctor()])
        .args(words)
        .stdin(Stdio::null());
    start(&mut command).ends()
}

/// The verdict on this input, as JSON.
fn verdict(name: &str, content: &str) -> Ended {
    let scratch = Scratch::new("judging");
    let path = scratch.join(name);
    std::fs::write(&path, content).unwrap();
    let ended = bounded(&["check", "--format", "json", path.to_str().unwrap()]);
    assert_eq!(ended.status, 3, "{ended:?}");
    ended
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
