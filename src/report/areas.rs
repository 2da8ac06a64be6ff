//! Which areas were examined: the lines of every format, and the words of the headline.

use serde::Serialize;

use super::headline::HEADLINE;
use super::{RecordedNode, many, plural};
use crate::check::{Catalogue, Lacks, Verdict};
use crate::diagnosis::areas::{AreaGap, AreaState, AreaSurvey, RequiredAreas, survey};
use crate::fact::{Facts, GapKind, Id, RECORD_THE_MACHINE, Subject, node};
use crate::sentence::Sentence;

/// An area of a node, or of all nodes of a report.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AreaLine {
    /// Its name, as `--require` takes it.
    pub area: String,
    /// `nothing-there`, `examined`, `partly` or `not-examined`; of several nodes the worst.
    pub state: &'static str,
    /// Whether the verdict stays undecided without it.
    pub required: bool,
    /// The numbers of examined subjects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub seen: String,
    /// The gaps, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Checks that could not run for lack of permission, though the area counts as examined.
    #[serde(skip_serializing_if = "is_zero")]
    pub withheld: usize,
    /// What would close the gaps, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Of several nodes: how many have the area, and how many of them were examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<(usize, usize)>,
    /// The numbers of examined subjects without that of checks.
    #[serde(skip)]
    subjects: String,
    #[serde(skip)]
    pub(super) rank: AreaState,
    #[serde(skip)]
    wanting: bool,
    #[serde(skip)]
    whole: bool,
    /// Whether what is there of it could have shown an error.
    #[serde(skip)]
    pub(super) could_show: bool,
    /// Whether what was recorded holds nothing of it. Nothing failed and nothing was refused then.
    #[serde(skip)]
    pub(super) unrecorded: bool,
    /// Of several nodes: what is missing, and on which.
    #[serde(skip)]
    of_nodes: Vec<(String, Vec<String>)>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// More instances than this are counted.
const NAMED: usize = 2;
/// The longest list of what is missing that a line shows.
const SHOWN: usize = 3;

impl AreaLine {
    /// The line of an area of one node.
    pub(super) fn of(catalogue: &Catalogue, facts: &Facts, survey: &AreaSurvey, of: Id) -> Self {
        // The classes of events that a log was read for are no events.
        let is_counted = |subject: Subject| subject != Subject::KernelEvent;
        let seen = survey
            .seen
            .iter()
            .filter(|(subject, _)| is_counted(*subject));
        let seen = seen.map(|(subject, n)| plural(*n as u64, subject.noun()));
        let checks = plural(survey.decided as u64, "check");
        let checks = Some(checks).filter(|_| survey.decided > 0);
        let subjects = seen.collect::<Vec<_>>().join(", ");
        let seen = Some(subjects.clone()).filter(|subjects| !subjects.is_empty());
        let seen = seen.into_iter().chain(checks);
        let missing = survey.lacks.iter();
        let mut missing: Vec<String> = missing.map(|lack| gap_sentence(facts, lack, of)).collect();
        missing.dedup();
        let of_outputs =
            facts.subject(of) == Subject::Node && facts.known(of, node::PASTED) == Some(true);
        AreaLine {
            area: catalogue.areas[survey.area].name.to_string(),
            state: survey.state.word(),
            required: survey.required,
            seen: seen.collect::<Vec<_>>().join(", "),
            missing,
            withheld: survey.withheld,
            remedy: match survey.withheld {
                0 => survey.lacks.iter().find_map(|lack| lack.remedy),
                _ => Some("run as root"),
            }
            .map(str::to_owned),
            nodes: None,
            subjects,
            rank: survey.state,
            wanting: survey.is_wanting(),
            whole: survey.is_whole(),
            could_show: survey.could_show
                && survey.state != AreaState::NotExamined
                && facts.subject(of) == Subject::Node,
            unrecorded: is_unrecorded(survey, of_outputs),
            of_nodes: Vec::new(),
        }
    }

    /// Whether the area keeps the verdict undecided.
    pub fn is_wanting(&self) -> bool {
        self.wanting
    }

    /// Whether nothing more could have been seen of it.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Adds the line of another node, whose name its reasons get.
    pub(super) fn add(&mut self, mut other: AreaLine, name: &str) {
        let (have, examined) = self.nodes.unwrap_or_default();
        let there = usize::from(other.rank != AreaState::NothingThere);
        let whole = usize::from(other.rank == AreaState::Examined);
        self.nodes = Some((have + there, examined + whole));
        for missing in std::mem::take(&mut other.missing) {
            match self.of_nodes.iter_mut().find(|(said, _)| *said == missing) {
                Some((_, nodes)) => nodes.push(name.to_owned()),
                None => self.of_nodes.push((missing, vec![name.to_owned()])),
            }
        }
        self.withheld += other.withheld;
        self.required |= other.required;
        self.wanting |= other.wanting;
        self.whole &= other.whole;
        self.unrecorded &= other.unrecorded;
        self.could_show |= other.could_show;
        self.remedy = self.remedy.take().or(other.remedy);
        if other.rank > self.rank {
            self.rank = other.rank;
            self.state = other.state;
        }
        self.seen.clear();
    }

    /// An area of no node yet.
    pub(super) fn none(area: &str) -> Self {
        AreaLine {
            area: area.to_owned(),
            state: AreaState::NothingThere.word(),
            whole: true,
            unrecorded: true,
            ..AreaLine::default()
        }
    }

    /// What [`AreaLine::sentence`] says, without the number of checks where nothing is missing.
    pub(super) fn without_checks(&self) -> String {
        match (self.nodes, self.missing.is_empty()) {
            (None, true) => self.subjects.clone(),
            _ => self.sentence().to_string(),
        }
    }

    /// The examined subjects and the gaps in one line; [`AreaLine::remedy`] is what would close the gaps.
    pub fn sentence(&self) -> Sentence {
        let mut parts = Vec::new();
        match self.nodes {
            Some((have, examined)) if examined < have => {
                parts.push(format!("{examined} of {}", plural(have as u64, "node")));
            }
            Some((have, _)) => parts.push(plural(have as u64, "node")),
            None if self.seen.is_empty() => {}
            None => parts.push(self.seen.clone()),
        }
        let shown = self.missing.iter().take(SHOWN).cloned();
        parts.extend(shown);
        match self.missing.len().saturating_sub(SHOWN) {
            0 => {}
            more => parts.push(format!("{more} more")),
        }
        if self.withheld > 0 {
            let checks = plural(self.withheld as u64, "check");
            parts.push(format!("{checks} not run: permission is missing"));
        }
        Sentence::joined(parts.into_iter().map(Sentence::from), "; ")
    }
}

/// Whether an area was not examined for the one reason that a copied tree or the outputs of tools do not hold it.
fn is_unrecorded(survey: &AreaSurvey, of_outputs: bool) -> bool {
    let is_unavailable = |lack: &AreaGap| lack.kind == GapKind::Unavailable;
    let is_unrecorded = |lack: &AreaGap| of_outputs || lack.remedy == Some(RECORD_THE_MACHINE);
    survey.state == AreaState::NotExamined
        && survey.withheld == 0
        && survey.lacks.iter().all(is_unavailable)
        && survey.lacks.iter().any(is_unrecorded)
}

/// The areas of nodes.
pub(super) fn of_nodes(
    catalogue: &Catalogue,
    facts: &Facts,
    verdicts: (&[Verdict], &Lacks<'_>),
    recordings: &[RecordedNode],
    require: &RequiredAreas,
) -> Vec<AreaLine> {
    let lines = |node| of(catalogue, facts, verdicts, node, require);
    if let [one] = recordings {
        return lines(one.id);
    }
    let mut fold = FoldedAreas::default();
    for one in recordings {
        fold.add(lines(one.id), facts.name(one.id));
    }
    fold.lines()
}

/// The areas of all nodes together, if they are there.
pub(super) fn of_all(
    catalogue: &Catalogue,
    facts: &Facts,
    verdicts: (&[Verdict], &Lacks<'_>),
    require: &RequiredAreas,
) -> Vec<AreaLine> {
    let mut lines = of(catalogue, facts, verdicts, Facts::CLUSTER, require);
    lines.retain(|line| line.rank != AreaState::NothingThere);
    lines
}

fn of(
    catalogue: &Catalogue,
    facts: &Facts,
    verdicts: (&[Verdict], &Lacks<'_>),
    of: Id,
    require: &RequiredAreas,
) -> Vec<AreaLine> {
    let surveys = survey(catalogue, facts, verdicts, of, require);
    let line = |survey| AreaLine::of(catalogue, facts, &survey, of);
    surveys.into_iter().map(line).collect()
}

/// A gap in words: what is missing of which instances, and why.
fn gap_sentence(facts: &Facts, lack: &AreaGap, of: Id) -> String {
    let others = lack.of.iter().filter(|id| **id != of);
    let names: Vec<&str> = others.map(|id| facts.name(*id)).collect();
    let what = match lack.what.split_once('.') {
        // A fact goes by its name, without its subject.
        Some((_, fact)) if !lack.what.contains(' ') => fact.replace('_', " "),
        _ => lack.what.clone(),
    };
    let said = match names.len() {
        0 => what,
        // Names of many tell less than their number.
        n if n > NAMED => plural(n as u64, facts.subject(lack.of[0]).noun()),
        _ if what.is_empty() => names.join(", "),
        _ => format!("{what} of {}", names.join(", ")),
    };
    let why = match lack.kind {
        GapKind::Damage if !lack.what.is_empty() => format!("failed ({})", lack.why),
        _ => lack.why.clone(),
    };
    if said.is_empty() {
        why
    } else {
        format!("{said}: {why}")
    }
}

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

/// The areas of several nodes in the making.
#[derive(Default)]
pub(super) struct FoldedAreas(Vec<AreaLine>);

impl FoldedAreas {
    /// Adds the areas of a node of this name.
    pub(super) fn add(&mut self, lines: Vec<AreaLine>, name: &str) {
        for line in lines {
            let at = match self.0.iter().position(|one| one.area == line.area) {
                Some(at) => at,
                None => {
                    self.0.push(AreaLine::none(&line.area));
                    self.0.len() - 1
                }
            };
            self.0[at].add(line, name);
        }
    }

    /// The areas of all nodes.
    pub(super) fn lines(self) -> Vec<AreaLine> {
        let mut lines = self.0;
        for line in &mut lines {
            for (said, nodes) in std::mem::take(&mut line.of_nodes) {
                let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
                line.missing.push(format!("{}: {said}", many::list(&names)));
            }
        }
        lines
    }
}
