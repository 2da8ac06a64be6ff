//! `check --baseline`: what is new, gone and worse since a recording or a report, and which facts drifted.

use std::path::{Path, PathBuf};
use std::process::Command;

fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The exit status of a check, and what it said, on one line.
fn check(args: &[&str]) -> (i32, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
        .arg("check")
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    (out.status.code().unwrap(), words.join(" "))
}

fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A node of this name over a fixture, with these lines in place of its own.
fn node(dir: &Path, name: &str, lines: &str) -> String {
    for base in ["modelled-ib.jsonl", "vm-without-rdma.jsonl.zst"] {
        std::fs::copy(fixture(base), dir.join(base)).unwrap();
    }
    let path = dir.join(format!("{name}.jsonl"));
    let head = format!(
        "{{\"rdma-doctor-recording\":\"1.0\",\"base\":\"modelled-ib.jsonl\",\"altered\":\"a test\",\"node\":\"{name}\"}}\n"
    );
    std::fs::write(&path, head + lines).unwrap();
    path.to_str().unwrap().to_owned()
}

const FIRMWARE: &str = "{\"probe\":\"*\",\"q\":{\"read\":\"/sys/class/infiniband/mlx5_1/fw_ver\"},\"n\":0,\"t\":1000,\"text\":\"28.33.1000\\n\"}\n";

#[test]
fn a_node_is_held_against_its_own_recording_or_report() {
    let (good, polling) = (
        fixture("modelled-ib.jsonl"),
        fixture("modelled-ib-polling.jsonl"),
    );
    let (code, said) = check(&["--baseline", &good, &good]);
    assert_eq!(code, 0);
    assert!(said.contains("baseline no change since "), "{said}");

    let (code, said) = check(&["--baseline", &good, &polling]);
    assert_eq!(code, 2, "a baseline changes no status");
    for part in [
        "+ error link/not-trained mlx5_2/1: mlx5_2/1 is down with physical state polling",
        "~ port mlx5_2/1 state: down, was active",
        // Below the headline, with the time of the baseline.
        "other end since 2026-",
        ": mlx5_2/1 state active → down",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // Counters, clocks and the number of retries change all the time.
    for noise in ["uptime", "counter", "load", "boot_id"] {
        let (_, drift) = said.split_once("since").unwrap();
        let (drift, _) = drift.split_once("explain ").unwrap();
        assert!(!drift.contains(noise), "{drift}");
    }
    let (code, said) = check(&["--baseline", &polling, &good]);
    assert_eq!(code, 0);
    assert!(said.contains("- error link/not-trained mlx5_2/1"), "{said}");

    // A report in JSON has findings, and no facts.
    let dir = directory("baseline-report");
    let report = dir.join("good.json");
    let report = report.to_str().unwrap();
    assert_eq!(check(&["--format", "json", "--output", report, &good]).0, 0);
    let (_, said) = check(&["--baseline", report, &polling]);
    assert!(said.contains("+ error link/not-trained mlx5_2/1"), "{said}");
    let (_, said) = check(&["--baseline", report, &good]);
    assert!(said.contains("no change since "), "{said}");
    // JSON has the same.
    let out = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
        .args(["check", "--format", "json", "--baseline", &good, &polling])
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let changes = json["baseline"]["changes"].as_array().unwrap();
    assert!(
        changes.iter().any(|change| change
            .as_str()
            .unwrap()
            .starts_with("+ error link/not-trained mlx5_2/1")),
        "{json}"
    );
    for bad in ["/no/such/file", &fixture("expected")] {
        assert_eq!(check(&["--baseline", bad, &good]).0, 65, "{bad}");
    }
    assert_eq!(check(&["--baseline", &good, &good, &polling]).0, 64);
}

#[test]
fn a_node_is_held_against_its_equals() {
    let dir = directory("baseline-equals");
    let all = directory("baseline-examined");
    for name in ["n1", "n2"] {
        node(&dir, name, "");
    }
    node(&dir, "n3", FIRMWARE);
    for base in ["modelled-ib.jsonl", "vm-without-rdma.jsonl.zst"] {
        // The bases stay beside the overlays, and are recordings too.
        assert!(dir.join(base).exists());
    }
    let place = dir.to_str().unwrap();
    let odd = node(&all, "n9", FIRMWARE);
    let (_, said) = check(&["--baseline", place, &odd]);
    for part in [
        "since most of 5 recordings",
        "~ device mlx5_1 firmware: 28.33.1000, was ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // What the node itself has is no other thing under another name.
    let worn = |dir: &Path, name: &str| {
        let path = dir.join(format!("{name}.jsonl"));
        std::fs::copy(fixture("modelled-ib-worn-host.jsonl"), &path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, lines) = text.split_once('\n').unwrap();
        let mut head: serde_json::Value = serde_json::from_str(head).unwrap();
        head["node"] = name.into();
        std::fs::write(&path, format!("{head}\n{lines}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let worn_dir = directory("baseline-worn");
    node(&worn_dir, "n1", "");
    for name in ["n1", "n2", "n3", "n4"] {
        worn(&worn_dir, name);
    }
    let (code, said) = check(&["--baseline", worn_dir.to_str().unwrap(), &worn(&all, "n8")]);
    assert_ne!(code, 0, "{said}");
    assert!(
        said.contains("no change since most of 6 recordings"),
        "{said}"
    );
    // Its own recording comes before those of others.
    let own = node(&all, "n3", "");
    let (_, said) = check(&["--baseline", place, &own]);
    for part in ["since n3's recording in ", "~ device mlx5_1 firmware: "] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
