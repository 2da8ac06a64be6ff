//! Opens files below a directory that is examined in place of `/`: absolute links and `..` stay inside it.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::path_walk::{self, Link};

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

/// The same by openat(2), a name at a time.
fn step_by_step(root: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let place = path_walk::walk(root, path.as_bytes(), &mut |step| {
        Ok(match step.is_last && flags.contains(OFlags::NOFOLLOW) {
            true => Link::Stays,
            false => Link::IsFollowed,
        })
    })?;
    place.open(flags)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test makes its own tree")]
mod tests {
    use std::os::fd::AsFd as _;
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
