//! What most of several equals have. Who is silent costs a majority and never turns it.

use crate::fact::{Fact, Gap};

/// The value that more than half of all have, those that do not answer counted; where none has that
/// many and all answered, this one's own.
pub fn of<T: Clone + PartialEq>(own: &Fact<T>, all: &[Fact<T>], what: &str) -> Fact<T> {
    let votes = |value: &T| all.iter().filter(|one| one.known() == Some(value)).count();
    let most = all
        .iter()
        .filter_map(Fact::known)
        .find(|value| 2 * votes(value) > all.len());
    if let Some(value) = most {
        let how = format!("{} of {} {what}", votes(value), all.len());
        return Fact::derived(value.clone(), how);
    }
    match (own, open(all)) {
        (Fact::Unknown(gap), _) => Fact::Unknown(gap.clone()),
        (_, Some(gap)) => Fact::Unknown(gap.clone()),
        (Fact::Known(value, _), None) => Fact::derived(value.clone(), "no value has a majority"),
    }
}

/// Why the first that does not answer is silent.
fn open<T>(all: &[Fact<T>]) -> Option<&Gap> {
    all.iter().find_map(|one| one.as_result().err())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::stated;

    fn most(values: &[Option<u64>]) -> Option<u64> {
        let all: Vec<Fact<u64>> = values
            .iter()
            .map(|value| match value {
                Some(value) => stated(*value),
                None => Fact::Unknown(Gap::missing("x")),
            })
            .collect();
        of(&all[0], &all, "GPUs").known().copied()
    }

    #[test]
    fn silence_costs_a_majority_and_never_turns_it() {
        assert_eq!(most(&[Some(1), Some(2), Some(2)]), Some(2));
        assert_eq!(most(&[None, Some(2), Some(2)]), Some(2));
        assert_eq!(most(&[Some(1), None, Some(2)]), None);
        assert_eq!(most(&[Some(1), Some(2)]), Some(1), "two have no majority");
        assert_eq!(most(&[Some(1), Some(2), None, Some(2)]), None);
        assert_eq!(most(&[Some(5)]), Some(5));
        assert_eq!(most(&[None]), None);
    }
}
