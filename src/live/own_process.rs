//! This process: its program, its limits, its end.

use std::path::PathBuf;

/// Lets this process have as many files open as it may be allowed.
pub fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, fewer nodes can connect, and the missing ones are named.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// A bare copy of this process's own executable path, to start probes with.
pub fn own_executable() -> PathBuf {
    // The link names the file even after it was replaced by a newer one, and works in a chroot with /proc.
    PathBuf::from("/proc/self/exe")
}

/// The version of the C library that this process runs with.
#[expect(unsafe_code, reason = "asks the C library")]
pub fn glibc() -> String {
    // SAFETY: it gives a static text that ends with a NUL.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_string_lossy().into_owned()
}

/// Kills this process group, because the parent is gone.
pub fn end_with_group() -> ! {
    // Started by hand, the process may not lead its group: then it ends alone.
    let group = rustix::process::getpgrp();
    if group == rustix::process::getpid() {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    std::process::exit(i32::from(crate::exit::Exit::Internal.code()));
}
