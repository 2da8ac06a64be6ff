//! Queue pairs of processes, as RDMA netlink lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fact::{Fact, Gap};
use crate::probe::{Ask, nldev};
use crate::source::Question;
use crate::source::netlink::{Attributes, messages, text};

/// `enum rdma_nldev_attr` (include/uapi/rdma/rdma_netlink.h, which is ABI).
const RDMA_NLDEV_ATTR_DEV_NAME: u16 = 2;
const RDMA_NLDEV_ATTR_PORT_INDEX: u16 = 3;
const RDMA_NLDEV_ATTR_RES_QP: u16 = 19;
const RDMA_NLDEV_ATTR_RES_LQPN: u16 = 21;
const RDMA_NLDEV_ATTR_RES_RQPN: u16 = 22;
const RDMA_NLDEV_ATTR_RES_RQ_PSN: u16 = 23;
const RDMA_NLDEV_ATTR_RES_STATE: u16 = 27;
const RDMA_NLDEV_ATTR_RES_PID: u16 = 28;

/// `enum ib_qp_state` (include/rdma/ib_verbs.h): a send queue in error, and a queue pair in error.
const FAILED: [u32; 2] = [5, 6];

/// The same: a queue pair that receives, and one that sends too. One that nobody sends by stays in the first.
const CONNECTED: [u32; 2] = [2, 3];

/// The numbers of the two queue pairs of a connection: this end's and the other's.
type Ends = (u32, u32);

/// The queue pairs of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueuePairs {
    pub(super) all: u64,
    /// `mlx5_0 QP 1234 (peer 5678)`
    pub(super) failed: Vec<String>,
    /// How many are on each device, and on which of its ports, where the kernel says that.
    places: BTreeMap<(Arc<str>, Option<u32>), u64>,
    /// Which packet each connected one expects next, where the kernel says that. What one sends next goes up and down while it sends again.
    expected: BTreeMap<Ends, u32>,
    /// The connected ones that carried nothing between two looks.
    still: BTreeSet<Ends>,
}

impl QueuePairs {
    /// How many of these connections with another process's queue pairs carried nothing, by both of their ends' numbers.
    pub(super) fn still_with(&self, other: &QueuePairs) -> u64 {
        let is_other_end = |(own, peer): &&Ends| other.still.contains(&(*peer, *own));
        self.still.iter().filter(is_other_end).count() as u64
    }

    /// How many are on a port; of a device with one port all, whatever the kernel says.
    pub(super) fn count_on(&self, device: &str, number: &str, ports: usize) -> u64 {
        let is_there = |(on, port): &(Arc<str>, Option<u32>)| {
            &**on == device && (ports == 1 || port.is_some_and(|port| port.to_string() == number))
        };
        let places = self.places.iter().filter(|(place, _)| is_there(place));
        places.map(|(_, count)| count).sum()
    }
}

/// Those of each process that has some, by its number.
pub(super) type Found = BTreeMap<u32, QueuePairs>;

/// What an earlier look and this one say together: this one, with what carried nothing meanwhile. A recording may have one look alone.
pub(super) fn join(earlier: Result<Found, Gap>, later: Result<Found, Gap>) -> Result<Found, Gap> {
    let (Ok(earlier), Ok(later)) = (&earlier, &later) else {
        return later.or(earlier);
    };
    let mut found = later.clone();
    for (pid, own) in &mut found {
        let before = earlier.get(pid).map(|before| &before.expected);
        let is_still = |(ends, expected): &(&Ends, &u32)| {
            before.and_then(|before| before.get(ends)) == Some(expected)
        };
        own.still = own
            .expected
            .iter()
            .filter(is_still)
            .map(|(ends, _)| *ends)
            .collect();
    }
    Ok(found)
}

/// Asks for those of all devices, once: each is a question to its device.
pub(super) fn read(ask: &Ask<'_>) -> Result<Found, Gap> {
    let mut found = Found::new();
    // Without the class no module of RDMA is loaded, and none is to be.
    match ask.exists("/sys/class/infiniband") {
        Fact::Known(true, _) => {}
        Fact::Known(false, _) => return Ok(found),
        Fact::Unknown(gap) => return Err(gap),
    }
    let devices = ask.bytes(Question::netlink("rdma/dev-get", []));
    let devices = devices
        .and_then(|bytes| nldev::device_indexes(&bytes))
        .into_result()?;
    for index in devices.values() {
        let question = Question::netlink("rdma/qp-get", [("device", u64::from(*index).into())]);
        let all = ask
            .bytes(question)
            .and_then(|bytes| queue_pairs(&bytes))
            .into_result()?;
        for one in all {
            let of_process = found.entry(one.pid).or_default();
            of_process.all += 1;
            let place = (Arc::clone(&one.device), one.port);
            *of_process.places.entry(place).or_default() += 1;
            if let (Some(peer), Some(expected)) = (one.peer, one.expected)
                && CONNECTED.contains(&one.state)
            {
                of_process.expected.insert((one.number, peer), expected);
            }
            if FAILED.contains(&one.state) {
                of_process.failed.push(one.name());
            }
        }
    }
    Ok(found)
}

struct QueuePair {
    device: Arc<str>,
    port: Option<u32>,
    number: u32,
    peer: Option<u32>,
    expected: Option<u32>,
    pid: u32,
    state: u32,
}

impl QueuePair {
    fn name(&self) -> String {
        let peer = self
            .peer
            .map_or(String::new(), |peer| format!(" (peer's {peer})"));
        format!("{} QP {}{peer}", self.device, self.number)
    }
}

/// Those of processes: the kernel's own have a name in place of a process's number.
fn queue_pairs(bytes: &[u8]) -> Result<Vec<QueuePair>, String> {
    let mut found = Vec::new();
    for message in messages::<0>(bytes) {
        let attributes = message?.attributes;
        let device = attributes.find(RDMA_NLDEV_ATTR_DEV_NAME)?;
        let device = text(device.ok_or("a queue pair without a device")?)?;
        let entries = attributes.nested(RDMA_NLDEV_ATTR_RES_QP)?;
        for entry in entries.into_iter().flat_map(Attributes::each) {
            let entry = Attributes(entry?.1);
            let Some(pid) = entry.number(RDMA_NLDEV_ATTR_RES_PID)? else {
                continue;
            };
            let number = entry.number(RDMA_NLDEV_ATTR_RES_LQPN)?;
            let state = entry.number(RDMA_NLDEV_ATTR_RES_STATE)?;
            found.push(QueuePair {
                device: Arc::clone(&device),
                port: entry.number(RDMA_NLDEV_ATTR_PORT_INDEX)?,
                number: number.ok_or("a queue pair without a number")?,
                peer: entry.number(RDMA_NLDEV_ATTR_RES_RQPN)?,
                expected: entry.number(RDMA_NLDEV_ATTR_RES_RQ_PSN)?,
                pid,
                state: state.ok_or("a queue pair without a state")?,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::netlink::attribute;
    use crate::source::testing::message;

    fn entry(number: u32, state: u8, pid: Option<u32>) -> Vec<u8> {
        let mut fields = [
            attribute(RDMA_NLDEV_ATTR_RES_LQPN, &number.to_le_bytes()),
            attribute(RDMA_NLDEV_ATTR_RES_RQPN, &(number + 1000).to_le_bytes()),
            attribute(RDMA_NLDEV_ATTR_RES_STATE, &[state]),
        ]
        .concat();
        if let Some(pid) = pid {
            fields.extend(attribute(RDMA_NLDEV_ATTR_RES_PID, &pid.to_le_bytes()));
        }
        attribute(20, &fields)
    }

    #[test]
    fn a_connection_that_carried_nothing_is_found_by_both_of_its_ends() {
        let look = |pid: u32, ends: Ends, expected: u32| {
            let own = QueuePairs {
                expected: BTreeMap::from([(ends, expected)]),
                ..QueuePairs::default()
            };
            Ok(Found::from([(pid, own)]))
        };
        let ours = join(look(7, (17, 33), 5), look(7, (17, 33), 5)).unwrap();
        let theirs = join(look(8, (33, 17), 9), look(8, (33, 17), 9)).unwrap();
        let moved = join(look(8, (33, 17), 9), look(8, (33, 17), 10)).unwrap();
        assert_eq!(ours[&7].still_with(&theirs[&8]), 1);
        assert_eq!(ours[&7].still_with(&moved[&8]), 0);
        let once = join(look(7, (17, 33), 5), Err(Gap::missing("a second look"))).unwrap();
        assert_eq!(once[&7].still_with(&theirs[&8]), 0);
    }

    #[test]
    fn queue_pairs_have_their_process_and_state() {
        let entries = [
            entry(17, 3, Some(77)),
            entry(18, 6, Some(77)),
            entry(1, 3, None),
        ]
        .concat();
        let body = [
            attribute(1, &0u32.to_le_bytes()),
            attribute(RDMA_NLDEV_ATTR_DEV_NAME, b"mlx5_0\0"),
            attribute(RDMA_NLDEV_ATTR_RES_QP, &entries),
        ]
        .concat();
        let bytes = message(5 << 10 | 10, &body);
        let found = queue_pairs(&bytes).unwrap();
        let numbers: Vec<(u32, u32, u32)> = found
            .iter()
            .map(|one| (one.pid, one.number, one.state))
            .collect();
        assert_eq!(numbers, [(77, 17, 3), (77, 18, 6)]);
        assert_eq!(found[1].name(), "mlx5_0 QP 18 (peer's 1018)");
        let place = |port| (Arc::from("mlx5_0"), port);
        let own = QueuePairs {
            places: BTreeMap::from([(place(Some(1)), 2), (place(Some(2)), 3), (place(None), 4)]),
            ..QueuePairs::default()
        };
        assert_eq!(own.count_on("mlx5_0", "2", 2), 3);
        // The device has one port: the kernel need not say which.
        assert_eq!(own.count_on("mlx5_0", "1", 1), 9);
        assert_eq!(own.count_on("mlx5_1", "1", 1), 0);
        assert!(queue_pairs(&bytes[..bytes.len() - 9]).is_err());
        assert!(queue_pairs(b"").unwrap().is_empty());
    }
}
