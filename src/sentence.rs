//! Sentences as data until a format writes them: words of ours, and what facts put between them.

pub mod shell;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use shell::Command;

/// A part of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Span {
    /// Words, and values in words.
    Text(Cow<'static, str>),
    /// A command for a shell.
    Command(Command),
}

/// A sentence, or several on lines of their own. Its JSON form is its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sentence(Arc<[Span]>);

impl Sentence {
    /// The sentence of these parts.
    pub fn new(spans: Vec<Span>) -> Self {
        Sentence(spans.into())
    }

    /// Its parts.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Its commands, in their order.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.0.iter().filter_map(|span| match span {
            Span::Command(command) => Some(command),
            Span::Text(_) => None,
        })
    }

    /// Each of its lines.
    pub fn lines(&self) -> Vec<Sentence> {
        let mut lines = vec![Vec::new()];
        for span in &*self.0 {
            match (span, lines.last_mut()) {
                (Span::Text(text), Some(line)) => {
                    let mut parts = text.split('\n').map(|part| part.to_owned().into());
                    line.extend(parts.next().map(Span::Text));
                    lines.extend(parts.map(|part| vec![Span::Text(part)]));
                }
                (command, line) => line.into_iter().for_each(|line| line.push(command.clone())),
            }
        }
        lines.into_iter().map(Sentence::new).collect()
    }
}

impl From<&str> for Sentence {
    fn from(text: &str) -> Self {
        Sentence::new(vec![Span::Text(text.to_owned().into())])
    }
}

impl Default for Sentence {
    fn default() -> Self {
        Sentence::new(Vec::new())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Span::Text(text) => f.write_str(text),
            Span::Command(command) => write!(f, "{command}"),
        }
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|span| write!(f, "{span}"))
    }
}

impl Serialize for Sentence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Sentence {
    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}
