//! Sentences with placeholders: `{port}` is the port's name, `{port.rate}` a fact of it, `{event.count times}` a number of times,
//! `{limit.rate}` a limit, `{port.netdev or NETDEV}` a fact or, where it is not known, a word for the reader to replace. A part in `[[` and `]]` is left out if a fact in it is not known. At a `|` the sentence may end: what stands before
//! the first one is its predicate, which no format leaves out.

use super::condition::{Limit, Lineage, Slot};
use super::diagnostic::{Complaint, nearest};
use super::names::Names;
use super::naming::SentenceDraft;
use crate::fact::{Fact, Facts, Id, Subject, Value, host};
use crate::sentence::shell::{Command, CommandLine};
use crate::sentence::{Sentence, Span};

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
    /// A fact; whether its value is itself a command.
    Fact(Slot, bool),
    /// A fact, or this word of the source where it is not known.
    FactOr(Slot, std::ops::Range<usize>),
    /// `once`, `3 times`.
    Times(Slot),
    Limit(u16),
    /// So many of the following pieces stand only if their facts are known.
    Optional(usize),
    /// So many of the following pieces are one command, which stands here in the source.
    Command(usize, std::ops::Range<usize>),
    /// The sentence may end here, before this place of the source.
    MayEnd(usize),
}

/// Items of a list that commands name, each in its own.
const ITEMS: usize = 64;

/// What the pieces of a template are filled from.
struct Filling<'f> {
    facts: &'f Facts,
    lineage: Lineage,
    limits: &'f [Limit],
    /// Which item of a list a command names.
    item: usize,
}

impl<'f> Filling<'f> {
    fn of_item(facts: &'f Facts, id: Id, limits: &'f [Limit], item: usize) -> Self {
        Filling {
            facts,
            lineage: Lineage::of(facts, id),
            limits,
            item,
        }
    }

    fn known(&self, slot: &Slot) -> Option<&Value> {
        slot.fact(self.facts, self.lineage).and_then(Fact::known)
    }

    /// The item of a list that a command names, or a value that is none, in words.
    fn item_words(&self, slot: &Slot, piece: &Piece) -> String {
        match self.known(slot) {
            Some(Value::Texts(list)) if !list.is_empty() => {
                list[self.item.min(list.len() - 1)].to_string()
            }
            _ => self.words(piece),
        }
    }

    /// A piece of one value, in words.
    fn words(&self, piece: &Piece) -> String {
        match piece {
            Piece::Name(up) => self.facts.name(self.lineage.up(*up)).to_owned(),
            Piece::Fact(slot, _) | Piece::FactOr(slot, _) => match self.known(slot) {
                Some(value) => value.to_string(),
                None => match slot.least(self.facts, self.lineage) {
                    Some(least) => format!("at least {least}"),
                    None => "unknown".into(),
                },
            },
            Piece::Times(slot) => match self.known(slot) {
                Some(Value::Count(1)) => "once".into(),
                Some(value) => format!("{value} times"),
                None => "an unknown number of times".into(),
            },
            Piece::Limit(at) => match self.limits.get(usize::from(*at)) {
                Some((_, value)) => value.to_string(),
                None => "unknown".into(),
            },
            _ => String::new(),
        }
    }
}

impl Template {
    /// The text as it is written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The sentence with its placeholders in it.
    pub fn as_written(&self) -> Sentence {
        let mut spans = Vec::new();
        let mut from = 0;
        for piece in &self.pieces {
            let (range, span) = match piece {
                Piece::Command(_, inside) => {
                    let command = Command::of_text(&self.source[inside.clone()]);
                    // The backquotes stand around it.
                    (inside.start - 1..inside.end + 1, Span::Command(command))
                }
                Piece::MayEnd(at) => (*at..at + 1, Span::MayEnd),
                _ => continue,
            };
            spans.push(Span::Text(self.source[from..range.start].to_owned().into()));
            spans.push(span);
            from = range.end;
        }
        spans.push(Span::Text(self.source[from..].to_owned().into()));
        Sentence::new(spans)
    }

    /// The letters of ours that no format leaves out: of the predicate, without its optional parts.
    pub fn predicate_letters(&self) -> usize {
        let mut letters = 0;
        let mut at = 0;
        while let Some(piece) = self.pieces.get(at) {
            at += 1;
            match piece {
                Piece::MayEnd(_) => break,
                Piece::Optional(length) => at += length,
                Piece::Text(range) => letters += self.source[range.clone()].chars().count(),
                _ => {}
            }
        }
        letters
    }

    /// The facts that the text names.
    pub fn facts(&self) -> impl Iterator<Item = (Subject, usize)> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Fact(slot, _) | Piece::FactOr(slot, _) | Piece::Times(slot) => {
                Some((slot.subject, usize::from(slot.index)))
            }
            _ => None,
        })
    }

    /// Reads a text.
    pub(super) fn parse(source: &str, names: Names<'_>) -> Result<Self, Complaint> {
        let mut pieces = Vec::with_capacity(8);
        let (mut from, mut scanned) = (0, 0);
        // Where the pieces of the optional part and of the command that are open begin.
        let (mut optional, mut command) = (None, None);
        while let Some(at) = source[scanned..]
            .find(['{', '}', '[', ']', '`', '|'])
            .map(|at| scanned + at)
        {
            let rest = &source[at..];
            let opens = rest.starts_with("[[") && optional.is_none();
            let closes = rest.starts_with("]]") && optional.is_some();
            let is_mark = match rest.as_bytes()[0] {
                // To a shell they mean something else.
                b'[' | b']' => command.is_none() && (opens || closes),
                b'|' => command.is_none(),
                _ => true,
            };
            if !is_mark {
                scanned = at + 1;
                continue;
            }
            if ["{{", "}}", "||"]
                .iter()
                .any(|double| rest.starts_with(double))
            {
                // The first of the two stands, the second is skipped.
                pieces.push(Piece::Text(from..at + 1));
                from = at + 2;
                scanned = from;
                continue;
            }
            if from < at {
                pieces.push(Piece::Text(from..at));
            }
            let length = match rest.as_bytes()[0] {
                b'`' => {
                    let begin = command.map_or(at + 1, |(_, begin)| begin);
                    let of_length = |length| Piece::Command(length, begin..at);
                    let open = group(&mut pieces, command.map(|(piece, _)| piece), of_length);
                    command = open.map(|piece| (piece, begin));
                    1
                }
                b'[' | b']' => {
                    optional = group(&mut pieces, optional, Piece::Optional);
                    2
                }
                b'|' => {
                    pieces.push(Piece::MayEnd(at));
                    1
                }
                b'}' => {
                    return Err(Complaint::new(at..at + 1, "`}` closes no placeholder")
                        .help("write `}}` for the character itself".to_owned()));
                }
                _ => {
                    let end = rest[1..].find(['{', '}', '\n']);
                    let Some(length) = end.filter(|l| rest[1 + l..].starts_with('}')) else {
                        return Err(Complaint::new(at..at + 1, "a placeholder does not end")
                            .help("write `{{` for the character itself".to_owned()));
                    };
                    let name = &rest[1..=length];
                    pieces.push(placeholder(name, at + 1..at + 1 + length, names)?);
                    length + 2
                }
            };
            from = at + length;
            scanned = from;
        }
        let part = optional.map(|_| "a part that may be left out does not end: `]]`");
        let backquote = command.map(|_| "a command does not end: a backquote is missing");
        if let Some(what) = part.or(backquote) {
            return Err(Complaint::new(source.len()..source.len(), what));
        }
        if from < source.len() {
            pieces.push(Piece::Text(from..source.len()));
        }
        Ok(Template {
            source: source.into(),
            pieces: pieces.into(),
        })
    }

    /// The sentence about an instance; what is not known reads `unknown`.
    pub fn render(&self, facts: &Facts, id: Id, limits: &[Limit]) -> Sentence {
        let filling = Filling::of_item(facts, id, limits, 0);
        self.filled(SentenceDraft::about(facts, id), &filling)
    }

    /// The remedy for each item of the longest list that a command in it names: the command names that item alone.
    pub fn render_each(&self, facts: &Facts, id: Id, limits: &[Limit]) -> Vec<Sentence> {
        let items = self.items(facts, Lineage::of(facts, id)).clamp(1, ITEMS);
        (0..items)
            .map(|item| {
                let draft = SentenceDraft::about(facts, id).with_addresses();
                self.filled(draft, &Filling::of_item(facts, id, limits, item))
            })
            .collect()
    }

    /// How many items the longest list in a command has.
    fn items(&self, facts: &Facts, lineage: Lineage) -> usize {
        let mut longest = 0;
        let mut command = 0..0;
        for (at, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Command(length, _) => command = at..at + 1 + length,
                Piece::Fact(slot, _) | Piece::FactOr(slot, _) if command.contains(&at) => {
                    let value = slot.fact(facts, lineage).and_then(Fact::known);
                    if let Some(Value::Texts(list)) = value {
                        longest = longest.max(list.len());
                    }
                }
                _ => {}
            }
        }
        longest
    }

    fn filled(&self, mut draft: SentenceDraft<'_>, filling: &Filling<'_>) -> Sentence {
        let mut at = 0;
        // A host without a name tells nothing in front of its line.
        if let [Piece::Name(up), Piece::Text(range), ..] = &*self.pieces
            && filling.facts.name(filling.lineage.up(*up)) == host::UNNAMED
            && let Some(words) = self.source[range.clone()].strip_prefix(": ")
        {
            draft.words(words);
            at = 2;
        }
        while let Some(piece) = self.pieces.get(at) {
            at += 1;
            match piece {
                Piece::Text(range) => draft.words(&self.source[range.clone()]),
                Piece::MayEnd(_) => draft.span(Span::MayEnd),
                Piece::Optional(length) => {
                    let is_gap = |piece: &Piece| matches!(piece, Piece::Fact(slot, _) | Piece::Times(slot) if filling.known(slot).is_none());
                    if self.pieces[at..at + length].iter().any(is_gap) {
                        at += length;
                    }
                }
                Piece::Command(length, _) => {
                    let pieces = &self.pieces[at..at + length];
                    draft.span(Span::Command(self.command(pieces, filling)));
                    at += length;
                }
                Piece::Name(up) => draft.instance(filling.lineage.up(*up)),
                Piece::Fact(slot, _) | Piece::FactOr(slot, _)
                    if let Some(value) = filling.known(slot) =>
                {
                    draft.value(value, slot.name());
                }
                Piece::FactOr(_, word) => draft.words(&self.source[word.clone()]),
                value => draft.span(Span::Value(filling.words(value).into(), None)),
            }
        }
        Sentence::new(draft.into_spans())
    }

    fn command(&self, pieces: &[Piece], filling: &Filling<'_>) -> Command {
        let mut line = CommandLine::new();
        for piece in pieces {
            match piece {
                Piece::Text(range) => line.syntax(&self.source[range.clone()]),
                Piece::Fact(slot, true) => {
                    line.command(&Command::of_text(&filling.item_words(slot, piece)));
                }
                Piece::Fact(slot, false) => line.word(&filling.item_words(slot, piece)),
                Piece::FactOr(slot, word) if filling.known(slot).is_none() => {
                    line.syntax(&self.source[word.clone()]);
                }
                Piece::FactOr(slot, _) => line.word(&filling.item_words(slot, piece)),
                value => line.word(&filling.words(value)),
            }
        }
        line.end()
    }
}

/// Opens a group of pieces, or closes the one that begins at `open`; where the open one begins.
fn group(
    pieces: &mut Vec<Piece>,
    open: Option<usize>,
    of_length: impl FnOnce(usize) -> Piece,
) -> Option<usize> {
    match open {
        Some(begin) => pieces[begin] = of_length(pieces.len() - begin - 1),
        None => pieces.push(of_length(0)),
    }
    open.is_none().then(|| pieces.len() - 1)
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
    if let Some((fact, word)) = name.split_once(" or ") {
        let word = span.end - word.len()..span.end;
        let of_fact = span.start..span.start + fact.len();
        let slot = names.fact(fact, &of_fact).map(|(slot, _)| slot);
        return slot.map(|slot| Piece::FactOr(slot, word));
    }
    if name.contains('.') {
        return names
            .fact(name, &span)
            .map(|(slot, schema)| Piece::Fact(slot, schema.is_command));
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
            ("the port at {device.pci}.", "the port at mlx5_0 (81:00.0)."),
            ("above {limit.rate}", "above 1 /s"),
            ("{{{port}}} }}{{", "{mlx5_0/1} }{"),
            (
                "at {port.rate}[[, not {port.max_rate}]]; [x]",
                "at 200 Gb/s; [x]",
            ),
            (
                "at {port.rate}|; {port}| `a|b`",
                "at 200 Gb/s; mlx5_0/1 `a|b`",
            ),
            ("a || b", "a | b"),
            ("at[[ {port.rate}]][[ {port}]]", "at 200 Gb/s mlx5_0/1"),
            ("a[1] b]] c", "a[1] b]] c"),
            (
                "`x {port.rate or RATE}` {port.max_rate or MOST}",
                "`x '200 Gb/s'` MOST",
            ),
            ("`x {port.netdev or NETDEV}`", "`x NETDEV`"),
            ("", ""),
        ] {
            let said = parse(text).unwrap().render(&facts, p, &limits);
            assert_eq!(said.to_string(), expected);
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
        let each = |text: &str| {
            let each = parse(text).unwrap().render_each(&facts, p, &[]);
            each.iter().map(Sentence::to_string).collect::<Vec<_>>()
        };
        let of = |item: &str| format!("of none, pfc: `ls {item}`, `ls mlx5_0/1`");
        assert_eq!(each(text), [of("none"), of("pfc")]);
        assert_eq!(each("`ls {port}`"), ["`ls mlx5_0/1`"]);
    }

    #[test]
    fn a_predicate_ends_at_the_first_mark_outside_of_commands() {
        for (text, letters, written) in [
            ("{port} is `a|b`|; x|; y", 4 + 3, "{port} is `a|b`; x; y"),
            ("ä[[ {port.rate}]]", 1, "ä[[ {port.rate}]]"),
        ] {
            let template = parse(text).unwrap();
            assert_eq!(template.predicate_letters(), letters, "{text}");
            assert_eq!(template.as_written().to_string(), written);
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
            ("a `b", "a command does not end: a backquote is missing"),
            ("a [[b", "a part that may be left out does not end: `]]`"),
        ] {
            assert_eq!(parse(text).unwrap_err().message, message, "{text}");
        }
    }
}
