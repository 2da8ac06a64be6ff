//! `check FILE` and `log FILE` are one engine: of each text that the tests have, both write the same report and end with the same status.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::place::{Scratch, doctor};
use crate::sample;

/// The texts of the tests' cases: the blocks of these kinds.
fn texts() -> Vec<String> {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite");
    let mut texts = Vec::new();
    for folder in ["log/symptoms", "log/cases", "evidence_texts"] {
        let mut paths: Vec<_> = std::fs::read_dir(suite.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
            .collect();
        paths.sort();
        for path in paths {
            let page = std::fs::read_to_string(path).unwrap();
            let mut lines = page.lines();
            while let Some(line) = lines.next() {
                let kind = line.trim_start_matches('`');
                let end = "`".repeat(line.len() - kind.len());
                if end.len() < 3 {
                    continue;
                }
                let block = lines.by_ref().take_while(|line| *line != end);
                let block = block.fold(String::new(), |all, line| all + line + "\n");
                if kind == "log" || kind == "text" {
                    texts.push(block);
                }
            }
        }
    }
    texts
}

/// What the subcommand says of the file, and how it ends.
fn said(command: &str, file: &Path) -> (i32, String) {
    let output = Command::new(doctor()).arg(command).arg(file).output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), text)
}

/// Without how long it took.
fn without_time(text: &str) -> String {
    let lines = text.lines().map(|line| match line.rsplit_once(" · ") {
        Some((before, time)) if time.ends_with(" s") => before,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn check_and_log_say_the_same_of_each_text() {
    let scratch = Scratch::new("one-door");
    let file = scratch.join("text.txt");
    let step = sample::one_in(12);
    let (mut tried, mut wrong) = (0, String::new());
    for text in texts().iter().step_by(step) {
        std::fs::write(&file, text).unwrap();
        let (of_check, checked) = said("check", &file);
        let (of_log, logged) = said("log", &file);
        // A text in which nothing is recognised is no input of `check`, and an open question of `log`.
        if (of_check, of_log) == (65, 3) && logged.starts_with("UNKNOWN nothing to examine") {
            continue;
        }
        tried += 1;
        if of_check != of_log || without_time(&checked) != without_time(&logged) {
            let heads = [checked.lines().next(), logged.lines().next()];
            let _ = writeln!(wrong, "{of_check} {of_log} {heads:#?}\n{text}");
        }
    }
    println!("{tried} texts");
    assert!(tried * step > 300, "{tried} texts");
    assert!(wrong.is_empty(), "{wrong}");
}
