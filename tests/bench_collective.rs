//! Collectives between processes of this program: over sockets, since those are everywhere.

#![expect(clippy::unwrap_used, reason = "what fails in a test is to fail loudly")]
#![expect(clippy::expect_used, reason = "what fails in a test is to fail loudly")]
#![expect(clippy::panic, reason = "a test's way to fail")]
#![expect(clippy::disallowed_methods, reason = "tests run the binary")]

#[path = "shared/points.rs"]
mod points;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rdma_doctor::bench::collective::{Collective, DataType, Reduction};
use rdma_doctor::bench::plan::{Arm, Backend, Plan, Point, RankPlace, Run};
use rdma_doctor::bench::reply::{Ended, RankReply};
use rdma_doctor::source::Answer;
use rdma_doctor::source::wire::Line;
use rdma_doctor::source::worker::ranks::{Running, run};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

fn point(collective: Collective, bytes: u64) -> Point {
    Point {
        collective,
        bytes,
        dtype: DataType::Float32,
        op: Reduction::Sum,
        in_place: false,
        iterations: 1,
        awaited: false,
        gpu_memory: false,
        warmups: 1,
        trials: 2,
    }
}

fn plan(ranks: usize, points: Vec<Point>) -> Plan {
    Plan {
        backend: Backend::Tcp,
        library: None,
        ranks: vec![RankPlace::default(); ranks],
        points,
        baseline_points: Vec::new(),
        arms: vec![Arm::baseline()],
        runs: vec![Run { arm: 0, round: 0 }],
        seed: 7,
    }
}

fn running(deadline: f64) -> Running<'static> {
    Running {
        started_ns: 0,
        deadline: Duration::from_secs_f64(deadline),
        base: &[],
        program: Some(PathBuf::from(env!("CARGO_BIN_EXE_rdma-doctor"))),
    }
}

/// The replies of the ranks; the last line is the log's.
fn replies(lines: &[Line]) -> Vec<RankReply> {
    let value = |line: &Line| match line {
        Line::Reply { reply, .. } => match &reply.said {
            Ok(Answer::Value(value)) => serde_json::from_value((**value).clone()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let (_, ranks) = lines.split_last().expect("the log's line");
    ranks.iter().map(|line| value(line).unwrap()).collect()
}

fn measured(plan: &Plan, deadline: f64) -> Vec<RankReply> {
    replies(&run(&running(deadline), plan, plan.runs[0], |_, _| {}))
}

#[test]
fn each_collective_of_each_type_gives_each_rank_what_is_right() {
    for ranks in [1, 2, 4] {
        let points = points::all([4_099 * 4, 8 << 10, 40, 4]);
        let points = points.map(|of| Point {
            dtype: of.dtype,
            op: of.op,
            in_place: of.in_place,
            iterations: 2,
            ..point(of.collective, of.bytes)
        });
        let points = points.collect();
        let plan = plan(ranks, points);
        for (rank, reply) in measured(&plan, 60.0).into_iter().enumerate() {
            assert_eq!(reply.ended, Ended::Well, "{}", reply.step);
            assert_eq!(reply.points.len(), plan.points.len());
            for point in reply.points {
                assert_eq!(point.wrong, 0, "rank {rank} of {ranks}: {point:?}");
                assert_eq!(point.ms.len(), 2);
                assert!(point.ms.iter().all(|ms| *ms > 0.0));
                let size = point.point.dtype.size();
                let elements = point.point.bytes as usize / size;
                let receives = point.point.collective.shape(elements, ranks).receive as u64;
                let nothing = matches!(
                    point.point.collective,
                    Collective::Reduce | Collective::Gather
                ) && rank != 0;
                assert_eq!(point.checked, if nothing { 0 } else { receives });
            }
        }
    }
}

/// The doctor, measuring for minutes, with the ranks that it started.
struct Measuring {
    doctor: Child,
    ranks: Vec<u32>,
}

/// The children of a process that are ranks.
fn ranks_of(parent: u32) -> Vec<u32> {
    let is_rank = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default();
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        after.split_whitespace().nth(1) == Some(&parent.to_string())
            && line.ends_with(b"\0__rank\0")
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut ranks: Vec<u32> = pids.filter(is_rank).collect();
    ranks.sort_unstable();
    ranks
}

/// Whether a process runs; one that waits to be asked for its status does not.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|s| s.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

impl Measuring {
    fn start(ranks: usize, args: &[&str]) -> Self {
        let doctor = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
            .args([
                "bench",
                "all-reduce",
                "--backend",
                "tcp",
                "--format",
                "json",
            ])
            .args([
                "-b",
                "256K",
                "--trials",
                "1000",
                "--ranks",
                &ranks.to_string(),
            ])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = doctor.id();
        let begun = Instant::now();
        let mut started = Vec::new();
        while started.len() < ranks {
            assert!(begun.elapsed() < Duration::from_secs(60), "no ranks");
            std::thread::sleep(Duration::from_millis(20));
            started = ranks_of(pid);
        }
        // Past the connecting.
        std::thread::sleep(Duration::from_secs(1));
        Measuring {
            doctor,
            ranks: started,
        }
    }

    fn signal(pid: u32, signal: Signal) {
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// What the doctor reports, and its exit status.
    fn ends(self) -> (Value, Option<i32>) {
        let out = self.doctor.wait_with_output().unwrap();
        for rank in &self.ranks {
            assert!(!lives(*rank), "rank {rank} is left");
        }
        (
            serde_json::from_slice(&out.stdout).unwrap(),
            out.status.code(),
        )
    }
}

#[test]
fn a_rank_that_is_killed_is_named_and_the_others_do_not_stay() {
    let measuring = Measuring::start(3, &[]);
    let begun = Instant::now();
    Measuring::signal(measuring.ranks[1], Signal::KILL);
    let (report, status) = measuring.ends();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(status, Some(2));
    let troubles = report["troubles"].as_array().unwrap();
    assert_eq!(troubles.len(), 3, "{troubles:?}");
    let first = &troubles[0];
    // Ranks are started in their order, and so are their processes' numbers.
    assert_eq!(
        (&first["rank"], &first["ended"]),
        (&json!(1), &json!("died"))
    );
    assert_eq!(first["why"], "killed by signal 9");
    assert!(
        first["step"]
            .as_str()
            .unwrap()
            .starts_with("all-reduce of 256 KiB: ")
    );
    for other in &troubles[1..] {
        // Of the one that died, or of the other neighbour, which noticed before.
        let why = other["why"].as_str().unwrap();
        assert!(why.contains("rank "), "{other}");
    }
    assert_eq!(report["rows"][0]["time"], Value::Null);
}

#[test]
fn a_rank_that_hangs_is_named_with_its_last_step() {
    let measuring = Measuring::start(2, &["--deadline", "4"]);
    Measuring::signal(measuring.ranks[0], Signal::STOP);
    let begun = Instant::now();
    let (report, status) = measuring.ends();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(status, Some(2));
    let troubles = report["troubles"].as_array().unwrap();
    assert_eq!(troubles.len(), 2);
    for trouble in troubles {
        assert_eq!(trouble["ended"], "hung");
        let step = trouble["step"].as_str().unwrap();
        assert!(step.starts_with("all-reduce of 256 KiB: "), "{step}");
        let stopped = step.ends_with("(its process is stopped)");
        assert_eq!(stopped, trouble["rank"] == 0, "{step}");
    }
}

#[test]
fn nothing_is_left_of_a_measurement_that_is_interrupted() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut measuring = Measuring::start(2, &[]);
        Measuring::signal(measuring.doctor.id(), signal);
        let begun = Instant::now();
        while measuring.ranks.iter().any(|rank| lives(*rank)) {
            assert!(begun.elapsed() < Duration::from_secs(2), "{signal:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        let status = measuring.doctor.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()));
    }
}

#[test]
fn a_recording_replays_to_the_same_report_redacted_or_not() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    for redact in [true, false] {
        let file = dir.join(format!("collective-{redact}.jsonl"));
        let file = file.to_str().unwrap();
        let mut args = vec![
            "bench",
            "all-gather",
            "--backend",
            "tcp",
            "-b",
            "4K",
            "-e",
            "64K",
        ];
        args.extend(["-f", "4", "--format", "json", "-o", file]);
        if !redact {
            args.push("--no-redact");
        }
        let doctor = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"));
            let out = command.args(args).output().unwrap();
            // Beside other work a rank may be slower than the others, which is a warning.
            assert!(matches!(out.status.code(), Some(0 | 1)), "{out:?}");
            serde_json::from_slice::<Value>(&out.stdout).unwrap()
        };
        let mut measured = doctor(&args);
        let mut replayed = doctor(&["bench", "all-gather", "--format", "json", file]);
        assert_eq!(measured["rows"].as_array().unwrap().len(), 3);
        if redact {
            let text = std::fs::read_to_string(file).unwrap();
            let host = format!("\"host\":\"{}\"", measured["node"].as_str().unwrap());
            // A name that identifies nobody is its own pseudonym.
            if measured["node"] != replayed["node"] {
                assert!(!text.contains(&host), "the host's name");
            }
            // It has a pseudonym, the same everywhere.
            assert_eq!(replayed["ranks"][0]["host"], replayed["node"]);
            for report in [&mut measured, &mut replayed] {
                report["node"] = Value::Null;
                // They name the node.
                let findings = report["findings"].as_array_mut().unwrap();
                for finding in findings {
                    *finding = finding["check"].take();
                }
                for rank in report["ranks"].as_array_mut().unwrap() {
                    rank["host"] = Value::Null;
                }
            }
        }
        assert_eq!(measured, replayed);
    }
}

#[test]
fn wishes_that_do_not_go_together_are_refused() {
    for args in [
        &["all-to-all", "--in-place"][..],
        &["all-reduce", "--backend", "tcp", "--gpus", "0"],
        &["all-reduce", "--backend", "tcp", "-b", "1M", "-e", "1K"],
        &["all-reduce", "--backend", "mpi"],
        &["all-reduce", "--dtype", "float64"],
        &["all-reduce", "x.jsonl", "--ranks", "2"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"));
        let out = command.arg("bench").args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(64), "{args:?}");
    }
    // More memory than there is.
    let mut command = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"));
    command.args([
        "bench",
        "all-reduce",
        "--backend",
        "tcp",
        "-b",
        "128G",
        "--ranks",
        "64",
    ]);
    let out = command.output().unwrap();
    assert_eq!(out.status.code(), Some(3));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("of memory are needed"), "{text}");
}

#[test]
fn latency_and_flags_are_measured_and_replayed() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    for (name, args, schema) in [
        (
            "latency",
            &["--size", "400000"][..],
            "rdma-doctor-latency/1.0",
        ),
        ("flags", &["--rounds", "20"], "rdma-doctor-flags/1.0"),
    ] {
        let file = dir.join(format!("{name}.jsonl"));
        let file = file.to_str().unwrap();
        let doctor = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"));
            command.args(["bench", name, "--format", "json"]);
            let out = command.args(args).output().unwrap();
            let status = out.status.code();
            let text = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(status, Some(0), "{text}");
            serde_json::from_slice::<Value>(&out.stdout).unwrap()
        };
        let more = [
            "--backend",
            "tcp",
            "--ranks",
            "2",
            "--trials",
            "3",
            "--no-redact",
        ];
        let measured = doctor(&[args, &more, &["-o", file]].concat());
        assert_eq!(measured["schema"], schema);
        let figure = &measured["figure"];
        assert!(figure["ratio"].as_f64().unwrap() > 0.0, "{figure}");
        match name {
            "latency" => assert_eq!(figure["operations"], 1000),
            _ => assert_eq!(figure["rounds"], 20),
        }
        assert_eq!(doctor(&[file]), measured);
        // Each of them is no measurement of the other.
        let other = if name == "latency" {
            "flags"
        } else {
            "latency"
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"));
        let out = command.args(["bench", other, file]).output().unwrap();
        assert_eq!(out.status.code(), Some(3));
    }
}
