//! Logs as files, with what must be said of them beside the text: `cases/*.md`. A heading of the third level is a case: a block of each file of the log, and
//! a block of TOML that is held against the report.
//!
//! ````text
//! ## The rule that the cases show
//! ### What happens in this one
//! ```log
//! n1:100:110 [0] NCCL INFO Using network Socket
//! ```
//! ```log n2.log      (a file's name, where there are several)
//! ```
//! ```toml
//! exit = 0                        # the exit status
//! rdma = "used"                   # the answer for the first run
//! causes = ["log/no-device"]      # the checks that lead, in their order
//! ```
//! ````
//!
//! `RDMA_DOCTOR_LOG_CASE=words` runs only the cases whose headings contain these words, and prints their reports.

use std::fmt::Write as _;
use std::path::Path;

use rdma_doctor::report::Policy;
use rdma_doctor::report::Report;
use rdma_doctor::report::text::Detail;
use serde::Deserialize;
use serde_json::Value;

/// What a case expects. What is not named is not looked at, except that notes are none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    exit: u8,
    rdma: Option<String>,
    causes: Vec<String>,
    #[serde(default)]
    notes: Vec<String>,
    /// The checks that are folded beneath causes.
    folded: Option<Vec<String>>,
    /// Checks among the open questions.
    #[serde(default)]
    open: Vec<String>,
    /// Whether the first answer says what would settle it.
    settles: Option<bool>,
    /// What is known of the first run: version, nodes.
    what: Option<String>,
    /// Counts of the first run's channels.
    channels: Option<Value>,
    /// Words that stand somewhere in the report.
    #[serde(default)]
    says: Vec<String>,
    /// Words that stand nowhere in it.
    #[serde(default)]
    never: Vec<String>,
    /// Words that stand once on the page for people.
    #[serde(default)]
    once: Vec<String>,
}

/// A case of a file.
pub(super) struct Case {
    pub(super) rule: String,
    pub(super) title: String,
    /// Where it begins: `file:line`.
    pub(super) at: String,
    pub(super) files: Vec<(String, String)>,
    pub(super) expected: String,
}

/// The cases of a file.
pub(super) fn cases(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap();
    let file = path.file_name().unwrap().to_string_lossy();
    let mut cases: Vec<Case> = Vec::new();
    let mut rule = String::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let at = format!("{file}:{}", number + 1);
        if let Some(title) = line.strip_prefix("## ") {
            rule = title.to_owned();
        } else if let Some(title) = line.strip_prefix("### ") {
            cases.push(Case {
                rule: rule.clone(),
                title: title.to_owned(),
                at,
                files: Vec::new(),
                expected: String::new(),
            });
        } else if let Some(kind) = line.strip_prefix("```") {
            let block = lines.by_ref().map(|(_, line)| line);
            let block = block.take_while(|line| *line != "```");
            let block = block.fold(String::new(), |all, line| all + line + "\n");
            let case = cases.last_mut();
            let case = case.unwrap_or_else(|| panic!("{at}: a block before the first case"));
            match kind.split_once(' ').unwrap_or((kind, "job.log")) {
                ("log", name) => case.files.push((name.to_owned(), block)),
                ("toml", _) => case.expected = block,
                _ => panic!("{at}: ```{kind}: log or toml"),
            }
        }
    }
    cases
}

/// All texts of a value.
pub(super) fn texts(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => all.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, all)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, all)),
        _ => {}
    }
}

/// What of a report is not as expected.
fn differences(log: &Report, expected: &Expected) -> String {
    let mut wrong = String::new();
    let mut hold = |what: &str, is: String, wanted: String| {
        if is != wanted {
            let _ = writeln!(wrong, "  {what}: {is}, not {wanted}");
        }
    };
    let ids = |findings: &[rdma_doctor::report::Finding]| -> Vec<String> {
        findings.iter().map(|one| one.check.clone()).collect()
    };
    let report = log;
    hold("exit", report.exit.to_string(), expected.exit.to_string());
    let answer = log.log.as_ref().and_then(|log| log.answers.first());
    let rdma = answer.map(|answer| answer.rdma.to_owned());
    hold("rdma", format!("{rdma:?}"), format!("{:?}", expected.rdma));
    let (causes, notes) = (ids(&report.causes), ids(&report.notes));
    hold(
        "causes",
        format!("{causes:?}"),
        format!("{:?}", expected.causes),
    );
    hold(
        "notes",
        format!("{notes:?}"),
        format!("{:?}", expected.notes),
    );
    if let Some(wanted) = &expected.folded {
        let beneath = report.causes.iter().flat_map(|cause| &cause.consequences);
        let mut folded: Vec<&str> = beneath.map(|one| one.check.as_str()).collect();
        folded.sort_unstable();
        folded.dedup();
        hold("folded", format!("{folded:?}"), format!("{wanted:?}"));
    }
    if let Some(wanted) = expected.settles {
        let settles = answer.is_some_and(|answer| answer.settle.is_some());
        hold("settles", settles.to_string(), wanted.to_string());
    }
    if let Some(wanted) = &expected.what {
        let what = answer.map_or("", |answer| &answer.what);
        hold("what", format!("{what:?}"), format!("{wanted:?}"));
    }
    if let Some(wanted) = &expected.channels {
        let counted = answer.and_then(|answer| answer.channels);
        let counted = serde_json::to_value(counted).unwrap();
        hold("channels", counted.to_string(), wanted.to_string());
    }
    for check in &expected.open {
        if !report.open.iter().any(|question| question.check == *check) {
            let _ = writeln!(wrong, "  open: {check} is not");
        }
    }
    let mut said = Vec::new();
    texts(&serde_json::to_value(log).unwrap(), &mut said);
    for words in &expected.says {
        if !said.iter().any(|text| text.contains(words)) {
            let _ = writeln!(wrong, "  says: nowhere {words:?}");
        }
    }
    for words in &expected.never {
        if let Some(text) = said.iter().find(|text| text.contains(words)) {
            let _ = writeln!(wrong, "  never: {words:?} in {text:?}");
        }
    }
    // A value that is not known is left out of a sentence.
    for finding in report.causes.iter().chain(&report.notes) {
        let mut sentences = finding.further.iter().chain([&finding.sentence]);
        if let Some(text) = sentences.find(|text| text.to_string().contains("unknown")) {
            let _ = writeln!(wrong, "  a placeholder is not filled: {text:?}");
        }
    }
    let page = page(log);
    for words in &expected.once {
        let times = page.matches(words.as_str()).count();
        if times != 1 {
            let _ = writeln!(wrong, "  once: {words:?} stands {times} times on the page");
        }
    }
    if !wrong.is_empty() {
        let _ = writeln!(wrong, "  headline: {}", report.headline);
    }
    wrong
}

/// The page for people, in one line.
fn page(log: &Report) -> String {
    let mut page = Vec::new();
    rdma_doctor::report::text::write(&mut page, log, Detail::default(), 4000).unwrap();
    let page = String::from_utf8(page).unwrap();
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_case_is_judged_as_it_says() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/log/cases");
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let words = std::env::var("RDMA_DOCTOR_LOG_CASE").ok();
    let (mut tried, mut wrong) = (0, String::new());
    for case in files.iter().flat_map(|path| cases(path)) {
        let headings = format!("{}: {}", case.rule, case.title);
        if words
            .as_ref()
            .is_some_and(|words| !headings.contains(words))
        {
            continue;
        }
        tried += 1;
        let at = format!("{} ({headings})", case.at);
        assert!(!case.files.is_empty(), "{at}: no log");
        let expected: Expected =
            toml::from_str(&case.expected).unwrap_or_else(|error| panic!("{at}: {error}"));
        let files: Vec<(&str, &str)> = case
            .files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        let (recordings, policy) = ([super::recording(&files)], Policy::default());
        let log = rdma_doctor::examine::log::judged(super::all_checks(), &recordings, &policy);
        if words.is_some() {
            println!("{at}\n{}", serde_json::to_string_pretty(&log).unwrap());
        }
        let differences = differences(&log, &expected);
        if !differences.is_empty() {
            let _ = writeln!(wrong, "{at}\n{differences}");
        }
    }
    println!("{tried} cases");
    assert!(tried > 0, "no case has such a heading");
    assert!(wrong.is_empty(), "\n{wrong}");
}
