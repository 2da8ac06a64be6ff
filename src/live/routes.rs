//! IPv4 routes and the rules that choose their tables, as far as they decide over a rail's traffic.

use netlink_sys::protocols::NETLINK_ROUTE;

use super::netlink::{Connection, NLM_F_DUMP};
use crate::source::netlink;
use crate::source::question::Call;
use crate::source::{Answer, Refusal};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_GETRULE: u16 = 34;
const AF_INET: u8 = 2;
/// `struct rtmsg` and `struct fib_rule_hdr` have this size, and both begin with the family.
const BODY: usize = 12;
/// `RT_TABLE_LOCAL`: the machine's own addresses.
const RT_TABLE_LOCAL: u8 = 255;
const RTN_UNICAST: u8 = 1;
/// Routes that an answer may have: a router's table decides nothing here, and would fill a recording.
const LIMIT: usize = 512;

/// Answers `route/getroute` (IPv4 unicast routes to networks, of all tables but the local one) and `route/getrule` (all IPv4 rules).
///
/// Host routes are left out: container networks have one for each of their thousands of endpoints.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    let mut body = [0; BODY];
    body[0] = AF_INET;
    let dump = |kind| Connection::open(NETLINK_ROUTE)?.request(kind, NLM_F_DUMP, &body);
    let messages = match &*call.name {
        "route/getroute" => networks(&dump(RTM_GETROUTE)?)?,
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
    let mut kept = Vec::new();
    let mut count = 0;
    for message in netlink::messages::<BODY>(messages).map_while(Result::ok) {
        let [_, length, _, _, table, _, _, r#type, ..] = *message.fixed;
        if message.kind == RTM_NEWROUTE
            && length < 32
            && table != RT_TABLE_LOCAL
            && r#type == RTN_UNICAST
        {
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

    proptest::proptest! {
        #[test]
        fn no_reply_makes_it_panic(bytes: Vec<u8>) {
            let _ = networks(&bytes);
        }
    }
}
