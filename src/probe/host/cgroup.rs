//! The limits of RDMA objects that control groups set (`Documentation/admin-guide/cgroup-v2.rst`, RDMA).

use std::sync::Arc;

use crate::fact::{Fact, Gap, Origin, Presence};
use crate::probe::Ask;

const ROOT: &str = "/sys/fs/cgroup";
/// Deeper than any manager nests groups.
const LEVELS: usize = 16;

/// The lines that limit something, in this process's group and those above it; none if nothing is limited. With lines from one group
/// that of another may be unknown.
pub(in crate::probe) fn rdma_limits(ask: &Ask<'_>, cgroup: Presence<Arc<str>>) -> Fact<Limits> {
    let (text, origin) = match cgroup {
        Presence::Present(text, origin) => (text, origin),
        // A kernel without control groups.
        Presence::Absent(origin) => return Fact::Known(Limits::default(), origin),
        Presence::Unknown(gap) => return Fact::Unknown(gap),
    };
    let (mount, path) = match hierarchy(ask, &text) {
        Ok(Hierarchy::None(origin)) => return Fact::Known(Limits::default(), origin),
        Ok(Hierarchy::At(mount, path)) => (mount, path),
        Err(gap) => return Fact::Unknown(gap),
    };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.len() > LEVELS || parts.contains(&"..") {
        let what = format!("the group {path:?} is outside of what is mounted here");
        return Fact::Unknown(super::odd(origin, what));
    }
    let (mut found, mut missing, mut last) = (Vec::new(), None, origin);
    for depth in (0..=parts.len()).rev() {
        let mut file = mount.to_owned();
        for part in &parts[..depth] {
            file.push('/');
            file.push_str(part);
        }
        file.push_str("/rdma.max");
        match ask.text_if_any(file) {
            Presence::Present(text, origin) => {
                let limiting = text.lines().filter(|line| limits(line)).map(Arc::from);
                let before = found.len();
                found.extend(limiting);
                // The evidence is the file that limits, else the last one that was there.
                if found.len() > before || found.is_empty() {
                    last = origin;
                }
            }
            Presence::Absent(origin) if found.is_empty() => last = origin,
            Presence::Absent(_) => {}
            Presence::Unknown(gap) => {
                missing.get_or_insert(gap);
            }
        }
    }
    match missing {
        Some(gap) if found.is_empty() => Fact::Unknown(gap),
        open => Fact::Known(Limits { lines: found, open }, last),
    }
}

/// What limits RDMA objects.
#[derive(Clone, Default)]
pub(in crate::probe) struct Limits {
    /// The lines of rdma.max that limit something.
    pub lines: Vec<Arc<str>>,
    /// Why there may be more.
    pub open: Option<Gap>,
}

enum Hierarchy {
    /// There is no controller of RDMA objects.
    None(Origin),
    /// Where it is mounted, and the group of this process.
    At(&'static str, String),
}

/// Finds the hierarchy that has the controller: version 1 names it in /proc/self/cgroup, version 2 in its root.
fn hierarchy(ask: &Ask<'_>, text: &str) -> Result<Hierarchy, Gap> {
    let mut unified = None;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if controllers.split(',').any(|name| name == "rdma") {
            return Ok(Hierarchy::At("/sys/fs/cgroup/rdma", path.to_owned()));
        }
        if number == "0" && controllers.is_empty() {
            unified = Some(path.to_owned());
        }
    }
    for mount in [ROOT, "/sys/fs/cgroup/unified"] {
        match (
            ask.text_if_any(format!("{mount}/cgroup.controllers")),
            &unified,
        ) {
            (Presence::Present(controllers, origin), path) => {
                return Ok(match path {
                    Some(path) if controllers.split_whitespace().any(|name| name == "rdma") => {
                        Hierarchy::At(mount, path.clone())
                    }
                    _ => Hierarchy::None(origin),
                });
            }
            // Version 1, with version 2 beside it or without.
            (Presence::Absent(origin), _) if mount != ROOT => return Ok(Hierarchy::None(origin)),
            (Presence::Absent(_), _) => {}
            (Presence::Unknown(gap), _) => return Err(gap),
        }
    }
    Err(Gap::missing("the control group of RDMA objects"))
}

/// Whether a line as `mlx5_0 hca_handle=2 hca_object=max` limits anything.
fn limits(line: &str) -> bool {
    line.split_whitespace()
        .filter_map(|word| word.split_once('='))
        .any(|(_, limit)| limit != "max")
}
