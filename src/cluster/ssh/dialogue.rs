//! A doctor on another host that is spoken with while it runs ([`crate::cluster::ssh_child`]).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{Errors, LAST_WORDS, Remote, RemoteError, end};
use crate::cluster::ssh_child::{Said, Told};

/// How much a host may say before the doctor says that it is there: a shell's greeting.
const GREETING: u64 = 64 << 10;
/// How ssh is called: it asks for no password, makes no terminal, which would show what is typed, and notices within a minute that a host is gone.
const OPTIONS: [&str; 7] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ServerAliveInterval=15",
    "-o",
    "ServerAliveCountMax=4",
];

/// A doctor on another host. It ends where this is dropped.
pub struct Spoken {
    /// The host.
    pub host: String,
    /// The doctor's version.
    pub version: String,
    child: Child,
    tell: Option<ChildStdin>,
    from: Option<BufReader<ChildStdout>>,
    errors: Errors,
}

/// What the doctor said, and where it says more.
type Word = (Said, BufReader<ChildStdout>);

impl Remote {
    /// Starts the doctor on a host, and waits until it is there, no longer than the deadline.
    ///
    /// # Errors
    ///
    /// The host is not reached, the doctor is missing, fails, or says nothing in time; it is ended then.
    #[expect(clippy::disallowed_methods, reason = "keeps the other side's time")]
    pub fn speak(&self, host: &str) -> Result<Spoken, RemoteError> {
        let begun = Instant::now();
        // Where this process is killed meanwhile, ssh gives up by itself.
        let seconds = self.deadline.as_secs().max(1);
        let patience = format!("ConnectTimeout={seconds}");
        let options = [&OPTIONS[..], &["-o", &patience]].concat();
        let mut child = self.start(host, Stdio::piped(), &options)?;
        let mut spoken = Spoken {
            host: host.to_owned(),
            version: String::new(),
            tell: child.stdin.take(),
            from: child.stdout.take().map(BufReader::new),
            errors: Errors::of(&mut child),
            child,
        };
        match spoken.hear(self.deadline)? {
            Some(Said::Here(version)) => spoken.version = version,
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

impl Spoken {
    /// Tells it who it is. Where it ended meanwhile, it says nothing any more.
    pub fn tell(&mut self, told: &Told) {
        // A key, names and numbers only: there is nothing that JSON cannot hold.
        let mut line = serde_json::to_vec(told).unwrap_or_default();
        line.push(b'\n');
        if let Some(tell) = &mut self.tell {
            let _ = tell.write_all(&line);
        }
    }

    /// The port at which it listens; `None` where it says none in this time.
    ///
    /// # Errors
    ///
    /// It ended.
    pub fn listens(&mut self, within: Duration) -> Result<Option<u16>, RemoteError> {
        Ok(match self.hear(within)? {
            Some(Said::Listens(port)) => Some(port),
            _ => None,
        })
    }

    /// What it says next; `None` where that takes longer.
    fn hear(&mut self, within: Duration) -> Result<Option<Said>, RemoteError> {
        let Some(from) = self.from.take() else {
            return Ok(None);
        };
        match next(from).recv_timeout(within) {
            Ok((said, from)) => {
                self.from = Some(from);
                Ok(Some(said))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                self.let_go();
                let status = self.ends(2 * LAST_WORDS);
                let said = self.errors.last_line();
                Err(status.map_or(RemoteError::Killed, |status| RemoteError::of(status, said)))
            }
        }
    }

    /// Shows on standard error from now on what it says there.
    pub fn show_errors(&self) {
        self.errors.is_shown.store(true, Ordering::Relaxed);
    }

    /// Where it writes from now on.
    pub fn answer(&mut self) -> Option<BufReader<ChildStdout>> {
        self.from.take()
    }

    /// Reads what it writes, so that it never waits, and throws that away.
    pub fn ignore_answer(&mut self) {
        if let Some(mut from) = self.from.take() {
            std::thread::spawn(move || io::copy(&mut from, &mut io::sink()));
        }
    }

    /// Closes its standard input, by which it ends, where it did not by itself.
    pub fn let_go(&mut self) {
        self.tell = None;
    }

    /// How it ended, where it does in this time.
    #[expect(clippy::disallowed_methods, reason = "keeps the other side's time")]
    pub fn ends(&mut self, within: Duration) -> Option<ExitStatus> {
        let ends = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < ends => std::thread::sleep(Duration::from_millis(5)),
                _ => return None,
            }
        }
    }

    /// Why it ended with this status, as far as it told.
    pub fn why(&self, status: ExitStatus) -> RemoteError {
        RemoteError::of(status, self.errors.last_line())
    }

    /// What it said last beside its answer, a line each.
    pub fn last_lines(&self) -> Vec<String> {
        let text = self.errors.last();
        let text = String::from_utf8_lossy(&text);
        let plain = |line: &str| line.chars().filter(|c| !c.is_control()).collect();
        let lines: Vec<String> = text.lines().map(plain).collect();
        lines.into_iter().filter(|line| !line.is_empty()).collect()
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        self.let_go();
        if self.ends(Duration::ZERO).is_none() {
            // With the connection the other side's standard input ends.
            end(&mut self.child);
        }
    }
}

/// Waits for what the doctor says next, whatever else stands before it.
fn next(mut from: BufReader<ChildStdout>) -> Receiver<Word> {
    let (sender, word) = mpsc::channel();
    std::thread::spawn(move || {
        let mut left = GREETING;
        loop {
            let mut line = Vec::new();
            let Ok(count @ 1..) = (&mut from).take(left).read_until(b'\n', &mut line) else {
                return;
            };
            left = left.saturating_sub(count as u64);
            if let Some(said) = Said::of(&String::from_utf8_lossy(&line)) {
                // Whoever waited may have given up.
                let _ = sender.send((said, from));
                return;
            }
        }
    });
    word
}
