//! Runs a command on another host with the system's ssh: login, keys and routes follow the user's
//! own ssh configuration.

pub mod assignment;
mod dialogue;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::live::clock;
use crate::live::worker::child::{kill_group, wait_until};

use crate::terminal::{Colors, Escaping};

pub use crate::cluster::ssh::dialogue::SshDialogue;

/// ssh's exit status if ssh itself fails (`ssh(1)`, "EXIT STATUS").
const SSH_FAILED: i32 = 255;
/// How long reading the rest of stderr may take after the command ended.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// How many bytes of a host's stderr are kept.
const STDERR_KEPT: usize = 4096;

/// A command, and how it is run on hosts.
#[derive(Clone, Debug)]
pub struct RemoteCommand {
    /// The program that connects to a host, with its first arguments: `ssh -F file`.
    pub ssh: Vec<String>,
    /// The command line for the remote shell.
    pub command: String,
    /// How long it may take, including the connection.
    pub deadline: Duration,
    /// How many bytes it may print.
    pub max_output: u64,
}

/// Why a command on a host failed.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The ssh program could not be started.
    #[error("{program}: {error}")]
    NotStarted {
        /// The program.
        program: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// ssh could not connect or log in.
    #[error("ssh: {0}")]
    Ssh(String),
    /// It did not end before the deadline.
    #[error("no answer within {seconds:.0} s{}", after(.said))]
    TimedOut {
        /// How long it ran.
        seconds: f64,
        /// The last line of its stderr by then.
        said: String,
    },
    /// There was no time left for it.
    #[error("the deadline was reached before it was asked")]
    NotAsked,
    /// The command does not exist on the host, or cannot be executed.
    #[error("command not found ({0}): install it, or set its path with --remote")]
    Missing(String),
    /// The command failed.
    #[error("exited with status {status}{}", after(.said))]
    Failed {
        /// Its exit status.
        status: i32,
        /// The last line of its stderr.
        said: String,
    },
    /// A signal terminated ssh.
    #[error("ssh was terminated by a signal")]
    Killed,
    /// It printed more than allowed.
    #[error("it printed more than {0} bytes")]
    TooLong(u64),
}

impl RemoteError {
    /// Whether time ran out.
    pub fn is_late(&self) -> bool {
        matches!(self, RemoteError::TimedOut { .. } | RemoteError::NotAsked)
    }

    /// The error for this exit status and last line of stderr.
    fn from_status(status: ExitStatus, said: String) -> Self {
        match status.code() {
            Some(SSH_FAILED) => RemoteError::Ssh(said),
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

impl RemoteCommand {
    /// Runs the command on a host and returns its output. ssh never asks for a password: a host
    /// that requires one refuses.
    ///
    /// # Errors
    ///
    /// The host is unreachable, or the command is missing, fails, or takes too long; it is killed
    /// then.
    pub fn run(&self, host: &str) -> Result<Vec<u8>, RemoteError> {
        if self.deadline.is_zero() {
            return Err(RemoteError::NotAsked);
        }
        let begun = clock::now();
        let ends = begun + self.deadline;
        let mut child = self.start(host, Stdio::null(), &["-o", "BatchMode=yes"])?;
        let errors = StderrTail::capture(&mut child);
        let answer = read_all(&mut child, self.max_output + 1);
        let said = || errors.last_line();
        let timed_out = |child: &mut Child| {
            end(child);
            let seconds = begun.elapsed().as_secs_f64();
            let said = said();
            RemoteError::TimedOut { seconds, said }
        };
        let answer = match answer.recv_timeout(ends.saturating_duration_since(clock::now())) {
            Ok(answer) if answer.len() as u64 > self.max_output => {
                end(&mut child);
                return Err(RemoteError::TooLong(self.max_output));
            }
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Vec::new(),
            Err(RecvTimeoutError::Timeout) => return Err(timed_out(&mut child)),
        };
        let Some(status) = wait_until(&mut child, ends) else {
            return Err(timed_out(&mut child));
        };
        match status.code() {
            Some(0) => Ok(answer),
            _ => Err(RemoteError::from_status(status, said())),
        }
    }

    /// Starts the command on a host; `options` apply only if the program is ssh.
    #[expect(clippy::disallowed_methods, reason = "starts the user's ssh")]
    fn start(&self, host: &str, input: Stdio, options: &[&str]) -> Result<Child, RemoteError> {
        let program = self.ssh.first().map_or("ssh", String::as_str);
        let mut command = Command::new(program);
        command.args(self.ssh.iter().skip(1));
        if program.rsplit('/').next() == Some("ssh") {
            command.args(options);
        }
        // Its own process group, so that it can be killed together with what it started, such as a
        // proxy.
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

/// The end of a child's stderr.
struct StderrTail {
    last: Arc<Mutex<Vec<u8>>>,
    is_shown: Arc<AtomicBool>,
    ended: mpsc::Receiver<()>,
}

impl StderrTail {
    /// Reads a child's stderr in a thread, and keeps its end.
    fn capture(child: &mut Child) -> Self {
        let last: Arc<Mutex<Vec<u8>>> = Arc::default();
        let is_shown: Arc<AtomicBool> = Arc::default();
        let (sender, ended) = mpsc::channel();
        if let Some(mut pipe) = child.stderr.take() {
            let (last, is_shown) = (Arc::clone(&last), Arc::clone(&is_shown));
            std::thread::spawn(move || {
                let mut part = [0; 1024];
                let mut shown = Escaping::new(std::io::stderr(), Colors::OfAnotherDoctor);
                while let Ok(count @ 1..) = pipe.read(&mut part) {
                    let part = &part[..count];
                    if is_shown.load(Ordering::Relaxed) {
                        // Failing to show it must not stop the report.
                        let _ = shown.write_all(part);
                    }
                    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                    last.extend_from_slice(part);
                    let old = last.len().saturating_sub(STDERR_KEPT);
                    last.drain(..old);
                }
                // The receiver may be gone.
                let _ = sender.send(());
            });
        }
        StderrTail {
            last,
            is_shown,
            ended,
        }
    }

    /// The kept end of stderr, once the pipe is closed.
    fn last(&self) -> Vec<u8> {
        // A shared connection (ControlPersist) keeps the pipe open.
        let _ = self.ended.recv_timeout(STDERR_DRAIN_TIMEOUT);
        let last = self.last.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn last_line(&self) -> String {
        last_line(&self.last())
    }
}

/// Reads a child's stdout in a thread.
fn read_all(child: &mut Child, most: u64) -> mpsc::Receiver<Vec<u8>> {
    let (give, answer) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            // After a read error the truncated output is used.
            let _ = pipe.take(most).read_to_end(&mut all);
            let _ = give.send(all);
        });
    }
    answer
}

/// Kills a child and its process group.
fn end(child: &mut Child) {
    kill_group(child);
    let _ = child.wait();
}

/// The last line that is not empty, because banners come first; an error line of the remote doctor
/// is preferred.
fn last_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines = || text.lines().rev().map(str::trim);
    let of_doctor = |line: &&str| line.starts_with("error: ") || line.starts_with("rdma-doctor: ");
    let last = lines().find(of_doctor);
    // ssh warns when it adds an unknown host.
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
    use std::time::Instant;

    use super::*;

    /// A shell in place of ssh: its first argument is the host.
    fn remote(command: &str, seconds: f64) -> RemoteCommand {
        RemoteCommand {
            ssh: vec!["sh".into(), "-c".into(), "eval \"$1\"".into()],
            command: command.into(),
            deadline: Duration::from_secs_f64(seconds),
            max_output: 20,
        }
    }

    fn refused(command: &str, seconds: f64) -> String {
        remote(command, seconds).run("n1").unwrap_err().to_string()
    }

    #[test]
    fn outputs_and_errors() {
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
            Some("command not found")
        );
        assert_eq!(
            refused("echo bad >&2; exit 65", 9.0),
            "exited with status 65: bad"
        );
        assert_eq!(refused("seq 100", 9.0), "it printed more than 20 bytes");
        assert_eq!(
            RemoteCommand {
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
    fn an_unresponsive_host_is_killed_in_time() {
        let begun = Instant::now();
        let said = refused("echo waiting >&2; sleep 600 & wait", 3.0);
        assert!(
            said.starts_with("no answer within ") && said.ends_with(" s: waiting"),
            "{said}"
        );
        // A command that closes its stdout but keeps running.
        let said = refused("exec >&-; sleep 600", 0.3);
        assert!(
            said.starts_with("no answer within ") && said.ends_with(" s"),
            "{said}"
        );
        // A command that exits, but leaves a process that holds its pipe.
        assert_eq!(
            refused("sleep 600 >/dev/null & echo gone >&2; exit 3", 99.0),
            "exited with status 3: gone"
        );
        assert!(begun.elapsed() < Duration::from_secs(90));
    }
}
