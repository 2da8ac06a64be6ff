//! Texts of jobs say the same when of their words only known ones are kept.

use std::path::{Path, PathBuf};

use rdma_doctor::examine::recording_text;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::redact::Key;
use rdma_doctor::source::wire::VERSION;

use super::verdicts;
use crate::log;
use crate::sample;

/// The files below a directory that hold cases.
fn files_of_cases(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_of_cases(&path));
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The texts of a file of cases: what stands between fences, and is no expectation.
fn texts(markdown: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        let fence = &line[..line.len() - line.trim_start_matches('`').len()];
        if fence.len() < 3 {
            continue;
        }
        let within = lines.by_ref().take_while(|line| *line != fence);
        let text = within.map(|line| format!("{line}\n")).collect();
        if !line.ends_with("toml") {
            found.push(text);
        }
    }
    found
}

#[test]
fn a_redacted_log_is_judged_as_the_log_is() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/log");
    let files = files_of_cases(&dir);
    let all = files
        .iter()
        .flat_map(|path| texts(&std::fs::read_to_string(path).unwrap()));
    let all: Vec<String> = all.collect();
    assert!(all.len() > 600, "{}", all.len());
    let mut wrong = Vec::new();
    for text in all.iter().step_by(sample::one_in(4)) {
        let mut raw = log::recording(&[("job.log", text)]);
        raw.header.version = VERSION.to_owned();
        let redacted = recording_text::to_text(&raw, Some(Key::from_bytes([7; 16])));
        let redacted = Recording::read(redacted.as_bytes(), Path::new("job")).unwrap();
        // Lines that are not kept are one event.
        let [before, after] = [&raw, &redacted].map(|one| {
            let mut all = verdicts(one);
            all.dedup();
            // Where two processes wrote into one line, a host's name is glued to another word,
            // and stands for a host of its own afterwards, of which nothing is known.
            all.retain(|verdict| !verdict.ends_with(" Unknown"));
            all
        });
        if before != after {
            let only = |a: &[String], b: &[String]| {
                let only = a.iter().filter(|one| !b.contains(one));
                only.cloned().collect::<Vec<_>>().join(", ")
            };
            wrong.push(format!(
                "-{} +{}: {text}",
                only(&before, &after),
                only(&after, &before)
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}
