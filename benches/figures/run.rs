//! Running programs and timing them: medians, and the memory of the largest process.

use std::io::{self, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// From start to end.
    pub(crate) wall: Duration,
    /// Peak resident memory of the process, or of the largest that it waited for.
    pub(crate) peak_bytes: u64,
}

/// Runs a program to its end.
pub(crate) fn once(program: &str, arguments: &[&str]) -> io::Result<Run> {
    let begun = Instant::now();
    // Into a pipe: grep ends at the first match where it sees that nobody reads.
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut said) = child.stdout.take() {
        let mut chunk = vec![0; 64 << 10];
        while said.read(&mut chunk)? > 0 {}
    }
    let peak_bytes = wait(child.id())?;
    Ok(Run {
        wall: begun.elapsed(),
        peak_bytes,
    })
}

#[expect(
    unsafe_code,
    reason = "only wait4 tells the memory of one child, and no safe wrapper of it is at hand"
)]
fn wait(id: u32) -> io::Result<u64> {
    let id = libc::pid_t::try_from(id).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid one; both pointers are to live variables of the right type.
    let (waited, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(id, &raw mut status, 0, &raw mut usage), usage)
    };
    if waited != id {
        return Err(io::Error::last_os_error());
    }
    // Linux counts in KiB, and for the largest of the process and of its own children.
    Ok(u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024)
}

/// Runs a program `times` times after one run that does not count: the median time, and the largest memory.
pub(crate) fn median(times: usize, program: &str, arguments: &[&str]) -> io::Result<Run> {
    once(program, arguments)?;
    let runs = (0..times)
        .map(|_| once(program, arguments))
        .collect::<io::Result<Vec<_>>>()?;
    Ok(Run {
        wall: middle(runs.iter().map(|run| run.wall)),
        peak_bytes: runs.iter().map(|run| run.peak_bytes).max().unwrap_or(0),
    })
}

/// Does something `times` times after once that does not count: the median time.
pub(crate) fn median_of(times: usize, mut work: impl FnMut()) -> Duration {
    work();
    middle((0..times).map(|_| time(&mut work)))
}

/// How long something takes.
pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn middle(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The time that this thread has had on a processor.
pub(crate) fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}
