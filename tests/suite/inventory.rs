//! The site's file: what it sets, what it refuses, and what is said of a node that lacks what the site expects of it.

use crate::process::run_doctor as doctor;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::process::Report;

fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn words(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A recording under a site's file, and what must be said of it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    about: String,
    recording: String,
    config: String,
    exit: i32,
    /// Causes about the inventory, by check and subject.
    #[serde(default)]
    causes: Vec<[String; 2]>,
    /// What other causes explain.
    #[serde(default)]
    folded: Vec<[String; 2]>,
    /// Checks of the inventory that stay open.
    #[serde(default)]
    open: Vec<String>,
    /// Words of the text report.
    #[serde(default)]
    says: Vec<String>,
}

/// A site's file that is refused, and the words with which it is.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    config: String,
    says: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Cases {
    case: Vec<Case>,
    refused: Vec<Refused>,
}

fn cases() -> Cases {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/inventory/cases.toml");
    toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Check and subject of each finding of these that is about the inventory.
fn found<'r>(all: impl Iterator<Item = &'r serde_json::Value>) -> Vec<[String; 2]> {
    let mut found = Vec::new();
    for one in all {
        let check = one["check"].as_str().unwrap();
        let subjects = match &one["subjects"] {
            serde_json::Value::Array(all) => all.clone(),
            _ => vec![one["subject"].clone()],
        };
        for subject in subjects.iter().filter(|_| check.starts_with("inventory/")) {
            found.push([check.to_owned(), subject.as_str().unwrap().to_owned()]);
        }
    }
    found.sort();
    found
}

#[test]
fn each_inventory_gives_its_findings() {
    let mut wrong = Vec::new();
    for mut case in cases().case {
        let config = file(&format!("site-{}.toml", case.name), &case.config);
        let recording = fixture(&case.recording);
        let check = |format| {
            doctor(&[
                "check", "--all", "--config", &config, "--format", format, &recording,
            ])
        };
        let out = check("json");
        let report = Report(serde_json::from_slice(&out.stdout).unwrap_or_default());
        let text = check("text");
        let said = words(&[text.stdout, text.stderr].concat());
        let list = |key: &str| report.0[key].as_array().cloned().unwrap_or_default();
        let causes = list("causes");
        let folded = causes.iter().flat_map(|cause| {
            let all = cause["consequences"].as_array().unwrap();
            all.iter()
        });
        case.causes.sort();
        for (what, found, expected) in [
            ("causes", found(causes.iter()), &case.causes),
            ("consequences", found(folded), &case.folded),
        ] {
            if found != *expected {
                let (name, about) = (&case.name, &case.about);
                wrong.push(format!(
                    "{name} ({about}): {what} are {found:?}, expected {expected:?}"
                ));
            }
        }
        let open: Vec<String> = list("open")
            .iter()
            .map(|one| one["check"].as_str().unwrap().to_owned())
            .filter(|check| check.starts_with("inventory/"))
            .collect();
        let is_open = case.open.iter().all(|check| open.contains(check));
        if !is_open || open.is_empty() != case.open.is_empty() {
            wrong.push(format!("{}: open are {open:?}", case.name));
        }
        if out.status.code() != Some(case.exit) {
            wrong.push(format!("{}: {:?}: {said}", case.name, out.status.code()));
        }
        for words in &case.says {
            if !said.contains(words) {
                wrong.push(format!("{}: does not say {words:?}: {said}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let recording = fixture("modelled-ib.jsonl");
    let mut wrong = Vec::new();
    for (at, refused) in cases().refused.iter().enumerate() {
        let config = file(&format!("site-refused-{at}.toml"), &refused.config);
        let out = doctor(&["check", "--config", &config, &recording]);
        let said = words(&out.stderr);
        let is_told = refused.says.iter().all(|words| said.contains(words));
        if out.status.code() != Some(65) || !is_told {
            wrong.push(format!(
                "{}: {:?} {said}",
                refused.config,
                out.status.code()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let out = doctor(&["check", "--config", "/nonexistent/config.toml", &recording]);
    assert_eq!(
        out.status.code(),
        Some(65),
        "a file that is named must be there"
    );
}

#[test]
fn a_site_sets_the_format_and_limits_and_the_command_line_has_the_last_word() {
    let recording = fixture("modelled-ib-polling.jsonl");
    let config = file(
        "site-format.toml",
        "format = \"json\"\nskip = [\"link/not-trained\"]\n",
    );
    let site = doctor(&["check", "--config", &config, &recording]);
    let report: serde_json::Value = serde_json::from_slice(&site.stdout).unwrap();
    assert!(
        report["causes"]
            .as_array()
            .unwrap()
            .iter()
            .all(|cause| cause["check"] != "link/not-trained")
    );
    let text = doctor(&["check", "--config", &config, "--format", "text", &recording]);
    assert!(serde_json::from_slice::<serde_json::Value>(&text.stdout).is_err());
    // Who names the check wants it judged.
    let only = doctor(&[
        "check",
        "--config",
        &config,
        "--only",
        "link/not-trained",
        &recording,
    ]);
    assert_eq!(only.status.code(), Some(2));
}

/// An inventory that is learned of good nodes fits these, and names what one of them has different.
#[test]
fn what_is_learned_is_expected() {
    let (good, slow) = (
        fixture("modelled-ib.jsonl"),
        fixture("modelled-ib-slow-rail.jsonl"),
    );
    let learned = doctor(&["expect", "learn", &good, &good, &slow]);
    let text = String::from_utf8(learned.stdout).unwrap();
    assert_eq!(learned.status.code(), Some(0), "{text}");
    let table: toml::Table = toml::from_str(&text).unwrap();
    let expect = &table["expect"][0];
    assert_eq!(expect["adapters"]["MT4129"].as_integer(), Some(4));
    let rails: BTreeMap<&str, &str> = expect["rails"]
        .as_table()
        .unwrap()
        .iter()
        .map(|(name, rail)| (&**name, rail["rate"].as_str().unwrap()))
        .collect();
    assert_eq!(rails.len(), 4);
    assert!(rails.values().all(|rate| *rate == "400 Gb/s"), "{rails:?}");
    assert!(text.contains("# rate = \"200 Gb/s\" on 1 of 3"), "{text}");
    let config = file("site-learned.toml", &text);
    let status = |recording: &str| {
        doctor(&["check", "--config", &config, recording])
            .status
            .code()
    };
    assert_eq!((status(&good), status(&slow)), (Some(0), Some(2)));
    // Of two that differ neither is right.
    let learned = doctor(&["expect", "learn", &good, &slow]);
    let text = String::from_utf8(learned.stdout).unwrap();
    assert!(text.contains("# rate = \"200 Gb/s\""), "{text}");
    let table: toml::Table = toml::from_str(&text).unwrap();
    assert!(
        table["expect"][0]["rails"]["mlx5_1/1"]
            .get("rate")
            .is_none()
    );
}
