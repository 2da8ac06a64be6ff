//! The variables that a host's lines show in effect.

use std::collections::{BTreeMap, BTreeSet};

use super::RunView;
use crate::fact::env::{self as fact, VariableMention};
use crate::fact::{Fact, Facts, Origin, Subject};
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

/// A host's mentions of a variable: value and kind of mention, with the count.
type MentionCounts<'d> = BTreeMap<(&'d str, &'d str, MentionRank), (u64, Origin)>;

/// The order of mentions, so that what is set comes first.
type MentionRank = u8;

pub(super) fn state(view: &RunView<'_, '_>, facts: &mut Facts) {
    let mut of_host: BTreeMap<&str, MentionCounts<'_>> = BTreeMap::new();
    for (line, host) in view.lines() {
        let read = match line.level {
            Some(_) => read(line.message).into_iter().collect::<Vec<_>>(),
            None => settings(line.message)
                .map(|(name, value)| (name, value, VariableMention::Set))
                .collect(),
        };
        for (name, value, mention) in read {
            let said = of_host.entry(host).or_default();
            let entry = said
                .entry((name, value, mention as u8))
                .or_insert((0, line.origin().clone()));
            entry.0 += line.kept.count;
        }
    }
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for ((name, value, mention), _) in of_host.values().flatten() {
        if *mention == VariableMention::Set as u8 {
            values.entry(name).or_default().insert(value);
        }
    }
    for (host, said) in &of_host {
        let Some(parent) = view.host(host) else {
            continue;
        };
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        for ((name, value, mention), (count, origin)) in said {
            let times = seen.entry(name).or_default();
            *times += 1;
            let instance = match times {
                1 => (*name).to_owned(),
                times => format!("{name} ({times})"),
            };
            let id = facts.instance(Subject::Env, parent, &instance);
            let mention = match *mention {
                m if m == VariableMention::Set as u8 => VariableMention::Set,
                m if m == VariableMention::Invalid as u8 => VariableMention::Invalid,
                m if m == VariableMention::Unused as u8 => VariableMention::Unused,
                _ => VariableMention::Deprecated,
            };
            facts.set(id, fact::NAME, Fact::Known((*name).into(), origin.clone()));
            facts.set(id, fact::MENTION, Fact::Known(mention, origin.clone()));
            facts.set(id, fact::COUNT, Fact::Known(*count, origin.clone()));
            if matches!(mention, VariableMention::Set | VariableMention::Invalid) {
                facts.set(
                    id,
                    fact::VALUE,
                    Fact::Known((*value).into(), origin.clone()),
                );
                if let Ok(number) = value.parse() {
                    facts.set(id, fact::NUMBER, Fact::Known(number, origin.clone()));
                }
            }
            if mention == VariableMention::Set {
                let uniform = values.get(name).is_none_or(|all| all.len() == 1);
                facts.set(
                    id,
                    fact::UNIFORM,
                    view.total(uniform, "the values that hosts print"),
                );
            }
        }
    }
}
