//! Children that SIGKILL did not end: where in the kernel they hang, and those that earlier runs left.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::IntoRawFd as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use serde_json::json;

use super::worker::{self, child, child::wait_until};
use super::{clock, files, places};
use crate::source::{Answer, Refusal};

/// What each child holds a lock on, shared, for as long as it lives: the kernel's list of locks then names the children in one reading.
const MARK: &str = "/dev/null";
/// Bytes of a path that are read from a process.
const PATH: usize = 512;
/// SIGKILL among the signals that wait for a process (proc_pid_status(5)).
const KILLED: u64 = 1 << 8;

/// The unit of times in /proc/PID/stat (USER_HZ, the same on every architecture that this program is built for).
const TICKS_PER_SECOND: u64 = 100;

/// open(2), where it is a call of its own.
#[cfg(target_arch = "x86_64")]
const OPEN: i64 = libc::SYS_open;
#[cfg(not(target_arch = "x86_64"))]
const OPEN: i64 = -1;
/// Calls whose first argument is a path.
#[cfg(target_arch = "x86_64")]
const PATH_FIRST: &[i64] = &[
    OPEN,
    libc::SYS_access,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_statfs,
];
#[cfg(not(target_arch = "x86_64"))]
const PATH_FIRST: &[i64] = &[libc::SYS_statfs];

/// A child of an earlier run that hangs in the kernel.
pub(super) struct StuckProcess {
    /// The directory in which it hangs; none if the kernel does not say it.
    pub(super) place: Option<String>,
    /// When it started, in nanoseconds of `CLOCK_BOOTTIME`.
    started_ns: u64,
    pid: u32,
    /// Its threads that were in uninterruptible sleep.
    sleeps: Vec<Sleep>,
}

/// Lets later runs find this child, should it hang.
pub(super) fn mark() {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(MARK, flags, Mode::empty()) {
        // Whoever holds it alone is no doctor: then later runs do not find this one.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
        // It is held until the process is gone.
        let _ = file.into_raw_fd();
    }
    #[expect(unsafe_code, reason = "rustix has no PR_SET_PTRACER")]
    // SAFETY: numbers alone. A later run of the same user may then read where this one hangs (Documentation/admin-guide/LSM/Yama.rst).
    unsafe {
        libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0);
    }
}

/// How often another process is started before a killed one that was never woken meanwhile hangs.
const CONTROLS: u32 = 5;
/// How long each of them may take, and how far apart they start.
const PACE: Duration = Duration::from_secs(1);

/// Which of these children, all of them killed, hang: a thread of it is in uninterruptible sleep and is not woken for a while, in which other processes start, read and end as ever.
pub(super) fn that_hang(program: Option<&PathBuf>, children: &mut [&mut Child]) -> Vec<bool> {
    let before: Vec<Vec<Sleep>> = children.iter().map(|child| sleeps(child.id())).collect();
    let sleeps_any = before.iter().any(|sleeps| !sleeps.is_empty());
    if !sleeps_any || !others_run(program) {
        return vec![false; children.len()];
    }
    let looked_at = children.iter_mut().zip(&before);
    let hangs = |(child, before): (&mut &mut Child, &Vec<Sleep>)| {
        wait_until(child, clock::now()).is_none()
            && is_any_still(before, &sleeps(child.id()))
            && is_probe(child.id())
    };
    looked_at.map(hangs).collect()
}

/// Whether processes of the same program, one after the other, start, list a directory of sysfs and end, each in its time. Where the kernel holds a lock
/// that all wait for, or processors, memory or disks are short, they do not, and that another one waits as long proves nothing.
fn others_run(program: Option<&PathBuf>) -> bool {
    (0..CONTROLS).all(|_| {
        let next = clock::now() + PACE;
        let Ok(mut control) = child::start(program, worker::ARGUMENT, Stdio::null, as_control)
        else {
            return false;
        };
        let has_ended = wait_until(&mut control, next).is_some();
        if !has_ended {
            child::kill_group(&control);
            child::wait_a_moment(&mut control);
        }
        std::thread::sleep(next.saturating_duration_since(clock::now()));
        has_ended
    })
}

fn as_control(command: &mut Command) {
    command.args([worker::CONTROL, "--started", "0"]);
}

/// What a control does: it takes the locks of sysfs.
pub(super) fn control() {
    // What it finds is nothing to it.
    let _ = super::nccl_files::names("/sys/kernel".as_ref());
}

/// Whether a process runs a probe: it has its command line. One that is still being started waits for this program's file, not for what it asks.
fn is_probe(pid: u32) -> bool {
    let line = files::text(None, &format!("/proc/{pid}/cmdline"));
    line.is_some_and(|line| line.split('\0').nth(1) == Some(worker::ARGUMENT))
}

/// A thread in uninterruptible sleep.
#[derive(PartialEq)]
struct Sleep {
    thread: String,
    /// The lines of its status that say how often it was woken or suspended (proc_pid_status(5)).
    switches: Vec<String>,
}

fn is_any_still(before: &[Sleep], now: &[Sleep]) -> bool {
    before.iter().any(|sleep| now.contains(sleep))
}

/// The threads of a process that are in uninterruptible sleep.
fn sleeps(pid: u32) -> Vec<Sleep> {
    let threads = super::nccl_files::names(format!("/proc/{pid}/task").as_ref());
    let sleep = |thread: String| {
        let status = files::text(None, &format!("/proc/{pid}/task/{thread}/status"))?;
        sleep_of(&status).map(|switches| Sleep { thread, switches })
    };
    threads.into_iter().filter_map(sleep).collect()
}

/// Of a thread in uninterruptible sleep the lines that count its switches.
fn sleep_of(status: &str) -> Option<Vec<String>> {
    let is_asleep = |line: &str| {
        let state = line.strip_prefix("State:");
        state.is_some_and(|state| state.trim_start().starts_with('D'))
    };
    let switches = status
        .lines()
        .filter(|line| line.contains("ctxt_switches:"));
    status
        .lines()
        .any(is_asleep)
        .then(|| switches.map(str::to_owned).collect())
}

/// The children of earlier runs that hang: those of this user that have been killed and are still there, and are not woken.
pub(super) fn of_earlier_runs(before_ns: u64) -> Vec<StuckProcess> {
    let Some(locks) = files::text(None, "/proc/locks") else {
        return Vec::new();
    };
    let mut found: Vec<u32> = locks.lines().filter_map(shared_flock).collect();
    found.sort_unstable();
    found.dedup();
    let stuck = found.into_iter().filter_map(stuck_child);
    let mut stuck: Vec<StuckProcess> = stuck.filter(|one| one.started_ns < before_ns).collect();
    if stuck.is_empty() || !others_run(None) {
        return Vec::new();
    }
    stuck.retain(|one| is_any_still(&one.sleeps, &sleeps(one.pid)));
    stuck
}

/// `1: FLOCK  ADVISORY  READ  1234 00:05:4 0 EOF`: the process.
fn shared_flock(line: &str) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [_, "FLOCK", _, "READ", pid, ..] => pid.parse().ok(),
        _ => None,
    }
}

/// A process, if it is a child of this program and user that waits in the kernel although it was killed.
fn stuck_child(pid: u32) -> Option<StuckProcess> {
    let own = rustix::process::geteuid().as_raw();
    if rustix::fs::stat(format!("/proc/{pid}")).ok()?.st_uid != own {
        return None;
    }
    let text = |name: &str| files::text(None, &format!("/proc/{pid}/{name}"));
    let stat = text("stat")?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    if fields.first() != Some(&"D") || !was_killed(&text("status")?) {
        return None;
    }
    if !is_probe(pid) {
        return None;
    }
    let ticks: u64 = fields.get(19)?.parse().ok()?;
    Some(StuckProcess {
        place: place_of(pid),
        started_ns: ticks.saturating_mul(1_000_000_000 / TICKS_PER_SECOND),
        pid,
        sleeps: sleeps(pid),
    })
}

fn was_killed(status: &str) -> bool {
    let waiting = status.lines().filter_map(|line| {
        let digits = line
            .strip_prefix("SigPnd:")
            .or(line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(digits.trim(), 16).ok()
    });
    waiting.fold(0, |all, one| all | one) & KILLED != 0
}

/// The directory at which a process waits in the kernel, by the call that it waits in; `None` if it waits in another one, or the kernel does not say it.
pub(super) fn place_of(pid: u32) -> Option<String> {
    let threads = super::nccl_files::names(format!("/proc/{pid}/task").as_ref());
    threads.iter().find_map(|thread| {
        let task = format!("/proc/{pid}/task/{thread}");
        let stat = files::text(None, &format!("{task}/stat"))?;
        let waits = stat.rsplit_once(") ")?.1.starts_with('D');
        let call = waits.then(|| files::text(None, &format!("{task}/syscall")))??;
        let numbers: Vec<u64> = call.split_whitespace().filter_map(number).collect();
        place_of_call(pid, &numbers)
    })
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The call and its arguments, as /proc/PID/syscall has them.
fn place_of_call(pid: u32, numbers: &[u64]) -> Option<String> {
    let [call, first, second, third, ..] = *numbers else {
        return None;
    };
    let open = |flag: i32| third & flag as u64 != 0;
    let call = i64::try_from(call).ok()?;
    if [libc::SYS_openat, libc::SYS_openat2].contains(&call) {
        let path = text_at(pid, second)?;
        let is_directory = call == libc::SYS_openat && open(libc::O_DIRECTORY);
        return Some(place(&path, is_directory));
    }
    if [
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_readlinkat,
        libc::SYS_faccessat,
    ]
    .contains(&call)
    {
        return Some(place(&text_at(pid, second)?, false));
    }
    if PATH_FIRST.contains(&call) {
        let path = text_at(pid, first)?;
        let is_directory = call == OPEN && second & libc::O_DIRECTORY as u64 != 0;
        return Some(place(&path, is_directory));
    }
    if [
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_getdents64,
        libc::SYS_ioctl,
        libc::SYS_fstat,
    ]
    .contains(&call)
    {
        let path = rustix::fs::readlink(format!("/proc/{pid}/fd/{first}"), Vec::new()).ok()?;
        let path = path.to_string_lossy().into_owned();
        return Some(place(&path, call == libc::SYS_getdents64));
    }
    None
}

fn place(path: &str, is_directory: bool) -> String {
    let place = if is_directory {
        places::of_directory(path)
    } else {
        places::of_file(path)
    };
    place.to_owned()
}

/// A path in a process's memory; it begins with `/`.
fn text_at(pid: u32, address: u64) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let memory = rustix::fs::open(format!("/proc/{pid}/mem"), flags, Mode::empty()).ok()?;
    let mut memory = std::fs::File::from(memory);
    memory.seek(SeekFrom::Start(address)).ok()?;
    let mut bytes = Vec::new();
    // What is behind the text may not be mapped.
    let _ = memory.take(PATH as u64).read_to_end(&mut bytes);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let path = String::from_utf8(bytes.get(..end)?.to_vec()).ok()?;
    path.starts_with('/').then_some(path)
}

/// `{"hanging":[{"place","processes","since"}]}`: the children of runs before this one, by place.
///
/// # Errors
///
/// None.
pub(super) fn ask(before_ns: u64) -> Result<Answer, Refusal> {
    let mut all = of_earlier_runs(before_ns);
    all.sort_by(|a, b| (&a.place, a.started_ns).cmp(&(&b.place, b.started_ns)));
    let now = clock::boottime_ns();
    let hanging = all.chunk_by(|a, b| a.place == b.place).filter_map(|some| {
        let first = some.first()?;
        let ago = Duration::from_nanos(now.saturating_sub(first.started_ns));
        Some(json!({
            "place": first.place,
            "processes": some.len(),
            "since": clock::utc_before(ago),
        }))
    });
    Ok(Answer::from(
        json!({ "hanging": hanging.collect::<Vec<_>>() }),
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn children_are_found_among_locks_and_signals() {
        let lines = "1: FLOCK  ADVISORY  READ  1234 00:05:4 0 EOF\n2: POSIX  ADVISORY  WRITE 77 00:05:4 0 EOF\n3: FLOCK ADVISORY WRITE 5 0:0:1 0 EOF";
        let found: Vec<u32> = lines.lines().filter_map(shared_flock).collect();
        assert_eq!(found, [1234]);
        assert!(was_killed(
            "SigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"
        ));
        assert!(was_killed(
            "SigPnd:\t0000000000000000\nShdPnd:\t0000000000004100\n"
        ));
        assert!(!was_killed(
            "SigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\n"
        ));
    }

    #[test]
    fn a_process_that_is_woken_does_not_hang() {
        let status = |state: &str, switches: u32| {
            format!("Name:\tx\nState:\t{state}\nvoluntary_ctxt_switches:\t{switches}\n")
        };
        let sleep = |count| {
            let switches = sleep_of(&status("D (disk sleep)", count)).unwrap();
            let thread = "1".to_owned();
            vec![Sleep { thread, switches }]
        };
        assert!(is_any_still(&sleep(7), &sleep(7)));
        assert!(!is_any_still(&sleep(7), &sleep(8)));
        assert!(!is_any_still(&sleep(7), &[]));
        assert_eq!(sleep_of(&status("R (running)", 7)), None);
        assert_eq!(sleep_of(&status("Z (zombie)", 7)), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test's own program")]
    fn where_others_do_not_end_either_nothing_hangs() {
        let slow = std::env::temp_dir().join(format!("rdma-doctor-slow-{}", std::process::id()));
        std::fs::write(&slow, "#!/bin/sh\nexec sleep 100\n").unwrap();
        std::fs::set_permissions(&slow, PermissionsExt::from_mode(0o700)).unwrap();
        let run = others_run(Some(&slow));
        std::fs::remove_file(&slow).unwrap();
        assert!(!run);
        assert!(!others_run(Some(&PathBuf::from("/nowhere/a-program"))));
        assert!(!is_probe(std::process::id()));
    }

    #[test]
    fn a_call_has_a_place() {
        let pid = std::process::id();
        let path = c"/sys/class/infiniband";
        let at = path.as_ptr() as u64;
        let open = libc::SYS_openat as u64;
        let place = |flags: i32| place_of_call(pid, &[open, 0, at, flags as u64]);
        assert_eq!(
            place(libc::O_DIRECTORY).as_deref(),
            Some("/sys/class/infiniband")
        );
        let file = c"/sys/class/infiniband/mlx5_0/board_id";
        let at = file.as_ptr() as u64;
        let stat = [libc::SYS_newfstatat as u64, 0, at, 0];
        assert_eq!(
            place_of_call(pid, &stat).as_deref(),
            Some("/sys/class/infiniband/mlx5_0")
        );
        assert_eq!(place_of_call(pid, &[u64::MAX, 0, 0, 0]), None);
    }
}
