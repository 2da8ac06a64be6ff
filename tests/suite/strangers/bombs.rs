//! Recordings that are small as a file and large in memory: the doctor refuses them within a gigabyte, and judges the other nodes.

use std::process::{Command, Stdio};

use crate::place::{Scratch, doctor, free_port};
use crate::process::start;
use crate::together::{KEY, ROCE, last_of_three, replaying, wait_for};

const HEAD: &[u8] = b"{\"rdma-doctor-recording\":\"1.0\",\"node\":\"n9\"}\n";

/// A recording of a head and this many times these bytes; the frames of zstd may follow each other.
fn bomb(chunk: &[u8], times: usize) -> Vec<u8> {
    let frame = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let mut bytes = frame(HEAD);
    bytes.extend(frame(chunk).repeat(times));
    bytes
}

fn reply(content: &str) -> Vec<u8> {
    format!("{{\"probe\":\"a\",\"q\":{{\"read\":\"/x\"}},{content}}}\n").into_bytes()
}

/// The doctor in a gigabyte of memory.
fn bounded(words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -d 1048576; exec \"$@\"", "sh", doctor()])
        .args(words)
        .stdin(Stdio::null());
    command
}

#[test]
fn a_recording_that_is_large_in_memory_is_refused_within_a_gigabyte() {
    let scratch = Scratch::new("bombs");
    let mib = 1 << 20;
    let list = |element: &str| {
        format!(
            "[{element}{}]",
            format!(",{element}").repeat(4 * mib / (1 + element.len()))
        )
    };
    let cases = [
        (
            "text",
            bomb(&reply(&format!("\"text\":\"{}\"", "x".repeat(8 * mib))), 64),
            "larger than 256 MiB",
        ),
        (
            "numbers",
            bomb(&reply(&format!("\"value\":{}", list("0"))), 100),
            "of memory",
        ),
        (
            "objects",
            bomb(&reply(&format!("\"value\":{}", list("{\"a\":0}"))), 100),
            "of memory",
        ),
        (
            "lists",
            bomb(&reply(&format!("\"value\":{}", list("[[]]"))), 100),
            "of memory",
        ),
        (
            "names",
            bomb(&reply(&format!("\"names\":{}", list("\"\""))), 100),
            "of memory",
        ),
        (
            "replies",
            bomb(&reply("\"text\":\"\"").repeat(10_000), 300),
            "256 replies to one question",
        ),
        ("lines", bomb(&b"\n".repeat(mib), 400), "2000000 lines"),
        (
            "waiting",
            bomb(&reply("\"pending\":true").repeat(10_000), 300),
            "2000000 lines",
        ),
    ];
    for (name, bytes, why) in cases {
        assert!(bytes.len() < mib, "{name}: {}", bytes.len());
        let path = scratch.join(format!("{name}.jsonl.zst"));
        std::fs::write(&path, bytes).unwrap();
        let ended = start(&mut bounded(&["check", path.to_str().unwrap()])).ends();
        assert_eq!(ended.status, 65, "{name}: {ended:?}");
        assert!(ended.err.contains(why), "{name}: {ended:?}");
    }
}

#[test]
fn an_overlay_has_no_budget_of_its_own() {
    let scratch = Scratch::new("bombs-overlay");
    let half = bomb(&reply(&format!("\"text\":\"{}\"", "x".repeat(8 << 20))), 20);
    std::fs::write(scratch.join("below.jsonl.zst"), &half).unwrap();
    let mut above = b"{\"rdma-doctor-recording\":\"1.0\",\"base\":\"below.jsonl.zst\"}\n".to_vec();
    above = zstd::encode_all(above.as_slice(), 1).unwrap();
    let head = zstd::encode_all(HEAD, 1).unwrap().len();
    above.extend(&half[head..]);
    let path = scratch.join("above.jsonl.zst");
    std::fs::write(&path, above).unwrap();
    let ended = start(&mut bounded(&["facts", path.to_str().unwrap()])).ends();
    assert_eq!(ended.status, 65, "{ended:?}");
    assert!(ended.err.contains("larger than 256 MiB"), "{ended:?}");
}

#[test]
fn a_rank_that_sends_a_bomb_is_named_and_the_others_are_judged() {
    let port = free_port();
    let mut rank_0 = replaying(0, 3, port, ROCE);
    let words: Vec<_> = rank_0
        .get_args()
        .map(|word| word.to_str().unwrap().to_owned())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    rank_0 = bounded(&words);
    let rank_0 = start(rank_0.env("RDMA_DOCTOR_KEY", KEY));
    wait_for(port);
    let rank_1 = start(replaying(1, 3, port, ROCE).env("RDMA_DOCTOR_KEY", KEY));
    let mut rank_2 = last_of_three(port);
    let numbers = format!("\"value\":[0{}]", ",0".repeat(2 << 20));
    rank_2.send(&bomb(&reply(&numbers), 500)).unwrap();
    let ended = rank_0.ends();
    let report = ended.report();
    assert_eq!(report.nodes().len(), 2, "{ended:?}");
    assert!(ended.out.contains("bomber"), "{ended:?}");
    assert!(ended.out.contains("MiB of memory"), "{ended:?}");
    assert!(rank_1.ends().status <= 3);
}

#[test]
fn the_memory_for_a_cluster_is_configurable() {
    let scratch = Scratch::new("bombs-cluster");
    let numbers = format!("\"value\":[0{}]", ",0".repeat(1 << 20));
    let large = bomb(&reply(&numbers), 3);
    std::fs::write(scratch.join("large.jsonl.zst"), large).unwrap();
    let small = format!("{}/fixtures/{ROCE}", env!("CARGO_MANIFEST_DIR"));
    let large = scratch.join("large.jsonl.zst");
    let of = |memory: &str| {
        let words = [
            "check",
            "--format",
            "json",
            "--memory",
            memory,
            &small,
            large.to_str().unwrap(),
        ];
        start(Command::new(doctor()).args(words).stdin(Stdio::null())).ends()
    };
    let ended = of("128MiB");
    assert!(
        ended.out.contains("would take more than 128 MiB of memory"),
        "{ended:?}"
    );
    assert_eq!(ended.report().nodes().len(), 1);
    assert_eq!(of("4GiB").report().nodes().len(), 2);
}
