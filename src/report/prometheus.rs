//! The report as metrics, for node_exporter's textfile collector. Source: Prometheus, "Exposition formats".

use std::collections::BTreeMap;
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
    let head = |out: &mut dyn Write, name: &str, help: &str| {
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge")
    };
    head(
        out,
        "rdma_doctor_status",
        "Exit status: 0 no fault found, 1 warnings, 2 errors, 3 undecided.",
    )?;
    writeln!(out, "rdma_doctor_status {}", report.exit)?;
    head(out, "rdma_doctor_info", "The program's version.")?;
    writeln!(
        out,
        "rdma_doctor_info{{version=\"{}\"}} 1",
        label(report.doctor)
    )?;
    head(out, "rdma_doctor_verdicts", "Verdicts of each kind.")?;
    let counts = &report.counts;
    for (kind, count) in [
        ("passes", counts.passes),
        ("error", counts.errors),
        ("warning", counts.warnings),
        ("note", counts.notes),
        ("waived", counts.waived),
        ("unknown", counts.unknown),
        ("does-not-apply", counts.does_not_apply),
    ] {
        writeln!(out, "rdma_doctor_verdicts{{kind=\"{kind}\"}} {count}")?;
    }
    head(
        out,
        "rdma_doctor_area",
        "Areas of the node: 1 for the state that each has.",
    )?;
    for area in &report.areas {
        for state in AreaState::ALL {
            writeln!(
                out,
                "rdma_doctor_area{{area=\"{}\",state=\"{}\"}} {}",
                label(&area.area),
                state.word(),
                u8::from(area.state == state.word())
            )?;
        }
    }
    head(
        out,
        "rdma_doctor_finding",
        "For how many subjects a check fails, and whether it is a root cause.",
    )?;
    // A check may be a root cause for one port and the consequence of another for the next.
    let mut findings: BTreeMap<(&str, &str, bool), usize> = BTreeMap::new();
    for cause in report.causes.iter().chain(&report.notes) {
        *findings
            .entry((&cause.check, cause.severity, true))
            .or_default() += cause.subjects.len();
        for consequence in &cause.consequences {
            *findings
                .entry((&consequence.check, consequence.severity, false))
                .or_default() += 1;
        }
    }
    for ((check, severity, root), count) in findings {
        let (check, severity) = (label(check), label(severity));
        writeln!(
            out,
            "rdma_doctor_finding{{check=\"{check}\",severity=\"{severity}\",root=\"{root}\"}} {count}"
        )?;
    }
    head(
        out,
        "rdma_doctor_waived",
        "For how many subjects a check fails and is waived.",
    )?;
    let mut waived: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for one in &report.waived {
        *waived.entry((&one.check, one.severity)).or_default() += one.subjects.len();
    }
    for ((check, severity), count) in waived {
        let (check, severity) = (label(check), label(severity));
        writeln!(
            out,
            "rdma_doctor_waived{{check=\"{check}\",severity=\"{severity}\"}} {count}"
        )?;
    }
    head(
        out,
        "rdma_doctor_seconds",
        "How long the machine was asked.",
    )?;
    writeln!(out, "rdma_doctor_seconds {}", report.seconds)
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
