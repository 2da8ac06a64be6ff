//! Neighbours: who answered, who was written down, and how many there are.

use std::net::IpAddr;

use super::{Ask, routing};
use crate::fact::Fact;
use crate::probe::messages_of;
use crate::source::Question;
use crate::source::netlink::{u16_at, u32_at};

const RTM_NEWNEIGH: u16 = 28;
/// `NUD_FAILED`, `NUD_PERMANENT`
const FAILED: u16 = 0x20;
const PERMANENT: u16 = 0x80;

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::probe) struct Neighbour {
    /// The interface's number.
    pub(in crate::probe) index: u32,
    pub(in crate::probe) address: IpAddr,
    /// Its MAC address as Linux writes it; none if it is not known.
    pub(in crate::probe) mac: Option<String>,
    /// Whether it did not answer.
    pub(in crate::probe) failed: bool,
    /// Whether somebody wrote it down.
    pub(in crate::probe) permanent: bool,
}

/// The neighbours of both versions of IP.
pub(in crate::probe) struct Neighbours {
    pub(in crate::probe) four: Fact<Vec<Neighbour>>,
    /// IPv6's matter where an interface has a network or a gateway of IPv6.
    pub(in crate::probe) six: Fact<Vec<Neighbour>>,
}

impl Neighbours {
    pub(super) fn ask(ask: &Ask<'_>) -> Self {
        let read = |question| ask.bytes(question).and_then(|bytes| read(&bytes));
        Neighbours {
            four: read(Question::netlink("route/getneigh", [])),
            six: read(Question::netlink("route/getneigh", [("family", 6.into())])),
        }
    }

    /// Those of the version of an address.
    pub(super) fn of(&self, address: IpAddr) -> &Fact<Vec<Neighbour>> {
        match address {
            IpAddr::V4(_) => &self.four,
            IpAddr::V6(_) => &self.six,
        }
    }

    /// Those that are known.
    pub(super) fn known(&self) -> impl Iterator<Item = &Neighbour> {
        [&self.four, &self.six]
            .into_iter()
            .filter_map(Fact::known)
            .flatten()
    }
}

/// The neighbours of a reply.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Neighbour>, String> {
    let mut all = Vec::new();
    // struct ndmsg: family, padding, interface, state, flags, type.
    for message in messages_of::<12>(bytes, &[RTM_NEWNEIGH]) {
        let message = message?;
        let address = message.attributes.find(1)?;
        let Some(address) = address.and_then(routing::ip) else {
            continue;
        };
        let mac = message.attributes.find(2)?.filter(|mac| mac.len() == 6);
        let state = u16_at(message.fixed, 8).unwrap_or(0);
        all.push(Neighbour {
            index: u32_at(message.fixed, 4).unwrap_or(0),
            address,
            mac: mac.map(|mac| {
                mac.iter()
                    .map(|b| format!("{b:02x}"))
                    .collect::<Vec<_>>()
                    .join(":")
            }),
            failed: state & FAILED != 0,
            permanent: state & PERMANENT != 0,
        });
    }
    Ok(all)
}

/// The number of neighbours: the first column of the first CPU's line, hexadecimal.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let line = text.lines().nth(1).ok_or("no line of numbers")?;
    let first = line.split_whitespace().next().unwrap_or_default();
    u64::from_str_radix(first, 16).map_err(|_| format!("{first:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::netlink::attribute;
    use crate::source::testing::message;

    #[test]
    fn a_neighbour_that_was_written_down_and_one_that_failed() {
        let one = |state: u8, rest: &[u8]| {
            let fixed = [2, 0, 0, 0, 3, 0, 0, 0, state, 0, 0, 1];
            message(
                28,
                &[&fixed[..], &attribute(1, &[10, 1, 2, 3]), rest].concat(),
            )
        };
        let bytes = [
            one(0x80, &attribute(2, &[2, 4, 6, 8, 10, 255])),
            one(0x20, &[]),
        ]
        .concat();
        let all = read(&bytes).unwrap();
        assert_eq!(all[0].mac.as_deref(), Some("02:04:06:08:0a:ff"));
        assert!(all[0].permanent && !all[0].failed && all[1].failed);
        let ten: IpAddr = [10, 1, 2, 3].into();
        assert_eq!((all[1].index, all[1].address), (3, ten));
        let six: IpAddr = "fd00::1".parse().unwrap();
        let IpAddr::V6(octets) = six else { panic!() };
        let fixed = [10, 0, 0, 0, 3, 0, 0, 0, 0x20, 0, 0, 1];
        let of_six = message(28, &[&fixed[..], &attribute(1, &octets.octets())].concat());
        assert_eq!(read(&of_six).unwrap()[0].address, six);
        assert!(read(&message(24, &[0; 12])).is_err());
    }

    #[test]
    fn the_kernel_counts_neighbours_in_hexadecimal() {
        let text = "entries  allocs   destroys hash_grows lookups  hits\n0000001f  00000004 00000000 00000000 00000010 0000000a\n0000001f  0 0 0 0 0\n";
        assert_eq!(count(text), Ok(31));
        assert!(count("entries\n").is_err() && count("entries\nx\n").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, text: String) {
            let _ = (read(&bytes), read(&message(28, &bytes)), count(&text));
        }
    }
}
