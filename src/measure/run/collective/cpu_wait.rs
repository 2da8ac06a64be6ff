//! How long a thread or a process was on a CPU, and how long it was ready and had none
//! (Documentation/scheduler/sched-stats.rst).

#![expect(
    clippy::disallowed_methods,
    reason = "a rank that is slow is looked at"
)]

use std::time::Duration;

/// The kernel's count for a main thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// On a CPU.
    pub ran: Duration,
    /// Ready, while something else had the CPU.
    pub waited: Duration,
}

impl CpuTime {
    /// Of this thread; `None` if the kernel does not count it.
    pub fn own() -> Option<Self> {
        read("/proc/thread-self/schedstat")
    }

    /// Of all threads of another process together.
    pub fn of_process(pid: u32) -> Option<Self> {
        let threads = threads(pid);
        let all = threads.iter().filter_map(|path| read(path));
        all.reduce(|a, b| CpuTime {
            ran: a.ran + b.ran,
            waited: a.waited + b.waited,
        })
    }
}

fn threads(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let tasks = tasks.flatten().flatten();
    let path = |entry: std::fs::DirEntry| entry.path().join("schedstat").into_os_string();
    tasks
        .filter_map(|entry| path(entry).into_string().ok())
        .collect()
}

fn read(path: &str) -> Option<CpuTime> {
    parse(&std::fs::read_to_string(path).ok()?)
}

/// Nanoseconds on a CPU, nanoseconds ready, and how often it was given one.
fn parse(text: &str) -> Option<CpuTime> {
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    let mut next = || numbers.next().flatten().map(Duration::from_nanos);
    Some(CpuTime {
        ran: next()?,
        waited: next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_times_are_read() {
        let time = parse("1500 2500 3\n").unwrap();
        assert_eq!(time.ran, Duration::from_nanos(1500));
        assert_eq!(time.waited, Duration::from_nanos(2500));
        assert_eq!(parse(""), None);
        assert_eq!(parse("12"), None);
    }

    #[test]
    fn what_runs_is_counted() {
        // Where the kernel counts nothing there is nothing to test.
        let Some(before) = CpuTime::of_process(std::process::id()) else {
            return;
        };
        let mut sum = 0u64;
        while CpuTime::of_process(std::process::id()).is_some_and(|now| now.ran <= before.ran) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(CpuTime::own().is_some());
    }
}
