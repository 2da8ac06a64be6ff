//! Opens files below a directory that is examined in place of `/`: absolute links and `..` stay inside it.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// As many links as the kernel follows in a path (`MAXSYMLINKS`).
const LINKS: usize = 40;

/// Opens `path` as if `root` were `/`.
///
/// # Errors
///
/// Those of open(2).
pub(super) fn open_below(
    root: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let inside = match path.trim_start_matches('/') {
        "" => ".",
        inside => inside,
    };
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, inside, flags, Mode::empty(), within) {
        // Linux before 5.6 has no openat2(2), and filters of containers that do not know it say EPERM.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(root, inside, flags),
        opened => opened,
    }
}

/// The same by openat(2), a name at a time. The directory above is the one that was come from, so that nobody who moves directories meanwhile leads out.
fn step_by_step(root: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let names = |path: &[u8]| -> Vec<OsString> {
        let names = path.split(|&byte| byte == b'/').rev();
        names
            .map(|name| OsString::from_vec(name.to_vec()))
            .collect()
    };
    let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut way: Vec<OwnedFd> = Vec::new();
    let mut left = names(path.as_bytes());
    let mut links = 0;
    while let Some(name) = left.pop() {
        match name.as_bytes() {
            b"" | b"." => continue,
            b".." => {
                way.pop();
                continue;
            }
            _ => {}
        }
        let here = way.last().map_or(root, AsFd::as_fd);
        let found = rustix::fs::openat(here, &name, look, Mode::empty())?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
        let is_link = kind == FileType::Symlink;
        if left.is_empty() && (!is_link || flags.contains(OFlags::NOFOLLOW)) {
            return rustix::fs::openat(here, &name, flags | OFlags::NOFOLLOW, Mode::empty());
        }
        match kind {
            FileType::Symlink => {}
            FileType::Directory => {
                way.push(found);
                continue;
            }
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
        }
        left.extend(names(&target));
    }
    let here = way.last().map_or(root, AsFd::as_fd);
    rustix::fs::openat(here, ".", flags, Mode::empty())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test makes its own tree")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn step_by_step_leads_where_the_kernel_leads() {
        let dir = std::env::temp_dir().join(format!("rdma-doctor-below-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("sys/class/net")).unwrap();
        std::fs::write(dir.join("sys/inside"), "inside\n").unwrap();
        for (name, target) in [
            ("absolute", "/sys/inside"),
            ("relative", "../inside"),
            ("out", "../../../../../../etc/passwd"),
            ("directory", "/sys/class//net/."),
            ("twice", "absolute"),
            ("loop", "loop"),
            ("dangling", "/nothing"),
            ("root", "/"),
        ] {
            symlink(target, dir.join("sys/class").join(name)).unwrap();
        }
        let root = rustix::fs::open(&dir, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let seen =
            |opened: Result<OwnedFd, Errno>| opened.map(|fd| rustix::fs::fstat(fd).unwrap().st_ino);
        for path in [
            "sys/inside",
            "sys/class/absolute",
            "sys/class/relative",
            "sys/class/out",
            "sys/class/directory",
            "sys/class/directory/../absolute",
            "sys/class/twice",
            "sys/class/loop",
            "sys/class/dangling",
            "sys/class/root/sys/inside",
            "sys/class/root/../..",
            "sys/inside/below",
            "sys/inside/..",
            "sys/inside/",
            "sys/class/twice/..",
            "sys/class/directory/",
            "nothing",
            ".",
            "..",
        ] {
            for flags in [
                OFlags::RDONLY,
                OFlags::PATH,
                OFlags::PATH | OFlags::NOFOLLOW,
            ] {
                let flags = flags | OFlags::CLOEXEC;
                let kernel = rustix::fs::openat2(&root, path, flags, Mode::empty(), within);
                let own = seen(step_by_step(root.as_fd(), path, flags));
                // (user-mode emulation has no openat2)
                if !matches!(kernel, Err(Errno::NOSYS)) {
                    assert_eq!(own, seen(kernel), "{path} {flags:?}");
                }
            }
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
