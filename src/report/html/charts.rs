//! Measurements as charts: bars of arms, bandwidth over size, matrices as heat maps. Each has its numbers as text too.

use std::io;

use super::Markup;
use crate::fact::Bytes;
use crate::measure::plan::alpha_beta;
use crate::report::ablation::{Ablation, Arm, Measurement, text};
use crate::report::collective::text::{digits, gigabytes};
use crate::report::collective::{Collectives, MeasuredPoint};
use crate::report::p2p::{Copies, Gpu};
use crate::report::pairs::Pairs;
use crate::report::shortened::shortened;

/// Where bars begin, how long the longest is, and the height of a row.
const LEFT: f64 = 250.0;
const LONG: f64 = 420.0;
const ROW: f64 = 28.0;

/// Draws the bars of each measurement with several arms, and its tables.
///
/// # Errors
///
/// None: memory takes every byte.
pub fn ablation(page: &mut Markup, ablation: &Ablation) -> io::Result<()> {
    let compared = |m: &&Measurement| m.arms.len() > 1;
    if ablation.measurements.iter().any(|m| compared(&m)) {
        page.put("<section>\n<h2>Ablation</h2>\n", &[]);
        ablation
            .measurements
            .iter()
            .filter(compared)
            .for_each(|m| bars(page, m));
        page.text(|out| text::write(out, ablation, 120))?;
        page.put("</section>\n", &[]);
    }
    Ok(())
}

/// A value for a bar, and its interval: the bus bandwidth in GB/s, else the throughput in percent of the baseline's.
fn value(arm: &Arm, by_bandwidth: bool) -> Option<(f64, [f64; 2])> {
    if by_bandwidth {
        let value = gigabytes(arm.busbw?);
        let interval = arm.interval.map(|ends| ends.map(gigabytes));
        return Some((value, interval.unwrap_or([value, value])));
    }
    if arm.variables.as_deref() == Some("none") {
        return arm.figure.as_ref().map(|_| (100.0, [100.0, 100.0]));
    }
    let value = 100.0 + arm.effect?;
    let interval = arm.effect_interval.map(|ends| ends.map(|end| 100.0 + end));
    Some((value, interval.unwrap_or([value, value])))
}

/// Bars below each other, with their intervals, and a line at the ceiling.
fn bars(page: &mut Markup, measurement: &Measurement) {
    let by_bandwidth = measurement.arms.iter().any(|arm| arm.busbw.is_some());
    let (unit, ceiling) = match by_bandwidth {
        true => ("GB/s", measurement.ceiling.map(gigabytes)),
        false => ("%", None),
    };
    let ends = measurement
        .arms
        .iter()
        .filter_map(|arm| value(arm, by_bandwidth));
    let ends = ends.map(|(value, [_, high])| value.max(high));
    let most = ends.chain(ceiling).fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let x = |value: f64| round(LEFT + LONG * value.max(0.0) / most);
    let height = ROW * measurement.arms.len() as f64 + 34.0;
    page.put(
        "<div class=\"wide\"><svg class=\"chart\" viewBox=\"0 0 880 {}\" role=\"img\">\n<title>{}, {}</title>\n",
        &[&height, &measurement.name, &unit],
    );
    if let Some(ceiling) = ceiling {
        page.put(
            "<path class=\"ceiling\" d=\"M{} 18V{}\"/><text class=\"ceiling\" x=\"{}\" y=\"13\" text-anchor=\"end\">ceiling {} GB/s</text>\n",
            &[&x(ceiling), &(height - 8.0), &x(ceiling), &digits(ceiling)],
        );
    }
    for (at, arm) in measurement.arms.iter().enumerate() {
        let middle = 38.0 + ROW * at as f64;
        let base = middle + 4.0;
        let is_baseline = arm.variables.as_deref() == Some("none");
        let class = match (&arm.trouble, arm.outcome) {
            (Some(_), _) => "trouble",
            _ if is_baseline => "baseline",
            (_, outcome) => outcome.unwrap_or("undecided"),
        };
        let effect = arm.effect.filter(|_| !is_baseline);
        let effect = effect.map_or(String::new(), |e| format!("{e:+.1} %"));
        let label = shortened(arm.trouble.as_ref().unwrap_or(&effect), 36, "…");
        page.put(
            "<g class=\"{}\"><text class=\"name\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}<title>{}</title></text>",
            &[&class, &(LEFT - 10.0), &base, &shortened(&arm.name, 38, "…"), &arm.name],
        );
        match value(arm, by_bandwidth) {
            Some((value, [low, high])) => page.put(
                "<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"16\" rx=\"2\"/><path class=\"whisker\" \
                 d=\"M{} {}v8m0 -4H{}m0 -4v8\"/><text x=\"{}\" y=\"{}\"><tspan class=\"figure\">{} {}</tspan> {}</text>",
                &[
                    &LEFT, &(middle - 8.0), &(x(value) - LEFT), &x(low), &(middle - 4.0), &x(high),
                    &(x(value.max(high)) + 8.0), &base, &digits(value), &unit, &label,
                ],
            ),
            None => page.put("<text x=\"{}\" y=\"{}\">{}</text>", &[&LEFT, &base, &label]),
        }
        page.put("</g>\n", &[]);
    }
    page.put("</svg></div>\n", &[]);
}

/// Draws the bus bandwidth of collectives over size, and the size from which moving bytes takes longer than starting: the knee, as it is known or
/// as a line through all-reduces has it.
pub fn bandwidth(page: &mut Markup, measured: &Collectives, knee: Option<f64>) {
    let mut rows: Vec<&MeasuredPoint> = measured
        .rows
        .iter()
        .filter(|row| row.busbw.is_some())
        .collect();
    rows.sort_by_key(|row| (row.collective, row.memory, row.size));
    let times = rows
        .iter()
        .filter_map(|row| Some((row.size as f64, row.time?)));
    let times: Vec<(f64, f64)> = times.collect();
    let lines = rows.chunk_by(|a, b| (a.collective, a.memory) == (b.collective, b.memory));
    let line = lines.clone().count() == 1
        && times.len() > 2
        && measured.rows[0].collective == "all_reduce";
    let fit = alpha_beta::fit(&times, measured.ranks.len() as u64).filter(|_| line);
    let knee = knee.or_else(|| fit?.line.knee());
    let least = times
        .iter()
        .map(|(size, _)| *size)
        .fold(f64::MAX, f64::min)
        .max(1.0);
    let largest = times.iter().map(|(size, _)| *size).fold(0.0, f64::max);
    let most = rows
        .iter()
        .filter_map(|row| row.busbw)
        .max()
        .map_or(0.0, gigabytes);
    if least >= largest || most <= 0.0 {
        return;
    }
    let x = |size: f64| round(60.0 + 690.0 * (size / least).log2() / (largest / least).log2());
    let y = |rate: f64| round(230.0 - 200.0 * rate / most);
    page.put(
        "<section>\n<h2>Bandwidth over size</h2>\n<div class=\"wide\"><svg class=\"chart\" viewBox=\"0 0 880 270\" \
         role=\"img\"><title>Bus bandwidth in GB/s over size</title>\n<text x=\"8\" y=\"16\">GB/s</text>\n",
        &[],
    );
    for rate in [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| part * most) {
        page.put(
            "<path class=\"grid\" d=\"M60 {}H750\"/><text x=\"52\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
            &[&y(rate), &(y(rate) + 4.0), &digits(rate)],
        );
    }
    for (number, line) in lines.enumerate() {
        page.put("<g class=\"line{}\">", &[&(number % 3)]);
        let mut points = String::new();
        let mut labelled = f64::MIN;
        for row in line {
            let rate = row.busbw.map_or(0.0, gigabytes);
            let (x, y) = (x(row.size as f64), y(rate));
            points.push_str(&format!("{x},{y} "));
            page.put(
                "<circle cx=\"{}\" cy=\"{}\" r=\"3.5\"><title>{} of {} in the {}'s memory: {} GB/s</title></circle>",
                &[&x, &y, &row.collective, &Bytes(row.size), &row.memory, &digits(rate)],
            );
            if number == 0 && x - labelled >= 64.0 {
                page.put(
                    "<text x=\"{}\" y=\"250\" text-anchor=\"middle\">{}</text>",
                    &[&x, &Bytes(row.size)],
                );
                labelled = x;
            }
        }
        page.put("<polyline points=\"{}\"/></g>\n", &[&points]);
    }
    if let Some(knee) = knee.filter(|knee| (least..=largest).contains(knee)) {
        page.put(
            "<path class=\"ceiling\" d=\"M{} 26V230\"/><text class=\"ceiling\" x=\"{}\" y=\"18\" text-anchor=\"middle\">knee at {}</text>\n",
            &[&x(knee), &x(knee), &Bytes(knee as u64)],
        );
    }
    page.put("</svg></div>\n</section>\n", &[]);
}

/// Draws what copies between GPUs carry.
pub fn copies(page: &mut Markup, copies: &Copies) {
    let gpus = &copies.gpus;
    let name = |gpu: &Gpu| {
        gpu.index
            .map_or(gpu.pci.clone(), |index| format!("GPU {index}"))
    };
    let names: Vec<String> = gpus.iter().map(name).collect();
    for (title, both) in [
        ("Copies from GPU to GPU, GB/s, from row to column", false),
        ("Both directions at once, GB/s together", true),
    ] {
        heat_map(page, title, &names, |from, to| {
            let copy = copies.get(&gpus[from].pci, &gpus[to].pci, both)?;
            let rate = copy.bandwidth.filter(|_| copy.outcome == "verified");
            Some(rate.map(gigabytes).ok_or(copy.outcome.to_owned()))
        });
    }
}

/// Draws what pairs of nodes carry, rail by rail.
pub fn pairs(page: &mut Markup, pairs: &Pairs) {
    let names: Vec<String> = pairs.nodes.iter().map(|node| node.host.clone()).collect();
    for (ways, place) in [(&pairs.ways, ""), (&pairs.on_gpus, ", from GPU to GPU")] {
        for rail in 0..pairs.rails {
            let title = format!("Rail {rail}, GB/s, from row to column{place}");
            heat_map(page, &title, &names, |from, to| {
                let mut ways = ways.iter();
                let way = ways.find(|way| (way.from, way.to, way.rail) == (from, to, rail))?;
                let why = || way.failed.clone().unwrap_or("not measured".to_owned());
                let rate = way.rate.filter(|_| way.failed.is_none());
                Some(rate.map(|rate| rate / 8e9).ok_or_else(why))
            });
        }
    }
}

/// More columns than these show colours only; the number is in the cell's title.
const NUMBERS: usize = 24;

/// A matrix whose cells are the darker the further they are below the largest. A cell has a rate, or why it has none.
fn heat_map(
    page: &mut Markup,
    title: &str,
    names: &[String],
    cell: impl Fn(usize, usize) -> Option<Result<f64, String>>,
) {
    let all = 0..names.len();
    let cells: Vec<Vec<_>> = all
        .clone()
        .map(|from| all.clone().map(|to| cell(from, to)).collect())
        .collect();
    let known = || cells.iter().flatten().flatten();
    let most = known().flatten().copied().fold(0.0, f64::max);
    if known().next().is_none() {
        return;
    }
    let size = if names.len() > NUMBERS { "large" } else { "" };
    page.put(
        "<section>\n<h2>{}</h2>\n<div class=\"wide\"><table class=\"heat {}\">\n<thead><tr><td>",
        &[&title, &size],
    );
    names
        .iter()
        .for_each(|name| page.put("<th><span>{}</span>", &[name]));
    page.put("</thead>\n<tbody>\n", &[]);
    for (from, row) in cells.iter().enumerate() {
        page.put("<tr><th>{}", &[&names[from]]);
        for (to, cell) in row.iter().enumerate() {
            let ends = format!("{} to {}", names[from], names[to]);
            match cell {
                None => page.put("<td class=\"none\">", &[]),
                Some(Err(why)) => {
                    page.put("<td class=\"failed\" title=\"{}: {}\">×", &[&ends, why])
                }
                Some(Ok(rate)) => {
                    let shown = if size.is_empty() {
                        digits(*rate)
                    } else {
                        String::new()
                    };
                    page.put(
                        "<td class=\"h{}\" title=\"{}: {} GB/s\">{}",
                        &[&step(rate / most), &ends, &digits(*rate), &shown],
                    );
                }
            }
        }
        page.put("\n", &[]);
    }
    page.put(
        "</tbody></table></div>\n<p class=\"key\">of the largest: <span class=\"h0\">95 % or more</span><span class=\"h1\">90</span>\
         <span class=\"h2\">80</span><span class=\"h3\">65</span><span class=\"h4\">50</span><span class=\"h5\">less</span>\
         <span class=\"failed\">× failed</span></p>\n</section>\n",
        &[],
    );
}

/// The step of the scale for a part of the largest.
fn step(part: f64) -> usize {
    let steps = [0.95, 0.9, 0.8, 0.65, 0.5];
    steps.iter().filter(|least| part < **least).count()
}

/// A coordinate with one decimal.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
