//! The chart of `integrate helm` gives the manifests of `integrate k8s`: by a renderer of the few
//! expressions that its templates have, and by Helm where it is installed.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{have, integrate, text, understood, written, yaml};
use crate::packaging::files;

const OPTIONS: [&str; 6] = [
    "--nodes",
    "16",
    "--image",
    "registry.example.org:5000/hpc/rdma-doctor:1",
    "--metrics",
    "/srv/metrics",
];
const FILES: [&str; 7] = [
    "Chart.yaml",
    "values.yaml",
    "templates/NOTES.txt",
    "templates/daemonset.yaml",
    "templates/job-key.yaml",
    "templates/job.yaml",
    "templates/npd.yaml",
];

fn read(chart: &Path, file: &str) -> String {
    std::fs::read_to_string(chart.join("rdma-doctor").join(file)).unwrap()
}

fn only(documents: Vec<Value>) -> Value {
    let [document] = <[Value; 1]>::try_from(documents).unwrap();
    document
}

fn values(chart: &Path) -> Value {
    only(yaml(&chart.join("rdma-doctor/values.yaml")))
}

/// The expressions of a template, without braces.
fn expressions(template: &str) -> Vec<&str> {
    let parts = template.split("{{").skip(1);
    parts
        .map(|part| part.split_once("}}").unwrap().0.trim_matches([' ', '-']))
        .collect()
}

/// What Helm makes of an expression. JSON is YAML, so a table stands in one line.
fn evaluate(expression: &str, values: &Value) -> String {
    match expression.split(' ').collect::<Vec<&str>>().as_slice() {
        [".Release.Name"] => "rdma".into(),
        [".Release.Namespace"] => "hpc".into(),
        ["randAlphaNum", "64", "|", "b64enc"] => "a2V5".into(),
        [name] | [name, "|", "int"] => match value(name, values) {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
        ["toYaml", name, "|", "nindent", columns] => {
            let columns: usize = columns.parse().unwrap();
            format!("\n{:columns$}{}", "", value(name, values))
        }
        _ => panic!("{expression}"),
    }
}

fn value<'v>(name: &str, values: &'v Value) -> &'v Value {
    let found = values.get(name.strip_prefix(".Values.").unwrap());
    found.unwrap_or_else(|| panic!("values.yaml has no {name}"))
}

fn render(template: &str, values: &Value) -> String {
    let mut parts = template.split("{{");
    let mut rendered = parts.next().unwrap().to_owned();
    for part in parts {
        let (expression, rest) = part.split_once("}}").unwrap();
        if expression.starts_with('-') {
            rendered.truncate(rendered.trim_end().len());
        }
        rendered.push_str(&evaluate(expression.trim_matches([' ', '-']), values));
        rendered.push_str(rest);
    }
    rendered
}

/// The documents of rendered YAML.
fn documents(rendered: &str, within: &Path) -> Vec<Value> {
    let file = within.join("rendered.yaml");
    std::fs::write(&file, rendered).unwrap();
    yaml(&file)
}

/// Says that rendered templates are the manifests, but for what a chart adds.
fn compare(render: impl Fn(&str) -> Vec<Value>) {
    let manifests = written("k8s", &OPTIONS);
    let set = yaml(&manifests.join("rdma-doctor-daemonset.yaml"));
    assert_eq!(render("templates/daemonset.yaml"), set);

    let mut run = render("templates/job.yaml");
    let key = only(render("templates/job-key.yaml"));
    let hook = json!({"helm.sh/hook": "test"});
    for document in &mut run {
        let metadata = document["metadata"].as_object_mut().unwrap();
        assert_eq!(metadata.remove("annotations").unwrap(), hook);
    }
    assert_eq!(run, yaml(&manifests.join("rdma-doctor-job.yaml")));
    assert_eq!(key["metadata"]["annotations"], hook);
    let pod = &run[1]["spec"]["template"]["spec"];
    let named = &pod["containers"][0]["env"][0]["valueFrom"]["secretKeyRef"];
    assert_eq!(named["name"], key["metadata"]["name"]);
    assert!(key["data"][named["key"].as_str().unwrap()].is_string());

    // The plugin starts the doctor that the DaemonSet copies to the node.
    let config = only(render("templates/npd.yaml"));
    let plugin = config["data"]["rdma-doctor.json"].as_str().unwrap();
    let plugin: Value = serde_json::from_str(plugin).unwrap();
    let volume = &set[0]["spec"]["template"]["spec"]["volumes"][0];
    let folder = volume["hostPath"]["path"].as_str().unwrap();
    let doctor = format!("{folder}/rdma-doctor");
    let printed = integrate(&["npd", "--doctor", &doctor]).stdout;
    assert_eq!(plugin, serde_json::from_slice::<Value>(&printed).unwrap());
}

#[test]
fn each_value_is_an_option_or_a_choice_of_the_site() {
    if !have("Python's YAML", &["python3", "-c", "import yaml"]) {
        return;
    }
    let chart = written("helm", &OPTIONS);
    let found: BTreeSet<String> = files(&chart.join("rdma-doctor"));
    assert_eq!(found, FILES.map(str::to_owned).into());
    let about = only(yaml(&chart.join("rdma-doctor/Chart.yaml")));
    assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(about["appVersion"], env!("CARGO_PKG_VERSION"));
    let values = values(&chart);
    let expected = json!({
        "image": OPTIONS[3],
        "nodes": 16,
        "metrics": OPTIONS[5],
        "nodeSelector": {"feature.node.kubernetes.io/rdma.available": "true"},
        "limits": {"memory": "1Gi"},
    });
    assert_eq!(values, expected);
    let templates: Vec<String> = FILES[2..].iter().map(|file| read(&chart, file)).collect();
    let used: BTreeSet<&str> = templates
        .iter()
        .flat_map(|template| expressions(template))
        .flat_map(|expression| expression.split(' '))
        .filter_map(|word| word.strip_prefix(".Values."))
        .collect();
    let keys = values.as_object().unwrap().keys().map(String::as_str);
    assert_eq!(used, keys.collect());
}

#[test]
fn the_chart_gives_the_manifests() {
    if !have("Python's YAML", &["python3", "-c", "import yaml"]) {
        return;
    }
    let chart = written("helm", &OPTIONS);
    let values = values(&chart);
    compare(|file| documents(&render(&read(&chart, file), &values), &chart));
    // Commands of the notes are ones that this program takes.
    let notes = render(&read(&chart, "templates/NOTES.txt"), &values);
    let lines = notes.lines().map(str::trim);
    let commands: Vec<&str> = lines.filter(|l| l.starts_with("rdma-doctor ")).collect();
    assert_eq!(commands.len(), 2, "{notes}");
    for command in commands {
        understood(command.split(' '));
    }
}

/// No package of Debian's has Helm: without it, what is above counts.
#[test]
fn helm_gives_the_manifests() {
    let version = Command::new("helm").arg("version").output();
    if !version.is_ok_and(|out| out.status.success()) {
        let _ = writeln!(std::io::stdout().lock(), "skipped: no helm");
        return;
    }
    let chart = written("helm", &OPTIONS);
    let folder = chart.join("rdma-doctor").display().to_string();
    let linted = helm(&["lint", "--strict", &folder]);
    assert!(linted.contains("0 chart(s) failed"), "{linted}");
    compare(|file| {
        let shown = helm(&["template", "rdma", &folder, "--show-only", file]);
        documents(&shown, &chart)
    });
}

fn helm(args: &[&str]) -> String {
    let out = Command::new("helm").args(args).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout)
}
