//! The pairs as text: the sentence first, then a matrix for each rail.

use std::io::{self, Write};

use colored::Colorize;

use super::{Pairs, Way};

/// More nodes than these have no matrix that fits on a screen: the ways that stand out are listed.
const FITS: usize = 16;

/// Writes what was measured, for people.
///
/// # Errors
///
/// The output's.
pub fn write(out: &mut dyn Write, pairs: &Pairs) -> io::Result<()> {
    if pairs.nothing.is_some() {
        return writeln!(out, "{}", pairs.sentence.magenta());
    }
    let sentence = match pairs.accused.is_empty() {
        true => pairs.sentence.normal(),
        false => pairs.sentence.red(),
    };
    writeln!(out, "{sentence}")?;
    for accused in pairs.accused.iter().skip(1) {
        writeln!(out, "  {}", accused.what)?;
    }
    for accused in pairs.accused.iter().filter(|one| !one.counted.is_empty()) {
        writeln!(out, "  counted meanwhile: {}", accused.counted.join(", "))?;
    }
    for rail in 0..pairs.rails {
        writeln!(out)?;
        matrix(out, pairs, rail)?;
    }
    Ok(())
}

fn matrix(out: &mut dyn Write, pairs: &Pairs, rail: usize) -> io::Result<()> {
    let interface = |node: &crate::bench::pairs::Member| {
        let rail = node.rails.get(rail);
        rail.map_or(String::new(), |rail| rail.interface.clone())
    };
    let mut interfaces: Vec<String> = pairs.nodes.iter().map(interface).collect();
    interfaces.dedup();
    let backend = pairs.backend.unwrap_or("");
    writeln!(
        out,
        "rail {rail} ({}), {backend}, Gb/s from the row's node to the column's",
        interfaces.join(", ")
    )?;
    let of = |from: usize, to: usize| {
        let is = |way: &&Way| way.from == from && way.to == to && way.rail == rail;
        pairs.ways.iter().find(is)
    };
    let cell = |way: Option<&Way>| match way {
        None => "-".to_owned(),
        Some(Way {
            rate: Some(rate), ..
        }) => number(rate / 1e9),
        Some(_) => "none".to_owned(),
    };
    let nodes = pairs.nodes.len();
    if nodes > FITS {
        let mut rates: Vec<(&Way, f64)> = pairs
            .ways
            .iter()
            .filter(|way| way.rail == rail)
            .map(|way| (way, way.rate.unwrap_or(0.0)))
            .collect();
        rates.sort_by(|a, b| a.1.total_cmp(&b.1));
        for (way, _) in rates.iter().take(FITS) {
            let (from, to) = (&pairs.nodes[way.from].host, &pairs.nodes[way.to].host);
            writeln!(out, "  {from} to {to}: {}", cell(Some(way)))?;
        }
        let more = rates.len().saturating_sub(FITS);
        return writeln!(out, "  and {more} more that carry as much or more");
    }
    let hosts = pairs.nodes.iter().map(|node| node.host.as_str());
    let wide = hosts.clone().map(str::len).max().unwrap_or(0).max(6);
    write!(out, "  {:wide$}", "")?;
    for host in hosts.clone() {
        write!(out, "  {host:>wide$}")?;
    }
    writeln!(out)?;
    for (from, host) in hosts.enumerate() {
        write!(out, "  {host:wide$}")?;
        for to in 0..nodes {
            write!(out, "  {:>wide$}", cell(of(from, to)))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Three digits.
fn number(value: f64) -> String {
    let decimals =
        usize::from(value < 100.0) + usize::from(value < 10.0) + usize::from(value < 1.0);
    format!("{value:.decimals$}")
}
