//! What a site would not publish does not survive redaction, what was replaced is counted by kind,
//! and the verdict stays.
//!
//! `redaction/planted.toml` plants it in a copied tree, in the environment and in a log.

mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use rdma_doctor::check::{Catalogue, judge};
use rdma_doctor::examine::{one, recording_text};
use rdma_doctor::source::Question;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::redact::{Key, Redactor};
use rdma_doctor::source::wire::Line;
use serde::Deserialize;

use crate::place::{Scratch, doctor};

/// The texts, with their secrets marked.
#[derive(Deserialize)]
struct Planted {
    /// As what each kind is counted where it is replaced.
    kinds: BTreeMap<String, String>,
    tree: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    log: BTreeMap<String, String>,
}

impl Planted {
    fn read() -> Self {
        toml::from_str(include_str!("redaction/planted.toml")).unwrap()
    }

    /// How many secrets are counted under each name.
    fn counts(&self, secrets: &BTreeSet<Secret>) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for secret in secrets {
            if let Some(counted_as) = self.kinds.get(&secret.kind) {
                *counts.entry(counted_as.clone()).or_default() += 1;
            }
        }
        counts
    }
}

/// One that is planted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Secret {
    kind: String,
    word: String,
}

impl Secret {
    /// Whether a text holds it, however hexadecimal digits are grouped in it.
    fn is_in(&self, text: &str) -> bool {
        let is_number = matches!(&*self.kind, "mac" | "guid" | "uuid" | "ipv6" | "serial");
        let ungrouped = |text: &str| text.to_lowercase().replace([':', '-', '_'], "");
        match is_number {
            true => ungrouped(text).contains(&ungrouped(&self.word)),
            false => text.to_lowercase().contains(&self.word.to_lowercase()),
        }
    }
}

/// Takes the marks out of a text, and their secrets with them.
fn unmarked(marked: &str, secrets: &mut BTreeSet<Secret>) -> String {
    let mut text = String::new();
    let mut rest = marked;
    while let Some((before, after)) = rest.split_once("{{") {
        let (mark, behind) = after.split_once("}}").expect("a mark ends");
        let (kind, word) = mark.split_once('|').expect("a mark has a kind");
        secrets.insert(Secret {
            kind: kind.to_owned(),
            word: word.to_owned(),
        });
        text += before;
        text += word;
        rest = behind;
    }
    text + rest
}

/// The verdicts of a recording: checks with their outcomes, however subjects are called.
fn verdicts(recording: &Recording) -> Vec<String> {
    let catalogue = Catalogue::embedded().unwrap();
    let (facts, _) = one::facts(std::slice::from_ref(recording));
    let verdicts = judge(&catalogue, &facts);
    let mut all: Vec<String> = verdicts
        .iter()
        .map(|verdict| {
            let outcome = format!("{:?}", verdict.outcome);
            let outcome = outcome.split(['(', ' ']).next().unwrap_or("").to_owned();
            format!("{} {outcome}", catalogue.checks[verdict.check].case)
        })
        .collect();
    all.sort();
    all
}

fn read(path: &Path) -> Recording {
    Recording::open(path).unwrap()
}

fn run(command: &mut Command) -> String {
    let out = command.output().unwrap();
    assert!(out.status.code().is_some_and(|code| code < 64), "{out:?}");
    String::from_utf8(out.stdout).unwrap() + &String::from_utf8_lossy(&out.stderr)
}

/// What of these secrets is in the recording, or in what is said of it, each with a line that
/// holds it.
fn survivors(secrets: &BTreeSet<Secret>, recording: &Path) -> Vec<String> {
    let mut text = std::fs::read_to_string(recording).unwrap();
    for how in [&["--open"][..], &["--format", "json"]] {
        text += &run(Command::new(doctor()).arg("check").args(how).arg(recording));
    }
    let survived = secrets.iter().filter(|one| one.is_in(&text));
    let with_line = survived.map(|one| {
        let line = text.lines().find(|line| one.is_in(line)).unwrap_or("");
        format!("{} {}: {line:.700}", one.kind, one.word)
    });
    with_line.collect()
}

/// What the first line of a redacted recording says was replaced.
fn replaced(recording: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(recording).unwrap();
    let header: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    serde_json::from_value(header["replaced"].clone()).unwrap_or_default()
}

/// Fails unless everything that was planted is counted.
fn assert_counted(planted: &Planted, secrets: &BTreeSet<Secret>, recording: &Path) {
    let counted = replaced(recording);
    for (kind, count) in planted.counts(secrets) {
        let of_kind = counted.get(&kind).copied().unwrap_or(0);
        assert!(
            of_kind >= count,
            "{count} of {kind} were planted: {counted:?}"
        );
    }
}

#[test]
fn there_are_a_hundred_secrets_of_twenty_kinds() {
    let planted = Planted::read();
    let mut secrets = BTreeSet::new();
    for texts in [&planted.tree, &planted.environment, &planted.log] {
        for (name, text) in texts {
            unmarked(name, &mut secrets);
            unmarked(text, &mut secrets);
        }
    }
    let kinds: BTreeSet<&str> = secrets.iter().map(|secret| &*secret.kind).collect();
    assert!(secrets.len() >= 100 && kinds.len() >= 20, "{secrets:?}");
}

#[test]
fn no_secret_of_a_tree_survives() {
    let planted = Planted::read();
    let scratch = Scratch::new("redaction-tree");
    let mut secrets = BTreeSet::new();
    for (name, text) in &planted.tree {
        let path = scratch.join("tree").join(unmarked(name, &mut secrets));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, unmarked(text, &mut secrets)).unwrap();
    }
    let (raw, redacted) = (scratch.join("raw.jsonl"), scratch.join("redacted.jsonl"));
    let mut command = Command::new(doctor());
    command.args(["record", "--no-redact", "--root"]);
    run(command.arg(scratch.join("tree")).arg("-o").arg(&raw));
    // What is asked of a tree is what is planted.
    let recorded = std::fs::read_to_string(&raw).unwrap();
    let unasked: Vec<_> = secrets.iter().filter(|one| !one.is_in(&recorded)).collect();
    assert!(unasked.is_empty(), "{unasked:?}");
    let mut command = Command::new(doctor());
    command.args(["record", "--root"]);
    let said = run(command.arg(scratch.join("tree")).arg("-o").arg(&redacted));
    assert_eq!(survivors(&secrets, &redacted), Vec::<String>::new());
    assert_eq!(verdicts(&read(&raw)), verdicts(&read(&redacted)));
    assert_counted(&planted, &secrets, &redacted);
    for (kind, count) in replaced(&redacted) {
        assert!(said.contains(&format!("{count} {kind}")), "{kind}: {said}");
    }
}

#[test]
fn no_secret_of_an_environment_survives() {
    let planted = Planted::read();
    let scratch = Scratch::new("redaction-environment");
    let mut secrets = BTreeSet::new();
    let (raw, redacted) = (scratch.join("raw.jsonl"), scratch.join("redacted.jsonl"));
    let record = |how: &[&str], to: &Path, secrets: &mut BTreeSet<Secret>| {
        let mut command = Command::new(doctor());
        command.args(["record", "--no-self-test"]).args(how);
        for (name, text) in &planted.environment {
            command.env(name, unmarked(text, secrets));
        }
        run(command.arg("-o").arg(to))
    };
    record(&["--no-redact"], &raw, &mut secrets);
    let raw = read(&raw);
    record(&[], &redacted, &mut secrets);
    assert_eq!(survivors(&secrets, &redacted), Vec::<String>::new());
    // The same look at the machine, so that nothing but the redaction differs.
    let text = recording_text::to_text(&raw, Some(Key::from_bytes([7; 16])));
    std::fs::write(&redacted, text).unwrap();
    assert_eq!(survivors(&secrets, &redacted), Vec::<String>::new());
    assert_eq!(verdicts(&raw), verdicts(&read(&redacted)));
    let mut recorded = secrets.clone();
    let all = recording_text::to_text(&raw, None);
    recorded.retain(|secret| secret.is_in(&all));
    assert_counted(&planted, &recorded, &redacted);
}

#[test]
fn no_secret_of_a_log_survives() {
    let planted = Planted::read();
    let scratch = Scratch::new("redaction-log");
    let mut secrets = BTreeSet::new();
    let log = scratch.join("job.log");
    std::fs::write(&log, unmarked(&planted.log["text"], &mut secrets)).unwrap();
    let (raw, redacted) = (scratch.join("raw.jsonl"), scratch.join("redacted.jsonl"));
    let mut command = Command::new(doctor());
    run(command
        .args(["log", "--no-redact", "--record"])
        .arg(&raw)
        .arg(&log));
    let mut command = Command::new(doctor());
    run(command.args(["log", "--record"]).arg(&redacted).arg(&log));
    assert_eq!(survivors(&secrets, &redacted), Vec::<String>::new());
    assert_eq!(verdicts(&read(&raw)), verdicts(&read(&redacted)));
    let mut recorded = secrets.clone();
    let all = std::fs::read_to_string(&raw).unwrap();
    recorded.retain(|secret| secret.is_in(&all));
    assert_counted(&planted, &recorded, &redacted);
}

/// What the doctor asks for by a path of its own is found again in a redacted recording.
#[test]
fn the_doctors_own_paths_stay() {
    let redactor = Redactor::new(Key::from_bytes([7; 16]), "node1720", &[]);
    let mut asked = 0;
    for file in source_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/probe")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or("");
        for path in code.split('"').filter(|literal| is_path(literal)) {
            // What is filled in is a name of the machine's.
            let path = path.split('{').next().unwrap_or("");
            let line = Line::Drop(Question::read(path));
            assert_eq!(redactor.line(line.clone()), line, "{}", file.display());
            asked += 1;
        }
    }
    assert!(asked > 50, "{asked}");
}

fn is_path(literal: &str) -> bool {
    let roots = [
        "/etc/", "/run/", "/var/", "/usr/", "/opt/", "/lib/", "/dev/", "/proc/", "/sys/", "/job/",
        "/tmp",
    ];
    roots.iter().any(|root| literal.starts_with(root)) && !literal.contains([' ', '\\', '\n'])
}

fn source_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let is_tests = path.to_string_lossy().contains("tests");
        match path.is_dir() {
            true => found.extend(source_files(&path)),
            false if !is_tests => found.push(path),
            false => {}
        }
    }
    found
}
