//! Parts of the node that did not respond: the failed replies of the whole recording, by device, library and directory.
//!
//! A probe reads the replies that it knows how to read; a sick adapter is the one whose reads hang, whichever probe asked. So this looks at the
//! replies themselves, and at how the probes ended.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use foldhash::fast::FixedState;
use serde_json::Value;

use super::nvml;
use crate::fact::respondent::{self, RespondentKind};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Subject, Why, device, gpu, node};
use crate::source::question::Call;
use crate::source::recording::Recording;
use crate::source::{Answer, Errno, Question, Refusal, Reply, ordinary_reply};

/// A part of the node: what it is and how it is called.
type RespondentName = (RespondentKind, Arc<str>);

/// The counts of a part.
#[derive(Default)]
struct Tally {
    asked: u64,
    failed: u64,
    of_asker: u64,
}

impl Tally {
    fn is_mostly_failed(&self) -> bool {
        self.failed * 2 > self.asked
    }
}

/// A reply that says that something failed.
struct Failure<'r> {
    question: &'r Question,
    parts: Vec<RespondentName>,
    reason: String,
    is_of_asker: bool,
    is_stuck: bool,
}

/// States the respondents of a node, after all its probes.
pub(super) fn state(recording: &Recording, facts: &mut Facts, of: Id, ended: &[(&str, String)]) {
    let origin = Origin::derived("all replies");
    facts.set_members(Subject::Respondent, of, Membership::Known(origin.clone()));
    let (mut withheld, mut refused) = (0u64, Vec::new());
    let is_copied = recording.header.tree;
    // What people copied or pasted may lack what the machine said.
    let is_own = !is_copied && facts.known(of, node::PASTED) != Some(true);
    let (unread, listed) = match is_own {
        true => (unreadable(facts, of), listed_by_kernel(recording)),
        false => Default::default(),
    };
    let gone = match is_copied {
        true => Vec::new(),
        false => vanished(recording),
    };
    for (question, reply) in recording.replies() {
        withheld += u64::from(match &reply.said {
            Err(refusal) => refusal.is_permission(),
            Ok(Answer::Value(value)) => nvml::says(value, "NoPermission"),
            Ok(_) => false,
        });
        let reason = match failure(question, reply) {
            // A device that left is reported as a whole.
            None if is_gone(&listed, question, reply) && !is_below(question, &gone) => {
                Some(GONE.into())
            }
            None if is_own => misread(question, reply, &unread),
            failed => failed,
        };
        if let Some(reason) = reason {
            refused.push((question, reply, reason));
        }
    }
    facts.know(of, node::WITHHELD, withheld, &origin);
    let earlier = left_by_earlier_runs(recording);
    for (place, hangs) in earlier {
        let id = instance(facts, of, &(RespondentKind::Files, place));
        let found = RespondentTally {
            asked: 1,
            failed: 1,
            mostly: true,
            reason: hangs.clone(),
            hangs,
        };
        set(facts, id, &origin, RespondentKind::Files, &found);
    }
    if !refused.is_empty() || !gone.is_empty() {
        let places = RespondentIndex::of(facts, of);
        let failed = |(question, reply, reason): (_, &Reply, _)| Failure {
            question,
            parts: match &reply.said {
                Err(Refusal::Stuck(place)) => vec![(RespondentKind::Files, Arc::clone(place))],
                _ => places.parts(question),
            },
            is_stuck: matches!(&reply.said, Err(Refusal::Stuck(_))),
            reason,
            is_of_asker: reply.said.as_ref().is_err_and(is_of_asker),
        };
        let failures = refused.into_iter().map(failed).collect();
        for (part, found) in attribute(recording, &places, failures) {
            let id = instance(facts, of, &part);
            set(facts, id, &origin, part.0, &found);
        }
        for (path, asked) in gone {
            let Some(part) = places.below(&path).into_iter().next() else {
                continue;
            };
            let id = instance(facts, of, &part);
            let found = RespondentTally {
                asked,
                failed: asked,
                mostly: true,
                hangs: "none".into(),
                reason: GONE.into(),
            };
            set(facts, id, &origin, part.0, &found);
        }
    }
    for (probe, how) in ended {
        let id = facts.instance(Subject::Respondent, of, &format!("probe {probe}"));
        let found = RespondentTally {
            asked: 1,
            failed: 1,
            mostly: false,
            hangs: "none".into(),
            reason: how.clone(),
        };
        set(facts, id, &origin, RespondentKind::Probe, &found);
    }
}

/// How a name is missing that was there.
const GONE: &str = "no such file or directory (ENOENT), though it had been listed";

/// How a reply says that what was asked failed; `None` if it does not.
fn failure(question: &Question, reply: &Reply) -> Option<String> {
    match &reply.said {
        Err(refusal) => refusal.is_damage(question).then(|| refusal.to_string()),
        Ok(Answer::Value(value)) => nvml_failure(question, value),
        Ok(_) => None,
    }
}

/// How an answer is none that the question can have, or none of which anything was understood; `None` if it was.
fn misread(
    question: &Question,
    reply: &Reply,
    unread: &HashMap<Question, String, FixedState>,
) -> Option<String> {
    let answer = reply.said.as_ref().ok()?;
    let malformed = ordinary_reply::malformed(question, answer);
    let malformed = malformed.map(|what| Why::NotUnderstood(what.into()).to_string());
    malformed.or_else(|| unread.get(question).cloned())
}

/// The questions of whose replies no fact is known although one was looked for, with the first gap
/// that they left. What a list lacks
/// is no failure of it.
fn unreadable(facts: &Facts, node: Id) -> HashMap<Question, String, FixedState> {
    let mut unread: HashMap<Question, String, FixedState> = HashMap::default();
    for fact in facts.stated(node) {
        if let Fact::Unknown(Gap { why, origin }) = fact
            && let (Why::NotUnderstood(_), Origin::Asked(question)) = (why, origin)
            && !matches!(question, Question::List(_))
            && !ordinary_reply::may_be_unreadable(question)
        {
            let how = || why.to_string();
            unread.entry(question.clone()).or_insert_with(how);
        }
    }
    if !unread.is_empty() {
        for fact in facts.stated(node) {
            if let Fact::Known(_, Origin::Asked(question)) = fact {
                unread.remove(question);
            }
        }
    }
    unread
}

/// The names of directories by their paths, as often as each was listed.
type Listings<'r> = HashMap<&'r str, Vec<&'r [Arc<str>]>, FixedState>;

/// What the kernel's directories list, each by its path. Processes come and go, and a link that somebody made may lead nowhere: what
/// `/proc` and `/dev` list themselves is left out.
fn listed_by_kernel(recording: &Recording) -> Listings<'_> {
    let mut listed = Listings::default();
    for (question, reply) in recording.replies() {
        if let (Question::List(dir), Ok(Answer::Names(names))) = (question, &reply.said)
            && ["/sys/", "/proc/", "/dev/"]
                .iter()
                .any(|root| dir.starts_with(root))
        {
            listed.entry(dir).or_default().push(names);
        }
    }
    listed
}

/// Whether the reply says that there is no such name, though its directory was listed with it.
fn is_gone(listed: &Listings<'_>, question: &Question, reply: &Reply) -> bool {
    reply.said == Err(Errno::ENOENT.into())
        && question.path().is_some_and(|path| {
            let (dir, name) = path.rsplit_once('/').unwrap_or_default();
            let mut names = listed.get(dir).into_iter().flatten().copied().flatten();
            names.any(|listed| **listed == *name)
        })
}

/// Whether the question is put to one of these devices.
fn is_below(question: &Question, devices: &[(String, u64)]) -> bool {
    let path = question.path().unwrap_or_default();
    let is_of = |device: &str| {
        let rest = path.strip_prefix(device);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    devices.iter().any(|(device, _)| is_of(device))
}

/// Whether the asking process failed, by a crash or for want of files or memory: that tells nothing of what it asked.
fn is_of_asker(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Crash(_) | Refusal::Errno(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)
    )
}

/// So many questions that failed are named of a respondent.
const NAMED: u64 = 4;

/// The directories whose entries are devices.
const CLASSES: [&str; 3] = [
    "/sys/class/infiniband",
    "/sys/bus/pci/devices",
    "/sys/class/net",
];

/// The directory of devices that a path is in, and the rest of the path.
fn class_of(path: &str) -> Option<(&'static str, &str)> {
    CLASSES
        .iter()
        .find_map(|class| Some((*class, path.strip_prefix(class)?)))
}

/// Devices that were listed and then answered none of two or more questions: they left meanwhile. The path of each, and how many questions it was asked.
fn vanished(recording: &Recording) -> Vec<(String, u64)> {
    let mut asked: HashMap<(&str, &str), Option<u64>, FixedState> = HashMap::default();
    let mut listed: HashSet<(&str, &str), FixedState> = HashSet::default();
    for (question, reply) in recording.replies() {
        let Some((class, rest)) = question.path().and_then(class_of) else {
            continue;
        };
        match (rest.strip_prefix('/'), &reply.said) {
            (None, Ok(Answer::Names(names))) if rest.is_empty() => {
                listed.extend(names.iter().map(|name| (class, &**name)));
            }
            (None, _) => {}
            (Some(below), said) => {
                let name = below.split_once('/').map_or(below, |(name, _)| name);
                let count = asked.entry((class, name)).or_insert(Some(0));
                *count = match said {
                    Err(Refusal::Errno(Errno::ENOENT)) => count.map(|n| n + 1),
                    _ => None,
                };
            }
        }
    }
    let gone = |((class, name), count): (&(&str, &str), &Option<u64>)| {
        let count = (*count).filter(|n| *n > 1 && listed.contains(&(*class, *name)))?;
        Some(([*class, "/", *name].concat(), count))
    };
    let mut gone: Vec<(String, u64)> = asked.iter().filter_map(gone).collect();
    gone.sort_unstable();
    gone
}

/// The counts of a respondent.
struct RespondentTally {
    asked: u64,
    failed: u64,
    mostly: bool,
    /// Why nothing there is asked again; "none" where that is not so.
    hangs: String,
    reason: String,
}

/// The places where processes of earlier runs hang, and how many since when.
fn left_by_earlier_runs(recording: &Recording) -> Vec<(Arc<str>, String)> {
    let mut found = Vec::new();
    for (question, reply) in recording.replies() {
        let (Question::Call(call), Ok(Answer::Value(value))) = (question, &reply.said) else {
            continue;
        };
        let hanging = value.get("hanging").and_then(Value::as_array);
        for one in hanging
            .filter(|_| &*call.name == "earlier_run")
            .into_iter()
            .flatten()
        {
            let text = |name: &str| one.get(name).and_then(Value::as_str);
            let processes = one.get("processes").and_then(Value::as_u64).unwrap_or(1);
            let place = text("place").unwrap_or("an unknown place");
            let (noun, verb) = match processes {
                1 => ("process", "hangs"),
                _ => ("processes", "hang"),
            };
            let since = text("since").unwrap_or("an unknown time");
            let said =
                format!("{processes} {noun} of an earlier run {verb} in {place} since {since}");
            found.push((place.into(), said));
        }
    }
    found
}

fn set(facts: &mut Facts, id: Id, origin: &Origin, kind: RespondentKind, found: &RespondentTally) {
    facts.know(id, respondent::KIND, kind, origin);
    facts.know(id, respondent::ASKED, found.asked, origin);
    facts.know(id, respondent::FAILED, found.failed, origin);
    facts.know(id, respondent::MOSTLY_FAILED, found.mostly, origin);
    facts.know(id, respondent::HANGS, found.hangs.as_str().into(), origin);
    let reason = found.reason.as_str().into();
    facts.know(id, respondent::REASON, reason, origin);
}

/// The respondent, related to the device, port or GPU that it is.
fn instance(facts: &mut Facts, node: Id, (kind, name): &RespondentName) -> Id {
    let id = facts.instance(Subject::Respondent, node, name);
    let subject = match kind {
        RespondentKind::Device => Subject::Device,
        RespondentKind::Port => Subject::Port,
        RespondentKind::Gpu => Subject::Gpu,
        RespondentKind::Function => Subject::Function,
        RespondentKind::Netdev => Subject::Netdev,
        _ => return id,
    };
    let plain = name.strip_prefix("GPU ").unwrap_or(name);
    let of = facts
        .below(node, subject)
        .find(|of| facts.name(*of) == plain);
    if let Some(of) = of {
        facts.relate(id, of);
    }
    id
}

/// Each failure counts for one part: the widest of which most questions failed, else the device that it is about.
fn attribute(
    recording: &Recording,
    places: &RespondentIndex,
    mut failures: Vec<Failure<'_>>,
) -> BTreeMap<RespondentName, RespondentTally> {
    if failures.is_empty() {
        return BTreeMap::new();
    }
    let damaged: BTreeSet<&RespondentName> = failures.iter().flat_map(|f| &f.parts).collect();
    let mut tallies: BTreeMap<RespondentName, Tally> = BTreeMap::new();
    for (question, _) in recording.replies() {
        for part in places.parts(question) {
            if damaged.contains(&part) {
                tallies.entry(part).or_default().asked += 1;
            }
        }
    }
    for failure in &failures {
        for part in &failure.parts {
            let tally = tallies.entry(part.clone()).or_default();
            tally.failed += 1;
            tally.of_asker += u64::from(failure.is_of_asker);
        }
    }
    failures.sort_by(|a, b| a.question.cmp(b.question));
    let mut found: BTreeMap<RespondentName, RespondentTally> = BTreeMap::new();
    for failure in failures {
        let tally = |part: &RespondentName| tallies.get(part);
        let mut chosen: Option<&RespondentName> = None;
        for part in &failure.parts {
            let is_wider = chosen.and_then(tally).map(|t| t.failed) < tally(part).map(|t| t.failed);
            if is_wider && tally(part).is_some_and(Tally::is_mostly_failed) {
                chosen = Some(part);
            }
        }
        let whole = failure
            .parts
            .iter()
            .find(|part| part.0 != RespondentKind::Port);
        let Some(part) = chosen.or(whole) else {
            continue;
        };
        let tally = &tallies[part];
        let entry = found
            .entry(part.clone())
            .or_insert_with(|| RespondentTally {
                asked: tally.asked,
                failed: 0,
                hangs: match failure.is_stuck {
                    true => format!("a process hangs in {}, and cannot be killed", part.1),
                    false => "none".into(),
                },
                mostly: (tally.failed - tally.of_asker) * 2 > tally.asked,
                reason: format!("{}: {}", failure.reason, failure.question),
            });
        // What is lost is named, as far as there is room.
        if (1..NAMED).contains(&entry.failed) {
            entry.reason.push_str(&format!("; {}", failure.question));
        }
        entry.failed += 1;
    }
    found
}

/// The first failure that a reply of NVML holds: its function and the library's words.
fn nvml_failure(question: &Question, value: &Value) -> Option<String> {
    let Question::Call(call) = question else {
        return None;
    };
    if !call.name.starts_with("nvml_") {
        return None;
    }
    fn first<'v>(value: &'v Value, function: &'v str) -> Option<(&'v str, &'v str)> {
        match value {
            Value::Object(members) => {
                members
                    .iter()
                    .find_map(|(name, value)| match (name.as_str(), value.as_str()) {
                        ("error", Some(error)) if nvml::is_damage(error) => Some((function, error)),
                        _ => first(
                            value,
                            if name.starts_with("nvml") {
                                name
                            } else {
                                function
                            },
                        ),
                    })
            }
            Value::Array(items) => items.iter().find_map(|item| first(item, function)),
            _ => None,
        }
    }
    let (function, error) = first(value, "NVML")?;
    let mut said = nvml::words(error).to_string();
    // A write to a String does not fail.
    let _ = write!(said, " from {function}");
    Some(said)
}

/// Resolves the paths, numbers and names in questions to parts of the node.
struct RespondentIndex {
    /// PCI address to the RDMA device or GPU of the function.
    functions: HashMap<Arc<str>, RespondentName>,
    /// NVML's index to the GPU.
    indexes: HashMap<u64, RespondentName>,
}

impl RespondentIndex {
    fn of(facts: &Facts, node: Id) -> Self {
        let mut functions = HashMap::new();
        let mut indexes = HashMap::new();
        for id in facts.below(node, Subject::Gpu) {
            let name = facts.name(id);
            let part: RespondentName = (RespondentKind::Gpu, format!("GPU {name}").into());
            if let Some(index) = facts.known(id, gpu::INDEX) {
                indexes.insert(index, part.clone());
            }
            functions.insert(name.into(), part);
        }
        for id in facts.below(node, Subject::Device) {
            if let Some(pci) = facts.known(id, device::PCI) {
                functions.insert(pci, (RespondentKind::Device, facts.shared_name(id)));
            }
        }
        RespondentIndex { functions, indexes }
    }

    /// The parts that a question is put to, the narrowest first.
    fn parts(&self, question: &Question) -> Vec<RespondentName> {
        match question {
            Question::Call(call) => self.called(call),
            Question::Netlink(call) => {
                vec![(
                    RespondentKind::Kernel,
                    format!("netlink {}", call.name).into(),
                )]
            }
            Question::Run(argv) => {
                let command = argv.first().map_or("", |word| &**word);
                vec![(RespondentKind::Command, format!("command {command}").into())]
            }
            Question::Bench(call) => {
                vec![(
                    RespondentKind::Measurement,
                    format!("measurement {}", call.name).into(),
                )]
            }
            Question::Env(_) => vec![(RespondentKind::Kernel, "environment".into())],
            Question::Wait(_) => vec![(RespondentKind::Kernel, "timer".into())],
            _ => self.below(question.path().unwrap_or_default()),
        }
    }

    fn called(&self, call: &Call) -> Vec<RespondentName> {
        let name = &*call.name;
        let library = |name: &str| (RespondentKind::Library, Arc::from(name));
        if name.starts_with("ibv_") || name == "rehearse_port" {
            let device = call
                .text("device")
                .map(|name| (RespondentKind::Device, name.into()));
            return device.into_iter().chain([library("libibverbs")]).collect();
        }
        if name.starts_with("nvml_") {
            let gpu = call
                .number("index")
                .map(|index| match self.indexes.get(&index) {
                    Some(part) => part.clone(),
                    None => (
                        RespondentKind::Gpu,
                        format!("GPU with NVML's index {index}").into(),
                    ),
                });
            return gpu.into_iter().chain([library("NVML")]).collect();
        }
        if name.starts_with("cu") && name[2..].starts_with(|c: char| c.is_ascii_uppercase()) {
            return vec![library("CUDA")];
        }
        if let Some(netdev) = call.text("netdev") {
            return vec![(RespondentKind::Netdev, netdev.into())];
        }
        let name = match name {
            "kernel_log" => "kernel log",
            name => name,
        };
        vec![(RespondentKind::Kernel, name.into())]
    }

    fn below(&self, path: &str) -> Vec<RespondentName> {
        let files = |path: &str| (RespondentKind::Files, Arc::from(path));
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match parts.as_slice() {
            ["sys", "class", "infiniband", device, rest @ ..] => {
                let port = match rest {
                    ["ports", number, ..] => {
                        Some((RespondentKind::Port, format!("{device}/{number}").into()))
                    }
                    _ => None,
                };
                let device = [
                    (RespondentKind::Device, Arc::from(*device)),
                    files("/sys/class/infiniband"),
                ];
                port.into_iter().chain(device).collect()
            }
            ["sys", "class", "net", netdev, ..] => {
                vec![
                    (RespondentKind::Netdev, (*netdev).into()),
                    files("/sys/class/net"),
                ]
            }
            ["sys", "bus", "pci", "devices", function, ..] => {
                let part = self.functions.get(*function).cloned();
                let part = part.unwrap_or_else(|| (RespondentKind::Function, (*function).into()));
                vec![part, files("/sys/bus/pci")]
            }
            ["sys", kind, name, ..] => vec![files(&format!("/sys/{kind}/{name}"))],
            ["proc", ..] => vec![files("/proc")],
            [top, ..] => vec![files(&format!("/{top}"))],
            [] => Vec::new(),
        }
    }
}
