//! The limits of this process's control groups on CPU time and processes (Documentation/admin-guide/cgroup-v2.rst).

use std::sync::Arc;

use super::parse;
use crate::fact::{Fact, Facts, Gap, Id, Origin, Percent, Presence, Why, node};
use crate::probe::Ask;

/// Deeper than any manager nests groups.
const LEVELS: usize = 12;

/// States the limits of version 2's hierarchy, and of version 1's if the controllers are there.
pub(super) fn establish(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let cgroup = ask.text_if_any("/proc/self/cgroup");
    let (pids, throttled) = limits(ask, &cgroup);
    facts.set(node, node::CGROUP_PIDS, pids);
    facts.set(node, node::CPU_THROTTLED, throttled);
}

/// How many processes the groups of a process allow, and the share of periods in which their CPU time ran out.
pub(in crate::probe) fn limits(
    ask: &Ask<'_>,
    cgroup: &Presence<Arc<str>>,
) -> (Fact<u64>, Fact<Percent>) {
    let none = match cgroup {
        Presence::Present(text, origin) => {
            return (pids(ask, text, origin), throttled(ask, text, origin));
        }
        // A kernel without control groups limits nothing by them.
        Presence::Absent(origin) => Fact::Known((), origin.clone()),
        Presence::Unknown(gap) => Fact::Unknown(gap.clone()),
    };
    (none.clone().map(|()| u64::MAX), none.map(|()| Percent(0.0)))
}

/// How many processes of a group the kernel has killed because the group may have no more memory (Linux 4.13).
pub(in crate::probe) fn killed(ask: &Ask<'_>, cgroup: &Presence<Arc<str>>) -> Fact<u64> {
    let (text, origin) = match cgroup {
        Presence::Present(text, origin) => (text, origin),
        Presence::Absent(origin) => return Fact::Known(0, origin.clone()),
        Presence::Unknown(gap) => return Fact::Unknown(gap.clone()),
    };
    let (dirs, second) = match groups(text, "memory", origin) {
        Ok(found) => found,
        Err(gap) => return Fact::Unknown(gap),
    };
    let file = if second {
        "memory.events"
    } else {
        "memory.oom_control"
    };
    let Some(own) = dirs.first() else {
        return Fact::Unknown(Gap::missing("the control group"));
    };
    // The root of the hierarchy limits nothing, and neither does a group without the controller.
    let text = ask.text_if_any(format!("{own}/{file}")).if_any();
    text.and_then(|text| text.map_or(Ok(0), |text| parse::killed(&text)))
}

/// The directories of this process's group and those above it in the hierarchy of a controller, the own one first; with `true`
/// if the hierarchy is version 2's.
fn groups(text: &str, controller: &str, origin: &Origin) -> Result<(Vec<String>, bool), Gap> {
    let odd = |what: String| Gap {
        why: Why::NotUnderstood(what.into()),
        origin: origin.clone(),
    };
    let mut unified = None;
    let mut own = None;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(names), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if names.split(',').any(|name| name == controller) {
            own = Some((format!("/sys/fs/cgroup/{controller}"), path));
        } else if number == "0" && names.is_empty() {
            unified = Some(("/sys/fs/cgroup".to_owned(), path));
        }
    }
    let second = own.is_none();
    let (mount, path) = own
        .or(unified)
        .ok_or_else(|| odd(format!("it names no group of {controller}")))?;
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.len() > LEVELS || parts.contains(&"..") {
        return Err(odd(format!(
            "the group {path:?} is outside of what is mounted here"
        )));
    }
    let dir = |depth: usize| {
        let mut dir = mount.clone();
        for part in parts.iter().take(depth) {
            dir.push('/');
            dir.push_str(part);
        }
        dir
    };
    Ok(((0..=parts.len()).rev().map(dir).collect(), second))
}

/// The lowest `pids.max`. The root of a hierarchy has none; in a container the path may lead to what is mounted elsewhere.
fn pids(ask: &Ask<'_>, text: &str, origin: &Origin) -> Fact<u64> {
    let dirs = match groups(text, "pids", origin) {
        Ok((dirs, _)) => dirs,
        Err(gap) => return Fact::Unknown(gap),
    };
    let mut lowest: (u64, Origin) = (u64::MAX, origin.clone());
    let mut missing = None;
    for dir in dirs {
        match ask.text_if_any(format!("{dir}/pids.max")) {
            Presence::Present(text, origin) => {
                match Fact::Known(text, origin).and_then(|text| parse::limit(&text)) {
                    Fact::Known(limit, origin) if limit < lowest.0 => lowest = (limit, origin),
                    Fact::Known(..) => {}
                    Fact::Unknown(gap) => missing = Some(gap),
                }
            }
            Presence::Absent(_) => {}
            Presence::Unknown(gap) => missing = Some(gap),
        }
    }
    Fact::Known(lowest.0, lowest.1).unless(missing)
}

/// The share of periods in which the quota was used up, of the group with the highest share.
fn throttled(ask: &Ask<'_>, text: &str, origin: &Origin) -> Fact<Percent> {
    let (dirs, second) = match groups(text, "cpu", origin) {
        Ok(found) => found,
        Err(gap) => return Fact::Unknown(gap),
    };
    let mut highest: (f64, Origin) = (0.0, origin.clone());
    let mut missing = None;
    for dir in dirs {
        let quota = match second {
            true => format!("{dir}/cpu.max"),
            false => format!("{dir}/cpu.cfs_quota_us"),
        };
        // Without a quota there are no periods to count.
        match ask.text_if_any(quota) {
            Presence::Present(text, _) if !has_quota(&text) => continue,
            Presence::Present(..) => {}
            Presence::Absent(_) => continue,
            Presence::Unknown(gap) => {
                missing = Some(gap);
                continue;
            }
        }
        match ask.parse(format!("{dir}/cpu.stat"), parse::throttled) {
            Fact::Known(share, origin) if share > highest.0 => highest = (share, origin),
            Fact::Known(..) => {}
            Fact::Unknown(gap) => missing = Some(gap),
        }
    }
    Fact::Known(Percent(highest.0), highest.1).unless(missing)
}

/// `max 100000` and `-1` are no quota.
fn has_quota(text: &Arc<str>) -> bool {
    let first = text.split_whitespace().next();
    !matches!(first, Some("max" | "-1") | None)
}
