//! What people kept of machines in place of recordings: outputs of tools in a text, a directory or an archive.

use std::path::{Path, PathBuf};

use super::check::CheckArgs;
use super::input::{self, BadInput, BadUsage};
use super::many;
use crate::live;
use crate::nodeset;
use crate::probe::outputs::recorded::Evidence;
use crate::report::{Policy, Report};
use crate::source::recording::Recording;
use crate::terminal;

/// Outputs that are named because they are not read, at most.
const NAMED: usize = 20;

/// What can be read, for a text that holds nothing of it.
const READABLE: &str = "it is no recording, and holds no output of a tool that is read: ibstat, ibstatus, ibv_devinfo, rdma link, show_gids, \
    ibdev2netdev, ip link|addr|route, ethtool, lspci -vvv, lsmod, dmesg, nvidia-smi (-q, topo -m), iptables-save, nft -j list ruleset, \
    ulimit -a, sysctl -a, env, df, cat of a file (rdma-doctor collect-script prints a script that writes them all)";

/// The reports on these inputs, if one of them at least is no recording: each by itself, or all together.
///
/// # Errors
///
/// An input that cannot be read, or holds nothing that can.
pub fn reports(args: &CheckArgs, policy: &Policy) -> anyhow::Result<Option<Vec<Report>>> {
    if !args.recordings.iter().any(|path| is_other(path)) {
        return Ok(None);
    }
    let expected = match &args.expect {
        Some(list) => Some(nodeset::expand(list).map_err(|e| BadUsage(format!("--expect: {e}")))?),
        None => None,
    };
    let catalogue = input::catalogue(&args.select)?;
    let verbose = args.judge.verbose;
    let parts: Vec<&[PathBuf]> = match args.each {
        true => args.recordings.chunks(1).collect(),
        false => vec![&args.recordings],
    };
    let mut reports = Vec::new();
    for paths in parts {
        let all = input::open(paths)?;
        reports.push(match expected.clone() {
            None => many::judged(&catalogue, &all, policy, verbose),
            expected => many::recordings(&catalogue, &all, expected, policy, verbose),
        });
    }
    Ok(Some(reports))
}

/// Whether this is a file or a directory, and no recording. What comes out of a pipe can be read once, and is a recording.
fn is_other(path: &Path) -> bool {
    const KIND: u32 = 0o170_000;
    const KINDS: [u32; 2] = [0o100_000, 0o040_000];
    let kind = live::files::mode(path).map(|mode| mode & KIND);
    kind.is_ok_and(|kind| KINDS.contains(&kind)) && !live::log::is_recording(path)
}

/// The recordings that a file holds: itself, or one of each host of which it has outputs of tools.
///
/// # Errors
///
/// It cannot be read, or holds nothing that can.
pub fn open(path: &Path) -> anyhow::Result<Vec<Recording>> {
    let recording = || {
        Ok(vec![
            Recording::open(path).map_err(|e| BadInput(e.to_string()))?,
        ])
    };
    if !is_other(path) {
        return recording();
    }
    let bad = |why: &str| BadInput(format!("{}: {why}", terminal::path(path)));
    let texts = live::evidence::read(path).map_err(|error| bad(&error.to_string()))?;
    // A recording that was damaged at its beginning says itself what is wrong with it.
    if texts.iter().all(|text| {
        !text.is_member
            && (text.text.trim_start().starts_with("{\"rdma") || text.text.trim().is_empty())
    }) {
        return recording();
    }
    let stem = path
        .file_stem()
        .unwrap_or(path.as_os_str())
        .to_string_lossy();
    let mut evidence = Evidence::of(stem.trim_end_matches(".tar"));
    for text in &texts {
        match text.is_member {
            true => evidence.add_member(&text.path, &text.text),
            false => evidence.add_text(&terminal::path(path), &text.text),
        }
    }
    for named in evidence.unread().iter().take(NAMED) {
        terminal::say(&format!("rdma-doctor: {named}: known, and not read"));
    }
    if let Some(more) = evidence
        .unread()
        .len()
        .checked_sub(NAMED)
        .filter(|more| *more > 0)
    {
        terminal::say(&format!(
            "rdma-doctor: {more} more outputs are known, and not read"
        ));
    }
    if evidence.is_empty() {
        return Err(bad(READABLE).into());
    }
    Ok(evidence.finish())
}
