//! `rdma-doctor-checks(7)`: the manual page of all checks, made from the catalogue when the program is installed.

use std::fmt::Write as _;

use crate::check::{Catalogue, Check};
use crate::fact::counter_table::COUNTERS;

/// The page as roff.
///
/// # Errors
///
/// None of its own: a text that grows does not fail.
pub(super) fn checks_7(catalogue: &Catalogue) -> Result<String, std::fmt::Error> {
    let mut page = String::from(".TH rdma\\-doctor\\-checks 7 \"\" \"rdma-doctor ");
    writeln!(page, "{}\" \"\"", env!("CARGO_PKG_VERSION"))?;
    page.push_str(".SH NAME\nrdma\\-doctor\\-checks \\- what rdma-doctor judges\n");
    let count = catalogue.count();
    writeln!(page, ".SH DESCRIPTION\nThe {count} built\\-in checks.")?;
    page.push_str("A site adds its own, see\n.BR rdma-doctor-check (5).\n");
    for cases in catalogue.checks.chunk_by(|a, b| a.id == b.id) {
        one(&mut page, cases)?;
    }
    page.push_str(".SH COUNTERS\nCounters whose meaning is known, by class.\n");
    for (name, class, ..) in COUNTERS {
        writeln!(page, ".TP\n.B {}\n{}", roff(name), roff(class))?;
    }
    page.push_str(".SH SEE ALSO\n.BR rdma-doctor (1),\n.BR rdma-doctor-check (5)\n");
    Ok(page)
}

fn one(page: &mut String, cases: &[Check]) -> std::fmt::Result {
    let Some(check) = cases.first() else {
        return Ok(());
    };
    writeln!(page, ".SH {}\n{}", roff(&check.id), roff(&check.title))?;
    for case in cases {
        judged(page, case)?;
        let advice = case.advice();
        writeln!(page, ".PP\n{}", roff(&advice.why.to_string()))?;
        let fix = advice.fix.as_written().to_string();
        writeln!(page, ".PP\n.nf\n{}\n.fi", roff(fix.trim()))?;
    }
    let mut explains: Vec<String> = Vec::new();
    for id in cases.iter().flat_map(|case| &case.explains) {
        let id = roff(id);
        if !explains.contains(&id) {
            explains.push(id);
        }
    }
    if !explains.is_empty() {
        writeln!(page, ".PP\nExplains: {}", explains.join(", "))?;
    }
    Ok(())
}

/// By what a case is judged; its id where it has one of its own.
fn judged(page: &mut String, check: &Check) -> std::fmt::Result {
    if check.case != check.id {
        writeln!(page, ".PP\n.B {}", roff(&check.case))?;
    }
    let (gravity, subject) = (check.gravity(), check.subject.name());
    writeln!(page, "({gravity}, for each {subject})")?;
    for presumed in &check.premises {
        writeln!(page, ".TP\n.B premise\n{}", presumed.premise.word())?;
    }
    if let Some(applies) = &check.applies {
        writeln!(page, ".TP\n.B applies\n{}", roff(applies.text()))?;
    }
    writeln!(page, ".TP\n.B fails\n{}", roff(check.fails.text()))?;
    for (name, value) in &check.limits {
        let value = roff(&value.to_string());
        writeln!(page, ".br\nlimit.{} = {value}", roff(name))?;
    }
    Ok(())
}

/// Text as roff wants it: backslashes, dots at a line's start, and hyphens that stay hyphens.
fn roff(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.trim_end().replace('\\', "\\e").replace('-', "\\-");
        let guard = if line.starts_with(['.', '\'']) {
            "\\&"
        } else {
            ""
        };
        lines.push(format!("{guard}{line}"));
    }
    lines.join("\n")
}
