//! Routes, the rules that choose their tables, and neighbours, as far as they decide over a rail's traffic.

use netlink_sys::protocols::NETLINK_ROUTE;

use super::netlink::{Connection, NLM_F_DUMP};
use crate::source::netlink::{self, Message};
use crate::source::question::Call;
use crate::source::{Answer, Refusal};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_GETNEIGH: u16 = 30;
const RTM_GETRULE: u16 = 34;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const RTA_DST: u16 = 1;
const RTA_GATEWAY: u16 = 5;
/// `struct rtmsg`, `struct fib_rule_hdr` and `struct ndmsg` have this size, and all begin with the family.
const BODY: usize = 12;
/// `RT_TABLE_LOCAL`: the machine's own addresses.
const RT_TABLE_LOCAL: u8 = 255;
const RTN_UNICAST: u8 = 1;
/// `RTN_BLACKHOLE`, `RTN_UNREACHABLE`, `RTN_PROHIBIT`
const REFUSING: std::ops::RangeInclusive<u8> = 6..=8;
/// `NUD_INCOMPLETE`, `NUD_FAILED`, `NUD_PERMANENT`
const ODD_NEIGHBOURS: u16 = 0x1 | 0x20 | 0x80;

/// Answers `route/getroute` (unicast routes to networks, of all tables but the local one) and `route/getrule` (all rules), both of IPv4 if no `family` is
/// said to be 6.
///
/// Host routes are left out: container networks have one for each of their thousands of endpoints. `route/getroute-exceptions` has those that lead into a
/// network that this machine is connected to, and what refuses; `route/getneigh` the neighbours that did not answer or that somebody wrote down.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    let mut body = [0; BODY];
    let family = match call.number("family") {
        Some(6) => AF_INET6,
        _ => AF_INET,
    };
    body[0] = family;
    let dump = |kind| Connection::open(NETLINK_ROUTE)?.request(kind, NLM_F_DUMP, &body);
    let messages = match &*call.name {
        "route/getroute" => networks(&dump(RTM_GETROUTE)?, family)?,
        "route/getroute-exceptions" => exceptions(&dump(RTM_GETROUTE)?, family)?,
        "route/getneigh" => chosen(&dump(RTM_GETNEIGH)?, family, |message| {
            let state = netlink::u16_at(message.fixed, 8).unwrap_or(0);
            state & ODD_NEIGHBOURS != 0
        })?,
        "route/getrule" => chosen(&dump(RTM_GETRULE)?, family, |_| true)?,
        name => return Err(Refusal::unknown_call(name)),
    };
    Ok(Answer::Bytes(messages.into()))
}

/// The length of a prefix that is one host's.
fn host_length(family: u8) -> u8 {
    if family == AF_INET6 { 128 } else { 32 }
}

/// A route's destination from the highest bit on, with the length of its prefix.
fn destination(message: &Message<'_, BODY>) -> Option<(u128, u8)> {
    let mut octets = [0; 16];
    let to = message.attributes.find(RTA_DST).ok()?.unwrap_or_default();
    octets.get_mut(..to.len())?.copy_from_slice(to);
    Some((u128::from_be_bytes(octets), message.fixed[1]))
}

/// Whether it is a route to peers. Each interface has one of IPv6 to its link-local network.
fn to_peers(message: &Message<'_, BODY>) -> bool {
    let [_, _, _, _, table, _, _, r#type, ..] = *message.fixed;
    let link_local = destination(message).is_some_and(|(to, _)| to >> 118 == 0x3fa);
    table != RT_TABLE_LOCAL && r#type == RTN_UNICAST && !link_local
}

/// The messages of unicast routes to networks.
fn networks(messages: &[u8], family: u8) -> Result<Vec<u8>, Refusal> {
    chosen(messages, family, |message| {
        message.kind == RTM_NEWROUTE && message.fixed[1] < host_length(family) && to_peers(message)
    })
}

/// The messages of routes that refuse, and of those to one host in a network that this machine is connected to.
fn exceptions(messages: &[u8], family: u8) -> Result<Vec<u8>, Refusal> {
    let host = host_length(family);
    let mut connected: Vec<(u128, u32)> = Vec::new();
    for message in netlink::messages::<BODY>(messages).map_while(Result::ok) {
        let direct = matches!(message.attributes.find(RTA_GATEWAY), Ok(None));
        if direct
            && to_peers(&message)
            && let Some((to, length)) = destination(&message)
            && (1..host).contains(&length)
        {
            connected.push((to, 128 - u32::from(length)));
        }
    }
    chosen(messages, family, |message| {
        let inside = |(to, length): (u128, u8)| {
            let mut all = connected.iter();
            length == host && all.any(|(net, below)| to >> below == net >> below)
        };
        REFUSING.contains(&message.fixed[7])
            || (to_peers(message) && destination(message).is_some_and(inside))
    })
}

/// The messages of this family: a kernel without IPv6 has those of IPv4 for it.
fn chosen(
    messages: &[u8],
    family: u8,
    keep: impl Fn(&Message<'_, BODY>) -> bool,
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
        assert_eq!(networks(&all, AF_INET), Ok(net.clone()));
        let cut = networks(&net[..20], AF_INET);
        assert_eq!(cut, Err(Refusal::Errno(Errno::EPROTO)));
        let many = net.repeat(10_000);
        assert_eq!(networks(&many, AF_INET), Ok(many));
    }

    fn host(to: [u8; 4], r#type: u8) -> Vec<u8> {
        let body = [AF_INET, 32, 0, 0, 254, 2, 253, r#type, 0, 0, 0, 0];
        message(
            RTM_NEWROUTE,
            &[&body[..], &attribute(RTA_DST, &to)].concat(),
        )
    }

    #[test]
    fn exceptions_are_hosts_of_connected_networks_and_what_refuses() {
        let body = [AF_INET, 24, 0, 0, 254, 2, 253, RTN_UNICAST, 0, 0, 0, 0];
        let net = attribute(RTA_DST, &[10, 1, 2, 0]);
        let net = message(RTM_NEWROUTE, &[&body[..], &net].concat());
        let (inside, outside) = (host([10, 1, 2, 7], 1), host([10, 9, 9, 9], 1));
        let blackhole = host([10, 9, 9, 8], 6);
        let all = [net, inside.clone(), outside, blackhole.clone()].concat();
        assert_eq!(exceptions(&all, AF_INET), Ok([inside, blackhole].concat()));
    }

    proptest::proptest! {
        #[test]
        fn no_reply_makes_it_panic(bytes: Vec<u8>) {
            let _ = networks(&bytes, AF_INET6);
            let _ = exceptions(&bytes, AF_INET6);
        }
    }
}
