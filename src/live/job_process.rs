//! A process of a running job: what its own limits and namespaces do not tell, filtered here, so that nothing else of it is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use serde_json::{Map, Value, json};

use crate::source::question::Call;
use crate::source::{Answer, Refusal};

/// Libraries whose copies matter, by the beginning of their file's name.
const LIBRARIES: &str = "\
    libnccl librccl libibverbs librdmacm libmlx libefa libfabric libuc libcuda.so libcudart \
    libnvidia-ml libmpi libhpcx libsharp";
/// Bytes of an environment that are read: the kernel's own bound on one is far above what any job has.
const ENVIRONMENT: u64 = 4 << 20;
/// Lines of a memory map that are read: the default of vm.max_map_count, and room.
const MAPPINGS: usize = 200_000;
/// Descriptors that are looked at.
const DESCRIPTORS: usize = 200_000;

/// Whether there is a process of this id.
pub fn exists(pid: u32) -> bool {
    rustix::fs::stat(format!("/proc/{pid}")).is_ok()
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

fn open(pid: u64, name: &str, flags: OFlags) -> std::io::Result<OwnedFd> {
    let path = format!("/proc/{pid}/{name}");
    Ok(rustix::fs::open(
        path,
        flags | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// The variables with one of the prefixes; no other leaves this function.
fn environment(pid: u64, prefixes: &str) -> std::io::Result<Value> {
    let mut bytes = Vec::new();
    std::fs::File::from(open(pid, "environ", OFlags::RDONLY)?)
        .take(ENVIRONMENT)
        .read_to_end(&mut bytes)?;
    Ok(variables(&bytes, prefixes).into())
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

/// The files of the libraries that matter, each once: `{"libraries":[…]}`.
fn libraries(pid: u64) -> std::io::Result<Value> {
    let maps = BufReader::new(std::fs::File::from(open(pid, "maps", OFlags::RDONLY)?));
    let mut found = BTreeSet::new();
    for line in maps.split(b'\n').take(MAPPINGS) {
        let line = line?;
        if let Some(path) = library(&String::from_utf8_lossy(&line)) {
            found.insert(path.to_owned());
        }
    }
    Ok(json!({ "libraries": found }))
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
fn files(pid: u64) -> std::io::Result<Value> {
    let dir = open(pid, "fd", OFlags::RDONLY | OFlags::DIRECTORY)?;
    let (mut open, mut devices) = (0u64, BTreeMap::<String, u64>::new());
    for entry in rustix::fs::Dir::read_from(&dir)?.take(DESCRIPTORS) {
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
