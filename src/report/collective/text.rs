//! The rows as text: the answer first, then a table as nccl-tests prints one.

use std::io::{self, Write};

use crate::terminal::Paint;

use super::{Collectives, MeasuredPoint};
use crate::fact::Bytes;
use crate::measure::plan::reply::{Carried, GpuMemory};
use crate::measure::plan::scope::Scope;
use crate::report::plural;
use crate::sentence::Sentence;

/// Writes what was measured, for people.
pub fn write(out: &mut dyn Write, measured: &Collectives) -> io::Result<()> {
    let node = measured.node.bold();
    if let Some(why) = &measured.nothing {
        return writeln!(out, "{node} · {}: {why}", "nothing was measured".magenta());
    }
    writeln!(out, "{node} · {}", headline(measured))?;
    let (nodes, memory) = (&measured.against_one_node, &measured.against_host_memory);
    let what_is_slow = measured.what_is_slow.as_ref().map(Sentence::to_string);
    for sentence in [nodes, memory, &what_is_slow].into_iter().flatten() {
        writeln!(out, "{sentence}")?;
    }
    over(out, measured)?;
    parts(out, measured)?;
    if measured.rows.iter().any(|row| row.time.is_some()) {
        writeln!(out)?;
        table(out, &measured.rows)?;
    }
    troubles(out, measured)
}

/// The parts of a job of several nodes, side by side.
fn parts(out: &mut dyn Write, measured: &Collectives) -> io::Result<()> {
    let Some(scopes) = &measured.scopes else {
        return Ok(());
    };
    let mut line = |name: String, scope: &Scope| {
        let ranks = plural(scope.ranks, "rank");
        let busbw = digits(gigabytes(scope.busbw));
        writeln!(out, "  {name}: {ranks}, bus bandwidth {busbw} GB/s")
    };
    for scope in &scopes.inside {
        let host = scope.host.as_deref().unwrap_or("a node");
        line(format!("inside {host}"), scope)?;
    }
    if let Some(scope) = &scopes.between {
        line("one rank a node".into(), scope)?;
    }
    if let Some(scope) = &scopes.whole {
        let nodes = plural(scope.nodes, "node");
        line(format!("the whole job, {nodes}"), scope)?;
    }
    let bisection = scopes.bisection.iter();
    for (bisection, part) in bisection.flat_map(|of| of.parts.iter().map(move |part| (of, part))) {
        let busbw = part.busbw.map(|busbw| digits(gigabytes(busbw)));
        let reached = busbw.map_or("not valid".into(), |rate| {
            format!("bus bandwidth {rate} GB/s")
        });
        writeln!(out, "  {} alone: {reached}", bisection.names(&part.nodes))?;
    }
    Ok(())
}

/// Bits per second as gigabytes per second, as benchmarks of collectives have them.
pub fn gigabytes(rate: u64) -> f64 {
    rate as f64 / 8e9
}

/// Three digits or more of a number.
pub fn digits(value: f64) -> String {
    let decimals = usize::from(value < 100.0) + usize::from(value < 10.0);
    format!("{value:.decimals$}")
}

/// The answer in one sentence.
fn headline(measured: &Collectives) -> String {
    let ranks = plural(measured.ranks.len() as u64, "rank");
    let wrong = measured.rows.iter().find(|row| row.wrong > 0);
    let Some(row) = measured.rows.last() else {
        return format!("no operation over {ranks}");
    };
    let name = |row: &MeasuredPoint| {
        let place = match (measured.backend, row.memory) {
            ("verbs", "gpu") => " from GPU to GPU",
            _ => "",
        };
        format!("{} of {}{place}", row.collective, Bytes(row.size))
    };
    if let Some(trouble) = measured.troubles.first() {
        let verb = match trouble.ended {
            "hung" => "hung",
            "slow" => "is slow",
            "died" => "died",
            "stopped" => "was stopped",
            _ => "failed",
        };
        let what = format!(
            "rank {} {verb} ({}): {}",
            trouble.rank, trouble.step, trouble.why
        );
        return what.red().to_string();
    }
    if let Some(row) = wrong {
        let (wrong, checked) = (row.wrong, row.checked);
        let what = format!("{}: {wrong} of {checked} values are wrong", name(row));
        return what.red().to_string();
    }
    match (row.busbw, row.time) {
        (Some(0), Some(time)) => {
            let time = digits(time * 1e6);
            format!(
                "{} over {ranks}: {time} µs; nothing crosses a bus",
                name(row)
            )
        }
        (Some(busbw), _) => {
            let unsteady = match row.steady {
                Some(false) => "; its trials differ too much to count",
                _ => "",
            };
            format!(
                "{} over {ranks}: bus bandwidth {} GB/s ({} Gb/s), all values right{unsteady}",
                name(row),
                digits(gigabytes(busbw)),
                digits(busbw as f64 / 1e9),
            )
        }
        _ => format!("{} over {ranks} was not measured", name(row)),
    }
}

/// Writes which backend moved the data, and over what.
///
/// # Errors
///
/// The output's.
pub fn over(out: &mut dyn Write, measured: &Collectives) -> io::Result<()> {
    let mut line = measured.backend.to_owned();
    if let Some(version) = &measured.version {
        line.push_str(&format!(" {version}"));
    }
    if let Some(library) = &measured.library {
        line.push_str(&format!(", {library}"));
    }
    writeln!(out, "{line}")?;
    let what = |rank: &super::Rank| {
        let way = rank.gpu_memory.as_ref().and_then(way_in_words);
        let parts = [rank.gpu.clone(), rank.device.clone(), way];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(", ")
    };
    let all: Vec<String> = measured.ranks.iter().map(what).collect();
    let mut from = 0;
    // Ranks that use the same are one line.
    while let Some(first) = all.get(from) {
        let rest = all.get(from..).unwrap_or_default();
        let same = rest.iter().take_while(|other| *other == first).count();
        if !first.is_empty() {
            let ranks = match same {
                1 => format!("rank {from}"),
                _ => format!("ranks {from} to {}", from + same - 1),
            };
            let carried = measured.ranks.get(from).and_then(|rank| rank.carried);
            let carried = carried.and_then(in_words).unwrap_or_default();
            writeln!(out, "  {ranks}: {first}{carried}")?;
        }
        from += same.max(1);
    }
    Ok(())
}

/// How the adapter accessed the GPU's memory.
fn way_in_words(memory: &GpuMemory) -> Option<String> {
    let name = memory.way?.word();
    Some(match &memory.no_dma_buf {
        Some(why) => format!("GPU memory by {name} (not by DMA-BUF: {why})"),
        None => format!("GPU memory by {name}"),
    })
}

/// A port's traffic, after its name.
fn in_words(carried: Carried) -> Option<String> {
    match carried {
        Carried {
            sent_bytes: Some(sent),
            received_bytes: Some(received),
            ..
        } => {
            let (sent, received) = (Bytes(sent), Bytes(received));
            Some(format!("; the port sent {sent} and received {received}"))
        }
        Carried {
            sent_packets: Some(sent),
            received_packets: Some(received),
            ..
        } => Some(format!(
            "; the port sent {sent} and received {received} packets"
        )),
        _ => None,
    }
}

/// The heads of the columns, and their units.
const HEADS: [&str; 2] = [
    "        size        count      type  redop         time    algbw    busbw    busbw  spread  #wrong",
    "         (B)   (elements)                          (us)   (GB/s)   (GB/s)   (Gb/s)     (%)        ",
];

/// Writes the rows.
///
/// # Errors
///
/// The output's.
pub fn table(out: &mut dyn Write, rows: &[MeasuredPoint]) -> io::Result<()> {
    let several = rows.iter().any(|row| row.collective != rows[0].collective);
    let both = rows.iter().any(|row| row.memory != rows[0].memory);
    let name = if several { 15 } else { 0 } + if both { 5 } else { 0 };
    for heads in HEADS {
        writeln!(out, "{:name$}{heads}", "")?;
    }
    for row in rows {
        let rate = |rate: Option<u64>, unit: f64| {
            rate.map_or("-".into(), |rate| format!("{:.2}", rate as f64 / unit))
        };
        let time = row.time.map_or("-".into(), |time| digits(time * 1e6));
        let spread = row.spread.map_or("-".into(), |s| format!("{s:.1}"));
        let (size, count, wrong) = (row.size, row.count, row.wrong);
        let (dtype, op, label) = (row.dtype, row.op, label(row, several, both));
        let (algbw, busbw) = (rate(row.algbw, 8e9), rate(row.busbw, 8e9));
        let bits = rate(row.busbw, 1e9);
        let line = format!(
            "{label:name$}{size:>12} {count:>12} {dtype:>9} {op:>6} {time:>12} {algbw:>8} {busbw:>8} {bits:>8} {spread:>7} {wrong:>7}"
        );
        let line = match (row.wrong, row.steady) {
            (0, Some(false)) => line.yellow(),
            (0, _) => line.normal(),
            _ => line.red(),
        };
        writeln!(out, "{line}")?;
    }
    let mut marks = Vec::new();
    if let Some(row) = rows.iter().find(|row| row.checked > 0) {
        let trials = plural(row.trials, "trial");
        let warmups = rows.iter().map(|row| row.warmups).max().unwrap_or(0);
        marks.push(format!(
            "median of {trials} after {}, mean over the ranks",
            plural(warmups, "warm-up")
        ));
    }
    if rows.iter().any(|row| row.in_place) {
        marks.push("in place".into());
    }
    if rows.iter().any(|row| row.steady == Some(false)) {
        marks.push(format!(
            "{}: the trials differ too much to count",
            "yellow".yellow()
        ));
    }
    if !marks.is_empty() {
        writeln!(out, "{}", marks.join(" · ").dimmed())?;
    }
    Ok(())
}

/// The label of a row that distinguishes it from the others.
fn label(row: &MeasuredPoint, several: bool, both: bool) -> String {
    match (several, both) {
        (true, true) => format!("{} {}", row.collective, row.memory),
        (true, false) => row.collective.to_owned(),
        (false, true) => row.memory.to_owned(),
        (false, false) => String::new(),
    }
}

fn troubles(out: &mut dyn Write, measured: &Collectives) -> io::Result<()> {
    if !measured.troubles.is_empty() {
        writeln!(out)?;
    }
    for trouble in &measured.troubles {
        writeln!(
            out,
            "rank {}: {} at \"{}\": {}",
            trouble.rank,
            trouble.ended.to_uppercase().red(),
            trouble.step,
            trouble.why
        )?;
    }
    for row in measured.rows.iter().filter(|row| row.wrong > 0) {
        let Some((rank, place)) = row.first_wrong else {
            continue;
        };
        writeln!(
            out,
            "{} of {}: the first wrong value is element {place} on rank {rank}",
            row.collective,
            Bytes(row.size),
        )?;
    }
    if !measured.removed.is_empty() {
        let files = measured.removed.join(", ");
        writeln!(out, "removed what killed ranks left: {files}")?;
    }
    Ok(())
}
