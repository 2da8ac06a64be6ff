//! `rdma-doctor nccl-env`: NCCL's variables as NCCL reads them, and what it will choose.

use std::io::{self, Write};

use crate::terminal::Paint;
use clap::Args;
use serde_json::{Value as Json, json};

use super::{Format, NodeArgs, input, output};
use crate::exit::Exit;
use crate::fact::variable::{ValueDefect, VariableEffect};
use crate::fact::{Fact, Facts, Gap, Id, Key, Subject, Typed, node, selection, variable};

/// Show NCCL's variables as NCCL reads them, and what it will choose.
#[derive(Debug, Args)]
pub struct NcclEnvArgs {
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// The output's format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, an output that cannot be written.
pub fn run(args: &NcclEnvArgs) -> anyhow::Result<Exit> {
    let (facts, nodes) = input::node(&args.node)?;
    for node in nodes {
        output::print(|out| match args.format {
            Format::Text => text(out, &facts, node),
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &to_json(&facts, node))?;
                writeln!(out)
            }
        })?;
    }
    Ok(Exit::Healthy)
}

/// A fact as text, or why there is none.
fn shown<T: Typed>(facts: &Facts, id: Id, key: Key<T>) -> Result<String, Gap> {
    match facts.get(id, key).erase() {
        Fact::Known(value, _) => Ok(visible(&value.to_string())),
        Fact::Unknown(gap) => Err(gap),
    }
}

/// Control characters written out: a carriage return is what one comes here to see.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

fn line<T: Typed>(
    out: &mut dyn Write,
    label: &str,
    facts: &Facts,
    id: Id,
    key: Key<T>,
) -> io::Result<()> {
    match shown(facts, id, key) {
        Ok(text) => writeln!(out, "  {label:<22}{text}"),
        Err(gap) => writeln!(out, "  {label:<22}{} ({gap})", "unknown".magenta()),
    }
}

pub(super) fn text(out: &mut dyn Write, facts: &Facts, node: Id) -> io::Result<()> {
    writeln!(out, "{}", "NCCL".bold())?;
    line(out, "version", facts, node, node::NCCL_VERSION)?;
    if facts.known(node, node::NCCL_FOUND).is_some() {
        line(out, "found by", facts, node, node::NCCL_FOUND)?;
        line(out, "library", facts, node, node::NCCL_PATH)?;
    }
    line(out, "installed", facts, node, node::NCCL_COPIES)?;
    line(out, "files read, in order", facts, node, node::NCCL_FILES)?;
    let named = |key| facts.known(node, key) == Some(true);
    if named(node::NCCL_FILE_UNREADABLE) {
        line(
            out,
            "not readable",
            facts,
            node,
            node::NCCL_FILES_UNREADABLE,
        )?;
    }
    if named(node::NCCL_ODD_LINE) {
        line(out, "without effect", facts, node, node::NCCL_ODD_LINES)?;
    }

    writeln!(out, "\n{}", "Variables".bold())?;
    let variables: Vec<Id> = facts.below(node, Subject::Variable).collect();
    for id in &variables {
        let value = match shown(facts, *id, variable::VALUE) {
            Ok(value) => value,
            Err(gap) => format!("{} ({gap})", "unknown".magenta()),
        };
        writeln!(out, "  {}={value}", facts.name(*id))?;
        if let Some(origin) = facts.known(*id, variable::ORIGIN) {
            writeln!(out, "      from {origin}")?;
        }
        let as_read = shown(facts, *id, variable::READ_AS);
        if let (Ok(as_read), Some(value)) = (as_read, facts.known(*id, variable::VALUE))
            && as_read != *value
            && as_read != format!("{value:?}")
        {
            writeln!(out, "      NCCL reads {as_read}")?;
        }
        for remark in remarks(facts, *id) {
            writeln!(out, "      {}", remark.yellow())?;
        }
    }
    match facts.members(Subject::Variable, node) {
        Ok(_) if variables.is_empty() => writeln!(out, "  none is set")?,
        Ok(_) => {}
        Err(gap) => writeln!(out, "  {} ({gap})", "others may be set".magenta())?,
    }

    writeln!(out, "\n{}", "NCCL will use".bold())?;
    let Some(chosen) = facts.below(node, Subject::Selection).next() else {
        return Ok(());
    };
    line(out, "RDMA ports", facts, chosen, selection::HCAS)?;
    line(out, "  because", facts, chosen, selection::HCAS_WHY)?;
    line(
        out,
        "bootstrap interface",
        facts,
        chosen,
        selection::INTERFACE,
    )?;
    line(out, "  because", facts, chosen, selection::INTERFACE_WHY)?;
    line(
        out,
        "socket interfaces",
        facts,
        chosen,
        selection::INTERFACES,
    )?;
    line(out, "GID index", facts, chosen, selection::GID_INDEXES)
}

/// What is to be said of a variable.
fn remarks(facts: &Facts, id: Id) -> Vec<String> {
    let mut remarks = Vec::new();
    let is = |key| facts.known(id, key) == Some(true);
    let text =
        |key: Key<std::sync::Arc<str>>| facts.known(id, key).unwrap_or_else(|| "unknown".into());
    if facts.known(id, variable::KNOWN) == Some(false) {
        remarks.push(match &*text(variable::NEAREST) {
            "none" => "no version of NCCL reads it".to_owned(),
            near => format!("no version of NCCL reads it; {near} is meant"),
        });
    } else if facts.known(id, variable::READ) == Some(false) {
        remarks.push(format!(
            "this version does not read it; read by: {}",
            text(variable::READ_BY)
        ));
    }
    match facts.known(id, variable::MANGLED) {
        None | Some(ValueDefect::No) => {}
        Some(what) => remarks.push(format!(
            "the value has {} around it, which NCCL takes as part of it",
            what.word()
        )),
    }
    if is(variable::MISREAD) {
        remarks.push("this is not a number".into());
    }
    if is(variable::REFUSED) {
        remarks.push("NCCL does not know this value".into());
    }
    match facts.known(id, variable::EFFECT) {
        None | Some(VariableEffect::None) => {}
        Some(effect) => remarks.push(format!("effect: {}", effect.word())),
    }
    if is(variable::OVERRIDES) {
        remarks.push(format!("not in effect: {}", text(variable::OVERRIDDEN)));
    }
    remarks
}

/// The facts of an instance whose names begin so: the value, or `{"unknown": why}`.
fn all(facts: &Facts, id: Id, begin: &str) -> serde_json::Map<String, Json> {
    let schema = facts.subject(id).schema();
    let one = |(index, fact): (usize, &crate::fact::FactSchema)| {
        let value = match facts.look(id, index) {
            Some(Fact::Known(value, _)) => value.to_json(),
            Some(Fact::Unknown(gap)) => json!({"unknown": gap.to_string()}),
            None => json!({"unknown": facts.unset(id, index).to_string()}),
        };
        (fact.name.to_owned(), value)
    };
    let all = schema.facts.iter().enumerate();
    all.filter(|(_, fact)| fact.name.starts_with(begin))
        .map(one)
        .collect()
}

pub(super) fn to_json(facts: &Facts, node: Id) -> Json {
    let named = |subject: Subject| -> Json {
        let one = |id: Id| (facts.name(id).to_owned(), Json::from(all(facts, id, "")));
        let members: serde_json::Map<String, Json> = facts.below(node, subject).map(one).collect();
        members.into()
    };
    let complete = facts.members(Subject::Variable, node).is_ok();
    let chosen = facts.below(node, Subject::Selection).next();
    json!({
        "node": facts.name(node),
        "nccl": all(facts, node, "nccl_"),
        "variables": named(Subject::Variable),
        "variables_complete": complete,
        "selectors": named(Subject::Selector),
        "selection": chosen.map(|id| all(facts, id, "")),
    })
}
