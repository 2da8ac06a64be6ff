//! The nodes of a cluster as a grid of nodes and areas in which outliers stand out.

use super::{Markup, filter};
use crate::diagnosis::areas::AreaState;
use crate::report::{Finding, NodeHead, Report, plural};

/// The columns behind the areas.
const COLUMNS: [&str; 5] = ["RDMA devices", "Active ports", "GPUs", "Kernel", "System"];
/// So many nodes, and findings of each, are listed below the grid.
const NODES: usize = 100;
const FINDINGS: usize = 12;

/// What the columns say of a node.
fn row(node: &NodeHead) -> [String; 5] {
    let number = |n: Option<u64>| n.map_or("unknown".to_owned(), |n| n.to_string());
    let text = |text: &Option<String>| text.clone().unwrap_or("unknown".to_owned());
    [
        number(node.devices),
        number(node.active_ports),
        number(node.gpus),
        text(&node.kernel),
        text(&node.os),
    ]
}

/// The findings that name the node.
fn of_node<'r>(report: &'r Report, node: &'r NodeHead) -> impl Iterator<Item = &'r Finding> {
    let named = report.causes.iter();
    named.filter(|cause| cause.nodes.contains(&node.name))
}

/// What a cell of the grid says: the errors and warnings of the area on the node, else how far the area was examined.
fn cell(report: &Report, node: &NodeHead, at: usize) -> (&'static str, String) {
    let area = &report.areas[at].area;
    let count = |severity: &str| {
        let found = of_node(report, node).filter(|one| one.area == *area);
        found.filter(|one| one.severity == severity).count()
    };
    let (errors, warnings) = (count("error"), count("warning"));
    if errors > 0 {
        return ("failed", plural(errors as u64, "error"));
    }
    if warnings > 0 {
        return ("odd", plural(warnings as u64, "warning"));
    }
    match node.area_states.get(at) {
        Some(AreaState::Examined) => ("good", "ok".into()),
        Some(AreaState::Partly) => ("open", "in part".into()),
        Some(AreaState::NotExamined) => ("open", "not examined".into()),
        Some(AreaState::NothingThere) | None => ("none", "–".into()),
    }
}

/// Writes a row for each node, with a cell for each area; a value that most nodes do not have is marked.
pub(super) fn grid(page: &mut Markup, report: &Report) {
    let rows: Vec<[String; 5]> = report.nodes.iter().map(row).collect();
    if rows.len() < 2 {
        return;
    }
    let is_there = |at: &usize| {
        let mut nodes = report.nodes.iter();
        nodes.any(|node| cell(report, node, *at).0 != "none")
    };
    // On a phone the first columns are seen: those with findings.
    let is_calm = |at: &usize| {
        let mut cells = report.nodes.iter().map(|node| cell(report, node, *at).0);
        !cells.any(|class| matches!(class, "failed" | "odd"))
    };
    let areas = (0..report.areas.len()).filter(is_there);
    let (calm, found): (Vec<usize>, Vec<usize>) = areas.partition(is_calm);
    let areas = [found, calm].concat();
    page.put(
        "<section>\n<h2>Nodes <span>{}</span></h2>\n",
        &[&rows.len()],
    );
    filter(page, "nodes", "n07");
    page.put(
        "<div class=\"wide\"><table id=\"nodes\">\n<thead><tr><th>Node",
        &[],
    );
    for at in &areas {
        page.put("<th>{}", &[&report.areas[*at].area]);
    }
    // What is the same on all nodes stands once below the grid.
    let differs = |at: &usize| rows.iter().any(|row| row[*at] != rows[0][*at]);
    let (columns, same): (Vec<usize>, Vec<usize>) = (0..COLUMNS.len()).partition(differs);
    for at in &columns {
        page.put("<th>{}", &[&COLUMNS[*at]]);
    }
    page.put("</thead>\n<tbody>\n", &[]);
    for (number, (node, row)) in report.nodes.iter().zip(&rows).enumerate() {
        if number < NODES && of_node(report, node).next().is_some() {
            page.put(
                "<tr><th><a href=\"#node-{}\">{}</a>",
                &[&number, &node.name],
            );
        } else {
            page.put("<tr><th>{}", &[&node.name]);
        }
        for at in &areas {
            let (class, word) = cell(report, node, *at);
            page.put("<td class=\"{}\">{}", &[&class, &word]);
        }
        for at in &columns {
            let value = &row[*at];
            let alike = rows.iter().filter(|other| other[*at] == *value).count();
            let class = if alike * 2 < rows.len() { "odd" } else { "" };
            page.put("<td class=\"{}\">{}", &[&class, value]);
        }
        page.put("\n", &[]);
    }
    page.put("</tbody></table></div>\n", &[]);
    let same = same
        .iter()
        .map(|at| format!("{}: {}", COLUMNS[*at], rows[0][*at]));
    let same: Vec<String> = same.collect();
    if !same.is_empty() {
        page.put(
            "<p class=\"aside\">On all nodes: {}</p>\n",
            &[&same.join(" · ")],
        );
    }
    page.put("</section>\n", &[]);
}

/// Writes the findings of each node that has some: the grid leads to them.
pub(super) fn findings_by_node(page: &mut Markup, report: &Report) {
    if report.nodes.len() < 2 {
        return;
    }
    let nodes = report.nodes.iter().take(NODES).enumerate();
    let mut found = nodes
        .map(|(number, node)| (number, node, of_node(report, node).collect::<Vec<_>>()))
        .filter(|(.., findings)| !findings.is_empty())
        .peekable();
    if found.peek().is_none() {
        return;
    }
    page.put("<section>\n<h2>Findings by node</h2>\n", &[]);
    for (number, node, findings) in found {
        page.put(
            "<div class=\"node\" id=\"node-{}\"><h3>{}</h3>\n<ul>\n",
            &[&number, &node.name],
        );
        for one in findings.iter().take(FINDINGS) {
            page.put(
                "<li class=\"{}\"><span class=\"badge\">{}</span> {} <code>{}</code></li>\n",
                &[&one.severity, &one.severity, &one.sentence, &one.check],
            );
        }
        if findings.len() > FINDINGS {
            page.put("<li>and {} more</li>\n", &[&(findings.len() - FINDINGS)]);
        }
        page.put("</ul></div>\n", &[]);
    }
    page.put("</section>\n", &[]);
}
