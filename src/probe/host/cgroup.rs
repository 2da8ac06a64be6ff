//! The limits of RDMA objects that control groups set (`Documentation/admin-guide/cgroup-v2.rst`, RDMA).

use std::sync::Arc;

use crate::fact::{Fact, Gap, Origin, Presence, present};
use crate::probe::tuning::cgroup::{self, ROOT};
use crate::probe::{Ask, joined};

/// The lines that limit something, in this process's group and those above it; none if nothing is limited. With lines from one group
/// that of another may be unknown.
pub(in crate::probe) fn rdma_limits(ask: &Ask<'_>, cgroup: Presence<Arc<str>>) -> Fact<Limits> {
    // A kernel without control groups limits nothing.
    let (text, origin) = present!(cgroup, or Limits::default());
    let (mount, path) = match hierarchy(ask, &text) {
        Ok(Hierarchy::None(origin)) => return Fact::Known(Limits::default(), origin),
        Ok(Hierarchy::At(mount, path)) => (mount, path),
        Err(gap) => return Fact::Unknown(gap),
    };
    let dirs = match cgroup::levels(mount, &path) {
        Ok(dirs) => dirs,
        Err(what) => return Fact::Unknown(Gap::misread(what, origin)),
    };
    let (mut found, mut missing, mut last) = (Vec::new(), None, origin);
    for dir in dirs {
        match ask.text_if_any(format!("{dir}/rdma.max")) {
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

/// Whether something is limited, and what in words.
pub(in crate::probe) fn in_words(limits: Fact<Limits>) -> (Fact<bool>, Fact<Arc<str>>) {
    let lines = limits.map(|limits| limits.lines);
    lines
        .map(|lines| (!lines.is_empty(), joined(&lines, "; ")))
        .unzip()
}

enum Hierarchy {
    /// There is no controller of RDMA objects.
    None(Origin),
    /// Where it is mounted, and the group of this process.
    At(&'static str, String),
}

/// Finds the hierarchy that has the controller: version 1 names it in /proc/self/cgroup, version 2 in its root.
fn hierarchy(ask: &Ask<'_>, text: &str) -> Result<Hierarchy, Gap> {
    let (own, unified) = cgroup::paths(text, "rdma");
    if let Some(path) = own {
        return Ok(Hierarchy::At("/sys/fs/cgroup/rdma", path.to_owned()));
    }
    for mount in [ROOT, "/sys/fs/cgroup/unified"] {
        match (
            ask.text_if_any(format!("{mount}/cgroup.controllers")),
            &unified,
        ) {
            (Presence::Present(controllers, origin), path) => {
                return Ok(match path {
                    Some(path) if controllers.split_whitespace().any(|name| name == "rdma") => {
                        Hierarchy::At(mount, (*path).to_owned())
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
