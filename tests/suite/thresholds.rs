//! Thresholds stand in checks, where a site can set them: no constant of the rooms that measure, read and derive judges, and what a site sets counts.

use std::process::Command;

use serde_json::Value;
use syn::visit::Visit;

use crate::imports::{files, is_for_tests, is_within};
use crate::place::{Scratch, doctor};

/// The rooms whose numbers checks judge.
const ROOMS: [&str; 3] = ["measure::plan", "derive", "probe"];

/// Types whose constants may judge.
const QUANTITIES: [&str; 6] = ["f64", "Percent", "BitRate", "Bytes", "Seconds", "PerSecond"];

/// The constants of these types that there may be, and why none of them judges.
const ALLOWED: [(&str, &str, &str); 8] = [
    (
        "measure::plan::ablation_rounds",
        "CLOSE",
        "how long rounds go on; checks judge what the figures are worth",
    ),
    ("derive::bandwidth_model", "GIGA", "a unit"),
    (
        "derive::step_time",
        "EXPLAINS",
        "`advise` shows it beside its answer, which no check judges",
    ),
    (
        "derive::log::benchmark_ceiling",
        "MODELS",
        "NVIDIA's data sheets",
    ),
    ("probe::nccl_log::benchmark", "GIGABYTE", "a unit"),
    (
        "probe::outputs::devices",
        "WITHOUT_LINK",
        "what mlx5 shows of a port without a link",
    ),
    (
        "probe::outputs::fabric::link_line",
        "ROUNDED",
        "which speed a rounded number means",
    ),
    (
        "probe::tuning::cgroup",
        "PERIOD",
        "the kernel's own default",
    ),
];

/// The words of a type.
#[derive(Default)]
struct Words(Vec<String>);

impl<'ast> Visit<'ast> for Words {
    fn visit_ident(&mut self, ident: &'ast syn::Ident) {
        self.0.push(ident.to_string());
    }
}

/// Finds constants of a file.
#[derive(Default)]
struct Constants(Vec<String>);

impl<'ast> Visit<'ast> for Constants {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        let mut kind = Words::default();
        kind.visit_type(&item.ty);
        if kind.0.iter().any(|word| QUANTITIES.contains(&&**word)) {
            self.0.push(item.ident.to_string());
        }
    }
}

#[test]
fn no_constant_judges() {
    let mut found = Vec::new();
    for (module, path) in files() {
        if !ROOMS.iter().any(|room| is_within(&module, room)) {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let mut constants = Constants::default();
        constants.visit_file(&syn::parse_file(&text).unwrap());
        let module = module.join("::");
        found.extend(constants.0.into_iter().map(|name| (module.clone(), name)));
    }
    let is_allowed = |(module, name): &&(String, String)| {
        ALLOWED
            .iter()
            .any(|(own, of, _)| own == module && of == name)
    };
    let judging: Vec<_> = found.iter().filter(|one| !is_allowed(one)).collect();
    assert!(
        judging.is_empty(),
        "write these as limits of checks (src/fact/limit.rs): {judging:?}"
    );
    for (module, name, why) in ALLOWED {
        let is_there = found.iter().any(|(own, of)| own == module && of == name);
        assert!(is_there, "{module} has no {name} any more: {why}");
    }
}

/// Which of these checks fail on a fixture, by the limits of a site.
fn failing(fixture: &str, only: &str, limits: &str) -> Vec<String> {
    let site = Scratch::new("site-limits");
    std::fs::write(site.join("limits.toml"), limits).unwrap();
    let output = Command::new(doctor())
        .args(["check", &format!("fixtures/{fixture}.jsonl")])
        .args(["--only", only, "--format", "json", "--checks"])
        .arg(&*site)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = ["causes", "notes"].map(|kind| value[kind].as_array().unwrap());
    let findings = findings.into_iter().flatten();
    findings
        .map(|finding| finding["check"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_threshold_that_a_site_sets_changes_the_verdict() {
    for (fixture, check, limit, is_new) in [
        (
            "modelled-pairs-bad",
            "pairs/slow",
            "[\"pairs/slow\"]\nshare = \"1 %\"\nleast = \"99 %\"",
            false,
        ),
        (
            "modelled-pairs-bad",
            "pairs/late",
            "[\"pairs/late\"]\ntcp = \"1 s\"",
            false,
        ),
        (
            "modelled-pairs-bad",
            "pairs/loses-packets",
            "[\"pairs/loses-packets\"]\ntcp = \"90 %\"",
            false,
        ),
        (
            "modelled-pairs-gpus",
            "pairs/gpu-memory-slow",
            "[\"pairs/gpu-memory-slow\"]\nshare = \"1 %\"",
            false,
        ),
        // A limit of one check serves others.
        (
            "modelled-ablation-tuned",
            "ablation/change-faster",
            "[\"ablation/not-bound-by-network\"]\nchange = \"95 %\"",
            false,
        ),
        (
            "modelled-ablation-detours",
            "ablation/p2p-off-faster",
            "[\"ablation/unsteady\"]\nspread = \"50 %\"",
            true,
        ),
        (
            "modelled-ablation-table",
            "ablation/table-contradicts-itself",
            "[\"ablation/table-contradicts-itself\"]\napart = \"90 %\"",
            false,
        ),
        (
            "modelled-gpu-copies-faults",
            "p2p/copy-slow",
            "[\"p2p/measurement-unsteady\"]\nspread = \"0 %\"",
            false,
        ),
        (
            "modelled-bench-slow-node",
            "bench/node-slows-job",
            "[\"bench/node-slows-job\"]\nshare = \"1 %\"",
            false,
        ),
    ] {
        let is_found = |limits: &str| !failing(fixture, check, limits).is_empty();
        assert_eq!(is_found(""), !is_new, "{fixture}: {check}");
        assert_eq!(is_found(limit), is_new, "{fixture}: {check} by {limit}");
    }
}
