//! `rdma-doctor explain`: what a check judges, why it matters, what to do.

use std::io::{self, Write};

use crate::terminal::Paint;
use clap::Args;

use super::input::{BadInput, BadUsage};
use super::{SelectArgs, input, output};
use crate::check::{Check, try_example};
use crate::exit::Exit;

/// Explain a check; without an id, list all.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The check's id, such as link/rate-degraded
    pub id: Option<String>,
    /// Directories with further checks.
    #[command(flatten)]
    pub select: SelectArgs,
}

/// Runs the subcommand.
///
/// # Errors
///
/// An id that does not exist, an invalid check file, an output that cannot be written.
pub fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let catalogue = input::catalogue(&args.select)?;
    for check in &catalogue.checks {
        // A site's check shows itself here: that its examples hold is part of it.
        for example in check.examples().map_err(|e| BadInput(e.to_string()))? {
            try_example(check, &example).map_err(|e| BadInput(format!("{}: {e}", check.path)))?;
        }
    }
    match &args.id {
        None => output::print(|out| list(out, &catalogue.checks))?,
        Some(id) => match catalogue.checks.iter().find(|c| *c.id == **id) {
            Some(check) => output::print(|out| one(out, check))?,
            None => {
                let near = catalogue.checks.iter().max_by(|a, b| {
                    strsim::jaro_winkler(&a.id, id).total_cmp(&strsim::jaro_winkler(&b.id, id))
                });
                let hint = near.map_or(String::new(), |c| format!("; did you mean {}?", c.id));
                return Err(BadUsage(format!(
                    "no check {id}{hint} (rdma-doctor explain lists all)"
                ))
                .into());
            }
        },
    }
    Ok(Exit::Healthy)
}

fn list(out: &mut dyn Write, checks: &[Check]) -> io::Result<()> {
    let width = checks.iter().map(|c| c.id.len()).max().unwrap_or(0);
    for check in checks {
        writeln!(
            out,
            "{:<width$}  {:<7}  {}",
            check.id,
            check.severity.word(),
            check.title
        )?;
    }
    writeln!(out, "{}", format!("{} checks", checks.len()).dimmed())
}

fn one(out: &mut dyn Write, check: &Check) -> io::Result<()> {
    writeln!(out, "{}  {}", check.id.bold(), check.title)?;
    let area = match &*check.area {
        "" => String::new(),
        area => format!(", area {area}"),
    };
    writeln!(
        out,
        "{}, for each {}{area}",
        check.gravity(),
        check.subject.name()
    )?;
    writeln!(out)?;
    if let Some(presumed) = &check.premise {
        writeln!(out, "premise  {}", presumed.premise.word())?;
    }
    if let Some(applies) = &check.applies {
        writeln!(out, "applies  {}", applies.text())?;
    }
    writeln!(out, "fails    {}", check.fails.text())?;
    for (name, value) in &check.limits {
        writeln!(out, "         limit.{name} = {value}")?;
    }
    section(out, "why", check.advice().why.trim())?;
    section(out, "fix", check.advice().fix.source().trim())?;
    let explains = check
        .explains
        .iter()
        .map(|e| e.to_string())
        .collect::<Vec<_>>();
    if !explains.is_empty() {
        section(out, "explains", &explains.join("\n"))?;
    }
    section(out, "see", &check.advice().see.join("\n"))
}

fn section(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out)?;
    for (i, line) in text.lines().enumerate() {
        let label = if i == 0 { name } else { "" };
        writeln!(out, "{label:<8} {line}")?;
    }
    Ok(())
}
