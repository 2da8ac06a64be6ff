//! Lines that were read before. The nodes of a cluster reply alike to most questions, down to the byte but for the time: what was read of one of them is
//! shared with all others.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use super::Line;
use crate::source::{Answer, Micros};

/// Bytes of memory, about, that lines may take. What recurs is soon known again after all were dropped.
const ROOM: usize = 16 << 20;
/// How many bytes each byte of a list or an object takes at most, about, once it is read.
const PARTS: usize = 32;
/// The longest line that is kept.
const LONGEST: usize = 64 << 10;
/// What stands between a question and its repeat's number, and between that and the time.
const REPEAT: &[u8] = br#"},"n":"#;
const TIME: &str = r#","t":"#;

thread_local! { static KNOWN: RefCell<Option<KnownLines>> = const { RefCell::new(None) }; }

/// Does work of which this thread keeps the lines that it reads. The work does none of this kind itself.
pub fn with_known_lines<T>(work: impl FnOnce() -> T) -> T {
    KNOWN.with_borrow_mut(|known| *known = Some(KnownLines::default()));
    let done = work();
    KNOWN.with_borrow_mut(|known| *known = None);
    done
}

/// Reads a line with `read`, unless an equal one is known.
pub(super) fn read_known<E>(
    text: &str,
    read: impl FnOnce(&str) -> Result<Line, E>,
) -> Result<Line, E> {
    KNOWN.with_borrow_mut(|known| {
        let timed = known
            .as_mut()
            .and_then(|known| Some((known, TimedLine::of(text)?)));
        let Some((known, timed)) = timed else {
            return read(text);
        };
        let hash = known.hash(timed);
        if let Some(line) = known.get(hash, timed) {
            return Ok(line);
        }
        let line = read(text)?;
        known.keep(hash, timed, &line);
        Ok(line)
    })
}

/// A reply's line, around its time.
#[derive(Clone, Copy)]
struct TimedLine<'l> {
    before: &'l str,
    at: Micros,
    after: &'l str,
}

impl<'l> TimedLine<'l> {
    /// The parts of a line with the keys in this program's order. A question's arguments are numbers and texts, so that its first brace closes it; and
    /// a quote in a text is escaped, so that what is looked for stands outside of texts.
    fn of(line: &'l str) -> Option<Self> {
        let (probe, rest) = line.strip_prefix(r#"{"probe":""#)?.split_once('"')?;
        if probe.contains('\\') || !rest.starts_with(r#","q":{"#) {
            return None;
        }
        let repeat = line.len() - rest.len() + memchr::memmem::find(rest.as_bytes(), REPEAT)?;
        let repeat = repeat + REPEAT.len();
        let digits = |from: usize| line[from..].bytes().take_while(u8::is_ascii_digit).count();
        let time = repeat + digits(repeat);
        let time = time + line[time..].starts_with(TIME).then_some(TIME.len())?;
        let end = time + digits(time);
        let number = &line[time..end];
        if number.len() > 1 && number.starts_with('0') {
            return None;
        }
        Some(TimedLine {
            before: &line[..time],
            at: number.parse().ok()?,
            after: &line[end..],
        })
    }
}

#[derive(Default)]
struct KnownLines {
    lines: HashMap<u64, KnownLine, foldhash::fast::RandomState>,
    taken: usize,
}

struct KnownLine {
    /// The line without its time, and where that stood.
    text: Box<str>,
    time: usize,
    line: Line,
}

impl KnownLines {
    fn hash(&self, line: TimedLine<'_>) -> u64 {
        let mut hasher = self.lines.hasher().build_hasher();
        hasher.write(line.before.as_bytes());
        hasher.write(line.after.as_bytes());
        hasher.finish()
    }

    fn get(&self, hash: u64, timed: TimedLine<'_>) -> Option<Line> {
        let known = self.lines.get(&hash)?;
        let (before, after) = known.text.split_at(known.time);
        if (before, after) != (timed.before, timed.after) {
            return None;
        }
        let mut line = known.line.clone();
        if let Line::Reply { reply, .. } = &mut line {
            reply.at = timed.at;
        }
        Some(line)
    }

    fn keep(&mut self, hash: u64, timed: TimedLine<'_>, line: &Line) {
        let Line::Reply { reply, .. } = line else {
            return;
        };
        let length = timed.before.len() + timed.after.len();
        let taken = match reply.said {
            Ok(Answer::Names(_) | Answer::Value(_)) => PARTS * length,
            _ => length,
        };
        if length > LONGEST {
            return;
        }
        if self.taken + taken > ROOM {
            *self = KnownLines::default();
        }
        self.taken += taken;
        let known = KnownLine {
            text: [timed.before, timed.after].concat().into_boxed_str(),
            time: timed.before.len(),
            line: line.clone(),
        };
        self.lines.insert(hash, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::wire::{parse_json, parse_line};
    use proptest::prelude::*;

    const LINES: [&str; 8] = [
        r#"{"probe":"gid","q":{"read":"/sys/a"},"n":0,"t":37492,"text":"0000\n"}"#,
        r#"{"probe":"gid","q":{"read":"/sys/a"},"n":0,"t":1,"text":"0000\n"}"#,
        r#"{"probe":"gid","q":{"read":"/sys/a"},"n":1,"t":1,"errno":"EIO"}"#,
        r#"{"probe":"v","q":{"call":"f","n":1,"t":2},"n":0,"t":3,"value":{"n":1,"t":4}}"#,
        r#"{"probe":"v","q":{"call":"f","n":1,"t":9},"n":0,"t":3,"value":{"n":1,"t":4}}"#,
        r#"{"probe":"v","value":{"a":{},"n":1,"t":4},"q":{"call":"f"},"n":0,"t":3}"#,
        r#"{"probe":"x","q":{"read":"a},\"n\":1,\"t\":5,"},"n":0,"t":8,"names":["b"]}"#,
        r#"{"probe":"x","q":{"read":"b"},"pending":true}"#,
    ];

    #[test]
    fn a_line_reads_the_same_whether_it_is_known_or_not() {
        with_known_lines(|| {
            for line in LINES.iter().chain(&LINES) {
                assert_eq!(parse_line(line), parse_json(line), "{line}");
            }
        });
    }

    #[test]
    fn a_line_of_another_time_alone_shares_its_texts() {
        let texts = |line: &str| match parse_line(line).unwrap() {
            Line::Reply { question, .. } => question,
            other => panic!("{other:?}"),
        };
        let shared = |first, second| match (texts(first), texts(second)) {
            (crate::source::Question::Read(one), crate::source::Question::Read(other)) => {
                std::sync::Arc::ptr_eq(&one, &other)
            }
            _ => false,
        };
        assert!(with_known_lines(|| shared(LINES[0], LINES[1])));
        assert!(with_known_lines(|| !shared(LINES[0], LINES[2])));
        assert!(!shared(LINES[0], LINES[1]));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        with_known_lines(|| {
            for number in 0..32 {
                let name = "a".repeat(LONGEST / 2);
                let line = format!(
                    r#"{{"probe":"x","q":{{"list":"/{number}"}},"n":0,"t":1,"names":["{name}"]}}"#
                );
                parse_line(&line).unwrap();
                KNOWN.with_borrow(|known| {
                    let known = known.as_ref().unwrap();
                    assert!(known.taken <= ROOM && !known.lines.is_empty());
                });
            }
        });
    }

    proptest! {
        #[test]
        fn a_known_line_with_something_changed_is_read_anew(
            which in 0..LINES.len(), at in 0usize..80, put in "[\"\\\\,{}0-9nt]",
        ) {
            let line = LINES[which];
            let at = at % line.len();
            prop_assume!(line.is_char_boundary(at) && line.is_char_boundary(at + 1));
            let changed = format!("{}{put}{}", &line[..at], &line[at + 1..]);
            with_known_lines(|| {
                for line in LINES {
                    prop_assert_eq!(parse_line(line), parse_json(line));
                }
                prop_assert_eq!(parse_line(&changed).ok(), parse_json(&changed).ok());
                Ok(())
            })?;
        }
    }
}
