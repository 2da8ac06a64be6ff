//! What ibdiagnet found: the table of its stages with their warnings and errors, and the lines in
//! which it says what they are.

use super::self_tests::add;
use super::{Output, OutputLine};
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Facts, Id};

/// Stages that are said.
const NAMED: usize = 4;

/// A stage that found something.
struct Stage<'o> {
    name: &'o str,
    warnings: u64,
    errors: u64,
}

/// States the stages with errors, else those with warnings, each with the first line that tells.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let mut stages: Vec<Stage<'_>> = Vec::new();
    let mut is_table = false;
    let mut first_error: Option<OutputLine<'_>> = None;
    let mut first_warning: Option<OutputLine<'_>> = None;
    for line in output.lines() {
        let text = line.text.trim();
        if text.contains("Stage") && text.contains("Warnings") && text.contains("Errors") {
            is_table = true;
        } else if let Some(stage) = stage(text).filter(|_| is_table) {
            stages.push(stage);
        }
        if text.starts_with("-E-") {
            first_error.get_or_insert(line);
        } else if text.starts_with("-W-") {
            first_warning.get_or_insert(line);
        }
    }
    let has_errors = first_error.is_some() || stages.iter().any(|stage| stage.errors > 0);
    let said = if has_errors {
        first_error
    } else {
        first_warning
    };
    let Some(line) = said.or_else(|| output.lines().next()) else {
        return;
    };
    let (kind, sign) = if has_errors {
        (ToolResultKind::FabricFails, "-E- ")
    } else {
        (ToolResultKind::FabricWarns, "-W- ")
    };
    let mut parts: Vec<String> = Vec::new();
    for stage in &stages {
        let count = if has_errors {
            stage.errors
        } else {
            stage.warnings
        };
        if count > 0 && parts.len() < NAMED {
            parts.push(format!("{} ({count})", stage.name));
        }
    }
    if parts.is_empty() && said.is_none() {
        return;
    }
    let about = if parts.is_empty() {
        "its checks".to_owned()
    } else {
        parts.join(", ")
    };
    let words = line.text.trim().trim_start_matches(sign);
    add(facts, node, kind, &about, (&line, words));
}

/// `-I- Links Check               0          2          See …`.
fn stage(text: &str) -> Option<Stage<'_>> {
    let row = text.strip_prefix("-I- ")?.trim();
    let (name, numbers) = row.split_once("  ")?;
    let mut numbers = numbers.split_whitespace();
    Some(Stage {
        name: name.trim(),
        warnings: numbers.next()?.parse().ok()?,
        errors: numbers.next()?.parse().ok()?,
    })
}
