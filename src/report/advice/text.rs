//! The advice as text: a line for each number, then what it rests on.

use std::io::{self, Write};

use crate::terminal::Paint;

use super::{Advice, Bandwidth, NetworkClass, Slowdown, StepDivision};
use crate::derive::bandwidth_model;
use crate::fact::{BitRate, Bytes, Seconds};
use crate::report::collective::text::digits;
use crate::report::{plural, text};

/// Columns of the labels.
const INDENT: usize = 15;

/// Writes the advice for people, in lines of at most `width` columns.
pub fn write(out: &mut dyn Write, advice: &Advice, width: usize) -> io::Result<()> {
    let mut line = |label: &str, text: &str| {
        text::paragraph(out, &format!("{label:<INDENT$}"), INDENT, text, width)
    };
    let trained = &advice.training;
    let tensor = match trained.tensor_parallel {
        0 | 1 => String::new(),
        n => format!(", {n} of which share each layer"),
    };
    let tensor = match trained.pipeline_parallel {
        0 | 1 => tensor,
        n => format!("{tensor}, in {n} stages"),
    };
    line(
        "training",
        &format!(
            "{} parameters in {} ({}), {} on {} of {}{tensor}",
            amount(trained.parameters),
            trained.dtype,
            plural(trained.bytes as u64, "byte"),
            name(trained.parallel),
            plural(trained.nodes, "node"),
            plural(trained.gpus_per_node, "GPU"),
        ),
    )?;
    line("bandwidth", &bandwidth(&advice.bandwidth))?;
    if let (Some(latency), Some(knee)) = (advice.bandwidth.latency, advice.bandwidth.knee) {
        let knee = Bytes(knee as u64);
        line(
            "latency",
            &format!(
                "{} for a small all-reduce; below {knee} latency dominates",
                Seconds(latency)
            ),
        )?;
    }
    let sent = &advice.communication;
    line(
        "sent",
        &format!(
            "{} GB by each GPU in a step: {}",
            digits(sent.sent_by_each / 1e9),
            sent.collectives
        ),
    )?;
    if let Some(stages) = &sent.pipeline {
        line(
            "pipeline",
            &format!(
                "{} GB by each GPU to other stages, {} micro-batches of {} MB, in {}; a stage waits for the others in {} % of a step, whatever the network",
                digits(stages.sent_by_each / 1e9),
                stages.micro_batches,
                digits(stages.activations / 1e6),
                seconds(stages.seconds),
                stages.bubble
            ),
        )?;
    }
    let over = sent
        .algorithm
        .map_or(String::new(), |algorithm| format!(", over a {algorithm}"));
    line(
        "communication",
        &format!("{} in a step{over}", seconds(sent.seconds)),
    )?;
    line("to hide", &hide(advice))?;
    if let Some(step) = &advice.step {
        line("step", &divided(step, sent.seconds))?;
    }
    if let Some(slowdown) = &advice.slowdown {
        line("slowdown", &explained(slowdown))?;
    }
    if let Some(class) = &advice.class {
        line("class", &classed(class))?;
    }
    for grown in &advice.growth {
        let latency = grown.latency.map_or(String::new(), |latency| {
            format!("latency {}, ", Seconds(latency))
        });
        line(
            &format!("over a {}", grown.algorithm),
            &format!(
                "{} ranks: {latency}busbw {}, communication {} in a step",
                grown.ranks,
                both(grown.busbw),
                seconds(grown.communication)
            ),
        )?;
    }
    for (at, assumption) in advice.assumptions.iter().enumerate() {
        let label = if at == 0 { "assumes" } else { "" };
        line(label, assumption)?;
    }
    Ok(())
}

fn bandwidth(bandwidth: &Bandwidth) -> String {
    let rate = both(bandwidth.busbw);
    let nodes = plural(bandwidth.nodes, "node");
    match bandwidth.measured {
        true => format!("{rate} busbw on {nodes}: {}", bandwidth.source),
        false => {
            format!(
                "{rate} busbw on {nodes} at most: {}",
                "not measured".magenta(),
            ) + &format!(", {}", bandwidth.source)
        }
    }
}

fn hide(advice: &Advice) -> String {
    let took = seconds(advice.communication.seconds);
    match &advice.hide {
        Some(hide) if hide.share <= 100.0 => format!(
            "all of it, if it overlaps with {} % of the {} of computation",
            hide.share,
            seconds(hide.compute)
        ),
        Some(hide) => format!(
            "not all of it: the {} of computation are shorter; {} stay exposed",
            seconds(hide.compute),
            seconds(advice.communication.seconds - hide.compute)
        ),
        None => format!("all of it, only if a step computes for {took} or longer"),
    }
}

fn divided(step: &StepDivision, communication: f64) -> String {
    let whole = seconds(step.seconds);
    if step.contradicts {
        return format!(
            "{whole} measured, less than the communication alone takes: the bandwidth is higher than stated, or less is sent"
        );
    }
    let share = format!(
        "{whole} measured; the communication is {} % of it",
        step.communication_share
    );
    match step.hidden {
        Some(hidden) => format!(
            "{share}: {} exposed, {} hidden",
            seconds(step.exposed),
            seconds(hidden)
        ),
        None => format!(
            "{share}, between none and {} of it exposed (--compute-time decides)",
            seconds(communication)
        ),
    }
}

fn explained(slowdown: &Slowdown) -> String {
    let excess = seconds(slowdown.excess);
    let single = seconds(slowdown.single_node);
    let share = format!(
        "{excess} more than the {single} on one node; exposed communication is {} % of that",
        slowdown.share
    );
    match slowdown.explained_by {
        "network" => format!("{share}: the network explains it"),
        "network-possible" => format!(
            "{share} at most: the network explains it if computation hides little of it (--compute-time decides)"
        ),
        "elsewhere" => format!(
            "{share} at most, less than {} %: the cause is elsewhere: data loading, stragglers or memory",
            slowdown.explains_from
        ),
        _ => format!("none: a step takes no longer than the {single} on one node"),
    }
}

fn classed(class: &NetworkClass) -> String {
    format!(
        "{}: {} for each node ({}). ZeRO-3 on 64 GPUs and more: 100 Gb/s are not enough, 200 to 400 acceptable, 800 to 1000 ideal, by \
         experience with V100; A100 and H100 need more",
        class.class,
        BitRate(class.network / 1_000_000_000 * 1_000_000_000),
        class.from
    )
}

fn both(bits: u64) -> String {
    let rate = bandwidth_model::gigabytes(BitRate(bits));
    format!("{} GB/s ({} Gb/s)", digits(rate), digits(rate * 8.0))
}

/// Three digits, or all before the point.
fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => Seconds(s).to_string(),
        s if s < 1.0 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} s", digits(s)),
    }
}

/// A number of parameters, as people say it.
fn amount(parameters: f64) -> String {
    let (factor, letter) = match parameters {
        p if p >= 1e12 => (1e12, "T"),
        p if p >= 1e9 => (1e9, "B"),
        p if p >= 1e6 => (1e6, "M"),
        _ => (1.0, ""),
    };
    let number = format!("{:.2}", parameters / factor);
    let number = number.trim_end_matches('0').trim_end_matches('.');
    format!("{number}{letter}")
}

fn name(parallel: &str) -> &str {
    match parallel {
        "ddp" => "DDP",
        "zero1" => "ZeRO-1",
        "zero2" => "ZeRO-2",
        "zero3" => "ZeRO-3",
        other => other,
    }
}
