//! IP networks: an address with the length of its prefix, as `10.0.0.0/24`.

use std::fmt;
use std::net::IpAddr;

/// A network of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its address from the highest bit on, with clear bits below the mask.
    address: u128,
    /// The length of its prefix.
    pub length: u8,
    /// Whether it is of IPv6.
    pub six: bool,
}

impl Network {
    /// The network of an address with a prefix of this length; `None` if it is too long.
    pub fn of(address: IpAddr, length: u8) -> Option<Self> {
        let six = address.is_ipv6();
        (length <= if six { 128 } else { 32 }).then(|| Network {
            address: bits(address) & mask(length),
            length,
            six,
        })
    }

    /// Reads one, or the address of a host in one.
    ///
    /// # Errors
    ///
    /// It is something else.
    pub fn read(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(address, length)| {
            let length = length.trim().parse().ok()?;
            Network::of(address.trim().parse().ok()?, length)
        });
        parts.ok_or_else(|| format!("{text:?} is not a network"))
    }

    /// Whether all of another network is inside.
    pub fn contains(self, other: Network) -> bool {
        self.six == other.six
            && self.length <= other.length
            && other.address & mask(self.length) == self.address
    }

    /// Whether an address is inside.
    pub fn has(self, address: IpAddr) -> bool {
        self.six == address.is_ipv6() && bits(address) & mask(self.length) == self.address
    }

    /// Whether one of them is inside the other.
    pub fn overlaps(self, other: Network) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// Whether it has room for a peer besides a router.
    pub fn has_peers(self) -> bool {
        self.length <= if self.six { 126 } else { 30 }
    }

    /// Whether an address of IPv4 is the last one of it, to which packets for all of its hosts go.
    pub fn is_broadcast(self, address: IpAddr) -> bool {
        let hosts = mask(32) & !mask(self.length);
        !self.six && self.has_peers() && bits(address) == self.address | hosts
    }

    /// Whether an address of IPv4 is the first one of it, which stands for the network.
    pub fn is_first(self, address: IpAddr) -> bool {
        !self.six && self.has_peers() && bits(address) == self.address
    }

    /// Addresses that a host assigns itself: those of IPv4 if no DHCP server does (RFC 3927).
    pub fn is_link_local(self) -> bool {
        match self.six {
            true => self.length >= 10 && self.address >> 118 == 0x3fa,
            false => self.length >= 16 && self.address >> 112 == 0xa9fe,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match self.six {
            true => IpAddr::from(self.address.to_be_bytes()),
            // The upper 32 of 128 bits.
            false => IpAddr::from(((self.address >> 96) as u32).to_be_bytes()),
        };
        write!(f, "{address}/{}", self.length)
    }
}

/// An address from the highest bit on.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => u128::from(u32::from(four)) << 96,
        IpAddr::V6(six) => six.into(),
    }
}

fn mask(length: u8) -> u128 {
    let below = 128 - u32::from(length.min(128));
    u128::MAX.checked_shl(below).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Network {
        Network::read(text).unwrap()
    }

    #[test]
    fn networks_of_both_families() {
        assert!(net("10.0.0.0/16").contains(net("10.0.1.0/24")));
        assert!(!net("10.0.1.0/24").contains(net("10.0.0.0/16")));
        assert!(net("10.0.1.0/24").overlaps(net("10.0.0.0/16")));
        assert!(!net("10.0.0.0/31").overlaps(net("10.0.0.2/31")));
        assert!(net("0.0.0.0/0").contains(net("10.0.1.0/24")));
        assert!(net("fd00:1::/32").contains(net("fd00:1:2::7/64")));
        assert!(!net("::/0").contains(net("10.0.1.0/24")));
        assert!(net("10.1.2.3/16").has([10, 1, 9, 9].into()));
        assert!(!net("0.0.0.0/0").has("fd00::1".parse().unwrap()));
        assert!(net("fd00::/64").has("fd00::1".parse().unwrap()));
        assert!(net("169.254.7.0/24").is_link_local() && !net("10.0.0.0/8").is_link_local());
        assert!(net("fe80::/64").is_link_local() && !net("fd00::/64").is_link_local());
        for (text, same) in [
            ("fd00:1:2::7/64", "fd00:1:2::/64"),
            ("10.1.2.3/16", "10.1.0.0/16"),
        ] {
            assert_eq!(net(text).to_string(), same);
        }
        for odd in [
            "10.0.0.0/33",
            "10.0.0.0",
            "fd00::/129",
            "10.0.0/24",
            "ib0/24",
            "10.0.0.0/x",
            "",
        ] {
            assert!(Network::read(odd).is_err(), "{odd}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_network_has_its_own_address(address: u128, length in 0u8..=128) {
            let address = IpAddr::from(address.to_be_bytes());
            let net = Network::of(address, length).unwrap();
            proptest::prop_assert!(net.has(address));
            proptest::prop_assert_eq!(Network::read(&net.to_string()), Ok(net));
        }
    }
}
