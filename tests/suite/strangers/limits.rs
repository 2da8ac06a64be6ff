//! Threads and processes that cannot be made: the doctor says less, or ends as its own failure in one line. A control group's limit, of which the kernel
//! writes a line in the log of the whole machine, is tried in the VM (`tests/vm/invariants.sh`).

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use rustix::io::Errno;

use crate::place::{Scratch, doctor};
use crate::process::{Ended, start};
use crate::strangers::call_filter;

/// A user without processes of its own, for whom the limit counts.
const NOBODY: &str = "54321";

/// What keeps the doctor from making threads and processes.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// So many processes and threads of its user.
    User(u32),
    /// A filter of system calls that refuses each.
    Filter,
}

/// The doctor as that user, under this limit.
fn limited(program: &str, limit: Limit, words: &[&str]) -> Ended {
    const AS_NOBODY: [&str; 6] = [
        "setpriv",
        "--reuid",
        NOBODY,
        "--regid",
        NOBODY,
        "--clear-groups",
    ];
    let mut command = match limit {
        Limit::User(most) => {
            let mut command = Command::new(AS_NOBODY[0]);
            let script = format!("ulimit -u {most}; exec \"$0\" \"$@\"");
            command.args(&AS_NOBODY[1..]).args(["sh", "-c", &script]);
            command
        }
        Limit::Filter => {
            let mut command = call_filter::without(&call_filter::STARTS, Errno::PERM);
            command.args(AS_NOBODY);
            command
        }
    };
    command
        .arg(program)
        .args(words)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null());
    start(&mut command).ends()
}

#[test]
fn it_ends_well_or_in_one_line_however_few_threads_it_may_have() {
    if !rustix::process::geteuid().is_root() {
        return crate::namespaces::say("limits: needs root, who becomes another user");
    }
    let scratch = Scratch::new("limits");
    std::fs::set_permissions(&*scratch, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = scratch.join("rdma-doctor");
    std::fs::copy(doctor(), &program).unwrap();
    let program = program.to_str().unwrap();
    let fixture = scratch.join("one.jsonl.zst");
    let from = format!(
        "{}/fixtures/rxe-healthy.jsonl.zst",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::copy(from, &fixture).unwrap();
    let one = fixture.to_str().unwrap();
    let runs: [&[&str]; 6] = [
        &["check", one],
        &["check", one, one, one],
        &["facts", one],
        &["check", "--deadline", "5"],
        &["record", "--deadline", "5", "--output=-.zst"],
        &[
            "check",
            "--cluster",
            "--rank",
            "0",
            "--nodes",
            "2",
            "--rendezvous",
            "127.0.0.1:29",
            "--wait",
            "1",
            "--deadline",
            "1",
            one,
        ],
    ];
    let mut limits = [1, 2, 3, 5, 8].map(Limit::User).to_vec();
    limits.push(Limit::Filter);
    for most in limits {
        for words in runs {
            let ended = limited(program, most, words);
            let is_known = matches!(ended.status, 0..=3 | 65 | 70);
            assert!(is_known, "{most:?} {words:?}: {ended:?}");
            if ended.status == 70 {
                assert_eq!(
                    ended.err.lines().count(),
                    1,
                    "{most:?} {words:?}: {ended:?}"
                );
            }
            if words == ["check", one] {
                assert_eq!(ended.status, 0, "{most:?} {words:?}: {ended:?}");
            }
        }
    }
}
