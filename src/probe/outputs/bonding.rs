//! A bond of network devices, as `/proc/net/bonding/NAME` shows it (Documentation/networking/bonding.rst).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Output, OutputLine};
use crate::fact::{Facts, Id, Subject, bond};

/// Where the kernel shows its bonds.
const DIRECTORY: &str = "/proc/net/bonding/";

/// A member, as far as its part says.
#[derive(Default)]
struct Member {
    name: String,
    is_up: bool,
    speed: Option<String>,
    aggregator: Option<String>,
    failures: u64,
}

/// States the bond whose file was printed.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let mut paths = output
        .argv
        .iter()
        .filter_map(|word| word.strip_prefix(DIRECTORY));
    let (Some(name), Some(first)) = (paths.next(), output.lines().next()) else {
        return;
    };
    let id = facts.instance(Subject::Bond, node, name);
    let mut members: Vec<Member> = Vec::new();
    for line in output.lines() {
        let Some((key, value)) = line.text.trim().split_once(": ") else {
            continue;
        };
        let value = value.trim();
        if key == "Slave Interface" {
            members.push(Member {
                name: value.to_owned(),
                ..Member::default()
            });
        } else if let Some(member) = members.last_mut() {
            of_member(member, key, value);
        } else {
            of_bond(facts, id, &line, (key, value));
        }
    }
    of_members(facts, id, &first, &members);
}

fn of_bond(facts: &mut Facts, id: Id, line: &OutputLine<'_>, said: (&str, &str)) {
    match said {
        ("Bonding Mode", words) => {
            if let Some(mode) = mode(words) {
                facts.set(id, bond::MODE, line.known(mode.into()));
                facts.set(id, bond::LACP, line.known(mode == "802.3ad"));
            }
        }
        ("Transmit Hash Policy", words) => {
            let policy = words.split(' ').next().unwrap_or(words);
            facts.set(id, bond::HASH, line.known(policy.into()));
        }
        ("MII Polling Interval (ms)", interval) => {
            facts.set(id, bond::WATCHES, line.known(interval != "0"));
        }
        ("Partner Mac Address", address) => {
            let is_there = address.bytes().any(|byte| !matches!(byte, b'0' | b':'));
            facts.set(id, bond::PARTNER, line.known(is_there));
        }
        _ => {}
    }
}

/// The kernel's name of a mode, by the words for it (drivers/net/bonding/bond_main.c, `bond_mode_name`).
fn mode(words: &str) -> Option<&'static str> {
    const MODES: [(&str, &str); 7] = [
        ("802.3ad", "802.3ad"),
        ("active-backup", "active-backup"),
        ("(round-robin)", "balance-rr"),
        ("(xor)", "balance-xor"),
        ("(broadcast)", "broadcast"),
        ("transmit load balancing", "balance-tlb"),
        ("adaptive load balancing", "balance-alb"),
    ];
    let mut modes = MODES.iter();
    modes
        .find(|(part, _)| words.contains(part))
        .map(|(_, mode)| *mode)
}

fn of_member(member: &mut Member, key: &str, value: &str) {
    match key {
        "MII Status" => member.is_up = value == "up",
        "Speed" if value.ends_with("Mbps") => member.speed = Some(value.to_owned()),
        "Aggregator ID" => member.aggregator = Some(value.to_owned()),
        "Link Failure Count" => member.failures = value.parse().unwrap_or(0),
        _ => {}
    }
}

fn of_members(facts: &mut Facts, id: Id, line: &OutputLine<'_>, members: &[Member]) {
    if members.is_empty() {
        return;
    }
    let names = |is_meant: fn(&Member) -> bool| -> Arc<[Arc<str>]> {
        let meant = members.iter().filter(|member| is_meant(member));
        meant.map(|member| Arc::from(&*member.name)).collect()
    };
    let down = names(|member| !member.is_up);
    facts.set(id, bond::MEMBERS, line.known(names(|_| true)));
    facts.set(id, bond::DOWN_COUNT, line.known(down.len() as u64));
    if !down.is_empty() {
        facts.set(id, bond::MEMBERS_DOWN, line.known(down));
    }
    let failures = members.iter().map(|member| member.failures);
    let failures = failures.fold(0, u64::saturating_add);
    facts.set(id, bond::LINK_FAILURES, line.known(failures));
    let up = || members.iter().filter(|member| member.is_up);
    let aggregators: BTreeSet<&String> = up().filter_map(|one| one.aggregator.as_ref()).collect();
    if !aggregators.is_empty() {
        let count = aggregators.len() as u64;
        facts.set(id, bond::AGGREGATORS, line.known(count));
    }
    let speeds: Vec<Arc<str>> = up()
        .filter_map(|one| Some(format!("{} {}", one.name, one.speed.as_ref()?).into()))
        .collect();
    let different: BTreeSet<&String> = up().filter_map(|one| one.speed.as_ref()).collect();
    if !different.is_empty() {
        facts.set(id, bond::SPEEDS_AGREE, line.known(different.len() == 1));
        facts.set(id, bond::SPEEDS, line.known(speeds.into()));
    }
}
