//! What hosts of a text printed for one command, against what most of them printed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::sides::{self, Side};
use crate::fact::{Facts, Id, Subject, shown_output};
use crate::sentence::{Sentence, sentence};

/// Hosts of which one can be the odd one.
const FEWEST: usize = 3;
/// Words behind which a value stands that hosts of one cluster have alike: of two hosts that differ
/// in another one, nobody knows whether they should not.
const ALIKE: [&str; 14] = [
    "mtu",
    "rate",
    "speed",
    "width",
    "version",
    "fw_ver",
    "firmware",
    "active_mtu",
    "max_mtu",
    "state",
    "link_layer",
    "governor",
    "driver",
    "lanes",
];
/// Values of one name that a line of an output is compared by.
const VALUES: usize = 8;
/// Letters that are shown of a command, of a name, and of a value.
const SHOWN: usize = 48;
/// Names that are said of one command.
const NAMED: usize = 2;
/// What a host has that printed no line of a name, or none at all.
const NOTHING: &str = "nothing";
/// The name of lines that have none.
const WHOLE: &str = "";

/// What a host printed.
#[derive(Clone, Debug)]
pub(super) struct Printed {
    command: Arc<str>,
    lines: Arc<[Arc<str>]>,
}

impl Printed {
    fn known(facts: &Facts, id: Id) -> Option<Self> {
        Some(Printed {
            command: facts.known(id, shown_output::COMMAND)?,
            lines: facts.known(id, shown_output::LINES)?,
        })
    }

    pub(super) fn holds_one_of(&self, lines: &HashSet<Arc<str>>) -> bool {
        self.lines.iter().any(|line| lines.contains(line.trim()))
    }
}

/// Takes what a node printed where others of its text printed something for the same command.
pub(super) fn take(facts: &Facts, node: Id) -> Vec<Printed> {
    let outputs = facts.below(node, Subject::ShownOutput);
    outputs.filter_map(|id| Printed::known(facts, id)).collect()
}

/// A host with all that it printed.
pub(super) struct PrintingHost {
    pub(super) name: Arc<str>,
    pub(super) printed: Vec<Printed>,
}

/// What hosts printed for one command.
pub(super) struct ComparedOutput {
    pub(super) command: Arc<str>,
    pub(super) hosts: usize,
    /// Those that printed something else than most, in their order.
    pub(super) odd: Vec<Arc<str>>,
    pub(super) summary: Sentence,
}

/// Compares what hosts printed; of a command nothing is said for which most did not print the same.
pub(super) fn compare(hosts: &[PrintingHost]) -> Vec<ComparedOutput> {
    let mut commands: BTreeMap<Arc<str>, Vec<HostLines<'_>>> = BTreeMap::new();
    for host in hosts {
        let mut times: HashMap<&str, usize> = HashMap::new();
        for one in &host.printed {
            let time = times.entry(&*one.command).or_default();
            *time += 1;
            let command = match *time {
                1 => Arc::clone(&one.command),
                again => format!("{} ({again})", one.command).into(),
            };
            let (name, lines) = (&host.name, &*one.lines);
            let printed = commands.entry(command).or_default();
            printed.push(HostLines { name, lines });
        }
    }
    let mut compared = Vec::new();
    for (command, hosts) in commands {
        if hosts.len() >= FEWEST {
            compared.extend(compare_command(command, &hosts));
        } else if let [one, other] = hosts.as_slice() {
            compared.extend(compare_two(command, one, other));
        }
    }
    compared
}

/// A host with the lines that it printed for one command.
struct HostLines<'l> {
    name: &'l Arc<str>,
    lines: &'l [Arc<str>],
}

/// Values with the places of the hosts that printed them.
type Values = HashMap<Arc<str>, Vec<usize>>;

fn compare_command(command: Arc<str>, hosts: &[HostLines<'_>]) -> Option<ComparedOutput> {
    let differences = differences(hosts);
    let shown = cut_short(&command);
    let all = hosts.len();
    let summary = if !differences.is_empty() {
        summary(&shown, all, &differences)
    } else if hosts.iter().all(|host| host.lines == hosts[0].lines) {
        sentence!("{shown}: the same on {all} hosts")
    } else {
        return None;
    };
    let odd: BTreeSet<usize> = differences
        .iter()
        .flat_map(|one| &one.odd)
        .copied()
        .collect();
    let odd_hosts = odd.into_iter().filter_map(|at| hosts.get(at));
    Some(ComparedOutput {
        command,
        hosts: all,
        odd: odd_hosts.map(|host| Arc::clone(host.name)).collect(),
        summary,
    })
}

/// Compares two hosts, of which none is the odd one, by the lines that differ in one value alone.
fn compare_two(
    command: Arc<str>,
    one: &HostLines<'_>,
    other: &HostLines<'_>,
) -> Option<ComparedOutput> {
    if one.lines.len() != other.lines.len() {
        return None;
    }
    let shown = cut_short(&command);
    let mut said: Vec<Sentence> = Vec::new();
    for (own, others) in one.lines.iter().zip(other.lines) {
        if let Some(odd) = odd_word(own, others).filter(|_| said.len() < NAMED) {
            let sides = [one.side(odd.values[0]), other.side(odd.values[1])];
            let label = format!("{shown} printed {}", odd.name);
            said.push(sides::sentence(&label, 2, 0, &sides, false));
        }
    }
    (!said.is_empty()).then(|| ComparedOutput {
        command,
        hosts: 2,
        odd: vec![Arc::clone(one.name), Arc::clone(other.name)],
        summary: Sentence::joined(said, "; "),
    })
}

/// The only value in which two lines differ, and the word before it.
struct OddWord<'l> {
    name: &'l str,
    values: [&'l str; 2],
}

/// What two lines differ in, if that is one value, behind a word that says what it is of.
fn odd_word<'l>(one: &'l str, other: &'l str) -> Option<OddWord<'l>> {
    let [mine, theirs] = [one, other].map(|line| line.split_whitespace().collect::<Vec<_>>());
    let at = mine.iter().zip(&theirs).position(|(a, b)| a != b)?;
    let name = mine.get(at.checked_sub(1)?)?.trim_end_matches([':', '=']);
    let is_only = mine.get(at + 1..) == theirs.get(at + 1..);
    let is_alike = ALIKE.contains(&name.to_ascii_lowercase().as_str());
    (is_only && is_alike).then(|| OddWord {
        name,
        values: [mine[at], theirs[at]],
    })
}

/// The names of which most hosts printed the same, and not all; where there is none, the lines are
/// counted.
fn differences(hosts: &[HostLines<'_>]) -> Vec<Difference> {
    let is_one_line = hosts.iter().all(|host| host.lines.len() <= 1);
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut names: Vec<(String, Values)> = Vec::new();
    let mut counts = Values::default();
    for (at, host) in hosts.iter().enumerate() {
        counts.entry(host.count().into()).or_default().push(at);
        for (name, value) in host.values(is_one_line) {
            let place = *places.entry(name.clone()).or_insert_with(|| {
                names.push((name, Values::default()));
                names.len() - 1
            });
            names[place].1.entry(value.into()).or_default().push(at);
        }
    }
    let mut found = Vec::new();
    for (name, values) in names {
        found.extend(Difference::find(name, hosts, values));
    }
    if found.is_empty() {
        found.extend(Difference::find(WHOLE.to_owned(), hosts, counts));
    }
    found
}

fn summary(command: &str, hosts: usize, found: &[Difference]) -> Sentence {
    let mut parts: Vec<Sentence> = Vec::new();
    for one in found.iter().take(NAMED) {
        let label = match one.name.as_str() {
            WHOLE => format!("{command} printed"),
            name => format!("{command} printed {}", cut_short(name)),
        };
        parts.push(sides::sentence(&label, hosts, 0, &one.sides, true));
    }
    if found.len() > NAMED {
        parts.push(format!("{} more lines differ", found.len() - NAMED).into());
    }
    Sentence::joined(parts, "; ")
}

/// What hosts printed for one name.
struct Difference {
    name: String,
    /// The first is that of most.
    sides: Vec<Side>,
    /// The places of the others.
    odd: Vec<usize>,
}

impl Difference {
    /// `None` where all printed the same, where most did not, and where it is the time of day.
    fn find(name: String, hosts: &[HostLines<'_>], mut values: Values) -> Option<Difference> {
        let mut silent: BTreeSet<usize> = (0..hosts.len()).collect();
        for at in values.values().flatten() {
            silent.remove(at);
        }
        if !silent.is_empty() {
            values.entry(NOTHING.into()).or_default().extend(silent);
        }
        let most = values.values().map(Vec::len).max().unwrap_or(0);
        let is_usual = values.len() > 1 && 2 * most > hosts.len();
        if !is_usual || values.keys().any(|value| holds_time(value)) {
            return None;
        }
        let mut ranked: Vec<(Arc<str>, Vec<usize>)> = values.into_iter().collect();
        ranked.sort_by(|a, b| (b.1.len(), &a.1).cmp(&(a.1.len(), &b.1)));
        let mut difference = Difference {
            name,
            sides: Vec::new(),
            odd: Vec::new(),
        };
        for (value, places) in ranked {
            if !difference.sides.is_empty() {
                difference.odd.extend(&places);
            }
            let of_side = places.iter().filter_map(|at| hosts.get(*at));
            difference.sides.push(Side {
                value: cut_short(&value).into(),
                names: of_side.map(|host| Arc::clone(host.name)).collect(),
            });
        }
        Some(difference)
    }
}

impl HostLines<'_> {
    /// This host with a value.
    fn side(&self, value: &str) -> Side {
        Side {
            value: cut_short(value).into(),
            names: vec![Arc::clone(self.name)],
        }
    }

    /// What it printed for each name. Its own name says nothing beside those of others.
    fn values(&self, is_one_line: bool) -> Vec<(String, String)> {
        let mut names: Vec<String> = Vec::new();
        let mut values: Vec<Vec<String>> = Vec::new();
        for printed in self.lines {
            let line = self.without_name(printed);
            let (name, value) = match before_value(&line) {
                Some(pair) if !is_one_line => pair,
                _ => (WHOLE, line.trim().trim_end_matches(':')),
            };
            let words: Vec<&str> = value.split_whitespace().collect();
            match names.iter().position(|known| known == name) {
                Some(at) => values[at].push(words.join(" ")),
                None => {
                    names.push(name.to_owned());
                    values.push(vec![words.join(" ")]);
                }
            }
        }
        let mut pairs = Vec::new();
        for (name, of_name) in names.into_iter().zip(values) {
            pairs.extend(counted(&of_name).map(|value| (name, value)));
        }
        pairs
    }

    /// The line without the host's own name, where that is a word of it.
    fn without_name(&self, line: &str) -> String {
        let mut rest = line;
        let mut plain = String::with_capacity(line.len());
        while let Some((before, behind)) = rest.split_once(&**self.name) {
            let is_inside = before.ends_with(char::is_alphanumeric)
                || behind.starts_with(char::is_alphanumeric);
            plain.push_str(before);
            plain.push_str(if is_inside { self.name } else { "HOST" });
            rest = behind;
        }
        plain + rest
    }

    fn count(&self) -> String {
        match self.lines.len() {
            0 => NOTHING.to_owned(),
            1 => "1 line".to_owned(),
            lines => format!("{lines} lines"),
        }
    }
}

/// Values as one, each with how often it is there; `None` of too many that differ.
fn counted(values: &[String]) -> Option<String> {
    let mut seen: Vec<&String> = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    let mut parts: Vec<String> = Vec::new();
    for value in &seen {
        parts.push(match values.iter().filter(|one| one == value).count() {
            1 => (*value).clone(),
            count => format!("{count} × {value}"),
        });
    }
    (seen.len() <= VALUES).then(|| parts.join(", "))
}

/// A line's name and its value: a colon, an equals sign, or the space between columns is between.
fn before_value(printed: &str) -> Option<(&str, &str)> {
    let line = printed.trim();
    let mut signs = line.match_indices([':', '=', '\t', ' ']);
    let (at, _) = signs.find(|sign| {
        let behind = line.get(sign.0 + 1..).unwrap_or_default();
        match sign.1 {
            ":" => behind.starts_with([' ', '\t']),
            " " => behind.starts_with(' '),
            _ => true,
        }
    })?;
    let (name, rest) = line.split_at(at);
    let value = rest.trim_start_matches([':', '=', ' ', '\t']);
    // Tables draw their columns.
    let is_drawn = name.len() > SHOWN || name.contains('|');
    let is_name = !is_drawn && name.contains(|c: char| c.is_ascii_alphabetic());
    (is_name && !value.is_empty()).then_some((name.trim(), value))
}

/// Whether a time of day stands there, which is another one on each host.
fn holds_time(value: &str) -> bool {
    value.split([' ', 'T', ',', '(', '[']).any(is_time)
}

fn is_time(word: &str) -> bool {
    let bytes = word.as_bytes();
    let is_clock = bytes.len() >= 8 && bytes[2] == b':' && bytes[5] == b':';
    is_clock
        && [0, 1, 3, 4, 6, 7]
            .iter()
            .all(|at| bytes[*at].is_ascii_digit())
}

/// As many letters as a sentence has room for, from the beginning.
fn cut_short(text: &str) -> String {
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    let begin: String = text.chars().take(SHOWN - 1).collect();
    format!("{}…", begin.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(command: &str, printed: &[(&str, &[&str])]) -> Vec<PrintingHost> {
        let node = |(name, lines): &(&str, &[&str])| PrintingHost {
            name: Arc::from(*name),
            printed: vec![Printed {
                command: command.into(),
                lines: lines.iter().map(|line| Arc::from(*line)).collect(),
            }],
        };
        printed.iter().map(node).collect()
    }

    fn summary(command: &str, printed: &[(&str, &[&str])]) -> Option<String> {
        let found = compare(&hosts(command, printed)).pop()?;
        Some(found.summary.to_string())
    }

    #[test]
    fn the_odd_one_and_its_line_are_said() {
        assert_eq!(
            summary(
                "ethtool eth0",
                &[
                    ("n1", &["\tSpeed: 100000Mb/s", "\tDuplex: Full"]),
                    ("n2", &["\tSpeed: 25000Mb/s", "\tDuplex: Full"]),
                    ("n3", &["\tSpeed: 100000Mb/s", "\tDuplex: Full"]),
                ]
            )
            .as_deref(),
            Some("n2 of 3: ethtool eth0 printed Speed 25000Mb/s, 2 others 100000Mb/s")
        );
        assert_eq!(
            summary("cmd", &[("n1", &["8"]), ("n2", &[]), ("n3", &["8"])]).as_deref(),
            Some("n2 of 3: cmd printed nothing, 2 others 8")
        );
        assert_eq!(
            summary(
                "cmd",
                &[
                    ("n1", &["a: 1", "a: 1"]),
                    ("n2", &["a: 1", "a: 2"]),
                    ("n3", &["a: 1", "a: 1"])
                ]
            )
            .as_deref(),
            Some("n2 of 3: cmd printed a 1, 2, 2 others 2 × 1")
        );
    }

    #[test]
    fn two_hosts_differ_in_what_hosts_have_alike() {
        assert_eq!(
            summary(
                "ip link show eth0",
                &[
                    ("n1", &["6: eth0: <UP> mtu 9000 qdisc mq state UP"]),
                    ("n2", &["6: eth0: <UP> mtu 1500 qdisc mq state UP"]),
                ]
            )
            .as_deref(),
            Some("ip link show eth0 printed mtu 9000 on n1, 1500 on n2")
        );
        assert_eq!(
            summary(
                "ibstat mlx5_0",
                &[
                    ("a", &["\tFirmware version: 28.39.2048"]),
                    ("b", &["\tFirmware version: 28.36.1010"]),
                ]
            )
            .as_deref(),
            Some("ibstat mlx5_0 printed version 28.39.2048 on a, 28.36.1010 on b")
        );
    }

    #[test]
    fn what_is_of_each_host_says_nothing() {
        let own = [("n1", &["n1 1"][..]), ("n2", &["n2 1"]), ("n3", &["n3 1"])];
        assert!(compare(&hosts("hostname", &own)).is_empty());
        assert_eq!(
            summary("c", &[("a", &["1"]), ("b", &["2"]), ("c", &["3"])]),
            None
        );
        assert_eq!(summary("c", &[("a", &["1"]), ("b", &["2"])]), None);
        let addresses = [("a", &["inet 10.0.0.1"][..]), ("b", &["inet 10.0.0.2"])];
        assert_eq!(summary("ip addr", &addresses), None);
        let two = [
            ("a", &["1"][..]),
            ("b", &["1"]),
            ("c", &["2"]),
            ("d", &["2"]),
        ];
        assert_eq!(summary("c", &two), None);
        let at = |time| [time];
        let (early, late) = (at("Sun Nov 29 14:02:32 UTC"), at("Sun Nov 29 14:02:33 UTC"));
        let inside = [("b1", &["ab12"][..]), ("b2", &["ab12"]), ("b3", &["ab12"])];
        assert!(compare(&hosts("c", &inside)).pop().unwrap().odd.is_empty());
        assert_eq!(
            summary("date", &[("a", &early), ("b", &late), ("c", &early)]),
            None
        );
    }

    #[test]
    fn a_row_that_is_missing_is_counted() {
        let rows: [&[&str]; 3] = [
            &["GPU 0: A1", "GPU 1: A2"],
            &["GPU 0: B1"],
            &["GPU 0: C1", "GPU 1: C2"],
        ];
        assert_eq!(
            summary(
                "nvidia-smi -L",
                &[("a", rows[0]), ("b", rows[1]), ("c", rows[2])]
            )
            .as_deref(),
            Some("b of 3: nvidia-smi -L printed 1 line, 2 others 2 lines")
        );
    }
}
