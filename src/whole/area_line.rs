//! Which areas were examined on nodes: the lines that every format has.

use serde::Serialize;

use super::node_head::RecordedNode;
use crate::check::{Catalogue, Lacks, Verdict};
use crate::diagnosis::areas::{AreaGap, AreaState, AreaSurvey, RequiredAreas, survey};
use crate::fact::{Facts, GapKind, Id, RECORD_THE_MACHINE, Subject, node};
use crate::nodeset;
use crate::sentence::Sentence;
use crate::sentence::in_words::plural;

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
    pub subjects: String,
    /// How far it was examined.
    #[serde(skip)]
    pub rank: AreaState,
    /// Whether it keeps the verdict undecided.
    #[serde(skip)]
    pub wanting: bool,
    /// Whether nothing more could have been seen of it.
    #[serde(skip)]
    pub whole: bool,
    /// Whether what is there of it could have shown an error.
    #[serde(skip)]
    pub could_show: bool,
    /// Whether what was recorded holds nothing of it. Nothing failed and nothing was refused then.
    #[serde(skip)]
    pub unrecorded: bool,
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
    pub fn of(catalogue: &Catalogue, facts: &Facts, survey: &AreaSurvey, of: Id) -> Self {
        // The classes of events that a log was read for are no events.
        let is_counted = |subject: Subject| subject != Subject::KernelEvent;
        let seen = survey
            .seen
            .iter()
            .filter(|(subject, _)| is_counted(*subject));
        let area = &catalogue.areas[survey.area];
        let told = area
            .tells
            .iter()
            .filter(|(when, _)| when.of(facts, of) == Ok(true));
        let told = told.map(|(_, text)| text.render(facts, of, &[]).to_string());
        let seen = seen
            .map(|(subject, n)| plural(*n as u64, subject.noun()))
            .chain(told);
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
            area: area.name.to_string(),
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
    pub fn add(&mut self, mut other: AreaLine, name: &str) {
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
    pub fn none(area: &str) -> Self {
        AreaLine {
            area: area.to_owned(),
            state: AreaState::NothingThere.word(),
            whole: true,
            unrecorded: true,
            ..AreaLine::default()
        }
    }

    /// What [`AreaLine::sentence`] says, without the number of checks where nothing is missing.
    pub fn without_checks(&self) -> String {
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
pub fn of_nodes(
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
pub fn of_all(
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

/// The areas of several nodes in the making.
#[derive(Default)]
pub struct FoldedAreas(Vec<AreaLine>);

impl FoldedAreas {
    /// Adds the areas of a node of this name.
    pub fn add(&mut self, lines: Vec<AreaLine>, name: &str) {
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
    pub fn lines(self) -> Vec<AreaLine> {
        let mut lines = self.0;
        for line in &mut lines {
            for (said, nodes) in std::mem::take(&mut line.of_nodes) {
                let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
                line.missing
                    .push(format!("{}: {said}", nodeset::list(&names)));
            }
        }
        lines
    }
}
