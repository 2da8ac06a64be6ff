//! A hostfile in DeepSpeed's form: a host and its slots on each line.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fact::setting::{self, SettingRole};
use crate::fact::{Fact, Facts, Gap, Id, Presence, Subject};
use crate::probe::Ask;
use crate::source::named_format::NamedFormat;

/// Hosts that a finding names at most.
const NAMED: usize = 4;

/// The content of a hostfile.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Hostfile {
    pub(super) hosts: u64,
    pub(super) duplicates: Vec<String>,
    /// How many hosts have how many slots.
    pub(super) slots: BTreeMap<u64, u64>,
    pub(super) bad_lines: u64,
    /// Number of the first bad line, from 1.
    pub(super) bad_line: u64,
}

/// Whether the file's name says that it is a hostfile: what it holds is then known to whoever redacts it.
pub(super) fn may_be_read(path: &str) -> bool {
    path.starts_with('/')
        && path
            .rsplit('/')
            .next()
            .is_some_and(|n| n.contains("hostfile"))
}

/// The hostfile at a path.
pub(super) fn at(ask: &Ask<'_>, path: &str) -> Presence<Arc<str>> {
    let (question, text) = ask.named_file(&path.into(), NamedFormat::Hosts);
    ask.presence(&question, text)
}

/// States what a hostfile says.
pub(super) fn state(
    facts: &mut Facts,
    node: Id,
    path: &str,
    file: Presence<Arc<str>>,
    open: &mut Option<Gap>,
) {
    let (text, origin) = match file {
        Presence::Present(text, origin) => (text, origin),
        Presence::Absent(_) => return,
        Presence::Unknown(gap) => {
            open.get_or_insert(gap);
            return;
        }
    };
    let list = parse(&text);
    let id = facts.instance(Subject::Setting, node, path);
    let text = |text: String| Fact::Known(Arc::from(text), origin.clone());
    let count = |count: u64| Fact::Known(count, origin.clone());
    facts.set(id, setting::VARIABLE, text("hostfile".into()));
    facts.set(id, setting::VALUE, text(format!("{} hosts", list.hosts)));
    facts.set(id, setting::SOURCE, text(path.to_owned()));
    facts.know(id, setting::ROLE, SettingRole::Hostfile, &origin);
    facts.know(id, setting::ON, false, &origin);
    facts.set(id, setting::JOB_NODES, count(list.hosts));
    facts.set(id, setting::DUPLICATES, count(list.duplicates.len() as u64));
    let named = &list.duplicates[..list.duplicates.len().min(NAMED)];
    facts.set(id, setting::DUPLICATE_HOSTS, text(named.join(", ")));
    facts.know(id, setting::SLOTS_AGREE, list.slots.len() <= 1, &origin);
    let slots: Vec<String> = list
        .slots
        .iter()
        .map(|(slots, hosts)| format!("{hosts} with {slots}"))
        .collect();
    facts.set(id, setting::SLOTS, text(slots.join(", ")));
    facts.set(id, setting::BAD_LINES, count(list.bad_lines));
    facts.set(id, setting::BAD_LINE, count(list.bad_line));
}

/// Reads a hostfile as DeepSpeed does (deepspeed/launcher/runner.py, `_parse_hostfile`): `HOST slots=N`, comments, empty lines.
pub(super) fn parse(text: &str) -> Hostfile {
    let mut list = Hostfile::default();
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        let host = words.next();
        let slots = words
            .next()
            .and_then(|word| word.strip_prefix("slots="))
            .map(|digits| digits.trim_end_matches(|c: char| !c.is_ascii_digit()))
            .and_then(|digits| digits.parse::<u64>().ok());
        let (Some(host), Some(slots)) = (host, slots) else {
            list.bad_lines += 1;
            if list.bad_line == 0 {
                list.bad_line = at as u64 + 1;
            }
            continue;
        };
        let times = seen.entry(host).or_default();
        *times += 1;
        match *times {
            1 => {
                list.hosts += 1;
                *list.slots.entry(slots).or_default() += 1;
            }
            2 => list.duplicates.push(host.to_owned()),
            _ => {}
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_slots_and_what_is_neither() {
        let list =
            parse("# cluster\nworker-1 slots=8\nworker-2\tslots=8 # gpu\n\nworker-3 slots=4\n");
        assert_eq!((list.hosts, list.bad_lines), (3, 0));
        assert_eq!(list.slots, BTreeMap::from([(4, 1), (8, 2)]));
        let list = parse("w1 slots=8\nw1 slots=8\nw2:8\nw3 slots=x\nw1 slots=8\n");
        assert_eq!(list.duplicates, ["w1"]);
        assert_eq!((list.hosts, list.bad_lines, list.bad_line), (1, 2, 3));
        assert_eq!(parse(""), Hostfile::default());
    }

    #[test]
    fn only_what_says_that_it_is_one_is_read() {
        assert!(may_be_read("/job/hostfile"));
        assert!(may_be_read("/data/my_hostfile.txt"));
        assert!(!may_be_read("hostfile"));
        assert!(!may_be_read("/data/secrets"));
    }
}
