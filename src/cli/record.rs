//! `rdma-doctor record`: a machine's replies, for a verdict elsewhere.

use crate::live::random;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use super::input::{self, BadInput, bad_usage};
use super::{AskArgs, output, seconds};
use crate::examine::recorded_input::open_recording;
use crate::examine::recording_text::to_text;
use crate::exit::Exit;
use crate::fact::Facts;
use crate::live;
use crate::live::worker::{self, ChildSettings};
use crate::probe::{Ask, OF_JOBS, PROBES};
use crate::source::recording::Recording;
use crate::source::redact::Key;
use crate::source::wire;
use crate::terminal;

/// Record this machine, or a copied tree, for a verdict elsewhere.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Where to write; a name that ends in .zst is compressed, - is standard output, and -.zst that compressed
    #[arg(
        short,
        long,
        value_name = "FILE",
        value_parser = super::output_file(),
        default_value = "-"
    )]
    pub output: PathBuf,
    /// Write this recording whole, as it is: of an overlay with its base, so that it can be copied anywhere
    #[arg(long, value_name = "RECORDING", conflicts_with_all = super::NOT_OF_A_RECORDING, conflicts_with_all = ["no_redact", "redact_key"])]
    pub from: Option<PathBuf>,
    /// How a machine is asked.
    #[command(flatten)]
    pub ask: AskArgs,
    /// Leave host names, addresses, GUIDs, serial numbers, user names and tokens as they are
    #[arg(long, conflicts_with = "redact_key")]
    pub no_redact: bool,
    /// Make pseudonyms from this file's content, so that recordings of several nodes can be compared
    #[arg(long, value_name = "FILE")]
    pub redact_key: Option<PathBuf>,
}

/// What the doctor starts itself: one probe, over the machine.
#[derive(Debug)]
pub struct ProbeArgs {
    /// The probe.
    pub name: String,
    /// What its parent says of the recording.
    pub settings: ChildSettings,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, an output that cannot be written.
pub fn run(args: &RecordArgs) -> anyhow::Result<Exit> {
    if let Some(from) = &args.from {
        let recording = open_recording(from)?;
        let lines = to_text(&recording, None);
        write_out(&args.output, &lines, !recording.header.redacted)?;
        return Ok(Exit::Healthy);
    }
    let key = key(args.no_redact, args.redact_key.as_deref())?;
    let recording = input::record(&args.ask)?;
    let lines = to_text(&recording, key);
    write_out(&args.output, &lines, args.no_redact)?;
    if args.no_redact {
        let left_in = "not redacted: host name, IP and MAC addresses, GUIDs, user names and NCCL_/UCX_/FI_/CUDA_ \
                       environment are in it as they are";
        terminal::say(left_in);
    } else {
        terminal::say(&replaced_in_words(&lines));
    }
    Ok(Exit::Healthy)
}

/// What the first line of a redacted recording says was replaced: `replaced: 2 host names, 1 secret`.
fn replaced_in_words(recording: &str) -> String {
    let header = wire::parse_header(recording.lines().next().unwrap_or(""));
    let replaced = header.map(|header| header.replaced).unwrap_or_default();
    let in_words = replaced.iter().map(|(kind, count)| match count {
        1 => format!("1 {kind}"),
        _ if kind.ends_with('s') => format!("{count} {kind}es"),
        _ => format!("{count} {kind}s"),
    });
    let in_words: Vec<String> = in_words.collect();
    match in_words.is_empty() {
        true => "nothing had to be replaced".to_owned(),
        false => format!("replaced: {}", in_words.join(", ")),
    }
}

/// The key of a recording's pseudonyms; `None` where it is to have none.
///
/// # Errors
///
/// [`BadInput`] for a key file that cannot be read, or is too short.
pub fn key(no_redact: bool, redact_key: Option<&Path>) -> anyhow::Result<Option<Key>> {
    Ok(match (redact_key, no_redact) {
        (_, true) => None,
        (Some(path), _) => {
            let text = live::files::read_input(path).map_err(|e| BadInput::of(path, e))?;
            if text.trim().len() < 8 {
                return Err(BadInput::of(path, "a key has 8 characters at least").into());
            }
            Some(Key::from_text(text.trim()))
        }
        (None, _) => Some(Key::from_bytes(
            random::random_bytes().context("no random key")?,
        )),
    })
}

/// Writes the recording of a measurement where one was asked for.
///
/// # Errors
///
/// An output that cannot be written.
pub fn keep(recording: &Recording, path: Option<&Path>, no_redact: bool) -> anyhow::Result<()> {
    match path {
        Some(path) => {
            let text = to_text(recording, key(no_redact, None)?);
            write_out(path, &text, no_redact)
        }
        None => Ok(()),
    }
}

/// Writes a recording's text; a name that ends in `.zst` is compressed, `-` is standard output, and `-.zst` that compressed. A file
/// is replaced as a whole; one that is not redacted is `private`.
///
/// # Errors
///
/// An output that cannot be written.
pub fn write_out(path: &Path, text: &str, private: bool) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return output::print_raw(text.as_bytes());
    }
    let bytes = if path == Path::new("-.zst") {
        let packed = zstd::stream::encode_all(text.as_bytes(), 3).context("cannot compress")?;
        return output::print_raw(&packed);
    } else if path.extension().is_some_and(|e| e == "zst") {
        zstd::stream::encode_all(text.as_bytes(), 9).context("cannot compress")?
    } else {
        text.as_bytes().to_vec()
    };
    live::files::replace_output(path, &bytes, private)
        .with_context(|| format!("cannot write {}", terminal::path(path)))
}

impl ProbeArgs {
    /// Reads what [`worker::record`] passes, without the cost of the whole command line's definition: a dozen probes start at once.
    pub fn parse(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut parsed = ProbeArgs {
            name: args.next()?.into_string().ok()?,
            settings: ChildSettings::default(),
        };
        let settings = &mut parsed.settings;
        while let Some(flag) = args.next() {
            let value = args.next()?;
            match flag.to_str()? {
                "--started" => settings.at_ns = value.to_str()?.parse().ok()?,
                "--root" => settings.root = Some(value.into()),
                "--nccl" => settings.nccl = Some(value.into_string().ok()?),
                "--sample" => settings.sample = Some(seconds(value.to_str()?).ok()?),
                "--py-spy" => settings.py_spy = Some(value.into()),
                "--places" => settings.places = Some(value.into()),
                "--ranks" => {
                    let pids = value.to_str()?.split(',');
                    settings.ranks = pids.map(str::parse).collect::<Result<_, _>>().ok()?;
                }
                "--as" => settings.job = Some(value.to_str()?.parse().ok()?),
                _ => return None,
            }
        }
        Some(parsed)
    }
}

/// Runs a probe's questions over the machine, and those of the probes that the parent names next.
///
/// # Errors
///
/// An unknown probe, a tree that cannot be opened, a parent that is gone.
pub fn probe(args: &ProbeArgs) -> anyhow::Result<Exit> {
    let find = |name: &str| PROBES.iter().chain(OF_JOBS).find(|p| p.name == name);
    if args.name != worker::CONTROL && find(&args.name).is_none() {
        return Err(bad_usage(format!("no probe {}", args.name)));
    }
    worker::child(&args.name, &args.settings, |name, source| {
        let Some(probe) = find(name) else { return };
        // The facts are thrown away: the parent establishes them from what is recorded here.
        let mut facts = Facts::new();
        let node = facts.new_node("node");
        (probe.run)(&Ask::new(source), &mut facts, node);
    })?;
    Ok(Exit::Healthy)
}
