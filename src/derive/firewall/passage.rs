//! From what can become of each packet to what becomes of a flow.

use std::sync::Arc;

use super::evaluate::{End, Outcome, evaluate};
use super::packet::{Doubt, Packet};
use crate::fact::flow::{self, FlowCondition, FlowPassage};
use crate::fact::ruleset::{PacketField, Ruleset, Step, Values};
use crate::fact::{Fact, Facts, Gap, Id, Origin, Percent};
use crate::small_sort;

/// Parts of a range of ports that are judged one by one, beyond which nobody knows.
const PARTS: usize = 1000;
/// Parts of a range of ports that a finding names.
const NAMED: usize = 6;

/// What becomes of the packets to one port.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fate {
    /// All get through.
    Accepted,
    /// One of them does not, for certain.
    Blocked(Outcome),
    /// It depends on this, by this rule.
    Depends(FlowCondition, Arc<str>),
    /// This rule is not understood, or what it asks is not known.
    Unknown(Arc<str>),
}

/// The packets that all have to get through.
pub(super) struct Legs(pub(super) Vec<Packet>);

/// Parts of the range of ports that the side which opens a connection picks its own from.
const PICKED: usize = 12;

/// What becomes of a flow whose opener picks its own port by chance: judged for each part of the
/// range that no rule tells apart. A part that has less of the range than `hole` does not count.
pub(super) fn by_chance(
    range: (u16, u16),
    cuts: &[u32],
    hole: Percent,
    fate: impl Fn((u16, u16)) -> Fate,
) -> Result<Fate, Gap> {
    let size = |(low, high): &(u16, u16)| u32::from(*high) - u32::from(*low) + 1;
    let mut parts = segments(range, cuts)?;
    small_sort::by_key(&mut parts, |part| std::cmp::Reverse(size(part)));
    parts.truncate(PICKED);
    let all: u32 = parts.iter().map(size).sum();
    let mut kinds: Vec<(Fate, f64)> = Vec::new();
    for part in parts {
        let share = f64::from(size(&part)) / f64::from(all);
        let fate = fate(part);
        match kinds.iter_mut().find(|(known, _)| known.is_like(&fate)) {
            Some((_, sum)) => *sum += share,
            None => kinds.push((fate, share)),
        }
    }
    kinds.retain(|(_, share)| *share >= hole.0 / 100.0);
    small_sort::by(&mut kinds, |a, b| b.1.total_cmp(&a.1));
    let is_open = |(fate, _): &&(Fate, f64)| matches!(fate, Fate::Unknown(_));
    if let Some((fate, _)) = kinds.iter().find(is_open) {
        return Ok(fate.clone());
    }
    let blocked = kinds.iter().find_map(|(fate, _)| match fate {
        Fate::Blocked(outcome) => Some(Arc::clone(&outcome.by)),
        _ => None,
    });
    let mut kinds = kinds.into_iter().map(|(fate, _)| fate);
    Ok(match (kinds.next(), kinds.next(), blocked) {
        // Which port it picks decides.
        (Some(_), Some(_), Some(rule)) => Fate::Depends(FlowCondition::Rate, rule),
        (Some(Fate::Accepted), Some(other), None) => other,
        (Some(fate), ..) => fate,
        (None, ..) => Fate::Unknown("no port to send from".into()),
    })
}

impl Fate {
    /// Whether it is the same but for the rule.
    fn is_like(&self, other: &Fate) -> bool {
        match (self, other) {
            (Fate::Depends(a, _), Fate::Depends(b, _)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Legs {
    /// What becomes of them.
    pub(super) fn fate(&self, ruleset: &Ruleset) -> Fate {
        let mut worst = Fate::Accepted;
        for packet in &self.0 {
            let fate = fate(ruleset, packet);
            match (&fate, &worst) {
                (Fate::Blocked(_), _) => return fate,
                (Fate::Accepted, _) | (Fate::Depends(..), Fate::Unknown(_)) => {}
                _ => worst = fate,
            }
        }
        worst
    }
}

fn fate(ruleset: &Ruleset, packet: &Packet) -> Fate {
    let ways = evaluate(ruleset, packet);
    let gone = |o: &Outcome| matches!(o.end, End::Drop | End::Reject);
    if ways.certain().is_some_and(|o| o.end == End::Accept) {
        return Fate::Accepted;
    }
    if !ways.outcomes.is_empty()
        && ways.outcomes.iter().all(gone)
        && let Some(first) = ways.outcomes.first()
    {
        return Fate::Blocked(first.clone());
    }
    let by = |wanted: Doubt| {
        let found = ways.doubts.iter().find(|(doubt, _)| *doubt == wanted);
        found.map(|(_, rule)| Arc::clone(rule))
    };
    if let Some(rule) = by(Doubt::Opaque) {
        return Fate::Unknown(rule);
    }
    for (doubt, condition) in [
        (Doubt::Unread, FlowCondition::Unread),
        (Doubt::Denied, FlowCondition::Denied),
        (Doubt::Source, FlowCondition::Source),
        (Doubt::Rate, FlowCondition::Rate),
        (Doubt::Elsewhere, FlowCondition::Elsewhere),
    ] {
        if let Some(rule) = by(doubt) {
            return Fate::Depends(condition, rule);
        }
    }
    Fate::Unknown("rules that were not followed to their end".into())
}

/// The ports at which rules begin or end to match, in order.
pub(super) fn cuts(ruleset: &Ruleset) -> Vec<u32> {
    let mut cuts: Vec<u32> = Vec::new();
    let mut add = |fields: &[PacketField], values: &[Values]| {
        for (field, values) in fields.iter().zip(values) {
            if let (
                PacketField::SourcePort | PacketField::DestinationPort,
                Values::Ranges(ranges),
            ) = (field, values)
            {
                for (low, high) in ranges {
                    let both = [*low, high.saturating_add(1)].into_iter();
                    let ports = both.filter_map(|cut| u16::try_from(cut).ok());
                    cuts.extend(ports.map(u32::from));
                }
            }
        }
    };
    let chains = ruleset.tables.iter().flat_map(|t| &t.chains);
    for step in chains.flat_map(|c| &c.rules).flat_map(|r| &r.steps) {
        match step {
            Step::Match(wanted) => {
                for values in &wanted.any {
                    add(&wanted.fields, values);
                }
            }
            Step::VerdictMap {
                fields, entries, ..
            } => {
                for (values, _) in entries {
                    add(fields, values);
                }
            }
            _ => {}
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// A range of ports in parts that no rule tells apart.
pub(super) fn segments(range: (u16, u16), cuts: &[u32]) -> Result<Vec<(u16, u16)>, Gap> {
    let (low, high) = (u32::from(range.0), u32::from(range.1));
    let inside = cuts
        .iter()
        .copied()
        .filter(|cut| *cut > low && *cut <= high);
    let starts: Vec<u32> = std::iter::once(low).chain(inside).collect();
    if starts.len() > PARTS {
        let why = format!(
            "the rules cut ports {low}-{high} into {} parts",
            starts.len()
        );
        return Err(misread(why));
    }
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([high]);
    // All numbers lie between two ports.
    let port = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
    let parts = starts.iter().zip(ends);
    Ok(parts.map(|(from, to)| (port(*from), port(to))).collect())
}

/// What the rules do is not understood.
fn misread(what: impl Into<Arc<str>>) -> Gap {
    Gap::misread(what, Origin::derived("the packet filter's rules"))
}

/// Ports that share a fate.
pub(super) struct Segment {
    pub(super) ports: (u16, u16),
    pub(super) fate: Fate,
}

impl Segment {
    fn size(&self) -> u32 {
        u32::from(self.ports.1) - u32::from(self.ports.0) + 1
    }
}

/// What becomes of a flow.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) passage: FlowPassage,
    pub(super) rule: Arc<str>,
    pub(super) explicit: bool,
    pub(super) condition: FlowCondition,
    pub(super) blocked: Vec<(u16, u16)>,
    pub(super) share: f64,
}

impl Judged {
    /// Whether nothing gets through, for certain.
    pub(super) fn is_blocked(&self) -> bool {
        matches!(self.passage, FlowPassage::Dropped | FlowPassage::Rejected)
    }
}

/// The fates of all parts of a range as one.
pub(super) fn sum(segments: Vec<Segment>) -> Result<Judged, Gap> {
    let count = |wanted: fn(&Fate) -> bool| -> u32 {
        let fitting = segments.iter().filter(|s| wanted(&s.fate));
        fitting.map(Segment::size).sum()
    };
    let all: u32 = segments.iter().map(Segment::size).sum();
    let blocked = count(|f| matches!(f, Fate::Blocked(_)));
    let accepted = count(|f| matches!(f, Fate::Accepted));
    let unknown = segments.iter().find_map(|s| match &s.fate {
        Fate::Unknown(what) => Some(Arc::clone(what)),
        _ => None,
    });
    let first = segments.iter().find_map(|s| match &s.fate {
        Fate::Blocked(outcome) => Some(outcome.clone()),
        _ => None,
    });
    let depends = segments.iter().find_map(|s| match &s.fate {
        Fate::Depends(condition, rule) => Some((*condition, Arc::clone(rule))),
        _ => None,
    });
    let rest = depends
        .as_ref()
        .map_or(FlowCondition::Nothing, |(condition, _)| *condition);
    // Neighbours as one.
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    let is_blocked = |segment: &&Segment| matches!(segment.fate, Fate::Blocked(_));
    for segment in segments.iter().filter(is_blocked) {
        match ranges.last_mut() {
            Some(last) if last.1.checked_add(1) == Some(segment.ports.0) => {
                last.1 = segment.ports.1
            }
            _ => ranges.push(segment.ports),
        }
    }
    let share = 100.0 * f64::from(blocked) / f64::from(all.max(1));
    let without_blocked = |passage, rule, condition| Judged {
        passage,
        rule,
        explicit: false,
        condition,
        blocked: Vec::new(),
        share: 0.0,
    };
    let partly = blocked > 0 && (accepted > 0 || (unknown.is_none() && blocked < all));
    Ok(match (first, unknown, depends) {
        (Some(outcome), _, _) if blocked == all || partly => Judged {
            passage: match outcome.end {
                _ if blocked < all => FlowPassage::Partly,
                End::Reject => FlowPassage::Rejected,
                _ => FlowPassage::Dropped,
            },
            rule: outcome.by,
            explicit: outcome.explicit,
            // What the ports that are not blocked for certain depend on.
            condition: rest,
            blocked: ranges,
            share,
        },
        (_, Some(what), _) => return Err(misread(what)),
        (_, None, Some((condition, rule))) => {
            without_blocked(FlowPassage::Depends, rule, condition)
        }
        (_, None, None) => {
            let condition = FlowCondition::Nothing;
            without_blocked(FlowPassage::Accepted, "none".into(), condition)
        }
    })
}

/// `32768-60999`, `22`.
pub(super) fn range_text((low, high): (u16, u16)) -> String {
    if low == high {
        low.to_string()
    } else {
        format!("{low}-{high}")
    }
}

/// States what becomes of a flow.
pub(super) fn state(facts: &mut Facts, id: Id, judged: Result<Judged, Gap>, origin: &Origin) {
    let judged = match judged {
        Ok(judged) => judged,
        Err(gap) => {
            facts.set(id, flow::VERDICT, Fact::Unknown(gap.clone()));
            facts.set(id, flow::RULE, Fact::Unknown(gap.clone()));
            facts.set(id, flow::EXPLICIT, Fact::Unknown(gap.clone()));
            facts.set(id, flow::CONDITION, Fact::Unknown(gap.clone()));
            facts.set(id, flow::BLOCKED_PORTS, Fact::Unknown(gap.clone()));
            facts.set(id, flow::BLOCKED_SHARE, Fact::Unknown(gap));
            return;
        }
    };
    let named = judged.blocked.iter().take(NAMED).copied();
    let mut ports: Vec<String> = named.map(range_text).collect();
    if judged.blocked.len() > NAMED {
        ports.push("...".into());
    }
    let ports = if ports.is_empty() {
        "none".to_owned()
    } else {
        ports.join(", ")
    };
    let known = |value| Fact::Known(value, origin.clone());
    facts.know(id, flow::VERDICT, judged.passage, origin);
    facts.set(id, flow::RULE, known(judged.rule));
    facts.know(id, flow::EXPLICIT, judged.explicit, origin);
    facts.know(id, flow::CONDITION, judged.condition, origin);
    facts.set(id, flow::BLOCKED_PORTS, known(ports.into()));
    facts.know(id, flow::BLOCKED_SHARE, Percent(judged.share), origin);
}
