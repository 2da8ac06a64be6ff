//! What bounded readers left out. Each counts it here, and one rule makes of it what a report says
//! and why its areas are in part.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Things of one kind that were not read for one reason. It names no host and no file, so that it
/// can be recorded as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// One of them: `host`, `member`, `line`.
    noun: Cow<'static, str>,
    /// How many.
    count: u64,
    /// Whether there may be more: what is behind a bound is not always counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    at_least: bool,
    /// The bound, or what is wrong with them.
    why: Cow<'static, str>,
}

impl LeftOut {
    /// All that was left out, counted.
    pub fn counted(count: u64, noun: &'static str, why: impl Into<Cow<'static, str>>) -> Self {
        LeftOut {
            noun: noun.into(),
            count,
            at_least: false,
            why: why.into(),
        }
    }

    /// What was met first behind a bound; nobody looked how many follow.
    pub fn one_or_more(noun: &'static str, why: impl Into<Cow<'static, str>>) -> Self {
        LeftOut {
            at_least: true,
            ..LeftOut::counted(1, noun, why)
        }
    }
}

impl fmt::Display for LeftOut {
    /// `3 hosts were not read (more than 1024 in all)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftOut {
            noun, count, why, ..
        } = self;
        let at_least = if self.at_least { "at least " } else { "" };
        if *count == 1 {
            return write!(f, "{at_least}{count} {noun} was not read ({why})");
        }
        let (stem, ending) = match noun.strip_suffix('y') {
            Some(stem) => (stem, "ies"),
            None if noun.ends_with('s') => (&**noun, "es"),
            None => (&**noun, "s"),
        };
        write!(f, "{at_least}{count} {stem}{ending} were not read ({why})")
    }
}

/// Adds what was left out to what is known already; the same for the same reason is counted
/// together.
pub fn add(all: &mut Vec<LeftOut>, more: LeftOut) {
    let is_same = |one: &&mut LeftOut| one.noun == more.noun && one.why == more.why;
    match all.iter_mut().find(is_same) {
        _ if more.count == 0 => {}
        Some(one) => {
            one.count = one.count.saturating_add(more.count);
            one.at_least |= more.at_least;
        }
        None => all.push(more),
    }
}
