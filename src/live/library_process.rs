//! Calls a library in a separate process, so that a call that crashes or hangs costs the answer to one question.
//!
//! The asking process starts a helper, which is this program again. The helper loads the library and answers each line with another. A helper that
//! dies or does not respond is replaced for the next question; after two of these the library is not asked again.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::live::own_process;
use crate::live::worker::child::{how_it_ended, wait_a_moment};
use crate::source::question::Call;
use crate::source::wire::{self, Line};
use crate::source::{Answer, Errno, Question, Refusal, Reply};

/// The argument that makes this program a helper.
pub const ARGUMENT: &str = "__library";

/// After this many unanswered questions the library is not asked any more: each costs its timeout, and the probe has a budget.
const MAX_UNANSWERED: u32 = 2;

/// A library that is called in a separate process.
pub struct LibraryProcess {
    name: &'static str,
    state: Mutex<State>,
}

struct State {
    helper: Option<Helper>,
    unanswered: u32,
}

struct Helper {
    process: Child,
    questions: ChildStdin,
    replies: Receiver<String>,
}

impl LibraryProcess {
    /// The library of this name; nothing is started yet.
    pub const fn new(name: &'static str) -> Self {
        LibraryProcess {
            name,
            state: Mutex::new(State {
                helper: None,
                unanswered: 0,
            }),
        }
    }

    /// Puts a question to the library and waits no longer than `patience`.
    ///
    /// # Errors
    ///
    /// The library's refusal; a crash with the signal; a timeout; *not asked* after too many of these.
    pub fn ask(&self, call: &Call, patience: Duration) -> Result<Answer, Refusal> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.unanswered >= MAX_UNANSWERED {
            return Err(Refusal::not_asked(format!(
                "{} left {MAX_UNANSWERED} questions unanswered",
                self.name
            )));
        }
        let mut helper = match state.helper.take() {
            Some(helper) => helper,
            None => Helper::start(self.name)?,
        };
        match helper.ask(self.name, call, patience) {
            Ok(said) => {
                state.helper = Some(helper);
                said
            }
            Err(lost) => {
                state.unanswered += 1;
                Err(helper.end(lost))
            }
        }
    }
}

/// Why a helper did not answer.
enum HelperFailure {
    Unresponsive,
    Exited,
}

impl Helper {
    #[expect(clippy::disallowed_methods, reason = "the helper is this same program")]
    fn start(name: &str) -> Result<Self, Refusal> {
        let spawn = |program: &Path| {
            let mut command = Command::new(program);
            super::trusted::keep(&mut command);
            command
                .arg(ARGUMENT)
                .arg(name)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
        };
        let mut process =
            spawn(&own_process::own_executable()).or_else(|_| spawn(&std::env::current_exe()?))?;
        let (Some(questions), Some(pipe)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Refusal::Errno(Errno::EPIPE));
        };
        let (lines, replies) = mpsc::channel();
        let read = move || {
            for line in BufReader::new(pipe).lines() {
                let Ok(line) = line else { break };
                if lines.send(line).is_err() {
                    break;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().spawn(read) {
            let _ = process.kill();
            wait_a_moment(&mut process);
            return Err(error.into());
        }
        Ok(Helper {
            process,
            questions,
            replies,
        })
    }

    fn ask(
        &mut self,
        name: &str,
        call: &Call,
        patience: Duration,
    ) -> Result<Result<Answer, Refusal>, HelperFailure> {
        let question = Line::Pending {
            probe: name.into(),
            question: Question::Call(call.clone().into()),
        };
        let line = wire::write_line(&question).ok_or(HelperFailure::Exited)?;
        writeln!(self.questions, "{line}").map_err(|_| HelperFailure::Exited)?;
        let line = match self.replies.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err(HelperFailure::Unresponsive),
            Err(RecvTimeoutError::Disconnected) => return Err(HelperFailure::Exited),
        };
        match wire::parse_line(&line) {
            Ok(Line::Reply { reply, .. }) => Ok(reply.said),
            // The library wrote to the helper's stdout: neither this line nor the next can be trusted.
            _ => Err(HelperFailure::Exited),
        }
    }

    /// Ends a helper that did not answer. One in uninterruptible sleep cannot be killed and is abandoned; it dies with its process group later.
    fn end(mut self, lost: HelperFailure) -> Refusal {
        // A helper that is crashing gets time to crash, so that its signal is reported.
        let died = match lost {
            HelperFailure::Exited => wait_a_moment(&mut self.process),
            HelperFailure::Unresponsive => None,
        };
        let _ = self.process.kill();
        if died.is_none() {
            wait_a_moment(&mut self.process);
        }
        match (lost, died) {
            (HelperFailure::Unresponsive, _) => Refusal::Timeout,
            (HelperFailure::Exited, Some(status)) => Refusal::Crash(how_it_ended(status).into()),
            (HelperFailure::Exited, None) => Refusal::Crash("it stopped answering".into()),
        }
    }
}

/// The helper's side: answers questions of standard input on standard output, until the first is closed.
///
/// # Errors
///
/// Standard output is gone.
pub fn serve(name: &str) -> std::io::Result<()> {
    let answer: fn(&Call) -> Result<Answer, Refusal> = match name {
        "NVML" => super::nvml::answer,
        _ => return Err(std::io::ErrorKind::InvalidInput.into()),
    };
    // A crash is an answer here, and no reason to leave a file behind: one byte is too few for a core, and for whoever collects cores too.
    let none = rustix::process::Rlimit {
        current: Some(1),
        maximum: Some(1),
    };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    // The library may print: that must not mix with the answers.
    let mut out = own_output()?;
    for line in std::io::stdin().lock().lines() {
        let Ok(Line::Pending { probe, question }) = wire::parse_line(&line?) else {
            return Err(std::io::ErrorKind::InvalidData.into());
        };
        let said = match &question {
            Question::Call(call) => answer(call),
            _ => Err(Refusal::not_asked("no library call")),
        };
        let reply = Line::Reply {
            probe,
            question,
            repeat: 0,
            reply: Reply { at: 0, said },
        };
        if let Some(line) = wire::write_line(&reply) {
            writeln!(out, "{line}")?;
            out.flush()?;
        }
    }
    // No destructors: those of a driver's library can hang, and there is nothing to tidy up.
    end_at_once();
}

/// The pipe to the asking process, under another number; standard output leads to standard error, which leads nowhere.
#[expect(unsafe_code, reason = "gives standard output another target")]
fn own_output() -> std::io::Result<std::fs::File> {
    let pipe = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?;
    // SAFETY: both numbers are open, and nobody holds the first as an owned descriptor: the standard library never closes it.
    match unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(std::fs::File::from(pipe)),
    }
}

#[expect(unsafe_code, reason = "an exit that runs no destructors")]
fn end_at_once() -> ! {
    // SAFETY: _exit ends the process at once and touches nothing.
    unsafe { libc::_exit(0) }
}
