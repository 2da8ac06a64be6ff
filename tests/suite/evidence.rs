//! Evidence that is lost: no missing reply takes away a fault that another reply proves.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rdma_doctor::check::{Catalogue, Outcome, Severity, judge};
use rdma_doctor::cli::input;
use rdma_doctor::fact::{Facts, Id, Origin};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::Line;
use rdma_doctor::source::{Errno, Question, Refusal, Reply};

use crate::{fixtures, sample};

/// The recording with one reply refused.
fn damaged(recording: &Recording, line: &Line, refusal: Refusal) -> Recording {
    let Line::Reply {
        probe,
        question,
        repeat,
        reply,
    } = line
    else {
        unreachable!("only replies are damaged");
    };
    let mut less = recording.clone();
    // What is added to an overlay takes the place of what is there.
    less.header.base = Some("itself".into());
    less.add(Line::Reply {
        probe: probe.clone(),
        question: question.clone(),
        repeat: *repeat,
        reply: Reply {
            at: reply.at,
            said: Err(refusal),
        },
    });
    less.header.base = None;
    less
}

/// For each fixture with an error, each reply turned into EIO: the errors that are not found without it, in a list to read.
///
/// Most are lost with the reply that is their evidence. What is to be looked at is an error that another reply proves.
#[test]
#[ignore = "it writes a list for a person to read, and takes minutes"]
fn errors_lost_with_each_reply() {
    let mut catalogue = Catalogue::embedded().unwrap();
    catalogue.checks.retain(|c| c.severity == Severity::Error);
    let chosen = std::env::var("RDMA_DOCTOR_FIXTURES").unwrap_or_default();
    let found = fixtures::fixtures();
    let named = |path: &&PathBuf| path.to_string_lossy().contains(&chosen);
    let found: Vec<&PathBuf> = found.iter().filter(named).collect();
    let pages = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let page = lost_in(&catalogue, path);
                    pages.lock().unwrap().insert(path, page);
                }
            });
        }
    });
    let pages: String = pages.into_inner().unwrap().into_values().collect();
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors-lost.txt");
    std::fs::write(&to, pages).unwrap();
    println!("{}", to.display());
}

/// The errors of a fixture that each reply takes with it. Of an overlay, of what it does not say itself one reply in eight is lost.
fn lost_in(catalogue: &Catalogue, path: &Path) -> String {
    let recording = Recording::open(path).unwrap();
    let (facts, _) = input::facts(std::slice::from_ref(&recording));
    let before = failing(catalogue, &facts);
    let mut page = String::new();
    if before.is_empty() {
        return page;
    }
    let own = fixtures::own_questions(path);
    let _ = writeln!(page, "{}", path.display());
    for (at, line) in recording.to_lines().iter().enumerate() {
        let Line::Reply { question, .. } = line else {
            continue;
        };
        let is_own = own.as_ref().is_none_or(|own| own.contains(question));
        if at % sample::one_in(8) != 0 && !is_own {
            continue;
        }
        let less = damaged(&recording, line, Refusal::Errno(Errno::EIO));
        let (left, _) = input::facts(std::slice::from_ref(&less));
        let after = failing(catalogue, &left);
        let lost = before.iter().filter(|(of, _)| !after.contains_key(*of));
        for ((check, subject), origins) in lost {
            let is_it = |origin: &Origin| matches!(origin, Origin::Asked(q) if q == question);
            let evidence = if origins.iter().any(is_it) {
                ", its evidence"
            } else {
                ""
            };
            let none = if after.is_empty() {
                ", no error left"
            } else {
                ""
            };
            let _ = writeln!(
                page,
                "  {check} of {subject} without {question}{evidence}{none}"
            );
        }
    }
    page
}

fn failing(catalogue: &Catalogue, facts: &Facts) -> BTreeMap<(String, String), Vec<Origin>> {
    let name = |id: Id| facts.name(id).to_owned();
    judge(catalogue, facts)
        .into_iter()
        .filter(|v| matches!(v.outcome, Outcome::Fails))
        .map(|v| {
            let check = &catalogue.checks[v.check];
            let origins = check.evidence(facts, v.subject);
            let origins = origins.into_iter().filter_map(|e| e.origin).collect();
            ((check.id.to_string(), name(v.subject)), origins)
        })
        .collect()
}

/// What becomes of a check that fails in a fixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    /// It still fails.
    Found,
    /// It is open, and so is the verdict.
    Undecided,
    /// Nothing tells that there was a fault.
    Green,
}

fn left(catalogue: &Catalogue, recording: &Recording) -> Left {
    let (facts, _) = input::facts(std::slice::from_ref(recording));
    let verdicts = judge(catalogue, &facts);
    let any = |wanted: fn(&Outcome) -> bool| verdicts.iter().any(|v| wanted(&v.outcome));
    if any(|outcome| matches!(outcome, Outcome::Fails)) {
        Left::Found
    } else if any(|outcome| matches!(outcome, Outcome::Unknown(_) | Outcome::FailsIf)) {
        Left::Undecided
    } else {
        Left::Green
    }
}

fn refusals() -> [Refusal; 3] {
    [
        Refusal::Errno(Errno::EIO),
        Refusal::Timeout,
        Refusal::Crash("killed by signal 11".into()),
    ]
}

fn open(fixture: &str) -> Recording {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let path = ["jsonl", "jsonl.zst"].map(|end| dir.join(format!("{fixture}.{end}")));
    Recording::open(path.iter().find(|path| path.exists()).unwrap()).unwrap()
}

fn alone(check: &str) -> Catalogue {
    let mut catalogue = Catalogue::embedded().unwrap();
    catalogue.checks.retain(|c| *c.id == *check);
    assert_eq!(catalogue.checks.len(), 1, "{check}");
    catalogue
}

/// After so many damaged replies the others are damaged in one way only.
const MANY: usize = 60;

/// Damages each of these replies in turn, in three ways; gives those without which the check does not fail, and what it says then.
fn losses(check: &str, fixture: &str, of: impl Fn(&Question) -> bool) -> Vec<(String, Left)> {
    let (catalogue, recording) = (alone(check), open(fixture));
    assert_eq!(
        left(&catalogue, &recording),
        Left::Found,
        "{check} in {fixture}"
    );
    let mut lost = Vec::new();
    let mut tried = 0;
    let lines = recording.to_lines();
    let wanted = lines
        .iter()
        .filter(|line| matches!(line, Line::Reply { question, .. } if of(question)));
    for (at, line) in wanted.enumerate() {
        let Line::Reply { question, .. } = line else {
            continue;
        };
        // Of many replies one way to lose each is enough.
        let many = tried > MANY;
        for (way, refusal) in refusals().into_iter().enumerate() {
            if many && way != at % 3 {
                continue;
            }
            tried += 1;
            let left = left(&catalogue, &damaged(&recording, line, refusal));
            if left != Left::Found {
                lost.push((serde_json::to_string(question).unwrap(), left));
            }
        }
    }
    assert!(tried > 0, "{fixture} has no such reply");
    lost.dedup();
    lost
}

fn is_rank(question: &Question) -> bool {
    matches!(question, Question::Bench(call) if call.number("rank").is_some())
}

const NOTHING: [(String, Left); 0] = [];

fn is_read(path: &'static str) -> impl Fn(&Question) -> bool {
    move |question| matches!(question, Question::Read(read) if **read == *path)
}

#[test]
fn the_missing_reply_of_one_rank_hides_no_wrong_result() {
    let fixture = "modelled-ablation-ib-cures";
    let all = losses("bench/results-wrong", fixture, is_rank);
    // Only the rank that saw it is missed, and then nobody says that the results are right.
    let of_witness = (
        r#"{"bench":"collective","arm":"baseline","rank":3,"round":0}"#.to_owned(),
        Left::Undecided,
    );
    assert_eq!(all, [of_witness]);
}

#[test]
fn the_missing_reply_of_one_rank_hides_no_rank_that_hung() {
    for fixture in [
        "modelled-ablation-cross-nic-cures",
        "modelled-ablation-p2p-cures",
    ] {
        assert_eq!(losses("bench/rank-hung", fixture, is_rank), NOTHING);
    }
}

#[test]
fn a_rank_that_crashed_is_a_run_that_failed() {
    let (catalogue, recording) = (
        alone("bench/run-failed"),
        open("modelled-ablation-one-node"),
    );
    assert_eq!(left(&catalogue, &recording), Left::Green);
    let lines = recording.to_lines();
    let is_baseline = |question: &Question| match question {
        Question::Bench(call) => call.text("arm") == Some("baseline") && is_rank(question),
        _ => false,
    };
    let ranks = lines
        .iter()
        .filter(|line| matches!(line, Line::Reply { question, .. } if is_baseline(question)));
    let mut tried = 0;
    for line in ranks {
        tried += 1;
        let [errno, timeout, crash] =
            refusals().map(|refusal| left(&catalogue, &damaged(&recording, line, refusal)));
        assert_eq!((errno, timeout), (Left::Undecided, Left::Undecided));
        assert_eq!(crash, Left::Found);
    }
    assert!(tried > 0);
}

#[test]
fn the_missing_reply_of_one_pair_hides_no_rdma_that_fails() {
    let of_pairs =
        |question: &Question| matches!(question, Question::Bench(call) if &*call.name == "pairs");
    let all = losses("pairs/rdma-fails", "modelled-pairs-rdma", of_pairs);
    assert_eq!(all, NOTHING);
}

#[test]
fn the_missing_row_of_a_gid_table_hides_no_missing_address() {
    // A thousand empty rows are alike: of those that are not in use a few are enough.
    let rows = |question: &Question| {
        let path = question.path().unwrap_or_default();
        let row = path.split_once("/gids/").or(path.split_once("/types/"));
        row.is_some_and(|(_, index)| index.len() < 2 && index < "4" || index == "700")
    };
    let all = losses("roce/v2-gid-link-local-only", "rxe-no-address", rows);
    // Without the type of the only row nobody knows that it is of RoCE v2.
    let of_type = |(question, left): &(String, Left)| {
        question.contains("/types/0") && *left == Left::Undecided
    };
    assert!(all.iter().all(of_type), "{all:?}");
}

/// What the reply itself is the evidence of is open without it, and not fine.
#[test]
fn without_the_reply_of_cuda_it_is_not_known_to_start() {
    let starts = |question: &Question| question.to_string().starts_with("cuInit");
    for (check, fixture) in [
        ("cuda/fails", "modelled-gpu-cuda-fails"),
        ("cuda/library-mismatch", "modelled-gpu-cuda-mismatch"),
        ("cuda/not-ready", "modelled-gpu-cuda-not-ready"),
        ("cuda/stub-library", "modelled-gpu-cuda-stub"),
        ("cuda/compat-unsupported", "modelled-gpu-cuda-compat"),
    ] {
        let all = losses(check, fixture, starts);
        assert!(!all.is_empty());
        for (question, left) in all {
            assert_eq!(left, Left::Undecided, "{check}: {question}");
        }
    }
}

#[test]
fn without_the_reply_of_nvml_it_is_not_known_to_work() {
    let asks = |question: &Question| question.to_string().starts_with("nvml_system");
    let (catalogue, recording) = (alone("gpu/nvml-hangs"), open("modelled-gpu-hangs"));
    let lines = recording.to_lines();
    let line = lines
        .iter()
        .find(|line| matches!(line, Line::Reply { question, .. } if asks(question)))
        .unwrap();
    let [errno, timeout, crash] =
        refusals().map(|refusal| left(&catalogue, &damaged(&recording, line, refusal)));
    // No answer, and a crash, are what the check is about.
    assert_eq!(errno, Left::Undecided);
    assert_eq!((timeout, crash), (Left::Found, Left::Found));
    for (question, left) in losses("gpu/nvml-hangs", "modelled-gpu-hangs", |_| true) {
        assert_eq!(left, Left::Undecided, "{question}");
    }
}

#[test]
fn the_missing_reply_of_one_adapter_hides_no_list_that_names_none() {
    let fixture = "modelled-roce-nccl-nothing-selected";
    let of_adapter = |question: &Question| {
        let path = question.path().unwrap_or_default();
        path.starts_with("/sys/class/infiniband/mlx5_")
    };
    let lost = losses("nccl/no-hca", fixture, of_adapter);
    assert_eq!(lost, NOTHING);
    for (question, left) in losses("nccl/no-hca", fixture, |_| true) {
        assert_eq!(left, Left::Undecided, "{question}");
    }
}

#[test]
fn the_missing_rules_of_one_packet_filter_hide_none_that_another_has() {
    let (check, fixture) = ("firewall/bootstrap-blocked", "modelled-roce-firewall");
    for path in ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"] {
        assert_eq!(losses(check, fixture, is_read(path)), NOTHING, "{path}");
    }
    for (question, left) in losses(check, fixture, |_| true) {
        assert_eq!(left, Left::Undecided, "{question}");
    }
}

#[test]
fn the_missing_reply_of_one_gpu_hides_no_pair_without_access_among_others() {
    let (check, fixture) = ("p2p/access-missing", "modelled-gpu-copies-faults");
    let rows = |question: &Question| question.to_string().starts_with("cuDeviceCanAccessPeer");
    let lost = losses(check, fixture, rows);
    let recording = open(fixture);
    let all = recording.to_lines();
    let all = all
        .iter()
        .filter(|line| matches!(line, Line::Reply { question, .. } if rows(question)));
    assert!(lost.iter().all(|(_, left)| *left == Left::Undecided));
    // Only the two of the pair are missed.
    assert!(lost.len() <= 2 && all.count() > 2, "{lost:?}");
}
