//! The variables that a host's lines show in effect.

use std::collections::BTreeMap;

use super::RunView;
use crate::fact::env::{self as fact, VariableMention};
use crate::fact::{Facts, Origin, Subject};
use crate::nccl_log::setting::settings;

/// `NCCL_X set by environment to V`, and the other lines about variables: name, value, how it is named.
pub(super) fn read(message: &str) -> Option<(&str, &str, VariableMention)> {
    if let Some(rest) = message.strip_prefix("Invalid value ") {
        let (value, rest) = rest.split_once(" for ")?;
        return Some((
            rest.split([',', ' ']).next()?,
            value,
            VariableMention::Invalid,
        ));
    }
    if let Some(rest) = message.strip_prefix("Warning: ENV ") {
        let (name, rest) = rest.split_once(' ')?;
        let mention = if rest.contains("unused.") {
            VariableMention::Unused
        } else {
            VariableMention::Deprecated
        };
        return Some((name, "", mention));
    }
    if !message.starts_with("NCCL_") {
        return None;
    }
    let (name, value) = match message.split_once(" set by environment to ") {
        Some(split) => split,
        None => message.split_once(" set to ")?,
    };
    let plain = name
        .bytes()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let value = value.trim();
    // Whole numbers end in a full stop; names and lists do not.
    let value = match value.strip_suffix('.') {
        Some(number)
            if number
                .trim_start_matches('-')
                .bytes()
                .all(|b| b.is_ascii_digit()) =>
        {
            number
        }
        _ => value,
    };
    plain.then_some((name, value, VariableMention::Set))
}

/// A host's mentions of variables: name, value and the number of the kind of mention, so that what is set comes first.
type Mentions<'d> = BTreeMap<(&'d str, &'d str, u8), (VariableMention, Origin)>;

pub(super) fn state(view: &RunView<'_, '_>, facts: &mut Facts) {
    let mut of_host: BTreeMap<&str, Mentions<'_>> = BTreeMap::new();
    for (line, host) in view.lines() {
        let read = match line.level {
            Some(_) => read(line.message).into_iter().collect::<Vec<_>>(),
            None => settings(line.message)
                .map(|(name, value)| (name, value, VariableMention::Set))
                .collect(),
        };
        for (name, value, mention) in read {
            let said = of_host.entry(host).or_default();
            said.entry((name, value, mention as u8))
                .or_insert_with(|| (mention, line.origin().clone()));
        }
    }
    for (host, said) in &of_host {
        let Some(parent) = view.host(host) else {
            continue;
        };
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        for ((name, value, _), (mention, origin)) in said {
            let times = seen.entry(name).or_default();
            *times += 1;
            let instance = match times {
                1 => (*name).to_owned(),
                times => format!("{name} ({times})"),
            };
            let id = facts.instance(Subject::Env, parent, &instance);
            facts.know(id, fact::NAME, (*name).into(), origin);
            facts.know(id, fact::MENTION, *mention, origin);
            if matches!(mention, VariableMention::Set | VariableMention::Invalid) {
                facts.know(id, fact::VALUE, (*value).into(), origin);
                if let Ok(number) = value.parse() {
                    facts.know(id, fact::NUMBER, number, origin);
                }
            }
        }
    }
}
