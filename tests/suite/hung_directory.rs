//! A directory whose file system does not answer, and does not let go of who asks: a run of the doctor leaves few processes there, the next one none, and both
//! say where they hang. A file system in user space that takes requests and answers none; it needs root and /dev/fuse, and without them the test says so.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use crate::place::{Scratch, doctor};

/// FUSE_INIT, and where its arguments begin (include/uapi/linux/fuse.h).
const INIT: u32 = 26;

/// Answers the request by which the file system is mounted, and takes all that follow.
fn serve(mut fuse: File) {
    let mut request = vec![0; 1 << 17];
    loop {
        let length = match fuse.read(&mut request) {
            Ok(length) => length,
            // It is not mounted yet.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                std::thread::sleep(std::time::Duration::from_millis(5));
                continue;
            }
            Err(_) => return,
        };
        let word = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap());
        if length < 40 || word(4) != INIT {
            continue;
        }
        let mut reply = Vec::new();
        reply.extend(80u32.to_le_bytes());
        reply.extend(0u32.to_le_bytes());
        reply.extend(&request[8..16]);
        for word in [7u32, 31, 1 << 16, 0] {
            reply.extend(word.to_le_bytes());
        }
        reply.extend([12u8, 0, 10, 0]);
        for word in [1u32 << 16, 1] {
            reply.extend(word.to_le_bytes());
        }
        reply.extend(1u32.to_le_bytes());
        reply.resize(80, 0);
        if fuse.write_all(&reply).is_err() {
            return;
        }
    }
}

/// The processes of probes that were killed and are still there.
fn stuck() -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_stuck = |dir: &std::path::PathBuf| {
        let text = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        let killed = |line: &str| {
            line.strip_prefix("SigPnd:\t")
                .or(line.strip_prefix("ShdPnd:\t"))
                .is_some_and(|set| u64::from_str_radix(set, 16).unwrap() & 0x100 != 0)
        };
        text("cmdline").contains("\0__probe\0") && text("status").lines().any(killed)
    };
    processes.map(|one| one.path()).filter(is_stuck).count()
}

#[test]
fn a_directory_that_hangs_keeps_few_processes_and_is_named() {
    let fuse = File::options().read(true).write(true).open("/dev/fuse");
    let Some(fuse) = fuse.ok().filter(|_| rustix::process::geteuid().is_root()) else {
        let _ = writeln!(
            std::io::stdout().lock(),
            "skipped: needs root and /dev/fuse"
        );
        return;
    };
    let scratch = Scratch::new("hung");
    let script = format!(
        "mount -t tmpfs t /sys/class && mkdir /sys/class/infiniband /sys/class/net
mount -i -t fuse -o fd=0,rootmode=40000,user_id=0,group_id=0 hang /sys/class/infiniband || exit 77
exec < /dev/null
for run in 1 2; do
    \"$0\" check --no-self-test --deadline 60 > {dir}/$run.txt 2>&1
    echo $? >> {dir}/$run.status
    touch {dir}/$run.done
    until test -e {dir}/$run.counted || ! test -d {dir}; do sleep 0.1; done
done",
        dir = scratch.to_str().unwrap()
    );
    let mut child = Command::new("unshare")
        .args([
            "-m",
            "--propagation",
            "private",
            "sh",
            "-c",
            &script,
            doctor(),
        ])
        .stdin(Stdio::from(fuse.try_clone().unwrap()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::spawn(move || serve(fuse));
    let (mut left, mut said) = (Vec::new(), Vec::new());
    for run in ["1", "2"] {
        let done = scratch.join(format!("{run}.done"));
        while !done.exists() {
            if let Some(status) = child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(77), "the script ended");
                let _ = writeln!(std::io::stdout().lock(), "skipped: no FUSE can be mounted");
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        left.push(stuck());
        said.push(std::fs::read_to_string(scratch.join(format!("{run}.txt"))).unwrap());
        let status = std::fs::read_to_string(scratch.join(format!("{run}.status"))).unwrap();
        assert_eq!(status.trim(), "2", "{}", said.concat());
        File::create(scratch.join(format!("{run}.counted"))).unwrap();
    }
    child.wait().unwrap();
    let both = said.join("\n---\n");
    assert!((1..=2).contains(&left[0]), "{left:?}\n{both}");
    assert_eq!(left[0], left[1], "{both}");
    for said in &said {
        let headline = said.lines().next().unwrap();
        assert!(headline.contains("/sys/class/infiniband"), "{both}");
    }
    let noun = if left[0] == 1 {
        "process of an earlier run hangs"
    } else {
        "processes of an earlier run hang"
    };
    let sentence = format!("{} {noun} in /sys/class/infiniband since", left[0]);
    let second = said[1].split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(second.contains(&sentence), "{both}");
}
