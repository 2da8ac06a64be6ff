//! What pam_limits(8) gives to logins: the lines of limits.conf, then of the files in limits.d by their names.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fact::kleene::Several;
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Origin, node};
use crate::probe::{Ask, inside};

const FILE: &str = "/etc/security/limits.conf";
const DIRECTORY: &str = "/etc/security/limits.d";

/// States the limit of locked memory that logins get, if a line bounds or lifts that of all users.
pub(super) fn state(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let mut texts = vec![ask.text_if_any(FILE).or_absent("".into())];
    match ask.names_if_any(DIRECTORY).or_absent(Arc::default()) {
        Fact::Known(names, _) => {
            let read = names.iter().filter(|name| name.ends_with(".conf"));
            texts.extend(read.map(|name| ask.text(inside(DIRECTORY, name))));
        }
        Fact::Unknown(gap) => texts.push(Fact::Unknown(gap)),
    }
    let texts: Several<Arc<str>> = texts.into_iter().collect();
    let found = Fact::of(texts.known().map(memlock), "limits.conf and limits.d");
    let is_set = found.clone().map(|found| found.is_some());
    facts.set(node, node::LOGIN_MEMLOCK_SET, is_set);
    let none = || Gap::not_said("no line is for all users", Origin::derived(FILE));
    let limit = found.flat_map(|found| match found {
        Some(limit) => Fact::derived(limit, "limits.conf and limits.d"),
        None => Fact::Unknown(none()),
    });
    facts.set(node, node::LOGIN_MEMLOCK, limit);
}

/// The soft limit of `*`, or of the users and groups that have more; root has lines of its own. Of two lines for the same, the later counts.
fn memlock(texts: &[Arc<str>]) -> Option<Bytes> {
    let mut domains: BTreeMap<String, [Option<u64>; 2]> = BTreeMap::new();
    for line in texts.iter().flat_map(|text| text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<String> = line
            .split_whitespace()
            .map(str::to_ascii_lowercase)
            .collect();
        let [domain, kind, item, value] = words.as_slice() else {
            continue;
        };
        let limit = match value.as_str() {
            "unlimited" | "infinity" | "-1" => Some(u64::MAX),
            kib => kib.parse().ok().map(|kib: u64| kib.saturating_mul(1024)),
        };
        let limit = limit.filter(|_| item == "memlock");
        if limit.is_none() {
            continue;
        }
        let [soft, hard] = domains.entry(domain.clone()).or_default();
        match kind.as_str() {
            "soft" => *soft = limit,
            "hard" => *hard = limit,
            "-" => (*soft, *hard) = (limit, limit),
            _ => {}
        }
    }
    domains.remove("root");
    // Without a line for it, the soft limit is that of the program that begins the session.
    domains.retain(|_, [soft, _]| soft.is_some());
    domains.get("*")?;
    let limits = domains
        .into_values()
        .map(|both| both.into_iter().flatten().min());
    limits.max().flatten().map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Subject;
    use crate::probe::testing::run;

    const LISTED: &str =
        r#"{"q":{"list":"/etc/security/limits.d"},"names":["20-rdma.conf","README"]}"#;
    const MAIN: &str = r##"{"q":{"read":"/etc/security/limits.conf"},"text":"#* soft memlock 1\n* soft memlock unlimited\n* hard memlock 64 # low\n"}"##;

    fn limit(lines: &[&str]) -> (Option<bool>, Option<Bytes>) {
        let (facts, _) = run(&crate::probe::host::PROBE, lines);
        let id = facts.all(Subject::Node).next().unwrap();
        let is_set = facts.known(id, node::LOGIN_MEMLOCK_SET);
        (is_set, facts.known(id, node::LOGIN_MEMLOCK))
    }

    #[test]
    fn the_hard_limit_bounds_the_soft_one_and_later_lines_count() {
        let none = r#"{"q":{"read":"/etc/security/limits.d/20-rdma.conf"},"text":"root - memlock unlimited\n"}"#;
        let bound = limit(&[LISTED, MAIN, none]);
        assert_eq!(bound, (Some(true), Some(Bytes(64 << 10))));
        let more = r#"{"q":{"read":"/etc/security/limits.d/20-rdma.conf"},"text":"@hpc\t-\tmemlock\tinfinity\n"}"#;
        let lifted = limit(&[LISTED, MAIN, more]);
        assert_eq!(lifted, (Some(true), Some(Bytes::UNLIMITED)));
    }

    #[test]
    fn a_file_that_is_not_known_may_say_anything() {
        assert_eq!(limit(&[LISTED, MAIN]), (None, None));
        assert_eq!(limit(&[MAIN]), (None, None));
        let empty = r#"{"q":{"list":"/etc/security/limits.d"},"names":[]}"#;
        let inherited =
            r#"{"q":{"read":"/etc/security/limits.conf"},"text":"* hard memlock unlimited\n"}"#;
        assert_eq!(limit(&[empty, inherited]), (Some(false), None));
        let unset = r#"{"q":{"read":"/etc/security/limits.conf"},"text":"@hpc - memlock 64\n"}"#;
        assert_eq!(limit(&[empty, unset]), (Some(false), None));
    }
}
