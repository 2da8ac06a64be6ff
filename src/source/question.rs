//! The questions that can be put to a machine.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::sentence::shell::Command;

/// One question. Its JSON form is an object whose first key is the verb: `{"read":"/sys/…"}`.
///
/// None of them changes the machine, loads a module or creates a device node. What a call of a rehearsal makes is gone when it has been answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Question {
    /// The content of a file.
    Read(Arc<str>),
    /// The names in a directory.
    List(Arc<str>),
    /// The target of a symbolic link.
    Link(Arc<str>),
    /// Kind, mode, owner and device number of a file: `{"kind","mode","uid","gid","rdev","size"}`.
    Stat(Arc<str>),
    /// Size and free space of a file system in bytes: `{"type","size","free","read_only"}`.
    StatVfs(Arc<str>),
    /// Whether a character device can be opened for reading and writing; nothing is read or written.
    Open(Arc<str>),
    /// The environment variables with one of these prefixes: an object.
    Env(Arc<[Arc<str>]>),
    /// A command's standard output; the arguments are passed as they are, without a shell.
    Run(Arc<[Arc<str>]>),
    /// A netlink dump; the answer is the messages' bytes. Family and command by name, with arguments.
    Netlink(Arc<Call>),
    /// A library function or an ioctl, with its arguments.
    Call(Arc<Call>),
    /// A measurement that disturbs, asked for by `rdma-doctor bench` only: `{"bench":"p2p","from":…,"to":…}`.
    Bench(Arc<Call>),
    /// A pause between two readings; the answer is the pause in seconds, or a refusal if no sample was asked for.
    Wait(Arc<str>),
}

/// A named call with named arguments, in sorted order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    /// The function, for netlink `family/command`.
    pub name: Arc<str>,
    /// Arguments by name.
    pub args: Arc<[(Arc<str>, Argument)]>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged, expecting = "a whole number or a text")]
pub enum Argument {
    /// A whole number.
    Number(u64),
    /// A text.
    Text(Arc<str>),
}

impl From<u64> for Argument {
    fn from(n: u64) -> Self {
        Argument::Number(n)
    }
}

impl From<&str> for Argument {
    fn from(s: &str) -> Self {
        Argument::Text(s.into())
    }
}

impl Call {
    /// A call of `name`; the arguments may be given in any order.
    pub fn new<'k>(name: &str, args: impl IntoIterator<Item = (&'k str, Argument)>) -> Self {
        let mut args: Vec<(Arc<str>, Argument)> =
            args.into_iter().map(|(k, v)| (k.into(), v)).collect();
        args.sort();
        Call {
            name: name.into(),
            args: args.into(),
        }
    }

    /// The text argument of this name.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.args.iter().find_map(|(k, v)| match v {
            Argument::Text(t) if &**k == name => Some(&**t),
            _ => None,
        })
    }

    /// The numeric argument of this name.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.args.iter().find_map(|(k, v)| match v {
            Argument::Number(n) if &**k == name => Some(*n),
            _ => None,
        })
    }
}

impl Question {
    /// `{"read": path}`
    pub fn read(path: impl Into<Arc<str>>) -> Self {
        Question::Read(path.into())
    }
    /// `{"list": path}`
    pub fn list(path: impl Into<Arc<str>>) -> Self {
        Question::List(path.into())
    }
    /// `{"link": path}`
    pub fn link(path: impl Into<Arc<str>>) -> Self {
        Question::Link(path.into())
    }
    /// `{"stat": path}`
    pub fn stat(path: impl Into<Arc<str>>) -> Self {
        Question::Stat(path.into())
    }
    /// `{"statvfs": path}`
    pub fn statvfs(path: impl Into<Arc<str>>) -> Self {
        Question::StatVfs(path.into())
    }
    /// `{"open": path}`
    pub fn open(path: impl Into<Arc<str>>) -> Self {
        Question::Open(path.into())
    }
    /// `{"run": [argument, …]}`
    pub fn run(argv: &[&str]) -> Self {
        Question::Run(argv.iter().map(|a| Arc::from(*a)).collect())
    }
    /// `{"env": [prefix, …]}`
    pub fn env(prefixes: &[&str]) -> Self {
        Question::Env(prefixes.iter().map(|a| Arc::from(*a)).collect())
    }
    /// `{"call": name, argument: value, …}`
    pub fn call<const N: usize>(name: &str, args: [(&str, Argument); N]) -> Self {
        Question::Call(Call::new(name, args).into())
    }
    /// `{"netlink": "family/command", argument: value, …}`
    pub fn netlink<const N: usize>(name: &str, args: [(&str, Argument); N]) -> Self {
        Question::Netlink(Call::new(name, args).into())
    }

    /// `{"bench": name, argument: value, …}`
    pub fn bench<'k>(name: &str, args: impl IntoIterator<Item = (&'k str, Argument)>) -> Self {
        Question::Bench(Call::new(name, args).into())
    }

    /// The path, if the question is about a file.
    pub fn path(&self) -> Option<&str> {
        match self {
            Question::Read(p)
            | Question::List(p)
            | Question::Link(p)
            | Question::Stat(p)
            | Question::StatVfs(p)
            | Question::Open(p) => Some(p),
            _ => None,
        }
    }
}

impl fmt::Display for Question {
    /// As evidence names it: the path, `ibv_query_port(mlx5_0, 1)`, the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Question::Read(p) => f.write_str(p),
            Question::List(p) => write!(f, "{p}/"),
            Question::Link(p) => write!(f, "link {p}"),
            Question::Stat(p) => write!(f, "stat {p}"),
            Question::StatVfs(p) => write!(f, "statvfs {p}"),
            Question::Open(p) => write!(f, "open {p}"),
            Question::Env(prefixes) => write!(f, "environment {}*", prefixes.join("*, ")),
            Question::Run(argv) => {
                write!(f, "{}", Command::of_words(argv.iter().map(|word| &**word)))
            }
            Question::Netlink(call) => write!(f, "netlink {call}"),
            Question::Call(call) if &*call.name == "named_file" => {
                f.write_str(call.text("path").unwrap_or(""))
            }
            Question::Call(call) => write!(f, "{call}"),
            Question::Bench(call) => match (call.text("from"), call.text("to")) {
                (Some(from), Some(to)) => write!(f, "bench {}: {from} to {to}", call.name),
                _ => write!(f, "bench {}", call.name),
            },
            Question::Wait(what) => write!(f, "wait {what}"),
        }
    }
}

/// How the calls begin by which a node tries on itself what a job does first.
const SELF_TEST: &str = "rehearse_";

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.strip_prefix(SELF_TEST) {
            Some(part) => write!(f, "self-test of {part}")?,
            None => f.write_str(&self.name)?,
        }
        if self.args.is_empty() {
            return Ok(());
        }
        f.write_str("(")?;
        for (i, (_, value)) in self.args.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            match value {
                Argument::Number(n) => write!(f, "{n}")?,
                Argument::Text(t) => f.write_str(t)?,
            }
        }
        f.write_str(")")
    }
}

impl Serialize for Question {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Question::Read(p) => map.serialize_entry("read", p)?,
            Question::List(p) => map.serialize_entry("list", p)?,
            Question::Link(p) => map.serialize_entry("link", p)?,
            Question::Stat(p) => map.serialize_entry("stat", p)?,
            Question::StatVfs(p) => map.serialize_entry("statvfs", p)?,
            Question::Open(p) => map.serialize_entry("open", p)?,
            Question::Env(prefixes) => map.serialize_entry("env", prefixes)?,
            Question::Run(argv) => map.serialize_entry("run", argv)?,
            Question::Wait(what) => map.serialize_entry("wait", what)?,
            Question::Netlink(call) | Question::Call(call) | Question::Bench(call) => {
                let verb = match self {
                    Question::Netlink(_) => "netlink",
                    Question::Bench(_) => "bench",
                    _ => "call",
                };
                map.serialize_entry(verb, &call.name)?;
                for (name, value) in call.args.iter() {
                    map.serialize_entry(name, value)?;
                }
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Question {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QuestionVisitor;

        impl<'de> Visitor<'de> for QuestionVisitor {
            type Value = Question;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a question: an object with one verb, such as {\"read\":\"/sys/…\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Question, A::Error> {
                let mut question: Option<Question> = None;
                let mut args: Vec<(Arc<str>, Argument)> = Vec::new();
                while let Some(key) = map.next_key::<CowStr<'de>>()? {
                    let verb = match &*key.0 {
                        "read" => Question::Read(map.next_value()?),
                        "list" => Question::List(map.next_value()?),
                        "link" => Question::Link(map.next_value()?),
                        "stat" => Question::Stat(map.next_value()?),
                        "statvfs" => Question::StatVfs(map.next_value()?),
                        "open" => Question::Open(map.next_value()?),
                        "wait" => Question::Wait(map.next_value()?),
                        "env" => Question::Env(map.next_value()?),
                        "run" => Question::Run(map.next_value()?),
                        "call" => Question::call(&map.next_value::<CowStr<'de>>()?.0, []),
                        "netlink" => Question::netlink(&map.next_value::<CowStr<'de>>()?.0, []),
                        "bench" => Question::bench(&map.next_value::<CowStr<'de>>()?.0, []),
                        name => {
                            if args.iter().any(|(k, _)| &**k == name) {
                                return Err(de::Error::custom(format_args!(
                                    "duplicate argument `{name}`"
                                )));
                            }
                            args.push((name.into(), map.next_value()?));
                            continue;
                        }
                    };
                    if question.replace(verb).is_some() {
                        return Err(de::Error::custom("a question has one verb"));
                    }
                }
                args.sort();
                let mut question =
                    question.ok_or_else(|| de::Error::custom("no known verb in the question"))?;
                match (&mut question, args.first()) {
                    (Question::Call(call) | Question::Netlink(call) | Question::Bench(call), _) => {
                        Arc::make_mut(call).args = args.into()
                    }
                    (_, Some((name, _))) => {
                        return Err(de::Error::custom(format_args!(
                            "this question takes no argument `{name}`"
                        )));
                    }
                    (_, None) => {}
                }
                Ok(question)
            }
        }

        deserializer.deserialize_map(QuestionVisitor)
    }
}

/// A key that borrows from the input if it can.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct CowStr<'a>(#[serde(borrow)] pub(crate) std::borrow::Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_forms_round_trip() {
        for (question, json) in [
            (Question::read("/sys/a"), r#"{"read":"/sys/a"}"#),
            (
                Question::run(&["ibstat", "-v"]),
                r#"{"run":["ibstat","-v"]}"#,
            ),
            (
                Question::call(
                    "ibv_query_port",
                    [("port", 1.into()), ("device", "mlx5_0".into())],
                ),
                r#"{"call":"ibv_query_port","device":"mlx5_0","port":1}"#,
            ),
            (
                Question::netlink("rdma/dev-get", []),
                r#"{"netlink":"rdma/dev-get"}"#,
            ),
            (Question::Wait("sample".into()), r#"{"wait":"sample"}"#),
            (
                Question::bench("p2p", [("to", "b".into()), ("from", "a".into())]),
                r#"{"bench":"p2p","from":"a","to":"b"}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&question).unwrap(), json);
            assert_eq!(serde_json::from_str::<Question>(json).unwrap(), question);
        }
    }

    #[test]
    fn argument_order_does_not_matter() {
        let a: Question = serde_json::from_str(r#"{"port":1,"call":"f","device":"d"}"#).unwrap();
        let b: Question = serde_json::from_str(r#"{"call":"f","device":"d","port":1}"#).unwrap();
        assert_eq!(a, b);
    }

    #[test]
    fn two_verbs_no_verb_and_stray_arguments_are_refused() {
        for bad in [
            r#"{"read":"/a","list":"/b"}"#,
            "{}",
            r#"{"device":"x"}"#,
            r#"{"read":"/a","device":"x"}"#,
            r#"{"call":"f","x":1,"x":2}"#,
            r#"{"read":3}"#,
            "[]",
        ] {
            assert!(serde_json::from_str::<Question>(bad).is_err(), "{bad}");
        }
    }
}
