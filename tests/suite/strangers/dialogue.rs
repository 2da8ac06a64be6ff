//! Hosts over ssh on which something else answers in the doctor's place.

use std::process::{Command, Stdio};

use crate::place::{Scratch, doctor};
use crate::process::{Ended, start};

/// `triage` over one host, where this script runs in place of ssh. It may say that it is ready.
fn over_ssh(script: &str, more: &[&str]) -> Ended {
    let dir = Scratch::new("dialogue");
    let ready = format!(
        r#"ready() {{ echo 'rdma-doctor-held {{"here":"{}"}}'; read assignment; }}"#,
        env!("CARGO_PKG_VERSION")
    );
    let path = dir.join("ssh");
    std::fs::write(&path, format!("{ready}\n{script}")).unwrap();
    let mut command = Command::new(doctor());
    command
        .args(["triage", "--hosts", "127.0.0.1", "--wait", "20"])
        .arg("--ssh")
        .arg(format!("sh {}", path.to_str().unwrap()))
        .args(more)
        .stdin(Stdio::null());
    start(&mut command).ends()
}

#[test]
fn a_verdict_without_a_report_is_none() {
    for status in 0..=3 {
        let ended = over_ssh(&format!("ready; exit {status}"), &[]);
        assert_eq!(ended.status, 65, "{ended:?}");
        assert!(ended.err.contains("ended without a report"), "{ended:?}");
    }
    let ended = over_ssh("ready; echo 'OK healthy'; exit 1", &[]);
    assert_eq!((ended.status, &*ended.out), (1, "OK healthy\n"));
    let ended = over_ssh("ready; exit 70", &[]);
    assert_eq!(ended.status, 70, "{ended:?}");
}

#[test]
fn a_report_without_end_takes_no_memory_without_end() {
    let dir = Scratch::new("dialogue-report");
    let path = dir.join("report");
    std::fs::write(&path, "old").unwrap();
    let ended = over_ssh("ready; yes", &["--output", path.to_str().unwrap()]);
    assert_eq!(ended.status, 65, "{ended:?}");
    assert!(ended.err.contains("more than 268435456 bytes"), "{ended:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
}

#[test]
fn a_version_acts_on_no_terminal() {
    for version in [r"1\\u001b[2J", "", &"9".repeat(5000)] {
        let said = format!(r#"printf '%s\n' 'rdma-doctor-held {{"here":"{version}"}}'; exit 0"#);
        let ended = over_ssh(&said, &[]);
        assert_eq!(ended.status, 65, "{ended:?}");
        assert!(ended.err.len() < 400, "{ended:?}");
        assert!(!ended.err.contains('\u{1b}'), "{ended:?}");
    }
}
