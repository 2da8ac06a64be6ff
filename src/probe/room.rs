//! What the machine has left for a job: space for files, mappings, ports, descriptors and memory.

use std::sync::Arc;

use super::setting::Variables;
use super::{Ask, Probe, host, member, whole_number};
use crate::fact::{Bytes, Fact, Facts, Id, Percent, Why, node};
use crate::source::{Errno, Question, Refusal};

/// The probe.
pub const PROBE: Probe = Probe::new("room", run);

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let maps = ask.parse("/proc/sys/vm/max_map_count", whole_number);
    facts.set(node, node::MAX_MAP_COUNT, maps);
    let limits = ask.text("/proc/self/limits");
    let space = limits.and_then(|text| host::soft_limit(&text, "Max address space"));
    facts.set(node, node::ADDRESS_SPACE, space.map(Bytes));
    facts.set(node, node::PORTS_FREE, ports(ask));
    let left = ask.parse("/proc/sys/fs/file-nr", files_left);
    // Whoever can open nothing more is refused this file as well.
    let left = left.or_refused(Errno::ENFILE, 0);
    facts.set(node, node::FILES_LEFT, left);
    let memory = ask.parse("/proc/meminfo", available);
    facts.set(node, node::MEMORY_AVAILABLE, memory);
    // A directory may be on a file system that hangs, which is then the end of the probe: it comes last.
    temporary(ask, facts, node);
}

/// How many ports the kernel gives to sockets that ask for any.
fn ports(ask: &Ask<'_>) -> Fact<u64> {
    let dir = "/proc/sys/net/ipv4";
    let reserved = ask.text_if_any(format!("{dir}/ip_local_reserved_ports"));
    let reserved = reserved.parse(Vec::new(), crate::cpu_list::numbers);
    let range = ask.parse(format!("{dir}/ip_local_port_range"), |text| {
        let mut ends = text.split_whitespace().map(str::parse::<u64>);
        match (ends.next(), ends.next()) {
            (Some(Ok(first)), Some(Ok(last))) if first <= last => Ok((first, last)),
            _ => Err("it is no range of ports".to_owned()),
        }
    });
    range.zip(reserved).map(|((first, last), reserved)| {
        let taken = reserved.iter().filter(|port| (first..=last).contains(port));
        last - first + 1 - taken.count() as u64
    })
}

/// `1024\t0\t9223372036854775807`: open files, 0, and the most.
fn files_left(text: &str) -> Result<u64, String> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(used)), _, Some(Ok(most))) => Ok(most.saturating_sub(used)),
        _ => Err("it has no three numbers".to_owned()),
    }
}

/// The share of the memory that a program could get without swapping.
fn available(text: &str) -> Result<Percent, String> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        number.ok_or_else(|| format!("it has no {name}"))
    };
    let (all, free) = (value("MemTotal:")?, value("MemAvailable:")?);
    match all > 0.0 {
        true => Ok(Percent((free / all * 1000.0).round() / 10.0)),
        false => Err("the machine has no memory".to_owned()),
    }
}

/// The directory for temporary files.
pub(super) fn directory(ask: &Ask<'_>) -> Fact<Arc<str>> {
    let variables = ask.read::<Variables>(Question::env(&["TMPDIR"]));
    variables.map(|all| match all.get("TMPDIR") {
        Some(path) if path.starts_with('/') => Arc::clone(path),
        _ => "/tmp".into(),
    })
}

/// The directory for temporary files, and whether one can be made there.
fn temporary(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let named = directory(ask);
    let path = match &named {
        Fact::Known(path, _) => Arc::clone(path),
        Fact::Unknown(gap) => {
            facts.set(node, node::TMP, Fact::Unknown(gap.clone()));
            return;
        }
    };
    facts.set(node, node::TMP, named);
    let question = Question::statvfs(path);
    let origin = crate::fact::Origin::Asked(question.clone());
    let says = ask.value(question);
    let absent = match &says {
        Fact::Known(..) => Fact::Known(false, origin.clone()),
        Fact::Unknown(gap) => match &gap.why {
            Why::Refused(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR)) => {
                Fact::Known(true, origin.clone())
            }
            _ => Fact::Unknown(gap.clone()),
        },
    };
    facts.set(node, node::TMP_ABSENT, absent);
    let number = |name: &str| says.clone().and_then(|value| member(&value, name));
    facts.set(node, node::TMP_FREE, number("free").map(Bytes));
    // Some file systems have as many inodes as there is space, and count none.
    let inodes = match (number("inodes"), number("inodes_free")) {
        (Fact::Known(0, origin), _) => Fact::Known(u64::MAX, origin),
        (_, free) => free,
    };
    facts.set(node, node::TMP_INODES, inodes);
    let read_only = says.and_then(|value| member(&value, "read_only"));
    facts.set(node, node::TMP_READ_ONLY, read_only);
    let known = |bytes: Bytes, inodes: u64| match inodes {
        u64::MAX => format!("{bytes} are free"),
        inodes => format!("{bytes} and {inodes} inodes are free"),
    };
    let (free, inodes) = (
        facts.known(node, node::TMP_FREE),
        facts.known(node, node::TMP_INODES),
    );
    let state = match (
        facts.known(node, node::TMP_ABSENT),
        facts.known(node, node::TMP_READ_ONLY),
    ) {
        (Some(true), _) => "it does not exist".to_owned(),
        (_, Some(true)) => "it is mounted read-only".to_owned(),
        _ => match (free, inodes) {
            (Some(free), Some(inodes)) => known(free, inodes),
            _ => return,
        },
    };
    facts.set(node, node::TMP_STATE, Fact::Known(state.into(), origin));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::run;

    #[test]
    fn ports_less_those_that_are_reserved() {
        let range =
            r#"{"q":{"read":"/proc/sys/net/ipv4/ip_local_port_range"},"text":"32768\t60999\n"}"#;
        let reserved = |ports: &str| {
            format!(
                r#"{{"q":{{"read":"/proc/sys/net/ipv4/ip_local_reserved_ports"}},"text":"{ports}\n"}}"#
            )
        };
        let free = |ports: &str| {
            let (facts, node) = run(&PROBE, &[range, &reserved(ports)]);
            facts.known(node, node::PORTS_FREE)
        };
        assert_eq!(free(""), Some(28232));
        assert_eq!(free("30000-32767,50000-50010"), Some(28221));
    }

    #[test]
    fn numbers_of_proc() {
        assert_eq!(
            files_left("2496\t0\t9223372036854775807"),
            Ok(9223372036854773311)
        );
        assert_eq!(files_left("90\t0\t80"), Ok(0));
        assert!(files_left("90").is_err());
        let text =
            "MemTotal:       65842796 kB\nMemFree:         1000 kB\nMemAvailable:    3292139 kB\n";
        assert_eq!(available(text), Ok(Percent(5.0)));
        assert!(available("MemTotal:       65842796 kB\n").is_err());
    }

    #[test]
    fn a_file_that_tells_how_many_are_left_and_finds_none() {
        let full = r#"{"q":{"read":"/proc/sys/fs/file-nr"},"errno":"ENFILE"}"#;
        let (facts, node) = run(&PROBE, &[full]);
        assert_eq!(facts.known(node, node::FILES_LEFT), Some(0));
        let damaged = r#"{"q":{"read":"/proc/sys/fs/file-nr"},"errno":"EIO"}"#;
        let (facts, node) = run(&PROBE, &[damaged]);
        assert_eq!(facts.known(node, node::FILES_LEFT), None);
    }

    #[test]
    fn a_directory_for_temporary_files() {
        let env = r#"{"q":{"env":["TMPDIR"]},"value":{"TMPDIR":"/scratch/4711"}}"#;
        let absent = r#"{"q":{"statvfs":"/scratch/4711"},"errno":"ENOENT"}"#;
        let (facts, node) = run(&PROBE, &[env, absent]);
        assert_eq!(facts.known(node, node::TMP_ABSENT), Some(true));
        assert_eq!(
            facts.known(node, node::TMP).as_deref(),
            Some("/scratch/4711")
        );
        let full = r#"{"q":{"statvfs":"/scratch/4711"},"value":{"magic":"0x58465342","size":1000,"free":0,"read_only":false,"inodes":0,"inodes_free":0}}"#;
        let (facts, node) = run(&PROBE, &[env, full]);
        assert_eq!(facts.known(node, node::TMP_ABSENT), Some(false));
        assert_eq!(facts.known(node, node::TMP_FREE), Some(Bytes(0)));
        assert_eq!(
            facts.known(node, node::TMP_INODES),
            Some(u64::MAX),
            "it counts none"
        );
    }
}
