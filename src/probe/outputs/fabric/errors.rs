//! Error counters of ports, as ibqueryerrors(8) lists them:
//! `GUID 0x1 port 5: [SymbolErrorCounter == 7]`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::said::{End, hex};
use crate::fact::counter::CounterClass;
use crate::fact::counter_table::{CounterMeaning, meaning};
use crate::probe::outputs::OutputLine;
use crate::probe::outputs::counters::snake;
use crate::small_sort;

/// The counter of lost links.
pub(super) const LINK_DOWNED: &str = "LinkDownedCounter";

/// A counter with its value.
struct Count {
    counter: String,
    value: u64,
}

/// A port, with those of its counters that mean a bad link.
pub(super) struct PortErrors<'o> {
    pub(super) end: End,
    pub(super) line: OutputLine<'o>,
    counts: Vec<Count>,
}

impl PortErrors<'_> {
    /// `SymbolErrorCounter at least 65535, LinkDownedCounter 8`
    pub(super) fn counters_in_words(&self) -> String {
        let words: Vec<String> = self.counts.iter().map(Count::in_words).collect();
        words.join(", ")
    }
}

impl Count {
    /// Reads `SymbolErrorCounter == 65535]`, `LinkDownedCounter == 255 (255.000)]`.
    fn read(text: &str) -> Option<Count> {
        let (name, rest) = text.split_once(" == ")?;
        let digits = rest.split([' ', ']']).next()?;
        Some(Count {
            counter: name.to_owned(),
            value: digits.parse().ok()?,
        })
    }

    fn meaning(&self) -> Option<CounterMeaning> {
        meaning(&snake(&self.counter))
    }

    /// Whether the counter accuses this link, and not another one or the traffic.
    fn means_bad_link(&self) -> bool {
        let class = self.meaning().map(|meaning| meaning.class);
        matches!(class, Some(CounterClass::Link | CounterClass::Flap))
    }

    fn in_words(&self) -> String {
        let Count { counter, value } = self;
        let is_full = self.meaning().is_some_and(|one| one.is_saturated(*value));
        let bound = if is_full { "at least " } else { "" };
        format!("{counter} {bound}{value}")
    }
}

/// The counter of a port that is farthest above what is usual.
pub(super) struct Excess<'e, 'o> {
    pub(super) port: &'e PortErrors<'o>,
    pub(super) counter: &'e str,
    pub(super) count: u64,
    pub(super) usual: u64,
}

impl Excess<'_, '_> {
    pub(super) fn times_usual(&self) -> u64 {
        self.count / self.usual.max(1)
    }
}

/// All ports that are listed.
#[derive(Default)]
pub(super) struct ErrorList<'o> {
    pub(super) ports: Vec<PortErrors<'o>>,
    /// The node above the ports.
    heading: Option<String>,
    /// How many ports the tool looked at.
    checked: u64,
}

impl<'o> ErrorList<'o> {
    pub(super) fn is_empty(&self) -> bool {
        self.checked == 0 && self.ports.is_empty()
    }

    pub(super) fn read_line(&mut self, text: &str, line: OutputLine<'o>) {
        if let Some(rest) = text.strip_prefix("Errors for ") {
            self.heading = quoted(rest);
        } else if let Some(rest) = text.strip_prefix("GUID ") {
            self.read_port(rest, line);
        } else if let Some((before, _)) = text.split_once(" ports checked") {
            let count = before.trim_start_matches('#').trim().parse();
            self.checked = self.checked.saturating_add(count.unwrap_or(0));
        }
    }

    /// A port; the sum over all ports of a switch is none.
    fn read_port(&mut self, rest: &str, line: OutputLine<'o>) {
        let Some((place, listed)) = rest.split_once(':') else {
            return;
        };
        let Some((guid, number)) = place.split_once(" port ") else {
            return;
        };
        let Ok(port) = number.trim().parse() else {
            return;
        };
        let end = End {
            node: self.heading.clone(),
            guid: hex(guid.trim()),
            port,
            ..End::default()
        };
        let counts = listed.split('[').filter_map(Count::read);
        let counts = counts.filter(Count::means_bad_link).collect();
        self.ports.push(PortErrors { end, line, counts });
    }

    /// Adds a port of a table, which lists what is 0 too.
    pub(super) fn add_port(&mut self, end: End, line: OutputLine<'o>, values: &[(String, u64)]) {
        self.checked = self.checked.saturating_add(1);
        let counts = values.iter().filter(|(_, value)| *value > 0);
        let counts: Vec<Count> = counts
            .map(|(counter, value)| Count {
                counter: counter.clone(),
                value: *value,
            })
            .filter(Count::means_bad_link)
            .collect();
        if !counts.is_empty() {
            self.ports.push(PortErrors { end, line, counts });
        }
    }

    /// The ports with such counters, the one that stands out most first.
    pub(super) fn by_excess(&self) -> Vec<Excess<'_, 'o>> {
        let usual = self.usual_counts();
        let mut all: Vec<Excess<'_, 'o>> = Vec::new();
        for port in &self.ports {
            let each = port.counts.iter().map(|count| Excess {
                port,
                counter: &count.counter,
                count: count.value,
                usual: usual.get(&*count.counter).copied().unwrap_or(0),
            });
            all.extend(each.max_by_key(|excess| (excess.times_usual(), excess.count)));
        }
        small_sort::by_key(&mut all, |excess| {
            Reverse((excess.times_usual(), excess.count))
        });
        all
    }

    /// The median of each counter over all ports that were checked: what is not listed is 0. Of
    /// fewer than three ports none is a reference. That links went down is compared among the ports
    /// that list it: those that face nodes count each reboot, and uplinks count none. Where nothing
    /// says how many were checked, the bad ports alone are listed, and errors are usual nowhere.
    fn usual_counts(&self) -> BTreeMap<&str, u64> {
        let mut listed: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for count in self.ports.iter().flat_map(|port| &port.counts) {
            let values = listed.entry(&count.counter).or_default();
            values.push(count.value);
        }
        let checked = usize::try_from(self.checked).unwrap_or(usize::MAX);
        let mut medians = BTreeMap::new();
        for (counter, mut values) in listed {
            values.sort_unstable_by_key(|value| Reverse(*value));
            let middle = if counter == LINK_DOWNED {
                values.len() / 2
            } else {
                checked / 2
            };
            let median = values.get(middle).filter(|_| middle > 0);
            medians.insert(counter, median.copied().unwrap_or(0));
        }
        medians
    }
}

/// The name in quotes.
fn quoted(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('"')?;
    let (name, _) = rest.rsplit_once('"')?;
    Some(name.trim().to_owned())
}
