//! Commands, by argument vector, without a shell.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::source::{Answer, Refusal};

/// Bytes of standard output that an answer may have.
const LIMIT: u64 = 16 << 20;

/// Bytes of a listing of the packet filter's rules: beyond that it is asked for in parts, or what it holds are addresses of
/// services and sets of them.
const RULES: u64 = 1 << 20;

fn limit(program: &str) -> u64 {
    if program == "nft" || program.ends_with("-save") {
        RULES
    } else {
        LIMIT
    }
}

/// Where system tools live; a user's own directories are not looked in, since the doctor may run as root.
pub(super) const PATH: &str =
    "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/opt/mellanox/iproute2/sbin";

/// Runs a command and gives its standard output. The budget is the probe's: its process group is killed as one.
pub fn run(argv: &[Arc<str>]) -> Result<Answer, Refusal> {
    let Some((name, args)) = argv.split_first() else {
        return Err(Refusal::CommandMissing);
    };
    let program = find(name, PATH).ok_or(Refusal::CommandMissing)?;
    run_program(&program, args, limit(name))
}

/// The first file of this name that can be run, in these directories.
pub(super) fn find(name: &str, directories: &str) -> Option<PathBuf> {
    let mut places = directories.split(':').map(|dir| Path::new(dir).join(name));
    places.find(|place| rustix::fs::access(place, rustix::fs::Access::EXEC_OK).is_ok())
}

/// Runs this program and gives its standard output, of which it may have so many bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the machine's tools are run"
)]
pub(super) fn run_program(
    program: &Path,
    args: &[Arc<str>],
    limit: u64,
) -> Result<Answer, Refusal> {
    let mut child = Command::new(program)
        .args(args.iter().map(|a| &**a))
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let errors = child.stderr.take().map(|mut pipe| {
        std::thread::Builder::new().spawn(move || {
            let mut text = Vec::new();
            let _ = (&mut pipe).take(4096).read_to_end(&mut text);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            text
        })
    });
    let errors = match errors.transpose() {
        Ok(errors) => errors,
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error.into());
        }
    };
    let mut out = Vec::new();
    if let Some(pipe) = child.stdout.take() {
        pipe.take(limit + 1).read_to_end(&mut out)?;
    }
    if out.len() as u64 > limit {
        let _ = child.kill();
        let _ = child.wait();
        return Err(Refusal::TooLarge);
    }
    let status = child.wait()?;
    let errors = errors.and_then(|t| t.join().ok()).unwrap_or_default();
    match status.code() {
        Some(0) => Ok(match String::from_utf8(out) {
            Ok(text) => Answer::Text(text.into()),
            Err(e) => Answer::Bytes(e.into_bytes().into()),
        }),
        Some(code) => {
            let said = String::from_utf8_lossy(&errors);
            Err(Refusal::CommandFailed(
                code,
                said.lines().next().unwrap_or("").into(),
            ))
        }
        None => Err(Refusal::Crash(
            format!("{} was killed by a signal", program.display()).into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(args: &[&str]) -> Vec<Arc<str>> {
        args.iter().map(|a| Arc::from(*a)).collect()
    }

    #[test]
    fn output_status_and_absence_are_told_apart() {
        assert_eq!(
            run(&argv(&["echo", "a b", "$HOME"])),
            Ok(Answer::Text("a b $HOME\n".into()))
        );
        assert_eq!(
            run(&argv(&["false"])),
            Err(Refusal::CommandFailed(1, "".into()))
        );
        assert_eq!(
            run(&argv(&["no-such-command-here"])),
            Err(Refusal::CommandMissing)
        );
        let Err(Refusal::CommandFailed(_, said)) = run(&argv(&["ls", "/no-such"])) else {
            panic!()
        };
        assert!(said.contains("/no-such"));
    }
}
