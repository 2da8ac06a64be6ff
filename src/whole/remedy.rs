//! One remedy for several subjects.

use crate::sentence::shell::Command;
use crate::sentence::{Sentence, Span};

/// The commands of a remedy that are written out; a reader sees from these how the others read.
const COMMANDS: usize = 8;

/// The same where each command has a line.
const LINES: usize = 64;

/// The subjects whose commands are looked at: a node has fewer, a cluster's findings name nodes.
pub(super) const SUBJECTS: usize = 256;

/// Words before commands that tell no more than what these are for.
const INTRODUCTION: usize = 48;

/// What stands before a command that has a line of its own.
pub const INDENT: &str = "   ";

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

/// A remedy, and the steps of another that are not in it, numbered on.
pub fn with_steps_of(remedy: &Sentence, other: &Sentence) -> Sentence {
    let mut steps = steps(remedy);
    for step in self::steps(other) {
        if !steps.iter().any(|known| says_as_much(known, &step)) {
            steps.push(step);
        }
    }
    let mut spans: Vec<Span> = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        for (line, sentence) in step.iter().enumerate() {
            let mut before = if at == 0 && line == 0 { "" } else { "\n" }.to_owned();
            if line == 0 {
                before.push_str(&format!("{}. ", at + 1));
            }
            // What stands before a command in one text tells whether the line is a command.
            let rest = match sentence.spans() {
                [Span::Text(text), rest @ ..] => {
                    before.push_str(text);
                    rest
                }
                all => all,
            };
            spans.push(Span::Text(before.into()));
            spans.extend_from_slice(rest);
        }
    }
    Sentence::new(spans)
}

/// Whether a step has the words of another, or its commands where the other only introduces these.
fn says_as_much(known: &[Sentence], step: &[Sentence]) -> bool {
    let texts = |step: &[Sentence]| step.iter().map(Sentence::to_string).collect::<Vec<_>>();
    let commands = |step: &[Sentence]| {
        let lines = step.iter().skip(1).flat_map(Sentence::commands);
        lines.cloned().collect::<Vec<Command>>()
    };
    let asked = commands(step);
    let introduces = !asked.is_empty() && step[0].letters() <= INTRODUCTION;
    texts(known) == texts(step) || introduces && commands(known) == asked
}

/// The steps of a remedy, each its lines without the number. What stands before the first is a step.
fn steps(remedy: &Sentence) -> Vec<Vec<Sentence>> {
    let mut steps: Vec<Vec<Sentence>> = Vec::new();
    for line in remedy.lines() {
        match (without_number(&line), steps.last_mut()) {
            (Some(line), _) => steps.push(vec![line]),
            (None, Some(step)) => step.push(line),
            (None, None) => steps.push(vec![line]),
        }
    }
    steps
}

/// The line that begins a step without its number.
fn without_number(line: &Sentence) -> Option<Sentence> {
    let (first, rest) = line.spans().split_first()?;
    let Span::Text(text) = first else {
        return None;
    };
    let (number, words) = text.split_once(". ")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let words = Span::Text(words.to_owned().into());
    is_number.then(|| [words].into_iter().chain(rest.iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentence::with_commands as sentence;

    #[test]
    fn the_steps_of_two_cases_are_one_list_and_each_stands_once() {
        let hot = sentence(
            "1. (operator) Drain the node.\n2. (operator) Look at the fans:\n   `ipmitool sdr`",
        );
        let worn = sentence(
            "1. (operator) Drain the node.\n2. (operator) Replace it:\n   `nvidia-smi -q`",
        );
        assert_eq!(
            with_steps_of(&hot, &worn).to_string(),
            "1. (operator) Drain the node.\n2. (operator) Look at the fans:\n   `ipmitool sdr`\n3. (operator) Replace it:\n   `nvidia-smi -q`"
        );
        assert_eq!(with_steps_of(&hot, &hot).to_string(), hot.to_string());
        let other_words = sentence("1. (operator) Compare the fans:\n   `ipmitool sdr`");
        assert_eq!(
            with_steps_of(&hot, &other_words).to_string(),
            hot.to_string()
        );
        let in_spans = Sentence::new(vec![
            Span::Text("1. (operator) ".into()),
            Span::Text("Drain the node.".into()),
        ]);
        assert_eq!(with_steps_of(&hot, &in_spans).to_string(), hot.to_string());
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
}
