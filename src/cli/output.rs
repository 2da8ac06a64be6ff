//! Standard output and error: colour, width, progress, closed pipes.

use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;

use super::Color;
use crate::live::files::is_terminal;
use crate::live::worker::Progress;

/// Decides for standard output; `colored`'s own detection is not asked.
#[expect(
    clippy::disallowed_methods,
    reason = "NO_COLOR is the user's wish (no-color.org)"
)]
pub fn set_color(color: Color) {
    let on = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
                && is_terminal(io::stdout().as_fd())
        }
    };
    colored::control::set_override(on);
}

/// Writes to standard output. A reader that has gone (`| head`) is no failure.
///
/// # Errors
///
/// Any other failure to write: a full disk must not look like a report.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
            // What is still buffered has no reader.
            let _ = out.into_parts();
            Ok(())
        }
        other => Ok(other?),
    }
}

/// The terminal's width, 100 where there is none.
pub fn width() -> usize {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(100, |size| {
        if size.ws_col == 0 {
            100
        } else {
            size.ws_col.into()
        }
    })
}

/// A line on standard error that counts those of whom something is expected; nothing where that is no terminal.
pub fn counted(count: u64, of: u64, what: &str) {
    let mut err = io::stderr();
    if is_terminal(err.as_fd()) {
        // A terminal that does not take the line misses nothing of the report.
        let _ = write!(err, "\r\x1b[K{count} of {of} {what}").and_then(|()| err.flush());
    }
}

/// A line on standard error while probes are waited for; nothing where that is no terminal.
pub fn progress(event: Progress<'_>) {
    let mut err = io::stderr();
    if !is_terminal(err.as_fd()) {
        return;
    }
    // A terminal that does not take the line misses nothing of the report.
    let _ = match event {
        Progress::Waiting(names) => write!(err, "\r\x1b[Kwaiting for {}", names.join(", ")),
        Progress::Done => write!(err, "\r\x1b[K"),
    };
    let _ = err.flush();
}
