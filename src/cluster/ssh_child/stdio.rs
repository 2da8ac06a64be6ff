//! The side of a doctor that another one started over ssh: it gets its assignment over stdin, and
//! exits when stdin closes.

use std::io::{self, Write};

use crate::cluster::ssh_child::{ChildMessage, RunAssignment};
use crate::live::lifeline;

/// Reports that it runs, and waits for its assignment. From now on the end of stdin kills this
/// process group: ssh without a terminal forwards no signal.
///
/// # Errors
///
/// stdout or stdin is closed.
pub fn receive_assignment(version: &str) -> io::Result<RunAssignment> {
    let inbox = lifeline::inbox::<RunAssignment>(|| {})?;
    send(&ChildMessage::Ready(version.to_owned()))?;
    inbox
        .recv()
        .map_err(|_| io::ErrorKind::UnexpectedEof.into())
}

/// Sends a message to the doctor that started this process.
///
/// # Errors
///
/// stdout is closed.
pub fn send(said: &ChildMessage) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(said.line().as_bytes())?;
    out.flush()
}
