//! Logs made from seeds: each root cause has its headline, and a healthy log has no finding.

#![expect(clippy::unwrap_used, reason = "what fails in a test is to fail loudly")]

#[path = "log/corpus/corpus.rs"]
mod corpus;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use corpus::job::Job;
use rdma_doctor::check::Catalogue;
use rdma_doctor::cli::log;
use rdma_doctor::fact::Subject;
use rdma_doctor::nccl_log::Reader;
use rdma_doctor::probe::nccl_log;
use rdma_doctor::report::Policy;
use rdma_doctor::report::log::LogReport;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::{Header, Line};
use rdma_doctor::source::{Answer, Question, Reply};

fn catalogue() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        let mut catalogue = Catalogue::embedded().unwrap();
        let of_log = |subject: Subject| subject.scope().any(|s| s == Subject::Run);
        catalogue.checks.retain(|check| of_log(check.subject));
        catalogue
    })
}

fn reply(question: Question, value: serde_json::Value) -> Line {
    Line::Reply {
        probe: nccl_log::NAME.into(),
        question,
        repeat: 0,
        reply: Reply {
            said: Ok(Answer::Value(value.into())),
            at: 0,
        },
    }
}

/// The recording of files with these names and texts.
fn recording(files: &[(&str, &str)]) -> Recording {
    let mut recording = Recording::new(Header {
        log: true,
        ..Header::default()
    });
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    recording.add(reply(
        nccl_log::files(),
        serde_json::json!({ "files": names }),
    ));
    for (name, text) in files {
        let mut reader = Reader::default();
        reader.feed(text.as_bytes());
        let digest = serde_json::to_value(reader.finish(None)).unwrap();
        recording.add(reply(nccl_log::file(name), digest));
    }
    recording
}

fn judged(files: &[(&str, &str)]) -> LogReport {
    log::judged(catalogue(), &[recording(files)], Policy::default(), false)
}

fn of(text: &str) -> LogReport {
    judged(&[("job.log", text)])
}

fn causes(log: &LogReport) -> Vec<&str> {
    log.report.causes.iter().map(|f| f.check.as_str()).collect()
}

fn notes(log: &LogReport) -> Vec<&str> {
    log.report.notes.iter().map(|f| f.check.as_str()).collect()
}

/// Logs of each cause.
const SEEDS: u64 = 25;
/// Healthy logs.
const HEALTHY: u64 = 150;

/// Seeds are numbers that differ for each cause.
fn seed(cause: usize, round: u64) -> u64 {
    1 + cause as u64 * 1_000 + round
}

#[test]
fn a_healthy_log_has_no_finding_and_its_answer() {
    for round in 0..HEALTHY {
        let job = Job::new(900_000 + round);
        let (version, launcher) = (job.version, job.launcher);
        let expected = 2 * 2 * job.hosts.len();
        let text = job.text();
        let log = of(&text);
        let about = format!("seed {round}, {version:?}, {launcher:?}");
        assert!(
            causes(&log).is_empty() && notes(&log).is_empty(),
            "{about}: {:?} {:?}\n{}",
            causes(&log),
            notes(&log),
            log.report.headline
        );
        assert_eq!(log.answers.len(), 1, "{about}");
        let answer = &log.answers[0];
        assert_eq!(answer.rdma, "used", "{about}: {}", answer.sentence);
        let channels = answer.channels.unwrap();
        assert_eq!(
            (channels.all, channels.rdma, channels.socket),
            (expected as u64, expected as u64, 0),
            "{about}: {}",
            answer.sentence
        );
        assert_eq!(
            (channels.send_gdr, channels.receive_gdr),
            (channels.send, channels.receive),
            "{about}"
        );
        assert_eq!(log.report.exit, 0, "{about}: {}", log.report.headline);
    }
}

#[test]
fn each_cause_has_its_headline() {
    let mut table = String::new();
    let mut missed = Vec::new();
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    let (mut found, mut tried) = (0, 0);
    for (number, cause) in corpus::all().enumerate() {
        let (lead, also) = match cause.check.split_once(" + ") {
            Some((lead, also)) => (lead, Some(also)),
            None => (cause.check, None),
        };
        assert!(catalogue().get(lead).is_some(), "{lead} is a check");
        let mut hits = 0;
        for round in 0..SEEDS {
            let mut job = Job::new(seed(number, round));
            (cause.make)(&mut job);
            let about = format!("{lead} {:?} {:?} round {round}", job.version, job.launcher);
            let text = job.text();
            let log = of(&text);
            let (causes, notes) = (causes(&log), notes(&log));
            let first = causes.first().or(notes.first()).copied();
            let beside = also.is_none_or(|also| causes.contains(&also) || notes.contains(&also));
            tried += 1;
            if first == Some(lead) && beside {
                hits += 1;
                found += 1;
            } else {
                missed.push(format!(
                    "{about}: {causes:?} {notes:?}: {}",
                    log.report.headline
                ));
            }
            for other in causes {
                if other != lead && Some(other) != also {
                    *others.entry(format!("{other} in {lead}")).or_default() += 1;
                }
            }
        }
        let _ = writeln!(table, "{:<36} {hits:>3} of {SEEDS}", cause.check);
    }
    let wrong: u64 = others.values().sum();
    println!("{table}");
    println!("{found} of {tried} headlines; {wrong} findings beside them: {others:#?}");
    assert!(
        missed.is_empty(),
        "{} missed:\n{}",
        missed.len(),
        missed.join("\n")
    );
    assert!(
        others.is_empty(),
        "findings that nothing calls for: {others:#?}"
    );
}
