//! The kernel's way to the host at which the processes of a job meet, as ip-route(8) `get` has it:
//! with all rules, tables, next hops and neighbours that count for this one address.

use std::net::IpAddr;

use netlink_sys::protocols::NETLINK_ROUTE;
use rustix::net::netdevice;
use serde_json::{Value, json};

use super::netlink::Connection;
use super::user_files;
use crate::source::netlink::{self, Message, attribute};
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

const RTM_GETROUTE: u16 = 26;
/// `RTM_F_FIB_MATCH` of linux/rtnetlink.h: the route that fits, in place of what becomes of a packet.
const FIB_MATCH: u32 = 0x2000;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_VIA: u16 = 18;
/// `RTN_LOCAL`
const LOCAL: u8 = 2;
/// `struct rtmsg`
const BODY: usize = 12;
/// How many addresses of a name are asked for.
const ADDRESSES: usize = 4;

/// What the kernel does with packets to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PeerRoute {
    pub(super) address: IpAddr,
    /// The way, or why there is none.
    pub(super) way: Result<Way, Errno>,
}

/// A way to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// The number of the interface.
    pub(super) interface: u32,
    /// The gateway; none for a neighbour, and for this machine itself.
    pub(super) gateway: Option<IpAddr>,
    /// The address that packets are sent from.
    source: Option<IpAddr>,
    /// Whether it is one of this machine's own.
    pub(super) is_local: bool,
    /// The network that the route is for, where the kernel says it (Linux 4.13).
    pub(super) network: Option<String>,
}

/// Answers `peer_route`: the ways to the addresses of the host that a variable names, or how its
/// name was not found.
pub(super) fn ask(call: &Call) -> Result<Answer, Refusal> {
    let addresses = match user_files::resolved(call)? {
        Ok(addresses) => addresses,
        Err(failed) => return Ok(Answer::from(json!({ "failed": failed }))),
    };
    let routes = routes(addresses)?;
    let routes: Vec<Value> = routes.iter().map(PeerRoute::value).collect();
    Ok(Answer::from(json!({ "routes": routes })))
}

/// The ways to hosts that the environment names, as far as no name server has to be asked.
pub(super) fn without_name_server() -> Vec<PeerRoute> {
    let all = user_files::MASTERS.iter().flat_map(|name| {
        let addresses = user_files::noted(name);
        routes(addresses).unwrap_or_default()
    });
    all.collect()
}

fn routes(mut addresses: Vec<IpAddr>) -> Result<Vec<PeerRoute>, Refusal> {
    addresses.truncate(ADDRESSES);
    let mut found = Vec::new();
    for address in addresses {
        let way = match way(address) {
            Ok(way) => Ok(way),
            Err(Refusal::Errno(errno)) if REFUSING.contains(&errno) => Err(errno),
            Err(other) => return Err(other),
        };
        found.push(PeerRoute { address, way });
    }
    Ok(found)
}

/// What the kernel answers where no route leads to an address: none fits, and routes and rules of
/// the kinds unreachable, prohibit and blackhole.
const REFUSING: [Errno; 4] = [
    Errno::ENETUNREACH,
    Errno::EHOSTUNREACH,
    Errno::EACCES,
    Errno::EINVAL,
];

fn request(to: IpAddr, flags: u32) -> Result<Vec<u8>, Refusal> {
    let (family, octets) = match to {
        IpAddr::V4(to) => (2, to.octets().to_vec()),
        IpAddr::V6(to) => (10, to.octets().to_vec()),
    };
    let bits = u8::try_from(octets.len() * 8).unwrap_or(u8::MAX);
    let mut body = vec![family, bits, 0, 0, 0, 0, 0, 0];
    body.extend(flags.to_ne_bytes());
    body.extend(attribute(RTA_DST, &octets));
    Connection::open(NETLINK_ROUTE)?.request(RTM_GETROUTE, 0, &body)
}

fn way(to: IpAddr) -> Result<Way, Refusal> {
    let reply = request(to, 0)?;
    let mut messages = netlink::messages::<BODY>(&reply);
    let message = messages.next().and_then(Result::ok).ok_or(Errno::EPROTO)?;
    let mut way = read(&message).ok_or(Errno::EPROTO)?;
    if let Ok(reply) = request(to, FIB_MATCH) {
        let mut messages = netlink::messages::<BODY>(&reply);
        way.network = messages
            .next()
            .and_then(Result::ok)
            .as_ref()
            .and_then(network);
    }
    Ok(way)
}

fn read(message: &Message<'_, BODY>) -> Option<Way> {
    let of = |number| message.attributes.find(number).ok().flatten();
    // struct rtvia: the family, then the address.
    let via = of(RTA_VIA).and_then(|via| via.get(2..));
    Some(Way {
        interface: message.attributes.number(RTA_OIF).ok()??,
        gateway: of(RTA_GATEWAY).or(via).and_then(ip),
        source: of(RTA_PREFSRC).and_then(ip),
        is_local: message.fixed[7] == LOCAL,
        network: None,
    })
}

/// The destination of a route: as ip-route(8) names it.
fn network(message: &Message<'_, BODY>) -> Option<String> {
    let to = message.attributes.find(RTA_DST).ok()?;
    Some(match to.and_then(ip) {
        Some(address) => format!("{address}/{}", message.fixed[1]),
        None => "default".to_owned(),
    })
}

fn ip(octets: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
        .ok()
}

impl PeerRoute {
    fn value(&self) -> Value {
        let mut value = json!({ "address": self.address.to_string() });
        match &self.way {
            Err(errno) => value["errno"] = json!(errno.to_string()),
            Ok(way) => {
                if let Ok(socket) = Connection::open(NETLINK_ROUTE)
                    && let Ok(name) = netdevice::index_to_name(socket.fd(), way.interface)
                {
                    value["interface"] = json!(name);
                }
                for (key, address) in [("gateway", way.gateway), ("source", way.source)] {
                    if let Some(address) = address {
                        value[key] = json!(address.to_string());
                    }
                }
                if way.is_local {
                    value["local"] = json!(true);
                }
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testing::message;

    /// What the kernel answers, with these attributes.
    fn reply(r#type: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![2, 32, 0, 0, 254, 0, 0, r#type, 0, 0, 0, 0];
        for (number, value) in attributes {
            body.extend(attribute(*number, value));
        }
        message(24, &body)
    }

    fn read_one(reply: &[u8]) -> Option<Way> {
        let message = netlink::messages::<BODY>(reply).next()?.ok()?;
        read(&message)
    }

    #[test]
    fn a_way_has_its_interface_and_its_gateway() {
        let direct = Way {
            interface: 3,
            gateway: None,
            source: Some([10, 0, 0, 5].into()),
            is_local: false,
            network: None,
        };
        let own: (u16, &[u8]) = (RTA_PREFSRC, &[10, 0, 0, 5]);
        let out: (u16, &[u8]) = (RTA_OIF, &[3, 0, 0, 0]);
        assert_eq!(read_one(&reply(1, &[out, own])), Some(direct.clone()));
        for (number, gateway) in [
            (RTA_GATEWAY, &[10, 0, 0, 1][..]),
            (RTA_VIA, &[2, 0, 10, 0, 0, 1]),
        ] {
            let routed = Way {
                gateway: Some([10, 0, 0, 1].into()),
                ..direct.clone()
            };
            assert_eq!(
                read_one(&reply(1, &[out, own, (number, gateway)])),
                Some(routed)
            );
        }
        assert!(read_one(&reply(LOCAL, &[out])).is_some_and(|way| way.is_local));
        assert_eq!(read_one(&reply(1, &[own])), None);
    }

    #[test]
    fn this_machine_has_a_way_to_itself() {
        let local = way(IpAddr::from([127, 0, 0, 1])).unwrap();
        assert!(local.is_local && local.gateway.is_none());
    }
}
