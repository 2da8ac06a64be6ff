//! Waivers: what a waived finding changes, and what is said of a waiver that is expired, of no use, or malformed.

use crate::process::run_doctor as doctor;
use std::path::{Path, PathBuf};
use std::process::Command;

use rdma_doctor::examine::recording_text;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::redact::Key;

use crate::process::Report;
use crate::stage;

fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A case: the waivers, and what must be said with them of a recording.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    about: String,
    recordings: Vec<String>,
    waivers: String,
    exit: i32,
    /// Causes that are left, by check and subject.
    causes: Vec<[String; 2]>,
    /// Notes about waivers.
    #[serde(default)]
    notes: Vec<[String; 2]>,
    /// Waived findings, by check and subject.
    #[serde(default)]
    waived: Vec<[String; 2]>,
    /// Words of the text report.
    #[serde(default)]
    says: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Cases {
    case: Vec<Case>,
}

/// Check and subject of each finding in a list of the report.
fn listed(report: &Report, list: &str, only: &str) -> Vec<[String; 2]> {
    let all = report.0[list].as_array().into_iter().flatten();
    let mut found: Vec<[String; 2]> = all
        .flat_map(|one| {
            let check = one["check"].as_str().unwrap().to_owned();
            let subjects = one["subjects"].as_array().unwrap().iter();
            subjects
                .map(move |subject| [check.clone(), subject.as_str().unwrap().to_owned()])
                .collect::<Vec<_>>()
        })
        .filter(|[check, _]| check.starts_with(only))
        .collect();
    found.sort();
    found
}

#[test]
fn each_case_gives_its_verdict() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/waivers/cases.toml");
    let cases: Cases = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for mut case in cases.case {
        let waivers = file(&format!("waivers-{}.toml", case.name), &case.waivers);
        let recordings: Vec<String> = case.recordings.iter().map(|name| fixture(name)).collect();
        let args = |format| {
            let mut args = vec!["check", "--all", "--waivers", &waivers, "--format", format];
            args.extend(recordings.iter().map(String::as_str));
            doctor(&args)
        };
        let out = args("json");
        let report = Report(serde_json::from_slice(&out.stdout).unwrap_or_default());
        for list in [&mut case.causes, &mut case.notes, &mut case.waived] {
            list.sort();
        }
        let text = args("text");
        let words = String::from_utf8(text.stdout).unwrap();
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut complain =
            |what: String| wrong.push(format!("{} ({}): {what}", case.name, case.about));
        for (list, only, expected) in [
            ("causes", "", &case.causes),
            ("notes", "waiver/", &case.notes),
            ("waived", "", &case.waived),
        ] {
            let found = listed(&report, list, only);
            if found != *expected {
                complain(format!("{list} are {found:?}, expected {expected:?}"));
            }
        }
        for (format, out) in [("json", out.status.code()), ("text", text.status.code())] {
            if out != Some(case.exit) {
                complain(format!("exit {out:?} of {format}, expected {}", case.exit));
            }
        }
        for said in &case.says {
            if !words.contains(said) {
                complain(format!("does not say {said:?}: {words}"));
            }
        }
        for format in ["nagios", "prometheus", "junit", "slurm"] {
            let out = args(format);
            let text = String::from_utf8(out.stdout).unwrap();
            let is_told = match format {
                "prometheus" => text.contains("rdma_doctor_waived{check="),
                "junit" => text.contains("<skipped message=\"waived until "),
                "nagios" => text.contains("\nwaived "),
                // A reason has room for what leads: the headline, or damage.
                _ if case.exit == 3 || case.exit == 0 => continue,
                _ => text.contains(" waived)"),
            };
            if is_told == case.waived.is_empty() {
                complain(format!("{format}: {text}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_entry_that_is_printed_waives_its_finding() {
    let waive = [
        "waive",
        "link/not-trained",
        "--subject",
        "mlx5_2/1",
        "--until",
        "2030-01-31",
        "--reason",
        "spare \"rail\"",
        "--owner",
        "ops",
    ];
    let entry = doctor(&waive);
    assert_eq!(entry.status.code(), Some(0));
    let entry = String::from_utf8(entry.stdout).unwrap();
    let waivers = file("waivers-printed.toml", &entry);
    let polling = fixture("modelled-ib-polling.jsonl");
    let out = doctor(&["check", "--waivers", &waivers, &polling]);
    assert_eq!(out.status.code(), Some(0));
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        text.contains("until 2030-01-31, ops: spare \"rail\""),
        "{text}"
    );
    // An id that is none, a date that is none or has passed.
    for bad in [
        &["waive", "link/pollin", "--until", "90d", "--reason", "x"][..],
        &[
            "waive",
            "link/not-trained",
            "--until",
            "2030-02-31",
            "--reason",
            "x",
        ],
        &[
            "waive",
            "link/not-trained",
            "--until",
            "2020-01-01",
            "--reason",
            "x",
        ],
        &[
            "waive",
            "link/not-trained",
            "--until",
            "90d",
            "--reason",
            " ",
        ],
        &["waive", "*", "--until", "90d", "--reason", "x"],
        &[
            "waive",
            "link/not-trained",
            "--nodes",
            "n[1-",
            "--until",
            "90d",
            "--reason",
            "x",
        ],
    ] {
        assert_eq!(doctor(bad).status.code(), Some(64), "{bad:?}");
    }
    let missing = doctor(&["check", "--waivers", "/no/such/file", &polling]);
    assert_eq!(missing.status.code(), Some(65));
}

/// A remedy's command prints an entry for as many days as it says.
#[test]
fn days_from_now_are_a_date() {
    let out = doctor(&[
        "waive",
        "link/not-trained",
        "--until",
        "90d",
        "--reason",
        "spare",
        "--owner",
        "ops",
    ]);
    let text = String::from_utf8(out.stdout).unwrap();
    let until = text
        .lines()
        .find_map(|line| line.strip_prefix("until   = "))
        .unwrap();
    let date = until.trim_matches('"');
    let then = humantime::parse_rfc3339(&format!("{date}T00:00:00Z")).unwrap();
    let days = then
        .duration_since(std::time::SystemTime::now())
        .unwrap()
        .as_secs_f64()
        / 86400.0;
    assert!((88.9..=90.1).contains(&days), "{date}");
}

/// What measurements find is waived by the site's own file, which the commands that measure read too.
#[test]
fn findings_of_measurements_are_waived() {
    let Some(way) = stage::way() else {
        return;
    };
    let waivers = file(
        "waivers-measured.toml",
        "[[waiver]]\ncheck = \"pairs/*\"\nreason = \"moving the rack\"\nowner = \"ops\"\nuntil = 2099-12-31
[[waiver]]\ncheck = \"ablation/*\"\nreason = \"moving the rack\"\nowner = \"ops\"\nuntil = 2099-12-31\n",
    );
    let run = |args: &[&str], has_waivers: bool| {
        let put = match has_waivers {
            true => format!("cp '{waivers}' /etc/rdma-doctor/waivers.toml"),
            false => "true".to_owned(),
        };
        let script = format!(
            "mount -t tmpfs t /etc && mkdir /etc/rdma-doctor && {put} && exec \"$0\" \"$@\""
        );
        let out = Command::new("unshare")
            .args(way)
            .args(["sh", "-c", &script, env!("CARGO_BIN_EXE_rdma-doctor")])
            .args(args)
            .output()
            .unwrap();
        let text = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
        (out.status.code(), text)
    };
    let (pairs, arms) = (
        fixture("modelled-pairs-bad.jsonl"),
        fixture("modelled-ablation-ib-cures.jsonl"),
    );
    for args in [&["bench", "pairs", &pairs][..], &["ablate", &arms]] {
        let (code, said) = run(args, false);
        assert_eq!(code, Some(2), "{said}");
        assert!(!said.contains("moving the rack"), "{said}");
        let (code, said) = run(args, true);
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("until 2099-12-31, ops: moving the rack"),
            "{said}"
        );
        let (_, json) = run(&[args, &["--format", "json"]].concat(), true);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let report = value.get("report").unwrap_or(&value);
        assert!(!report["waived"].as_array().unwrap().is_empty(), "{json}");
    }
}

/// Names of nodes are pseudonyms in a redacted recording. Under a shared key they are the same in each, and a waiver can name them; else it is said that it cannot be
/// known for which node it is.
#[test]
fn a_node_of_a_redacted_recording_is_named_by_its_pseudonym() {
    let node = Recording::open(Path::new(&fixture("rxe-no-address.jsonl"))).unwrap();
    let text = recording_text::to_text(&node, Some(Key::from_text("a key for several")));
    let to = file("waivers-redacted.jsonl", &text);
    let header: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let pseudonym = header["node"].as_str().unwrap();
    assert_ne!(pseudonym, "n0");
    for (name, waived) in [(pseudonym, true), ("n0", false)] {
        let waivers = file(
            "waivers-pseudonym.toml",
            &format!(
                "[[waiver]]\ncheck = \"roce/*\"\nnodes = \"{name}\"\nreason = \"a test\"\nowner = \"ops\"\nuntil = 2099-12-31\n"
            ),
        );
        let out = doctor(&["check", "--format", "json", "--waivers", &waivers, &to]);
        let report = Report(serde_json::from_slice(&out.stdout).unwrap());
        assert_eq!(listed(&report, "waived", "roce/").is_empty(), !waived);
        let notes = listed(&report, "notes", "waiver/");
        match waived {
            true => assert_eq!(notes, [[""; 2]; 0]),
            false => assert_eq!(notes, [["waiver/node-redacted", "waiver 1"]]),
        }
    }
}
