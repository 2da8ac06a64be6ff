//! A table of arms that somebody measured already, as people paste it into an issue: each row is an
//! arm, or each column; paths that are on or off, or one column of settings; or a list of settings
//! with their figures. What is read is kept as it is written.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measure::plan::ablation::{Figures, Set, name_of};
use crate::measure::plan::table_figure::{number, seconds, time, unit_of_time};
use crate::measure::plan::table_settings::{head, is_switch, is_variable, settings, switch};
use crate::measure::plan::table_text::{Separator, TableRow, TableText, block};
use crate::small_sort;
use crate::source::Question;

/// The name of the question: `{"bench":"ablation"}`, to which arms that were measured otherwise are
/// the answer.
pub const NAME: &str = "ablation";

/// The question which arms were measured otherwise than by a collective: by a job, or by somebody
/// who wrote a table.
pub fn question() -> Question {
    Question::bench(NAME, [])
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The file's name.
    pub file: String,
    /// How many nodes took part, where a person said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
    /// How many ranks took part, where a person said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u64>,
    /// The unit of the throughput, as the column's head or its cells say it; absent where there are
    /// times only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The rows.
    pub rows: Vec<Row>,
    /// What of it is read in one of several ways, or is left out, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its line in the file, from 1.
    pub line: u64,
    /// The variables that were set; one that is 0 where 0 is the default is not.
    #[serde(default)]
    pub set: Set,
    /// The time, as it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The throughput, as it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// What became of the run that has no figure: `hang`, `OOM`, as it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
enum Column {
    /// A path; the head says that it is off, or names it alone.
    Path {
        variable: &'static str,
        value: &'static str,
        head_is_off: bool,
    },
    Variable(String),
    Settings,
    Time(String),
    Figure(String),
    Nodes,
    Ranks,
    Repeat,
    /// What else differs between runs: the model, the size of a batch.
    Other,
    Passed,
}

const EXAMPLE: &str = "no table of arms: each run needs the settings that were in force, and its time or throughput, as in\n\
\n    | IB off | P2P off | samples/s |\n    |---|---|---|\n    | 0 | 0 | 1.089 |\n    | 1 | 0 | 1.087 |\n\nor one line for each: `NCCL_IB_DISABLE=1: 1.087 samples/s`";

impl Table {
    /// Reads the tables of a text as one.
    ///
    /// # Errors
    ///
    /// That there is none, with an example of one; or the line that is not understood.
    pub fn read(file: &str, text: &str) -> Result<Self, String> {
        let lines: Vec<&str> = text.lines().collect();
        let (surely, perhaps) = Separator::BY_SURENESS;
        let mut found = tables(&lines, surely)?;
        if found.is_empty() {
            found.extend(list(&lines).map(|part| (String::new(), part)));
        }
        if found.is_empty() {
            found = tables(&lines, perhaps)?;
        }
        let none = found.is_empty();
        let table = together(found)?;
        match table.rows.len() {
            0 if none => Err(EXAMPLE.into()),
            0 | 1 => Err("a table of fewer than two rows compares nothing".into()),
            _ => Ok(Table {
                file: file.to_owned(),
                ..table
            }),
        }
    }

    /// The table as a reply.
    pub fn to_value(&self) -> Value {
        // Names and texts only: there is nothing that JSON cannot hold.
        serde_json::json!({ "table": self })
    }

    /// What each arm reached, in the order of the rows, the one that sets nothing first: equal rows
    /// are rounds of one arm.
    ///
    /// # Errors
    ///
    /// A figure that is not a number.
    pub fn figures(&self) -> Result<Vec<Figures>, String> {
        let mut arms: Vec<Figures> = Vec::new();
        for row in &self.rows {
            let time = match &row.time {
                Some(text) => Some(time(text).ok_or_else(|| format!("{text:?} is not a time"))?),
                None => None,
            };
            let seconds = time.map(|time| time.seconds);
            let figure = match (&row.figure, time) {
                (Some(text), _) => {
                    let number = number(text).ok_or_else(|| format!("{text:?} is not a number"))?;
                    Some((number.value, number.half))
                }
                // Of a time to the second, half a second is what is not known.
                (None, Some(time)) => {
                    let rate = 1.0 / time.seconds;
                    Some((rate, rate * time.half / time.seconds))
                }
                (None, None) if row.failed.is_some() => None,
                (None, None) => return Err(format!("line {}: no figure", row.line)),
            };
            let at = match arms.iter().position(|arm| arm.set == row.set) {
                Some(at) => {
                    // Several times of one arm belong to no one figure.
                    arms[at].seconds = None;
                    at
                }
                None => {
                    arms.push(Figures {
                        name: name_of(&row.set),
                        set: row.set.clone(),
                        seconds,
                        ..Figures::default()
                    });
                    arms.len() - 1
                }
            };
            let arm = &mut arms[at];
            if let Some((figure, resolution)) = figure {
                arm.resolution = arm.resolution.max(resolution);
                arm.rounds.insert(arm.rounds.len() as u64, figure);
            }
        }
        small_sort::by_key(&mut arms, |arm| arm.set.len());
        Ok(arms)
    }

    /// The row of an arm, where there is one alone.
    pub fn row_of(&self, set: &Set) -> Option<&Row> {
        let mut rows = self.rows.iter().filter(|row| row.set == *set);
        rows.next().filter(|_| rows.next().is_none())
    }
}

/// What one table of a text says.
#[derive(Debug, Default)]
struct Part {
    rows: Vec<(Row, Option<u64>)>,
    unit: Option<String>,
    ranks: Option<u64>,
    notes: Vec<String>,
}

/// The tables that are separated so, each with what stands above it.
fn tables(lines: &[&str], separators: &[Separator]) -> Result<Vec<(String, Part)>, String> {
    let (mut found, mut refused) = (Vec::new(), None);
    let mut at = 0;
    while at < lines.len() {
        match table_at(lines, at, separators) {
            Some((Ok(part), caption, next)) => {
                found.push((caption, part));
                at = next;
            }
            Some((Err(what), _, next)) => {
                refused.get_or_insert(what);
                at = next;
            }
            None => at += 1,
        }
    }
    match refused.filter(|_| found.is_empty()) {
        Some(what) => Err(what),
        None => Ok(found),
    }
}

/// The table whose head is this line, or whose first column is a head from it on; what stands above
/// it, and where the text goes on.
fn table_at(
    lines: &[&str],
    at: usize,
    separators: &[Separator],
) -> Option<(Result<Part, String>, String, usize)> {
    for separator in separators {
        let heads = separator.split(lines.get(at)?);
        // Of most lines it is known at once that they are no head.
        if !heads.is_some_and(|heads| heads.iter().any(|cell| may_be_head(cell))) {
            continue;
        }
        let text = block(lines, at, *separator)?;
        let upright = arms_of(&text);
        let found = match upright {
            None => text.transposed().and_then(|turned| arms_of(&turned)),
            some => some,
        };
        if let Some(part) = found {
            return Some((part, text.caption, text.next));
        }
    }
    None
}

fn may_be_head(cell: &str) -> bool {
    variable_in(cell).is_some()
        || head(cell).is_some()
        || is_settings_head(cell)
        || head_of_figure(cell).is_some()
}

/// The arms of a table; `None` if it is none of arms.
fn arms_of(text: &TableText) -> Option<Result<Part, String>> {
    let (first, rows) = text.rows.split_first()?;
    let even = rows.iter().find(|row| row.cells.len() != first.cells.len());
    let whole: Vec<&TableRow> = rows
        .iter()
        .filter(|row| row.cells.len() == first.cells.len())
        .collect();
    let columns = columns(&first.cells, &whole);
    use Column::{Path, Settings, Variable};
    let settles = |column: &Column| matches!(column, Path { .. } | Variable(_) | Settings);
    let measures = |column: &Column| matches!(column, Column::Time(_) | Column::Figure(_));
    if !columns.iter().any(settles) || !columns.iter().any(measures) || rows.is_empty() {
        return None;
    }
    if let Some(row) = even {
        let (cells, heads) = (row.cells.len(), first.cells.len());
        return Some(Err(format!(
            "line {}: {cells} values below {heads} heads",
            row.line
        )));
    }
    Some(read_rows(&first.cells, &columns, &whole))
}

fn read_rows(heads: &[String], columns: &[Column], rows: &[&TableRow]) -> Result<Part, String> {
    let mut part = Part::default();
    let cells = |at: usize| rows.iter().map(move |row| row.cells[at].as_str());
    for (at, column) in columns.iter().enumerate() {
        let name = &heads[at];
        let bare = |cell: &str| matches!(cell, "0" | "1");
        match column {
            Column::Path {
                head_is_off: false, ..
            } if cells(at).any(bare) => {
                part.notes.push(format!("`{name}` 1 is read as in use"));
            }
            Column::Repeat => part
                .notes
                .push(format!("equal rows of `{name}` are read as repeats")),
            Column::Other => {
                let first = rows.first().map_or("", |row| row.cells[at].as_str());
                part.notes.push(format!(
                    "`{name}` is read as a change of its own, {first} as none"
                ));
            }
            Column::Passed => part.notes.push(format!("`{name}` is not read")),
            Column::Ranks => {
                let first = rows.first().map(|row| row.cells[at].as_str());
                part.ranks = first.and_then(|cell| cell.parse().ok());
            }
            _ => {}
        }
    }
    let first: Vec<&str> = rows.first().map_or(Vec::new(), |row| {
        row.cells.iter().map(String::as_str).collect()
    });
    for row in rows {
        let at = row.line;
        let row = row_of_cells(row, heads, columns, &first, &mut part.unit);
        match row.map_err(|what| format!("line {at}: {what}"))? {
            (row, _) if row.time.is_none() && row.figure.is_none() && row.failed.is_none() => {
                let name = name_of(&row.set);
                part.notes
                    .push(format!("line {at} ({name}) has no figure, and is left out"));
            }
            row => part.rows.push(row),
        }
    }
    Ok(part)
}

/// A row, and the number of nodes that it names.
fn row_of_cells(
    from: &TableRow,
    heads: &[String],
    columns: &[Column],
    first: &[&str],
    unit: &mut Option<String>,
) -> Result<(Row, Option<u64>), String> {
    let mut row = Row {
        line: from.line,
        ..Row::default()
    };
    let mut nodes = None;
    for (at, (cell, column)) in from.cells.iter().zip(columns).enumerate() {
        match column {
            Column::Path {
                variable,
                value,
                head_is_off,
            } => {
                if path_is_off(cell, &heads[at], *head_is_off)? {
                    row.set.insert((*variable).into(), (*value).into());
                }
            }
            Column::Variable(name) => {
                if let Some(value) = value_of(name, cell)? {
                    row.set.insert(name.clone(), value);
                }
            }
            Column::Settings => {
                let found = settings(cell);
                row.set.extend(
                    found.ok_or_else(|| format!("{cell:?} names no setting that is known"))?,
                );
            }
            Column::Time(_) | Column::Figure(_) => measured(&mut row, cell, column, unit)?,
            Column::Nodes => nodes = cell.parse().ok(),
            Column::Other if first.get(at) != Some(&cell.as_str()) => {
                row.set.insert(heads[at].clone(), cell.clone());
            }
            Column::Other | Column::Ranks | Column::Repeat | Column::Passed => {}
        }
    }
    Ok((row, nodes))
}

/// What a cell of a column of figures says.
fn measured(
    row: &mut Row,
    cell: &str,
    column: &Column,
    unit: &mut Option<String>,
) -> Result<(), String> {
    let lower = cell.to_ascii_lowercase();
    if matches!(lower.as_str(), "" | "-" | "n/a" | "na" | "nan" | "?") {
        return Ok(());
    }
    if ended_badly(cell).is_some() {
        row.failed = Some(cell.to_owned());
        return Ok(());
    }
    match column {
        Column::Time(of_head) => {
            let bare = cell.ends_with(|c: char| c.is_ascii_digit()) && !cell.contains(':');
            let text = if bare && !of_head.is_empty() {
                format!("{cell} {of_head}")
            } else {
                cell.to_owned()
            };
            seconds(&text)
                .ok_or_else(|| format!("{cell:?} is not a time (h:mm:ss, or seconds)"))?;
            row.time = Some(text);
        }
        Column::Figure(of_head) => {
            let number =
                number(cell).ok_or_else(|| format!("{cell:?} is not a number above zero"))?;
            let own = match number.unit {
                "" => of_head.as_str(),
                own => own,
            };
            match unit.as_deref() {
                Some(other) if other != own => {
                    return Err(format!("{own:?}, and {other:?} above it"));
                }
                _ => *unit = Some(own.to_owned()),
            }
            row.figure = Some(cell.to_owned());
        }
        _ => {}
    }
    Ok(())
}

/// How a run ended, of which a cell holds no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadEnd {
    /// It did not end.
    Hung,
    /// It failed.
    Failed,
}

/// Whether a cell says that the run hung or failed: `hang`, `timeout`, `OOM`, `crash`.
pub fn ended_badly(cell: &str) -> Option<BadEnd> {
    let lower = cell.to_ascii_lowercase();
    let begins = |words: &[&str]| words.iter().any(|word| lower.starts_with(word));
    if begins(&["hang", "hung", "timeout", "timed out", "stuck"]) {
        Some(BadEnd::Hung)
    } else if begins(&["oom", "fail", "error", "crash", "segfault", "abort"]) {
        Some(BadEnd::Failed)
    } else {
        None
    }
}

/// Whether the cell takes the path away.
fn path_is_off(cell: &str, head: &str, head_is_off: bool) -> Result<bool, String> {
    let lower = cell.to_ascii_lowercase();
    match (head_is_off, lower.as_str()) {
        (true, "" | "-" | "unset" | "default") => Ok(false),
        // The words of the head once more.
        (true, "x" | "set" | "off" | "disabled") => Ok(true),
        (true, _) => switch(cell).ok_or_else(|| format!("{cell:?} is neither 0 nor 1")),
        (false, _) => {
            let used = switch(cell);
            let used =
                used.ok_or_else(|| format!("{cell:?} below {head:?} says neither on nor off"))?;
            Ok(!used)
        }
    }
}

/// The value that a cell gives a variable; `None` where it does not set it.
fn value_of(name: &str, cell: &str) -> Result<Option<String>, String> {
    let lower = cell.to_ascii_lowercase();
    if matches!(lower.as_str(), "" | "-" | "unset" | "default" | "none") {
        return Ok(None);
    }
    if !is_switch(name) {
        return Ok(Some(cell.to_owned()));
    }
    match lower.as_str() {
        "x" | "set" => Ok(Some("1".into())),
        // Of a path, or of the variable? Nobody can tell.
        "enabled" | "disabled" | "enable" | "disable" => {
            Err(format!("{cell:?} below {name}: 1 or 0?"))
        }
        _ => match switch(cell) {
            Some(on) => Ok(on.then(|| "1".into())),
            None => Err(format!("{cell:?} is neither 0 nor 1")),
        },
    }
}

/// The variable that a head names.
fn variable_in(text: &str) -> Option<String> {
    let name: String = match text.to_ascii_uppercase().find("NCCL_") {
        Some(at) => text[at..].to_ascii_uppercase(),
        None => text.to_owned(),
    };
    let name: String = name
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    (!text.contains('=')
        && is_variable(&name)
        && (name.starts_with("NCCL_") || name.len() == text.len()))
    .then_some(name)
}

fn is_settings_head(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let words =
        "config configuration setting settings arm case variant env environment mode variables";
    words.split(' ').any(|word| word == lower)
}

/// Whether a head is of times (with their unit) or of a throughput (with its unit).
fn head_of_figure(text: &str) -> Option<Column> {
    let lower = text.to_ascii_lowercase();
    let inner = match (text.find(['(', '[']), text.rfind([')', ']'])) {
        (Some(open), Some(close)) if open + 1 < close => text[open + 1..close].trim(),
        _ => "",
    };
    let per_second =
        lower.ends_with("/s") || lower.ends_with("/s)") || lower.contains("per second");
    let rates = "throughput busbw algbw bandwidth samples tokens tflops gb/s gbps images/ it/s";
    if per_second || rates.split(' ').any(|word| lower.contains(word)) {
        let unit = if inner.is_empty() { text.trim() } else { inner };
        return Some(Column::Figure(unit.to_owned()));
    }
    let times = "time, duration, elapsed, runtime, seconds, latency, wall clock";
    let unit = inner.split([',', ' ']).next().unwrap_or("");
    let of_time = !unit.is_empty() && unit_of_time(unit).is_some();
    let named = times.split(", ").any(|word| lower.contains(word));
    let unit = if of_time { unit } else { "" };
    (of_time || named).then(|| Column::Time(unit.to_owned()))
}

fn columns(heads: &[String], rows: &[&TableRow]) -> Vec<Column> {
    let (mut figures, mut times) = (0, 0);
    let mut columns = Vec::new();
    for (at, head) in heads.iter().enumerate() {
        let cells: Vec<&str> = rows.iter().map(|row| row.cells[at].as_str()).collect();
        let column = column(head, &cells);
        // Two throughputs cannot be told apart: the first one counts. So does the first time.
        let seen = match column {
            Column::Figure(_) => &mut figures,
            Column::Time(_) => &mut times,
            _ => &mut 0,
        };
        *seen += 1;
        columns.push(if *seen > 1 { Column::Passed } else { column });
    }
    columns
}

fn column(text: &str, cells: &[&str]) -> Column {
    if let Some(name) = variable_in(text) {
        return Column::Variable(name);
    }
    if let Some((path, head_is_off)) = head(text) {
        return Column::Path {
            variable: path.variable,
            value: path.off,
            head_is_off,
        };
    }
    if let Some(column) = head_of_figure(text) {
        return column;
    }
    let lower = text.to_ascii_lowercase();
    let lower = lower.trim_matches(|c: char| !c.is_alphanumeric() && c != '#');
    let distinct = cells.iter().collect::<BTreeSet<_>>().len();
    match lower {
        "nodes" | "#nodes" | "nnodes" | "num nodes" | "hosts" | "number of nodes" => {
            return Column::Nodes;
        }
        "ranks" | "gpus" | "#gpus" | "world size" | "np" if distinct == 1 => return Column::Ranks,
        "run" | "round" | "repeat" | "trial" | "seed" | "rep" | "iteration" | "iter" | "#"
        | "no" | "attempt" | "date" | "day" | "when" => return Column::Repeat,
        _ => {}
    }
    if cells.is_empty() {
        return Column::Passed;
    }
    if is_settings_head(text) || cells.iter().all(|cell| settings(cell).is_some()) {
        return Column::Settings;
    }
    let bad_or = |is: &dyn Fn(&str) -> bool| {
        let fits = |cell: &&str| ended_badly(cell).is_some() || is(cell);
        cells.iter().all(fits) && cells.iter().any(|cell| is(cell))
    };
    let spelt = |cell: &str| cell.contains(|c: char| c == ':' || c.is_alphabetic());
    if bad_or(&|cell| spelt(cell) && seconds(cell).is_some()) {
        return Column::Time(String::new());
    }
    let is_rate = |unit: &str| {
        let is_flops = unit.to_ascii_lowercase().contains("flop");
        unit.contains('/') || unit.ends_with("bps") || is_flops
    };
    if bad_or(&|cell| number(cell).is_some_and(|n| is_rate(n.unit))) {
        return Column::Figure(String::new());
    }
    let factors = "model, stage, zero, batch, batch size, seq, sequence, precision, dtype, size, gpus, \
        ranks, framework, nccl, cluster";
    let repeats =
        distinct > 1 && distinct < cells.len() && !cells.iter().all(|cell| number(cell).is_some());
    if distinct > 1 && (factors.split(", ").any(|word| word == lower) || repeats) {
        Column::Other
    } else {
        Column::Passed
    }
}

/// Lines of `settings: figure`, `settings -> figure`.
fn list(lines: &[&str]) -> Option<Part> {
    let mut rows = Vec::new();
    for (at, line) in (1..).zip(lines) {
        let line = line.trim().trim_start_matches(['-', '*', '•']).trim_start();
        let parts = ["->", "=>", "→", ": ", "\t", "  "].iter();
        let mut parts = parts.filter_map(|between| line.split_once(between));
        let found = parts.find(|(of, figure)| {
            let said = seconds(figure).is_some()
                || number(figure).is_some()
                || ended_badly(figure.trim()).is_some();
            said && settings(of).is_some()
        });
        if let Some((of, figure)) = found {
            let cells = vec![of.trim().to_owned(), figure.trim().to_owned()];
            rows.push(TableRow { line: at, cells });
        }
    }
    let whole: Vec<&TableRow> = rows.iter().collect();
    let cells: Vec<&str> = rows.iter().map(|row| row.cells[1].as_str()).collect();
    let figure = match column("", &cells) {
        found @ (Column::Time(_) | Column::Figure(_)) => found,
        _ => return None,
    };
    let heads = ["config".to_owned(), String::new()];
    read_rows(&heads, &[Column::Settings, figure], &whole).ok()
}

/// The tables of one text as one. What stands above each says what differs; where that is no
/// setting, it is a change of its own.
fn together(found: Vec<(String, Part)>) -> Result<Table, String> {
    let mut table = Table::default();
    let several = found.len() > 1;
    if several {
        let count = match found.len() {
            2 => "two".to_owned(),
            count => count.to_string(),
        };
        let note = format!("{count} tables, named by the line above each");
        table.notes.push(note);
    }
    let mut rows: Vec<(Row, Option<u64>)> = Vec::new();
    for (number, (caption, part)) in found.into_iter().enumerate() {
        let of_table = if several {
            settings(&caption).unwrap_or_else(|| match number {
                0 => Set::new(),
                _ => Set::from([("table".to_owned(), (number + 1).to_string())]),
            })
        } else {
            Set::new()
        };
        match (&table.unit, &part.unit) {
            (Some(one), Some(other)) if one != other => {
                return Err(format!(
                    "one table in {one}, and another in {other}: give each by itself"
                ));
            }
            (None, Some(_)) => table.unit = part.unit,
            _ => {}
        }
        table.ranks = table.ranks.or(part.ranks);
        for note in part.notes {
            if !table.notes.contains(&note) {
                table.notes.push(note);
            }
        }
        rows.extend(part.rows.into_iter().map(|(mut row, nodes)| {
            row.set.extend(of_table.clone());
            (row, nodes)
        }));
    }
    let named: BTreeSet<u64> = rows.iter().filter_map(|(_, nodes)| *nodes).collect();
    table.nodes = named.last().copied();
    for nodes in named.into_iter().filter(|n| Some(*n) != table.nodes) {
        let plural = if nodes == 1 { "" } else { "s" };
        let note = format!("rows of {nodes} node{plural} are left out");
        table.notes.push(note);
    }
    rows.retain(|(_, nodes)| *nodes == table.nodes);
    table.rows = rows.into_iter().map(|(row, _)| row).collect();
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: &str = "\
The runs of last week:

| IB off | SHM off | P2P off | time | samples/s |
|---|---|---|---|---|
| 1 | 1 | 1 | 2:37:14 | 0.697 |
| 0 | 1 | 1 | 2:36:22 | 0.698 |
| 0 | 0 | 0 | 1:43:40 | 1.089 |

All off is slowest.
";

    #[test]
    fn a_table_among_text() {
        let table = Table::read("runs.md", SEEDS).unwrap();
        assert_eq!(table.rows.len(), 3);
        assert_eq!(table.unit.as_deref(), Some("samples/s"));
        assert_eq!(table.rows[0].line, 5);
        assert_eq!(table.rows[1].set.len(), 2);
        assert_eq!(table.rows[2].set.len(), 0);
        let arms = table.figures().unwrap();
        assert_eq!(arms[0].name, "baseline");
        assert_eq!(arms[0].seconds, Some(6220.0));
        assert_eq!(arms[2].name, "ib-off+shm-off+p2p-off");
        assert!((arms[2].resolution - 0.0005).abs() < 1e-12);
        let value = table.to_value();
        let back: Table = serde_json::from_value(value["table"].clone()).unwrap();
        assert_eq!(back, table);
    }

    #[test]
    fn other_forms_say_the_same() {
        for text in [
            "NCCL_IB_DISABLE,NCCL_ALGO,time\n0,,100\n1,Ring,2:05\n",
            "NCCL_IB_DISABLE\tNCCL_ALGO\tnote\tduration (s)\n0\tdefault\tx\t100\n1\tRing\ty\t125 s\n",
            "`NCCL_IB_DISABLE`; NCCL_ALGO ;Time\n-;-;1:40\nyes;Ring;125\n",
        ] {
            let arms = Table::read("t", text).unwrap().figures().unwrap();
            assert_eq!(arms.len(), 2, "{text}");
            assert_eq!(arms[1].name, "algorithm=ring+ib-off", "{text}");
            assert_eq!(arms[1].figure(), Some(1.0 / 125.0), "{text}");
        }
    }

    #[test]
    fn equal_rows_are_rounds() {
        let text = "NCCL_IB_DISABLE,busbw (GB/s)\n0,180\n1,20\n0,182\n1,21\n";
        let table = Table::read("t", text).unwrap();
        assert_eq!(table.unit.as_deref(), Some("GB/s"));
        let arms = table.figures().unwrap();
        assert_eq!(arms[0].values(), [180.0, 182.0]);
        assert!(table.row_of(&Set::new()).is_none());
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        for (text, what) in [
            ("", "no table"),
            ("a,b\n1,2\n", "no table"),
            ("NCCL_IB_DISABLE,time\n0,1:00\n", "fewer than two rows"),
            ("NCCL_IB_DISABLE,time\n0,1:00\n1\t2\n", "fewer than two"),
            (
                "NCCL_IB_DISABLE,time\n0,1:00\n1,1:60\n",
                "line 3: \"1:60\" is not a time",
            ),
            ("NCCL_IB_DISABLE,time\n2,1:00\n", "line 2: \"2\" is neither"),
            (
                "NCCL_IB_DISABLE,time\n0,1,2\n",
                "line 2: 3 values below 2 heads",
            ),
            (
                "NCCL_IB_DISABLE,x/s\n0,-4\n",
                "line 2: \"-4\" is not a number",
            ),
            (
                "NCCL_IB_DISABLE,x/s\n0,1e9\n",
                "line 2: \"1e9\" is not a number",
            ),
            ("NCCL_IB_DISABLE,x/s\n0,\n", "fewer than two rows"),
        ] {
            let error = Table::read("t", text).unwrap_err();
            assert!(error.contains(what), "{text:?}: {error}");
        }
    }
}
