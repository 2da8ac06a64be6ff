//! The one arm that contradicts the others, of arms that were each run once.
//!
//! A change that does nothing in all pairs of arms but one, and there less than one run proves,
//! does nothing there either: one of that pair's two runs went otherwise than its equals. It is the
//! one whose other pairs show a difference, too.

use crate::fact::arms::Figures;
use crate::measure::plan::ablation::{Effect, Pair, Thresholds};

/// What contradicts the others.
#[derive(Debug, PartialEq)]
pub(super) struct Outlier {
    /// The arm; two of them where nothing tells which of a pair it is.
    pub(super) arms: Vec<usize>,
    /// By how much the pair differs, in percent.
    pub(super) percent: f64,
}

impl Outlier {
    /// Whether a pair rests on it.
    pub(super) fn spoils(&self, pair: &Pair) -> bool {
        let arms = [pair.reference, pair.arm];
        match self.arms.as_slice() {
            [one] => arms.contains(one),
            both => both.iter().all(|arm| arms.contains(arm)),
        }
    }
}

/// How many pairs of a change must be alike before another one is odd among them.
const ALIKE: usize = 3;

/// Looks for it. Arms with several rounds have an interval each, which says more.
pub(super) fn outlier(
    figures: &[Figures],
    pairs: &[Pair],
    thresholds: &Thresholds,
) -> Option<Outlier> {
    if figures.iter().any(|arm| arm.rounds.len() > 1) {
        return None;
    }
    let effect =
        |pair: &Pair| Some(Effect::of(&figures[pair.reference], &figures[pair.arm], 0.0)?.effect);
    let is_change = |effect: f64| effect.abs() >= thresholds.change;
    let mut found: Option<Outlier> = None;
    for first in pairs
        .iter()
        .enumerate()
        .filter(|(at, pair)| pairs[..*at].iter().all(|p| p.change != pair.change))
    {
        let of_change = pairs.iter().filter(|pair| pair.change == first.1.change);
        let effects: Vec<(&Pair, f64)> = of_change
            .filter_map(|pair| Some((pair, effect(pair)?)))
            .collect();
        let odd: Vec<&(&Pair, f64)> = effects
            .iter()
            .filter(|(_, effect)| is_change(*effect))
            .collect();
        let [(pair, percent)] = odd.as_slice() else {
            continue;
        };
        if effects.len() <= ALIKE || percent.abs() >= thresholds.change_of_one_run {
            continue;
        }
        let others = |arm: usize| {
            let of_arm = pairs
                .iter()
                .filter(|p| p.change != pair.change && [p.reference, p.arm].contains(&arm));
            of_arm
                .filter_map(effect)
                .filter(|effect| !is_change(*effect))
                .count()
        };
        let arms = match others(pair.reference).cmp(&others(pair.arm)) {
            std::cmp::Ordering::Less => vec![pair.reference],
            std::cmp::Ordering::Greater => vec![pair.arm],
            std::cmp::Ordering::Equal => vec![pair.reference, pair.arm],
        };
        let here = Outlier {
            arms,
            percent: percent.abs(),
        };
        match &found {
            None => found = Some(here),
            Some(before) if before.arms == here.arms => {}
            // Two that are odd in different ways are noise, and none is the odd one.
            Some(_) => return None,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Limits;
    use crate::measure::plan::ablation::{name_of, pairs};

    /// Eight arms by what is off: IB, SHM, P2P.
    fn eight(figures: [f64; 8]) -> Vec<Figures> {
        let arm = |(at, figure): (usize, f64)| {
            let names = ["NCCL_IB_DISABLE", "NCCL_SHM_DISABLE", "NCCL_P2P_DISABLE"];
            let set: crate::fact::arms::Set = (0..3)
                .filter(|bit| at & (1 << bit) != 0)
                .map(|bit| (names[bit].to_owned(), "1".to_owned()))
                .collect();
            Figures {
                name: name_of(&set),
                set,
                rounds: [(0, figure)].into(),
                ..Figures::default()
            }
        };
        figures.into_iter().enumerate().map(arm).collect()
    }

    fn odd(figures: [f64; 8]) -> Option<Vec<String>> {
        let arms = eight(figures);
        let found = outlier(&arms, &pairs(&arms), &Thresholds::new(&Limits::default()))?;
        Some(found.arms.iter().map(|at| arms[*at].name.clone()).collect())
    }

    /// IB and SHM alone do nothing, P2P costs 28 %, and SHM beside it 12 % more.
    const TRUE: [f64; 8] = [1.0, 1.0, 0.995, 0.995, 0.72, 0.72, 0.64, 0.64];

    #[test]
    fn one_row_that_is_off_is_found_wherever_it_is() {
        assert_eq!(odd(TRUE), None);
        for at in 0..8 {
            for factor in [0.94, 1.06] {
                let mut figures = TRUE;
                figures[at] *= factor;
                let found = odd(figures).unwrap_or_else(|| panic!("{at} × {factor}"));
                let name = &eight(TRUE)[at].name;
                assert!(found.contains(name), "{at} × {factor}: {found:?}");
                // Beside P2P all else differs, and nothing tells which of two it is.
                assert_eq!(
                    found.len(),
                    if at < 4 { 1 } else { 2 },
                    "{at} × {factor}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn an_effect_that_one_run_proves_is_no_outlier() {
        let mut figures = TRUE;
        figures[3] = 0.5;
        assert_eq!(odd(figures), None);
    }
}
