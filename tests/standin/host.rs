//! A machine that has NVIDIA's driver loaded, as far as files tell: the doctor's binary in a mount namespace of its own, a stand-in in the place
//! of the driver's library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Whether a mount namespace can be had here. `RDMA_DOCTOR_STANDINS=require` makes a machine without a failure.
pub(crate) fn can_run() -> bool {
    let made = unshare()
        .arg("true")
        .output()
        .is_ok_and(|out| out.status.success());
    let required = std::env::var("RDMA_DOCTOR_STANDINS").is_ok_and(|wish| wish == "require");
    assert!(made || !required, "no mount namespace can be had here");
    if !made {
        println!("skipped: no mount namespace can be had here");
    }
    made
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    let root = rustix::process::geteuid().is_root();
    command.args(if root { &["-m"][..] } else { &["-rm"] });
    command
}

/// What the driver leaves in /proc and /dev; what of the real /dev programs need stays.
const DRESS: &str = r#"
set -e
mount -t tmpfs none /proc/driver
mkdir /proc/driver/nvidia
echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build  (dvs-builder)' > /proc/driver/nvidia/version
mount -t tmpfs none "$1"
for node in null zero urandom; do touch "$1/$node"; mount --bind "/dev/$node" "$1/$node"; done
touch "$1/nvidiactl" "$1/nvidia-uvm" "$1/nvidia0" "$1/nvidia1"
mount --rbind "$1" /dev
shift
exec "$@"
"#;

/// Runs the doctor on a machine of this description, with this library (`libstandin_cuda.so`) under this name (`libcuda.so.1`).
pub(crate) fn doctor(
    machine: &str,
    library: &str,
    name: &str,
    args: &[&str],
    env: &[(&str, &str)],
) -> Output {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/standin");
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("standin-{library}"));
    let dev = place.join("dev");
    std::fs::create_dir_all(&dev).unwrap();
    let link = place.join(name);
    // Tests that run at the same time make the same link.
    let _ = std::os::unix::fs::symlink(built(library), &link);
    let mut command = unshare();
    command
        .args(["sh", "-c", DRESS, "sh"])
        .arg(&dev)
        .arg(env!("CARGO_BIN_EXE_rdma-doctor"))
        .args(args);
    command
        .env("LD_LIBRARY_PATH", &place)
        .env("RDMA_DOCTOR_STANDIN", tests.join("machines").join(machine))
        .env_remove("CUDA_VISIBLE_DEVICES")
        .envs(env.iter().copied())
        .stdin(Stdio::null());
    command.output().unwrap()
}

/// The library that cargo built of a stand-in. A test that runs alone has it built first.
fn built(library: &str) -> PathBuf {
    let examples = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples");
    let path = examples.join(format!("lib{library}.so"));
    let age = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/standin");
    let newest = std::fs::read_dir(tests)
        .unwrap()
        .filter_map(|entry| age(&entry.unwrap().path()))
        .max();
    if age(&path) < newest {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--example", library])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        // The libraries belong beside the tests, whatever their profile.
        if examples
            .parent()
            .is_some_and(|profile| profile.ends_with("release"))
        {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success());
    }
    assert!(path.is_file(), "{path:?} is not built");
    path
}
