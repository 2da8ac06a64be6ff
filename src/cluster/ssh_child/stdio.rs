//! This process, where another doctor started it from another host: that one says over standard input who it is, and ends it by the end of standard input.

use std::io::{self, Write};

use crate::cluster::ssh_child::{Said, Told};
use crate::live::lifeline;

/// Says that it is there, and waits to be told who it is. From now on the end of standard input ends this process and what it started: ssh without a
/// terminal passes on no signal.
///
/// # Errors
///
/// Nobody hears it, or says anything.
pub fn take(version: &str) -> io::Result<Told> {
    let inbox = lifeline::inbox::<Told>(|| {});
    say(&Said::Here(version.to_owned()))?;
    inbox
        .recv()
        .map_err(|_| io::ErrorKind::UnexpectedEof.into())
}

/// Says something to who started this process.
///
/// # Errors
///
/// Nobody hears it.
pub fn say(said: &Said) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(said.line().as_bytes())?;
    out.flush()
}
