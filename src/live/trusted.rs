//! Whose code root may load. With sudo or in a prolog, root may have a user's environment: a library that is found through it runs with root's
//! rights, so only root may be able to write it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::Stat;

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

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Why root may not load from this path although root runs this process; `None` if it may, or this is another user.
pub fn distrust(path: &Path) -> Option<String> {
    is_root().then(|| writable_by_others(path)).flatten()
}

/// The users besides root that can change the file of this path.
#[expect(clippy::disallowed_methods, reason = "where a library really is")]
fn writable_by_others(path: &Path) -> Option<String> {
    let real = match std::fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) => return Some(format!("{}: {error}", path.to_string_lossy())),
    };
    // The directories of links too: who can write them leads the path elsewhere.
    let all = real.ancestors().chain(path.ancestors().skip(1));
    all.filter(|one| !one.as_os_str().is_empty())
        .find_map(|one| {
            let name = one.to_string_lossy();
            match rustix::fs::stat(one) {
                Ok(stat) => others(&stat).map(|who| format!("{name} {who}")),
                Err(error) => Some(format!("{name}: {error}")),
            }
        })
}

fn others(stat: &Stat) -> Option<String> {
    // In a sticky directory nobody replaces the files of another user.
    let is_sticky = stat.st_mode & 0o1000 != 0 && stat.st_mode & 0o170_000 == 0o040_000;
    let group = stat.st_mode & 0o020 != 0 && stat.st_gid != 0;
    match stat.st_uid {
        0 if is_sticky => None,
        0 if group => Some(format!("can be written by group {}", stat.st_gid)),
        0 if stat.st_mode & 0o002 != 0 => Some("can be written by everybody".to_owned()),
        0 => None,
        uid => Some(format!("is owned by user {uid}")),
    }
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
            others(&stat)
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
