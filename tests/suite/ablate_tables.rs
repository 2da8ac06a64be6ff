//! `rdma-doctor ablate --table` and `--run-file`: what comes of tables as people print them (tests/ablation/tables.md says it of each).

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::place::Scratch;

struct Case<'t> {
    name: &'t str,
    table: &'t str,
    /// What has to come, by its word: `options`, `leads`, `holds`, `refused`, `said`.
    wanted: BTreeMap<&'t str, &'t str>,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let case = |section: &'_ str| -> Option<(usize, usize, usize)> {
        let begin = section.find("```\n")? + 4;
        let end = begin + section[begin..].find("```")?;
        Some((section.find('\n')?, begin, end))
    };
    let sections = text.split("\n## ").skip(1);
    let cases = sections.map(|section| {
        let (name, begin, end) = case(section).expect("a table in each section");
        let wanted = section[end..]
            .lines()
            .filter_map(|line| line.strip_prefix("- ")?.split_once(": "));
        Case {
            name: &section[..name],
            table: &section[begin..end],
            wanted: wanted.collect(),
        }
    });
    cases.collect()
}

fn ablate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
        .arg("ablate")
        .args(args)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "200")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What is wrong with what came; empty if all is right.
fn wrong(case: &Case<'_>, file: &str) -> Vec<String> {
    let options = case.wanted.get("options").unwrap_or(&"");
    let mut args = vec!["--table", file];
    args.extend(options.split_whitespace());
    let output = ablate(&args);
    let (text, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if let Some(words) = case.wanted.get("refused") {
        let refused = output.status.code() == Some(65) && error.contains(words);
        return if refused {
            Vec::new()
        } else {
            vec![format!("is not refused by {words}: {text}{error}")]
        };
    }
    if output.status.code() == Some(65) {
        return vec![format!("is refused: {error}")];
    }
    args.extend(["--format", "json"]);
    let report: Value = serde_json::from_slice(&ablate(&args).stdout).unwrap();
    let ids = |kind: &str| -> Vec<String> {
        let found = report["report"][kind].as_array().unwrap().iter();
        found
            .map(|finding| finding["check"].as_str().unwrap().to_owned())
            .collect()
    };
    let (causes, notes) = (ids("causes"), ids("notes"));
    let mut wrong = Vec::new();
    if let Some(leads) = case.wanted.get("leads")
        && causes.first().map(String::as_str) != Some(*leads)
    {
        wrong.push(format!("{leads} does not lead: {causes:?}"));
    }
    let holds = case
        .wanted
        .get("holds")
        .map_or(Vec::new(), |holds| holds.split(", ").collect());
    for check in holds
        .iter()
        .filter(|check| !causes.iter().chain(&notes).any(|id| id == *check))
    {
        wrong.push(format!("lacks {check}: {causes:?} {notes:?}"));
    }
    let said = case
        .wanted
        .get("said")
        .map_or(Vec::new(), |said| said.split("; ").collect());
    for words in said.iter().filter(|words| !text.contains(**words)) {
        wrong.push(format!("does not say {words:?}: {text}"));
    }
    wrong
}

#[test]
fn tables_as_people_print_them_are_read() {
    let text = include_str!("../ablation/tables.md");
    let dir = Scratch::new("tables");
    let cases = cases(text);
    assert!(cases.len() > 30, "{} cases", cases.len());
    let mut failed = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let file = dir.join(format!("{number}.md"));
        std::fs::write(&file, case.table).unwrap();
        let wrong = wrong(case, file.to_str().unwrap());
        failed.extend(
            wrong
                .into_iter()
                .map(|what| format!("{}: {what}", case.name)),
        );
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_table_comes_by_standard_input() {
    let table = "NCCL_IB_DISABLE,samples/s\n0,1.000\n1,1.000\n";
    let mut child = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
        .args(["ablate", "--table", "-", "--nodes", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), table.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("NCCL_IB_DISABLE=1 changes nothing in 1 of 1 pairs"),
        "{text}"
    );
}

fn nccl_tests(busbw: &str) -> String {
    format!(
        "# nThread 1 nGpus 1 minBytes 8589934592 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n\
         #\n# Using devices\n\
         #  Rank  0 Group  0 Pid   1001 on      n1 device  0 [0x1b] NVIDIA H100 80GB HBM3\n\
         #  Rank  1 Group  0 Pid   1002 on      n2 device  0 [0x1b] NVIDIA H100 80GB HBM3\n\
         #\n#                                                              out-of-place                       in-place          \n\
         #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
         #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n\
         \x20 8589934592    2147483648     float     sum      -1    49000  175.30  {busbw}      0    49100  174.90  {busbw}      0\n\
         # Out of bounds values : 0 OK\n# Avg bus bandwidth    : {busbw} \n#\n"
    )
}

#[test]
fn outputs_of_benchmarks_are_arms() {
    let dir = Scratch::new("arm-files");
    let mut args = Vec::new();
    for (name, busbw) in [
        ("baseline", "180.20"),
        ("NCCL_IB_DISABLE=1", "4.10"),
        ("no P2P", "95.00"),
    ] {
        let file = dir.join(format!("{busbw}.txt"));
        std::fs::write(&file, nccl_tests(busbw)).unwrap();
        args.push(format!("--run-file={name}={}", file.display()));
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = ablate(&args);
    let text = String::from_utf8(output.stdout).unwrap();
    for words in [
        "2 nodes",
        "NCCL_IB_DISABLE=1 costs 98 %",
        "NCCL_P2P_DISABLE=1 costs 47 %",
    ] {
        assert!(
            text.contains(words),
            "{words} in {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let missing = ablate(&[
        "--run-file",
        "baseline=Cargo.toml",
        "--run-file",
        "no P2P=Cargo.toml",
    ]);
    assert_eq!(missing.status.code(), Some(65));
    let unknown = ablate(&["--run-file", "Tuesday=Cargo.toml"]);
    assert_eq!(
        unknown.status.code(),
        Some(64),
        "{}",
        String::from_utf8_lossy(&unknown.stderr)
    );
}
