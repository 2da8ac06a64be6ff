//! A filter of system calls before a program, as container runtimes set one.

use std::ffi::c_long;
use std::process::Command;

use rustix::io::Errno;

/// Refuses the calls of `CALLS` with the error `ERRNO`, and becomes the program of its arguments.
const FILTER: &str = "
import ctypes, os, struct, sys
calls = [int(one) for one in os.environ.pop('CALLS').split()]
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
code = [(LOAD, 0, 0, 0)]
code += [(EQUAL, len(calls) - at, 0, number) for at, number in enumerate(calls)]
code += [(RETURN, 0, 0, 0x7fff0000), (RETURN, 0, 0, 0x00050000 | int(os.environ.pop('ERRNO')))]
program = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *one) for one in code))
filter = struct.pack('HxxxxxxQ', len(code), ctypes.addressof(program))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter, 0, 0) == 0, ctypes.get_errno()
os.execvp(sys.argv[1], sys.argv[1:])
";

/// What starts processes and threads.
#[cfg(target_arch = "x86_64")]
pub(super) const STARTS: [c_long; 4] = [
    libc::SYS_clone,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_clone3,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const STARTS: [c_long; 2] = [libc::SYS_clone, libc::SYS_clone3];

/// A command for the program that its arguments are to name, without these calls.
pub(super) fn without(calls: &[c_long], errno: Errno) -> Command {
    let calls: Vec<String> = calls.iter().map(ToString::to_string).collect();
    let mut command = Command::new("python3");
    command
        .args(["-c", FILTER])
        .env("CALLS", calls.join(" "))
        .env("ERRNO", errno.raw_os_error().to_string());
    command
}
