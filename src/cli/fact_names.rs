//! The facts that a command line names: `port.state`, `port`, `gpu.ecc_*`.

use std::path::{Path, PathBuf};

use super::input::bad_usage;
use crate::check::{glob_fits, nearest_name};
use crate::fact::Subject;
use crate::live::files;

/// Names of facts, or patterns of them. Without one, all are meant.
#[derive(Debug, Default)]
pub(super) struct FactNames(Vec<String>);

impl FactNames {
    /// Whether this fact is meant.
    pub(super) fn hold(&self, subject: &str, fact: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|name| fits(name, subject, fact))
    }
}

/// Takes the words of a command line apart: names of facts, and the recording, of which there is one at most.
///
/// # Errors
///
/// A word that is neither, more than one recording.
pub(super) fn taken_apart(words: &[PathBuf]) -> anyhow::Result<(FactNames, Option<PathBuf>)> {
    let mut names = Vec::new();
    let mut recording: Option<PathBuf> = None;
    for word in words {
        match word.to_str().filter(|_| !files::is_file_or_directory(word)) {
            Some(name) if is_name(name) => names.push(name.to_owned()),
            Some(name) if looks_like_name(name) => return Err(bad_usage(not_found(name))),
            _ if recording.is_some() => {
                return Err(bad_usage("one recording at most, and names of facts"));
            }
            _ => recording = Some(word.clone()),
        }
    }
    Ok((FactNames(names), recording))
}

/// The subject and the name of every fact.
fn all_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    Subject::ALL.into_iter().flat_map(|subject| {
        let facts = subject.schema().facts.iter();
        facts.map(move |fact| (subject.name(), fact.name))
    })
}

fn fits(name: &str, subject: &str, fact: &str) -> bool {
    name == subject || glob_fits(name, &format!("{subject}.{fact}"))
}

fn is_name(name: &str) -> bool {
    all_names().any(|(subject, fact)| fits(name, subject, fact))
}

/// Whether its subject is one of the facts', so that no recording is meant.
fn looks_like_name(name: &str) -> bool {
    let subject = name.split('.').next().unwrap_or(name);
    let is_subject = Subject::ALL.into_iter().any(|one| one.name() == subject);
    is_subject && Path::new(name).components().count() == 1
}

fn not_found(name: &str) -> String {
    let all: Vec<String> = all_names()
        .map(|(subject, fact)| format!("{subject}.{fact}"))
        .collect();
    match nearest_name(name, all.iter().map(String::as_str)) {
        Some(near) => format!("no fact is named `{name}`; the nearest is `{near}`"),
        None => format!("no fact is named `{name}` (rdma-doctor facts --list)"),
    }
}
