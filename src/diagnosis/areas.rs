//! The state of each area: whether it is there, and whether enough of it is known to call it examined.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::check::Verdict;
use crate::check::{
    Area, Catalogue, Check, FactName, Lacks, Missing, MissingFact, Outcome, Required, Severity,
    SubjectEssentials,
};
use crate::fact::value::written;
use crate::fact::{Facts, Gap, GapKind, Id, RECORD_THE_MACHINE, Subject, cluster, node};

written! {
    /// How far an area was examined.
    #[derive(Default, PartialOrd, Ord)]
    pub enum AreaState {
        /// The node is known to have nothing in this area.
        #[default]
        NothingThere = "nothing-there",
        /// All essential facts are known.
        Examined = "examined",
        /// Some are not.
        Partly = "partly",
        /// None is.
        NotExamined = "not-examined",
    }
}

/// A gap in an area.
#[derive(Clone, Debug, PartialEq)]
pub struct AreaGap {
    /// The missing fact, members, or check.
    pub what: String,
    /// The instances that it concerns.
    pub of: Vec<Id>,
    /// Why it is unknown.
    pub why: String,
    /// The kind of the gap.
    pub kind: GapKind,
    /// What would supply it, if that is known.
    pub remedy: Option<&'static str>,
}

/// An area on a node, or of all nodes together.
#[derive(Clone, Debug)]
pub struct AreaSurvey {
    /// Its place among the catalogue's areas.
    pub area: usize,
    /// How far it was examined.
    pub state: AreaState,
    /// Whether it is required; an area that does not exist is where it must.
    pub required: bool,
    /// The examined subjects, and how many of each.
    pub seen: Vec<(Subject, usize)>,
    /// How many checks of it were decided.
    pub decided: usize,
    /// Whether it could have shown an error: a check of one passed.
    pub could_show: bool,
    /// Its gaps.
    pub lacks: Vec<AreaGap>,
    /// Checks that stay open for lack of permission, though the area counts as examined: how many.
    pub withheld: usize,
}

impl AreaSurvey {
    /// Whether the area keeps the verdict undecided.
    pub fn is_wanting(&self) -> bool {
        self.required && self.state != AreaState::Examined
    }

    /// Of what people gave only what it holds is required; what was refused, is damaged, or is a
    /// file of a tree that says nothing was to be there.
    fn within_given(self, is_pasted: bool) -> Self {
        let is_open = matches!(self.state, AreaState::Partly | AreaState::NotExamined);
        let is_missing = |lack: &AreaGap| {
            is_pasted || lack.of.is_empty() || lack.remedy == Some(RECORD_THE_MACHINE)
        };
        let is_there = |lack: &AreaGap| lack.kind != GapKind::Unavailable || !is_missing(lack);
        let required = self.required && (!is_open || self.lacks.iter().any(is_there));
        AreaSurvey { required, ..self }
    }

    /// Whether nothing more could have been seen of it.
    pub fn is_whole(&self) -> bool {
        match self.state {
            AreaState::NothingThere => !self.required,
            AreaState::Examined => self.withheld == 0,
            AreaState::Partly | AreaState::NotExamined => false,
        }
    }
}

/// Whether people gave outputs of tools or a copied tree in place of the machine.
pub fn is_given(facts: &Facts, node: Id) -> bool {
    let is = |key| facts.known(node, key) == Some(true);
    is(node::PASTED) || is(node::TREE)
}

/// Which areas are required.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequiredAreas {
    /// Those that the areas themselves require.
    #[default]
    Own,
    /// These, which must exist too.
    These(Vec<String>),
    /// All that exist.
    All,
}

/// The areas of a node, or those of the cluster where `of` is that.
pub fn survey(
    catalogue: &Catalogue,
    facts: &Facts,
    (verdicts, lacks): (&[Verdict], &Lacks<'_>),
    of: Id,
    require: &RequiredAreas,
) -> Vec<AreaSurvey> {
    let on = facts.subject(of);
    let is_given = *require == RequiredAreas::Own && on == Subject::Node && is_given(facts, of);
    let is_pasted = is_given && facts.known(of, node::PASTED) == Some(true);
    let areas = catalogue.areas.iter().enumerate();
    let areas = areas.filter(|(_, area)| area.on == on);
    let areas: Vec<(usize, &Area)> = areas.collect();
    let mut of_area: HashMap<&str, VerdictsOfArea<'_>, FixedState> = HashMap::default();
    // The verdicts of a check stand together: it counts once, however many it has.
    let mut last = None;
    let judged = |v: &&Verdict| !matches!(v.outcome, Outcome::DoesNotApply);
    for verdict in verdicts.iter().filter(judged) {
        if !facts.lineage(verdict.subject).any(|id| id == of) {
            continue;
        }
        let check = &catalogue.checks[verdict.check];
        let of_area = of_area.entry(&check.area).or_default();
        of_area.could_show |=
            matches!(verdict.outcome, Outcome::Passes(_)) && check.severity == Severity::Error;
        match verdict.outcome {
            Outcome::Unknown(_) | Outcome::FailsIf => of_area.open.push(verdict),
            _ if last.replace(verdict.check) != Some(verdict.check) => of_area.decided += 1,
            _ => {}
        }
    }
    let look = |(index, area): (usize, &Area)| {
        let mut surveyor = Surveyor {
            catalogue,
            facts,
            of,
            of_verdicts: lacks,
            lacks: Vec::new(),
        };
        let none = VerdictsOfArea::default();
        let own = of_area.get(&*area.name).unwrap_or(&none);
        let survey = surveyor.look(index, area, own, verdicts, require);
        match is_given {
            true => survey.within_given(is_pasted),
            false => survey,
        }
    };
    areas.into_iter().map(look).collect()
}

/// The verdicts of an area's checks that apply.
#[derive(Default)]
struct VerdictsOfArea<'v> {
    open: Vec<&'v Verdict>,
    /// How many checks were decided.
    decided: usize,
    could_show: bool,
}

struct Surveyor<'a> {
    catalogue: &'a Catalogue,
    facts: &'a Facts,
    of: Id,
    of_verdicts: &'a Lacks<'a>,
    lacks: Vec<AreaGap>,
}

impl Surveyor<'_> {
    fn look(
        &mut self,
        index: usize,
        area: &Area,
        judged: &VerdictsOfArea<'_>,
        verdicts: &[Verdict],
        require: &RequiredAreas,
    ) -> AreaSurvey {
        let named = match require {
            RequiredAreas::These(names) => Some(names.iter().any(|name| **name == *area.name)),
            RequiredAreas::Own | RequiredAreas::All => None,
        };
        let is_there = self.exists(area);
        let mut survey = AreaSurvey {
            area: index,
            state: AreaState::NothingThere,
            required: named.unwrap_or_else(|| match require {
                RequiredAreas::All => true,
                _ => self.is_required(area),
            }),
            seen: Vec::new(),
            decided: judged.decided,
            could_show: judged.could_show,
            lacks: Vec::new(),
            withheld: 0,
        };
        match is_there {
            Ok(true) => {}
            Ok(false) => {
                // An absent area is a gap only if it is required.
                survey.required &= named == Some(true) || (area.must_exist && named.is_none());
                return survey;
            }
            Err(()) => {
                survey.state = AreaState::NotExamined;
                survey.lacks = std::mem::take(&mut self.lacks);
                return survey;
            }
        }
        self.left_out();
        self.members(area);
        let mut looked = 0;
        for each in &area.each {
            looked += self.each(each, &mut survey.seen);
        }
        let own = self.facts.subject(self.of);
        if area.each.iter().all(|each| each.subject != own)
            && !survey.seen.is_empty()
            && survey.seen.iter().all(|(_, n)| *n == 0)
        {
            let (subject, _) = survey.seen[0];
            self.add(AreaGap {
                what: String::new(),
                of: Vec::new(),
                why: format!("no {} is known", subject.noun()),
                kind: GapKind::Unavailable,
                remedy: None,
            });
        }
        self.decided(area, verdicts);
        let essentials = self.lacks.len();
        for verdict in &judged.open {
            let check = &self.catalogue.checks[verdict.check];
            let Some(lack) = self.withheld(check, verdict) else {
                continue;
            };
            let is_privileged = area.privileged.iter().any(|id| check.is_named(id));
            let may = is_privileged || check.severity != Severity::Error;
            match may || !survey.required {
                true => survey.withheld += 1,
                false => self.add(lack),
            }
        }
        survey.lacks = std::mem::take(&mut self.lacks);
        survey.state = match survey.lacks.is_empty() {
            true => AreaState::Examined,
            false if essentials > 0 && looked == 0 => AreaState::NotExamined,
            false => AreaState::Partly,
        };
        survey
    }

    fn is_required(&self, area: &Area) -> bool {
        match &area.required {
            Required::Always(always) => *always,
            Required::If(condition) => condition.of(self.facts, self.of).unwrap_or(true),
        }
    }

    /// Whether the area is there; `Err` if unknown, and the lacks say why.
    fn exists(&mut self, area: &Area) -> Result<bool, ()> {
        if let Some(condition) = &area.exists {
            return condition.of(self.facts, self.of).map_err(|open| {
                self.unknown(&open, self.of);
            });
        }
        let Some((subject, when)) = &area.exists_any else {
            return Ok(true);
        };
        let mut open: Vec<(FactName, Id)> = Vec::new();
        for id in self.facts.below(self.of, *subject) {
            match when
                .as_ref()
                .map_or(Ok(true), |when| when.of(self.facts, id))
            {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(names) => open.extend(names.into_iter().map(|name| (name, id))),
            }
        }
        for (name, id) in open {
            self.unknown(&[name], id);
        }
        self.members_of(*subject);
        match self.lacks.is_empty() {
            true => Ok(false),
            false => Err(()),
        }
    }

    /// What a bounded reader left out may be of any area.
    fn left_out(&mut self) {
        let key = match self.facts.subject(self.of) {
            Subject::Node => node::LEFT_OUT,
            _ => cluster::LEFT_OUT,
        };
        for why in self.facts.texts(self.of, key) {
            self.add(AreaGap {
                what: String::new(),
                of: vec![self.of],
                why: why.to_string(),
                kind: GapKind::Damage,
                remedy: None,
            });
        }
    }

    fn members(&mut self, area: &Area) {
        for subject in &area.members {
            self.members_of(*subject);
        }
    }

    /// That it is known which members there are, between what has the area and the subject.
    fn members_of(&mut self, subject: Subject) {
        let own = self.facts.subject(self.of);
        let mut between: Vec<Subject> = subject.scope().take_while(|kind| *kind != own).collect();
        between.reverse();
        for kind in between {
            // A step has a parent: it is below what has the area.
            let Some(parent) = kind.parent() else { return };
            let parents: Vec<Id> = match parent == own {
                true => vec![self.of],
                false => self.facts.below(self.of, parent).collect(),
            };
            for parent in parents {
                if let Err(gap) = self.facts.members(kind, parent) {
                    let what = format!("the list of {}s", kind.noun());
                    self.lack(what, parent, &gap);
                }
            }
        }
    }

    /// How many instances satisfied all of it.
    fn each(&mut self, each: &SubjectEssentials, seen: &mut Vec<(Subject, usize)>) -> usize {
        let facts = self.facts;
        let own = facts.subject(self.of) == each.subject;
        let instances: Vec<Id> = match own {
            true => vec![self.of],
            false => facts.below(self.of, each.subject).collect(),
        };
        if !own && !seen.iter().any(|(subject, _)| *subject == each.subject) {
            seen.push((each.subject, instances.len()));
        }
        let mut whole = 0;
        for id in instances {
            let before = self.lacks_of();
            match each
                .when
                .as_ref()
                .map_or(Ok(true), |when| when.of(facts, id))
            {
                Ok(true) => self.one(each, id),
                Ok(false) => continue,
                Err(open) => self.unknown(&open, id),
            }
            whole += usize::from(self.lacks_of() == before);
        }
        whole
    }

    fn lacks_of(&self) -> usize {
        self.lacks.iter().map(|lack| lack.of.len()).sum()
    }

    fn one(&mut self, each: &SubjectEssentials, id: Id) {
        if let Some((condition, otherwise)) = &each.examined {
            match condition.of(self.facts, id) {
                Ok(true) => {}
                Ok(false) => {
                    let why = otherwise.render(self.facts, id, &[]).to_string();
                    self.add(AreaGap {
                        what: String::new(),
                        of: vec![id],
                        why,
                        kind: GapKind::Unavailable,
                        remedy: None,
                    });
                }
                Err(open) => self.unknown(&open, id),
            }
        }
        self.unknown(&each.facts, id);
        for name in &each.if_offered {
            if let Err(gap) = name.of(self.facts, id)
                && !gap.why.is_not_offered()
            {
                self.lack(name.path(), id, &gap);
            }
        }
    }

    fn decided(&mut self, area: &Area, verdicts: &[Verdict]) {
        for id in &area.decided {
            let is = |v: &&Verdict| {
                self.catalogue.checks[v.check].is_named(id)
                    && self.facts.lineage(v.subject).any(|up| up == self.of)
            };
            let of_check: Vec<&Verdict> = verdicts.iter().filter(is).collect();
            if of_check.is_empty() {
                self.add(AreaGap {
                    what: format!("check {id}"),
                    of: vec![self.of],
                    why: "skipped".into(),
                    kind: GapKind::Unavailable,
                    remedy: None,
                });
            }
            for verdict in of_check {
                let check = &self.catalogue.checks[verdict.check];
                match verdict.outcome {
                    Outcome::Unknown(Missing::Members(subject)) => {
                        if let Err(gap) = self.facts.members(subject, verdict.subject) {
                            let what = format!("the list of {}s", subject.noun());
                            self.lack(what, verdict.subject, &gap);
                        }
                    }
                    Outcome::Unknown(Missing::Facts) | Outcome::FailsIf => {
                        for missing in check.missing(self.facts, verdict.subject) {
                            if let Err(gap) = missing.value {
                                self.lack(missing.fact, verdict.subject, &gap);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// The gap of an open check, if permission is missing.
    fn withheld(&self, check: &Check, verdict: &Verdict) -> Option<AreaGap> {
        let is = |gap: &Gap, id: Id| self.facts.gap_kind(id, gap) == GapKind::Withheld;
        let gap = match verdict.outcome {
            Outcome::Unknown(Missing::Members(subject)) => {
                self.facts.members(subject, verdict.subject).err()
            }
            _ => {
                let lacks = self.of_verdicts.get(verdict);
                let mut gaps = lacks.iter().map(MissingFact::gap);
                gaps.find(|gap| is(gap, verdict.subject)).cloned()
            }
        };
        let gap = gap.filter(|gap| is(gap, verdict.subject))?;
        Some(AreaGap {
            what: format!("check {}", check.id),
            of: vec![verdict.subject],
            why: gap.to_string(),
            kind: GapKind::Withheld,
            remedy: gap.remedy().or(Some("run as root")),
        })
    }

    fn unknown(&mut self, names: &[FactName], id: Id) {
        for name in names {
            if let Err(gap) = name.of(self.facts, id) {
                self.lack(name.path(), id, &gap);
            }
        }
    }

    fn lack(&mut self, what: String, id: Id, gap: &Gap) {
        self.add(AreaGap {
            what,
            of: vec![id],
            why: gap.why.to_string(),
            kind: self.facts.gap_kind(id, gap),
            remedy: gap.remedy(),
        });
    }

    fn add(&mut self, lack: AreaGap) {
        let like = |other: &&mut AreaGap| {
            (&other.what, &other.why, other.kind) == (&lack.what, &lack.why, lack.kind)
        };
        match self.lacks.iter_mut().find(like) {
            Some(other) => {
                for id in lack.of {
                    if !other.of.contains(&id) {
                        other.of.push(id);
                    }
                }
            }
            None => self.lacks.push(lack),
        }
    }
}
