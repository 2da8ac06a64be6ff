//! How the help of each subcommand ends: examples, and the exit statuses; and which options it lists.

/// A subcommand a paragraph: its name, with `verdict` or its own statuses behind it; the options that its help lists, where
/// others are left to `--help-all`; how far an area was examined; its examples.
const ENDS: &str = include_str!("help_ends.txt");

const COMMON: &str = "common: ";
const LEGEND: &str = "legend: ";

const VERDICT: &str =
    "0 nothing failed, 1 warnings, 2 errors, 3 undecided, 124 no report by the deadline";

/// The paragraph of a subcommand.
struct HelpEnd {
    /// What stands behind its name.
    statuses: &'static str,
    /// The options that its help lists; nothing where it lists all.
    common: Option<&'static str>,
    /// The words for how far an area was examined, of a subcommand that lists areas.
    legend: Option<&'static str>,
    examples: Vec<&'static str>,
}

fn help_end(subcommand: &str) -> Option<HelpEnd> {
    ENDS.split("\n\n").find_map(|paragraph| {
        let mut lines = paragraph.trim().lines().peekable();
        let head = lines.next()?;
        let (name, statuses) = head.split_once(' ').unwrap_or((head, ""));
        if name != subcommand {
            return None;
        }
        let common = lines.next_if(|line| line.starts_with(COMMON));
        let legend = lines.next_if(|line| line.starts_with(LEGEND));
        Some(HelpEnd {
            statuses,
            common: common.and_then(|line| line.strip_prefix(COMMON)),
            legend: legend.and_then(|line| line.strip_prefix(LEGEND)),
            examples: lines.collect(),
        })
    })
}

/// The options that the help of a subcommand lists, by their long names; nothing where it lists all.
pub(super) fn common_options(subcommand: &str) -> Option<Vec<&'static str>> {
    let common = help_end(subcommand)?.common?;
    Some(common.split(' ').collect())
}

/// The end of a subcommand's help; nothing for one that has none.
pub(super) fn of(subcommand: &str) -> Option<String> {
    let end = help_end(subcommand)?;
    let statuses = match end.statuses {
        "" => "0 done",
        "verdict" => VERDICT,
        statuses => statuses,
    };
    let examples = end.examples.join("\n  ");
    let legend = end.legend.map(|words| format!("\n\nAreas: {words}"));
    let legend = legend.unwrap_or_default();
    Some(format!(
        "Examples:\n  {examples}\n\nExit status: {statuses}; 64 usage, 65 unreadable input, 70 internal failure{legend}"
    ))
}
