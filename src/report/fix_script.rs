//! The remedies of a report as a shell script for a person to go through: nothing in it runs before its mark is removed.

use std::io::{self, Write};

use super::remedy::{self, RemedyLine, pasted};
use super::{Finding, Report, some};

const HEAD: &str = "\
# Nothing here runs: read each step, and remove `#: ` before a command to run it.
# (user) who runs the job, (operator) root on the node, (site) who decides.";

/// Writes the script: steps as comments, each command behind `#:`.
///
/// # Errors
///
/// The output fails.
pub fn write(out: &mut dyn Write, reports: &[&Report]) -> io::Result<()> {
    writeln!(
        out,
        "#!/bin/sh\n# Remedies of rdma-doctor {}.\n{HEAD}",
        env!("CARGO_PKG_VERSION")
    )?;
    for report in reports {
        comment(out, "\n# ", &report.headline.to_string())?;
        let own = match report.nodes.as_slice() {
            [one] => one.name.as_str(),
            _ => "",
        };
        for (number, cause) in report.causes.iter().enumerate() {
            let number = format!("\n# {}. {}: ", number + 1, cause.severity);
            comment(
                out,
                &number,
                &format!("{} [{}]", cause.sentence, cause.check),
            )?;
            comment(out, "# on: ", &on(cause, own))?;
            for line in remedy::lines(&cause.fix) {
                match line {
                    RemedyLine::Command(command, after) => {
                        comment(out, "#: ", &pasted(&command, &after))?;
                    }
                    RemedyLine::Words(words) => comment(out, "# ", &words.to_string())?,
                }
            }
        }
    }
    Ok(())
}

/// The nodes of a cause.
fn on(cause: &Finding, own: &str) -> String {
    match cause.nodes.as_slice() {
        [] if own.is_empty() => "the nodes of the sentence above".into(),
        [] => own.to_owned(),
        nodes => some(nodes),
    }
}

/// A line that a shell takes for a comment, whatever a fact has put into it.
fn comment(out: &mut dyn Write, mark: &str, text: &str) -> io::Result<()> {
    writeln!(out, "{mark}{}", text.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::report::testing::report;
    use crate::sentence::shell::Command;
    use crate::sentence::{Sentence, Span};

    #[test]
    fn every_line_is_a_comment() {
        let mut errors = report(Exit::Errors, &["link/rate-degraded"]);
        errors.causes[0].sentence = "it is\nrm -rf / \rdown".into();
        errors.causes[0].fix = Sentence::new(vec![
            Span::Text("1. (operator) Look:\n   ".into()),
            Span::Command(Command::of_words(["lspci", "-s", "1"])),
            Span::Text("\n\nrm -rf /".into()),
        ]);
        let mut script = Vec::new();
        write(&mut script, &[&errors]).unwrap();
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("\n#: lspci -s 1\n"), "{script}");
        let bare = script
            .lines()
            .find(|line| !line.is_empty() && !line.starts_with('#'));
        assert_eq!(bare, None);
    }
}
