//! A dialogue with a doctor that runs on another host ([`crate::cluster::ssh_child`]).

use std::io::{self, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use super::{RemoteCommand, RemoteError, STDERR_DRAIN_TIMEOUT, StderrTail, end};
use crate::cluster::ssh_child::{ChildMessage, RunAssignment};
use crate::live::clock;
use crate::live::worker::child::wait_until;

/// ssh's options: no password prompt, no terminal (it would echo the key), and a lost host is
/// noticed within a minute.
const SSH_OPTIONS: [&str; 7] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ServerAliveInterval=15",
    "-o",
    "ServerAliveCountMax=4",
];

/// A doctor on another host. It exits when this is dropped.
pub struct SshDialogue {
    /// The host.
    pub host: String,
    /// The doctor's version.
    pub version: String,
    child: Child,
    tell: Option<ChildStdin>,
    from: Option<BufReader<ChildStdout>>,
    errors: StderrTail,
}

/// A message of the doctor, and the reader for the next one.
type ChildLine = (ChildMessage, BufReader<ChildStdout>);

impl RemoteCommand {
    /// Starts the doctor on a host, and waits until it reports that it is ready, until the deadline
    /// at most.
    ///
    /// # Errors
    ///
    /// The host is unreachable, or the doctor is missing, fails, or does not respond in time; it is
    /// killed then.
    pub fn open_dialogue(&self, host: &str) -> Result<SshDialogue, RemoteError> {
        let begun = clock::now();
        // If this process is killed meanwhile, ssh gives up by itself.
        let seconds = self.deadline.as_secs().max(1);
        let patience = format!("ConnectTimeout={seconds}");
        let options = [&SSH_OPTIONS[..], &["-o", &patience]].concat();
        let mut child = self.start(host, Stdio::piped(), &options)?;
        let mut spoken = SshDialogue {
            host: host.to_owned(),
            version: String::new(),
            tell: child.stdin.take(),
            from: child.stdout.take().map(BufReader::new),
            errors: StderrTail::capture(&mut child),
            child,
        };
        match spoken.receive(self.deadline)? {
            Some(ChildMessage::Ready(version)) => spoken.version = version,
            _ => {
                return Err(RemoteError::TimedOut {
                    seconds: begun.elapsed().as_secs_f64(),
                    said: spoken.errors.last_line(),
                });
            }
        }
        Ok(spoken)
    }
}

impl SshDialogue {
    /// Sends its assignment. If it exited, the next read reports that.
    pub fn send(&mut self, told: &RunAssignment) {
        // Serialising plain data cannot fail.
        let mut line = serde_json::to_vec(told).unwrap_or_default();
        line.push(b'\n');
        if let Some(tell) = &mut self.tell {
            let _ = tell.write_all(&line);
        }
    }

    /// The port on which it listens; `None` if it reports none in time.
    ///
    /// # Errors
    ///
    /// It exited.
    pub fn wait_for_port(&mut self, within: Duration) -> Result<Option<u16>, RemoteError> {
        Ok(match self.receive(within)? {
            Some(ChildMessage::Listening(port)) => Some(port),
            _ => None,
        })
    }

    /// Its next message; `None` on timeout.
    fn receive(&mut self, within: Duration) -> Result<Option<ChildMessage>, RemoteError> {
        let Some(from) = self.from.take() else {
            return Ok(None);
        };
        match read_message(from).recv_timeout(within) {
            Ok((said, from)) => {
                self.from = Some(from);
                Ok(Some(said))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                self.close_stdin();
                let status = self.wait_for_exit(2 * STDERR_DRAIN_TIMEOUT);
                let said = self.errors.last_line();
                Err(status.map_or(RemoteError::Killed, |status| {
                    RemoteError::from_status(status, said)
                }))
            }
        }
    }

    /// Copies its stderr to this process's stderr from now on.
    pub fn show_errors(&self) {
        self.errors.is_shown.store(true, Ordering::Relaxed);
    }

    /// Its stdout.
    pub fn output(&mut self) -> Option<BufReader<ChildStdout>> {
        self.from.take()
    }

    /// Reads and discards its stdout, so that it never blocks.
    pub fn discard_output(&mut self) {
        if let Some(mut from) = self.from.take() {
            std::thread::spawn(move || io::copy(&mut from, &mut io::sink()));
        }
    }

    /// Closes its stdin, upon which it exits.
    pub fn close_stdin(&mut self) {
        self.tell = None;
    }

    /// Its exit status, if it exits in time.
    pub fn wait_for_exit(&mut self, within: Duration) -> Option<ExitStatus> {
        wait_until(&mut self.child, clock::now() + within)
    }

    /// The error for its exit status, with its last line of stderr.
    pub fn exit_error(&self, status: ExitStatus) -> RemoteError {
        RemoteError::from_status(status, self.errors.last_line())
    }

    /// The last lines of its stderr.
    pub fn last_lines(&self) -> Vec<String> {
        let text = self.errors.last();
        let text = String::from_utf8_lossy(&text);
        let plain = |line: &str| line.chars().filter(|c| !c.is_control()).collect();
        let lines: Vec<String> = text.lines().map(plain).collect();
        lines.into_iter().filter(|line| !line.is_empty()).collect()
    }
}

impl Drop for SshDialogue {
    fn drop(&mut self) {
        self.close_stdin();
        if self.wait_for_exit(Duration::ZERO).is_none() {
            // Ending ssh closes the remote stdin.
            end(&mut self.child);
        }
    }
}

/// Reads the doctor's next message in a thread.
fn read_message(mut from: BufReader<ChildStdout>) -> Receiver<ChildLine> {
    let (sender, word) = mpsc::channel();
    std::thread::spawn(move || {
        if let Some(said) = ChildMessage::read(&mut from) {
            // Whoever waited may have given up.
            let _ = sender.send((said, from));
        }
    });
    word
}
