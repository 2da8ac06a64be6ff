//! What every subcommand that ends in a verdict takes: the report's form, and where its exit status draws the line.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::Context;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use super::input::{BadInput, bad_usage};
use super::{output, require, site_config};
use crate::check::Severity;
use crate::exit::Exit;
use crate::live::files;
use crate::report::{Policy, Report, TOOL_FORMATS, ToolFormat, fix_script, html, text::Detail};
use crate::terminal::{self, Colors, Escaping};

/// How a verdict is shown, and what it takes for an exit status that says so.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Report and exit status")]
pub struct JudgeArgs {
    /// The report's format; without it the site's, else text
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write the report to this file, which is replaced as a whole
    #[arg(short, long, value_name = "FILE", value_parser = super::output_file())]
    pub output: Option<PathBuf>,
    /// Write the remedies to this file, as a shell script in which each command is commented out
    #[arg(long, value_name = "FILE", value_parser = super::output_file())]
    pub fix_script: Option<PathBuf>,
    /// Say the headline only
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Show why each cause matters, all evidence, what passed, and what could not be judged
    #[arg(short, long)]
    pub verbose: bool,
    /// Show all causes in full, and all notes
    #[arg(long)]
    pub all: bool,
    /// Show notes on which nobody acts, too
    #[arg(long)]
    pub notes: bool,
    /// List what could not be judged, by what would supply it
    #[arg(long)]
    pub open: bool,
    /// The least severity that makes exit status 2
    #[arg(long, value_enum, default_value_t = Severity::Error, value_name = "SEVERITY")]
    pub fail_on: Severity,
    /// Make every open question exit status 3
    #[arg(long)]
    pub strict: bool,
    /// The areas that must have been examined, in place of what is usual: ports,gpus,…; all; or none
    #[arg(long, value_name = "AREAS", value_delimiter = ',')]
    pub require: Vec<String>,
}

impl JudgeArgs {
    /// Where the exit status draws the line.
    ///
    /// # Errors
    ///
    /// `--require`, or the site's file, names no area.
    pub fn policy(&self) -> anyhow::Result<Policy> {
        site_format()?;
        Ok(Policy {
            fail_on: self.fail_on,
            strict: self.strict,
            require: require::require(&self.require)?,
            with_passes: self.verbose,
        })
    }

    /// The report's format. A site's file that has none of these was refused before.
    fn format(&self) -> ReportFormat {
        let site = || site_format().ok().flatten();
        self.format.or_else(site).unwrap_or(ReportFormat::Text)
    }

    /// Whether the format has drawings, which take facts beside the report.
    pub fn draws(&self) -> bool {
        matches!(self.format(), ReportFormat::Tool(format) if format.name == html::FORMAT.name)
    }

    /// How much a report for people says.
    pub fn detail(&self) -> Detail {
        Detail {
            quiet: self.quiet,
            verbose: self.verbose,
            all: self.all,
            notes: self.notes,
            open: self.open,
            height: output::height().filter(|_| self.output.is_none()),
        }
    }

    /// The exit status in the format's own convention.
    pub fn exit(&self, report: &Report) -> Exit {
        match self.format() {
            ReportFormat::Tool(format) => (format.exit)(report),
            ReportFormat::Text | ReportFormat::Json => report.exit(),
        }
    }

    /// Writes one report in its format, where it is wanted.
    ///
    /// # Errors
    ///
    /// The output cannot be written.
    pub fn write(
        &self,
        report: &Report,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        json: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        self.write_fixes(&[report])?;
        self.put(|out| match self.format() {
            ReportFormat::Text => text(out),
            ReportFormat::Json => json(out),
            ReportFormat::Tool(format) => (format.write)(out, report),
        })
    }

    /// Writes several reports, each with its name.
    ///
    /// # Errors
    ///
    /// [`bad_usage`] where the format is for one report; the output cannot be written.
    pub fn write_each(
        &self,
        reports: &[(String, &Report)],
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        json: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let all: Vec<&Report> = reports.iter().map(|(_, report)| *report).collect();
        self.write_fixes(&all)?;
        match self.format() {
            ReportFormat::Text => self.put(text),
            ReportFormat::Json => self.put(json),
            ReportFormat::Tool(format) => match format.each {
                Some(write) => self.put(|out| write(out, reports)),
                None => Err(bad_usage("--each: this format is for one report")),
            },
        }
    }

    fn write_fixes(&self, reports: &[&Report]) -> anyhow::Result<()> {
        match &self.fix_script {
            Some(path) => put(Some(path), false, |out| fix_script::write(out, reports)),
            None => Ok(()),
        }
    }

    fn put(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
        let escapes = match self.format() {
            ReportFormat::Tool(format) => format.escapes,
            ReportFormat::Text | ReportFormat::Json => false,
        };
        put(self.output.as_deref(), escapes, write)
    }
}

/// The format that the site's file sets.
fn site_format() -> anyhow::Result<Option<ReportFormat>> {
    let config = site_config::get()?;
    let Some(word) = &config.format else {
        return Ok(None);
    };
    let read = ReportFormat::from_str(word, false);
    let bad = |_| {
        let all = ReportFormat::value_variants().iter();
        let all: Vec<String> = all
            .filter_map(|one| Some(one.to_possible_value()?.get_name().to_owned()))
            .collect();
        let path = config.path();
        let all = all.join(", ");
        BadInput(format!(
            "{path}: there is no format `{word}`; the formats are {all}"
        ))
    };
    Ok(Some(read.map_err(bad)?))
}

/// Writes to a file, which is replaced as a whole, or to standard output; what acts on a terminal is escaped, unless the form `escapes` by its own rules.
///
/// # Errors
///
/// The output cannot be written.
pub fn put(
    path: Option<&Path>,
    escapes: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    if path.is_some() {
        terminal::set_color(false);
    }
    let bytes = match (escapes, path) {
        (true, _) => {
            let mut text = Vec::new();
            write(&mut text)?;
            text
        }
        (false, None) => return output::print(write),
        (false, Some(_)) => {
            let mut escaping = Escaping::new(Vec::new(), Colors::Own);
            write(&mut escaping)?;
            escaping.finish()?
        }
    };
    match path {
        None => output::print_raw(&bytes),
        Some(path) => {
            files::replace_output(path, &bytes, false).with_context(|| terminal::path(path))
        }
    }
}

/// A report's format.
#[derive(Clone, Copy, Debug)]
pub enum ReportFormat {
    /// For people.
    Text,
    /// For programs: one object, or a list of objects with --each.
    Json,
    /// For one tool.
    Tool(&'static ToolFormat),
}

impl ValueEnum for ReportFormat {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<ReportFormat>> = LazyLock::new(|| {
            let tools = TOOL_FORMATS.iter().map(ReportFormat::Tool);
            [ReportFormat::Text, ReportFormat::Json]
                .into_iter()
                .chain(tools)
                .collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            ReportFormat::Text => ("text", "For people"),
            ReportFormat::Json => (
                "json",
                "For programs: one object, or a list of objects with --each",
            ),
            ReportFormat::Tool(format) => (format.name, format.about),
        };
        Some(PossibleValue::new(name).help(help))
    }
}
