//! NCCL's version, its configuration files, and the variables that are in effect.
//!
//! The rules are those of NCCL's `src/misc/param.cc`: the environment, then the user's file, then /etc/nccl.conf; the first that sets a
//! variable wins. Which file is the user's, and what is taken off a line, depends on the version.

mod conf;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::{Ask, Probe, joined};
use crate::fact::nccl_version::{KINDS, Version};
use crate::fact::variable::{self, ValueDefect};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Subject, Why, node};
use crate::left_out::LeftOut;
use crate::measure::plan::ablation_table;
use crate::measure::plan::run::Plan;
use crate::source::named_format::NamedFormat;
use crate::source::{Errno, Question, Refusal};
use conf::Line;

/// The probe.
// Python's packages may be on a network file system.
pub const PROBE: Probe = Probe::new("nccl", run).within(Duration::from_secs(5));

/// The file of the machine.
const SYSTEM_FILE: &str = "/etc/nccl.conf";

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let libraries = ask.read(Question::call("nccl_libraries", []));
    let version = versions(facts, node, libraries);

    let environment = ask.read::<Arc<BTreeMap<String, String>>>(Question::env(&["NCCL_"]));
    let user_file = user_file(ask, &environment, &version);
    let mut layers = vec![Layer::environment(environment)];
    let mut files = Files::default();
    for file in [
        user_file,
        Fact::derived(Some(SYSTEM_FILE.into()), "NCCL's source"),
    ] {
        match file {
            Fact::Known(None, _) => {}
            Fact::Known(Some(path), _) => layers.push(files.read(ask, &path)),
            Fact::Unknown(gap) => layers.push(Layer::open(gap)),
        }
    }
    files.state(facts, node, &layers);
    variables(facts, node, &layers, &version);
    plugins(ask, facts, node);
    super::topology::file::state(ask, facts, node);
    // A recording says that nothing was measured; `rdma-doctor bench` and `ablate` put what they measured in this place.
    for question in [Plan::question(), ablation_table::question()] {
        let _ = ask.raw(&question);
    }
}

const BOUND: &str = "more than 32 in all";

/// The libraries that had room in the list; how many had none is said.
fn within_bound(
    copies: Vec<Library>,
    origin: &Origin,
    facts: &mut Facts,
    node: Id,
) -> Vec<Library> {
    let (more, within): (Vec<_>, Vec<_>) =
        copies.into_iter().partition(|one| one.left_out.is_some());
    for count in more.iter().filter_map(|one| one.left_out) {
        let said = LeftOut::counted(count, "NCCL library", BOUND).to_string();
        let said = std::iter::once(Arc::from(said));
        facts.add_texts(node, node::LEFT_OUT, said, origin);
    }
    within
}

/// States which libraries there are, and gives the version that counts.
fn versions(facts: &mut Facts, node: Id, copies: Fact<Vec<Library>>) -> Fact<Version> {
    let (copies, origin) = match copies {
        Fact::Known(copies, origin) => (within_bound(copies, &origin, facts, node), origin),
        Fact::Unknown(gap) => {
            for fact in [
                node::NCCL_BENCH_PATH,
                node::NCCL_BENCH_WHY,
                node::NCCL_VERSION,
            ] {
                facts.set(node, fact, Fact::Unknown(gap.clone()));
            }
            return Fact::Unknown(gap);
        }
    };
    let known = |value| Fact::Known(value, origin.clone());
    let listed: Arc<[Arc<str>]> = copies.iter().map(Library::to_text).collect();
    facts.know(node, node::NCCL_COPIES, listed, &origin);
    let distinct: BTreeSet<Option<&str>> = copies.iter().map(|c| c.version.as_deref()).collect();
    let agree = match distinct.len() {
        0 | 1 => known(true),
        _ if distinct.iter().flatten().count() > 1 => known(false),
        _ => Fact::Unknown(Gap::missing("the version of each NCCL library")),
    };
    facts.set(node, node::NCCL_COPIES_AGREE, agree);
    // These decide whatever else is installed; otherwise it depends on which Python the job runs.
    let decisive = |c: &&Library| {
        matches!(
            &*c.from,
            "--nccl" | "LD_PRELOAD" | "LD_LIBRARY_PATH" | "VIRTUAL_ENV"
        )
    };
    let chosen = copies.iter().find(decisive).or(match distinct.len() {
        1 => copies.first(),
        _ => None,
    });
    bench_library(facts, node, &copies, chosen, &origin);
    let wheel = |one: &Library| one.path.as_ref().is_some_and(|path| path.contains(WHEEL));
    let cuda = match chosen {
        Some(Library {
            cuda: Some(cuda), ..
        }) => Fact::Known(*cuda, origin.clone()),
        Some(one) if wheel(one) => missing(&origin, "the name of the wheel that NCCL is of"),
        None if copies.iter().any(wheel) => missing(
            &origin,
            "which of several NCCL libraries a job loads (--nccl names it)",
        ),
        _ => Fact::Known(0, origin.clone()),
    };
    facts.set(node, node::NCCL_CUDA, cuda);
    let version = match chosen {
        Some(one) => {
            let path = one.path.clone().unwrap_or_else(|| "none".into());
            facts.know(node, node::NCCL_PATH, path, &origin);
            facts.know(node, node::NCCL_FOUND, Arc::clone(&one.from), &origin);
            match &one.version {
                Some(version) => Fact::Known(Arc::clone(version), origin.clone()),
                None => missing(
                    &origin,
                    "the version of the NCCL library, which neither its name nor its package says (--nccl names it)",
                ),
            }
        }
        None if copies.is_empty() => missing(
            &origin,
            "which NCCL a job loads, as no library is found (--nccl names it),",
        ),
        None => missing(
            &origin,
            "which of several NCCL libraries a job loads (--nccl names it)",
        ),
    };
    facts.set(node, node::NCCL_VERSION, version.clone());
    version.and_then(|text| Version::parse(&text))
}

/// Where a wheel has the library.
const WHEEL: &str = "/nvidia/nccl/lib/";

/// Facts that the found libraries do not provide.
fn missing<T>(origin: &Origin, what: &'static str) -> Fact<T> {
    Fact::Unknown(Gap::new(Why::Missing(what.into()), origin.clone()))
}

/// States which library a benchmark loads. A version alone, as --nccl may name one, is none.
fn bench_library(
    facts: &mut Facts,
    node: Id,
    copies: &[Library],
    chosen: Option<&Library>,
    origin: &Origin,
) {
    let found = match chosen.or(copies.first()) {
        None => Err("which NCCL library to load (no libnccl.so.2 is found; --nccl names one)"),
        Some(one) => one.path.as_ref().map(|path| (one, path)).ok_or(
            "which NCCL library to load (--nccl names a version, and a benchmark loads a file)",
        ),
    };
    let found = found.map_err(|what| Gap::new(Why::Missing(what.into()), origin.clone()));
    let found = found.and_then(|(one, path)| {
        if let Some(why) = &one.refused {
            let why = format!(
                "{path}, found by {}, is not loaded as root: {why}; --nccl {path} loads it",
                one.from
            );
            return Err(Gap::not_said(why, origin.clone()));
        }
        let others = copies.iter().filter(|c| c.version != one.version).count();
        let by = &one.from;
        let why: Arc<str> = match (chosen, others) {
            (Some(_), _) | (None, 0) => format!("found by {by}"),
            (None, 1) => format!("found first, by {by}; another version is there"),
            (None, n) => format!("found first, by {by}; {n} of other versions are there"),
        }
        .into();
        Ok((Arc::clone(path), why))
    });
    let (path, why) = Fact::from_result(found, origin).unzip();
    facts.set(node, node::NCCL_BENCH_PATH, path);
    facts.set(node, node::NCCL_BENCH_WHY, why);
}

#[derive(Clone, Debug, Deserialize)]
struct Library {
    from: Arc<str>,
    path: Option<Arc<str>>,
    version: Option<Arc<str>>,
    /// The major release of CUDA that it was built for.
    cuda: Option<u64>,
    /// Why root does not load it: others can write it.
    refused: Option<Arc<str>>,
    /// In place of a library: how many had no room in the list.
    left_out: Option<u64>,
}

impl Library {
    fn to_text(&self) -> Arc<str> {
        let version = self.version.as_deref().unwrap_or("of unknown version");
        match &self.path {
            Some(path) => format!("{version} ({path})").into(),
            None => version.into(),
        }
    }
}

/// The user's configuration file, by the rule of the version: what `NCCL_CONF_FILE` names, else `.nccl.conf` of the home directory.
fn user_file(
    ask: &Ask<'_>,
    environment: &Fact<Arc<BTreeMap<String, String>>>,
    version: &Fact<Version>,
) -> Fact<Option<Arc<str>>> {
    let says = ask.read::<BTreeMap<String, Option<String>>>(Question::call("nccl_files", []));
    // The file's path is in this answer as it is in the question that follows.
    let (says, origin) = match says.zip(environment.clone()) {
        Fact::Known((says, _), origin) => (says, origin),
        Fact::Unknown(gap) => return Fact::Unknown(gap),
    };
    let text = |name: &str| says.get(name)?.as_deref().filter(|text| !text.is_empty());
    let in_home = |home: Option<&str>| home.map(|home| format!("{home}/.nccl.conf").into());
    let by = |version: Version| -> Option<Arc<str>> {
        match text("conf_file") {
            Some(SYSTEM_FILE) if version.reads_conf_file() => None,
            Some(file) if version.reads_conf_file() => Some(file.into()),
            _ if version.takes_home_variable() => in_home(text("home")),
            _ => in_home(text("passwd_home")),
        }
    };
    match version {
        Fact::Known(version, _) => Fact::Known(by(*version), origin),
        Fact::Unknown(gap) => {
            // Where somebody names a file, the library that a job brings is taken for one that reads it.
            let named = text("conf_file").is_some();
            let kinds = KINDS.iter().filter(|v| !named || v.reads_conf_file());
            let mut said = kinds.map(|kind| by(*kind));
            let first = said.next().flatten();
            match said.all(|other| other == first) {
                true => Fact::Known(first, origin),
                false => Fact::Unknown(gap.clone()),
            }
        }
    }
}

/// What NCCL finds its variables set to, as far as that is the same with each of its versions.
pub(super) fn settings(ask: &Ask<'_>) -> Fact<BTreeMap<String, String>> {
    let environment = ask.read::<Arc<BTreeMap<String, String>>>(Question::env(&["NCCL_"]));
    let version = Fact::Unknown(Gap::missing("the version"));
    let user = user_file(ask, &environment, &version).known().cloned();
    let mut files = Files::default();
    let mut layers = vec![Layer::environment(environment)];
    for path in [user.flatten(), Some(SYSTEM_FILE.into())].iter().flatten() {
        layers.push(files.read(ask, path));
    }
    let mut all = BTreeMap::new();
    for layer in layers.iter().rev() {
        let sets = layer.sets.iter();
        all.extend(sets.map(|(name, (_, value))| (name.clone(), value.clone())));
    }
    layers.remove(0).asked.map(|()| all)
}

/// One of the places that set variables.
struct Layer {
    origin: Arc<str>,
    asked: Fact<()>,
    /// By name: the line, and the value as it is there.
    sets: BTreeMap<String, (usize, String)>,
}

impl Layer {
    fn environment(environment: Fact<Arc<BTreeMap<String, String>>>) -> Self {
        let all = environment.known().into_iter().flat_map(|all| all.iter());
        Layer {
            origin: "the environment".into(),
            sets: all.map(|(n, v)| (n.clone(), (0, v.clone()))).collect(),
            asked: environment.map(|_| ()),
        }
    }

    fn open(gap: Gap) -> Self {
        Layer {
            origin: "the user's file".into(),
            asked: Fact::Unknown(gap),
            sets: BTreeMap::new(),
        }
    }

    fn place(&self, line: usize) -> Arc<str> {
        match line {
            0 => Arc::clone(&self.origin),
            line => format!("{} line {line}", self.origin).into(),
        }
    }
}

/// The found configuration files.
#[derive(Default)]
struct Files {
    read: Vec<Arc<str>>,
    unreadable: Vec<Arc<str>>,
    odd: Vec<Arc<str>>,
    /// The first file of which it is unknown whether it is there.
    open: Option<Gap>,
}

impl Files {
    /// Reads a file. That it cannot be opened means to NCCL that it sets nothing, whatever the reason.
    fn read(&mut self, ask: &Ask<'_>, path: &Arc<str>) -> Layer {
        let (question, text) = ask.named_file(path, NamedFormat::Nccl);
        let mut sets = BTreeMap::new();
        let asked = match text {
            Fact::Known(text, origin) => {
                self.read.push(Arc::clone(path));
                for line in conf::lines(&text) {
                    self.take(path, line, &mut sets);
                }
                Fact::Known((), origin)
            }
            Fact::Unknown(gap) => match &gap.why {
                Why::Refused(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR)) => {
                    if &**path != SYSTEM_FILE && !path.ends_with("/.nccl.conf") {
                        self.unreadable.push(format!("{path} (not there)").into());
                    }
                    Fact::Known((), Origin::Asked(question))
                }
                Why::Refused(refusal) if refusal.is_permission() => {
                    self.unreadable.push(format!("{path} ({refusal})").into());
                    Fact::Known((), Origin::Asked(question))
                }
                _ => Fact::Unknown(gap),
            },
        };
        if let Fact::Unknown(gap) = &asked {
            self.open.get_or_insert(gap.clone());
        }
        Layer {
            origin: Arc::clone(path),
            asked,
            sets,
        }
    }

    fn take(&mut self, path: &str, line: Line, sets: &mut BTreeMap<String, (usize, String)>) {
        match line {
            Line::Sets { line, name, value } => {
                if name.starts_with("NCCL_") && !name.contains(char::is_whitespace) {
                    // setenv(3) without overwriting: the first line wins too.
                    sets.entry(name).or_insert((line, value));
                } else if name.contains("NCCL_") {
                    let what = format!("{path} line {line} sets {name:?}, blanks and all");
                    self.odd.push(what.into());
                }
            }
            Line::Nothing { line, text } => {
                let text: String = text.chars().take(40).collect();
                self.odd
                    .push(format!("{path} line {line} has no \"=\": {text:?}").into());
            }
        }
    }

    fn state(self, facts: &mut Facts, node: Id, layers: &[Layer]) {
        let mut files = layers.iter().skip(1);
        let unread = || files.find_map(|l| l.asked.as_result().err()).cloned();
        let open = self.open.clone().or_else(unread);
        let how = "the files that NCCL's source names";
        let any = |list: &[Arc<str>]| match list {
            [] => Fact::derived(false, how).unless(open.clone()),
            list => Fact::derived(true, list.join("; ")),
        };
        facts.set(node, node::NCCL_FILE_UNREADABLE, any(&self.unreadable));
        facts.set(node, node::NCCL_ODD_LINE, any(&self.odd));
        // What was found stays worth naming where more may be.
        let found = |list: Vec<Arc<str>>| {
            let open = open.clone().filter(|_| list.is_empty());
            Fact::derived(list.into(), how).unless(open)
        };
        facts.set(node, node::NCCL_FILES_UNREADABLE, found(self.unreadable));
        facts.set(node, node::NCCL_ODD_LINES, found(self.odd));
        let read = Fact::derived(self.read.into(), how).unless(open);
        facts.set(node, node::NCCL_FILES, read);
    }
}

/// The variables that name plugins, by a path or by a name that the loader looks for.
const PLUGINS: [&str; 4] = [
    "NCCL_NET_PLUGIN",
    "NCCL_TUNER_PLUGIN",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_ENV_PLUGIN",
];

/// States whether the file of each plugin that is named by a path exists.
fn plugins(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    for name in PLUGINS {
        let Some(id) = facts.find(Subject::Variable, node, name) else {
            continue;
        };
        let missing = match facts.get(id, variable::VALUE) {
            Fact::Known(path, _) if path.starts_with('/') => {
                ask.answers(Question::statvfs(path)).map(|there| !there)
            }
            other => other.map(|_| false),
        };
        facts.set(id, variable::FILE_MISSING, missing);
    }
}

/// An instance of each variable that a layer sets.
fn variables(facts: &mut Facts, node: Id, layers: &[Layer], version: &Fact<Version>) {
    let open = layers.iter().find_map(|l| l.asked.as_result().err());
    let membership = Membership::known_unless(
        open.cloned(),
        Origin::derived("the environment and NCCL's configuration files"),
    );
    facts.set_members(Subject::Variable, node, membership);
    let names: BTreeSet<&String> = layers.iter().flat_map(|l| l.sets.keys()).collect();
    for name in names {
        let id = facts.instance(Subject::Variable, node, name);
        facts.derive(id, variable::NAME, name.as_str().into(), "its name");
        let mut earlier: Option<&Gap> = None;
        let mut winner: Option<(Arc<str>, &str, bool)> = None;
        let mut hidden: Vec<String> = Vec::new();
        let mut later: Option<&Gap> = None;
        for layer in layers {
            let set = layer.sets.get(name);
            match (&winner, set, &layer.asked) {
                (None, Some((line, value)), _) => {
                    winner = Some((layer.place(*line), value, *line > 0));
                }
                (Some((_, used, _)), Some((line, value)), _) if value != used => {
                    hidden.push(format!("{} has {value:?}", layer.place(*line)));
                }
                (Some(_), Some(_), _) => {}
                (None, None, Fact::Unknown(gap)) => earlier = earlier.or(Some(gap)),
                (Some(_), None, Fact::Unknown(gap)) => later = later.or(Some(gap)),
                (_, None, Fact::Known(..)) => {}
            }
        }
        let Some((place, written, of_file)) = winner else {
            continue;
        };
        // The question names every variable there is; the evidence is this one.
        let origin = match of_file {
            true => Origin::derived(&place),
            false => Origin::derived(format!("environment {name}")),
        };
        let value = match (earlier, written.strip_suffix('\r')) {
            (Some(gap), _) => Fact::Unknown(gap.clone()),
            (None, Some(stripped)) if of_file => match version {
                Fact::Known(v, _) if v.strips_carriage_return() => {
                    Fact::Known(Arc::from(stripped), origin)
                }
                Fact::Known(..) => Fact::Known(Arc::from(written), origin),
                Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
            },
            (None, _) => Fact::Known(Arc::from(written), origin),
        };
        facts.set(id, variable::MANGLED, value.clone().map(|v| mangled(&v)));
        let place = Fact::derived(place, "the first that sets it").unless(earlier.cloned());
        facts.set(id, variable::ORIGIN, place);
        facts.set(id, variable::VALUE, value);
        let overrides = !hidden.is_empty();
        let open = earlier.or(later).filter(|_| !overrides).cloned();
        let both = (overrides, joined(&hidden, "; "));
        let both = Fact::derived(both, "what NCCL reads later");
        let (overrides, overridden) = both.unless(open).unzip();
        facts.set(id, variable::OVERRIDES, overrides);
        facts.set(id, variable::OVERRIDDEN, overridden);
    }
}

fn mangled(value: &str) -> ValueDefect {
    let quote = |c: Option<char>| c.is_some_and(|c| matches!(c, '"' | '\''));
    let inner = value.trim();
    if value.ends_with('\r') {
        ValueDefect::CarriageReturn
    } else if quote(inner.chars().next()) || quote(inner.chars().next_back()) {
        ValueDefect::Quotes
    } else if inner.len() != value.len() {
        ValueDefect::Space
    } else {
        ValueDefect::No
    }
}
