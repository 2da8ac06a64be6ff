//! The nodes of a cluster as a table in which outliers stand out.

use super::{Markup, filter};
use crate::report::{NodeHead, Report};

const COLUMNS: [&str; 7] = [
    "Errors",
    "Warnings",
    "RDMA devices",
    "Active ports",
    "GPUs",
    "Kernel",
    "System",
];

/// What the columns say of a node; findings count if they name it.
fn row(report: &Report, node: &NodeHead) -> [String; 7] {
    let count = |severity: &str| {
        let found = report.causes.iter().filter(|c| c.severity == severity);
        found
            .filter(|c| c.nodes.contains(&node.name))
            .count()
            .to_string()
    };
    let number = |n: Option<u64>| n.map_or("unknown".to_owned(), |n| n.to_string());
    let text = |text: &Option<String>| text.clone().unwrap_or("unknown".to_owned());
    [
        count("error"),
        count("warning"),
        number(node.devices),
        number(node.active_ports),
        number(node.gpus),
        text(&node.kernel),
        text(&node.os),
    ]
}

/// Writes a row for each node; a value that most nodes do not have is marked.
pub(super) fn table(page: &mut Markup, report: &Report) {
    let rows: Vec<[String; 7]> = report.nodes.iter().map(|node| row(report, node)).collect();
    if rows.len() < 2 {
        return;
    }
    page.put(
        "<section>\n<h2>Nodes <span>{}</span></h2>\n",
        &[&rows.len()],
    );
    filter(page, "nodes", "words, as: n07");
    page.put(
        "<div class=\"wide\"><table id=\"nodes\">\n<thead><tr><th>Node",
        &[],
    );
    COLUMNS.iter().for_each(|name| page.put("<th>{}", &[name]));
    page.put("</thead>\n<tbody>\n", &[]);
    for (node, row) in report.nodes.iter().zip(&rows) {
        page.put("<tr><th>{}", &[&node.name]);
        for (at, value) in row.iter().enumerate() {
            let alike = rows.iter().filter(|other| other[at] == *value).count();
            let class = match (at, value.as_str()) {
                (0 | 1, "0") => "none",
                (0, _) => "failed",
                _ if alike * 2 < rows.len() => "odd",
                _ => "",
            };
            page.put("<td class=\"{}\">{}", &[&class, value]);
        }
        page.put("\n", &[]);
    }
    page.put("</tbody></table></div>\n</section>\n", &[]);
}
