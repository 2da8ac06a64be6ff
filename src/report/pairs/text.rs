//! The pairs as text: the sentence first, then a matrix for each rail.

use std::io::{self, Write};

use crate::terminal::Paint;

use super::{MeasuredDirection, Pairs};
use crate::measure::plan::pairs::{Member, Rail};
use crate::measure::plan::run::Backend;

/// More nodes than these have no matrix that fits on a screen: the ways that stand out are listed.
const FITS: usize = 16;

/// Writes what was measured, for people.
///
/// # Errors
///
/// The output's.
pub fn write(out: &mut dyn Write, pairs: &Pairs) -> io::Result<()> {
    if pairs.nothing.is_some() {
        return writeln!(out, "{}", pairs.sentence.to_string().magenta());
    }
    let sentence = pairs.sentence.to_string();
    writeln!(
        out,
        "{}",
        if pairs.leads.is_some() {
            sentence.red()
        } else {
            sentence.normal()
        }
    )?;
    for (at, accused) in pairs.accused.iter().enumerate() {
        if Some(at) != pairs.leads {
            writeln!(out, "  {}", accused.what)?;
        }
    }
    for accused in pairs.accused.iter().filter(|one| !one.counted.is_empty()) {
        writeln!(out, "  counted meanwhile: {}", accused.counted.join(", "))?;
    }
    if let (Some(backend), Some(why)) = (pairs.backend, &pairs.why) {
        writeln!(out, "  measured with {backend}: {why}")?;
    }
    for rail in 0..pairs.rails {
        writeln!(out)?;
        matrix(out, pairs, rail, &pairs.ways)?;
        round_trips(out, pairs, rail, &pairs.ways)?;
        if !pairs.on_gpus.is_empty() {
            matrix(out, pairs, rail, &pairs.on_gpus)?;
            round_trips(out, pairs, rail, &pairs.on_gpus)?;
        }
        gpus(out, pairs, rail)?;
    }
    if !pairs.across.is_empty() {
        writeln!(out)?;
        across(out, pairs)?;
    }
    Ok(())
}

/// How long a small RDMA write takes there and back over a rail.
fn round_trips(
    out: &mut dyn Write,
    pairs: &Pairs,
    rail: usize,
    ways: &[MeasuredDirection],
) -> io::Result<()> {
    let of_rail = ways.iter().filter(|way| way.rail == rail);
    let mut all: Vec<f64> = of_rail.filter_map(|way| way.round_trip).collect();
    all.sort_unstable_by(f64::total_cmp);
    let micros = |seconds: Option<&f64>| number(seconds.copied().unwrap_or(0.0) * 1e6);
    if pairs.backend != Some("verbs") || all.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "  a small write there and back: {} µs ({} to {})",
        micros(all.get(all.len() / 2)),
        micros(all.first()),
        micros(all.last())
    )
}

/// The rails with each other: the least that two of their adapters carry, and how many carry anything.
fn across(out: &mut dyn Write, pairs: &Pairs) -> io::Result<()> {
    writeln!(
        out,
        "across rails, Gb/s from the row's rail to the column's: the least of all nodes, and how many of them carry anything where not all do"
    )?;
    let cell = |from: usize, to: usize| {
        let is = |way: &&MeasuredDirection| way.rail == from && way.to_rail == to;
        let all = pairs.across.iter().filter(is).count();
        let rates = pairs.across.iter().filter(is).filter_map(|way| way.rate);
        let rates: Vec<f64> = rates.collect();
        let least = rates.iter().copied().reduce(f64::min);
        match (all, least) {
            (0, _) => "-".to_owned(),
            (_, None) => "none".to_owned(),
            (all, Some(least)) if all == rates.len() => number(least / 1e9),
            (all, Some(least)) => format!("{} ({}/{all})", number(least / 1e9), rates.len()),
        }
    };
    let cells: Vec<Vec<String>> = (0..pairs.rails)
        .map(|from| (0..pairs.rails).map(|to| cell(from, to)).collect())
        .collect();
    let wide = cells.iter().flatten().map(String::len).max().unwrap_or(0);
    let wide = wide.max(6);
    write!(out, "  {:6}", "")?;
    for rail in 0..pairs.rails {
        write!(out, "  {:>wide$}", format!("rail {rail}"))?;
    }
    writeln!(out)?;
    for (from, row) in cells.iter().enumerate() {
        write!(out, "  {:6}", format!("rail {from}"))?;
        for cell in row {
            write!(out, "  {cell:>wide$}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Which GPU each node's memory was on, and how its adapter comes to it.
fn gpus(out: &mut dyn Write, pairs: &Pairs, rail: usize) -> io::Result<()> {
    let told = |node: &Member| {
        let gpu = node.rails.get(rail)?.gpu.as_ref()?;
        let host = &node.host;
        Some(match (&gpu.pci, gpu.way) {
            (Some(pci), Some(way)) => format!("{host} {pci} by {}", way.word()),
            (Some(pci), None) => format!("{host} {pci} not"),
            (None, _) => format!("{host} none"),
        })
    };
    let all: Vec<String> = pairs.nodes.iter().filter_map(told).collect();
    if all.is_empty() {
        return Ok(());
    }
    let more = match all.len().saturating_sub(FITS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let some = all.len().min(FITS);
    writeln!(out, "  GPUs: {}{more}", all[..some].join(", "))
}

fn matrix(
    out: &mut dyn Write,
    pairs: &Pairs,
    rail: usize,
    ways: &[MeasuredDirection],
) -> io::Result<()> {
    let interface = |node: &Member| {
        let rail = node.rails.get(rail);
        let label = |rail: &Rail| match pairs.backend {
            Some("verbs") => rail.label(Backend::Verbs).to_owned(),
            _ => rail.interface.clone(),
        };
        rail.map(label).unwrap_or_default()
    };
    let mut interfaces: Vec<String> = pairs.nodes.iter().map(interface).collect();
    interfaces.dedup();
    let backend = pairs.backend.unwrap_or("");
    let memory = match (pairs.memory.as_slice(), ways.first().map(|way| way.memory)) {
        (_, Some("gpu")) => ", from GPU to GPU",
        ([_, _], _) => ", in the host's memory",
        _ => "",
    };
    writeln!(
        out,
        "rail {rail} ({}), {backend}{memory}, Gb/s from the row's node to the column's",
        interfaces.join(", ")
    )?;
    let of = |from: usize, to: usize| {
        let is = |way: &&MeasuredDirection| way.from == from && way.to == to && way.rail == rail;
        ways.iter().find(is)
    };
    let cell = |way: Option<&MeasuredDirection>| match way {
        None => "-".to_owned(),
        Some(MeasuredDirection {
            rate: Some(rate), ..
        }) => number(rate / 1e9),
        Some(_) => "none".to_owned(),
    };
    let nodes = pairs.nodes.len();
    if nodes > FITS {
        let mut rates: Vec<(&MeasuredDirection, f64)> = ways
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
