//! What hosts are asked for just now has to be theirs, and of now; and a report has to reach somebody.

use std::path::Path;
use std::process::{Command, Output};
use std::time::SystemTime;

use rdma_doctor::examine::recording_text;
use rdma_doctor::source::recording::Recording;

use crate::place::{Scratch, doctor};

const FIXTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/fixtures/rxe-healthy.jsonl.zst"
);

/// The fixture's boot id and the end of its port's GUID.
const BOOT: &str = "723a31cc-66ab-4e89-b997-223ec1ced6c8";
const GUID: &str = "5054:00ff:fe77:0001";

/// The recording with another boot id.
fn booted_again(text: &str) -> String {
    assert!(text.contains(BOOT));
    text.replace(BOOT, "00000000-66ab-4e89-b997-223ec1ced6c8")
}

/// The fixture as recorded at this time, so many nanoseconds after the boot.
fn recorded(name: &str, utc: &str, boottime_ns: u64) -> String {
    let mut recording = Recording::open(Path::new(FIXTURE)).unwrap();
    recording.header.node = name.into();
    recording.header.utc = utc.into();
    recording.header.boottime_ns = boottime_ns;
    recording_text::to_text(&recording, None)
}

fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

/// Asks two hosts, whose doctors give these recordings.
fn asked(first: &str, second: &str) -> (Option<i32>, String) {
    asked_with(first, second, &[])
}

/// The same with these arguments.
fn asked_with(first: &str, second: &str, more: &[&str]) -> (Option<i32>, String) {
    let dir = Scratch::new("fresh");
    for (name, text) in [("n1", first), ("n2", second)] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let script = dir.join("ssh");
    let at = dir.to_str().unwrap();
    let text = format!("case \" $* \" in *' n1 '*) cat {at}/n1;; *) cat {at}/n2;; esac\n");
    std::fs::write(&script, text).unwrap();
    let out = Command::new(doctor())
        .args(["check", "--hosts", "n1,n2", "--ssh"])
        .arg(format!("sh {}", script.to_str().unwrap()))
        .args(more)
        .output()
        .unwrap();
    (out.status.code(), said(&out))
}

fn said(out: &Output) -> String {
    let text = [&*out.stdout, &*out.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn hosts_that_give_one_recording_are_undecided() {
    let now = now();
    let one = recorded("n1", &now, 7);
    let other = booted_again(&recorded("n2", &now, 8));
    let (status, said) = asked(&one, &other);
    assert!(!said.contains("undecided"), "{status:?} {said}");
    let (status, said) = asked(&one, &one);
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("gave the same recording as"), "{said}");
}

#[test]
fn a_machine_that_two_names_lead_to_is_undecided_and_its_clone_another_machine() {
    let now = now();
    let (one, again) = (recorded("n1", &now, 7), recorded("n2", &now, 8));
    let (status, said) = asked(&one, &again);
    assert_eq!(status, Some(3), "{said}");
    let why = "gave a recording of the same machine as";
    assert!(said.contains(why), "{said}");
    assert!(again.contains(GUID));
    let clone = again.replace(GUID, "5054:00ff:fe77:0002");
    let (status, said) = asked(&one, &clone);
    assert!(!said.contains("undecided"), "{status:?} {said}");
}

#[test]
fn a_host_that_gives_a_recording_of_another_time_is_undecided() {
    let old = |name, boottime_ns| recorded(name, "2026-01-02T03:04:05.678Z", boottime_ns);
    let (status, said) = asked(&old("n1", 7), &old("n2", 8));
    assert_eq!(status, Some(3), "{said}");
    let why = "gave a recording of 2026-01-02T03:04:05.678Z, not of now";
    assert!(said.contains(why), "{said}");
}

#[test]
fn closed_standard_output_is_no_success() {
    for args in [
        &["check", FIXTURE][..],
        &["check", "--json", FIXTURE],
        &["facts", FIXTURE],
        &["explain", "link"],
        &["--version"],
        &["--help"],
        &["check", "--help"],
    ] {
        let out = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" >&-", doctor()])
            .args(args)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(70), "{args:?}: {out:?}");
    }
}

#[test]
fn a_site_says_how_near_the_time_of_a_recording_has_to_be() {
    let checks = Scratch::new("fresh-limits");
    let limits = "[\"cluster/clocks-apart\"]\nrecorded = \"36500 d\"\n";
    std::fs::write(checks.join("limits.toml"), limits).unwrap();
    let old = booted_again(&recorded("n2", "2026-01-02T03:04:05.678Z", 8));
    let place = checks.to_str().unwrap();
    let (_, said) = asked_with(&recorded("n1", &now(), 7), &old, &["--checks", place]);
    assert!(!said.contains("not of now"), "{said}");
}
