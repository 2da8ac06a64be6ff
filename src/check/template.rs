//! Sentences with placeholders: `{port}` is the port's name, `{port.rate}` a fact of it, `{event.count times}` a number of times,
//! `{limit.rate}` a limit. A part in `[[` and `]]` is left out if a fact in it is not known.

use std::fmt::Write;

use super::condition::{Limit, Lineage, Slot};
use super::diagnostic::{Complaint, nearest};
use super::names::Names;
use crate::fact::{Fact, Facts, Id, Subject, Value};

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
    /// The name of the instance this many steps up.
    Name(u8),
    Fact(Slot),
    /// `once`, `3 times`.
    Times(Slot),
    Limit(u16),
    /// So many of the following pieces stand only if their facts are known.
    Optional(usize),
}

/// Items of a list that commands name, each in its own.
const ITEMS: usize = 64;

impl Template {
    /// The text as it is written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The facts that the text names.
    pub fn facts(&self) -> impl Iterator<Item = (Subject, usize)> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Fact(slot) | Piece::Times(slot) => Some((slot.subject, usize::from(slot.index))),
            _ => None,
        })
    }

    /// Reads a text.
    pub(super) fn parse(source: &str, names: Names<'_>) -> Result<Self, Complaint> {
        let mut pieces = Vec::with_capacity(8);
        let (mut from, mut scanned) = (0, 0);
        let mut optional = None;
        while let Some(at) = source[scanned..]
            .find(['{', '}', '[', ']'])
            .map(|at| scanned + at)
        {
            let rest = &source[at..];
            if rest.starts_with(['[', ']']) {
                scanned = at + 1;
                let opens = rest.starts_with("[[") && optional.is_none();
                if opens || rest.starts_with("]]") && optional.is_some() {
                    if from < at {
                        pieces.push(Piece::Text(from..at));
                    }
                    match optional.take() {
                        Some(begin) => pieces[begin] = Piece::Optional(pieces.len() - begin - 1),
                        None => {
                            optional = Some(pieces.len());
                            pieces.push(Piece::Optional(0));
                        }
                    }
                    from = at + 2;
                    scanned = from;
                }
                continue;
            }
            if rest.starts_with("{{") || rest.starts_with("}}") {
                // The first of the two stands, the second is skipped.
                pieces.push(Piece::Text(from..at + 1));
                from = at + 2;
                scanned = from;
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
            scanned = from;
        }
        if optional.is_some() {
            let end = source.len();
            return Err(Complaint::new(
                end..end,
                "a part that may be left out does not end: `]]`",
            ));
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
        self.with_item(facts, id, limits, None).0
    }

    /// The text for each item of the longest list that a command in it (between backquotes) names: the command names that item alone.
    pub fn render_each(&self, facts: &Facts, id: Id, limits: &[Limit]) -> Vec<String> {
        let (first, items) = self.with_item(facts, id, limits, Some(0));
        let others = (1..items.min(ITEMS)).map(|at| self.with_item(facts, id, limits, Some(at)).0);
        std::iter::once(first).chain(others).collect()
    }

    /// The text with this item of each list in its commands, and how many items the longest has.
    fn with_item(
        &self,
        facts: &Facts,
        id: Id,
        limits: &[Limit],
        item: Option<usize>,
    ) -> (String, usize) {
        let lineage = Lineage::of(facts, id);
        let mut items = 0;
        let mut text = String::with_capacity(self.source.len() + 32);
        let known = |slot: &Slot| slot.fact(facts, lineage).and_then(Fact::known);
        let mut left_out = 0;
        for (at, piece) in self.pieces.iter().enumerate() {
            if at < left_out {
                continue;
            }
            // Writing to a `String` cannot fail.
            let _ = match piece {
                Piece::Text(range) => text.write_str(&self.source[range.clone()]),
                Piece::Name(up) => text.write_str(facts.name(lineage.up(*up))),
                Piece::Fact(slot) => match known(slot) {
                    Some(Value::Texts(list))
                        if let (Some(at), Some(last)) = (item, list.last())
                            && text.matches('`').count() % 2 == 1 =>
                    {
                        items = items.max(list.len());
                        text.write_str(list.get(at).unwrap_or(last))
                    }
                    Some(value) => write!(text, "{value}"),
                    None => match slot.least(facts, lineage) {
                        Some(least) => write!(text, "at least {least}"),
                        None => text.write_str("unknown"),
                    },
                },
                Piece::Times(slot) => match known(slot) {
                    Some(Value::Count(1)) => text.write_str("once"),
                    Some(value) => write!(text, "{value} times"),
                    None => text.write_str("an unknown number of times"),
                },
                Piece::Optional(length) => {
                    let part = at + 1..at + 1 + length;
                    let is_gap = |piece: &Piece| matches!(piece, Piece::Fact(slot) | Piece::Times(slot) if known(slot).is_none());
                    if self.pieces[part.clone()].iter().any(is_gap) {
                        left_out = part.end;
                    }
                    Ok(())
                }
                Piece::Limit(at) => match limits.get(usize::from(*at)) {
                    Some((_, value)) => write!(text, "{value}"),
                    None => text.write_str("unknown"),
                },
            };
        }
        (text, items)
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
    if let Some(name) = name.strip_suffix(" times") {
        return names.fact(name, &span).map(|(slot, _)| Piece::Times(slot));
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
    use std::sync::Arc;

    use crate::fact::{BitRate, Origin, PerSecond, device, node, port};

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
            (
                "at {port.rate}[[, not {port.max_rate}]]; [x]",
                "at 200 Gb/s; [x]",
            ),
            ("at[[ {port.rate}]][[ {port}]]", "at 200 Gb/s mlx5_0/1"),
            ("a[1] b]] c", "a[1] b]] c"),
            ("", ""),
        ] {
            assert_eq!(parse(text).unwrap().render(&facts, p, &limits), expected);
        }
    }

    #[test]
    fn a_command_names_each_item_of_a_list_alone() {
        let mut facts = Facts::new();
        let node = facts.new_node("n1");
        let d = facts.instance(Subject::Device, node, "mlx5_0");
        let p = facts.instance(Subject::Port, d, "mlx5_0/1");
        let list: Arc<[Arc<str>]> = ["none".into(), "pfc".into()].into();
        facts.set(node, node::NCCL_COPIES, Fact::Known(list, Origin::Stated));
        let text = "of {node.nccl_copies}: `ls {node.nccl_copies}`, `ls {port}`";
        let each = parse(text).unwrap().render_each(&facts, p, &[]);
        let of = |item: &str| format!("of none, pfc: `ls {item}`, `ls mlx5_0/1`");
        assert_eq!(each, [of("none"), of("pfc")]);
        let one = parse("`ls {port}`").unwrap().render_each(&facts, p, &[]);
        assert_eq!(one, ["`ls mlx5_0/1`"]);
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
            ("a [[b", "a part that may be left out does not end: `]]`"),
        ] {
            assert_eq!(parse(text).unwrap_err().message, message, "{text}");
        }
    }
}
