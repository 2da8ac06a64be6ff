//! What tools complain of in words that no reader of their output knows.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Output, OutputLine, complaint, self_tests};
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Fact, Facts, Gap, Id, Origin, Value};
use crate::tool_output;

/// Commands whose complaints are stated: a reader reads a few.
const MOST: usize = 16;

/// States the first complaint of each command, unless a fact was read from its line.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    let read = ReadLines::of(facts, node);
    let mut complaints: Vec<(String, OutputLine<'_>)> = Vec::new();
    for output in outputs {
        let first = output.lines().next().map(|line| line.number);
        // The last line of a group of the kernel's stands for the others.
        if tool_output::is_of_kernel(&output.argv) && read.has_any(output, first) {
            continue;
        }
        let kept = complaint::lines(&output.argv, &output.lines);
        let numbers: Vec<u64> = kept.iter().map(|(number, _)| *number).collect();
        let is_unread = |line: &OutputLine<'_>| {
            numbers.contains(&line.number) && !read.has(output, line, first)
        };
        let command = output.argv.join(" ");
        if let Some(line) = output.lines().find(is_unread) {
            complaints.push((command, line));
        }
    }
    for (command, line) in complaints.into_iter().take(MOST) {
        let kernel = tool_output::kernel_line(line.text).map(|(_, words)| words);
        let words = kernel.unwrap_or_else(|| from_program(line.text));
        self_tests::add(
            facts,
            node,
            ToolResultKind::Complained,
            &command,
            (&line, words.trim()),
        );
    }
}

/// A record of syslog from its program on: `Nov 12 07:01:22 n7 slurmd[3120]: error: …` without the
/// time and the host.
fn from_program(text: &str) -> &str {
    let head = text.split_once("]: ").map_or("", |(head, _)| head);
    let at = head.rfind(' ').filter(|at| head[..*at].contains(':'));
    at.map_or(text, |at| &text[at + 1..])
}

/// The lines that facts were read from, each with the texts among these.
struct ReadLines(HashMap<(Arc<str>, u64), Vec<Arc<str>>>);

impl ReadLines {
    fn of(facts: &Facts, node: Id) -> Self {
        let mut all: HashMap<(Arc<str>, u64), Vec<Arc<str>>> = HashMap::new();
        for fact in facts.stated(node) {
            let (Fact::Known(_, origin) | Fact::Unknown(Gap { origin, .. })) = fact;
            let Origin::Logged(line) = origin else {
                continue;
            };
            let texts = all.entry((Arc::clone(&line.file), line.line)).or_default();
            if let Some(Value::Text(text)) = fact.known() {
                texts.push(Arc::clone(text));
            }
        }
        ReadLines(all)
    }

    /// Whether a reader knows any line of the output.
    fn has_any(&self, output: &Output, first: Option<u64>) -> bool {
        output.lines().any(|line| self.has(output, &line, first))
    }

    /// Whether a reader knows the line. The first one stands for what the whole output says, too:
    /// only what quotes it has read it.
    fn has(&self, output: &Output, line: &OutputLine<'_>, first: Option<u64>) -> bool {
        let Some(texts) = self.0.get(&(Arc::clone(&output.file), line.number)) else {
            return false;
        };
        let is_quoted = |text: &Arc<str>| text.contains(' ') && line.text.contains(&**text);
        first != Some(line.number) || texts.iter().any(is_quoted)
    }
}
