//! What a collector, a launcher or a parallel shell put before lines, apart from the lines themselves.
//!
//! Marks, broken lines, indentation and prompts are read without it. A record gets it back: it says
//! when, where and in which rank the record was written. What a record is not has no use for it:
//! commands with their output, settings, and lines that begin with spaces.

use super::record_start::{self, RecordStart};
use crate::nccl_log::setting;
use crate::tool_output;

/// Takes it off the lines: what each had before it.
pub(super) fn take(lines: &mut [String]) -> Vec<String> {
    let label = label_of_all(lines).unwrap_or("").to_owned();
    let mut prefixes = Vec::with_capacity(lines.len());
    for line in lines {
        let of_all = line.strip_prefix(&label).map_or(0, |_| label.len());
        let length = length(line).unwrap_or(of_all);
        prefixes.push(line.drain(..length).collect());
    }
    prefixes
}

/// Puts it back before records.
pub(super) fn put_back(lines: &mut [String], prefixes: &[String]) {
    if prefixes.iter().all(String::is_empty) {
        return;
    }
    let mut both = lines.iter().zip(prefixes);
    let is_output = both.any(|both| is_indented(both.0) && !both.1.is_empty())
        && !lines.iter().any(|line| tool_output::is_command(line))
        && lines.iter().any(|line| tool_output::begins(line));
    let mut is_below_command = false;
    for (line, prefix) in lines.iter_mut().zip(prefixes) {
        if tool_output::is_command(line) {
            // The records of a journal have it themselves.
            is_below_command = !tool_output::shows_journal(line);
        } else if RecordStart::of(line) != RecordStart::None {
            is_below_command = false;
        }
        let stands_alone = is_below_command
            || is_indented(line) && !is_output
            || setting::sets(line.as_bytes())
            || setting::sets(format!("{prefix}{line}").as_bytes());
        if !stands_alone && !line.is_empty() {
            line.insert_str(0, prefix);
        }
    }
}

fn is_indented(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

/// The length of what only a collector or a launcher writes.
fn length(line: &str) -> Option<usize> {
    of_time(line)
        .or_else(|| of_syslog(line))
        .or_else(|| of_brackets(line))
}

/// `2026-01-02T03:04:05.123Z `, also with `node07 train[4242]: ` behind it, and the time of Loki in
/// nanoseconds.
fn of_time(line: &str) -> Option<usize> {
    let (time, rest) = line.split_once(' ')?;
    let is_epoch = time.len() == 19 && time.bytes().all(|b| b.is_ascii_digit());
    let is_date = time.contains('T') && time.len() > 18 && record_start::is_time(time);
    if !is_epoch && !is_date {
        return None;
    }
    Some(time.len() + 1 + of_program(rest).unwrap_or(0))
}

/// `Jan 02 03:04:05 node07 slurmstepd[4242]: `
fn of_syslog(line: &str) -> Option<usize> {
    let rest = line.get(16..).filter(|_| record_start::has_month(line))?;
    Some(16 + of_program(rest)?)
}

/// `node07 train[4242]: `. The kernel has no process.
fn of_program(rest: &str) -> Option<usize> {
    let (host, behind) = rest.split_once(' ')?;
    let (program, _) = behind.split_once(' ')?;
    let is_program = program.ends_with("]:") && program.contains('[');
    is_program.then_some(host.len() + program.len() + 2)
}

/// `[rank3]: `, `[default3]:`, `[1,3]<stderr>:`, `[prterun-n1-42@1,3]<stderr>: `, `[pod/w-0/train] `.
fn of_brackets(line: &str) -> Option<usize> {
    let (tag, behind) = line.strip_prefix('[')?.split_once(']')?;
    let end = if tag.starts_with("pod/") {
        " "
    } else if tag.strip_prefix("rank").is_some_and(is_number) {
        ": "
    } else if tag.strip_prefix("default").is_some_and(is_number) {
        ":"
    } else {
        let (job, rank) = tag.split_once(',')?;
        let is_job = is_number(job) || job.contains('@');
        let ends = ["<stderr>", "<stdout>", "<stddiag>"];
        let stream = ends.iter().find(|end| behind.starts_with(**end))?;
        let colon = if job.contains('@') { ": " } else { ":" };
        let is_tag = is_job && is_number(rank) && behind.get(stream.len()..)?.starts_with(colon);
        return is_tag.then_some(tag.len() + 2 + stream.len() + colon.len());
    };
    behind.starts_with(end).then_some(tag.len() + 2 + end.len())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// `3: `, `node07: `, `worker-3 (stderr): `, if each line has the same.
fn label_of_all(lines: &[String]) -> Option<&str> {
    let mut filled = lines.iter().filter(|line| !line.trim().is_empty());
    let first = filled.next()?;
    let (label, _) = first.split_once(": ")?;
    let name = label.strip_suffix(" (stderr)").unwrap_or(label);
    let name = name.strip_suffix(" (stdout)").unwrap_or(name);
    let is_name = name.bytes().any(|b| b.is_ascii_digit())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
    let label = first.get(..label.len() + 2)?;
    (is_name && filled.clone().count() > 0 && filled.all(|line| line.starts_with(label)))
        .then_some(label)
}
