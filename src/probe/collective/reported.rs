//! A table of what somebody measured: its figures are theirs, and nothing of the runs was seen.

use serde_json::Value;

use crate::fact::arms::{Arms, Figures, Unit};
use crate::fact::measurement::{self as fact, MeasurementBackend, NodeSpan};
use crate::fact::{Fact, Facts, Id, Origin, Subject};
use crate::measure::plan::ablation_table::{BadEnd, Table, ended_badly};

/// States the measurement that a table is.
///
/// # Errors
///
/// What of it is not understood.
pub(super) fn state(
    facts: &mut Facts,
    node: Id,
    value: &Value,
    origin: &Origin,
) -> Result<(), String> {
    let table = value.get("table").ok_or("no table in it")?;
    let table: Table = serde_json::from_value(table.clone()).map_err(|e| e.to_string())?;
    let figures = table.figures()?;
    let id = facts.instance(Subject::Measurement, node, &table.file);
    let known = |text: &str| Fact::Known(text.into(), origin.clone());
    facts.know(id, fact::MEANS, MeasurementBackend::Table, origin);
    facts.know(id, fact::USER_REPORTED, true, origin);
    facts.set(id, fact::OPERATION, known(&table.file));
    facts.know(id, fact::COMPARED, true, origin);
    let span = match table.nodes {
        Some(0 | 1) => NodeSpan::One,
        Some(_) => NodeSpan::Several,
        None => NodeSpan::NotLogged,
    };
    facts.know(id, fact::SPAN, span, origin);
    for (key, number) in [(fact::NODES, table.nodes), (fact::RANKS, table.ranks)] {
        if let Some(number) = number {
            facts.know(id, key, number, origin);
        }
    }
    let unit = match &table.unit {
        Some(unit) => Unit::Number(unit.clone()),
        None => Unit::Time,
    };
    let written = |at: usize| {
        let row = table.row_of(&figures.get(at)?.set)?;
        let text = match (&row.figure, &table.unit) {
            (Some(figure), Some(unit)) if figure.ends_with(unit.as_str()) => figure.clone(),
            (Some(figure), Some(unit)) => format!("{figure} {unit}"),
            _ => row.time.clone().or_else(|| row.failed.clone())?,
        };
        let both = match (&row.time, &row.figure) {
            (Some(time), Some(figure)) => Some(format!("{time} at {figure}")),
            _ => None,
        };
        Some((text, both))
    };
    let written: Vec<_> = (0..figures.len()).map(written).collect();
    let failure = |arm: &Figures| {
        let failed = table.rows.iter().filter(|row| row.set == arm.set);
        let mut failed = failed.filter_map(|row| ended_badly(row.failed.as_deref()?));
        match failed.next()? {
            BadEnd::Hung => Some("hung"),
            BadEnd::Failed => Some("failed"),
        }
    };
    let reported_failures = figures.iter().map(failure).collect();
    let notes = table
        .notes
        .iter()
        .map(|note| note.as_str().into())
        .collect();
    facts.know(id, fact::READ_AS, notes, origin);
    let arms = Arms {
        figures,
        unit,
        written,
        reported_failures,
        runs: None,
        origin: origin.clone(),
        in_host: None,
    };
    facts.set_arms(id, arms);
    Ok(())
}
