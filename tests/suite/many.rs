//! Several recordings on one command line: who is odd, who is silent, and what is no recording at all.

use crate::process::run_doctor as doctor;
use std::path::{Path, PathBuf};

fn report(args: &[&str]) -> serde_json::Value {
    let mut all = vec!["check", "--format", "json"];
    all.extend(args);
    serde_json::from_slice(&doctor(&all).stdout).unwrap()
}

/// A directory with recordings of nodes of these names, each a fixture with the node's name in its header.
fn nodes(directory: &str, names: &[&str]) -> Vec<String> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(directory);
    std::fs::create_dir_all(&directory).unwrap();
    for base in ["modelled-ib.jsonl", "vm-without-rdma.jsonl.zst"] {
        std::fs::copy(fixtures.join(base), directory.join(base)).unwrap();
    }
    let make = |name: &&str| {
        let path = directory.join(format!("{name}.jsonl"));
        let header = format!(
            "{{\"rdma-doctor-recording\":\"1.0\",\"base\":\"modelled-ib.jsonl\",\"altered\":\"another name\",\"node\":\"{name}\"}}\n"
        );
        std::fs::write(&path, header).unwrap();
        path.to_str().unwrap().to_owned()
    };
    names.iter().map(make).collect()
}

fn failing<'r>(report: &'r serde_json::Value, check: &str) -> Option<&'r serde_json::Value> {
    let mut causes = report["causes"].as_array().unwrap().iter();
    causes.find(|cause| cause["check"] == check)
}

#[test]
fn who_is_expected_and_has_no_recording_is_silent() {
    let paths = nodes("expected", &["n1", "n2"]);
    let all = report(&["--expect", "n[1-3]", &paths[0], &paths[1]]);
    let silent = failing(&all, "cluster/node-silent").unwrap();
    assert_eq!(silent["nodes"], serde_json::json!(["n3"]));
    assert_eq!(all["exit"], 2);
    assert_eq!(all["nodes"].as_array().unwrap().len(), 2);
    let one = report(&["--expect", "n[1-2]", &paths[0]]);
    assert!(failing(&one, "cluster/node-silent").is_some());
    let none = report(&["--expect", "n[1-2]", &paths[0], &paths[1]]);
    assert!(failing(&none, "cluster/node-silent").is_none());
    assert_eq!(
        doctor(&["check", "--expect", "n[1-", &paths[0]])
            .status
            .code(),
        Some(64)
    );
}

#[test]
fn a_file_that_is_no_recording_is_a_node_that_is_not_judged_among_others_and_an_error_alone() {
    let paths = nodes("unreadable", &["n1", "n2"]);
    let bad = Path::new(&paths[0]).with_file_name("n3.jsonl");
    std::fs::write(&bad, "").unwrap();
    let bad = bad.to_str().unwrap();
    let all = report(&[&paths[0], &paths[1], bad]);
    let unjudged = failing(&all, "cluster/node-unjudged").unwrap();
    assert_eq!(unjudged["nodes"], serde_json::json!(["n3"]));
    let sentence = unjudged["sentence"].as_str().unwrap();
    assert!(sentence.contains("it is empty"), "{sentence}");
    assert!(failing(&all, "cluster/node-silent").is_none());
    // Who is expected, and whose file is there, is not missing.
    let all = report(&["--expect", "n[1-4]", &paths[0], &paths[1], bad]);
    let silent = failing(&all, "cluster/node-silent").unwrap();
    assert_eq!(silent["nodes"], serde_json::json!(["n4"]));
    assert!(failing(&all, "cluster/node-unjudged").is_some());
    assert_eq!(doctor(&["check", bad, bad]).status.code(), Some(65));
}

#[test]
fn what_the_same_is_on_all_nodes_is_said_once() {
    let paths = nodes("same", &["n1", "n2", "n3"]);
    let all = report(&[&paths[0], &paths[1], &paths[2]]);
    for finding in all["causes"]
        .as_array()
        .unwrap()
        .iter()
        .chain(all["notes"].as_array().unwrap())
    {
        if finding["check"].as_str().unwrap().starts_with("cluster/") {
            continue;
        }
        let sentence = finding["sentence"].as_str().unwrap();
        assert!(sentence.starts_with("all 3 nodes: "), "{sentence}");
        assert_eq!(finding["nodes"], serde_json::json!(["n1", "n2", "n3"]));
    }
    for question in all["open"].as_array().unwrap() {
        if question["check"].as_str().unwrap().starts_with("cluster/") {
            continue;
        }
        for subject in question["subjects"].as_array().unwrap() {
            let subject = subject.as_str().unwrap();
            assert!(subject.starts_with("all 3 nodes: "), "{question}");
        }
    }
    // The processors' order is none of the report's.
    let again = report(&[&paths[0], &paths[1], &paths[2]]);
    assert_eq!(all, again);
}

#[test]
fn a_recording_under_a_shared_key_says_under_which() {
    let paths = nodes("keys", &["n1"]);
    let key = Path::new(&paths[0]).with_file_name("key");
    std::fs::write(&key, "a key for several\n").unwrap();
    let header = |args: &[&str]| {
        let mut all = vec!["record"];
        all.extend(args);
        let out = doctor(&all).stdout;
        let line = String::from_utf8_lossy(&out)
            .lines()
            .next()
            .unwrap()
            .to_owned();
        serde_json::from_str::<serde_json::Value>(&line).unwrap()
    };
    let shared = ["--redact-key", key.to_str().unwrap()];
    let (first, second, own) = (header(&shared), header(&shared), header(&[]));
    assert!(first["pseudonyms"].is_string());
    assert_eq!(first["pseudonyms"], second["pseudonyms"]);
    assert_eq!(first["node"], second["node"]);
    assert!(own["pseudonyms"].is_null() && own["redacted"] == true);
}
