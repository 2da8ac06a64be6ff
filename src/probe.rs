//! Probes: what to ask, and how to read the replies. One file a subject.
//!
//! The same function runs twice: in a child process over the machine, if its questions are recorded, and in the parent over the
//! recording, if its facts are kept. So it asks only through [`Ask`], and every time in the same order.

pub mod amd_gpu;
pub mod boot_setting;
pub mod chardev;
pub mod clock;
pub mod collective;
pub mod counter;
pub mod cuda;
pub mod device;
pub mod driver;
pub mod ethtool;
pub mod firewall;
pub mod gid;
pub mod gpu;
pub mod host;
pub mod interface;
pub mod interrupt;
pub mod job;
pub mod kernel_log;
pub mod memory;
pub mod module;
pub mod name;
pub mod nccl;
pub mod nccl_log;
pub mod netdev;
pub mod nldev;
pub mod nvml;
pub mod obstacle;
pub mod outputs;
pub mod p2p;
pub mod pairs;
pub mod pci;
pub mod pcie;
pub mod portinfo;
pub mod process;
pub mod qos;
pub mod rail;
pub mod ranks;
pub mod rehearsal;
mod respondent;
pub mod room;
mod routing;
pub mod service;
pub mod setting;
pub mod storage;
pub mod together;
pub mod topology;
mod trace;
pub mod tuning;
pub mod verbs;

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::fact::node as of_node;
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Presence, Subject, Why};
use crate::left_out::LeftOut;
use crate::source::named_format::NamedFormat;
use crate::source::netlink::{self, Message};
use crate::source::question::Argument;
use crate::source::recording::Recording;
use crate::source::{Answer, Errno, Micros, Question, Refusal, Reply, Source};

/// A probe.
pub struct Probe {
    /// Its name: in recordings, in `--skip`, and in what a killed one leaves unknown.
    pub name: &'static str,
    /// How long its process may be silent, a sample's pause not counted: a hung question is killed, a busy machine is not.
    pub budget: Duration,
    /// Asks, and states facts about the node.
    pub run: fn(&Ask<'_>, &mut Facts, Id),
}

impl Probe {
    const fn new(name: &'static str, run: fn(&Ask<'_>, &mut Facts, Id)) -> Self {
        Probe {
            name,
            budget: BUDGET,
            run,
        }
    }

    /// The same with a budget of its own.
    const fn within(self, budget: Duration) -> Self {
        Probe { budget, ..self }
    }
}

/// The budget of a probe that states no other.
pub const BUDGET: Duration = Duration::from_secs(2);

/// All probes. Later ones find the instances that earlier ones made.
pub static PROBES: &[Probe] = &[
    host::PROBE,
    module::PROBE,
    pci::PROBE,
    gpu::PROBE,
    amd_gpu::PROBE,
    pcie::PROBE,
    device::PROBE,
    gid::PROBE,
    counter::PROBE,
    netdev::PROBE,
    interface::PROBE,
    chardev::PROBE,
    verbs::PROBE,
    nldev::PROBE,
    nvml::PROBE,
    cuda::PROBE,
    ethtool::PROBE,
    portinfo::PROBE,
    qos::PROBE,
    rail::PROBE,
    obstacle::PROBE,
    boot_setting::PROBE,
    obstacle::trial::PROBE,
    firewall::PROBE,
    driver::PROBE,
    service::PROBE,
    tuning::PROBE,
    room::PROBE,
    interrupt::PROBE,
    kernel_log::PROBE,
    process::PROBE,
    memory::PROBE,
    job::PROBE,
    clock::PROBE,
    nccl::PROBE,
    setting::PROBE,
    name::PROBE,
    storage::PROBE,
    topology::PROBE,
    rehearsal::PROBE,
];

/// Whether a probe tries something, and does not only look.
pub fn tries(probe: &Probe) -> bool {
    [rehearsal::PROBE.name, obstacle::trial::PROBE.name].contains(&probe.name)
}

/// The probes of a running job, which is asked for by itself.
pub static OF_JOBS: &[Probe] = &[ranks::PROBE];

/// The probes of benchmarks, and of what nodes find out of each other: they run over recordings only, after all others, since a benchmark is asked for
/// and measured by itself.
pub static BENCHES: &[Probe] = &[p2p::PROBE, collective::PROBE, pairs::PROBE, together::PROBE];

/// The readers of what people kept of a machine, after all that asks the machine itself.
pub static OUTPUTS: &[Probe] = &[outputs::PROBE];

/// States what a recording reports about its node, in `facts`. The probes are asked again, of the recording.
///
/// A probe that panics while it reads the replies makes its facts unknown and names the bug; it does not end the run.
pub fn establish(recording: &Recording, facts: &mut Facts) -> Id {
    // A recording of a machine is none of a log; if a log is given too, its runs are stated all the same.
    let origin = Origin::derived("no log was given");
    for subject in [
        Subject::Benchmark,
        Subject::Run,
        Subject::Trace,
        Subject::LiveJob,
    ] {
        facts.set_members(subject, Facts::CLUSTER, Membership::Known(origin.clone()));
    }
    state_node(recording, facts)
}

/// States what a recording reports about its node, and nothing of logs.
fn state_node(recording: &Recording, facts: &mut Facts) -> Id {
    let node = facts.new_node(match recording.header.node.as_str() {
        name if name.trim().is_empty() => "node",
        name => name,
    });
    let kept = recording.times_asked(outputs::PROBE.name, &outputs::question()) > 0;
    let how = match kept {
        true => "outputs of tools are here",
        false => "a recording of the node is here",
    };
    facts.derive(node, of_node::PASTED, kept, how);
    if !kept {
        // A node does not sweep its fabric, and tests nothing by these tools: only their outputs
        // show it.
        let of_outputs = [
            Subject::FabricLink,
            Subject::Switch,
            Subject::FabricHost,
            Subject::IbFabric,
            Subject::ShownOutput,
            Subject::ToolResult,
        ];
        for subject in of_outputs {
            facts.set_members(subject, node, Membership::Known(Origin::derived(how)));
        }
    }
    facts.derive(
        node,
        of_node::WHOLE,
        recording.is_complete(),
        "its last line",
    );
    facts.derive(node, of_node::TREE, recording.header.tree, "its first line");
    facts.set(node, of_node::PSEUDONYMS, pseudonyms(recording));
    let mut ended: Vec<(&str, String)> = Vec::new();
    for probe in PROBES.iter().chain(BENCHES).chain(OUTPUTS) {
        let source = recording.of(probe.name);
        let ask = Ask::new(&source);
        if let Err(panic) = crate::catch_panic::catch(std::panic::AssertUnwindSafe(|| {
            (probe.run)(&ask, facts, node)
        })) {
            let how = format!("a bug in probe {}: {panic}", probe.name);
            facts.probe_failed(node, probe.name, how);
            ended.push((probe.name, format!("it panicked: {panic}")));
        }
        if let Some(end) = recording.ended(probe.name) {
            let how = format!("probe {}: {}", probe.name, end.how);
            facts.probe_failed(node, probe.name, how);
            ended.push((probe.name, end.how.to_string()));
        }
    }
    respondent::state(recording, facts, node, &ended);
    node
}

/// What names and addresses of a recording are.
fn pseudonyms(recording: &Recording) -> Fact<Arc<str>> {
    let header = &recording.header;
    match (header.redacted, &header.pseudonyms) {
        (false, _) => Fact::derived("none".into(), "not redacted"),
        (true, Some(mark)) => Fact::derived(mark.as_str().into(), "redacted under this key"),
        (true, None) => Fact::Unknown(Gap::new(
            Why::Missing("the key of the redaction".into()),
            Origin::derived("redacted under a key of its own"),
        )),
    }
}

/// A directory's names.
type Names = Fact<Arc<[Arc<str>]>>;

/// Asks a source, and turns replies into facts that name their origin.
pub struct Ask<'s> {
    source: &'s dyn Source,
    listed: RefCell<HashMap<Arc<str>, Names>>,
}

impl<'s> Ask<'s> {
    /// Asks this source.
    pub fn new(source: &'s dyn Source) -> Self {
        Ask {
            source,
            listed: RefCell::default(),
        }
    }

    /// The reply as it came.
    pub fn raw(&self, question: &Question) -> Reply {
        self.source.ask(question)
    }

    /// The part of an answer that `of` takes, and when it came; an answer without it is no `kind`.
    fn answer_at<T>(
        &self,
        question: &Question,
        kind: &str,
        of: impl FnOnce(Answer) -> Option<T>,
    ) -> (Micros, Result<T, Gap>) {
        let reply = self.source.ask(question);
        let part = match reply.said {
            Ok(answer) => of(answer)
                .ok_or_else(|| Gap::not_understood(question, format!("the reply is not {kind}"))),
            Err(refusal) => Err(Gap::refused(question, refusal)),
        };
        (reply.at, part)
    }

    /// A question's answer as it came, as text, and when it came.
    fn text_at(&self, question: &Question) -> (Micros, Result<Arc<str>, Gap>) {
        self.answer_at(question, "text", |answer| match answer {
            Answer::Text(text) => Some(text),
            _ => None,
        })
    }

    /// A question's answer as text, without the white space at its end.
    fn text_of(&self, question: Question) -> Fact<Arc<str>> {
        self.parsed(question, |text| {
            let trimmed = trimmed(text);
            Ok(match trimmed.len() == text.len() {
                true => Arc::clone(text),
                false => trimmed.into(),
            })
        })
    }

    /// A question's answer, read from its text.
    fn parsed<T>(
        &self,
        question: Question,
        parser: impl FnOnce(&Arc<str>) -> Result<T, String>,
    ) -> Fact<T> {
        match self.text_at(&question).1 {
            Ok(text) => Fact::Known(text, Origin::Asked(question)).and_then(|text| parser(&text)),
            Err(gap) => Fact::Unknown(gap),
        }
    }

    /// A file's text, without the white space at its end.
    pub fn text(&self, path: impl Into<Arc<str>>) -> Fact<Arc<str>> {
        self.text_of(Question::read(path))
    }

    /// A file's text, read by a parser.
    pub fn parse<T>(
        &self,
        path: impl Into<Arc<str>>,
        parser: impl FnOnce(&str) -> Result<T, String>,
    ) -> Fact<T> {
        self.parsed(Question::read(path), |text| parser(trimmed(text)))
    }

    /// A command's output, read by a parser.
    pub fn command<T>(
        &self,
        argv: &[&str],
        parser: impl FnOnce(&str) -> Result<T, String>,
    ) -> Fact<T> {
        self.parsed(Question::run(argv), |text| parser(trimmed(text)))
    }

    /// A command's output, read by a parser; "none" where there is no such command.
    pub fn command_if_any(
        &self,
        argv: &[&str],
        parser: impl FnOnce(&str) -> Result<Arc<str>, String>,
    ) -> Fact<Arc<str>> {
        match self.parsed(Question::run(argv), |text| parser(text)) {
            Fact::Unknown(gap) if gap.why == Why::Refused(Refusal::CommandMissing) => {
                Fact::Known("none".into(), gap.origin)
            }
            fact => fact,
        }
    }

    /// A directory's names. A directory is listed once, however often it is asked for.
    pub fn names(&self, path: impl Into<Arc<str>>) -> Fact<Arc<[Arc<str>]>> {
        let path = path.into();
        if let Some(known) = self.listed.borrow().get(&path) {
            return known.clone();
        }
        let question = Question::List(Arc::clone(&path));
        let (_, names) = self.answer_at(&question, "a list of names", |answer| match answer {
            Answer::Names(names) => Some(names),
            _ => None,
        });
        let fact = Fact::from_result(names, &Origin::Asked(question));
        self.listed.borrow_mut().insert(path, fact.clone());
        fact
    }

    /// The last component of a link's target: a driver's name, a device's address.
    pub fn link_name(&self, path: impl Into<Arc<str>>) -> Presence<Arc<str>> {
        let question = Question::link(path);
        let fact = self.text_of(question.clone());
        self.presence(
            &question,
            fact.map(|target| target.rsplit('/').next().unwrap_or("").into()),
        )
    }

    /// A link's whole target.
    pub fn link_target(&self, path: impl Into<Arc<str>>) -> Fact<Arc<str>> {
        self.text_of(Question::link(path))
    }

    /// Whether something exists, if its absence needs no listing of its directory.
    pub fn answers(&self, question: Question) -> Fact<bool> {
        match self.raw(&question).said {
            Ok(_) => Fact::Known(true, Origin::Asked(question)),
            Err(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR)) => {
                Fact::Known(false, Origin::Asked(question))
            }
            Err(refusal) => Fact::Unknown(Gap::refused(&question, refusal)),
        }
    }

    /// A file's text, or that there is no such file.
    pub fn text_if_any(&self, path: impl Into<Arc<str>>) -> Presence<Arc<str>> {
        let question = Question::read(path);
        let fact = self.text_of(question.clone());
        self.presence(&question, fact)
    }

    /// What is taken of a file that the environment or another file names, and the question that says it.
    fn named_file(&self, path: &Arc<str>, format: NamedFormat) -> (Question, Fact<Arc<str>>) {
        let args = [
            ("path", Argument::Text(Arc::clone(path))),
            ("format", format.name().into()),
        ];
        let question = Question::call("named_file", args);
        match self.text_at(&question).1 {
            Ok(text) => (question.clone(), Fact::Known(text, Origin::Asked(question))),
            // A recording of an earlier version has the whole file.
            Err(gap) if gap.why == Why::Refused(Refusal::NotRecorded) => {
                let question = Question::read(Arc::clone(path));
                let text = self.text_at(&question).1;
                let fact = Fact::from_result(text, &Origin::Asked(question.clone()));
                (question, fact)
            }
            Err(gap) => (question, Fact::Unknown(gap)),
        }
    }

    /// A directory's names, or that there is no such directory.
    pub fn names_if_any(&self, path: impl Into<Arc<str>>) -> Presence<Arc<[Arc<str>]>> {
        let path = path.into();
        let fact = self.names(Arc::clone(&path));
        self.presence(&Question::List(path), fact)
    }

    /// The names in a directory, and whether these are all: without its listing, those of which something was shown.
    pub fn members(&self, path: impl Into<Arc<str>>) -> (Arc<[Arc<str>]>, Membership) {
        let path = path.into();
        let (names, membership) = self.names_if_any(Arc::clone(&path)).members();
        let is_listed = match &membership {
            Membership::Unknown(gap) => gap.why != Why::Refused(Refusal::NotRecorded),
            Membership::Known(_) => true,
        };
        match is_listed {
            true => (names, membership),
            false => (self.source.shown_below(&path).into(), membership),
        }
    }

    /// Whether a directory's listing has the path's last name. An absent directory has no members, if *its* parent says so.
    pub fn exists(&self, path: &str) -> Fact<bool> {
        let Some((parent, name)) = path.rsplit_once('/') else {
            return Fact::Unknown(Gap::missing(format!("the parent of {path}")));
        };
        let parent = if parent.is_empty() { "/" } else { parent };
        match self.names_if_any(parent) {
            Presence::Present(names, origin) => {
                // An empty directory where the kernel's file system is not mounted knows of nothing.
                let mark = match parent {
                    "/sys" => "kernel",
                    "/proc" => "self",
                    _ => name,
                };
                let has = |wanted: &str| names.iter().any(|n| &**n == wanted);
                if mark != name && !has(mark) && !has(name) {
                    let why = Why::NotUnderstood(format!("{parent} is not the kernel's").into());
                    return Fact::Unknown(Gap::new(why, origin));
                }
                Fact::Known(has(name), origin)
            }
            Presence::Absent(origin) => Fact::Known(false, origin),
            Presence::Unknown(gap) => Fact::Unknown(gap),
        }
    }

    /// `ENOENT` alone proves nothing (nothing may be mounted there): the parent's listing, without the name, does.
    fn presence<T>(&self, question: &Question, fact: Fact<T>) -> Presence<T> {
        let gap = match fact {
            Fact::Known(value, origin) => return Presence::Present(value, origin),
            Fact::Unknown(gap) => gap,
        };
        let enoent = matches!(
            &gap.why,
            Why::Refused(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR))
        );
        let named = match question {
            Question::Call(call) => call.text("path"),
            _ => question.path(),
        };
        let Some(path) = named.filter(|path| enoent && path.len() > 1) else {
            return Presence::Unknown(gap);
        };
        match self.exists(path) {
            Fact::Known(false, origin) => Presence::Absent(origin),
            _ => Presence::Unknown(gap),
        }
    }

    /// Waits for as long as a sample takes: whether one was wanted, and why there is none.
    pub fn sample(&self) -> (Fact<bool>, Option<Gap>) {
        let pause = Question::Wait("sample".into());
        match self.raw(&pause).said {
            Ok(_) => (Fact::Known(true, Origin::Asked(pause)), None),
            Err(refusal) => {
                let gap = Gap::refused(&pause, refusal);
                let sampled = match &gap.why {
                    Why::Refused(Refusal::NotAsked(_)) => Fact::Known(false, Origin::Asked(pause)),
                    _ => Fact::Unknown(gap.clone()),
                };
                (sampled, Some(gap))
            }
        }
    }

    /// The reply of a call as a JSON value, and when it came.
    pub fn value_at(&self, question: &Question) -> (Micros, Result<Arc<serde_json::Value>, Gap>) {
        self.answer_at(question, "a JSON value", |answer| match answer {
            Answer::Value(value) => Some(value),
            _ => None,
        })
    }

    /// The reply of a call, as a type reads it.
    pub fn read<T: serde::de::DeserializeOwned>(&self, question: Question) -> Fact<T> {
        let value = self.value(question);
        value.and_then(|value| T::deserialize(&*value).map_err(|error| error.to_string()))
    }

    /// The reply of a call as a JSON value.
    pub fn value(&self, question: Question) -> Fact<Arc<serde_json::Value>> {
        let (_, said) = self.value_at(&question);
        Fact::from_result(said, &Origin::Asked(question))
    }

    /// The reply of a call as bytes.
    pub fn bytes(&self, question: Question) -> Fact<Arc<[u8]>> {
        self.bytes_at(question).1
    }

    /// The reply of a call as bytes, and when it came.
    pub fn bytes_at(&self, question: Question) -> (Micros, Fact<Arc<[u8]>>) {
        let (at, bytes) = self.answer_at(&question, "bytes", |answer| match answer {
            Answer::Bytes(bytes) => Some(bytes),
            // Bytes that happen to be valid UTF-8 are recorded as text.
            Answer::Text(text) => Some(text.as_bytes().into()),
            _ => None,
        });
        (at, Fact::from_result(bytes, &Origin::Asked(question)))
    }
}

/// A member of a reply, which has to have it.
pub fn member<T: serde::de::DeserializeOwned>(
    value: &serde_json::Value,
    name: &str,
) -> Result<T, String> {
    let member = value.get(name);
    let member = member.ok_or_else(|| format!("the reply has no {name}"))?;
    T::deserialize(member).map_err(|error| format!("{name}: {error}"))
}

/// A text without what ends it: a device tree ends its texts with NUL; so do some drivers, and copies of sysfs.
fn trimmed(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_whitespace() || c == '\0')
}

/// The path of what has this name in a directory. Thousands are made for each node.
pub(crate) fn inside(dir: &str, name: &str) -> String {
    [dir, "/", name].concat()
}

/// Reads a whole number in decimal, or in hexadecimal after `0x`.
pub fn whole_number(text: &str) -> Result<u64, String> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    }
    .map_err(|_| is_not(text, "a whole number"))
}

/// States what a bounded reader left out of a node, beside what others did.
fn state_left_out(facts: &mut Facts, node: Id, more: &LeftOut, origin: &Origin) {
    facts.add_texts(node, of_node::LEFT_OUT, [more.to_string().into()], origin);
}

/// Several texts as one, with this between two of them; "none" if there is none.
fn joined(texts: &[impl Borrow<str>], between: &str) -> Arc<str> {
    match texts {
        [] => "none".into(),
        texts => texts.join(between).into(),
    }
}

/// Whether a name is of this kind: the kind, and a number behind it.
fn is_numbered(name: &str, kind: &str) -> bool {
    name.strip_prefix(kind)
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// The messages of a reply; one of another kind than these is an error.
fn messages_of<'b, const FIXED: usize>(
    bytes: &'b [u8],
    kinds: &'b [u16],
) -> impl Iterator<Item = Result<Message<'b, FIXED>, String>> {
    netlink::messages(bytes).map(|message| match message {
        Ok(message) if !kinds.contains(&message.kind) => {
            Err(format!("a message of type {}", message.kind))
        }
        message => message,
    })
}

/// A text that is not empty.
fn filled(text: Arc<str>) -> Result<Arc<str>, String> {
    match text.is_empty() {
        true => Err("it is empty".to_owned()),
        false => Ok(text),
    }
}

/// What a text should have been, and the text, cut to the length of a message.
fn is_not(text: &str, what: &str) -> String {
    let start: String = text.chars().take(40).collect();
    format!("{start:?} is not {what}")
}

#[cfg(test)]
pub(crate) mod testing {
    //! A source for the tests of probes: recorded lines, as they are in a recording.

    use super::*;
    use crate::fact::{Key, Typed};
    use crate::source::recording::Recording;
    use crate::source::wire::{self, Header};

    /// Runs a probe over these lines (without `probe`, `n` and `t`) and gives its facts and the node.
    pub(crate) fn run(probe: &Probe, lines: &[&str]) -> (Facts, Id) {
        let mut recording = Recording::new(Header::default());
        for line in lines {
            let rest = line.strip_prefix('{').unwrap();
            recording
                .add(wire::parse_line(&format!("{{\"probe\":\"{}\",{rest}", probe.name)).unwrap());
        }
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        (probe.run)(&Ask::new(&recording.of(probe.name)), &mut facts, node);
        (facts, node)
    }

    /// The value of a fact of the instance of this name.
    pub(crate) fn known<T: Typed>(
        facts: &Facts,
        subject: Subject,
        name: &str,
        key: Key<T>,
    ) -> Option<T> {
        let id = facts
            .all(subject)
            .find(|id| facts.name(*id) == name)
            .unwrap_or_else(|| panic!("no {name}"));
        facts.known(id, key)
    }

    #[test]
    fn absence_needs_the_parents_listing() {
        let mut recording = Recording::new(Header::default());
        for line in [
            r#"{"probe":"p","q":{"list":"/sys/class"},"names":["net"]}"#,
            r#"{"probe":"p","q":{"list":"/sys/class/infiniband"},"errno":"ENOENT"}"#,
            r#"{"probe":"p","q":{"read":"/proc/x"},"errno":"ENOENT"}"#,
            r#"{"probe":"p","q":{"list":"/proc"},"errno":"EACCES"}"#,
        ] {
            recording.add(wire::parse_line(line).unwrap());
        }
        let source = recording.of("p");
        let ask = Ask::new(&source);
        assert!(matches!(
            ask.names_if_any("/sys/class/infiniband"),
            Presence::Absent(_)
        ));
        assert!(matches!(ask.text_if_any("/proc/x"), Presence::Unknown(_)));
        assert!(matches!(
            ask.text_if_any("/never/asked"),
            Presence::Unknown(_)
        ));
        assert_eq!(ask.exists("/sys/class/net").known(), Some(&true));
    }

    #[test]
    fn texts_end_where_the_writer_ended_them() {
        let mut recording = Recording::new(Header::default());
        recording.add(
            wire::parse_line(r#"{"probe":"p","q":{"read":"/sys/a"},"text":"0-1\n\u0000"}"#)
                .unwrap(),
        );
        let source = recording.of("p");
        let text = Ask::new(&source).text("/sys/a");
        assert_eq!(text.known().map(|t| &**t), Some("0-1"));
    }

    #[test]
    fn numbers() {
        assert_eq!(whole_number("0x3a4\n"), Ok(0x3a4));
        assert_eq!(whole_number("42"), Ok(42));
        assert!(whole_number("lid").is_err());
        assert!(whole_number("").is_err());
    }
}
