//! What nvbandwidth measured between GPUs, and between the host and each of them.

use super::self_tests::add;
use super::{Output, OutputLine};
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Facts, Id, Percent, tool_result};
use crate::measure::plan::statistics::median;

/// A table: `memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)`, the numbers of the columns, and
/// rows of values with their own number before them.
struct Table<'o> {
    heading: OutputLine<'o>,
    /// The test that printed it; empty if the line is not there.
    test: &'o str,
    columns: usize,
    rows: Vec<Vec<Option<f64>>>,
}

impl Table<'_> {
    fn is_between_gpus(&self) -> bool {
        self.heading.text.contains("GPU(row)")
    }

    /// What was measured with the GPU of this column.
    fn of_gpu(&self, column: usize) -> Vec<f64> {
        let cells = self.rows.iter().filter_map(|row| *row.get(column)?);
        let mut all: Vec<f64> = cells.collect();
        if self.is_between_gpus() {
            let row = self.rows.get(column).into_iter().flatten();
            all.extend(row.filter_map(|cell| *cell));
        }
        all
    }
}

/// States what each GPU reached, as a share of what is usual in its table.
pub(super) fn state_gpus(output: &Output, facts: &mut Facts, node: Id) {
    for table in tables(output) {
        let of_gpus = (0..table.columns).map(|column| median(&table.of_gpu(column)));
        let of_gpus: Vec<Option<f64>> = of_gpus.collect();
        let known: Vec<f64> = of_gpus.iter().copied().flatten().collect();
        let Some(usual) = median(&known).filter(|usual| *usual > 0.0) else {
            continue;
        };
        for (column, own) in of_gpus.into_iter().enumerate() {
            let Some(own) = own else {
                continue;
            };
            let others = if table.is_between_gpus() {
                "others"
            } else {
                "the host"
            };
            let about = match table.test {
                "" => format!("GPU {column} and {others}"),
                test => format!("GPU {column} and {others} ({test})"),
            };
            let words = format!("{own:.1} GB/s; usual in this table: {usual:.1} GB/s");
            let kind = ToolResultKind::Bandwidth;
            let id = add(facts, node, kind, &about, (&table.heading, &words));
            let share = Percent(100.0 * own / usual);
            facts.set(id, tool_result::OF_OTHERS, table.heading.known(share));
        }
    }
}

fn tables(output: &Output) -> Vec<Table<'_>> {
    let mut tables: Vec<Table<'_>> = Vec::new();
    let mut is_open = false;
    let mut test = "";
    for line in output.lines() {
        let text = line.text.trim();
        if let Some(name) = text.strip_prefix("Running ") {
            test = name.trim_end_matches('.');
        }
        if text.contains("(row)") && text.ends_with("bandwidth (GB/s)") {
            is_open = true;
            tables.push(Table {
                heading: line,
                test,
                columns: 0,
                rows: Vec::new(),
            });
            continue;
        }
        let Some(table) = tables.last_mut().filter(|_| is_open) else {
            continue;
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() && table.columns == 0 {
            continue;
        }
        if table.columns == 0 {
            let numbers = words.iter().map(|word| word.parse().ok());
            let is_header = numbers.eq((0..words.len()).map(Some));
            table.columns = if is_header { words.len() } else { 0 };
        } else if words.len() == table.columns + 1 {
            let cells = words.iter().skip(1).map(|cell| cell.parse().ok());
            table.rows.push(cells.collect());
            continue;
        }
        is_open = table.columns > 0 && table.rows.is_empty();
    }
    tables
}
