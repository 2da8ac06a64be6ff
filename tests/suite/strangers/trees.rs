//! A copied tree of a stranger: regular files and links inside it, and nothing else.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::place::{Scratch, doctor};
use crate::process::start;

#[test]
fn no_device_socket_or_pipe_of_a_tree_is_opened() {
    let tree = Scratch::new("trees");
    for dir in ["etc", "proc/sys/kernel", "sys/class/infiniband", "checks"] {
        std::fs::create_dir_all(tree.join(dir)).unwrap();
    }
    let make = |path: &str, kind, device| {
        let _ = mknodat(CWD, tree.join(path), kind, Mode::RUSR, device);
    };
    make("etc/os-release", FileType::Fifo, 0);
    make("etc/fstab", FileType::CharacterDevice, makedev(1, 5));
    make("proc/cmdline", FileType::CharacterDevice, makedev(1, 3));
    let _socket = UnixListener::bind(tree.join("etc/nccl.conf")).unwrap();
    symlink("/proc/self/root/etc/passwd", tree.join("etc/hostname")).unwrap();
    symlink("../../../../../../etc/passwd", tree.join("proc/version")).unwrap();
    let mut command = Command::new(doctor());
    command
        .args(["record", "--no-redact", "--root"])
        .arg(&*tree);
    let ended = start(command.stdin(Stdio::null())).ends();
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(!ended.out.contains("root:"), "{ended:?}");
    assert!(ended.out.contains("no regular file"), "{ended:?}");
    assert!(!ended.out.contains("killed after"), "{ended:?}");
}

#[test]
fn a_check_that_is_no_regular_file_is_refused_and_waits_for_nobody() {
    let dir = Scratch::new("trees-checks");
    std::fs::create_dir(dir.join("site")).unwrap();
    mknodat(
        CWD,
        dir.join("site/pipe.toml"),
        FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .unwrap();
    let mut command = Command::new(doctor());
    command.args(["explain", "--checks"]).arg(&*dir);
    let ended = start(command.stdin(Stdio::null())).ends();
    assert_eq!(ended.status, 65, "{ended:?}");
    assert!(ended.err.contains("no regular file"), "{ended:?}");
    // The base of an overlay neither.
    mknodat(CWD, dir.join("base.jsonl"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let overlay = dir.join("over.jsonl");
    std::fs::write(
        &overlay,
        "{\"rdma-doctor-recording\":\"1.0\",\"base\":\"base.jsonl\"}\n",
    )
    .unwrap();
    let mut command = Command::new(doctor());
    let ended = start(command.arg("check").arg(&overlay).stdin(Stdio::null())).ends();
    assert_eq!(ended.status, 65, "{ended:?}");
}
