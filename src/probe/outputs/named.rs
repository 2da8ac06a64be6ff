//! Values that tools print behind a name: the rows of `named.toml`.

use super::OutputLine;
use crate::fact::{BitRate, Bytes, Fact, Facts, Id, Type, Typed, Value};

/// A fact's name, and the names that tools have for it.
pub(super) type Row = (&'static str, &'static [&'static str]);

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $($(#[$doc])* pub(super) const $name: &[Row] = include!(concat!(env!("OUT_DIR"), "/named.", $file, ".rs"));)*
    };
}

tables! {
    /// `nvidia-smi -q`, `--query-gpu`.
    GPU = "gpu";
    /// Why clocks are held.
    REASONS = "reasons";
    /// Counters of which only the sum is a fact.
    SUMS = "sums";
    /// `amd-smi`.
    AMD = "amd";
    /// `nvidia-smi nvlink -e`.
    NVLINK = "nvlink";
    /// `ibstat` and its like.
    DEVICE = "device";
    /// The same of a port.
    PORT = "port";
    /// `lspci -vvv`.
    PCI = "pci";
    /// `ethtool -a`.
    NETDEV = "netdev";
    /// The machine.
    NODE = "node";
    /// What tools write for words.
    WORDS = "words";
}

/// States what a name and its value say, if a row has the name.
pub(super) fn state(
    facts: &mut Facts,
    id: Id,
    rows: &[Row],
    (name, value): (&str, &str),
    line: &OutputLine<'_>,
) {
    let name = name.trim().to_ascii_lowercase();
    for (fact, _) in rows.iter().filter(|(_, names)| names.contains(&&*name)) {
        let Some((index, of)) = place(facts, id, fact) else {
            continue;
        };
        let value = value.trim();
        match read(of, value) {
            // What a device does not have, it does not say.
            None if value.is_empty() || normal(value) == "na" => {}
            read => facts.set_at(id, index, line.read(read)),
        }
    }
}

/// The place of a fact in the schema, and its type.
pub(super) fn place(facts: &Facts, id: Id, fact: &str) -> Option<(usize, Type)> {
    let all = facts.subject(id).schema().facts;
    let at = all.iter().position(|one| one.name == fact)?;
    Some((at, all.get(at)?.ty))
}

/// A value of a Rust type, as tools write it.
pub(super) fn typed<T: Typed>(value: &str) -> Option<T> {
    T::from_value(&read(T::TYPE, value)?)
}

/// A value of this type, as tools write it.
pub(super) fn read(of: Type, value: &str) -> Option<Value> {
    let first = value.split([' ', '(']).next()?;
    Some(match of {
        Type::Bool => Value::Bool(word(&["yes", "no"], value)? == "yes"),
        Type::Count => Value::Count(match first.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => first.split(['.', 'x']).next()?.parse().ok()?,
        }),
        Type::BitRate => {
            let unit = if value.contains("GB/s") { 8e9 } else { 1e9 };
            let number: f64 = first.parse().ok().filter(|n| (0.0..1e6).contains(n))?;
            Value::BitRate(BitRate((number * unit).round() as u64))
        }
        Type::Bytes => Value::Bytes(Bytes::parse(value.split('(').next()?).ok()?),
        Type::Text if value.is_empty() || normal(value) == "na" => return None,
        Type::Text => Value::Text(value.into()),
        Type::Word(words) => Value::Word(word(words, value)?),
        _ => return None,
    })
}

/// The word that this is: `Active`, `4: ACTIVE`, `PORT_ACTIVE (4)`.
fn word(words: &[&'static str], value: &str) -> Option<&'static str> {
    let value = value.rsplit(": ").next().unwrap_or(value);
    let value = normal(value.split('(').next().unwrap_or(value));
    let called = |word: &&'static str| {
        let mut rows = WORDS.iter().filter(|(of, _)| of == word);
        rows.any(|(_, names)| names.contains(&&*value))
    };
    let mut all = words.iter().copied();
    let natural = all.clone().find(|word| normal(word) == value);
    natural.or_else(|| all.find(called))
}

/// The letters and digits of a text, in small letters.
fn normal(text: &str) -> String {
    let kept = text.chars().filter(char::is_ascii_alphanumeric);
    kept.map(|c| c.to_ascii_lowercase()).collect()
}

/// What a line says of one fact.
pub(super) fn fact(facts: &mut Facts, id: Id, name: &str, said: Option<(Value, OutputLine<'_>)>) {
    if let (Some((index, _)), Some((value, line))) = (place(facts, id, name), said) {
        facts.set_at(id, index, Fact::Known(value, line.origin()));
    }
}
