//! The report as JSON. Its schema is in the manual page rdma-doctor(1), JSON.

use std::io::{self, Write};

use super::Report;

/// Writes the report as one JSON object.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)
}
