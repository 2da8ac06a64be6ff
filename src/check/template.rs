//! Sentences with placeholders: `{port}` is the port's name, `{port.rate}` a fact of it, `{limit.rate}` a limit.

use std::fmt::Write;

use super::condition::{Limit, Lineage, Slot};
use super::diagnostic::{Complaint, nearest};
use super::names::Names;
use crate::fact::{Fact, Facts, Id, Subject};

/// A text with placeholders, checked against the schema when it is loaded.
#[derive(Debug, Default)]
pub struct Template {
    source: Box<str>,
    pieces: Box<[Piece]>,
}

#[derive(Debug)]
enum Piece {
    /// A part of the source that stands as it is.
    Text(std::ops::Range<usize>),
    /// The name of the instance so many steps up.
    Name(u8),
    Fact(Slot),
    Limit(u16),
}

impl Template {
    /// The text as it is written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The facts that the text names.
    pub fn facts(&self) -> impl Iterator<Item = (Subject, usize)> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Fact(slot) => Some((slot.subject, usize::from(slot.index))),
            _ => None,
        })
    }

    /// Reads a text.
    pub(super) fn parse(source: &str, names: Names<'_>) -> Result<Self, Complaint> {
        let mut pieces = Vec::with_capacity(8);
        let mut from = 0;
        while let Some(at) = source[from..].find(['{', '}']).map(|at| from + at) {
            let rest = &source[at..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                // The first of the two stands, the second is skipped.
                pieces.push(Piece::Text(from..at + 1));
                from = at + 2;
                continue;
            }
            if from < at {
                pieces.push(Piece::Text(from..at));
            }
            if rest.starts_with('}') {
                return Err(Complaint::new(at..at + 1, "`}` closes no placeholder")
                    .help("write `}}` for the character itself".to_owned()));
            }
            let length = rest[1..].find(['{', '}', '\n']);
            let Some(length) = length.filter(|l| rest[1 + l..].starts_with('}')) else {
                return Err(Complaint::new(at..at + 1, "a placeholder does not end")
                    .help("write `{{` for the character itself".to_owned()));
            };
            let name = &rest[1..=length];
            pieces.push(placeholder(name, at + 1..at + 1 + length, names)?);
            from = at + length + 2;
        }
        if from < source.len() {
            pieces.push(Piece::Text(from..source.len()));
        }
        Ok(Template {
            source: source.into(),
            pieces: pieces.into(),
        })
    }

    /// The text about an instance; what is not known reads `unknown`.
    pub fn render(&self, facts: &Facts, id: Id, limits: &[Limit]) -> String {
        let lineage = Lineage::of(facts, id);
        let mut text = String::with_capacity(self.source.len() + 32);
        for piece in &self.pieces {
            // Writing to a `String` cannot fail.
            let _ = match piece {
                Piece::Text(range) => text.write_str(&self.source[range.clone()]),
                Piece::Name(up) => text.write_str(facts.name(lineage.up(*up))),
                Piece::Fact(slot) => match slot.look(facts, lineage).and_then(Fact::known) {
                    Some(value) => write!(text, "{value}"),
                    None => text.write_str("unknown"),
                },
                Piece::Limit(at) => match limits.get(usize::from(*at)) {
                    Some((_, value)) => write!(text, "{value}"),
                    None => text.write_str("unknown"),
                },
            };
        }
        text
    }
}

fn placeholder(
    name: &str,
    span: std::ops::Range<usize>,
    names: Names<'_>,
) -> Result<Piece, Complaint> {
    if let Some(limit) = name.strip_prefix("limit.") {
        return names.limit(limit, &span).map(Piece::Limit);
    }
    if name.contains('.') {
        return names.fact(name, &span).map(|(slot, _)| Piece::Fact(slot));
    }
    match names.above(name) {
        Some((up, _)) => Ok(Piece::Name(up)),
        None => {
            let scope = || names.subject.scope().map(Subject::name);
            let help = match nearest(name, scope()) {
                Some(near) => format!("write `{{{near}}}`"),
                None => format!(
                    "in scope are {}; `{{{{` stands for `{{`",
                    scope().collect::<Vec<_>>().join(", ")
                ),
            };
            let message = format!("`{{{name}}}` names nothing");
            Err(Complaint::new(span, message).help(help))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{BitRate, Origin, PerSecond, Value, device, port};

    fn parse(text: &str) -> Result<Template, Complaint> {
        let limits = [("rate".into(), Value::PerSecond(PerSecond(1.0)))];
        Template::parse(
            text,
            Names {
                subject: Subject::Port,
                limits: &limits,
            },
        )
    }

    #[test]
    fn placeholders_are_filled() {
        let mut facts = Facts::new();
        let node = facts.new_node("n1");
        let d = facts.instance(Subject::Device, node, "mlx5_0");
        let p = facts.instance(Subject::Port, d, "mlx5_0/1");
        let rate = BitRate(200_000_000_000);
        facts.set(p, port::RATE, Fact::Known(rate, Origin::Stated));
        facts.set(
            d,
            device::PCI,
            Fact::Known("81:00.0".into(), Origin::Stated),
        );
        let limits = [("rate".into(), Value::PerSecond(PerSecond(1.0)))];
        for (text, expected) in [
            ("{port} of {device} on {node}", "mlx5_0/1 of mlx5_0 on n1"),
            ("{port.rate}, not {port.max_rate}", "200 Gb/s, not unknown"),
            ("mlxlink -d {device.pci}\n2.", "mlxlink -d 81:00.0\n2."),
            ("above {limit.rate}", "above 1 /s"),
            ("{{{port}}} }}{{", "{mlx5_0/1} }{"),
            ("", ""),
        ] {
            assert_eq!(parse(text).unwrap().render(&facts, p, &limits), expected);
        }
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for (text, message) in [
            ("{prot}", "`{prot}` names nothing"),
            ("{port.rat}", "there is no fact `port.rat`"),
            ("{gid.type}", "`gid.type` is out of scope"),
            ("{limit.rat}", "`limit.rat` is not stated"),
            ("{", "a placeholder does not end"),
            ("{port", "a placeholder does not end"),
            ("{port\n}", "a placeholder does not end"),
            ("{a{b}", "a placeholder does not end"),
            ("a }", "`}` closes no placeholder"),
            ("{}", "`{}` names nothing"),
        ] {
            assert_eq!(parse(text).unwrap_err().message, message, "{text}");
        }
    }
}
