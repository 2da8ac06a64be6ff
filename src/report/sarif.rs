//! SARIF 2.1.0, as code scanning of GitHub, GitLab and Azure reads it. Source: the OASIS standard "Static Analysis Results Interchange Format".

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Finding, Report, ToolFormat};
use crate::sentence::Sentence;

/// The format of one report, or of several.
pub const FORMAT: ToolFormat = ToolFormat {
    name: "sarif",
    about: "For CI: SARIF 2.1.0, with a result for each finding",
    escapes: false,
    write: |out, report| write(out, vec![of_report(None, report)]),
    each: Some(|out, reports| {
        let runs = reports.iter();
        write(
            out,
            runs.map(|(file, report)| of_report(Some(file), report))
                .collect(),
        )
    }),
    exit: Report::exit,
};

/// A run: what was found, in which file, and what kept it from being decided.
pub(super) fn run(
    results: Vec<Value>,
    rules: Vec<Value>,
    file: Option<&str>,
    undecided: Vec<String>,
) -> Value {
    let notifications: Vec<Value> = undecided
        .iter()
        .map(|why| json!({"level": "error", "message": {"text": why}}))
        .collect();
    let mut run = json!({
        "tool": {"driver": {
            "name": "rdma-doctor",
            "version": env!("CARGO_PKG_VERSION"),
            "rules": rules,
        }},
        "invocations": [{
            "executionSuccessful": notifications.is_empty(),
            "toolExecutionNotifications": notifications,
        }],
        "results": results,
    });
    if let Some(file) = file {
        run["automationDetails"] = json!({"id": format!("rdma-doctor/{file}")});
    }
    run
}

/// A result: a rule, its level, a message, its subjects, and the file in which it was found.
pub(super) fn result(
    rule: &str,
    level: &str,
    text: &str,
    subjects: &[String],
    file: Option<&str>,
) -> Value {
    let logical: Vec<Value> = subjects
        .iter()
        .map(|name| json!({"fullyQualifiedName": name, "kind": "resource"}))
        .collect();
    let mut location = json!({"logicalLocations": logical});
    if let Some(file) = file {
        // What is not a letter of a URI's path is escaped: RFC 3986.
        let uri = file.bytes().fold(String::new(), |uri, byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri + char::from(byte).encode_utf8(&mut [0; 4])
            }
            _ => uri + &format!("%{byte:02X}"),
        });
        location["physicalLocation"] =
            json!({"artifactLocation": {"uri": uri}, "region": {"startLine": 1}});
    }
    json!({
        "ruleId": rule,
        "level": level,
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {"rdma-doctor/v1": format!("{rule} {}", subjects.join(" "))},
    })
}

fn of_report(file: Option<&String>, report: &Report) -> Value {
    let file = file.map(String::as_str);
    let mut rules: BTreeMap<&str, Value> = BTreeMap::new();
    let mut results = Vec::new();
    for one in report.causes.iter().chain(&report.notes) {
        rules.insert(&one.check, rule(one));
        let text = match one.further.as_slice() {
            [] => one.sentence.to_string(),
            further => {
                let all = [&one.sentence].into_iter().chain(further);
                all.map(Sentence::to_string).collect::<Vec<_>>().join("\n")
            }
        };
        results.push(result(&one.check, one.severity, &text, &one.subjects, file));
    }
    for one in &report.waived {
        let said = one.sentence.to_string();
        let mut result = result(&one.check, one.severity, &said, &one.subjects, file);
        result["suppressions"] =
            json!([{"kind": "external", "status": "accepted", "justification": one.terms()}]);
        rules
            .entry(&one.check)
            .or_insert_with(|| json!({"id": one.check}));
        results.push(result);
    }
    let wanting = report.areas.iter().filter(|area| area.is_wanting());
    let wanting = wanting.map(|area| format!("{}: {}: {}", area.area, area.state, area.sentence()));
    let damage = report.damage.iter().map(Sentence::to_string);
    let undecided = damage.chain(wanting).collect();
    run(results, rules.into_values().collect(), file, undecided)
}

fn rule(finding: &Finding) -> Value {
    let mut rule = json!({
        "id": finding.check,
        "fullDescription": {"text": finding.why},
        "help": {"text": finding.fix},
    });
    if let Some(see) = finding.see.first() {
        rule["helpUri"] = json!(see);
    }
    rule
}

/// Writes a log of these runs.
pub(super) fn write(out: &mut dyn Write, runs: Vec<Value>) -> io::Result<()> {
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": runs,
    });
    serde_json::to_writer_pretty(&mut *out, &log)?;
    writeln!(out)
}
