//! The rounds of an ablation: each starts every arm once, in another order, until the figures agree
//! or the time is spent.

use std::cell::Cell;
use std::collections::VecDeque;

use super::ablation::{Figures, order};

/// How far the rounds of an arm may lie apart for no more rounds to be needed, in percent.
const CLOSE: f64 = 5.0;
/// The most rounds there are, as a multiple of those that were asked for.
const MORE: u64 = 3;

/// A round in words: `round 2 of 3`; after those that were asked for `round 4 of 9 at most`.
pub fn round_in_words(round: u64, rounds: u64) -> String {
    let number = round + 1;
    if number <= rounds {
        format!("round {number} of {rounds}")
    } else {
        format!("round {number} of {} at most", rounds.saturating_mul(MORE))
    }
}

/// Carries out runs by `run`, which gets the arm and the round, and gives what each arm reached. An
/// arm whose run has no valid figure is not run again: it would fail again. There are `rounds` at
/// least while `is_spent` says that time is left. A run may add arms: they are run in the same
/// round.
pub fn carry_out_rounds<E>(
    rounds: u64,
    is_spent: impl Fn() -> bool,
    arms: &Cell<usize>,
    mut run: impl FnMut(usize, u64) -> Result<Option<f64>, E>,
) -> Result<Vec<Figures>, E> {
    let mut figures: Vec<Figures> = Vec::new();
    let mut bad: Vec<bool> = Vec::new();
    for round in 0..rounds.saturating_mul(MORE).max(1) {
        let mut open = VecDeque::from(order(arms.get(), round));
        while let Some(arm) = open.pop_front() {
            let known = bad.len().max(arms.get());
            figures.resize(known, Figures::default());
            bad.resize(known, false);
            // Without the first round there is nothing to say. The baseline runs twice: else nobody
            // knows how noisy it is.
            let needed = round == 0 || (round == 1 && arm == 0);
            if (!needed && is_spent()) || bad.get(arm) != Some(&false) {
                continue;
            }
            let figure = run(arm, round)?;
            open.extend(known..arms.get());
            bad[arm] = figure.is_none();
            figures[arm]
                .rounds
                .extend(figure.map(|figure| (round, figure)));
        }
        let close = figures
            .iter()
            .filter_map(Figures::apart)
            .all(|apart| apart <= CLOSE);
        let enough = round + 1 >= rounds && close;
        let spent = (round > 0 || rounds == 1) && is_spent();
        if enough || bad.iter().all(|bad| *bad) || spent {
            break;
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(
        rounds: u64,
        is_spent: bool,
        figure: impl Fn(usize, u64) -> Option<f64>,
    ) -> Vec<usize> {
        let mut runs = vec![0; 3];
        carry_out_rounds(
            rounds,
            || is_spent,
            &Cell::new(3),
            |arm, round| {
                runs[arm] += 1;
                Ok::<_, String>(figure(arm, round))
            },
        )
        .unwrap();
        runs
    }

    #[test]
    fn no_round_has_a_number_above_the_last() {
        assert_eq!(round_in_words(1, 2), "round 2 of 2");
        assert_eq!(round_in_words(5, 2), "round 6 of 6 at most");
    }

    #[test]
    fn an_arm_that_comes_later_is_run_as_often() {
        let arms = Cell::new(2);
        let mut runs = Vec::new();
        let figures = carry_out_rounds(
            2,
            || false,
            &arms,
            |arm, round| {
                if (arm, round) == (0, 0) {
                    arms.set(3);
                }
                runs.push((round, arm));
                Ok::<_, String>(Some(1.0))
            },
        )
        .unwrap();
        assert_eq!(figures.len(), 3);
        assert_eq!(runs[..3], [(0, 0), (0, 1), (0, 2)]);
        runs.sort_unstable();
        assert_eq!(runs[3..], [(1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn rounds_end_when_figures_agree_or_time_is_spent() {
        assert_eq!(count(3, false, |_, _| Some(1.0)), [3, 3, 3]);
        let noisy = |arm: usize, round: u64| Some(1.0 + (arm as u64 * round) as f64);
        assert_eq!(count(3, false, noisy), [9, 9, 9]);
        let hung = |arm: usize, _| match arm {
            1 => None,
            _ => Some(1.0),
        };
        assert_eq!(count(3, false, hung), [3, 1, 3]);
        assert_eq!(count(3, false, |_, _| None), [1, 1, 1]);
        assert_eq!(count(3, true, |_, _| Some(1.0)), [2, 1, 1]);
        assert_eq!(count(1, true, |_, _| Some(1.0)), [1, 1, 1]);
    }
}
