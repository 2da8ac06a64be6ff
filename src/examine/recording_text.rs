//! The text of a recording, as it is written to a file or sent to another node.

use crate::live::environment;
use crate::source::recording::Recording;
use crate::source::redact::{Key, Redactor};
use crate::source::wire;

/// The recording's lines, redacted where there is a key.
pub fn to_text(recording: &Recording, key: Option<Key>) -> String {
    let mut header = recording.header.clone();
    // What is written is whole, also where it was read as an overlay.
    header.base = None;
    let mut lines = recording.to_lines();
    if let Some(key) = key {
        let users = environment::user_names();
        let users: Vec<&str> = users.iter().map(String::as_str).collect();
        let mut redactor = Redactor::new(key, &header.node, &users);
        redactor.learn(&lines);
        header = redactor.header(header);
        lines = lines.into_iter().map(|line| redactor.line(line)).collect();
        header.replaced = redactor.replaced();
    }
    let mut text = wire::write_header(&header);
    text.push('\n');
    let mut written = 0;
    for line in lines.iter().filter_map(wire::write_line) {
        text.push_str(&line);
        text.push('\n');
        written += 1;
    }
    // What was cut short stays so.
    if recording.is_complete()
        && let Some(line) = wire::write_line(&wire::Line::Complete { lines: written })
    {
        text.push_str(&line);
        text.push('\n');
    }
    text
}
