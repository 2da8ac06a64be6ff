//! What people kept of machines in place of recordings: outputs of tools in a text, a directory or an archive.

use std::path::{Path, PathBuf};

use super::check::CheckArgs;
use super::input::{self, BadInput};
use super::{budget, many, output};
use crate::live;
use crate::live::evidence::FoundTexts;
use crate::probe::outputs::recorded::Evidence;
use crate::report::{Policy, Report};
use crate::source::recording::Recording;
use crate::terminal;

/// Outputs that are named because they are not read, at most.
const NAMED: usize = 20;

/// What can be read, for a text that holds nothing of it.
const READABLE: &str = "it is no recording, and holds no output of a tool that is read: ibstat, ibv_devinfo, rdma link, show_gids, \
    perfquery, ip addr|route|rule|neigh, ethtool, mlnx_qos, lspci -vvv|-xxx, dmesg, nvidia-smi, amd-smi, iptables-save, nft list ruleset, ulimit -a, \
    sysctl -a, env, docker inspect and others (rdma-doctor-evidence(7) lists them; rdma-doctor collect-script prints a script that writes them)";

/// What an input is.
enum Input {
    Recording,
    /// Outputs of tools, a recording of each host.
    Outputs(Vec<Recording>),
    /// Neither; why.
    Nothing(String),
}

impl Input {
    fn recordings(self, path: &Path) -> Result<Vec<Recording>, BadInput> {
        match self {
            Input::Recording => Ok(vec![input::open_recording(path)?]),
            Input::Outputs(recordings) => Ok(recordings),
            Input::Nothing(why) => Err(BadInput(why)),
        }
    }
}

/// The reports on these inputs, if one of them at least has outputs of tools: each by itself, or all together.
///
/// # Errors
///
/// The arguments do not fit each other.
pub fn reports(args: &CheckArgs, policy: &Policy) -> anyhow::Result<Option<Vec<Report>>> {
    let read = |path: &Path| {
        let input = budget::file(path, || input_of(path));
        input.unwrap_or_else(|why| Input::Nothing(format!("{}: {why}", terminal::path(path))))
    };
    let inputs = args.recordings.iter().map(|path| (path, read(path)));
    let inputs: Vec<(&PathBuf, Input)> = inputs.collect();
    let has_outputs = |(_, input): &(&PathBuf, Input)| matches!(input, Input::Outputs(_));
    if !inputs.iter().any(has_outputs) {
        return Ok(None);
    }
    let expected = args.expected()?;
    let catalogue = input::catalogue(&args.select)?;
    // An input that cannot be read is a silent node of its file's name, and ends no other.
    let mut parts: Vec<(Vec<Recording>, Vec<String>)> = Vec::new();
    for (path, input) in inputs {
        if args.each || parts.is_empty() {
            parts.push(Default::default());
        }
        let Some((all, silent)) = parts.last_mut() else {
            continue;
        };
        match input.recordings(path) {
            Ok(recordings) => all.extend(recordings),
            Err(why) => {
                output::say(&why.0);
                silent.push(stem(path));
            }
        }
    }
    let report = |(all, silent): (Vec<Recording>, Vec<String>)| {
        if silent.is_empty() && expected.is_none() {
            return many::judged_within_limits(&catalogue, &all, policy);
        }
        let here = all.iter().map(|one| one.header.node.clone());
        let expected = expected.clone().unwrap_or_else(|| here.collect());
        let expected = Some(expected.into_iter().chain(silent).collect());
        many::recordings(&catalogue, &all, expected, policy)
    };
    Ok(Some(parts.into_iter().map(report).collect()))
}

/// The name of a file without its ending.
fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    stem.to_string_lossy().trim_end_matches(".tar").to_owned()
}

/// Whether this is a file or a directory, and no recording. What comes out of a pipe can be read once, and is a recording.
fn is_other(path: &Path) -> bool {
    live::files::is_file_or_directory(path) && !live::log::is_recording(path)
}

/// The recordings that a file holds: itself, or one of each host of which it has outputs of tools.
///
/// # Errors
///
/// It cannot be read, or holds nothing that can.
pub fn open(path: &Path) -> anyhow::Result<Vec<Recording>> {
    Ok(input_of(path).recordings(path)?)
}

fn input_of(path: &Path) -> Input {
    if !is_other(path) {
        return Input::Recording;
    }
    let nothing = |why: &str| Input::Nothing(format!("{}: {why}", terminal::path(path)));
    let FoundTexts { texts, left_out } = match live::evidence::read(path) {
        Ok(found) => found,
        Err(error) => return nothing(&error.to_string()),
    };
    // A recording that was damaged at its beginning says itself what is wrong with it.
    if texts.iter().all(|text| {
        !text.is_member
            && (text.text.trim_start().starts_with("{\"rdma") || text.text.trim().is_empty())
    }) {
        return Input::Recording;
    }
    let mut evidence = Evidence::of(&stem(path));
    for text in &texts {
        match text.is_member {
            true => evidence.add_member(&text.path, &text.text),
            false => evidence.add_text(&terminal::path(path), &text.text),
        }
    }
    let unread = evidence.unread();
    if evidence.is_empty() {
        let known = unread
            .iter()
            .take(NAMED)
            .map(|named| format!("; {named}: known, and not read"));
        let unread = left_out.iter().map(|one| format!("; {one}"));
        let also = known.chain(unread).collect::<String>();
        return nothing(&format!("{READABLE}{also}"));
    }
    for named in unread.iter().take(NAMED) {
        output::say(&format!("{named}: known, and not read"));
    }
    let more = unread.len().saturating_sub(NAMED);
    if more > 0 {
        output::say(&format!("{more} more outputs are known, and not read"));
    }
    evidence.leave_out(left_out);
    Input::Outputs(evidence.finish())
}
