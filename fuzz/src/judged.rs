//! An input to its end: facts, verdicts, a report, each of its formats, the script of remedies, and
//! what others make of a report.

use std::sync::LazyLock;

use rdma_doctor::check::Catalogue;
use rdma_doctor::examine::{many, one};
use rdma_doctor::report::baseline::{self, BaselineChanges};
use rdma_doctor::report::expectation::Expectation;
use rdma_doctor::report::text::{self, Detail};
use rdma_doctor::report::{Policy, Report, TOOL_FORMATS, fix_script, html, json};
use rdma_doctor::source::recording::Recording;

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::embedded().expect("the built-in checks are valid"));

/// How much a report for people says.
const DETAILS: [Detail; 3] = [
    Detail {
        quiet: true,
        verbose: false,
        notes: false,
        all: false,
        open: false,
        height: None,
    },
    Detail {
        quiet: false,
        verbose: true,
        notes: true,
        all: true,
        open: true,
        height: Some(20),
    },
    Detail {
        quiet: false,
        verbose: false,
        notes: false,
        all: false,
        open: false,
        height: None,
    },
];

/// The report on recordings that are judged together.
pub fn judged(recordings: &[Recording]) -> Report {
    let policy = Policy {
        with_passes: true,
        ..Policy::default()
    };
    let mut report = many::judged(&CATALOGUE, recordings, &policy);
    if let [one] = recordings {
        report.drawn = drawing(one);
    }
    report
}

/// The drawing of a machine; none of a log.
fn drawing(recording: &Recording) -> html::Drawings {
    let own = std::slice::from_ref(recording);
    let (mut facts, nodes) = one::facts_within(CATALOGUE.limits.clone(), own);
    super::without_a_bug(&facts);
    let verdicts = one::verdicts(&CATALOGUE, &mut facts, &nodes, own);
    let drawn = nodes
        .first()
        .map(|node| html::of_node(&CATALOGUE, &facts, &verdicts, node.id));
    drawn
        .transpose()
        .expect("memory takes every byte")
        .unwrap_or_default()
}

/// Judges, and writes the report in each way.
pub fn to_the_end(recordings: &[Recording]) {
    if recordings.is_empty() {
        return;
    }
    let report = judged(recordings);
    written(&report);
    held_against_itself(&report);
}

/// Writes a report in each format.
pub fn written(report: &Report) {
    let mut out = Vec::new();
    for detail in DETAILS {
        for width in [1, 80] {
            text::write(&mut out, report, detail, width).expect("memory takes every byte");
        }
    }
    for format in TOOL_FORMATS {
        (format.write)(&mut out, report).expect("memory takes every byte");
        let _ = (format.exit)(report);
        if let Some(each) = format.each {
            let both = ["a", "b"].map(|name| (name.to_owned(), report));
            each(&mut out, &both).expect("memory takes every byte");
        }
    }
    let mut script = Vec::new();
    fix_script::write(&mut script, &[report, report]).expect("memory takes every byte");
    for line in script.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        assert!(line.is_empty() || line.starts_with('#'), "{line:?} runs");
    }
}

/// A report meets the expectation that is made of it, and has not changed since itself.
fn held_against_itself(report: &Report) {
    let expected = Expectation::of(report, None);
    let text = expected.to_text().expect("a report has texts alone");
    let again = Expectation::read(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
    assert_eq!(again.changes(report), [""; 0], "{text}");
    let mut out = Vec::new();
    json::write(&mut out, report).expect("memory takes every byte");
    let text = String::from_utf8(out).expect("JSON is UTF-8");
    let before = baseline::of_json(&text).unwrap_or_else(|| panic!("no report: {text}"));
    let changes = BaselineChanges::new("itself".into(), &before, report, Vec::new());
    assert_eq!(changes.changes, [""; 0], "{text}");
}
