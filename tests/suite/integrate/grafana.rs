//! The dashboard of `integrate grafana` shows what `check --format prometheus` writes: each metric,
//! with the labels and values that it has.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use super::{have, integrate, text};
use crate::place::{Scratch, doctor};

fn dashboard() -> Value {
    serde_json::from_slice(&integrate(&["grafana"]).stdout).unwrap()
}

fn panels(dashboard: &Value) -> &[Value] {
    dashboard["panels"].as_array().unwrap()
}

fn targets(dashboard: &Value) -> impl Iterator<Item = &Value> {
    let panels = panels(dashboard).iter();
    panels.flat_map(|panel| panel["targets"].as_array().unwrap())
}

fn expression(target: &Value) -> &str {
    target["expr"].as_str().unwrap()
}

/// What the doctor writes of a node with an error, a waiver aside.
fn metrics() -> String {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/rxe-no-address.jsonl");
    let out = Command::new(doctor())
        .args(["check", "--format", "prometheus", fixture])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    text(&out.stdout)
}

/// The words of an expression: names of metrics, of labels and of functions.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

fn panel<'d>(dashboard: &'d Value, metric: &str, kind: &str) -> &'d Value {
    let mut found = panels(dashboard).iter().filter(|panel| {
        let mut targets = panel["targets"].as_array().unwrap().iter();
        panel["type"] == kind && targets.any(|target| expression(target).contains(metric))
    });
    found.next().unwrap()
}

/// The values that a panel shows as words, each with its word.
fn mapped(panel: &Value) -> Vec<(String, String)> {
    let options = &panel["fieldConfig"]["defaults"]["mappings"][0]["options"];
    let rows = options.as_object().unwrap().iter();
    rows.map(|(value, shown)| (value.clone(), shown["text"].as_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn each_metric_is_shown_and_what_is_shown_is_written() {
    let dashboard = dashboard();
    let metrics = metrics();
    let written: BTreeSet<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let shown: BTreeSet<&str> = targets(&dashboard)
        .flat_map(|target| words(expression(target)))
        .filter(|word| word.starts_with("rdma_doctor_"))
        .collect();
    assert_eq!(shown, written);
    let mut matched = 0;
    for target in targets(&dashboard) {
        let expression = expression(target);
        let selectors = expression.split(['{', ',', '}']);
        for (label, value) in selectors.filter_map(|part| part.split_once("=\"")) {
            let sample = format!("{}=\"{value}", label.trim());
            assert!(metrics.contains(&sample), "{sample} of {expression}");
            matched += 1;
        }
        for (label, values) in expression
            .split([',', '}'])
            .filter_map(|s| s.split_once("!~\""))
        {
            for value in values.trim_end_matches('"').split('|') {
                let sample = format!("{}=\"{value}\"", label.trim());
                assert!(metrics.contains(&sample), "{sample} of {expression}");
                matched += 1;
            }
        }
        let legend = target["legendFormat"].as_str().unwrap_or_default();
        let legend = legend.strip_prefix("{{").and_then(|l| l.strip_suffix("}}"));
        if let Some(label) = legend.filter(|label| *label != "instance") {
            assert!(metrics.contains(&format!("{label}=\"")), "{label}");
            matched += 1;
        }
    }
    assert_eq!(matched, 6);
}

#[test]
fn statuses_and_states_have_the_reports_words() {
    let dashboard = dashboard();
    let metrics = metrics();
    let help = metrics.lines().next().unwrap();
    let statuses = mapped(panel(&dashboard, "rdma_doctor_status", "state-timeline"));
    assert_eq!(statuses.len(), 4);
    for (status, word) in statuses {
        assert!(help.contains(&format!(" {status} {word}")), "{help}");
    }
    let areas = panel(&dashboard, "rdma_doctor_area", "table");
    let matrix = &areas["transformations"][0]["options"];
    let fields = ["rowField", "columnField", "valueField"].map(|key| matrix[key].as_str().unwrap());
    assert_eq!(fields, ["instance", "area", "state"]);
    let states = mapped(areas);
    let shown: BTreeSet<&str> = states.iter().map(|(state, _)| state.as_str()).collect();
    let of_areas = metrics
        .lines()
        .filter(|line| line.starts_with("rdma_doctor_area{"));
    let written: BTreeSet<&str> = of_areas
        .filter_map(|line| line.split("state=\"").nth(1))
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(shown, written);
}

#[test]
fn panels_have_places_and_sources_of_their_own() {
    let dashboard = dashboard();
    let all = panels(&dashboard);
    let ids: BTreeSet<u64> = all.iter().map(|p| p["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), all.len());
    let mut taken = BTreeSet::new();
    for panel in all {
        let place = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        let [x, y, width, height] = place;
        assert!(x + width <= 24, "{panel}");
        for cell in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "two panels at {cell:?}: {panel}");
        }
        for key in ["title", "description"] {
            assert!(panel[key].as_str().is_some_and(|text| !text.is_empty()));
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}");
        let targets = panel["targets"].as_array().unwrap();
        let letters: BTreeSet<&str> = targets
            .iter()
            .map(|t| t["refId"].as_str().unwrap())
            .collect();
        assert_eq!(letters.len(), targets.len(), "{panel}");
    }
    // All rows are full.
    let rows = taken.iter().map(|(_, y)| y + 1).max().unwrap();
    assert_eq!(taken.len() as u64, rows * 24);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables
        .iter()
        .map(|v| v["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["datasource", "node"]);
    for target in targets(&dashboard) {
        assert_eq!(target["datasource"]["uid"], "${datasource}");
        let expression = expression(target);
        assert!(expression.contains("instance=~\"$node\""), "{expression}");
        assert_eq!(expression.matches('$').count(), 1, "{expression}");
    }
    let nodes = variables[1]["query"]["query"].as_str().unwrap();
    assert_eq!(nodes, "label_values(rdma_doctor_status, instance)");
}

/// Prometheus' own parser reads the expressions.
#[test]
fn prometheus_takes_the_expressions() {
    if !have("promtool", &["promtool", "--version"]) {
        return;
    }
    let dashboard = dashboard();
    let rules: Vec<Value> = targets(&dashboard)
        .enumerate()
        .map(|(number, target)| {
            let filled = expression(target).replace("$node", "n1|n2");
            json!({"record": format!("panel:{number}"), "expr": filled})
        })
        .collect();
    assert!(rules.len() > 10);
    let dir = Scratch::new("grafana");
    let file = dir.join("rules.yaml");
    // JSON is YAML.
    let groups = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    std::fs::write(&file, groups.to_string()).unwrap();
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    assert!(text(&checked.stdout).contains(&format!("{} rules found", rules.len())));
}
