//! Children of this process: this same program, each in a process group of its own, with a lifeline.

use crate::live::clock;
use crate::live::{own_process, trusted};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// How long a child that was killed, or is crashing, may take to go. One in uninterruptible sleep is left, never waited for.
const GRACE: Duration = Duration::from_millis(200);

/// Starts this program, or `program` in its place, with what `with` puts on its command line and into its environment.
///
/// This process's end of the child's standard input is the lifeline: when this process is gone, however it went, the child reads its end.
///
/// # Errors
///
/// It cannot be started.
#[expect(clippy::disallowed_methods, reason = "children are this same program")]
pub fn start(
    program: Option<&PathBuf>,
    argument: &str,
    errors: fn() -> Stdio,
    with: impl Fn(&mut Command),
) -> std::io::Result<Child> {
    let spawn = |program: &Path| {
        let mut command = Command::new(program);
        command.arg(argument);
        trusted::keep(&mut command);
        with(&mut command);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors())
            .process_group(0)
            .spawn()
    };
    match program {
        Some(program) => spawn(program),
        None => spawn(&own_process::own_executable()).or_else(|_| spawn(&std::env::current_exe()?)),
    }
}

/// Kills a child with its process group.
pub fn kill_group(child: &Child) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
}

/// The status of a child that ends by then.
pub fn wait_until(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    // Most are about to end; one that is not is looked after now and then.
    let mut pause = Duration::from_micros(100);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if clock::now() < until => std::thread::sleep(pause),
            _ => return None,
        }
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// The status of a child that was killed, or closed its output.
pub fn wait_a_moment(child: &mut Child) -> Option<ExitStatus> {
    wait_until(child, clock::now() + GRACE)
}

/// How a process ended, as its status has it.
pub fn how_it_ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("killed by signal {signal}"),
        (None, code) => format!("ended with status {}", code.unwrap_or(-1)),
    }
}

/// The same as a sentence.
pub fn how_its_process_ended(status: ExitStatus) -> String {
    let how = how_it_ended(status);
    match status.signal() {
        Some(_) => format!("its process was {how}"),
        None => format!("its process {how}"),
    }
}

/// The exit status by which a shell would tell it.
pub fn as_a_shell_has_it(status: ExitStatus) -> i32 {
    let signalled = || status.signal().map(|signal| 128 + signal);
    status.code().or_else(signalled).unwrap_or(-1)
}
