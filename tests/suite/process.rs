//! Processes: those that a test starts, whose output is kept and which end with the test, and those that it looks for in /proc.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The longest wait for a state. A machine that is busy with something else reaches it late; one that never does fails the test.
pub(crate) const PATIENT: Duration = Duration::from_secs(120);

/// Waits until something is so; a failure that names it where it never is.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENT, "never came: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs this build to its end, with nothing to read.
pub(crate) fn run_doctor(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"));
    command.args(args).stdin(Stdio::null()).output().unwrap()
}

/// A process as /proc shows it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The file name of what it executes; empty where that is not readable.
    pub(crate) program: String,
    /// Its command line.
    pub(crate) words: Vec<String>,
}

impl Process {
    /// The process of this number; `None` where there is none, or it is a zombie.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        if !lives(pid) {
            return None;
        }
        let dir = format!("/proc/{pid}");
        let program = std::fs::read_link(format!("{dir}/exe")).unwrap_or_default();
        let program = program.file_name().unwrap_or_default().to_string_lossy();
        let line = std::fs::read(format!("{dir}/cmdline")).unwrap_or_default();
        let words = line
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty());
        Some(Process {
            pid,
            program: program.trim_end_matches(" (deleted)").to_owned(),
            words: words
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect(),
        })
    }

    /// All processes of this machine.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| Self::of(entry.file_name().to_str()?.parse().ok()?))
    }

    /// Whether its command line has this word.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|own| own == word)
    }

    fn parent(&self) -> Option<u32> {
        stat(self.pid)?.split_whitespace().nth(1)?.parse().ok()
    }
}

/// What /proc says of a process behind its name: state, parent, …
fn stat(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit(')').next()?.to_owned())
}

/// Whether a process runs: one that only waits to be asked for its status does not.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = stat(pid).unwrap_or_default();
    let state = stat.split_whitespace().next();
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// The ranks that a doctor started, in the order in which it started them.
pub(crate) fn ranks_of(doctor: u32) -> Vec<u32> {
    let ranks = Process::all().filter(|one| one.has("__rank") && one.parent() == Some(doctor));
    let mut ranks: Vec<u32> = ranks.map(|one| one.pid).collect();
    ranks.sort_unstable();
    ranks
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// A terminal for a process: what it writes there is kept, to be waited for.
pub(crate) struct Terminal {
    said: std::sync::Arc<std::sync::Mutex<String>>,
}

impl Terminal {
    /// The terminal, and the end that is given to the process.
    pub(crate) fn open() -> (Self, OwnedFd) {
        use rustix::fs::{Mode, OFlags};
        use rustix::pty;
        let ours = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
        pty::grantpt(&ours).unwrap();
        pty::unlockpt(&ours).unwrap();
        let name = pty::ptsname(&ours, Vec::new()).unwrap();
        let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let said = std::sync::Arc::<std::sync::Mutex<String>>::default();
        let heard = std::sync::Arc::clone(&said);
        std::thread::spawn(move || {
            let mut ours = std::fs::File::from(ours);
            let mut part = [0; 4096];
            // A terminal that nobody holds any more fails with EIO.
            while let Ok(length @ 1..) = ours.read(&mut part) {
                let text = String::from_utf8_lossy(&part[..length]);
                heard.lock().unwrap().push_str(&text);
            }
        });
        (Terminal { said }, theirs)
    }

    /// All that was written to it.
    pub(crate) fn text(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Waits until the process has written these words.
    pub(crate) fn says(&self, words: &str) {
        wait_until(&format!("{words:?} on the terminal"), || {
            self.text().contains(words)
        });
    }
}

/// Whether a file is there: for what a script leaves when it has come so far.
pub(crate) fn wait_for_file(path: &Path) {
    wait_until(&path.display().to_string(), || path.exists());
}

/// A process that a test started, and ends where the test does not.
pub(crate) struct Running {
    child: Option<Child>,
}

/// Starts a process whose output is kept.
pub(crate) fn start(command: &mut Command) -> Running {
    use std::os::unix::process::CommandExt;
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    Running { child: Some(child) }
}

impl Running {
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child
            && let Some(pid) = Pid::from_raw(child.id().cast_signed())
        {
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }

    /// What it said, and how it ended; a failure where it does not end.
    pub(crate) fn ends(mut self) -> Ended {
        let begun = Instant::now();
        let child = self.child.take().unwrap();
        let pid = child.id();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || send.send(child.wait_with_output()));
        let Ok(out) = receive.recv_timeout(PATIENT) else {
            let pid = Pid::from_raw(pid.cast_signed()).unwrap();
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            panic!("still running after {PATIENT:?}");
        };
        Ended::of(out.unwrap(), begun.elapsed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) out: String,
    pub(crate) err: String,
    /// Its exit status; -1 where a signal ended it.
    pub(crate) status: i32,
    /// How long it was waited for.
    pub(crate) took: Duration,
}

impl Ended {
    fn of(out: Output, took: Duration) -> Self {
        Ended {
            out: String::from_utf8_lossy(&out.stdout).into_owned(),
            err: String::from_utf8_lossy(&out.stderr).into_owned(),
            status: out.status.code().unwrap_or(-1),
            took,
        }
    }

    /// Its report, which is JSON.
    pub(crate) fn report(&self) -> Report {
        let value = serde_json::from_str(&self.out);
        Report(value.unwrap_or_else(|e| panic!("{e}: {self:?}")))
    }
}

/// A report as JSON.
pub(crate) struct Report(pub(crate) serde_json::Value);

impl Report {
    /// What a check says of which nodes, where it fails: its sentence, and the nodes.
    pub(crate) fn finding(&self, check: &str) -> Option<(String, Vec<String>)> {
        let of = |list: &str| self.0[list].as_array().cloned().unwrap_or_default();
        let mut all = of("causes").into_iter().chain(of("notes"));
        let found = all.find(|finding| finding["check"] == check)?;
        let nodes = found["nodes"].as_array().cloned().unwrap_or_default();
        let nodes = nodes.iter().map(|n| n.as_str().unwrap().to_owned());
        let sentence = found["sentence"].as_str().unwrap().to_owned();
        Some((sentence, nodes.collect()))
    }

    /// The checks of clusters that fail, as errors or warnings.
    pub(crate) fn of_cluster(&self) -> Vec<String> {
        let causes = self.0["causes"].as_array().unwrap();
        let mut all = Vec::new();
        for cause in causes {
            all.push(cause["check"].as_str().unwrap().to_owned());
            for consequence in cause["consequences"].as_array().unwrap() {
                all.push(consequence["check"].as_str().unwrap().to_owned());
            }
        }
        all.retain(|check| check.starts_with("cluster/"));
        all.sort();
        all.dedup();
        all
    }

    /// The names of the nodes that were judged.
    pub(crate) fn nodes(&self) -> Vec<String> {
        let nodes = self.0["nodes"].as_array().unwrap();
        let name = |node: &serde_json::Value| node["name"].as_str().unwrap().to_owned();
        nodes.iter().map(name).collect()
    }
}
