//! What came of recordings that have an expected verdict, in the forms that CI reads.

use std::io::{self, Write};

use super::junit::{self, Case, Suite};
use super::sarif;
use crate::terminal::Paint;

/// A recording, or a cluster of them, that has an expected verdict.
#[derive(Debug)]
pub struct TestCase {
    /// Its name.
    pub name: String,
    /// Its file or directory.
    pub path: String,
    /// How it differs; why it could not be compared.
    pub outcome: Result<Vec<String>, String>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl TestCase {
    /// Whether it is as expected.
    pub fn is_as_expected(&self) -> bool {
        self.outcome.as_ref().is_ok_and(Vec::is_empty)
    }

    /// The difference, a line each.
    fn lines(&self) -> &[String] {
        match &self.outcome {
            Ok(changes) => changes,
            Err(why) => std::slice::from_ref(why),
        }
    }
}

/// The same command: a verdict blessed without the overlay of `--checks` would differ again.
const BLESS: &str = "where the new verdicts are right, the same command with --bless writes them";

/// Writes for people: what changed, then how many are as expected.
pub fn text(out: &mut dyn Write, cases: &[TestCase]) -> io::Result<()> {
    let changed: Vec<&TestCase> = cases.iter().filter(|case| !case.is_as_expected()).collect();
    for case in &changed {
        let mut lines = case.lines().iter();
        let first = lines.next().map_or("", String::as_str);
        match first.starts_with(['+', '-', '~']) {
            true => writeln!(out, "{}:\n  {first}", case.name.bold())?,
            false => writeln!(out, "{}: {first}", case.name.bold())?,
        }
        for line in lines {
            writeln!(out, "  {line}")?;
        }
    }
    let (all, bad) = (cases.len(), changed.len());
    write!(out, "{} of {all} as expected", all - bad)?;
    if bad > 0 {
        let names: Vec<&str> = changed.iter().map(|case| &*case.name).collect();
        write!(out, ", {bad} changed: {}", names.join(", "))?;
    }
    writeln!(out)?;
    if changed.iter().any(|case| case.outcome.is_ok()) {
        writeln!(out, "{BLESS}")?;
    }
    Ok(())
}

/// Writes JUnit's XML.
pub fn junit(out: &mut dyn Write, cases: &[TestCase]) -> io::Result<()> {
    let case = |case: &TestCase| Case {
        class: "rdma-doctor",
        name: case.name.clone(),
        seconds: case.seconds,
        result: match &case.outcome {
            Err(why) => Some(("error", why.clone(), String::new())),
            Ok(changes) => changes
                .first()
                .map(|first| ("failure", first.clone(), case.lines().join("\n"))),
        },
    };
    let suite = Suite {
        name: "rdma-doctor test".to_owned(),
        cases: cases.iter().map(case).collect(),
    };
    junit::write(out, &[suite])
}

/// Writes the Test Anything Protocol, version 14.
pub fn tap(out: &mut dyn Write, cases: &[TestCase]) -> io::Result<()> {
    writeln!(out, "TAP version 14\n1..{}", cases.len())?;
    for (at, case) in cases.iter().enumerate() {
        let not = if case.is_as_expected() { "" } else { "not " };
        let name = case.name.replace('\\', "\\\\").replace('#', "\\#");
        writeln!(out, "{not}ok {} - {name}", at + 1)?;
        for line in case.lines() {
            writeln!(out, "# {}", line.replace('\n', " "))?;
        }
    }
    Ok(())
}

/// Writes GitHub's annotations, as a workflow prints them.
pub fn github(out: &mut dyn Write, cases: &[TestCase]) -> io::Result<()> {
    let data = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    for case in cases.iter().filter(|case| !case.is_as_expected()) {
        let file = data(&case.path).replace(':', "%3A").replace(',', "%2C");
        let text = data(&case.lines().join("\n"));
        writeln!(out, "::error file={file},title=rdma-doctor test::{text}")?;
    }
    Ok(())
}

/// Writes SARIF: a result for each recording whose verdict is not the expected one.
pub fn sarif(out: &mut dyn Write, cases: &[TestCase]) -> io::Result<()> {
    let changed = cases.iter().filter(|case| !case.is_as_expected());
    let results = changed.map(|case| {
        let (text, name) = (case.lines().join("\n"), case.name.clone());
        sarif::result(
            "rdma-doctor/test",
            "error",
            &text,
            &[name],
            Some(&case.path),
        )
    });
    sarif::write(
        out,
        vec![sarif::run(results.collect(), Vec::new(), None, Vec::new())],
    )
}
