//! Lines within records of collectors and within the notation of a programming language.

use crate::nccl_log::text::from_json;

/// A record that is broken into more pieces is none.
const PIECES: usize = 40;

/// Takes lines out of the JSON records that a container's runtime or a collector wrote, and out of
/// strings.
pub(super) fn unwrap(lines: &mut Vec<String>) {
    if lines.iter().any(|line| line.starts_with("{\"")) {
        join_json(lines);
        lines.iter_mut().for_each(unwrap_json);
    }
    lines.iter_mut().for_each(strip_stream);
    strip_worker(lines);
    let mut filled = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .peekable();
    if filled.peek().is_some() && filled.all(|line| string_content(line).is_some()) {
        let whole = lines.iter().map(|line| match string_content(line) {
            Some(content) => unescaped(content),
            None => String::new(),
        });
        let whole: Vec<String> = whole.collect();
        *lines = whole
            .iter()
            .flat_map(|line| line.split('\n'))
            .map(str::to_owned)
            .collect();
    }
}

/// `2026-01-02T03:04:05.123Z stderr F text`, as the container runtimes of Kubernetes write their files: the
/// time is kept.
fn strip_stream(line: &mut String) {
    let Some((time, rest)) = line.split_once(' ') else {
        return;
    };
    let streams = ["stdout F ", "stderr F ", "stdout P ", "stderr P "];
    let text = streams.iter().find_map(|stream| rest.strip_prefix(stream));
    if let Some(text) = text.filter(|_| time.contains('T') && time.contains(':')) {
        *line = format!("{time} {text}");
    }
}

/// `(RayWorkerWrapper pid=7, ip=10.0.0.1) `, where all lines have it.
fn strip_worker(lines: &mut [String]) {
    let is_empty = |line: &String| line.trim().is_empty();
    if lines
        .iter()
        .all(|line| is_empty(line) || worker_length(line).is_some())
    {
        for line in lines {
            let length = worker_length(line).unwrap_or(0);
            line.drain(..length);
        }
    }
}

/// The length of what Ray puts before a line.
fn worker_length(line: &str) -> Option<usize> {
    let inner = line.strip_prefix('(')?;
    let (tag, _) = inner.split_once(") ")?;
    (tag.contains(" pid=") && tag.len() < 100).then_some(tag.len() + 3)
}

/// A record that a terminal broke ends with its bracket in a later line.
fn join_json(lines: &mut [String]) {
    let mut from = 0;
    while from < lines.len() {
        let begins = lines[from].starts_with("{\"") && !lines[from].ends_with('}');
        let rest = lines[from + 1..]
            .iter()
            .take_while(|line| !line.starts_with("{\""));
        let length = rest.take(PIECES).position(|line| line.ends_with('}'));
        if let Some(length) = length.filter(|_| begins) {
            let (head, rest) = lines[from..].split_at_mut(1);
            for piece in &mut rest[..=length] {
                head[0].push_str(piece);
                piece.clear();
            }
        }
        from += 1;
    }
}

fn unwrap_json(line: &mut String) {
    let mut inner = Vec::new();
    if from_json(line.as_bytes(), &mut inner) {
        *line = String::from_utf8_lossy(&inner).into_owned();
    }
}

/// What stands between quotation marks that enclose a whole line, as an element of a list has it.
fn string_content(line: &str) -> Option<&str> {
    let line = line.trim();
    let line = line.strip_suffix(',').unwrap_or(line);
    let content = |mark: char| line.strip_prefix(mark)?.strip_suffix(mark);
    content('"').or(content('\''))
}

/// A string as its program has it.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some(other) => plain.push(other),
            None => plain.push('\\'),
        }
    }
    plain
}
