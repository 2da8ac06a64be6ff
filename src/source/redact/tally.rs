//! What was replaced, by kind: each thing counts once, however often it stands in a recording.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The kinds, as a person calls one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Replaced {
    Domain,
    Guid,
    Host,
    IpAddress,
    MacAddress,
    /// A word, directory or file that is on no list of what is kept.
    Name,
    Program,
    Secret,
    Serial,
    User,
    Uuid,
}

impl Replaced {
    fn name(self) -> &'static str {
        match self {
            Replaced::Domain => "domain",
            Replaced::Guid => "GUID",
            Replaced::Host => "host name",
            Replaced::IpAddress => "IP address",
            Replaced::MacAddress => "MAC address",
            Replaced::Name => "other name",
            Replaced::Program => "program",
            Replaced::Secret => "secret",
            Replaced::Serial => "serial number",
            Replaced::User => "user",
            Replaced::Uuid => "UUID",
        }
    }
}

/// The count, shared by all copies of a key.
#[derive(Clone, Default)]
pub(super) struct Tally(Arc<Mutex<BTreeMap<Replaced, HashSet<u64>>>>);

impl Tally {
    /// Counts a thing, which this number stands for.
    pub(super) fn add(&self, kind: Replaced, thing: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(kind).or_default().insert(thing);
    }

    /// How many of each kind there were.
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .map(|(kind, things)| (kind.name().to_owned(), things.len() as u64))
            .collect()
    }
}
