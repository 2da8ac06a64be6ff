//! The report as metrics, for node_exporter's textfile collector. Source: Prometheus, "Exposition formats".

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Write};

use super::{Report, ToolFormat};
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

/// Writes the metrics.
///
/// A finding is a metric for each check, not for each port or GPU: what fails for all of them is one thing, and names that come and go are what a
/// time series database suffers from.
///
/// # Errors
///
/// The output fails.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let help = "Exit status: 0 no fault found, 1 warnings, 2 errors, 3 undecided.";
    gauge(out, "status", help, [sample(&[], report.exit)])?;
    let version = sample(&[("version", report.doctor)], 1);
    gauge(out, "info", "The program's version.", [version])?;
    let counts = &report.counts;
    let verdicts = [
        ("passes", counts.passes),
        ("error", counts.errors),
        ("warning", counts.warnings),
        ("note", counts.notes),
        ("waived", counts.waived),
        ("unknown", counts.unknown),
        ("does-not-apply", counts.does_not_apply),
    ];
    let verdicts = verdicts.map(|(kind, count)| sample(&[("kind", kind)], count));
    gauge(out, "verdicts", "Verdicts of each kind.", verdicts)?;
    let help = "Areas of the node: 1 for the state that each has.";
    let areas = report.areas.iter().flat_map(|area| {
        AreaState::ALL.iter().map(|state| {
            let labels = [("area", &*area.area), ("state", state.word())];
            sample(&labels, u8::from(area.state == state.word()))
        })
    });
    gauge(out, "area", help, areas)?;
    // A check may be a root cause for one port and the consequence of another for the next.
    let mut findings: BTreeMap<(&str, &str, bool), usize> = BTreeMap::new();
    for cause in report.causes.iter().chain(&report.notes) {
        let of_cause = (&*cause.check, cause.severity, true);
        *findings.entry(of_cause).or_default() += cause.subjects.len();
        for one in &cause.consequences {
            let consequence = (&*one.check, one.severity, false);
            *findings.entry(consequence).or_default() += 1;
        }
    }
    let help = "For how many subjects a check fails, and whether it is a root cause.";
    let findings = findings
        .into_iter()
        .map(|((check, severity, root), count)| {
            let root = if root { "true" } else { "false" };
            let labels = [("check", check), ("severity", severity), ("root", root)];
            sample(&labels, count)
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
            "rdma_doctor_finding{check=\"link/rate-degraded\",severity=\"error\",root=\"true\"} 2",
            "rdma_doctor_verdicts{kind=\"unknown\"} 0",
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
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
