//! The report as one HTML file that loads nothing: the text report's content, with drawings.

pub mod charts;
mod cluster;
mod findings;
pub mod marks;
pub mod markup;
pub mod rank_strip;
pub mod timeline;

use std::fmt::Display;
use std::io::{self, Write};

pub use markup::Markup;

use super::text::{self, Detail};
use super::{Report, ToolFormat, all_facts};
use crate::check::{Catalogue, Verdict};
use crate::exit::Exit;
use crate::fact::{Fact, Facts, Id, Value};
use crate::report::ablation::Ablation;
use crate::report::topology::{Topology, svg::NodeDrawing};

/// The format of one report, or of several in one file.
pub const FORMAT: ToolFormat = ToolFormat {
    name: "html",
    about: "For a browser: one file with drawings, which loads nothing",
    escapes: true,
    write: |out, report| {
        let mut page = Markup::default();
        write_report(&mut page, report)?;
        document(out, &report.headline.to_string(), &page)
    },
    each: Some(|out, reports| {
        let mut page = Markup::default();
        for (name, report) in reports {
            page.put("<p class=\"of\">{}</p>\n", &[name]);
            write_report(&mut page, report)?;
        }
        document(out, "rdma-doctor: reports", &page)
    }),
    exit: Report::exit,
};

const STYLE: &str = concat!(
    include_str!("html/page.css"),
    include_str!("topology/node.css")
);
const SCRIPT: &str = include_str!("html/filter.js");
/// What a browser may load and run: this style and this script, by their hashes. A test holds it.
const POLICY: &str = include_str!("html/policy.txt");

/// What a page draws beside the report.
#[derive(Debug, Default)]
pub struct Drawings {
    /// What stands below the headline.
    pub above: Markup,
    /// What stands at the end.
    pub below: Markup,
}

/// Draws a node: its devices with their verdicts and its ablation, and its facts at the end.
///
/// # Errors
///
/// None: memory takes every byte.
pub fn of_node(
    catalogue: &Catalogue,
    facts: &Facts,
    verdicts: &[Verdict],
    node: Id,
) -> io::Result<Drawings> {
    let mut page = Markup::default();
    let drawing = NodeDrawing {
        topology: Topology::of(facts, node),
        marks: Some(marks::Marks::of(catalogue, facts, verdicts)),
    };
    charts::ablation(&mut page, &Ablation::of(facts, node))?;
    drawing.draw(&mut page);
    let mut below = Markup::default();
    fact_table(&mut below, facts);
    Ok(Drawings { above: page, below })
}

/// Writes the page of a measurement: its first words lead; all of its text stands below the drawing.
///
/// # Errors
///
/// The output's.
pub fn measurement(
    out: &mut dyn Write,
    words: &str,
    drawing: &Markup,
    report: Option<&Report>,
) -> io::Result<()> {
    let first = words.lines().map(str::trim).find(|line| !line.is_empty());
    let first = first.unwrap_or("nothing was measured");
    let found = report.filter(|report| !report.causes.is_empty());
    let headline = found.map(|report| report.headline.to_string());
    let title = headline.as_deref().unwrap_or(first);
    let worst = found.and_then(|report| report.causes.first());
    let worst = worst.map_or("measured", |cause| cause.severity);
    let mut page = Markup::default();
    let about = if title == first { "" } else { first };
    header(&mut page, worst, title, about);
    page.append(drawing);
    if let Some(report) = found {
        findings::list(&mut page, "Causes", &report.causes);
    }
    page.put("<section>\n<h2>In words</h2>\n", &[]);
    page.text(|out| out.write_all(words.as_bytes()))?;
    page.put("</section>\n", &[]);
    document(out, title, &page)
}

/// Writes a document around its content.
///
/// # Errors
///
/// The output's.
pub fn document(out: &mut dyn Write, title: &str, content: &Markup) -> io::Result<()> {
    let mut page = Markup::default();
    page.put(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"",
        &[],
    );
    page.put(POLICY, &[]);
    page.put(
        "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>",
        &[&title],
    );
    page.put(STYLE, &[]);
    page.put("</style>\n</head>\n<body>\n<main>\n", &[]);
    page.append(content);
    let version = env!("CARGO_PKG_VERSION");
    page.put(
        "</main>\n<footer>rdma-doctor {}</footer>\n<script>",
        &[&version],
    );
    page.put(SCRIPT, &[]);
    page.put("</script>\n</body>\n</html>\n", &[]);
    out.write_all(page.as_str().as_bytes())
}

/// Writes the answer, and below it what it is about.
fn header(page: &mut Markup, class: &str, title: &str, about: &str) {
    page.put(
        "<header class=\"verdict {}\">\n<p class=\"badge\">{}</p>\n<h1>{}</h1>\n<p class=\"aside\">{}</p>\n</header>\n",
        &[&class, &class, &title, &about],
    );
}

fn write_report(page: &mut Markup, report: &Report) -> io::Result<()> {
    let class = match report.exit() {
        Exit::Errors => "error",
        Exit::Warnings => "warning",
        Exit::Healthy => "ok",
        _ => "unknown",
    };
    header(
        page,
        class,
        &report.headline.to_string(),
        &findings::about(report),
    );
    page.append(&report.drawn.above);
    cluster::grid(page, report);
    findings::list(page, "Causes", &report.causes);
    findings::areas(page, report);
    cluster::findings_by_node(page, report);
    folded(page, "notes", "Notes", &report.notes.len());
    findings::list(page, "", &report.notes);
    page.put("</details>\n", &[]);
    folded(page, "open", "All of the report as text", &"");
    let all = Detail {
        verbose: true,
        all: true,
        open: true,
        ..Detail::default()
    };
    page.text(|out| text::write(out, report, all, 100))?;
    page.put("</details>\n", &[]);
    page.append(&report.drawn.below);
    Ok(())
}

/// Begins a part that is folded at first.
fn folded(page: &mut Markup, id: &str, title: &str, count: &dyn Display) {
    page.put(
        "<details id=\"{}\">\n<summary><h2>{}</h2> <span>{}</span></summary>\n",
        &[&id, &title, count],
    );
}

/// Writes a field by which the rows of a table are filtered; without the script it is not shown.
fn filter(page: &mut Markup, table: &str, example: &str) {
    page.put(
        "<p class=\"filter\" hidden><label>Filter <input type=\"search\" data-filters=\"{}\" placeholder=\"{}\"></label> \
         <output></output></p>\n",
        &[&table, &example],
    );
}

/// Writes the facts by subject: where instances have the same value, they share its row.
fn fact_table(page: &mut Markup, facts: &Facts) {
    let all = all_facts(facts);
    let known = all.iter().filter(|(.., fact)| fact.known().is_some());
    let count = format!("{} known", known.count());
    folded(page, "facts", "Facts", &count);
    filter(page, "facts", "port rate");
    page.put("<table>\n", &[]);
    for of_subject in all.chunk_by(|(a, ..), (b, ..)| facts.subject(*a) == facts.subject(*b)) {
        let subject = facts.subject(of_subject[0].0);
        let mut names: Vec<&str> = of_subject.iter().map(|(id, ..)| facts.name(*id)).collect();
        names.dedup();
        let title = format!("{} {}", subject.name(), names.join(", "));
        page.put(
            "<tbody><tr class=\"head\"><th colspan=\"3\">{}\n",
            &[&title],
        );
        let mut rows: Vec<FactRow<'_>> = Vec::new();
        for (id, name, fact) in of_subject {
            add_to_rows(&mut rows, name, facts.name(*id), fact);
        }
        rows.sort_by_key(|row| row.index);
        for row in &rows {
            write_row(page, row, names.len());
        }
        page.put("</tbody>\n", &[]);
    }
    page.put("</table>\n</details>\n", &[]);
}

/// A value of a fact, with the instances that have it.
struct FactRow<'f> {
    /// The place of the fact among those of its subject.
    index: usize,
    fact: &'f str,
    value: String,
    is_gap: bool,
    /// Where the first of them was read.
    origin: String,
    instances: Vec<&'f str>,
}

fn add_to_rows<'f>(
    rows: &mut Vec<FactRow<'f>>,
    name: &'f str,
    instance: &'f str,
    fact: &Fact<Value>,
) {
    let (value, origin, is_gap) = match fact {
        Fact::Known(value, origin) => (value.to_string(), origin.to_string(), false),
        Fact::Unknown(gap) => (gap.why.to_string(), gap.origin.to_string(), true),
    };
    let known = rows
        .iter_mut()
        .find(|row| row.fact == name && row.is_gap == is_gap && row.value == value);
    match known {
        Some(row) => row.instances.push(instance),
        None => {
            let same = rows.iter().find(|row| row.fact == name);
            let index = same.map_or(rows.len(), |row| row.index);
            rows.push(FactRow {
                index,
                fact: name,
                value,
                is_gap,
                origin,
                instances: vec![instance],
            });
        }
    }
}

fn write_row(page: &mut Markup, row: &FactRow<'_>, instances: usize) {
    let whom = match row.instances.len() {
        _ if instances == 1 => row.origin.clone(),
        all if all == instances => format!("all {all}"),
        // The most have it: those that do not are named in rows of their own.
        most if most * 2 > instances => format!("{most} of {instances}"),
        1 => format!("{}: {}", row.instances[0], row.origin),
        _ => row.instances.join(", "),
    };
    let begin = if row.is_gap {
        "<tr class=\"gap\">"
    } else {
        "<tr>"
    };
    page.put(begin, &[]);
    page.put("<td>{}<td>{}<td>{}\n", &[&row.fact, &row.value, &whom]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    /// A hash by which a policy of content admits a style or a script, in base 64.
    fn hash(text: &str) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let hash = Sha256::digest(text);
        let mut encoded = String::new();
        for group in hash.chunks(3) {
            let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for digit in 0..4 {
                encoded.push(match digit <= group.len() {
                    true => char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]),
                    false => '=',
                });
            }
        }
        encoded
    }

    /// `RDMA_DOCTOR_BLESS=1` writes the policy.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the project's own files")]
    fn the_policy_admits_this_style_and_this_script() {
        // The example of the W3C's Content Security Policy Level 3, section 8.
        let example = "qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=";
        assert_eq!(hash("alert('Hello, world.');"), example);
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
            hash(STYLE),
            hash(SCRIPT)
        );
        if std::env::var_os("RDMA_DOCTOR_BLESS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/html/policy.txt");
            return std::fs::write(path, policy).unwrap();
        }
        assert!(POLICY == policy, "style or script changed: make bless");
    }
}
