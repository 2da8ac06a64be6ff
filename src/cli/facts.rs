//! `rdma-doctor facts`: what is known of a machine, and the schema of all facts.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::terminal::Paint;
use clap::Args;
use serde_json::{Map, Value as Json, json};

use super::fact_names::{self, FactNames};
use super::input::bad_usage;
use super::{AskArgs, Format, NodeArgs, input, output};
use crate::examine::{many, one};
use crate::exit::Exit;
use crate::fact::{Fact, Facts, Subject, Type};
use crate::report::difference::{Difference, differences};
use crate::report::expectation::Expectation;
use crate::report::{Policy, all_facts};
use crate::terminal;

/// Show the facts of this machine or of a recording, or the schema of all facts.
#[derive(Debug, Args)]
pub struct FactsArgs {
    /// The recording to read in place of this machine; and the facts to show, as port.state, gpu or 'gpu.ecc_*'
    #[arg(value_name = "RECORDING|NAME")]
    pub words: Vec<PathBuf>,
    /// How a machine is asked.
    #[command(flatten)]
    pub ask: AskArgs,
    /// List every fact that there can be, with type, meaning and source
    #[arg(long)]
    pub list: bool,
    /// Print the JSON Schema of the output of --format json
    #[arg(long, conflicts_with_all = ["words", "list"])]
    pub schema: bool,
    /// Show only what differs from this recording, facts and findings: of a login shell, of a neighbour, of last week. Status 1 if something does
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["list", "schema"])]
    pub diff: Option<PathBuf>,
    /// The output's format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

impl FactsArgs {
    /// Whether a recording is read in place of this machine.
    pub fn is_of_recording(&self) -> bool {
        let words = fact_names::taken_apart(&self.words);
        matches!(words, Ok((_, Some(_))))
    }

    /// The facts that are meant, and the node of which.
    fn asked(&self) -> anyhow::Result<(FactNames, NodeArgs)> {
        let (names, recording) = fact_names::taken_apart(&self.words)?;
        let ask = &self.ask;
        let asks = ask.root.is_some()
            || ask.sample.is_some()
            || ask.nccl.is_some()
            || ask.job.is_some()
            || ask.no_rehearsal;
        if recording.is_some() && (asks || self.list) {
            let why = "a recording has its answers: --list, --root, --sample, --nccl, --as and \
                       --no-self-test are without one";
            return Err(bad_usage(why));
        }
        let ask = ask.clone();
        Ok((names, NodeArgs { recording, ask }))
    }
}

/// Runs the subcommand. With --diff the status is 1 where something differs.
///
/// # Errors
///
/// Unreadable input, an output that cannot be written.
pub fn run(args: &FactsArgs) -> anyhow::Result<Exit> {
    let is_json = args.format == Format::Json;
    let (names, node) = args.asked()?;
    if args.schema {
        output::print_json(&schema())?;
    } else if args.list && is_json {
        output::print_json(&list_json(&names))?;
    } else if args.list {
        output::print(|out| list(out, &names))?;
    } else if let Some(path) = &args.diff {
        let recorded = input::open(&[path])?;
        let examined = input::recordings(&node)?;
        let pseudonyms = recorded.iter().chain(&examined).any(|r| r.header.redacted);
        let ((there, _), (here, _)) = (one::facts(&recorded), one::facts(&examined));
        let mut found = differences(&there, &here, pseudonyms);
        found.retain(|one| names.hold(one.subject, one.fact.unwrap_or_default()));
        let (catalogue, policy) = (input::site_catalogue()?, Policy::default());
        let report = |all: &[_]| many::judged(&catalogue, all, &policy);
        let findings = Expectation::of(&report(&recorded), None).changes(&report(&examined));
        if is_json {
            output::print_json(&json!({"facts": found, "findings": findings}))?;
        } else {
            output::print(|out| {
                show_differences(out, &found, path, pseudonyms)?;
                findings.iter().try_for_each(|line| writeln!(out, "{line}"))
            })?;
        }
        if !found.is_empty() || !findings.is_empty() {
            return Ok(Exit::Warnings);
        }
    } else {
        let (facts, _) = input::node(&node)?;
        if is_json {
            output::print_json(&facts_json(&facts, &names))?;
        } else {
            output::print(|out| show(out, &facts, &names))?;
        }
    }
    Ok(Exit::Healthy)
}

fn list(out: &mut dyn Write, names: &FactNames) -> io::Result<()> {
    for subject in Subject::ALL {
        let schema = subject.schema();
        let facts = schema.facts.iter();
        let mut meant = facts
            .filter(|fact| names.hold(schema.name, fact.name))
            .peekable();
        if meant.peek().is_none() {
            continue;
        }
        writeln!(out, "{}: {}", schema.name.bold(), schema.doc.trim())?;
        for fact in meant {
            writeln!(out, "  {}.{}: {}", schema.name, fact.name, fact.ty)?;
            writeln!(out, "      {}", fact.doc.trim().dimmed())?;
        }
    }
    Ok(())
}

fn list_json(names: &FactNames) -> Json {
    let facts = Subject::ALL.iter().flat_map(|subject| {
        let schema = subject.schema();
        let facts = schema.facts.iter();
        let meant = facts.filter(move |fact| names.hold(schema.name, fact.name));
        meant.map(move |fact| {
            json!({
                "fact": format!("{}.{}", schema.name, fact.name),
                "type": fact.ty.to_string(),
                "meaning": fact.doc.trim(),
                "probe": fact.probe,
            })
        })
    });
    facts.collect()
}

fn show(out: &mut dyn Write, facts: &Facts, names: &FactNames) -> io::Result<()> {
    let mut last = None;
    for (id, name, fact) in all_facts(facts) {
        if !names.hold(facts.subject(id).name(), name) {
            continue;
        }
        if last != Some(id) {
            writeln!(
                out,
                "{} {}",
                facts.subject(id).name(),
                facts.name(id).bold()
            )?;
            last = Some(id);
        }
        match fact {
            Fact::Known(value, origin) => {
                writeln!(
                    out,
                    "  {:<38} {}",
                    format!("{name} = {value}"),
                    origin.to_string().dimmed()
                )?;
            }
            Fact::Unknown(gap) => writeln!(
                out,
                "  {:<38} {gap}",
                format!("{name} {}", "unknown".magenta())
            )?,
        }
    }
    Ok(())
}

fn show_differences(
    out: &mut dyn Write,
    found: &[Difference],
    path: &Path,
    pseudonyms: bool,
) -> io::Result<()> {
    if found.is_empty() {
        return writeln!(out, "no fact differs from {}", terminal::path(path));
    }
    if pseudonyms {
        writeln!(
            out,
            "addresses are not compared: a redacted recording has pseudonyms of its own"
        )?;
    }
    for one in found {
        writeln!(out, "{}", one.sentence("there"))?;
    }
    Ok(())
}

fn facts_json(facts: &Facts, names: &FactNames) -> Json {
    let mut instances: Vec<Json> = Vec::new();
    let mut last = None;
    for (id, name, fact) in all_facts(facts) {
        if !names.hold(facts.subject(id).name(), name) {
            continue;
        }
        if last != Some(id) {
            instances.push(json!({
                "subject": facts.subject(id).name(),
                "name": facts.name(id),
                "node": facts.ancestor(id, Subject::Node).map(|n| facts.name(n)),
                "facts": {},
            }));
            last = Some(id);
        }
        let value = match fact {
            Fact::Known(value, origin) => {
                json!({ "value": value.to_json(), "origin": origin.to_string() })
            }
            Fact::Unknown(gap) => {
                json!({ "unknown": gap.why.to_string(), "origin": gap.origin.to_string() })
            }
        };
        if let Some(Json::Object(map)) = instances.last_mut().and_then(|i| i.get_mut("facts")) {
            map.insert(name.to_owned(), value);
        }
    }
    instances.into()
}

/// The JSON Schema (draft 2020-12) of what `facts --json` writes.
pub fn schema() -> Json {
    let subjects: Vec<Json> = Subject::ALL
        .iter()
        .map(|subject| {
            let schema = subject.schema();
            let facts: Map<String, Json> =
                schema.facts.iter().map(|f| (f.name.to_owned(), fact_schema(f.ty, f.doc.trim()))).collect();
            json!({
                "description": schema.doc.trim(),
                "properties": {
                    "subject": { "const": schema.name },
                    "name": { "type": "string" },
                    "node": { "type": ["string", "null"] },
                    "facts": { "type": "object", "properties": facts, "additionalProperties": false },
                },
                "required": ["subject", "name", "node", "facts"],
            })
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Facts of rdma-doctor",
        "type": "array",
        "items": { "type": "object", "oneOf": subjects },
    })
}

fn fact_schema(ty: Type, doc: &str) -> Json {
    let value = match ty {
        Type::Bool => json!({ "type": "boolean" }),
        Type::Count => json!({ "type": "integer", "minimum": 0 }),
        Type::BitRate => {
            json!({ "type": "integer", "minimum": 0, "description": "bits per second" })
        }
        Type::Bytes => {
            json!({ "type": "integer", "minimum": 0, "description": "bytes; 18446744073709551615 is unlimited" })
        }
        Type::Seconds => json!({ "type": "number", "description": "seconds" }),
        Type::PerSecond => json!({ "type": "number", "description": "events per second" }),
        Type::Percent => json!({ "type": "number", "description": "per cent" }),
        Type::Text => json!({ "type": "string" }),
        Type::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Type::Counts => json!({ "type": "array", "items": { "type": "integer", "minimum": 0 } }),
        Type::Word(words) => json!({ "enum": words }),
    };
    json!({
        "description": doc,
        "oneOf": [
            { "type": "object", "properties": { "value": value, "origin": { "type": "string" } }, "required": ["value", "origin"] },
            { "type": "object", "properties": { "unknown": { "type": "string" }, "origin": { "type": "string" } }, "required": ["unknown", "origin"] },
        ],
    })
}
