//! A deadline that is named holds for the whole program, also over several nodes: it ends with a report or with status 124.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::place::{Scratch, doctor, free_port};
use crate::process::{Ended, start};
use crate::together::{KEY, ROCE, replaying};

/// A directory with this script in place of ssh: its first argument is the host.
fn ssh(script: &str) -> (Scratch, String) {
    let dir = Scratch::new("deadline");
    let path = dir.join("ssh");
    std::fs::write(&path, script).unwrap();
    let command = format!("sh {}", path.to_str().unwrap());
    (dir, command)
}

/// A check of hosts, of which the second gives a recording and no other answers.
fn check(hosts: &str, more: &[&str]) -> (Ended, Duration) {
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/rxe-healthy.jsonl.zst"
    );
    let (_dir, ssh) = ssh(&format!(
        "case \"$1\" in n2) exec cat {fixture};; *) exec sleep 600;; esac"
    ));
    let begun = Instant::now();
    let mut command = Command::new(doctor());
    command
        .args(["check", "--format", "json", "--hosts", hosts, "--ssh", &ssh])
        .args(more)
        .stdin(Stdio::null());
    let ended = start(&mut command).ends();
    (ended, begun.elapsed())
}

#[test]
fn a_host_that_never_answers_leaves_no_report_alone_and_is_named_among_others() {
    let in_time = ["--deadline", "1", "--wait", "0.5"];
    let (ended, took) = check("n1", &in_time);
    assert_eq!((ended.status, ended.out.as_str()), (124, ""), "{ended:?}");
    assert!(ended.err.contains("n1: no answer within"), "{ended:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let (ended, _) = check("n[1-2]", &in_time);
    assert_eq!((ended.status, ended.report().nodes().len()), (2, 1));
    assert!(ended.out.contains("n1 did not respond"), "{ended:?}");
}

#[test]
fn hosts_that_wait_for_others_are_not_asked_after_the_deadline() {
    let one_by_one = ["--deadline", "1", "--wait", "0.5", "--fanout", "1"];
    let (ended, took) = check("n[2-9]", &one_by_one);
    assert_eq!(ended.status, 2, "{ended:?}");
    let why = "the deadline was reached before it was asked";
    assert!(ended.out.contains(why), "{ended:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// A pipe that nobody reads, and that is soon full.
fn unread() -> (std::os::fd::OwnedFd, Stdio) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    (reader, writer.into())
}

#[test]
fn a_report_that_nobody_takes_ends_by_the_deadline_too() {
    let (_reader, output) = unread();
    let mut rank_0 = replaying(0, 2, free_port(), ROCE);
    rank_0
        .args(["--deadline", "0.5", "--wait", "0.5"])
        .env("RDMA_DOCTOR_KEY", KEY)
        .stdout(output);
    let begun = Instant::now();
    let status = rank_0.status().unwrap();
    assert_eq!(status.code(), Some(124));
    assert!(begun.elapsed() < Duration::from_secs(30));
}
