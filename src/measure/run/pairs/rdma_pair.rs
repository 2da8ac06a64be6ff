//! A pair that is measured with RDMA writes: what its two ends do, and when.
//!
//! Both ends go through the same steps, and exchange at each of them what they have: so both know
//! when it is over.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::port_process::PortProcess;
use super::rdma::{GreetingResult, WriteResult};
use super::risen;
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::measure::plan::pairs::{Counted, Flow, Memory, counted};

/// How long the two ends wait for each other, beyond the time in which data flows: until a device
/// has given up.
pub(super) const PAIR: Duration = Duration::from_secs(150);

/// The two ends of a pair, as one of them sees it.
pub(super) struct RdmaPair<'e> {
    pub(super) session: &'e Session,
    /// Of the session.
    pub(super) members: [u64; 2],
    /// The other end's rank.
    pub(super) other: u64,
    /// No two pairs have one.
    pub(super) name: String,
    /// Whether this end sends first.
    pub(super) is_first: bool,
    /// For how long data flows each way.
    pub(super) flow: Duration,
    /// Where it is at both ends.
    pub(super) memory: Memory,
    /// Whether smaller packets are tried where data does not get there.
    pub(super) steps_down: bool,
}

/// What packets of RDMA carry, in bytes (`enum ibv_mtu`).
const MTUS: [u64; 4] = [2048, 1024, 512, 256];

/// What came of an attempt, in which both ends agree.
struct Attempt {
    flow: Flow,
    /// The bytes of its packets, where a word came through and data did not.
    blocked: Option<u64>,
}

impl Attempt {
    fn ended(flow: Flow) -> Box<Self> {
        let blocked = None;
        Box::new(Attempt { flow, blocked })
    }
}

/// What an end knows at last of the data that came to it.
#[derive(Serialize, Deserialize)]
struct EndReport {
    receiver: Counted,
    /// Whether what came is what was sent.
    right: Result<(), String>,
    round_trip_ns: Option<u64>,
}

impl RdmaPair<'_> {
    /// Gives what this end has, and hears what the other one has: where one of them is missing,
    /// neither goes on.
    fn both<T: Serialize + DeserializeOwned>(
        &self,
        step: &str,
        own: &T,
    ) -> Result<T, Box<Attempt>> {
        let step = format!("{} {step}", self.name);
        let wait = 2 * self.flow + PAIR;
        let value = serde_json::to_value(own).unwrap_or_default();
        let all =
            (self.session).exchange(&step, &self.members, StepAudience::Everyone, wait, value);
        let gone = |why: String| {
            let why = format!("the other end is gone: {why}");
            Attempt::ended(Flow::failed(why))
        };
        let all = all.map_err(|error| gone(error.to_string()))?;
        let missing = all.missing.values().next().cloned();
        match (missing, all.values.get(&self.other)) {
            (None, Some(theirs)) => {
                T::deserialize(theirs).map_err(|error| gone(format!("not understood: {error}")))
            }
            (why, _) => Err(gone(why.unwrap_or_default())),
        }
    }

    /// Measures. `may` says why this end does not try, where it does not; `count` reads what its
    /// port and interface have counted.
    pub(super) fn measure(
        &self,
        mut station: Option<&mut PortProcess>,
        may: Result<(), String>,
        count: &dyn Fn() -> Counted,
    ) -> Flow {
        let first = self.attempt(station.as_deref_mut(), may, count);
        let (Some(blocked), Some(station)) = (first.blocked, station) else {
            return first.flow;
        };
        let mut flow = first.flow;
        for bytes in MTUS.into_iter().filter(|bytes| *bytes < blocked) {
            let limited = station.limit(bytes);
            let smaller = RdmaPair {
                name: format!("{} {bytes}", self.name),
                ..*self
            };
            let next = smaller.attempt(Some(station), limited, count);
            if next.blocked.is_none() {
                if let (Some(why), None) = (&mut flow.failed, &next.flow.failed) {
                    *why = format!(
                        "packets of {bytes} bytes get through, those of {blocked} do not: {why}"
                    );
                }
                break;
            }
        }
        // The pairs that follow begin as this one did.
        let _ = station.limit(blocked);
        flow
    }

    fn attempt(
        &self,
        station: Option<&mut PortProcess>,
        may: Result<(), String>,
        count: &dyn Fn() -> Counted,
    ) -> Attempt {
        self.try_to(station, may, count)
            .unwrap_or_else(|ended| *ended)
    }

    fn try_to(
        &self,
        station: Option<&mut PortProcess>,
        may: Result<(), String>,
        count: &dyn Fn() -> Counted,
    ) -> Result<Attempt, Box<Attempt>> {
        // An end without an open port says so like any other failure.
        let mut station = station;
        let own = match (may, &mut station) {
            (Err(why), _) => Err(why),
            (Ok(()), None) => Err("no port is open".to_owned()),
            (Ok(()), Some(station)) => station.pair(self.memory),
        };
        let theirs: Result<Value, String> = self.both("open", &own)?;
        let far = own.and(theirs);
        let far = far.map_err(|why| Attempt::ended(Flow::failed(why)))?;
        let Some(station) = station else {
            return Err(Attempt::ended(Flow::failed("no port is open")));
        };
        let connected = station.connect(far);
        let theirs = self.both("connected", &connected)?;
        let connected = match connected.clone().and(theirs) {
            Ok(bytes) => bytes,
            Err(why) => {
                // The kernel, or the device, has no route there.
                let is_own = connected.is_err();
                return Err(Attempt::ended(Flow {
                    arrived: is_own.then_some(false),
                    ..Flow::failed(why)
                }));
            }
        };
        let own = station.greet();
        let theirs = self.both("greeted", &own)?;
        if let Some(flow) = unheard(&own, &theirs) {
            return Err(Attempt::ended(flow));
        }
        let mut written = Err(String::new());
        let (mut sender, mut receiver) = (Counted::new(), Counted::new());
        let mut right = Ok(());
        let mut is_well = true;
        let mut before = count();
        for (step, sends) in [("there", self.is_first), ("back", !self.is_first)] {
            let mut own = Ok(0);
            if sends {
                written = station.write(self.flow);
                own = written.as_ref().map(|w| w.bytes).map_err(Clone::clone);
            }
            let theirs: Result<u64, String> = self.both(step, &own)?;
            is_well &= own.is_ok() && theirs.is_ok();
            if let (false, Ok(bytes)) = (sends, theirs) {
                right = station.check(bytes);
            }
            let after = count();
            let rose = risen(&before, &after);
            before = after;
            if sends {
                sender = rose
            } else {
                receiver = rose
            }
        }
        let mut round_trip_ns = None;
        if is_well && self.is_first {
            round_trip_ns = station.measure_latency(self.flow / 5).ok();
        } else if is_well {
            // Where that fails, the first end has no answer.
            let _ = station.answer_latency(self.flow / 5);
        }
        let own = EndReport {
            receiver,
            right,
            round_trip_ns,
        };
        let theirs = self.both("end", &own)?;
        let written = written.and_then(|written| theirs.right.map(|()| written));
        Ok(Attempt {
            flow: Flow {
                round_trip_ns: round_trip_ns.or(theirs.round_trip_ns),
                ..flow(written, sender, theirs.receiver)
            },
            blocked: Some(connected).filter(|_| self.steps_down && !is_well),
        })
    }
}

/// Why nothing is written where not both ends heard each other.
fn unheard(own: &GreetingResult, theirs: &GreetingResult) -> Option<Flow> {
    let why = match (&own.own, &theirs.own) {
        (Ok(()), Ok(())) => return None,
        (Err(why), _) => why.clone(),
        (Ok(()), Err(why)) => format!("the way back: {why}"),
    };
    // A word that was heard, and whose acknowledgement did not come, says that the way back is
    // broken.
    let is_excused = own.own.is_ok() || (theirs.heard && !own.heard);
    Some(Flow {
        arrived: Some(is_excused),
        ..Flow::failed(why)
    })
}

/// What one direction carried, by its sender and by what both ends counted.
fn flow(written: Result<WriteResult, String>, sender: Counted, receiver: Counted) -> Flow {
    match written {
        Ok(written) => Flow {
            bytes: written.bytes,
            micros: written.micros,
            segments: Some(written.packets),
            again: Some(counted::again(&sender)),
            sender,
            receiver,
            ..Flow::default()
        },
        // Small writes were acknowledged before; what came wrong did not arrive where it belongs.
        Err(why) => Flow {
            arrived: Some(false),
            sender,
            receiver,
            ..Flow::failed(why)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_whose_words_do_not_arrive_is_the_one_that_is_broken() {
        let said = |own: Result<(), &str>, heard| GreetingResult {
            own: own.map_err(str::to_owned),
            heard,
        };
        let well = said(Ok(()), true);
        assert_eq!(unheard(&well, &well), None);
        // What this end sends does not arrive; what it hears it acknowledges, which does not arrive
        // either.
        let (own, theirs) = (said(Err("retry"), true), said(Err("retry"), false));
        assert_eq!(unheard(&own, &theirs).unwrap().arrived, Some(false));
        let back = unheard(&theirs, &own).unwrap();
        assert_eq!(
            (back.arrived, back.failed),
            (Some(true), Some("retry".into()))
        );
        let cut = said(Err("retry"), false);
        assert_eq!(unheard(&cut, &cut).unwrap().arrived, Some(false));
        // Heard by both, and refused to one.
        let refused = said(Err("remote access error"), true);
        assert_eq!(unheard(&refused, &well).unwrap().arrived, Some(false));
        let other = unheard(&well, &refused).unwrap();
        assert_eq!(other.arrived, Some(true));
        assert_eq!(other.failed.unwrap(), "the way back: remote access error");
    }

    #[test]
    fn what_had_to_be_sent_again_is_what_the_sender_counted() {
        let written = WriteResult {
            bytes: 4_096_000,
            micros: 1000,
            packets: 1000,
        };
        let sender: Counted = [("packet_seq_err".to_owned(), 5)].into();
        let receiver: Counted = [("out_of_sequence".to_owned(), 9)].into();
        let flow = flow(Ok(written), sender, receiver.clone());
        assert_eq!((flow.again, flow.loss()), (Some(5), Some(0.5)));
        assert_eq!(flow.receiver, receiver);
    }
}
