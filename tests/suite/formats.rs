//! What the program writes for other programs, held to their own rules: JSON Schemas, SARIF's schema, JUnit by an XSD and by junitparser.
//!
//! Where a reader is missing (`tests/install-deps test` gets it) that part is skipped and says so; with `RDMA_DOCTOR_NETNS=require` it is a failure.

use crate::process::run_doctor as doctor;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jsonschema::Validator;
use rdma_doctor::check::Catalogue;
use rdma_doctor::examine::many;
use rdma_doctor::report::json::ReportJson;
use rdma_doctor::report::text::{self, Detail};
use rdma_doctor::report::{Policy, line, prometheus};
use rdma_doctor::source::recording::Recording;
use serde_json::Value;

use crate::fixtures;

/// The Python packages that `tests/install-deps` unpacks under the target folder.
pub(crate) fn python_packages() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python")
}

/// A program of Python's, with those packages.
pub(crate) fn python(args: &[&str]) -> Output {
    Command::new("python3")
        .args(args)
        .env("PYTHONPATH", python_packages())
        .output()
        .unwrap()
}

/// Says that a reader is missing; where all must be there, that fails.
pub(crate) fn skipped(what: &str) {
    let is_required = std::env::var("RDMA_DOCTOR_NETNS").as_deref() == Ok("require");
    assert!(!is_required, "{what} is required");
    let _ = writeln!(std::io::stdout().lock(), "skipped: no {what}");
}

fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn schema(of: &str) -> Validator {
    let out = doctor(&["schema", of]);
    let schema: Value = serde_json::from_slice(&out.stdout).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

/// What does not fit, each with its place.
fn errors(validator: &Validator, instance: &Value) -> Vec<String> {
    let errors = validator.iter_errors(instance);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn each_line_of_each_fixture_fits_the_schema_of_recordings() {
    let validator = schema("recording");
    for path in fixtures::fixtures() {
        let bytes = std::fs::read(&path).unwrap();
        let text = match path.extension().is_some_and(|end| end == "zst") {
            true => zstd::decode_all(bytes.as_slice()).unwrap(),
            false => bytes,
        };
        for (at, line) in String::from_utf8(text).unwrap().lines().enumerate() {
            let line: Value = serde_json::from_str(line).unwrap();
            let wrong = errors(&validator, &line);
            assert!(wrong.is_empty(), "{path:?}:{}: {wrong:?}", at + 1);
        }
    }
    for bad in [
        r#"{"probe":"a","q":{"read":"/x"},"n":0,"t":0}"#,
        r#"{"probe":"a","q":{"read":"/x"},"n":0,"t":0,"text":"a","errno":"EIO"}"#,
        r#"{"probe":"a","q":{"open":"/x","read":"/x"},"n":0,"t":0,"text":"a"}"#,
        r#"{"complete":true}"#,
        r#"{"rdma-doctor-recording":"2.0"}"#,
    ] {
        assert!(
            !validator.is_valid(&serde_json::from_str(bad).unwrap()),
            "{bad}"
        );
    }
}

/// The number behind this word in a line of a report.
fn count_behind(text: &str, word: &str) -> usize {
    let digits = text.split(word).nth(1).unwrap_or_default();
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(usize::MAX)
}

#[test]
fn each_format_counts_the_same_findings() {
    let catalogue = Catalogue::embedded().unwrap();
    let mut with_background = 0;
    for path in fixtures::fixtures() {
        let recordings = [Recording::open(&path).unwrap()];
        let report = many::judged(&catalogue, &recordings, &Policy::default());
        let written = |write: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
            let mut out = Vec::new();
            write(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = written(&|out| text::write(out, &report, Detail::default(), 400));
        let sum = text.lines().last().unwrap();
        let nagios = written(&|out| line::nagios(out, &report));
        let metrics = written(&|out| prometheus::write(out, &report));
        let json = serde_json::to_value(ReportJson::of(&report)).unwrap();
        let count = |severity: &str| {
            let causes = json["causes"].as_array().unwrap().iter();
            let all = causes.chain(json["notes"].as_array().unwrap());
            let listed =
                all.filter(|one| one["severity"] == severity && one["background"].is_null());
            listed.count()
        };
        for severity in ["error", "warning", "note"] {
            let expected = count(severity);
            let (plural, metric) = (
                format!("{severity}s"),
                format!("rdma_doctor_findings{{severity=\"{severity}\"}} "),
            );
            assert_eq!(json["summary"][&plural], expected, "{path:?}");
            assert_eq!(
                count_behind(&nagios, &format!(" {plural}=")),
                expected,
                "{nagios}"
            );
            assert_eq!(count_behind(&metrics, &metric), expected, "{path:?}");
            let stated = format!(
                "{expected} {}",
                if expected == 1 { severity } else { &plural }
            );
            let is_stated = sum.starts_with(&stated) || sum.contains(&format!(", {stated}"));
            assert!(is_stated, "{stated}: {sum}");
        }
        let background = report.notes.iter().filter(|note| note.background);
        for note in background {
            with_background += 1;
            let tag = format!("[{}]", note.check);
            let is_alone = !report
                .notes
                .iter()
                .any(|one| one.check == note.check && !one.background);
            assert!(!is_alone || !text.contains(&tag), "{tag} in {text}");
            let detail = Detail {
                notes: true,
                ..Detail::default()
            };
            let all = written(&|out| text::write(out, &report, detail, 400));
            assert!(all.contains(&tag), "{tag} not in {all}");
        }
    }
    assert!(with_background > 50, "{with_background}");
}

#[test]
fn each_report_fits_the_schema_of_reports() {
    let validator = schema("report");
    let catalogue = Catalogue::embedded().unwrap();
    let mut count = 0;
    let mut fits = |name: &Path, recordings: &[Recording]| {
        let report = many::judged(
            &catalogue,
            recordings,
            &Policy {
                with_passes: true,
                ..Policy::default()
            },
        );
        let report = serde_json::to_value(ReportJson::of(&report)).unwrap();
        let wrong = errors(&validator, &report);
        assert!(wrong.is_empty(), "{name:?}: {wrong:?}");
        count += 1;
    };
    for path in fixtures::fixtures() {
        fits(&path, &[Recording::open(&path).unwrap()]);
    }
    let (good, polling) = (
        fixture("modelled-ib.jsonl"),
        fixture("modelled-ib-polling.jsonl"),
    );
    let both = [&good, &polling].map(|path| Recording::open(Path::new(path)).unwrap());
    fits(Path::new("two nodes"), &both);
    assert!(count > 100, "{count}");
    for args in [
        &["check", "--format", "json", "--baseline", &good, &polling][..],
        &[
            "log",
            "--format",
            "json",
            &fixture("generated-log-troubled.jsonl"),
        ],
    ] {
        let report: Value = serde_json::from_slice(&doctor(args).stdout).unwrap();
        let wrong = errors(&validator, &report);
        assert!(wrong.is_empty(), "{args:?}: {wrong:?}");
    }
    let report = serde_json::json!({"schema": "rdma-doctor-report/2.1", "status": "healthy"});
    assert!(!validator.is_valid(&report), "a report without a headline");
}

/// The schema of SARIF 2.1.0 as the crate serde-sarif ships it, in cargo's registry.
fn sarif_schema() -> Option<Value> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let sources = std::fs::read_dir(home.join("registry/src")).ok()?;
    let mut files = sources.map(|source| source.unwrap().path());
    let text = files.find_map(|dir| {
        std::fs::read_to_string(dir.join("serde-sarif-0.8.0/src/schema.json")).ok()
    })?;
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    // The standard's pattern of a language has a bracket too many, which strict readers of regular expressions refuse; nothing here has a language.
    for of in ["run", "toolComponent"] {
        let language = &mut schema["definitions"][of]["properties"]["language"];
        language.as_object_mut().unwrap().remove("pattern").unwrap();
    }
    Some(schema)
}

/// A directory of recordings of which one does not give its expected verdict.
fn changed() -> String {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("formats-changed");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    for name in ["rxe-healthy.jsonl.zst", "rxe-memlock-low.jsonl.zst"] {
        std::fs::copy(fixture(name), dir.join(name)).unwrap();
    }
    let place = dir.to_str().unwrap().to_owned();
    assert!(doctor(&["test", &place, "--bless"]).status.success());
    std::fs::copy(
        fixture("rxe-memlock-low.jsonl.zst"),
        dir.join("rxe-healthy.jsonl.zst"),
    )
    .unwrap();
    place
}

/// The output in this format of each subcommand that has it, with the name of the case.
fn in_format(format: &str) -> Vec<(&'static str, Vec<u8>)> {
    let (good, polling) = (
        fixture("modelled-ib.jsonl"),
        fixture("modelled-ib-polling.jsonl"),
    );
    let log = fixture("generated-log-troubled.jsonl");
    let waivers = Path::new(env!("CARGO_TARGET_TMPDIR")).join("formats-waivers.toml");
    let entry = doctor(&[
        "waive",
        "link/not-trained",
        "--until",
        "2099-01-01",
        "--reason",
        "a <test>",
    ]);
    std::fs::write(&waivers, entry.stdout).unwrap();
    let waivers = waivers.to_str().unwrap();
    let place = changed();
    let cases: [(&str, Vec<&str>); 6] = [
        ("one", vec!["check", &polling]),
        ("waived", vec!["check", "--waivers", waivers, &polling]),
        (
            "each",
            vec!["check", "--each", &good, &polling, "/nonexistent.jsonl"],
        ),
        ("cluster", vec!["check", &good, &polling]),
        ("log", vec!["log", &log]),
        ("test", vec!["test", &place]),
    ];
    cases
        .into_iter()
        .map(|(name, mut args)| {
            args.extend(["--format", format]);
            (name, doctor(&args).stdout)
        })
        .collect()
}

#[test]
fn sarif_fits_its_schema() {
    let Some(schema) = sarif_schema() else {
        return skipped("schema of SARIF (cargo info serde-sarif@0.8.0)");
    };
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (name, out) in in_format("sarif") {
        let log: Value = serde_json::from_slice(&out).unwrap();
        let wrong = errors(&validator, &log);
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
        let runs = log["runs"].as_array().unwrap();
        assert_eq!(runs.len(), if name == "each" { 3 } else { 1 }, "{name}");
        let results = runs
            .iter()
            .flat_map(|run| run["results"].as_array().unwrap());
        let results: Vec<&Value> = results.collect();
        assert!(!results.is_empty(), "{name}");
        let polling = results
            .iter()
            .find(|one| one["ruleId"] == "link/not-trained");
        match name {
            "test" => assert_eq!(results[0]["ruleId"], "rdma-doctor/test"),
            "log" => assert!(polling.is_none()),
            name => {
                let polling = polling.unwrap_or_else(|| panic!("{name}: {log}"));
                assert_eq!(polling["level"], "error");
                let is_waived = polling["suppressions"].is_array();
                assert_eq!(is_waived, name == "waived", "{name}");
            }
        }
    }
    let mut log: Value = serde_json::from_slice(&in_format("sarif")[0].1).unwrap();
    log["runs"][0]["results"][0]["level"] = "fatal".into();
    assert!(!errors(&validator, &log).is_empty(), "the schema judges");
}

#[test]
fn junit_fits_its_schema_and_is_read() {
    let xsd = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/formats/junit.xsd");
    let is_there = |command: &mut Command| command.output().is_ok_and(|out| out.status.success());
    let has_xmllint = is_there(Command::new("xmllint").arg("--version"));
    let has_parser = python(&["-c", "import junitparser"]).status.success();
    let program = "import sys, junitparser\n\
        x = junitparser.JUnitXml.fromfile(sys.argv[1])\n\
        cases = [c for s in x for c in s]\n\
        print(len(cases), sum(1 for c in cases if not c.is_passed and not c.is_skipped))";
    for (name, out) in in_format("junit") {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("junit-{name}.xml"));
        std::fs::write(&file, &out).unwrap();
        let file = file.to_str().unwrap();
        if has_xmllint {
            let mut xmllint = Command::new("xmllint");
            xmllint.args(["--noout", "--schema"]).arg(&xsd).arg(file);
            let out = xmllint.output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{name}: {said}");
        }
        if has_parser {
            let read = python(&["-c", program, file]);
            let said = String::from_utf8_lossy(&read.stdout).into_owned();
            let counts: Vec<u32> = said
                .split_whitespace()
                .map(|n| n.parse().unwrap())
                .collect();
            let is_bad = !matches!(name, "waived");
            assert_eq!(counts[1] > 0, is_bad, "{name}: {said}");
            assert!(counts[0] >= counts[1]);
        }
    }
    if !has_xmllint {
        skipped("xmllint");
    }
    if !has_parser {
        skipped("junitparser");
    }
}
