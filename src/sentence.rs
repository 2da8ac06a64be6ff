//! Sentences as data until a format writes them: words of ours, and what facts put between them.

pub mod in_words;
mod json;
pub mod shell;
mod span;

#[cfg(test)]
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::terminal;
use shell::Command;

#[cfg(test)]
pub(crate) use json::SaidJson;
pub(crate) use json::flattened;
pub use span::{Name, Span};

/// A sentence of formatted parts. It may end before each part but the first, which is its predicate.
macro_rules! sentence {
    ($predicate:literal $(, $more:literal)* $(,)?) => {
        $crate::sentence::Sentence::from(format!($predicate))$(.then_optionally(format!($more)))*
    };
}
pub(crate) use sentence;

/// A sentence, or several on lines of their own. Its JSON form is its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sentence(Arc<[Span]>);

impl Sentence {
    /// The sentence of these parts.
    pub fn new(spans: Vec<Span>) -> Self {
        Sentence(spans.into())
    }

    /// A text of a file, in which backquotes enclose commands.
    pub fn of_prose(text: &str) -> Self {
        let is_paired = !text.split('`').count().is_multiple_of(2);
        let part = |(at, part): (usize, &str)| match at % 2 {
            0 => Span::Text(part.to_owned().into()),
            _ => Span::Command(Command::of_text(part)),
        };
        if is_paired {
            text.split('`').enumerate().map(part).collect()
        } else {
            text.into()
        }
    }

    /// Sentences of which each may be the last one that is written, with this between them.
    pub fn joined(parts: impl IntoIterator<Item = Sentence>, between: &'static str) -> Self {
        let mut spans = Vec::new();
        for part in parts {
            if !spans.is_empty() {
                spans.extend([Span::MayEnd, Span::Text(between.into())]);
            }
            spans.extend(part.0.iter().cloned());
        }
        Sentence::new(spans)
    }

    /// The sentence with another behind it.
    pub fn then(&self, more: impl Into<Sentence>) -> Self {
        let more = more.into();
        Sentence(self.0.iter().chain(&*more.0).cloned().collect())
    }

    /// The sentence with a part behind it that may be left out.
    pub fn then_optionally(&self, more: impl Into<Sentence>) -> Self {
        self.then(Span::MayEnd).then(more)
    }

    /// Its parts.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.letters() == 0
    }

    /// Its commands, in their order.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.0.iter().filter_map(|span| match span {
            Span::Command(command) => Some(command),
            _ => None,
        })
    }

    /// The letters that it takes.
    pub fn letters(&self) -> usize {
        self.0.iter().map(Span::letters).sum()
    }

    /// What cannot be left out: subject, verb and what was observed.
    pub fn predicate(&self) -> &[Span] {
        let end = self.0.iter().position(|span| *span == Span::MayEnd);
        &self.0[..end.unwrap_or(self.0.len())]
    }

    /// Whether it begins with another one.
    pub fn begins_with(&self, other: &Sentence) -> bool {
        self.0.starts_with(&other.0)
    }

    /// What is said, without the nodes of which it is said before it.
    pub fn without_nodes(&self) -> Self {
        match &*self.0 {
            [Span::On(_), rest @ ..] => Sentence(rest.into()),
            _ => self.clone(),
        }
    }

    /// What is said of a node, if the sentence begins with its name and a colon.
    pub fn without_subject(&self, node: &str) -> Self {
        if let [Span::Node(name), Span::Text(text), rest @ ..] = &*self.0
            && **name == *node
            && let Some(text) = text.strip_prefix(": ")
        {
            return Sentence::from(text).then(rest.iter().cloned().collect::<Sentence>());
        }
        self.clone()
    }

    /// The sentence without this text, if it begins with it.
    pub fn without_premise(&self, premise: &str) -> Self {
        match &*self.0 {
            [Span::Text(first), rest @ ..] if *first == premise => Sentence(rest.into()),
            _ => self.clone(),
        }
    }

    /// The same of whatever node: equal ones of several nodes are one.
    pub fn of_each(&self, node: &str) -> Self {
        let of_each = |span: &Span| match span {
            Span::Node(name) if **name == *node => Span::EachNode,
            span => span.clone(),
        };
        Sentence(self.0.iter().map(of_each).collect())
    }

    /// The same of this node.
    pub fn of_node(&self, node: &str) -> Self {
        let of_node = |span: &Span| match span {
            Span::EachNode => Span::Node(node.into()),
            span => span.clone(),
        };
        Sentence(self.0.iter().map(of_node).collect())
    }

    /// The sentence without line breaks, so that nothing in it can imitate a line of a report.
    pub fn on_one_line(&self) -> Self {
        let joined = |span: &Span| match span {
            Span::Text(text) => Span::Text(terminal::one_line(text).into_owned().into()),
            span => span.clone(),
        };
        Sentence(self.0.iter().map(joined).collect())
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
                (other, line) => line.into_iter().for_each(|line| line.push(other.clone())),
            }
        }
        lines.into_iter().map(Sentence::new).collect()
    }
}

impl From<Span> for Sentence {
    fn from(span: Span) -> Self {
        Sentence(Arc::new([span]))
    }
}

impl From<&str> for Sentence {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for Sentence {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&Sentence> for Sentence {
    fn from(sentence: &Sentence) -> Self {
        sentence.clone()
    }
}

impl From<String> for Sentence {
    fn from(text: String) -> Self {
        Span::Text(text.into()).into()
    }
}

impl FromIterator<Span> for Sentence {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> Self {
        Sentence(spans.into_iter().collect())
    }
}

impl PartialEq<str> for Sentence {
    fn eq(&self, text: &str) -> bool {
        let mut rest = text;
        let is_next = |span: &Span| {
            let after = rest.strip_prefix(&*span.to_string());
            after.inspect(|after| rest = after).is_some()
        };
        self.0.iter().all(is_next) && rest.is_empty()
    }
}

impl PartialEq<&str> for Sentence {
    fn eq(&self, text: &&str) -> bool {
        *self == **text
    }
}

impl Default for Sentence {
    fn default() -> Self {
        Sentence::new(Vec::new())
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

/// A sentence in which backquotes stand around commands.
#[cfg(test)]
pub(crate) fn with_commands(text: &str) -> Sentence {
    let spans = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => Span::Text(part.to_owned().into()),
        _ => Span::Command(Command::of_text(part)),
    });
    Sentence::new(spans.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sentences_of_two_nodes_are_one_of_each() {
        let of = |node: &str, port: &str| {
            Sentence::new(vec![
                Span::Node(node.into()),
                Span::Text(" has ".into()),
                Span::Text(port.to_owned().into()),
            ])
        };
        assert_eq!(of("n1", "p").of_each("n1"), of("n2", "p").of_each("n2"));
        assert_ne!(of("n1", "p").of_each("n1"), of("n1", "q").of_each("n1"));
        // A name in the words of another is no node's.
        assert_eq!(of("n1", "n1").of_each("n1").to_string(), "each has n1");
        let back = of("n1", "n1").of_each("n1").of_node("n7");
        assert_eq!(back.to_string(), "n7 has n1");
    }

    #[test]
    fn a_predicate_ends_where_the_sentence_may_end_first() {
        let sentence = Sentence::from("p is down")
            .then_optionally("; expected up")
            .then_optionally(" (log:1)");
        assert_eq!(sentence.to_string(), "p is down; expected up (log:1)");
        assert_eq!(sentence.predicate(), [Span::Text("p is down".into())]);
        let whole = Sentence::from("p is down");
        assert_eq!(whole.predicate(), whole.spans());
        assert!(sentence.begins_with(&whole) && !whole.begins_with(&sentence));
    }

    #[test]
    fn what_stands_before_a_sentence_is_taken_off_as_a_part() {
        let said = Sentence::from("n1: is no prefix");
        let on = Sentence::from(Span::On("n1".into())).then(said.clone());
        assert_eq!(on.to_string(), "n1: n1: is no prefix");
        assert_eq!(on.without_nodes(), said);
        assert_eq!(said.without_nodes(), said);
        let presumed = Sentence::from("if it is used, ").then(said.clone());
        assert_eq!(presumed.without_premise("if it is used, "), said);
        assert_eq!(said.without_premise("n1"), said);
    }
}
