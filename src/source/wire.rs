//! The lines of a recording: JSON Lines, one question a line. Manual page: rdma-doctor-recording(5).
//!
//! The same lines are the fixture, the bug report, the reply of a child process and the reply of another node.

mod known_lines;
mod plain;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::known_lines::with_known_lines;
use super::question::CowStr;
use super::{Answer, Errno, Micros, Question, Refusal, Reply};

/// The version that this program writes: `major.minor`. A reader refuses another major and reads any minor.
pub const VERSION: &str = "1.0";
const MAJOR: &str = "1.";

/// The first line of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Format version, [`VERSION`] where this program wrote it.
    #[serde(rename = "rdma-doctor-recording")]
    pub version: String,
    /// Name of the node, a pseudonym if the recording is redacted.
    #[serde(default)]
    pub node: String,
    /// When the recording began, RFC 3339 in UTC.
    #[serde(default)]
    pub utc: String,
    /// `CLOCK_BOOTTIME` when the recording began, in nanoseconds.
    #[serde(default)]
    pub boottime_ns: u64,
    /// Whether names, addresses and serial numbers are pseudonyms.
    #[serde(default)]
    pub redacted: bool,
    /// A mark of the key under which names are pseudonyms, where several recordings were meant to share one (`--redact-key`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pseudonyms: Option<String>,
    /// How many things of each kind the redaction replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced: BTreeMap<String, u64>,
    /// Version of the program that recorded.
    #[serde(default)]
    pub doctor: String,
    /// True where a copied tree was examined (`--root`), so that what is not there is not known to be absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tree: bool,
    /// True where log files were read, and no machine was asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
    /// What was changed by hand in this recording, and modelled on what. Absent from recordings of machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altered: Option<String>,
    /// The base recording, a file next to this one, that this one overlays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// How a probe's process ended, if it did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeEnd {
    /// The probe's name.
    pub probe: Arc<str>,
    /// `timeout`, `signal 11`, `status 101`, …; `ok` is not recorded.
    pub how: Arc<str>,
    /// How long it had run.
    pub at: Micros,
}

/// One line of a recording after the first.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// A question and its reply.
    Reply {
        /// The probe that asked.
        probe: Arc<str>,
        /// The question.
        question: Question,
        /// The how-manyth time that the probe asked it, from 0.
        repeat: u32,
        /// The reply.
        reply: Reply,
    },
    /// A question that has no reply yet: from a child that may be about to be killed.
    Pending {
        /// The probe that asked.
        probe: Arc<str>,
        /// The question.
        question: Question,
    },
    /// A probe that did not end well.
    Ended(ProbeEnd),
    /// In an overlay: the question is taken out of the base.
    Drop(Question),
    /// The last line.
    Complete {
        /// Lines between the first and this one.
        lines: u64,
    },
}

impl Line {
    /// The value that this line answers a question with, if it does.
    pub fn value(&self) -> Option<&serde_json::Value> {
        match self {
            Line::Reply { reply, .. } => match &reply.said {
                Ok(Answer::Value(value)) => Some(value),
                _ => None,
            },
            _ => None,
        }
    }

    /// A value that answers a question, asked once, `at` this many microseconds after the recording began.
    pub fn of(probe: &str, question: Question, value: &impl Serialize, at: Micros) -> Self {
        // Serialising plain data cannot fail.
        let value = serde_json::to_value(value).unwrap_or_default();
        Line::Reply {
            probe: probe.into(),
            question,
            repeat: 0,
            reply: Reply {
                at,
                said: Ok(Answer::from(value)),
            },
        }
    }
}

/// Reads the first line of a recording.
pub fn parse_header(line: &str) -> Result<Header, String> {
    let header: Header = serde_json::from_str(line).map_err(|e| {
        format!(
            "not a recording: the first line is no {{\"rdma-doctor-recording\":…}} object ({e})"
        )
    })?;
    if !header.version.starts_with(MAJOR) {
        return Err(format!(
            "recording format {} is not readable by this program, which reads {MAJOR}x",
            Cow::from(header.version.chars().take(20).collect::<String>())
        ));
    }
    Ok(header)
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    probe: Option<CowStr<'a>>,
    q: Option<Question>,
    #[serde(default)]
    n: u32,
    #[serde(default)]
    t: Micros,
    #[serde(borrow)]
    text: Option<CowStr<'a>>,
    #[serde(borrow)]
    hex: Option<CowStr<'a>>,
    names: Option<Vec<Arc<str>>>,
    value: Option<Unique>,
    #[serde(borrow)]
    errno: Option<CowStr<'a>>,
    #[serde(borrow)]
    refused: Option<CowStr<'a>>,
    #[serde(borrow)]
    ended: Option<CowStr<'a>>,
    #[serde(default)]
    pending: bool,
    drop: Option<Question>,
    #[serde(default)]
    complete: bool,
    #[serde(default)]
    lines: u64,
}

/// Reads one line after the first.
pub fn parse_line(line: &str) -> Result<Line, String> {
    known_lines::read_known(line, |line| match plain::read(line) {
        Some(line) => Ok(line),
        None => parse_json(line),
    })
}

/// Reads a line in whatever form JSON allows.
fn parse_json(line: &str) -> Result<Line, String> {
    let wire: Wire<'_> = serde_json::from_str(line).map_err(|e| e.to_string())?;
    if wire.complete {
        return Ok(Line::Complete { lines: wire.lines });
    }
    if let Some(question) = wire.drop {
        return Ok(Line::Drop(question));
    }
    let probe: Arc<str> = match wire.probe {
        Some(name) => intern(&name.0),
        None => return Err("neither `probe`, `drop` nor `complete`".into()),
    };
    if let Some(how) = wire.ended {
        return Ok(Line::Ended(ProbeEnd {
            probe,
            how: how.0.as_ref().into(),
            at: wire.t,
        }));
    }
    let question = wire.q.ok_or("no question `q`")?;
    if wire.pending {
        return Ok(Line::Pending { probe, question });
    }
    let mut said: Option<Result<Answer, Refusal>> = None;
    let mut put = |one: Result<Answer, Refusal>| match said.replace(one) {
        None => Ok(()),
        Some(_) => Err("more than one of text, hex, names, value, errno, refused"),
    };
    if let Some(text) = wire.text {
        put(Ok(Answer::Text(text.0.as_ref().into())))?;
    }
    if let Some(hex) = wire.hex {
        put(Ok(Answer::Bytes(
            from_hex(&hex.0)
                .ok_or("`hex` is not an even number of hexadecimal digits")?
                .into(),
        )))?;
    }
    if let Some(names) = wire.names {
        put(Ok(Answer::Names(names.into())))?;
    }
    if let Some(Unique(value)) = wire.value {
        put(Ok(Answer::from(value)))?;
    }
    if let Some(name) = wire.errno {
        let errno = Errno::from_name(&name.0).unwrap_or(Errno::UNKNOWN);
        put(Err(Refusal::Errno(errno)))?;
    }
    if let Some(text) = wire.refused {
        let refusal = parse_refusal(&text.0);
        put(Err(refusal.unwrap_or(Refusal::Errno(Errno::UNKNOWN))))?;
    }
    let said = said.ok_or("none of text, hex, names, value, errno, refused")?;
    Ok(Line::Reply {
        probe,
        question,
        repeat: wire.n,
        reply: Reply { at: wire.t, said },
    })
}

/// The names of probes recur on every line: one allocation serves those of this program.
fn intern(name: &str) -> Arc<str> {
    use std::cell::RefCell;
    thread_local! { static NAMES: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) }; }
    NAMES.with_borrow_mut(|names| match names.iter().find(|known| &***known == name) {
        Some(known) => Arc::clone(known),
        None => {
            let fresh: Arc<str> = name.into();
            if names.len() < 64 {
                names.push(Arc::clone(&fresh));
            }
            fresh
        }
    })
}

/// Writes the first line, without its newline.
pub fn write_header(header: &Header) -> String {
    // Serialising a struct of texts, numbers and booleans cannot fail.
    serde_json::to_string(header).unwrap_or_default()
}

/// Writes one line, without its newline. A reply that says "not recorded" has no line: `None`.
pub fn write_line(line: &Line) -> Option<String> {
    // Serialising texts, numbers and questions cannot fail, so a default never shows.
    fn json<T: Serialize + ?Sized>(value: &T) -> String {
        serde_json::to_string(value).unwrap_or_default()
    }
    let mut out = String::with_capacity(160);
    // Writing to a String cannot fail.
    let _ = match line {
        Line::Reply {
            probe,
            question,
            repeat,
            reply,
        } => {
            let _ = write!(
                out,
                "{{\"probe\":{},\"q\":{},\"n\":{repeat},\"t\":{},",
                json(probe),
                json(question),
                reply.at
            );
            match &reply.said {
                Ok(Answer::Text(text)) => write!(out, "\"text\":{}}}", json(text)),
                Ok(Answer::Bytes(bytes)) => write!(out, "\"hex\":\"{}\"}}", to_hex(bytes)),
                Ok(Answer::Names(names)) => write!(out, "\"names\":{}}}", json(names)),
                Ok(Answer::Value(value)) => write!(out, "\"value\":{}}}", json(&**value)),
                Err(Refusal::Errno(errno)) => write!(out, "\"errno\":\"{errno}\"}}"),
                Err(Refusal::NotRecorded) => return None,
                Err(refusal) => write!(out, "\"refused\":{}}}", json(&write_refusal(refusal))),
            }
        }
        Line::Pending { probe, question } => {
            write!(
                out,
                "{{\"probe\":{},\"q\":{},\"pending\":true}}",
                json(probe),
                json(question)
            )
        }
        Line::Ended(ProbeEnd { probe, how, at }) => {
            write!(
                out,
                "{{\"probe\":{},\"ended\":{},\"t\":{at}}}",
                json(probe),
                json(how)
            )
        }
        Line::Drop(question) => write!(out, "{{\"drop\":{}}}", json(question)),
        Line::Complete { lines } => write!(out, "{{\"complete\":true,\"lines\":{lines}}}"),
    };
    Some(out)
}

fn write_refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Errno(errno) => errno.to_string(),
        Refusal::LibraryMissing(what) => format!("library-missing: {what}"),
        Refusal::SymbolMissing(what) => format!("symbol-missing: {what}"),
        Refusal::CommandMissing => "command-missing".into(),
        Refusal::CommandFailed(status, said) => format!("command-failed {status}: {said}"),
        Refusal::Timeout => "timeout".into(),
        Refusal::Stuck(place) => format!("stuck: {place}"),
        Refusal::Crash(how) => format!("crash: {how}"),
        Refusal::TooLarge => "too-large".into(),
        Refusal::NotAsked(why) => format!("not-asked: {why}"),
        Refusal::NotRecorded => "not-recorded".into(),
    }
}

fn parse_refusal(text: &str) -> Option<Refusal> {
    let (kind, detail) = text.split_once(": ").unwrap_or((text, ""));
    Some(match kind {
        "library-missing" => Refusal::LibraryMissing(detail.into()),
        "symbol-missing" => Refusal::SymbolMissing(detail.into()),
        "command-missing" => Refusal::CommandMissing,
        "timeout" => Refusal::Timeout,
        "stuck" => Refusal::Stuck(detail.into()),
        "crash" => Refusal::Crash(detail.into()),
        "too-large" => Refusal::TooLarge,
        "not-asked" => Refusal::not_asked(detail),
        "not-recorded" => Refusal::NotRecorded,
        _ => {
            let status = kind.trim_end_matches(':').strip_prefix("command-failed ")?;
            Refusal::CommandFailed(status.parse().ok()?, detail.into())
        }
    })
}

/// Bytes as lower-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| {
            [
                DIGITS[usize::from(b >> 4)] as char,
                DIGITS[usize::from(b & 15)] as char,
            ]
        })
        .collect()
}

/// The bytes of an even number of hexadecimal digits.
pub fn from_hex(hex: &str) -> Option<Vec<u8>> {
    // Each PCI device's configuration space is here, of up to 4 KiB: a place in a table for each digit.
    const VALUES: [u8; 256] = {
        let mut values = [u8::MAX; 256];
        let mut value = 0;
        while value < 16 {
            values[b"0123456789abcdef"[value] as usize] = value as u8;
            values[b"0123456789ABCDEF"[value] as usize] = value as u8;
            value += 1;
        }
        values
    };
    let (pairs, []) = hex.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let mut all = 0;
    let byte = |[high, low]: &[u8; 2]| {
        let (high, low) = (VALUES[usize::from(*high)], VALUES[usize::from(*low)]);
        all |= high | low;
        high << 4 | low & 0xf
    };
    let bytes = pairs.iter().map(byte).collect();
    (all < 16).then_some(bytes)
}

/// A JSON value in which no object has a key twice: two values for one key are two claims, and neither is evidence.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UniqueVisitor;
        impl<'de> Visitor<'de> for UniqueVisitor {
            type Value = Unique;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Unique, E> {
                Ok(Unique(v.into()))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Unique, E> {
                Ok(Unique(v.into()))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Unique, E> {
                Ok(Unique(v.into()))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Unique, E> {
                Ok(Unique(v.into()))
            }
            fn visit_str<E>(self, v: &str) -> Result<Unique, E> {
                Ok(Unique(v.into()))
            }
            fn visit_unit<E>(self) -> Result<Unique, E> {
                Ok(Unique(Value::Null))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Unique, A::Error> {
                let mut items = Vec::new();
                while let Some(Unique(item)) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Unique(items.into()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
                let mut object = serde_json::Map::new();
                while let Some((key, Unique(value))) = map.next_entry::<String, Unique>()? {
                    if object.contains_key(&key) {
                        return Err(de::Error::custom(format_args!("duplicate key `{key}`")));
                    }
                    object.insert(key, value);
                }
                Ok(Unique(object.into()))
            }
        }
        deserializer.deserialize_any(UniqueVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reply(said: Result<Answer, Refusal>) -> Line {
        Line::Reply {
            probe: "p".into(),
            question: Question::read("/a"),
            repeat: 2,
            reply: Reply { at: 7, said },
        }
    }

    #[test]
    fn every_kind_of_line_round_trips() {
        let lines = [
            reply(Ok(Answer::Text("4: ACTIVE\n".into()))),
            reply(Ok(Answer::Bytes([0, 255, 16].into()))),
            reply(Ok(Answer::Names(["a".into(), "b".into()].into()))),
            reply(Ok(Answer::from(
                serde_json::json!({"state":4,"x":[1,{"y":null}]}),
            ))),
            reply(Err(Refusal::Errno(Errno::EINVAL))),
            reply(Err(Refusal::Errno(Errno(4242)))),
            reply(Err(Refusal::LibraryMissing(
                "libibverbs.so.1: cannot open".into(),
            ))),
            reply(Err(Refusal::SymbolMissing("_ibv_query_gid_ex".into()))),
            reply(Err(Refusal::CommandMissing)),
            reply(Err(Refusal::CommandFailed(3, "no: such".into()))),
            reply(Err(Refusal::CommandFailed(3, "".into()))),
            reply(Err(Refusal::Timeout)),
            reply(Err(Refusal::Stuck("/sys/class/infiniband".into()))),
            reply(Err(Refusal::Crash("signal 11".into()))),
            reply(Err(Refusal::TooLarge)),
            reply(Err(Refusal::not_asked("no sample"))),
            Line::Pending {
                probe: "p".into(),
                question: Question::read("/a"),
            },
            Line::Ended(ProbeEnd {
                probe: "p".into(),
                how: "timeout".into(),
                at: 5,
            }),
            Line::Drop(Question::list("/b")),
            Line::Complete { lines: 3 },
        ];
        for line in lines {
            let text = write_line(&line).unwrap();
            assert_eq!(parse_line(&text).unwrap(), line, "{text}");
        }
        assert_eq!(write_line(&reply(Err(Refusal::NotRecorded))), None);
    }

    #[test]
    fn a_refusal_of_another_version_is_one() {
        for refused in [r#""errno":"ENOPE""#, r#""refused":"of-a-new-kind: x""#] {
            let line = format!(r#"{{"probe":"p","q":{{"read":"/a"}},{refused}}}"#);
            let Ok(Line::Reply { reply, .. }) = parse_line(&line) else {
                panic!("{line}");
            };
            assert_eq!(reply.said, Err(Refusal::Errno(Errno::UNKNOWN)));
        }
    }

    #[test]
    fn hostile_lines_are_errors_with_a_reason() {
        for (bad, why) in [
            (r#"{"probe":"p","q":{"read":"/a"}}"#, "none of"),
            (
                r#"{"probe":"p","q":{"read":"/a"},"text":"a","errno":"EIO"}"#,
                "more than one",
            ),
            (
                r#"{"probe":"p","q":{"read":"/a"},"text":"a","text":"b"}"#,
                "duplicate field",
            ),
            (
                r#"{"probe":"p","q":{"call":"f"},"value":{"a":1,"a":2}}"#,
                "duplicate key `a`",
            ),
            (
                r#"{"probe":"p","q":{"read":"/a"},"hex":"0"}"#,
                "even number",
            ),
            (r#"{"probe":"p","text":"x"}"#, "no question"),
            ("{}", "neither"),
            ("[1]", "invalid"),
            ("", "EOF"),
        ] {
            let error = parse_line(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
        let deep = format!(
            r#"{{"probe":"p","q":{{"call":"f"}},"value":{}{}}}"#,
            "[".repeat(5000),
            "]".repeat(5000)
        );
        assert!(parse_line(&deep).unwrap_err().contains("recursion"));
    }

    #[test]
    fn another_major_version_is_refused_and_another_minor_read() {
        assert!(
            parse_header(r#"{"rdma-doctor-recording":"2.0"}"#)
                .unwrap_err()
                .contains("2.0")
        );
        assert_eq!(
            parse_header(r#"{"rdma-doctor-recording":"1.7","node":"n","news":1}"#)
                .unwrap()
                .node,
            "n"
        );
        assert!(
            parse_header("PK\u{3}\u{4}")
                .unwrap_err()
                .contains("not a recording")
        );
    }

    proptest! {
        #[test]
        fn no_input_panics(line in "\\PC*") {
            let _ = parse_line(&line);
            let _ = parse_header(&line);
        }

        #[test]
        fn hex_round_trips(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        }
    }
}
