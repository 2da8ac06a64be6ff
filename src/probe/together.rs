//! Facts that the nodes of a run measured when they joined: the clock offset between this node and rank 0.
//!
//! It asks nothing if a node is recorded alone: there is no clock to compare with.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;

use super::{Ask, Probe};
use crate::fact::{Fact, Facts, Id, Seconds, Subject, interface, node};
use crate::source::Question;
use crate::source::recording::Recording;

/// The probe. It runs over recordings only; rank 0 adds the lines that it reads.
pub const PROBE: Probe = Probe::new("together", run);

/// The reply: how far the clock is ahead, and in which run that was measured.
#[derive(Clone, serde::Serialize, Deserialize)]
struct MeasuredOffset {
    /// Nanoseconds; negative if it is behind.
    ns: i64,
    /// By how many nanoseconds that may be wrong.
    within_ns: u64,
    run: u64,
}

fn question() -> Question {
    Question::call("clock_offset", [])
}

fn meeting() -> Question {
    Question::call("meeting_address", [])
}

/// Adds the address by which this machine met the others of its run to its recording.
pub fn note_meeting(recording: &mut Recording, address: IpAddr) {
    let whole = recording.is_complete();
    let value = serde_json::json!({ "address": address.to_string() });
    recording.replace(PROBE.name, meeting(), value);
    if whole {
        recording.end();
    }
}

/// The interface that has an address.
fn interface_of(facts: &Facts, node: Id, address: &str) -> Option<Arc<str>> {
    let has = |id: &Id| {
        let all = facts.known(*id, interface::ADDRESSES).unwrap_or_default();
        let own = |text: &Arc<str>| text.split('/').next() == Some(address);
        all.iter().any(own)
    };
    let mut all = facts.below(node, Subject::Interface);
    Some(facts.name(all.find(has)?).into())
}

/// Adds this machine's clock offset to rank 0, in the run of this number, to its recording.
pub fn note(recording: &mut Recording, ns: i64, within_ns: u64, run: u64) {
    let whole = recording.is_complete();
    let measured = MeasuredOffset { ns, within_ns, run };
    // Three numbers: there is nothing that JSON cannot hold.
    let value = serde_json::to_value(measured).unwrap_or_default();
    recording.replace(PROBE.name, question(), value);
    if whole {
        recording.end();
    }
}

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let measured = ask.read::<MeasuredOffset>(question());
    let seconds = |nanoseconds: f64| Seconds(nanoseconds / 1e9);
    let offset = measured.clone().map(|it| seconds(it.ns as f64));
    facts.set(node, node::CLOCK_OFFSET, offset);
    let within = measured.clone().map(|it| seconds(it.within_ns as f64));
    facts.set(node, node::CLOCK_OFFSET_WITHIN, within);
    facts.set(node, node::CLOCK_OFFSET_RUN, measured.map(|it| it.run));
    if let Fact::Known(said, origin) = ask.value(meeting())
        && let Some(address) = said.get("address").and_then(serde_json::Value::as_str)
        && let Some(name) = interface_of(facts, node, address)
    {
        facts.know(node, node::MET_BY, name, &origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::wire::Header;

    #[test]
    fn what_is_noted_is_known() {
        let mut recording = Recording::new(Header::default());
        recording.end();
        let mut facts = Facts::new();
        let alone = crate::probe::establish(&recording, &mut facts);
        assert_eq!(facts.known(alone, node::CLOCK_OFFSET), None);
        note(&mut recording, -3_250_000_000, 200_000, 77);
        assert!(recording.is_complete());
        let node = crate::probe::establish(&recording, &mut facts);
        assert_eq!(facts.known(node, node::CLOCK_OFFSET), Some(Seconds(-3.25)));
        assert_eq!(
            facts.known(node, node::CLOCK_OFFSET_WITHIN),
            Some(Seconds(0.0002))
        );
        assert_eq!(facts.known(node, node::CLOCK_OFFSET_RUN), Some(77));
    }
}
