//! Text for terminals: no text that a machine, a recording or another node supplied can move the cursor, change colours or hide what stands there.
//!
//! Everything that the program prints passes through [`Escaping`]. Its own colours carry a random mark, so no text can imitate them.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::ops::Deref;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use colored::{ColoredString, Colorize as _};

/// What begins a colour of this process: ESC, and 64 random bits.
static MARK: LazyLock<String> =
    LazyLock::new(|| format!("\u{1b}{:016x}", RandomState::new().hash_one(0)));

/// Switches colours on or off for the whole process.
pub fn set_color(on: bool) {
    colored::control::set_override(on);
}

/// Whether colours are on.
pub fn is_colored() -> bool {
    colored::control::SHOULD_COLORIZE.should_colorize()
}

/// Whether what is printed for people is ASCII.
static ASCII: AtomicBool = AtomicBool::new(false);

/// Prints ASCII in place of signs that a locale without UTF-8 does not have.
pub fn set_ascii(on: bool) {
    ASCII.store(on, Ordering::Relaxed);
}

/// A text with ASCII in place of other signs.
fn in_ascii(text: &str) -> String {
    let sign = |c: char| match c {
        '·' | '–' | '—' | '─' => "-".to_owned(),
        '…' => "...".to_owned(),
        '→' => "->".to_owned(),
        '×' => "x".to_owned(),
        'µ' | 'μ' => "u".to_owned(),
        '│' | '├' | '└' => "|".to_owned(),
        c if c.is_ascii() || is_unsafe(c) => c.to_string(),
        _ => "?".to_owned(),
    };
    text.chars().map(sign).collect()
}

/// A text with a colour, which shows where colours are on.
#[derive(Clone, Debug)]
pub struct Painted(ColoredString);

impl Deref for Painted {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Painted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_plain() || !is_colored() {
            return f.pad(&self.0);
        }
        // What stands around an empty text is the colour alone: the text itself may hold ESC.
        let mut around = self.0.clone();
        around.input = "\0".into();
        let around = around.to_string().replace('\u{1b}', &MARK);
        let (before, after) = around.split_once('\0').ok_or(fmt::Error)?;
        // In one piece: the writer recognises a mark only as a whole.
        f.write_str(&format!("{before}{}{after}", &*self.0))
    }
}

/// Gives a text a colour.
pub trait Paint: Sized {
    /// The text as one that can have a colour.
    fn painted(self) -> ColoredString;

    /// As it is.
    fn normal(self) -> Painted {
        Painted(self.painted())
    }
    /// In bold.
    fn bold(self) -> Painted {
        Painted(self.painted().bold())
    }
    /// Fainter.
    fn dimmed(self) -> Painted {
        Painted(self.painted().dimmed())
    }
    /// In red.
    fn red(self) -> Painted {
        Painted(self.painted().red())
    }
    /// In green.
    fn green(self) -> Painted {
        Painted(self.painted().green())
    }
    /// In yellow.
    fn yellow(self) -> Painted {
        Painted(self.painted().yellow())
    }
    /// In magenta.
    fn magenta(self) -> Painted {
        Painted(self.painted().magenta())
    }
    /// In cyan.
    fn cyan(self) -> Painted {
        Painted(self.painted().cyan())
    }
}

impl Paint for &str {
    fn painted(self) -> ColoredString {
        ColoredString::from(self)
    }
}

impl Paint for Painted {
    fn painted(self) -> ColoredString {
        self.0
    }
}

/// Whether a character acts on a terminal or shows nothing: C0 and C1 controls and DEL, bidirectional controls, characters without width, tags.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

fn escape(text: &str, kept: &[char]) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if !kept.contains(&c) => escaped.push_str("\\n"),
            c if is_unsafe(c) && !kept.contains(&c) => {
                // Also the form of JSON, so a document of JSON says the same behind the writer.
                for unit in c.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// A text without line breaks and without what acts on a terminal.
pub fn one_line(text: &str) -> Cow<'_, str> {
    match text.bytes().all(|byte| matches!(byte, b' '..=b'~')) || !text.chars().any(is_unsafe) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(escape(text, &['\t'])),
    }
}

/// A path to be printed.
pub fn path(path: impl AsRef<Path>) -> String {
    one_line(&path.as_ref().to_string_lossy()).into_owned()
}

/// Which colours pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// Those of this process.
    Own,
    /// Those of the doctor on another node too, which has escaped its own output.
    OfAnotherDoctor,
}

/// Passes on text, and escapes what acts on a terminal, except line breaks and the program's colours.
pub struct Escaping<W: Write> {
    out: W,
    colors: Colors,
    /// The begin of a character or a colour whose end is still to come.
    held: Vec<u8>,
}

impl<W: Write> Escaping<W> {
    /// Before this output.
    pub fn new(out: W, colors: Colors) -> Self {
        Escaping {
            out,
            colors,
            held: Vec::new(),
        }
    }

    /// What the output has become; a text that ended within a character shows where.
    pub fn finish(mut self) -> io::Result<W> {
        let held = std::mem::take(&mut self.held);
        self.pass(&String::from_utf8_lossy(&held))?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn pass(&mut self, text: &str) -> io::Result<()> {
        let text = match ASCII.load(Ordering::Relaxed) && !text.is_ascii() {
            true => Cow::Owned(in_ascii(text)),
            false => Cow::Borrowed(text),
        };
        let text = &*text;
        if !text.chars().any(|c| is_unsafe(c) && c != '\n') {
            return self.out.write_all(text.as_bytes());
        }
        let mut rest = text;
        while let Some(at) = rest.find('\u{1b}') {
            let (before, from) = rest.split_at(at);
            self.out
                .write_all(escape(before, &['\n', '\t']).as_bytes())?;
            rest = match self.color(from) {
                Some((codes, rest)) => {
                    write!(self.out, "\u{1b}[{codes}m")?;
                    rest
                }
                None => {
                    self.out.write_all(b"\\u001b")?;
                    from.get(1..).unwrap_or("")
                }
            };
        }
        self.out.write_all(escape(rest, &['\n', '\t']).as_bytes())
    }

    /// The parameters of the colour with which a text begins, and what follows.
    fn color<'t>(&self, text: &'t str) -> Option<(&'t str, &'t str)> {
        let after = match text.strip_prefix(MARK.as_str()) {
            Some(after) => after,
            None if self.colors == Colors::OfAnotherDoctor => text.strip_prefix('\u{1b}')?,
            None => return None,
        };
        let (codes, rest) = after.strip_prefix('[')?.split_once('m')?;
        let is_color = codes.bytes().all(|b| b.is_ascii_digit() || b == b';') && codes.len() < 16;
        is_color.then_some((codes, rest))
    }
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let whole = match std::str::from_utf8(&held) {
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            _ => held.len(),
        };
        // A colour of another doctor may be cut by the pipe; those of this process come in one piece.
        let (whole, rest) = held.split_at(match memchr::memrchr(0x1b, &held[..whole]) {
            Some(at) if self.colors == Colors::OfAnotherDoctor && whole - at < 16 => {
                match held[at..whole].contains(&b'm') {
                    true => whole,
                    false => at,
                }
            }
            _ => whole,
        });
        self.held.extend_from_slice(rest);
        self.pass(&String::from_utf8_lossy(whole))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A line for a person on standard error. No report depends on it, so failing to write it is no failure.
pub fn say(text: &str) {
    let mut err = Escaping::new(io::stderr().lock(), Colors::Own);
    let _ = writeln!(err, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str, colors: Colors, pieces: usize) -> String {
        let mut out = Escaping::new(Vec::new(), colors);
        for piece in text.as_bytes().chunks(pieces) {
            out.write_all(piece).unwrap();
        }
        String::from_utf8(out.finish().unwrap()).unwrap()
    }

    #[test]
    fn nothing_that_acts_on_a_terminal_passes() {
        let planted = "a\u{1b}[2Jb\rc\u{7}d\u{7f}e\u{9b}31mf\u{202e}g\u{200b}h\u{e0041}i\tj\nk";
        let told =
            "a\\u001b[2Jb\\u000dc\\u0007d\\u007fe\\u009b31mf\\u202eg\\u200bh\\udb40\\udc41i\tj\nk";
        for pieces in [1, 2, 3, 1000] {
            assert_eq!(escaped(planted, Colors::Own, pieces), told);
        }
        assert_eq!(one_line("a\nb"), "a\\nb");
        assert_eq!(escaped("ä 中 é µ", Colors::Own, 1), "ä 中 é µ");
        let mut out = Escaping::new(Vec::new(), Colors::Own);
        out.write_all(b"a\xffb\xc3").unwrap();
        assert_eq!(out.finish().unwrap(), "a\u{fffd}b\u{fffd}".as_bytes());
    }

    #[test]
    fn colours_pass_only_from_the_program() {
        let red = format!("{}[1;31mx{0}[0m", *MARK);
        assert_eq!(escaped(&red, Colors::Own, 1000), "\u{1b}[1;31mx\u{1b}[0m");
        let plain = "\u{1b}[1;31mx\u{1b}[0m\u{1b}]0;t\u{7}\u{1b}[8A";
        let other = "\u{1b}[1;31mx\u{1b}[0m\\u001b]0;t\\u0007\\u001b[8A";
        assert!(!escaped(plain, Colors::Own, 1000).contains('\u{1b}'));
        for pieces in [1, 2, 5, 1000] {
            assert_eq!(escaped(plain, Colors::OfAnotherDoctor, pieces), other);
        }
    }

    #[test]
    fn a_document_of_json_says_the_same_behind_the_writer() {
        let value = serde_json::json!({"a": "\u{1b}\u{9b}\u{7f}\u{202e}\u{e0041}\n"});
        let text = escaped(&value.to_string(), Colors::Own, 1000);
        assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }
}
