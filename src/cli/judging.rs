//! What every subcommand that ends in a verdict takes: the report's form, and where its exit status draws the line.

use clap::{Args, ValueEnum};

use crate::check::Severity;
use crate::report::{Policy, text::Detail};

/// How a verdict is shown, and what it takes for an exit status that says so.
#[derive(Clone, Copy, Debug, Args)]
pub struct JudgeArgs {
    /// The report's format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Say the headline only
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Show what passed with its evidence, and each open question
    #[arg(short, long)]
    pub verbose: bool,
    /// The least severity that makes exit status 2
    #[arg(long, value_enum, default_value_t = SeverityArg::Error, value_name = "SEVERITY")]
    pub fail_on: SeverityArg,
    /// Make every open question exit status 3, not only those that block
    #[arg(long)]
    pub strict: bool,
}

impl JudgeArgs {
    /// Where the exit status draws the line.
    pub fn policy(&self) -> Policy {
        Policy {
            fail_on: self.fail_on.into(),
            strict: self.strict,
        }
    }

    /// How much a report for people says.
    pub fn detail(&self) -> Detail {
        match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (_, true) => Detail::Verbose,
            _ => Detail::Normal,
        }
    }
}

/// A report's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one object, or a list of objects with --each.
    Json,
}

/// A severity on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SeverityArg {
    /// Errors only.
    Error,
    /// Warnings and errors.
    Warning,
    /// Any finding.
    Note,
}

impl From<SeverityArg> for Severity {
    fn from(arg: SeverityArg) -> Self {
        match arg {
            SeverityArg::Error => Severity::Error,
            SeverityArg::Warning => Severity::Warning,
            SeverityArg::Note => Severity::Note,
        }
    }
}
