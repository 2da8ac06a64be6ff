//! How the help of each subcommand ends: examples, and the exit statuses.

/// A subcommand a paragraph: its name, with `verdict` or its own statuses behind it, and its examples.
const ENDS: &str = include_str!("help_ends.txt");

const VERDICT: &str =
    "0 nothing failed, 1 warnings, 2 errors, 3 undecided, 124 no report by the deadline";

/// The end of a subcommand's help; nothing for one that has none.
pub(super) fn of(subcommand: &str) -> Option<String> {
    let ends = ENDS
        .split("\n\n")
        .filter_map(|end| end.trim().split_once('\n'));
    let mut ends =
        ends.map(|(head, examples)| (head.split_once(' ').unwrap_or((head, "")), examples));
    let ((_, kind), examples) = ends.find(|((name, _), _)| *name == subcommand)?;
    let own = match kind {
        "" => "0 done",
        "verdict" => VERDICT,
        statuses => statuses,
    };
    let examples = examples.replace('\n', "\n  ");
    Some(format!(
        "Examples:\n  {examples}\n\nExit status: {own}; 64 usage, 65 unreadable input, 70 internal failure"
    ))
}
