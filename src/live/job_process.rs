//! A process of a running job: what its own limits and namespaces do not tell, filtered here, so that nothing else of it is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use serde_json::{Map, Value, json};

use super::nccl_files;
use crate::source::question::Call;
use crate::source::{Answer, Refusal};

/// Libraries whose copies matter, by the beginning of their file's name.
const LIBRARIES: &str = "\
    libnccl librccl libibverbs librdmacm libmlx libefa libfabric libuc libcuda.so libcudart \
    libnvidia-ml libmpi libhpcx libsharp";
/// Bytes of an environment that are read: more than any job has. The kernel's own bound is 6 MiB (fs/exec.c, `bprm_stack_limits`).
pub(super) const ENVIRONMENT: u64 = 4 << 20;
/// Lines of a memory map that are read: the default of vm.max_map_count, and room.
const MAPPINGS: usize = 200_000;
/// Descriptors that are looked at.
const DESCRIPTORS: usize = 200_000;

/// Whether there is a process of this id.
pub fn exists(pid: u32) -> bool {
    rustix::fs::stat(format!("/proc/{pid}")).is_ok()
}

/// The processes that this one started and that run.
pub fn children(pid: u32) -> Vec<u32> {
    let list = super::files::text(None, &format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// Answers `process_env` (pid, prefixes separated by commas), `process_libraries` (pid), `process_files` (pid).
///
/// All three need to be the process's user, or root.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    let pid = call
        .number("pid")
        .ok_or_else(|| Refusal::not_asked("no pid"))?;
    let value = match &*call.name {
        "process_env" => environment(pid, call.text("prefixes").unwrap_or(""))?,
        "process_libraries" => libraries(pid)?,
        "process_files" => files(pid)?,
        name => return Err(Refusal::unknown_call(name)),
    };
    Ok(Answer::from(value))
}

pub(super) fn open(pid: u64, name: &str, flags: OFlags) -> std::io::Result<OwnedFd> {
    let path = format!("/proc/{pid}/{name}");
    Ok(rustix::fs::open(
        path,
        flags | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// The variables with one of the prefixes; no other leaves this function.
fn environment(pid: u64, prefixes: &str) -> Result<Value, Refusal> {
    let file = std::fs::File::from(open(pid, "environ", OFlags::RDONLY)?);
    Ok(variables(&read_whole(file, ENVIRONMENT)?, prefixes).into())
}

/// All that there is to read, of which a part would pass for the whole: too large if that is more than `most` bytes.
pub(super) fn read_whole(reader: impl Read, most: u64) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    let read = reader.take(most + 1).read_to_end(&mut bytes)?;
    if read as u64 > most {
        return Err(Refusal::TooLarge);
    }
    Ok(bytes)
}

/// The items, and a refusal in the place of the one that is one too many.
pub(super) fn at_most<T, E: Into<std::io::Error>>(
    items: impl Iterator<Item = Result<T, E>>,
    most: usize,
) -> impl Iterator<Item = Result<T, Refusal>> {
    let numbered = items.take(most + 1).enumerate();
    numbered.map(move |(at, item)| {
        if at == most {
            return Err(Refusal::TooLarge);
        }
        item.map_err(|error| Refusal::from(error.into()))
    })
}

fn variables(bytes: &[u8], prefixes: &str) -> Map<String, Value> {
    let wanted = |name: &str| {
        prefixes
            .split(',')
            .any(|prefix| !prefix.is_empty() && name.starts_with(prefix))
    };
    bytes
        .split(|byte| *byte == 0)
        .filter_map(|variable| {
            let text = String::from_utf8_lossy(variable);
            let (name, value) = text.split_once('=')?;
            wanted(name).then(|| (name.to_owned(), value.into()))
        })
        .collect()
}

/// The files of the libraries that matter, each once, and the version of NCCL's as its process sees
/// it: `{"libraries":[…],"nccl":"2.27.5"}`.
fn libraries(pid: u64) -> Result<Value, Refusal> {
    let maps = BufReader::new(std::fs::File::from(open(pid, "maps", OFlags::RDONLY)?));
    let mut found = BTreeSet::new();
    for line in at_most(maps.split(b'\n'), MAPPINGS) {
        let line = line?;
        if let Some(path) = library(&String::from_utf8_lossy(&line)) {
            found.insert(path.to_owned());
        }
    }
    let mut nccl = found.iter().filter(|path| path.contains("/libnccl.so"));
    let seen = |path: &String| PathBuf::from(format!("/proc/{pid}/root{path}"));
    let version = nccl.find_map(|path| nccl_files::version_of(&seen(path)));
    Ok(json!({ "libraries": found, "nccl": version }))
}

/// The library of a line as `7f… r-xp 00000000 fd:00 123    /usr/lib/libnccl.so.2.18.3`.
fn library(line: &str) -> Option<&str> {
    let path = line.get(line.find('/')?..)?;
    // The file that was mapped is still the same library when it has been replaced since.
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let name = path.rsplit('/').next()?;
    let matters =
        name.contains(".so") && LIBRARIES.split(' ').any(|prefix| name.starts_with(prefix));
    matters.then_some(path)
}

/// How many descriptors are open, and which RDMA and GPU devices how often: `{"open":N,"devices":{"/dev/…":N}}`.
fn files(pid: u64) -> Result<Value, Refusal> {
    let dir = open(pid, "fd", OFlags::RDONLY | OFlags::DIRECTORY)?;
    let (mut open, mut devices) = (0u64, BTreeMap::<String, u64>::new());
    let entries = rustix::fs::Dir::read_from(&dir).map_err(std::io::Error::from)?;
    for entry in at_most(entries, DESCRIPTORS) {
        let entry = entry?;
        if entry.file_name().to_bytes().starts_with(b".") {
            continue;
        }
        open += 1;
        // A descriptor may be closed between the listing and the look.
        let Ok(target) = rustix::fs::readlinkat(&dir, entry.file_name(), Vec::new()) else {
            continue;
        };
        let target = target.to_string_lossy();
        if target.starts_with("/dev/infiniband/") || target.starts_with("/dev/nvidia") {
            *devices.entry(target.into_owned()).or_default() += 1;
        }
    }
    Ok(json!({ "open": open, "devices": devices }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wanted_variables_are_kept() {
        let bytes = b"NCCL_DEBUG=INFO\0AWS_SECRET_ACCESS_KEY=x\0UCX_TLS=rc,cuda\0NCCL_EMPTY=\0torn";
        let found = variables(bytes, "NCCL_,UCX_");
        assert_eq!(
            Value::from(found),
            json!({ "NCCL_DEBUG": "INFO", "UCX_TLS": "rc,cuda", "NCCL_EMPTY": "" })
        );
        assert!(variables(bytes, "").is_empty(), "no prefix is no wish");
    }

    #[test]
    fn what_is_cut_short_does_not_pass_for_the_whole() {
        let environment = b"NCCL_DEBUG=INFO\0";
        let most = environment.len() as u64;
        assert_eq!(read_whole(&environment[..], most), Ok(environment.to_vec()));
        assert_eq!(
            read_whole(&environment[..], most - 1),
            Err(Refusal::TooLarge)
        );
        let lines = || [1, 2, 3].map(Ok::<_, std::io::Error>).into_iter();
        let read = |most| at_most(lines(), most).collect::<Result<Vec<_>, _>>();
        assert_eq!(read(3), Ok(vec![1, 2, 3]));
        assert_eq!(read(2), Err(Refusal::TooLarge));
    }

    #[test]
    fn libraries_by_name() {
        let line =
            |path: &str| format!("7f0000000000-7f0000001000 r-xp 00000000 fd:00 42     {path}");
        for (path, expected) in [
            (
                "/usr/lib/libnccl.so.2.18.3",
                Some("/usr/lib/libnccl.so.2.18.3"),
            ),
            ("/a b/libnccl-net.so", Some("/a b/libnccl-net.so")),
            ("/opt/libnccl.so.2 (deleted)", Some("/opt/libnccl.so.2")),
            ("/usr/lib/libc.so.6", None),
            ("/home/u/libnccl.txt", None),
        ] {
            assert_eq!(library(&line(path)), expected);
        }
        assert_eq!(library("7f00-7f01 rw-p 00000000 00:00 0 [heap]"), None);
    }

    #[test]
    fn this_process_answers() {
        let pid = std::process::id();
        assert!(exists(pid) && !exists(u32::MAX));
        let ask = |name: &str| ask(&Call::new(name, [("pid", u64::from(pid).into())]));
        let Ok(Answer::Value(files)) = ask("process_files") else {
            panic!("its own descriptors")
        };
        assert!(files["open"].as_u64().is_some_and(|open| open >= 3));
        assert!(ask("process_libraries").is_ok());
        assert!(ask("process_other").is_err());
    }
}
