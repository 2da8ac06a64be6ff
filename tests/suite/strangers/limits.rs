//! Threads and processes that cannot be made: the doctor says less, or ends as its own failure in one line. A control group's limit, of which the kernel
//! writes a line in the log of the whole machine, is tried in the VM (`tests/vm/invariants.sh`).

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use crate::place::{Scratch, doctor};
use crate::process::{Ended, start};

/// A user without processes of its own, for whom the limit counts.
const NOBODY: &str = "54321";

/// Refuses clone(2), fork(2), vfork(2) and clone3(2) with EPERM, as a container's filter of system calls does, and goes on with its arguments.
const FILTER: &str = "
import ctypes, os, platform, struct, sys
calls = {'x86_64': (56, 57, 58, 435), 'aarch64': (220, 435)}[platform.machine()]
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
code = [(LOAD, 0, 0, 0)]
code += [(EQUAL, len(calls) - at, 0, number) for at, number in enumerate(calls)]
code += [(RETURN, 0, 0, 0x7fff0000), (RETURN, 0, 0, 0x00050000 | 1)]
program = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *one) for one in code))
filter = struct.pack('HxxxxxxQ', len(code), ctypes.addressof(program))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter, 0, 0) == 0, ctypes.get_errno()
os.execvp(sys.argv[1], sys.argv[1:])
";

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
    let as_nobody =
        format!("exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \"$0\" \"$@\"");
    let script = match limit {
        Limit::User(most) => as_nobody.replace(
            "\"$0\"",
            &format!("sh -c 'ulimit -u {most}; exec \"$0\" \"$@\"' \"$0\""),
        ),
        Limit::Filter => as_nobody.replace("exec setpriv", "exec python3 -c \"$FILTER\" setpriv"),
    };
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .env("FILTER", FILTER)
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
