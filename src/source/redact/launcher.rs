//! Hosts in lines of launchers, where nothing but the place in the line says that a word is one:
//! behind `error: `, behind `on node `, at the end of a line, before a port. A word that is kept
//! anywhere (`kept.toml`) is no host there either.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::words::is_ordinary;
use super::{Names, kept, log};
use crate::nccl_log::{event_table, prefix};

/// What stands before a host, and before little else.
const SURELY: &[&str] = include!(concat!(env!("OUT_DIR"), "/launcher_marks.surely.rs"));
/// What stands behind a host there.
const AFTER: &[&str] = include!(concat!(env!("OUT_DIR"), "/launcher_marks.after.rs"));
/// What stands before a host at the end of a line.
const AT_THE_END: &[&str] = include!(concat!(env!("OUT_DIR"), "/launcher_marks.at_the_end.rs"));
/// What stands before what is plainly a name: it has a number, a hyphen or a domain.
const MAYBE: &[&str] = include!(concat!(env!("OUT_DIR"), "/launcher_marks.maybe.rs"));
/// Who writes a host behind `error: `.
const LAUNCHERS: &[&str] = include!(concat!(env!("OUT_DIR"), "/launcher_marks.launchers.rs"));

/// Words by which lines are recognised: to take one for a host would change what a line says.
pub(super) static WORDS_OF_MESSAGES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let words = event_table::texts().flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
    words.map(str::to_ascii_lowercase).collect()
});

/// The hosts that a line names. Lines of NCCL's have hosts in their own places.
pub(super) fn hosts(names: &Names, line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let bytes = line.as_bytes();
    if prefix::messages(bytes).next().is_some() || prefix::without_name(bytes).is_some() {
        return found;
    }
    log::words(line, |word, before, after| {
        let name = word.trim_end_matches(['.', '-']);
        if is_name(names, name) && is_place(name, before, after) {
            found.push(name.to_owned());
        }
        None
    });
    found
}

/// Whether a word can be the name of a host: not one that everybody uses, and no file's.
fn is_name(names: &Names, word: &str) -> bool {
    let last = word.rsplit('.').next().unwrap_or("");
    let is_file = word.contains('.') && kept::is_kept(names, last);
    let is_pseudonym = ["host-", "user-"].iter().any(|one| word.starts_with(one));
    let is_address = word.len() <= 4 && word.bytes().all(|b| b.is_ascii_hexdigit());
    // glog's `E1121`: a level and a date.
    let is_date = word.len() == 5 && word.bytes().skip(1).all(|b| b.is_ascii_digit());
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.len() > 1
        && !word.contains('_')
        && !is_file
        && !is_pseudonym
        && !is_address
        && !is_date
        && !is_ordinary(word)
        && !WORDS_OF_MESSAGES.contains(&word.to_ascii_lowercase())
        && !kept::is_kept(names, word)
}

/// Whether a host stands in this place of a line.
fn is_place(word: &str, before: &str, after: &str) -> bool {
    // A function is called, and a variable set.
    if after.starts_with(['(', '=', '/', '\\']) {
        return false;
    }
    let lower = before.to_ascii_lowercase();
    let ends_with = |marks: &[&str]| marks.iter().any(|mark| is_behind(&lower, mark));
    if lower.ends_with("error: ") || lower.ends_with("fatal: ") {
        let is_of_launcher = LAUNCHERS.iter().any(|name| lower.contains(name));
        return is_of_launcher && (after.starts_with(": ") || after.starts_with(" ["));
    }
    let is_numbered = word.bytes().any(|b| b.is_ascii_digit());
    let is_plain_name = is_numbered || word.contains('-') || word.split('.').count() > 2;
    let ends_line = !after.contains(|c: char| c.is_ascii_alphanumeric());
    let is_followed = AFTER.iter().any(|mark| after.starts_with(mark));
    let label = lower.trim_end();
    let is_labelled = label.ends_with("host:") || label.ends_with("node:");
    if is_labelled || ends_with(SURELY) {
        return is_plain_name || ends_line || is_followed;
    }
    if before.ends_with(['/', '\\', '$', '%', '@', '=', '-', '.', ':']) {
        return false;
    }
    // `{'n1': [0, 1]}`
    before.ends_with('\'') && after.starts_with("': [")
        || is_numbered && is_tag(before, after)
        || is_plain_name && (has_port(after) || ends_with(MAYBE))
        || ends_line && ends_with(AT_THE_END)
}

/// Whether a text ends with a mark, whose first word is whole there.
fn is_behind(text: &str, mark: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric();
    text.strip_suffix(mark)
        .is_some_and(|head| !mark.starts_with(is_letter) || !head.ends_with(is_letter))
}

/// `n1:8,`, `[n1:12345]`, `[n1]:29500`.
fn has_port(after: &str) -> bool {
    let port = after.strip_prefix(']').unwrap_or(after).strip_prefix(':');
    port.is_some_and(|port| port.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a word is a launcher's tag before what a process on that host wrote.
fn is_tag(before: &str, after: &str) -> bool {
    let is_first = before.is_empty() && (after.starts_with(": ") || after.starts_with(" | "));
    is_first || before.ends_with(": ") && after.starts_with(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::redact::key::Key;

    #[test]
    fn a_host_is_found_by_its_place() {
        let names = Names::new(Key::from_text("k"), "", &[]);
        for (line, expected) in [
            ("srun: error: zq22: task 1: Killed", &["zq22"][..]),
            (
                "srun: error: zq-login: tasks 8-15: Exited with exit code 1",
                &["zq-login"],
            ),
            (
                "slurmstepd: error: *** STEP 4711.0 ON zq3 CANCELLED AT 2026-11-20T10:11:12 DUE TO TIME LIMIT ***",
                &["zq3"],
            ),
            (
                "slurmstepd: error: Some of the step tasks have been OOM Killed on zqueen",
                &["zqueen"],
            ),
            (
                "mpirun noticed that process rank 3 with PID 0 on node zqueen exited on signal 9 (Killed).",
                &["zqueen"],
            ),
            (
                "1 process returned a non-zero exit code on zqueen.",
                &["zqueen"],
            ),
            ("[zq7:12345] *** Process received signal ***", &["zq7"]),
            (
                "ssh: connect to host zqueen.corp.example port 22: Connection refused",
                &["zqueen.corp.example"],
            ),
            ("zq5: ssh exited with exit code 255", &["zq5"]),
            (
                "WORLD INFO DICT: {'zqueen': [0], 'zking': [0]}",
                &["zqueen", "zking"],
            ),
            (
                "failed to connect to [zq1.corp.example]:29500 (errno: 110)",
                &["zq1.corp.example"],
            ),
            ("  Local host:   zqueen", &["zqueen"]),
            ("torchrun --rdzv_endpoint=zq0:29500 train.py", &["zq0"]),
            ("MASTER_ADDR=zqueen", &["zqueen"]),
            ("mpirun -np 4 -H zq1:2,zq2:2 ./x", &["zq1", "zq2"]),
            (
                "srun: error: Unable to create step for job 4711: Requested node configuration is not available",
                &[],
            ),
            (
                "slurmstepd: error: execve(): python: No such file or directory",
                &[],
            ),
            ("RuntimeError: CUDA error: out of memory", &[]),
            ("  File \"train.py\", line 7, in main", &[]),
            (
                "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2395, unhandled system error",
                &[],
            ),
            ("error: node not found", &[]),
            (
                "[rank1]: torch.distributed.DistNetworkError: The client socket has failed",
                &[],
            ),
            (
                "[rank1]: Last error: socketProgress: Connection closed",
                &[],
            ),
        ] {
            assert_eq!(hosts(&names, line), expected, "{line}");
        }
    }
}
