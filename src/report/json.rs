//! The report as JSON. Its schema is in the manual page rdma-doctor(1), JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::Report;
use super::summary::Summary;

/// A report with its summary in front.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Report"))]
pub struct ReportJson<'r> {
    /// The answer for scripts and agents.
    pub summary: Summary,
    /// The report.
    #[serde(flatten)]
    pub report: &'r Report,
}

impl<'r> ReportJson<'r> {
    /// That of a report.
    pub fn of(report: &'r Report) -> Self {
        ReportJson {
            summary: Summary::of(report),
            report,
        }
    }
}

/// Writes the report as one JSON object.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &ReportJson::of(report))?;
    writeln!(out)
}
