//! Every built-in check is valid, well written, and shown failing, passing and unknown.

use std::collections::HashSet;

use rdma_doctor::check::{Catalogue, Expected, try_example};

#[test]
fn every_check_is_shown_failing_passing_and_unknown() {
    let catalogue = Catalogue::embedded_with_examples().unwrap();
    for check in &catalogue.checks {
        let examples = check.examples().unwrap();
        let mut shown = HashSet::new();
        for example in &examples {
            try_example(check, example).unwrap();
            shown.insert(example.verdict);
        }
        for wanted in [Expected::Fails, Expected::Passes, Expected::Unknown] {
            assert!(
                shown.contains(&wanted),
                "{}: no example {}",
                check.id,
                wanted.word()
            );
        }
    }
}

#[test]
fn ids_are_sorted_and_unique() {
    let catalogue = Catalogue::embedded().unwrap();
    let whole = Catalogue::embedded_with_examples().unwrap();
    let ids = |catalogue: &Catalogue| {
        catalogue
            .checks
            .iter()
            .map(|c| c.id.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&catalogue), ids(&whole));
    assert!(
        catalogue
            .checks
            .windows(2)
            .all(|pair| pair[0].id < pair[1].id)
    );
    for check in &catalogue.checks {
        assert_eq!(check.path, format!("checks/{}.toml", check.id));
        assert!(catalogue.get(&check.id).is_some());
    }
}
