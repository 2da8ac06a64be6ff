//! The deadline of the whole program: where it is reached, the program ends, whatever it is at.

use std::sync::OnceLock;
use std::time::Duration;

use crate::exit::Exit;

static SENTENCE: OnceLock<String> = OnceLock::new();

/// Ends this process after so long with [`Exit::Deadline`]. Its children end with it.
#[expect(unsafe_code, reason = "rustix sets no signal handlers and no timers")]
pub fn end_after(after: Duration) {
    let seconds = after.as_secs_f64();
    let said = format!("rdma-doctor: no report within {seconds} s\n");
    if SENTENCE.set(said).is_err() {
        return;
    }
    // Both are below 2^31: a deadline is a day at most.
    let timer = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: after.as_secs() as libc::time_t,
            tv_usec: libc::suseconds_t::from(after.subsec_micros() as i32).max(1),
        },
    };
    // SAFETY: the handler calls only what signal-safety(7) lists; the timer lives until the call
    // returns.
    unsafe {
        libc::signal(libc::SIGALRM, end as *const () as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

#[expect(unsafe_code, reason = "the deadline's signal handler")]
extern "C" fn end(_: libc::c_int) {
    let said = SENTENCE.get().map_or("", String::as_str);
    // SAFETY: the bytes live as long as the process.
    unsafe {
        libc::write(2, said.as_ptr().cast(), said.len());
        libc::_exit(Exit::Deadline.code().into())
    }
}
