//! JUnit's XML, as Jenkins and GitLab read it. Source: the schema of Jenkins' xUnit plugin, junit-10.xsd.

use std::io::{self, Write};

use super::{Report, ToolFormat};
use crate::exit::Exit;

/// The format of one report, or of several.
pub const FORMAT: ToolFormat = ToolFormat {
    name: "junit",
    about: "For CI: JUnit's XML, with a case for each area and each cause",
    escapes: false,
    write: |out, report| write(out, &[of_report("rdma-doctor check", report)]),
    each: Some(|out, reports| {
        let suites = reports.iter().map(|(name, report)| of_report(name, report));
        write(out, &suites.collect::<Vec<_>>())
    }),
    exit: Report::exit,
};

/// A suite of cases.
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) cases: Vec<Case>,
}

/// A case, and what came of it.
pub(super) struct Case {
    pub(super) class: &'static str,
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) result: CaseResult,
}

/// What came of a case that did not pass: `failure`, `error` or `skipped`, a line about it, and all of it.
pub(super) type CaseResult = Option<(&'static str, String, String)>;

/// The cases of a report: its areas, and its causes. A warning and what is waived fail no job.
fn of_report(name: &str, report: &Report) -> Suite {
    let case = |class, name: &str, result| Case {
        class,
        name: name.to_owned(),
        seconds: 0.0,
        result,
    };
    let told = |tag, text: String| Some((tag, text, String::new()));
    let areas = report.areas.iter().map(|area| {
        let wanting = area.is_wanting().then(|| area.sentence());
        let result = wanting.and_then(|why| told("error", format!("{}: {why}", area.state)));
        case("rdma-doctor.area", &area.area, result)
    });
    let damage = report.damage.iter();
    let damage = damage.map(|what| case("rdma-doctor", "damage", told("error", what.to_string())));
    // If warnings decide the status, they fail.
    let fails = |severity| {
        severity == "error" || report.exit() == Exit::Errors && report.counts.errors == 0
    };
    let causes = report.causes.iter().map(|cause| {
        let result = match fails(cause.severity) {
            true => {
                let text = format!("{}\n{}\n{}", cause.sentence, cause.why, cause.fix);
                Some(("failure", cause.sentence.to_string(), text))
            }
            false => told("skipped", format!("{}: {}", cause.severity, cause.sentence)),
        };
        case("rdma-doctor.check", &cause.check, result)
    });
    let waived = report.waived.iter().map(|one| {
        let text = format!("waived {}: {}", one.terms(), one.sentence);
        case("rdma-doctor.check", &one.check, told("skipped", text))
    });
    let mut cases: Vec<Case> = areas.chain(damage).chain(causes).chain(waived).collect();
    if let Some(first) = cases.first_mut() {
        first.seconds = report.seconds;
    }
    Suite {
        name: name.to_owned(),
        cases,
    }
}

/// Writes suites.
pub(super) fn write(out: &mut dyn Write, suites: &[Suite]) -> io::Result<()> {
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>"
    )?;
    for suite in suites {
        let count = |tag: &str| {
            let results = suite.cases.iter().filter_map(|case| case.result.as_ref());
            results.filter(|result| result.0 == tag).count()
        };
        let (failures, errors, skipped) = (count("failure"), count("error"), count("skipped"));
        let seconds: f64 = suite.cases.iter().map(|case| case.seconds).sum();
        writeln!(
            out,
            "<testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{seconds:.3}\">",
            xml(&suite.name),
            suite.cases.len(),
        )?;
        for case in &suite.cases {
            let (class, name, seconds) = (case.class, xml(&case.name), case.seconds);
            write!(
                out,
                "<testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds:.3}\""
            )?;
            match &case.result {
                None => writeln!(out, "/>")?,
                Some((tag, line, text)) => {
                    let (line, text) = (xml(line), xml(text));
                    writeln!(out, "><{tag} message=\"{line}\">{text}</{tag}></testcase>")?;
                }
            }
        }
        writeln!(out, "</testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

/// A text in XML; what XML cannot hold is replaced.
fn xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push_str("&#10;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}
