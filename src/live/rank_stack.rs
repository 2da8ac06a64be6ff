//! Where a rank's Python program stands, as py-spy reads it from the memory of the process, which goes on meanwhile (`--nonblocking`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::geteuid;
use serde::Deserialize;
use serde_json::{Value, json};

use super::command;
use super::environment;
use crate::source::{Answer, Refusal};

/// Bytes of what py-spy says of a process.
const LIMIT: u64 = 16 << 20;
/// Parts of the paths of files that a person's own program is not in.
const LIBRARIES: [&str; 6] = [
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "/lib64/python3",
    "<frozen ",
    "<string>",
];
/// Functions around the one that was called: decorators, and calls of modules (torch/nn/modules/module.py).
const WRAPPERS: [&str; 8] = [
    "wrapper",
    "wrapped",
    "inner",
    "_fn",
    "decorate_context",
    "_wrapped_call_impl",
    "_call_impl",
    "__call__",
];

/// A thread of `py-spy dump --json`.
#[derive(Deserialize)]
struct Thread {
    os_thread_id: Option<u32>,
    frames: Vec<Frame>,
}

/// A function that has not returned; the innermost comes first.
#[derive(Deserialize)]
struct Frame {
    name: String,
    filename: String,
    #[serde(default)]
    line: u64,
}

impl Frame {
    fn is_of_library(&self) -> bool {
        LIBRARIES.iter().any(|part| self.filename.contains(part))
    }
}

/// Answers `rank_stack` (pid), by the py-spy that the command line names: `{"function","file","line","call"}` of the main thread: the innermost function
/// of the person's own program, and the function of a library that it called; `{}` where the main thread runs no Python.
pub(super) fn ask(pid: u32, py_spy: Option<&Path>) -> Result<Answer, Refusal> {
    let program = py_spy.ok_or_else(|| Refusal::not_asked("no stacks were asked for"))?;
    let program = place_of(program).ok_or(Refusal::CommandMissing)?;
    let number = pid.to_string();
    let args = ["dump", "--nonblocking", "--json", "--pid", &number];
    let args: Vec<Arc<str>> = args.into_iter().map(Arc::from).collect();
    let Answer::Text(text) = command::run_program(&program, &args, LIMIT)? else {
        return Ok(Answer::from(Value::Null));
    };
    // What is no list of threads is no answer that anybody understands.
    let Ok(threads) = serde_json::from_str::<Vec<Thread>>(&text) else {
        return Ok(Answer::from(Value::Null));
    };
    let main = threads
        .iter()
        .find(|thread| thread.os_thread_id == Some(pid));
    Ok(Answer::from(main.map_or_else(|| json!({}), place_in)))
}

/// A path as it is; a name in the directories of system tools, and for another user than root in that user's own.
fn place_of(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let name = program.to_str()?;
    let own = environment::variable("PATH").filter(|_| !geteuid().is_root());
    command::find(name, command::PATH).or_else(|| command::find(name, &own?))
}

fn place_in(thread: &Thread) -> Value {
    let own = thread
        .frames
        .iter()
        .position(|frame| !frame.is_of_library());
    let at = own.unwrap_or_else(|| thread.frames.len().saturating_sub(1));
    let Some(frame) = thread.frames.get(at) else {
        return json!({});
    };
    let within = thread.frames.iter().take(at).rev();
    let is_wrapper = |frame: &&Frame| WRAPPERS.contains(&frame.name.as_str());
    let called = within
        .filter(|frame| !is_wrapper(frame))
        .map(|frame| &frame.name);
    json!({
        "function": frame.name,
        "file": frame.filename,
        "line": frame.line,
        "call": called.into_iter().next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(frames: &[(&str, &str, u64)]) -> Thread {
        let frame = |(name, filename, line): &(&str, &str, u64)| Frame {
            name: (*name).to_owned(),
            filename: (*filename).to_owned(),
            line: *line,
        };
        Thread {
            os_thread_id: Some(1),
            frames: frames.iter().map(frame).collect(),
        }
    }

    #[test]
    fn the_persons_own_function_is_told_with_what_it_called() {
        let torch = "/opt/venv/lib/python3.11/site-packages/torch/distributed";
        let collectives = format!("{torch}/distributed_c10d.py");
        let logger = format!("{torch}/c10d_logger.py");
        let place = place_in(&thread(&[
            ("all_reduce", &collectives, 2810),
            ("wrapper", &logger, 83),
            ("step", "/home/a/train.py", 88),
            ("<module>", "/home/a/train.py", 120),
        ]));
        let expected = json!({"function": "step", "file": "/home/a/train.py", "line": 88, "call": "all_reduce"});
        assert_eq!(place, expected);
        let place = place_in(&thread(&[("load", "/home/a/data.py", 7)]));
        assert_eq!(place["call"], Value::Null);
        assert_eq!(place_in(&thread(&[])), json!({}));
        // A worker that runs nothing but a library's own loop.
        let place = place_in(&thread(&[("_run", &collectives, 5), ("main", &logger, 9)]));
        assert_eq!(
            (&place["function"], &place["call"]),
            (&json!("main"), &json!("_run"))
        );
    }
}
