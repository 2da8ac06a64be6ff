//! Tables in text: lines to cells, whatever stands between them. Nothing is known here of what a
//! table says.

/// Rows that one table may have.
pub(super) const ROWS: usize = 1000;

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableRow {
    /// Its line in the text, from 1; of a transposed table that of its first line.
    pub(super) line: u64,
    /// Its cells, without quotes and emphasis.
    pub(super) cells: Vec<String>,
}

/// Lines that stand together and are separated alike.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableText {
    /// The line of text before it, without `#`, `*` and `:`; empty if there is none.
    pub(super) caption: String,
    /// The rows, the head first.
    pub(super) rows: Vec<TableRow>,
    /// Where the text goes on, as an index of its lines.
    pub(super) next: usize,
}

/// What stands between the cells of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// A character of which a cell holds none: `|`, `│`, a tab, `;`, `,` (outside of quotes).
    Character(char),
    /// Two blanks or more.
    Blanks,
    /// One blank or more.
    Blank,
}

impl Separator {
    /// Those that text seldom has, the surest first, and those that it has everywhere.
    pub(super) const BY_SURENESS: (&[Separator], &[Separator]) = (
        &[
            Separator::Character('|'),
            Separator::Character('│'),
            Separator::Character('\t'),
            Separator::Character(';'),
            Separator::Character(','),
        ],
        &[Separator::Blanks, Separator::Blank],
    );

    /// Whether a line with another number of cells ends the table; else it is a mistake in it.
    pub(super) fn ends_where_cells_differ(self) -> bool {
        matches!(self, Separator::Blanks | Separator::Blank)
    }

    /// The cells of a line; `None` if it has fewer than two.
    pub(super) fn split(self, line: &str) -> Option<Vec<String>> {
        let line = line.trim();
        let cells: Vec<String> = match self {
            Separator::Character(bar @ ('|' | '│')) => {
                let line = line.strip_prefix(bar).unwrap_or(line);
                let line = line.strip_suffix(bar).unwrap_or(line);
                line.split(bar).map(plain).collect()
            }
            Separator::Character(between) => quoted(line, between)?,
            Separator::Blanks => blanks(line, 2),
            Separator::Blank => blanks(line, 1),
        };
        (cells.len() > 1).then_some(cells)
    }
}

/// The cells of a line of CSV: one in quotes may hold what else separates.
fn quoted(line: &str, between: char) -> Option<Vec<String>> {
    let between = u8::try_from(between).ok()?;
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(between)
        .from_reader(line.as_bytes());
    let record = reader.records().next()?.ok()?;
    Some(record.iter().map(plain).collect())
}

/// The parts of a line between runs of at least so many blanks.
fn blanks(line: &str, least: usize) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut run = 0;
    for c in line.chars() {
        if c == ' ' {
            run += 1;
            continue;
        }
        match cells.last_mut() {
            Some(cell) if run < least => cell.extend(std::iter::repeat_n(' ', run)),
            _ => cells.push(String::new()),
        }
        run = 0;
        if let Some(cell) = cells.last_mut() {
            cell.push(c);
        }
    }
    cells.iter().map(|cell| plain(cell)).collect()
}

/// A cell without quotes, code marks and emphasis.
fn plain(cell: &str) -> String {
    let quiet = |c: char| c.is_whitespace() || matches!(c, '"' | '`' | '*');
    cell.trim_matches(quiet).to_owned()
}

/// Whether a line is a rule between rows, or a side of a frame.
fn is_rule(line: &str) -> bool {
    let drawn = |c: char| {
        matches!(
            c,
            '-' | '=' | ':' | '+' | '|' | ' ' | '\u{2500}'..='\u{257f}'
        )
    };
    let rules = |c: char| matches!(c, '-' | '=' | '\u{2500}' | '\u{2501}' | '\u{2550}');
    line.chars().all(drawn) && line.chars().any(rules)
}

/// The lines from `first` on that are separated as it is.
pub(super) fn block(lines: &[&str], first: usize, separator: Separator) -> Option<TableText> {
    let head = separator.split(lines.get(first)?)?;
    let mut next = first + 1;
    let mut rows = vec![TableRow {
        line: first as u64 + 1,
        cells: head,
    }];
    for line in lines.get(next..)? {
        if is_rule(line) || (rows.len() == 1 && line.trim().is_empty()) {
            next += 1;
            continue;
        }
        let Some(cells) = separator.split(line) else {
            break;
        };
        let alike = rows
            .first()
            .is_some_and(|head| head.cells.len() == cells.len());
        if (!alike && separator.ends_where_cells_differ()) || rows.len() > ROWS + 1 {
            break;
        }
        next += 1;
        rows.push(TableRow {
            line: next as u64,
            cells,
        });
    }
    let before = lines.get(..first)?.iter().rev();
    let mut before = before.filter(|line| !line.trim().is_empty() && !is_rule(line));
    let caption = before.next().map_or("", |line| {
        line.trim_matches(|c: char| c.is_whitespace() || matches!(c, '#' | '*' | ':' | '_'))
    });
    Some(TableText {
        caption: caption.to_owned(),
        rows,
        next,
    })
}

impl TableText {
    /// Its rows as columns, if all have as many cells.
    pub(super) fn transposed(&self) -> Option<Self> {
        let width = self.rows.first()?.cells.len();
        if self.rows.iter().any(|row| row.cells.len() != width) {
            return None;
        }
        let line = self.rows.first()?.line;
        let column = |at: usize| TableRow {
            line,
            cells: self.rows.iter().map(|row| row.cells[at].clone()).collect(),
        };
        Some(TableText {
            caption: self.caption.clone(),
            rows: (0..width).map(column).collect(),
            next: self.next,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(line: &str, separator: Separator) -> Vec<String> {
        separator.split(line).unwrap_or_default()
    }

    #[test]
    fn lines_are_split_by_what_stands_between() {
        let bar = Separator::Character('|');
        assert_eq!(cells("| a | `b` |", bar), ["a", "b"]);
        assert_eq!(cells("a | b | ", bar), ["a", "b"]);
        let comma = Separator::Character(',');
        assert_eq!(
            cells(r#""1,089",x,"say ""no""""#, comma),
            ["1,089", "x", "say \"\"no"].map(|c| c.replace("\"\"", "\""))
        );
        assert_eq!(
            cells("IB disabled + no P2P   4.0", Separator::Blanks),
            ["IB disabled + no P2P", "4.0"]
        );
        assert_eq!(cells("0 1  2", Separator::Blank), ["0", "1", "2"]);
        assert_eq!(Separator::Blanks.split("one cell"), None);
    }

    #[test]
    fn a_block_ends_where_its_lines_do() {
        let text = "With NVLink:\n\n+---+---+\n| a | b |\n|:--|--:|\n| 1 | 2 |\n+---+---+\nmore\n";
        let lines: Vec<&str> = text.lines().collect();
        let block = block(&lines, 3, Separator::Character('|')).unwrap();
        assert_eq!(block.caption, "With NVLink");
        assert_eq!(block.rows.len(), 2);
        assert_eq!((block.rows[1].line, block.next), (6, 7));
        let turned = block.transposed().unwrap();
        assert_eq!(turned.rows[0].cells, ["a", "1"]);
    }
}
