//! System calls that a container's filter denies: the program ends as its own failure with one
//! sentence, or says what it says with them.

use std::ffi::c_long;
use std::process::{Command, Stdio};

use rustix::io::Errno;

use crate::place::{Scratch, doctor};
use crate::process::{Ended, start};
use crate::sample;
use crate::strangers::call_filter;

const GREEN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/fixtures/rxe-two-healthy.jsonl.zst"
);

/// Calls whose refusal the standard library or rustix cannot take, or that nothing else tries.
const NEEDED: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_getrandom,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_uname,
    libc::SYS_prlimit64,
    libc::SYS_wait4,
    libc::SYS_rt_sigaction,
    libc::SYS_clock_nanosleep,
    libc::SYS_fcntl,
];

/// Other calls of the programs below, but for those without which nothing can be loaded, executed
/// or said, and futex, whose refusal glibc answers by abort.
const OTHERS: &[c_long] = &[
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_pipe2,
    libc::SYS_statx,
    libc::SYS_sched_getaffinity,
    libc::SYS_madvise,
    libc::SYS_munmap,
    libc::SYS_prctl,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_setpgid,
    libc::SYS_kill,
    libc::SYS_socket,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_statfs,
    libc::SYS_sysinfo,
    libc::SYS_setitimer,
    libc::SYS_close_range,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
];

/// What is needed, and of the others one in so many.
fn calls(one_in: usize) -> impl Iterator<Item = c_long> {
    let others = OTHERS.iter().step_by(sample::one_in(one_in));
    NEEDED.iter().chain(others).copied()
}

fn run(mut command: Command, words: &[&str]) -> Ended {
    command
        .args(words)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null());
    start(&mut command).ends()
}

fn without(call: c_long, errno: Errno, words: &[&str]) -> Ended {
    let mut command = call_filter::without(&[call], errno);
    command.arg(doctor());
    run(command, words)
}

/// Whether a program ended as its own failure, in a sentence.
fn is_own_failure(ended: &Ended) -> bool {
    let is_sentence = ended.err.starts_with("rdma-doctor: ") && ended.err.lines().count() == 1;
    ended.status == 70 && is_sentence && !ended.err.contains("panicked")
}

#[test]
fn a_report_on_a_recording_is_the_same_without_a_call_or_there_is_none() {
    let words = ["check", GREEN];
    let whole = run(Command::new(doctor()), &words);
    assert_eq!(whole.status, 0, "{whole:?}");
    for call in calls(4) {
        for errno in [Errno::PERM, Errno::NOSYS] {
            let ended = without(call, errno, &words);
            let is_same = (ended.status, &ended.out) == (0, &whole.out);
            assert!(
                is_same || is_own_failure(&ended) && ended.out.is_empty(),
                "{call} {errno}: {ended:?}"
            );
        }
    }
}

#[test]
fn this_machine_is_not_judged_better_without_a_call() {
    let words = ["check", "--no-self-test", "--deadline", "60"];
    let whole = run(Command::new(doctor()), &words);
    for call in calls(8) {
        let ended = without(call, Errno::PERM, &words);
        let is_as_bad = (1..=3).contains(&ended.status) || whole.status == 0;
        assert!(
            is_as_bad || is_own_failure(&ended),
            "{call}: {ended:?}, and {} with it",
            whole.status
        );
        assert!(!ended.err.contains("panicked"), "{call}: {ended:?}");
    }
}

#[test]
fn without_random_numbers_nothing_is_written_under_a_known_key() {
    let scratch = Scratch::new("denied");
    let path = scratch.join("node.jsonl");
    let words = ["record", "--from", GREEN, "-o", path.to_str().unwrap()];
    let ended = without(libc::SYS_getrandom, Errno::PERM, &words);
    assert!(is_own_failure(&ended), "{ended:?}");
    assert!(ended.err.contains("random"), "{ended:?}");
    assert!(!path.exists());
}

/// A daemon that ignores the end of its children hands that on to what it starts.
#[test]
fn a_parent_that_ignores_its_children_takes_nothing_away() {
    const IGNORING: &str = "import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])";
    for words in [&["check", GREEN][..], &["check", "--no-self-test"]] {
        let whole = run(Command::new(doctor()), words);
        let mut command = Command::new("python3");
        command.args(["-c", IGNORING, doctor()]);
        let ended = run(command, words);
        assert_eq!(ended.status, whole.status, "{ended:?}");
        assert!(ended.err.is_empty(), "{ended:?}");
    }
}
