//! Which areas were examined, in the words of the headline.

use super::headline::HEADLINE;
use super::{AreaLine, plural};
use crate::diagnosis::areas::AreaState;
use crate::sentence::Sentence;

/// The areas by name of which this holds.
fn names(areas: &[AreaLine], holds: impl Fn(&AreaLine) -> bool) -> Vec<String> {
    let found = areas.iter().filter(|area| holds(area));
    found.map(|area| area.area.clone()).collect()
}

/// The areas that keep the verdict undecided, if they do because the recording does not hold them, and for no other reason.
pub(super) fn unrecorded(areas: &[AreaLine]) -> Option<Vec<String>> {
    let mut wanting = areas.iter().filter(|area| area.wanting).peekable();
    wanting.peek()?;
    wanting
        .all(|area| area.unrecorded)
        .then(|| names(areas, |area| area.wanting))
}

/// What keeps the verdict undecided, in a sentence; `None` if no area does.
pub(super) fn undecided(areas: &[AreaLine]) -> Option<Sentence> {
    // What was given shows a part of a node, and nothing is wrong with that part.
    let examined = names(areas, |area| area.rank == AreaState::Examined);
    if let Some(missing) = unrecorded(areas).filter(|_| !examined.is_empty()) {
        let (examined, missing) = (examined.join(", "), missing.join(", "));
        let examined = Sentence::from(format!("no fault found in {examined}"));
        return Some(examined.then_optionally(format!("; not recorded: {missing}")));
    }
    let wanting = |rank: AreaState| names(areas, |area| area.wanting && area.rank == rank);
    let mut said = Vec::new();
    for (rank, how) in [
        (AreaState::NotExamined, "not examined"),
        (AreaState::Partly, "partly examined"),
        (AreaState::NothingThere, "nothing there"),
    ] {
        let names = wanting(rank);
        if !names.is_empty() {
            said.push(Sentence::from(format!("{how}: {}", names.join(", "))));
        }
    }
    // The first of those that are the furthest from being examined.
    let wanting = areas.iter().filter(|area| area.wanting);
    let why = wanting.min_by_key(|area| area.rank != AreaState::NotExamined)?;
    let said = Sentence::joined(said, "; ");
    Some(match why.missing.first() {
        Some(why) => said.then_optionally(format!(" ({why})")),
        None => said,
    })
}

/// The headline of a report without a fault: the examined areas, those not examined, then `tail`.
pub(super) fn no_fault(areas: &[AreaLine], tail: &str) -> String {
    let seen = names(areas, |area| area.rank == AreaState::Examined);
    let may_be_seen = |area: &&AreaLine| !area.whole && area.rank != AreaState::NothingThere;
    let not = areas.iter().filter(may_be_seen);
    let not: Vec<String> = not
        .map(|area| match (area.rank, area.remedy.as_deref()) {
            (AreaState::Examined, _) => format!("{} (in part: root)", area.area),
            (_, Some("run as root")) => format!("{} (root)", area.area),
            (AreaState::Partly, _) => format!("{} (in part)", area.area),
            _ => area.area.clone(),
        })
        .collect();
    let count = |areas: &[String]| match areas.len() {
        0 => String::new(),
        some => plural(some as u64, "area"),
    };
    let listed = |seen: &str, not_seen: &str| match (seen, not_seen) {
        ("", "") => format!("no fault found{tail}"),
        (_, "") => format!("no fault found in {seen}{tail}"),
        ("", _) => format!("no fault found, but no area examined whole: {not_seen}{tail}"),
        _ => format!("no fault found in {seen}; not examined: {not_seen}{tail}"),
    };
    let (all_seen, all_not) = (seen.join(", "), not.join(", "));
    let mut named = [
        listed(&all_seen, &all_not),
        listed(&count(&seen), &all_not),
        listed(&all_seen, &count(&not)),
        listed(&count(&seen), &count(&not)),
    ];
    let fits = |named: &String| named.chars().count() <= HEADLINE;
    let at = named.iter().position(fits).unwrap_or(named.len() - 1);
    std::mem::take(&mut named[at])
}

/// Whether nothing more could have been seen, and something that is required was.
pub(super) fn are_whole(areas: &[AreaLine]) -> bool {
    let examined = |area: &AreaLine| area.required && area.rank == AreaState::Examined;
    areas.iter().all(AreaLine::is_whole) && (areas.is_empty() || areas.iter().any(examined))
}

/// The value of `--require` that accepts what was examined, where areas keep the verdict undecided.
pub fn fitting(areas: &[AreaLine]) -> Option<String> {
    if !areas.iter().any(|area| area.wanting) {
        return None;
    }
    let fits = names(areas, |area| {
        area.rank == AreaState::Examined && area.required && !area.wanting
    });
    Some(if fits.is_empty() {
        "none".into()
    } else {
        fits.join(",")
    })
}
