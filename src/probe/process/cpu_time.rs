//! What CPUs did between two looks at /proc/stat (proc_stat(5)).

use std::collections::HashMap;

use crate::fact::Percent;

/// The counters of each CPU.
pub(super) type Counters = HashMap<u64, [u64; 8]>;

/// The numbers of a line: user, nice, system, idle, iowait, irq, softirq, steal. Nice work gives way to any other.
const IDLE: [usize; 3] = [1, 3, 4];
const STEAL: usize = 7;

/// Shares of the time of several CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spent {
    /// Idle, or with work that gives way.
    pub(super) idle: Percent,
    /// Taken by the hypervisor for other guests.
    pub(super) stolen: Percent,
}

/// `cpu3 4705 150 1120 16250856 500 0 22 7 0 0`
pub(super) fn parse(text: &str) -> Result<Counters, String> {
    let counters = |line: &str| {
        let (name, numbers) = line.split_once(' ')?;
        let cpu = name.strip_prefix("cpu")?.parse().ok()?;
        let mut numbers = numbers.split_whitespace().map(str::parse::<u64>);
        let mut all = [0; 8];
        for (at, one) in all.iter_mut().enumerate() {
            // Kernels before 2.6.11 have no steal.
            *one = match numbers.next() {
                Some(number) => number.ok()?,
                None if at == STEAL => 0,
                None => return None,
            };
        }
        Some((cpu, all))
    };
    let found: Counters = text.lines().filter_map(counters).collect();
    match found.is_empty() {
        true => Err("it has no line of a CPU".to_owned()),
        false => Ok(found),
    }
}

/// What these CPUs did in between.
pub(super) fn spent(before: &Counters, after: &Counters, cpus: &[u64]) -> Result<Spent, String> {
    let mut sums = [0u64; 8];
    for cpu in cpus {
        let (Some(before), Some(after)) = (before.get(cpu), after.get(cpu)) else {
            continue;
        };
        for (sum, (before, after)) in sums.iter_mut().zip(before.iter().zip(after)) {
            *sum += after.saturating_sub(*before);
        }
    }
    let all: u64 = sums.iter().sum();
    let share = |part: u64| Percent((part as f64 / all as f64 * 1000.0).round() / 10.0);
    match all {
        0 => Err("no time passed on these CPUs".to_owned()),
        _ => Ok(Spent {
            idle: share(IDLE.iter().map(|at| sums[*at]).sum()),
            stolen: share(sums[STEAL]),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_whose_host_is_busy() {
        let before = parse("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 0 50 1000 0 0 0 10 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 5\n").unwrap();
        let after = parse("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 150 20 50 1010 0 0 0 30 0 0\ncpu1 0 0 0 900 0 0 0 0 0 0\nintr 6\n").unwrap();
        let of = |cpus: &[u64]| spent(&before, &after, cpus).map(|s| (s.idle.0, s.stolen.0));
        assert_eq!(of(&[0]), Ok((30.0, 20.0)));
        assert_eq!(of(&[0, 1]), Ok((93.0, 2.0)));
        assert!(of(&[7]).is_err());
        assert!(parse("intr 5\n").is_err());
    }
}
