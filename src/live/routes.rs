//! Routes, the rules that choose their tables, and neighbours, as far as they decide over a rail's traffic.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use netlink_sys::protocols::NETLINK_ROUTE;

use super::netlink::{Connection, NLM_F_DUMP};
use crate::source::netlink::{self, Message};
use crate::source::question::Call;
use crate::source::{Answer, Refusal};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_GETNEIGH: u16 = 30;
const RTM_GETRULE: u16 = 34;
const RTM_GETADDR: u16 = 22;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_MULTIPATH: u16 = 9;
const RTA_VIA: u16 = 18;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// `struct rtmsg`, `struct fib_rule_hdr` and `struct ndmsg` have this size, and all begin with the family.
const BODY: usize = 12;
/// `struct ifaddrmsg`
const IFADDRMSG: usize = 8;
/// `RT_TABLE_LOCAL`: the machine's own addresses.
const RT_TABLE_LOCAL: u8 = 255;
const RTN_UNICAST: u8 = 1;
/// `RTN_BLACKHOLE`, `RTN_UNREACHABLE`, `RTN_PROHIBIT`
const REFUSING: std::ops::RangeInclusive<u8> = 6..=8;
/// `NUD_INCOMPLETE`, `NUD_FAILED`, `NUD_PERMANENT`
const ODD_NEIGHBOURS: u16 = 0x1 | 0x20 | 0x80;

/// Answers `route/getroute` (unicast routes to networks, of all tables but the local one) and
/// `route/getrule` (all rules), both of IPv4 if no `family` is said to be 6.
///
/// A node of a container network has a route to each of thousands of endpoints and of other nodes'
/// networks. What is kept does not grow with them: routes that decide over packets of a network
/// that this machine is in, default routes, and for each interface one that leads over a gateway.
/// `route/getroute-exceptions` has those to one host in such a network, and what refuses;
/// `route/getroute-hosts` has one to one host out of the interface `index`;
/// `route/getneigh` the neighbours that did not answer or that somebody wrote down.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    let family = match call.number("family") {
        Some(6) => AF_INET6,
        _ => AF_INET,
    };
    let messages = match &*call.name {
        "route/getroute" => networks(
            &dump::<BODY>(RTM_GETROUTE, family)?,
            &addresses(family),
            family,
        )?,
        "route/getroute-exceptions" => exceptions(
            &dump::<BODY>(RTM_GETROUTE, family)?,
            &addresses(family),
            family,
        )?,
        "route/getroute-hosts" => hosts(
            &dump::<BODY>(RTM_GETROUTE, family)?,
            call.number("index").unwrap_or(0),
            family,
        )?,
        "route/getneigh" => chosen(&dump::<BODY>(RTM_GETNEIGH, family)?, family, |message| {
            let state = netlink::u16_at(message.fixed, 8).unwrap_or(0);
            state & ODD_NEIGHBOURS != 0
        })?,
        "route/getrule" => chosen(&dump::<BODY>(RTM_GETRULE, family)?, family, |_| true)?,
        name => return Err(Refusal::unknown_call(name)),
    };
    Ok(Answer::Bytes(messages.into()))
}

/// The gateways that routes of a family lead over.
///
/// # Errors
///
/// The kernel refuses.
pub(super) fn all_gateways(family: u8) -> Result<Vec<Gateway>, Refusal> {
    Ok(gateways(&dump::<BODY>(RTM_GETROUTE, family)?))
}

/// All messages of a family; the request's body, which begins with the family, has this size.
fn dump<const FIXED: usize>(kind: u16, family: u8) -> Result<Vec<u8>, Refusal> {
    let mut body = [0; FIXED];
    body[0] = family;
    Connection::open(NETLINK_ROUTE)?.request(kind, NLM_F_DUMP, &body)
}

/// This machine's addresses. Where they are not told, its routes tell its networks.
fn addresses(family: u8) -> Vec<u8> {
    dump::<IFADDRMSG>(RTM_GETADDR, family).unwrap_or_default()
}

/// The length of a prefix that is one host's.
fn host_length(family: u8) -> u8 {
    if family == AF_INET6 { 128 } else { 32 }
}

/// A network: its address from the highest bit on, and how many bits of it count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Prefix {
    address: u128,
    length: u8,
}

impl Prefix {
    /// The network of this length in which an address is.
    fn enclosing(octets: &[u8], length: u8) -> Option<Self> {
        let mut all = [0; 16];
        all.get_mut(..octets.len())?.copy_from_slice(octets);
        let address = u128::from_be_bytes(all);
        Some(Prefix { address, length }.shortened(length))
    }

    /// A route's destination.
    fn destination(message: &Message<'_, BODY>) -> Option<Self> {
        let octets = message.attributes.find(RTA_DST).ok()?.unwrap_or_default();
        Self::enclosing(octets, message.fixed[1])
    }

    fn shortened(self, length: u8) -> Self {
        let below = u128::MAX.checked_shr(length.into()).unwrap_or(0);
        Prefix {
            address: self.address & !below,
            length,
        }
    }
}

/// The networks that this machine is in.
#[derive(Default)]
struct OwnNetworks {
    all: BTreeSet<Prefix>,
    lengths: BTreeSet<u8>,
}

impl OwnNetworks {
    /// Those of this machine's addresses and those to which its routes lead without a gateway: a
    /// network may lack either.
    fn gather(routes: &[u8], addresses: &[u8], family: u8) -> Self {
        let mut own = OwnNetworks::default();
        for message in netlink::messages::<IFADDRMSG>(addresses).map_while(Result::ok) {
            if message.fixed[0] == family {
                own.add(network_of_address(&message));
            }
        }
        for message in netlink::messages::<BODY>(routes).map_while(Result::ok) {
            own.add(connected(&message, family));
        }
        own
    }

    fn add(&mut self, network: Option<Prefix>) {
        self.lengths.extend(network.map(|network| network.length));
        self.all.extend(network);
    }

    /// Whether a route decides over packets of one of these.
    fn concern(&self, message: &Message<'_, BODY>) -> bool {
        Prefix::destination(message).is_none_or(|to| to.length == 0 || self.overlap(to))
    }

    /// Whether a network is in one of these, or one of these in it.
    fn overlap(&self, other: Prefix) -> bool {
        let last = Prefix {
            address: other.address | u128::MAX.checked_shr(other.length.into()).unwrap_or(0),
            length: u8::MAX,
        };
        let mut wider = self.lengths.range(..other.length);
        wider.any(|length| self.all.contains(&other.shortened(*length)))
            || self.all.range(other..=last).next().is_some()
    }
}

/// The network of one of this machine's addresses.
fn network_of_address(message: &Message<'_, IFADDRMSG>) -> Option<Prefix> {
    let local = message.attributes.find(IFA_LOCAL).ok()?;
    let octets = local.or(message.attributes.find(IFA_ADDRESS).ok()?)?;
    Prefix::enclosing(octets, message.fixed[1])
}

/// Whether it is a route to peers. Each interface has one of IPv6 to its link-local network.
fn to_peers(message: &Message<'_, BODY>) -> bool {
    let [_, _, _, _, table, _, _, r#type, ..] = *message.fixed;
    let link_local = Prefix::destination(message).is_some_and(|to| to.address >> 118 == 0x3fa);
    table != RT_TABLE_LOCAL && r#type == RTN_UNICAST && !link_local
}

/// The network that a route leads to without a gateway.
fn connected(message: &Message<'_, BODY>, family: u8) -> Option<Prefix> {
    let mut further = [RTA_GATEWAY, RTA_MULTIPATH, RTA_VIA].into_iter();
    let is_direct = further.all(|number| matches!(message.attributes.find(number), Ok(None)));
    let to = Prefix::destination(message)?;
    let is_network = (1..host_length(family)).contains(&to.length);
    (is_direct && is_network && to_peers(message)).then_some(to)
}

/// The numbers of the interfaces that a route leads out of.
fn interfaces(message: &Message<'_, BODY>) -> Vec<u32> {
    let one = message.attributes.number(RTA_OIF).ok().flatten();
    let mut all: Vec<u32> = one.into_iter().collect();
    let mut hops = match message.attributes.find(RTA_MULTIPATH) {
        Ok(Some(hops)) => hops,
        Ok(None) | Err(_) => &[],
    };
    // struct rtnexthop: length, flags, hops, interface; then its attributes.
    while let (Some(length), Some(interface)) = (netlink::u16_at(hops, 0), netlink::u32_at(hops, 4))
    {
        all.push(interface);
        let padded = usize::from(length).next_multiple_of(4).max(8);
        hops = hops.get(padded..).unwrap_or_default();
    }
    all
}

/// A gateway, and the number of the interface behind which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gateway {
    pub(super) interface: u32,
    pub(super) address: IpAddr,
    /// Whether all that no other route takes goes over it.
    pub(super) is_default: bool,
}

/// The gateways of unicast routes, each once; of a route over several gateways the first.
fn gateways(routes: &[u8]) -> Vec<Gateway> {
    let mut all: Vec<Gateway> = Vec::new();
    // Routes to a thousand nodes can have a thousand gateways.
    let mut places: HashMap<(u32, IpAddr), usize> = HashMap::new();
    for message in netlink::messages::<BODY>(routes).map_while(Result::ok) {
        if message.kind != RTM_NEWROUTE || !to_peers(&message) {
            continue;
        }
        let octets = message.attributes.find(RTA_GATEWAY).ok().flatten();
        let first = interfaces(&message).first().copied();
        let (Some(address), Some(interface)) = (octets.and_then(ip), first) else {
            continue;
        };
        let is_default = message.fixed[1] == 0;
        let place = *places.entry((interface, address)).or_insert(all.len());
        match all.get_mut(place) {
            Some(other) => other.is_default |= is_default,
            None => all.push(Gateway {
                interface,
                address,
                is_default,
            }),
        }
    }
    all
}

/// An address by its octets.
fn ip(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(<[u8; 4]>::try_from(octets).ok()?.into()),
        16 => Some(<[u8; 16]>::try_from(octets).ok()?.into()),
        _ => None,
    }
}

/// A neighbour as the kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) interface: u32,
    pub(super) address: IpAddr,
    pub(super) mac: Option<[u8; 6]>,
    /// `ndm_state`, `NUD_…` of linux/neighbour.h.
    pub(super) state: u16,
}

/// The unicast neighbours of a family, those for whom this machine answers left out.
///
/// # Errors
///
/// The kernel refuses.
pub(super) fn neighbours(family: u8) -> Result<Vec<Neighbour>, Refusal> {
    const NTF_PROXY: u8 = 0x8;
    let reply = dump::<BODY>(RTM_GETNEIGH, family)?;
    let mut all = Vec::new();
    for message in netlink::messages::<BODY>(&reply).map_while(Result::ok) {
        let [of, _, _, _, _, _, _, _, _, _, flags, r#type] = *message.fixed;
        if of != family || flags & NTF_PROXY != 0 || r#type != RTN_UNICAST {
            continue;
        }
        let Some(address) = message.attributes.find(1).ok().flatten().and_then(ip) else {
            continue;
        };
        let mac = message.attributes.find(2).ok().flatten();
        all.push(Neighbour {
            interface: netlink::u32_at(message.fixed, 4).unwrap_or(0),
            address,
            mac: mac.and_then(|mac| mac.try_into().ok()),
            state: netlink::u16_at(message.fixed, 8).unwrap_or(0),
        });
    }
    Ok(all)
}

/// The messages of unicast routes to networks that decide over traffic of this machine.
fn networks(routes: &[u8], addresses: &[u8], family: u8) -> Result<Vec<u8>, Refusal> {
    let own = OwnNetworks::gather(routes, addresses, family);
    let mut routed = HashSet::new();
    chosen(routes, family, |message| {
        let is_network = message.kind == RTM_NEWROUTE
            && message.fixed[1] < host_length(family)
            && to_peers(message);
        is_network && {
            let mut is_first = false;
            for interface in interfaces(message) {
                is_first |= routed.insert(interface);
            }
            own.concern(message) || is_first
        }
    })
}

/// The messages of routes that refuse packets of a network that this machine is in, and of those
/// to one host in such a network.
fn exceptions(routes: &[u8], addresses: &[u8], family: u8) -> Result<Vec<u8>, Refusal> {
    let own = OwnNetworks::gather(routes, addresses, family);
    chosen(routes, family, |message| {
        let is_exception = REFUSING.contains(&message.fixed[7])
            || (to_peers(message) && message.fixed[1] == host_length(family));
        is_exception && own.concern(message)
    })
}

/// The message of a route to one host that leads out of an interface, if there is one.
fn hosts(routes: &[u8], interface: u64, family: u8) -> Result<Vec<u8>, Refusal> {
    let mut is_kept = false;
    chosen(routes, family, |message| {
        let leads_out = message.kind == RTM_NEWROUTE
            && message.fixed[1] == host_length(family)
            && to_peers(message)
            && interfaces(message)
                .iter()
                .any(|index| u64::from(*index) == interface);
        let is_first = leads_out && !is_kept;
        is_kept |= leads_out;
        is_first
    })
}

/// The messages of this family: a kernel without IPv6 has those of IPv4 for it.
fn chosen(
    messages: &[u8],
    family: u8,
    mut keep: impl FnMut(&Message<'_, BODY>) -> bool,
) -> Result<Vec<u8>, Refusal> {
    super::netlink::chosen(messages, |message| {
        message.fixed[0] == family && keep(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Errno;
    use crate::source::netlink::attribute;
    use crate::source::testing::message;

    fn route(length: u8, table: u8, r#type: u8) -> Vec<u8> {
        let mut message = vec![28, 0, 0, 0];
        message.extend(RTM_NEWROUTE.to_ne_bytes());
        message.resize(netlink::HEADER, 0);
        message.extend([AF_INET, length, 0, 0, table, 2, 253, r#type, 0, 0, 0, 0]);
        message
    }

    #[test]
    fn host_routes_and_the_local_table_are_left_out() {
        let net = route(24, 254, RTN_UNICAST);
        let all = [
            net.clone(),
            route(32, 254, RTN_UNICAST),
            route(24, RT_TABLE_LOCAL, RTN_UNICAST),
            // A blackhole.
            route(24, 254, 6),
        ]
        .concat();
        assert_eq!(networks(&all, &[], AF_INET), Ok(net.clone()));
        let cut = networks(&net[..20], &[], AF_INET);
        assert_eq!(cut, Err(Refusal::Errno(Errno::EPROTO)));
        let many = net.repeat(10_000);
        assert_eq!(networks(&many, &[], AF_INET), Ok(many));
    }

    /// A route of the main table; one with a gateway leads out of this interface over it.
    fn to(to: [u8; 4], length: u8, r#type: u8, gateway: Option<u32>) -> Vec<u8> {
        let mut body = vec![AF_INET, length, 0, 0, 254, 2, 253, r#type, 0, 0, 0, 0];
        body.extend(attribute(RTA_DST, &to));
        if let Some(interface) = gateway {
            body.extend(attribute(RTA_GATEWAY, &[10, 1, 2, 1]));
            body.extend(attribute(RTA_OIF, &interface.to_le_bytes()));
        }
        message(RTM_NEWROUTE, &body)
    }

    /// An address of this machine.
    fn address(of: [u8; 4], length: u8) -> Vec<u8> {
        let body = [AF_INET, length, 0, 0, 2, 0, 0, 0];
        message(20, &[&body[..], &attribute(IFA_LOCAL, &of)].concat())
    }

    #[test]
    fn of_ten_thousand_routes_those_of_own_networks_are_kept() {
        let connected = to([10, 1, 2, 0], 24, 1, None);
        let part = to([10, 1, 2, 64], 26, 1, Some(3));
        let around = to([10, 0, 0, 0], 8, 1, Some(2));
        // The route to this network is gone, and others lead there.
        let lost = to([10, 7, 7, 128], 25, 1, Some(2));
        let default = to([0, 0, 0, 0], 0, 1, Some(2));
        // One tells that a router is behind the interface.
        let routed = to([172, 16, 0, 0], 12, 1, Some(4));
        let kept = [connected, part, around, lost, default, routed].concat();
        let pods = (0..10_000u32).flat_map(|at| {
            let to_pods = (0x6440_0000 + (at << 8)).to_be_bytes();
            to(to_pods, 24, 1, Some(4))
        });
        let all: Vec<u8> = kept.iter().copied().chain(pods).collect();
        let addresses = [address([10, 1, 2, 9], 24), address([10, 7, 7, 7], 24)].concat();
        assert_eq!(networks(&all, &addresses, AF_INET), Ok(kept));
    }

    #[test]
    fn exceptions_are_hosts_of_own_networks_and_what_refuses_them() {
        let host = |octets, r#type| to(octets, 32, r#type, None);
        let net = to([10, 1, 2, 0], 24, 1, None);
        let inside = host([10, 1, 2, 7], 1);
        let blackhole = host([10, 1, 2, 8], 6);
        let everything = to([0, 0, 0, 0], 0, 7, None);
        let elsewhere = [host([10, 9, 9, 9], 1), host([10, 9, 9, 8], 6)].concat();
        let of_address = host([10, 7, 7, 9], 1);
        let kept = [inside, blackhole, everything, of_address].concat();
        let all = [net, elsewhere, kept.clone()].concat();
        let addresses = address([10, 7, 7, 7], 24);
        assert_eq!(exceptions(&all, &addresses, AF_INET), Ok(kept));
    }

    proptest::proptest! {
        #[test]
        fn no_reply_makes_it_panic(bytes: Vec<u8>) {
            let _ = networks(&bytes, &bytes, AF_INET6);
            let _ = exceptions(&bytes, &bytes, AF_INET6);
        }
    }
}
