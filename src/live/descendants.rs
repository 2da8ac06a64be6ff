//! The processes below this one, in whatever session or process group they are, and their end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use crate::live::clock;
use rustix::process::{Pid, Signal, WaitOptions};

/// How long processes may take to end after SIGTERM.
const TERM: Duration = Duration::from_secs(3);
/// How long after SIGKILL. One in uninterruptible sleep, as in a GPU's driver, is left and named.
const KILL: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(5);

/// Makes this process the parent of each process below it whose own parent ends (`PR_SET_CHILD_SUBREAPER`, prctl(2)).
///
/// # Errors
///
/// The kernel refuses it.
pub fn adopt() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(
        rustix::process::getpid(),
    ))?)
}

/// Ends all processes below this one: by SIGTERM, then by SIGKILL. Returns the names of those that lived, and how many live still.
pub fn end_all() -> (BTreeMap<String, usize>, usize) {
    let mut names = BTreeMap::new();
    let mut counted = Vec::new();
    for (signal, patience) in [(Signal::TERM, TERM), (Signal::KILL, KILL)] {
        let until = clock::now() + patience;
        let mut told = Vec::new();
        loop {
            reap();
            let alive = below();
            if alive.is_empty() {
                return (names, 0);
            }
            for (pid, name) in alive {
                if !counted.contains(&pid) {
                    counted.push(pid);
                    *names.entry(name).or_default() += 1;
                }
                // One that a signal made start others is followed by them in the next look.
                if !told.contains(&pid) {
                    told.push(pid);
                    let _ = rustix::process::kill_process(pid, signal);
                }
            }
            if clock::now() >= until {
                break;
            }
            std::thread::sleep(PAUSE);
        }
    }
    reap();
    (names, below().len())
}

/// Takes the statuses of children that have ended.
fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

/// Every process below this one that has not ended, with its name.
#[expect(clippy::disallowed_methods, reason = "/proc is the kernel's own")]
fn below() -> Vec<(Pid, String)> {
    let mut parents: BTreeMap<i32, Vec<(i32, String)>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let stat = fs::read_to_string(entry.path().join("stat"));
        if let (Some(pid), Ok(stat)) = (pid, stat)
            && let Some((name, parent)) = name_and_parent(&stat)
        {
            parents.entry(parent).or_default().push((pid, name));
        }
    }
    let mut found = Vec::new();
    let mut next = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(parent) = next.pop() {
        for (pid, name) in parents.remove(&parent).unwrap_or_default() {
            next.push(pid);
            found.extend(Pid::from_raw(pid).map(|pid| (pid, name)));
        }
    }
    found
}

/// The name and the parent in a line of /proc/PID/stat (proc_pid_stat(5)); none of a process that has ended and waits for its parent.
fn name_and_parent(stat: &str) -> Option<(String, i32)> {
    let (start, rest) = stat.rsplit_once(") ")?;
    let (_, name) = start.split_once('(')?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then(|| (name.to_owned(), parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_spaces_and_brackets() {
        let line = "4711 (pt_main (x) thread) S 12 4711 4700 0 -1 4194304 1 0";
        assert_eq!(
            name_and_parent(line),
            Some(("pt_main (x) thread".into(), 12))
        );
        assert_eq!(name_and_parent("4711 (python3) Z 12 1 1"), None);
        assert_eq!(name_and_parent("4711 (python3"), None);
    }
}
