//! Logs in the report for people: below the headline, before what was found.

use std::io::{self, Write};

use super::{Answer, LogAnswers};
use crate::report::plural;
use crate::report::text::{aside, paragraph, proof};

/// Writes whether RDMA was used, the lines that say so, and what else the logs hold. Returns the
/// origins that now stand on the page.
pub(in crate::report) fn write(
    out: &mut dyn Write,
    log: &LogAnswers,
    width: usize,
) -> io::Result<Vec<String>> {
    let several = log.answers.len() > 1;
    let files = named(&log.files);
    if log.answers.len() != 1 && !log.files.is_empty() {
        aside(out, &files)?;
    }
    let mut shown = Vec::new();
    for answer in &log.answers {
        let name = if several {
            format!("{} · {}{}", answer.run, answer.what, outcome(answer))
        } else {
            format!("{}{} · {files}", answer.what, outcome(answer))
        };
        let is_said = log.is_in_headline && !several;
        if is_said || answer.is_silent {
            aside(out, &name)?;
        } else if several {
            aside(out, &name)?;
            paragraph(out, "         ", 9, &answer.sentence, width)?;
        } else {
            paragraph(out, "", 9, &answer.sentence, width)?;
            aside(out, &name)?;
        }
        for line in &answer.evidence {
            if !shown.contains(&line.origin) {
                proof(out, line, width)?;
                shown.push(line.origin.clone());
            }
        }
        if let Some(settle) = &answer.settle {
            paragraph(out, "  settle ", 9, settle, width)?;
        }
    }
    // A single one is the answer.
    let is_said = log.is_in_headline && log.answers.is_empty() && log.found.len() == 1;
    for sentence in log.found.iter().filter(|_| !is_said) {
        paragraph(out, "  found  ", 9, sentence, width)?;
    }
    // Where nothing else is known, the headline says it.
    let is_answer = log.is_in_headline && log.answers.is_empty() && log.found.is_empty();
    for sentence in log.not_read.iter().filter(|_| !is_answer) {
        paragraph(out, "  left   ", 9, sentence, width)?;
    }
    Ok(shown)
}

/// How the run ended, behind what it is.
fn outcome(answer: &Answer) -> String {
    let outcome = answer.outcome;
    outcome.map_or(String::new(), |how| format!(" · {how}"))
}

/// The files by one name, or by their directory.
fn named(files: &[String]) -> String {
    match files {
        [one] if one == "-" => "standard input".into(),
        [one] => one.clone(),
        many => {
            let directory = |name: &String| name.rsplit_once('/').map(|(to, _)| to.to_owned());
            let first = many.first().and_then(directory);
            let count = plural(many.len() as u64, "file");
            match first.filter(|first| many.iter().all(|name| name.starts_with(first.as_str()))) {
                Some(directory) => format!("{count} in {directory}"),
                None => count,
            }
        }
    }
}
