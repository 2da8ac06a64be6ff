//! One remedy for several subjects, and its lines.

use crate::sentence::shell::Command;
use crate::sentence::{Sentence, Span};

/// The commands of a remedy that are written out; a reader sees from these how the others read.
const COMMANDS: usize = 8;

/// The same where each command has a line.
const LINES: usize = 64;

/// The subjects whose commands are looked at: a node has fewer, a cluster's findings name nodes.
pub(super) const SUBJECTS: usize = 256;

/// What stands before a command that has a line of its own.
const INDENT: &str = "   ";

/// One remedy for several subjects, and items of lists: a command that names one stands once for
/// each of them. The words around are the first subject's.
pub(super) fn for_each_subject(mut rendered: impl Iterator<Item = Sentence>) -> Sentence {
    let first = rendered.next().unwrap_or_default();
    let mut all: Vec<Vec<Command>> = first.commands().map(|one| vec![one.clone()]).collect();
    for other in rendered {
        // Without an optional part its commands are others.
        if other.commands().count() != all.len() {
            continue;
        }
        for (known, command) in all.iter_mut().zip(other.commands()) {
            if !known.contains(command) {
                known.push(command.clone());
            }
        }
    }
    let mut spans = Vec::new();
    let mut commands = all.into_iter();
    for span in first.spans() {
        match span {
            Span::Command(_) => {
                let is_line = match spans.last() {
                    Some(Span::Text(before)) => before.ends_with(INDENT),
                    _ => false,
                };
                joined(&mut spans, commands.next().unwrap_or_default(), is_line);
            }
            text => spans.push(text.clone()),
        }
    }
    Sentence::new(spans)
}

/// Adds several commands in the place of one. One on a line of its own has the others below it.
fn joined(spans: &mut Vec<Span>, mut all: Vec<Command>, is_line: bool) {
    if all.len() > 1
        && let Some(one) = Command::leaving_all_out(&all)
    {
        all = vec![one];
    }
    let between = if is_line { "\n   " } else { ", " };
    let most = if is_line { LINES } else { COMMANDS };
    let left_out = all.len().saturating_sub(most);
    if is_line {
        all.truncate(most);
    } else if left_out > 0 {
        all.drain(most - 1..all.len() - 1);
    }
    let last = all.len().saturating_sub(1);
    for (at, command) in all.into_iter().enumerate() {
        if at > 0 {
            let skips = at == last && left_out > 0 && !is_line;
            spans.push(Span::Text(if skips { ", … " } else { between }.into()));
        }
        spans.push(Span::Command(command));
    }
}

/// A line of a remedy.
#[derive(Debug, PartialEq)]
pub(super) enum RemedyLine {
    /// What to do.
    Words(Sentence),
    /// A command to be pasted, and words behind it.
    Command(Command, String),
}

/// The lines of a remedy. A command that cannot be pasted stands among the words.
pub(super) fn lines(fix: &Sentence) -> Vec<RemedyLine> {
    let mut lines = Vec::new();
    for line in fix.lines() {
        let is_line =
            matches!(line.spans(), [Span::Text(before), Span::Command(_), ..] if before == INDENT);
        if !is_line || line.commands().any(Command::is_by_hand) {
            lines.push(RemedyLine::Words(line));
            continue;
        }
        for span in &line.spans()[1..] {
            match (span, lines.last_mut()) {
                (Span::Command(command), _) => {
                    lines.push(RemedyLine::Command(command.clone(), String::new()));
                }
                (Span::Text(text), Some(RemedyLine::Command(_, after))) => {
                    after.push_str(text.trim_matches([',', ' ']));
                }
                _ => {}
            }
        }
    }
    lines
}

/// A command as a line to be pasted: what follows it is a comment.
pub(super) fn pasted(command: &Command, after: &str) -> String {
    match after {
        "" => command.text().to_owned(),
        after => format!("{}   # {after}", command.text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(text: &str) -> Sentence {
        let spans = text.split('`').enumerate().map(|(at, part)| match at % 2 {
            0 => Span::Text(part.to_owned().into()),
            _ => Span::Command(Command::of_text(part)),
        });
        Sentence::new(spans.collect())
    }

    #[test]
    fn a_command_stands_for_each_subject() {
        let fix = |device: &str| {
            sentence(&format!(
                "1. See it: `lspci`.\n2. Reset it: `mlxfwreset -d {device} reset`, or `NCCL_IB_HCA=^{device}`."
            ))
        };
        let both = for_each_subject(["17:00.0", "18:00.0", "17:00.0"].map(fix).into_iter());
        assert_eq!(
            both.to_string(),
            "1. See it: `lspci`.\n2. Reset it: `mlxfwreset -d 17:00.0 reset`, `mlxfwreset -d 18:00.0 reset`, or `NCCL_IB_HCA=^17:00.0,18:00.0`."
        );
        let many = for_each_subject((0..20).map(|n| sentence(&format!("`x {n}`"))));
        assert_eq!(
            many.to_string(),
            "`x 0`, `x 1`, `x 2`, `x 3`, `x 4`, `x 5`, `x 6`, … `x 19`"
        );
    }

    #[test]
    fn a_command_on_a_line_of_its_own_is_pasted() {
        let fix = sentence("1. Look:\n   `a 1`, or\n   `b`, `c`\n2. Not `d`.");
        let lines = lines(&fix);
        let shown = lines.iter().map(|line| match line {
            RemedyLine::Words(words) => format!("words {words}"),
            RemedyLine::Command(command, after) => pasted(command, after),
        });
        let expected = [
            "words 1. Look:",
            "a 1   # or",
            "b",
            "c",
            "words 2. Not `d`.",
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        let hostile = sentence("   `ip link set \u{1b}[2J up`");
        assert!(matches!(
            &super::lines(&hostile)[..],
            [RemedyLine::Words(_)]
        ));
    }
}
