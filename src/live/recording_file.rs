//! Recordings in files of this machine that the user named.

use std::path::Path;

use super::files;
use crate::source::recording::{Recording, RecordingBudget, RecordingError};

impl Recording {
    /// Reads a file, `.zst` or plain, and the base over which it lies if it is an overlay.
    ///
    /// # Errors
    ///
    /// The file or a base of it cannot be opened or read, or is not a recording.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Recording::open_within(path, RecordingBudget::default())
    }

    /// The same with this much memory.
    ///
    /// # Errors
    ///
    /// Those of [`Recording::open`]; it would take more.
    pub fn open_within(path: &Path, budget: RecordingBudget) -> Result<Self, RecordingError> {
        let open = |file: &Path| {
            // The user may name a pipe; a recording may name none.
            let file = match file == path {
                true => files::open_input(file)?,
                false => files::open_beside(file)?,
            };
            let size = file.metadata().map_or(0, |about| about.len());
            Ok((file, size))
        };
        Recording::open_with(path, &open, budget)
    }
}
