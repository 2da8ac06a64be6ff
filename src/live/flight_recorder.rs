//! PyTorch's flight recorder, which a person asked to be asked: a byte in its named pipe, and the rank writes its dump into a file.
//!
//! The pipe is `TORCH_NCCL_DEBUG_INFO_PIPE_FILE`, the rank's number and `.pipe` (`DumpPipe`, PyTorch `ProcessGroupNCCL.hpp`); the file is
//! `TORCH_FR_DUMP_TEMP_FILE`, or `TORCH_NCCL_DEBUG_INFO_TEMP_FILE`, and the number (`DebugInfoWriter::getWriter`, `FlightRecorder.cpp`). All of them are
//! looked for where the rank sees them.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, Stat};

use super::clock;
use super::rank_process::variables;
use crate::launch;
use crate::trace;

const PIPE: &str = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE";
/// The beginning of the dump's path, the newer name first.
const DUMP: [&str; 2] = ["TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"];
/// Where PyTorch before 2.8 writes, if no variable says it.
const OLD_DUMP: &str = "/tmp/nccl_trace_rank_";
/// The same of later ones, below the directory for caches.
const NEW_DUMP: &str = "torch/comm_lib_trace_rank_";
/// Between two looks for the file.
const PAUSE: Duration = Duration::from_millis(100);

/// The recorder of a rank.
#[derive(Debug)]
pub struct FlightRecorder {
    pid: u32,
    /// The rank's number.
    pub rank: u64,
    pipe: Option<String>,
    dumps: Vec<String>,
}

/// What a file of a dump was at a moment.
type FileLook = Option<(u64, i64, u64, i64)>;

/// A dump that was asked for.
struct Awaited {
    place: PathBuf,
    /// As the rank calls it.
    name: String,
    before: FileLook,
}

impl FlightRecorder {
    /// That of a process, by its environment.
    ///
    /// # Errors
    ///
    /// Its environment may not be read, or tells no rank.
    pub fn of_rank(pid: u32) -> Result<Self, String> {
        let wanted = |name: &str| {
            DUMP.contains(&name)
                || [PIPE, "HOME", "XDG_CACHE_HOME"].contains(&name)
                || launch::numbers().any(|number| number == name)
        };
        let env = variables(pid, wanted).map_err(|refusal| refusal.to_string())?;
        let launch = launch::read(|name| env.get(name).cloned());
        let Ok(Some(launch)) = launch else {
            return Err("its environment tells no rank".to_owned());
        };
        let number = launch.rank;
        let prefix = env.get(PIPE).filter(|prefix| !prefix.is_empty());
        Ok(FlightRecorder {
            pid,
            rank: number,
            pipe: prefix.map(|prefix| format!("{prefix}{number}.pipe")),
            dumps: beginnings(&env)
                .iter()
                .map(|path| format!("{path}{number}"))
                .collect(),
        })
    }

    /// Where the rank's own path leads.
    fn place(&self, path: &str) -> PathBuf {
        let from = if path.starts_with('/') { "root" } else { "cwd" };
        PathBuf::from(format!(
            "/proc/{}/{from}/{}",
            self.pid,
            path.trim_start_matches('/')
        ))
    }

    /// Asks it for its dump, and waits until that is written whole: the file's name, and what it holds.
    ///
    /// # Errors
    ///
    /// The rank has no pipe, nobody reads it, or no dump came in time.
    pub fn dump(&self, until: Instant) -> Result<(String, Vec<u8>), String> {
        let pipe = self
            .pipe
            .as_deref()
            .ok_or_else(|| format!("{PIPE} is not set"))?;
        let owner =
            rustix::fs::stat(format!("/proc/{}", self.pid)).map_err(|error| error.to_string())?;
        let awaited: Vec<Awaited> = self.dumps.iter().map(|name| self.awaited(name)).collect();
        let written = self.write_to(pipe, &owner);
        written.map_err(|why| format!("its pipe: {why}"))?;
        loop {
            for one in &awaited {
                let now = look_at(&one.place);
                if now.is_some()
                    && now != one.before
                    && let Some(bytes) = read_whole_dump(&one.place, &owner)
                {
                    return Ok((one.name.clone(), bytes));
                }
            }
            if clock::now() >= until {
                return Err("asked by its pipe, it wrote no dump in time".to_owned());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn awaited(&self, name: &str) -> Awaited {
        let place = self.place(name);
        Awaited {
            before: look_at(&place),
            name: name.to_owned(),
            place,
        }
    }

    /// A byte for whoever reads the pipe: its owner is the rank's.
    fn write_to(&self, pipe: &str, owner: &Stat) -> Result<(), String> {
        let place = self.place(pipe);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let seen =
            rustix::fs::open(&place, flags, Mode::empty()).map_err(|error| error.to_string())?;
        is_of(&seen, FileType::Fifo, owner)?;
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = rustix::fs::open(
            format!("/proc/self/fd/{}", seen.as_raw_fd()),
            flags,
            Mode::empty(),
        );
        let pipe = pipe.map_err(|error| match error {
            rustix::io::Errno::NXIO => "nobody reads it".to_owned(),
            error => error.to_string(),
        })?;
        rustix::io::write(&pipe, b"1\n").map_err(|error| error.to_string())?;
        Ok(())
    }
}

/// The beginnings of the paths that a rank's dump may have.
fn beginnings(env: &BTreeMap<String, String>) -> Vec<String> {
    let said = DUMP
        .iter()
        .find_map(|name| env.get(*name).filter(|path| !path.is_empty()));
    if let Some(path) = said {
        return vec![path.clone()];
    }
    let home = env.get("HOME").map_or("/tmp", String::as_str);
    let cache = env.get("XDG_CACHE_HOME").cloned();
    let cache = cache.unwrap_or_else(|| format!("{home}/.cache"));
    vec![format!("{cache}/{NEW_DUMP}"), OLD_DUMP.to_owned()]
}

fn look_at(place: &PathBuf) -> FileLook {
    let stat = rustix::fs::lstat(place).ok()?;
    Some((stat.st_ino, stat.st_mtime, stat.st_mtime_nsec, stat.st_size))
}

/// The dump, if it is there to its end.
fn read_whole_dump(place: &PathBuf, owner: &Stat) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(place, flags, Mode::empty()).ok()?;
    is_of(&file, FileType::RegularFile, owner).ok()?;
    let mut bytes = Vec::new();
    let read = std::fs::File::from(file)
        .take(trace::LARGEST + 1)
        .read_to_end(&mut bytes);
    // One that is still written is cut off.
    let is_whole = read.is_ok() && matches!(trace::read(&bytes), Ok(Some(_)));
    is_whole.then_some(bytes)
}

/// Whether it is such a file, and the rank's.
fn is_of(file: &OwnedFd, kind: FileType, owner: &Stat) -> Result<(), String> {
    let stat = rustix::fs::fstat(file).map_err(|error| error.to_string())?;
    if FileType::from_raw_mode(stat.st_mode) != kind {
        return Err(format!(
            "it is no {}",
            if kind == FileType::Fifo {
                "named pipe"
            } else {
                "plain file"
            }
        ));
    }
    if stat.st_uid != owner.st_uid {
        return Err("it belongs to another user than the rank".to_owned());
    }
    Ok(())
}
