//! Every class of character that acts on a terminal, planted in every string: none reaches standard output or standard error.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use rdma_doctor::examine::recording_text;
use rdma_doctor::source::recording::Recording;
use serde_json::Value;

use crate::place::{Scratch, doctor};

/// ESC with a sequence that clears the screen and one of the operating system's commands, CR, BEL, BS, DEL, CSI of C1, bidirectional controls,
/// characters without width, a tag; and a line break, behind which a line of a report is imitated.
const PLANTED: &str = "\u{1b}[2J\u{1b}[31m\u{1b}]0;t\u{7}\r\u{8}\u{7f}\u{9b}1m\u{85}\u{202e}\u{2066}\u{61c}\u{200b}\u{feff}\u{ad}\u{2028}\u{e0041}";
const FORGED: &str = "OK   healthy: forged";

fn planted() -> String {
    format!("{PLANTED}\n{FORGED}\n")
}

/// The characters of a text that a terminal must not get.
fn acting(text: &str) -> BTreeSet<char> {
    let mut wanted: BTreeSet<char> = PLANTED.chars().filter(|c| !c.is_ascii_graphic()).collect();
    wanted.remove(&' ');
    text.chars().filter(|c| wanted.contains(c)).collect()
}

/// A recording in full, each string of its replies and of its head with what `plant` makes of it.
fn with_strings(fixture: &str, plant: &dyn Fn(&str) -> String) -> String {
    let path = format!("{}/fixtures/{fixture}", env!("CARGO_MANIFEST_DIR"));
    let text = recording_text::to_text(&Recording::open(path.as_ref()).unwrap(), None);
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        for (key, value) in line.as_object_mut().unwrap() {
            // Questions and names of probes and errors stay: they are looked up.
            if !matches!(
                &**key,
                "q" | "probe" | "errno" | "hex" | "rdma-doctor-recording" | "refused" | "utc"
            ) {
                change(value, plant);
            }
        }
        line.to_string() + "\n"
    });
    lines.collect()
}

fn change(value: &mut Value, plant: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = plant(text),
        Value::Array(all) => all.iter_mut().for_each(|one| change(one, plant)),
        Value::Object(all) => all.values_mut().for_each(|one| change(one, plant)),
        _ => {}
    }
}

/// What the doctor prints: nothing of it acts, and no line imitates one of a report.
fn harmless(mut command: Command) -> String {
    let out = command.stdin(Stdio::null()).output().unwrap();
    let what = format!("{command:?}");
    let printed = [out.stdout, out.stderr].concat();
    let printed = String::from_utf8(printed).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(!printed.is_empty(), "{what}");
    let found = acting(&printed);
    assert!(found.is_empty(), "{found:?} of {what}:\n{printed:?}");
    let forged = printed
        .lines()
        .find(|line| line.starts_with("OK   healthy"));
    assert_eq!(forged, None, "{what}:\n{printed}");
    assert!(out.status.code().is_some_and(|code| code != 101), "{what}");
    printed
}

fn of(words: &[&str]) -> Command {
    let mut command = Command::new(doctor());
    command.args(words);
    command
}

#[test]
fn no_string_of_a_recording_acts_on_the_terminal() {
    let scratch = Scratch::new("escapes");
    let other = format!(
        "{}/fixtures/rxe-healthy.jsonl.zst",
        env!("CARGO_MANIFEST_DIR")
    );
    let node: &[&[&str]] = &[
        &["check"],
        &["check", "-q"],
        &["check", "-v"],
        &["check", "--each"],
        &["check", "--format", "slurm"],
        &["check", "--format", "nagios"],
        &["check", "--format", "npd"],
        &["check", "--format", "json"],
        &["facts"],
        &["facts", "--json"],
        &["facts", "--diff", &other],
        &["topo"],
        &["nccl-env"],
        &["triage"],
    ];
    let log: &[&[&str]] = &[&["log"], &["log", "-v"], &["check", "-v"], &["facts"]];
    let cases: [(&str, &[&[&str]]); 6] = [
        ("rxe-no-address.jsonl", node),
        ("modelled-gpu-node-faults.jsonl", node),
        ("modelled-roce.jsonl", node),
        ("generated-log-troubled.jsonl", log),
        (
            "modelled-ablation-ib-cures.jsonl",
            &[&["ablate"], &["triage"]],
        ),
        (
            "modelled-bench-slow-between.jsonl",
            &[&["bench", "all-reduce"], &["bench", "pairs"], &["check"]],
        ),
    ];
    let mut told = 0;
    for (fixture, commands) in cases {
        // In all strings, and in every third: where each is spoilt, few replies are still understood, so few are shown.
        for part in [None, Some(0), Some(1), Some(2)] {
            let strings = Cell::new(0);
            let plant = |text: &str| {
                strings.set(strings.get() + 1);
                match part {
                    None => format!("{}{text}", planted()),
                    Some(part) if strings.get() % 3 == part => format!("{text}{}", planted()),
                    Some(_) => text.to_owned(),
                }
            };
            let path = scratch.join("x.jsonl");
            std::fs::write(&path, with_strings(fixture, &plant)).unwrap();
            for words in commands {
                let mut command = of(words);
                command.arg(&path);
                told += usize::from(harmless(command).contains("forged"));
            }
        }
    }
    assert!(told > 5, "what was planted is shown escaped: {told}");
}

#[test]
fn a_report_in_a_file_acts_on_no_terminal_that_shows_it() {
    let scratch = Scratch::new("escapes-output");
    let (path, report) = (scratch.join("x.jsonl"), scratch.join("report"));
    let plant = |text: &str| format!("{text}{}", planted());
    std::fs::write(&path, with_strings("rxe-no-address.jsonl", &plant)).unwrap();
    let mut command = of(&["check", "-v", "--output"]);
    command.arg(&report).arg(&path).stdin(Stdio::null());
    assert!(command.output().unwrap().status.code().is_some());
    let text = std::fs::read_to_string(&report).unwrap();
    assert!(acting(&text).is_empty(), "{text:?}");
}

#[test]
fn no_line_of_a_log_acts_on_the_terminal() {
    let scratch = Scratch::new("escapes-log");
    let path = scratch.join(format!("a{}.log", planted().replace('/', "")));
    let p = PLANTED;
    let log = format!(
        "n{p}1:100:101 [0] NCCL INFO NET/IB : Using [0]mlx5_{p}0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n\
         n1:100:101 [0] transport/net_ib.cc:9 NCCL WARN NET/IB : Got completion from peer {p} with status=12 opcode=0 len=0 vendor err 129\n"
    );
    std::fs::write(&path, log).unwrap();
    for words in [&["log"][..], &["log", "-v"], &["log", "--format", "json"]] {
        let mut command = of(words);
        command.arg(&path);
        harmless(command);
    }
}

#[test]
fn no_name_of_a_file_acts_on_the_terminal() {
    let scratch = Scratch::new("escapes-names");
    let name = format!("x{}", planted().replace('/', ""));
    let file = scratch.join(&name);
    let named: &[&[&str]] = &[
        &["check"],
        &["facts"],
        &["facts", "--diff"],
        &["topo"],
        &["triage"],
        &["log"],
        &["ablate"],
        &["check", "--root"],
        &["check", "--checks"],
        &["record", "--redact-key"],
        &["record", "--root", "/no/such", "--output"],
    ];
    for content in [
        None,
        Some("no recording\n".to_owned()),
        Some(format!("{{{name}\n")),
    ] {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        for words in named {
            let mut command = of(words);
            command.arg(&file);
            harmless(command);
        }
    }
    // A check file that is not understood is shown with its text.
    let checks = Scratch::new("escapes-checks");
    let check = format!("title = \"{PLANTED}\"\nfail = \"{PLANTED}\"\n");
    std::fs::write(checks.join(format!("{name}.toml")), check).unwrap();
    let mut command = of(&["explain", "--checks"]);
    command.arg(&*checks);
    harmless(command);
}

#[test]
fn no_variable_of_the_environment_acts_on_the_terminal() {
    let mut command = of(&["nccl-env"]);
    for name in [
        "NCCL_IB_HCA",
        "NCCL_SOCKET_IFNAME",
        "NCCL_DEBUG",
        "SLURM_JOB_ID",
    ] {
        command.env(name, planted());
    }
    command.env(format!("NCCL_{PLANTED}"), "1");
    assert!(harmless(command).contains("forged"));
}

#[test]
fn the_programs_own_colours_stay() {
    let path = format!(
        "{}/fixtures/rxe-no-address.jsonl",
        env!("CARGO_MANIFEST_DIR")
    );
    let out = of(&["check", "--color", "always", &path]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        text.starts_with("\u{1b}[1;31mERROR\u{1b}[0m \u{1b}[1m"),
        "{text:?}"
    );
    assert!(!text.contains("\\u001b"), "{text:?}");
}
