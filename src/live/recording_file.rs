//! Recordings in files of this machine that the user named.

use std::path::Path;

use super::files;
use crate::source::recording::{Recording, RecordingError};

impl Recording {
    /// Reads a file, `.zst` or plain, and the base over which it lies if it is an overlay.
    ///
    /// # Errors
    ///
    /// The file or a base of it cannot be opened or read, or is not a recording.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Recording::open_with(path, &|path| {
            let file = files::open_input(path)?;
            let size = file.metadata().map_or(0, |about| about.len());
            Ok((file, size))
        })
    }
}
