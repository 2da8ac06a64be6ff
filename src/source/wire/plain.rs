//! The lines of which a recording is mostly made, read as this program writes them: the keys in its order, a path asked for, and a text, a list
//! of names, bytes or an error's name in reply.
//!
//! That order spares looking each key up. What stands otherwise, if by a blank only, is left to the reader of any JSON, and what is wrong with a
//! line is said by it: where this one reads a line, both read the same.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Line, from_hex, intern};
use crate::source::{Answer, Errno, Question, Refusal, Reply};

/// Reads a line of this form; `None` for any other.
pub(super) fn read(line: &str) -> Option<Line> {
    if has_control(line) {
        return None;
    }
    let mut rest = LineCursor(line);
    rest.skip(r#"{"probe":"#)?;
    let probe = intern(&rest.text()?);
    rest.skip(r#","q":{""#)?;
    let ask = rest.verb()?;
    let question = ask(rest.shared_text()?);
    rest.skip(r#"},"n":"#)?;
    let repeat = u32::try_from(rest.number()?).ok()?;
    rest.skip(r#","t":"#)?;
    let at = rest.number()?;
    rest.skip(r#",""#)?;
    let said = rest.reply()?;
    (rest.0 == "}").then_some(Line::Reply {
        probe,
        question,
        repeat,
        reply: Reply { at, said },
    })
}

/// Whether one of the characters is in there that JSON wants escaped in a text.
fn has_control(line: &str) -> bool {
    // Eight at a time: the borrow that the subtraction leaves in a byte's highest bit says that it is below a blank.
    const ONES: u64 = u64::MAX / 255;
    let (words, rest) = line.as_bytes().as_chunks::<8>();
    let below = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        word.wrapping_sub(ONES * 0x20) & !word & (ONES * 0x80) != 0
    };
    words.iter().any(below) || rest.iter().any(|byte| *byte < b' ')
}

/// Makes a question of a path.
type QuestionConstructor = fn(Arc<str>) -> Question;

/// What of a line is still to be read.
struct LineCursor<'l>(&'l str);

impl<'l> LineCursor<'l> {
    fn skip(&mut self, expected: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// A question's verb, up to its path.
    fn verb(&mut self) -> Option<QuestionConstructor> {
        let verbs: [(&str, QuestionConstructor); 3] = [
            ("read\":", Question::Read),
            ("list\":", Question::List),
            ("link\":", Question::Link),
        ];
        verbs
            .into_iter()
            .find_map(|(verb, ask)| self.skip(verb).map(|()| ask))
    }

    fn reply(&mut self) -> Option<Result<Answer, Refusal>> {
        Some(if self.skip("text\":").is_some() {
            Ok(Answer::Text(self.shared_text()?))
        } else if self.skip("names\":").is_some() {
            Ok(Answer::Names(self.names()?.into()))
        } else if self.skip("hex\":").is_some() {
            Ok(Answer::Bytes(from_hex(&self.text()?)?.into()))
        } else if self.skip("errno\":").is_some() {
            Err(Refusal::Errno(Errno::from_name(&self.text()?)?))
        } else {
            return None;
        })
    }

    /// A whole number as JSON has it: no zero leads it.
    fn number(&mut self) -> Option<u64> {
        let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.0.split_at(digits);
        if number.len() > 1 && number.starts_with('0') {
            return None;
        }
        self.0 = rest;
        number.parse().ok()
    }

    fn names(&mut self) -> Option<Vec<Arc<str>>> {
        self.skip("[")?;
        let mut names = Vec::new();
        if self.skip("]").is_some() {
            return Some(names);
        }
        loop {
            names.push(self.shared_text()?);
            if self.skip("]").is_some() {
                return Some(names);
            }
            self.skip(",")?;
        }
    }

    fn shared_text(&mut self) -> Option<Arc<str>> {
        Some(match self.text()? {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        })
    }

    /// A text with its quotes. Of what is escaped, what has a letter of its own is read here.
    fn text(&mut self) -> Option<Cow<'l, str>> {
        let line = self.0.strip_prefix('"')?;
        let mut text = Cow::Borrowed("");
        let mut from = 0;
        loop {
            let end = from + memchr::memchr2(b'"', b'\\', &line.as_bytes()[from..])?;
            text += &line[from..end];
            if line.as_bytes()[end] == b'"' {
                self.0 = &line[end + 1..];
                return Some(text);
            }
            let letter = match line.as_bytes().get(end + 1)? {
                b'n' => '\n',
                b't' => '\t',
                b'r' => '\r',
                b'"' => '"',
                b'\\' => '\\',
                _ => return None,
            };
            if let Cow::Borrowed(so_far) = text {
                // Mostly it is the end of a file's only line, and there is no more to come.
                let mut own = String::with_capacity(so_far.len() + 8);
                own.push_str(so_far);
                text = Cow::Owned(own);
            }
            text.to_mut().push(letter);
            from = end + 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::wire::{parse_json, write_line};
    use proptest::prelude::*;

    #[test]
    fn reads_what_the_program_writes() {
        for line in [
            r#"{"probe":"gid","q":{"read":"/sys/a"},"n":0,"t":37492,"text":"0000:0000\n"}"#,
            r#"{"probe":"pci","q":{"list":"/sys/b"},"n":1,"t":0,"names":["a","ä\"\\\t"]}"#,
            r#"{"probe":"pci","q":{"list":"/sys/b"},"n":0,"t":5,"names":[]}"#,
            r#"{"probe":"x","q":{"link":"/sys/c"},"n":0,"t":5,"errno":"ENOENT"}"#,
            r#"{"probe":"x","q":{"read":"/sys/c"},"n":0,"t":5,"hex":"00ff"}"#,
        ] {
            let read = read(line);
            assert!(read.is_some(), "{line}");
            assert_eq!(read, parse_json(line).ok(), "{line}");
        }
    }

    #[test]
    fn leaves_all_else_to_the_other_reader() {
        for line in [
            r#"{"probe":"a","q":{"read":"/c"},"n":0,"t":1,"text":"5"} "#,
            r#"{"probe":"a","q":{"read":"/c"},"n":00,"t":1,"text":"5"}"#,
            r#"{"probe":"a","q":{"read":"/c"},"n":,"t":1,"text":"5"}"#,
            r#"{"probe":"a","q":{"read":"/c"},"n":4294967296,"t":1,"text":"5"}"#,
            r#"{"probe":"a","q":{"read":"/c"},"n":0,"t":1e3,"text":"5"}"#,
            r#"{"probe":"a","q":{"read":"/c"},"n":0,"t":1,"text":"\u0000"}"#,
            r#"{"probe":"a","q":{"read":"/c"},"n":0,"t":1,"text":"5","text":"6"}"#,
            r#"{"probe":"a","q":{"read":"/c","list":"/c"},"n":0,"t":1,"text":"5"}"#,
            r#"{"probe":"a","q":{"read":"/c"},"n":0,"t":1,"errno":"ENOPE"}"#,
            r#"{"probe":"a","q":{"read":"/c"},"n":0,"t":1,"hex":"0"}"#,
            r#"{"probe":"a","q":{"read":"/c"},"n":0,"t":1,"names":["a",]}"#,
            r#"{"probe":"a","q":{"read":"/c"},"n":0,"t":1,"names":["a"#,
            "{\"probe\":\"a\",\"q\":{\"read\":\"/c\"},\"n\":0,\"t\":1,\"text\":\"\t\"}",
            r#"{"complete":true,"lines":2}"#,
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn control_characters_are_seen_anywhere() {
        for byte in 0..=127u8 {
            for at in 0..17 {
                let mut line = [b'~'; 17];
                line[at] = byte;
                let line = std::str::from_utf8(&line).unwrap();
                assert_eq!(has_control(line), byte < b' ', "{line:?}");
            }
        }
        assert!(!has_control("äß€😀ÿ") && has_control("ä😀\u{1f}"));
    }

    /// Texts in which what JSON escapes is frequent.
    fn any_text() -> impl Strategy<Value = String> {
        "([a-z/ äß€😀]|\\PC|[\"\\\\\n\t\r\u{0}\u{1f}\u{7f}]){0,12}"
    }

    fn any_line() -> impl Strategy<Value = Line> {
        let said = prop_oneof![
            any_text().prop_map(|text| Ok(Answer::Text(text.into()))),
            proptest::collection::vec(any_text(), 0..4).prop_map(|names| Ok(Answer::Names(
                names.iter().map(|n| n.as_str().into()).collect()
            ))),
            proptest::collection::vec(any::<u8>(), 0..8)
                .prop_map(|bytes| Ok(Answer::Bytes(bytes.into()))),
            (1..200i32).prop_map(|number| Err(Refusal::Errno(Errno(number)))),
        ];
        let parts = (
            any_text(),
            any_text(),
            any::<u32>(),
            any::<u64>(),
            0..4,
            said,
        );
        parts.prop_map(|(probe, path, repeat, at, verb, said)| Line::Reply {
            probe: probe.into(),
            question: match verb {
                0 => Question::read(path),
                1 => Question::list(path),
                2 => Question::link(path),
                _ => Question::stat(path),
            },
            repeat,
            reply: Reply { at, said },
        })
    }

    proptest! {
        #[test]
        fn both_readers_read_the_same(line in any_line(), cut in 0usize..400, put in "[\"\\\\,{}\\[\\]0-9nt \\n]") {
            let text = write_line(&line).unwrap();
            prop_assert_eq!(parse_json(&text), Ok(line));
            // As it is written, and with a letter changed anywhere.
            let at = text.char_indices().map(|(at, _)| at).nth(cut % text.chars().count()).unwrap();
            let letter = text[at..].chars().next().map_or(0, char::len_utf8);
            let changed = format!("{}{put}{}", &text[..at], &text[at + letter..]);
            for text in [text, changed] {
                if let Some(read) = read(&text) {
                    prop_assert_eq!(parse_json(&text), Ok(read), "{}", text);
                }
            }
        }
    }
}
