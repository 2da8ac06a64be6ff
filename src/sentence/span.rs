//! The parts of a sentence.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::shell::Command;

/// A part of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Span {
    /// Words of ours.
    Text(Cow<'static, str>),
    /// A node by its name.
    Node(Arc<str>),
    /// The node, whichever it is, in a sentence about each of several.
    EachNode,
    /// The nodes of which the rest is said.
    On(Arc<str>),
    /// Something else by its name.
    Name(Name),
    /// The value of a fact in words, and its unit.
    Value(Arc<str>, Option<&'static str>),
    /// A text that a fact quotes: a line of a log, a message, a rule.
    Quote(Arc<str>),
    /// A command for a shell.
    Command(Command),
    /// A file or a directory.
    Path(Arc<str>),
    /// A file and its line, or another place that evidence comes from.
    Place(Arc<str>),
    /// The sentence may end here. What stands before the first such place is its predicate.
    MayEnd,
}

/// A name by which people find a thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// What it is, as conditions name it: `gpu`, `port`.
    pub subject: &'static str,
    /// What tells it from others of the node.
    pub key: Arc<str>,
    /// What tools call it, if that is not the key: `GPU 2`.
    pub called: Option<Arc<str>>,
    /// Whether the key stands behind what it is called: it does where there is room.
    pub has_key: bool,
    /// Whether what follows stands in the parenthesis of the key.
    pub is_open: bool,
}

impl Name {
    /// The name of something that is called by its key.
    pub fn of_key(subject: &'static str, key: impl Into<Arc<str>>) -> Self {
        Name {
            subject,
            key: key.into(),
            called: None,
            has_key: true,
            is_open: false,
        }
    }
}

impl Span {
    /// The word for what it is.
    pub fn kind(&self) -> &'static str {
        match self {
            Span::Text(_) => "text",
            Span::Node(_) => "node",
            Span::EachNode => "each-node",
            Span::On(_) => "nodes",
            Span::Name(_) => "name",
            Span::Value(..) => "value",
            Span::Quote(_) => "quote",
            Span::Command(_) => "command",
            Span::Path(_) => "path",
            Span::Place(_) => "place",
            Span::MayEnd => "may-end",
        }
    }

    /// The letters that it takes.
    pub fn letters(&self) -> usize {
        match self {
            Span::MayEnd => 0,
            Span::EachNode => EACH.len(),
            Span::Text(text) => text.chars().count(),
            Span::Node(text)
            | Span::Value(text, _)
            | Span::Quote(text)
            | Span::Path(text)
            | Span::Place(text) => text.chars().count(),
            Span::On(text) => text.chars().count() + ": ".len(),
            Span::Name(_) | Span::Command(_) => self.to_string().chars().count(),
        }
    }
}

/// How a sentence calls whichever node it is about.
const EACH: &str = "each";

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(called) = &self.called else {
            return f.write_str(&self.key);
        };
        match (self.has_key, self.is_open) {
            (true, true) => write!(f, "{called} ({}, ", self.key),
            (true, false) => write!(f, "{called} ({})", self.key),
            (false, true) => write!(f, "{called} ("),
            (false, false) => f.write_str(called),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Span::Text(text) => f.write_str(text),
            Span::Node(text)
            | Span::Value(text, _)
            | Span::Quote(text)
            | Span::Path(text)
            | Span::Place(text) => f.write_str(text),
            Span::EachNode => f.write_str(EACH),
            Span::On(nodes) => write!(f, "{nodes}: "),
            Span::Name(name) => write!(f, "{name}"),
            Span::Command(command) => write!(f, "{command}"),
            Span::MayEnd => Ok(()),
        }
    }
}
