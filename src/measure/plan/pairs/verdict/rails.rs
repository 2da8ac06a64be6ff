//! What is said of adapters of different rails: that they do not reach each other is how rail-only
//! fabrics are made, and worth knowing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Suspect, SuspectProblem};
use crate::measure::plan::pairs::schedule::End;
use crate::measure::plan::pairs::{PairDirection, Results};
use crate::sentence::sentence;

/// The rails that do not reach each other, where each works by itself; `works` says whether an
/// adapter does.
pub(super) fn apart(results: &Results, works: impl Fn(End) -> bool) -> Option<Suspect> {
    let plan = &results.plan;
    let mut rails: BTreeMap<(usize, usize), Vec<(PairDirection, bool)>> = BTreeMap::new();
    let ends: BTreeSet<End> = results.across.keys().map(|way| way.from).collect();
    let working: BTreeSet<End> = ends.into_iter().filter(|end| works(*end)).collect();
    for (way, flow) in &results.across {
        if working.contains(&way.from) && working.contains(&way.to) {
            let (a, b) = (way.from.1, way.to.1);
            let all = rails.entry((a.min(b), a.max(b))).or_default();
            all.push((*way, flow.failed.is_some()));
        }
    }
    let failed =
        |all: &Vec<(PairDirection, bool)>| all.iter().filter(|(_, failed)| *failed).count();
    let ways: Vec<PairDirection> = rails
        .values()
        .flatten()
        .filter_map(|(way, failed)| failed.then_some(*way))
        .collect();
    let first = ways.iter().find_map(|way| {
        let why = results.across.get(way)?.failed.as_deref()?;
        (!why.starts_with("not tried")).then_some((*way, why))
    });
    let (way, why) = first?;
    let is_whole = |all: &Vec<(PairDirection, bool)>| failed(all) == all.len();
    let (name, what) = if rails.values().all(is_whole) {
        let name = "all rails".to_owned();
        let what = sentence!(
            "no rail reaches another",
            ", and each works by itself, as where each has a network of its own",
            " ({why})"
        );
        (name, what)
    } else if rails.values().all(|all| is_whole(all) || failed(all) == 0) {
        let some = rails.iter().filter(|(_, all)| failed(all) > 0);
        let some: Vec<String> = some.map(|((a, b), _)| format!("{a} and {b}")).collect();
        let name = format!("rails {}", some.join(", "));
        let what = sentence!(
            "{name} do not reach each other",
            ", and each works by itself",
            " ({why})"
        );
        (name, what)
    } else {
        let name = format!("{} to {}", plan.name(way.from), plan.name(way.to));
        let all: usize = rails.values().map(Vec::len).sum();
        let count = ways.len();
        let what = sentence!(
            "{count} of {all} ways between adapters of different rails carry nothing",
            ", and each rail works by itself",
            ": {name} ({why})"
        );
        (name, what)
    };
    Some(Suspect::of(
        SuspectProblem::RailsApart,
        None,
        name,
        what,
        ways,
    ))
}
