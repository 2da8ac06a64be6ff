//! Jobs that run: real processes of which one is stopped, gone, asleep or waits for a file, and jobs that work. The sentence names
//! the rank and its process, and a job that works is left alone.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::namespaces::{self, shell};
use crate::place::{Scratch, doctor, unique};
use crate::process::{PATIENT, signal, wait_for_file, wait_until};
use crate::stalls;

/// How many ranks a job has.
const RANKS: usize = 4;
/// After how many steps the odd rank does what it does.
const AFTER: u32 = 7;

/// A job on this machine; its processes end with it.
struct Job {
    folder: Scratch,
    ranks: Vec<Child>,
}

impl Job {
    /// A ring, of which rank 2 does something in its eighth step.
    fn where_rank_2(deed: &'static str) -> Self {
        Self::start(&|rank| if rank == 2 { deed } else { "" }, &[])
    }

    fn start(deed: &dyn Fn(usize) -> &'static str, variables: &[(&str, &str)]) -> Self {
        let folder = Scratch::new("running");
        let mut ranks = Vec::new();
        for rank in 0..RANKS {
            ranks.push(start_rank(&folder, rank, deed(rank), variables));
        }
        Job { folder, ranks }
    }

    fn pid(&self, rank: usize) -> u32 {
        self.ranks[rank].id()
    }

    fn pids(&self) -> Vec<u32> {
        self.ranks.iter().map(Child::id).collect()
    }

    /// Waits until rank 2 does what it was told, and these processes wait.
    fn reaches(&self, waiting: &[usize]) {
        wait_for_file(&self.folder.join("at.2"));
        self.wait(waiting);
    }

    fn wait(&self, waiting: &[usize]) {
        for rank in waiting {
            wait_until(&format!("rank {rank} waits"), || is_quiet(self.pid(*rank)));
        }
    }

    fn works(&self) {
        for rank in 0..RANKS {
            wait_for_file(&self.folder.join(format!("step.{rank}")));
        }
    }

    /// What is said of its ranks, and of their recording.
    fn said(&self) -> Said {
        self.said_with(&[])
    }

    /// The same with further options.
    fn said_with(&self, options: &[&str]) -> Said {
        Said::of(&self.pids(), &self.folder, options)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            let group = Pid::from_raw(rank.id().cast_signed()).unwrap();
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
            let _ = rank.wait();
        }
    }
}

fn start_rank(folder: &Path, rank: usize, deed: &str, variables: &[(&str, &str)]) -> Child {
    use std::os::unix::process::CommandExt as _;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/running_jobs/rank.py");
    let net = variables.iter().find(|(name, _)| *name == "NETNS");
    let mut command = Command::new(if net.is_some() { "ip" } else { "python3" });
    if let Some((_, net)) = net {
        command.args(["netns", "exec", net, "python3"]);
    }
    command
        .arg(script)
        .arg(folder)
        .arg(deed)
        .arg(AFTER.to_string())
        .env("RANK", rank.to_string())
        .env("LOCAL_RANK", rank.to_string())
        .env("WORLD_SIZE", RANKS.to_string())
        .env("LOCAL_WORLD_SIZE", RANKS.to_string())
        .env("MASTER_ADDR", "127.0.0.1")
        .env("MASTER_PORT", "29500")
        .env("TORCHELASTIC_RUN_ID", folder.file_name().unwrap())
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}

/// Whether a process's main thread does not run.
fn is_quiet(pid: u32) -> bool {
    let runs = || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).unwrap();
    let first = runs();
    std::thread::sleep(std::time::Duration::from_millis(150));
    first == runs()
}

/// A report.
pub(crate) struct Said {
    pub(crate) exit: i32,
    pub(crate) headline: String,
    /// The checks that lead, each with its sentence.
    pub(crate) causes: Vec<(String, String)>,
    pub(crate) all: String,
}

impl Said {
    /// Of these processes; a recording of it, redacted or not, says the same.
    fn of(pids: &[u32], folder: &Path, options: &[&str]) -> Self {
        let recorded = folder.join("job.jsonl");
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let live = Self::run(|command| {
            let record = ["--interval", "1", "--no-redact", "--record"];
            let command = command.arg("job").args(&pids).args(options);
            command.args(record).arg(&recorded)
        });
        let replayed = Self::run(|command| command.arg("check").arg(&recorded));
        assert_eq!(live.headline, replayed.headline);
        assert_eq!((live.exit, &live.causes), (replayed.exit, &replayed.causes));
        live
    }

    pub(crate) fn run(with: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut command = Command::new(doctor());
        with(&mut command)
            .args(["--json", "--all"])
            .stdin(Stdio::null());
        Self::read(&command.output().unwrap())
    }

    fn read(output: &Output) -> Self {
        let all = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        let report: Value = serde_json::from_str(&all).unwrap_or_else(|_| panic!("{all}{errors}"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let causes = report["causes"].as_array().unwrap().iter();
        Said {
            exit: output.status.code().unwrap(),
            headline: text(&report["headline"]),
            causes: causes
                .map(|one| (text(&one["check"]), text(&one["sentence"])))
                .collect(),
            all,
        }
    }

    /// Holds that one cause leads, and what its sentence says.
    pub(crate) fn leads(&self, exit: i32, check: &str, sentence: &str) {
        let causes: Vec<(&str, &str)> = self
            .causes
            .iter()
            .map(|(check, said)| (&**check, &**said))
            .collect();
        assert_eq!(causes, [(check, sentence)], "{}", self.all);
        assert_eq!(self.exit, exit, "{}", self.all);
    }

    /// Holds that the job is called working, with no warning.
    fn works(&self) {
        let causes: Vec<&String> = self.causes.iter().map(|(check, _)| check).collect();
        assert!(
            causes
                .iter()
                .all(|check| **check == "ranks/busy-alone" || **check == "ranks/flushes"),
            "{}",
            self.all
        );
        assert_eq!(self.exit, 0, "{}", self.all);
        assert!(
            self.headline.contains("working: 4 ranks"),
            "{}",
            self.headline
        );
    }
}

#[test]
fn a_rank_that_is_stopped_is_named() {
    let job = Job::where_rank_2("");
    job.works();
    signal(job.pid(2), Signal::STOP);
    job.wait(&[0, 1, 2, 3]);
    let rank = job.pid(2);
    let expected = format!(
        "rank 2 (pid {rank}) is stopped by a signal (state T); the other 3 wait in recv and did not move"
    );
    job.said().leads(2, "ranks/stopped", &expected);
}

#[test]
fn a_rank_that_is_frozen_is_named() {
    let (hierarchy, file, freeze) = match Path::new("/sys/fs/cgroup/freezer").is_dir() {
        true => ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN"),
        false => ("/sys/fs/cgroup", "cgroup.freeze", "1"),
    };
    let group = Path::new(hierarchy).join(unique("rd-frozen"));
    if let Err(why) = std::fs::create_dir(&group) {
        eprintln!("skipped: no control group can be made: {why}");
        return;
    }
    let group = Group(group);
    let job = Job::where_rank_2("");
    job.works();
    std::fs::write(group.0.join("cgroup.procs"), job.pid(2).to_string()).unwrap();
    std::fs::write(group.0.join(file), freeze).unwrap();
    job.wait(&[0, 1, 2, 3]);
    let rank = job.pid(2);
    let expected = format!(
        "rank 2 (pid {rank}) is frozen: its control group is suspended; the other 3 wait in recv and did not move"
    );
    let said = job.said();
    std::fs::write(
        group.0.join(file),
        if freeze == "1" { "0" } else { "THAWED" },
    )
    .unwrap();
    drop(job);
    said.leads(2, "ranks/stopped", &expected);
}

/// A control group, which goes with the value once nothing is in it.
struct Group(std::path::PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        wait_until("the group is empty", || {
            std::fs::remove_dir(&self.0).is_ok()
        });
    }
}

#[test]
fn a_rank_that_is_gone_is_named_and_by_its_parent_too() {
    let mut job = Job::where_rank_2("");
    job.works();
    job.ranks[2].kill().unwrap();
    job.wait(&[0, 1, 3]);
    // Its parent, this test, has not asked for its status: with its number it is found.
    let rank = job.pid(2);
    let missing = "without a process: rank 2; rank 0, rank 1 and rank 3 have one";
    job.said().leads(2, "ranks/missing", missing);
    job.ranks[2].wait().unwrap();
    let others: Vec<u32> = job.pids().into_iter().filter(|pid| *pid != rank).collect();
    Said::of(&others, &job.folder, &[]).leads(2, "ranks/missing", missing);
}

#[test]
fn the_flight_recorder_of_each_rank_is_asked_for_its_dump() {
    let dumps = Scratch::new("dumps");
    stalls::without_rank_2(RANKS as u32).write(&dumps);
    let written = Scratch::new("written");
    let prefix = written.join("trace_").display().to_string();
    let variables = [
        ("DUMPS", dumps.to_str().unwrap()),
        ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", &prefix),
        ("TORCH_FR_DUMP_TEMP_FILE", &prefix),
    ];
    let job = Job::start(&|rank| if rank == 2 { "skip" } else { "" }, &variables);
    job.reaches(&[0, 1, 2, 3]);
    let silent = job.said();
    assert!(!silent.all.contains("collectives/"), "{}", silent.all);
    let said = job.said_with(&["--dump"]);
    let names = |(check, sentence): &(String, String)| {
        check.starts_with("collectives/") && sentence.contains("rank 2 did not join")
    };
    assert!(said.causes.iter().any(names), "{}", said.all);

    let job = Job::start(&|rank| if rank == 2 { "skip" } else { "" }, &[]);
    job.reaches(&[0, 1, 2, 3]);
    let said = job.said_with(&["--dump"]);
    let expected = "4 flight recorder's dumps were not read (rank 0, rank 1, rank 2, rank 3: TORCH_NCCL_DEBUG_INFO_PIPE_FILE is not set)";
    assert!(said.all.contains(expected), "{}", said.all);
}

#[test]
fn a_rank_that_reads_mapped_files_from_the_disk_is_a_note() {
    let job = Job::where_rank_2("mapped");
    job.reaches(&[0, 1, 3]);
    let said = job.said();
    let begin = format!("rank 2 (pid {}) reads ", job.pid(2));
    assert!(said.all.contains(&begin), "{}", said.all);
    assert!(
        said.all.contains("pages a second from mapped files"),
        "{}",
        said.all
    );
    assert_eq!(said.exit, 0, "{}", said.all);
}

/// The py-spy that the tests have; `None` where there is none, or where it may read no memory.
pub(crate) fn py_spy() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"));
    let program = target.join("python/py-spy/bin/py-spy");
    if !program.exists() || !rustix::process::getuid().is_root() {
        let _ = writeln!(std::io::stderr(), "skipped: no py-spy, or not root");
        return None;
    }
    Some(program)
}

#[test]
fn where_the_python_program_of_a_rank_stands_is_told() {
    let Some(py_spy) = py_spy() else {
        return;
    };
    let job = Job::where_rank_2("fifo");
    job.reaches(&[0, 1, 2, 3]);
    let said = job.said_with(&[&format!("--stacks={}", py_spy.display())]);
    let (check, sentence) = &said.causes[0];
    assert_eq!(check, "ranks/differs", "{}", said.all);
    assert!(
        sentence.contains("; its Python program is in fifo (rank.py:"),
        "{sentence}"
    );

    // All wait in the same call of the kernel, one of them for another thing.
    let job = Job::where_rank_2("elsewhere");
    job.reaches(&[0, 1, 2, 3]);
    let said = job.said_with(&[&format!("--stacks={}", py_spy.display())]);
    let begin = format!("rank 2 (pid {}) waits in elsewhere (rank.py:", job.pid(2));
    let (check, sentence) = &said.causes[0];
    assert_eq!(check, "ranks/differs", "{}", said.all);
    assert!(sentence.starts_with(&begin), "{sentence}");
    assert!(
        sentence.contains("; the other 3 in receive (rank.py:"),
        "{sentence}"
    );
    let said = job.said_with(&["--stacks=/no/such/py-spy"]);
    assert_eq!(said.exit, 3, "{}", said.all);
    assert!(said.all.contains("its Python program: "), "{}", said.all);
}

#[test]
fn a_rank_that_sleeps_is_named() {
    for (deed, waiting) in [("sleep", &[0, 1, 2, 3][..]), ("doze", &[0, 1, 3])] {
        let job = Job::where_rank_2(deed);
        job.reaches(waiting);
        let rank = job.pid(2);
        let expected = format!(
            "rank 2 (pid {rank}) sleeps (nanosleep); the other 3 wait in recv and did not move"
        );
        job.said().leads(1, "ranks/differs", &expected);
    }
}

#[test]
fn a_rank_that_only_looks_again_while_the_others_do_nothing_is_named() {
    let job = Job::where_rank_2("poll");
    job.reaches(&[0, 1, 3]);
    let rank = job.pid(2);
    let expected =
        format!("rank 2 (pid {rank}) waits in select; the other 3 wait in recv and did not move");
    job.said().leads(1, "ranks/differs", &expected);
}

#[test]
fn a_rank_that_sleeps_while_the_others_spin_is_named() {
    let job = Job::start(
        &|rank| if rank == 2 { "sleep" } else { "" },
        &[("SPINS", "1")],
    );
    job.reaches(&[2]);
    let rank = job.pid(2);
    let expected = format!("rank 2 (pid {rank}) sleeps (nanosleep); the other 3 use CPU time");
    job.said().leads(1, "ranks/differs", &expected);
}

/// GPU N belongs to rank N. What the library answers is made up (`tests/standin`).
#[test]
fn a_rank_whose_gpu_is_idle_while_those_of_the_others_spin_is_named() {
    let job = Job::start(&|rank| if rank == 2 { "sleep" } else { "evaluate" }, &[]);
    job.reaches(&[2]);
    let Some(stage) = crate::stage::Stage::new("hgx-h100.toml") else {
        return;
    };
    let mut described = String::new();
    for (rank, pid) in job.pids().into_iter().enumerate() {
        let (kernel, watts) = if rank == 2 { (0, 70) } else { (100, 120) };
        described += &format!(
            "[gpus.{rank}.nvml]
            nvmlDeviceGetComputeRunningProcesses_v3 = [{{ pid = {pid}, memory = 1 }}]
            \"nvmlDeviceGetUtilizationRates/gpu\" = {kernel}
            \"nvmlDeviceGetUtilizationRates/memory\" = 0
            nvmlDeviceGetPowerUsage = {watts}000
            nvmlDeviceGetEnforcedPowerLimit = 700000\n"
        );
    }
    let stage = stage
        .library("standin_nvidia_ml", "libnvidia-ml.so.1")
        .overlaid(&described);
    let pids: Vec<String> = job.pids().iter().map(u32::to_string).collect();
    let pids: Vec<&str> = pids.iter().map(String::as_str).collect();
    let options = ["job", "--interval", "1", "--json", "--all"];
    let said = Said::read(&stage.run(&[&options[..], &pids].concat()));
    let rank = job.pid(2);
    let expected = format!(
        "rank 2 (pid {rank}) has launched nothing on its GPU, which is idle; its process sleeps (nanosleep); the GPUs of the other 3 spin (100 % busy, memory 0 %, 120 W of 700 W)"
    );
    said.leads(1, "ranks/differs", &expected);
}

#[test]
fn a_rank_whose_thread_waits_while_that_of_the_others_spins_is_named() {
    let job = Job::start(&|_| "progress", &[]);
    job.reaches(&[0, 1, 2, 3]);
    let rank = job.pid(2);
    let expected = format!(
        "rank 2 (pid {rank}) has a thread proxy that waits in read; that of the other 3 uses CPU time"
    );
    job.said().leads(1, "ranks/differs", &expected);
}

#[test]
fn a_redacted_recording_says_the_same_without_names() {
    let job = Job::where_rank_2("fifo");
    job.reaches(&[0, 1, 2, 3]);
    let recorded = job.folder.join("redacted.jsonl");
    let pids: Vec<String> = job.pids().iter().map(u32::to_string).collect();
    let live = Said::run(|command| {
        let record = ["--interval", "1", "--record"];
        command.arg("job").args(&pids).args(record).arg(&recorded)
    });
    let replayed = Said::run(|command| command.arg("check").arg(&recorded));
    assert_eq!(live.exit, replayed.exit);
    let begin = format!("rank 2 (pid {}) waits to read /", job.pid(2));
    assert!(live.headline.starts_with(&begin), "{}", live.headline);
    assert!(
        replayed.headline.starts_with(&begin),
        "{}",
        replayed.headline
    );
    let text = std::fs::read_to_string(&recorded).unwrap();
    let folder = job.folder.file_name().unwrap().to_str().unwrap();
    assert!(!text.contains(folder) && !text.contains("fifo\""), "{text}");
}

#[test]
fn a_peer_behind_a_packet_filter_is_told_by_what_it_does_not_acknowledge() {
    if !namespaces::can_run(
        "a packet filter",
        &["nft"],
        "ip netns exec $ns nft add table t",
    ) {
        return;
    }
    let net = unique("rd-ring");
    let (done, said) = shell(&format!("ip netns add {net} && ip -n {net} link set lo up"));
    assert!(done, "{said}");
    let net = Namespace(net);
    let job = Job::start(&|_| "", &[("NETNS", net.0.as_str())]);
    job.works();
    let port = std::fs::read_to_string(job.folder.join("port.2")).unwrap();
    let inside = format!("ip netns exec {}", net.0);
    let rules = format!(
        "{inside} nft add table t; {inside} nft 'add chain t c {{ type filter hook input priority 0; }}'; {inside} nft add rule t c tcp dport {port} drop"
    );
    let (done, said) = shell(&rules);
    assert!(done, "{said}");
    job.wait(&[0, 1, 2, 3]);
    let is_sent_again = || {
        let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", job.pid(1))).unwrap();
        let mut lines = table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.any(|fields| u64::from_str_radix(fields[6], 16).unwrap() >= 4)
    };
    wait_until("it is sent again", is_sent_again);
    let said = job.said();
    let begin = format!(
        "rank 1 (pid {}): 127.0.0.1:{port} (rank 2 (pid {})) does not acknowledge 1 B, sent again ",
        job.pid(1),
        job.pid(2)
    );
    let (check, sentence) = &said.causes[0];
    assert_eq!(check, "ranks/not-acknowledged", "{}", said.all);
    assert!(
        sentence.starts_with(&begin) && said.causes.len() == 1,
        "{}",
        said.all
    );
    assert_eq!(said.exit, 2);
}

/// A network namespace, which goes with the value.
struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        shell(&format!("ip netns del {}", self.0));
    }
}

#[test]
fn a_rank_that_waits_for_a_fifo_is_named_and_one_whose_loader_does() {
    let job = Job::where_rank_2("fifo");
    job.reaches(&[0, 1, 2, 3]);
    let rank = job.pid(2);
    let fifo = job.folder.join("fifo").display().to_string();
    let expected = format!(
        "rank 2 (pid {rank}) waits to read {fifo} (FIFO); the other 3 wait in recv and did not move"
    );
    job.said().leads(1, "ranks/differs", &expected);

    let job = Job::where_rank_2("loader");
    job.reaches(&[0, 1, 2, 3]);
    let rank = job.pid(2);
    let said = job.said();
    let begin = format!(
        "rank 2 (pid {rank}) waits to read a pipe; the other 3 wait in recv and did not move; its process "
    );
    let [(check, sentence)] = said.causes.as_slice() else {
        panic!("{}", said.all)
    };
    assert_eq!(check, "ranks/differs");
    let end = format!(
        "waits to read {} (FIFO)",
        job.folder.join("batches").display()
    );
    assert!(
        sentence.starts_with(&begin) && sentence.ends_with(&end),
        "{sentence}"
    );
}

#[test]
fn a_rank_that_waits_for_a_file_system_is_named_with_its_mount() {
    if !rustix::process::getuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: only root mounts a file system");
        return;
    }
    let job = Job::where_rank_2("file");
    job.reaches(&[0, 1, 2, 3]);
    let rank = job.pid(2);
    let mount = job.folder.join("data").display().to_string();
    let expected = format!(
        "rank 2 (pid {rank}) waits in stat on {mount} (fuse of storage:/data) and did not run for 1 s; the other 3 wait in recv and did not move"
    );
    job.said().leads(1, "ranks/blocked", &expected);
}

#[test]
fn all_that_wait_alike_did_not_move_and_nobody_is_accused() {
    let job = Job::start(&|_| "skip", &[]);
    job.reaches(&[0, 1, 2, 3]);
    job.said().leads(
        1,
        "ranks/not-moving",
        "did not move in 1 s: 4 ranks wait in recv",
    );
}

#[test]
fn a_rank_that_spins_or_evaluates_is_a_note_and_the_job_works() {
    let job = Job::where_rank_2("spin");
    job.reaches(&[0, 1, 3]);
    let said = job.said();
    said.works();
    let rank = job.pid(2);
    let waited_for = format!("; the others wait for rank 2 (pid {rank})");
    assert!(said.headline.ends_with(&waited_for), "{}", said.headline);
    let begin = format!("rank 2 (pid {rank}) used ");
    assert!(said.all.contains(&begin), "{}", said.all);
    assert!(
        said.all
            .contains("of a CPU in 1 s; the other 3 wait in recv and did not move"),
        "{}",
        said.all
    );
}

#[test]
fn jobs_that_work_are_called_working() {
    let steps: [&[(&str, &str)]; 2] = [&[], &[("STEP", "30")]];
    for variables in steps {
        let job = Job::start(&|_| "", variables);
        if variables.is_empty() {
            job.works();
        } else {
            for rank in 0..RANKS {
                wait_for_file(&job.folder.join(format!("port.{rank}")));
                wait_until("it computes", || !is_quiet(job.pid(rank)));
            }
        }
        for _ in 0..10 {
            job.said().works();
        }
    }
    for deed in ["slow", "checkpoint", "evaluate"] {
        let job = Job::where_rank_2(deed);
        if deed == "slow" {
            job.works();
        } else {
            wait_for_file(&job.folder.join("at.2"));
        }
        for _ in 0..10 {
            job.said().works();
        }
    }
    assert!(PATIENT.as_secs() > 30);
}

#[test]
fn what_may_not_be_looked_at_is_said() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root becomes another user");
        return;
    }
    let job = Job::where_rank_2("");
    job.works();
    let pids: Vec<String> = job.pids().iter().map(u32::to_string).collect();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command
        .arg(doctor())
        .arg("job")
        .args(&pids)
        .args(["--interval", "1", "--json"]);
    let said = Said::read(&command.output().unwrap());
    assert_eq!(said.exit, 3, "{}", said.all);
    assert!(
        said.headline.contains("may not be looked at (run as root)"),
        "{}",
        said.headline
    );
}

#[test]
fn without_a_number_the_ranks_are_found() {
    let job = Job::where_rank_2("sleep");
    job.reaches(&[0, 1, 2, 3]);
    let said = Said::run(|command| command.args(["job", "--interval", "1"]));
    let expected = format!("rank 2 (pid {}) sleeps (nanosleep)", job.pid(2));
    assert!(said.all.contains(&expected), "{}", said.all);
}

/// A stand-in of RAS: it speaks the protocol of NCCL's own client and has a status in the documented form; the status is made up.
struct Ras {
    address: String,
    asked: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
}

impl Ras {
    /// Rank 2 of a communicator of four launched four operations fewer than the others.
    fn start() -> Self {
        use std::io::{BufRead, BufReader, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = std::sync::Arc::<std::sync::Mutex<Vec<String>>>::default();
        let heard = std::sync::Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for line in lines.map_while(Result::ok) {
                    heard.lock().unwrap().push(line.clone());
                    let answer = match line.as_str() {
                        "CLIENT PROTOCOL 2" => "SERVER PROTOCOL 2\n".to_owned(),
                        "VERBOSE STATUS" => status_of_ras(),
                        _ => "OK\n".to_owned(),
                    };
                    stream.write_all(answer.as_bytes()).unwrap();
                    if line == "VERBOSE STATUS" {
                        break;
                    }
                }
            }
        });
        Ras { address, asked }
    }

    fn heard(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn status_of_ras() -> String {
    let ranks: Vec<Value> = (0..RANKS)
        .map(|rank| {
            let launched = if rank == 2 { 60 } else { 64 };
            serde_json::json!({ "rank": rank, "host": "n1", "pid": 100 + rank, "cuda_dev": rank, "nvml_dev": rank,
                "status": { "init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false },
                "collective_counts": { "AllReduce": launched } })
        })
        .collect();
    serde_json::json!({ "nccl_version": "2.30.7", "communicators_count": 1, "communicators": [
        { "hash": "0x78db921d1c117b4a", "size": RANKS, "ranks": ranks, "missing_ranks": [] } ],
        "ras": { "collection_time_sec": 0.002, "timeouts_count": 0 } })
    .to_string()
}

/// What is said of a job whose ranks wait for each other, where they have mapped this library.
fn said_with_ras(library: &str, ras: &Ras, how: &str) -> Said {
    let place = Scratch::new("nccl");
    let library = place.join(library);
    std::fs::write(&library, [0; 64]).unwrap();
    let library = library.to_str().unwrap().to_owned();
    let job = Job::start(
        &|rank| if rank == 2 { "skip" } else { "" },
        &[("MAPS", &library)],
    );
    job.reaches(&[0, 1, 2, 3]);
    let pids: Vec<String> = job.pids().iter().map(u32::to_string).collect();
    Said::run(|command| {
        let options = ["job", "--interval", "1", how];
        command
            .args(options)
            .args(&pids)
            .env("NCCL_RAS_ADDR", &ras.address)
    })
}

#[test]
fn ras_names_the_rank_that_is_behind_where_it_is_safe_to_ask() {
    let ras = Ras::start();
    let said = said_with_ras("libnccl.so.2.30.7", &ras, "--ras");
    let behind = said
        .causes
        .iter()
        .find(|(check, _)| check.starts_with("collectives/"));
    let sentence = behind.map(|(_, sentence)| sentence.clone());
    let sentence = sentence.unwrap_or_else(|| panic!("{}", said.all));
    assert!(sentence.starts_with("rank 2 (n1)"), "{sentence}");
    let once = [
        "CLIENT PROTOCOL 2",
        "TIMEOUT 5",
        "SET FORMAT json",
        "VERBOSE STATUS",
    ];
    assert_eq!(ras.heard(), [once, once].concat());
}

#[test]
fn ras_is_not_asked_where_that_can_crash_the_job() {
    let ras = Ras::start();
    for library in ["libnccl.so.2.27.5", "libnccl.so.2.29.1", "libnccl.so.2"] {
        let said = said_with_ras(library, &ras, "--ras");
        assert_eq!(ras.heard(), [""; 0], "{library}");
        assert!(
            said.all.contains("status of NCCL's RAS was not read"),
            "{}",
            said.all
        );
        assert!(said.all.contains("--ras=anyway"), "{}", said.all);
    }
    said_with_ras("libnccl.so.2.27.5", &ras, "--ras=anyway");
    assert_eq!(ras.heard().len(), 8);
}
