//! Evidence that is lost never helps: an answer turned into damage never gives exit status 0, one that is withheld never leaves the word *healthy*, a
//! recording that is cut never gives 0.
//!
//! A sample of all answers runs each time, all of them with `RDMA_DOCTOR_CASES=all` (make exhaustive).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rdma_doctor::check::Catalogue;
use rdma_doctor::cli::{check, record};
use rdma_doctor::exit::Exit;
use rdma_doctor::report::{Policy, Report};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::Line;
use rdma_doctor::source::{Errno, Refusal};

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

/// Tries the fixtures' answers, one in `share` of what each says itself.
fn try_all(loss: Loss, share: usize) {
    let catalogue = Catalogue::embedded().unwrap();
    let (policy, begun) = (Policy::default(), Instant::now());
    let fixtures = fixtures();
    let (next, cases) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed: Mutex<Vec<String>> = Mutex::default();
    let one = |path: &Path| {
        let recording = Recording::open(path).unwrap();
        if recording.header.log {
            return;
        }
        let own = own_questions(path);
        let lines = recording.to_lines();
        for (at, line) in lines.iter().enumerate() {
            let Line::Reply {
                question, reply, ..
            } = line
            else {
                continue;
            };
            let mut hash = DefaultHasher::new();
            (path.file_name(), question, at, loss as u8).hash(&mut hash);
            let share = match &own {
                Some(own) if !own.contains(question) => share * 16,
                _ => share,
            };
            // What lost nothing of the base's questions the base has had itself.
            if reply.said.is_err() || !hash.finish().is_multiple_of(share as u64) {
                continue;
            }
            let less = without(&recording, &lines, at, loss);
            let report = check::judged(&catalogue, &[less], &policy, false);
            cases.fetch_add(1, Ordering::Relaxed);
            if let Some(how) = wrong(&report, loss) {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let mut failed = failed.lock().unwrap();
                if failed.is_empty() {
                    let less = without(&recording, &lines, at, loss);
                    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lost-evidence.jsonl");
                    std::fs::write(&kept, record::to_text(&less, None)).unwrap();
                }
                failed.push(format!("{name}: {loss:?} of {question}: {how}"));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = fixtures.get(next.fetch_add(1, Ordering::Relaxed)) {
                    one(path);
                }
            });
        }
    });
    let (cases, seconds) = (cases.into_inner(), begun.elapsed().as_secs_f64());
    let rate = cases as f64 / seconds;
    // Around libtest's capture: the figure is to be seen in a passing run too.
    let _ = writeln!(
        std::io::stdout().lock(),
        "{loss:?}: {cases} cases, {rate:.0} a second"
    );
    let failed = failed.into_inner().unwrap();
    assert!(cases >= 20, "{cases} cases are too few to tell");
    assert!(
        failed.is_empty(),
        "{} of {cases} cases (the first is kept as target/tmp/lost-evidence.jsonl):\n{}",
        failed.len(),
        failed
            .iter()
            .take(40)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
}

#[test]
fn lost_evidence_damaged_is_never_green() {
    try_all(Loss::Damage, sample::one_in(64));
}

#[test]
fn lost_evidence_withheld_is_never_healthy() {
    try_all(Loss::Withheld, sample::one_in(64));
}

#[test]
fn lost_evidence_cut_off_is_never_green() {
    try_all(Loss::Cut, sample::one_in(256));
}
