//! One machine, or paths: recordings, texts with outputs of tools, archives and directories of
//! them.

use std::path::{Path, PathBuf};
use std::thread::Builder;

use super::budget::{self, REPORTING};
use super::examination::{Examination, Show};
use super::given::{
    FoundOutputs, Given, probing_deadline, read_outputs, read_outputs_beside, read_text,
    read_traces, stem,
};
use super::one::Judged;
use super::recorded_input::read_logs;
use super::unusable::{BadInput, bad_usage};
use super::{baseline, log, many};
use crate::check::Catalogue;
use crate::exit::Exit;
use crate::live::{self, deadline, judging_child};
use crate::probe::nccl_log;
use crate::report::{Report, html};
use crate::source::recording::Recording;
use crate::terminal;

pub(super) fn examine(examination: &Examination<'_>, show: Show<'_>) -> anyhow::Result<Exit> {
    if !examination.with.is_empty() {
        return with_results(examination, show);
    }
    if let Some(reports) = of_outputs(examination)? {
        return show(&reports);
    }
    let given = examination.given.as_slice();
    let expected = &examination.expected;
    if examination.baseline.is_some() && (given.len() > 1 || expected.is_some()) {
        return Err(bad_usage("--baseline: for one node, not several"));
    }
    match given {
        [one] if !examination.each && expected.is_none() => examine_one(examination, one, show),
        _ => {
            let catalogue = (examination.checks.read)()?;
            let paths: Vec<&Path> = given.iter().filter_map(Given::path).collect();
            if examination.each {
                return show(&judge_each(examination, &paths, &catalogue)?);
            }
            let limits = (expected.clone(), examination.memory);
            let (policy, sink) = (examination.policy, examination.sink);
            show(&[many::files(&catalogue, &paths, limits, policy, sink)?])
        }
    }
}

/// Inputs that are judged together.
#[derive(Default)]
struct Part {
    recordings: Vec<Recording>,
    /// The names of those that cannot be read.
    silent: Vec<String>,
}

/// The reports on these paths, if one of them at least has outputs of tools: each by itself, or all
/// together.
fn of_outputs(examination: &Examination<'_>) -> anyhow::Result<Option<Vec<Report>>> {
    let sink = examination.sink;
    if let Some(recordings) = of_one_machine(examination) {
        let mut catalogue = (examination.checks.read)()?;
        log::keep_checks_of_logs(&mut catalogue, &recordings);
        let policy = examination.policy;
        return Ok(Some(vec![many::judged_within_limits(
            &catalogue,
            &recordings,
            policy,
        )]));
    }
    let read = |given: &Given| match given {
        Given::Text(path) | Given::Archive(path) | Given::Directory(path) => {
            let read = budget::file(path, || match given {
                Given::Text(path) => read_text(path, sink),
                _ => read_outputs(path, sink),
            });
            read.unwrap_or_else(|why| {
                FoundOutputs::Nothing(format!("{}: {why}", terminal::path(path)))
            })
        }
        _ => FoundOutputs::Recording,
    };
    let found = examination.given.iter().map(|given| (given, read(given)));
    let found: Vec<(&Given, FoundOutputs)> = found.collect();
    let has_outputs = |found: &FoundOutputs| matches!(found, FoundOutputs::Outputs(_));
    if !found.iter().any(|(_, found)| has_outputs(found)) {
        return Ok(None);
    }
    let mut catalogue = (examination.checks.read)()?;
    // An input that cannot be read is a silent node of its file's name, and ends no other.
    let mut parts: Vec<Part> = Vec::new();
    for (given, found) in found {
        if examination.each || parts.is_empty() {
            parts.push(Default::default());
        }
        let (Some(part), Some(path)) = (parts.last_mut(), given.path()) else {
            continue;
        };
        match found.recordings(path) {
            Ok(recordings) => part.recordings.extend(recordings),
            Err(why) => {
                sink.say(&why.0);
                part.silent.push(stem(path));
            }
        }
    }
    if parts.iter().all(|part| part.silent.is_empty()) {
        let all = parts.iter().flat_map(|part| &part.recordings);
        log::keep_checks_of_logs(&mut catalogue, all);
    }
    let policy = examination.policy;
    let report = |part: Part| {
        let (all, silent) = (part.recordings, part.silent);
        let expected = &examination.expected;
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

/// The recordings of several texts that are of one machine: files of a bundle without its
/// directory. Where they are of several, or one of them is empty, each stands for a node.
fn of_one_machine(examination: &Examination<'_>) -> Option<Vec<Recording>> {
    let given = examination.given.iter();
    let texts: Option<Vec<&Path>> = given
        .map(|given| match given {
            Given::Text(path) => Some(path.as_path()),
            _ => None,
        })
        .collect();
    let paths = texts.filter(|paths| paths.len() > 1)?;
    if examination.each || examination.expected.is_some() {
        return None;
    }
    budget::file(paths.first()?, || match read_traces(&paths) {
        Some(log) => Some(vec![log]),
        None => read_outputs_beside(&paths, examination.sink),
    })
    .ok()?
}

/// Judges one node by itself, by the deadline.
fn examine_one(
    examination: &Examination<'_>,
    given: &Given,
    show: Show<'_>,
) -> anyhow::Result<Exit> {
    let report = match given.path().filter(|_| !given.is_asked()) {
        None => {
            deadline::end_after(probing_deadline(examination.deadline) + REPORTING);
            judge_one(examination, given)?
        }
        Some(path) => {
            let report = budget::file(path, || judge_one(examination, given));
            report.map_err(|why| BadInput::of(path, why))??
        }
    };
    show(&[report])
}

/// Judges one node by itself: this machine, a tree, or a recording. The checks are read while the
/// node is.
fn judge_one(examination: &Examination<'_>, given: &Given) -> anyhow::Result<Report> {
    let read = examination.checks.read;
    // What may be mistyped is looked at before a machine is asked, which can take long.
    let chosen = match given.is_asked() && examination.checks.are_chosen {
        true => Some(read()?),
        false => None,
    };
    let (mut catalogue, recordings) = std::thread::scope(|scope| {
        let reading = match chosen {
            Some(catalogue) => Err(catalogue),
            // Without a thread it is read first.
            None => match Builder::new().spawn_scoped(scope, read) {
                Ok(reading) => Ok(reading),
                Err(_) => Err(read()?),
            },
        };
        let recordings = given.recordings(examination.sink);
        let catalogue = match reading {
            Err(catalogue) => catalogue,
            Ok(reading) => match reading.join() {
                Ok(catalogue) => catalogue?,
                Err(panic) => std::panic::resume_unwind(panic),
            },
        };
        anyhow::Ok((catalogue, recordings?))
    })?;
    if recordings.iter().all(|one| one.header.log) && examination.baseline.is_none() {
        log::keep_checks_of_logs(&mut catalogue, &recordings);
        return Ok(log::judged(&catalogue, &recordings, examination.policy));
    }
    let judged = Judged::new(&catalogue, &recordings);
    let mut report = judged.report(examination.policy);
    if let Some(path) = examination.baseline {
        let changes = baseline::changes(path, &judged, &recordings, &report, examination.policy)?;
        report.baseline = Some(changes);
    }
    if let ([node], true) = (judged.nodes.as_slice(), examination.draws) {
        report.drawn = html::of_node(&catalogue, &judged.facts, &judged.verdicts, node.id)?;
    }
    Ok(report)
}

/// Judges each recording alone.
fn judge_each(
    examination: &Examination<'_>,
    paths: &[&Path],
    catalogue: &Catalogue,
) -> anyhow::Result<Vec<Report>> {
    // As many at a time as there are processors: of ten thousand recordings few are in memory.
    let (mut last, mut reports) = (None, Vec::with_capacity(paths.len()));
    let budget = examination.memory.of_each();
    let judge = |path: &Path| {
        let one = Recording::open_within(path, budget).map_err(|error| error.to_string())?;
        Ok(many::judged(catalogue, &[one], examination.policy))
    };
    let judged = |at: usize| {
        let report = budget::file(paths[at], || judge(paths[at]));
        report.unwrap_or_else(|why| Err(format!("{}: {why}", terminal::path(paths[at]))))
    };
    many::judge_in_order(paths.len(), examination.memory, judged, |_, report| {
        // The others go on.
        reports.push(report.unwrap_or_else(|why: String| {
            last = Some(BadInput(why.clone()));
            Report::without_nodes(&why)
        }));
    });
    match last {
        Some(error) if reports.iter().all(|report| report.nodes.is_empty()) => Err(error.into()),
        _ => Ok(reports),
    }
}

/// Reports on machines, and on what ran on them.
fn with_results(examination: &Examination<'_>, show: Show<'_>) -> anyhow::Result<Exit> {
    let (with, sink) = (examination.with, examination.sink);
    let catalogue = (examination.checks.read)()?;
    let mut recordings = Vec::new();
    for given in &examination.given {
        recordings.extend(budget::read(given, sink)?);
    }
    budget::bounded(None, sink, || {
        let read = || read_logs(with, None);
        let results = judging_child::endless_input("the results", read);
        let results = results.map_err(|why| BadInput(format!("--with: {why}")))??;
        refuse_unrecognised(with, &results)?;
        let all = [recordings.as_slice(), &[results]].concat();
        let judge = || many::judged(&catalogue, &all, examination.policy);
        let report = judging_child::input("nodes and results", judge);
        show(&[report.map_err(BadInput)?])
    })
}

/// A result in which nothing is recognised was given for nothing: whoever gave it believes that it
/// was judged.
fn refuse_unrecognised(with: &[PathBuf], results: &Recording) -> Result<(), BadInput> {
    let recognised = nccl_log::recognised(results);
    let is_below = |path: &PathBuf| {
        let path = terminal::path(path);
        recognised
            .iter()
            .any(|file| Path::new(&**file).starts_with(&path))
    };
    let is_recording = matches!(with, [one] if live::log::is_recording(one));
    match with.iter().find(|path| !is_below(path)) {
        Some(path) if !is_recording || recognised.is_empty() => {
            let why = "holds no line of NCCL, no result of a benchmark, and no output of a tool \
                       that is read";
            Err(BadInput::of(path, why))
        }
        _ => Ok(()),
    }
}
