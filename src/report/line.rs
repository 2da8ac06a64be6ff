//! The report as one line, for programs that take no more: Slurm's reasons, Nagios, node-problem-detector.

use std::io::{self, Write};

use super::fit::fit;
use super::shortened::shortened;
use super::{Report, ToolFormat};
use crate::check::Severity;
use crate::exit::Exit;
use crate::sentence::Sentence;

/// The longest message that node-problem-detector keeps. Source: its custom plugin monitor, `max_output_length`, 80 by default.
const NPD_MESSAGE: usize = 80;
/// The longest reason for a drained node that tools show without cutting it. Source: `sinfo -R` and `scontrol show node`; `squeue` cuts sooner.
const SLURM_REASON: usize = 200;

/// Slurm's.
pub const SLURM: ToolFormat = ToolFormat {
    name: "slurm",
    about: "For Slurm: a line that fits as the reason of a drained node",
    escapes: false,
    write: slurm,
    each: Some(|out, reports| named(out, reports, slurm)),
    exit: Report::exit,
};

/// That of Nagios.
pub const NAGIOS: ToolFormat = ToolFormat {
    name: "nagios",
    about: "For Nagios, Icinga and Checkmk: one line with figures",
    escapes: false,
    write: nagios,
    each: Some(|out, reports| named(out, reports, nagios)),
    exit: Report::exit,
};

/// That of node-problem-detector.
pub const NPD: ToolFormat = ToolFormat {
    name: "npd",
    about: "For node-problem-detector: a short line, and exit status 0, 1 or 2",
    escapes: false,
    write: npd,
    each: Some(|out, reports| named(out, reports, npd)),
    exit: npd_exit,
};

/// Writes several, each behind its name.
fn named(
    out: &mut dyn Write,
    reports: &[(String, &Report)],
    write: fn(&mut dyn Write, &Report) -> io::Result<()>,
) -> io::Result<()> {
    for (name, report) in reports {
        write!(out, "{name}: ")?;
        write(out, report)?;
    }
    Ok(())
}

/// Writes the reason that Slurm keeps of a node that it drains: the checks that fail and the first sentence, on one line, without quotes.
///
/// # Errors
///
/// The output fails.
pub fn slurm(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let reason = match report.causes.first() {
        _ if report.exit() == Exit::Undecided => match report.damage.first() {
            // A prolog tells by this word that something is broken from what it was only not allowed to see.
            Some(damage) => Sentence::from("damage: ").then(damage),
            None => report.headline.clone(),
        },
        Some(first) if report.exit() != Exit::Healthy => {
            let others = match (report.causes.len() - 1, report.counts.waived) {
                (0, 0) => String::new(),
                (more, 0) => format!(" (+{more} more)"),
                (0, waived) => format!(" ({waived} waived)"),
                (more, waived) => format!(" (+{more} more, {waived} waived)"),
            };
            Sentence::from(format!("{}{others}: ", first.check)).then(&first.sentence)
        }
        _ => report.headline.clone(),
    };
    let since = report
        .baseline
        .as_ref()
        .and_then(|baseline| baseline.since.as_deref());
    let since = since.filter(|_| report.exit() != Exit::Healthy);
    let reason = Sentence::from("rdma-doctor: ").then(reason);
    let reason = match since {
        Some(since) => reason.then_optionally(format!("; {since}")),
        None => reason,
    };
    writeln!(out, "{}", plain_within(&reason, SLURM_REASON))
}

/// Writes what a plugin of Nagios, Icinga or Checkmk writes: a status, the headline, and figures that are drawn over time.
///
/// # Errors
///
/// The output fails.
pub fn nagios(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let status = match report.exit() {
        Exit::Healthy => "OK",
        Exit::Warnings => "WARNING",
        Exit::Errors => "CRITICAL",
        _ => "UNKNOWN",
    };
    writeln!(
        out,
        "RDMA {status} - {} | errors={};;0:0 warnings={};0:0; notes={} open={} checks={} time={:.3}s",
        plain(&report.headline.to_string()),
        report.listed(Severity::Error),
        report.listed(Severity::Warning),
        report.listed(Severity::Note),
        report.open_checks(),
        report.counts.checks,
        report.seconds,
    )?;
    for area in report.areas.iter().filter(|area| area.is_wanting()) {
        let said = plain(&area.sentence().to_string());
        writeln!(out, "{} {}: {said}", area.state, area.area)?;
    }
    // Long text, which Nagios shows on the page of the service. Source: Nagios Core, "Plugin API".
    for cause in &report.causes {
        let (severity, check) = (cause.severity, &cause.check);
        writeln!(
            out,
            "{severity} {check}: {}",
            plain(&cause.sentence.to_string())
        )?;
    }
    for one in &report.waived {
        let terms = format!("{} ({})", one.sentence, one.terms());
        writeln!(out, "waived {}: {}", one.check, plain(&terms))?;
    }
    Ok(())
}

/// Writes the message of node-problem-detector's custom plugin: short, since it becomes the message of a node's condition.
///
/// # Errors
///
/// The output fails.
pub fn npd(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let message = match (report.causes.first(), report.damage.first()) {
        (Some(first), _) if report.exit() == Exit::Errors => {
            // Where the check's name would cost the predicate, the predicate stands alone.
            let named = Sentence::from(format!("{}: ", first.check)).then(&first.sentence);
            if fit(&named, NPD_MESSAGE).letters() <= NPD_MESSAGE {
                named
            } else {
                first.sentence.clone()
            }
        }
        (_, Some(damage)) if report.exit() == Exit::Undecided => {
            Sentence::from("damage: ").then(damage)
        }
        _ => report.headline.clone(),
    };
    writeln!(out, "{}", plain_within(&message, NPD_MESSAGE))
}

/// node-problem-detector's exit status: 0 no problem, 1 a problem, 2 unknown. Damage is a problem, as it is to the prolog. Warnings are none: the node
/// would be tainted for them.
fn npd_exit(report: &Report) -> Exit {
    match report.exit() {
        Exit::Healthy | Exit::Warnings => Exit::Healthy,
        Exit::Errors => Exit::Warnings,
        Exit::Undecided if !report.damage.is_empty() => Exit::Warnings,
        _ => Exit::Errors,
    }
}

/// A sentence of at most so many letters, on one line.
fn plain_within(sentence: &Sentence, most: usize) -> String {
    let fitted = fit(sentence, most).to_string();
    let ascii = fitted.replace('…', "...").replace('→', "->");
    shortened(&plain(&ascii), most, "...")
}

/// On one line, without what a shell, Slurm's configuration or Nagios' figures would take for their own.
fn plain(text: &str) -> String {
    let fits = |c: char| match c {
        '|' => '/',
        '"' | '\'' | '`' => ' ',
        c if c.is_control() => ' ',
        c => c,
    };
    let text: String = text.chars().map(fits).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::report;

    fn rendered(
        write: impl Fn(&mut dyn Write, &Report) -> io::Result<()>,
        report: &Report,
    ) -> String {
        let mut out = Vec::new();
        write(&mut out, report).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_reason_is_one_line_that_slurm_keeps_whole() {
        let mut errors = report(Exit::Errors, &["link/rate-degraded", "roce/v2-gid-missing"]);
        assert_eq!(
            rendered(slurm, &errors),
            "rdma-doctor: link/rate-degraded (+1 more): link/rate-degraded is wrong\n"
        );
        errors.causes[0].sentence = "it's \"down\"\n| so `reboot` ".repeat(20).into();
        let line = rendered(slurm, &errors);
        let length = line.chars().count();
        assert!((SLURM_REASON - 8..=SLURM_REASON + 1).contains(&length));
        assert!(line.ends_with("...\n") && !line.contains(['"', '\'', '`', '|']));
        assert_eq!(
            rendered(slurm, &report(Exit::Healthy, &[])),
            "rdma-doctor: the headline\n"
        );
    }

    #[test]
    fn a_plugin_line_has_status_and_figures() {
        for (exit, status) in [
            (Exit::Healthy, "OK"),
            (Exit::Warnings, "WARNING"),
            (Exit::Errors, "CRITICAL"),
            (Exit::Undecided, "UNKNOWN"),
        ] {
            let line = rendered(nagios, &report(exit, &[]));
            assert_eq!(
                line,
                format!(
                    "RDMA {status} - the headline | errors=0;;0:0 warnings=0;0:0; notes=0 open=0 checks=0 time=0.250s\n"
                )
            );
        }
        let long = rendered(nagios, &report(Exit::Errors, &["link/rate-degraded"]));
        assert_eq!(
            long.lines().nth(1),
            Some("error link/rate-degraded: link/rate-degraded is wrong")
        );
    }

    #[test]
    fn a_condition_is_short_and_warnings_are_none() {
        let errors = report(Exit::Errors, &["link/rate-degraded"]);
        assert_eq!(
            rendered(npd, &errors),
            "link/rate-degraded: link/rate-degraded is wrong\n"
        );
        let mut long = report(Exit::Errors, &["link/rate-degraded"]);
        long.causes[0].sentence = "x".repeat(200).into();
        assert_eq!(rendered(npd, &long).chars().count(), NPD_MESSAGE + 1);
        let statuses = [Exit::Healthy, Exit::Warnings, Exit::Errors, Exit::Undecided];
        let status = |exit: Exit| npd_exit(&report(exit, &[])).code();
        assert_eq!(statuses.map(status), [0, 0, 1, 2]);
        let mut damaged = report(Exit::Undecided, &[]);
        damaged.damage.push("mlx5_1 does not respond".into());
        assert_eq!(rendered(npd, &damaged), "damage: mlx5_1 does not respond\n");
        assert_eq!(npd_exit(&damaged).code(), 1);
    }
}
