//! Every fixture gives the verdict that is checked in, whole or redacted; and no line that is lost turns a verdict into another one.
//!
//! `make bless` writes the verdicts.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rdma_doctor::check::{Catalogue, Check};
use rdma_doctor::check::{Outcome, join, judge};
use rdma_doctor::examine::{many, one, recording_text};
use rdma_doctor::fact::{Facts, Id, Subject};
use rdma_doctor::probe::{Ask, PROBES, outputs};
use rdma_doctor::report::Policy;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::redact::Key;
use rdma_doctor::source::wire::{self, Line};
use rdma_doctor::source::{Answer, Question, Refusal, Reply, Source};

use crate::page::{self, CheckVerdicts};
use crate::sample;

/// All fixtures, or those that `RDMA_DOCTOR_FIXTURES` names by a part.
pub(crate) fn fixtures() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| {
            p.to_string_lossy().ends_with(".jsonl") || p.to_string_lossy().ends_with(".jsonl.zst")
        })
        .collect();
    found.sort();
    assert!(found.len() >= 8, "the fixtures are there");
    found
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap()
        .to_string_lossy()
        .split('.')
        .next()
        .unwrap()
        .to_owned()
}

/// Between the names of a log's run, host and what is on the host.
const WITHIN: &str = " > ";

/// Whether it is a hardware address of Ethernet.
fn is_mac(word: &str) -> bool {
    let pairs: Vec<&str> = word.split(':').collect();
    let is_pair = |pair: &&str| pair.len() == 2 && u8::from_str_radix(pair, 16).is_ok();
    pairs.len() == 6 && pairs.iter().all(is_pair)
}

/// A name without the addresses in it.
fn without_addresses(name: &str) -> String {
    let words = name.split(' ').map(|word| {
        let word = word.trim_end_matches([',', ':']);
        let (address, length) = word.split_once('/').unwrap_or((word, ""));
        match address.parse::<std::net::IpAddr>() {
            Ok(_) => format!("address/{length}"),
            Err(_) if is_mac(word) => "mac".to_owned(),
            Err(_) => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The verdicts without the names of a log's hosts and without addresses, which redaction changes.
fn without_hosts<'v>(
    verdicts: &BTreeMap<(String, String), &'v str>,
) -> BTreeMap<(String, String), Vec<&'v str>> {
    let mut all: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for ((check, subject), word) in verdicts {
        let mut names: Vec<&str> = subject.split(WITHIN).collect();
        if let Some(host) = names.get_mut(1) {
            *host = "host";
        }
        let of = (check.clone(), without_addresses(&names.join(WITHIN)));
        all.entry(of).or_default().push(word);
    }
    for words in all.values_mut() {
        words.sort_unstable();
    }
    all
}

/// A verdict: the check's number, the subject's name, and what is said.
type Row = (usize, Arc<str>, &'static str);

/// Every verdict, in the order in which they are given.
fn rows(catalogue: &Catalogue, recording: &Recording) -> (Vec<Row>, Facts) {
    let (mut facts, _) = one::facts(std::slice::from_ref(recording));
    join(catalogue, &mut facts);
    let mut names: HashMap<Id, Arc<str>> = HashMap::new();
    let verdicts = judge(catalogue, &facts);
    let several = facts.all(Subject::Measurement).count() > 1;
    let mut all = Vec::with_capacity(verdicts.len());
    for v in verdicts {
        let word = match v.outcome {
            Outcome::Passes(_) => "passes",
            Outcome::Fails => "fails",
            Outcome::FailsIf => "fails if its premise is met",
            Outcome::Waived(_) => "waived",
            Outcome::Unknown(_) => "unknown",
            Outcome::DoesNotApply => "does not apply",
        };
        let name = names.entry(v.subject).or_insert_with(|| {
            match facts.subject(v.subject) {
                Subject::Node => "node".into(),
                // On each host of a log events and variables have the same names.
                _ if facts.ancestor(v.subject, Subject::Run).is_some() => {
                    let mut names: Vec<&str> =
                        facts.lineage(v.subject).map(|id| facts.name(id)).collect();
                    names.pop();
                    names.reverse();
                    names.join(WITHIN).into()
                }
                // Each measurement has a baseline.
                _ if several
                    && let Some(of) = facts.ancestor(v.subject, Subject::Measurement)
                    && of != v.subject =>
                {
                    let names = [facts.name(of), facts.name(v.subject)];
                    names.join(WITHIN).into()
                }
                _ => facts.name(v.subject).into(),
            }
        });
        all.push((v.check, Arc::clone(name), word));
    }
    (all, facts)
}

/// Each verdict by check and subject.
fn verdicts(
    catalogue: &Catalogue,
    recording: &Recording,
) -> BTreeMap<(String, String), &'static str> {
    let mut all = BTreeMap::new();
    for (check, subject, word) in rows(catalogue, recording).0 {
        let of = (
            catalogue.checks[check].case.to_string(),
            subject.to_string(),
        );
        let old = all.insert(of, word);
        assert!(old.is_none(), "one verdict for each check and subject");
    }
    all
}

#[test]
fn each_fixture_has_its_verdict() {
    let catalogue = Catalogue::embedded().unwrap();
    // Those of several nodes are shown by clusters: tests/suite/clusters.rs asks that each of them fails in one. Ways
    // between nodes are shown by nodes that try them (tests/suite/reach.rs and src/derive/reach.rs). Waivers and the inventory are no part of a recording.
    let of_nodes = |check: &&Check| {
        let of_site = matches!(check.subject, Subject::Waiver | Subject::Inventory);
        let of_several = matches!(check.subject, Subject::Comparison | Subject::Reach);
        !of_several && !of_site
    };
    let alone = catalogue.checks.iter().filter(of_nodes);
    let mut silent: HashSet<&str> = alone.map(|check| &*check.case).collect();
    for path in fixtures() {
        let recording = Recording::open(&path).unwrap();
        assert!(
            recording.is_complete() || recording.header.altered.is_some(),
            "{path:?} is whole"
        );
        let one = std::slice::from_ref(&recording);
        let report = many::judged(&catalogue, one, &Policy::default());
        page::adds_up(&report);
        let mut said = CheckVerdicts::default();
        let mut judged = HashSet::new();
        for (check, subject, word) in rows(&catalogue, &recording).0 {
            let id = &*catalogue.checks[check].case;
            said.add(word, id, &subject);
            judged.insert(check);
        }
        // Every check has a verdict for something, on every machine: nothing is skipped quietly.
        assert_eq!(judged.len(), catalogue.checks.len(), "{path:?}");
        for word in ["passes", "fails", "fails if its premise is met"] {
            for check in said.checks(word) {
                silent.remove(check);
            }
        }
        page::expect(&name(&path), || page::page(&report, &said));
    }
    assert!(
        silent.is_empty(),
        "neither passes nor fails in any fixture: {silent:?}"
    );
    let new = |path: &PathBuf| (name(path), page::ALL_KEYS.to_owned());
    let names = fixtures().iter().map(new).collect();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    page::as_expected(&place, &place, &names);
}

#[test]
fn redaction_keeps_judgement() {
    let catalogue = Catalogue::embedded().unwrap();
    for path in fixtures().into_iter().step_by(sample::one_in(3)) {
        let raw = Recording::open(&path).unwrap();
        let text = recording_text::to_text(&raw, Some(Key::from_bytes([7; 16])));
        let mut redacted = Recording::read(text.as_bytes(), &path).unwrap();
        redacted.header.altered = raw.header.altered.clone();
        assert!(redacted.header.redacted);
        let before = without_hosts(&verdicts(&catalogue, &raw));
        let after = without_hosts(&verdicts(&catalogue, &redacted));
        let differing: Vec<_> = before
            .iter()
            .filter(|(of, words)| after.get(*of) != Some(*words))
            .map(|(of, words)| (of, words, after.get(of)))
            .collect();
        assert!(differing.is_empty(), "{path:?}: {differing:?}");
        assert_eq!(before.len(), after.len(), "{path:?}");
    }
}

#[test]
fn a_lost_line_turns_no_verdict_into_another() {
    let catalogue = Catalogue::embedded().unwrap();
    let mut fixtures = fixtures();
    // While one is being mended it alone is enough, and each of its lines has its turn.
    let chosen = std::env::var("RDMA_DOCTOR_FIXTURES").ok();
    if let Some(words) = &chosen {
        fixtures.retain(|path| path.to_string_lossy().contains(words));
    }
    // Of an overlay, more of the lines that it says itself than of those of its base, whose own turn loses them.
    let (own, base) = match chosen {
        Some(_) => (1, 1),
        None => (sample::one_in(8), sample::one_in(64)),
    };
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = fixtures.get(number) else {
                        break;
                    };
                    lose_each_line(&catalogue, path, number, (own, base));
                }
            });
        }
    });
}

/// What an overlay says itself; `None` where the fixture is a recording of its own.
pub(crate) fn own_questions(path: &Path) -> Option<HashSet<Question>> {
    if path.extension().is_some_and(|end| end == "zst") {
        return None;
    }
    let text = std::fs::read_to_string(path).unwrap();
    let (header, lines) = text.split_once('\n').unwrap();
    wire::parse_header(header).unwrap().base?;
    let questions = lines
        .lines()
        .filter_map(|line| match wire::parse_line(line).unwrap() {
            Line::Reply { question, .. } | Line::Drop(question) => Some(question),
            _ => None,
        });
    Some(questions.collect())
}

/// The GPUs that are known of, by name.
fn gpus(facts: &Facts) -> BTreeSet<String> {
    let nodes = facts.all(Subject::Node);
    let gpus = nodes.flat_map(|node| facts.below(node, Subject::Gpu));
    gpus.map(|id| facts.name(id).to_owned()).collect()
}

/// Whether the subjects of a check have a name that follows from several replies, so that without one
/// of these they have another: links from all outputs that list them, a stall from the ranks whose
/// dumps are here.
fn is_named_by_outputs(check: &str) -> bool {
    ["ib-fabric/", "nvlink/", "collectives/"]
        .iter()
        .any(|area| check.starts_with(area))
}

/// Loses one in `own` of the lines that the fixture says itself, and one in `base` of those of its base; others in each fixture.
fn lose_each_line(
    catalogue: &Catalogue,
    path: &Path,
    number: usize,
    (share, base): (usize, usize),
) {
    {
        let recording = Recording::open(path).unwrap();
        let own = own_questions(path);
        let lines = recording.to_lines();
        // These report the reply that is lost, and call it by what other replies know of it: tests of lost evidence hold them.
        let is_kept = |row: &Row| {
            let check = &catalogue.checks[row.0];
            !check.id.starts_with("unanswered/") && &*check.case != "collectives/no-dump"
        };
        let (mut whole, known) = rows(catalogue, &recording);
        whole.retain(is_kept);
        let mut place: HashMap<(usize, &str), usize> = HashMap::new();
        for (at, (check, subject, _)) in whole.iter().enumerate() {
            let old = place.insert((*check, subject), at);
            assert!(old.is_none(), "one verdict for each check and subject");
        }
        // In an overlay another probe's line may say what the base did: then a line is lost with all that answer its question.
        let contradicted = |line: &Line| -> Option<Question> {
            let Line::Reply {
                question,
                repeat,
                reply,
                ..
            } = line
            else {
                return None;
            };
            let differs = |other: &Line| {
                matches!(other, Line::Reply { question: q, repeat: n, reply: r, .. }
                if q == question && n == repeat && r.said != reply.said)
            };
            (own.is_some() && lines.iter().any(differs)).then(|| question.clone())
        };
        let mut empty_gids = 0;
        for (lost, line) in lines.iter().enumerate() {
            let is_own = match (&own, line) {
                (Some(own), Line::Reply { question, .. }) => own.contains(question),
                _ => true,
            };
            let share = if is_own { share } else { base };
            if lost % share != number % share {
                continue;
            }
            // It says what kind of recording this is: without it nothing was given, and a machine was asked.
            let kinds = [outputs::question(), Question::call("rank_named", [])];
            if matches!(line, Line::Reply { question, .. } if kinds.contains(question)) {
                continue;
            }
            if let Line::Reply {
                question: Question::Read(p),
                reply,
                ..
            } = line
                && p.contains("/gids/")
                && matches!(&reply.said, Ok(Answer::Text(t)) if t.trim().chars().all(|c| c == '0' || c == ':'))
            {
                // A thousand empty entries are alike: every hundredth stands for them.
                empty_gids += 1;
                if empty_gids % 100 != 1 {
                    continue;
                }
            }
            let mut less = Recording::new(recording.header.clone());
            less.header.base = None;
            let all = contradicted(line);
            for (i, kept) in lines.iter().enumerate() {
                let same = matches!((kept, &all), (Line::Reply { question, .. }, Some(lost)) if question == lost);
                if i != lost && !same {
                    less.add(kept.clone());
                }
            }
            less.end();
            let (mut after, left) = rows(catalogue, &less);
            after.retain(is_kept);
            // A GPU that only one source tells of is one that nobody knows of without it: what was open because of it is not open any more.
            let is_gone = gpus(&left).is_subset(&gpus(&known)) && gpus(&left) != gpus(&known);
            let id = |check: usize| &catalogue.checks[check].case;
            let fail = |text: String| {
                // `rdma-doctor facts --diff` tells the two apart.
                let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lost-line.jsonl");
                std::fs::write(&kept, recording_text::to_text(&less, None)).unwrap();
                panic!(
                    "{path:?} without {line:?}:\n{text}\nwhat is left: {}",
                    kept.display()
                );
            };
            let mut is_still_there = vec![false; whole.len()];
            // Nearly all come in the same order as before.
            let mut next = 0;
            for (check, subject, now) in &after {
                let here = whole
                    .get(next)
                    .filter(|(c, s, _)| c == check && s == subject)
                    .map(|_| next);
                let Some(at) = here.or_else(|| place.get(&(*check, &**subject)).copied()) else {
                    // What is new can only be an open question, or what was judged at a parent before. Where it is no longer known which
                    // interface a job uses, a flow over each that it may use is judged: one that gets through passes,
                    // and where none does, that is the fault that it was.
                    let failed = || whole.iter().any(|(c, _, w)| c == check && *w == "fails");
                    let may_flow = id(*check).starts_with("firewall/")
                        && (*now == "passes" || *now == "fails" && failed());
                    // Where a pair's reply is missing it may be the pairs that are accused, of the same, and not what they have in common.
                    let may_accuse = id(*check).starts_with("pairs/")
                        && (*now == "passes" || *now == "fails" && failed());
                    let may_be_named_anew = is_named_by_outputs(id(*check))
                        && (*now == "passes" || *now == "fails" && failed());
                    let may = may_flow || may_accuse || may_be_named_anew;
                    if !matches!(*now, "unknown" | "does not apply") && !may {
                        fail(format!("{} for {subject} is {now}", id(*check)));
                    }
                    continue;
                };
                next = at + 1;
                is_still_there[at] = true;
                let (.., word) = whole[at];
                // What a premise rests on may be lost: the fault is said with the premise.
                let is_presumed = *now == "fails if its premise is met" && word == "fails";
                // Without a rank's dump another source accuses it, by another case.
                let is_accused = |(c, s, w): &Row| {
                    s == subject && *w == "fails" && id(*c).starts_with("collectives/")
                };
                let is_told_otherwise =
                    id(*check).starts_with("collectives/") && after.iter().any(is_accused);
                let is_fine = *now == word
                    || is_told_otherwise
                    || *now == "unknown"
                    || is_presumed
                    || (is_gone && word == "unknown" && *now != "fails");
                if !is_fine {
                    fail(format!("{} for {subject} was {word}, is {now}", id(*check)));
                }
            }
            for ((check, subject, word), is_there) in whole.iter().zip(is_still_there) {
                if is_there || matches!(*word, "does not apply" | "unknown") {
                    continue;
                }
                // The subject is no longer known of: the check is open above it, or has nothing to judge that was a pass or a fault.
                let is_named_anew = is_named_by_outputs(id(*check))
                    && after.iter().any(|(c, _, w)| c == check && w == word);
                let is_open = after.iter().any(|(c, _, w)| c == check && *w == "unknown");
                if !is_open && !is_named_anew {
                    fail(format!(
                        "{} for {subject} was {word}, is not judged",
                        id(*check)
                    ));
                }
            }
        }
    }
}

/// A probe asks the machine in a process of its own, without the facts of the probes before it: what it asks later with them, it must have asked there.
#[test]
fn a_probe_asks_without_the_facts_of_others_what_it_asks_with_them() {
    let mut asked = 0;
    for path in fixtures() {
        let recording = Recording::open(&path).unwrap();
        let mut facts = Facts::new();
        let node = facts.new_node("node");
        for probe in PROBES {
            let with = Noted::over(recording.of(probe.name));
            (probe.run)(&Ask::new(&with), &mut facts, node);
            let alone = Noted::over(recording.of(probe.name));
            let mut none = Facts::new();
            let only = none.new_node("node");
            (probe.run)(&Ask::new(&alone), &mut none, only);
            let (with, alone) = (with.into_questions(), alone.into_questions());
            asked += with.len();
            let later: Vec<_> = with.difference(&alone).map(ToString::to_string).collect();
            assert_eq!(later, [""; 0], "{}: probe {}", path.display(), probe.name);
        }
    }
    assert!(asked > 10_000, "{asked} questions");
}

/// A source that notes which questions it was asked and had a reply to.
struct Noted<S> {
    source: S,
    questions: std::cell::RefCell<BTreeSet<Question>>,
}

impl<S: Source> Noted<S> {
    fn over(source: S) -> Self {
        Noted {
            source,
            questions: std::cell::RefCell::default(),
        }
    }

    fn into_questions(self) -> BTreeSet<Question> {
        self.questions.into_inner()
    }
}

impl<S: Source> Source for Noted<S> {
    fn ask(&self, question: &Question) -> Reply {
        let reply = self.source.ask(question);
        // What a recording lacks, a probe may look for in other replies.
        if reply.said != Err(Refusal::NotRecorded) {
            self.questions.borrow_mut().insert(question.clone());
        }
        reply
    }
}
