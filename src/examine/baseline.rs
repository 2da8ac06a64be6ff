//! `--baseline`: what a node is held against: a recording or report of itself, or recordings of its equals.

use std::path::{Path, PathBuf};

use super::one::Judged;
use super::unusable::BadInput;
use crate::live::files;
use crate::report::baseline::{BaselineChanges, drifted, majority, of_json};
use crate::report::expectation::Expectation;
use crate::report::{self, Policy, Report};
use crate::source::recording::Recording;
use crate::terminal;

/// What a node's report and facts have other than the baseline at this path.
///
/// # Errors
///
/// [`BadInput`] where nothing there is a recording or a report.
pub(super) fn changes(
    path: &Path,
    judged: &Judged<'_>,
    own: &[Recording],
    report: &Report,
    policy: &Policy,
) -> anyhow::Result<BaselineChanges> {
    let (of, recordings) = match directory(path) {
        None => match Recording::open(path) {
            Ok(one) => {
                let of = format!("{} ({})", terminal::path(path), one.header.utc);
                (of, vec![one])
            }
            Err(error) => {
                let report_before = files::read_input(path).ok();
                let before = report_before.and_then(|text| of_json(&text));
                let before = before.ok_or_else(|| BadInput(error.to_string()))?;
                let by_ids_of_today = before.by_ids_of(judged.catalogue);
                let of = terminal::path(path);
                return Ok(BaselineChanges::new(
                    of,
                    &by_ids_of_today,
                    report,
                    Vec::new(),
                ));
            }
        },
        Some(paths) => {
            let mut all: Vec<Recording> = Vec::new();
            for path in &paths {
                // One that cannot be read is no baseline; the others are.
                all.extend(Recording::open(path).ok().filter(|one| !one.header.log));
            }
            let name = own.first().map(|one| &one.header.node);
            match all.iter().position(|one| Some(&one.header.node) == name) {
                Some(at) => {
                    let one = all.swap_remove(at);
                    let of = format!(
                        "{}'s recording in {}",
                        one.header.node,
                        terminal::path(path)
                    );
                    (format!("{of} ({})", one.header.utc), vec![one])
                }
                None if all.is_empty() => {
                    return Err(BadInput::of(path, "no recording is in it").into());
                }
                None => {
                    let count = report::plural(all.len() as u64, "recording");
                    (format!("most of {count} in {}", terminal::path(path)), all)
                }
            }
        }
    };
    let mut before = Vec::with_capacity(recordings.len());
    let mut facts = Vec::with_capacity(recordings.len());
    for one in &recordings {
        let one = Judged::new(judged.catalogue, std::slice::from_ref(one));
        before.push(Expectation::of(&one.report(policy), None));
        facts.push(one.facts);
    }
    let before = match before.len() {
        1 => before.remove(0),
        _ => majority(&before),
    };
    let pseudonyms = recordings.iter().chain(own).any(|one| one.header.redacted);
    let drifted = drifted(&facts, &judged.facts, pseudonyms);
    let changes = BaselineChanges::new(of, &before, report, drifted);
    Ok(match recordings.as_slice() {
        [one] => changes.recorded_at(&one.header.utc),
        _ => changes,
    })
}

/// The recordings in a directory; `None` if the path is none.
fn directory(path: &Path) -> Option<Vec<PathBuf>> {
    let mut all = files::list_input(path, "jsonl").ok()?;
    all.extend(files::list_input(path, "zst").ok()?);
    Some(all)
}
