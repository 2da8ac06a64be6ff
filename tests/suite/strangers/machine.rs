//! Faults of the machine under the doctor: it ends in time, with the right status, and leaves nothing behind.

use std::process::{Command, Stdio};

use crate::namespaces::{say, shell};
use crate::place::{Scratch, doctor};
use crate::process::{Ended, Running, start};

/// Runs a script with mounts of its own, `$doctor` is the program; nothing where such a namespace cannot be made.
fn with_own_mounts(what: &str, script: &str) -> Option<String> {
    let quoted = script.replace('\'', r"'\''");
    let (can, _) = shell("unshare --mount --propagation private true");
    if !can {
        say(&format!("skipped: {what} (no mount namespace can be made)"));
        return None;
    }
    let (_, said) = shell(&format!(
        "export doctor={}; unshare --mount --propagation private bash -c '{quoted}'",
        doctor()
    ));
    Some(said)
}

/// Mounts a file system of FUSE at its first argument whose server never answers, then runs the others.
const SILENT: &str = r"
import ctypes, os, sys
server = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={server},rootmode=40000,user_id=0,group_id=0'.encode()
if ctypes.CDLL(None, use_errno=True).mount(b'none', sys.argv[1].encode(), b'fuse', 0, options):
    sys.exit(77)
os.set_inheritable(server, True)
os.execvp(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_read_that_never_returns_costs_its_probes_alone() {
    let scratch = Scratch::new("silent");
    let program = scratch.join("silent.py");
    std::fs::write(&program, SILENT).unwrap();
    let script = format!(
        "timeout -s KILL 60 python3 {} /sys/class/net $doctor check; echo status $?",
        program.display()
    );
    let Some(said) = with_own_mounts("a read that never returns", &script) else {
        return;
    };
    if said.ends_with("status 77\n") || said.contains("No such file or directory: '/dev/fuse'") {
        return say("skipped: a read that never returns (no FUSE)");
    }
    assert!(said.ends_with("status 2\n"), "{said}");
    let headline = said.lines().next().unwrap_or_default();
    assert!(headline.contains("hangs in /sys/class/net"), "{said}");
    // Its own children hang there; none crashes for it.
    assert!(!said.contains("killed by signal"), "{said}");
}

#[test]
fn without_proc_or_sys_nothing_is_healthy() {
    for mount in ["/proc", "/sys"] {
        let script = format!(
            "mount -t tmpfs none {mount}; timeout -s KILL 60 $doctor check; echo status $?"
        );
        let Some(said) = with_own_mounts("no /proc", &script) else {
            return;
        };
        assert!(said.ends_with("status 3\n"), "{mount}: {said}");
        assert!(said.starts_with("UNKNOWN undecided"), "{mount}: {said}");
    }
}

#[test]
fn a_full_disk_is_named_and_keeps_nothing_half_written() {
    // Its folder, or a link to it, may be below /tmp.
    let script = "exec 2>&1 9< $doctor; doctor=/proc/self/fd/9
        for dir in /tmp /dev/shm; do mount -t tmpfs -o size=64k none $dir; head -c 65536 /dev/zero > $dir/full; done
        $doctor check --quiet; echo check $?
        $doctor record --output /tmp/node.jsonl; echo record $?
        ls -A /tmp /dev/shm";
    let Some(said) = with_own_mounts("a full disk", script) else {
        return;
    };
    assert!(said.contains("\ncheck 2\n"), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("\nrecord 70\n"), "{said}");
    let files = said.split_once("record 70\n").map(|(_, files)| files);
    assert_eq!(files, Some("/dev/shm:\nfull\n\n/tmp:\nfull\n"), "{said}");
}

/// The processes that were started with this folder as their TMPDIR and still live.
fn alive(dir: &Scratch) -> Vec<String> {
    let setting = format!("TMPDIR={}\0", dir.display());
    let started_so = |entry: &std::fs::DirEntry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&setting)
    };
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let theirs = processes.filter(started_so);
    theirs
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

#[test]
fn sixty_four_at_once_end_as_one_does() {
    let scratch = Scratch::new("sixty-four");
    let start_one = || {
        let mut command = Command::new(doctor());
        command.args(["check", "--alone", "--deadline", "90"]);
        command.env("TMPDIR", &*scratch);
        start(command.stdin(Stdio::null()))
    };
    let all: Vec<Running> = (0..64).map(|_| start_one()).collect();
    let ends: Vec<Ended> = all.into_iter().map(Running::ends).collect();
    let alone = start_one().ends();
    // A probe's process that gets no processor in its time leaves the verdict undecided; none is better or worse than it is.
    for end in &ends {
        assert!(
            end.status == alone.status || end.status == 3,
            "{alone:?}: {end:?}"
        );
    }
    assert_eq!(std::fs::read_dir(&*scratch).unwrap().count(), 0);
    assert_eq!(alive(&scratch), Vec::<String>::new());
}

#[test]
fn run_after_run_leaves_nothing_behind() {
    let scratch = Scratch::new("run-after-run");
    for _ in 0..crate::sample::times(64) {
        let mut command = Command::new(doctor());
        command
            .args(["check", "--quiet", "--alone"])
            .env("TMPDIR", &*scratch);
        let ended = start(command.stdin(Stdio::null())).ends();
        assert!((0..=3).contains(&ended.status), "{ended:?}");
    }
    assert_eq!(std::fs::read_dir(&*scratch).unwrap().count(), 0);
    assert_eq!(alive(&scratch), Vec::<String>::new());
}
