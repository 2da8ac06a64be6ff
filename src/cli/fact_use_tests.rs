//! Every fact is used: by a check, by a derivation, or by a command that shows it. One that is not costs questions, and time of each job.

use std::collections::BTreeSet;
use std::path::Path;

use super::nccl_env;
use crate::check::{Catalogue, judge};
use crate::derive::derive;
use crate::examine::one;
use crate::fact::reads::{Read, during};
use crate::fact::{Facts, Subject};
use crate::measure::plan::p2p::{NAME, Results};
use crate::probe::{self, nccl_log, ranks};
use crate::report::p2p::{Copies, text as copies};
use crate::report::topology::{Topology, text as drawing};
use crate::report::{self, Policy};
use crate::source::recording::Recording;

/// Facts that no check, no derivation and no command but `facts` takes, all of a subject's where it ends in a dot, and what for they are there.
const SHOWN_ONLY: [(&str, &str); 33] = [
    ("live_rank.first", "the page of a job draws it"),
    ("live_rank.second", "the page of a job draws it"),
    ("ib_fabric.summary", "a report names what was read by it"),
    ("shown_output.", "hosts of a text are compared by it"),
    ("cluster.tried", "the area `reach` is there by it"),
    (
        "cluster.untried",
        "the area `reach` is examined in part by it",
    ),
    ("live_job.complete", "the area `ranks` is examined by it"),
    (
        "live_job.withheld",
        "the area `ranks` says by it what could not be looked at",
    ),
    (
        "reach.hosts",
        "by these nodes a way is folded beneath its cause",
    ),
    (
        "interface.index",
        "by this netlink names the interface of a discipline or a route",
    ),
    (
        "interface.refused_addresses",
        "each of these is an obstacle",
    ),
    (
        "interface.leased_address",
        "an obstacle where nothing renews it",
    ),
    ("interface.lease_ends", "it says when that obstacle comes"),
    ("interface.arp", "without it an interface is an obstacle"),
    (
        "cluster.nodes",
        "a site's checks of several nodes apply by it",
    ),
    (
        "module.builtin",
        "tells whether a module can be loaded anew",
    ),
    ("gpu.index", "by this NVIDIA's tools name it"),
    (
        "gpu.max_payload",
        "all functions of PCIe have the same facts, and adapters' is judged",
    ),
    ("gpu.uuid", "by this CUDA_VISIBLE_DEVICES names it"),
    (
        "node.cuda_dma_buf",
        "decides node.gpudirect where CUDA was asked and no peer memory module is loaded, as in no fixture",
    ),
    ("netdev.pauses_sent", "what a later look is compared with"),
    ("netdev.pause_counters", "of which statistics that is"),
    (
        "path.terms",
        "what stands beside the term that binds, for who asks how a ceiling comes about",
    ),
    // A log is read by who looks for what went wrong, and costs a node nothing.
    ("run.", "what a log says of a run"),
    ("host.", "what a log says of a host"),
    ("rank.", "what a log says of a process, among hundreds"),
    ("channel.", "what a log says of a channel"),
    ("event.", "what the line of a failure says"),
    // Read where it is asked for, which a fixture is not.
    ("comparison.", "several nodes beside each other"),
    ("measurement.", "what somebody measured"),
    ("arm.", "what somebody measured"),
    ("factor.", "what somebody measured"),
    ("effect.", "what somebody measured"),
];

/// What checks name in conditions, findings and remedies, and what areas tell.
fn named(catalogue: &Catalogue) -> Read {
    let mut all = Read::new();
    for check in &catalogue.checks {
        all.extend(check.conditions().flat_map(|condition| condition.facts()));
        all.extend(check.finding().facts().chain(check.advice().fix.facts()));
    }
    for (when, text) in catalogue.areas.iter().flat_map(|area| &area.tells) {
        all.extend(when.facts().chain(text.facts()));
    }
    all
}

/// What derivations and commands read of a recording. What probes of a machine read of each other is there to be read once more; of a log
/// hosts and runs are summed up from their parts.
fn read(recording: &Recording) -> Read {
    let mut facts = Facts::new();
    let node = (!recording.header.log).then(|| probe::establish(recording, &mut facts));
    let used = during(|| {
        if node.is_none() {
            nccl_log::establish(recording, &mut facts);
            ranks::establish([recording], &mut facts);
        }
        derive(&mut facts);
        let mut out = Vec::new();
        // Checks have been counted; without them a report reads what it shows of its own.
        let none = Catalogue::default();
        let verdicts = judge(&none, &facts);
        let nodes: Vec<_> = node
            .map(|node| one::recorded(recording, node))
            .into_iter()
            .collect();
        report::report(
            &none,
            &facts,
            &verdicts,
            &nodes,
            &Policy {
                with_passes: true,
                ..Policy::default()
            },
        );
        let Some(node) = node else {
            return;
        };
        drawing::write(&mut out, &Topology::of(&facts, node), 100).unwrap();
        nccl_env::text(&mut out, &facts, node).unwrap();
        nccl_env::to_json(&facts, node);
        if let Ok(results) = Results::read(&recording.of(NAME)) {
            copies::write(&mut out, &Copies::of(&facts, node, &results), 100).unwrap();
        }
    });
    used.read
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test looks at the project's own fixtures"
)]
fn every_fact_is_used() {
    let catalogue = Catalogue::embedded().unwrap();
    let mut used = named(&catalogue);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let path = entry.unwrap().path();
        let is_recording = path.to_string_lossy().contains(".jsonl");
        if is_recording {
            used.extend(read(&Recording::open(&path).unwrap()));
        }
    }
    let mut unused = Vec::new();
    let mut needed = BTreeSet::new();
    for subject in Subject::ALL {
        let schema = subject.schema();
        for (index, fact) in schema.facts.iter().enumerate() {
            let path = format!("{}.{}", schema.name, fact.name);
            let mut exceptions = SHOWN_ONLY.iter().map(|(begin, _)| *begin);
            match exceptions
                .find(|begin| path == *begin || begin.ends_with('.') && path.starts_with(begin))
            {
                _ if used.contains(&(subject, index)) => {}
                Some(begin) => {
                    needed.insert(begin);
                }
                None => unused.push(path),
            }
        }
    }
    assert!(unused.is_empty(), "nothing uses {}", unused.join(", "));
    let mut needless = SHOWN_ONLY.map(|(begin, _)| begin).to_vec();
    needless.retain(|begin| !needed.contains(begin));
    assert!(needless.is_empty(), "need no exception: {needless:?}");
}
