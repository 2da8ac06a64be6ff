//! What is looked at, and set right, before the standard library starts.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::Exit;

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the process was started without a standard output. The standard library then opens /dev/null in its place, which would take a recording.
pub fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

/// A system call of which the standard library or rustix takes no refusal: they panic, or end the
/// process without a word.
struct NeededCall {
    name: &'static str,
    number: c_long,
    /// With these it does nothing, or fails for want of a place to write to.
    arguments: [c_int; 4],
}

#[cfg(target_arch = "x86_64")]
const POLL: NeededCall = NeededCall::new("poll", libc::SYS_poll, [0; 4]);
#[cfg(not(target_arch = "x86_64"))]
const POLL: NeededCall = NeededCall::new("ppoll", libc::SYS_ppoll, [0, -1, 0, 0]);

const NEEDED: [NeededCall; 8] = [
    POLL,
    NeededCall::new(
        "rt_sigaction",
        libc::SYS_rt_sigaction,
        [libc::SIGPIPE, 0, 0, 8],
    ),
    NeededCall::new("prlimit64", libc::SYS_prlimit64, [0; 4]),
    NeededCall::new("uname", libc::SYS_uname, [0; 4]),
    NeededCall::new("getuid", libc::SYS_getuid, [0; 4]),
    NeededCall::new("geteuid", libc::SYS_geteuid, [0; 4]),
    NeededCall::new("clock_nanosleep", libc::SYS_clock_nanosleep, [0; 4]),
    NeededCall::new("wait4", libc::SYS_wait4, [c_int::MAX, 0, libc::WNOHANG, 0]),
];

impl NeededCall {
    const fn new(name: &'static str, number: c_long, arguments: [c_int; 4]) -> Self {
        NeededCall {
            name,
            number,
            arguments,
        }
    }
}

/// Ends the process with a sentence where a system call is denied that it cannot do without.
fn require_calls() {
    for NeededCall {
        name,
        number,
        arguments,
    } in NEEDED
    {
        let [a, b, c, d] = arguments.map(c_long::from);
        #[expect(unsafe_code, reason = "before the standard library's start")]
        // SAFETY: with these arguments no call touches memory; the texts are as long as is said; _exit ends the process.
        unsafe {
            if libc::syscall(number, a, b, c, d) >= 0
                || !matches!(
                    *libc::__errno_location(),
                    libc::EPERM | libc::EACCES | libc::ENOSYS
                )
            {
                continue;
            }
            for text in [
                "rdma-doctor: ",
                name,
                "(2) is denied to this process (a seccomp filter?), and it cannot run without\n",
            ] {
                libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
            }
            libc::_exit(i32::from(Exit::Internal.code()));
        }
    }
}

extern "C" fn begin() {
    require_calls();
    #[expect(unsafe_code, reason = "rustix has no descriptor that may be closed")]
    // SAFETY: fcntl(F_GETFD) takes numbers only.
    let closed = unsafe {
        libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) < 0
            && *libc::__errno_location() == libc::EBADF
    };
    STDOUT_WAS_CLOSED.store(closed, Ordering::Relaxed);
    #[expect(unsafe_code, reason = "rustix sets no handler")]
    // SAFETY: the default action is no handler. A daemon that ignores the end of its children hands that on, and the kernel then keeps no
    // status of this process's own.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

#[expect(
    unsafe_code,
    reason = "only a constructor runs before the standard library opens /dev/null"
)]
// SAFETY: .init_array holds functions of this type, and this one needs nothing of the standard library's start.
#[unsafe(link_section = ".init_array")]
#[used]
static BEGIN: extern "C" fn() = begin;
