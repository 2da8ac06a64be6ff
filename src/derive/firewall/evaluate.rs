//! What the rules do to a packet: all that can become of it, as far as it is known what it is.
//!
//! A match that cannot be decided splits the way in two, and both are followed; so a verdict is
//! certain only where every way ends in it.

use std::sync::Arc;

use super::packet::{Doubt, Marks, Packet, PacketDirection, Sight, Transport, Version};
use crate::fact::ruleset::{
    Base, Chain, Family, Hook, Match, PacketField, Rule, Ruleset, Step, Table, Values, Verdict,
};
use crate::small_sort;

/// Rules looked at for one packet, beyond which nobody knows.
const STEPS: u32 = 200_000;
/// Jumps within jumps: the kernel allows 16 (`NFT_JUMP_STACK_SIZE`).
const DEPTH: u32 = 32;

/// Where a way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The packet gets through this chain.
    Accept,
    /// It is gone.
    Drop,
    /// It is gone, and its sender is told.
    Reject,
    /// A program has it, or another destination.
    Away,
}

/// One way that a packet may take.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) end: End,
    /// The rule or policy that ends it.
    pub(super) by: Arc<str>,
    /// Whether that rule names a port.
    pub(super) explicit: bool,
}

/// All ways that a packet may take through one hook's chains, and what it depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PacketFates {
    /// The distinct ends, with the rule that came first.
    pub(super) outcomes: Vec<Outcome>,
    /// What could not be decided, and by which rule.
    pub(super) doubts: Vec<(Doubt, Arc<str>)>,
}

impl PacketFates {
    fn end(&mut self, end: End, by: &Arc<str>, explicit: bool) {
        if !self.outcomes.iter().any(|o| o.end == end) {
            self.outcomes.push(Outcome {
                end,
                by: Arc::clone(by),
                explicit,
            });
        }
    }

    fn doubt(&mut self, doubt: Doubt, rule: &Arc<str>) {
        if !self.doubts.iter().any(|(known, _)| *known == doubt) {
            self.doubts.push((doubt, Arc::clone(rule)));
        }
    }

    /// The one end that all ways have.
    pub(super) fn certain(&self) -> Option<&Outcome> {
        match self.outcomes.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    fn can(&self, end: End) -> bool {
        self.outcomes.iter().any(|o| o.end == end)
    }
}

/// Whether a packet fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Yes,
    No,
    Maybe(Doubt),
}

/// The hooks that a packet meets, in order; whether it is arriving there, or leaving.
fn hooks(way: PacketDirection) -> &'static [(Hook, bool)] {
    match way {
        PacketDirection::In => &[
            (Hook::Ingress, true),
            (Hook::Prerouting, true),
            (Hook::Input, true),
        ],
        PacketDirection::Out => &[
            (Hook::Output, false),
            (Hook::Postrouting, false),
            (Hook::Egress, false),
        ],
    }
}

/// All that the rules can do to a packet.
pub(super) fn evaluate(ruleset: &Ruleset, packet: &Packet) -> PacketFates {
    let mut marks = Marks::fresh();
    let mut all = PacketFates::default();
    // What may stop the packet before the chain that is looked at next.
    let mut passes = true;
    for &(hook, arriving) in hooks(packet.way) {
        let mut chains: Vec<(&Table, &Chain, &Base)> = Vec::new();
        for table in ruleset.tables.iter().filter(|t| meets(t, packet)) {
            if let Some(why) = &table.gap
                // Address translation drops nothing by itself.
                && &*table.name != "nat"
            {
                let text: Arc<str> = format!("table {}: {why}", table.name).into();
                all.doubt(Doubt::Opaque, &text);
                all.end(End::Accept, &text, false);
                all.end(End::Drop, &text, false);
            }
            for chain in &table.chains {
                if let Some(base) = &chain.base
                    && base.hook == hook
                    && (!base.nat || packet.is_first())
                {
                    chains.push((table, chain, base));
                }
            }
        }
        small_sort::by_key(&mut chains, |(_, _, base)| base.priority);
        for (table, chain, base) in chains {
            let mut walk = Walk {
                table,
                packet,
                arriving,
                left: STEPS,
                ways: PacketFates::default(),
                ends: 0,
                out: None,
            };
            if !walk.base(chain, base, &marks) {
                continue;
            }
            let ways = walk.ways;
            if let Some(out) = walk.out {
                marks = out;
            }
            let stops = !ways.can(End::Accept);
            // A doubt that leads to one end by all ways is none, unless that end is out of sight.
            let ways_differ = ways.outcomes.len() > 1 || ways.can(End::Away);
            for outcome in ways.outcomes {
                if outcome.end != End::Accept {
                    all.end(outcome.end, &outcome.by, outcome.explicit);
                }
            }
            if ways_differ {
                for (doubt, rule) in ways.doubts {
                    all.doubt(doubt, &rule);
                }
            }
            if stops {
                passes = false;
                // Whatever may come before: it gets no further than this.
                break;
            }
        }
        if !passes {
            break;
        }
    }
    if passes {
        all.end(End::Accept, &"none".into(), false);
    } else {
        all.outcomes.retain(|o| o.end != End::Accept);
    }
    all
}

fn meets(table: &Table, packet: &Packet) -> bool {
    match table.family {
        Family::Inet | Family::Netdev => true,
        Family::Ipv4 => packet.version == Version::Four,
        Family::Ipv6 => packet.version == Version::Six,
        Family::Other => false,
    }
}

struct Walk<'a> {
    table: &'a Table,
    packet: &'a Packet,
    arriving: bool,
    left: u32,
    ways: PacketFates,
    /// How often a way ended, alike or not.
    ends: u32,
    /// The marks with which packets leave the chain, of all ways that accept.
    out: Option<Marks>,
}

/// How a packet leaves a rule without having come to an end; both where it is in doubt, none where
/// it has ended.
#[derive(Default)]
struct Next {
    /// To the next rule, with these marks.
    on: Option<Marks>,
    /// Back to where the chain was jumped to from.
    back: Option<Marks>,
}

/// The mark after a rule that keeps the bits of `and` and flips those of `xor`.
fn set_mark(how: Option<(u32, u32)>, mark: Option<u32>) -> Option<u32> {
    match (how, mark) {
        (Some((0, xor)), _) => Some(xor),
        (Some((and, xor)), Some(mark)) => Some(mark & and ^ xor),
        _ => None,
    }
}

/// How packets leave a rule before its end.
#[derive(Default)]
struct Branches {
    /// To the next rule, where it is not known whether the rule takes them.
    aside: Option<Marks>,
    /// Back to where the chain was jumped to from.
    back: Option<Marks>,
    /// Why it is not known which way they take.
    doubts: Vec<Doubt>,
}

impl Branches {
    /// The rule may not take the packet.
    fn leave(&mut self, doubt: Doubt, marks: &Marks) {
        self.aside = join(self.aside.take(), Some(marks.clone()));
        self.doubts.push(doubt);
    }

    /// The rule may go on with this verdict.
    fn add(&mut self, next: Next) {
        self.aside = join(self.aside.take(), next.on);
        self.back = join(self.back.take(), next.back);
    }

    /// Whether any packet goes elsewhere than those that the rule takes to its end.
    fn differ_from(&self, taken: Option<&Marks>) -> bool {
        self.back.is_some() || (self.aside.is_some() && self.aside.as_ref() != taken)
    }
}

fn join(one: Option<Marks>, other: Option<Marks>) -> Option<Marks> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.or(&other)),
        (one, None) => one,
        (None, other) => other,
    }
}

impl Walk<'_> {
    /// Follows a packet through a base chain; false where the chain is another device's.
    fn base(&mut self, chain: &Chain, base: &Base, marks: &Marks) -> bool {
        let device = matches!(base.hook, Hook::Ingress | Hook::Egress);
        let mut uncertain = false;
        if device {
            match &base.devices {
                Some(devices) if !devices.contains(&self.packet.interface) => return false,
                Some(_) => {}
                None => uncertain = true,
            }
        }
        let policy: Arc<str> = format!(
            "policy {} of chain {} in table {}",
            if base.drops { "drop" } else { "accept" },
            chain.name,
            self.table.title(),
        )
        .into();
        if let Some(marks) = self.chain(chain, marks.clone(), 0) {
            if base.drops {
                self.end(End::Drop, &policy, false)
            } else {
                self.accept(&policy, &marks)
            }
        }
        let stops = |o: &&Outcome| o.end != End::Accept;
        if uncertain && let Some(stops) = self.ways.outcomes.iter().find(stops) {
            let rule = Arc::clone(&stops.by);
            self.ways.doubt(Doubt::Unread, &rule);
            self.accept(&rule, marks);
        }
        true
    }

    fn end(&mut self, end: End, by: &Arc<str>, explicit: bool) {
        self.ends += 1;
        self.ways.end(end, by, explicit);
    }

    fn accept(&mut self, by: &Arc<str>, marks: &Marks) {
        self.end(End::Accept, by, false);
        self.out = join(self.out.take(), Some(marks.clone()));
    }

    /// All ends at once: it is not known what becomes of the packet.
    fn give_up(&mut self, why: &Arc<str>, marks: &Marks) {
        self.ways.doubt(Doubt::Opaque, why);
        self.end(End::Drop, why, false);
        let unknown = Marks {
            mark: None,
            connection_changed: true,
            untracked: marks.untracked,
        };
        self.accept(why, &unknown);
    }

    /// Follows a packet through a chain; the marks with which it comes out at its end, if it does.
    fn chain(&mut self, chain: &Chain, mut marks: Marks, depth: u32) -> Option<Marks> {
        if depth > DEPTH {
            self.give_up(&"chains that jump too deep".into(), &marks);
            return None;
        }
        let mut back: Option<Marks> = None;
        for rule in &chain.rules {
            if self.left == 0 {
                self.give_up(&"more rules than are followed".into(), &marks);
                return back;
            }
            self.left -= 1;
            let next = self.rule(rule, &marks, depth);
            back = join(back, next.back);
            match next.on {
                Some(on) => marks = on,
                None => return back,
            }
        }
        join(back, Some(marks))
    }

    /// Follows a packet through a rule.
    fn rule(&mut self, rule: &Rule, before: &Marks, depth: u32) -> Next {
        let mut marks = before.clone();
        let ends = self.ends;
        let mut branches = Branches::default();
        let mut explicit = false;
        let mut on = true;
        let denies = matches!(
            rule.steps.last(),
            Some(Step::Verdict(Verdict::Drop | Verdict::Reject))
        );
        for step in &rule.steps {
            match step {
                Step::Match(wanted) => {
                    explicit |= wanted.fields.contains(&PacketField::DestinationPort);
                    match self.fit(&wanted.fields, wanted, &marks) {
                        Fit::Yes => {}
                        Fit::No => break,
                        // A list of peers that are let in is no list of peers that are kept out.
                        Fit::Maybe(Doubt::Source) if denies && !wanted.negate && wanted.whole => {
                            branches.leave(Doubt::Denied, &marks);
                        }
                        Fit::Maybe(doubt) => branches.leave(doubt, &marks),
                    }
                }
                Step::Rate => branches.leave(Doubt::Rate, &marks),
                Step::Unread => branches.leave(Doubt::Unread, &marks),
                // The addresses are part of what RoCE's checksum covers; the kernel translates
                // answers of TCP back.
                Step::Translate if matches!(self.packet.transport, Transport::Udp { .. }) => {
                    self.ways.doubt(Doubt::Elsewhere, &rule.text);
                    self.end(End::Away, &rule.text, explicit);
                    self.accept(&rule.text, &marks);
                    on = false;
                    break;
                }
                Step::Translate => {
                    self.accept(&rule.text, &marks);
                    on = false;
                    break;
                }
                Step::Opaque(_) => branches.leave(Doubt::Opaque, &marks),
                Step::OpaqueVerdict(_) => {
                    self.give_up(&rule.text, &marks);
                    branches.back = join(branches.back, Some(marks.clone()));
                }
                Step::Mark(how) => marks.mark = set_mark(*how, marks.mark),
                Step::ConnectionMark => marks.connection_changed = true,
                Step::Untrack => marks.untracked = Some(true),
                Step::Divert => {
                    self.ways.doubt(Doubt::Elsewhere, &rule.text);
                    self.end(End::Away, &rule.text, explicit);
                    // As one to another destination it goes on; for this chain it is accepted.
                    self.accept(&rule.text, &marks);
                    on = false;
                    break;
                }
                Step::VerdictMap {
                    fields, entries, ..
                } => {
                    explicit |= fields.contains(&PacketField::DestinationPort);
                    // Without an element the rule ends, as with a match that does not fit.
                    for (values, verdict) in entries {
                        let fit = self.alternative(fields, values, &marks);
                        if fit == Fit::No {
                            continue;
                        }
                        let next = self.verdict(rule, verdict, &marks, explicit, depth);
                        branches.add(next);
                        let Fit::Maybe(doubt) = fit else {
                            on = false;
                            break;
                        };
                        branches.doubts.push(doubt);
                    }
                    break;
                }
                Step::Verdict(verdict) => {
                    let next = self.verdict(rule, verdict, &marks, explicit, depth);
                    branches.back = join(branches.back, next.back);
                    match next.on {
                        Some(after) => marks = after,
                        None => on = false,
                    }
                    break;
                }
            }
        }
        let taken = on.then(|| marks.clone());
        // What is in doubt matters only where the ways differ.
        if self.ends != ends || branches.differ_from(taken.as_ref()) {
            for doubt in branches.doubts {
                self.ways.doubt(doubt, &rule.text);
            }
        }
        Next {
            on: join(taken, branches.aside),
            back: branches.back,
        }
    }

    fn verdict(
        &mut self,
        rule: &Rule,
        verdict: &Verdict,
        marks: &Marks,
        explicit: bool,
        depth: u32,
    ) -> Next {
        let on = |marks: Option<Marks>| Next {
            on: marks,
            back: None,
        };
        match verdict {
            Verdict::Accept => self.accept(&rule.text, marks),
            Verdict::Drop => self.end(End::Drop, &rule.text, explicit),
            Verdict::Reject => self.end(End::Reject, &rule.text, explicit),
            Verdict::Queue => {
                self.ways.doubt(Doubt::Elsewhere, &rule.text);
                self.end(End::Away, &rule.text, explicit);
            }
            Verdict::Continue => return on(Some(marks.clone())),
            Verdict::Return => {
                return Next {
                    on: None,
                    back: Some(marks.clone()),
                };
            }
            Verdict::Jump(name) | Verdict::Goto(name) => {
                let Some(chain) = self.table.chain(name) else {
                    self.give_up(&rule.text, marks);
                    return on(Some(marks.clone()));
                };
                let through = self.chain(chain, marks.clone(), depth + 1);
                return match verdict {
                    Verdict::Jump(_) => on(through),
                    _ => Next {
                        on: None,
                        back: through,
                    },
                };
            }
        }
        Next::default()
    }

    /// Whether the packet fits a match.
    fn fit(&self, fields: &[PacketField], wanted: &Match, marks: &Marks) -> Fit {
        let missing = |field: &PacketField| self.see(field, marks) == Sight::Missing;
        if fields.iter().any(missing) {
            return Fit::No;
        }
        let mut best = Fit::No;
        for values in &wanted.any {
            match self.alternative(fields, values, marks) {
                Fit::Yes => {
                    best = Fit::Yes;
                    break;
                }
                maybe @ Fit::Maybe(_) => best = maybe,
                Fit::No => {}
            }
        }
        if best == Fit::No && !wanted.whole {
            let of_peer = fields.iter().all(is_of_peer);
            best = Fit::Maybe(if of_peer {
                Doubt::Source
            } else {
                Doubt::Opaque
            });
        }
        match (best, wanted.negate) {
            (Fit::Yes, true) => Fit::No,
            (Fit::No, true) => Fit::Yes,
            (fit, _) => fit,
        }
    }

    fn see(&self, field: &PacketField, marks: &Marks) -> Sight {
        self.packet.see(field, marks, self.arriving)
    }

    fn alternative(&self, fields: &[PacketField], values: &[Values], marks: &Marks) -> Fit {
        let mut all = Fit::Yes;
        for (field, values) in fields.iter().zip(values) {
            match among(field, &self.see(field, marks), values) {
                Fit::Yes => {}
                Fit::No => return Fit::No,
                Fit::Maybe(doubt) => {
                    all = match all {
                        Fit::Maybe(Doubt::Opaque) => all,
                        _ => Fit::Maybe(doubt),
                    };
                }
            }
        }
        all
    }
}

/// Whether a field tells of the other side, which is not known beforehand.
fn is_of_peer(field: &PacketField) -> bool {
    matches!(
        field,
        PacketField::Source4
            | PacketField::Source6
            | PacketField::Destination4
            | PacketField::Destination6
            | PacketField::SourcePort
            | PacketField::Sender(_)
    )
}

/// Whether what is seen of a field is among the values.
fn among(field: &PacketField, sight: &Sight, values: &Values) -> Fit {
    let partly = Fit::Maybe(if is_of_peer(field) {
        Doubt::Source
    } else {
        Doubt::Opaque
    });
    let yes = |yes: bool| if yes { Fit::Yes } else { Fit::No };
    match (sight, values) {
        (Sight::Missing, _) => Fit::No,
        (_, Values::Ranges(ranges)) if ranges.contains(&(0, u128::MAX)) => Fit::Yes,
        (Sight::Unknown(doubt), _) => Fit::Maybe(*doubt),
        (Sight::Name(name), Values::Names(patterns)) => {
            yes(patterns
                .iter()
                .any(|pattern| match pattern.strip_suffix('*') {
                    Some(start) => name.starts_with(start),
                    None => name == pattern,
                }))
        }
        (Sight::Between(from, to), Values::Ranges(ranges)) => covered(*from, *to, ranges, partly),
        (Sight::Between(from, to), Values::Masked(mask, value)) if from == to => {
            yes(from & mask == *value)
        }
        (Sight::Between(from, to), Values::Bits(mask)) if from == to => yes(from & mask != 0),
        (Sight::Between(..), Values::Masked(..) | Values::Bits(_)) => partly,
        // A number where a name stands: a reader's mistake is no verdict.
        (Sight::Name(_), _) | (Sight::Between(..), Values::Names(_)) => Fit::Maybe(Doubt::Opaque),
    }
}

/// Whether all, some or none of the numbers are in the ranges.
fn covered(from: u128, to: u128, ranges: &[(u128, u128)], partly: Fit) -> Fit {
    let mut inside: Vec<(u128, u128)> = ranges
        .iter()
        .filter(|(low, high)| *low <= to && *high >= from)
        .copied()
        .collect();
    if inside.is_empty() {
        return Fit::No;
    }
    inside.sort_unstable();
    let mut next = from;
    for (low, high) in inside {
        if low > next {
            return partly;
        }
        if high >= to {
            return Fit::Yes;
        }
        next = next.max(high + 1);
    }
    partly
}
