//! Tables of ablations that people made: a reason, or the report on what they say.

use rdma_doctor::cli::ablate;
use rdma_doctor::measure::plan::ablation_table::Table;

/// Tries one input.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Table::read("table.csv", &text) {
        Err(why) => assert!(!why.is_empty()),
        Ok(table) => super::judged::to_the_end(&[ablate::recording_of(&table)]),
    }
}
