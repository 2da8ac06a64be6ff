//! Queueing disciplines as tc(8) prints them, and the way of packets as ip(8) does.

use super::neighbour::Neighbours;
use super::qdisc::{Effect, Handle, Qdisc, ROOT};
use super::routing::{Route, Rule};
use super::{Found, state, way};
use crate::fact::{BitRate, Fact, Facts, Id, Origin, Percent, Seconds};

/// States what the rules, routes and neighbours that ip(8) printed keep from an interface. What may stand beside them is not known.
pub(in crate::probe) fn ways(
    facts: &mut Facts,
    node: Id,
    four: (Vec<Route>, Vec<Rule>),
    six: Fact<(Vec<Route>, Vec<Rule>)>,
    neighbours: &Neighbours,
    origin: &Origin,
) {
    let open = None;
    let mut found = Found { facts, node, open };
    way::state(&mut found, four, six, neighbours, origin);
    way::without_arp(&mut found, neighbours);
    way::permanent(&mut found, neighbours);
}

/// States what a line says of a discipline: `qdisc netem 8001: dev eth0 root refcnt 33 limit 1000 delay 10ms loss 1%`.
pub(in crate::probe) fn discipline(facts: &mut Facts, node: Id, line: &str, origin: &Origin) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |word: &str| {
        let mut rest = words.iter().skip_while(|one| **one != word);
        rest.nth(1).copied()
    };
    let (["qdisc", kind, handle, ..], Some(device)) = (words.as_slice(), after("dev")) else {
        return;
    };
    let parent = after("parent").map_or(Some(ROOT), number_of);
    let (Some(handle), Some(parent)) = (number_of(handle), parent) else {
        return;
    };
    let rate = |word| {
        scaled(
            after(word)?,
            &[("Gbit", 1e9), ("Mbit", 1e6), ("Kbit", 1e3), ("bit", 1.0)],
        )
    };
    let effects = match *kind {
        "netem" => {
            let lost = after("loss").and_then(|loss| scaled(loss, &[("%", 1.0)]));
            let units = [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0)];
            let delay = after("delay").and_then(|delay| scaled(delay, &units));
            vec![
                lost.map(|lost| Effect::Loss(Percent(lost))),
                rate("rate").map(|rate| Effect::Rate(BitRate(rate as u64))),
                delay.map(|delay| Effect::Delay(Seconds(delay))),
            ]
        }
        "tbf" | "cake" | "fq" => {
            let of = [("tbf", "rate"), ("cake", "bandwidth"), ("fq", "maxrate")];
            let word = of
                .iter()
                .find(|(of, _)| of == kind)
                .map_or("", |(_, word)| word);
            vec![rate(word).map(|rate| Effect::Rate(BitRate(rate as u64)))]
        }
        "pfifo" | "bfifo" | "pfifo_head_drop" if matches!(after("limit"), Some("0p" | "0b")) => {
            vec![Some(Effect::NoRoom)]
        }
        _ => Vec::new(),
    };
    let one = Qdisc {
        index: 0,
        handle: Handle(handle),
        parent: Handle(parent),
        kind: (*kind).into(),
        drops: 0,
        effects: Vec::new(),
        default_class: None,
    };
    let open = None;
    let mut found = Found { facts, node, open };
    for effect in effects.into_iter().flatten() {
        state(&mut found, &one, &device.into(), &effect, origin);
    }
}

/// `8001:`, `1:10`.
fn number_of(handle: &str) -> Option<u32> {
    let (major, minor) = handle.split_once(':')?;
    let half = |text: &str| u16::from_str_radix(if text.is_empty() { "0" } else { text }, 16).ok();
    Some(u32::from(half(major)?) << 16 | u32::from(half(minor)?))
}

/// A number and its unit.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    units.iter().find_map(|(unit, scale)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        (number > 0.0 && number < 1e15).then_some(number * scale)
    })
}
