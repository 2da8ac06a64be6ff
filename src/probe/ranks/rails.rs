//! What a node's RDMA ports did between two looks: their states, the errors that they counted, and
//! whether data moved.

use std::sync::Arc;

use super::found::FoundJob;
use crate::fact::counter::CounterClass;
use crate::fact::counter_table::{COUNTERS, meaning};
use crate::fact::{Bytes, Facts, Gap, Presence, Why, limit};
use crate::probe::{Ask, inside, whole_number};
use crate::source::{Question, Refusal};

/// The devices of RDMA.
const CLASS: &str = "/sys/class/infiniband";
/// Ports of a node that are looked at.
const PORTS: usize = 128;

/// A counter of a port.
struct Counter {
    name: Arc<str>,
    question: Question,
    first: u64,
}

/// A port at the first look.
struct PortLook {
    device: Arc<str>,
    number: Arc<str>,
    counters: Vec<Counter>,
}

/// The ports of a node at the first look.
pub(super) struct RailsLook {
    ports: Vec<PortLook>,
    gaps: Vec<Gap>,
    was_asked: bool,
}

/// What a port did between the looks.
#[derive(Debug)]
pub(super) struct PortMove {
    pub(super) device: Arc<str>,
    pub(super) number: Arc<str>,
    /// Its state in words of the kernel, in the second look: `ACTIVE`.
    state: Option<Arc<str>>,
    /// The counters of errors that rose, and by how much.
    raised: Vec<(Arc<str>, u64)>,
    /// What it sent or received, by the counter that rose most.
    traffic: Bytes,
}

/// The ports of a node.
#[derive(Debug, Default)]
pub(super) struct Rails {
    pub(super) ports: Vec<PortMove>,
    /// What did not answer.
    pub(super) gaps: Vec<Gap>,
    /// False of a recording that does not hold the first question about them.
    pub(super) was_asked: bool,
}

impl RailsLook {
    /// Reads what counts errors and traffic, where somebody computes.
    pub(super) fn first(ask: &Ask<'_>, jobs: &[FoundJob]) -> Self {
        let mut look = RailsLook {
            ports: Vec::new(),
            gaps: Vec::new(),
            was_asked: true,
        };
        if jobs.is_empty() {
            return look;
        }
        for device in names(ask, CLASS, &mut look).iter() {
            let ports = format!("{CLASS}/{device}/ports");
            for number in names(ask, &ports, &mut look).iter() {
                if look.ports.len() == PORTS {
                    break;
                }
                let port = inside(&ports, number);
                let counters = look.counters(ask, &port);
                look.ports.push(PortLook {
                    device: Arc::clone(device),
                    number: Arc::clone(number),
                    counters,
                });
            }
        }
        look
    }

    fn counters(&mut self, ask: &Ask<'_>, port: &str) -> Vec<Counter> {
        let mut found = Vec::new();
        for directory in ["counters", "hw_counters"] {
            let directory = inside(port, directory);
            for name in names(ask, &directory, self).iter() {
                if meaning(name).is_none_or(|meaning| meaning.class == CounterClass::Congestion) {
                    continue;
                }
                let question = Question::read(inside(&directory, name));
                match ask.text_at(&question).1 {
                    // `N/A (no PMA)` counts nothing.
                    Ok(text) => found.extend(whole_number(&text).ok().map(|first| Counter {
                        name: Arc::clone(name),
                        question,
                        first,
                    })),
                    // A counter that a virtual function lacks answers with an error, and is none.
                    Err(gap) if gap.why.is_not_offered() => {}
                    Err(gap) => self.gaps.push(gap),
                }
            }
        }
        found
    }

    /// Reads again.
    pub(super) fn look_again(self, ask: &Ask<'_>) -> Rails {
        let mut rails = Rails {
            ports: Vec::new(),
            gaps: self.gaps,
            was_asked: self.was_asked,
        };
        for port in self.ports {
            let path = format!("{CLASS}/{}/ports/{}/state", port.device, port.number);
            // `4: ACTIVE`
            let state = match ask.text(path).into_result() {
                Ok(text) => Some(text.rsplit(": ").next().unwrap_or("").trim().into()),
                Err(gap) => {
                    rails.gaps.push(gap);
                    None
                }
            };
            let mut moved = PortMove {
                device: port.device,
                number: port.number,
                state,
                raised: Vec::new(),
                traffic: Bytes(0),
            };
            for counter in port.counters {
                let second = match ask.text_at(&counter.question).1 {
                    Ok(text) => whole_number(&text).unwrap_or(counter.first),
                    Err(gap) => {
                        rails.gaps.push(gap);
                        continue;
                    }
                };
                let rise = second.saturating_sub(counter.first);
                match meaning(&counter.name).map(|meaning| meaning.class) {
                    Some(CounterClass::Traffic) => {
                        moved.traffic = moved.traffic.max(bytes(&counter.name, rise));
                    }
                    Some(_) if rise > 0 => moved.raised.push((counter.name, rise)),
                    _ => {}
                }
            }
            rails.ports.push(moved);
        }
        rails
    }
}

/// The names in a directory; none where it is not there.
fn names(ask: &Ask<'_>, path: &str, look: &mut RailsLook) -> Arc<[Arc<str>]> {
    match ask.names_if_any(path) {
        Presence::Present(names, _) => names,
        Presence::Absent(_) => Arc::new([]),
        Presence::Unknown(gap) => {
            look.was_asked &= path != CLASS || !is_not_recorded(&gap);
            look.gaps.push(gap);
            Arc::new([])
        }
    }
}

/// Whether a recording does not hold the answer.
pub(super) fn is_not_recorded(gap: &Gap) -> bool {
    matches!(gap.why, Why::Refused(Refusal::NotRecorded))
}

/// What a counter of traffic counted: `port_xmit_data` counts units of four octets; those of soft-RoCE count packets, of the
/// path MTU that it begins with.
fn bytes(counter: &str, rise: u64) -> Bytes {
    let unit = if counter.ends_with("_data") { 4 } else { 1024 };
    Bytes(rise.saturating_mul(unit))
}

impl PortMove {
    /// `mlx5_0/1`
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.device, self.number)
    }

    /// Its state, where it carries nothing.
    pub(super) fn unusable(&self) -> Option<&str> {
        self.state.as_deref().filter(|state| *state != "ACTIVE")
    }
}

impl Rails {
    /// `mlx5_0/1: local_ack_timeout_err +3 (acknowledgements that did not come in time)`, of each port the error that rose most.
    pub(super) fn raised(&self) -> Vec<String> {
        let mut said = Vec::new();
        for port in &self.ports {
            let Some((name, rise)) = port.raised.iter().max_by_key(|(_, rise)| *rise) else {
                continue;
            };
            let row = COUNTERS.iter().find(|(counter, ..)| *counter == &**name);
            let counts = row.map_or(String::new(), |(.., counts)| format!(" ({counts})"));
            said.push(format!("{}: {name} +{rise}{counts}", port.name()));
        }
        said
    }

    /// How many ports a device has.
    pub(super) fn ports_of(&self, device: &str) -> usize {
        self.ports
            .iter()
            .filter(|port| &*port.device == device)
            .count()
    }

    /// Whether a port sent or received more than housekeeping.
    pub(super) fn have_moved(&self, facts: &Facts) -> bool {
        let least = facts.limit(limit::RANK_DATA);
        self.ports.iter().any(|port| port.traffic >= least)
    }
}
