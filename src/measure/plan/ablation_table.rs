//! A table of arms that somebody measured already: variables, and time or throughput, as people paste it into an issue.
//!
//! Read are Markdown's tables (`| a | b |`), and values apart by tabs, semicolons or commas. A column is a variable where its head names one
//! (`NCCL_IB_DISABLE`, `IB off`, `SHM disabled`), a time where it says so (`time`, `duration`), else a throughput where it says that
//! (`samples/s`, `throughput`, `busbw`). Other columns are passed over. What is read is kept as it is written.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measure::plan::ablation::{Figures, Set, name_of};
use crate::small_sort;
use crate::source::Question;

/// The name of the question: `{"bench":"ablation"}`, to which arms that were measured otherwise are the answer.
pub const NAME: &str = "ablation";

/// The question which arms were measured otherwise than by a collective: by a job, or by somebody who wrote a table.
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
    /// The unit of the throughput, as the column's head says it; absent where there are times only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The rows.
    pub rows: Vec<Row>,
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
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
enum Column {
    Variable { name: String, switch: bool },
    Time,
    Figure(String),
    Other,
}

/// Rows that one table may have.
const ROWS: usize = 1000;

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    ///
    /// That there is none, or the line that is not understood.
    pub fn read(file: &str, text: &str) -> Result<Self, String> {
        let mut lines = (1..).zip(text.lines());
        let found = lines.find_map(|(_, line)| {
            let between = separator(line)?;
            let columns = columns(&cells(line, between));
            is_table(&columns).then_some((between, columns))
        });
        let Some((between, columns)) = found else {
            return Err(
                "no table of variables with time or throughput: its head names each variable \
                        (NCCL_IB_DISABLE, or `IB off`) and a time or a throughput"
                    .into(),
            );
        };
        let unit = columns.iter().find_map(|column| match column {
            Column::Figure(unit) => Some(unit.clone()),
            _ => None,
        });
        let mut rows = Vec::new();
        for (at, line) in lines {
            if !line.contains(between) {
                // A table ends where its lines end; an empty line at its head does not end it.
                match rows.is_empty() && line.trim().is_empty() {
                    true => continue,
                    false => break,
                }
            }
            let cells = cells(line, between);
            if cells.iter().all(|cell| is_rule(cell)) {
                continue;
            }
            if rows.len() == ROWS {
                return Err(format!("line {at}: more than {ROWS} rows"));
            }
            rows.push(row(at, &cells, &columns).map_err(|what| format!("line {at}: {what}"))?);
        }
        match rows.len() {
            0 | 1 => Err("a table of fewer than two rows compares nothing".into()),
            _ => Ok(Table {
                file: file.to_owned(),
                nodes: None,
                ranks: None,
                unit,
                rows,
            }),
        }
    }

    /// The table as a reply.
    pub fn to_value(&self) -> Value {
        // Names and texts only: there is nothing that JSON cannot hold.
        serde_json::json!({ "table": self })
    }

    /// What each arm reached, in the order of the rows, the one that sets nothing first: equal rows are rounds of one arm.
    ///
    /// # Errors
    ///
    /// A number that is none.
    pub fn figures(&self) -> Result<Vec<Figures>, String> {
        let mut arms: Vec<Figures> = Vec::new();
        for row in &self.rows {
            let seconds = match &row.time {
                Some(text) => Some(seconds(text).ok_or_else(|| format!("{text:?} is not a time"))?),
                None => None,
            };
            let (figure, resolution) = match (&row.figure, seconds) {
                (Some(text), _) => {
                    number(text).ok_or_else(|| format!("{text:?} is not a number"))?
                }
                // Of a time to the second, the second is what is not known.
                (None, Some(seconds)) => (1.0 / seconds, 0.5 / (seconds * seconds)),
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
                        resolution,
                        ..Figures::default()
                    });
                    arms.len() - 1
                }
            };
            let arm = &mut arms[at];
            arm.resolution = arm.resolution.max(resolution);
            arm.rounds.insert(arm.rounds.len() as u64, figure);
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

/// What stands between the values of a line.
fn separator(line: &str) -> Option<char> {
    ['|', '\t', ';', ',']
        .into_iter()
        .find(|between| line.contains(*between))
}

fn cells(line: &str, between: char) -> Vec<&str> {
    let line = line.trim();
    let inner = match between {
        '|' => {
            let line = line.strip_prefix('|').unwrap_or(line);
            line.strip_suffix('|').unwrap_or(line)
        }
        _ => line,
    };
    let quiet = |c: char| c.is_whitespace() || matches!(c, '"' | '`' | '*');
    inner
        .split(between)
        .map(|cell| cell.trim_matches(quiet))
        .collect()
}

fn is_rule(cell: &str) -> bool {
    !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':' | '='))
}

fn is_table(columns: &[Column]) -> bool {
    columns.iter().any(|c| matches!(c, Column::Variable { .. }))
        && columns
            .iter()
            .any(|c| matches!(c, Column::Time | Column::Figure(_)))
}

fn columns(heads: &[&str]) -> Vec<Column> {
    let mut columns: Vec<Column> = heads.iter().map(|head| column(head)).collect();
    // Two throughputs cannot be told apart: the first one counts. So does the first time.
    let (mut figures, mut times) = (0, 0);
    for column in &mut columns {
        let seen = match column {
            Column::Figure(_) => &mut figures,
            Column::Time => &mut times,
            _ => continue,
        };
        *seen += 1;
        if *seen > 1 {
            *column = Column::Other;
        }
    }
    columns
}

fn column(head: &str) -> Column {
    let upper = head.to_ascii_uppercase();
    let lower = head.to_ascii_lowercase();
    if let Some(at) = upper.find("NCCL_") {
        let name: String = upper[at..]
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        let switch = name.ends_with("_DISABLE");
        return Column::Variable { name, switch };
    }
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let off = words
        .iter()
        .any(|word| matches!(*word, "off" | "disable" | "disabled"));
    let switch = words.iter().find_map(|word| match *word {
        "ib" | "infiniband" => Some("NCCL_IB_DISABLE"),
        "shm" => Some("NCCL_SHM_DISABLE"),
        "p2p" => Some("NCCL_P2P_DISABLE"),
        _ => None,
    });
    if let (Some(name), true) = (switch, off) {
        return Column::Variable {
            name: name.into(),
            switch: true,
        };
    }
    let per_second =
        lower.ends_with("/s") || lower.ends_with("/s)") || lower.contains("per second");
    let throughput = [
        "throughput",
        "busbw",
        "algbw",
        "bandwidth",
        "samples",
        "tokens",
        "tflops",
    ];
    if per_second || throughput.iter().any(|word| lower.contains(word)) {
        let unit = match (lower.find('('), lower.rfind(')')) {
            (Some(open), Some(close)) if open + 1 < close => head[open + 1..close].trim(),
            _ => head.trim(),
        };
        return Column::Figure(unit.to_owned());
    }
    let time = ["time", "duration", "elapsed", "runtime", "seconds"];
    match time.iter().any(|word| lower.contains(word)) {
        true => Column::Time,
        false => Column::Other,
    }
}

fn row(line: u64, cells: &[&str], columns: &[Column]) -> Result<Row, String> {
    if cells.len() != columns.len() {
        return Err(format!(
            "{} values below {} heads",
            cells.len(),
            columns.len()
        ));
    }
    let mut row = Row {
        line,
        ..Row::default()
    };
    for (cell, column) in cells.iter().zip(columns) {
        match column {
            Column::Variable { name, switch } => {
                let unset = matches!(
                    cell.to_ascii_lowercase().as_str(),
                    "" | "-" | "unset" | "default" | "none"
                );
                let value = match switch {
                    true => switched(cell)?.then_some("1"),
                    false => (!unset).then_some(*cell),
                };
                if let Some(value) = value {
                    row.set.insert(name.clone(), value.to_owned());
                }
            }
            Column::Time if !cell.is_empty() => {
                seconds(cell)
                    .ok_or_else(|| format!("{cell:?} is not a time (h:mm:ss, or seconds)"))?;
                row.time = Some((*cell).to_owned());
            }
            Column::Figure(_) if !cell.is_empty() => {
                number(cell).ok_or_else(|| format!("{cell:?} is not a number above zero"))?;
                row.figure = Some((*cell).to_owned());
            }
            _ => {}
        }
    }
    match (&row.time, &row.figure) {
        (None, None) => Err("neither time nor throughput".into()),
        _ => Ok(row),
    }
}

/// Whether a switch is set.
fn switched(cell: &str) -> Result<bool, String> {
    match cell.to_ascii_lowercase().as_str() {
        "" | "-" | "0" | "no" | "false" | "n" | "unset" | "default" => Ok(false),
        "1" | "yes" | "true" | "y" | "x" | "off" | "disabled" | "set" => Ok(true),
        _ => Err(format!("{cell:?} is neither 0 nor 1")),
    }
}

/// A time: `2:37:14`, `43:40`, `6220`, `6220.5 s`.
pub fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let text = text.strip_suffix('s').map_or(text, str::trim_end);
    let mut all = 0.0;
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    for (at, part) in parts.iter().enumerate() {
        let digits = part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let value: f64 = part.parse().ok().filter(|_| digits)?;
        if at > 0 && value >= 60.0 {
            return None;
        }
        all = 60.0 * all + value;
    }
    (all > 0.0 && all.is_finite()).then_some(all)
}

/// A number above zero, and half of its last digit.
fn number(text: &str) -> Option<(f64, f64)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    // A unit may stand behind it, and nothing else.
    if rest.trim_start().starts_with(|c: char| !c.is_alphabetic()) || rest.starts_with(['e', 'E']) {
        return None;
    }
    let value: f64 = digits.parse().ok()?;
    let decimals = digits.split_once('.').map_or(0, |(_, rest)| rest.len());
    let half = 0.5 * 0.1f64.powi(i32::try_from(decimals).ok()?);
    (value > 0.0 && value.is_finite()).then_some((value, half))
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
            ("NCCL_IB_DISABLE,x/s\n0,\n", "line 2: neither time"),
        ] {
            let error = Table::read("t", text).unwrap_err();
            assert!(error.contains(what), "{text:?}: {error}");
        }
    }

    #[test]
    fn times() {
        for (text, value) in [
            ("2:37:14", Some(9434.0)),
            ("43:40", Some(2620.0)),
            ("6220.5 s", Some(6220.5)),
            ("0", None),
            ("1:2:3:4", None),
            ("nan", None),
            ("inf", None),
            ("-5", None),
        ] {
            assert_eq!(seconds(text), value, "{text}");
        }
    }
}
