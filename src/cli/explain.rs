//! `rdma-doctor explain`: what a check or an area judges, why it matters, what to do.

use std::io::{self, Write};

use crate::terminal::Paint;
use clap::Args;

use super::explain_json;
use super::explain_page::checks_7;
use super::input::{BadInput, bad_usage};
use super::{Format, SelectArgs, input, output};
use crate::check::{
    Area, Catalogue, Check, Example, Expected, Required, Variant, glob_fits, try_example,
};
use crate::exit::Exit;
use crate::report::text::{paragraph, steps};
use crate::sentence::Sentence;

/// So many checks are suggested for a word that none has.
const SUGGESTED: usize = 4;

/// Explain a check; without an id, list all
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A check's id such as link/rate-degraded, an id with *, a group, an area, or words to look for
    #[arg(value_name = "ID|WORD")]
    pub id: Vec<String>,
    /// Write the manual page of all checks, rdma-doctor-checks(7)
    #[arg(long, conflicts_with = "id")]
    pub man: bool,
    /// The output's format; of an area its checks
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Directories with further checks.
    #[command(flatten)]
    pub select: SelectArgs,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Words that no check has, an invalid check file, an output that cannot be written.
pub fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let catalogue = input::catalogue(&args.select)?;
    if args.man {
        let page = checks_7(&catalogue)?;
        output::print(|out| out.write_all(page.as_bytes()))?;
        return Ok(Exit::Healthy);
    }
    for check in &catalogue.checks {
        if check.source.is_empty() {
            continue;
        }
        // A site's check shows itself here: that its examples hold is part of it.
        for example in check.examples().map_err(|e| BadInput(e.to_string()))? {
            try_example(check, &example).map_err(|e| BadInput(format!("{}: {e}", check.path)))?;
        }
    }
    let asked = args.id.join(" ").to_lowercase();
    let area = catalogue.areas.iter().find(|area| *area.name == *asked);
    let found = found(&catalogue, &asked);
    if args.format == Format::Json {
        let of_area = |area: &Area| {
            let checks = catalogue.checks.iter();
            checks.filter(|check| check.area == area.name).collect()
        };
        let meant: Vec<&Check> = area.map_or(found, of_area);
        if meant.is_empty() {
            return Err(bad_usage(not_found(&catalogue, &asked)));
        }
        output::print_json(&explain_json::objects(&meant))?;
        return Ok(Exit::Healthy);
    }
    match (area, found.as_slice()) {
        (Some(area), _) => output::print(|out| explain_area(out, area, &catalogue))?,
        (None, []) => return Err(bad_usage(not_found(&catalogue, &asked))),
        (None, [first, others @ ..]) if others.iter().all(|other| other.id == first.id) => {
            output::print(|out| one(out, &found))?
        }
        (None, checks) => output::print(|out| list(out, checks))?,
    }
    Ok(Exit::Healthy)
}

/// The checks that are asked for: by id, by pattern, by group, else by words in what they say.
fn found<'c>(catalogue: &'c Catalogue, asked: &str) -> Vec<&'c Check> {
    let by = |fits: &dyn Fn(&Check) -> bool| -> Vec<&'c Check> {
        catalogue
            .checks
            .iter()
            .filter(|check| fits(check))
            .collect()
    };
    let by_id = by(&|check| check.is_named(asked));
    let group = format!("{}/*", asked.trim_end_matches('/'));
    match (by_id.is_empty(), by(&|check| glob_fits(&group, &check.id))) {
        (false, _) => by_id,
        (true, group) if !group.is_empty() => group,
        _ => by(&|check| {
            let advice = check.advice();
            let texts = [
                &*check.id,
                &*check.title,
                &check.finding().as_written().to_string(),
                &advice.why.to_string(),
                &advice.fix.as_written().to_string(),
            ];
            let said = texts.join(" ").to_lowercase();
            asked.split_whitespace().all(|word| said.contains(word))
        }),
    }
}

/// That there is no such check, and which are near: by letters, and by a word that both have.
fn not_found(catalogue: &Catalogue, asked: &str) -> String {
    let words = asked.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| word.len() > 2).collect();
    let near = |check: &Check| {
        let shares = words.iter().any(|word| check.id.contains(word));
        strsim::jaro_winkler(&check.id, asked) + if shares { 0.3 } else { 0.0 }
    };
    let mut checks: Vec<&Check> = catalogue.checks.iter().collect();
    checks.sort_by(|a, b| near(b).total_cmp(&near(a)));
    let names: Vec<&str> = checks
        .iter()
        .take(SUGGESTED)
        .map(|check| &*check.id)
        .collect();
    let names = names.join(", ");
    format!("no check {asked}; did you mean {names}? (rdma-doctor explain lists all)")
}

fn list(out: &mut dyn Write, checks: &[&Check]) -> io::Result<()> {
    let width = checks.iter().map(|c| c.id.len()).max().unwrap_or(0);
    let each: Vec<&Check> = (checks.chunk_by(|a, b| a.id == b.id))
        .filter_map(|cases| cases.iter().copied().min_by_key(|case| case.severity))
        .collect();
    for check in &each {
        let label = format!("{:<width$}  {:<7}  ", check.id, check.severity.word());
        paragraph(out, &label, width + 11, &check.title, output::width())?;
    }
    writeln!(out, "{}", format!("{} checks", each.len()).dimmed())
}

fn explain_area(out: &mut dyn Write, area: &Area, catalogue: &Catalogue) -> io::Result<()> {
    let width = output::width();
    writeln!(out, "{}  area of a {}", area.name.bold(), area.on.name())?;
    let required = match &area.required {
        Required::Always(true) => "always",
        Required::Always(false) => "only with --require",
        Required::If(condition) => condition.text(),
    };
    paragraph(out, "required ", 9, required, width)?;
    if let Some(exists) = &area.exists {
        paragraph(out, "exists   ", 9, exists.text(), width)?;
    }
    let facts = area
        .each
        .iter()
        .flat_map(|each| each.facts.iter().chain(&each.if_offered));
    let mut facts: Vec<String> = facts.map(|fact| fact.path()).collect();
    facts.dedup();
    let decided = area.decided.iter().map(|id| format!("check {id}"));
    let needs: Vec<String> = facts.into_iter().chain(decided).collect();
    paragraph(out, "needs    ", 9, needs.join(", "), width)?;
    writeln!(out)?;
    let checks = catalogue
        .checks
        .iter()
        .filter(|check| check.area == area.name);
    list(out, &checks.collect::<Vec<_>>())
}

/// A check: each of its cases, and what is said of all.
fn one(out: &mut dyn Write, cases: &[&Check]) -> io::Result<()> {
    let Some(check) = cases.first() else {
        return Ok(());
    };
    writeln!(out, "{}  {}", check.id.bold(), check.title)?;
    for (at, case) in cases.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        judged(out, case)?;
        let advice = case.advice();
        section(out, "why", &advice.why)?;
        writeln!(out)?;
        steps(out, "fix", &advice.fix.as_written(), output::width())?;
        examples(out, case)?;
    }
    let mut explains: Vec<&str> = cases
        .iter()
        .flat_map(|c| &c.explains)
        .map(|e| &**e)
        .collect();
    explains.sort_unstable();
    explains.dedup();
    for (name, text) in [
        ("explains", explains.join(" ")),
        ("see", check.advice().see.join("\n")),
    ] {
        if !text.is_empty() {
            writeln!(out)?;
            section(out, name, &text)?;
        }
    }
    Ok(())
}

/// By what a case is judged; its id where it has one of its own.
fn judged(out: &mut dyn Write, check: &Check) -> io::Result<()> {
    let area = match &*check.area {
        "" => String::new(),
        area => format!(", area {area}"),
    };
    let subject = check.subject.name();
    if check.case != check.id {
        writeln!(out, "{}", check.case.bold())?;
    }
    writeln!(out, "{}, for each {subject}{area}\n", check.gravity())?;
    for presumed in &check.premises {
        section(out, "premise", presumed.premise.word())?;
    }
    if let Some(applies) = &check.applies {
        section(out, "applies", applies.text())?;
    }
    section(out, "fails", check.fails.text())?;
    for (name, value) in &check.limits {
        writeln!(out, "         limit.{name} = {value}")?;
    }
    writeln!(out)
}

/// The first example that fails, and what one changed fact makes of it; then the others that say what they show.
fn examples(out: &mut dyn Write, check: &Check) -> io::Result<()> {
    let examples = check.examples().unwrap_or_default();
    let Some(first) = examples.iter().find(|e| e.verdict.is_failure()) else {
        return Ok(());
    };
    writeln!(out)?;
    section(out, "example", stated(first))?;
    let variants = check.variants(first);
    for verdict in Expected::ALL.iter().filter(|v| **v != first.verdict) {
        let changes: Vec<String> = changed_facts(&variants, *verdict);
        if !changes.is_empty() {
            section(
                out,
                "",
                format!("{} {}", verdict.word(), changes.join("; ")),
            )?;
        }
    }
    for other in &examples {
        if other.line == first.line || other.about.is_none() {
            continue;
        }
        section(out, "", stated(other))?;
    }
    Ok(())
}

/// An example on a line: its verdict, what it shows, its facts.
fn stated(example: &Example) -> String {
    let facts = example.facts.iter().map(|(subject, fact, value)| {
        let schema = subject.schema();
        let name = format!("{}.{}", schema.name, schema.facts[*fact].name);
        match value.known() {
            Some(value) => format!("{name} = {value}"),
            None => format!("{name} unknown"),
        }
    });
    let facts = facts.collect::<Vec<_>>().join(", ");
    let about = example.about.as_deref().unwrap_or_default();
    let space = if about.is_empty() { "" } else { " " };
    format!("{}: {about}{space}{facts}", example.verdict.word())
}

/// By which single change an example gets this verdict: of a fact with several such values the first stands for all.
fn changed_facts(variants: &[Variant], verdict: Expected) -> Vec<String> {
    let mut changes: Vec<String> = Vec::new();
    let mut last = ("", true);
    for variant in variants.iter().filter(|v| v.verdict == verdict) {
        let this = (&*variant.fact, variant.value.is_some());
        if this == last {
            continue;
        }
        last = this;
        changes.push(match &variant.value {
            Some(value) => format!("if {} = {value}", variant.fact),
            None => format!("without {}", variant.fact),
        });
    }
    changes
}

/// Text behind its name.
fn section(out: &mut dyn Write, name: &str, text: impl Into<Sentence>) -> io::Result<()> {
    for (i, line) in text.into().lines().iter().enumerate() {
        let label = format!("{:<8} ", if i == 0 { name } else { "" });
        paragraph(out, &label, 9, line, output::width())?;
    }
    Ok(())
}
