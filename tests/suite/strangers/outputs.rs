//! What `record` writes is whole, or it says that it is not, and the old file stays.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};

use crate::place::{Scratch, doctor};
use crate::process::{Ended, start};

/// `record` of a tree that holds an empty proc, by a shell that does this before.
fn record(before: &str, words: &str) -> Ended {
    let tree = Scratch::new("outputs-tree");
    std::fs::create_dir(tree.join("proc")).unwrap();
    let script = format!("{before}; exec \"$0\" record --root \"$1\" {words}");
    let mut command = Command::new("sh");
    command.args(["-c", &script, doctor()]).arg(&*tree);
    start(command.stdin(Stdio::null())).ends()
}

#[test]
fn a_recording_that_cannot_be_written_is_a_failure_in_one_line() {
    for (before, words) in [
        ("exec >&-", ""),
        ("exec >/dev/full", ""),
        ("exec >/dev/full", "--output=-.zst"),
        ("true", "-o /dev/full"),
    ] {
        let ended = record(before, words);
        assert_eq!(ended.status, 70, "{before}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{before}: {ended:?}");
    }
    assert_eq!(record("true", "-o /no/such/directory/file").status, 64);
    // A standard output that is nowhere is where the caller wants it.
    assert_eq!(record("exec >/dev/null", "").status, 0);
}

#[test]
fn the_old_file_stays_where_the_new_one_cannot_be_written() {
    let scratch = Scratch::new("outputs");
    let path = scratch.join("node.jsonl");
    std::fs::write(&path, "old").unwrap();
    let words = format!("-o {}", path.to_str().unwrap());
    let ended = record("trap '' XFSZ; ulimit -f 0", &words);
    assert_eq!(ended.status, 70, "{ended:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(record("true", &words).status, 0);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\"rdma-doctor-recording\""), "{text}");
    let names = std::fs::read_dir(&*scratch).unwrap();
    assert_eq!(names.count(), 1, "nothing is left behind");
}

#[test]
fn only_the_owner_reads_what_is_not_redacted() {
    let scratch = Scratch::new("outputs-mode");
    let mode = |name: &str| std::fs::metadata(scratch.join(name)).unwrap().mode() & 0o777;
    for name in ["new.jsonl", "old.jsonl.zst"] {
        let path = scratch.join(name);
        if name.starts_with("old") {
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let path = path.to_str().unwrap();
        let ended = record("umask 022", &format!("--no-redact -o {path}"));
        assert_eq!((ended.status, mode(name)), (0, 0o600), "{ended:?}");
    }
    let path = scratch.join("redacted.jsonl");
    record("umask 022", &format!("-o {}", path.to_str().unwrap()));
    assert_eq!(mode("redacted.jsonl"), 0o644);
}
