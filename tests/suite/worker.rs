//! Every probe ends: one that sleeps for ever, one that aborts, one that forks, one that writes rubbish.
//!
//! Stand-ins for this program's own children: shell scripts that speak the lines of a recording.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rdma_doctor::live::worker::{self, Plan};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::{Question, Refusal, Source};

use crate::process::{PATIENT, Process, wait_until};

fn script(name: &str, body: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("worker");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join(name);
    std::fs::write(
        &path,
        format!("#!/bin/sh\n# a stand-in for a probe's process; $2 is the probe\n{body}\n"),
    )
    .unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A budget in milliseconds that is used up: as long as a shell may take to start on a busy machine.
const SHORT: u64 = 3000;

const SAID: &str = r#"echo '{"probe":"'$2'","q":{"read":"/a"},"n":0,"t":5,"text":"said"}'"#;
const PENDING: &str = r#"echo '{"probe":"'$2'","q":{"call":"ibv_query_port"},"pending":true}'"#;

fn plan(program: PathBuf, budget_ms: u64) -> Plan {
    Plan {
        root: None,
        nccl: None,
        sample: None,
        job: None,
        ranks: Vec::new(),
        py_spy: None,
        deadline: Duration::from_secs(60),
        probes: vec![
            ("one", Duration::from_millis(budget_ms)),
            ("two", Duration::from_millis(budget_ms)),
        ],
        program: Some(program),
    }
}

fn record(program: PathBuf, budget_ms: u64) -> (Recording, Duration) {
    let plan = plan(program, budget_ms);
    let begun = Instant::now();
    let recording = worker::record(&plan, |_| {});
    (recording, begun.elapsed())
}

/// What was said before is kept, and the question at which the probe stuck has a reply.
fn kept(recording: &Recording, refusal: impl Fn(&Refusal) -> bool) {
    for probe in ["one", "two"] {
        assert!(
            recording.of(probe).ask(&Question::read("/a")).said.is_ok(),
            "{probe}"
        );
        let stuck = recording
            .of(probe)
            .ask(&Question::call("ibv_query_port", []));
        assert!(
            stuck.said.as_ref().is_err_and(&refusal),
            "{probe}: {stuck:?}"
        );
    }
}

#[test]
fn a_probe_that_sleeps_for_ever_is_killed_and_named() {
    let (recording, took) = record(
        script("sleeps", &format!("{SAID}\n{PENDING}\nexec sleep 1000")),
        SHORT,
    );
    assert!(took < PATIENT, "{took:?}");
    kept(&recording, |r| *r == Refusal::Timeout);
    assert!(
        recording
            .ended("one")
            .unwrap()
            .how
            .contains("at ibv_query_port")
    );
    assert!(recording.is_complete());
}

#[test]
fn a_probe_that_aborts_is_named() {
    let (recording, _) = record(
        script("aborts", &format!("{SAID}\n{PENDING}\nkill -ABRT $$")),
        2000,
    );
    kept(
        &recording,
        |r| matches!(r, Refusal::Crash(how) if how.contains("signal 6")),
    );
    assert!(recording.ended("two").unwrap().how.contains("signal 6"));
}

#[test]
fn what_a_probe_forks_ends_with_it() {
    let marker = "3719.25";
    let (_, took) = record(
        script(
            "forks",
            &format!("{SAID}\nsleep {marker} &\nsleep {marker}"),
        ),
        SHORT,
    );
    assert!(
        took < PATIENT,
        "a grandchild that holds the pipe does not hold the doctor: {took:?}"
    );
    wait_until("the end of the grandchild", || {
        !Process::all().any(|one| one.has(marker))
    });
}

#[test]
fn rubbish_and_failure_are_named() {
    let (recording, _) = record(script("rubbish", "echo not a line\nexit 3"), 2000);
    let how = &recording.ended("one").unwrap().how;
    assert!(how.contains("status 3"), "{how}");
    let (recording, _) = record(PathBuf::from("/no/such/program"), 2000);
    assert!(
        recording
            .ended("one")
            .unwrap()
            .how
            .contains("did not start")
    );
}

#[test]
fn a_parent_that_is_gone_takes_its_probes_along() {
    let binary = env!("CARGO_BIN_EXE_rdma-doctor");
    let mut child = std::process::Command::new(binary)
        .args(["__probe", "counter", "--started", "0", "--sample", "1000"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It speaks once it has begun.
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    drop(child.stdin.take());
    // Cut off from its parent, it ends a thousand seconds early.
    wait_until("the end of the probe", || {
        child.try_wait().unwrap().is_some()
    });
}

#[test]
fn a_process_that_is_done_runs_the_next_probe() {
    // Says which process it is, so that the test sees that one ran all.
    let body = r#"probe=$2
while :; do
    echo '{"probe":"'$probe'","q":{"read":"/pid"},"n":0,"t":5,"text":"'$$'"}'
    echo done
    read probe || exit 0
done"#;
    let mut plan = plan(script("goes-on", body), 2000);
    plan.probes = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]
        .map(|name| (name, Duration::from_secs(2)))
        .to_vec();
    let many = 4 * std::thread::available_parallelism().map_or(2, usize::from);
    plan.probes.extend((0..many).map(|i| {
        (
            &*Box::leak(format!("p{i}").into_boxed_str()),
            Duration::from_secs(2),
        )
    }));
    let recording = worker::record(&plan, |_| {});
    let pid = |probe: &str| match recording.of(probe).ask(&Question::read("/pid")).said {
        Ok(rdma_doctor::source::Answer::Text(pid)) => pid.to_string(),
        other => panic!("{probe}: {other:?}"),
    };
    let pids: std::collections::BTreeSet<String> =
        plan.probes.iter().map(|(name, _)| pid(name)).collect();
    assert!(pids.len() < plan.probes.len(), "{} processes", pids.len());
    assert!(
        plan.probes
            .iter()
            .all(|(name, _)| recording.ended(name).is_none())
    );
}

#[test]
fn a_probe_that_hangs_after_another_is_named_alone() {
    let body = format!(
        "{SAID}\necho done\nread probe || exit 0\nset -- x $probe\n{SAID}\n{PENDING}\nexec sleep 1000"
    );
    let mut plan = plan(script("hangs-second", &body), SHORT);
    plan.probes = (0..12)
        .map(|i| {
            (
                &*Box::leak(format!("p{i}").into_boxed_str()),
                Duration::from_millis(SHORT),
            )
        })
        .collect();
    plan.deadline = Duration::from_secs(60);
    let recording = worker::record(&plan, |_| {});
    let hung = plan
        .probes
        .iter()
        .filter(|(name, _)| recording.ended(name).is_some())
        .count();
    // Each process runs one probe well and hangs at its second; the probes after it get a process of their own. How many are left for a second one depends
    // on how many processes the machine runs at once.
    assert!((1..=6).contains(&hung), "{hung} of 12 hung");
    for (name, _) in &plan.probes {
        assert!(
            recording.of(name).ask(&Question::read("/a")).said.is_ok(),
            "{name}"
        );
    }
}
