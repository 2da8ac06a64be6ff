//! Facts: what is known of a machine, in the terms of its field.
//!
//! A fact is known, with its origin, or unknown, with the reason. Nothing turns a gap into a value: there is no default.
//! The schema (subjects, facts, types, units) is declared once, one file a subject; the list of facts, the JSON Schema
//! and the manual page are made from it.

pub mod arm;
pub mod arms;
pub mod benchmark;
pub mod bond;
pub mod boot_setting;
pub mod bridge;
pub mod channel;
pub mod cluster;
pub mod comparison;
pub mod counter;
pub mod counter_table;
pub mod defect;
pub mod device;
pub mod effect;
pub mod env;
pub mod event;
pub mod fabric_host;
pub mod fabric_link;
pub mod factor;
pub mod flow;
pub mod function;
pub mod gap_kind;
pub mod gid;
pub mod gpu;
pub mod gpu_nic;
pub mod gpu_pair;
pub mod hca;
pub mod hop;
pub mod host;
pub mod ib_fabric;
pub mod interface;
pub mod inventory;
pub mod job;
pub mod kernel_event;
pub mod kleene;
pub mod limit;
pub mod live_job;
pub mod live_node;
pub mod live_rank;
pub mod measurement;
pub mod module;
pub mod mount;
pub mod nccl_version;
pub mod netdev;
pub mod node;
pub mod nvlink;
pub mod obstacle;
pub mod path;
pub mod pcie;
pub mod phrase;
pub mod port;
pub mod process;
pub mod rank;
pub mod reach;
#[cfg(test)]
pub(crate) mod reads;
pub mod respondent;
pub mod ruleset;
pub mod run;
pub mod schema;
pub mod selection;
pub mod selector;
pub mod service;
pub mod setting;
pub mod shown_output;
pub mod stall;
pub mod store;
pub mod suspect;
pub mod switch;
pub mod tool_result;
pub mod trace;
pub mod traffic;
pub mod unit;
pub mod value;
pub mod variable;
pub mod waiver;

use std::fmt;
use std::sync::Arc;

pub use gap_kind::GapKind;
pub use limit::{Limit, Limits};
pub use phrase::Phrase;
pub use schema::{FactSchema, Key, Subject, SubjectSchema};
pub use store::{Facts, Id, Membership};
pub use unit::{BitRate, Bytes, PerSecond, Percent, Seconds};
pub use value::{Type, Typed, Value};

use crate::source::question::Question;
use crate::source::refusal::{Errno, Refusal};
use crate::terminal;

/// The origin of a fact: a finding prints it as evidence.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// The reply to a question.
    Asked(Question),
    /// A line of a log.
    Logged(Arc<LogLine>),
    /// Worked out from other facts: how, in a few words that name the deciding ones.
    Derived(Phrase),
    /// Left open by a fact that is missing: which.
    Needs(Phrase),
    /// To be established by a probe: which.
    Probe(&'static str),
    /// Written down, in an example or by a site.
    Stated,
}

impl Origin {
    /// An origin that says how a derived fact was worked out.
    pub fn derived(how: impl Into<Phrase>) -> Self {
        Origin::Derived(how.into())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Asked(question) => on_one_line(f, question),
            Origin::Logged(line) => on_one_line(f, line),
            Origin::Derived(how) => on_one_line(f, how),
            Origin::Needs(what) => write!(f, "needs {what}"),
            Origin::Probe(name) if name.starts_with(schema::DERIVED) => f.write_str(name),
            Origin::Probe(name) => write!(f, "probe {name}"),
            Origin::Stated => f.write_str("stated"),
        }
    }
}

/// Writes without line breaks: no reply can imitate a line of a report.
fn on_one_line(f: &mut fmt::Formatter<'_>, text: &impl fmt::Display) -> fmt::Result {
    f.write_str(&terminal::one_line(&text.to_string()))
}

/// A line of a log: what a fact that was read from it has as its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The file, as it was named on the command line; `-` for standard input.
    pub file: Arc<str>,
    /// Its number in the file, from 1.
    pub line: u64,
    /// Its text, as far as it was recorded.
    pub text: Arc<str>,
}

impl Origin {
    /// A line of a log, by its file and its number.
    pub fn logged(file: &Arc<str>, line: u64, text: &str) -> Self {
        Origin::Logged(Arc::new(LogLine {
            file: Arc::clone(file),
            line,
            text: text.into(),
        }))
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// Why a fact is unknown.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The machine refused the question, or it was not recorded.
    Refused(Refusal),
    /// The reply is not understood: its text.
    NotUnderstood(Arc<str>),
    /// The source cannot tell it: why.
    NotSaid(Arc<str>),
    /// Another fact is missing: which.
    Missing(Phrase),
    /// The log does not say: the setting with which it would.
    NotLogged(&'static str),
    /// No probe established it.
    NotEstablished,
    /// The probe that establishes it did not end well: how.
    ProbeFailed(Arc<str>),
    /// There are more than are judged, or one without a name: what, in words.
    LeftOut(Arc<str>),
}

/// What supplies a fact that a recording does not hold.
pub const RECORD_THE_MACHINE: &str = "record the machine itself, with this version";

impl Why {
    /// What would supply the fact, if that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Why::Refused(refusal) if refusal.is_permission() => Some("run as root"),
            Why::Refused(Refusal::NotRecorded) => Some(RECORD_THE_MACHINE),
            Why::NotLogged(setting) => Some(setting),
            Why::Refused(Refusal::CommandMissing) => Some("install the command"),
            Why::Refused(Refusal::NotAsked(why)) if why.contains("--sample") => {
                Some("add --sample SECONDS")
            }
            _ => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Refused(refusal) => on_one_line(f, refusal),
            Why::NotUnderstood(what) => {
                on_one_line(f, &format_args!("reply not understood: {what}"))
            }
            Why::NotSaid(why) => on_one_line(f, why),
            Why::Missing(what) => write!(f, "{what} is unknown"),
            Why::NotLogged(_) => f.write_str("not logged"),
            Why::NotEstablished => f.write_str("not established"),
            Why::ProbeFailed(how) | Why::LeftOut(how) => on_one_line(f, how),
        }
    }
}

/// A missing fact: why it is missing, and where it was looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    /// Why.
    pub why: Why,
    /// Where.
    pub origin: Origin,
}

impl Gap {
    /// A gap for this reason, where it was looked for.
    pub fn new(why: Why, origin: Origin) -> Self {
        Gap { why, origin }
    }

    /// A gap left by another: the fact that is missing, as conditions name it.
    pub fn missing(what: impl Into<Phrase>) -> Self {
        let what = what.into();
        Gap::new(Why::Missing(what.clone()), Origin::Needs(what))
    }

    /// The question was refused.
    pub fn refused(question: &Question, refusal: Refusal) -> Self {
        Gap::new(Why::Refused(refusal), Origin::Asked(question.clone()))
    }

    /// The reply to the question is not understood.
    pub fn not_understood(question: &Question, what: impl Into<Arc<str>>) -> Self {
        Gap::misread(what, Origin::Asked(question.clone()))
    }

    /// What this origin gave is not understood.
    pub fn misread(what: impl Into<Arc<str>>, origin: Origin) -> Self {
        Gap::new(Why::NotUnderstood(what.into()), origin)
    }

    /// The question was not asked, for a reason that this origin gave.
    pub fn not_asked(why: impl Into<Arc<str>>, origin: Origin) -> Self {
        Gap::new(Why::Refused(Refusal::not_asked(why)), origin)
    }

    /// What this origin gave cannot tell it, for this reason.
    pub fn not_said(why: impl Into<Arc<str>>, origin: Origin) -> Self {
        Gap::new(Why::NotSaid(why.into()), origin)
    }
}

impl Gap {
    /// What would supply the fact, if that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        if let (Why::Refused(Refusal::CommandMissing), Origin::Asked(Question::Run(argv))) =
            (&self.why, &self.origin)
        {
            let command = argv.first().map_or("", |word| &**word);
            return Some(match command {
                "nft" => "install nft (package nftables), and run as root",
                _ if command.contains("tables") => {
                    "install iptables-save (package iptables), and run as root"
                }
                _ => "install the command",
            });
        }
        self.why.remedy()
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Asked(question) => on_one_line(f, &format_args!("{}: {question}", self.why)),
            _ => write!(f, "{}", self.why),
        }
    }
}

/// A value with its origin, or the reason why there is none.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact<T> {
    /// Known.
    Known(T, Origin),
    /// Unknown.
    Unknown(Gap),
}

impl<T> Fact<T> {
    /// The value, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Fact::Known(value, _) => Some(value),
            Fact::Unknown(_) => None,
        }
    }

    /// A value worked out from other facts.
    pub fn derived(value: T, how: impl Into<Phrase>) -> Self {
        Fact::Known(value, Origin::derived(how))
    }

    /// What a reply says, or why it does not.
    pub fn from_result(said: Result<T, Gap>, origin: &Origin) -> Self {
        match said {
            Ok(value) => Fact::Known(value, origin.clone()),
            Err(gap) => Fact::Unknown(gap),
        }
    }

    /// What was worked out of other facts, or why it could not be.
    pub fn of(known: Result<T, Gap>, how: impl Into<Phrase>) -> Self {
        Fact::from_result(known, &Origin::derived(how))
    }

    /// The same fact in other terms, with the same origin.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Fact::Known(value, origin) => Fact::Known(f(value), origin),
            Fact::Unknown(gap) => Fact::Unknown(gap),
        }
    }

    /// This if it is known, else the other if that is known; else why this one is not.
    pub fn or_else(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Fact::Known(..) => self,
            Fact::Unknown(gap) => match other() {
                known @ Fact::Known(..) => known,
                Fact::Unknown(_) => Fact::Unknown(gap),
            },
        }
    }

    /// The value, with `instead` where the question was refused with this errno.
    pub fn or_refused(self, with: Errno, instead: T) -> Self {
        match self {
            Fact::Unknown(gap) if gap.why == Why::Refused(Refusal::Errno(with)) => {
                Fact::Known(instead, gap.origin)
            }
            fact => fact,
        }
    }

    /// The value read further; what cannot be read is a gap that says what was found.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Result<U, String>) -> Fact<U> {
        match self {
            Fact::Known(value, origin) => match f(value) {
                Ok(value) => Fact::Known(value, origin),
                Err(what) => Fact::Unknown(Gap::misread(what, origin)),
            },
            Fact::Unknown(gap) => Fact::Unknown(gap),
        }
    }

    /// A fact that follows from the value, if the value is known.
    pub fn flat_map<U>(self, f: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Fact::Known(value, _) => f(value),
            Fact::Unknown(gap) => Fact::Unknown(gap),
        }
    }

    /// Both, with the origin of this one; else the first gap.
    pub fn zip<U>(self, other: Fact<U>) -> Fact<(T, U)> {
        match (self, other) {
            (Fact::Known(a, origin), Fact::Known(b, _)) => Fact::Known((a, b), origin),
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
        }
    }

    /// This, unless something that it needs is missing.
    pub fn unless(self, open: Option<Gap>) -> Self {
        open.map_or(self, Fact::Unknown)
    }

    /// The value, if it is known; else its gap goes to `open`, unless there is one before it.
    pub fn or_open(self, open: &mut Option<Gap>) -> Option<T> {
        match self {
            Fact::Known(value, _) => Some(value),
            Fact::Unknown(gap) => {
                open.get_or_insert(gap);
                None
            }
        }
    }

    /// The value with its type forgotten.
    pub fn erase(self) -> Fact<Value>
    where
        T: Typed,
    {
        self.map(Typed::into_value)
    }

    /// The value, or why it is unknown.
    pub fn into_result(self) -> Result<T, Gap> {
        match self {
            Fact::Known(value, _) => Ok(value),
            Fact::Unknown(gap) => Err(gap),
        }
    }

    /// A reference to the value, by which the fact can be taken apart with `?` on `Result`.
    pub fn as_result(&self) -> Result<&T, &Gap> {
        match self {
            Fact::Known(value, _) => Ok(value),
            Fact::Unknown(gap) => Err(gap),
        }
    }
}

impl<A, B> Fact<(A, B)> {
    /// The two of a pair, each with its origin; else both unknown for the same reason.
    pub fn unzip(self) -> (Fact<A>, Fact<B>) {
        match self {
            Fact::Known((a, b), origin) => (Fact::Known(a, origin.clone()), Fact::Known(b, origin)),
            Fact::Unknown(gap) => (Fact::Unknown(gap.clone()), Fact::Unknown(gap)),
        }
    }
}

/// What `?` is to results: the value of a fact (and its origin), else the function's own fact is unknown for the same reason.
macro_rules! known {
    (ok $result:expr) => {
        match $result {
            Ok(value) => value,
            Err(gap) => return $crate::fact::Fact::Unknown(gap.clone()),
        }
    };
    ($fact:expr, with origin) => {
        match $fact {
            $crate::fact::Fact::Known(value, origin) => (value, origin),
            $crate::fact::Fact::Unknown(gap) => return $crate::fact::Fact::Unknown(gap.clone()),
        }
    };
    ($fact:expr) => {
        $crate::fact::known!($fact, with origin).0
    };
}
pub(crate) use known;

/// The same for what may be absent: where it is known not to be there, the function's own fact is known, and this.
macro_rules! present {
    ($presence:expr, or $absent:expr) => {
        match $presence {
            $crate::fact::Presence::Present(value, origin) => (value, origin),
            $crate::fact::Presence::Absent(origin) => {
                return $crate::fact::Fact::Known($absent, origin.clone());
            }
            $crate::fact::Presence::Unknown(gap) => {
                return $crate::fact::Fact::Unknown(gap.clone());
            }
        }
    };
}
pub(crate) use present;

/// The presence of something that may be absent: a file, a link, a device node.
#[derive(Clone)]
pub enum Presence<T> {
    /// It is there.
    Present(T, Origin),
    /// It is known not to be there.
    Absent(Origin),
    /// Unknown.
    Unknown(Gap),
}

impl<T> Presence<T> {
    /// Whether it is there.
    pub fn is_present(&self) -> Fact<bool> {
        match self {
            Presence::Present(_, origin) => Fact::Known(true, origin.clone()),
            Presence::Absent(origin) => Fact::Known(false, origin.clone()),
            Presence::Unknown(gap) => Fact::Unknown(gap.clone()),
        }
    }

    /// The same in other terms.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Presence<U> {
        match self {
            Presence::Present(value, origin) => Presence::Present(f(value), origin),
            Presence::Absent(origin) => Presence::Absent(origin),
            Presence::Unknown(gap) => Presence::Unknown(gap),
        }
    }

    /// The value read further.
    pub fn and_then<U>(self, read: impl FnOnce(T) -> Result<U, String>) -> Presence<U> {
        match self {
            Presence::Present(value, origin) => match read(value) {
                Ok(value) => Presence::Present(value, origin),
                Err(what) => Presence::Unknown(Gap::misread(what, origin)),
            },
            Presence::Absent(origin) => Presence::Absent(origin),
            Presence::Unknown(gap) => Presence::Unknown(gap),
        }
    }

    /// The value, or that there is none.
    pub fn if_any(self) -> Fact<Option<T>> {
        self.map(Some).or_absent(None)
    }

    /// The value, with this reason for what is known not to be there.
    pub fn or_gap(self, why: Why) -> Fact<T> {
        match self {
            Presence::Present(value, origin) => Fact::Known(value, origin),
            Presence::Absent(origin) => Fact::Unknown(Gap::new(why, origin)),
            Presence::Unknown(gap) => Fact::Unknown(gap),
        }
    }

    /// The value, with `absent` for what is known not to be there.
    pub fn or_absent(self, absent: T) -> Fact<T> {
        match self {
            Presence::Present(value, origin) => Fact::Known(value, origin),
            Presence::Absent(origin) => Fact::Known(absent, origin),
            Presence::Unknown(gap) => Fact::Unknown(gap),
        }
    }
}

impl Presence<Arc<str>> {
    /// What the text says, with `absent` for one that is known not to be there.
    pub fn parse<T>(self, absent: T, read: impl FnOnce(&str) -> Result<T, String>) -> Fact<T> {
        match self.if_any() {
            Fact::Known(None, origin) => Fact::Known(absent, origin),
            text => text.and_then(|text| read(&text.unwrap_or_default())),
        }
    }
}

impl Presence<Arc<[Arc<str>]>> {
    /// The names of a directory, and whether these are all; none in one that is known not to be there.
    pub fn members(self) -> (Arc<[Arc<str>]>, Membership) {
        match self {
            Presence::Present(names, origin) => (names, Membership::Known(origin)),
            Presence::Absent(origin) => (Arc::default(), Membership::Known(origin)),
            Presence::Unknown(gap) => (Arc::default(), Membership::Unknown(gap)),
        }
    }
}
