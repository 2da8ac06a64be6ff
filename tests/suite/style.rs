//! How the code reads, in numbers that may only fall, down to their goals: `style/limits.toml` has
//! both.
//!
//! `RDMA_DOCTOR_STYLE_OF=DIR` counts the Rust files of another folder, and holds nothing.
//! `RDMA_DOCTOR_BLESS=1` writes the numbers that fell.

mod count;
mod words;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use count::{Counts, Measure};
use serde::Deserialize;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/style/limits.toml");
/// Where each place that counts is listed.
const PLACES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/style.txt");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    most: f64,
    goal: f64,
    per: Per,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Per {
    ThousandLinesOfCode,
    HundredFunctions,
    HundredLines,
    Program,
}

#[derive(Debug, PartialEq)]
enum Judgement {
    Holds,
    Rose,
    /// It fell, and `most` was not lowered with it.
    Fell,
}

impl Per {
    fn count(self, counts: &Counts) -> f64 {
        let (number, size) = match self {
            Self::ThousandLinesOfCode => (counts.lines_of_code, 1000.0),
            Self::HundredFunctions => (counts.functions, 100.0),
            Self::HundredLines => (counts.lines, 100.0),
            Self::Program => (1, 1.0),
        };
        f64::from(u32::try_from(number).unwrap()) / size
    }

    fn unit(self) -> &'static str {
        match self {
            Self::ThousandLinesOfCode => "per 1,000 lines of code",
            Self::HundredFunctions => "% of the functions",
            Self::HundredLines => "% of the lines",
            Self::Program => "in all",
        }
    }
}

impl Limit {
    /// Below its goal a number is free. One that falls by more than a tenth must be written; less
    /// need not, so that changes made at the same time do not wait for each other.
    fn judge(&self, found: usize, counts: &Counts) -> Judgement {
        let rate = rate(found, self.per, counts);
        if rate > self.most.max(self.goal) {
            Judgement::Rose
        } else if rate < self.most * 0.9 {
            Judgement::Fell
        } else {
            Judgement::Holds
        }
    }
}

fn rate(found: usize, per: Per, counts: &Counts) -> f64 {
    f64::from(u32::try_from(found).unwrap()) / per.count(counts)
}

fn table(limits: &BTreeMap<Measure, Limit>, counts: &Counts) -> String {
    let mut table = format!(
        "{} lines, {} of them code, {} functions\n",
        counts.lines, counts.lines_of_code, counts.functions
    );
    for (measure, limit) in limits {
        let found = counts.number(*measure);
        let rate = rate(found, limit.per, counts);
        let (name, unit) = (measure.name(), limit.per.unit());
        let _ = writeln!(
            table,
            "{name:16} {found:5} {rate:6.2} {unit}, goal {}",
            limit.goal
        );
    }
    table
}

/// The text of the limits with `most` of those that fell.
fn lowered(text: &str, limits: &BTreeMap<Measure, Limit>, counts: &Counts) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut section = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = Measure::ALL
                .into_iter()
                .find(|measure| name == format!("{}]", measure.name()));
        }
        let most = line.strip_prefix("most = ");
        let most = most.and_then(|number| number.parse::<f64>().ok());
        lines.push(match (section, most) {
            (Some(measure), Some(most)) => {
                let rate = rate(counts.number(measure), limits[&measure].per, counts);
                format!("most = {}", most.min((rate * 100.0).ceil() / 100.0))
            }
            _ => line.to_owned(),
        });
    }
    lines.join("\n") + "\n"
}

#[test]
fn numbers_of_style_only_fall() {
    let text = std::fs::read_to_string(LIMITS).unwrap();
    let limits: BTreeMap<Measure, Limit> = toml::from_str(&text).unwrap();
    if let Some(folder) = std::env::var_os("RDMA_DOCTOR_STYLE_OF") {
        println!("{}", table(&limits, &Counts::of_folder(Path::new(&folder))));
        return;
    }
    let counts = Counts::of_folder(Path::new(SOURCE));
    println!("{}", table(&limits, &counts));
    std::fs::write(PLACES, counts.places_as_text()).unwrap();
    if std::env::var_os("RDMA_DOCTOR_BLESS").is_some() {
        std::fs::write(LIMITS, lowered(&text, &limits, &counts)).unwrap();
    }
    let mut wrong = String::new();
    for measure in Measure::ALL {
        let limit = &limits[&measure];
        let (name, found, most) = (measure.name(), counts.number(measure), limit.most);
        let rate = rate(found, limit.per, &counts);
        let _ = match limit.judge(found, &counts) {
            Judgement::Holds => Ok(()),
            Judgement::Rose => writeln!(wrong, "{name}: {rate:.3}, at most {most} are allowed"),
            Judgement::Fell => writeln!(wrong, "{name}: {rate:.2}: write that, not {most}"),
        };
    }
    assert!(
        wrong.is_empty(),
        "{LIMITS}:\n{wrong}each place is in {PLACES}"
    );
}

/// Each kind of place, and beside it what is like it and does not count.
const EXAMPLE: &str = r#"
fn of((left, right): (u32, u32), state: &[(u32, bool)]) -> u32 {
    let add = move |a: u32| a + left;
    let sums = state.iter().map(|(number, _)| number + right);
    let sums: Vec<u32> = sums.collect();
    match state.is_empty() {
        true => add(1),
        false => sums.len(),
    }
}
fn sum_of_pairs(pairs: &[Pair], found: Option<u32>) -> u32 {
    if let Some(found) = found {
        return found;
    }
    { let total = 1; }
    let total = pairs.iter().map(|pair| pair.sum()).sum();
    // A comment of more than a hundred columns is read on two lines, and so it must be written on two lines.
    // A link may be long: https://example.com/a/path/that/nobody/can/break/in/two/lines/however/long/it/is
    // | a row | of a table | that nobody can break in two lines, however long it is, and that is long enough |
    println!("A text of more than a hundred columns, which stands in one line so that a search finds it: {}", total);
    call(one_argument_of_many, another_argument_of_many, a_third_argument_of_many, a_fourth_of_many, 5);
    assert_eq!(match total { 0 => 1, _ => 2 }, match is_known { true => 1, false => 2 });
    total
}
impl Iterator for Pairs {
    fn each(&mut self) {}
}
const TABLE: [(&str, &str, &str, &str); 1] = [
    (a_constant_of_many_words, another_constant_of_many_words, a_third_constant_of_many_words, FOURTH),
];
#[cfg(test)]
mod tests {
    fn of() { let f = |a| a; }
}
"#;

#[test]
fn each_measure_counts_what_it_names_and_nothing_else() {
    let mut text = EXAMPLE.to_owned();
    for (name, lines) in [("longest_allowed", 98), ("too_long", 99)] {
        let _ = write!(
            text,
            "/// Doc.\nfn {name}() {{\n{}}}\n",
            "    go();\n".repeat(lines)
        );
    }
    let mut counts = Counts::default();
    counts.add_file(Path::new("example.rs"), &text);
    let found = Measure::ALL.map(|measure| {
        let lines = counts
            .places
            .iter()
            .filter(|place| place.measure == measure);
        (measure, lines.map(|place| place.line).collect::<Vec<_>>())
    });
    let expected = [
        (Measure::BoundClosures, vec![3]),
        (Measure::MatchesOnBool, vec![6, 22]),
        (Measure::ReboundNames, vec![5]),
        (Measure::TupleParameters, vec![2, 2, 4]),
        (Measure::VagueNames, vec![2]),
        (Measure::LongFunctions, vec![137]),
        (Measure::LongLines, vec![17, 21]),
    ];
    assert_eq!(found, expected);
    assert_eq!(counts.functions, 5);
    // The lines of tests are not counted, and comments are no code.
    assert_eq!(counts.lines, text.lines().count() - 4);
    assert_eq!(counts.lines - counts.lines_of_code, 6);
}

#[test]
fn a_number_that_rises_fails_and_one_that_fell_far_is_written() {
    let counts = Counts {
        lines_of_code: 10_000,
        ..Counts::default()
    };
    let judge = |most, found| {
        let limit = Limit {
            most,
            goal: 4.0,
            per: Per::ThousandLinesOfCode,
        };
        limit.judge(found, &counts)
    };
    assert_eq!(judge(50.0, 501), Judgement::Rose);
    assert_eq!(judge(50.0, 500), Judgement::Holds);
    assert_eq!(judge(50.0, 450), Judgement::Holds);
    assert_eq!(judge(50.0, 449), Judgement::Fell);
    // Below its goal, which is 40 here, it is free.
    assert_eq!(judge(3.0, 40), Judgement::Holds);
    assert_eq!(judge(3.0, 41), Judgement::Rose);
    let text =
        "# why\n[bound-closures]\nmost = 7.5\ngoal = 4.0\nper = \"thousand-lines-of-code\"\n";
    let limits = toml::from_str(text).unwrap();
    assert_eq!(lowered(text, &limits, &counts), text.replace("7.5", "0"));
}
