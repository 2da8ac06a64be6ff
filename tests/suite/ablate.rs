//! `rdma-doctor ablate`: from the figures of arms to the cause.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::place::{self, Scratch};
use crate::process::{self, lives, wait_for_file, wait_until};
use rustix::process::Signal;

fn doctor(args: &[&str]) -> (String, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
        .args(args)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors, "", "{args:?}");
    (text, output.status.code().unwrap())
}

fn json(args: &[&str]) -> serde_json::Value {
    let (text, _) = doctor(&[args, &["--format", "json"]].concat());
    serde_json::from_str(&text).unwrap()
}

/// The finding of a check, its causes and notes together.
fn finding<'v>(value: &'v serde_json::Value, check: &str) -> Option<&'v str> {
    let all = ["causes", "notes"].map(|kind| value["report"][kind].as_array().unwrap());
    let mut all = all.into_iter().flatten();
    all.find(|finding| finding["check"] == check)
        .and_then(|finding| finding["sentence"].as_str())
}

const SEED: &str = "tests/ablation/seed.md";

/// Two nodes of A800, ZeRO-3 with offload, 50 steps, as its author measured by hand.
#[test]
fn the_eight_arms_that_somebody_measured() {
    let value = json(&["ablate", "--table", SEED, "--nodes", "2"]);
    let headline = value["report"]["headline"].as_str().unwrap();
    assert!(
        headline.starts_with("NCCL_IB_DISABLE=1 changes nothing in 4 of 4 pairs"),
        "{headline}"
    );
    let ib = finding(&value, "ablation/settles-nothing").unwrap();
    for words in [
        "not even where P2P and shared memory are off",
        "RDMA was never in use, or the network is not the bottleneck",
        "`via NET/IB` or `via NET/Socket`",
    ] {
        assert!(ib.contains(words), "{ib}");
    }
    let p2p = finding(&value, "ablation/p2p-off-costs").unwrap();
    assert!(p2p.contains("28 % if nothing else is off"), "{p2p}");
    let shm = finding(&value, "ablation/shm-off-costs").unwrap();
    assert!(
        shm.contains("with NCCL_P2P_DISABLE=1 it costs another 11–12 %"),
        "{shm}"
    );
    let odd = finding(&value, "ablation/table-contradicts-itself").unwrap();
    assert!(
        odd.contains("1:44:18 at 1.075 and 1:50:12 at 1.087"),
        "{odd}"
    );
    // That is all: the other seven pairs of rows agree with themselves.
    let measurement = &value["measurements"][0];
    let odd: Vec<_> = measurement["factors"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|factor| factor["effects"].as_array().unwrap())
        .filter(|effect| effect["contradictory"] == true)
        .collect();
    assert_eq!(odd.len(), 1);
    assert_eq!(value["report"]["causes"].as_array().unwrap().len(), 2);
    assert_eq!(measurement["user_reported"], true);
    assert_eq!(measurement["factors"].as_array().unwrap().len(), 3);
}

#[test]
fn how_many_nodes_took_part_decides_what_a_table_says_of_the_network() {
    // On one node nothing crosses the network: that it may not changes nothing, and means nothing.
    let value = json(&["ablate", "--table", SEED, "--nodes", "1"]);
    assert_eq!(finding(&value, "ablation/settles-nothing"), None);
    assert!(finding(&value, "ablation/p2p-off-costs").is_some());
    // Where nobody says it, the question is open all the same.
    let value = json(&["ablate", "--table", SEED]);
    assert!(finding(&value, "ablation/settles-nothing").is_some());
}

#[test]
fn a_table_is_shown_and_recorded() {
    let (text, status) = doctor(&["ablate", "--table", SEED]);
    assert_eq!(status, 1, "{text}");
    for line in [
        "  baseline                1.089 samples/s           ",
        "  ib-off+shm-off+p2p-off  0.697 samples/s    -36.0 %",
        "as somebody wrote it down",
    ] {
        assert!(text.contains(line), "{line:?} in\n{text}");
    }
    let dir = std::env::temp_dir().join(format!("rdma-doctor-ablate-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("table.jsonl");
    let path = path.to_str().unwrap();
    let (first, _) = doctor(&["ablate", "--table", SEED, "--record", path]);
    let (again, _) = doctor(&["ablate", path]);
    assert_eq!(first, again);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_is_no_table_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
        .args(["ablate", "--table", "Cargo.toml"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(65));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("Cargo.toml: no table"), "{error}");
}

/// A job of several processes, of which nobody waits for most: one in the job's own process group, and as workers of torchrun are, one in a session of its
/// own, and one there whose parent has ended and that takes no SIGTERM. Each writes its number; `then` is what the first does afterwards.
fn job_of_many(dir: &Scratch, then: &str) -> String {
    format!(
        "cd {}; sleep 300 & echo $! >a; setsid sh -c 'echo $$ >b; exec sleep 301' & \
         setsid sh -c 'setsid sh -c \"trap : TERM; echo \\$\\$ >c; while :; do sleep 302; done\" & :'; echo $$ >d; \
         while ! [ -s a -a -s b -a -s c ]; do sleep 0.01; done; cat a b c d >new; mv new pids; {then}",
        dir.display()
    )
}

/// An ablation of a job, whose output is thrown away.
fn ablating(job: &str, deadline: &str) -> Command {
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"));
    doctor
        .args(["ablate", "--only", "--run", "X=1", "--rounds", "1"])
        .args(["--deadline", deadline, "--metric", "x=([0-9]+)", "--"])
        .args(["sh", "-c", job])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    doctor
}

/// The job's processes, once they have said who they are.
fn pids_of(dir: &Scratch) -> Vec<u32> {
    let pids = std::fs::read_to_string(dir.join("pids")).unwrap();
    let pids: Vec<u32> = (pids.split_whitespace())
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(pids.len(), 4, "{pids:?}");
    pids
}

#[test]
fn nothing_is_left_of_a_job_whose_ablation_is_interrupted() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let dir = Scratch::new("job");
        let job = job_of_many(&dir, "exec sleep 303");
        let mut doctor = ablating(&job, "200").spawn().unwrap();
        wait_for_file(&dir.join("pids"));
        let pids = pids_of(&dir);
        assert!(pids.iter().all(|pid| lives(*pid)), "{pids:?}");
        process::signal(doctor.id(), signal);
        wait_until("the end of the job", || !pids.iter().any(|pid| lives(*pid)));
        assert_eq!(doctor.wait().unwrap().signal(), Some(signal.as_raw()));
    }
}

#[test]
fn nothing_is_left_of_a_run_that_hangs_or_ends() {
    for (then, word) in [("exec sleep 303", "hung"), ("echo x=7", "7")] {
        let dir = Scratch::new("job");
        let job = job_of_many(&dir, &format!("cp pids pids.$X; {then}"));
        let mut doctor = ablating(&job, "8");
        let ended = doctor.stdout(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        let pids = pids_of(&dir);
        let left: Vec<u32> = pids.into_iter().filter(|pid| lives(*pid)).collect();
        assert_eq!(left, [0; 0], "{said}");
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn without_nccl_arms_change_the_connections() {
    let dir = Scratch::new("arms");
    let recording = dir.join("arms.jsonl");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"));
    command.args([
        "ablate",
        "--backend",
        "tcp",
        "--size",
        "4M",
        "--rounds",
        "1",
    ]);
    command.args(["--format", "json", "--no-redact", "--record"]);
    let output = command.arg(&recording).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let arms = value["measurements"][0]["arms"].as_array().unwrap();
    let names: Vec<&str> = arms
        .iter()
        .map(|arm| arm["name"].as_str().unwrap())
        .collect();
    let changes = ["streams=1", "streams=4", "message=16384", "mtu=1280"];
    assert_eq!(names[0], "baseline", "{value:#}");
    assert_eq!(names[1..], changes, "{value:#}");
    for (arm, used) in arms[1..].iter().zip([
        "1 connection, ",
        "4 connections",
        "16 KiB a write",
        "1228 B a segment",
    ]) {
        assert!(arm["paths"].as_str().unwrap().contains(used), "{arm:#}");
        assert_ne!(arm["honoured"], "not-logged", "{arm:#}");
    }
    // What each rank says that it used.
    let text = std::fs::read_to_string(&recording).unwrap();
    for (arm, said) in [
        ("streams=1", "1 connection, "),
        ("streams=4", "4 connections"),
    ] {
        let question = format!("\"arm\":\"{arm}\"");
        let ranks = text
            .lines()
            .filter(|line| line.contains(&question) && line.contains(said));
        assert_eq!(ranks.count(), 2, "{arm}");
    }
}

#[test]
fn the_rank_that_a_run_of_the_job_hung_for_is_named() {
    let folder = Scratch::new("hung-job");
    let rank = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/running_jobs/rank.py");
    let script = format!(
        "mkdir {0}/$$
         for rank in 0 1 2 3; do
             deed=; if [ $rank = 2 ]; then deed=sleep; fi
             RANK=$rank LOCAL_RANK=$rank python3 {1} {0}/$$ \"$deed\" 7 &
         done
         wait",
        folder.display(),
        rank.display()
    );
    let output = Command::new(place::doctor())
        .args(["ablate", "--rounds", "1", "--deadline", "5", "--"])
        .args(["sh", "-c", &script])
        .env("WORLD_SIZE", "4")
        .env("LOCAL_WORLD_SIZE", "4")
        .env("MASTER_ADDR", "127.0.0.1")
        .env("MASTER_PORT", "29500")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let headline = said.lines().next().unwrap();
    assert!(headline.starts_with("ERROR rank 2 (pid "), "{said}");
    let end = ") sleeps (nanosleep); the other 3 wait in recv and did not move";
    assert!(headline.ends_with(end), "{said}");
    assert!(said.contains("a run of baseline hung"), "{said}");
    assert_eq!(output.status.code(), Some(2), "{said}");
}

/// A worker of torchrun: it sums over gloo, leaves a process in a session of its own, and writes down who they are.
const WORKER: &str = "
import os, subprocess, sys, time
import torch, torch.distributed as dist
dist.init_process_group('gloo')
sum = torch.ones(4)
dist.all_reduce(sum)
assert sum[0].item() == 2
left = subprocess.Popen(['sleep', '304'], start_new_session=True)
rank = dist.get_rank()
with open(f'new.{rank}', 'w') as file:
    file.write(f'{os.getppid()} {os.getpid()} {left.pid}')
dist.barrier()
if rank == 0:
    both = open('new.0').read() + ' ' + open('new.1').read()
    with open('new', 'w') as file:
        file.write(both)
    os.rename('new', 'pids')
if sys.argv[1] == 'hang':
    time.sleep(300)
print('x=7')
";

#[test]
fn nothing_is_left_of_torchruns_workers() {
    let mut python = Command::new("python3");
    let torch = python.args(["-c", "import torch.distributed.run"]).output();
    if !torch.is_ok_and(|torch| torch.status.success()) {
        eprintln!("skipped: python3 has no torch (Debian: python3-torch)");
        return;
    }
    for (then, signal) in [
        ("hang", Some(Signal::TERM)),
        ("hang", Some(Signal::INT)),
        ("end", None),
    ] {
        let dir = Scratch::new("torch");
        std::fs::write(dir.join("worker.py"), WORKER).unwrap();
        // Debian's torch 1.13 does not take its own default for -r and -t with Python 3.11.
        let job = format!(
            "cd {}; GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 exec python3 -m torch.distributed.run --standalone -r 1 -t 1 --nproc_per_node 2 worker.py {then}",
            dir.display()
        );
        let mut doctor = ablating(&job, "300")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_file(&dir.join("pids"));
        let text = std::fs::read_to_string(dir.join("pids")).unwrap();
        let pids: Vec<u32> = text
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect();
        assert_eq!(pids.len(), 6, "{text}");
        if let Some(signal) = signal {
            assert!(pids.iter().all(|pid| lives(*pid)), "{pids:?}");
            process::signal(doctor.id(), signal);
            wait_until("the end of the job", || !pids.iter().any(|pid| lives(*pid)));
            assert_eq!(doctor.wait().unwrap().signal(), Some(signal.as_raw()));
            continue;
        }
        let said = doctor.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains('7'), "{said}");
        let text = std::fs::read_to_string(dir.join("pids")).unwrap();
        let last = text.split_whitespace().map(|pid| pid.parse().unwrap());
        let left: Vec<u32> = pids
            .into_iter()
            .chain(last)
            .filter(|pid| lives(*pid))
            .collect();
        assert_eq!(left, [0; 0], "{said}");
    }
}
