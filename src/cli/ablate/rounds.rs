//! The rounds of an ablation: one start of each arm in a round, each round in another order, until the figures lie close together or the time is spent.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::measure::plan::ablation::{Figures, order};

/// How close together the rounds of each arm lie where no more are needed, in percent.
const CLOSE: f64 = 5.0;
/// How many times as many rounds as were asked for there are at most.
const MORE: u64 = 3;

/// How rounds are made.
pub struct Rounds {
    /// How many there are at least, while time is left.
    pub rounds: u64,
    /// When no further run begins.
    pub budget: Duration,
}

/// What came of a run: its figure, where it is valid.
pub enum Came {
    /// It ended well.
    Well(f64),
    /// It did not, and would not another time: the arm is not run again.
    Badly,
}

/// Makes runs until that is enough; gives what each arm reached. `run` is told the arm and the round. There may be more arms after a run than before:
/// those that came are run in the same round still.
#[expect(clippy::disallowed_methods, reason = "the budget is of real time")]
pub fn make(
    how: &Rounds,
    arms: &Cell<usize>,
    mut run: impl FnMut(usize, u64) -> anyhow::Result<Came>,
) -> anyhow::Result<Vec<Figures>> {
    let begun = Instant::now();
    let mut figures: Vec<Figures> = Vec::new();
    let mut bad: Vec<bool> = Vec::new();
    for round in 0..how.rounds.saturating_mul(MORE).max(1) {
        let mut open = VecDeque::from(order(arms.get(), round));
        while let Some(arm) = open.pop_front() {
            let known = bad.len().max(arms.get());
            figures.resize(known, Figures::default());
            bad.resize(known, false);
            // Of the first round all arms are run: without them there is nothing to say. And the baseline twice: else nobody knows how noisy it is.
            let needed = round == 0 || (round == 1 && arm == 0);
            let spent = !needed && begun.elapsed() >= how.budget;
            if spent || bad.get(arm) != Some(&false) {
                continue;
            }
            let came = run(arm, round)?;
            open.extend(known..arms.get());
            match came {
                Came::Well(figure) => {
                    if let Some(of) = figures.get_mut(arm) {
                        of.rounds.insert(round, figure);
                    }
                }
                Came::Badly => bad[arm] = true,
            }
        }
        let close = figures
            .iter()
            .filter_map(Figures::apart)
            .all(|apart| apart <= CLOSE);
        let enough = round + 1 >= how.rounds && close;
        let spent = begun.elapsed() >= how.budget && (round > 0 || how.rounds == 1);
        if enough || bad.iter().all(|bad| *bad) || spent {
            break;
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(how: &Rounds, figure: impl Fn(usize, u64) -> Came) -> Vec<usize> {
        let mut runs = vec![0; 3];
        make(how, &Cell::new(3), |arm, round| {
            runs[arm] += 1;
            Ok(figure(arm, round))
        })
        .unwrap();
        runs
    }

    #[test]
    fn an_arm_that_comes_later_is_run_as_often() {
        let arms = Cell::new(2);
        let mut runs = Vec::new();
        let how = Rounds {
            rounds: 2,
            budget: Duration::from_secs(60),
        };
        let figures = make(&how, &arms, |arm, round| {
            if (arm, round) == (0, 0) {
                arms.set(3);
            }
            runs.push((round, arm));
            Ok(Came::Well(1.0))
        })
        .unwrap();
        assert_eq!(figures.len(), 3);
        assert_eq!(runs[..3], [(0, 0), (0, 1), (0, 2)]);
        runs.sort_unstable();
        assert_eq!(runs[3..], [(1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn rounds_end_where_figures_lie_close_or_time_is_spent() {
        let three = Rounds {
            rounds: 3,
            budget: Duration::from_secs(60),
        };
        assert_eq!(count(&three, |_, _| Came::Well(1.0)), [3, 3, 3]);
        let noisy = |arm: usize, round: u64| Came::Well(1.0 + (arm as u64 * round) as f64);
        assert_eq!(count(&three, noisy), [9, 9, 9]);
        let hung = |arm: usize, _| match arm {
            1 => Came::Badly,
            _ => Came::Well(1.0),
        };
        assert_eq!(count(&three, hung), [3, 1, 3]);
        assert_eq!(count(&three, |_, _| Came::Badly), [1, 1, 1]);
        let none = Rounds {
            rounds: 3,
            budget: Duration::ZERO,
        };
        assert_eq!(count(&none, |_, _| Came::Well(1.0)), [2, 1, 1]);
        let once = Rounds {
            rounds: 1,
            budget: Duration::ZERO,
        };
        assert_eq!(count(&once, |_, _| Came::Well(1.0)), [1, 1, 1]);
    }
}
