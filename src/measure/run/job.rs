//! Runs the user's own job as a child that can be killed: an intermediate process watches the
//! doctor, so that nothing of the job outlives it.

#![expect(clippy::disallowed_methods, reason = "the user's job is started")]

use crate::live::{clock, descendants, job_process, own_process};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

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
/// How long the intermediate process may take to end what is below it.
const SWEEP: Duration = Duration::from_secs(8);

/// How the job is run.
pub struct JobOptions<'r> {
    /// When the recording began, in nanoseconds of `CLOCK_BOOTTIME`.
    pub started_ns: u64,
    /// How long a run may take.
    pub deadline: Duration,
    /// Finds the figure of merit in a line.
    pub figure: &'r dyn Fn(&str) -> Option<String>,
    /// Looks at the processes of a run that did not end in time, before they are ended: the lines of that look.
    pub look: &'r dyn Fn(Vec<u32>) -> Vec<Line>,
}

/// Runs the job once; returns its outcome and the recorded lines. `shown` gets each line of output.
pub fn run(
    how: &JobOptions<'_>,
    plan: &JobPlan,
    run: Run,
    mut shown: impl FnMut(&[u8]),
) -> (JobReply, Vec<Line>) {
    let begun = clock::now();
    let (events, inbox) = mpsc::sync_channel(256);
    let mut log = Reader::new(LOG_LIMITS);
    let mut figure = None;
    let mut looked = Vec::new();
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
                match inbox.recv_timeout(ends.saturating_duration_since(clock::now())) {
                    Ok(bytes) => hear(bytes),
                    Err(RecvTimeoutError::Timeout) => break true,
                    // Both pipes are closed.
                    Err(RecvTimeoutError::Disconnected) => break false,
                }
            };
            if hung {
                looked = (how.look)(job_process::children(child.id()));
            }
            // Without its lifeline the intermediate process ends all that is below it.
            drop(child.stdin.take());
            let swept = clock::now() + SWEEP;
            while let Ok(bytes) = inbox.recv_timeout(swept.saturating_duration_since(clock::now()))
            {
                hear(bytes);
            }
            let status = wait_until(&mut child, swept).filter(|_| !hung);
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
    let mut lines = vec![
        Line::of(NAME, plan.question_of(run), &reply, at),
        Line::of(NAME, plan.log_of(run), &log, at),
    ];
    lines.extend(looked);
    (reply, lines)
}

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

/// The intermediate process: starts the command, ends what it leaves running, exits with its
/// status, and ends it if the doctor is gone.
///
/// # Errors
///
/// The command cannot be started.
pub fn serve(mut command: impl Iterator<Item = OsString>) -> std::io::Result<i32> {
    let program = command.next().unwrap_or_default();
    // Where it is refused, what leaves the process group and loses its parent is not found.
    let _ = descendants::adopt();
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
        // The parent never writes; its end of stdin closes when the parent is gone, however it
        // ended, or when the time is up.
        let mut nothing = [0];
        while std::io::stdin()
            .read(&mut nothing)
            .is_ok_and(|read| read > 0)
        {}
        end_descendants("");
        own_process::end_with_group();
    });
    // Where the lifeline's end came first, its sweep may have taken the status, and goes on.
    let status = child.wait();
    end_descendants(" after the job had ended");
    Ok(as_a_shell_has_it(status?))
}

/// Ends what is left of the job, in whatever session it runs: a worker that lives on has GPUs and
/// ports that the next run needs.
fn end_descendants(when: &str) {
    static ONE: Mutex<()> = Mutex::new(());
    let _turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (names, left) = descendants::end_all();
    if !names.is_empty() && !when.is_empty() {
        let names: Vec<String> = names
            .iter()
            .map(|(name, count)| format!("{count} × {name}"))
            .collect();
        terminal::say(&format!(
            "rdma-doctor: ended what ran{when}: {}",
            names.join(", ")
        ));
    }
    if left > 0 {
        terminal::say(&format!(
            "rdma-doctor: {left} processes of the job do not end by SIGKILL"
        ));
    }
}
