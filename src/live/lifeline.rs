//! The lifeline of a child process: its stdin, which carries its commands. When stdin closes, the parent is gone, however it ended, or
//! needs the child no more.

use crate::live::own_process;
use std::fs::File;
use std::io::{self, BufRead};
use std::sync::mpsc::{self, Receiver};

use serde::de::DeserializeOwned;

/// The channel to the parent, and its commands, one JSON value a line. Anything that a library prints goes to stderr. When stdin closes, this process
/// runs `at_end` and kills its process group.
///
/// # Errors
///
/// Standard output cannot be duplicated.
pub fn open<T: DeserializeOwned + Send + 'static>(at_end: fn()) -> io::Result<(File, Receiver<T>)> {
    let outlet = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((outlet.into(), inbox(at_end)?))
}

/// The parent's commands, one JSON value a line. When stdin closes, this process runs `at_end` and kills its process group.
///
/// # Errors
///
/// No thread can be made.
pub fn inbox<T: DeserializeOwned + Send + 'static>(at_end: fn()) -> io::Result<Receiver<T>> {
    let (told, inbox) = mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        for line in io::stdin().lock().lines() {
            let Some(line) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else {
                break;
            };
            if told.send(line).is_err() {
                break;
            }
        }
        at_end();
        own_process::end_with_group();
    })?;
    Ok(inbox)
}
