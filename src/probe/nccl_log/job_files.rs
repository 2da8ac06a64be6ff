//! What the nodes of a running job gave in files, as one log: the dumps of its ranks tell something only beside each other.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{NAME, establish, file, files};
use crate::fact::Facts;
use crate::probe::ranks;
use crate::source::Answer;
use crate::source::recording::Recording;
use crate::source::wire::Line;

/// States what these recordings of log files say, in `facts`; those of a running job's nodes are read together.
pub fn establish_all<'r>(logs: impl IntoIterator<Item = &'r Recording>, facts: &mut Facts) {
    let (of_job, others): (Vec<_>, Vec<_>) = logs.into_iter().partition(|log| ranks::is_in(log));
    for log in others {
        establish(log, facts);
    }
    match joined(&of_job) {
        Some(joined) => establish(&joined, facts),
        None => of_job.iter().for_each(|log| establish(log, facts)),
    }
}

/// The files of several recordings, each with its node before its name; `None` where one recording has them all.
fn joined(logs: &[&Recording]) -> Option<Recording> {
    let lists: Vec<(&Recording, Value)> = logs
        .iter()
        .filter_map(|log| Some((*log, list_of(log)?)))
        .filter(|(_, list)| {
            list["files"]
                .as_array()
                .is_some_and(|files| !files.is_empty())
        })
        .collect();
    if lists.len() < 2 {
        return None;
    }
    let mut whole = Recording::new(lists.first()?.0.header.clone());
    let (mut names, mut left_out) = (Vec::new(), Vec::new());
    let mut lines = Vec::new();
    for (log, list) in &lists {
        let node = &log.header.node;
        left_out.extend(list["left_out"].as_array().into_iter().flatten().cloned());
        for name in list["files"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            let said = log.first_reply(NAME, &file(name));
            let Some(Ok(Answer::Value(digest))) = said.map(|reply| &reply.said) else {
                continue;
            };
            let name = format!("{node}:{name}");
            lines.push(Line::of(NAME, file(&name), &**digest, 0));
            names.push(Value::from(name));
        }
    }
    let list = json!({ "files": names, "left_out": left_out });
    whole.add(Line::of(NAME, files(), &list, 0));
    for line in lines {
        whole.add(line);
    }
    whole.end();
    Some(whole)
}

/// The files of a recording, and what was left out.
fn list_of(log: &Recording) -> Option<Value> {
    match &log.first_reply(NAME, &files())?.said {
        Ok(Answer::Value(value)) => Some(Value::clone(Arc::as_ref(value))),
        _ => None,
    }
}
