//! Echo requests (RFC 792, RFC 4443) and ARP requests (RFC 826) from an own address.

use std::fmt;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, bind, ipproto,
    recvfrom, sendto, socket_with,
};

use crate::source::{Errno, Refusal};

/// A hardware address of Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mac(pub(super) [u8; 6]);

impl Mac {
    /// Six pairs of hexadecimal digits with colons between.
    pub(super) fn read(text: &str) -> Option<Self> {
        let pairs = text.split(':').map(|pair| u8::from_str_radix(pair, 16));
        let octets: Vec<u8> = pairs.collect::<Result<_, _>>().ok()?;
        Some(Mac(octets.try_into().ok()?))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
/// What an echo request carries, by which its answer is known.
const CARRIED: &[u8] = b"rdma-doctor asks whether you hear";

/// A socket for echo requests: that of icmp(7) for everybody, where `ping_group_range` admits the
/// group, else a raw one.
pub(super) struct Echo {
    socket: OwnedFd,
    raw: bool,
    six: bool,
}

impl Echo {
    pub(super) fn open(own: IpAddr) -> Result<Self, Refusal> {
        let six = own.is_ipv6();
        let (family, protocol) = match own {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        let open = |kind| socket_with(family, kind, FLAGS, Some(protocol));
        let (socket, raw) = match open(SocketType::DGRAM) {
            Ok(socket) => (socket, false),
            Err(_) => (open(SocketType::RAW).map_err(io::Error::from)?, true),
        };
        bind(&socket, &SocketAddr::new(own, 0)).map_err(io::Error::from)?;
        Ok(Echo { socket, raw, six })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks one.
    ///
    /// # Errors
    ///
    /// What this node itself refuses it with.
    pub(super) fn ask(&self, to: IpAddr, interface: u32) -> Result<(), Errno> {
        const REQUEST: u8 = 8;
        const REQUEST_6: u8 = 128;
        // Type, code, checksum, identifier, sequence number.
        let mut packet = vec![
            if self.six { REQUEST_6 } else { REQUEST },
            0,
            0,
            0,
            0x5a,
            0x5a,
            0,
            1,
        ];
        packet.extend_from_slice(CARRIED);
        // The kernel fills in that of ICMPv6, and of its own sockets.
        if self.raw && !self.six {
            let sum = checksum(&packet).to_be_bytes();
            packet[2..4].copy_from_slice(&sum);
        }
        let place = match to {
            IpAddr::V6(six) if six.is_unicast_link_local() => {
                SocketAddr::V6(SocketAddrV6::new(six, 0, 0, interface))
            }
            _ => SocketAddr::new(to, 0),
        };
        match sendto(&self.socket, &packet, SendFlags::empty(), &place) {
            Ok(_) => Ok(()),
            // A full queue of the device is not yet sent.
            Err(rustix::io::Errno::NOBUFS | rustix::io::Errno::AGAIN) => Ok(()),
            Err(errno) => Err(Errno(errno.raw_os_error())),
        }
    }

    /// The addresses that answered since the last call.
    pub(super) fn answers(&self) -> Vec<IpAddr> {
        let mut all = Vec::new();
        let mut buffer = [0; 256];
        while let Ok((length, _, from)) = recvfrom(&self.socket, &mut buffer, RecvFlags::empty()) {
            let packet = buffer.get(..length).unwrap_or_default();
            let peer = from.and_then(|from: SocketAddrAny| SocketAddr::try_from(from).ok());
            if is_answer(packet) {
                all.extend(peer.map(|peer| peer.ip()));
            }
        }
        all
    }
}

/// An answer carries what was sent; a raw socket hears all that comes, with headers before it.
fn is_answer(packet: &[u8]) -> bool {
    const REPLY: u8 = 0;
    const REPLY_6: u8 = 129;
    let Some(header) = packet.strip_suffix(CARRIED) else {
        return false;
    };
    let start = header.len().checked_sub(8).and_then(|at| header.get(at));
    matches!(start, Some(&(REPLY | REPLY_6)))
}

/// RFC 1071.
fn checksum(packet: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = packet.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

const ETH_P_ARP: u16 = 0x0806;
/// Ethernet, IPv4, their lengths (RFC 826).
const ARP_OF_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;

/// A socket for ARP on one interface.
pub(super) struct Arp {
    socket: OwnedFd,
    own: Mac,
    interface: i32,
}

impl Arp {
    /// # Errors
    ///
    /// It takes `CAP_NET_RAW`; and the kernel's packet sockets, which are not loaded for it.
    #[expect(unsafe_code, reason = "rustix has no addresses of packet sockets")]
    #[expect(
        clippy::disallowed_methods,
        reason = "whether the kernel has packet sockets"
    )]
    pub(super) fn open(interface: u32, own: Mac) -> Result<Self, Refusal> {
        if !std::path::Path::new("/proc/net/packet").exists() {
            return Err(Refusal::Errno(Errno::EAFNOSUPPORT));
        }
        let interface = interface.cast_signed();
        // Protocol 0: it hears nothing before it is bound.
        let socket = socket_with(AddressFamily::PACKET, SocketType::DGRAM, FLAGS, None);
        let socket = socket.map_err(io::Error::from)?;
        let address = link_address(interface, [0xff; 6]);
        // SAFETY: the address is whole, lives for the call, and has the length that is said.
        let bound = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if bound != 0 {
            return Err(io::Error::last_os_error().into());
        }
        Ok(Arp {
            socket,
            own,
            interface,
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks who has an address. A request from 0.0.0.0 changes nobody's table (RFC 5227).
    #[expect(unsafe_code, reason = "rustix has no addresses of packet sockets")]
    pub(super) fn ask(&self, own: Ipv4Addr, whose: Ipv4Addr) {
        let parts: [&[u8]; 6] = [
            &ARP_OF_IPV4,
            &[0, ARP_REQUEST],
            &self.own.0,
            &own.octets(),
            &[0; 6],
            &whose.octets(),
        ];
        let packet = parts.concat();
        let to = link_address(self.interface, [0xff; 6]);
        // SAFETY: packet and address are whole, live for the call, and have the lengths that are
        // said. One that is not sent is not answered.
        let _ = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const to).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
    }

    /// The addresses that hosts claimed since the last call, with their owners.
    pub(super) fn answers(&self) -> Vec<(Ipv4Addr, Mac)> {
        let mut all = Vec::new();
        let mut buffer = [0; 64];
        while let Ok((length, _)) = rustix::net::recv(&self.socket, &mut buffer, RecvFlags::empty())
        {
            all.extend(answer(buffer.get(..length).unwrap_or_default()));
        }
        all
    }
}

/// The address and the owner that a reply names.
fn answer(packet: &[u8]) -> Option<(Ipv4Addr, Mac)> {
    let kind = packet.strip_prefix(&ARP_OF_IPV4)?;
    let sender = kind.strip_prefix(&[0, ARP_REPLY])?;
    let (mac, address) = sender.split_first_chunk::<6>()?;
    let (address, _) = address.split_first_chunk::<4>()?;
    Some((Ipv4Addr::from(*address), Mac(*mac)))
}

#[expect(unsafe_code, reason = "a structure of numbers")]
fn link_address(interface: i32, to: [u8; 6]) -> libc::sockaddr_ll {
    // SAFETY: all zeroes is a value of it.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ETH_P_ARP.to_be();
    address.sll_ifindex = interface;
    address.sll_halen = 6;
    address.sll_addr[..6].copy_from_slice(&to);
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_to_the_own_address_is_answered() {
        let own: IpAddr = Ipv4Addr::LOCALHOST.into();
        let Ok(echo) = Echo::open(own) else {
            return;
        };
        echo.ask(own, 1).unwrap();
        let mut answered = Vec::new();
        while answered.is_empty() {
            answered = echo.answers();
        }
        assert_eq!(answered, [own]);
    }

    #[test]
    fn replies_of_arp_name_their_owner() {
        let reply = |kind: u8| {
            let parts: [&[u8]; 4] = [
                &ARP_OF_IPV4,
                &[0, kind],
                &[2, 0, 0, 0, 0, 9],
                &[10, 0, 0, 7],
            ];
            [parts.concat(), vec![0; 10]].concat()
        };
        let owner = (Ipv4Addr::new(10, 0, 0, 7), Mac([2, 0, 0, 0, 0, 9]));
        assert_eq!(answer(&reply(ARP_REPLY)), Some(owner));
        assert_eq!(answer(&reply(ARP_REQUEST)), None);
        assert_eq!(Mac::read("02:00:00:00:00:09"), Some(owner.1));
        assert_eq!(owner.1.to_string(), "02:00:00:00:00:09");
        assert_eq!(Mac::read("80:00:00:00"), None);
    }

    #[test]
    fn the_checksum_makes_the_sum_all_ones() {
        let mut packet = [8, 0, 0, 0, 0x5a, 0x5a, 0, 1, 7];
        let sum = checksum(&packet).to_be_bytes();
        packet[2..4].copy_from_slice(&sum);
        assert_eq!(checksum(&packet), 0);
    }

    proptest::proptest! {
        #[test]
        fn no_packet_makes_it_panic(packet: Vec<u8>) {
            let _ = (answer(&packet), is_answer(&packet), checksum(&packet));
        }
    }
}
