//! A port's address, which the two ends of a connection exchange.

use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use super::library::pair::RemoteEndpoint;
use super::port::Port;
use crate::live::failure::Failure;

/// A port, as the other end has to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    /// Whether packets go over Ethernet (RoCE), and not InfiniBand.
    pub(crate) ethernet: bool,
    /// Its address in an InfiniBand subnet.
    pub(crate) lid: u16,
    /// Its global address.
    pub(crate) gid: Ipv6Addr,
    /// The largest packets it carries: `enum ibv_mtu`.
    pub(crate) mtu: u32,
    /// The number of its connections' first packets.
    pub(crate) first_packet: u32,
}

impl Address {
    /// A port's, with a new number to count packets from.
    ///
    /// # Errors
    ///
    /// The kernel has no random numbers.
    pub(crate) fn of(port: &Port) -> Result<Self, Failure> {
        Ok(Address {
            ethernet: port.ethernet,
            lid: port.lid,
            gid: port.gid,
            mtu: port.mtu,
            first_packet: first_packet()?,
        })
    }

    /// The same with packets of so many bytes at most.
    pub(crate) fn with_mtu(mut self, bytes: Option<u64>) -> Self {
        let fits = |mtu: &u32| bytes.is_none_or(|bytes| u64::from(mtu_bytes(*mtu)) <= bytes);
        self.mtu = (1..=self.mtu).rev().find(fits).unwrap_or(1);
        self
    }

    /// Another port's queue pair, as a connection from this one needs to know it.
    pub(crate) fn far(&self, theirs: &Self, pair: u32) -> RemoteEndpoint {
        // The upper half is the subnet's prefix.
        let same = self.gid.segments()[..4] == theirs.gid.segments()[..4];
        RemoteEndpoint {
            pair,
            first_packet: theirs.first_packet,
            mtu: self.mtu.min(theirs.mtu),
            lid: theirs.lid,
            gid: (theirs.ethernet || !same).then_some(theirs.gid),
        }
    }

    /// Its link layer, in words.
    pub(crate) fn kind(&self) -> &'static str {
        match self.ethernet {
            true => "Ethernet",
            false => "InfiniBand",
        }
    }
}

/// `enum ibv_mtu` as bytes.
pub(crate) fn mtu_bytes(mtu: u32) -> u32 {
    128u32.checked_shl(mtu).unwrap_or(0)
}

/// A number of 24 bits to count packets from: late ones of an earlier connection are not taken for this one's.
fn first_packet() -> Result<u32, Failure> {
    let mut bytes = [0; 4];
    let flags = rustix::rand::GetRandomFlags::empty();
    rustix::rand::getrandom(&mut bytes[..], flags)
        .map_err(|e| Failure::new("getrandom", e.to_string()).code(i64::from(e.raw_os_error())))?;
    Ok(u32::from_ne_bytes(bytes) & 0x00ff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_global_address_is_for_ethernet_and_other_subnets() {
        let of = |ethernet, gid: &str| Address {
            ethernet,
            lid: 7,
            gid: gid.parse().unwrap(),
            mtu: 5,
            first_packet: 1,
        };
        let roce = of(true, "::ffff:10.0.0.1");
        let near = of(false, "fe80::1");
        let there = of(false, "fec0:0:0:1::2");
        assert_eq!(roce.far(&roce, 9).gid, Some(roce.gid));
        assert_eq!(near.far(&near, 9).gid, None);
        assert_eq!(near.far(&there, 9).gid, Some(there.gid));
        let small = Address {
            mtu: 3,
            ..roce.clone()
        };
        assert_eq!((roce.far(&small, 9).mtu, small.far(&roce, 9).mtu), (3, 3));
        assert_eq!([1, 3, 5].map(mtu_bytes), [256, 1024, 4096]);
    }
}
