//! Files without a name, as O_TMPFILE makes them: no other process can open them, and they are gone when they are closed.

use std::fs::File;
use std::io::{Read, Seek, Write};

use super::Failed;
use crate::live::pages::PageMemory;
use rustix::fs::{FallocateFlags, Mode, OFlags};

/// Bytes that are written to a temporary file: a page.
const BYTES: usize = 4096;

fn nameless(directory: &str) -> Result<File, Failed> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR);
    let file = file.map_err(|error| match error {
        // How a file system without them refuses.
        rustix::io::Errno::ISDIR | rustix::io::Errno::NOSYS => rustix::io::Errno::OPNOTSUPP,
        other => other,
    });
    Ok(file.map_err(Failed::by_errno("open"))?.into())
}

/// As NCCL makes a segment: allocated, mapped, written. It takes no more than half of what is free, so that a running job has the rest.
pub(super) fn shared(directory: &str, bytes: u64) -> Result<(), Failed> {
    let file = nameless(directory)?;
    let space = rustix::fs::fstatvfs(&file).map_err(Failed::by_errno("open"))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    // A file system without a limit has no blocks.
    let bytes = match space.f_blocks {
        0 => bytes,
        _ => bytes.min(free / 2).max(BYTES as u64),
    };
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)
        .map_err(Failed::by_errno("allocate"))?;
    let length = usize::try_from(bytes).unwrap_or(BYTES);
    let memory = PageMemory::of_file(&file, length);
    let mut memory = memory.map_err(|errno| {
        let error = std::io::Error::from_raw_os_error(errno.0);
        Failed::by_errno("map")(error)
    })?;
    // A byte of each page: the kernel gives whole pages.
    let pages = || (0..length).step_by(BYTES);
    pages().for_each(|at| memory.write(at..at + 1).fill(0x5a));
    match pages()
        .filter(|at| memory.read(*at..at + 1) != [0x5a])
        .count()
    {
        0 => Ok(()),
        wrong => Err(Failed::wrong(wrong)),
    }
}

/// A page of data, written and read back.
pub(super) fn temporary(directory: &str) -> Result<(), Failed> {
    let mut file = nameless(directory)?;
    let (sent, mut came) = ([0x5a; BYTES], [0; BYTES]);
    file.write_all(&sent).map_err(Failed::by_errno("write"))?;
    file.rewind().map_err(Failed::by_errno("read"))?;
    file.read_exact(&mut came)
        .map_err(Failed::by_errno("read"))?;
    match came.iter().filter(|b| **b != 0x5a).count() {
        0 => Ok(()),
        wrong => Err(Failed::wrong(wrong)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::rehearsal::Why;
    use crate::source::{Errno, Refusal};

    /// The step that failed, and its error.
    fn failed(tried: Result<(), Failed>) -> Option<(&'static str, Errno)> {
        match tried.err()? {
            Failed {
                step,
                why: Why::Refused(Refusal::Errno(errno)),
            } => Some((step, errno)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_without_a_name_is_written_and_leaves_nothing() {
        let directory = std::env::temp_dir().join(format!("rehearsal-{}", std::process::id()));
        #[expect(clippy::disallowed_methods, reason = "the test's own directory")]
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.to_str().unwrap();
        for tried in [temporary(path), shared(path, 1 << 20)] {
            // Not each file system has files without a name.
            let failed = failed(tried);
            assert!(
                failed.is_none() || failed == Some(("open", Errno::EOPNOTSUPP)),
                "{failed:?}"
            );
        }
        // Only an empty directory can be removed.
        std::fs::remove_dir(&directory).unwrap();
        assert_eq!(failed(temporary(path)), Some(("open", Errno::ENOENT)));
    }
}
