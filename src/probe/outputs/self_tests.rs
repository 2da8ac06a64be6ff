//! Tools that test something and say themselves what came of it: ping(8), DCGM's diagnosis and
//! health report, systemd's list of failed units.

use std::sync::Arc;

use super::{Output, OutputLine};
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Bytes, Facts, Id, Percent, Subject, tool_result};
use crate::probe::service;

/// States a result, with the tool's own words.
pub(super) fn add(
    facts: &mut Facts,
    node: Id,
    kind: ToolResultKind,
    about: &str,
    (line, words): (&OutputLine<'_>, &str),
) -> Id {
    // Of one thing several results can be told.
    let known = facts.find(Subject::ToolResult, node, about);
    let other = known.filter(|id| facts.known(*id, tool_result::KIND) != Some(kind));
    let id = match other {
        Some(_) => {
            let name = format!("{about}, {}", kind.word());
            facts.instance(Subject::ToolResult, node, &name)
        }
        None => facts.instance(Subject::ToolResult, node, about),
    };
    facts.set(id, tool_result::KIND, line.known(kind));
    facts.set(id, tool_result::ABOUT, line.known(about.into()));
    facts.set(id, tool_result::WORDS, line.known(words.into()));
    id
}

/// The number behind a word: `mtu=1500`, `(mtu = 1500)`.
fn number_behind(text: &str, word: &str) -> Option<u64> {
    let (_, rest) = text.split_once(word)?;
    let digits = rest.trim_start_matches([' ', '=', ':']);
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().ok()
}

/// `PING 10.0.0.2 (10.0.0.2) 8972(9000) bytes of data.` and what follows, for each address.
pub(super) fn ping(output: &Output, facts: &mut Facts, node: Id) {
    // The command names the other end, too, where somebody left out the first line.
    let asked = output
        .operand()
        .filter(|_| !output.by_mark && output.tool() != "ibping");
    let mut of: Option<(Arc<str>, Option<u64>)> = asked.map(|to| (to.into(), None));
    let mut said: Option<(ToolResultKind, OutputLine<'_>, Option<u64>)> = None;
    for line in output.lines() {
        let text = line.text.trim();
        if let Some(rest) = text.strip_prefix("PING ") {
            let address = rest.split([' ', '(']).next().unwrap_or_default();
            let mut sizes = rest.split(['(', ')']).filter_map(|part| part.parse().ok());
            of = Some((address.into(), sizes.next_back()));
            said = None;
            continue;
        }
        // Of InfiniBand: the name of the other end stands below.
        let of_lid = text.strip_suffix(" ibping statistics ---");
        if let Some(about) = of_lid.and_then(|rest| rest.strip_prefix("--- ")) {
            of = Some((about.into(), None));
            continue;
        }
        let Some((about, size)) = &of else {
            continue;
        };
        let lower = text.to_ascii_lowercase();
        let kind = if lower.contains("message too long") {
            Some(ToolResultKind::TooLargeForInterface)
        } else if lower.contains("frag needed") || lower.contains("packet too big") {
            Some(ToolResultKind::TooLargeForHop)
        } else if lower.contains("unreachable") {
            Some(ToolResultKind::Unreachable)
        } else {
            None
        };
        if let (Some(kind), None) = (kind, &said) {
            said = Some((kind, line, number_behind(&lower, "mtu")));
        }
        let Some((lost, sent)) = statistics(text) else {
            continue;
        };
        let (kind, at, mtu) = match (said.take(), lost) {
            (Some(said), lost) if lost > 0.0 => said,
            (_, 0.0) => (ToolResultKind::Right, line, None),
            _ => (ToolResultKind::Lost, line, None),
        };
        let id = add(facts, node, kind, about, (&at, at.text.trim()));
        facts.set(id, tool_result::LOST, line.known(Percent(lost)));
        facts.set(id, tool_result::SENT, line.known(sent));
        if let Some(size) = size {
            facts.set(id, tool_result::SIZE, line.known(Bytes(*size)));
        }
        if let Some(mtu) = mtu {
            facts.set(id, tool_result::MTU, at.known(Bytes(mtu)));
        }
    }
    // Cut off before the statistics: what was refused was refused.
    if let (Some((about, size)), Some((kind, at, mtu))) = (of, said) {
        let id = add(facts, node, kind, &about, (&at, at.text.trim()));
        if let Some(size) = size {
            facts.set(id, tool_result::SIZE, at.known(Bytes(size)));
        }
        if let Some(mtu) = mtu {
            facts.set(id, tool_result::MTU, at.known(Bytes(mtu)));
        }
    }
}

/// `1000 packets transmitted, 962 received, 3.8% packet loss, time 5411ms`: the loss in percent, and
/// how many were sent.
fn statistics(text: &str) -> Option<(f64, u64)> {
    let (sent, rest) = text.split_once(" packets transmitted")?;
    let (before, _) = rest.split_once("% packet loss")?;
    let lost = before.rsplit([' ', ',']).next()?.parse().ok()?;
    Some((lost, sent.trim().parse().ok()?))
}

/// The cells of a row of a table drawn with `|`.
fn cells(text: &str) -> Option<(&str, &str)> {
    let row = text.trim().strip_prefix('|')?;
    let (name, rest) = row.split_once('|')?;
    Some((name.trim(), rest.trim_end_matches(['|', ' ']).trim()))
}

/// The word of a result: `Pass - All`, `GPU1: Fail`; empty for what is none.
fn verdict(result: &str) -> &'static str {
    let last = result.rsplit(": ").next().unwrap_or(result);
    ["Fail", "Pass", "Skip", "Warn", "Healthy"]
        .into_iter()
        .find(|word| result.starts_with(word) || last.starts_with(word))
        .unwrap_or("")
}

/// Whether a row of a health report is of all, or of the GPU of this number.
fn is_heading(name: &str) -> bool {
    name == "Overall Health" || name.parse::<u32>().is_ok()
}

/// A test that failed or warns, and the reason as far as it was read.
struct FailedTest<'p> {
    kind: ToolResultKind,
    name: &'p str,
    line: OutputLine<'p>,
    reason: String,
}

/// `dcgmi diag`, where a row is a test and its result, and the rows below it the reason; and
/// `dcgmi health -c`, which has a row for all, one for a GPU and one for what failed.
pub(super) fn dcgmi(output: &Output, facts: &mut Facts, node: Id) {
    let mut failed: Vec<FailedTest<'_>> = Vec::new();
    let mut test = "";
    let mut is_open = false;
    let mut tested = None;
    for line in output.lines() {
        let Some((name, result)) = cells(line.text) else {
            continue;
        };
        // "Warning: GPU1" from DCGM 4 on.
        let word = name.split(':').next().unwrap_or(name);
        let is_reason = matches!(word, "" | "Error" | "Warning" | "Info");
        if !is_reason {
            test = name.trim_start_matches(['-', '>', ' ']);
        }
        let verdict = verdict(result);
        // Another GPU may have passed the test that the rows above are of.
        let is_of_one_gpu = name.is_empty() && !result.starts_with(verdict);
        let kind = match verdict {
            "Fail" => Some(ToolResultKind::DiagnosisFailed),
            "Warn" => Some(ToolResultKind::DiagnosisWarned),
            _ => None,
        };
        if let Some(kind) = kind.filter(|_| !test.is_empty()) {
            match failed.last_mut().filter(|last| last.name == test) {
                // What fails on one GPU is more than what warns on another.
                Some(last) if kind == ToolResultKind::DiagnosisFailed => last.kind = kind,
                Some(_) => {}
                None => failed.push(FailedTest {
                    kind,
                    name: test,
                    line,
                    reason: String::new(),
                }),
            }
            is_open = true;
        } else if !verdict.is_empty() {
            tested = tested.or(Some(line));
            is_open &= is_of_one_gpu;
        } else if let (true, true, Some(last)) = (is_reason, is_open, failed.last_mut()) {
            last.reason
                .push_str(if last.reason.is_empty() { "" } else { " " });
            last.reason.push_str(result);
        }
    }
    // In a health report the rows of all and of one GPU are headings of what is below them.
    if failed.iter().any(|one| !is_heading(one.name)) {
        failed.retain(|one| !is_heading(one.name));
    }
    for test in &failed {
        let words = if test.reason.is_empty() {
            test.line.text.trim()
        } else {
            &test.reason
        };
        add(facts, node, test.kind, test.name, (&test.line, words));
    }
    if let (true, Some(line)) = (failed.is_empty(), tested) {
        let kind = ToolResultKind::Right;
        add(facts, node, kind, "diagnosis", (&line, line.text.trim()));
    }
}

/// Units that failed: `● openibd.service loaded failed failed …`, as `systemctl --failed` lists
/// them; the words of `systemctl is-active UNIT …`, a line each, and `UNIT: failed` of a loop;
/// `Active: failed` of `systemctl status`.
pub(super) fn units(output: &Output, facts: &mut Facts, node: Id) {
    let is_question = output.has("is-active") || output.has("is-failed");
    let operands = output.argv.iter().skip(1);
    let operands = operands.filter(|word| is_question && !word.starts_with(['-', '$']));
    let mut asked = operands
        .map(|word| &**word)
        .filter(|word| !word.starts_with("is-"));
    let mut of_status = None;
    for line in output.lines() {
        let text = line.text.trim().trim_start_matches(['●', '×', '*', ' ']);
        let words: Vec<&str> = text.split_whitespace().collect();
        let of_line = if words.len() == 1 { asked.next() } else { None };
        let unit = match (words.as_slice(), of_line, of_status) {
            ([unit, "loaded", "failed", ..], ..) => *unit,
            (["failed"], Some(unit), _) => unit,
            ([unit, "failed"], ..) if is_question => unit.trim_end_matches(':'),
            (["Active:", "failed", ..], _, Some(unit)) => unit,
            ([unit, "-", ..], ..) if unit.ends_with(".service") => {
                of_status = Some(*unit);
                continue;
            }
            _ => continue,
        };
        let kind = ToolResultKind::UnitFailed;
        let id = add(facts, node, kind, unit, (&line, text));
        let service = service::of_unit(unit);
        if let Some(service) = service.and_then(|name| facts.find(Subject::Service, node, name)) {
            facts.relate(id, service);
        }
        if of_status.is_some()
            && let Some((line, words)) = last_words(output, unit)
        {
            facts.set(id, tool_result::REASON, line.known(words.into()));
        }
    }
}

/// Words of a process that says what is wrong.
const WRONG: [&str; 9] = [
    "fail",
    "error",
    "mismatch",
    "match with",
    "cannot",
    "could not",
    "unable",
    "not found",
    "denied",
];

/// How systemd begins what it says of a unit.
const OF_MANAGER: [&str; 5] = [
    "Start",
    "Stop",
    "Failed to start ",
    "Scheduled restart",
    "Unit ",
];

/// What a unit's own processes said in the lines of the journal, which stand behind an empty one:
/// the first that says what is wrong, or else the last.
fn last_words<'p>(output: &'p Output, unit: &str) -> Option<(OutputLine<'p>, &'p str)> {
    let mut last = None;
    let journal = output
        .lines()
        .skip_while(|line| !line.text.trim().is_empty());
    for line in journal.skip(1) {
        let (process, words) = line.text.split_once("]: ").unwrap_or(("", line.text));
        let is_manager = process.contains(" systemd[")
            || words.starts_with(unit)
            || OF_MANAGER.iter().any(|begin| words.starts_with(begin));
        if is_manager || words.trim().is_empty() {
            continue;
        }
        let lower = words.to_ascii_lowercase();
        if WRONG.iter().any(|word| lower.contains(word)) {
            return Some((line, words.trim()));
        }
        last = Some((line, words.trim()));
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistics_of_ping_in_their_forms() {
        for (text, expected) in [
            (
                "1000 packets transmitted, 962 received, 3.8% packet loss, time 5411ms",
                Some((3.8, 1000)),
            ),
            (
                "3 packets transmitted, 0 received, +3 errors, 100% packet loss, time 2041ms",
                Some((100.0, 3)),
            ),
            (
                "5 packets transmitted, 5 packets received, 0.0% packet loss",
                Some((0.0, 5)),
            ),
            ("3 packets were sent", None),
        ] {
            assert_eq!(statistics(text), expected, "{text}");
        }
        assert_eq!(
            number_behind("frag needed and df set (mtu = 1500)", "mtu"),
            Some(1500)
        );
        assert_eq!(
            number_behind("message too long, mtu=1500", "mtu"),
            Some(1500)
        );
        assert_eq!(number_behind("message too long", "mtu"), None);
    }

    #[test]
    fn rows_of_a_table_have_a_name_and_a_result() {
        assert_eq!(
            cells("| Inforom      | Pass   |"),
            Some(("Inforom", "Pass"))
        );
        assert_eq!(cells("|    | Fail - GPU: 3 |"), Some(("", "Fail - GPU: 3")));
        assert_eq!(cells("+------+------+"), None);
    }
}
