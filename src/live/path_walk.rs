//! Follows a path a name at a time, and lets somebody look at each.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// As many links as the kernel follows in a path (`MAXSYMLINKS`).
const LINKS: usize = 40;

/// A name on the way of a path, or its last one.
pub(super) struct Step<'s> {
    /// Where it really is.
    pub path: &'s Path,
    /// The directory that holds it.
    pub directory: &'s Stat,
    /// What bears the name: of a link the link itself.
    pub own: &'s Stat,
    /// Whether it is the end of the path.
    pub is_last: bool,
}

/// What becomes of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// The path goes on where it leads.
    IsFollowed,
    /// The path ends at it.
    Stays,
}

/// Sees each name before it is followed.
pub(super) type Look<'l> = &'l mut dyn FnMut(&Step<'_>) -> Result<Link, Errno>;

/// Where a path leads: a name in an open directory that is no link to follow. It need not exist.
pub(super) struct Place {
    pub directory: OwnedFd,
    pub name: OsString,
}

impl Place {
    /// Opens it; a link that took its place is not followed.
    ///
    /// # Errors
    ///
    /// Those of open(2).
    pub(super) fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())
    }
}

/// The same from the root of this process.
///
/// # Errors
///
/// Those of [`walk`].
pub(super) fn walk_from_root(path: &Path, look: Look<'_>) -> Result<Place, Errno> {
    let here = match path.is_absolute() {
        true => PathBuf::new(),
        false => OsString::from_vec(rustix::process::getcwd(Vec::new())?.into_bytes()).into(),
    };
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    walk(root.as_fd(), here.join(path).as_os_str().as_bytes(), look)
}

/// Follows a path from the directory that is taken for `/`. The directory above is the one that was come from, so that nobody who moves directories
/// meanwhile leads out.
///
/// # Errors
///
/// Those of open(2), and of `look`.
pub(super) fn walk(root: BorrowedFd<'_>, path: &[u8], look: Look<'_>) -> Result<Place, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut way: Vec<OwnedFd> = Vec::new();
    let mut real = PathBuf::from("/");
    let mut left = names(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        match name.as_bytes() {
            b"" | b"." => continue,
            b".." => {
                way.pop();
                real.pop();
                continue;
            }
            _ => {}
        }
        let is_last = left.is_empty();
        let here = way.last().map_or(root, AsFd::as_fd);
        let mut found = match rustix::fs::openat(here, &name, flags, Mode::empty()) {
            Err(Errno::NOENT) if is_last => return place(root, way, name),
            found => found?,
        };
        let mut own = rustix::fs::fstat(&found)?;
        let kind = FileType::from_raw_mode(own.st_mode);
        if kind == FileType::Directory && !is_last {
            // An automounter mounts for one who asks for a directory.
            found = rustix::fs::openat(here, &name, flags | OFlags::DIRECTORY, Mode::empty())?;
            own = rustix::fs::fstat(&found)?;
        }
        let link = look(&Step {
            path: &real.join(&name),
            directory: &rustix::fs::fstat(here)?,
            own: &own,
            is_last,
        })?;
        match (kind, link) {
            (FileType::Symlink, Link::IsFollowed) => {}
            _ if is_last => return place(root, way, name),
            (FileType::Directory, _) => {
                way.push(found);
                real.push(&name);
                continue;
            }
            (FileType::Symlink, Link::Stays) => return Err(Errno::LOOP),
            // Not even `..` or a slash may follow it.
            _ => return Err(Errno::NOTDIR),
        }
        links += 1;
        if links > LINKS {
            return Err(Errno::LOOP);
        }
        let target = rustix::fs::readlinkat(&found, "", Vec::new())?.into_bytes();
        if target.starts_with(b"/") {
            way.clear();
            real = PathBuf::from("/");
        }
        left.extend(names(&target));
    }
    place(root, way, ".".into())
}

fn place(root: BorrowedFd<'_>, mut way: Vec<OwnedFd>, name: OsString) -> Result<Place, Errno> {
    let directory = match way.pop() {
        Some(directory) => directory,
        None => rustix::io::fcntl_dupfd_cloexec(root, 0)?,
    };
    Ok(Place { directory, name })
}

/// The names of a path, the last one first.
fn names(path: &[u8]) -> Vec<OsString> {
    let names = path.split(|&byte| byte == b'/').rev();
    names
        .map(|name| OsString::from_vec(name.to_vec()))
        .collect()
}
