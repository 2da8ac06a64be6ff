//! Redacts lines of a log: hosts that write and hosts that are mentioned, addresses, GIDs, home directories, and whatever a
//! launcher put in front.

use serde_json::Value;

use super::key::Key;
use super::words::is_ordinary;
use super::{Names, value};
use crate::nccl_log::digest::{Digest, KeptLine};
use crate::nccl_log::event::{ClassCache, MessageClass, MessageKind};
use crate::nccl_log::text::contains;
use crate::nccl_log::{clock, prefix};
use crate::trace::Trace;

/// Words of the grammar: a host with such a name identifies nothing, and replacing it would break every line.
const GRAMMAR: &str = "\
    nccl rccl info warn comm rank ring channel via net ib send receive using network socket \
    bootstrap cuda trees init to by";

/// The hosts that wrote lines of a digest.
pub(super) fn hosts(value: &Value) -> impl Iterator<Item = &str> {
    let processes = value.get("processes").and_then(Value::as_array);
    let hosts = processes.into_iter().flatten();
    hosts
        .filter_map(|process| process.get("host")?.as_str())
        .filter(|host| host.len() > 1 && !is_ordinary(host))
        // Redacted by the log's owner.
        .filter(|host| !host.contains(['<', '>', '*', '$', '#']))
        .filter(|host| {
            let host = host.to_ascii_lowercase();
            !GRAMMAR.split(' ').any(|one| one == host)
        })
}

/// Every text of a digest that is a line of the log.
pub(super) fn lines(value: &Value) -> Vec<String> {
    let Ok(digest) = serde_json::from_value::<Digest>(value.clone()) else {
        return Vec::new();
    };
    let kept = digest.kept.into_iter().map(|line| line.text);
    let signs = digest.signs.into_iter().map(|sign| sign.text);
    let launches = digest.launches.into_iter().map(|launch| launch.text);
    kept.chain(signs).chain(launches).collect()
}

/// Redacts the digest of a log; `None` if it is not understood.
pub(super) fn digest(names: &Names, value: &Value) -> Option<Value> {
    let mut digest: Digest = serde_json::from_value(value.clone()).ok()?;
    let host = |name: &str| match names.writers.contains(name) {
        true => names.key.host(name),
        false => name.to_owned(),
    };
    for process in &mut digest.processes {
        process.host = host(&process.host);
    }
    for crowd in &mut digest.crowd {
        crowd.host = host(&crowd.host);
    }
    for kept in &mut digest.kept {
        *kept = KeptLine {
            text: line(names, &kept.text),
            ..kept.clone()
        };
    }
    for sign in &mut digest.signs {
        sign.text = line(names, &sign.text);
    }
    let mut with_writers = names.clone();
    with_writers.learn(&names.writers.iter().cloned().collect::<Vec<_>>(), &[]);
    for launch in &mut digest.launches {
        launch.text = with_writers.listed(&launch.text);
    }
    for block in &mut digest.outputs {
        for (_, text) in &mut block.lines {
            *text = output_line(names, text);
        }
        block.host = block.host.take().map(|name| names.key.host(&name));
    }
    match digest.trace.as_deref_mut() {
        Some(Trace::Dump(dump)) => {
            for call in dump.pending.iter_mut().chain(&mut dump.last) {
                call.frame = call.frame.as_deref().map(line_alone);
            }
        }
        Some(Trace::Ras(status)) => {
            for communicator in &mut status.communicators {
                let counted = communicator
                    .counts
                    .iter_mut()
                    .flat_map(|counts| &mut counts.named);
                let missing = communicator
                    .missing
                    .iter_mut()
                    .map(|missing| &mut missing.place);
                for place in counted.chain(missing) {
                    place.host = ras_host(names, &place.host);
                }
            }
        }
        None => {}
    }
    digest.broken_off = digest.broken_off.map(|why| names.free(&why));
    serde_json::to_value(digest).ok()
}

/// How an error begins that does not say whose it is.
const OF_NOBODY: [&str; 9] = [
    "error:",
    "fatal:",
    "failed to ",
    "failure:",
    "cannot ",
    "can't ",
    "could not ",
    "unable to ",
    "unknown ",
];

/// Whether a line among a tool's is not the tool's: an exception, or an error that no table has and
/// that does not say whose it is.
fn is_of_program(text: &str) -> bool {
    let line = text.trim_start();
    let first = line.split(' ').next().unwrap_or_default();
    let kind = first.strip_suffix(':').unwrap_or_default();
    let mut kinds = ["Error", "Exception"].iter();
    let is_exception = kinds.any(|end| kind.len() > end.len() && kind.ends_with(end));
    let lower = line.to_ascii_lowercase();
    let is_of_nobody = OF_NOBODY.iter().any(|begin| lower.starts_with(begin));
    is_exception || is_of_nobody && is_unlisted(text)
}

/// A line of a tool's output, whose words are its reader's.
fn output_line(names: &Names, text: &str) -> String {
    let said = without_hosts(names, text);
    if is_of_program(text) {
        return names.message(&said);
    }
    let is_of_kernel = KERNEL.iter().any(|mark| said.contains(mark));
    names.free(&if is_of_kernel {
        value::programs(&names.key, &said)
    } else {
        said
    })
}

/// What the kernel's log says of programs.
const KERNEL: [&str; 6] = [
    "NVRM: Xid ",
    "Comm: ",
    "Killed process ",
    "]: segfault",
    "] general protection",
    " blocked for more than ",
];

/// A line of a program without the names of its file and its function.
fn line_alone(frame: &str) -> String {
    let line = frame.split_once(':').map_or("", |(_, rest)| rest);
    let number = line.split(' ').next().unwrap_or_default();
    format!("file:{number}")
}

/// A node, as RAS calls it: by its name or by its address.
fn ras_host(names: &Names, host: &str) -> String {
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    if host.is_empty() || is_address {
        names.free(host)
    } else {
        names.key.host(host)
    }
}

/// A name of a file.
pub(super) fn file(names: &Names, name: &str) -> String {
    names.free(&without_hosts(names, name))
}

/// `… mtu 5 GID 3 (80FE/8D01A8C0FFFF0000)` without the GID; that it is link-local stays.
fn without_queue_gid(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(" mtu ")?;
    let (head, gid) = rest.split_once(" (")?;
    let (gid, after) = gid.split_once(')')?;
    let (subnet, _) = gid.split_once('/').filter(|_| head.contains("GID "))?;
    let subnet = if subnet == "80FE" { subnet } else { "0" };
    Some(format!("{before} mtu {head} ({subnet}/0){after}"))
}

/// What stands for a line that no table has: nobody knows which of its words are names.
const UNLISTED: &str = "error: a line that is in no table (not kept)";

/// Whether this is a line that no table has, and not one that repeats a message of NCCL's.
fn is_unlisted(text: &str) -> bool {
    let class = ClassCache::default().classify(MessageKind::Framework, text.as_bytes());
    class == MessageClass::Unlisted
        && !contains(text.as_bytes(), "Last error:")
        && prefix::bare(text.as_bytes()).is_none()
}

fn line(names: &Names, text: &str) -> String {
    let without_gid = without_queue_gid(text);
    let text = without_gid.as_deref().unwrap_or(text);
    let found = prefix::messages(text.as_bytes()).next();
    let Some(found) = found.or_else(|| prefix::without_name(text.as_bytes())) else {
        let mut said = without_hosts(names, text);
        if said.contains("Last error: ") {
            said = peers(&names.key, &said);
        }
        // (what is replaced is counted)
        let message = names.message(&said);
        return if is_unlisted(text) {
            UNLISTED.to_owned()
        } else {
            message
        };
    };
    // What a launcher puts there names pods and hosts in its own way: the time and the rank are what is read of it.
    let (before, rest) = text.split_at_checked(found.begin).unwrap_or(("", text));
    let mut kept = String::new();
    if let Some(rank) = prefix::tagged_rank(before) {
        kept.push_str(&format!("[rank{rank}]: "));
    }
    if let Some((_, begin, end)) = clock::last(before.as_bytes()) {
        kept.push_str(before.get(begin..end).unwrap_or(""));
        kept.push(' ');
    }
    let variable = [" set by environment to ", " set to "]
        .iter()
        .find_map(|mark| {
            rest.split_once(mark)
                .map(|(head, value)| (head, *mark, value))
        });
    if let Some((head, mark, value)) = variable
        && let Some(name) = head
            .rsplit(' ')
            .next()
            .filter(|name| name.starts_with("NCCL_"))
    {
        let head = without_hosts(names, head);
        return format!("{kept}{head}{mark}{}", value::variable(names, name, value));
    }
    kept + &names.message(&peers(&names.key, &without_hosts(names, rest)))
}

fn in_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// Replaces the known hosts, wherever they stand as words.
fn without_hosts(names: &Names, text: &str) -> String {
    words(text, |word, _, _| {
        let short = word.split('.').next().unwrap_or(word);
        (names.writers.contains(word) || names.writers.contains(short))
            .then(|| names.key.host(word))
    })
}

/// Replaces names of peers, `name<port>`: of hosts that wrote nothing themselves.
fn peers(key: &Key, text: &str) -> String {
    words(text, |word, before, after| {
        let port = after.strip_prefix('<')?.split_once('>')?.0;
        let named = word.bytes().any(|b| b.is_ascii_alphabetic());
        // The last part of an IPv6 address.
        let address = before.ends_with(':') && word.bytes().all(|b| b.is_ascii_hexdigit());
        let fits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        let zone = before.ends_with('%');
        (named && fits && !address && !zone && !word.starts_with("host-")).then(|| key.host(word))
    })
}

pub(super) fn words(text: &str, mut map: impl FnMut(&str, &str, &str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let length = rest.find(|c| !in_host(c)).unwrap_or(rest.len());
        if length == 0 {
            let gap = rest.find(in_host).unwrap_or(rest.len());
            out.push_str(rest.get(..gap).unwrap_or(""));
            at += gap;
            continue;
        }
        let (word, after) = rest.split_at(length);
        match map(word, text.get(..at).unwrap_or(""), after) {
            Some(mapped) => out.push_str(&mapped),
            None => out.push_str(word),
        }
        at += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::without_queue_gid;

    #[test]
    fn the_gid_of_a_connection_goes_and_its_scope_stays() {
        for (text, expected) in [
            (
                "n1:1:1 [0] NCCL INFO NET/IB: Dev 0 Port 1 qpn 74 mtu 5 GID 3 (0/8D01A8C0FFFF0000)",
                Some("n1:1:1 [0] NCCL INFO NET/IB: Dev 0 Port 1 qpn 74 mtu 5 GID 3 (0/0)"),
            ),
            (
                "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 74 mtu 5 query_ece={supported=1} GID 0 (80FE/2E1DFFFE8BB39E42) fifoRkey=0x1",
                Some(
                    "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 74 mtu 5 query_ece={supported=1} GID 0 (80FE/0) fifoRkey=0x1",
                ),
            ),
            ("NET/IB: Dev 0 Port 1 qpn 74 mtu 5 LID 3", None),
            ("NET/IB : mtu 5 (a)", None),
        ] {
            assert_eq!(without_queue_gid(text).as_deref(), expected, "{text}");
        }
    }
}
