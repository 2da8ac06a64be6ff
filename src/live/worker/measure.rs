//! Measurements in child processes: one child asks one question after the other, until one does not end well; the next goes on with the rest.
//!
//! A measurement that hangs costs itself alone: its child is killed with its process group, and what it was asked gets the reply *timeout*. One that
//! fails ends its child too, since a context after an error is in no state to measure.

use crate::live::clock;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use super::child::{self, how_its_process_ended, kill_group, wait_a_moment};
use super::{ChildOutput, Recorder, WatchedSource, lifeline, watch};
use crate::live::Live;
use crate::source::wire::{self, Line};
use crate::source::{Answer, Question, Refusal, Reply, Source};

/// The argument by which this program measures.
pub const ARGUMENT: &str = "__measure";

/// How measurements are run.
pub struct Measuring<'m> {
    /// Whose questions these are, in the recording.
    pub probe: &'m str,
    /// When the recording began, in nanoseconds of `CLOCK_BOOTTIME`.
    pub started_ns: u64,
    /// How long one measurement may take.
    pub deadline: Duration,
}

/// Asks these questions in order. `skip` gets each reply, and returns why a later question must not be asked any more.
pub fn measure(
    how: &Measuring<'_>,
    questions: Vec<Question>,
    mut said: impl FnMut(&Question, &Reply),
    skip: impl Fn(&Question) -> Option<String>,
) -> Vec<Line> {
    let mut lines = Vec::with_capacity(questions.len());
    let mut open: VecDeque<Question> = questions.into();
    let at = || clock::boottime_ns().saturating_sub(how.started_ns) / 1000;
    let mut put = |question: Question, reply: Reply| {
        said(&question, &reply);
        let probe = how.probe.into();
        lines.push(Line::Reply {
            probe,
            question,
            repeat: 0,
            reply,
        });
    };
    loop {
        let refuse = |why: String| Reply {
            at: at(),
            said: Err(Refusal::not_asked(why)),
        };
        while let Some(why) = open.front().and_then(&skip) {
            if let Some(question) = open.pop_front() {
                put(question, refuse(why));
            }
        }
        if open.is_empty() {
            return lines;
        }
        let mut child = match start(how, &open) {
            Ok(child) => child,
            Err(error) => {
                let why = format!("its process did not start: {error}");
                for question in open.drain(..) {
                    put(question, refuse(why.clone()));
                }
                continue;
            }
        };
        let (sender, inbox) = mpsc::channel();
        if let Some(pipe) = child.stdout.take() {
            // Without a thread nothing is read, which ends the question as if the child had ended.
            let _ = Builder::new().spawn(move || {
                for line in BufReader::new(pipe).lines() {
                    let line = line.ok().and_then(|line| wire::parse_line(&line).ok());
                    // A child that writes what is no line is not read further.
                    if line.is_none_or(|line| sender.send(line).is_err()) {
                        break;
                    }
                }
            });
        }
        let mut ends = clock::now() + how.deadline;
        // What became of the question at which the child ended, if it did not end by itself.
        let refusal = loop {
            match inbox.recv_timeout(ends.saturating_duration_since(clock::now())) {
                Ok(Line::Reply {
                    question, reply, ..
                }) if open.front() == Some(&question) => {
                    open.pop_front();
                    put(question, reply);
                    ends = clock::now() + how.deadline;
                    // The child goes on with the next one unless it is not to be asked.
                    if open.front().is_some_and(|next| skip(next).is_some()) {
                        break None;
                    }
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => break Some(Refusal::Timeout),
                Err(RecvTimeoutError::Disconnected) => break ended(&mut child),
            }
        };
        kill_group(&child);
        wait_a_moment(&mut child);
        if let Some(refusal) = refusal
            && let Some(question) = open.pop_front()
        {
            let said = Err(refusal);
            put(question, Reply { at: at(), said });
        }
    }
}

/// How a child that closed its output ended; `None` where well.
fn ended(child: &mut Child) -> Option<Refusal> {
    let status = wait_a_moment(child)?;
    match status.success() {
        true => None,
        false => Some(Refusal::Crash(how_its_process_ended(status).into())),
    }
}

fn start(how: &Measuring<'_>, questions: &VecDeque<Question>) -> std::io::Result<Child> {
    let questions = serde_json::to_string(questions)?;
    let with = |command: &mut Command| {
        command.args([how.probe, &how.started_ns.to_string(), &questions]);
    };
    child::start(None, ARGUMENT, Stdio::null, with)
}

/// The child's side: asks one question after the other, and ends after one that did not end well.
///
/// # Errors
///
/// The questions are none, or the parent is gone.
pub fn child(probe: &str, started_ns: u64, questions: &str) -> std::io::Result<()> {
    let questions: Vec<Question> = serde_json::from_str(questions)?;
    let outlet = Arc::new(Mutex::new(ChildOutput::new(probe.into(), 1 << 14)));
    // It is busy until its end and gets no further names.
    let (told, _) = mpsc::channel();
    Builder::new().spawn(move || lifeline(&told, &AtomicBool::new(true)))?;
    let watched = Arc::clone(&outlet);
    Builder::new().spawn(move || watch(&watched))?;
    let sink = Arc::clone(&outlet);
    let source = WatchedSource {
        source: Live::benchmark(started_ns),
        places: None,
        started_ns,
        probe: probe.into(),
        outlet: Arc::clone(&outlet),
    };
    let recorder = Recorder::new(source, probe, move |line| {
        let mut outlet = sink.lock().unwrap_or_else(PoisonError::into_inner);
        outlet.write(&line);
    });
    for question in &questions {
        let reply = recorder.ask(question);
        let mut outlet = outlet.lock().unwrap_or_else(PoisonError::into_inner);
        std::io::Write::flush(&mut outlet.out)?;
        let well = matches!(&reply.said, Ok(Answer::Value(value)) if value.get("failed").is_none());
        if !well {
            break;
        }
    }
    Ok(())
}
