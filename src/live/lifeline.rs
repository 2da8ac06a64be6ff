//! The lifeline of a child: its standard input, over which it is told what to do. Its end says that who started the process is gone, however that went, or
//! needs it no more.

use crate::live::own_process;
use std::fs::File;
use std::io::{self, BufRead};
use std::sync::mpsc::{self, Receiver};

use serde::de::DeserializeOwned;

/// Where to say something, and what is said, a line of JSON each. Whatever a library prints goes to standard error. At the end of standard input this process
/// does what `at_end` does, and ends with its group.
///
/// # Errors
///
/// Standard output cannot be duplicated.
pub fn take<T: DeserializeOwned + Send + 'static>(at_end: fn()) -> io::Result<(File, Receiver<T>)> {
    let outlet = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((outlet.into(), inbox(at_end)))
}

/// What is said, a line of JSON each. At the end of standard input this process does what `at_end` does, and ends with its group.
pub fn inbox<T: DeserializeOwned + Send + 'static>(at_end: fn()) -> Receiver<T> {
    let (told, inbox) = mpsc::channel();
    std::thread::spawn(move || {
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
    });
    inbox
}
