//! Pseudonyms of addresses and GUIDs that keep what judgement reads off them: subnets, address classes, and which GUID
//! and which link-local address belong to which MAC address.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::key::{Class, Domain, Key};
use super::tally::Replaced;

const fn v4(a: u8, b: u8, c: u8, d: u8) -> u64 {
    (u32::from_be_bytes([a, b, c, d]) as u64) << 32
}

/// IPv4 ranges that an address neither leaves nor enters.
const V4_CLASSES: &[Class] = &[
    Class::frozen(v4(0, 0, 0, 0), 32),
    Class::mapped(v4(10, 0, 0, 0), 8),
    Class::mapped(v4(100, 64, 0, 0), 10),
    Class::frozen(v4(127, 0, 0, 0), 8),
    Class::mapped(v4(169, 254, 0, 0), 16),
    Class::mapped(v4(172, 16, 0, 0), 12),
    Class::mapped(v4(192, 168, 0, 0), 16),
    Class::mapped(v4(224, 0, 0, 0), 4),
    // Assigned to protocols (RFC 5771).
    Class::frozen(v4(224, 0, 0, 0), 24),
    // Netmasks and the broadcast address; no host has an address here.
    Class::frozen(v4(240, 0, 0, 0), 4),
];

/// IPv6 ranges, by their upper half.
const V6_CLASSES: &[Class] = &[
    Class::frozen(0, 64),
    Class::mapped(0x2000 << 48, 3),
    Class::mapped(0xfc00 << 48, 8),
    Class::mapped(0xfd00 << 48, 8),
    Class::mapped(0xfe80 << 48, 10),
    // The subnet prefix of a fabric that was given none, and of every link-local address.
    Class::frozen(0xfe80 << 48, 64),
    Class::mapped(0xfec0 << 48, 10),
    // Flags and scope of multicast stay with the rest of the upper half, which names no machine.
    Class::frozen(0xff00 << 48, 8),
];

impl Key {
    /// An IPv4 address: subnets stay subnets, private stays private, public stays public. The last octet stays: a bit of it that flips makes
    /// a host's address that of its network, or the broadcast address, whenever all bits below some mask come out equal.
    pub(super) fn ipv4(&self, address: Ipv4Addr) -> Ipv4Addr {
        let value = u64::from(u32::from(address)) << 32;
        let permuted = self.prefix_preserving(Domain::V4, 24, value, V4_CLASSES);
        let mapped = Ipv4Addr::from((permuted >> 32) as u32);
        if mapped != address {
            self.count(Replaced::IpAddress, &address.octets());
        }
        mapped
    }

    /// The address of an IPv4 subnet, or one in it: the bits below its mask stay clear, or set, if all of them were.
    pub(super) fn ipv4_net(&self, address: Ipv4Addr, length: u32) -> Ipv4Addr {
        let mask = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0);
        let mapped = u32::from(self.ipv4(address));
        match u32::from(address) & !mask {
            0 => Ipv4Addr::from(mapped & mask),
            hosts if hosts == !mask => Ipv4Addr::from(mapped | hosts),
            _ => Ipv4Addr::from(mapped),
        }
    }

    /// An IPv6 address or a GID.
    pub(super) fn ipv6(&self, address: Ipv6Addr) -> Ipv6Addr {
        let value = u128::from(address);
        let (upper, lower) = ((value >> 64) as u64, value as u64);
        let lower_mapped = match (upper, lower) {
            (_, 0) | (0, 1) => lower,
            // ::ffff:a.b.c.d and the old ::a.b.c.d hold the IPv4 address.
            (0, _) if matches!(lower >> 32, 0 | 0xffff) => {
                let inner = self.ipv4(Ipv4Addr::from(lower as u32));
                lower >> 32 << 32 | u64::from(u32::from(inner))
            }
            // Groups with a short number are assigned to protocols; IPoIB's broadcast group ends in ffff:ffff.
            _ if upper >> 56 == 0xff && (lower <= 0xffff || lower == 0xffff_ffff) => lower,
            _ => self.guid(lower),
        };
        let upper = self.subnet_prefix(upper);
        let mapped = Ipv6Addr::from(u128::from(upper) << 64 | u128::from(lower_mapped));
        if mapped != address && address.to_ipv4().is_none() {
            self.count(Replaced::IpAddress, &address.octets());
        }
        mapped
    }

    /// The address of an IPv6 subnet: the bits below its mask stay clear if they were.
    pub(super) fn ipv6_net(&self, address: Ipv6Addr, length: u32) -> Ipv6Addr {
        let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
        let mapped = u128::from(self.ipv6(address));
        match u128::from(address) & !mask {
            0 => Ipv6Addr::from(mapped & mask),
            _ => Ipv6Addr::from(mapped),
        }
    }

    /// The upper half of a GID or IPv6 address.
    pub(super) fn subnet_prefix(&self, upper: u64) -> u64 {
        self.prefix_preserving(Domain::Prefix, 64, upper, V6_CLASSES)
    }

    /// A MAC address. Its two lowest bits of the first octet (multicast, locally administered) stay and do not matter
    /// for the rest, so that the EUI-64 that inverts one of them still belongs to it.
    pub(super) fn mac(&self, mac: [u8; 6]) -> [u8; 6] {
        let mapped = self.permuted_mac(mac);
        if mapped != mac {
            self.count(Replaced::MacAddress, &mac);
        }
        mapped
    }

    fn permuted_mac(&self, mac: [u8; 6]) -> [u8; 6] {
        let [a, b, c, d, e, f] = mac;
        let value = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let kept = value & 0x0300_0000_0000;
        let rest = value >> 42 << 40 | value & 0xff_ffff_ffff;
        const LAST: u64 = (1 << 46) - 1;
        if rest == 0 || rest == LAST {
            return mac;
        }
        // No address becomes none or broadcast: the permutation is walked on past them.
        let mut mapped = self.permute(Domain::Mac, 46, rest);
        while mapped == 0 || mapped == LAST {
            mapped = self.permute(Domain::Mac, 46, mapped);
        }
        let value = mapped >> 40 << 42 | kept | mapped & 0xff_ffff_ffff;
        let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// A GUID or an interface identifier. One that holds a MAC address holds the mapped one afterwards.
    pub(super) fn guid(&self, guid: u64) -> u64 {
        if guid == 0 || guid == u64::MAX {
            return guid;
        }
        if let Some(middle) = Eui64Order::of(guid) {
            self.count(Replaced::Guid, &guid.to_be_bytes());
            return middle.join(self.permuted_mac(middle.mac(guid)), guid);
        }
        self.count(Replaced::Guid, &guid.to_be_bytes());
        // Multicast and local bit stay here too, and no GUID comes to look as if it held a MAC address.
        let kept = guid & 0x0300_0000_0000_0000;
        let mut rest = guid >> 58 << 56 | guid & 0xff_ffff_ffff_ffff;
        loop {
            rest = self.permute(Domain::Guid, 62, rest);
            let mapped = rest >> 56 << 58 | kept | rest & 0xff_ffff_ffff_ffff;
            if Eui64Order::of(mapped).is_none() && mapped != 0 && mapped != u64::MAX {
                return mapped;
            }
        }
    }

    /// A hardware address of 6, 8, 16 or 20 bytes: MAC, GUID, GID, IPoIB (flags and queue pair, then the GID).
    pub(super) fn hardware(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        Some(match bytes.len() {
            6 => self.mac(bytes.try_into().ok()?).to_vec(),
            8 => {
                let guid = u64::from_be_bytes(bytes.try_into().ok()?);
                self.guid(guid).to_be_bytes().to_vec()
            }
            16 => {
                let gid: [u8; 16] = bytes.try_into().ok()?;
                self.ipv6(gid.into()).octets().to_vec()
            }
            20 => [&bytes[..4], &self.hardware(&bytes[4..])?].concat(),
            _ => return None,
        })
    }
}

/// How a GUID holds a MAC address: what is in its middle.
enum Eui64Order {
    /// `ff:fe`, EUI-64; and `03:00`, as NVIDIA's firmware makes node and port GUIDs.
    Forward,
    /// The same with the bytes in reverse, as in mlx5's `phys_switch_id`.
    Reverse,
}

impl Eui64Order {
    fn of(guid: u64) -> Option<Self> {
        let is_one = |guid: u64| matches!(guid >> 24 & 0xffff, 0xfffe | 0x0300);
        if is_one(guid) {
            Some(Eui64Order::Forward)
        } else if is_one(guid.swap_bytes()) {
            Some(Eui64Order::Reverse)
        } else {
            None
        }
    }

    fn mac(&self, guid: u64) -> [u8; 6] {
        let [a, b, c, _, _, d, e, f] = match self {
            Eui64Order::Forward => guid.to_be_bytes(),
            Eui64Order::Reverse => guid.to_le_bytes(),
        };
        [a, b, c, d, e, f]
    }

    fn join(&self, [a, b, c, d, e, f]: [u8; 6], guid: u64) -> u64 {
        match self {
            Eui64Order::Forward => {
                let [_, _, _, x, y, _, _, _] = guid.to_be_bytes();
                u64::from_be_bytes([a, b, c, x, y, d, e, f])
            }
            Eui64Order::Reverse => {
                let [_, _, _, x, y, _, _, _] = guid.to_le_bytes();
                u64::from_le_bytes([a, b, c, x, y, d, e, f])
            }
        }
    }
}

/// Whether a GUID holds a MAC address.
pub(super) fn holds_mac(guid: u64) -> bool {
    Eui64Order::of(guid).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> Key {
        Key::from_text("k")
    }

    proptest! {
        #[test]
        fn addresses_that_share_a_prefix_share_it_afterwards(a: u32, b: u32) {
            let map = |v: u32| u32::from(key().ipv4(v.into()));
            prop_assert_eq!((a ^ b).leading_zeros(), (map(a) ^ map(b)).leading_zeros());
        }

        #[test]
        fn subnets_share_their_prefix_afterwards(a: u64, b: u64) {
            let (x, y) = (key().subnet_prefix(a), key().subnet_prefix(b));
            prop_assert_eq!((a ^ b).leading_zeros(), (x ^ y).leading_zeros());
        }

        #[test]
        fn a_close_pair_stays_close(a: u32, n in 0u32..32) {
            let map = |v: u32| u32::from(key().ipv4(v.into()));
            prop_assert_eq!((map(a) ^ map(a ^ 1 << n)).leading_zeros(), 31 - n);
        }

        #[test]
        fn a_host_becomes_neither_its_network_nor_the_broadcast_address(
            a: u32,
            secret in "[a-z]{4}",
            length in 24u32..32,
        ) {
            let mapped = u32::from(Key::from_text(&secret).ipv4_net(a.into(), length));
            let below = u32::MAX >> length;
            let place = |address: u32| (address & below == 0, address & below == below);
            prop_assert_eq!(place(a), place(mapped));
        }

        #[test]
        fn classes_are_neither_left_nor_entered(a: u32) {
            let (a, b) = (Ipv4Addr::from(a), key().ipv4(a.into()));
            let class = |a: Ipv4Addr| (a.is_private(), a.is_loopback(), a.is_link_local(), a.is_multicast(),
                a.is_unspecified(), a.octets()[0] >= 240, a.octets()[0] == 10, a.octets()[0] == 192 && a.octets()[1] == 168);
            prop_assert_eq!(class(a), class(b));
        }

        #[test]
        fn classes_of_version_six_are_neither_left_nor_entered(a: u128) {
            for a in [a, a >> 3 | 0xfe80 << 112, a >> 16 | 0xfe80 << 112, a << 64 >> 64 | 0xfe80 << 112, a >> 7 | 0xfc00 << 112, a >> 8 | 0xff00 << 112, a >> 64, a >> 96] {
                let (a, b) = (Ipv6Addr::from(a), key().ipv6(a.into()));
                let class = |a: Ipv6Addr| (a.is_unicast_link_local(), a.is_unique_local(), a.is_multicast(), a.is_loopback(),
                    a.is_unspecified(), a.to_ipv4_mapped().is_some(), a.segments()[..4] == [0xfe80, 0, 0, 0]);
                prop_assert_eq!(class(a), class(b));
            }
        }

        #[test]
        fn mac_and_eui_64_stay_together(mac: [u8; 6]) {
            let [a, b, c, d, e, f] = mac;
            let [x, y, z, u, v, w] = key().mac(mac);
            prop_assert_eq!(a & 3, x & 3);
            let eui = |[a, b, c, d, e, f]: [u8; 6], m: [u8; 2]| u64::from_be_bytes([a, b, c, m[0], m[1], d, e, f]);
            for middle in [[0xff, 0xfe], [3, 0]] {
                let whole = |m: [u8; 6]| eui(m, middle);
                prop_assert_eq!(key().guid(whole([a, b, c, d, e, f])), whole([x, y, z, u, v, w]));
                prop_assert_eq!(key().guid(whole([a ^ 2, b, c, d, e, f])), whole([x ^ 2, y, z, u, v, w]));
            }
        }

        #[test]
        fn guids_do_not_meet(a: u64, b: u64) {
            prop_assert_eq!(a == b, key().guid(a) == key().guid(b));
            prop_assert_eq!(holds_mac(a), holds_mac(key().guid(a)));
        }
    }

    #[test]
    fn the_addresses_of_no_machine_stay() {
        for text in [
            "0.0.0.0",
            "255.255.255.255",
            "255.255.255.0",
            "255.255.240.0",
            "127.0.0.1",
            "224.0.0.1",
        ] {
            let address: Ipv4Addr = text.parse().unwrap();
            assert_eq!(key().ipv4(address), address, "{text}");
        }
        for text in ["::", "::1", "fe80::", "ff02::1", "::ffff:0.0.0.0"] {
            let address: Ipv6Addr = text.parse().unwrap();
            assert_eq!(key().ipv6(address), address, "{text}");
        }
        assert_eq!(key().mac([0; 6]), [0; 6]);
        assert_eq!(key().mac([0xff; 6]), [0xff; 6]);
        assert_eq!(key().guid(0), 0);
    }

    #[test]
    fn an_ipv4_address_in_a_gid_is_the_same_one() {
        let plain: Ipv4Addr = "10.1.2.3".parse().unwrap();
        assert_eq!(
            key().ipv6(plain.to_ipv6_mapped()),
            key().ipv4(plain).to_ipv6_mapped()
        );
    }

    #[test]
    fn a_reversed_guid_stays_the_reverse() {
        let guid = 0xb83f_d203_00c0_ffee;
        assert_eq!(
            key().guid(u64::swap_bytes(guid)),
            key().guid(guid).swap_bytes()
        );
    }

    #[test]
    fn a_network_s_address_stays_one() {
        let net = key().ipv4_net("10.1.2.0".parse().unwrap(), 24);
        let host = key().ipv4("10.1.2.77".parse().unwrap());
        assert_eq!(net.octets()[3], 0);
        assert_eq!(net.octets()[..3], host.octets()[..3]);
        assert_eq!(
            key().ipv4_net("0.0.0.0".parse().unwrap(), 0).to_string(),
            "0.0.0.0"
        );
    }
}
