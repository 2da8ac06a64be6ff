//! IPv4 routes, the rules that choose their tables, and neighbours, as far as they decide over a rail's traffic.

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
/// Routes that an answer may have: a router's table decides nothing here, and would fill a recording.
const LIMIT: usize = 512;

/// Answers `route/getroute` (IPv4 unicast routes to networks, of all tables but the local one) and `route/getrule` (all IPv4 rules).
///
/// Host routes are left out: container networks have one for each of their thousands of endpoints. `route/getroute-exceptions` has those that lead into a
/// network that this machine is connected to, and what refuses; `route/getneigh` the neighbours that did not answer or that somebody wrote down.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    let mut body = [0; BODY];
    body[0] = AF_INET;
    let dump = |kind| Connection::open(NETLINK_ROUTE)?.request(kind, NLM_F_DUMP, &body);
    let messages = match &*call.name {
        "route/getroute" => networks(&dump(RTM_GETROUTE)?)?,
        "route/getroute-exceptions" => exceptions(&dump(RTM_GETROUTE)?)?,
        "route/getneigh" => chosen(&dump(RTM_GETNEIGH)?, |message| {
            let state = netlink::u16_at(message.fixed, 8).unwrap_or(0);
            state & ODD_NEIGHBOURS != 0
        })?,
        "route/getrule" => dump(RTM_GETRULE)?,
        name => {
            return Err(Refusal::NotAsked(
                format!("unknown netlink request {name}").into(),
            ));
        }
    };
    Ok(Answer::Bytes(messages.into()))
}

/// The messages of unicast routes to networks.
fn networks(messages: &[u8]) -> Result<Vec<u8>, Refusal> {
    chosen(messages, |message| {
        let [_, length, _, _, table, _, _, r#type, ..] = *message.fixed;
        message.kind == RTM_NEWROUTE
            && length < 32
            && table != RT_TABLE_LOCAL
            && r#type == RTN_UNICAST
    })
}

/// The messages of routes that refuse, and of those to one host in a network that this machine is connected to.
fn exceptions(messages: &[u8]) -> Result<Vec<u8>, Refusal> {
    let address = |message: &Message<'_, BODY>| {
        let to = message.attributes.find(RTA_DST).ok()??;
        Some(u32::from_be_bytes(to.try_into().ok()?))
    };
    let mut connected: Vec<(u32, u32)> = Vec::new();
    for message in netlink::messages::<BODY>(messages).map_while(Result::ok) {
        let [_, length, _, _, table, _, _, r#type, ..] = *message.fixed;
        let direct = matches!(message.attributes.find(RTA_GATEWAY), Ok(None));
        if (1..32).contains(&length)
            && table != RT_TABLE_LOCAL
            && r#type == RTN_UNICAST
            && direct
            && let Some(address) = address(&message)
        {
            connected.push((address, u32::MAX << (32 - length)));
        }
    }
    chosen(messages, |message| {
        let [_, length, _, _, table, _, _, r#type, ..] = *message.fixed;
        let inside = |to: u32| connected.iter().any(|(net, mask)| to & mask == *net);
        REFUSING.contains(&r#type)
            || (length == 32
                && table != RT_TABLE_LOCAL
                && r#type == RTN_UNICAST
                && address(message).is_some_and(inside))
    })
}

fn chosen(messages: &[u8], keep: impl Fn(&Message<'_, BODY>) -> bool) -> Result<Vec<u8>, Refusal> {
    let mut kept = Vec::new();
    let mut count = 0;
    for message in netlink::messages::<BODY>(messages).map_while(Result::ok) {
        if keep(&message) {
            count += 1;
            if count > LIMIT {
                return Err(Refusal::TooLarge);
            }
            kept.extend_from_slice(message.bytes);
            kept.resize(kept.len().next_multiple_of(4), 0);
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        assert_eq!(networks(&all), Ok(net.clone()));
        assert_eq!(networks(&net[..20]), Ok(Vec::new()));
        assert_eq!(networks(&net.repeat(LIMIT + 1)), Err(Refusal::TooLarge));
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
        assert_eq!(exceptions(&all), Ok([inside, blackhole].concat()));
    }

    proptest::proptest! {
        #[test]
        fn no_reply_makes_it_panic(bytes: Vec<u8>) {
            let _ = networks(&bytes);
            let _ = exceptions(&bytes);
        }
    }
}
