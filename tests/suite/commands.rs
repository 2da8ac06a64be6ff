//! A name in a command is one word to a shell, whatever is in it: every command of every check with
//! hostile values, and every line of the scripts of fixtures whose names are hostile, are run by a
//! shell in which each command only says its words.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rdma_doctor::check::{Catalogue, Check};
use rdma_doctor::examine::sink::Silent;
use rdma_doctor::examine::{budget, many};
use rdma_doctor::fact::{Fact, Facts, Id, Origin, Subject, Type, Value};
use rdma_doctor::report::{Policy, fix_script};
use rdma_doctor::sentence::shell;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::{self, Header};

use crate::fixtures;
use crate::place::Scratch;

/// A shell whose commands say their words, each behind a tab, a line for each command. What its
/// builtins would do does not happen either.
const TRACING: &str = r#"
command_not_found_handle() {
    printf -v words '\t%s' "$@"
    printf '%s\n' "$words" >&3
    [ "$1" != sleep ]
}
enable -n echo kill exec source . exit export ulimit cd trap umask hash type command
while IFS= read -r -d '' line; do
    printf '=\n' >&3
    printf '%s\n' "$line" | bash -n 2>&3 || printf 'not a command: %s\n' "$line" >&3
    (set -f; eval "$line"; wait) 2>/dev/null </dev/null >/dev/null
done"#;

/// What each of these command lines makes a shell run: the words of each command, sorted, as pipes
/// run at once. Nothing may have come into being.
fn traces(lines: &[String]) -> Vec<BTreeSet<String>> {
    let place = Scratch::new("commands");
    let path = place.join("empty");
    std::fs::create_dir(&path).unwrap();
    let mut shell = Command::new("/bin/bash")
        .args([
            "--norc",
            "-c",
            &format!("exec 3>&1 >/dev/null\nbash() {{ /bin/bash \"$@\"; }}\n{TRACING}"),
        ])
        .env_clear()
        .env("PATH", &path)
        .current_dir(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    // What would change the machine is taken away before: a place to write to becomes a word.
    let lines: Vec<String> = lines
        .iter()
        .map(|line| line.replace(">&", ">").replace('>', " TO "))
        .collect();
    let feed = std::thread::spawn(move || {
        for line in lines {
            input.write_all(line.as_bytes()).unwrap();
            input.write_all(&[0]).unwrap();
        }
    });
    let output = shell.wait_with_output().unwrap();
    feed.join().unwrap();
    assert_eq!(
        std::fs::read_dir(&path).unwrap().count(),
        0,
        "a command made a file"
    );
    let said = String::from_utf8(output.stdout).unwrap();
    let records = said.split("=\n").skip(1).map(|record| {
        let commands = record.split('\n').filter(|line| !line.is_empty());
        commands.map(str::to_owned).collect()
    });
    records.collect()
}

/// Facts of an instance of this subject and of all above it, whose names and texts are this one.
fn facts_of(subject: Subject, name: &str) -> (Facts, Id) {
    let mut facts = Facts::new();
    let mut above: Vec<Subject> = subject.scope().collect();
    above.reverse();
    let mut id = Facts::CLUSTER;
    for subject in above {
        if subject != Subject::Cluster {
            id = match subject {
                Subject::Node => facts.new_node(name),
                other => facts.instance(other, id, name),
            };
        }
        for (index, fact) in subject.schema().facts.iter().enumerate() {
            let command = shell::Command::filled("ip link set {} up", &[name]).into_text();
            let value = match (fact.ty, fact.is_command) {
                (Type::Text, true) => Value::Text(command),
                (Type::Text, false) => Value::Text(name.into()),
                (Type::Texts, true) => Value::Texts([command].into()),
                (Type::Texts, false) => Value::Texts([name.into()].into()),
                _ => continue,
            };
            facts.set_at(id, index, Fact::Known(value, Origin::Stated));
        }
    }
    (facts, id)
}

/// The commands of a check's finding and remedy where all is called so.
fn commands_of(check: &Check, name: &str) -> Vec<String> {
    let (facts, id) = facts_of(check.subject, name);
    let mut sentences = check.advice().fix.render_each(&facts, id, &check.limits);
    sentences.push(check.finding().render(&facts, id, &check.limits));
    let commands = sentences.iter().flat_map(|sentence| sentence.commands());
    commands.map(|command| command.text().to_owned()).collect()
}

#[test]
fn a_hostile_name_is_one_word_in_every_command_of_every_check() {
    const PLAIN: &str = "plain7";
    let catalogue = Catalogue::embedded().unwrap();
    for hostile in [
        "a b;touch made",
        "$(touch made)`touch made`",
        "it's \"so\" \\ !",
        "-rf * & touch made | (touch made) {a,b} #~",
        "~root/*[a-z]?",
    ] {
        let (mut plain, mut with_name) = (Vec::new(), Vec::new());
        for check in &catalogue.checks {
            let both = commands_of(check, PLAIN)
                .into_iter()
                .zip(commands_of(check, hostile));
            for (a, b) in both.filter(|(a, b)| a != b) {
                plain.push(a);
                with_name.push(b);
            }
        }
        assert!(plain.len() > 150, "{} commands name something", plain.len());
        let expected = traces(&plain);
        let said = traces(&with_name);
        assert_eq!(expected.len(), said.len());
        for ((line, expected), said) in with_name.iter().zip(&expected).zip(&said) {
            let expected: BTreeSet<String> = expected
                .iter()
                .map(|words| words.replace(PLAIN, hostile))
                .collect();
            assert_eq!(&expected, said, "{line}");
        }
    }
}

/// A recording whose devices, interfaces and node are called so, as far as its replies are text.
fn renamed(recording: &Recording, suffix: &str) -> Option<Recording> {
    let header = Header {
        base: None,
        ..recording.header.clone()
    };
    let mut text = wire::write_header(&header);
    for line in recording.to_lines() {
        text += "\n";
        text += &wire::write_line(&line)?;
    }
    let node = &recording.header.node;
    let names = regex_lite::Regex::new(
        r"\b(mlx5_\d+|rocep\w+|ibp\w+|eth\d+|ens\w+|enp\w+|ib\d+|bond\d+|rxe\d+)\b",
    )
    .unwrap();
    let suffix = serde_json::to_string(suffix).unwrap();
    let suffix = suffix.trim_matches('"').replace('$', "$$");
    let text = names.replace_all(&text, format!("${{1}}{suffix}"));
    let text = text.replace(
        &format!("\"{node}\""),
        &format!("\"{node}{}\"", suffix.replace("$$", "$")),
    );
    Recording::read(text.as_bytes(), Path::new("renamed")).ok()
}

#[test]
fn no_line_of_a_script_does_more_with_hostile_names() {
    let catalogue = Catalogue::embedded().unwrap();
    let all = fixtures::fixtures();
    let mut lines = Vec::new();
    // Each with one of the names.
    for (at, path) in all.iter().enumerate() {
        let suffix = [
            ";touch made",
            "$(touch made)",
            "'`touch made`\"",
            " -rf|touch made",
        ][at % 4];
        let recording = budget::open(&[path], &Silent).unwrap().remove(0);
        let Some(recording) = renamed(&recording, suffix) else {
            continue;
        };
        let report = many::judged(&catalogue, &[recording], &Policy::default());
        let mut script = Vec::new();
        fix_script::write(&mut script, &[&report]).unwrap();
        let script = String::from_utf8(script).unwrap();
        let marked = script.lines().filter_map(|line| line.strip_prefix("#: "));
        lines.extend(marked.map(str::to_owned));
        let findings = report.causes.iter().chain(&report.notes);
        lines.extend(findings.flat_map(|one| {
            let commands = one.fix.commands().filter(|command| !command.is_by_hand());
            commands
                .map(|command| command.text().to_owned())
                .collect::<Vec<_>>()
        }));
    }
    lines.sort_unstable();
    lines.dedup();
    let hostile = lines
        .iter()
        .filter(|line| line.contains("touch made"))
        .count();
    assert!(hostile > 15, "{hostile} lines have a hostile name");
    for (line, commands) in lines.iter().zip(&traces(&lines)) {
        for words in commands {
            assert!(!words.starts_with("\ttouch"), "{line} runs {words}");
            assert!(!words.starts_with("not a command"), "{words}");
        }
    }
}
