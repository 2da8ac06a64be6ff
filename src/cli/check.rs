//! `rdma-doctor check`: from a machine, or its recording, to a verdict.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::judging::{JudgeArgs, Shown};
use super::{AskArgs, SelectArgs, input, output};
use crate::check::Catalogue;
use crate::check::judge;
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
    /// How a machine is asked.
    #[command(flatten)]
    pub ask: AskArgs,
    /// Which checks are judged.
    #[command(flatten)]
    pub select: SelectArgs,
    /// How the verdict is shown, and its exit status.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, an output that cannot be written.
pub fn run(args: &CheckArgs) -> anyhow::Result<Exit> {
    let catalogue = input::catalogue(&args.select)?;
    let policy = args.judge.policy();
    let reports: Vec<Report> = if args.each {
        // One at a time: of ten thousand recordings one is in memory.
        let one = |path| {
            Ok(judged(
                &catalogue,
                &input::open(&[path])?,
                policy,
                args.judge.verbose,
            ))
        };
        args.recordings
            .iter()
            .map(one)
            .collect::<anyhow::Result<_>>()?
    } else {
        let recordings = match args.recordings.as_slice() {
            [] => vec![input::record(&args.ask)?],
            paths => input::open(paths)?,
        };
        vec![judged(&catalogue, &recordings, policy, args.judge.verbose)]
    };
    let text = |out: &mut dyn Write| {
        let detail = args.judge.detail();
        for (i, one) in reports.iter().enumerate() {
            if args.each {
                if i > 0 && detail != text::Detail::Quiet {
                    writeln!(out)?;
                }
                write!(out, "{}: ", args.recordings[i].display())?;
            }
            text::write(out, one, detail, output::width())?;
        }
        Ok(())
    };
    let json = |out: &mut dyn Write| match reports.as_slice() {
        [one] if !args.each => json::write(out, one),
        many => {
            serde_json::to_writer_pretty(&mut *out, many)?;
            writeln!(out)
        }
    };
    let shown = Shown {
        text: &text,
        json: &json,
    };
    match reports.as_slice() {
        [one] if !args.each => args.judge.write(one, shown)?,
        _ => args.judge.write_each(shown)?,
    }
    Ok(args.judge.exit(worst(&reports)))
}

/// Judges recordings as one cluster.
pub fn judged(
    catalogue: &Catalogue,
    recordings: &[Recording],
    policy: Policy,
    with_passes: bool,
) -> Report {
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
