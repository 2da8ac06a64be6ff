//! The words of a condition.

use std::borrow::Cow;
use std::ops::Range;

use super::diagnostic::Complaint;
use super::literal;
use crate::fact::{Bytes, Value};

/// How two operands are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Comparison {
    /// Whether it needs an order.
    pub(super) fn is_order(self) -> bool {
        !matches!(self, Comparison::Equal | Comparison::Unequal)
    }

    /// The same with its sides exchanged.
    pub(super) fn mirrored(self) -> Self {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::AtMost => Comparison::AtLeast,
            Comparison::Greater => Comparison::Less,
            Comparison::AtLeast => Comparison::AtMost,
            same => same,
        }
    }

    /// As it is written.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::Unequal => "!=",
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
            Comparison::Greater => ">",
            Comparison::AtLeast => ">=",
        }
    }
}

/// A word of a condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    And,
    Or,
    Not,
    In,
    Min,
    Max,
    /// `true`, `false`, a number, a quantity, `unlimited`.
    Literal(Value),
    Text(Cow<'a, str>),
    /// A name: `port.state`, `limit.rate`.
    Name(&'a str),
    Compare(Comparison),
    Open,
    Close,
    ListOpen,
    ListClose,
    Comma,
    End,
}

impl Token<'_> {
    /// The word as an error names it.
    pub(super) fn describe(&self) -> Cow<'static, str> {
        match self {
            Token::And => "`and`".into(),
            Token::Or => "`or`".into(),
            Token::Not => "`not`".into(),
            Token::In => "`in`".into(),
            Token::Min => "`min`".into(),
            Token::Max => "`max`".into(),
            Token::Literal(_) => "a literal".into(),
            Token::Text(_) => "a text".into(),
            Token::Name(name) => format!("`{name}`").into(),
            Token::Compare(c) => format!("`{}`", c.sign()).into(),
            Token::Open => "`(`".into(),
            Token::Close => "`)`".into(),
            Token::ListOpen => "`[`".into(),
            Token::ListClose => "`]`".into(),
            Token::Comma => "`,`".into(),
            Token::End => "the end".into(),
        }
    }
}

/// Takes a condition apart into its words.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Lexer { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        let blanks = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r');
        self.at += self
            .rest()
            .as_bytes()
            .iter()
            .take_while(|b| blanks(b))
            .count();
    }

    /// The next word and its place.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, Range<usize>), Complaint> {
        self.skip_blanks();
        let start = self.at;
        let rest = self.rest().as_bytes();
        let Some(&first) = rest.first() else {
            return Ok((Token::End, start..start));
        };
        let (token, length) = match (first, rest.get(1)) {
            (b'(', _) => (Token::Open, 1),
            (b')', _) => (Token::Close, 1),
            (b'[', _) => (Token::ListOpen, 1),
            (b']', _) => (Token::ListClose, 1),
            (b',', _) => (Token::Comma, 1),
            (b'=', Some(b'=')) => (Token::Compare(Comparison::Equal), 2),
            (b'!', Some(b'=')) => (Token::Compare(Comparison::Unequal), 2),
            (b'<', Some(b'=')) => (Token::Compare(Comparison::AtMost), 2),
            (b'>', Some(b'=')) => (Token::Compare(Comparison::AtLeast), 2),
            (b'<', _) => (Token::Compare(Comparison::Less), 1),
            (b'>', _) => (Token::Compare(Comparison::Greater), 1),
            (b'"', _) => return self.quoted(),
            (b'0'..=b'9', _) => return self.number(),
            (b'a'..=b'z' | b'A'..=b'Z' | b'_', _) => {
                let name = self.word();
                return Ok((keyword(name), start..self.at));
            }
            _ => return Err(self.stray()),
        };
        self.at += length;
        Ok((token, start..self.at))
    }

    /// A run of letters, digits, underscores and dots.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
        let length = rest.as_bytes().iter().take_while(|b| part(b)).count();
        self.at += length;
        &rest[..length]
    }

    fn quoted(&mut self) -> Result<(Token<'a>, Range<usize>), Complaint> {
        let start = self.at;
        let body = &self.rest()[1..];
        let mut owned: Option<String> = None;
        let mut chars = body.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + 1 + at + 1;
                    let text = match owned {
                        Some(text) => Cow::Owned(text),
                        None => Cow::Borrowed(&body[..at]),
                    };
                    return Ok((Token::Text(text), start..self.at));
                }
                '\\' => match chars.next() {
                    Some((_, escaped @ ('"' | '\\'))) => {
                        owned
                            .get_or_insert_with(|| body[..at].to_owned())
                            .push(escaped);
                    }
                    _ => {
                        let here = start + 1 + at;
                        return Err(Complaint::new(here..here + 1, "unknown escape")
                            .help("write `\\\"` or `\\\\`".to_owned()));
                    }
                },
                c => {
                    if let Some(text) = &mut owned {
                        text.push(c);
                    }
                }
            }
        }
        Err(Complaint::new(start..start + 1, "a text does not end")
            .label("it begins here")
            .help("close it with `\"`".to_owned()))
    }

    /// A number with its unit, where one follows.
    fn number(&mut self) -> Result<(Token<'a>, Range<usize>), Complaint> {
        let start = self.at;
        let rest = self.rest();
        let part = |b: &u8| b.is_ascii_digit() || *b == b'.';
        let length = rest.as_bytes().iter().take_while(|b| part(b)).count();
        let number = &rest[..length];
        self.at += length;
        let end = self.at;
        self.skip_blanks();
        let unit = self.unit();
        match unit {
            Some((unit, _)) if literal::is_unit(unit) => self.at += unit.len(),
            Some((unit, true)) => {
                return Err(Complaint::new(
                    self.at..self.at + unit.len(),
                    format!("`{unit}` is not a unit"),
                )
                .help(literal::unit_help(unit)));
            }
            _ => self.at = end,
        }
        let unit = unit.map(|(unit, _)| unit).filter(|u| literal::is_unit(u));
        match literal::value(number, unit) {
            Ok(value) => Ok((Token::Literal(value), start..self.at)),
            Err(message) => Err(Complaint::new(start..self.at, message)),
        }
    }

    /// What stands if a unit can stand, and whether it can be nothing else.
    fn unit(&self) -> Option<(&'a str, bool)> {
        let rest = self.rest();
        let part = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b'/' | b'%');
        let word = &rest[..rest.as_bytes().iter().take_while(|b| part(b)).count()];
        let keyword = matches!(word, "and" | "or" | "in" | "not");
        (!word.is_empty()).then_some((word, !keyword))
    }

    /// A character that no word begins with.
    fn stray(&self) -> Complaint {
        let c = self.rest().chars().next().unwrap_or(' ');
        let help = match c {
            '&' => "write `and`",
            '|' => "write `or`",
            '!' => "write `not`",
            '=' => "write `==`",
            '\'' => "a text stands between `\"` and `\"`",
            '-' => "there are no negative numbers and no arithmetic: a derived fact computes",
            '+' | '*' | '/' => "there is no arithmetic: a derived fact computes",
            '{' | '}' => "placeholders belong to `finding` and `fix`",
            _ => "",
        };
        Complaint::new(
            self.at..self.at + c.len_utf8(),
            match c {
                '\'' => "`'` does not belong here".to_owned(),
                c => format!("`{}` does not belong here", c.escape_debug()),
            },
        )
        .help((!help.is_empty()).then(|| help.to_owned()))
    }
}

fn keyword(word: &str) -> Token<'_> {
    match word {
        "and" => Token::And,
        "or" => Token::Or,
        "not" => Token::Not,
        "in" => Token::In,
        "min" => Token::Min,
        "max" => Token::Max,
        "true" => Token::Literal(Value::Bool(true)),
        "false" => Token::Literal(Value::Bool(false)),
        "unlimited" => Token::Literal(Value::Bytes(Bytes::UNLIMITED)),
        name => Token::Name(name),
    }
}

/// The value of a text that is one literal: a quantity, a whole number, `unlimited`, `true` or `false`.
pub(super) fn literal_of(text: &str) -> Result<Value, Complaint> {
    let mut lexer = Lexer::new(text);
    let whole = 0..text.len();
    match (lexer.next()?, lexer.next()?) {
        ((Token::Literal(value), _), (Token::End, _)) => Ok(value),
        _ => Err(Complaint::new(
            whole,
            format!("`{text}` is neither a number nor a quantity"),
        )
        .help("write it as `4096 B`, `400 Gb/s`, `1 /s`, `10 %` or `2 h`".to_owned())),
    }
}
