//! Outputs of a benchmark as the arms of an ablation: one file an arm.

use std::path::PathBuf;

use crate::cli::input::BadInput;
use crate::examine::one;
use crate::examine::recorded_input::read_logs;
use crate::fact::{Limits, Subject, benchmark};
use crate::measure::plan::ablation_table::{Row, Table};
use crate::measure::plan::table_settings::settings;

/// An arm, and the file with its output.
#[derive(Clone, Debug)]
pub struct ArmFile {
    /// The settings that were in force, in words.
    pub name: String,
    /// The output.
    pub file: PathBuf,
}

/// Reads `NAME=FILE`, of which the name may hold `=`, too: `NCCL_IB_DISABLE=1=run.txt`.
pub(super) fn parse(text: &str) -> Result<ArmFile, String> {
    let (name, file) = text
        .rsplit_once('=')
        .filter(|(name, file)| !name.is_empty() && !file.is_empty())
        .ok_or("NAME=FILE is needed, as in baseline=all.txt and NCCL_IB_DISABLE=1=sockets.txt")?;
    settings(name).ok_or_else(|| format!("{name:?} names no setting that is known"))?;
    Ok(ArmFile {
        name: name.to_owned(),
        file: file.into(),
    })
}

/// The arms of these files as a table: of each its best bus bandwidth. Several tables in one file are repeats.
pub(super) fn table(arms: &[ArmFile]) -> anyhow::Result<Table> {
    let mut table = Table {
        file: "outputs of benchmarks".into(),
        unit: Some("GB/s".into()),
        ..Table::default()
    };
    let mut largest = None;
    for arm in arms {
        let bad = |what: &str| BadInput::of(&arm.file, what);
        let recording = read_logs(std::slice::from_ref(&arm.file), None)?;
        let (facts, _) = one::facts_within(Limits::default(), &[recording]);
        let results: Vec<_> = facts.all(Subject::Benchmark).collect();
        if results.is_empty() {
            return Err(bad("no results of nccl-tests, all_reduce_bench or perftest").into());
        }
        for id in results {
            let mut row = Row {
                line: table.rows.len() as u64 + 1,
                set: settings(&arm.name).unwrap_or_default(),
                ..Row::default()
            };
            match (
                facts.known(id, benchmark::BANDWIDTH),
                facts.known(id, benchmark::LARGEST),
            ) {
                (Some(rate), Some(size)) => {
                    if *largest.get_or_insert(size) != size {
                        return Err(bad("its largest message is not that of the files before it: compare the same sizes").into());
                    }
                    row.figure = Some(format!("{:.2} GB/s", rate.0 as f64 / 8e9));
                }
                _ => row.failed = Some("failed".into()),
            }
            table.nodes = table.nodes.max(facts.known(id, benchmark::HOSTS));
            table.rows.push(row);
        }
    }
    if table.rows.len() < 2 {
        return Err(
            BadInput("one run compares nothing: give --run-file once for each".into()).into(),
        );
    }
    Ok(table)
}
