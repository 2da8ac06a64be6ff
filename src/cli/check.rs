//! `rdma-doctor check`: from a machine, or its recording, to a verdict.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::input::BadUsage;
use super::{AskArgs, SelectArgs, SeverityArg, input, many, output};
use crate::check::Catalogue;
use crate::check::judge;
use crate::cluster::nodeset;
use crate::exit::Exit;
use crate::report::{self, Policy, Report, json, text};
use crate::source::recording::Recording;

/// Judge this machine, a copied tree, or recordings.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Recordings to judge in place of this machine; several are judged as one cluster
    #[arg(value_name = "RECORDING", conflicts_with_all = super::NOT_OF_A_RECORDING)]
    pub recordings: Vec<PathBuf>,
    /// Judge each recording alone
    #[arg(long, requires = "recordings")]
    pub each: bool,
    /// Nodes that are expected among the recordings, as n[01-16]: one of them without a recording is a finding
    #[arg(
        long,
        value_name = "NODES",
        requires = "recordings",
        conflicts_with = "each"
    )]
    pub expect: Option<String>,
    /// How a machine is asked.
    #[command(flatten)]
    pub ask: AskArgs,
    /// Which checks are judged.
    #[command(flatten)]
    pub select: SelectArgs,
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

/// A report's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one object, or a list of objects with --each.
    Json,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, an output that cannot be written.
pub fn run(args: &CheckArgs) -> anyhow::Result<Exit> {
    let catalogue = input::catalogue(&args.select)?;
    let policy = Policy {
        fail_on: args.fail_on.into(),
        strict: args.strict,
    };
    let reports: Vec<Report> = if args.each {
        // One at a time: of ten thousand recordings one is in memory.
        let one = |path| {
            Ok(judged(
                &catalogue,
                &input::open(&[path])?,
                policy,
                args.verbose,
            ))
        };
        args.recordings
            .iter()
            .map(one)
            .collect::<anyhow::Result<_>>()?
    } else {
        let expected = match &args.expect {
            Some(list) => {
                Some(nodeset::expand(list).map_err(|e| BadUsage(format!("--expect: {e}")))?)
            }
            None => None,
        };
        vec![match (args.recordings.as_slice(), expected) {
            ([], _) => judged(
                &catalogue,
                &[input::record(&args.ask)?],
                policy,
                args.verbose,
            ),
            ([one], None) => judged(&catalogue, &input::open(&[one])?, policy, args.verbose),
            (paths, expected) => many::files(&catalogue, paths, expected, policy, args.verbose)?,
        }]
    };
    output::print(|out| match (args.format, reports.as_slice()) {
        (Format::Json, [one]) if !args.each => json::write(out, one),
        (Format::Json, many) => {
            serde_json::to_writer_pretty(&mut *out, many)?;
            writeln!(out)
        }
        (Format::Text, many) => {
            let detail = match (args.quiet, args.verbose) {
                (true, _) => text::Detail::Quiet,
                (_, true) => text::Detail::Verbose,
                _ => text::Detail::Normal,
            };
            for (i, one) in many.iter().enumerate() {
                if args.each {
                    if i > 0 && detail != text::Detail::Quiet {
                        writeln!(out)?;
                    }
                    write!(out, "{}: ", args.recordings[i].display())?;
                }
                text::write(out, one, detail, output::width())?;
            }
            Ok(())
        }
    })?;
    Ok(worst(&reports))
}

/// Judges recordings as one cluster.
pub fn judged(
    catalogue: &Catalogue,
    recordings: &[Recording],
    policy: Policy,
    with_passes: bool,
) -> Report {
    if recordings.iter().filter(|r| !r.header.log).count() > 1 {
        return many::recordings(catalogue, recordings, None, policy, with_passes);
    }
    let (facts, nodes) = input::facts(recordings);
    let verdicts = judge(catalogue, &facts);
    report::report(catalogue, &facts, &verdicts, &nodes, policy, with_passes)
}

/// Of several reports, errors before undecided before warnings before healthy.
fn worst(reports: &[Report]) -> Exit {
    let rank = |exit: Exit| match exit {
        Exit::Healthy => 0,
        Exit::Warnings => 1,
        Exit::Undecided => 2,
        _ => 3,
    };
    reports
        .iter()
        .map(Report::exit)
        .max_by_key(|e| rank(*e))
        .unwrap_or(Exit::Undecided)
}
