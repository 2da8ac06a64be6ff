//! Checks of several cases: what a case takes over, and by what it is named.

use super::{RATE_DEGRADED, load_cases, named};
use crate::check::{
    Catalogue, Check, Severity, SiteFile, Waivers, areas, judge_waived, try_example,
};
use crate::diagnosis::{FactRelations, diagnose, failures_of};
use crate::fact::{Facts, Id, Subject, counter};

/// A counter that rises: in the eyes of one case fast, of the other at all.
const RISES: &str = r#"
title    = "A counter rises"
severity = "warning"
impact   = "slows"
area     = "ports"
subject  = "counter"
applies  = 'counter.sampled'
finding  = "{counter} rises: {counter.rate}"
see      = ["https://docs.kernel.org/infiniband/sysfs.html"]
why      = """It counts packets that had to be sent once more, and each costs time."""
fix      = "1. (operator) Look at the cable."
limits   = { rate = "1 /s" }

[[case]]
id       = "link/x"
fails    = 'counter.rate > limit.rate'
[[case.example]]
fails = { counter.sampled = true, counter.rate = "2 /s" }
[[case]]
id       = "link/x-slowly"
severity = "note"
applies  = ''
fails    = 'counter.rate > limit.rate'
finding  = "{counter} rises slowly"
limits   = { rate = "1 /h" }
[[case.example]]
passes = { counter.rate = "0 /s" }
"#;

fn cases() -> Vec<Check> {
    load_cases(RISES).unwrap()
}

fn catalogue() -> Catalogue {
    Catalogue {
        checks: cases(),
        ..Catalogue::default()
    }
}

/// A counter of this rate each second.
fn counting(rate: f64) -> (Facts, Id) {
    let mut facts = Facts::new();
    let node = facts.new_node("n");
    let device = facts.instance(Subject::Device, node, "mlx5_0");
    let port = facts.instance(Subject::Port, device, "mlx5_0/1");
    let id = facts.instance(Subject::Counter, port, "mlx5_0/1 symbol_error");
    facts.derive(id, counter::SAMPLED, true, "stated");
    facts.derive(id, counter::RATE, crate::fact::PerSecond(rate), "stated");
    (facts, id)
}

#[test]
fn a_case_takes_over_what_it_does_not_state() {
    let cases = cases();
    let [fast, slow] = cases.as_slice() else {
        panic!("{cases:?}");
    };
    assert_eq!((&*fast.id, &*slow.id), ("link/x", "link/x"));
    assert_eq!((&*fast.case, &*slow.case), ("link/x", "link/x-slowly"));
    assert_eq!(
        (fast.severity, slow.severity),
        (Severity::Warning, Severity::Note)
    );
    assert_eq!(slow.title, "A counter rises");
    assert!(fast.applies.is_some() && slow.applies.is_none());
    assert_eq!(slow.finding().source(), "{counter} rises slowly");
    assert_ne!(fast.limits, slow.limits);
}

#[test]
fn each_case_has_the_examples_in_it() {
    for check in cases() {
        let examples = check.examples().unwrap();
        assert_eq!(examples.len(), 1, "{}", check.case);
        try_example(&check, &examples[0]).unwrap();
    }
}

#[test]
fn what_a_case_cannot_say_is_refused() {
    for (from, to, expected) in [
        (
            "id       = \"link/x-slowly\"",
            "",
            "the key `id` is missing",
        ),
        (
            "id       = \"link/x-slowly\"",
            "idd = 1",
            "unknown key `idd`",
        ),
        (
            "limits   = { rate = \"1 /h\" }",
            "[[case.case]]",
            "unknown key `case`",
        ),
        (
            "fails    = 'counter.rate > limit.rate'\nfinding",
            "finding",
            "the key `fails` is missing",
        ),
        (
            "limits   = { rate = \"1 /s\" }",
            "[[example]]\nfails = { counter.rate = \"2 /s\" }",
            "write the example of a case in it: [[case.example]]",
        ),
    ] {
        assert!(RISES.contains(from), "{from}");
        let refused = load_cases(&RISES.replacen(from, to, 1))
            .unwrap_err()
            .to_string();
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
}

/// Of one subject the gravest case leads, and the other is said as well.
#[test]
fn cases_of_one_check_are_one_cause() {
    let catalogue = catalogue();
    let (mut facts, _) = counting(2.0);
    let verdicts = judge_waived(&catalogue, &mut facts, &[], |_| true);
    let (mut failures, subjects) = failures_of(&facts, &verdicts);
    assert_eq!(failures.len(), 2);
    let mut relations = FactRelations::new(&facts, &failures, &subjects);
    let causes = diagnose(&catalogue, &mut failures, &mut relations);
    assert_eq!((causes.len(), causes[0].failures.len()), (1, 2));
    assert_eq!(causes[0].severity(&catalogue, &failures), Severity::Warning);
    assert_eq!(catalogue.count(), 1);
}

/// The limits of the cases where the site sets these.
fn limits(text: &str) -> Vec<String> {
    let mut catalogue = catalogue();
    catalogue.areas = areas::embedded().unwrap();
    let file = SiteFile {
        inside: "limits.toml".into(),
        name: "/site/limits.toml".into(),
        text: text.into(),
    };
    catalogue.add_site([file]).unwrap();
    let limits = catalogue.checks.iter().flat_map(|check| &check.limits);
    limits.map(|(_, value)| value.to_string()).collect()
}

/// How many cases a pattern chooses.
fn chosen(pattern: &str) -> usize {
    let mut catalogue = catalogue();
    catalogue.select(&[pattern.to_owned()], &[]).unwrap();
    catalogue.checks.len()
}

/// Which cases a check explains that names these.
fn explained(pattern: &str) -> Vec<bool> {
    let mut other = named("link/other");
    other.explains = vec![pattern.into()];
    cases().iter().map(|check| other.explains(check)).collect()
}

/// How many cases a waiver of this id waives.
fn waived(id: &str) -> usize {
    let mut catalogue = catalogue();
    let entry = format!(
        "[[waiver]]\ncheck = \"{id}\"\nreason = \"r\"\nowner = \"o\"\nuntil = 2999-01-01\n"
    );
    catalogue.waivers = Waivers::read("w".into(), Ok(&entry), &catalogue);
    let (mut facts, counter) = counting(2.0);
    let node = facts.ancestor(counter, Subject::Node).unwrap();
    let recorded = [(node, "2026-01-01T00:00:00Z")];
    let verdicts = judge_waived(&catalogue, &mut facts, &recorded, |_| true);
    verdicts
        .iter()
        .filter(|v| v.outcome.word() == "waived")
        .count()
}

#[test]
fn a_case_is_named_alone_or_with_its_check() {
    assert_eq!(
        limits("[\"link/x-slowly\"]\nrate = \"3 /s\"\n"),
        ["1 /s", "3 /s"]
    );
    assert_eq!(limits("[\"link/x\"]\nrate = \"3 /s\"\n"), ["3 /s", "1 /h"]);
    assert_eq!(["link/x", "link/x-slowly", "link/*"].map(chosen), [2, 1, 2]);
    assert_eq!(explained("link/x"), [true, true]);
    assert_eq!(explained("link/x-slowly"), [false, true]);
    assert_eq!(["link/x", "link/x-slowly"].map(waived), [2, 1]);
}

#[test]
fn two_of_one_id_are_refused() {
    let mut catalogue = catalogue();
    catalogue.areas = areas::embedded().unwrap();
    let file = SiteFile {
        inside: "link/x-slowly.toml".into(),
        name: "/site/link/x-slowly.toml".into(),
        text: RATE_DEGRADED.into(),
    };
    let refused = catalogue.add_site([file]).unwrap_err().to_string();
    assert!(
        refused.contains("`link/x-slowly` is already defined"),
        "{refused}"
    );
}
