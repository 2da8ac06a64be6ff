//! What ethtool(8) counts, how a device pauses, corrects errors and helps TCP, and what a module says of itself: `-S`, `-a`, `--show-fec`, `-k`, `-m`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Output, OutputLine, named, ports};
use crate::fact::{BitRate, Facts, Id, Subject, netdev, port};

/// States what one output says of its device.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let has = |options: &[&str]| options.iter().any(|option| output.has(option));
    if has(&["-a", "--show-pause", "--show-fec", "-k", "--show-features"]) {
        return settings(output, facts, node);
    }
    let Some(device) = output.operand() else {
        return;
    };
    let mut lines: BTreeMap<&str, (&str, OutputLine<'_>)> = BTreeMap::new();
    for line in output.lines() {
        if let Some((key, value)) = line.text.split_once(':') {
            lines.entry(key.trim()).or_insert((value.trim(), line));
        }
    }
    if has(&["-m", "--module-info"]) {
        // `100G Ethernet: 100G Base-CR4 or 25G Base-CR CA-L`: the fastest counts.
        let best = lines.get("Transceiver type").and_then(|(value, line)| {
            let words = value.split([' ', ':', '/']);
            let gigabits = words.filter_map(|word| word.split_once('G')?.0.parse::<u64>().ok());
            Some((gigabits.max()?, line))
        });
        if let (Some((gigabits, line)), Some(port)) = (best, ports::port_on(facts, node, device)) {
            let rate = BitRate(gigabits.saturating_mul(1_000_000_000));
            facts.set(port, port::CABLE_RATE, line.known(rate));
        }
        let id = facts.instance(Subject::Netdev, node, device);
        module(&lines, facts, id);
        return;
    }
    let id = facts.instance(Subject::Netdev, node, device);
    compare_looks(output, facts, id);
    let mut worst: Option<Damage<'_>> = None;
    for (name, said) in &lines {
        let count = said.0.parse().ok().filter(|_| is_of_damage(name));
        if let Some(count) = count.filter(|count| worst.as_ref().is_none_or(|w| w.count < *count)) {
            let line = said.1;
            worst = Some(Damage { name, count, line });
        }
    }
    if let Some(worst) = worst {
        worst.state(facts, id);
    }
    match lines.get("rx_discards_phy") {
        Some((value, line)) => {
            facts.set(id, netdev::COUNTS_DROPS, line.known(true));
            facts.set(id, netdev::DISCARDS, line.read(value.parse().ok()));
            // An adapter that cannot watch for stalls has none of them.
            match lines.get("tx_pause_storm_error_events") {
                Some((n, line)) => facts.set(id, netdev::PAUSE_STORMS, line.read(n.parse().ok())),
                None if output.is_cut => {}
                None => facts.set(id, netdev::PAUSE_STORMS, output.known(0)),
            }
        }
        None if !output.is_cut && !lines.is_empty() => {
            facts.set(id, netdev::COUNTS_DROPS, output.known(false));
        }
        None => {}
    }
}

/// Words of which the name of such a statistic has one each.
const RECEIVED: &[&str] = &["rx", "receive"];
const DAMAGED: &[&str] = &[
    "crc",
    "fcs",
    "symbol",
    "align",
    "frame_err",
    "corrupt",
    "jabber",
];
const ERRORS: &[&str] = &["err", "bad"];

/// Whether a statistic counts packets that arrived damaged: checksums, symbols, alignment, framing, by the drivers' own names (rx_crc_errors_phy,
/// rx_fcs_errors, rx_symbol_err_phy, rx_align_errors, rx_frame_errors). Those that a filter or the network above refused are not damaged.
fn is_of_damage(name: &str) -> bool {
    let lower = name.to_lowercase();
    let has_one = |words: &&[&str]| words.iter().any(|word| lower.contains(word));
    [RECEIVED, DAMAGED, ERRORS].iter().all(has_one)
}

/// A statistic of packets that were not received as they were sent.
pub(super) struct Damage<'o> {
    pub(super) name: &'o str,
    pub(super) count: u64,
    pub(super) line: OutputLine<'o>,
}

impl Damage<'_> {
    /// States it of a network device.
    pub(super) fn state(&self, facts: &mut Facts, id: Id) {
        facts.set(id, netdev::RECEIVED_BADLY, self.line.known(self.count));
        facts.set(
            id,
            netdev::RECEIVED_BADLY_AS,
            self.line.known(self.name.into()),
        );
    }
}

/// Statistics that are compared with what an earlier look showed of them.
#[derive(Default)]
struct Look<'o> {
    discards: Option<(u64, OutputLine<'o>)>,
    /// Those of priorities, which people pick: at least these were dropped.
    of_priorities: Option<(u64, OutputLine<'o>)>,
    /// Pauses of the link and of priorities, by the statistic's name.
    pauses: BTreeMap<&'o str, u64>,
    last_pause: Option<OutputLine<'o>>,
    seen: BTreeSet<&'o str>,
}

/// Each time that a statistic is printed again is another look: of a loop, or by a command that was
/// given twice.
fn compare_looks(output: &Output, facts: &mut Facts, id: Id) {
    let mut look = Look::default();
    for line in output.lines() {
        let Some((key, value)) = line.text.split_once(':') else {
            continue;
        };
        let (name, Ok(value)) = (key.trim(), value.trim().parse::<u64>()) else {
            continue;
        };
        if !look.seen.insert(name) {
            std::mem::take(&mut look).write_facts(facts, id);
            look.seen.insert(name);
        }
        if name == "rx_discards_phy" {
            look.discards = Some((value, line));
        } else if is_of_priority(name, "rx_prio", "_discards") {
            let before = look.of_priorities.map_or(0, |before| before.0);
            look.of_priorities = Some((before.saturating_add(value), line));
        } else if name == "tx_pause_ctrl_phy" || is_of_priority(name, "tx_prio", "_pause") {
            look.pauses.insert(name, value);
            look.last_pause = Some(line);
        }
    }
    look.write_facts(facts, id);
}

/// Whether a statistic is of one priority: `tx_prio3_pause`, `rx_prio0_discards`.
fn is_of_priority(name: &str, begin: &str, end: &str) -> bool {
    let number = name
        .strip_prefix(begin)
        .and_then(|rest| rest.strip_suffix(end));
    number.is_some_and(|number| number.parse::<u8>().is_ok())
}

impl Look<'_> {
    fn write_facts(self, facts: &mut Facts, id: Id) {
        if let Some(line) = &self.last_pause {
            // What other statistics count is no rise of these.
            let names: Arc<str> = self
                .pauses
                .keys()
                .copied()
                .collect::<Vec<_>>()
                .join(" ")
                .into();
            let sent = match self.pauses.get("tx_pause_ctrl_phy") {
                Some(of_link) => *of_link,
                None => self
                    .pauses
                    .values()
                    .fold(0u64, |sum, one| sum.saturating_add(*one)),
            };
            match facts.known(id, netdev::PAUSES_SENT) {
                None => {
                    facts.set(id, netdev::PAUSES_SENT, line.known(sent));
                    facts.set(id, netdev::PAUSE_COUNTERS, line.known(names));
                }
                Some(before) if facts.known(id, netdev::PAUSE_COUNTERS) == Some(names) => {
                    let rose = sent.checked_sub(before);
                    facts.set(id, netdev::PAUSES_SENT_ROSE, line.read(rose));
                }
                Some(_) => {}
            }
        }
        if let (None, Some((discards, line))) = (&self.discards, &self.of_priorities) {
            facts.set(id, netdev::COUNTS_DROPS, line.known(true));
            facts.set(id, netdev::DISCARDS, line.known(*discards));
        }
        if let Some((discards, line)) = &self.discards {
            match facts.known(id, netdev::DISCARDS) {
                None => facts.set(id, netdev::DISCARDS, line.known(*discards)),
                Some(before) => {
                    let rose = discards.checked_sub(before);
                    facts.set(id, netdev::DISCARDS_ROSE, line.read(rose));
                }
            }
        }
    }
}

/// What the reading of a lane says that receives no light: `0.0000 mW / -inf dBm`, or the lowest
/// value that a module has.
const DARK: [&str; 2] = ["-inf dBm", "-40.00 dBm"];

/// The alarms that a module raises itself, and the lanes at which it receives no light.
fn module(lines: &BTreeMap<&str, (&str, OutputLine<'_>)>, facts: &mut Facts, id: Id) {
    let mut alarm: Option<(&str, &OutputLine<'_>)> = None;
    let mut measured: Option<&OutputLine<'_>> = None;
    let (mut lanes, mut dark) = (0, 0);
    for (key, (value, line)) in lines {
        if key.contains("alarm") {
            // The first that is raised; until one is, that there are some and none is.
            let is_raised = *value == "On";
            if alarm.is_none_or(|known| is_raised && known.0 == "none") {
                alarm = Some((if is_raised { *key } else { "none" }, line));
            }
        } else if key.contains("optical power")
            && (key.starts_with("Rcvr signal") || key.starts_with("Receiver signal"))
            && value.ends_with("dBm")
        {
            let is_dark = DARK.iter().any(|dark| value.ends_with(dark));
            lanes += 1;
            dark += u64::from(is_dark);
            if measured.is_none() || is_dark && dark == 1 {
                measured = Some(line);
            }
        }
    }
    // `[ Yes No No No ]`: where no power is measured, the module's own word counts.
    if let (None, Some((value, line))) = (measured, lines.get("Rx loss of signal")) {
        let words = value.split(|c: char| !c.is_ascii_alphabetic());
        for word in words.filter(|word| matches!(*word, "Yes" | "No")) {
            lanes += 1;
            dark += u64::from(word == "Yes");
        }
        measured = (lanes > 0).then_some(line);
    }
    if let Some((name, line)) = alarm {
        facts.set(id, netdev::MODULE_ALARM, line.known(name.into()));
    }
    if let Some(line) = measured {
        facts.set(id, netdev::DARK_LANES, line.known(dark));
        facts.set(id, netdev::LANES, line.known(lanes));
    }
}

/// `Features for eth2:` and a name with its value in each line below; what a driver cannot change is marked: `on [fixed]`.
fn settings(output: &Output, facts: &mut Facts, node: Id) {
    let mut device = output.operand();
    for line in output.lines() {
        let (key, value) = line.text.split_once(':').unwrap_or_default();
        if let Some((_, name)) = key.split_once(" for ") {
            device = Some(name);
        } else if let Some(device) = device {
            let id = facts.instance(Subject::Netdev, node, device);
            let value = value.split(" [").next().unwrap_or_default();
            named::state(facts, id, named::NETDEV, (key, value), &line);
        }
    }
}
