//! `nft -j list ruleset` (libnftables-json(5)), object by object: a statement that is not understood is one opaque step of its
//! rule, and loses nothing else.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::render::rule_text;
use super::{iptables, nft_text, words};
use crate::fact::ruleset::{
    Backend, Base, Chain, Family, Hook, Match, PacketField, Rule, Ruleset, Step, Table, Values,
    Verdict,
};

/// The elements of the named sets and maps of a table; `None` if they were left out.
type Sets<'a> = HashMap<(&'a str, &'a str, &'a str), Option<&'a Vec<Value>>>;

/// Reads a ruleset.
pub(in crate::probe) fn ruleset(text: &str) -> Result<Ruleset, String> {
    let document: Value =
        serde_json::from_str(text).map_err(|error| format!("no JSON of nft: {error}"))?;
    objects_of(&document)
}

/// The same of its own language.
pub(in crate::probe) fn listing(text: &str) -> Result<Ruleset, String> {
    objects_of(&nft_text::document(text)?)
}

fn objects_of(document: &Value) -> Result<Ruleset, String> {
    let objects = document
        .get("nftables")
        .and_then(Value::as_array)
        .ok_or("no list `nftables`")?;
    let mut ruleset = Ruleset::default();
    let mut dormant: Vec<(Family, Arc<str>)> = Vec::new();
    let mut sets: Sets<'_> = HashMap::new();
    // Rules may name sets that are listed after them.
    for (kind, object) in objects.iter().filter_map(one_member) {
        if kind == "set" || kind == "map" {
            let key = (text_of(object, "family"), text_of(object, "table"));
            let elements = object.get("elem").and_then(Value::as_array);
            sets.insert((key.0, key.1, text_of(object, "name")), elements);
        }
    }
    for (kind, object) in objects.iter().filter_map(one_member) {
        let family = family(text_of(object, "family"));
        match kind {
            "table" => {
                let name = text_of(object, "name");
                let flags = object.get("flags");
                let is = |flag: &Value| flag.as_str() == Some("dormant");
                if flags
                    .is_some_and(|f| is(f) || f.as_array().is_some_and(|list| list.iter().any(is)))
                {
                    dormant.push((family, name.into()));
                }
                table(&mut ruleset, family, name);
            }
            "chain" => {
                let table = table(&mut ruleset, family, text_of(object, "table"));
                table.chains.push(chain(object));
            }
            "rule" => {
                let steps = steps(object, &sets);
                let text = rule_text(object);
                let of = text_of(object, "chain");
                let table = table(&mut ruleset, family, text_of(object, "table"));
                if let Some(chain) = table.chains.iter_mut().find(|c| &*c.name == of) {
                    chain.rules.push(Rule { text, steps });
                } else {
                    table.gap = Some(format!("a rule of chain {of}, which is not listed").into());
                }
            }
            _ => {}
        }
    }
    for table in &mut ruleset.tables {
        table.backend = backend(table);
        // No chain of a dormant table is hooked in.
        if dormant.contains(&(table.family, Arc::clone(&table.name))) {
            table.chains.clear();
        }
    }
    Ok(ruleset)
}

/// Gives chains their devices from the plain listing: releases before 1.0.7 leave them out of JSON.
pub(super) fn name_devices(ruleset: &mut Ruleset, text: &str) {
    let listed = listing(text).unwrap_or_default();
    for of in &mut ruleset.tables {
        let same = |t: &&Table| t.family == of.family && t.name == of.name;
        let listed = listed.tables.iter().find(same);
        for chain in &mut of.chains {
            let own = listed.and_then(|table| table.chain(&chain.name)?.base.as_ref());
            if let (Some(base), Some(own)) = (&mut chain.base, own) {
                base.devices = base.devices.take().or_else(|| own.devices.clone());
            }
        }
    }
}

pub(super) fn one_member(object: &Value) -> Option<(&str, &Value)> {
    let (kind, value) = object.as_object()?.iter().next()?;
    Some((kind, value))
}

fn text_of<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or("")
}

fn family(word: &str) -> Family {
    match word {
        "inet" => Family::Inet,
        "ip" => Family::Ipv4,
        "ip6" => Family::Ipv6,
        "netdev" => Family::Netdev,
        _ => Family::Other,
    }
}

fn table<'r>(ruleset: &'r mut Ruleset, family: Family, name: &str) -> &'r mut Table {
    let found = ruleset
        .tables
        .iter()
        .position(|t| t.family == family && &*t.name == name);
    let at = found.unwrap_or(ruleset.tables.len());
    if found.is_none() {
        let table = Table::new(family, name, Backend::Nftables);
        ruleset.tables.push(table);
    }
    &mut ruleset.tables[at]
}

/// iptables names its tables and chains in its own way.
fn backend(table: &Table) -> Backend {
    let name = ["filter", "nat", "mangle", "raw", "security"].contains(&&*table.name);
    let builtin = |chain: &Chain| {
        ["INPUT", "OUTPUT", "FORWARD", "PREROUTING", "POSTROUTING"].contains(&&*chain.name)
    };
    let family = matches!(table.family, Family::Ipv4 | Family::Ipv6);
    if name && family && table.chains.iter().any(builtin) {
        Backend::IptablesNft
    } else {
        Backend::Nftables
    }
}

fn chain(object: &Value) -> Chain {
    let base = object.get("hook").and_then(Value::as_str).map(|hook| Base {
        hook: match hook {
            "ingress" => Hook::Ingress,
            "prerouting" => Hook::Prerouting,
            "input" => Hook::Input,
            "output" => Hook::Output,
            "postrouting" => Hook::Postrouting,
            "egress" => Hook::Egress,
            _ => Hook::Other,
        },
        nat: text_of(object, "type") == "nat",
        priority: object.get("prio").and_then(Value::as_i64).unwrap_or(0),
        drops: text_of(object, "policy") == "drop",
        devices: match object.get("dev") {
            Some(Value::String(one)) => Some(vec![one.as_str().into()]),
            Some(Value::Array(all)) => Some(
                all.iter()
                    .filter_map(Value::as_str)
                    .map(Arc::from)
                    .collect(),
            ),
            _ => None,
        },
    });
    Chain {
        name: text_of(object, "name").into(),
        base,
        rules: Vec::new(),
    }
}

fn steps(rule: &Value, sets: &Sets<'_>) -> Vec<Step> {
    let place = RuleContext {
        family: text_of(rule, "family"),
        table: text_of(rule, "table"),
        sets,
    };
    let mut steps = Vec::new();
    match rule.get("expr") {
        Some(Value::Array(statements)) => {
            for statement in statements {
                place.statement(statement, &mut steps);
            }
        }
        _ => steps.push(Step::OpaqueVerdict("a rule without statements".into())),
    }
    steps
}

/// Where a rule stands, for the sets that it names.
struct RuleContext<'a> {
    family: &'a str,
    table: &'a str,
    sets: &'a Sets<'a>,
}

impl RuleContext<'_> {
    fn statement(&self, statement: &Value, steps: &mut Vec<Step>) {
        let Some((kind, what)) = one_member(statement) else {
            // A bare word, as "notrack" in some releases.
            match statement.as_str() {
                Some("notrack") => steps.push(Step::Untrack),
                Some("accept") => steps.push(Step::Verdict(Verdict::Accept)),
                Some("drop") => steps.push(Step::Verdict(Verdict::Drop)),
                Some("counter" | "log" | "continue" | "last") => {}
                _ => steps.push(Step::OpaqueVerdict(brief(statement))),
            }
            return;
        };
        if let Some(verdict) = verdict(kind, what) {
            steps.push(Step::Verdict(verdict));
            return;
        }
        match kind {
            "match" => self.matching(what, steps),
            "vmap" => self.verdict_map(what, steps),
            "limit" | "quota" | "ct count" | "meter" => steps.push(Step::Rate),
            "notrack" => steps.push(Step::Untrack),
            "dnat" | "redirect" | "tproxy" | "synproxy" | "fwd" => steps.push(Step::Divert),
            "snat" => steps.push(Step::Translate),
            // Out of an interface of its own the address stays the same.
            "masquerade" => steps.push(Step::Verdict(Verdict::Accept)),
            "mangle" => mangle(what, steps),
            "set" | "map" => {
                let own = what.get("stmt").and_then(Value::as_array);
                let limits = |s: &Value| {
                    one_member(s).is_some_and(|(kind, _)| !matches!(kind, "counter" | "last"))
                };
                if own.is_some_and(|list| list.iter().any(limits)) {
                    steps.push(Step::Rate);
                }
            }
            "counter" | "log" | "last" | "comment" | "dup" | "flow" | "secmark" | "ct helper"
            | "ct timeout" | "ct expectation" | "optstrip" | "reset" => {}
            "xt" => xt(what, steps),
            _ => steps.push(Step::OpaqueVerdict(brief(statement))),
        }
    }

    fn matching(&self, what: &Value, steps: &mut Vec<Step>) {
        let nothing = Value::Null;
        let left = what.get("left").unwrap_or(&nothing);
        let right = what.get("right").unwrap_or(&nothing);
        let op = what.get("op").and_then(Value::as_str).unwrap_or("==");
        let (masked, mask) = match left.get("&").and_then(Value::as_array).map(Vec::as_slice) {
            Some([inner, mask]) => (inner, Some(mask)),
            _ => (left, None),
        };
        let mut needs = Vec::new();
        let Some(fields) = fields(masked, &mut needs) else {
            steps.push(Step::Opaque(brief(left)));
            return;
        };
        // Packets without the header fit `missing`.
        if fields == [PacketField::Extension] && right == &Value::Bool(false) {
            return;
        }
        steps.extend(needs.into_iter().map(Step::Match));
        let (mut any, mut whole) = (Vec::new(), true);
        let negate = matches!(op, "!=" | "!");
        let read = match (&fields[..], mask, op) {
            ([field], Some(mask), "==" | "!=") => flags(field, mask).and_then(|mask| {
                let masked = |value: &Value| {
                    flags(field, value).map(|value| vec![Values::Masked(mask, value)])
                };
                match right.get("set").and_then(Value::as_array) {
                    Some(set) => {
                        for value in set {
                            match masked(value) {
                                Some(one) => any.push(one),
                                None => whole = false,
                            }
                        }
                    }
                    None => any.push(masked(right)?),
                }
                Some(())
            }),
            (_, Some(_), _) => None,
            ([field], None, "<" | ">" | "<=" | ">=") => flags(field, right).map(|n| {
                any.push(vec![Values::Ranges(match op {
                    "<" => n.checked_sub(1).map(|n| (0, n)).into_iter().collect(),
                    "<=" => vec![(0, n)],
                    ">" => n
                        .checked_add(1)
                        .map(|n| (n, u128::MAX))
                        .into_iter()
                        .collect(),
                    _ => vec![(n, u128::MAX)],
                })]);
            }),
            ([field], None, "in" | "!") if is_flags(field) => flags(field, right).map(|mask| {
                any.push(vec![Values::Bits(mask)]);
            }),
            // A flag by itself stands for its being set, a list for any of them.
            ([field], None, _) if right.is_array() => flags(field, right).map(|value| {
                any.push(vec![Values::one(value)]);
            }),
            _ => {
                whole = self.alternatives(&fields, right, &mut any);
                Some(())
            }
        };
        if read.is_none() {
            (any, whole) = (Vec::new(), false);
        }
        steps.push(Step::Match(Match {
            fields,
            negate,
            any,
            whole,
        }));
    }

    /// The right side of a match; false if not all of it is known.
    fn alternatives(
        &self,
        fields: &[PacketField],
        right: &Value,
        any: &mut Vec<Vec<Values>>,
    ) -> bool {
        match self.elements(right) {
            Some(Some(elements)) => {
                let mut whole = true;
                for element in elements {
                    match element_values(fields, element) {
                        Some(values) => any.push(values),
                        None => whole = false,
                    }
                }
                if let [_] = fields {
                    merge(any);
                }
                whole
            }
            Some(None) => false,
            None => match element_values(fields, right) {
                Some(values) => {
                    any.push(values);
                    true
                }
                None => false,
            },
        }
    }

    /// The elements of an anonymous or a named set; `Some(None)` if they were left out.
    fn elements<'v>(&'v self, right: &'v Value) -> Option<Option<&'v Vec<Value>>> {
        if let Some(set) = right.get("set") {
            return Some(set.as_array());
        }
        let name = right.as_str()?.strip_prefix('@')?;
        Some(
            self.sets
                .get(&(self.family, self.table, name))
                .copied()
                .flatten(),
        )
    }

    fn verdict_map(&self, what: &Value, steps: &mut Vec<Step>) {
        let nothing = Value::Null;
        let mut needs = Vec::new();
        let Some(fields) = fields(what.get("key").unwrap_or(&nothing), &mut needs) else {
            steps.push(Step::OpaqueVerdict(brief(what)));
            return;
        };
        steps.extend(needs.into_iter().map(Step::Match));
        let data = what.get("data").unwrap_or(&nothing);
        let Some(Some(elements)) = self.elements(data) else {
            steps.push(Step::OpaqueVerdict(
                "a map whose elements were left out".into(),
            ));
            return;
        };
        let (mut entries, mut whole) = (Vec::new(), true);
        for element in elements {
            let pair = element.as_array().map(Vec::as_slice);
            let read = match pair {
                Some([key, target]) => one_member(target)
                    .and_then(|(kind, what)| verdict(kind, what))
                    .zip(element_values(&fields, key)),
                _ => None,
            };
            match read {
                Some((verdict, values)) => entries.push((values, verdict)),
                None => whole = false,
            }
        }
        if whole {
            steps.push(Step::VerdictMap {
                fields,
                entries,
                whole,
            });
        } else {
            steps.push(Step::OpaqueVerdict(brief(what)));
        }
    }
}

pub(super) fn verdict(kind: &str, what: &Value) -> Option<Verdict> {
    Some(match kind {
        "accept" => Verdict::Accept,
        "drop" => Verdict::Drop,
        "reject" => Verdict::Reject,
        "continue" => Verdict::Continue,
        "return" => Verdict::Return,
        "jump" => Verdict::Jump(text_of(what, "target").into()),
        "goto" => Verdict::Goto(text_of(what, "target").into()),
        "queue" => Verdict::Queue,
        _ => return None,
    })
}

/// Whether a field's values are sets of bits, and a word means that its bit is set.
fn is_flags(field: &PacketField) -> bool {
    matches!(
        field,
        PacketField::State | PacketField::Status | PacketField::TcpFlags
    )
}

/// The field of a match, and the conditions under which a packet has it: nft leaves these out when it lists.
fn fields(left: &Value, needs: &mut Vec<Match>) -> Option<Vec<PacketField>> {
    if let Some(parts) = left.get("concat").and_then(Value::as_array) {
        let mut fields = Vec::new();
        for part in parts {
            fields.push(field(part, needs)?);
        }
        return Some(fields);
    }
    Some(vec![field(left, needs)?])
}

fn field(left: &Value, needs: &mut Vec<Match>) -> Option<PacketField> {
    let (kind, what) = one_member(left)?;
    let key = text_of(what, "key");
    Some(match kind {
        "meta" => match key {
            "iifname" | "iif" => PacketField::InName,
            "oifname" | "oif" => PacketField::OutName,
            "l4proto" => PacketField::Protocol,
            "nfproto" | "protocol" => PacketField::Version,
            "mark" => PacketField::Mark,
            "pkttype" => PacketField::PacketType,
            _ => PacketField::Other(format!("meta {key}").into()),
        },
        "ct" => match (key, what.get("dir")) {
            ("state", None) => PacketField::State,
            ("direction", None) => PacketField::Direction,
            ("status", None) => PacketField::Status,
            ("mark", None) => PacketField::ConnectionMark,
            _ => PacketField::Other(format!("ct {key}").into()),
        },
        "payload" => payload(what, needs)?,
        "fib" => {
            let flags: Vec<&str> = match what.get("flags") {
                Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
                Some(Value::String(one)) => vec![one],
                _ => Vec::new(),
            };
            let has = |flag: &str| flags.contains(&flag);
            match text_of(what, "result") {
                "type" if has("daddr") => PacketField::DestinationKind,
                "type" if has("saddr") => PacketField::SourceKind,
                "oif" if has("saddr") && has("iif") => PacketField::ReversePath,
                _ => PacketField::Other("fib".into()),
            }
        }
        "exthdr" | "ip option" => PacketField::Extension,
        _ => return None,
    })
}

fn payload(what: &Value, needs: &mut Vec<Match>) -> Option<PacketField> {
    let (protocol, field) = (text_of(what, "protocol"), text_of(what, "field"));
    let field = match (protocol, field) {
        (_, "sport") => PacketField::SourcePort,
        (_, "dport") => PacketField::DestinationPort,
        ("ip", "saddr") => PacketField::Source4,
        ("ip", "daddr") => PacketField::Destination4,
        ("ip6", "saddr") => PacketField::Source6,
        ("ip6", "daddr") => PacketField::Destination6,
        ("ip", "protocol") | ("ip6", "nexthdr") => PacketField::Protocol,
        ("ip" | "ip6", "version") | ("ether", "type") => PacketField::Version,
        ("tcp", "flags") => PacketField::TcpFlags,
        ("icmp", "type") => PacketField::IcmpType,
        ("icmp", "code") => PacketField::IcmpCode,
        ("icmpv6", "type") => PacketField::Icmp6Type,
        ("icmpv6", "code") => PacketField::Icmp6Code,
        ("ether", "saddr") => PacketField::Sender("ether saddr".into()),
        _ => PacketField::Other(format!("{protocol} {field}").into()),
    };
    match protocol {
        "ip" | "icmp" => needs.push(Match::is(PacketField::Version, 4)),
        "ip6" | "icmpv6" => needs.push(Match::is(PacketField::Version, 6)),
        _ => {}
    }
    match protocol {
        "th" | "ip" | "ip6" | "ether" => {}
        // Raw bytes, or a header below: it may be there or not.
        name => match words::number(&PacketField::Protocol, name) {
            Some(number) => needs.push(Match::is(PacketField::Protocol, number)),
            None => return Some(PacketField::Other("a packet's bytes".into())),
        },
    }
    Some(field)
}

/// A number, a word, or several flags together.
fn flags(field: &PacketField, value: &Value) -> Option<u128> {
    match value {
        Value::Number(n) => n.as_u64().map(u128::from),
        Value::Bool(yes) => Some((*yes).into()),
        Value::String(word) => words::number(field, word),
        Value::Array(list) => list
            .iter()
            .map(|one| flags(field, one))
            .try_fold(0, |all, one| Some(all | one?)),
        Value::Object(_) => flags(field, value.get("|")?),
        Value::Null => None,
    }
}

/// One element of a set, or what a match compares with: values, one for each field.
fn element_values(fields: &[PacketField], element: &Value) -> Option<Vec<Values>> {
    let element = match element.get("elem") {
        Some(inner) => inner.get("val")?,
        None => element,
    };
    if let [field] = fields {
        return Some(vec![values(field, element)?]);
    }
    if element.as_str() == Some("*") {
        return fields.iter().map(|field| values(field, element)).collect();
    }
    let parts = element.get("concat")?.as_array()?;
    if parts.len() != fields.len() {
        return None;
    }
    let each = fields.iter().zip(parts);
    each.map(|(field, part)| values(field, part)).collect()
}

fn values(field: &PacketField, value: &Value) -> Option<Values> {
    let names = matches!(field, PacketField::InName | PacketField::OutName);
    if let Some(range) = value.get("range").and_then(Value::as_array) {
        let [from, to] = range.as_slice() else {
            return None;
        };
        return Some(Values::Ranges(vec![(
            flags(field, from)?,
            flags(field, to)?,
        )]));
    }
    if let Some(prefix) = value.get("prefix") {
        let length = u32::try_from(prefix.get("len")?.as_u64()?).ok()?;
        let range = words::subnet(field, prefix.get("addr")?.as_str()?, length)?;
        return Some(Values::Ranges(vec![range]));
    }
    match value {
        Value::String(word) if word == "*" && !names => Some(Values::Ranges(vec![(0, u128::MAX)])),
        Value::String(word) if word.starts_with('@') => None,
        Value::String(word) if names => Some(Values::Names(vec![word.as_str().into()])),
        // The index of an interface that is gone: no packet comes by it.
        Value::Number(_) if names => Some(Values::Names(Vec::new())),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => {
            flags(field, value).map(Values::one)
        }
        _ => None,
    }
}

/// Several ranges of one field as one list, so that what lies across two of them is inside.
fn merge(any: &mut Vec<Vec<Values>>) {
    let mut ranges = Vec::new();
    any.retain(|values| match values.as_slice() {
        [Values::Ranges(some)] => {
            ranges.extend_from_slice(some);
            false
        }
        _ => true,
    });
    if !ranges.is_empty() {
        any.push(vec![Values::Ranges(ranges)]);
    }
}

fn mangle(what: &Value, steps: &mut Vec<Step>) {
    let Some((kind, key)) = what.get("key").and_then(one_member) else {
        return;
    };
    match (kind, text_of(key, "key")) {
        ("meta", "mark") => steps.push(Step::Mark(what.get("value").and_then(mark))),
        ("ct", "mark") => steps.push(Step::ConnectionMark),
        _ => {}
    }
}

/// `mark & and ^ xor` of what a mark is set to.
fn mark(value: &Value) -> Option<(u32, u32)> {
    if let Some(plain) = flags(&PacketField::Mark, value) {
        return Some((0, u32::try_from(plain).ok()?));
    }
    let (op, parts) = one_member(value)?;
    let [left, right] = parts.as_array()?.as_slice() else {
        return None;
    };
    let number = u32::try_from(flags(&PacketField::Mark, right)?).ok()?;
    let is_mark =
        one_member(left).is_some_and(|(kind, key)| kind == "meta" && text_of(key, "key") == "mark");
    let (and, xor) = if is_mark { (u32::MAX, 0) } else { mark(left)? };
    Some(match op {
        "&" => (and & number, xor & number),
        "|" => (and & !number, xor & !number | number),
        "^" => (and, xor ^ number),
        _ => return None,
    })
}

/// An extension of iptables: nft names it, and not what it does.
fn xt(what: &Value, steps: &mut Vec<Step>) {
    let name = text_of(what, "name");
    match text_of(what, "type") {
        "match" if name == "comment" => {}
        "match" if words::RATES.contains(&name) => steps.push(Step::Rate),
        "match" => steps.push(Step::Opaque(format!("match {name} of iptables").into())),
        "target" => match iptables::plain_target(name) {
            Some(plain) => steps.extend_from_slice(plain),
            None if name == "MARK" => steps.push(Step::Mark(None)),
            None => {
                let what = format!("target {name} of iptables");
                steps.push(Step::OpaqueVerdict(what.into()));
            }
        },
        _ if words::SILENT_TARGETS.contains(&name) => {}
        _ => steps.push(Step::OpaqueVerdict("an extension of iptables".into())),
    }
}

/// A piece of JSON, cut short: what was not understood.
fn brief(value: &Value) -> Arc<str> {
    let text = value.to_string();
    text.chars().take(60).collect::<String>().into()
}
