//! Cleans up after killed ranks: NCCL's files in shared memory. Also reads the state of a process
//! that does not end.

#![expect(
    clippy::disallowed_methods,
    reason = "what ranks leave is looked for, and goes with them"
)]

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

/// NCCL's shared-memory files: `nccl-XXXXXX` (NCCL 2.30, `src/misc/shmutils.cc`).
const SHARED_MEMORY: &str = "/dev/shm";
const NCCL_PREFIX: &str = "nccl-";

/// NCCL's shared-memory files that belong to this user.
pub fn shared_files() -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(SHARED_MEMORY) else {
        return BTreeSet::new();
    };
    let own = geteuid().as_raw();
    let is_own = |entry: &DirEntry| {
        let is_of_nccl = (entry.file_name().as_encoded_bytes()).starts_with(NCCL_PREFIX.as_bytes());
        is_of_nccl && (entry.metadata()).is_ok_and(|m| m.uid() == own && m.is_file())
    };
    entries
        .flatten()
        .filter(is_own)
        .filter_map(|entry| entry.path().into_os_string().into_string().ok())
        .collect()
}

/// NCCL's shared-memory files that a process has mapped or open.
pub fn files_used_by(pid: u32) -> BTreeSet<String> {
    let wanted = format!("{SHARED_MEMORY}/{NCCL_PREFIX}");
    let mut files = BTreeSet::new();
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    for line in String::from_utf8_lossy(&maps).lines() {
        if let Some(at) = line.find(&wanted) {
            files.insert(line[at..].to_owned());
        }
    }
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter();
    for entry in open.flatten().flatten() {
        let target = std::fs::read_link(entry.path()).ok();
        let target = target.and_then(|t| t.into_os_string().into_string().ok());
        files.extend(target.filter(|t| t.starts_with(&wanted)));
    }
    // A removed file has this mark.
    files.retain(|file| !file.ends_with(" (deleted)"));
    files
}

/// Removes those of the files that no process uses, and returns them.
pub fn remove_unused(mut files: BTreeSet<String>) -> Vec<String> {
    if files.is_empty() {
        return Vec::new();
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for pid in pids {
        let used = files_used_by(pid);
        files.retain(|file| !used.contains(file));
    }
    let own = shared_files();
    files.retain(|file| own.contains(file) && std::fs::remove_file(Path::new(file)).is_ok());
    files.into_iter().collect()
}

/// Removes the files of this process, which is about to be killed: no other process may be left to
/// do it.
pub fn remove_own() {
    let own = shared_files();
    for file in files_used_by(std::process::id()).intersection(&own) {
        // Another rank may have removed it already.
        let _ = std::fs::remove_file(Path::new(file));
    }
}

/// The state of a process that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// A signal or a debugger stopped it.
    Stopped,
    /// It is in uninterruptible sleep.
    Uninterruptible,
    /// It has exited, or is a zombie.
    Gone,
}

/// Reads a process's state (proc_pid_stat(5)); `None` if it runs or sleeps normally.
pub fn process_state(pid: u32) -> Option<ProcessState> {
    let stat = match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Some(ProcessState::Gone),
        Err(_) => return None,
    };
    parse_stat(&stat)
}

/// The name may contain any character: the state follows the last parenthesis.
fn parse_stat(stat: &[u8]) -> Option<ProcessState> {
    let end = memchr::memrchr(b')', stat)?;
    match stat.get(end + 2)? {
        b'T' | b't' => Some(ProcessState::Stopped),
        b'D' => Some(ProcessState::Uninterruptible),
        b'Z' | b'X' => Some(ProcessState::Gone),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_nobody_uses_are_removed_and_others_stay() {
        let path = format!("{SHARED_MEMORY}/{NCCL_PREFIX}test-{}", std::process::id());
        let Ok(file) = std::fs::File::create_new(&path) else {
            // No shared memory here.
            return;
        };
        let all: BTreeSet<String> =
            [path.clone(), format!("{SHARED_MEMORY}/{NCCL_PREFIX}none")].into();
        assert!(shared_files().contains(&path));
        assert!(files_used_by(std::process::id()).contains(&path));
        assert_eq!(remove_unused(all.clone()), [""; 0]);
        drop(file);
        assert_eq!(remove_unused(all), std::slice::from_ref(&path));
        assert!(!shared_files().contains(&path));
    }

    #[test]
    fn states_are_read_behind_the_name() {
        assert_eq!(
            parse_stat(b"12 (a) D (b) T 1 2"),
            Some(ProcessState::Stopped)
        );
        assert_eq!(
            parse_stat(b"12 (a) D 1"),
            Some(ProcessState::Uninterruptible)
        );
        assert_eq!(parse_stat(b"12 (a) Z 1"), Some(ProcessState::Gone));
        assert_eq!(parse_stat(b"12 (a) S 1"), None);
        assert_eq!(parse_stat(b"12"), None);
        assert_eq!(process_state(std::process::id()), None);
    }
}
