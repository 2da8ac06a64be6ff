//! Runs the user's own job as a child that can be killed: an intermediate process watches the doctor, so that nothing of the job outlives it.

use crate::live::own_process;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use super::nccl_logging::{LOG_LIMITS, NCCL_LOG_VARIABLES, micros_since};
use crate::live::worker::child::{self, as_a_shell_has_it, kill_group, wait_a_moment, wait_until};
use crate::measure::plan::job::{JobEnded, JobPlan, JobReply};
use crate::measure::plan::run::{NAME, Run};
use crate::nccl_log::Reader;
use crate::source::wire::Line;
use crate::terminal;

/// The argument that makes this program the intermediate process.
pub const ARGUMENT: &str = "__job";

/// The longest line of output, in bytes; a longer one is read in parts.
const MAX_LINE: u64 = 1 << 20;
/// How the job is run.
pub struct JobOptions<'r> {
    /// When the recording began, in nanoseconds of `CLOCK_BOOTTIME`.
    pub started_ns: u64,
    /// How long a run may take.
    pub deadline: Duration,
    /// Finds the figure of merit in a line.
    pub figure: &'r dyn Fn(&str) -> Option<String>,
}

/// Runs the job once; returns its outcome and the recorded lines. `shown` gets each line of output.
#[expect(clippy::disallowed_methods, reason = "the parent keeps the job's time")]
pub fn run(
    how: &JobOptions<'_>,
    plan: &JobPlan,
    run: Run,
    mut shown: impl FnMut(&[u8]),
) -> (JobReply, Vec<Line>) {
    let begun = Instant::now();
    let (events, inbox) = mpsc::sync_channel(256);
    let mut log = Reader::new(LOG_LIMITS);
    let mut figure = None;
    let mut hear = |bytes: Vec<u8>| {
        shown(&bytes);
        if let Some(found) = (how.figure)(&String::from_utf8_lossy(&bytes)) {
            figure = Some(found);
        }
        log.feed(&bytes);
    };
    let ended = match start(plan, run, events) {
        Err(error) => JobEnded::NotStarted(error.to_string()),
        Ok(mut child) => {
            let ends = begun + how.deadline;
            let hung = loop {
                match inbox.recv_timeout(ends.saturating_duration_since(Instant::now())) {
                    Ok(bytes) => hear(bytes),
                    Err(RecvTimeoutError::Timeout) => break true,
                    // Both pipes are closed.
                    Err(RecvTimeoutError::Disconnected) => break false,
                }
            };
            let status = match hung {
                true => None,
                false => wait_until(&mut child, ends),
            };
            // Anything that it left running in its process group.
            kill_group(&child);
            let _ = wait_a_moment(&mut child);
            match status {
                Some(status) => JobEnded::Status(as_a_shell_has_it(status)),
                None => JobEnded::Hung,
            }
        }
    };
    let reply = JobReply {
        ended,
        figure,
        seconds: begun.elapsed().as_secs_f64(),
    };
    let log = log.finish(None);
    let at = micros_since(how.started_ns);
    let lines = vec![
        Line::of(NAME, plan.question_of(run), &reply, at),
        Line::of(NAME, plan.log_of(run), &log, at),
    ];
    (reply, lines)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the user's job is started, and what the user set is left"
)]
fn start(plan: &JobPlan, run: Run, events: SyncSender<Vec<u8>>) -> std::io::Result<Child> {
    let with = |command: &mut Command| {
        command.args(&plan.command);
        for (name, value) in NCCL_LOG_VARIABLES {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        if let Some(arm) = plan.arms.get(run.arm) {
            command.envs(&arm.set);
        }
    };
    let mut child = child::start(None, ARGUMENT, Stdio::piped, with)?;
    if let Some(pipe) = child.stdout.take() {
        let events = events.clone();
        std::thread::Builder::new().spawn(move || read_lines(pipe, &events))?;
    }
    if let Some(pipe) = child.stderr.take() {
        std::thread::Builder::new().spawn(move || read_lines(pipe, &events))?;
    }
    Ok(child)
}

fn read_lines(pipe: impl Read, events: &SyncSender<Vec<u8>>) {
    let mut reader = BufReader::new(pipe);
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                if events.send(line).is_err() {
                    return;
                }
            }
        }
    }
}

/// The intermediate process: starts the command, exits with its status, and kills it if the doctor is gone.
///
/// # Errors
///
/// The command cannot be started.
#[expect(clippy::disallowed_methods, reason = "the user's job is started")]
pub fn serve(mut command: impl Iterator<Item = OsString>) -> std::io::Result<i32> {
    let program = command.next().unwrap_or_default();
    let started = Command::new(&program)
        .args(command)
        .stdin(Stdio::null())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            terminal::say(&format!(
                "rdma-doctor: {}: {error}",
                terminal::path(&program)
            ));
            return Ok(127);
        }
    };
    std::thread::spawn(|| {
        // The parent never writes; its end of stdin closes when the parent is gone, however it ended.
        let mut nothing = [0];
        while std::io::stdin()
            .read(&mut nothing)
            .is_ok_and(|read| read > 0)
        {}
        own_process::end_with_group();
    });
    Ok(as_a_shell_has_it(child.wait()?))
}
