//! What was asked of a running job beside its processes, as files of a recording.

use serde_json::{Value, json};

use crate::left_out::{self, LeftOut};
use crate::live::log;
use crate::probe::nccl_log;
use crate::source::recording::Recording;
use crate::source::wire::Line;
use crate::source::{Answer, Reply};

/// Files that the job gave when it was asked.
#[derive(Default)]
pub(super) struct FoundFiles {
    names: Vec<Value>,
    lines: Vec<Line>,
    left_out: Vec<LeftOut>,
}

impl FoundFiles {
    /// Counts what was not given.
    pub(super) fn lacks(&mut self, one: LeftOut) {
        left_out::add(&mut self.left_out, one);
    }

    /// Adds a file by its name.
    pub(super) fn add(&mut self, name: &str, bytes: Vec<u8>) {
        let (question, digest) = (nccl_log::file(name), log::digest(bytes));
        self.lines
            .push(Line::of(nccl_log::NAME, question, &digest, 0));
        self.names.push(name.into());
    }

    /// The recording of files with these among them.
    pub(super) fn beside(self, files: &Recording) -> Recording {
        let mut whole = Recording::new(files.header.clone());
        for mut line in files.to_lines() {
            if let Line::Reply {
                question, reply, ..
            } = &mut line
                && *question == nccl_log::files()
            {
                self.list_in(reply);
            }
            whole.add(line);
        }
        for line in self.lines {
            whole.add(line);
        }
        whole
    }

    fn list_in(&self, reply: &mut Reply) {
        let Ok(Answer::Value(said)) = &reply.said else {
            return;
        };
        let mut said = (**said).clone();
        if let Some(files) = said.get_mut("files").and_then(Value::as_array_mut) {
            files.extend(self.names.iter().cloned());
        }
        let left_out = json!(self.left_out);
        match (
            said.get_mut("left_out").and_then(Value::as_array_mut),
            left_out,
        ) {
            (Some(all), Value::Array(more)) => all.extend(more),
            (_, left_out) => said["left_out"] = left_out,
        }
        reply.said = Ok(Answer::from(said));
    }
}
