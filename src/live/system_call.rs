//! System calls in which processes wait, by the numbers of this architecture.

use serde_json::Value;

/// A system call in which a process can wait.
pub(super) struct SystemCall {
    /// Its name; that of an older call that does the same.
    pub(super) name: &'static str,
    /// Whether its first argument is a descriptor.
    pub(super) takes_descriptor: bool,
}

/// Calls whose first argument is the descriptor that they wait for.
const OF_DESCRIPTOR: &[(libc::c_long, &str)] = &[
    (libc::SYS_read, "read"),
    (libc::SYS_readv, "read"),
    (libc::SYS_pread64, "read"),
    (libc::SYS_write, "write"),
    (libc::SYS_writev, "write"),
    (libc::SYS_pwrite64, "write"),
    (libc::SYS_recvfrom, "recv"),
    (libc::SYS_recvmsg, "recv"),
    (libc::SYS_sendto, "send"),
    (libc::SYS_sendmsg, "send"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_fdatasync, "fsync"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_close, "close"),
    (libc::SYS_fstat, "stat"),
    (libc::SYS_getdents64, "getdents"),
    (libc::SYS_ftruncate, "truncate"),
    (libc::SYS_fallocate, "fallocate"),
];

/// Other calls.
const OTHERS: &[(libc::c_long, &str)] = &[
    (libc::SYS_futex, "futex"),
    (libc::SYS_ppoll, "poll"),
    (libc::SYS_pselect6, "select"),
    (libc::SYS_epoll_pwait, "epoll_wait"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_clock_nanosleep, "nanosleep"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "wait4"),
    (libc::SYS_rt_sigtimedwait, "sigwait"),
    (libc::SYS_rt_sigsuspend, "pause"),
    (libc::SYS_openat, "open"),
    (libc::SYS_newfstatat, "stat"),
    (libc::SYS_statx, "stat"),
    (libc::SYS_faccessat, "access"),
    (libc::SYS_unlinkat, "unlink"),
    (libc::SYS_mkdirat, "mkdir"),
    (libc::SYS_semtimedop, "semop"),
    (libc::SYS_msgrcv, "msgrcv"),
    (libc::SYS_io_getevents, "io_getevents"),
    (libc::SYS_msync, "fsync"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_pause, "pause"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, "open"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_stat, "stat"),
];

/// The call of this number, if it is one in which processes wait.
pub(super) fn of_number(number: libc::c_long) -> Option<SystemCall> {
    for (calls, takes_descriptor) in [(OF_DESCRIPTOR, true), (OTHERS, false)] {
        if let Some((_, name)) = calls.iter().find(|(known, _)| *known == number) {
            return Some(SystemCall {
                name,
                takes_descriptor,
            });
        }
    }
    None
}

/// Whether a thread is in a call about a file, whose file system it may wait for without being in
/// state D.
pub(super) fn waits_for_files(thread: &Value) -> bool {
    let call = thread["call"].as_str().unwrap_or_default();
    let is_socket = thread["file"]
        .as_str()
        .is_some_and(|file| file.starts_with("socket:"));
    let calls = [
        "read",
        "write",
        "open",
        "stat",
        "access",
        "unlink",
        "mkdir",
        "getdents",
        "fsync",
        "close",
        "truncate",
        "fallocate",
    ];
    calls.contains(&call) && !is_socket
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_their_numbers() {
        let read = of_number(libc::SYS_pread64).unwrap();
        assert!(read.name == "read" && read.takes_descriptor);
        let sleep = of_number(libc::SYS_clock_nanosleep).unwrap();
        assert!(sleep.name == "nanosleep" && !sleep.takes_descriptor);
        assert!(of_number(-1).is_none());
    }
}
