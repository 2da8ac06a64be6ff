//! How the kernel and launchers write sets of numbers.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::cpu_list;

/// Numbers as the kernel lists them: `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set(Vec<RangeInclusive<u64>>);

impl Set {
    /// Reads a list as `0-3,8`; an empty one is the list of a node without CPUs.
    pub(super) fn read(text: &str) -> Result<Set, String> {
        cpu_list::ranges(text).map(Set)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.0.iter().any(|range| range.contains(&number))
    }

    /// Whether a number is in both.
    pub(super) fn meets(&self, other: &Set) -> bool {
        let mut pairs = self
            .0
            .iter()
            .flat_map(|a| other.0.iter().map(move |b| (a, b)));
        pairs.any(|(a, b)| a.start().max(b.start()) <= a.end().min(b.end()))
    }
}

/// A line of /proc/PID/status: `Cpus_allowed_list:\t0-7`.
pub(in crate::probe) fn status_line(text: &str, name: &str) -> Result<Arc<str>, String> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(|rest| rest.trim().into())
        .ok_or_else(|| format!("it has no {name}"))
}

/// How many tasks a launcher's variable says: `8`, and Slurm's `8(x2),4` for nodes of several sizes, of which the largest counts.
pub(super) fn tasks(text: &str) -> Option<u64> {
    text.split(',')
        .filter_map(|part| part.split('(').next()?.trim().parse().ok())
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_numbers() {
        let set = Set::read("0-3,8\n").unwrap();
        assert!(set.has(0) && set.has(3) && set.has(8) && !set.has(4));
        assert!(set.meets(&Set::read("4-8").unwrap()));
        assert!(!set.meets(&Set::read("4-7,9-1023").unwrap()));
        assert!(Set::read("").unwrap().is_empty());
        for bad in ["3-1", "a", "0-", "-1", "0,,1", "99999999999999999999"] {
            assert!(Set::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_of_status() {
        let text = "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0\n";
        assert_eq!(status_line(text, "Cpus_allowed_list").as_deref(), Ok("0-7"));
        assert_eq!(status_line(text, "Mems_allowed_list").as_deref(), Ok("0"));
        assert!(status_line("Name:\tx\n", "Mems_allowed_list").is_err());
    }

    #[test]
    fn launchers() {
        assert_eq!(tasks("8"), Some(8));
        assert_eq!(tasks("1(x3),8"), Some(8));
        assert_eq!(tasks("many"), None);
    }
}
