//! Rows that begin with a device, a host or a rank and are alike but for one: what a loop, a parallel
//! shell or a table without a heading prints. Whatever the rows say, the odd one is worth a look.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Block;

/// The tool of a block of these.
pub const ALIKE_ROWS: &str = "alike-rows";

/// A row: what it is of, and what it says of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedRow<'l> {
    /// The device, the host or the rank.
    pub name: &'l str,
    /// The rest, without the mark behind the name.
    pub said: &'l str,
}

/// A longer row says too much to be compared.
const LONGEST: usize = 120;
/// From so many rows on one can be the odd one.
const FEWEST: usize = 4;
/// More rows are a log, and no table.
const LONGEST_RUN: usize = 1024;
/// Of so many blocks of a text each is stated.
const MOST: usize = 16;
/// Names of what is counted, and not of parts of a machine.
const COUNTED: [&str; 8] = [
    "epoch", "step", "iter", "line", "test", "trial", "run", "round",
];

/// `mlx5_2 4: ACTIVE 200 Gb/sec (4X HDR)`, `gpu03: 550.90.07`, `rank 3: ready`.
pub fn named_row(line: &str) -> Option<NamedRow<'_>> {
    let line = line.trim_end();
    if line.len() > LONGEST || line.starts_with([' ', '\t']) {
        return None;
    }
    // A rank has its number behind a blank.
    let of_rank = ["rank ", "Rank ", "node ", "Node ", "GPU "]
        .iter()
        .find(|word| line.starts_with(**word));
    let from = of_rank.map_or(0, |word| word.len());
    let end = line.get(from..)?.find([' ', '\t', ':'])? + from;
    let (name, rest) = line.split_at_checked(end)?;
    let said = rest.trim_start_matches([' ', '\t', ':']);
    let stem = stem(name);
    let is_name = name.len() <= 32
        && stem.len() < name.len()
        && stem.bytes().any(|byte| byte.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-./ []".contains(&byte))
        && !COUNTED.contains(
            &stem
                .trim_end_matches(['_', '-', ' '])
                .to_ascii_lowercase()
                .as_str(),
        );
    (is_name && !said.is_empty()).then_some(NamedRow { name, said })
}

/// A name without its number.
fn stem(name: &str) -> &str {
    name.trim_end_matches(']')
        .trim_end_matches(|c: char| c.is_ascii_digit())
}

/// The row of some that is unlike the others, and what these say: all the same, or figures that are
/// close to each other.
pub fn odd_row<'r, 'l>(rows: &'r [NamedRow<'l>]) -> Option<(&'r NamedRow<'l>, String)> {
    if rows.len() < FEWEST {
        return None;
    }
    odd_words(rows).or_else(|| odd_figure(rows))
}

fn odd_words<'r, 'l>(rows: &'r [NamedRow<'l>]) -> Option<(&'r NamedRow<'l>, String)> {
    let mut alike: HashMap<&str, usize> = HashMap::new();
    for row in rows {
        *alike.entry(row.said).or_default() += 1;
    }
    let most = rows
        .iter()
        .map(|row| row.said)
        .max_by_key(|said| alike.get(said))?;
    let mut odd = rows.iter().filter(|row| row.said != most);
    let first = odd.next()?;
    odd.next().is_none().then(|| (first, most.to_owned()))
}

/// The figure with which a row begins, and its unit.
fn figure(said: &str) -> Option<(f64, &str)> {
    let end = said
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(said.len());
    let (digits, unit) = said.split_at_checked(end)?;
    let value: f64 = digits.parse().ok()?;
    (value.is_finite() && value > 0.0).then_some((value, unit.trim()))
}

/// A figure that is at least [`APART`] times, or one such part of, all others, which are within a
/// tenth of their middle one.
fn odd_figure<'r, 'l>(rows: &'r [NamedRow<'l>]) -> Option<(&'r NamedRow<'l>, String)> {
    let figures: Vec<(f64, &str)> = rows
        .iter()
        .map(|row| figure(row.said))
        .collect::<Option<_>>()?;
    let unit = figures.first()?.1;
    if figures.iter().any(|(_, of)| *of != unit) {
        return None;
    }
    let mut sorted: Vec<f64> = figures.iter().map(|(value, _)| *value).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = *sorted.get(sorted.len() / 2)?;
    let is_close = |value: f64| (value / middle - 1.0).abs() <= 0.1;
    let mut odd = figures
        .iter()
        .enumerate()
        .filter(|(_, (value, _))| !is_close(*value));
    let (at, (value, _)) = odd.next()?;
    let is_apart = *value >= middle * APART || *value <= middle / APART;
    let said = format!("about {middle} {unit}").trim_end().to_owned();
    (odd.next().is_none() && is_apart).then(|| (&rows[at], said))
}

/// A figure that is so many times the others is no noise.
const APART: f64 = 1.5;

/// Runs of rows outside of outputs with an odd one among them.
pub(super) fn blocks(lines: &[(u64, &str)], outputs: &[Block]) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut run: Vec<(u64, Cow<'_, str>)> = Vec::new();
    let mut of = None;
    let ends = std::iter::once((0, ""));
    for (number, line) in lines.iter().copied().chain(ends) {
        let is_numbered = line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        let line: Cow<'_, str> = match of.filter(|_| is_numbered) {
            Some(what) => format!("{what}{}", line.trim_start()).into(),
            None => {
                of = numbered(line);
                line.into()
            }
        };
        let row = named_row(&line);
        let before = run.last().and_then(|(_, line)| named_row(line));
        let goes_on = match (&row, &before) {
            (Some(row), Some(before)) => {
                stem(row.name) == stem(before.name) && row.name != before.name
            }
            (Some(_), None) => true,
            (None, _) => false,
        };
        if !goes_on {
            found.extend(block(&run, outputs));
            run.clear();
        }
        if row.is_some() && run.len() <= LONGEST_RUN {
            run.push((number, line));
        }
    }
    found.truncate(MOST);
    found
}

/// What the numbers are of that stand below a heading: `rank   avg step (s)`.
fn numbered(heading: &str) -> Option<&'static str> {
    let mut words = heading.split_whitespace();
    let first = words.next()?.to_ascii_lowercase();
    words.next()?;
    let all = [("rank", "rank "), ("gpu", "GPU "), ("node", "node ")];
    let known = all.iter().find(|(word, _)| *word == first);
    known
        .map(|(_, what)| *what)
        .filter(|_| heading.len() <= LONGEST)
}

fn block(run: &[(u64, Cow<'_, str>)], outputs: &[Block]) -> Option<Block> {
    if run.len() < FEWEST || run.len() > LONGEST_RUN {
        return None;
    }
    let rows: Vec<NamedRow<'_>> = run.iter().filter_map(|(_, line)| named_row(line)).collect();
    odd_row(&rows)?;
    let first = run.first()?.0;
    let is_read = |output: &Block| output.lines.iter().any(|(number, _)| *number == first);
    if outputs.iter().any(is_read) {
        return None;
    }
    let before = outputs.iter().rfind(|output| {
        output
            .lines
            .first()
            .is_some_and(|(number, _)| *number < first)
    });
    Some(Block {
        host: before
            .or(outputs.first())
            .and_then(|output| output.host.clone()),
        argv: vec![ALIKE_ROWS.to_owned()],
        is_cut: false,
        by_mark: true,
        lines: run
            .iter()
            .map(|(number, line)| (*number, line.to_string()))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd(text: &str) -> Option<String> {
        let rows: Vec<NamedRow<'_>> = text.lines().filter_map(named_row).collect();
        odd_row(&rows).map(|(row, others)| format!("{}: {} / {others}", row.name, row.said))
    }

    #[test]
    fn one_of_some_is_odd() {
        let hosts = "gpu01: 535.1\ngpu02: 535.1\ngpu03: 550.9\ngpu04: 535.1";
        assert_eq!(odd(hosts).as_deref(), Some("gpu03: 550.9 / 535.1"));
        let ports = "mlx5_0 4: ACTIVE 400\nmlx5_1 4: ACTIVE 400\nmlx5_2 4: ACTIVE 200\nmlx5_3 4: ACTIVE 400";
        assert_eq!(
            odd(ports).as_deref(),
            Some("mlx5_2: 4: ACTIVE 200 / 4: ACTIVE 400")
        );
        let steps = "rank 0: 1.203 s\nrank 1: 1.204 s\nrank 2: 2.911 s\nrank 3: 1.201 s";
        assert_eq!(
            odd(steps).as_deref(),
            Some("rank 2: 2.911 s / about 1.204 s")
        );
        let ranks = "rank 0: ready\nrank 1: ready\nrank 2: waits\nrank 3: ready";
        assert_eq!(odd(ranks).as_deref(), Some("rank 2: waits / ready"));
    }

    #[test]
    fn rows_that_all_differ_or_are_few_have_none() {
        for text in [
            "gpu01: 1\ngpu02: 2\ngpu03: 3\ngpu04: 4",
            "gpu01: a\ngpu02: b\ngpu03: a",
            "epoch1: a\nepoch2: a\nepoch3: b\nepoch4: a",
            "gpu01: a\ngpu02: b\ngpu03: b\ngpu04: a\ngpu05: a",
        ] {
            assert_eq!(odd(text), None, "{text}");
        }
    }
}
