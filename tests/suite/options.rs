//! Options that subcommands share, and what explain finds.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn run(args: &[&str], locale: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"));
    command
        .args(args)
        .env("LC_ALL", locale)
        .stdin(Stdio::null());
    command.output().unwrap()
}

fn said(args: &[&str]) -> String {
    let output = run(args, "C.UTF-8");
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

#[test]
fn explain_finds_ids_groups_areas_and_words() {
    let one = said(&["explain", "LINK/Rate-Degraded"]);
    assert!(one.starts_with("link/rate-degraded  "), "{one}");
    assert!(
        one.lines()
            .all(|line| line.chars().count() <= 100 || line.starts_with("            "))
    );
    for group in ["link/*", "link", "LINK/"] {
        let list = said(&["explain", group]);
        assert!(list.lines().count() > 5, "{list}");
        assert!(list.lines().any(
            |line| line.starts_with("link/port-down ") || line.starts_with("link/not-trained")
        ));
    }
    // Each case has its remedy.
    let cases = said(&["explain", "gpu/hot"]);
    for id in ["gpu/memory-hot", "gpu/too-hot-for-driver"] {
        let own = said(&["explain", id]);
        let own = own
            .split("fix      ")
            .nth(1)
            .and_then(|fix| fix.lines().next())
            .unwrap();
        assert!(cases.contains(id) && cases.contains(own), "{cases}");
    }
    let found = said(&["explain", "relaxed", "ordering"]);
    assert!(found.contains("pcie/settings-small"), "{found}");
    let area = said(&["explain", "ports"]);
    assert!(
        area.starts_with("ports  area of a node") && area.contains("port.state"),
        "{area}"
    );
    let near = said(&["explain", "link/rate-degradd"]);
    assert!(near.contains("did you mean link/rate-degraded"), "{near}");
    let word = said(&["explain", "degraded/zzzz"]);
    assert!(word.contains("/rate-degraded"), "{word}");
}

#[test]
fn removed_spellings_work_with_a_notice() {
    let log = format!("{}/spelling.log", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&log, "n0:1:1 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n").unwrap();
    let to = format!("{}/spelling.jsonl", env!("CARGO_TARGET_TMPDIR"));
    let old = said(&["log", &log, "-o", &to]);
    assert!(old.contains("log -o is now --record"), "{old}");
    assert!(
        std::fs::read_to_string(&to)
            .unwrap()
            .contains("rdma-doctor-recording")
    );
    let report = format!("{}/spelling.txt", env!("CARGO_TARGET_TMPDIR"));
    let new = said(&["log", &log, "-o", &report]);
    assert_eq!(new, "");
    assert!(std::fs::read_to_string(&report).unwrap().contains("NCCL"));
}

#[test]
fn help_has_options_by_what_they_are_for_and_each_status() {
    let check = said(&["check", "--help-all"]);
    for heading in [
        "This machine:",
        "Several nodes:",
        "Checks:",
        "Report and exit status:",
    ] {
        assert!(check.contains(&format!("\n{heading}\n")), "{heading}");
    }
    for command in ["test", "facts"] {
        let help = said(&[command, "--help"]);
        assert!(help.contains(", 1 "), "{help}");
    }
}

#[test]
fn help_is_short_and_help_all_has_every_option() {
    for command in [
        "check",
        "log",
        "job",
        "fabric",
        "triage",
        "bench all-reduce",
        "bench pairs",
        "ablate",
        "advise",
        "record",
    ] {
        let words =
            |last: &'static str| -> Vec<&str> { command.split(' ').chain([last]).collect() };
        let (short, all) = (said(&words("--help")), said(&words("--help-all")));
        assert!(short.lines().count() < 60, "{short}");
        assert_eq!(said(&words("-h")), short);
        let options = |help: &str| -> Vec<String> {
            let lines = help.lines().map(str::trim_start);
            let lines = lines.filter(|line| line.starts_with('-'));
            let words = lines.flat_map(|line| line.split([' ', ',', '=']).take(3));
            let long = words.filter(|word| word.starts_with("--") && word.len() > 2);
            long.map(str::to_owned).collect()
        };
        let (common, every) = (options(&short), options(&all));
        assert!(common.len() > 3, "{short}");
        assert!(
            common.iter().all(|option| every.contains(option)),
            "{common:?} {every:?}"
        );
        let hidden = format!(
            "{} more options: rdma-doctor {command} --help-all",
            every.len() - common.len()
        );
        assert!(short.contains(&hidden), "{hidden}: {short}");
    }
    let check = said(&["check", "--help"]);
    assert_eq!(said(&["help", "check"]), check);
    for state in ["examined", "in part", "not examined", "none here"] {
        assert!(check.contains(state), "{check}");
    }
}

#[test]
fn facts_are_shown_by_name() {
    let recording = fixture("rxe-no-address.jsonl");
    let one = said(&["facts", "port.state", &recording]);
    assert!(one.starts_with("port rxe0/1\n  state = active "), "{one}");
    assert_eq!(one.lines().count(), 2);
    let all = said(&["facts", &recording, "port", "gid.*"]);
    let subjects = all.lines().filter(|line| !line.starts_with(' '));
    assert!(
        subjects
            .clone()
            .all(|line| line.starts_with("port ") || line.starts_with("gid "))
    );
    assert!(subjects.count() > 1, "{all}");
    let json = said(&["facts", "--json", "port.state", &recording]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["facts"].as_object().unwrap().len(), 1);
    let near = said(&["facts", "port.stat"]);
    assert!(near.contains("nearest is `port.state`"), "{near}");
    let listed = said(&["facts", "--list", "port.state"]);
    assert!(
        listed.contains("port.state: ") && !listed.contains("port.rate"),
        "{listed}"
    );
    let both = run(&["facts", &recording, "--root", "/"], "C.UTF-8");
    assert_eq!(both.status.code(), Some(64));
}

#[test]
fn checks_are_explained_as_objects() {
    let of_one = said(&["explain", "--json", "link/rate-degraded"]);
    let cases: serde_json::Value = serde_json::from_str(&of_one).unwrap();
    let first = &cases[0];
    assert_eq!(first["id"], "link/rate-degraded");
    assert_eq!(first["severity"], "error");
    for key in [
        "title", "fails", "finding", "why", "fix", "reads", "area", "subject",
    ] {
        assert!(!first[key].is_null(), "{key}: {first}");
    }
    let all: serde_json::Value = serde_json::from_str(&said(&["explain", "--json"])).unwrap();
    let ids = all
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap());
    let ids: std::collections::BTreeSet<&str> = ids.collect();
    let listed = said(&["explain"]);
    assert!(
        listed.ends_with(&format!("{} checks\n", ids.len())),
        "{}",
        ids.len()
    );
    let area: serde_json::Value =
        serde_json::from_str(&said(&["explain", "--json", "ports"])).unwrap();
    assert!(
        area.as_array()
            .unwrap()
            .iter()
            .all(|one| one["area"] == "ports")
    );
}

#[test]
fn json_is_short_for_the_format() {
    let path = fixture("modelled-roce-nccl.jsonl");
    for command in ["check", "facts", "nccl-env", "topo"] {
        let (short, long) = (
            said(&[command, &path, "--json"]),
            said(&[command, &path, "--format", "json"]),
        );
        serde_json::from_str::<serde_json::Value>(&short).unwrap();
        assert_eq!(short, long, "{command}");
    }
}

#[test]
fn a_script_of_remedies_runs_nothing() {
    let path = format!("{}/fixes.sh", env!("CARGO_TARGET_TMPDIR"));
    said(&[
        "check",
        &fixture("modelled-rxe-packet-path.jsonl"),
        "--fix-script",
        &path,
    ]);
    let script = std::fs::read_to_string(&path).unwrap();
    assert!(
        script.contains("\n#: tc qdisc del dev eth0 root\n"),
        "{script}"
    );
    assert!(script.contains("\n# on: n0\n"), "{script}");
    let bare = script
        .lines()
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(bare, None);
}

#[test]
fn a_locale_without_utf8_gets_ascii() {
    let path = fixture("modelled-rxe-packet-path.jsonl");
    let ascii = run(&["check", &path], "C").stdout;
    assert!(ascii.is_ascii() && !ascii.is_empty());
    let utf8 = run(&["check", &path], "C.UTF-8").stdout;
    assert!(!utf8.is_ascii());
    let json = |locale| run(&["check", &path, "--json"], locale).stdout;
    assert_eq!(json("C"), json("C.UTF-8"));
}

#[test]
fn what_could_not_be_judged_is_listed_by_what_would_supply_it() {
    let path = fixture("modelled-gpu-node-faults.jsonl");
    let open = said(&["check", &path, "--open"]);
    let group = open.lines().find(|line| line.starts_with("run as root ("));
    assert!(group.is_some(), "{open}");
    let path = fixture("modelled-gpu-fabric-faults.jsonl");
    let all = said(&["check", &path, "--all"]);
    let short = said(&["check", &path]);
    assert!(all.lines().count() > short.lines().count() + 20, "{all}");
    assert!(
        short.contains("… and ") && !all.contains("(--all)"),
        "{short}"
    );
}

#[test]
fn nccl_env_says_that_iwarp_does_not_work() {
    let flat = Path::new(env!("CARGO_TARGET_TMPDIR")).join("iwarp.jsonl");
    let path = flat.to_string_lossy();
    let from = fixture("modelled-roce-nccl-files.jsonl");
    said(&["record", "--from", &from, "-o", &path]);
    let text = fs::read_to_string(&*path).expect("a recording");
    let node_type = |line: &str| line.contains("mlx5_2/node_type");
    let as_iwarp = text.lines().map(|line| match node_type(line) {
        true => line.replace("1: CA", "4: RNIC"),
        false => line.to_owned(),
    });
    let iwarp: Vec<String> = as_iwarp.collect();
    fs::write(&*path, iwarp.join("\n") + "\n").expect("a recording");
    let env = said(&["nccl-env", &path]);
    let works_not = env.lines().filter(|line| line.contains("does not work"));
    let works_not: Vec<&str> = works_not.map(str::trim).collect();
    assert_eq!(works_not.len(), 1, "{env}");
    assert!(works_not[0].contains("mlx5_2:1: iWARP"), "{env}");
}

#[test]
fn nccl_env_says_what_another_version_would_do() {
    let path = fixture("modelled-roce-nccl-leftovers.jsonl");
    let other = said(&["nccl-env", &path, "--nccl", "2.27.5"]);
    assert!(other.contains("version               2.27.5"), "{other}");
    assert!(
        other.contains("NCCL does not use InfiniBand and RoCE"),
        "{other}"
    );
    let forced = said(&["nccl-env", &fixture("modelled-roce-nccl-files.jsonl")]);
    assert!(forced.contains("not used"), "{forced}");
    let no_version = said(&["nccl-env", &path, "--nccl", "newest"]);
    assert!(
        no_version.contains("is not an NCCL version"),
        "{no_version}"
    );
}
