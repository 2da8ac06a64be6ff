//! Counters of ports, read once, or twice with a pause.
//!
//! Only counters of the table are read, each directory once a reading: on a restricted physical function each read can make
//! the driver log an error, and reading what nobody judges is no use.

use std::sync::Arc;

use super::device::{self, PortEntry};
use super::{Ask, Probe, inside};
use crate::fact::counter;
use crate::fact::{
    Fact, Facts, Gap, Id, Membership, Origin, PerSecond, Presence, Seconds, Subject,
};
use crate::source::{Micros, Question};

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

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (ports, _) = device::ports(ask, facts, node);
    let mut first = Vec::new();
    let mut all = Vec::new();
    for port in &ports {
        let membership = counters(ask, facts, port, &mut first, &mut all);
        facts.set_members(Subject::Counter, port.id, membership);
    }
    if all.is_empty() {
        return;
    }
    match ask.sample() {
        (_, None) => read_again(ask, facts, &first, &all),
        (sampled, Some(gap)) => {
            for id in all {
                unsampled(facts, id, sampled.clone(), &gap);
            }
        }
    }
}

/// Makes an instance of each known counter of a port, and reads it.
fn counters(
    ask: &Ask<'_>,
    facts: &mut Facts,
    port: &PortEntry,
    first: &mut Vec<First>,
    all: &mut Vec<Id>,
) -> Membership {
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
        for name in names.iter() {
            let Some(meaning) = meaning(name) else {
                continue;
            };
            let question = Question::read(inside(&dir, name));
            let named = Fact::Known(Arc::clone(name), Origin::Asked(question.clone()));
            let id = instance(facts, port.id, name, &meaning, named);
            let (at, value) = read(ask, &question);
            let saturated = value
                .clone()
                // Of the drivers' own, one may have a classic one's name and not its width.
                .map(|value| match directory {
                    "counters" => meaning.is_saturated(value),
                    _ => value == u64::MAX,
                });
            if let Fact::Known(value, _) = value {
                first.push(First {
                    id,
                    question,
                    at,
                    value,
                });
            }
            facts.set(id, counter::VALUE, value);
            facts.set(id, counter::SATURATED, saturated);
            all.push(id);
        }
    }
    membership
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
