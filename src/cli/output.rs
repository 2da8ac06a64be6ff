//! Standard output and error: colour, width, progress, closed pipes.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, anyhow};
use serde::Serialize;

use super::Color;
use crate::examine::sink::Sink;
use crate::live::clock;
use crate::live::files::is_terminal;
use crate::live::start;
use crate::live::worker::Progress;
use crate::terminal::{self, Colors, Escaping};

/// Decides for standard output.
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
    terminal::set_color(on);
}

/// Prints ASCII for people if the locale is another than UTF-8. An empty environment, as a prolog's, says nothing about who reads.
#[expect(
    clippy::disallowed_methods,
    reason = "the locale is the user's (locale(7))"
)]
pub fn set_ascii(args: &[OsString]) {
    let is_json = args
        .iter()
        .any(|arg| arg == "json" || arg == "--format=json");
    let mut named = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(std::env::var_os);
    let locale = named.find(|locale| !locale.is_empty());
    let locale = locale.map(|locale| locale.to_string_lossy().to_lowercase());
    let is_utf8 = locale.is_none_or(|l| l.contains("utf-8") || l.contains("utf8"));
    terminal::set_ascii(!is_utf8 && !is_json);
}

/// Writes to standard output; what acts on a terminal is escaped. A reader that has gone (`| head`) is no failure.
///
/// # Errors
///
/// Any other failure to write: a full disk must not look like a report.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    print_with(Colors::Own, write)
}

/// Tells a person what is not in the report.
pub fn say(what: &str) {
    terminal::say(&format!("rdma-doctor: {what}"));
}

/// Standard error, for what is examined.
pub struct StandardError;

impl Sink for StandardError {
    fn progress(&self, event: Progress<'_>) {
        progress(event);
    }

    fn say(&self, what: &str) {
        say(what);
    }
}

/// Writes a value as JSON that people can read.
///
/// # Errors
///
/// The writer's.
pub fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Prints a value as JSON that people can read.
///
/// # Errors
///
/// Those of [`print()`].
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(|out| write_json(out, value))
}

/// The same with the colours of these.
///
/// # Errors
///
/// Those of [`print()`].
pub fn print_with(
    colors: Colors,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    require_stdout()?;
    let mut out = BufWriter::new(io::stdout().lock());
    // A format writes a few letters at a time.
    let mut pieces = BufWriter::new(Escaping::new(&mut out, colors));
    let written = write(&mut pieces).and_then(|()| pieces.into_inner()?.finish().map(drop));
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
            // What is still buffered has no reader.
            let _ = out.into_parts();
            Ok(())
        }
        other => other.context("cannot write to standard output"),
    }
}

/// A report that nobody can have got is none.
fn require_stdout() -> anyhow::Result<()> {
    match start::stdout_was_closed() {
        true => Err(anyhow!("standard output is closed")),
        false => Ok(()),
    }
}

/// Writes bytes to standard output as they are: recordings, and formats that have their own escapes.
///
/// # Errors
///
/// They cannot be written, or the reader has gone: part of a recording is none.
pub fn print_raw(bytes: &[u8]) -> anyhow::Result<()> {
    require_stdout()?;
    let mut out = io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
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

/// The terminal's height; nothing where there is none.
pub fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(size.ws_row.into()).filter(|rows| *rows > 0)
}

/// When a measurement began, and of which run a plain line was written.
static MEASURING: Mutex<Option<(Instant, String)>> = Mutex::new(None);

/// A line on standard error while something is waited for or measured. Where that is no terminal, a plain line for each run of a measurement.
pub fn progress(event: Progress<'_>) {
    let mut err = io::stderr();
    let on_terminal = is_terminal(err.as_fd());
    let mut measuring = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    // A terminal that does not take the line misses nothing of the report.
    let _ = match event {
        Progress::Waiting([]) if on_terminal => rewrite(&mut err, ""),
        Progress::Waiting(names) if on_terminal => {
            let line = format!("waiting for {}", names.join(", "));
            rewrite(&mut err, &line)
        }
        Progress::Measuring { run, step, until } => {
            let now = clock::now();
            let (begun, last) = measuring.get_or_insert_with(|| (now, String::new()));
            let elapsed = now.saturating_duration_since(*begun).as_secs();
            let left = until.map_or(String::new(), |until| {
                let left = until.saturating_duration_since(now).as_secs();
                format!(", {left} s left at most")
            });
            let what: Vec<&str> = [run, step].into_iter().filter(|s| !s.is_empty()).collect();
            match (on_terminal, last == run) {
                (true, _) => {
                    let line = format!("{elapsed} s{left}: {}", what.join(": "));
                    rewrite(&mut err, &line)
                }
                (false, true) => Ok(()),
                (false, false) => {
                    run.clone_into(last);
                    say(&format!("{elapsed} s{left}: {run}"));
                    Ok(())
                }
            }
        }
        Progress::Done => {
            *measuring = None;
            match on_terminal {
                true => write!(err, "\r\x1b[K"),
                false => Ok(()),
            }
        }
        Progress::Counted { count, of, what } if on_terminal => {
            write!(err, "\r\x1b[K{count} of {of} {what}")
        }
        Progress::Waiting(_) | Progress::Counted { .. } => Ok(()),
    };
    let _ = err.flush();
}

/// Writes a line over the one before, no longer than the terminal is wide: what is broken cannot be written over.
fn rewrite(err: &mut io::Stderr, line: &str) -> io::Result<()> {
    let width =
        rustix::termios::tcgetwinsize(err.as_fd()).map_or(80usize, |size| size.ws_col.into());
    let width = if width == 0 { 80 } else { width };
    let line = terminal::one_line(line).to_string();
    let line: String = line.chars().take(width.saturating_sub(1)).collect();
    write!(err, "\r\x1b[K{line}")
}
