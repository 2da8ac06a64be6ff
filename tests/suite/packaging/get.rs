//! `packaging/get.sh` installs this build from a server on loopback and from a directory, and
//! installs nothing from a download that was changed or cut, or on a machine without a download.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rdma_doctor::cli;

use super::{expected_files, files, has, pack_tarball, readme_block, root, said, stage, text};
use crate::formats::skipped;
use crate::place::Scratch;

/// What get.sh and install.sh start, but for the tools of which one of two is enough.
const TOOLS: [&str; 13] = [
    "sh", "cp", "dirname", "find", "gzip", "id", "mkdir", "mktemp", "mv", "rm", "tar", "uname",
    "wc",
];

/// A folder with downloads, the tools that get.sh finds, and the home below which it installs.
struct Place(Scratch);

impl Place {
    fn new(fetcher: &str, digest: &str) -> Self {
        let place = Place(Scratch::new("get"));
        for folder in ["downloads", "tools", "a home", "tmp"] {
            std::fs::create_dir(place.0.join(folder)).unwrap();
        }
        for tool in TOOLS.into_iter().chain([fetcher, digest]) {
            let found = said(Command::new("sh").args(["-c", &format!("command -v {tool}")]));
            symlink(found.trim(), place.0.join("tools").join(tool)).unwrap();
        }
        // By root it would install to /usr/local.
        place.stand_in("id", "echo 1000");
        place
    }

    /// Puts a script in place of a tool.
    fn stand_in(&self, tool: &str, script: &str) {
        let path = self.0.join("tools").join(tool);
        std::fs::remove_file(&path).unwrap();
        write_program(&path, script);
    }

    /// Packs what is staged below `downloads` for this machine, and lists all tarballs.
    fn publish(&self, version: &str) -> String {
        let name = pack_tarball(&self.0.join("downloads"), &staged(version));
        self.list("*.tar.gz");
        name
    }

    fn list(&self, files: &str) {
        let script = format!("sha256sum {files} >SHA256SUMS");
        said(
            Command::new("sh")
                .args(["-euc", &script])
                .current_dir(self.0.join("downloads")),
        );
    }

    /// Publishes a program that prints its version, which is packed much faster than this build.
    fn publish_small(&self, version: &str) -> String {
        let folder = self.0.join("downloads").join(staged(version));
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        std::fs::create_dir_all(folder.join("share/man/man1")).unwrap();
        std::fs::write(folder.join("share/man/man1/rdma-doctor.1.gz"), version).unwrap();
        let script = format!("echo rdma-doctor {version}");
        write_program(&folder.join("bin/rdma-doctor"), &script);
        self.publish(version)
    }

    fn downloads(&self) -> String {
        self.0.join("downloads").display().to_string()
    }

    fn shell(&self, url: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .env_clear()
            .env("PATH", self.0.join("tools"))
            .env("HOME", self.0.join("a home"))
            .env("TMPDIR", self.0.join("tmp"))
            .env("RDMA_DOCTOR_URL", url)
            .current_dir(&self.0);
        command
    }

    fn command(&self, url: &str) -> Command {
        let mut command = self.shell(url);
        command.arg(root().join("packaging/get.sh"));
        command
    }

    /// Gives a script to a shell as `curl … | sh` does.
    fn piped(&self, script: &str) -> Output {
        let file = self.0.join("script");
        std::fs::write(&file, script).unwrap();
        let mut shell = self.shell(&self.downloads());
        shell.stdin(std::fs::File::open(&file).unwrap());
        shell.output().unwrap()
    }

    fn installed(&self) -> BTreeSet<String> {
        files(&self.0.join("a home"))
    }

    /// Whether neither the home nor the folder for temporary files holds anything.
    fn is_untouched(&self) -> bool {
        ["a home", "tmp"]
            .into_iter()
            .flat_map(|folder| std::fs::read_dir(self.0.join(folder)).unwrap())
            .next()
            .is_none()
    }

    /// Runs get.sh, which fails with one sentence and leaves nothing behind. The sentence.
    fn refused(&self, mut command: Command) -> String {
        let out: Output = command.output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{out:?}");
        assert_eq!(text(&out.stdout), "");
        assert!(self.is_untouched());
        let sentence = text(&out.stderr);
        assert_eq!(sentence.lines().count(), 1, "{sentence}");
        sentence
    }
}

fn write_program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The tarball's folder, which has the name of this machine's architecture.
fn staged(version: &str) -> String {
    format!("rdma-doctor-{version}-{}", std::env::consts::ARCH)
}

/// Python's server of a folder, on a port of loopback that the kernel chose.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(folder: &str) -> Self {
        let mut child = Command::new("python3")
            .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"])
            .args(["--directory", folder])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It says its address once it listens: "Serving HTTP on 127.0.0.1 port N (URL) ...".
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut line).unwrap();
        let address = line.split(['(', ')']).nth(1);
        let url = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Server { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_installs_this_build_from_a_server() {
    let place = Place::new("curl", "sha256sum");
    stage(&place.0.join("downloads").join(staged("9.8.7")), "");
    place.publish("9.8.7");
    let server = Server::start(&place.downloads());
    let printed = said(&mut place.command(&server.url));
    let bin = place.0.join("a home/.local/bin");
    let lines: Vec<&str> = printed.lines().collect();
    assert!(
        lines[0].starts_with(&format!("installed {}: ", cli::version::LINE.trim()))
            && lines[0].contains(&bin.join("rdma-doctor").display().to_string()),
        "{printed}"
    );
    // The line that it prints sets PATH for a user who pastes it.
    assert_eq!(lines.len(), 3, "{printed}");
    let paste = format!("PATH=/usr/bin:/bin; {}; command -v rdma-doctor", lines[2]);
    let program = said(Command::new("sh").args(["-c", &paste]));
    assert_eq!(Path::new(program.trim()), bin.join("rdma-doctor"));
    assert_eq!(files(&place.0.join("a home/.local")), expected_files());
    assert_eq!(std::fs::read_dir(place.0.join("tmp")).unwrap().count(), 0);
    let missing = place.0.join("downloads").join("SHA256SUMS");
    std::fs::remove_file(missing).unwrap();
    let failed = place.command(&server.url).output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    let last = text(&failed.stderr);
    let last = last.lines().last().unwrap();
    assert_eq!(
        last,
        format!("get.sh: cannot fetch {}SHA256SUMS", server.url)
    );
}

#[test]
fn the_line_of_the_readme_installs() {
    let place = Place::new("curl", "sha256sum");
    place.publish_small("1.0");
    let script = place.0.join("downloads/get.sh");
    std::fs::copy(root().join("packaging/get.sh"), script).unwrap();
    let server = Server::start(&place.downloads());
    let block = readme_block("get.sh");
    let example = "https://downloads.example/rdma-doctor";
    assert!(block.contains(example), "{block}");
    let lines = block.replace(example, &server.url);
    // The script's own variable, which the first line sets.
    let mut shell = place.shell("");
    let printed = said(shell.args(["-euc", &lines]));
    assert!(printed.starts_with("installed rdma-doctor 1.0: "));
    assert_eq!(place.installed().len(), 2);
}

#[test]
fn it_takes_wget_and_shasum_or_needs_no_client() {
    if !has("wget") || !has("shasum") {
        return skipped("wget or shasum");
    }
    let place = Place::new("wget", "shasum");
    place.publish_small("1.0");
    let server = Server::start(&place.downloads());
    let folder = place.downloads();
    let as_url = format!("file://{folder}/");
    let by_wget = [server.url.as_str(), &as_url, &folder, "downloads"];
    for url in by_wget {
        let printed = said(&mut place.command(url));
        assert!(
            printed.starts_with("installed rdma-doctor 1.0: "),
            "{printed}"
        );
        assert_eq!(place.installed().len(), 2);
        std::fs::remove_dir_all(place.0.join("a home/.local")).unwrap();
        assert!(place.is_untouched());
    }
    for missing in ["wget", "shasum"] {
        std::fs::remove_file(place.0.join("tools").join(missing)).unwrap();
        let url = if missing == "wget" {
            &server.url
        } else {
            &folder
        };
        let out = place.command(url).output().unwrap();
        assert_eq!(out.status.code(), Some(1));
        let sentence = text(&out.stderr);
        assert!(
            sentence.starts_with("get.sh: install ") && sentence.contains(missing),
            "{sentence}"
        );
        assert!(place.is_untouched());
    }
}

#[test]
fn prefix_version_and_path_are_the_users_choice() {
    let place = Place::new("curl", "sha256sum");
    let url = place.downloads();
    let program = "bin/rdma-doctor".to_owned();
    let page = "share/man/man1/rdma-doctor.1.gz".to_owned();
    place.publish_small("1.0");
    place.publish_small("1.1");
    let sentence = place.refused(place.command(&url));
    assert!(sentence.contains("set RDMA_DOCTOR_VERSION"), "{sentence}");
    let mut other = place.command(&url);
    other.env("RDMA_DOCTOR_VERSION", "1.2");
    let sentence = place.refused(other);
    assert!(sentence.contains("no rdma-doctor 1.2 for"), "{sentence}");

    // A prefix may be a path from the working directory on.
    let mut older = place.command(&url);
    older
        .env("RDMA_DOCTOR_VERSION", "v1.0")
        .env("PREFIX", "own");
    assert!(said(&mut older).starts_with("installed rdma-doctor 1.0: "));
    assert_eq!(
        files(&place.0.join("own")),
        BTreeSet::from([program.clone(), page.clone()])
    );
    assert!(place.is_untouched());

    // The program that is replaced may run.
    let running = place.0.join("own/bin/rdma-doctor");
    std::fs::copy("/bin/sleep", &running).unwrap();
    let mut sleeper = Command::new(&running).arg("600").spawn().unwrap();
    let mut newer = place.command(&url);
    let path = [
        place.0.join("own/bin").display().to_string(),
        place.0.join("tools").display().to_string(),
    ];
    newer
        .env("RDMA_DOCTOR_VERSION", "1.1")
        .env("PREFIX", place.0.join("own"));
    let in_path = newer.env("PATH", path.join(":")).output().unwrap();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let printed = text(&in_path.stdout);
    assert!(
        printed.starts_with("installed rdma-doctor 1.1: "),
        "{in_path:?}"
    );
    assert!(printed.contains("own/bin is in PATH: run"), "{printed}");
    assert_eq!(files(&place.0.join("own")), BTreeSet::from([program, page]));
    // Another program of the name, in a folder that PATH has first.
    write_program(&place.0.join("tools/rdma-doctor"), "echo rdma-doctor 0.9");
    let printed = said(newer.env("PATH", format!("{}:{}", path[1], path[0])));
    assert!(
        printed.contains("tools/rdma-doctor comes before it"),
        "{printed}"
    );
}

#[test]
fn a_changed_download_is_refused() {
    let place = Place::new("curl", "sha256sum");
    let archive = place.0.join("downloads").join(place.publish_small("1.0"));
    let server = Server::start(&place.downloads());
    let good = std::fs::read(&archive).unwrap();
    let mut longer = good.clone();
    longer.push(0);
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    for bytes in [&longer, &flipped, &good[..good.len() - 1].to_vec()] {
        std::fs::write(&archive, bytes).unwrap();
        for url in [&server.url, &place.downloads()] {
            let sentence = place.refused(place.command(url));
            assert!(sentence.contains("is damaged"), "{sentence}");
        }
    }
    std::fs::write(&archive, good).unwrap();
    said(&mut place.command(&server.url));
    assert_eq!(place.installed().len(), 2);
}

#[test]
fn a_script_that_was_cut_does_nothing() {
    let place = Place::new("curl", "sha256sum");
    place.publish_small("1.0");
    let script = std::fs::read_to_string(root().join("packaging/get.sh")).unwrap();
    let ends = script.match_indices('\n').map(|(at, _)| at + 1);
    // The last line without its end is the whole script.
    let last_line = script.len() - "main\n".len()..script.len() - 1;
    let mut count = 0;
    for end in ends.filter(|end| *end < script.len()).chain(last_line) {
        let out = place.piped(&script[..end]);
        assert!(place.is_untouched(), "cut at byte {end}");
        assert_eq!(text(&out.stdout), "", "cut at byte {end}");
        count += 1;
    }
    assert_eq!(count, script.lines().count() + 3);
    let whole = place.piped(&script);
    assert!(whole.status.success(), "{whole:?}");
    assert_eq!(place.installed().len(), 2);
}

#[test]
fn a_machine_without_a_download_is_told_so() {
    let place = Place::new("curl", "sha256sum");
    place.publish_small("1.0");
    place.stand_in("uname", "[ $1 = -m ] && echo riscv64 || echo Linux");
    let sentence = place.refused(place.command(&place.downloads()));
    assert_eq!(
        sentence,
        "get.sh: there is no rdma-doctor for riscv64, only for x86_64 and aarch64\n"
    );
    place.stand_in("uname", "[ $1 = -m ] && echo x86_64 || echo FreeBSD");
    let sentence = place.refused(place.command(&place.downloads()));
    assert!(sentence.contains("not on FreeBSD"), "{sentence}");
    let sentence = place.refused(place.command(""));
    assert!(sentence.contains("set RDMA_DOCTOR_URL"), "{sentence}");
}

#[test]
fn a_program_that_does_not_start_is_not_called_installed() {
    let place = Place::new("curl", "sha256sum");
    let folder = place.0.join("downloads").join(staged("1.0"));
    std::fs::create_dir_all(folder.join("bin")).unwrap();
    std::fs::create_dir_all(folder.join("share")).unwrap();
    write_program(&folder.join("bin/rdma-doctor"), "exit 127");
    place.publish("1.0");
    let out = place.command(&place.downloads()).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(text(&out.stdout), "");
    let sentence = text(&out.stderr);
    assert!(sentence.contains("needs glibc 2.17 or newer"), "{sentence}");
}

#[test]
fn scripts_that_users_run_pass_shellcheck() {
    if !has("shellcheck") {
        return skipped("shellcheck");
    }
    for script in ["get.sh", "install.sh"] {
        let path = root().join("packaging").join(script);
        said(Command::new("shellcheck").args(["--shell=sh"]).arg(path));
    }
}
