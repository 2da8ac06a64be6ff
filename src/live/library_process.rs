//! A library in a process of its own, so that a call that crashes or never returns costs the answer to one question.
//!
//! The process that asks starts a helper, which is this program again, loads the library there, and answers one line with another. A helper
//! that dies or stays silent is replaced for the next question; a library that does so twice is not asked again.

use crate::live::own_process;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::source::question::Call;
use crate::source::wire::{self, Line};
use crate::source::{Answer, Errno, Question, Refusal, Reply};

/// The argument that makes this program a helper.
pub const ARGUMENT: &str = "__library";

/// After how many questions without an answer the library is left alone: each costs its patience, and the probe has a budget.
const ENOUGH: u32 = 2;

/// A library that is asked apart.
pub struct Apart {
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

impl Apart {
    /// The library of this name; nothing is started yet.
    pub const fn new(name: &'static str) -> Self {
        Apart {
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
        if state.unanswered >= ENOUGH {
            return Err(Refusal::NotAsked(
                format!("{} left {ENOUGH} questions unanswered", self.name).into(),
            ));
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
enum Lost {
    Silent,
    Gone,
}

impl Helper {
    #[expect(clippy::disallowed_methods, reason = "the helper is this same program")]
    fn start(name: &str) -> Result<Self, Refusal> {
        let spawn = |program: &Path| {
            Command::new(program)
                .arg(ARGUMENT)
                .arg(name)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
        };
        let failed = |e: std::io::Error| Refusal::Errno(Errno::from(&e));
        let mut process = spawn(&own_process::own_executable())
            .or_else(|_| spawn(&std::env::current_exe()?))
            .map_err(failed)?;
        let (Some(questions), Some(pipe)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Refusal::Errno(Errno::EPIPE));
        };
        let (lines, replies) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines() {
                let Ok(line) = line else { break };
                if lines.send(line).is_err() {
                    break;
                }
            }
        });
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
    ) -> Result<Result<Answer, Refusal>, Lost> {
        let question = Line::Pending {
            probe: name.into(),
            question: Question::Call(call.clone().into()),
        };
        let line = wire::write_line(&question).ok_or(Lost::Gone)?;
        writeln!(self.questions, "{line}").map_err(|_| Lost::Gone)?;
        let line = match self.replies.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err(Lost::Silent),
            Err(RecvTimeoutError::Disconnected) => return Err(Lost::Gone),
        };
        match wire::parse_line(&line) {
            Ok(Line::Reply { reply, .. }) => Ok(reply.said),
            // A library that writes to the helper's output: what it says is no answer, and the next line may be none either.
            _ => Err(Lost::Gone),
        }
    }

    /// Ends a helper that did not answer. One that waits in the kernel cannot be ended and is left, with its group to end it later.
    fn end(mut self, lost: Lost) -> Refusal {
        use std::os::unix::process::ExitStatusExt;
        // One that is about to die of its crash is let die of it.
        let died = match lost {
            Lost::Gone => wait_a_moment(&mut self.process),
            Lost::Silent => None,
        };
        let _ = self.process.kill();
        if died.is_none() {
            wait_a_moment(&mut self.process);
        }
        match (lost, died) {
            (Lost::Silent, _) => Refusal::Timeout,
            (Lost::Gone, Some(status)) => Refusal::Crash(match (status.signal(), status.code()) {
                (Some(signal), _) => format!("killed by signal {signal}").into(),
                (None, code) => format!("ended with status {}", code.unwrap_or(-1)).into(),
            }),
            (Lost::Gone, None) => Refusal::Crash("it stopped answering".into()),
        }
    }
}

fn wait_a_moment(process: &mut Child) -> Option<std::process::ExitStatus> {
    for _ in 0..100 {
        if let Ok(Some(status)) = process.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
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
    // The library may print: its words are not to stand among the answers.
    let mut out = own_output()?;
    for line in std::io::stdin().lock().lines() {
        let Ok(Line::Pending { probe, question }) = wire::parse_line(&line?) else {
            return Err(std::io::ErrorKind::InvalidData.into());
        };
        let said = match &question {
            Question::Call(call) => answer(call),
            _ => Err(Refusal::NotAsked("no library call".into())),
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
