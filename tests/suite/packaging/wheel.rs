//! `packaging/wheel` packs this build, and pip installs it into an environment of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use rdma_doctor::cli;

use super::{root, said, text};
use crate::place::{Scratch, doctor};

/// Prints each installed file whose size or digest is not what RECORD says, and counts the others.
const COMPARE: &str = r#"
import base64, hashlib, importlib.metadata
right = 0
for file in importlib.metadata.files("rdma-doctor"):
    if file.hash is None:
        continue
    content = file.locate().read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    if (file.hash.value, file.size) == (digest, len(content)):
        right += 1
    else:
        print(file)
print(right)
"#;

fn pack(arch: &str, program: &Path, into: &Path) -> Command {
    let mut command = Command::new(root().join("packaging/wheel"));
    command.arg(arch).args([program, into]);
    command.env("SOURCE_DATE_EPOCH", "1700000000");
    command
}

/// Packs a program of this machine. The wheel's path.
fn wheel(program: &Path, into: &Path) -> PathBuf {
    let name = said(&mut pack(std::env::consts::ARCH, program, into));
    into.join(name.trim_end())
}

/// Makes a virtual environment. Its Python.
fn environment(within: &Path) -> PathBuf {
    let folder = within.join("a venv");
    said(Command::new("python3").args(["-m", "venv"]).arg(&folder));
    folder.join("bin/python")
}

fn pip(python: &Path, action: &str) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--disable-pip-version-check", action]);
    command
}

#[test]
fn pip_installs_the_program_and_python_starts_it() {
    let scratch = Scratch::new("wheel");
    // Without what debuggers read, which takes a minute to compress.
    let stripped = scratch.join("stripped");
    said(
        Command::new("strip")
            .arg("-o")
            .args([stripped.as_path(), Path::new(doctor())]),
    );
    let path = wheel(&stripped, &scratch);
    let arch = std::env::consts::ARCH;
    let name = format!(
        "rdma_doctor-{}-py3-none-manylinux_2_17_{arch}.manylinux2014_{arch}.whl",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(path.file_name().unwrap().to_str(), Some(name.as_str()));
    let python = environment(&scratch);
    said(pip(&python, "install").arg("--no-index").arg(&path));
    let program = python.with_file_name("rdma-doctor");
    assert_eq!(
        said(Command::new(&program).arg("--version")),
        cli::version::LINE
    );
    let by_module = ["-m", "rdma_doctor"];
    assert_eq!(
        said(Command::new(&python).args(by_module).arg("--version")),
        cli::version::LINE
    );

    let fixture = root().join("fixtures/rxe-no-address.jsonl");
    let direct = Command::new(&program).arg("check").arg(&fixture).output();
    let direct = direct.unwrap();
    assert_eq!(direct.status.code(), Some(2));
    let started = Command::new(&python)
        .args(by_module)
        .arg("check")
        .arg(&fixture)
        .output()
        .unwrap();
    assert_eq!(started.status.code(), Some(2));
    assert_eq!(text(&started.stderr), text(&direct.stderr));
    let compared = said(Command::new(&python).args(["-c", COMPARE]));
    // The program, the package's two files, METADATA, WHEEL, and two licences; pip adds its own.
    let right: usize = compared.trim_end().parse().expect(&compared);
    assert!(right >= 7, "{compared}");
    let metadata = said(Command::new(&python).args([
        "-c",
        "import importlib.metadata as m; d = m.metadata('rdma-doctor'); \
         print(d['Version'], d['License-Expression'])",
    ]));
    let expected = concat!(
        env!("CARGO_PKG_VERSION"),
        " ",
        env!("CARGO_PKG_LICENSE"),
        "\n"
    );
    assert_eq!(metadata, expected);

    said(pip(&python, "uninstall").args(["--yes", "rdma-doctor"]));
    assert!(!program.exists());
}

/// The program is bash here, which can say with which arguments and signals it was started.
#[test]
fn python_becomes_the_program() {
    let scratch = Scratch::new("target");
    let path = wheel(Path::new("/bin/bash"), &scratch);
    let target = scratch.join("target");
    // pip moves the script to another folder than the record of installed files says.
    said(
        pip(&environment(&scratch), "install")
            .args(["--no-index", "--target"])
            .args([&target, &path]),
    );
    let script = "grep SigIgn /proc/self/status; echo \"$PPID:$*\"; exit 7";
    let words = ["-c", script, "name", "a b", "c"];
    let direct = Command::new("/bin/bash").args(words).output().unwrap();
    let mut module = Command::new("python3");
    module
        .args(["-m", "rdma_doctor"])
        .args(words)
        .env("PYTHONPATH", &target);
    let started = module.output().unwrap();
    assert_eq!(text(&started.stderr), "");
    // Of equal parents: Python has left no process between.
    assert_eq!(text(&started.stdout), text(&direct.stdout));
    assert!(text(&direct.stdout).ends_with(":a b c\n"), "{direct:?}");
    assert_eq!(
        (started.status.code(), direct.status.code()),
        (Some(7), Some(7))
    );

    std::fs::remove_file(target.join("bin/rdma-doctor")).unwrap();
    let gone = module.output().unwrap();
    assert_eq!(gone.status.code(), Some(70));
    assert_eq!(
        text(&gone.stderr),
        "rdma_doctor: the program rdma-doctor is not installed: install the wheel again\n"
    );
}

#[test]
fn the_same_files_give_the_same_wheel() {
    let scratch = Scratch::new("wheels");
    let mut wheels = Vec::new();
    for (name, mode) in [("one", "755"), ("another", "700")] {
        let folder = scratch.join(name);
        std::fs::create_dir(&folder).unwrap();
        let program = folder.join("program");
        std::fs::copy("/bin/true", &program).unwrap();
        said(Command::new("chmod").arg(mode).arg(&program));
        wheels.push(std::fs::read(wheel(&program, &folder)).unwrap());
    }
    assert!(wheels[0] == wheels[1]);

    // With the licences of the libraries, as packaging/dist writes them beside it.
    let folder = scratch.join("one");
    let licences = folder.join("THIRD-PARTY-LICENSES.txt");
    std::fs::write(licences, "those of others").unwrap();
    let path = wheel(Path::new("/bin/true"), &folder);
    let listed = said(
        Command::new("python3")
            .args(["-m", "zipfile", "-l"])
            .arg(path),
    );
    let licence = format!(
        "rdma_doctor-{}.dist-info/licenses/THIRD-PARTY-LICENSES.txt ",
        env!("CARGO_PKG_VERSION")
    );
    assert!(listed.contains(&licence), "{listed}");
}

#[test]
fn a_program_of_another_machine_is_not_packed() {
    let scratch = Scratch::new("refused");
    let other = if std::env::consts::ARCH == "x86_64" {
        "aarch64"
    } else {
        "x86_64"
    };
    for (arch, program) in [
        (other, "/bin/true"),
        (std::env::consts::ARCH, "/etc/passwd"),
    ] {
        let refused = pack(arch, Path::new(program), &scratch).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let sentence = format!("wheel: {program} is no program for {arch}\n");
        assert_eq!(text(&refused.stderr), sentence);
    }
    let written = std::fs::read_dir(&scratch).unwrap().count();
    assert_eq!(written, 0);
}
