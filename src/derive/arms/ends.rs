//! How the runs of an arm ended.

use crate::fact::arms::{ArmRuns, Arms};
use crate::fact::{Facts, Id, Percent, arm};

impl Arms {
    /// How the runs ended.
    pub(super) fn ended(&self, facts: &mut Facts, id: Id, at: usize, seen: &ArmRuns) {
        let gap = seen.gap.as_ref();
        facts.set(id, arm::STARTED, self.unless(gap, seen.started));
        let hung = !seen.hung.is_empty();
        facts.set(id, arm::HUNG, self.seen_or(gap, hung, true, false));
        let steps = last_steps(&seen.hung).into();
        let last_step = self.seen_or(gap, hung, steps, "none".into());
        facts.set(id, arm::LAST_STEP, last_step);
        let unfinished = seen.unfinished.as_ref().map(|(_, how)| how.as_str().into());
        let is_unfinished = unfinished.is_some();
        let unfinished = unfinished.unwrap_or_else(|| "none".into());
        let unfinished = self.seen_or(gap, is_unfinished, unfinished, "none".into());
        facts.set(id, arm::UNFINISHED, unfinished);
        let failed = !seen.failures.is_empty();
        facts.set(id, arm::FAILED, self.seen_or(gap, failed, true, false));
        let failure = match seen.failures.split_first() {
            None => "none".to_owned(),
            Some((first, [])) => first.clone(),
            Some((first, rest)) => format!("{first}, and {} more", rest.len()),
        };
        let failure = self.seen_or(gap, failed, failure.into(), "none".into());
        facts.set(id, arm::FAILURE, failure);
        let wrong = seen.wrong > 0;
        facts.set(id, arm::WRONG, self.seen_or(gap, wrong, seen.wrong, 0));
        let place = seen.wrong_where.as_deref().unwrap_or("none").into();
        let wrong_where = self.seen_or(gap, wrong, place, "none".into());
        facts.set(id, arm::WRONG_WHERE, wrong_where);
        let (rank, excess) = match &seen.slowest {
            Some((rank, excess)) => (Some(rank.as_str().into()), Some(Percent(*excess))),
            None => (None, None),
        };
        let what = "a run of several ranks that ended well";
        facts.set(id, arm::SLOWEST_RANK, self.some(rank, what));
        facts.set(id, arm::SLOWEST_EXCESS, self.some(excess, what));
        let rounds = self.figures.get(at).map_or(0, |own| own.rounds.len());
        facts.set(id, arm::VALID, self.unless(gap, rounds > 0));
        let why = match (rounds, seen) {
            (1.., _) => "none".into(),
            (_, seen) if !seen.hung.is_empty() => "it hung".to_owned(),
            (_, seen) if !seen.failures.is_empty() => "it failed".into(),
            (_, seen) if seen.unfinished.is_some() => "it did not end in time".into(),
            (_, seen) if seen.wrong > 0 => format!("{} elements arrived wrong", seen.wrong),
            _ => "no run ended well".into(),
        };
        facts.set(id, arm::INVALID_WHY, self.unless(gap, why.into()));
    }
}

/// The step at which each rank hung; ranks of one step together. Where the process of a rank cannot
/// run, the others wait for it, and it alone is told.
fn last_steps(hung: &[(String, String)]) -> String {
    let cannot_run = |(_, step): &&(String, String)| step.contains("(its process is ");
    let has_reason = hung.iter().any(|one| cannot_run(&one));
    let told = hung.iter().filter(|one| !has_reason || cannot_run(one));
    let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
    for (rank, step) in told {
        match steps.iter_mut().find(|(other, _)| other == step) {
            Some((_, ranks)) => ranks.push(rank),
            None => steps.push((step, vec![rank])),
        }
    }
    let each = steps.iter().map(|(step, ranks)| match ranks.as_slice() {
        [rank] => format!("{rank}: {step}"),
        ranks => {
            let step = step.replacen("its last step", "their last step", 1);
            format!("{}: {step}", ranks.join(", "))
        }
    });
    match hung {
        [] => "none".to_owned(),
        _ => each.collect::<Vec<_>>().join("; "),
    }
}
