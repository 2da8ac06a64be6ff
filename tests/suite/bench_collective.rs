//! Collectives between processes of this program: over sockets, since those are everywhere.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::process::{Terminal, lives, ranks_of, signal, wait_until};
use rdma_doctor::measure::plan::collective::{Collective, DataType, Reduction};
use rdma_doctor::measure::plan::reply::{Ended, RankReply};
use rdma_doctor::measure::plan::run::{Arm, Backend, Plan, Point, RankPlacement, Run};
use rdma_doctor::measure::run::ranks::{RankProcess, run};
use rdma_doctor::source::Answer;
use rdma_doctor::source::wire::Line;
use rustix::process::Signal;
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
        adaptive: false,
        gpu_memory: false,
        warmups: Some(1),
        trials: 2,
    }
}

fn plan(ranks: usize, points: Vec<Point>) -> Plan {
    Plan {
        backend: Backend::Tcp,
        library: None,
        ranks: vec![RankPlacement::default(); ranks],
        points,
        baseline_points: Vec::new(),
        arms: vec![Arm::baseline()],
        runs: vec![Run { arm: 0, round: 0 }],
        seed: 7,
    }
}

fn running(deadline: f64) -> RankProcess<'static> {
    RankProcess {
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
        let points = crate::points::all([4_099 * 4, 8 << 10, 40, 4]);
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

impl Measuring {
    fn start(ranks: usize, args: &[&str]) -> Self {
        let (terminal, stderr) = Terminal::open();
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
            .stderr(stderr)
            .spawn()
            .unwrap();
        // Past the connecting.
        terminal.says("all-reduce of 256 KiB");
        let ranks = ranks_of(doctor.id());
        Measuring { doctor, ranks }
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
    signal(measuring.ranks[1], Signal::KILL);
    let (report, status) = measuring.ends();
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
    let measuring = Measuring::start(2, &["--deadline", "10"]);
    signal(measuring.ranks[0], Signal::STOP);
    let (report, status) = measuring.ends();
    assert_eq!(status, Some(2));
    let troubles = report["troubles"].as_array().unwrap();
    assert_eq!(troubles.len(), 2);
    for trouble in troubles {
        let stopped = trouble["step"].as_str().unwrap();
        let is_first = trouble["rank"] == 0;
        assert!(stopped.starts_with("all-reduce of 256 KiB: "), "{stopped}");
        assert_eq!(
            stopped.ends_with("(its process is stopped)"),
            is_first,
            "{stopped}"
        );
        // The other one hangs inside of the all-reduce, or waits before it for the one that does not come.
        let ended = (trouble["ended"].as_str().unwrap(), trouble["why"].as_str());
        let may = match ended {
            ("hung", _) => true,
            ("stopped", Some("waited for rank 0, which hung")) => !is_first,
            _ => false,
        };
        assert!(may, "{trouble}");
    }
}

#[test]
fn nothing_is_left_of_a_measurement_that_is_interrupted() {
    for ended_by in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut measuring = Measuring::start(2, &[]);
        signal(measuring.doctor.id(), ended_by);
        wait_until("the ranks end", || {
            !measuring.ranks.iter().any(|rank| lives(*rank))
        });
        let status = measuring.doctor.wait().unwrap();
        assert_eq!(status.signal(), Some(ended_by.as_raw()));
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
        args.extend(["-f", "4", "--format", "json", "--record", file]);
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

/// The form of nccl-tests, with the warm-up trials that there were.
#[test]
fn results_in_the_form_of_nccl_tests() {
    let doctor = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"));
        command.args(["bench", "all-reduce", "--backend", "tcp", "--ranks", "2"]);
        let out = command.args(args).output().unwrap();
        assert!(matches!(out.status.code(), Some(0 | 1)), "{out:?}");
        serde_json::from_slice::<Value>(&out.stdout).unwrap()
    };
    let sizes = ["-b", "4K", "-e", "64K", "-f", "4", "--trials", "3"];
    let form = ["--format", "nccl-tests"];
    let fixed = doctor(&[&sizes[..], &form, &["--warmups", "4"]].concat());
    assert_eq!(
        (&fixed["version"], &fixed["config"]["warmup_iters"]),
        (&1.into(), &4.into())
    );
    assert_eq!(fixed["config"]["step_factor"], 4);
    assert_eq!(fixed["config"]["devices"].as_array().unwrap().len(), 2);
    assert_eq!(fixed["out_of_bounds"]["okay"], "true");
    assert_eq!(fixed["start_time"].as_str().unwrap().len(), 19);
    let rows = fixed["results"].as_array().unwrap();
    let of_rows = rows.iter().map(|row| row["size"].as_u64().unwrap());
    assert_eq!(of_rows.collect::<Vec<_>>(), [4096, 16384, 65536]);
    let mut sum = 0.0;
    for row in rows {
        assert_eq!(
            (&row["type"], &row["redop"]),
            (&"float".into(), &"sum".into())
        );
        assert_eq!(
            (&row["root"], &row["in_place"]),
            (&"    -1".into(), &Value::Null)
        );
        assert_eq!(row["actual_iterations"], 300);
        let of = |key: &str| row["out_of_place"][key].as_f64().unwrap();
        let algbw = row["size"].as_f64().unwrap() / of("time") / 1e3;
        // Over two ranks busbw is algbw.
        for rate in [of("alg_bw"), of("bus_bw")] {
            assert!((rate / algbw - 1.0).abs() < 1e-6, "{row}");
        }
        assert_eq!(of("nwrong"), 0.0);
        sum += of("bus_bw");
    }
    let mean = fixed["average_bus_bandwidth"]["bandwidth"]
        .as_f64()
        .unwrap();
    assert!((mean - sum / 3.0).abs() < 1e-9);
    // Without a number they go on until they are steady, and the result says how many there were.
    let own = doctor(&[&sizes[..], &["--format", "json"]].concat());
    for row in own["rows"].as_array().unwrap() {
        let warmups = row["warmups"].as_u64().unwrap();
        assert!((2..=20).contains(&warmups), "{row}");
        let [time, mean] = ["busbw", "busbw_mean"].map(|key| row[key].as_f64().unwrap());
        assert!(mean > time / 10.0 && mean < time * 10.0, "{row}");
        assert!(row["variation"].as_f64().unwrap() >= 0.0);
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
        let measured = doctor(&[args, &more, &["--record", file]].concat());
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
