//! Arms and changes as tables.

use std::io::{self, Write};

use crate::terminal::{Paint, Painted};

use super::{Ablation, Arm, Factor, Measurement};
use crate::report::plural;
use crate::report::shortened::shortened;

/// Writes the tables for people, in lines of at most `width` columns.
pub fn write(out: &mut dyn Write, ablation: &Ablation, width: usize) -> io::Result<()> {
    let measured = ablation.measurements.iter();
    let (compared, alone): (Vec<&Measurement>, Vec<&Measurement>) = measured
        .filter(|measurement| !measurement.arms.is_empty())
        .partition(|measurement| measurement.arms.len() > 1);
    for measurement in compared {
        head(out, measurement)?;
        arms(out, measurement, width)?;
        factors(out, measurement, width)?;
    }
    for measurement in alone {
        head(out, measurement)?;
        if let Some(arm) = measurement.arms.first() {
            match &arm.trouble {
                Some(trouble) => writeln!(out, "  {}: {trouble}", reached(arm))?,
                None => writeln!(out, "  {}", reached(arm))?,
            }
        }
    }
    Ok(())
}

fn head(out: &mut dyn Write, measurement: &Measurement) -> io::Result<()> {
    let mut parts = vec![measurement.name.clone()];
    parts.extend(measurement.nodes.map(|n| plural(n, "node")));
    parts.extend(measurement.ranks.map(|n| plural(n, "rank")));
    let version = measurement.library_version.as_ref();
    parts.extend(version.map(|version| format!("NCCL {version}")));
    match measurement.user_reported {
        true => parts.push("as somebody wrote it down".into()),
        false => parts.extend(measurement.rounds.map(|n| plural(n, "round"))),
    }
    if let (Some(spread), false) = (measurement.spread, measurement.user_reported) {
        parts.push(format!("baseline within {spread:.1} %"));
    }
    writeln!(out)?;
    writeln!(out, "{}", parts.join(" · ").bold())?;
    for note in &measurement.read_as {
        writeln!(out, "  {note}")?;
    }
    Ok(())
}

fn reached(arm: &Arm) -> String {
    arm.figure.clone().unwrap_or_else(|| "-".into())
}

fn colour(text: String, outcome: Option<&str>) -> Painted {
    match outcome {
        Some("slower") => text.yellow(),
        Some("faster") => text.cyan(),
        Some("undecided") => text.magenta(),
        _ => text.normal(),
    }
}

fn arms(out: &mut dyn Write, measurement: &Measurement, width: usize) -> io::Result<()> {
    let name = measurement.arms.iter().map(|arm| arm.name.chars().count());
    let name = name.max().unwrap_or(0).max(7);
    let figures: Vec<String> = measurement.arms.iter().map(reached).collect();
    let figure = figures.iter().map(|figure| figure.chars().count());
    let figure = figure.max().unwrap_or(0).clamp(6, 40);
    let paths = measurement.arms.iter().any(|arm| arm.paths.is_some());
    let used = if paths { "  used" } else { "" };
    let (one, what) = ("setting", "figure");
    let titles = format!("{one:<name$}  {what:>figure$}  {:>9}{used}", "effect");
    writeln!(out, "  {}", titles.dimmed())?;
    for (arm, reached) in measurement.arms.iter().zip(&figures) {
        let effect = match (arm.variables.as_deref(), arm.effect) {
            (Some("none"), _) | (_, None) => String::new(),
            (_, Some(effect)) => format!("{effect:+.1} %"),
        };
        let effect = colour(format!("{effect:>9}"), arm.outcome);
        write!(out, "  {:<name$}  {reached:>figure$}  {effect}", arm.name)?;
        let mut rest: Vec<String> = arm.trouble.iter().cloned().collect();
        rest.extend(arm.paths.clone());
        let spoilt = matches!(arm.honoured, Some("ignored" | "not-read"));
        rest.extend(arm.honoured_why.clone().filter(|_| spoilt));
        let rest = rest.join("; ");
        let room = width.saturating_sub(name + figure + 17).max(20);
        match rest.is_empty() {
            true => writeln!(out)?,
            false => writeln!(out, "  {}", shortened(&rest, room, "…"))?,
        }
    }
    Ok(())
}

fn factors(out: &mut dyn Write, measurement: &Measurement, width: usize) -> io::Result<()> {
    if measurement.factors.is_empty() {
        return Ok(());
    }
    let name = measurement.factors.iter().map(|f| f.change.chars().count());
    let name = name.max().unwrap_or(0).max(6);
    writeln!(out)?;
    let titles = format!("{:<name$}  what it does", "change");
    writeln!(out, "  {}", titles.dimmed())?;
    for factor in &measurement.factors {
        let outcome = outcome(factor);
        let honoured = match factor.honoured {
            Some("honoured" | "not-seen") | None => String::new(),
            Some("nothing-to-take-away") => " (there was nothing to change)".into(),
            Some("not-logged") => " (what was used is not logged)".into(),
            Some(other) => format!(" (the variable is {other})"),
        };
        let room = width.saturating_sub(name + 4).max(40);
        let line = shortened(&format!("{}{honoured}", factor.says), room, "…");
        writeln!(out, "  {:<name$}  {}", factor.change, colour(line, outcome))?;
    }
    Ok(())
}

fn outcome(factor: &Factor) -> Option<&'static str> {
    match (factor.slower, factor.faster, factor.undecided) {
        (1.., 0, _) => Some("slower"),
        (0, 1.., _) => Some("faster"),
        (0, 0, 1..) => Some("undecided"),
        _ => None,
    }
}
