//! A command on another host, over the system's ssh: who may log in there, by which key and over which way, is the user's own configuration.

mod dialogue;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

pub use crate::cluster::ssh::dialogue::Spoken;

/// What ssh ends with where it fails itself (`ssh(1)`, "EXIT STATUS").
const OF_SSH: i32 = 255;
/// How long the last words may take that follow the end.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How much is kept of what a host says beside its answer.
const SAID: usize = 4096;

/// How a command is run on hosts.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The program that reaches a host, with its first arguments: `ssh -F file`.
    pub ssh: Vec<String>,
    /// The command, as the shell of the other side reads it.
    pub command: String,
    /// How long it may take, the way included.
    pub deadline: Duration,
    /// How many bytes it may say.
    pub most: u64,
}

/// Why a host gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The program that reaches hosts was not started.
    #[error("{program}: {error}")]
    NotStarted {
        /// The program.
        program: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// The host was not reached, or did not let the user in.
    #[error("ssh: {0}")]
    Ssh(String),
    /// It did not end in time.
    #[error("no answer in {seconds:.0} s{}", after(.said))]
    TimedOut {
        /// How long it was waited for.
        seconds: f64,
        /// What it had said by then.
        said: String,
    },
    /// The command is not there, or no program.
    #[error("the command is not there ({0}): install it, or name it with --remote")]
    Missing(String),
    /// The command failed.
    #[error("it ended with status {status}{}", after(.said))]
    Failed {
        /// Its exit status.
        status: i32,
        /// What it said last.
        said: String,
    },
    /// A signal ended ssh.
    #[error("ssh was ended by a signal")]
    Killed,
    /// It said more than allowed.
    #[error("it said more than {0} bytes")]
    TooLong(u64),
}

impl RemoteError {
    /// Why a command ended with this status, which said this last.
    fn of(status: ExitStatus, said: String) -> Self {
        match status.code() {
            Some(OF_SSH) => RemoteError::Ssh(said),
            Some(126 | 127) => RemoteError::Missing(said),
            Some(status) => RemoteError::Failed { status, said },
            None => RemoteError::Killed,
        }
    }
}

fn after(said: &str) -> String {
    match said {
        "" => String::new(),
        said => format!(": {said}"),
    }
}

impl Remote {
    /// Runs it on a host and gives what it wrote. Nobody is asked for a password: a host that wants one refuses.
    ///
    /// # Errors
    ///
    /// The host is not reached, the command is missing or fails, or takes too long; it is ended then.
    #[expect(
        clippy::disallowed_methods,
        reason = "starts the user's ssh, and keeps its time"
    )]
    pub fn run(&self, host: &str) -> Result<Vec<u8>, RemoteError> {
        let begun = Instant::now();
        let ends = begun + self.deadline;
        let mut child = self.start(host, Stdio::null(), &["-o", "BatchMode=yes"])?;
        let errors = Errors::of(&mut child);
        let answer = read_all(&mut child, self.most + 1);
        let said = || errors.last_line();
        let answer = match answer.recv_timeout(ends.saturating_duration_since(Instant::now())) {
            Ok(answer) if answer.len() as u64 > self.most => {
                end(&mut child);
                return Err(RemoteError::TooLong(self.most));
            }
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Vec::new(),
            Err(RecvTimeoutError::Timeout) => {
                end(&mut child);
                let seconds = begun.elapsed().as_secs_f64();
                return Err(RemoteError::TimedOut {
                    seconds,
                    said: said(),
                });
            }
        };
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < ends => std::thread::sleep(Duration::from_millis(5)),
                _ => {
                    end(&mut child);
                    let seconds = begun.elapsed().as_secs_f64();
                    return Err(RemoteError::TimedOut {
                        seconds,
                        said: said(),
                    });
                }
            }
        };
        match status.code() {
            Some(0) => Ok(answer),
            _ => Err(RemoteError::of(status, said())),
        }
    }

    /// Starts it on a host; `options` are ssh's, where that is what reaches the host.
    #[expect(clippy::disallowed_methods, reason = "starts the user's ssh")]
    fn start(&self, host: &str, input: Stdio, options: &[&str]) -> Result<Child, RemoteError> {
        let program = self.ssh.first().map_or("ssh", String::as_str);
        let mut command = Command::new(program);
        command.args(self.ssh.iter().skip(1));
        if program.rsplit('/').next() == Some("ssh") {
            command.args(options);
        }
        // A group of its own: it is ended with what it started, a proxy.
        let child = command
            .args([host, &self.command])
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        child.map_err(|error| RemoteError::NotStarted {
            program: program.into(),
            error,
        })
    }
}

/// What a child says beside its answer.
struct Errors {
    last: Arc<Mutex<Vec<u8>>>,
    is_shown: Arc<AtomicBool>,
    ended: mpsc::Receiver<()>,
}

impl Errors {
    /// Keeps the last of what a child says, and sees when that ends.
    fn of(child: &mut Child) -> Self {
        let last: Arc<Mutex<Vec<u8>>> = Arc::default();
        let is_shown: Arc<AtomicBool> = Arc::default();
        let (sender, ended) = mpsc::channel();
        if let Some(mut pipe) = child.stderr.take() {
            let (last, is_shown) = (Arc::clone(&last), Arc::clone(&is_shown));
            std::thread::spawn(move || {
                let mut part = [0; 1024];
                while let Ok(count @ 1..) = pipe.read(&mut part) {
                    let part = &part[..count];
                    if is_shown.load(Ordering::Relaxed) {
                        // A terminal that is gone misses nothing of the report.
                        let _ = std::io::stderr().write_all(part);
                    }
                    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                    last.extend_from_slice(part);
                    let old = last.len().saturating_sub(SAID);
                    last.drain(..old);
                }
                // Whoever waited may have given up.
                let _ = sender.send(());
            });
        }
        Errors {
            last,
            is_shown,
            ended,
        }
    }

    /// What it said last, when that has come.
    fn last(&self) -> Vec<u8> {
        // A connection that is shared and stays (ControlPersist) keeps the pipe open.
        let _ = self.ended.recv_timeout(LAST_WORDS);
        let last = self.last.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn last_line(&self) -> String {
        last_line(&self.last())
    }
}

/// Reads a child's answer beside whoever waits for it.
fn read_all(child: &mut Child, most: u64) -> mpsc::Receiver<Vec<u8>> {
    let (give, answer) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            // What came before a failure is judged as it is: cut short.
            let _ = pipe.take(most).read_to_end(&mut all);
            let _ = give.send(all);
        });
    }
    answer
}

/// Ends a child and what it started.
fn end(child: &mut Child) {
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
    let _ = child.wait();
}

/// The last line with a word in it, since banners come before what is wrong; where the doctor of the other side said what is wrong, that.
fn last_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines = || text.lines().rev().map(str::trim);
    let of_doctor = |line: &&str| line.starts_with("error: ") || line.starts_with("rdma-doctor: ");
    let last = lines().find(of_doctor);
    // ssh warns of a host that it did not know before.
    let is_reason = |line: &&str| !line.is_empty() && !line.starts_with("Warning: ");
    let last = last
        .or_else(|| lines().find(is_reason))
        .or_else(|| lines().find(|line| !line.is_empty()))
        .unwrap_or("");
    let last = last.strip_prefix("ssh: ").unwrap_or(last);
    last.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell in place of ssh: its first argument is the host.
    fn remote(command: &str, seconds: f64) -> Remote {
        Remote {
            ssh: vec!["sh".into(), "-c".into(), "eval \"$1\"".into()],
            command: command.into(),
            deadline: Duration::from_secs_f64(seconds),
            most: 20,
        }
    }

    fn refused(command: &str, seconds: f64) -> String {
        remote(command, seconds).run("n1").unwrap_err().to_string()
    }

    #[test]
    fn answers_and_what_is_none() {
        assert_eq!(
            remote("echo here; echo noise >&2", 9.0).run("n1").unwrap(),
            b"here\n"
        );
        assert_eq!(
            refused(
                "echo banner >&2; echo ssh: connect to host n1 port 22: Connection refused >&2; exit 255",
                9.0
            ),
            "ssh: connect to host n1 port 22: Connection refused"
        );
        assert_eq!(
            refused("no-such-program-here", 9.0).split(" (").next(),
            Some("the command is not there")
        );
        assert_eq!(
            refused("echo bad >&2; exit 65", 9.0),
            "it ended with status 65: bad"
        );
        assert_eq!(refused("seq 100", 9.0), "it said more than 20 bytes");
        assert_eq!(
            Remote {
                ssh: vec!["/no/such/ssh".into()],
                ..remote("true", 9.0)
            }
            .run("n1")
            .unwrap_err()
            .to_string(),
            "/no/such/ssh: No such file or directory (os error 2)"
        );
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "keeps its own time")]
    fn who_does_not_answer_is_ended_in_time() {
        let begun = Instant::now();
        let said = refused("echo waiting >&2; sleep 600 & wait", 3.0);
        assert!(
            said.starts_with("no answer in ") && said.ends_with(" s: waiting"),
            "{said}"
        );
        // One that closed its answer, and stays.
        let said = refused("exec >&-; sleep 600", 0.3);
        assert!(
            said.starts_with("no answer in ") && said.ends_with(" s"),
            "{said}"
        );
        // One that ended, and left something behind that holds its pipe.
        assert_eq!(
            refused("sleep 600 >/dev/null & echo gone >&2; exit 3", 99.0),
            "it ended with status 3: gone"
        );
        assert!(begun.elapsed() < Duration::from_secs(90));
    }
}
