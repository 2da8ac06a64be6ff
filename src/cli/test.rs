//! `rdma-doctor test`: recordings with expected verdicts beside them, for a site's CI.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, ValueEnum};

use super::input::{self, BadInput};
use super::output::StandardError;
use super::{SelectArgs, judging, output, require};
use crate::check::Catalogue;
use crate::examine::budget::ClusterMemory;
use crate::examine::many;
use crate::exit::Exit;
use crate::live::worker::Progress;
use crate::live::{clock, files, judging_child};
use crate::nodeset;
use crate::report::expectation::Expectation;
use crate::report::test_run::{self, TestCase};
use crate::report::{Policy, Report};
use crate::source::recording::Recording;
use crate::terminal;

/// What the file of an expected verdict is called, behind the recording's name.
const EXPECTED: &str = ".expect.toml";
/// What recordings are called.
const RECORDINGS: [&str; 2] = [".jsonl.zst", ".jsonl"];

/// Hold recordings against expected verdicts.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The directory: each recording in it is judged, each directory of recordings in it as one cluster; or one recording
    #[arg(value_name = "DIR", default_value = ".")]
    pub directory: PathBuf,
    /// Write the verdicts as they are now to NAME.expect.toml next to each recording
    #[arg(long)]
    pub bless: bool,
    /// The form in which differences are written
    #[arg(long, value_enum, default_value_t = TestFormat::Text)]
    pub format: TestFormat,
    /// Write them to this file, which is replaced as a whole; standard output has them as text
    #[arg(short, long, value_name = "FILE", value_parser = super::output_file())]
    pub output: Option<PathBuf>,
    /// The areas that must have been examined, in place of what is usual: ports,gpus,…; all; or none
    #[arg(long, value_name = "AREAS", value_delimiter = ',')]
    pub require: Vec<String>,
    /// Which checks are judged.
    #[command(flatten)]
    pub select: SelectArgs,
}

/// The form in which differences are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TestFormat {
    /// For people.
    Text,
    /// JUnit's XML, as Jenkins and GitLab read it.
    Junit,
    /// The Test Anything Protocol.
    Tap,
    /// Annotations of a GitHub workflow.
    Github,
    /// SARIF 2.1.0, as code scanning reads it.
    Sarif,
}

/// A recording or a cluster, and the file of its expected verdict.
#[derive(Default)]
struct Pair {
    recordings: Vec<PathBuf>,
    is_cluster: bool,
    place: PathBuf,
    expected: Option<PathBuf>,
}

/// Runs the subcommand.
///
/// # Errors
///
/// A directory that cannot be read or has no recording; an output that cannot be written.
pub fn run(args: &TestArgs) -> anyhow::Result<Exit> {
    let catalogue = input::catalogue(&args.select)?;
    let policy = Policy {
        require: require::require(&args.require)?,
        ..Policy::default()
    };
    let pairs: Vec<(String, Pair)> = pairs(&args.directory)?.into_iter().collect();
    let done = AtomicU64::new(0);
    let of = pairs.len() as u64;
    let judged = |at: usize| {
        let (name, pair) = &pairs[at];
        let begun = clock::now();
        let compare = || compared(&catalogue, &policy, name, pair, args.bless);
        let (outcome, written) = match judging_child::input(name, compare).flatten() {
            Ok((changes, written)) => (Ok(changes), written),
            Err(why) => (Err(why), None),
        };
        output::progress(Progress::Counted {
            count: done.fetch_add(1, Ordering::Relaxed) + 1,
            of,
            what: "recordings judged",
        });
        let case = TestCase {
            name: name.clone(),
            path: terminal::path(&pair.place),
            outcome,
            seconds: begun.elapsed().as_secs_f64(),
        };
        (case, written)
    };
    let (mut cases, mut written) = (Vec::new(), Vec::new());
    many::judge_in_order(
        pairs.len(),
        ClusterMemory::default(),
        judged,
        |_, (case, file)| {
            cases.push(case);
            written.extend(file);
        },
    );
    output::progress(Progress::Done);
    let write = match args.format {
        TestFormat::Text => test_run::text,
        TestFormat::Junit => test_run::junit,
        TestFormat::Tap => test_run::tap,
        TestFormat::Github => test_run::github,
        TestFormat::Sarif => test_run::sarif,
    };
    judging::put(args.output.as_deref(), false, |out| match args.bless {
        true => blessed(out, &cases, &written),
        false => write(out, &cases),
    })?;
    // A job's log says what changed, also if a tool reads the file.
    if args.output.is_some() && !args.bless {
        output::print(|out| test_run::text(out, &cases))?;
    }
    let is_good = |case: &TestCase| match args.bless {
        true => case.outcome.is_ok(),
        false => case.is_as_expected(),
    };
    Ok(match cases.iter().all(is_good) {
        true => Exit::Healthy,
        false => Exit::Warnings,
    })
}

/// What was written, and what could not be judged.
fn blessed(out: &mut dyn Write, cases: &[TestCase], written: &[PathBuf]) -> io::Result<()> {
    for file in written {
        writeln!(out, "wrote {}", terminal::path(file))?;
    }
    for case in cases {
        if let Err(why) = &case.outcome {
            writeln!(out, "{}: {why}", case.name)?;
        }
    }
    Ok(())
}

/// The recordings of a directory, each with its expected verdict, by name; of one that is named itself, that one.
fn pairs(place: &Path) -> anyhow::Result<BTreeMap<String, Pair>> {
    let unreadable = |error| BadInput::of(place, error);
    let only = match files::list_input(place, "jsonl") {
        Ok(_) => None,
        Err(_) => place.file_name().and_then(|file| recording(file.to_str()?)),
    };
    let directory = match (only, place.parent()) {
        (Some(_), Some(parent)) if parent.as_os_str().is_empty() => Path::new("."),
        (Some(_), Some(parent)) => parent,
        _ => place,
    };
    let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
    for extension in ["jsonl", "zst", "toml"] {
        let paths = files::list_input(directory, extension).map_err(unreadable)?;
        for path in paths {
            let inside = path.strip_prefix(directory).unwrap_or(&path);
            let inside = inside.to_string_lossy().into_owned();
            let folder = inside.rsplit_once('/').map(|(folder, _)| folder);
            if let Some(name) = inside.strip_suffix(EXPECTED) {
                pairs.entry(name.to_owned()).or_default().expected = Some(path);
            } else if let Some(name) = recording(&inside) {
                let pair = pairs.entry(folder.unwrap_or(name).to_owned()).or_default();
                pair.is_cluster = folder.is_some();
                pair.place = match folder {
                    Some(folder) => directory.join(folder),
                    None => path.clone(),
                };
                pair.recordings.push(path);
            }
        }
    }
    // An expectation without a recording is told, but not in a folder of other things.
    pairs.retain(|name, pair| match only {
        Some(only) => name == only,
        None => !pair.recordings.is_empty() || !name.contains('/'),
    });
    if pairs.values().all(|pair| pair.recordings.is_empty()) {
        let what = "no recording (.jsonl, .jsonl.zst) is in it";
        return Err(BadInput::of(place, what).into());
    }
    Ok(pairs)
}

/// The name of a recording by that of its file.
fn recording(file: &str) -> Option<&str> {
    RECORDINGS.iter().find_map(|end| file.strip_suffix(end))
}

type Compared = (Vec<String>, Option<PathBuf>);

/// How a verdict differs from what is expected, and the file that was written if it is blessed.
fn compared(
    catalogue: &Catalogue,
    policy: &Policy,
    name: &str,
    pair: &Pair,
    bless: bool,
) -> Result<Compared, String> {
    let expected = pair.expected.as_deref().map(expectation).transpose();
    let expected = match (expected, bless) {
        (Err(_), true) => None,
        (expected, _) => expected?.map(|expected| expected.by_ids_of(catalogue)),
    };
    if pair.recordings.is_empty() {
        return Err("no recording of this name".into());
    }
    let report = judged(catalogue, policy, pair, expected.as_ref())?;
    let changes = match &expected {
        Some(expected) => expected.changes(&report),
        None if bless => Vec::new(),
        None => return Err("no expected verdict; --bless writes it".into()),
    };
    let now = Expectation::of(&report, expected.as_ref());
    if !bless || expected.as_ref() == Some(&now) {
        return Ok((changes, None));
    }
    let name = name.rsplit('/').next().unwrap_or(name);
    let path = pair.place.with_file_name(format!("{name}{EXPECTED}"));
    let text = now.to_text().map_err(|error| error.to_string())?;
    files::replace_output(&path, text.as_bytes(), false)
        .map_err(|error| format!("{}: {error}", terminal::path(&path)))?;
    Ok((changes, Some(path)))
}

fn expectation(path: &Path) -> Result<Expectation, String> {
    let text = files::read_input(path).map_err(|error| error.to_string());
    text.and_then(|text| Expectation::read(&text))
        .map_err(|why| {
            let file = path.file_name().map(Path::new).unwrap_or(path);
            format!("{}: {why}", terminal::path(file))
        })
}

fn judged(
    catalogue: &Catalogue,
    policy: &Policy,
    pair: &Pair,
    expected: Option<&Expectation>,
) -> Result<Report, String> {
    let nodes = expected.and_then(|expected| expected.nodes.as_deref());
    let nodes = nodes.map(nodeset::expand).transpose();
    let nodes = nodes.map_err(|error| format!("`nodes`: {error}"))?;
    let unreadable = |error: &dyn std::fmt::Display| format!("cannot be read: {error}");
    match pair.recordings.as_slice() {
        [one] if !pair.is_cluster => {
            let budget = ClusterMemory::default().of_each();
            let one = Recording::open_within(one, budget).map_err(|error| unreadable(&error))?;
            Ok(many::judged(catalogue, &[one], policy))
        }
        several if !pair.is_cluster => Err(format!("{} recordings have this name", several.len())),
        all => {
            let limits = (nodes, ClusterMemory::default());
            many::files(catalogue, all, limits, policy, &StandardError)
                .map_err(|error| unreadable(&error))
        }
    }
}
