//! Judges facts: one verdict for each check and instance, and none left out.

use super::catalogue::Catalogue;
use super::condition::Lineage;
use super::{Check, Condition, Premise};
use crate::fact::{Facts, Id, Subject};

/// A check's verdict on one instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The check's place in the catalogue.
    pub check: usize,
    /// The instance; for a verdict about missing members, their parent.
    pub subject: Id,
    /// The outcome.
    pub outcome: Outcome,
}

/// How a check ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// The check applies and is known not to fail.
    Passes(Pass),
    /// The check applies and fails.
    Fails,
    /// The check fails if its premise is met, which is not known.
    FailsIf,
    /// The check fails, and a waiver accepts it: its number in [`Waivers`](super::Waivers).
    Waived(u32),
    /// Something is missing, and it matters.
    Unknown(Missing),
    /// The check does not apply, or there is nothing to which it could.
    DoesNotApply,
}

/// What is missing for an unknown verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Facts of the instance: [`Check::missing`] says which.
    Facts,
    /// It is not known which members of this kind the instance has: [`Facts::members`] says why.
    Members(Subject),
}

/// The proof that a check passed on evidence: it is made in one place, and nothing else can make one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass(());

impl Outcome {
    /// Whether the check fails, or would if a waiver did not accept it.
    pub fn is_failure(self) -> bool {
        matches!(self, Outcome::Fails | Outcome::FailsIf | Outcome::Waived(_))
    }

    /// The outcome in a word, as examples write it.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Passes(_) => "passes",
            Outcome::Fails => "fails",
            Outcome::FailsIf => "fails-if",
            Outcome::Waived(_) => "waived",
            Outcome::Unknown(_) => "unknown",
            Outcome::DoesNotApply => "does-not-apply",
        }
    }
}

/// Judges everything: the verdicts of the first check, of the second, and so on.
///
/// A check yields one verdict for each instance of its subject. Where members may be missing between the cluster and the
/// subject, the parent that may have them gets one verdict more, which is unknown; a parent that is known to have none
/// gets one that says that the check does not apply there.
pub fn judge(catalogue: &Catalogue, facts: &Facts) -> Vec<Verdict> {
    judge_where(catalogue, facts, |_| true)
}

/// As [`judge`], of those checks only whose subject is wanted.
pub fn judge_where(
    catalogue: &Catalogue,
    facts: &Facts,
    wanted: impl Fn(Subject) -> bool,
) -> Vec<Verdict> {
    let mut grounds: Vec<SubjectGroup> = Vec::with_capacity(Subject::ALL.len());
    let mut judged: Vec<(usize, usize)> = Vec::with_capacity(catalogue.checks.len());
    let mut count = 0;
    let checks = catalogue.checks.iter().enumerate();
    for (index, check) in checks.filter(|(_, check)| wanted(check.subject)) {
        let at = match grounds.iter().position(|g| g.subject == check.subject) {
            Some(at) => at,
            None => {
                grounds.push(SubjectGroup::of(facts, check.subject));
                grounds.len() - 1
            }
        };
        judged.push((index, at));
        count += grounds[at].instances.len() + grounds[at].holes.len();
    }
    let mut verdicts = Vec::with_capacity(count);
    for (index, at) in judged {
        let ground = &mut grounds[at];
        ground.checks.push((index, verdicts.len()));
        let verdict = |(subject, outcome)| Verdict {
            check: index,
            subject,
            outcome,
        };
        // Until it is judged, an instance is unknown.
        let open = Outcome::Unknown(Missing::Facts);
        let instances = ground.instances.iter().map(|(id, _)| (*id, open));
        verdicts.extend(instances.map(verdict));
        verdicts.extend(ground.holes.iter().copied().map(verdict));
    }
    // One instance after another rather than one check after another: its facts are in the cache then.
    for ground in &grounds {
        for (at, (_, lineage)) in ground.instances.iter().enumerate() {
            for (check, first) in &ground.checks {
                verdicts[first + at].outcome = outcome(&catalogue.checks[*check], facts, *lineage);
            }
        }
    }
    verdicts
}

impl Check {
    /// Judges one instance of the check's subject.
    pub fn judge(&self, facts: &Facts, id: Id) -> Outcome {
        debug_assert_eq!(facts.subject(id), self.subject);
        outcome(self, facts, Lineage::of(facts, id))
    }

    /// The premises of which it is not known whether they are met for this instance.
    pub fn open_premises(&self, facts: &Facts, id: Id) -> impl Iterator<Item = Premise> {
        let view = self.view(facts, Lineage::of(facts, id));
        let open = self.premises.iter();
        let open = open.filter(|one| one.condition.holds(&view).is_none());
        open.map(|one| one.premise).collect::<Vec<_>>().into_iter()
    }

    /// Whether a fact by which the check fails is known.
    pub fn is_told(&self, facts: &Facts, id: Id) -> bool {
        self.fails.is_told(facts, Lineage::of(facts, id))
    }
}

impl Condition {
    /// Whether a fact that it names is known.
    fn is_told(&self, facts: &Facts, lineage: Lineage) -> bool {
        let mut named = self.slots().filter_map(|slot| slot.fact(facts, lineage));
        named.any(|fact| fact.known().is_some())
    }
}

/// Judges an instance. The only place where a pass is made.
fn outcome(check: &Check, facts: &Facts, lineage: Lineage) -> Outcome {
    let view = check.view(facts, lineage);
    // Kleene's conjunction: one that is not met decides.
    let mut premise = Some(true);
    for one in &check.premises {
        premise = match (premise, one.condition.holds(&view)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
    }
    let applies = check.applies.as_ref();
    let applies = applies.map_or(Some(true), |applies| applies.holds(&view));
    match (premise, applies) {
        (Some(false), _) | (_, Some(false)) => return Outcome::DoesNotApply,
        (_, None) => return Outcome::Unknown(Missing::Facts),
        (_, Some(true)) => {}
    }
    match (check.fails.holds(&view), premise) {
        (Some(true), Some(true)) => Outcome::Fails,
        (Some(true), _) => Outcome::FailsIf,
        (Some(false), Some(true)) if check.fails.is_told(facts, lineage) => {
            Outcome::Passes(Pass(()))
        }
        _ => Outcome::Unknown(Missing::Facts),
    }
}

/// The checks of a subject, and the instances on which they are judged.
struct SubjectGroup {
    subject: Subject,
    /// The checks of the subject: their place in the catalogue, and that of their first verdict.
    checks: Vec<(usize, usize)>,
    /// The instances of the subject.
    instances: Vec<(Id, Lineage)>,
    /// The ancestors with no members, or with members that are not known, and what is said about them.
    holes: Vec<(Id, Outcome)>,
}

impl SubjectGroup {
    fn of(facts: &Facts, subject: Subject) -> Self {
        let instances = facts
            .all(subject)
            .map(|id| (id, Lineage::of(facts, id)))
            .collect();
        let mut path: Vec<Subject> = subject.scope().collect();
        path.reverse();
        let mut holes = Vec::new();
        for step in path.windows(2) {
            if let [parents, members] = *step {
                holes_between(facts, parents, members, &mut holes);
            }
        }
        SubjectGroup {
            subject,
            checks: Vec::new(),
            instances,
            holes,
        }
    }
}

fn holes_between(
    facts: &Facts,
    parents: Subject,
    members: Subject,
    holes: &mut Vec<(Id, Outcome)>,
) {
    let mut inhabited: Vec<Id> = facts.all(members).filter_map(|m| facts.parent(m)).collect();
    inhabited.sort_unstable();
    inhabited.dedup();
    for parent in facts.all(parents) {
        let empty = inhabited.binary_search(&parent).is_err();
        let complete = match members {
            // What the site gives is all that there is.
            Subject::Waiver | Subject::Inventory => true,
            // The nodes that are judged are the nodes that there are; whether others were expected is another question.
            Subject::Node => !empty || facts.members(members, parent).is_ok(),
            _ => facts.members(members, parent).is_ok(),
        };
        match (complete, empty) {
            (false, _) => holes.push((parent, Outcome::Unknown(Missing::Members(members)))),
            (true, true) => holes.push((parent, Outcome::DoesNotApply)),
            (true, false) => {}
        }
    }
}
