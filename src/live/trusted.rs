//! Whose files root may take. With sudo or in a prolog, root may have a user's environment: a library that is found through it runs with root's
//! rights, so only root may be able to write it, and a file that it names is read with them.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::files;
use super::path_walk::{Link, walk_from_root};
use crate::source::Refusal;

/// Where a child finds the library path that its parent was started with; what is not trusted is taken out of the loader's own variable.
pub const LIBRARY_PATH: &str = "RDMA_DOCTOR_LIBRARY_PATH";
/// Lists of directories in which libraries are looked for.
const DIRECTORIES: [&str; 1] = ["LD_LIBRARY_PATH"];
/// Files that libraries load: of the dynamic linker, libibverbs and CUDA.
const FILES: [&str; 7] = [
    "LD_PRELOAD",
    "LD_AUDIT",
    "IBV_DRIVERS",
    "RDMAV_DRIVERS",
    "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH",
    "GCONV_PATH",
];
/// Files that NCCL loads, or in which it finds their names.
const OF_NCCL: [&str; 7] = [
    "NCCL_NET_PLUGIN",
    "NCCL_TUNER_PLUGIN",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_ENV_PLUGIN",
    "NCCL_GIN_PLUGIN",
    "NCCL_CONF_FILE",
    "HOME",
];

/// Whether this process can do what no other user can. Root of a user namespace is a plain user of the machine.
fn is_root() -> bool {
    static IS_ROOT: OnceLock<bool> = OnceLock::new();
    let identity = ["0", "0", "4294967295"];
    *IS_ROOT.get_or_init(|| {
        let map = files::text(None, "/proc/self/uid_map");
        rustix::process::geteuid().is_root()
            && map.is_none_or(|map| map.split_whitespace().eq(identity))
    })
}

/// Why root may not take this path although root runs this process; `None` if it may, or this is another user.
pub fn distrust(path: &Path) -> Option<String> {
    is_root().then(|| writable_by_others(path)).flatten()
}

/// The users besides root that can change the file of this path.
fn writable_by_others(path: &Path) -> Option<String> {
    let mut refused = None;
    let looked = walk_from_root(path, &mut |step| {
        refused = others(step.own, &[]).map(|who| format!("{} {who}", step.path.to_string_lossy()));
        refused
            .is_none()
            .then_some(Link::IsFollowed)
            .ok_or(Errno::ACCESS)
    });
    let failed = |error: Errno| format!("{}: {error}", path.to_string_lossy());
    refused.or_else(|| looked.err().map(failed))
}

/// Opens, for a look alone, a file that a user named: nobody but root and the user of the job can have put it there, and no user is led to what is not his.
/// `job` is a process of the job's.
///
/// # Errors
///
/// Those of open(2); *not asked* with who else could replace the file.
pub(super) fn look_at_named(path: &str, job: Option<u32>) -> Result<OwnedFd, Refusal> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    if !is_root() {
        return Ok(rustix::fs::open(path, flags, Mode::empty())?);
    }
    let users = users_of_job(job);
    let mut refused = None;
    // The user who decides where the rest of the path leads.
    let mut leader = None;
    let place = walk_from_root(Path::new(path), &mut |step| {
        let own = step.own;
        if let Some(who) = others(own, &users) {
            refused = Some(format!("{} {who}", step.path.to_string_lossy()));
            return Err(Errno::ACCESS);
        }
        if leader.is_some_and(|user| user != own.st_uid && !is_open_to_all(own)) {
            return Err(Errno::ACCESS);
        }
        leader = leader.or(Some(own.st_uid).filter(|user| *user != 0));
        Ok(Link::IsFollowed)
    });
    if let Some(who) = refused {
        let why = "as root, no file is read that others can replace";
        return Err(Refusal::not_asked(format!("{why}: {who}")));
    }
    let found = place?.open(OFlags::PATH)?;
    // Another one may have taken the place of what was looked at.
    match others(&rustix::fs::fstat(&found)?, &users) {
        Some(who) => Err(Refusal::not_asked(format!("{path} {who}"))),
        None => Ok(found),
    }
}

/// Whether every user may read a file, or go through a directory or a link.
fn is_open_to_all(stat: &Stat) -> bool {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => true,
        FileType::Directory => stat.st_mode & 0o001 != 0,
        _ => stat.st_mode & 0o004 != 0,
    }
}

/// The user whose job this is, if root examines the node for somebody: the caller of sudo, the owner of the job of a prolog, of a process that was named.
fn users_of_job(job: Option<u32>) -> Vec<u32> {
    let said = ["SUDO_UID", "PKEXEC_UID", "SLURM_JOB_UID"];
    let said = said
        .iter()
        .find_map(|name| variable(name)?.to_str()?.parse().ok());
    let process = job.and_then(|pid| rustix::fs::stat(format!("/proc/{pid}")).ok());
    said.into_iter()
        .chain(process.map(|about| about.st_uid))
        .collect()
}

/// Who besides root and these users can replace what this is. A group with a user's number is that user's own.
fn others(stat: &Stat, users: &[u32]) -> Option<String> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    // In a sticky directory nobody replaces the files of another user.
    let is_sticky = stat.st_mode & 0o1000 != 0 && kind == FileType::Directory;
    let has = |id: u32| id == 0 || users.contains(&id);
    if !has(stat.st_uid) {
        return Some(format!("is owned by user {}", stat.st_uid));
    }
    if is_sticky || kind == FileType::Symlink {
        return None;
    }
    if stat.st_mode & 0o020 != 0 && !has(stat.st_gid) {
        return Some(format!("can be written by group {}", stat.st_gid));
    }
    (stat.st_mode & 0o002 != 0).then(|| "can be written by everybody".to_owned())
}

/// Takes out of a child's environment what would make root load a user's code.
pub fn keep(command: &mut Command) {
    if !is_root() {
        return;
    }
    for name in DIRECTORIES {
        let Some(value) = variable(name) else {
            continue;
        };
        command.env(
            LIBRARY_PATH,
            variable(LIBRARY_PATH).unwrap_or_else(|| value.clone()),
        );
        let dirs = directories(&value).filter(|dir| distrust(dir).is_none());
        match std::env::join_paths(dirs) {
            Ok(kept) if !kept.is_empty() => command.env(name, kept),
            _ => command.env_remove(name),
        };
    }
    remove(command, &FILES);
}

/// The same for a child that loads NCCL, which loads plugins.
pub fn keep_plugins(command: &mut Command) {
    if is_root() {
        remove(command, &OF_NCCL);
    }
}

fn remove(command: &mut Command, names: &[&str]) {
    for name in names.iter().filter(|name| refused(name).is_some()) {
        command.env_remove(name);
    }
}

/// Why the files that a variable names are not trusted. A name without a directory is looked for in the library path.
fn refused(name: &str) -> Option<String> {
    let value = variable(name)?;
    let parts = value.as_bytes().split(|byte| b":; ,".contains(byte));
    parts
        .filter(|part| part.contains(&b'/'))
        .find_map(|part| distrust(Path::new(OsStr::from_bytes(part))))
}

/// What of the environment root does not load, in a sentence.
pub fn left_out() -> Option<String> {
    if !is_root() {
        return None;
    }
    let dirs = DIRECTORIES.iter().filter_map(|name| {
        let value = variable(name)?;
        let why = directories(&value).find_map(|dir| distrust(&dir))?;
        Some(format!("{name} ({why})"))
    });
    let files = FILES
        .iter()
        .filter_map(|name| Some(format!("{name} ({})", refused(name)?)));
    let all: Vec<String> = dirs.chain(files).collect();
    (!all.is_empty()).then(|| {
        format!(
            "as root, no library is loaded that others than root can write: {}",
            all.join(", ")
        )
    })
}

/// The directories that are there; an empty one is the working directory, which nobody vouches for.
fn directories(value: &OsStr) -> impl Iterator<Item = PathBuf> {
    let dirs = value.as_bytes().split(|byte| b":;".contains(byte));
    let dirs = dirs.map(|dir| PathBuf::from(OsStr::from_bytes(dir)));
    dirs.filter(|dir| dir.is_absolute() && rustix::fs::stat(dir).is_ok())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the environment is part of the machine"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_root_alone_can_write_is_trusted() {
        let system = ["/usr/lib", "/etc/passwd"];
        assert_eq!(
            system.map(|path| writable_by_others(Path::new(path))),
            [None, None]
        );
        let stat = |uid, gid, mode| {
            let mut stat = rustix::fs::stat("/").unwrap();
            (stat.st_uid, stat.st_gid, stat.st_mode) = (uid, gid, mode);
            others(&stat, &[])
        };
        assert_eq!(stat(0, 0, 0o040_775), None);
        assert_eq!(stat(0, 5, 0o041_777), None, "sticky, as /tmp is");
        assert_eq!(
            stat(0, 5, 0o040_775).as_deref(),
            Some("can be written by group 5")
        );
        assert_eq!(
            stat(0, 0, 0o100_666).as_deref(),
            Some("can be written by everybody")
        );
        assert_eq!(stat(7, 0, 0o040_755).as_deref(), Some("is owned by user 7"));
        assert!(writable_by_others(Path::new("/no/such/library.so")).is_some());
    }
}
