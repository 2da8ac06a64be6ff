//! The report as metrics, for node_exporter's textfile collector. Source: Prometheus, "Exposition formats".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, Write};

use super::{Report, ToolFormat};
use crate::check::Severity;
use crate::diagnosis::areas::AreaState;

/// The format.
pub const FORMAT: ToolFormat = ToolFormat {
    name: "prometheus",
    about: "For Prometheus, by node_exporter's textfile collector",
    escapes: true,
    write,
    each: None,
    exit: Report::exit,
};

/// So many subjects of a check are named.
const SUBJECTS: usize = 16;

/// Writes the metrics.
///
/// Names that come and go are what a time series database suffers from: of a check the first few subjects are named.
///
/// # Errors
///
/// The output fails.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let help = "Exit status: 0 no fault found, 1 warnings, 2 errors, 3 undecided.";
    gauge(out, "status", help, [sample(&[], report.exit)])?;
    let version = sample(&[("version", report.doctor)], 1);
    gauge(out, "info", "The program's version.", [version])?;
    let background = report.notes.iter().filter(|note| note.background).count();
    let findings = [
        ("error", report.listed(Severity::Error)),
        ("warning", report.listed(Severity::Warning)),
        ("note", report.listed(Severity::Note)),
        ("background", background),
        ("waived", report.waived.len()),
    ];
    let findings = findings.map(|(severity, count)| sample(&[("severity", severity)], count));
    let help = "Findings as the report lists them: what follows from another one does not count.";
    gauge(out, "findings", help, findings)?;
    let checks = [
        ("all", report.counts.checks),
        ("open", report.open_checks()),
    ];
    let checks = checks.map(|(state, count)| sample(&[("state", state)], count));
    gauge(
        out,
        "checks",
        "Checks, and those that could not run.",
        checks,
    )?;
    let help = "Areas of the node: 1 for the state that each has.";
    let areas = report.areas.iter().flat_map(|area| {
        AreaState::ALL.iter().map(|state| {
            let labels = [("area", &*area.area), ("state", state.word())];
            sample(&labels, u8::from(area.state == state.word()))
        })
    });
    gauge(out, "area", help, areas)?;
    // A check may be a root cause for one port and the consequence of another for the next.
    let mut findings: BTreeMap<(&str, &str, bool), BTreeSet<&str>> = BTreeMap::new();
    for cause in report.causes.iter().chain(&report.notes) {
        let of_cause = findings
            .entry((&*cause.check, cause.severity, true))
            .or_default();
        of_cause.extend(cause.subjects.iter().map(String::as_str));
        for one in &cause.consequences {
            let consequence = findings
                .entry((&*one.check, one.severity, false))
                .or_default();
            consequence.insert(&one.subject);
        }
    }
    let help = "1 for each subject for which a check fails, and whether it is a root cause. \
                Of many subjects the first are named, and the others counted.";
    let findings = findings
        .into_iter()
        .flat_map(|((check, severity, root), subjects)| {
            let root = if root { "true" } else { "false" };
            let others = subjects.len().saturating_sub(SUBJECTS);
            let named = subjects.into_iter().take(SUBJECTS).map(|name| (name, 1));
            let others = (others > 0).then_some(("others", others));
            let samples = named.chain(others).map(|(subject, count)| {
                let labels = [
                    ("check", check),
                    ("severity", severity),
                    ("root", root),
                    ("subject", subject),
                ];
                sample(&labels, count)
            });
            samples.collect::<Vec<String>>()
        });
    gauge(out, "finding", help, findings)?;
    let mut waived: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for one in &report.waived {
        *waived.entry((&one.check, one.severity)).or_default() += one.subjects.len();
    }
    let waived = waived.into_iter().map(|((check, severity), count)| {
        sample(&[("check", check), ("severity", severity)], count)
    });
    let help = "For how many subjects a check fails and is waived.";
    gauge(out, "waived", help, waived)?;
    let seconds = sample(&[], report.seconds);
    gauge(out, "seconds", "How long the machine was asked.", [seconds])
}

/// Labels and a value, as they stand behind a metric's name.
fn sample(labels: &[(&str, &str)], value: impl Display) -> String {
    let labels = labels.iter();
    let labels = labels.map(|(name, text)| format!("{name}=\"{}\"", label(text)));
    match labels.collect::<Vec<String>>().join(",") {
        none if none.is_empty() => format!(" {value}"),
        labels => format!("{{{labels}}} {value}"),
    }
}

fn gauge(
    out: &mut dyn Write,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = String>,
) -> io::Result<()> {
    let name = format!("rdma_doctor_{name}");
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge")?;
    let mut samples = samples.into_iter();
    samples.try_for_each(|sample| writeln!(out, "{name}{sample}"))
}

/// A label's value: backslash, quote and the end of a line are escaped.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::report::testing::report;

    #[test]
    fn metrics_of_a_report() {
        let mut out = Vec::new();
        let mut errors = report(Exit::Errors, &["link/rate-degraded"]);
        errors.causes[0].subjects = vec!["a".into(), "b".into()];
        write(&mut out, &errors).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "rdma_doctor_status 2",
            "rdma_doctor_finding{check=\"link/rate-degraded\",severity=\"error\",root=\"true\",subject=\"b\"} 1",
            "rdma_doctor_findings{severity=\"error\"} 1",
            "rdma_doctor_checks{state=\"open\"} 0",
            "rdma_doctor_seconds 0.25",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        // Each metric has one HELP and one TYPE, before its samples, and no sample comes twice.
        let mut seen = std::collections::HashSet::new();
        for line in text.lines() {
            assert!(seen.insert(line), "{line} twice");
            if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                assert!(
                    seen.contains(format!("# TYPE {name} gauge").as_str()),
                    "{line}"
                );
            }
        }
        errors.causes[0].subjects = (0..20).map(|port| format!("port {port}")).collect();
        let mut out = Vec::new();
        write(&mut out, &errors).unwrap();
        let text = String::from_utf8(out).unwrap();
        let named = text.lines().filter(|line| line.contains("subject=\"port"));
        assert_eq!(named.count(), SUBJECTS);
        assert!(text.contains("subject=\"others\"} 4\n"), "{text}");
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
