//! The lines of a remedy.

use crate::sentence::shell::Command;
use crate::sentence::{Sentence, Span};
use crate::whole::remedy::INDENT;

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
    use crate::sentence::with_commands as sentence;

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
