//! Where a log is read from: a file, or a stream whose writer may be silent. After the deadline nothing is read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A log that is read until the deadline.
pub(super) struct Input {
    file: File,
    /// Whether reading can wait for a writer.
    waits: bool,
    deadline: Option<Instant>,
}

impl Input {
    /// A file that the user named. A FIFO opens before it has a writer.
    #[expect(clippy::disallowed_methods, reason = "an input named by the user")]
    pub(super) fn open(path: &Path, deadline: Option<Instant>) -> io::Result<Self> {
        let mut how = OpenOptions::new();
        let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits());
        how.read(true)
            .custom_flags(nonblock.map_err(io::Error::other)?);
        Input::new(how.open(path)?, deadline)
    }

    pub(super) fn standard(deadline: Option<Instant>) -> io::Result<Self> {
        let own = rustix::io::dup(rustix::stdio::stdin())?;
        Input::new(own.into(), deadline)
    }

    fn new(file: File, deadline: Option<Instant>) -> io::Result<Self> {
        let waits = !file.metadata()?.is_file();
        Ok(Input {
            file,
            waits,
            deadline,
        })
    }

    /// Whether the deadline is reached.
    pub(super) fn is_late(&self) -> bool {
        self.time_left().is_err()
    }

    /// How long reading may wait; forever if there is no deadline.
    #[expect(clippy::disallowed_methods, reason = "the deadline of reading")]
    fn time_left(&self) -> io::Result<Option<Timespec>> {
        let Some(deadline) = self.deadline else {
            return Ok(None);
        };
        match deadline.checked_duration_since(Instant::now()) {
            Some(left) => Ok(Timespec::try_from(left).ok()),
            None => Err(late()),
        }
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the deadline was reached")
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.time_left()?;
            if self.waits {
                let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
                if poll(&mut fds, left.as_ref())? == 0 {
                    return Err(late());
                }
            }
            match self.file.read(buffer) {
                Err(e) if self.waits && e.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}
