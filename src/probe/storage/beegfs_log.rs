//! The log of BeeGFS's client: the connections to its servers (client_module/source/common/nodes/NodeConnPool.c).
//!
//! A connection is logged if it is another than the one before, a failure if it is not the same again: the last line about an
//! address is how things stand.

use std::sync::Arc;

use serde_json::Value;

use super::parse;
use crate::fact::{Fact, Gap, Origin, Presence, Seconds};
use crate::probe::Ask;
use crate::source::Question;

const HELPER: &str = "/etc/beegfs/beegfs-helperd.conf";
/// Where the helper logs to where its configuration names no other file.
const DEFAULT: &str = "/var/log/beegfs-client.log";
const YEAR: u64 = 365 * 86_400;

/// Asks for the log, wherever beegfs-helperd writes it.
pub(super) fn read_log(ask: &Ask<'_>) -> Fact<Log> {
    let not_there = |why: String, origin: Origin| Fact::Unknown(Gap::misread(why, origin));
    let file: Arc<str> = match ask.text_if_any(HELPER) {
        Presence::Present(text, origin) => {
            if parse::beegfs_value(&text, "logType") == Ok("syslog") {
                return not_there("the client logs to syslog".to_owned(), origin);
            }
            match parse::beegfs_value(&text, "logStdFile") {
                // A log elsewhere may be on a file system that hangs.
                Ok(file) if !file.starts_with("/var/log/") || file.contains("/../") => {
                    return not_there(format!("{file:?} is outside of /var/log"), origin);
                }
                Ok(file) => file.into(),
                Err(_) => DEFAULT.into(),
            }
        }
        Presence::Absent(_) => DEFAULT.into(),
        Presence::Unknown(gap) => return Fact::Unknown(gap),
    };
    ask.value(Question::call("beegfs_log", [("file", (&*file).into())]))
        .and_then(|value| read(&value))
}

/// How connections stand by the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Log {
    /// Whether the log holds lines about connections, or all of what was written.
    pub(super) told: bool,
    /// Addresses to which the last attempt over RDMA failed.
    pub(super) rdma_failed: Vec<Failure>,
    /// Servers that no route led to, and after which no server of their kind was reached.
    pub(super) unreached: Vec<Failure>,
}

/// Something that failed, and how long ago; without the time if the log has none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) what: Arc<str>,
    pub(super) age: Option<Seconds>,
}

/// How long ago the last of them was.
pub(super) fn newest(failures: &[Failure]) -> Result<Seconds, String> {
    let ages = failures.iter().filter_map(|failure| failure.age);
    ages.min_by(|a, b| a.0.total_cmp(&b.0))
        .ok_or_else(|| "the log says not when".to_owned())
}

fn read(value: &Value) -> Result<Log, String> {
    let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
    let age = value.get("age").and_then(Value::as_u64);
    let last = text(value, "last").and_then(|last| second_of_year(&last));
    let ago = |at: Option<u64>| {
        let (age, last, at) = (age?, last?, at?);
        let between = (last + YEAR).checked_sub(at)? % YEAR;
        Some(Seconds((age + between) as f64))
    };
    let lines = value.get("lines").and_then(Value::as_array);
    let lines = lines.ok_or("the reply has no lines")?;
    let mut log = Log {
        told: !lines.is_empty() || value.get("whole") == Some(&Value::Bool(true)),
        ..Log::default()
    };
    for line in lines {
        let said = text(line, "said").ok_or("a line says nothing")?;
        let age = ago(text(line, "at").and_then(|at| second_of_year(&at)));
        if let Some(server) = said.strip_prefix("Connect failed on all available routes: ") {
            let what: Arc<str> = server.trim().into();
            log.unreached.retain(|failure| failure.what != what);
            log.unreached.push(Failure { what, age });
        } else if let Some((address, protocol)) = attempt(&said, "Connect failed: ") {
            log.rdma_failed.retain(|failure| &*failure.what != address);
            if protocol == "RDMA" {
                let what = address.into();
                log.rdma_failed.push(Failure { what, age });
            }
        } else if let Some((address, protocol)) = attempt(&said, "Connected: ") {
            if protocol == "RDMA" {
                log.rdma_failed.retain(|failure| &*failure.what != address);
            }
            let kind = address.split('@').next().unwrap_or("");
            log.unreached
                .retain(|failure| failure.what.split(' ').next() != Some(kind));
        }
    }
    // The management service speaks TCP alone.
    let managed = |failure: &Failure| failure.what.starts_with("beegfs-mgmtd");
    log.rdma_failed.retain(|failure| !managed(failure));
    log.unreached.retain(|failure| !managed(failure));
    Ok(log)
}

/// `Connected: beegfs-storage@10.0.0.3:8003 (protocol: TCP; fallback route)`: the address and the protocol.
fn attempt<'l>(said: &'l str, mark: &str) -> Option<(&'l str, &'l str)> {
    let (address, rest) = said.strip_prefix(mark)?.split_once(" (protocol: ")?;
    let end = rest.find([';', ')'])?;
    Some((address.trim(), rest.get(..end)?.trim()))
}

/// `May24 11:56:05`, in seconds since the year began; a leap day counts to the next month.
fn second_of_year(text: &str) -> Option<u64> {
    const MONTHS: [(&str, u64); 12] = [
        ("Jan", 0),
        ("Feb", 31),
        ("Mar", 59),
        ("Apr", 90),
        ("May", 120),
        ("Jun", 151),
        ("Jul", 181),
        ("Aug", 212),
        ("Sep", 243),
        ("Oct", 273),
        ("Nov", 304),
        ("Dec", 334),
    ];
    let (day, clock) = text.split_once(' ')?;
    let (month, day) = (day.get(..3)?, day.get(3..)?);
    let before = MONTHS.iter().find(|(name, _)| *name == month)?.1;
    let day: u64 = day.parse().ok().filter(|day| (1..=31).contains(day))?;
    let mut seconds = before + day - 1;
    let mut parts = clock.split(':');
    for (unit, most) in [(24, 23), (60, 59), (60, 60)] {
        let part: u64 = parts.next()?.parse().ok()?;
        seconds = seconds * unit + Some(part).filter(|part| *part <= most)?;
    }
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn log(lines: &[(&str, &str)]) -> Log {
        let lines: Vec<Value> = lines
            .iter()
            .map(|(at, said)| json!({ "at": at, "said": said }))
            .collect();
        read(&json!({ "whole": false, "age": 60, "last": "Jan01 00:10:00", "lines": lines }))
            .unwrap()
    }

    fn failed(what: &str, age: f64) -> Vec<Failure> {
        let age = Some(Seconds(age));
        vec![Failure {
            what: what.into(),
            age,
        }]
    }

    const RDMA: &str = "Connected: beegfs-storage@10.0.0.3:8003 (protocol: RDMA)";
    const NO_RDMA: &str = "Connect failed: beegfs-storage@10.0.0.3:8003 (protocol: RDMA)";
    const TCP: &str = "Connected: beegfs-storage@192.168.1.3:8003 (protocol: TCP; fallback route)";
    const NOWHERE: &str =
        "Connect failed on all available routes: beegfs-storage storage01 [ID: 1]";

    #[test]
    fn the_last_attempt_over_rdma_counts() {
        let fell = log(&[
            ("Jan01 00:00:00", RDMA),
            ("Jan01 00:09:00", NO_RDMA),
            ("Jan01 00:09:01", TCP),
        ]);
        assert_eq!(
            fell.rdma_failed,
            failed("beegfs-storage@10.0.0.3:8003", 120.0)
        );
        assert_eq!(fell.unreached, []);
        let back = log(&[
            ("Jan01 00:09:00", NO_RDMA),
            ("Jan01 00:09:01", TCP),
            ("Jan01 00:09:30", RDMA),
        ]);
        assert_eq!(back.rdma_failed, []);
        let managed = log(&[(
            "Jan01 00:09:00",
            "Connect failed: beegfs-mgmtd@10.0.0.2:8008 (protocol: TCP)",
        )]);
        assert_eq!(
            managed,
            Log {
                told: true,
                ..Log::default()
            }
        );
    }

    #[test]
    fn a_year_that_ended_is_between() {
        let old = log(&[("Dec31 23:59:00", NO_RDMA)]);
        assert_eq!(
            old.rdma_failed,
            failed("beegfs-storage@10.0.0.3:8003", 720.0)
        );
    }

    #[test]
    fn no_route_until_one_of_the_kind_is_found() {
        let gone = log(&[
            ("Jan01 00:09:00", NOWHERE),
            (
                "Jan01 00:09:01",
                "Connected: beegfs-meta@10.0.0.3:8005 (protocol: RDMA)",
            ),
        ]);
        assert_eq!(
            gone.unreached,
            failed("beegfs-storage storage01 [ID: 1]", 120.0)
        );
        assert_eq!(
            log(&[("Jan01 00:09:00", NOWHERE), ("Jan01 00:09:01", TCP)]).unreached,
            []
        );
    }

    #[test]
    fn strange_lines_are_no_connections() {
        for said in [
            "Connected: ",
            "Connect failed: x (protocol: ",
            "é",
            "Connected: beegfs-é (protocol: é)",
        ] {
            assert!(log(&[("Jan32 é", said)]).rdma_failed.is_empty(), "{said}");
        }
        for at in [
            "",
            "Jan",
            "Jan0 00:00:00",
            "é01 00:00:00",
            "Jan01 24:00:00",
            "Jan01 1:2",
            "11:56:05",
        ] {
            assert_eq!(second_of_year(at), None, "{at}");
        }
        assert_eq!(second_of_year("Feb01 00:00:01"), Some(31 * 86_400 + 1));
        assert!(read(&json!({})).is_err());
        assert!(!read(&json!({ "whole": false, "lines": [] })).unwrap().told);
    }
}
