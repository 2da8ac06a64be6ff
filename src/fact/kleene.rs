//! Three-valued knowledge of several things (Kleene): what is known of one of them decides if it can, whatever is missing of the others.
//!
//! A probe or a derived fact that looks at ports, ranks, replies or rows does not match gaps by hand: it collects them here and asks. A question
//! that a known value decides has its answer; any other has the first gap. So one missing reply erases no fault that another reply proves, and
//! no gap turns into "no".
//!
//! | question | decided by one known value | else |
//! |---|---|---|
//! | [`Several::any`] | true, if it holds for one | false, if all are known |
//! | [`Several::all`] | false, if it does not hold for one | true, if all are known |
//! | [`Several::at_least`] | true, if it holds for so many | false, if it could not even if it held for all that is missing |
//! | [`Several::find`] | the first for which it holds | none, if all are known |
//! | [`Several::count`], [`Several::max`], [`Several::known`] | | known, if all are known |

use super::{Fact, Facts, Gap, Id, Key, Typed};

/// What is known of several things: the values of those that answered, and why others are missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Several<T> {
    known: Vec<T>,
    /// The first gap of a member.
    gap: Option<Gap>,
    /// How many members have a gap.
    gaps: usize,
    /// Why there may be further members.
    others: Option<Gap>,
}

impl<T> FromIterator<Result<T, Gap>> for Several<T> {
    fn from_iter<I: IntoIterator<Item = Result<T, Gap>>>(members: I) -> Self {
        let mut several = Several {
            known: Vec::new(),
            gap: None,
            gaps: 0,
            others: None,
        };
        for member in members {
            match member {
                Ok(value) => several.known.push(value),
                Err(gap) => {
                    several.gaps += 1;
                    several.gap.get_or_insert(gap);
                }
            }
        }
        several
    }
}

impl<T> FromIterator<Fact<T>> for Several<T> {
    fn from_iter<I: IntoIterator<Item = Fact<T>>>(members: I) -> Self {
        members.into_iter().map(Fact::into_result).collect()
    }
}

impl<T: Typed> Several<(Id, T)> {
    /// A fact of each instance of its subject below an ancestor, with the instance. If not all instances are known, there may be others.
    pub fn of(facts: &Facts, ancestor: Id, key: Key<T>) -> Self {
        let with = |id: Id| facts.get(id, key).map(|value| (id, value));
        let members: Self = facts.below(ancestor, key.subject).map(with).collect();
        members.or_others(facts.incomplete(ancestor, key.subject))
    }
}

impl<T> Several<T> {
    /// The same, if there may be further members.
    pub fn or_others(mut self, why: Option<Gap>) -> Self {
        self.others = self.others.or(why);
        self
    }

    /// What is known, in the order of the members, whatever is missing.
    pub fn answered(&self) -> &[T] {
        &self.known
    }

    /// How many members there are, those that did not answer counted, and none that nobody knows of.
    pub fn members(&self) -> usize {
        self.known.len() + self.gaps
    }

    /// Why not all is known, if it is not: the first gap of a member, else why there may be others.
    pub fn open(&self) -> Option<&Gap> {
        self.gap.as_ref().or(self.others.as_ref())
    }

    /// The answer, unless something is missing.
    fn unless_open<A>(&self, answer: A) -> Result<A, Gap> {
        match self.open() {
            Some(gap) => Err(gap.clone()),
            None => Ok(answer),
        }
    }

    /// All values.
    ///
    /// # Errors
    ///
    /// One is missing.
    pub fn known(&self) -> Result<&[T], Gap> {
        self.unless_open(&*self.known)
    }

    /// The first member for which it holds; `None` if it holds for none.
    ///
    /// # Errors
    ///
    /// It holds for none that is known, and one is missing.
    pub fn find(&self, holds: impl Fn(&T) -> bool) -> Result<Option<&T>, Gap> {
        match self.known.iter().find(|value| holds(value)) {
            Some(value) => Ok(Some(value)),
            None => self.unless_open(None),
        }
    }

    /// Whether it holds for one at least.
    ///
    /// # Errors
    ///
    /// It holds for none that is known, and one is missing.
    pub fn any(&self, holds: impl Fn(&T) -> bool) -> Result<bool, Gap> {
        self.find(holds).map(|found| found.is_some())
    }

    /// Whether it holds for each.
    ///
    /// # Errors
    ///
    /// It holds for each that is known, and one is missing.
    pub fn all(&self, holds: impl Fn(&T) -> bool) -> Result<bool, Gap> {
        self.any(|value| !holds(value)).map(|fails| !fails)
    }

    /// For how many it holds.
    ///
    /// # Errors
    ///
    /// One is missing.
    pub fn count(&self, holds: impl Fn(&T) -> bool) -> Result<u64, Gap> {
        self.counted(holds).0
    }

    /// The same, and for how many that are known it holds.
    pub fn counted(&self, holds: impl Fn(&T) -> bool) -> (Result<u64, Gap>, u64) {
        let count = self.known.iter().filter(|value| holds(value)).count() as u64;
        (self.unless_open(count), count)
    }

    /// Whether it holds for so many.
    ///
    /// # Errors
    ///
    /// What is missing decides.
    pub fn at_least(&self, wanted: usize, holds: impl Fn(&T) -> bool) -> Result<bool, Gap> {
        let count = self.known.iter().filter(|value| holds(value)).count();
        match self.others {
            _ if count >= wanted => Ok(true),
            None if count + self.gaps < wanted => Ok(false),
            _ => self.unless_open(false),
        }
    }
}

impl<T: Ord + Clone> Several<T> {
    /// The greatest; `None` if there is no member.
    ///
    /// # Errors
    ///
    /// One is missing. Whether the greatest is above a limit is a question for [`Several::any`], which one known value can decide.
    pub fn max(&self) -> Result<Option<T>, Gap> {
        self.unless_open(self.known.iter().max().cloned())
    }
}

/// Whether something is so that what is known can prove, and only all of it can refute.
///
/// # Errors
///
/// It is not proven, and something is missing.
pub fn proven(is: bool, open: Option<&Gap>) -> Result<bool, Gap> {
    match open {
        Some(gap) if !is => Err(gap.clone()),
        _ => Ok(is),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fact::{Membership, Origin, Subject, device, port};

    fn gap(what: &str) -> Gap {
        Gap::missing(what.to_owned())
    }

    fn several(members: &[Option<u8>], complete: bool) -> Several<u8> {
        let one = |(at, member): (usize, &Option<u8>)| member.ok_or_else(|| gap(&at.to_string()));
        let members: Several<u8> = members.iter().enumerate().map(one).collect();
        members.or_others((!complete).then(|| gap("others")))
    }

    #[test]
    fn a_known_value_that_decides_wins_over_gaps_and_unknown_membership() {
        let some = several(&[None, Some(7), None], false);
        assert_eq!(some.any(|n| *n == 7), Ok(true));
        assert_eq!(some.all(|n| *n == 8), Ok(false));
        assert_eq!(some.at_least(1, |n| *n == 7), Ok(true));
        assert_eq!(some.find(|n| *n == 7), Ok(Some(&7)));
        assert_eq!(some.answered(), [7]);
    }

    #[test]
    fn what_no_known_value_decides_has_the_first_gap() {
        let some = several(&[Some(7), None, None], false);
        assert_eq!(some.any(|n| *n == 8), Err(gap("1")));
        assert_eq!(some.all(|n| *n == 7), Err(gap("1")));
        assert_eq!(some.count(|n| *n == 7), Err(gap("1")));
        assert_eq!(some.max(), Err(gap("1")));
        assert_eq!(
            several(&[Some(7)], false).any(|n| *n == 8),
            Err(gap("others"))
        );
        assert_eq!(several(&[], false).all(|_| true), Err(gap("others")));
        assert_eq!(proven(true, Some(&gap("a"))), Ok(true));
        assert_eq!(proven(false, Some(&gap("a"))), Err(gap("a")));
        assert_eq!(proven(false, None), Ok(false));
    }

    #[test]
    fn so_many_are_out_of_reach_where_the_missing_ones_are_too_few() {
        let some = several(&[Some(7), None], true);
        assert_eq!(some.at_least(2, |n| *n == 7), Err(gap("1")));
        assert_eq!(some.at_least(3, |n| *n == 7), Ok(false));
        let open = several(&[Some(7), None], false);
        assert_eq!(open.at_least(3, |n| *n == 7), Err(gap("1")));
    }

    #[test]
    fn the_instances_of_a_subject_are_members_and_those_of_a_device_that_is_not_read_too() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        let known = || Membership::Known(Origin::Stated);
        facts.set_members(Subject::Device, node, known());
        for (name, lid) in [("a", Some(3)), ("b", None)] {
            let device = facts.instance(Subject::Device, node, name);
            facts.derive(device, device::FIRMWARE, "1".into(), "stated");
            let id = facts.instance(Subject::Port, device, &format!("{name}/1"));
            facts.set_members(Subject::Port, device, known());
            if let Some(lid) = lid {
                facts.set(id, port::LID, Fact::Known(lid, Origin::Stated));
            }
        }
        let lids = Several::of(&facts, node, port::LID);
        assert_eq!(lids.any(|(_, lid)| *lid == 3), Ok(true));
        assert!(lids.any(|(_, lid)| *lid == 4).is_err());
        let firmware = Several::of(&facts, node, device::FIRMWARE);
        assert_eq!(firmware.all(|(_, text)| &**text == "1"), Ok(true));
        // A device whose ports nobody knows may have one more.
        facts.instance(Subject::Device, node, "c");
        let ports = Several::of(&facts, node, port::LID);
        assert!(ports.at_least(9, |_| true).is_err());
    }

    proptest! {
        /// An answer holds whatever the missing values turn out to be, and a question that all of them answer alike has an answer.
        #[test]
        fn an_answer_is_one_that_no_missing_value_changes(
            members in prop::collection::vec(prop::option::of(0u8..3), 0..5),
            wanted in 0usize..6,
        ) {
            let some = several(&members, true);
            let holds = |n: &u8| *n == 1;
            let mut worlds: Vec<Vec<u8>> = vec![Vec::new()];
            for member in &members {
                let values: Vec<u8> = member.map_or_else(|| (0..3).collect(), |n| vec![n]);
                worlds = worlds
                    .iter()
                    .flat_map(|world| values.iter().map(|n| [&world[..], &[*n]].concat()))
                    .collect();
            }
            let agreed = |ask: &dyn Fn(&[u8]) -> bool| {
                let first = ask(&worlds[0]);
                worlds.iter().all(|world| ask(world) == first).then_some(first)
            };
            let count = |world: &[u8]| world.iter().filter(|n| holds(n)).count();
            prop_assert_eq!(some.any(holds).ok(), agreed(&|world| count(world) > 0));
            prop_assert_eq!(some.all(holds).ok(), agreed(&|world| count(world) == world.len()));
            prop_assert_eq!(some.at_least(wanted, holds).ok(), agreed(&|world| count(world) >= wanted));
            for world in &worlds {
                if let Ok(n) = some.count(holds) {
                    prop_assert_eq!(n as usize, count(world));
                }
                if let Ok(most) = some.max() {
                    prop_assert_eq!(most, world.iter().max().copied());
                }
            }
        }

        /// One more gap takes an answer away and gives no other one.
        #[test]
        fn a_lost_value_turns_no_answer_into_another(
            members in prop::collection::vec(prop::option::of(0u8..3), 1..6),
            at: prop::sample::Index,
            complete: bool,
        ) {
            let whole = several(&members, complete);
            let mut members = members;
            let at = at.index(members.len());
            members[at] = None;
            let less = several(&members, false);
            let holds = |n: &u8| *n == 1;
            for (before, after) in [
                (whole.any(holds), less.any(holds)),
                (whole.all(holds), less.all(holds)),
                (whole.at_least(2, holds), less.at_least(2, holds)),
            ] {
                prop_assert!(after.is_err() || after == before);
            }
        }
    }
}
