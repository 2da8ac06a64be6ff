//! What a report is held against, and lists of hosts: reports in JSON, expected verdicts, hostfiles
//! and sets of nodes.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rdma_doctor::cluster::hostfile;
use rdma_doctor::nodeset;
use rdma_doctor::report::Report;
use rdma_doctor::report::baseline::{self, BaselineChanges};
use rdma_doctor::report::expectation::Expectation;

static REPORT: LazyLock<Report> =
    LazyLock::new(|| super::judged::judged(&[super::machines::recorded("modelled-ib.jsonl")]));

/// Tries one input, of which the first byte says what it is.
pub fn run(bytes: &[u8]) {
    let Some((what, text)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    match what % 4 {
        0 => held_against(baseline::of_json(&text)),
        1 => match Expectation::read(&text) {
            Ok(expected) => held_against(Some(expected)),
            Err(why) => assert!(!why.is_empty()),
        },
        2 => {
            if let Err(why) = hostfile::read(&text) {
                assert!(!why.to_string().is_empty());
            }
        }
        _ => {
            if let Ok(names) = nodeset::expand(&text) {
                let again = nodeset::expand(&nodeset::fold(&names));
                let all: Result<BTreeSet<String>, _> = again.map(|all| all.into_iter().collect());
                assert_eq!(all, Ok(names.into_iter().collect()), "{text:?}");
            }
        }
    }
}

fn held_against(expected: Option<Expectation>) {
    let Some(expected) = expected else { return };
    let before = expected.to_text().expect("it has texts alone");
    let again = Expectation::read(&before).unwrap_or_else(|why| panic!("{why}: {before}"));
    assert_eq!(again.to_text().ok(), Some(before));
    let changes = BaselineChanges::new("before".into(), &expected, &REPORT, Vec::new());
    let mut report = Report {
        headline: REPORT.headline.clone(),
        status: REPORT.status,
        baseline: Some(changes),
        ..Report::default()
    };
    super::judged::written(&report);
    report.baseline = None;
    let _ = baseline::majority(&[expected, again]);
}
