//! Counters of ports, read once, or twice with a pause.
//!
//! Only counters of the table are read, each directory once a reading: on a restricted physical function each read can make
//! the driver log an error, and reading what nobody judges is no use.

use std::sync::Arc;

use super::device::{self, PortEntry};
use super::netdev::{self, Texts};
use super::{Ask, Probe, inside};
use crate::fact::counter;
use crate::fact::{
    Fact, Facts, Gap, Id, Membership, Origin, PerSecond, Presence, Seconds, Subject, Why,
};
use crate::source::{Errno, Micros, Question, Refusal};

use crate::fact::counter_table::{CounterMeaning, meaning};

/// The probe.
pub const PROBE: Probe = Probe::new("counter", run);

/// A counter that answered, to be read again.
struct First {
    id: Id,
    question: Question,
    at: Micros,
    value: u64,
}

/// Packets that a network device received with a wrong checksum. Source: Documentation/ABI/testing/sysfs-class-net-statistics.
const DAMAGED: &str = "rx_crc_errors";

/// What a counter said when it was read.
struct Reading<'a> {
    name: &'a str,
    question: Question,
    at: Micros,
    value: Fact<u64>,
}

impl<'a> Reading<'a> {
    fn asked(ask: &Ask<'_>, name: &'a str, question: Question) -> Self {
        let (at, value) = read(ask, &question);
        Reading {
            name,
            question,
            at,
            value,
        }
    }

    fn is_refused(&self, refusal: &Refusal) -> bool {
        matches!(&self.value, Fact::Unknown(gap) if gap.why == Why::Refused(refusal.clone()))
    }
}

/// The readings of one look.
#[derive(Default)]
struct Readings {
    /// Those that answered.
    first: Vec<First>,
    all: Vec<Id>,
}

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (ports, _) = device::ports(ask, facts, node);
    let mut readings = Readings::default();
    for port in &ports {
        let membership = readings.of_port(ask, facts, port);
        facts.set_members(Subject::Counter, port.id, membership);
    }
    readings.of_netdevs(ask, facts, &ports);
    if readings.all.is_empty() {
        return;
    }
    match ask.sample() {
        (_, None) => read_again(ask, facts, &readings.first, &readings.all),
        (sampled, Some(gap)) => {
            for id in readings.all {
                unsampled(facts, id, sampled.clone(), &gap);
            }
        }
    }
}

impl Readings {
    /// Makes an instance of each known counter of a port, and reads it.
    fn of_port(&mut self, ask: &Ask<'_>, facts: &mut Facts, port: &PortEntry) -> Membership {
        let mut membership =
            Membership::Known(Origin::derived("the listings of counters, hw_counters"));
        for directory in ["counters", "hw_counters"] {
            let dir = format!("{}/{directory}", port.dir);
            let names = match ask.names_if_any(dir.as_str()) {
                Presence::Present(names, _) => names,
                // Soft-RoCE has no `counters`, soft-iWARP has neither.
                Presence::Absent(_) => continue,
                Presence::Unknown(gap) => {
                    if matches!(membership, Membership::Known(_)) {
                        membership = Membership::Unknown(gap);
                    }
                    continue;
                }
            };
            for name in names.iter().filter(|name| meaning(name).is_some()) {
                let reading = Reading::asked(ask, name, Question::read(inside(&dir, name)));
                self.take(facts, port.id, reading, directory == "counters");
            }
        }
        membership
    }

    /// What the network devices of the ports count of packets that came damaged. A recording of an earlier version has it of none.
    fn of_netdevs(&mut self, ask: &Ask<'_>, facts: &mut Facts, ports: &[PortEntry]) {
        let mut texts = Texts::new(ask);
        let mut read = Vec::new();
        for port in ports {
            if let Presence::Present(netdev, _) = netdev::netdev_of(&mut texts, port) {
                let path = format!("{}/{netdev}/statistics/{DAMAGED}", netdev::NET);
                let reading = Reading::asked(ask, DAMAGED, Question::read(path));
                // The device may be in another network namespace.
                if !reading.is_refused(&Refusal::Errno(Errno::ENOENT)) {
                    read.push((port.id, reading));
                }
            }
        }
        let not_recorded = Refusal::NotRecorded;
        if read.iter().any(|one| !one.1.is_refused(&not_recorded)) {
            for (port, reading) in read {
                self.take(facts, port, reading, false);
            }
        }
    }

    /// Makes an instance of a counter whose meaning is known. A classic one, which InfiniBand has, stops at its largest value.
    fn take(&mut self, facts: &mut Facts, port: Id, reading: Reading<'_>, is_classic: bool) {
        let Some(meaning) = meaning(reading.name) else {
            return;
        };
        let origin = Origin::Asked(reading.question.clone());
        let named = Fact::Known(reading.name.into(), origin);
        let id = instance(facts, port, reading.name, &meaning, named);
        // Of the drivers' own, one may have a classic one's name and not its width.
        let stops = |value: u64| value == u64::MAX || is_classic && meaning.is_saturated(value);
        facts.set(id, counter::SATURATED, reading.value.clone().map(stops));
        if let Fact::Known(value, _) = reading.value {
            self.first.push(First {
                id,
                question: reading.question,
                at: reading.at,
                value,
            });
        }
        facts.set(id, counter::VALUE, reading.value);
        self.all.push(id);
    }
}

/// A port's counter of this name, which means this.
pub(super) fn instance(
    facts: &mut Facts,
    port: Id,
    name: &str,
    meaning: &CounterMeaning,
    named: Fact<Arc<str>>,
) -> Id {
    let own = [facts.name(port), " ", name].concat();
    let id = facts.instance(Subject::Counter, port, &own);
    facts.set(id, counter::NAME, named);
    let how = ["the meaning of ", name].concat();
    facts.derive(id, counter::CLASS, meaning.class, how);
    id
}

fn read(ask: &Ask<'_>, question: &Question) -> (Micros, Fact<u64>) {
    let (at, text) = ask.text_at(question);
    let text = Fact::from_result(text, &Origin::Asked(question.clone()));
    (at, text.and_then(|text| super::whole_number(&text)))
}

/// Reads what answered before in the same order, so that all counters have about the same time between their readings.
fn read_again(ask: &Ask<'_>, facts: &mut Facts, first: &[First], all: &[Id]) {
    for one in first {
        let (at, value) = read(ask, &one.question);
        let window = at.checked_sub(one.at).filter(|window| *window > 0);
        let origin = Origin::Asked(one.question.clone());
        let sampled = value.clone().map(|_| true);
        let seconds = match (&value, window) {
            (Fact::Unknown(gap), _) => Fact::Unknown(gap.clone()),
            (_, Some(window)) => Fact::Known(Seconds(window as f64 / 1e6), origin),
            (_, None) => {
                let what = "no time between the two readings";
                Fact::Unknown(Gap::not_understood(&one.question, what))
            }
        };
        let rate = seconds.clone().zip(value).flat_map(|(window, value)| {
            // It was cleared, or it wrapped: neither is a rate.
            let what = || format!("it went down, from {} to {value}", one.value);
            let rise = value.checked_sub(one.value);
            let rise = rise.ok_or_else(|| Gap::not_understood(&one.question, what()));
            let rate = rise.map(|rise| PerSecond(rise as f64 / window.0));
            Fact::from_result(rate, &Origin::Asked(one.question.clone()))
        });
        facts.set(one.id, counter::SAMPLED, sampled);
        facts.set(one.id, counter::RATE, rate);
        facts.set(one.id, counter::WINDOW, seconds);
    }
    // What did not answer at first is not asked again; a value that was stated above stays.
    let pause = Question::Wait("sample".into());
    let gap = Gap::not_understood(&pause, "the counter did not answer the first reading");
    for id in all {
        if facts.known(*id, counter::VALUE).is_none() {
            unsampled(facts, *id, Fact::Unknown(gap.clone()), &gap);
        }
    }
}

fn unsampled(facts: &mut Facts, id: Id, sampled: Fact<bool>, gap: &Gap) {
    facts.set(id, counter::SAMPLED, sampled);
    facts.set(id, counter::RATE, Fact::Unknown(gap.clone()));
    facts.set(id, counter::WINDOW, Fact::Unknown(gap.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::counter::CounterClass;
    use crate::probe::testing::{known, run};

    const CLASS: &str = r#"{"q":{"list":"/sys/class/infiniband"},"names":["d"]}"#;
    const PORTS: &str = r#"{"q":{"list":"/sys/class/infiniband/d/ports"},"names":["1"]}"#;
    const LIST: &str = r#"{"q":{"list":"/sys/class/infiniband/d/ports/1/counters"},"names":["link_downed","port_rcv_packets","symbol_error"]}"#;
    const HW: &str =
        r#"{"q":{"list":"/sys/class/infiniband/d/ports/1/hw_counters"},"errno":"ENOENT"}"#;
    const PORT: &str =
        r#"{"q":{"list":"/sys/class/infiniband/d/ports/1"},"names":["counters","state"]}"#;

    fn line(name: &str, n: u32, t: u64, text: &str) -> String {
        format!(
            r#"{{"q":{{"read":"/sys/class/infiniband/d/ports/1/counters/{name}"}},"n":{n},"t":{t},"text":"{text}\n"}}"#
        )
    }

    fn with(extra: &[String]) -> (Facts, Id) {
        let mut lines = vec![CLASS, PORTS, LIST, HW, PORT];
        lines.extend(extra.iter().map(String::as_str));
        run(&PROBE, &lines)
    }

    #[test]
    fn read_once() {
        let wait = r#"{"q":{"wait":"sample"},"refused":"not-asked: no sample was asked for (--sample SECONDS)"}"#;
        let (facts, _) = with(&[
            line("symbol_error", 0, 5, "65535"),
            line("link_downed", 0, 6, "N/A (no PMA)"),
            wait.to_owned(),
        ]);
        let port = facts.all(Subject::Port).next().unwrap();
        assert!(facts.members(Subject::Counter, port).is_ok());
        assert_eq!(facts.all(Subject::Counter).count(), 2);
        let name = "d/1 symbol_error";
        assert_eq!(
            known(&facts, Subject::Counter, name, counter::VALUE),
            Some(65535)
        );
        assert_eq!(
            known(&facts, Subject::Counter, name, counter::SATURATED),
            Some(true)
        );
        assert_eq!(
            known(&facts, Subject::Counter, name, counter::CLASS),
            Some(CounterClass::Link)
        );
        assert_eq!(
            known(&facts, Subject::Counter, name, counter::SAMPLED),
            Some(false)
        );
        let name = "d/1 link_downed";
        assert_eq!(known(&facts, Subject::Counter, name, counter::VALUE), None);
        assert_eq!(
            known(&facts, Subject::Counter, name, counter::SATURATED),
            None
        );
        assert_eq!(known(&facts, Subject::Counter, name, counter::RATE), None);
    }

    #[test]
    fn read_twice() {
        let (facts, _) = with(&[
            line("link_downed", 0, 1_000, "7"),
            line("symbol_error", 0, 2_000, "100"),
            r#"{"q":{"wait":"sample"},"t":2002000,"value":2.0}"#.to_owned(),
            line("link_downed", 1, 2_001_000, "3"),
            line("symbol_error", 1, 2_502_000, "350"),
        ]);
        let name = "d/1 symbol_error";
        assert_eq!(
            known(&facts, Subject::Counter, name, counter::SAMPLED),
            Some(true)
        );
        assert_eq!(
            known(&facts, Subject::Counter, name, counter::RATE),
            Some(PerSecond(100.0))
        );
        assert_eq!(
            known(&facts, Subject::Counter, name, counter::WINDOW),
            Some(Seconds(2.5))
        );
        assert_eq!(
            known(&facts, Subject::Counter, name, counter::VALUE),
            Some(100)
        );
        let name = "d/1 link_downed";
        assert_eq!(
            known(&facts, Subject::Counter, name, counter::SAMPLED),
            Some(true)
        );
        assert_eq!(known(&facts, Subject::Counter, name, counter::RATE), None);
        let id = facts.all(Subject::Counter).next().unwrap();
        let gap = facts
            .get(id, counter::RATE)
            .as_result()
            .unwrap_err()
            .to_string();
        assert!(gap.contains("went down, from 7 to 3"), "{gap}");
    }

    #[test]
    fn whether_it_was_sampled_is_open_where_the_pause_is_not_recorded() {
        let (facts, _) = with(&[line("symbol_error", 0, 1, "0")]);
        assert_eq!(
            known(
                &facts,
                Subject::Counter,
                "d/1 symbol_error",
                counter::SAMPLED
            ),
            None
        );
    }

    #[test]
    fn a_directory_that_is_refused_leaves_the_counters_open() {
        let (facts, _) = run(
            &PROBE,
            &[
                CLASS,
                PORTS,
                LIST,
                r#"{"q":{"list":"/sys/class/infiniband/d/ports/1/hw_counters"},"errno":"EACCES"}"#,
            ],
        );
        let port = facts.all(Subject::Port).next().unwrap();
        assert!(facts.members(Subject::Counter, port).is_err());
    }
}
