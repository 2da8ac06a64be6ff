//! What is installed: the program with its manual and completions, as README.md says it, and what the program says of itself.
//!
//! The downloads themselves are built and tried by `make dist-check`.

mod get;
mod wheel;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rdma_doctor::check::Catalogue;
use rdma_doctor::cli;

use crate::place::{Scratch, doctor};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command prints; it succeeds.
fn said(command: &mut Command) -> String {
    let out: Output = command.output().unwrap();
    assert!(
        out.status.success(),
        "{command:?}: {}{}",
        text(&out.stdout),
        text(&out.stderr)
    );
    text(&out.stdout)
}

fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    found.unwrap().status.success()
}

/// The files below a folder, by their paths inside of it.
pub(crate) fn files(folder: &Path) -> BTreeSet<String> {
    let listed = said(
        Command::new("find")
            .args([".", "-type", "f"])
            .current_dir(folder),
    );
    let names = listed.lines().map(|line| line.trim_start_matches("./"));
    names.map(str::to_owned).collect()
}

/// Stages this build below a folder.
fn stage(to: &Path, prefix: &str) {
    said(
        Command::new(root().join("packaging/stage"))
            .args([Path::new(doctor()), to])
            .arg(prefix),
    );
}

/// The page's name in a package, from `rdma-doctor.1`.
fn packed(page: &str) -> String {
    let section = page.rsplit('.').next().unwrap();
    format!("share/man/man{section}/{page}.gz")
}

fn expected_files() -> BTreeSet<String> {
    let pages = files(&root().join("man"));
    let mut all: BTreeSet<String> = pages.iter().map(|page| packed(page)).collect();
    all.extend(
        [
            "bin/rdma-doctor",
            "share/bash-completion/completions/rdma-doctor",
            "share/zsh/site-functions/_rdma-doctor",
            "share/fish/vendor_completions.d/rdma-doctor.fish",
            "share/man/man7/rdma-doctor-checks.7.gz",
        ]
        .map(str::to_owned),
    );
    all
}

#[test]
fn the_program_is_installed_with_its_manual_and_completions() {
    let scratch = Scratch::new("stage");
    stage(&scratch, "/opt/doctor/");
    let to = scratch.join("opt/doctor");
    assert_eq!(files(&to), expected_files());
    assert_eq!(files(&scratch).len(), expected_files().len());
    let page = said(Command::new("gzip").args(["-dc"]).arg(
        // The page that explains how a site writes its own checks.
        to.join(packed("rdma-doctor-check.5")),
    ));
    let source = std::fs::read_to_string(root().join("man/rdma-doctor-check.5")).unwrap();
    assert_eq!(page, source);
    let version = said(Command::new(to.join("bin/rdma-doctor")).arg("--version"));
    assert_eq!(version, cli::version::LINE);
}

/// The lines of README.md's block of code that contain this text.
fn readme_block(containing: &str) -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let section = readme.split("\n## Install\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut blocks = section
        .split("\n\n")
        .filter(|part| part.lines().all(|line| line.starts_with("    ")));
    let block = blocks.find(|block| block.contains(containing)).unwrap();
    block.to_owned()
}

/// Packs a folder as `packaging/dist` does, with the installer; what it packed goes. The tarball's
/// name.
fn pack_tarball(within: &Path, name: &str) -> String {
    let installer = within.join(name).join("install.sh");
    std::fs::copy(root().join("packaging/install.sh"), installer).unwrap();
    let archive = format!("{name}.tar.gz");
    said(
        Command::new("tar")
            .args(["-czf", &archive, name])
            .current_dir(within),
    );
    std::fs::remove_dir_all(within.join(name)).unwrap();
    archive
}

/// A tarball as `packaging/dist` packs it, of this build, unpacked and installed by the lines of the README.
#[test]
fn the_readme_installs_the_tarball() {
    let version = env!("CARGO_PKG_VERSION");
    let scratch = Scratch::new("tarball");
    let name = format!("rdma-doctor-{version}-x86_64");
    stage(&scratch.join(&name), "");
    let archive = pack_tarball(&scratch, &name);
    let home = scratch.join("a home");
    std::fs::create_dir(&home).unwrap();
    let block = readme_block(".tar.gz");
    assert!(block.contains(&archive), "{block}");
    said(
        Command::new("sh")
            .args(["-euc", &block])
            .env("HOME", &home)
            .current_dir(&scratch),
    );
    assert_eq!(files(&home.join(".local")), expected_files());
}

#[test]
fn the_readme_names_the_files_that_are_built() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for name in [
        "rdma-doctor-VERSION-x86_64.tar.gz",
        "rdma-doctor_VERSION_amd64.deb",
        "rdma-doctor-VERSION-1.x86_64.rpm",
        "rdma-doctor-VERSION-x86_64.oci.tar",
        "rdma_doctor-VERSION-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    ] {
        let name = name.replace("VERSION", version);
        assert!(readme.contains(&name), "README.md does not name {name}");
    }
}

#[test]
fn a_program_that_needs_a_newer_glibc_is_refused() {
    let script = root().join("packaging/needs-glibc");
    // Each test program of Rust needs symbols of glibc 2.2.5 or of 2.17, and most need more.
    let own = env!("CARGO_BIN_EXE_rdma-doctor");
    let needed = said(Command::new(&script).args([own, "99.0"]));
    let needed = needed.trim();
    assert_eq!(
        said(Command::new(&script).args([own, needed])).trim(),
        needed
    );
    let refused = Command::new(&script).args([own, "2.2"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let text_file = Command::new(&script)
        .arg(root().join("Cargo.toml"))
        .output()
        .unwrap();
    assert!(!text_file.status.success());
}

#[test]
fn the_verbose_version_says_how_the_program_was_built() {
    for args in [["--version", "--verbose"], ["-V", "-v"]] {
        let version = said(Command::new(doctor()).args(args));
        assert!(version.starts_with(cli::version::LINE));
        let line = |name: &str| {
            let line = version.lines().find(|line| line.starts_with(name));
            line.unwrap()[name.len()..].trim().to_owned()
        };
        let checks = Catalogue::embedded().unwrap().count();
        assert_eq!(line("checks"), checks.to_string());
        assert!(line("target").starts_with(std::env::consts::ARCH));
        let glibc = line("glibc");
        let glibc: Vec<&str> = glibc.split([' ', '.']).collect();
        assert!(glibc[0] == "2" && glibc[1].parse::<u32>().unwrap() >= 17);
        let verbs = line("features").starts_with("verbs");
        assert_eq!(verbs, cfg!(feature = "verbs"));
        assert!(!line("commit").is_empty());
    }
    let unknown = Command::new(doctor())
        .args(["--version", "--verbose", "--more"])
        .output()
        .unwrap();
    // The parser answers what the fast way does not know.
    assert_eq!(text(&unknown.stdout), cli::version::LINE);
}

#[test]
fn alone_it_examines_this_node() {
    let run = |args: &[&str]| Command::new(doctor()).args(args).output().unwrap();
    let (alone, check) = (run(&[]), run(&["check"]));
    // What a busy machine is found to have may change between two runs; which machine and which
    // catalogue were judged does not.
    let judged = |out: &Output| {
        let report = text(&out.stdout);
        let node = report.lines().find(|line| line.contains(" · Linux "));
        let checks = report.split(" checks, ").next();
        let checks = checks.and_then(|before| before.rsplit(' ').next());
        (node.map(str::to_owned), checks.map(str::to_owned))
    };
    let (node, checks) = judged(&check);
    assert!(node.is_some() && checks.is_some(), "{check:?}");
    assert_eq!(judged(&alone), (node, checks), "{alone:?}");
    let coloured = run(&["--color", "always"]);
    assert!(text(&coloured.stdout).contains("\x1b["));
    let help = text(&run(&["--help"]).stdout);
    assert!(help.contains("Without a command") && help.contains("[COMMAND]"));
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("`rdma-doctor` examines it"));
}

fn completions(shell: &str) -> (Scratch, PathBuf) {
    let scratch = Scratch::new(shell);
    let script = said(Command::new(doctor()).args(["completions", shell]));
    for sub in cli::definition().get_subcommands() {
        let name = sub.get_name();
        assert!(script.contains(name), "{shell} does not know {name}");
    }
    // An option of a subcommand, which is defined when it is asked for.
    assert!(script.contains("no-self-test"), "{shell}");
    let path = scratch.join("completions");
    std::fs::write(&path, script).unwrap();
    (scratch, path)
}

#[test]
fn shells_complete_commands_and_options() {
    let (_scratch, bash) = completions("bash");
    // As bash calls it: the program's name, the word, the word before it.
    let ask = "source \"$1\"; COMP_WORDS=(rdma-doctor check --no-self); COMP_CWORD=2
               $(complete -p rdma-doctor | grep -o '[-]F [^ ]*' | cut -c4-) rdma-doctor --no-self check; echo \"${COMPREPLY[*]}\"";
    let reply = said(Command::new("bash").args(["-c", ask, "bash"]).arg(&bash));
    assert_eq!(reply.trim(), "--no-self-test");
    let completed = |words: &[&str]| -> String {
        let ask = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1))
                   $(complete -p rdma-doctor | grep -o '[-]F [^ ]*' | cut -c4-) rdma-doctor \"${@: -1}\" \"${@: -2:1}\"
                   echo \"${COMPREPLY[*]}\"";
        let mut shell = Command::new("bash");
        shell
            .args(["-c", ask, "bash"])
            .arg(&bash)
            .arg(doctor())
            .args(words);
        said(&mut shell).trim().to_owned()
    };
    let ids = completed(&["check", "--only", "link/rate-deg"]);
    assert_eq!(ids, "link/rate-degraded");
    assert_eq!(
        completed(&["explain", "roce/v2-gid-m"]),
        "roce/v2-gid-missing"
    );
    assert_eq!(completed(&["check", "--require", "kern"]), "kernel-log");
    let subjects = completed(&["waive", "link/*", "--subject", "l"]);
    assert!(subjects.split(' ').any(|name| name == "lo"), "{subjects}");
    let (_scratch, zsh) = completions("zsh");
    if has("zsh") {
        said(Command::new("zsh").arg("-n").arg(zsh));
    }
    let (_scratch, fish) = completions("fish");
    if has("fish") {
        said(Command::new("fish").arg("-n").arg(fish));
    }
    let other = Command::new(doctor())
        .args(["completions", "csh"])
        .output()
        .unwrap();
    assert_eq!(other.status.code(), Some(64));
}
