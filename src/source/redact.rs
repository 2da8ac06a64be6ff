//! Redaction: a recording that can be shown. Names, addresses and serial numbers become keyed pseudonyms that keep what
//! judgement reads off them, so that a redacted recording gives the verdicts of the raw one.
//!
//! The same thing has the same pseudonym in every line, in questions too: a network device that is named after its MAC
//! address is found again under its pseudonym. What is not known to be harmless is left out, and says so; of what a site has filled only what
//! is listed is kept ([`kept`]). What was replaced is counted by kind.

mod addresses;
mod bench;
mod files;
mod firewall;
mod kept;
mod key;
mod launcher;
mod log;
mod module;
mod names;
mod netlink;
mod nvml;
mod settings;
mod tally;
mod text;
mod value;
mod words;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

pub use key::Key;
pub(super) use value::is_recorded as is_recorded_variable;

use self::files::FileRule;
use self::text::Kind;
use self::words::Names;
use super::question::{Argument, Call};
use super::wire::{Header, Line, ProbeEnd};
use super::{Answer, Question, Refusal, Reply};

/// Why a reply is not in a redacted recording.
const LEFT_OUT: &str = "left out by the redaction";

/// Redacts the lines of recordings.
#[derive(Clone, Debug)]
pub struct Redactor {
    names: Names,
}

impl Redactor {
    /// Redacts under this key. `users` are names of users, and home directories where they begin with `/`.
    pub fn new(key: Key, node_name: &str, users: &[&str]) -> Self {
        Redactor {
            names: Names::new(key, node_name, users),
        }
    }

    /// Learns which hosts the lines of a recording speak of, before they are redacted: a log names them in any of its lines.
    pub fn learn<'l>(&mut self, lines: impl IntoIterator<Item = &'l Line>) {
        let (mut hosts, mut users) = (Vec::new(), Vec::new());
        for line in lines {
            let Line::Reply {
                question, reply, ..
            } = line
            else {
                continue;
            };
            let is_log = match question {
                Question::Call(call) => &*call.name == "nccl_log_file",
                Question::Bench(call) => bench::is_log(call),
                _ => false,
            };
            if let (true, Ok(Answer::Value(value))) = (is_log, &reply.said) {
                let writers = log::hosts(value).map(str::to_owned);
                let named = log::lines(value);
                let named = named
                    .iter()
                    .flat_map(|line| launcher::hosts(&self.names, line));
                let all: Vec<String> = writers.chain(named).collect();
                self.names.writers.extend(all);
            }
            match &reply.said {
                Ok(Answer::Names(listed)) if files::holds_devices(question) => {
                    let devices = listed.iter().map(|name| name.to_string());
                    self.names.known.extend(devices);
                }
                Ok(Answer::Text(text)) => {
                    let path = question.path().unwrap_or("");
                    hosts.extend(files::own_names(path, text).map(str::to_owned));
                    users.extend(words::home_owners(text).map(str::to_owned));
                }
                Ok(Answer::Value(value)) => value::each_text(value, &mut |text| {
                    users.extend(words::home_owners(text).map(str::to_owned));
                }),
                _ => {}
            }
        }
        users.sort_unstable();
        users.dedup();
        self.names.learn(&hosts, &users);
    }

    /// The first line.
    pub fn header(&self, header: Header) -> Header {
        Header {
            node: match header.node.as_str() {
                "" => String::new(),
                node => self.names.key.host(node),
            },
            redacted: true,
            pseudonyms: self.names.key.mark(),
            altered: header.altered.map(|text| self.scan(&text, Kind::FREE)),
            ..header
        }
    }

    /// Any other line.
    pub fn line(&self, line: Line) -> Line {
        match line {
            Line::Reply {
                probe,
                question,
                repeat,
                reply,
            } => {
                let said = match reply.said {
                    Ok(answer) => self.answer(&question, answer),
                    Err(refusal) => Err(self.refusal(refusal)),
                };
                Line::Reply {
                    probe,
                    question: self.question(question),
                    repeat,
                    reply: Reply { at: reply.at, said },
                }
            }
            Line::Pending { probe, question } => Line::Pending {
                probe,
                question: self.question(question),
            },
            Line::Ended(ended) => Line::Ended(ProbeEnd {
                how: self.free(&ended.how),
                ..ended
            }),
            Line::Drop(question) => Line::Drop(self.question(question)),
            Line::Complete { lines } => Line::Complete { lines },
        }
    }

    /// How many things of each kind were replaced in the lines so far.
    pub fn replaced(&self) -> std::collections::BTreeMap<String, u64> {
        self.names.key.replaced()
    }

    /// The pseudonym of a host's name, as the header has it.
    pub fn host(&self, name: &str) -> String {
        self.names.key.host(name)
    }

    fn scan(&self, text: &str, kind: Kind) -> String {
        self.names.scan(text, kind)
    }

    fn free(&self, text: &str) -> Arc<str> {
        self.scan(text, Kind::FREE).into()
    }

    fn question(&self, question: Question) -> Question {
        match question {
            Question::Read(path) => Question::Read(self.path(&path)),
            Question::List(path) => Question::List(self.path(&path)),
            Question::Link(path) => Question::Link(self.path(&path)),
            Question::Stat(path) => Question::Stat(self.path(&path)),
            Question::StatVfs(path) => Question::StatVfs(self.path(&path)),
            Question::Open(path) => Question::Open(self.path(&path)),
            Question::Run(argv) => Question::Run(argv.iter().map(|word| self.free(word)).collect()),
            Question::Netlink(call) => Question::Netlink(self.call(call)),
            Question::Call(call) => Question::Call(self.call(call)),
            Question::Bench(call) => Question::Bench(self.call(call)),
            Question::Env(_) | Question::Wait(_) => question,
        }
    }

    fn path(&self, path: &Arc<str>) -> Arc<str> {
        let mapped = self.scan(path, files::kind_of_path(path));
        if mapped == **path {
            Arc::clone(path)
        } else {
            mapped.into()
        }
    }

    fn call(&self, call: Arc<Call>) -> Arc<Call> {
        // It names a file that every user may have, and no place.
        if &*call.name == "home_file" {
            return call;
        }
        let (of_log, of_named) = (&*call.name == "nccl_log_file", &*call.name == "named_file");
        let args = call.args.iter().map(|(name, value)| {
            let value = match value {
                Argument::Text(text) if of_log => {
                    Argument::Text(log::file(&self.names, text).into())
                }
                Argument::Text(text) if of_named && &**name == "path" => {
                    Argument::Text(self.path(text))
                }
                Argument::Text(text) => Argument::Text(self.scan(text, Kind::NAME).into()),
                Argument::Number(number) => Argument::Number(*number),
            };
            (Arc::clone(name), value)
        });
        Arc::new(Call {
            args: args.collect(),
            name: Arc::clone(&call.name),
        })
    }

    fn answer(&self, question: &Question, answer: Answer) -> Result<Answer, Refusal> {
        let left_out = || Refusal::not_asked(LEFT_OUT);
        let names = &self.names;
        Ok(match (question, answer) {
            (Question::Netlink(_), Answer::Bytes(bytes)) => {
                as_recorded(netlink::reply(names, &bytes).ok_or_else(left_out)?)
            }
            (Question::Netlink(_), Answer::Text(text)) => {
                as_recorded(netlink::reply(names, text.as_bytes()).ok_or_else(left_out)?)
            }
            (Question::Read(path), Answer::Text(text)) => match files::rule(path) {
                FileRule::PciConfig => as_recorded(files::pci_config(&names.key, text.as_bytes())),
                rule => {
                    let mapped = files::content(names, rule, &text).ok_or_else(left_out)?;
                    Answer::Text(mapped.into())
                }
            },
            (Question::Read(path), Answer::Bytes(bytes)) => match files::rule(path) {
                FileRule::PciConfig => Answer::Bytes(files::pci_config(&names.key, &bytes).into()),
                rule => {
                    let text = latin_1(&bytes).ok_or_else(left_out)?;
                    let mapped = files::content(names, rule, &text).ok_or_else(left_out)?;
                    let byte = |c: char| u8::try_from(c).unwrap_or(b'?');
                    Answer::Bytes(mapped.chars().map(byte).collect())
                }
            },
            (Question::Link(_), Answer::Text(text)) => {
                let kind = match text.starts_with('/') {
                    true => files::kind_of_path(&text),
                    false => Kind::NAME,
                };
                Answer::Text(self.scan(&text, kind).into())
            }
            (Question::Run(argv), Answer::Text(text)) if firewall::lists_rules(argv) => {
                let mapped = firewall::rules(names, argv, &text).ok_or_else(left_out)?;
                Answer::Text(mapped.into())
            }
            (Question::Run(_), Answer::Text(text)) => Answer::Text(self.free(&text)),
            (Question::Call(call), Answer::Text(text)) if &*call.name == "named_file" => {
                let rule = files::rule_of_named(call.text("format").unwrap_or(""));
                let mapped = files::content(names, rule, &text).ok_or_else(left_out)?;
                Answer::Text(mapped.into())
            }
            (question, Answer::Value(value)) => {
                let mapped = self.value(question, &value).ok_or_else(left_out)?;
                Answer::Value(Arc::new(mapped))
            }
            (question, Answer::Names(listed)) => {
                // The order of the listing stays, for whoever asks on in that order.
                let kind = question.path().map_or(Kind::NAME, files::kind_of_path);
                let listed = listed.iter().map(|name| self.scan(name, kind).into());
                Answer::Names(listed.collect())
            }
            (_, Answer::Text(_) | Answer::Bytes(_)) => return Err(left_out()),
        })
    }

    /// A value in answer to a question; `None` if it has to be left out.
    fn value(&self, question: &Question, value: &Value) -> Option<Value> {
        let names = &self.names;
        let path = |text: &str| self.path(&Arc::from(text)).to_string();
        let call = match question {
            Question::Env(_) => return Some(value::environment(names, value)),
            Question::Bench(call) if bench::is_log(call) => return log::digest(names, value),
            Question::Bench(call) if &*call.name != "p2p" => {
                return Some(bench::reply(names, &path, value));
            }
            Question::Call(call) => call,
            _ => return Some(value::reply(names, value)),
        };
        Some(match &*call.name {
            "home_file" => value::home_file(names, call.text("name").unwrap_or(""), value),
            "ethtool_module_eeprom" => value::module(&names.key, value),
            "nccl_log_file" => log::digest(names, value)?,
            "nccl_log" => value::with_texts(value, &|_, text| log::file(names, text)),
            "process_env" => value::job_environment(names, value),
            "kernel_log" => value::kernel_log(names, value),
            "processes" => value::processes(names, value),
            name if name.starts_with("rank_") => value::ranks(names, value),
            "port_holder" => value::free(names, value),
            "boot_settings" => value::boot_settings(names, value),
            name if name.starts_with("process") => value::free(names, value),
            name if name.starts_with("nccl_") => value::with_texts(value, &|_, text| path(text)),
            name if name.starts_with("nvml_") => {
                value::with_texts(value, &|member, text| nvml::text(names, member, text))
            }
            _ => value::reply(names, value),
        })
    }

    fn refusal(&self, refusal: Refusal) -> Refusal {
        match refusal {
            Refusal::LibraryMissing(words) => Refusal::LibraryMissing(self.free(&words)),
            Refusal::SymbolMissing(words) => Refusal::SymbolMissing(self.free(&words)),
            Refusal::CommandFailed(status, words) => {
                Refusal::CommandFailed(status, self.free(&words))
            }
            Refusal::Crash(words) => Refusal::Crash(self.free(&words)),
            Refusal::Stuck(place) => Refusal::Stuck(self.path(&place)),
            Refusal::NotAsked(words) => Refusal::NotAsked(self.free(&words)),
            Refusal::Errno(_)
            | Refusal::CommandMissing
            | Refusal::Timeout
            | Refusal::TooLarge
            | Refusal::NotRecorded => refusal,
        }
    }
}

/// Bytes as a recording holds them: as text if they are valid UTF-8.
fn as_recorded(bytes: Vec<u8>) -> Answer {
    match String::from_utf8(bytes) {
        Ok(text) => Answer::Text(text.into()),
        Err(error) => Answer::Bytes(error.into_bytes().into()),
    }
}

/// Text in an eight-bit encoding, each byte one character; `None` if the bytes are no text.
fn latin_1(bytes: &[u8]) -> Option<String> {
    let is_text = bytes
        .iter()
        .all(|b| *b >= b' ' || matches!(b, b'\t' | b'\n' | b'\r'));
    is_text.then(|| bytes.iter().map(|b| char::from(*b)).collect())
}

impl Names {
    /// Replaces every address, GUID and known name in a text.
    fn scan(&self, text: &str, kind: Kind) -> String {
        let bytes = text.as_bytes();
        let mut out = String::with_capacity(text.len() + 16);
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let before = at
                .checked_sub(1)
                .and_then(|before| bytes.get(before))
                .copied();
            let begins = !before.is_some_and(text::in_word);
            // A name may follow an underscore, an address does not.
            let name_begins =
                byte.is_ascii_alphanumeric() && !before.is_some_and(|b| b.is_ascii_alphanumeric());
            let double = byte == b':' && bytes.get(at + 1) == Some(&b':') && before != Some(b':');
            let mut found = self.at(text, at, name_begins, kind);
            if found.is_none() && begins && (byte.is_ascii_alphanumeric() || double) {
                found = text::address_at(&self.key, text, at, kind);
            }
            if found.is_none() && kind.listed && name_begins {
                found = Some(self.unlisted(text.get(at..).unwrap_or(""), kind));
            }
            if found.is_none() && name_begins {
                // `upper_enx…`, the link from a device to the bond above it.
                found = text::name_with_mac(&self.key, text.get(at..).unwrap_or(""));
            }
            if let Some((taken, mapped)) = found.filter(|(taken, _)| *taken > 0) {
                out.push_str(&mapped);
                at += taken;
                continue;
            }
            // Nothing begins inside a word; and a character of several bytes is one.
            let rest = text.get(at..).unwrap_or("");
            let word = rest
                .bytes()
                .position(|b| !b.is_ascii_alphanumeric())
                .unwrap_or(rest.len());
            let taken = match word {
                0 => rest.chars().next().map_or(1, char::len_utf8),
                word => word,
            };
            out.push_str(rest.get(..taken).unwrap_or(""));
            at += taken;
        }
        out
    }

    /// The same in a text that people or programs write.
    fn free(&self, text: &str) -> String {
        self.scan(text, Kind::FREE)
    }

    /// The same in a text that a site has filled.
    fn listed(&self, text: &str) -> String {
        self.scan(text, Kind::LISTED)
    }

    /// The same in a line of a log that says what went wrong.
    fn message(&self, text: &str) -> String {
        self.scan(text, Kind::MESSAGE)
    }

    /// The same in a path, or a part of one, that is not the kernel's.
    fn place(&self, text: &str) -> String {
        self.scan(text, Kind::PLACE)
    }

    /// The same in a name.
    fn name(&self, text: &str) -> String {
        self.scan(text, Kind::NAME)
    }
}
