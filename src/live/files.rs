//! Files, directories, links and file systems: of this machine, or below a directory that holds copies of them.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags};
use rustix::io::Errno as Sys;
use serde_json::json;

use crate::small_sort;
use crate::source::{Answer, Errno, Question, Refusal};

/// The most bytes of an answer. No file that a probe reads comes near it.
const LIMIT: usize = 4 << 20;
/// Bytes that are read at once: more than any line of the kernel's has, and a page of sysfs.
const PIECE: usize = 8 << 10;

/// A directory that is examined in place of `/`.
pub struct Root(OwnedFd);

impl Root {
    /// Opens the directory.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Root(rustix::fs::open(path, flags, Mode::empty())?))
    }
}

/// Answers a question about files; `None` if it is about something else.
pub fn ask(root: Option<&Root>, question: &Question) -> Option<Result<Answer, Refusal>> {
    let errno = |e: Sys| Refusal::Errno(Errno(e.raw_os_error()));
    Some(match question {
        Question::Read(path) => read(root, path),
        Question::List(path) => list(root, path).map_err(errno),
        Question::Link(path) => link(root, path).map_err(errno),
        Question::Stat(path) => stat(root, path).map_err(errno),
        Question::StatVfs(path) if root.is_none() => statvfs(path).map_err(errno),
        Question::Open(path) if root.is_none() => open_device(path).map_err(errno),
        Question::Call(call) if &*call.name == "beegfs_log" => super::beegfs_log::ask(root, call),
        _ => return None,
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
        Some(root) => rustix::fs::openat2(
            root.0.as_fd(),
            relative(path),
            flags,
            Mode::empty(),
            ResolveFlags::IN_ROOT,
        ),
    }
}

fn relative(path: &str) -> &str {
    match path.trim_start_matches('/') {
        "" => ".",
        inside => inside,
    }
}

fn read(root: Option<&Root>, path: &str) -> Result<Answer, Refusal> {
    let errno = |e: Sys| Refusal::Errno(Errno(e.raw_os_error()));
    let fd = open(root, path, OFlags::RDONLY).map_err(errno)?;
    if FileType::from_raw_mode(rustix::fs::fstat(&fd).map_err(errno)?.st_mode) == FileType::Fifo {
        return Err(Refusal::NotAsked("a named pipe".into()));
    }
    let bytes = content(std::fs::File::from(fd)).map_err(|e| Refusal::Errno(Errno::from(&e)))?;
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

fn list(root: Option<&Root>, path: &str) -> Result<Answer, Sys> {
    let fd = open(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut names: Vec<Arc<str>> = Vec::new();
    for entry in rustix::fs::Dir::new(fd)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
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
    let (major, minor) = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    Ok(Answer::Value(Arc::new(json!({
        "kind": kind,
        "mode": format!("{:04o}", stat.st_mode & 0o7777),
        "uid": stat.st_uid,
        "gid": stat.st_gid,
        "rdev": format!("{major}:{minor}"),
    }))))
}

fn statvfs(path: &str) -> Result<Answer, Sys> {
    let fs = rustix::fs::statvfs(path)?;
    let magic = rustix::fs::statfs(path)?.f_type as u64;
    Ok(Answer::Value(Arc::new(json!({
        "magic": format!("{magic:#x}"),
        "size": fs.f_blocks.saturating_mul(fs.f_frsize),
        "free": fs.f_bavail.saturating_mul(fs.f_frsize),
        "read_only": fs.f_flag.contains(StatVfsMountFlags::RDONLY),
    }))))
}

/// Opens a character device and closes it. A node whose driver is not there would make the kernel look for a module:
/// it is stat'ed first, and only one whose `/sys/dev/char` entry shows a driver is opened.
fn open_device(path: &str) -> Result<Answer, Sys> {
    let stat = rustix::fs::stat(path)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::CharacterDevice {
        return Err(Sys::NOTTY);
    }
    let (major, minor) = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    rustix::fs::statat(
        CWD,
        format!("/sys/dev/char/{major}:{minor}"),
        AtFlags::empty(),
    )
    .map_err(|_| Sys::NXIO)?;
    open(None, path, OFlags::RDWR)?;
    Ok(Answer::Value(Arc::new(
        json!({ "opened": format!("{major}:{minor}") }),
    )))
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

/// Reads a text that the user named, up to 16 MiB.
pub fn read_input(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    open_input(path)?.take(16 << 20).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a file that the user named.
#[expect(clippy::disallowed_methods, reason = "an output named by the user")]
pub fn write_output(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::write(path, bytes)
}

/// Replaces an output file that the user named atomically: readers see the old or the new content. Anything but a plain file, such as `/dev/stdout`,
/// is written to.
#[expect(clippy::disallowed_methods, reason = "an output named by the user")]
pub fn replace_output(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if std::fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
        return std::fs::write(&path, bytes);
    }
    // Hidden, and of another ending: a collector that looks at *.prom does not take it for one.
    let mut beside = std::ffi::OsString::from(".");
    beside.push(path.file_name().unwrap_or_default());
    beside.push(format!(".{}.part", std::process::id()));
    let beside = path.with_file_name(beside);
    std::fs::write(&beside, bytes)
        .and_then(|()| std::fs::rename(&beside, &path))
        .inspect_err(|_| {
            // A file that was not renamed is useless; if it was not made there is nothing to remove.
            let _ = std::fs::remove_file(&beside);
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
        }
    }
    small_sort::by(&mut found, Ord::cmp);
    Ok(found)
}

/// Whether the process was started without a standard output. The standard library then opens /dev/null in its place, which would take a recording.
pub fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look_at_stdout() {
    #[expect(unsafe_code, reason = "rustix has no descriptor that may be closed")]
    // SAFETY: fcntl(F_GETFD) takes numbers only.
    let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    STDOUT_WAS_CLOSED.store(closed, Ordering::Relaxed);
}

#[expect(
    unsafe_code,
    reason = "only a constructor runs before the standard library opens /dev/null"
)]
// SAFETY: .init_array holds functions of this type, and this one needs nothing of the standard library's start.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;

/// Whether a descriptor leads to a terminal.
pub fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    rustix::termios::isatty(fd)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own files")]
mod tests {
    use super::*;

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
