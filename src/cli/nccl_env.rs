//! `rdma-doctor nccl-env`: NCCL's variables as NCCL reads them, and what it will choose.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::terminal::Paint;
use clap::Args;
use serde_json::{Value as Json, json};

use super::input::BadUsage;
use super::{AskArgs, Format, input, output};
use crate::exit::Exit;
use crate::fact::nccl_version::Version;
use crate::fact::node::CharDevice;
use crate::fact::port::PortState;
use crate::fact::variable::{ValueDefect, VariableEffect};
use crate::fact::{
    Fact, Facts, Gap, Id, Key, Subject, Typed, device, node, port, selection, variable,
};
use crate::report::text::paragraph;
use crate::source::Question;

/// Show NCCL's variables as NCCL reads them, and what it will choose.
#[derive(Debug, Args)]
pub struct NcclEnvArgs {
    /// The recording to read in place of this machine; --nccl VERSION says what another version would do
    #[arg(value_name = "RECORDING", conflicts_with_all = ["root", "sample", "job", "no_rehearsal"])]
    pub recording: Option<PathBuf>,
    /// How a machine is asked.
    #[command(flatten)]
    pub ask: AskArgs,
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
    let mut recordings = match &args.recording {
        Some(path) => input::open(&[path])?,
        None => vec![input::record(&args.ask)?],
    };
    if let (Some(_), Some(version)) = (&args.recording, &args.ask.nccl) {
        Version::parse(version).map_err(|why| BadUsage(format!("--nccl: {why}")))?;
        let named = json!([{"from": "--nccl", "version": version}]);
        for recording in &mut recordings {
            recording.replace("nccl", Question::call("nccl_libraries", []), named.clone());
        }
    }
    let (facts, nodes) = input::facts(&recordings);
    for node in nodes.into_iter().map(|node| node.id) {
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
    let text = match shown(facts, id, key) {
        Ok(text) => text,
        Err(gap) => format!("unknown ({gap})"),
    };
    paragraph(out, &format!("  {label:<22}"), 24, &text, output::width())
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
            paragraph(out, "      ", 8, &remark, output::width())?;
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
    for dropped in dropped(facts, node, chosen) {
        paragraph(
            out,
            &format!("  {:<22}", "  not used"),
            24,
            &dropped,
            output::width(),
        )?;
    }
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

/// The ports that NCCL passes over, each with the reason.
fn dropped(facts: &Facts, node: Id, chosen: Id) -> Vec<String> {
    let Some(used) = facts.known(chosen, selection::HCAS) else {
        return Vec::new();
    };
    let reason = |id: Id| {
        let of = facts.parent(id)?;
        let name = facts.name(id).replace('/', ":");
        if used.iter().any(|one| **one == *name) {
            return None;
        }
        let state = facts.known(id, port::STATE);
        let why = match (
            facts.known(of, device::PROVIDER),
            facts.known(of, device::CHAR_DEVICE),
        ) {
            _ if state.is_some_and(|state| state != PortState::Active) => "its port is not active",
            (Some(false), _) => "libibverbs has no provider for the device",
            (_, Some(opens)) if opens != CharDevice::Usable => {
                "its file in /dev/infiniband cannot be opened"
            }
            _ if facts.known(chosen, selection::WANTS_HCAS) == Some(false) => "RDMA is off",
            _ if facts.known(chosen, selection::HCAS_FORCED) == Some(true) => {
                "NCCL_IB_HCA leaves it out"
            }
            _ => "NCCL leaves it out",
        };
        Some(format!("{name}: {why}"))
    };
    facts
        .below(node, Subject::Port)
        .filter_map(reason)
        .collect()
}

/// The effect of a variable in words.
fn effect(of: VariableEffect) -> &'static str {
    match of {
        VariableEffect::None => "nothing that costs",
        VariableEffect::IbDisabled => "NCCL does not use InfiniBand and RoCE",
        VariableEffect::SocketForced => "NCCL uses TCP sockets between nodes",
        VariableEffect::P2pDisabled => "GPUs of one node do not reach each other directly",
        VariableEffect::ShmDisabled => "processes of one node do not share memory",
        VariableEffect::GdrLowered => {
            "GPUDirect RDMA is off, or allowed for fewer pairs than by default"
        }
        VariableEffect::GdrRaised => "GPUDirect RDMA goes through the CPU",
        VariableEffect::DmabufDisabled => "NCCL does not use DMA-BUF",
        VariableEffect::NvlsDisabled => "NCCL does not use NVLink SHARP",
        VariableEffect::AlgorithmForced => {
            "NCCL does not choose the algorithm or the protocol itself"
        }
        VariableEffect::ChannelsCapped => "the number of channels or thread blocks is capped",
        VariableEffect::BufferChanged => "the size of buffers is not the default",
        VariableEffect::DebugLeft => "NCCL writes or checks much, which costs time",
        VariableEffect::RetryOdd => "retransmission gives up early, or not at all",
        VariableEffect::OutOfRange => "the number is outside of its range",
        VariableEffect::NetworkUnknown => "neither NCCL nor a known plugin has this network",
    }
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
            near => format!("no version of NCCL reads it; did you mean {near}?"),
        });
    } else if facts.known(id, variable::READ) == Some(false) {
        remarks.push(format!(
            "this version does not read it; read by: {}",
            text(variable::READ_BY)
        ));
    }
    match facts.known(id, variable::MANGLED) {
        None | Some(ValueDefect::No) => {}
        Some(what) => {
            let what = match what {
                ValueDefect::CarriageReturn => "a carriage return",
                ValueDefect::Space => "a blank",
                _ => "quotation marks",
            };
            remarks.push(format!(
                "the value has {what} around it, which NCCL takes as part of it"
            ));
        }
    }
    if is(variable::MISREAD) {
        remarks.push("this is not a number".into());
    }
    if is(variable::REFUSED) {
        remarks.push("NCCL does not know this value".into());
    }
    match facts.known(id, variable::EFFECT) {
        None | Some(VariableEffect::None) => {}
        Some(effect) => remarks.push(format!("effect: {}", self::effect(effect))),
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
