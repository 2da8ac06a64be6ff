//! Every cluster of the fixtures gives the verdict that is checked in, and no line that a node loses turns a verdict into another one.
//!
//! `make bless` writes the verdicts.

pub(crate) mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rdma_doctor::check::Catalogue;
use rdma_doctor::examine::{many, recording_text};
use rdma_doctor::nodeset;
use rdma_doctor::report::{Finding, Policy, Report};
use rdma_doctor::source::recording::Recording;

use crate::page::{self, CheckVerdicts};

/// The report of a cluster.
pub(crate) fn judged(catalogue: &Catalogue, cluster: &list::Cluster) -> Report {
    let expected = cluster
        .head
        .expect
        .as_ref()
        .map(|list| nodeset::expand(list).unwrap());
    many::recordings(
        catalogue,
        &cluster.recordings,
        expected,
        &Policy {
            with_passes: true,
            ..Policy::default()
        },
    )
}

fn findings(report: &Report) -> impl Iterator<Item = &Finding> {
    report.causes.iter().chain(&report.notes)
}

/// What is said of the cluster: each check with its word, and what it is said of.
fn words(report: &Report) -> BTreeMap<String, BTreeSet<(&'static str, String)>> {
    let mut all: BTreeMap<String, BTreeSet<(&str, String)>> = BTreeMap::new();
    let mut say = |check: &str, word, subject: &str| {
        if check.starts_with("cluster/") {
            all.entry(check.to_owned())
                .or_default()
                .insert((word, subject.to_owned()));
        }
    };
    for finding in findings(report) {
        for subject in &finding.subjects {
            say(&finding.check, "fails", subject);
        }
        for consequence in &finding.consequences {
            say(&consequence.check, "fails", &consequence.subject);
        }
    }
    for pass in &report.passes {
        say(&pass.check, "passes", &pass.subject);
    }
    for open in &report.open {
        for subject in &open.subjects {
            say(&open.check, "unknown", subject);
        }
    }
    all
}

#[test]
fn each_cluster_has_its_verdict() {
    let catalogue = Catalogue::embedded().unwrap();
    let of_clusters = catalogue.checks.iter().map(|check| &*check.id);
    let mut silent: BTreeSet<&str> = of_clusters
        .filter(|id| id.starts_with("cluster/"))
        .collect();
    let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("clusters");
    let _ = std::fs::remove_dir_all(&made);
    let mut names = BTreeMap::new();
    for path in list::all() {
        let cluster = list::open(&path);
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        write(&made.join(&name), &cluster.recordings);
        let mut report = judged(&catalogue, &cluster);
        let mut said = CheckVerdicts::default();
        for (check, words) in words(&report) {
            for (word, subject) in words {
                said.add(word, &check, &subject);
            }
        }
        for check in said.checks("fails") {
            silent.remove(check);
        }
        page::adds_up(&report);
        report.passes.clear();
        page::expect(&name, || {
            format!("{}\n\n{}", cluster.head.about, page::page(&report, &said))
        });
        let expected = cluster.head.expect.iter();
        let nodes: String = expected
            .map(|list| format!("nodes = \"{list}\"\n"))
            .collect();
        names.insert(name, nodes + page::ALL_KEYS);
    }
    // The file of a cluster makes recordings alone; `strangers::judging` has what is none.
    silent.remove("cluster/node-unjudged");
    assert!(silent.is_empty(), "fails in no cluster: {silent:?}");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/clusters");
    page::as_expected(&made, &kept, &names);
}

/// Writes a cluster's nodes as recordings in a directory.
fn write(directory: &Path, nodes: &[Recording]) {
    std::fs::create_dir_all(directory).unwrap();
    for (at, node) in nodes.iter().enumerate() {
        let path = directory.join(format!("{at:02}-{}.jsonl", node.header.node));
        std::fs::write(path, recording_text::to_text(node, None)).unwrap();
    }
}

/// What one node does not say can make a verdict unknown, and not another one.
#[test]
fn a_line_that_one_node_loses_turns_no_verdict_into_another() {
    let catalogue = Catalogue::embedded().unwrap();
    let path = list::all()
        .into_iter()
        .find(|path| path.ends_with("cluster-two-that-differ.cluster"))
        .unwrap();
    let cluster = list::open(&path);
    let whole = judged(&catalogue, &cluster);
    let whole = words(&whole);
    let lines = cluster.recordings[0].to_lines();
    // Each seventh, since every line is a whole judgement.
    for lost in (0..lines.len()).step_by(7) {
        let mut less = Recording::new(cluster.recordings[0].header.clone());
        for (at, line) in lines.iter().enumerate() {
            if at != lost {
                less.add(line.clone());
            }
        }
        less.add(rdma_doctor::source::wire::Line::Complete {
            lines: less.lines(),
        });
        let mut recordings = cluster.recordings.clone();
        recordings[0] = less;
        let report = many::recordings(
            &catalogue,
            &recordings,
            None,
            &Policy {
                with_passes: true,
                ..Policy::default()
            },
        );
        let after = words(&report);
        for (check, said) in &after {
            for (word, subject) in said {
                let before = whole.get(check).into_iter().flatten();
                let mut before = before
                    .filter(|(_, s)| s == subject)
                    .map(|(word, _)| *word)
                    .peekable();
                let fine =
                    *word == "unknown" || before.peek().is_none() || before.any(|w| w == *word);
                assert!(
                    fine,
                    "without {:?}: {check} for {subject} is {word}",
                    lines[lost]
                );
            }
        }
    }
}
