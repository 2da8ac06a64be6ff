//! Lists of CPUs or NUMA nodes, as the kernel writes them: `0-15,32-47`.

use std::ops::RangeInclusive;

/// More CPUs than any kernel can be built for.
const MOST: u64 = 65536;

/// The ranges of a list, in its order; of an empty text none.
pub(crate) fn ranges(text: &str) -> Result<Vec<RangeInclusive<u64>>, String> {
    let text = text.trim();
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < MOST).then_some(first..=last)
    };
    let parts = text.split(',').filter(|_| !text.is_empty());
    parts.map(range).collect::<Option<_>>().ok_or_else(|| {
        let start: String = text.chars().take(40).collect();
        format!("{start:?} is not a list of numbers")
    })
}

/// The numbers of a list, in its order.
pub(crate) fn numbers(text: &str) -> Result<Vec<u64>, String> {
    Ok(ranges(text)?.into_iter().flatten().collect())
}

/// The CPUs that a process may run on: `Cpus_allowed_list` of its status (proc_pid_status(5)).
pub(crate) fn allowed(status: &str) -> Result<Vec<u64>, String> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    numbers(line.ok_or("it has no Cpus_allowed_list")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(numbers("0-2,8\n"), Ok(vec![0, 1, 2, 8]));
        assert_eq!(ranges("0-2,8\n"), Ok(vec![0..=2, 8..=8]));
        assert_eq!(numbers(""), Ok(vec![]));
        assert_eq!(numbers("\n"), Ok(vec![]));
        for bad in [
            "3-1",
            "x",
            "1-",
            "-1",
            "0,,1",
            "0-99999999",
            "99999999999999999999",
        ] {
            assert!(numbers(bad).is_err(), "{bad}");
        }
    }
}
