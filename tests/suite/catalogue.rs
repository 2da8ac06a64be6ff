//! The ids of built-in checks.

use rdma_doctor::check::Catalogue;

#[test]
fn ids_are_sorted_and_unique() {
    let catalogue = Catalogue::embedded().unwrap();
    let whole = Catalogue::embedded_with_examples().unwrap();
    let ids = |catalogue: &Catalogue| {
        catalogue
            .checks
            .iter()
            .map(|c| (c.id.clone(), c.case.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&catalogue), ids(&whole));
    assert!(
        catalogue
            .checks
            .windows(2)
            .all(|pair| pair[0].id <= pair[1].id)
    );
    let mut cases: Vec<_> = catalogue.checks.iter().map(|check| &check.case).collect();
    cases.sort();
    assert!(cases.windows(2).all(|pair| pair[0] < pair[1]));
    for check in &catalogue.checks {
        assert_eq!(check.path, format!("checks/{}.toml", check.id));
        assert_eq!(catalogue.get(&check.id).unwrap().id, check.id);
        assert_eq!(catalogue.get(&check.case).unwrap().id, check.id);
    }
}
