//! `rdma-doctor nccl-env`: NCCL's variables as NCCL reads them, and what it will choose.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use crate::terminal::Paint;
use clap::Args;
use serde_json::{Value as Json, json};

use super::input::BadUsage;
use super::{AskArgs, Format, input, output};
use crate::examine::one;
use crate::exit::Exit;
use crate::fact::device::NodeType;
use crate::fact::nccl_version::Version;
use crate::fact::port::PortState;
use crate::fact::variable::{ValueDefect, VariableEffect};
use crate::fact::{Fact, Facts, Id, Key, Subject, Typed, device, node, port, selection, variable};
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
    let (facts, nodes) = one::facts(&recordings);
    for node in nodes.into_iter().map(|node| node.id) {
        output::print(|out| match args.format {
            Format::Text => text(out, &facts, node),
            Format::Json => output::write_json(out, &to_json(&facts, node)),
        })?;
    }
    Ok(Exit::Healthy)
}

/// A fact as text, or why there is none. Control characters are written out: a carriage return is what one comes here to see.
fn shown<T: Typed>(facts: &Facts, id: Id, key: Key<T>) -> String {
    match facts.get(id, key).erase() {
        Fact::Known(value, _) => value.to_string().replace('\r', "\\r").replace('\n', "\\n"),
        Fact::Unknown(gap) => format!("unknown ({gap})"),
    }
}

/// Lines of labels and facts.
type Rows = Vec<(&'static str, String)>;

fn write_rows(out: &mut dyn Write, rows: Rows) -> io::Result<()> {
    for (label, text) in rows {
        paragraph(out, &format!("  {label:<22}"), 24, &text, output::width())?;
    }
    Ok(())
}

pub(super) fn text(out: &mut dyn Write, facts: &Facts, node: Id) -> io::Result<()> {
    writeln!(out, "{}", "NCCL".bold())?;
    let texts = |key| shown::<Arc<[Arc<str>]>>(facts, node, key);
    let mut rows = vec![("version", shown(facts, node, node::NCCL_VERSION))];
    if facts.known(node, node::NCCL_FOUND).is_some() {
        rows.push(("found by", shown(facts, node, node::NCCL_FOUND)));
        rows.push(("library", shown(facts, node, node::NCCL_PATH)));
    }
    rows.push(("installed", texts(node::NCCL_COPIES)));
    rows.push(("files read, in order", texts(node::NCCL_FILES)));
    let named = |key| facts.known(node, key) == Some(true);
    if named(node::NCCL_FILE_UNREADABLE) {
        rows.push(("not readable", texts(node::NCCL_FILES_UNREADABLE)));
    }
    if named(node::NCCL_ODD_LINE) {
        rows.push(("without effect", texts(node::NCCL_ODD_LINES)));
    }
    write_rows(out, rows)?;

    writeln!(out, "\n{}", "Variables".bold())?;
    let variables: Vec<Id> = facts.below(node, Subject::Variable).collect();
    for id in &variables {
        let value = shown(facts, *id, variable::VALUE);
        writeln!(out, "  {}={value}", facts.name(*id))?;
        if let Some(origin) = facts.known(*id, variable::ORIGIN) {
            writeln!(out, "      from {origin}")?;
        }
        let known = |key| facts.known(*id, key);
        if let (Some(as_read), Some(value)) = (known(variable::READ_AS), known(variable::VALUE))
            && as_read != value
            && *as_read != *format!("{value:?}")
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
    let mut rows = vec![
        ("RDMA ports", shown(facts, chosen, selection::HCAS)),
        ("  because", shown(facts, chosen, selection::HCAS_WHY)),
    ];
    rows.extend(unusable(facts, node, chosen));
    rows.extend([
        (
            "bootstrap interface",
            shown(facts, chosen, selection::INTERFACE),
        ),
        ("  because", shown(facts, chosen, selection::INTERFACE_WHY)),
        (
            "socket interfaces",
            shown(facts, chosen, selection::INTERFACES),
        ),
        ("GID index", shown(facts, chosen, selection::GID_INDEXES)),
    ]);
    write_rows(out, rows)
}

/// The ports that NCCL passes over, and those that it takes although they do not work with it, each with the reason.
fn unusable(facts: &Facts, node: Id, chosen: Id) -> impl Iterator<Item = (&'static str, String)> {
    let used = facts.known(chosen, selection::HCAS);
    let is = move |key| facts.known(chosen, key);
    let reason = move |id: Id| {
        let of = facts.parent(id)?;
        let name = facts.name(id).replace('/', ":");
        if used.as_ref()?.iter().any(|one| **one == *name) {
            let is_iwarp = facts.known(of, device::NODE_TYPE) == Some(NodeType::Rnic);
            let why = "iWARP, on which NCCL's queue pairs do not connect";
            return is_iwarp.then(|| ("  does not work", format!("{name}: {why}")));
        }
        let why = match facts.known(id, port::STATE)? {
            _ if is(selection::WANTS_HCAS) == Some(false) => "NCCL does not look for RDMA ports",
            PortState::Active if facts.known(of, device::PROVIDER) == Some(false) => {
                "libibverbs has no provider for the device"
            }
            PortState::Active if is(selection::HCAS_FORCED) == Some(true) => {
                "NCCL_IB_HCA leaves it out, or a process cannot open it"
            }
            PortState::Active => "a process cannot open it",
            _ => "the port is not active",
        };
        Some(("  not used", format!("{name}: {why}")))
    };
    facts.below(node, Subject::Port).filter_map(reason)
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
