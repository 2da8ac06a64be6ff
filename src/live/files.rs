//! Files, directories, links and file systems: of this machine, or below a directory that holds copies of them.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno as Sys;
use serde_json::json;

use super::open_below::open_below;
use super::path_walk::{Link, Place, walk_from_root};
use super::{random, trusted};
use crate::small_sort;
use crate::source::{Answer, Errno, Question, Refusal};

/// The most bytes of an answer. No file that a probe reads comes near it.
const LIMIT: usize = 4 << 20;
/// The most bytes of a text that the user named.
const INPUT_LIMIT: u64 = 16 << 20;
/// The most files that are taken of a directory that the user named.
const FILES_LIMIT: usize = 10_000;
/// Bytes that are read at once: more than any line of the kernel's has, and a page of sysfs.
const PIECE: usize = 8 << 10;

/// The type of /proc.
const PROC_FILE_SYSTEM: rustix::fs::FsWord = 0x9fa0;
/// Types of file systems whose files are the kernel's (`include/uapi/linux/magic.h`): proc, sysfs, debugfs, tracefs, cgroup, cgroup2, securityfs,
/// configfs, bpf, pstore, efivarfs.
const KERNEL_FILE_SYSTEMS: [rustix::fs::FsWord; 11] = [
    PROC_FILE_SYSTEM,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x0027_e0eb,
    0x6367_7270,
    0x7363_6673,
    0x6265_6570,
    0xcafe_4a11,
    0x6165_676c,
    0xde5e_81e4,
];

/// A directory that is examined in place of `/`.
pub struct Root(OwnedFd);

impl Root {
    /// Opens the directory.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Root(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Whether it is laid out as a machine's root directory: a copy has at least one of these. One that nobody may look at counts.
    pub fn is_of_machine(&self) -> bool {
        let is_there = |name| !matches!(stat(Some(self), name), Err(Sys::NOENT | Sys::NOTDIR));
        ["/sys", "/proc", "/etc", "/var", "/run"]
            .into_iter()
            .any(is_there)
    }
}

/// The one directory directly below `path` that is laid out as a machine's root: archives often have it one level deeper.
#[expect(clippy::disallowed_methods, reason = "a directory named by the user")]
pub fn tree_below(path: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(path).ok()?.flatten();
    let is_tree = |path: &PathBuf| Root::open(path).is_ok_and(|root| root.is_of_machine());
    let mut trees = entries.map(|entry| entry.path()).filter(is_tree);
    trees.next().filter(|_| trees.next().is_none())
}

/// Answers a question about files; `None` if it is about something else.
pub fn ask(root: Option<&Root>, question: &Question) -> Option<Result<Answer, Refusal>> {
    Some(match question {
        Question::Read(path) => read(root, path),
        Question::List(path) => list(root, path),
        Question::Link(path) => link(root, path).map_err(Refusal::from),
        Question::Stat(path) => stat(root, path).map_err(Refusal::from),
        Question::StatVfs(path) if root.is_none() => statvfs(path).map_err(Refusal::from),
        Question::Open(path) if root.is_none() => open_device(path).map_err(Refusal::from),
        _ => return None,
    })
}

/// The name of the host of which a tree is a copy, if it has one.
pub fn host_name_of_tree(path: &Path) -> Option<String> {
    let root = Root::open(path).ok()?;
    ["/etc/hostname", "/proc/sys/kernel/hostname"]
        .into_iter()
        .find_map(|file| {
            let text = text(Some(&root), file)?;
            let name = text.lines().find(|line| !line.starts_with('#'))?.trim();
            (!name.is_empty() && name.len() <= 255).then(|| name.to_owned())
        })
}

/// Opens below the root: absolute links and `..` stay inside it, and nothing waits (a FIFO in a copied tree).
pub(super) fn open(root: Option<&Root>, path: &str, flags: OFlags) -> Result<OwnedFd, Sys> {
    // openat2(2) refuses flags that have no meaning with O_PATH.
    let waits_not = if flags.contains(OFlags::PATH) {
        OFlags::empty()
    } else {
        OFlags::NONBLOCK | OFlags::NOCTTY
    };
    let flags = flags | OFlags::CLOEXEC | waits_not;
    match root {
        None => rustix::fs::open(path, flags, Mode::empty()),
        Some(root) => open_below(root.0.as_fd(), path, flags),
    }
}

/// Opens a regular file and nothing else: to open a device has effects, a FIFO waits, a socket is none. What a path leads to is looked at before.
pub(super) fn open_regular(root: Option<&Root>, path: &str) -> Result<OwnedFd, Refusal> {
    let seen = open(root, path, OFlags::PATH)?;
    match open_seen(&seen) {
        // There is no /proc.
        Err(Refusal::Errno(Errno::ENOENT)) => Ok(open(root, path, OFlags::RDONLY)?),
        opened => opened,
    }
}

/// Opens the regular file that was looked at, and no other one that took its place.
fn open_seen(seen: &OwnedFd) -> Result<OwnedFd, Refusal> {
    match FileType::from_raw_mode(rustix::fs::fstat(seen)?.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::EISDIR.into()),
        _ => return Err(Refusal::not_asked("no regular file")),
    }
    let same = format!("/proc/self/fd/{}", seen.as_raw_fd());
    Ok(rustix::fs::open(
        same,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// What a file holds that the environment, a home directory or another file names. `job` is a process of the job's.
///
/// # Errors
///
/// It cannot be read, is no regular file, or may not be read by root ([`trusted::look_at_named`]).
pub(super) fn read_named(
    root: Option<&Root>,
    path: &str,
    job: Option<u32>,
) -> Result<String, Refusal> {
    let seen = match root {
        Some(_) => open(root, path, OFlags::PATH)?,
        None => trusted::look_at_named(path, job)?,
    };
    // Reading there can have effects (/proc/kmsg), and no such file is anybody's settings.
    if KERNEL_FILE_SYSTEMS.contains(&rustix::fs::fstatfs(&seen)?.f_type) {
        return Err(Refusal::not_asked("a file of the kernel's"));
    }
    let bytes = content(std::fs::File::from(open_seen(&seen)?))?;
    let bytes = bytes.ok_or(Refusal::TooLarge)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn read(root: Option<&Root>, path: &str) -> Result<Answer, Refusal> {
    let fd = match root {
        Some(_) => open_regular(root, path)?,
        None => open(root, path, OFlags::RDONLY)?,
    };
    if FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) == FileType::Fifo {
        return Err(Refusal::not_asked("a named pipe"));
    }
    let bytes = content(std::fs::File::from(fd))?;
    let mut bytes = bytes.ok_or(Refusal::TooLarge)?;
    // `tar` taken straight from sysfs pads each file with NULs to its claimed size.
    if root.is_some() {
        let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
        if end < bytes.len() && bytes.len().is_multiple_of(4096) {
            bytes.truncate(end);
        }
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Answer::Text(text.into()),
        Err(e) => Answer::Bytes(e.into_bytes().into()),
    })
}

/// The text of a file; none if it cannot be read, or is no text.
pub(super) fn text(root: Option<&Root>, path: &str) -> Option<Arc<str>> {
    match read(root, path) {
        Ok(Answer::Text(text)) => Some(text),
        _ => None,
    }
}

/// The content of a file; `None` if it is too large. Read in large pieces: LNet's files in debugfs return a line at a time, and refuse
/// (EINVAL) a buffer that is shorter than the line.
fn content(mut file: impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let mut piece = [0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(Some(bytes)),
            Ok(length) => bytes.extend_from_slice(piece.get(..length).unwrap_or(&[])),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if bytes.len() > LIMIT {
            return Ok(None);
        }
    }
}

fn list(root: Option<&Root>, path: &str) -> Result<Answer, Refusal> {
    let fd = open(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut names: Vec<Arc<str>> = Vec::new();
    let mut bytes = 0;
    for entry in rustix::fs::Dir::new(fd)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        bytes += name.len();
        if bytes > LIMIT {
            return Err(Refusal::TooLarge);
        }
        if name != "." && name != ".." {
            names.push(name.into());
        }
    }
    names.sort_unstable();
    Ok(Answer::Names(names.into()))
}

fn link(root: Option<&Root>, path: &str) -> Result<Answer, Sys> {
    let target = match root {
        None => rustix::fs::readlink(path, Vec::new())?,
        Some(_) => {
            // The link itself is opened, so that no part of the path above it can leave the root.
            let fd = open(root, path, OFlags::PATH | OFlags::NOFOLLOW)?;
            rustix::fs::readlinkat(fd, "", Vec::new())?
        }
    };
    Ok(Answer::Text(target.to_string_lossy().into()))
}

fn stat(root: Option<&Root>, path: &str) -> Result<Answer, Sys> {
    let stat = match root {
        None => rustix::fs::stat(path)?,
        Some(_) => rustix::fs::fstat(open(root, path, OFlags::PATH)?)?,
    };
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => "char",
        FileType::BlockDevice => "block",
        FileType::Directory => "directory",
        FileType::RegularFile => "file",
        FileType::Symlink => "link",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::Unknown => "unknown",
    };
    Ok(Answer::from(json!({
        "kind": kind,
        "mode": format!("{:04o}", stat.st_mode & 0o7777),
        "uid": stat.st_uid,
        "gid": stat.st_gid,
        "rdev": device_number(stat.st_rdev),
    })))
}

fn device_number(device: u64) -> String {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    format!("{major}:{minor}")
}

fn statvfs(path: &str) -> Result<Answer, Sys> {
    let fs = rustix::fs::statvfs(path)?;
    let magic = rustix::fs::statfs(path)?.f_type as u64;
    Ok(Answer::from(json!({
        "magic": format!("{magic:#x}"),
        "size": fs.f_blocks.saturating_mul(fs.f_frsize),
        "free": fs.f_bavail.saturating_mul(fs.f_frsize),
        "inodes": fs.f_files,
        "inodes_free": fs.f_favail,
        "read_only": fs.f_flag.contains(StatVfsMountFlags::RDONLY),
    })))
}

/// Opens a character device and closes it. A node whose driver is not there would make the kernel look for a module:
/// it is stat'ed first, and only one whose `/sys/dev/char` entry shows a driver is opened.
fn open_device(path: &str) -> Result<Answer, Sys> {
    let stat = rustix::fs::stat(path)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::CharacterDevice {
        return Err(Sys::NOTTY);
    }
    let number = device_number(stat.st_rdev);
    let driver = rustix::fs::stat(format!("/sys/dev/char/{number}"));
    driver.map_err(|_| Sys::NXIO)?;
    open(None, path, OFlags::RDWR)?;
    Ok(Answer::from(json!({ "opened": number })))
}

/// Opens a file that the user named: a recording, a check.
#[expect(clippy::disallowed_methods, reason = "an input named by the user")]
pub fn open_input(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::File::open(path)
}

/// Kind and permissions of a file that the user named: `st_mode`.
///
/// # Errors
///
/// It is not there, or may not be looked at.
#[expect(clippy::disallowed_methods, reason = "an input named by the user")]
pub fn mode(path: &Path) -> std::io::Result<u32> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::metadata(path)?.permissions().mode())
}

/// The kind of a file, as its mode has it.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;

/// Whether the user named a regular file or a directory: what can be read again, and has an end.
pub fn is_file_or_directory(path: &Path) -> bool {
    mode(path).is_ok_and(|mode| [REGULAR, DIRECTORY].contains(&(mode & KIND)))
}

/// Whether the user named a directory.
pub fn is_directory(path: &Path) -> bool {
    mode(path).is_ok_and(|mode| mode & KIND == DIRECTORY)
}

/// Opens a regular file beside one that the user named: the base of an overlay, a check in a directory.
///
/// # Errors
///
/// It is no regular file, or cannot be opened.
pub fn open_beside(path: &Path) -> std::io::Result<std::fs::File> {
    let path = path.to_str().ok_or(std::io::ErrorKind::InvalidFilename)?;
    match open_regular(None, path) {
        Ok(fd) => Ok(fd.into()),
        Err(Refusal::Errno(errno)) => Err(std::io::Error::from_raw_os_error(errno.0)),
        Err(_) => Err(std::io::Error::other("it is no regular file")),
    }
}

/// Reads a text that the user named, of at most 16 MiB.
///
/// # Errors
///
/// It is longer, no UTF-8, or cannot be read.
pub fn read_input(path: &Path) -> std::io::Result<String> {
    read_text(open_input(path)?)
}

/// Reads such a text of a regular file.
///
/// # Errors
///
/// Those of [`read_input`]; it is no regular file.
pub fn read_beside(path: &Path) -> std::io::Result<String> {
    read_text(open_beside(path)?)
}

fn read_text(file: std::fs::File) -> std::io::Result<String> {
    let mut text = String::new();
    file.take(INPUT_LIMIT + 1).read_to_string(&mut text)?;
    match text.len() as u64 > INPUT_LIMIT {
        true => Err(std::io::ErrorKind::FileTooLarge.into()),
        false => Ok(text),
    }
}

/// Why an output that the user named cannot be made there, where its path alone says so: a
/// directory that does not exist, or one in place of a file.
#[expect(clippy::disallowed_methods, reason = "an output named by the user")]
pub fn no_output_at(path: &Path) -> Option<String> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    if path.is_dir() {
        return Some("is a directory, and no file".into());
    }
    match directory {
        Some(directory) if !directory.is_dir() => Some(format!(
            "there is no directory {}",
            crate::terminal::path(directory)
        )),
        _ => None,
    }
}

/// Replaces an output file that the user named atomically: readers see the old or the new content, also after a crash, and the old one stays if the new
/// one cannot be written. `private` lets nobody but its owner read it. Anything but a plain file, such as `/dev/stdout`, is written to. A link in a
/// sticky directory, where anybody may have put it, is replaced and not followed.
///
/// # Errors
///
/// It cannot be written, or a link in a sticky directory is on its way.
#[expect(clippy::disallowed_methods, reason = "an output named by the user")]
pub fn replace_output(path: &Path, bytes: &[u8], private: bool) -> std::io::Result<()> {
    let place = output_place(path)?;
    let (directory, name) = (&place.directory, place.name.as_os_str());
    if rustix::fs::fstatfs(directory)?.f_type == PROC_FILE_SYSTEM {
        // A descriptor of this process.
        return std::fs::write(path, bytes);
    }
    let there = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    let kind = there.map(|there| FileType::from_raw_mode(there.st_mode));
    if !matches!(kind, Err(_) | Ok(FileType::RegularFile | FileType::Symlink)) {
        return std::fs::File::from(place.open(OFlags::WRONLY)?).write_all(bytes);
    }
    // Hidden, and of another ending: a collector that looks at *.prom does not take it for one. Nobody can guess the name and put a link there.
    let number = u128::from_be_bytes(random::random_bytes()?);
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{number:032x}.part"));
    let write = || -> std::io::Result<()> {
        let mode = Mode::from_raw_mode(if private { 0o600 } else { 0o666 });
        let made = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = std::fs::File::from(rustix::fs::openat(directory, &beside, made, mode)?);
        if let (false, Ok(there), Ok(FileType::RegularFile)) = (private, &there, &kind) {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(there.st_mode & 0o7777))?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(rustix::fs::renameat(directory, &beside, directory, name)?)
    };
    write().inspect_err(|_| {
        // A file that was not renamed is useless; if it was not made there is nothing to remove.
        let _ = rustix::fs::unlinkat(directory, &beside, AtFlags::empty());
    })
}

/// Where an output goes: links are followed, but none in a sticky directory.
fn output_place(path: &Path) -> Result<Place, Sys> {
    walk_from_root(path, &mut |step| {
        let is_link = FileType::from_raw_mode(step.own.st_mode) == FileType::Symlink;
        Ok(match is_link && step.directory.st_mode & 0o1000 != 0 {
            true => Link::Stays,
            false => Link::IsFollowed,
        })
    })
}

/// Writes a file below a directory that the user named, whose directories are made if they are not there; `runs` makes it a program.
///
/// # Errors
///
/// It cannot be written.
#[expect(clippy::disallowed_methods, reason = "an output named by the user")]
pub fn install(path: &Path, bytes: &[u8], runs: bool) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, bytes)?;
    let mode = if runs { 0o755 } else { 0o644 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// The files below a directory that the user named whose names end so, sorted.
#[expect(clippy::disallowed_methods, reason = "an input named by the user")]
pub fn list_input(dir: &Path, extension: &str) -> std::io::Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![(dir.to_owned(), 0)];
    while let Some((dir, depth)) = open.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() && depth < 4 {
                open.push((path, depth + 1));
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
            if found.len() + open.len() > FILES_LIMIT {
                return Err(std::io::Error::other("it has too many files"));
            }
        }
    }
    small_sort::by(&mut found, Ord::cmp);
    Ok(found)
}

/// The files directly in a directory that the user named, sorted.
#[expect(clippy::disallowed_methods, reason = "an input named by the user")]
pub fn input_files_in(dir: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            found.push(entry.path());
        }
        if found.len() > FILES_LIMIT {
            return Err(std::io::Error::other("it has too many files"));
        }
    }
    small_sort::by(&mut found, Ord::cmp);
    Ok(found)
}

/// Whether a descriptor leads to a terminal.
pub fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    rustix::termios::isatty(fd)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own files")]
mod tests {
    use super::*;
    use rustix::fs::CWD;

    #[test]
    fn a_tree_cannot_be_left() {
        let dir = std::env::temp_dir().join(format!("rdma-doctor-root-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("sys/class")).unwrap();
        std::fs::write(dir.join("sys/inside"), "inside\n").unwrap();
        for (name, target) in [
            ("abs", "/sys/inside"),
            ("up", "../../../../../../etc/passwd"),
        ] {
            let _ = std::fs::remove_file(dir.join("sys/class").join(name));
            std::os::unix::fs::symlink(target, dir.join("sys/class").join(name)).unwrap();
        }
        let root = Root::open(&dir).unwrap();
        let inside = ask(Some(&root), &Question::read("/sys/class/abs")).unwrap();
        assert_eq!(
            inside,
            Ok(Answer::Text("inside\n".into())),
            "an absolute link leads inside the tree"
        );
        let out = ask(Some(&root), &Question::read("/sys/class/up")).unwrap();
        assert_eq!(out, Err(Refusal::Errno(Errno::ENOENT)));
        assert_eq!(
            ask(Some(&root), &Question::link("/sys/class/abs")).unwrap(),
            Ok(Answer::Text("/sys/inside".into()))
        );
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn only_regular_files_of_a_tree_are_read() {
        let dir = std::env::temp_dir().join(format!("rdma-doctor-kinds-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("etc")).unwrap();
        let at = |name: &str| dir.join("etc").join(name);
        let _socket = std::os::unix::net::UnixListener::bind(at("socket"));
        let made = [
            ("fifo", FileType::Fifo, 0),
            // /dev/null, and the watchdog, which a node that is opened starts. Only root makes them.
            ("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
            (
                "watchdog",
                FileType::CharacterDevice,
                rustix::fs::makedev(10, 130),
            ),
        ];
        for (name, kind, device) in made {
            let _ = rustix::fs::mknodat(CWD, at(name), kind, Mode::RUSR, device);
        }
        for (name, target) in [("magic", "/proc/self/fd/0"), ("exe", "/proc/self/exe")] {
            let _ = std::os::unix::fs::symlink(target, at(name));
        }
        let root = Root::open(&dir).unwrap();
        for entry in std::fs::read_dir(dir.join("etc")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let read = ask(Some(&root), &Question::read(format!("/etc/{name}"))).unwrap();
            let refused = matches!(
                read,
                Err(Refusal::NotAsked(_) | Refusal::Errno(Errno::ENOENT))
            );
            assert!(refused, "{name}: {read:?}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_file_that_gives_whole_lines_only_is_read_to_its_end() {
        struct Lines(Vec<&'static str>);
        impl Read for Lines {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let Some(line) = self.0.pop() else {
                    return Ok(0);
                };
                match buffer.get_mut(..line.len()) {
                    Some(space) => space.copy_from_slice(line.as_bytes()),
                    None => return Err(std::io::Error::from_raw_os_error(libc::EINVAL)),
                }
                Ok(line.len())
            }
        }
        let line = "10.0.0.1@o2ib              up     0     2   126  1024   126   126   126\n";
        let lines = Lines(vec![line; 40]);
        assert_eq!(
            content(lines).unwrap().map(|b| b.len()),
            Some(40 * line.len())
        );
        let endless = std::io::repeat(b'x');
        assert_eq!(content(endless).unwrap(), None);
    }

    #[test]
    fn kernel_files_of_this_machine_answer() {
        let Some(Ok(Answer::Text(version))) = ask(None, &Question::read("/proc/version")) else {
            panic!()
        };
        assert!(version.starts_with("Linux"));
        let Some(Ok(Answer::Names(names))) = ask(None, &Question::list("/proc/self")) else {
            panic!()
        };
        assert!(names.iter().any(|n| &**n == "status"));
        let no = ask(None, &Question::read("/proc/no-such-file")).unwrap();
        assert_eq!(no, Err(Refusal::Errno(Errno::ENOENT)));
        let Some(Err(Refusal::Errno(_))) = ask(None, &Question::open("/proc/version")) else {
            panic!("no device")
        };
    }
}
