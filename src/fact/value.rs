//! Values of facts, and their types.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::sentence::shell::Command;
use crate::sentence::{Sentence, Span};
use crate::terminal;

use super::unit::{BitRate, Bytes, PerSecond, Percent, Seconds};

/// The type of a fact. Two values can be compared only where their types are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Yes or no.
    Bool,
    /// A whole number without a unit.
    Count,
    /// Bits per second.
    BitRate,
    /// Bytes.
    Bytes,
    /// A duration.
    Seconds,
    /// Events per second.
    PerSecond,
    /// Hundredths.
    Percent,
    /// Free text.
    Text,
    /// Several texts.
    Texts,
    /// Several whole numbers: limits have them, facts do not.
    Counts,
    /// One of a few words.
    Word(&'static [&'static str]),
}

impl Type {
    /// Whether values of the type have an order.
    pub fn is_ordered(self) -> bool {
        !matches!(
            self,
            Type::Bool | Type::Text | Type::Texts | Type::Counts | Type::Word(_)
        )
    }

    /// Whether a value of one type can be compared with a value of the other.
    pub fn is_comparable_with(self, other: Type) -> bool {
        match (self, other) {
            (Type::Word(_) | Type::Text, Type::Word(_) | Type::Text) => true,
            (a, b) => a == b,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => f.write_str("true or false"),
            Type::Count => f.write_str("a whole number"),
            Type::BitRate => f.write_str("a bit rate (Gb/s)"),
            Type::Bytes => f.write_str("a number of bytes (B, KiB, MiB, GiB)"),
            Type::Seconds => f.write_str("a duration (s, min, h, d)"),
            Type::PerSecond => f.write_str("a frequency (/s, /min, /h)"),
            Type::Percent => f.write_str("a percentage (%)"),
            Type::Text => f.write_str("a text"),
            Type::Texts => f.write_str("a list of texts"),
            Type::Counts => f.write_str("a list of whole numbers"),
            Type::Word(words) => write!(f, "one of {}", words.join(", ")),
        }
    }
}

/// A value. Its JSON form has quantities as numbers in their base unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// A whole number without a unit.
    Count(u64),
    /// Bits per second.
    BitRate(BitRate),
    /// Bytes.
    Bytes(Bytes),
    /// A duration.
    Seconds(Seconds),
    /// Events per second.
    PerSecond(PerSecond),
    /// Hundredths.
    Percent(Percent),
    /// Free text.
    Text(Arc<str>),
    /// Several texts.
    Texts(Arc<[Arc<str>]>),
    /// Several whole numbers.
    Counts(Arc<[u64]>),
    /// A word out of the few that the fact can have.
    Word(&'static str),
    /// What was worked out, as a sentence of ours. Its type is that of a text.
    Sentence(Sentence),
}

impl Value {
    /// The order of two values of one type; `None` if they have none.
    pub fn order(&self, other: &Value) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Value::Count(a), Value::Count(b)) => Some(a.cmp(b)),
            (Value::BitRate(a), Value::BitRate(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            (Value::Seconds(a), Value::Seconds(b)) => a.partial_cmp(b),
            (Value::PerSecond(a), Value::PerSecond(b)) => a.partial_cmp(b),
            (Value::Percent(a), Value::Percent(b)) => a.partial_cmp(b),
            _ => None,
        }
    }

    /// Whether two values are the same; words and texts compare by their letters.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Text(a), Value::Word(b)) | (Value::Word(b), Value::Text(a)) => **a == **b,
            (Value::Text(a), Value::Sentence(b)) | (Value::Sentence(b), Value::Text(a)) => {
                *b == **a
            }
            (a, b) => a == b,
        }
    }

    /// The value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!(self)
    }
}

impl Value {
    /// Without line breaks, so that no value can imitate a line of a report.
    pub(super) fn on_one_line(self) -> Self {
        let breaks = |text: &Arc<str>| text.contains('\n');
        let joined = |text: Arc<str>| match breaks(&text) {
            true => terminal::one_line(&text).into(),
            false => text,
        };
        match self {
            Value::Text(text) => Value::Text(joined(text)),
            Value::Texts(texts) if texts.iter().any(breaks) => {
                Value::Texts(texts.iter().cloned().map(joined).collect())
            }
            Value::Sentence(sentence) => Value::Sentence(sentence.on_one_line()),
            other => other,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(true) => f.write_str("yes"),
            Value::Bool(false) => f.write_str("no"),
            // What has no limit: of open files, of processes.
            Value::Count(u64::MAX) => f.write_str("unlimited"),
            Value::Count(v) => write!(f, "{v}"),
            Value::BitRate(v) => write!(f, "{v}"),
            Value::Bytes(v) => write!(f, "{v}"),
            Value::Seconds(v) => write!(f, "{v}"),
            Value::PerSecond(v) => write!(f, "{v}"),
            Value::Percent(v) => write!(f, "{v}"),
            Value::Text(v) => f.write_str(v),
            Value::Texts(v) if v.is_empty() => f.write_str("none"),
            Value::Texts(v) => f.write_str(&v.join(", ")),
            Value::Counts(v) if v.is_empty() => f.write_str("none"),
            Value::Counts(v) => {
                let numbers: Vec<String> = v.iter().map(u64::to_string).collect();
                f.write_str(&numbers.join(", "))
            }
            Value::Word(v) => f.write_str(v),
            Value::Sentence(v) => write!(f, "{v}"),
        }
    }
}

/// A Rust type that a fact can have.
pub trait Typed: Sized {
    /// Its type in the schema.
    const TYPE: Type;
    /// Whether it is a command, quoted for a shell.
    const IS_COMMAND: bool = false;
    /// The value with its Rust type forgotten.
    fn into_value(self) -> Value;
    /// The value back; `None` if the value is of another type.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! typed {
    ($($rust:ty => $kind:ident),*) => { $(
        impl Typed for $rust {
            const TYPE: Type = Type::$kind;
            fn into_value(self) -> Value { Value::$kind(self) }
            fn from_value(value: &Value) -> Option<Self> {
                match value { Value::$kind(v) => Some(v.clone()), _ => None }
            }
        }
    )* };
}

typed! {
    bool => Bool, u64 => Count, BitRate => BitRate, Bytes => Bytes, Seconds => Seconds, PerSecond => PerSecond,
    Percent => Percent, Arc<str> => Text, Arc<[Arc<str>]> => Texts
}

impl Typed for Sentence {
    const TYPE: Type = Type::Text;
    fn into_value(self) -> Value {
        Value::Sentence(self)
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Sentence(sentence) => Some(sentence.clone()),
            Value::Text(text) => Some(Span::Quote(Arc::clone(text)).into()),
            _ => None,
        }
    }
}

impl Typed for Command {
    const TYPE: Type = Type::Text;
    const IS_COMMAND: bool = true;
    fn into_value(self) -> Value {
        Value::Text(self.into_text())
    }
    fn from_value(value: &Value) -> Option<Self> {
        Arc::<str>::from_value(value).map(|text| Command::of_text(&text))
    }
}

impl Typed for Arc<[Command]> {
    const TYPE: Type = Type::Texts;
    const IS_COMMAND: bool = true;
    fn into_value(self) -> Value {
        Value::Texts(self.iter().cloned().map(Command::into_text).collect())
    }
    fn from_value(value: &Value) -> Option<Self> {
        let texts = Arc::<[Arc<str>]>::from_value(value)?;
        Some(texts.iter().map(|text| Command::of_text(text)).collect())
    }
}

/// Declares an enum whose values are written as words.
macro_rules! written {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$word_meta:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name { $($(#[$word_meta])* $variant),* }

        impl $name {
            /// All of them, in the order in which they are declared.
            pub const ALL: &'static [Self] = &[$($name::$variant),*];

            /// The word, as conditions, reports and the command line write it.
            pub fn word(self) -> &'static str { match self { $($name::$variant => $word),* } }
            /// The value of a word.
            pub fn from_word(word: &str) -> Option<Self> { match word { $($word => Some($name::$variant),)* _ => None } }
        }
    };
}
pub(crate) use written;

/// Declares an enum whose values are words of the schema.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$word_meta:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $crate::fact::value::written! {
            $(#[$meta])* $vis enum $name { $($(#[$word_meta])* $variant = $word),* }
        }

        impl $crate::fact::Typed for $name {
            const TYPE: $crate::fact::Type = $crate::fact::Type::Word(&[$($word),*]);
            fn into_value(self) -> $crate::fact::Value { $crate::fact::Value::Word(self.word()) }
            fn from_value(value: &$crate::fact::Value) -> Option<Self> {
                match value { $crate::fact::Value::Word(word) => $name::from_word(word), _ => None }
            }
        }
    };
}
pub(crate) use words;
