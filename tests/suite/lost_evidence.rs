//! Evidence that is lost never helps: an answer turned into damage never gives exit status 0, one that is withheld never leaves the word *healthy*, a
//! recording that is cut never gives 0.
//!
//! A sample of all answers runs each time, all of them with `RDMA_DOCTOR_CASES=all` (make exhaustive).

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rdma_doctor::check::Catalogue;
use rdma_doctor::cli::{many, record};
use rdma_doctor::exit::Exit;
use rdma_doctor::nodeset;
use rdma_doctor::report::{Policy, Report};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::Line;
use rdma_doctor::source::{Errno, Question, Refusal};

use crate::clusters::list;
use crate::fixtures::{fixtures, own_questions};
use crate::sample;

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Damage,
    Withheld,
    Cut,
}

/// The recording without its base: what it says with the answer at `at` lost so.
fn without(recording: &Recording, lines: &[Line], at: usize, loss: Loss) -> Recording {
    let mut less = Recording::new(recording.header.clone());
    less.header.base = None;
    for (number, line) in lines.iter().enumerate() {
        let mut line = line.clone();
        if loss == Loss::Cut && number >= at {
            return less;
        }
        if number == at
            && let Line::Reply { reply, .. } = &mut line
        {
            reply.said = Err(match (loss, at % 3) {
                (Loss::Withheld, _) => Refusal::Errno(Errno::EACCES),
                (_, 0) => Refusal::Errno(Errno::EIO),
                (_, 1) => Refusal::Timeout,
                _ => Refusal::Crash("killed by signal 11".into()),
            });
        }
        less.add(line);
    }
    less.end();
    less
}

/// What is wrong with the report of a recording that lost something.
fn wrong(report: &Report, loss: Loss) -> Option<String> {
    let bad = match loss {
        Loss::Damage | Loss::Cut => report.exit() == Exit::Healthy,
        Loss::Withheld => report.status == "healthy",
    };
    bad.then(|| format!("{} ({}): {}", report.status, report.exit, report.headline))
}

/// What is judged together: a fixture's recording, or those of a cluster's nodes.
struct Evidence {
    name: String,
    recordings: Vec<Recording>,
    /// The nodes that a cluster expects.
    expected: Option<Vec<String>>,
    /// What a fixture says itself, where it has a base.
    own: Option<HashSet<Question>>,
}

impl Evidence {
    fn of_fixture(path: &Path) -> Self {
        Self {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            recordings: vec![Recording::open(path).unwrap()],
            expected: None,
            own: own_questions(path),
        }
    }

    fn of_cluster(path: &Path) -> Self {
        let cluster = list::open(path);
        let expected = cluster.head.expect.as_ref();
        Self {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            expected: expected.map(|nodes| nodeset::expand(nodes).unwrap()),
            recordings: cluster.recordings,
            own: None,
        }
    }

    fn judged(&self, catalogue: &Catalogue, recordings: &[Recording]) -> Report {
        let policy = Policy::default();
        match &self.expected {
            None => many::judged(catalogue, recordings, &policy),
            Some(_) => many::recordings(catalogue, recordings, self.expected.clone(), &policy),
        }
    }

    /// Of which answers one in how many is tried: what the base of a fixture says is tried with the base too.
    fn share(&self, question: &Question, share: usize) -> usize {
        match &self.own {
            Some(own) if !own.contains(question) => share * 16,
            _ => share,
        }
    }
}

/// What is tried, and what came of it.
struct Trial<'a> {
    catalogue: &'a Catalogue,
    loss: Loss,
    share: usize,
    cases: AtomicUsize,
    /// What was wrong: the outcome, with the cases that had it.
    failed: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Trial<'_> {
    /// Loses each answer of the evidence, one in `share`. Of nodes that were asked the same the question is tried on one.
    fn each_answer(&self, evidence: &Evidence) {
        let mut tried: HashSet<Question> = HashSet::new();
        let nodes = evidence.recordings.len();
        for (member, recording) in evidence.recordings.iter().enumerate() {
            let lines = recording.to_lines();
            for (at, line) in lines.iter().enumerate() {
                let Line::Reply {
                    question, reply, ..
                } = line
                else {
                    continue;
                };
                let mut hash = DefaultHasher::new();
                (&evidence.name, question, self.loss as u8).hash(&mut hash);
                let hash = hash.finish();
                // An absence is no evidence. The node is drawn beside the case.
                let share = evidence.share(question, self.share) as u64;
                let drawn = hash.is_multiple_of(share)
                    && (hash / share) % nodes as u64 <= member as u64
                    && reply.said.is_ok();
                if !drawn || !tried.insert(question.clone()) {
                    continue;
                }
                let mut recordings = evidence.recordings.clone();
                recordings[member] = without(recording, &lines, at, self.loss);
                let report = evidence.judged(self.catalogue, &recordings);
                self.cases.fetch_add(1, Ordering::Relaxed);
                if let Some(how) = wrong(&report, self.loss) {
                    let case = format!("{} of {}", recording.header.node, evidence.name);
                    self.note(how, format!("{question} of {case}"), &recordings[member]);
                }
            }
        }
    }

    fn note(&self, how: String, case: String, recording: &Recording) {
        let mut failed = self.failed.lock().unwrap();
        if failed.is_empty() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lost-evidence.jsonl");
            std::fs::write(&kept, record::to_text(recording, None)).unwrap();
        }
        failed.entry(how).or_default().push(case);
    }
}

/// Tries one answer in `share` of what is opened of these files, on all processors.
fn try_all(loss: Loss, share: usize, paths: &[PathBuf], open: fn(&Path) -> Evidence) {
    let catalogue = Catalogue::embedded().unwrap();
    let trial = Trial {
        catalogue: &catalogue,
        loss,
        share,
        cases: AtomicUsize::new(0),
        failed: Mutex::default(),
    };
    let (next, begun) = (AtomicUsize::new(0), Instant::now());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    trial.each_answer(&open(path));
                }
            });
        }
    });
    let (cases, seconds) = (trial.cases.into_inner(), begun.elapsed().as_secs_f64());
    let rate = cases as f64 / seconds;
    // Around libtest's capture: the figure is to be seen in a passing run too.
    let _ = writeln!(
        std::io::stdout().lock(),
        "{loss:?}: {cases} cases, {rate:.0} a second"
    );
    let failed = trial.failed.into_inner().unwrap();
    assert!(cases > 0, "no case was tried");
    let said = failed.iter().map(|(how, cases)| {
        let count = cases.len();
        format!("{how}: {count}, the first {}", cases[0])
    });
    let said: Vec<String> = said.collect();
    assert!(
        said.is_empty(),
        "of {cases} cases, by outcome (the first case is kept as target/tmp/lost-evidence.jsonl):\n{}",
        said.join("\n")
    );
}

#[test]
fn lost_evidence_damaged_is_never_green() {
    try_all(
        Loss::Damage,
        sample::one_in(64),
        &fixtures(),
        Evidence::of_fixture,
    );
}

#[test]
fn lost_evidence_withheld_is_never_healthy() {
    try_all(
        Loss::Withheld,
        sample::one_in(64),
        &fixtures(),
        Evidence::of_fixture,
    );
}

#[test]
fn lost_evidence_cut_off_is_never_green() {
    try_all(
        Loss::Cut,
        sample::one_in(256),
        &fixtures(),
        Evidence::of_fixture,
    );
}

#[test]
fn lost_evidence_of_one_node_never_makes_its_cluster_green() {
    try_all(
        Loss::Damage,
        sample::one_in(512),
        &list::all(),
        Evidence::of_cluster,
    );
}

#[test]
fn lost_evidence_withheld_by_one_node_never_leaves_its_cluster_healthy() {
    try_all(
        Loss::Withheld,
        sample::one_in(512),
        &list::all(),
        Evidence::of_cluster,
    );
}

#[test]
fn lost_evidence_of_a_node_that_was_cut_off_never_leaves_its_cluster_green() {
    try_all(
        Loss::Cut,
        sample::one_in(512),
        &list::all(),
        Evidence::of_cluster,
    );
}
