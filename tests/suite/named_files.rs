//! The doctor as root, with a user's environment: files that a variable or a home directory names are read only where no other user could have put them
//! there, nothing but a regular file is opened, and only what is understood of them is recorded. Needs root; elsewhere the tests are skipped and say so.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use rdma_doctor::source::recording::Recording;

use crate::place::{Scratch, doctor};
use crate::stage;

/// A user who started the doctor by sudo, and another one.
const USER: u32 = 4711;
const OTHER: u32 = 4712;
/// What is in each file beside what its reader takes.
const SECRET: &str = "hunter2";

/// The files that are named, by which variable, with a text that their readers take something of, and what they take.
struct NamedFile {
    variable: &'static str,
    /// Below what the variable names; empty where it names the file.
    below: &'static str,
    text: &'static str,
    taken: &'static str,
}

const FILES: [NamedFile; 6] = [
    NamedFile {
        variable: "NCCL_CONF_FILE",
        below: "",
        text: "password=hunter2\nhunter2\nNCCL_ALGO=Ring\n",
        taken: "NCCL_ALGO=Ring",
    },
    NamedFile {
        variable: "NCCL_TOPO_FILE",
        below: "",
        text: "<!-- hunter2 --><system version=\"1\">hunter2<cpu numaid=\"0\"/></system>",
        taken: "numaid",
    },
    NamedFile {
        variable: "DS_ENV_FILE",
        below: "",
        text: "MY_TOKEN=hunter2\nhunter2\nNCCL_ALGO=Tree\n",
        taken: "NCCL_ALGO=Tree",
    },
    NamedFile {
        variable: "HOME",
        below: ".openmpi/mca-params.conf",
        text: "password = hunter2\nbtl_tcp_if_include = eth7\nhunter2\n",
        taken: "eth7",
    },
    NamedFile {
        variable: "HOME",
        below: ".deepspeed_env",
        text: "MY_TOKEN=hunter2\nNCCL_ALGO=Tree\n",
        taken: "NCCL_ALGO=Tree",
    },
    NamedFile {
        variable: "HF_HOME",
        below: "accelerate/default_config.yaml",
        text: "hub_token: hunter2\nnum_machines: 3\n",
        taken: "num_machines",
    },
];

/// The doctor as root, outside of a user namespace; `None` after saying so.
fn root() -> Option<()> {
    let identity = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let is_real = identity.split_whitespace().eq(["0", "0", "4294967295"]);
    if is_real && rustix::process::geteuid().is_root() {
        return Some(());
    }
    let _ = writeln!(std::io::stdout().lock(), "skipped: needs root");
    None
}

/// What is recorded where a variable names this, and sudo was called by this user.
fn recorded(variable: &str, path: &Path, by: Option<u32>) -> String {
    let mut command = Command::new(doctor());
    command.args(["record", "--no-redact", "--no-self-test"]);
    for name in ["SUDO_UID", "SLURM_JOB_UID", "PKEXEC_UID"] {
        command.env_remove(name);
    }
    command.env(variable, path);
    if let Some(uid) = by {
        command.env("SUDO_UID", uid.to_string());
    }
    let out = command.output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    Recording::read(out.stdout.as_slice(), Path::new("recorded")).unwrap();
    String::from_utf8(out.stdout).unwrap()
}

/// Gives the directories below `dir` down to a file, and the file, to a user.
fn give(dir: &Path, file: &Path, uid: u32) {
    for one in file.ancestors().take_while(|one| one.starts_with(dir)) {
        chown(one, Some(uid), Some(uid)).unwrap();
        let mode = if one == file { 0o600 } else { 0o700 };
        std::fs::set_permissions(one, Permissions::from_mode(mode)).unwrap();
    }
}

#[test]
fn a_file_that_another_user_can_replace_is_not_read_by_root() {
    let Some(()) = root() else { return };
    for one in &FILES {
        let scratch = Scratch::new("named");
        let named = match one.below {
            "" => scratch.join("d/file"),
            _ => scratch.join("d"),
        };
        let file = named.join(one.below);
        let file = file.components().collect::<std::path::PathBuf>();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, one.text).unwrap();
        for (owner, by, is_read) in [
            (0, None, true),
            (USER, Some(USER), true),
            (USER, None, false),
            (OTHER, Some(USER), false),
        ] {
            give(&scratch.join("d"), &file, owner);
            let said = recorded(one.variable, &named, by);
            let what = format!("{} {} of {owner} by {by:?}", one.variable, one.below);
            assert_eq!(said.contains(one.taken), is_read, "{what}");
            assert!(!said.contains(SECRET), "{what}");
        }
    }
}

#[test]
fn a_link_of_a_user_leads_to_nothing_that_the_user_cannot_read() {
    let Some(()) = root() else { return };
    let scratch = Scratch::new("named-link");
    let hidden = scratch.join("hidden");
    std::fs::write(&hidden, "NCCL_ALGO=Hidden\n").unwrap();
    let home = scratch.join("home");
    std::fs::create_dir(&home).unwrap();
    symlink(&hidden, home.join("conf")).unwrap();
    chown(&home, Some(USER), Some(USER)).unwrap();
    for (mode, is_read) in [(0o600, false), (0o644, true)] {
        std::fs::set_permissions(&hidden, Permissions::from_mode(mode)).unwrap();
        let said = recorded("NCCL_CONF_FILE", &home.join("conf"), Some(USER));
        assert_eq!(said.contains("NCCL_ALGO=Hidden"), is_read, "{mode:o}");
    }
}

#[test]
fn only_regular_files_of_no_kernel_file_system_are_read() {
    let Some(()) = root() else { return };
    let scratch = Scratch::new("named-kinds");
    let fifo = scratch.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    symlink("/dev/full", scratch.join("device")).unwrap();
    let kinds = [
        fifo,
        scratch.join("device"),
        "/proc/kmsg".into(),
        "/proc/self/environ".into(),
    ];
    for path in kinds {
        for variable in ["NCCL_CONF_FILE", "NCCL_TOPO_FILE", "DS_ENV_FILE"] {
            let said = recorded(variable, &path, None);
            let refused = said.lines().filter(|line| {
                let why = [
                    "no regular file",
                    "a file of the kernel's",
                    "others can replace",
                ];
                why.iter().any(|why| line.contains(why))
            });
            assert!(refused.count() > 0, "{variable}={path:?}");
        }
    }
}

/// Runs the doctor in a namespace after this script.
fn after(script: &str, args: &[&str]) -> Option<Output> {
    let way = stage::way()?;
    let script = format!("{script}\nexec \"$0\" \"$@\"");
    let ran = Command::new("unshare")
        .args(way)
        .args(["sh", "-ec", &script, doctor()])
        .args(args)
        .output();
    Some(ran.unwrap())
}

#[test]
fn settings_of_the_site_that_others_can_write_are_ignored_and_named() {
    let Some(()) = root() else { return };
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/modelled-roce-lossless.jsonl"
    );
    let site = "mount -t tmpfs -o mode=755 t /etc
mkdir -p /etc/rdma-doctor/checks.d
echo broken > /etc/rdma-doctor/config.toml
echo broken > /etc/rdma-doctor/waivers.toml
echo broken > /etc/rdma-doctor/checks.d/x.toml
for f in config.toml waivers.toml checks.d/x.toml; do chown 4711 /etc/rdma-doctor/$f; done";
    let plain = after("mount -t tmpfs t /etc", &["check", fixture]).unwrap();
    for (change, named) in [
        ("", "/etc/rdma-doctor/checks.d/x.toml"),
        (
            "chown 4711 /etc/rdma-doctor",
            "/etc/rdma-doctor is owned by user 4711",
        ),
        (
            "chown -R 0:0 /etc/rdma-doctor; chmod 777 /etc/rdma-doctor",
            "/etc/rdma-doctor can be written by everybody",
        ),
    ] {
        let out = after(&format!("{site}\n{change}"), &["check", fixture]).unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), plain.status.code(), "{change}: {said}");
        assert_eq!(out.stdout, plain.stdout, "{change}");
        for word in [named, "config.toml", "waivers.toml"] {
            assert!(said.contains(word), "{change}: no {word} in {said}");
        }
    }
    // What root keeps for itself counts: here it is broken.
    let out = after(
        &format!("{site}\nchown -R 0 /etc/rdma-doctor"),
        &["check", fixture],
    )
    .unwrap();
    assert_eq!(out.status.code(), Some(65), "{out:?}");
}

#[test]
fn an_output_is_not_led_elsewhere_by_a_link_in_a_sticky_directory() {
    let scratch = Scratch::new("sticky");
    let (sticky, kept) = (scratch.join("sticky"), scratch.join("kept"));
    for dir in [&sticky, &kept] {
        std::fs::create_dir(dir).unwrap();
    }
    std::fs::set_permissions(&sticky, Permissions::from_mode(0o1777)).unwrap();
    std::fs::write(kept.join("victim"), "kept").unwrap();
    symlink(kept.join("victim"), sticky.join("file")).unwrap();
    symlink(kept.join("new"), sticky.join("dangling")).unwrap();
    symlink(&kept, sticky.join("dir")).unwrap();
    symlink(kept.join("victim"), scratch.join("own")).unwrap();
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/modelled-roce-lossless.jsonl"
    );
    let write = |to: &Path| {
        let mut command = Command::new(doctor());
        command.args(["record", "--from", fixture, "-o"]).arg(to);
        command.output().unwrap().status.code()
    };
    // The link itself is replaced.
    for name in ["file", "dangling"] {
        assert_eq!(write(&sticky.join(name)), Some(0), "{name}");
        assert!(
            sticky.join(name).symlink_metadata().unwrap().is_file(),
            "{name}"
        );
    }
    assert_ne!(write(&sticky.join("dir/victim")), Some(0));
    assert_ne!(write(&sticky.join("dir/new")), Some(0));
    assert_eq!(
        std::fs::read_to_string(kept.join("victim")).unwrap(),
        "kept"
    );
    assert!(!kept.join("new").exists());
    // Elsewhere a link is followed, and stays.
    assert_eq!(write(&scratch.join("own")), Some(0));
    assert!(scratch.join("own").symlink_metadata().unwrap().is_symlink());
    assert_ne!(
        std::fs::read_to_string(kept.join("victim")).unwrap(),
        "kept"
    );
}
