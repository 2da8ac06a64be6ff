//! The limits of this process's control groups on CPU time and processes (Documentation/admin-guide/cgroup-v2.rst).

use std::sync::Arc;

use super::parse;
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Origin, Percent, Presence, known, node, present};
use crate::probe::Ask;

/// The kernel's period of a quota, in microseconds, where nobody set another.
const PERIOD: f64 = 100_000.0;
/// Where control groups are mounted.
pub(in crate::probe) const ROOT: &str = "/sys/fs/cgroup";
/// Deeper than any manager nests groups.
const LEVELS: usize = 16;

/// States the limits of version 2's hierarchy, and of version 1's if the controllers are there.
pub(super) fn establish(
    ask: &Ask<'_>,
    facts: &mut Facts,
    node: Id,
    cgroup: &Presence<Arc<str>>,
    quotas: &Fact<Vec<Quota>>,
    online: Option<usize>,
) {
    let (throttled, periods) = throttled(ask, quotas, online).unzip();
    facts.set(node, node::CGROUP_PIDS, processes(ask, cgroup));
    facts.set(node, node::CPU_THROTTLED, throttled);
    facts.set(node, node::CPU_PERIODS, periods);
    let files = ["memory.max", "memory.limit_in_bytes"];
    let memory = lowest(ask, cgroup, "memory", files).map(Bytes);
    facts.set(node, node::MEMORY_LIMIT, memory);
}

/// The share of periods in which CPU time ran out, and how many periods there were.
pub(in crate::probe) type Throttled = Fact<(Percent, u64)>;

/// How many processes the groups of a process allow.
pub(in crate::probe) fn processes(ask: &Ask<'_>, cgroup: &Presence<Arc<str>>) -> Fact<u64> {
    lowest(ask, cgroup, "pids", ["pids.max", "pids.max"])
}

/// A group's directory, and how many CPUs' time it may use; none if it has no quota.
type Quota = (String, Result<Option<f64>, Gap>);

/// The quotas of CPU time of a process's group and those above it.
pub(in crate::probe) fn quotas(ask: &Ask<'_>, cgroup: &Presence<Arc<str>>) -> Fact<Vec<Quota>> {
    groups(cgroup, "cpu").map(|(dirs, second)| {
        let quotas = dirs.into_iter().map(|dir| {
            let quota = quota_of(ask, &dir, second);
            (dir, quota)
        });
        quotas.collect()
    })
}

/// How many CPUs' time a process may use by all of these quotas; none without one.
pub(super) fn least(quotas: &Fact<Vec<Quota>>) -> Fact<Option<f64>> {
    let (quotas, origin) = known!(quotas, with origin);
    let mut least: Option<f64> = None;
    for (_, quota) in quotas {
        match quota {
            Ok(Some(quota)) => least = Some(least.map_or(*quota, |least| least.min(*quota))),
            Ok(None) => {}
            Err(gap) => return Fact::Unknown(gap.clone()),
        }
    }
    Fact::Known(least, origin.clone())
}

/// How many processes of a group the kernel has killed because the group may have no more memory (Linux 4.13).
pub(in crate::probe) fn killed(ask: &Ask<'_>, cgroup: &Presence<Arc<str>>) -> Fact<u64> {
    let ((dirs, second), origin) = known!(groups(cgroup, "memory"), with origin);
    let file = if second {
        "memory.events"
    } else {
        "memory.oom_control"
    };
    let Some(own) = dirs.first() else {
        return Fact::Known(0, origin);
    };
    // The root of the hierarchy limits nothing, and neither does a group without the controller.
    ask.text_if_any(format!("{own}/{file}"))
        .parse(0, parse::killed)
}

/// The directories of this process's group and those above it in the hierarchy of a controller, the own one first; with `true`
/// if the hierarchy is version 2's. A kernel without control groups has none.
fn groups(cgroup: &Presence<Arc<str>>, controller: &str) -> Fact<(Vec<String>, bool)> {
    let (text, origin) = present!(cgroup, or(Vec::new(), true));
    let (own, unified) = paths(text, controller);
    let dirs = match own.or(unified) {
        Some(path) if own.is_some() => levels(&format!("{ROOT}/{controller}"), path),
        Some(path) => levels(ROOT, path),
        None => Err(format!("it names no group of {controller}")),
    };
    Fact::Known(own.is_none(), origin.clone()).and_then(|second| Ok((dirs?, second)))
}

/// What /proc/self/cgroup says: the group in the hierarchy of a controller of version 1, and that of version 2.
pub(in crate::probe) fn paths<'t>(
    text: &'t str,
    controller: &str,
) -> (Option<&'t str>, Option<&'t str>) {
    let (mut own, mut unified) = (None, None);
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(names), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if names.split(',').any(|name| name == controller) {
            own = Some(path);
        } else if number == "0" && names.is_empty() {
            unified = Some(path);
        }
    }
    (own, unified)
}

/// The directories of a group and those above it, the own one first.
pub(in crate::probe) fn levels(mount: &str, path: &str) -> Result<Vec<String>, String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.len() > LEVELS || parts.contains(&"..") {
        let what = format!("the group {path:?} is outside of what is mounted here");
        return Err(what);
    }
    let dir = |depth: usize| [&[mount], &parts[..depth]].concat().join("/");
    Ok((0..=parts.len()).rev().map(dir).collect())
}

/// The lowest limit of a controller; the file's name in version 2's hierarchy and in version 1's. The root of a hierarchy has none; in a container the
/// path may lead to what is mounted elsewhere.
fn lowest(
    ask: &Ask<'_>,
    cgroup: &Presence<Arc<str>>,
    controller: &str,
    [second_name, first_name]: [&str; 2],
) -> Fact<u64> {
    let ((dirs, second), origin) = known!(groups(cgroup, controller), with origin);
    let file = if second { second_name } else { first_name };
    let mut lowest: (u64, Origin) = (u64::MAX, origin);
    let mut missing = None;
    for dir in dirs {
        match (ask.text_if_any(format!("{dir}/{file}"))).parse(u64::MAX, parse::limit) {
            Fact::Known(limit, origin) if limit < lowest.0 => lowest = (limit, origin),
            Fact::Known(..) => {}
            Fact::Unknown(gap) => missing = Some(gap),
        }
    }
    Fact::Known(lowest.0, lowest.1).unless(missing)
}

/// How often a quota was used up, of the group with the highest share. A quota of all CPUs that are online holds up nothing.
pub(in crate::probe) fn throttled(
    ask: &Ask<'_>,
    quotas: &Fact<Vec<Quota>>,
    online: Option<usize>,
) -> Throttled {
    let (quotas, origin) = known!(quotas, with origin);
    let mut highest = ((0.0, 0), origin.clone());
    let mut missing = None;
    for (dir, quota) in quotas {
        // Without a quota there are no periods to count.
        match quota {
            Ok(Some(quota)) if online.is_none_or(|online| *quota < online as f64) => {}
            Ok(_) => continue,
            Err(gap) => {
                missing = Some(gap.clone());
                continue;
            }
        }
        match ask.parse(format!("{dir}/cpu.stat"), parse::throttled) {
            Fact::Known(found, origin) if found.0 > highest.0.0 => highest = (found, origin),
            Fact::Known(..) => {}
            Fact::Unknown(gap) => missing = Some(gap),
        }
    }
    let ((share, periods), origin) = highest;
    Fact::Known((Percent(share), periods), origin).unless(missing)
}

/// How many CPUs' time a group may use: `50000 100000`, or version 1's two files. `max 100000` and `-1` are no quota.
fn quota_of(ask: &Ask<'_>, dir: &str, second: bool) -> Result<Option<f64>, Gap> {
    let file = if second {
        "cpu.max"
    } else {
        "cpu.cfs_quota_us"
    };
    let text = ask.text_if_any(format!("{dir}/{file}")).if_any();
    let Some(text) = text.into_result()? else {
        return Ok(None);
    };
    let mut words = text.split_whitespace().map(str::parse::<f64>);
    let Some(Ok(quota)) = words.next().filter(|n| n.as_ref().is_ok_and(|n| *n > 0.0)) else {
        return Ok(None);
    };
    let period = match words.next() {
        Some(Ok(period)) if period > 0.0 => period,
        _ => {
            let period = ask.parse(
                format!("{dir}/cpu.cfs_period_us"),
                crate::probe::whole_number,
            );
            period.known().map_or(PERIOD, |period| *period as f64)
        }
    };
    Ok(Some(quota / period))
}
