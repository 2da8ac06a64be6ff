//! What a question gets on sound hardware, and what no kernel answers.

use serde_json::Value;

use super::question::Call;
use super::refusal::Refusal;
use super::{Answer, Question};

/// Rows of `ordinary_reply.toml`: the question, and what is said of it.
type Rows = &'static [(&'static str, &'static [&'static str])];

const REFUSED: Rows = include!(concat!(env!("OUT_DIR"), "/ordinary_reply.refused.rs"));
const UNREADABLE: Rows = include!(concat!(env!("OUT_DIR"), "/ordinary_reply.unreadable.rs"));
const FILLED: Rows = include!(concat!(env!("OUT_DIR"), "/ordinary_reply.filled.rs"));
const BLANK: Rows = include!(concat!(env!("OUT_DIR"), "/ordinary_reply.blank.rs"));
const ANY_TEXT: Rows = include!(concat!(env!("OUT_DIR"), "/ordinary_reply.any_text.rs"));

/// Whether sound hardware refuses this question so.
pub fn is_refused_so(question: &Question, refusal: &Refusal) -> bool {
    let (name, words) = match refusal {
        Refusal::Errno(errno) => (errno.to_string(), ""),
        Refusal::TooLarge => ("too-large".to_owned(), ""),
        Refusal::CommandFailed(_, words) => (String::new(), &**words),
        _ => return false,
    };
    let is_so = |word: &&str| {
        let part = word.strip_prefix("failed:");
        **word == *name || part.is_some_and(|part| words.contains(part))
    };
    let mut rows = REFUSED.iter();
    rows.any(|(asked, row)| row.first().is_some_and(is_so) && covers(asked, question))
}

/// Whether nothing may be understood of the question's answer, on sound hardware too.
pub fn may_be_unreadable(question: &Question) -> bool {
    is_listed(UNREADABLE, question)
}

/// Whether the answer may hold any character.
pub fn may_be_any_text(question: &Question) -> bool {
    let path = question.path().unwrap_or_default();
    let is_kernels = path.starts_with("/sys/") || path.starts_with("/proc/");
    !is_kernels || is_listed(ANY_TEXT, question)
}

/// How an answer is none that the question can have; `None` if it may be one.
pub fn malformed(question: &Question, answer: &Answer) -> Option<&'static str> {
    if !is_of_its_kind(question, answer) {
        return Some("it is of another kind");
    }
    let is_blank = match answer {
        Answer::Text(text) => text.trim_matches(['\0', '\n', ' ']).is_empty(),
        Answer::Bytes(bytes) => bytes.is_empty(),
        Answer::Names(_) | Answer::Value(_) => false,
    };
    if is_blank && is_listed(FILLED, question) || tells_nothing(question, answer) {
        return Some("it is empty");
    }
    if question.path().is_some_and(is_config) {
        let length = match answer {
            Answer::Bytes(bytes) => bytes.len(),
            Answer::Text(text) => text.len(),
            Answer::Names(_) | Answer::Value(_) => 0,
        };
        return (length < CONFIG_HEADER).then_some("it has no whole header");
    }
    if let (Question::Netlink(_), Answer::Bytes(bytes)) = (question, answer)
        && (1..MESSAGE_HEADER).contains(&bytes.len())
    {
        return Some("it is no message");
    }
    let is_odd = |c: char| c.is_control() && !"\n\t\0".contains(c);
    match (question, answer) {
        (Question::Read(_) | Question::Link(_), Answer::Text(text))
            if text.contains(is_odd) && !may_be_any_text(question) =>
        {
            Some("it has control characters")
        }
        // Programs write none where no terminal is.
        (Question::Run(_), Answer::Text(text)) if text.contains(is_odd) => {
            Some("it has control characters")
        }
        _ => None,
    }
}

/// Whether an object has no member where there is something to tell.
fn tells_nothing(question: &Question, answer: &Answer) -> bool {
    let is_blank = match (question, answer) {
        (Question::Call(_) | Question::Stat(_) | Question::StatVfs(_), Answer::Value(value)) => {
            value.as_object().is_some_and(serde_json::Map::is_empty)
        }
        _ => false,
    };
    is_blank && !is_listed(BLANK, question)
}

/// Bytes of the header of each message (include/uapi/linux/netlink.h, struct nlmsghdr).
const MESSAGE_HEADER: usize = 16;

/// Bytes of a PCI function's configuration that everyone may read (drivers/pci/pci-sysfs.c, pci_read_config).
const CONFIG_HEADER: usize = 64;

fn is_config(path: &str) -> bool {
    path.ends_with("/config") && is_path("/sys/bus/pci/devices/*/config", path)
}

fn is_of_its_kind(question: &Question, answer: &Answer) -> bool {
    match question {
        Question::Read(_) | Question::Run(_) | Question::Netlink(_) => {
            matches!(answer, Answer::Text(_) | Answer::Bytes(_))
        }
        Question::List(_) => matches!(answer, Answer::Names(_)),
        Question::Link(_) => matches!(answer, Answer::Text(_)),
        Question::Stat(_) | Question::StatVfs(_) | Question::Open(_) | Question::Env(_) => {
            matches!(answer, Answer::Value(value) if value.is_object())
        }
        // What its readers take of a file is text.
        Question::Call(call) if &*call.name == "named_file" => matches!(answer, Answer::Text(_)),
        Question::Call(_) | Question::Bench(_) | Question::Wait(_) => {
            let is_whole = |v: &Value| v.is_object() || v.is_array() || v.is_number();
            matches!(answer, Answer::Value(value) if is_whole(value))
        }
    }
}

fn is_listed(rows: Rows, question: &Question) -> bool {
    rows.iter().any(|(asked, _)| covers(asked, question))
}

/// Whether a row's question is this one.
fn covers(asked: &str, question: &Question) -> bool {
    let (verb, what) = asked.split_once(' ').unwrap_or((asked, ""));
    let of_path = |path: &str, own: &str| (verb == own || verb == "*") && is_path(what, path);
    let of_call = |call: &Call, own: &str| verb == own && is_path(what, &call.name);
    match question {
        Question::Read(path) => of_path(path, "read"),
        Question::List(path) => of_path(path, "list"),
        Question::Link(path) => of_path(path, "link"),
        Question::Stat(path) => of_path(path, "stat"),
        Question::StatVfs(path) => of_path(path, "statvfs"),
        Question::Open(path) => of_path(path, "open"),
        Question::Call(call) => of_call(call, "call"),
        Question::Netlink(call) => of_call(call, "netlink"),
        Question::Bench(call) => of_call(call, "bench"),
        Question::Run(argv) => {
            let mut words = what.split(' ');
            let mut given = argv.iter();
            verb == "run" && words.all(|word| given.next().is_some_and(|arg| is_part(word, arg)))
        }
        Question::Env(_) | Question::Wait(_) => false,
    }
}

/// Whether a path is one of a pattern: `*` within a part stands for any characters, `**` at the end for any parts.
fn is_path(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    for wanted in pattern.split('/') {
        match parts.next() {
            Some(_) if wanted == "**" => return true,
            Some(part) if is_part(wanted, part) => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

fn is_part(pattern: &str, part: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == part;
    };
    let Some(mut left) = part.strip_prefix(start) else {
        return false;
    };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return left.ends_with(piece);
        }
        let Some((_, behind)) = left.split_once(piece) else {
            return false;
        };
        left = behind;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::refusal::Errno;

    #[test]
    fn patterns() {
        for (pattern, path, covered) in [
            ("/sys/class/net/*/speed", "/sys/class/net/eth0/speed", true),
            ("/sys/class/net/*/speed", "/sys/class/net/eth0/mtu", false),
            ("/sys/class/net/*/speed", "/sys/class/net/a/b/speed", false),
            ("/proc/**", "/proc/42/status", true),
            ("/proc/**", "/proc", false),
            ("process_*", "process_env", true),
            ("process_*", "processes", false),
            ("*tables*", "ip6tables-legacy-save", true),
            ("**", "route/getlink", true),
        ] {
            assert_eq!(is_path(pattern, path), covered, "{pattern} {path}");
        }
    }

    #[test]
    fn each_row_can_be_read_and_names_its_source() {
        for (asked, row) in REFUSED {
            let [refusal, source] = row else {
                panic!("{asked}: a refusal and a source");
            };
            let is_known = *refusal == "too-large"
                || refusal.starts_with("failed:")
                || Errno::from_name(refusal).is_some();
            assert!(is_known && !source.is_empty(), "{asked}: {refusal}");
        }
        let verbs = ["*", "read", "list", "link", "stat", "statvfs", "open"];
        let others = ["call", "netlink", "bench", "run"];
        for (asked, row) in [REFUSED, UNREADABLE, FILLED, BLANK, ANY_TEXT]
            .into_iter()
            .flatten()
        {
            let (verb, what) = asked.split_once(' ').unwrap();
            assert!(verbs.contains(&verb) == what.starts_with('/'), "{asked}");
            assert!(verbs.contains(&verb) || others.contains(&verb), "{asked}");
            assert!(
                row.last().is_some_and(|source| !source.is_empty()),
                "{asked}"
            );
        }
    }

    #[test]
    fn an_answer_of_another_kind_or_without_content_is_malformed() {
        let state = Question::read("/sys/class/infiniband/mlx5_0/ports/1/state");
        let version = Question::read("/sys/class/infiniband/rxe0/fw_ver");
        let text = |text: &str| Answer::Text(text.into());
        assert_eq!(malformed(&state, &text("4: ACTIVE\n")), None);
        assert!(malformed(&state, &text("\n")).is_some());
        assert!(malformed(&state, &text("\u{1b}[2J")).is_some());
        assert_eq!(malformed(&version, &text("\n")), None);
        let links = Question::netlink("route/getlink", []);
        assert!(malformed(&links, &Answer::Bytes([].into())).is_some());
        assert!(malformed(&Question::list("/sys"), &text("")).is_some());
        let port = Question::call("ibv_query_port", []);
        assert!(malformed(&port, &Answer::from(Value::Null)).is_some());
        let named = Question::call("named_file", [("path", "/etc/nccl.conf".into())]);
        assert_eq!(malformed(&named, &text("NCCL_DEBUG=WARN\r\n")), None);
        assert_eq!(malformed(&named, &text("")), None);
        assert!(malformed(&named, &Answer::from(Value::Null)).is_some());
    }
}
