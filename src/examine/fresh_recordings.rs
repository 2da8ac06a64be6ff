//! Doubts recordings that hosts have just made: each must be of its own node, and of the present.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::derive::comparison::{Machine, Sample};
use crate::fact::node::{self, Container};
use crate::fact::{Facts, Id, Limits, limit};
use crate::source::recording::Recording;

/// What a recording says of itself that was asked for just now.
pub(super) struct FreshLook {
    /// The time by this machine's clock.
    pub(super) now: String,
    /// Why it may not be of its node, or not of now.
    pub(super) doubt: Option<String>,
}

/// From whom a recording came, and when by this machine's clock.
pub(super) struct FreshRecording<'f> {
    pub(super) all: &'f FreshRecordings,
    pub(super) host: &'f str,
    pub(super) now: String,
}

impl FreshRecording<'_> {
    /// Why the recording is not of now.
    pub(super) fn doubt_time(&self, recording: &Recording, limits: &Limits) -> Option<String> {
        let utc = &recording.header.utc;
        let there = humantime::parse_rfc3339(utc).ok()?;
        let here = humantime::parse_rfc3339(&self.now).ok()?;
        let apart = match here.duration_since(there) {
            Ok(ago) => ago,
            Err(ahead) => ahead.duration(),
        };
        let is_now = apart.as_secs_f64() <= limits.get(limit::RECORDED_NOW).0;
        (!is_now).then(|| format!("{} gave a recording of {utc}, not of now", self.host))
    }

    /// Looks at it; `None` for a recording without a time, which is of no machine.
    pub(super) fn look(
        self,
        recording: &Recording,
        facts: &Facts,
        node: Id,
        sample: &Sample,
    ) -> Option<FreshLook> {
        let utc = &recording.header.utc;
        humantime::parse_rfc3339(utc).ok()?;
        let container = facts.known(node, node::CONTAINER);
        let is_container = container.is_some_and(|kind| kind != Container::None);
        let one = GivenRecording {
            host: self.host.to_owned(),
            stamp: (utc.clone(), recording.header.boottime_ns),
            machine: sample.machine(),
            container: is_container.then(|| Arc::clone(&sample.name)),
        };
        let of_another = self.all.add(one);
        let not_of_now = self.doubt_time(recording, facts.limits());
        Some(FreshLook {
            now: self.now,
            doubt: not_of_now.or(of_another),
        })
    }
}

/// What is kept of a recording that a host gave.
struct GivenRecording {
    host: String,
    /// The time to the millisecond, and that since the boot to the nanosecond.
    stamp: (String, u64),
    machine: Option<Machine>,
    /// The name of a container, of which there may be several on one machine.
    container: Option<Arc<str>>,
}

impl GivenRecording {
    /// Why both are not of two nodes.
    fn doubt_beside(&self, other: &GivenRecording) -> Option<String> {
        let (host, first) = (&self.host, &other.host);
        if self.stamp == other.stamp {
            return Some(format!("{host} gave the same recording as {first}"));
        }
        let (machine, other_machine) = (self.machine.as_ref()?, other.machine.as_ref()?);
        let are_containers = self.container.is_some()
            && other.container.is_some()
            && self.container != other.container;
        (machine.has_ports_of(other_machine) && !are_containers)
            .then(|| format!("{host} gave a recording of the same machine as {first}"))
    }
}

/// The recordings that hosts gave of themselves just now.
#[derive(Default)]
pub(super) struct FreshRecordings {
    /// By their stamps, and by the boot ids of their machines.
    given: Mutex<HashMap<String, Vec<Arc<GivenRecording>>>>,
}

impl FreshRecordings {
    /// Adds one, and says why it may be of a node that gave another one.
    fn add(&self, one: GivenRecording) -> Option<String> {
        let boot = one.machine.as_ref().map(|machine| machine.boot.to_string());
        let keys = [Some(format!("{} {}", one.stamp.0, one.stamp.1)), boot];
        let one = Arc::new(one);
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let mut doubt = None;
        for key in keys.into_iter().flatten() {
            let alike = given.entry(key).or_default();
            if doubt.is_none() {
                doubt = alike.iter().find_map(|other| one.doubt_beside(other));
            }
            alike.push(Arc::clone(&one));
        }
        doubt
    }
}
