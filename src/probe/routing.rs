//! Which way the kernel sends: its rules and routes, read as `ip rule` and `ip route show table all` have them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Ask, messages_of};
use crate::fact::Fact;
use crate::network::Network;
use crate::small_sort;
use crate::source::netlink::{Attributes, u16_at, u32_at};
use crate::source::question::Argument;
use crate::source::{Errno, Question};

const RTM_NEWROUTE: u16 = 24;
const RTM_NEWRULE: u16 = 32;
const AF_INET6: u8 = 10;
const FIB_RULE_INVERT: u32 = 2;
/// Jumps between rules that are followed: they only lead forward.
const JUMPS: usize = 1024;

/// The network of an attribute; without one it is all of the family.
fn network(address: Option<&[u8]>, length: u8, family: u8) -> Result<Network, String> {
    let address = match address {
        None if family == AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
        None => Ipv4Addr::UNSPECIFIED.into(),
        Some(octets) => {
            ip(octets).ok_or_else(|| format!("an address of {} bytes", octets.len()))?
        }
    };
    Network::of(address, length).ok_or_else(|| format!("a prefix of {length} bits"))
}

pub(super) fn ip(octets: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
        .ok()
}

/// How routes and rules refuse a packet (`RTN_*` and `FR_ACT_*` have the same numbers).
const REFUSING: [(u8, &str); 3] = [(6, "blackhole"), (7, "unreachable"), (8, "prohibit")];

fn refusing(r#type: u8) -> Option<&'static str> {
    let mut all = REFUSING.iter();
    all.find(|(number, _)| *number == r#type)
        .map(|(_, how)| *how)
}

/// The same of the word that ip(8) prints for it.
pub(super) fn refusing_word(word: &str) -> Option<&'static str> {
    let mut all = REFUSING.iter();
    all.find(|(_, how)| *how == word).map(|(_, how)| *how)
}

/// `RT_TABLE_MAIN`
pub(super) const MAIN: u32 = 254;

/// A route that leads to interfaces, or that refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// What it answers in place of sending, if it refuses.
    pub(super) refuses: Option<&'static str>,
    /// Where to.
    pub(super) to: Network,
    /// The table that it is in.
    pub(super) table: u32,
    /// The lower one wins.
    pub(super) metric: u32,
    /// Whether it leads over a gateway.
    pub(super) gateway: bool,
    /// The address of its gateway, if it has one of its own family.
    pub(super) gateway_address: Option<IpAddr>,
    /// The MTU that it sets (`RTAX_MTU`).
    pub(super) mtu: Option<u32>,
    /// The address that packets get which have none.
    pub(super) source: Option<IpAddr>,
    /// The indexes of the interfaces that it leads out of.
    pub(super) interfaces: Vec<u32>,
}

/// The routes of IPv4, or of the family that is asked for.
pub(super) fn routes_asked<const N: usize>(
    ask: &Ask<'_>,
    family: [(&str, Argument); N],
) -> Fact<Vec<Route>> {
    let said = ask.bytes(Question::netlink("route/getroute", family));
    said.and_then(|bytes| routes(&bytes))
}

/// The rules of IPv4, or of the family that is asked for.
pub(super) fn rules_asked<const N: usize>(
    ask: &Ask<'_>,
    family: [(&str, Argument); N],
) -> Fact<Vec<Rule>> {
    let said = ask.bytes(Question::netlink("route/getrule", family));
    let rules = said.and_then(|bytes| rules(&bytes));
    // A kernel with one table refuses.
    rules.or_refused(Errno::EOPNOTSUPP, one_table(N > 0))
}

/// The routes of a reply to `route/getroute`.
pub(super) fn routes(bytes: &[u8]) -> Result<Vec<Route>, String> {
    let mut all = Vec::new();
    for message in messages_of::<12>(bytes, &[RTM_NEWROUTE]) {
        let message = message?;
        let [family, length, _, _, table, _, _, r#type, ..] = *message.fixed;
        let attributes = message.attributes;
        let address = |number| -> Result<Option<IpAddr>, String> {
            Ok(attributes.find(number)?.and_then(ip))
        };
        let mut interfaces: Vec<u32> = attributes.number(4)?.into_iter().collect();
        let mut gateway = attributes.find(5)?.is_some() || attributes.find(18)?.is_some();
        if let Some(mut hops) = attributes.find(9)? {
            // struct rtnexthop: length, flags, hops, interface; then its attributes.
            while !hops.is_empty() {
                let length = usize::from(u16_at(hops, 0).unwrap_or(0));
                let hop = hops.get(..length).filter(|hop| hop.len() >= 8);
                let hop = hop.ok_or("a next hop is cut short")?;
                interfaces.extend(u32_at(hop, 4));
                gateway |= Attributes(hop.get(8..).unwrap_or_default())
                    .find(5)?
                    .is_some();
                hops = hops.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
        all.push(Route {
            refuses: refusing(r#type),
            to: network(attributes.find(1)?, length, family)?,
            table: attributes.number(15)?.unwrap_or(u32::from(table)),
            metric: attributes.number(6)?.unwrap_or(0),
            gateway,
            gateway_address: address(5)?,
            mtu: match attributes.nested(8)? {
                Some(metrics) => metrics.number(2)?,
                None => None,
            },
            source: address(7)?,
            interfaces,
        });
    }
    Ok(all)
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Table(u32),
    /// A table whose routes are not known.
    Unlisted,
    Goto(u32),
    Pass,
    Refuse(&'static str),
}

/// A rule that chooses a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) priority: u32,
    pub(super) from: Network,
    pub(super) to: Network,
    pub(super) inverted: bool,
    /// It matches marked packets, a type of service, an interface, a user or a port: not an answer like any other.
    pub(super) special: bool,
    /// The protocol that it matches, if it asks for nothing else of a packet but its addresses.
    pub(super) protocol: Option<u8>,
    /// It leads to the table of the interface's virtual router.
    pub(super) l3mdev: bool,
    /// Routes with a prefix of at most this length do not count.
    pub(super) suppressed: Option<u32>,
    pub(super) action: Action,
}

/// The rules of a reply to `route/getrule`, in their order.
pub(super) fn rules(bytes: &[u8]) -> Result<Vec<Rule>, String> {
    let mut all = Vec::new();
    for message in messages_of::<12>(bytes, &[RTM_NEWRULE]) {
        let message = message?;
        let [family, to, from, service, table, _, _, action, flags @ ..] = *message.fixed;
        let attributes = message.attributes;
        let has = |number| attributes.find(number).map(|found| found.is_some());
        let incoming = match attributes.find(3)? {
            // What the machine sends itself comes from the loopback interface.
            Some(name) => name != b"lo\0",
            None => false,
        };
        let mut special = service != 0 || incoming;
        // OIFNAME, UID_RANGE, IP_PROTO, SPORT_RANGE, DPORT_RANGE, TUN_ID
        for number in [17, 20, 23, 24, 12] {
            special |= has(number)?;
        }
        special |= attributes.number(10)?.is_some_and(|mark| mark != 0);
        let protocol = attributes.number(22)?.and_then(|n| u8::try_from(n).ok());
        let protocol = protocol.filter(|_| !special);
        special |= has(22)?;
        let suppressed = attributes.number(14)?.filter(|length| *length != u32::MAX);
        all.push(Rule {
            priority: attributes.number(6)?.unwrap_or(0),
            from: network(attributes.find(2)?, from, family)?,
            to: network(attributes.find(1)?, to, family)?,
            inverted: u32::from_le_bytes(flags) & FIB_RULE_INVERT != 0,
            special,
            protocol,
            l3mdev: matches!(attributes.find(19)?, Some([1])),
            suppressed,
            action: match action {
                1 => Action::Table(attributes.number(15)?.unwrap_or(u32::from(table))),
                2 => Action::Goto(attributes.number(4)?.unwrap_or(0)),
                action => refusing(action).map_or(Action::Pass, Action::Refuse),
            },
        });
    }
    small_sort::by_key(&mut all, |rule| rule.priority);
    Ok(all)
}

/// The one rule of a kernel that has one table (`CONFIG_IP_MULTIPLE_TABLES` unset).
fn one_table(six: bool) -> Vec<Rule> {
    Rule::every(six, Action::Table(MAIN)).into_iter().collect()
}

impl Rule {
    /// The rule that takes every packet of a family.
    pub(super) fn every(six: bool, action: Action) -> Option<Rule> {
        let any = match six {
            true => IpAddr::from(Ipv6Addr::UNSPECIFIED),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let all = Network::of(any, 0)?;
        Some(Rule {
            priority: 0,
            from: all,
            to: all,
            inverted: false,
            special: false,
            protocol: None,
            l3mdev: false,
            suppressed: None,
            action,
        })
    }
}

impl std::fmt::Display for Rule {
    /// As ip-rule(8) takes it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pref {}", self.priority)?;
        for (word, net) in [("from", self.from), ("to", self.to)] {
            if net.length > 0 {
                write!(f, " {word} {net}")?;
            }
        }
        match self.protocol {
            Some(6) => f.write_str(" ipproto tcp")?,
            Some(17) => f.write_str(" ipproto udp")?,
            Some(other) => write!(f, " ipproto {other}")?,
            None => {}
        }
        match self.action {
            Action::Refuse(how) => write!(f, " {how}"),
            Action::Table(table) => write!(f, " lookup {table}"),
            Action::Goto(priority) => write!(f, " goto {priority}"),
            Action::Pass | Action::Unlisted => Ok(()),
        }
    }
}

/// What decides over packets to a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Decision<'a> {
    /// A rule refuses them.
    Rule(&'a Rule),
    /// A route takes them, or refuses.
    Route(&'a Route),
    /// No rule has a route for them.
    Nothing,
}

/// The interfaces by which a packet from this address to this network leaves; none if it does not leave.
///
/// `Err` if it is not said: a rule looks at the address, and none is known; or it leads to a virtual router's table.
pub(super) fn way(
    rules: &[Rule],
    routes: &[Route],
    from: Option<IpAddr>,
    to: Network,
) -> Result<Vec<u32>, String> {
    Ok(match decide(rules, routes, from, to)? {
        Decision::Route(route) => route.interfaces.clone(),
        Decision::Rule(_) | Decision::Nothing => Vec::new(),
    })
}

/// The rule that refuses this protocol to this network, though other packets pass.
pub(super) fn refuses_protocol(
    rules: &[Rule],
    protocol: u8,
    from: IpAddr,
    to: Network,
) -> Option<&Rule> {
    rules.iter().find(|rule| {
        matches!(rule.action, Action::Refuse(_))
            && !rule.inverted
            && rule.protocol == Some(protocol)
            && rule.from.has(from)
            && rule.to.contains(to)
    })
}

/// What decides over a packet from this address to this network. `Err` as with [`way`].
pub(super) fn decide<'a>(
    rules: &'a [Rule],
    routes: &'a [Route],
    from: Option<IpAddr>,
    to: Network,
) -> Result<Decision<'a>, String> {
    let mut at = 0;
    for _ in 0..JUMPS {
        let Some(rule) = rules.get(at) else {
            break;
        };
        at += 1;
        // Each family has rules of its own.
        if rule.to.six != to.six {
            continue;
        }
        if rule.l3mdev {
            return Err("a rule leads to the tables of virtual routers".to_owned());
        }
        let from_matches = match (rule.from.length, from) {
            (0, _) => true,
            (_, Some(from)) => rule.from.has(from),
            (_, None) => return Err("a rule looks at a source address that is not known".into()),
        };
        let matches = from_matches && rule.to.contains(to) && !rule.special;
        if matches == rule.inverted {
            continue;
        }
        match rule.action {
            Action::Table(table) => {
                let mut fitting = routes
                    .iter()
                    .filter(|route| route.table == table && route.to.contains(to));
                let first = fitting.next();
                // The longest prefix, then the lowest metric, then the one that is first.
                let best = fitting.fold(first, |best, route| match best {
                    Some(best)
                        if (route.to.length, std::cmp::Reverse(route.metric))
                            > (best.to.length, std::cmp::Reverse(best.metric)) =>
                    {
                        Some(route)
                    }
                    best => best,
                });
                if let Some(route) = best
                    && rule
                        .suppressed
                        .is_none_or(|length| u32::from(route.to.length) > length)
                {
                    return Ok(Decision::Route(route));
                }
            }
            Action::Goto(priority) => {
                let target = rules.iter().position(|rule| rule.priority == priority);
                at = target.filter(|target| *target >= at).unwrap_or(rules.len());
            }
            Action::Pass => {}
            Action::Unlisted => return Err("a rule leads to a table that is not listed".into()),
            Action::Refuse(_) => return Ok(Decision::Rule(rule)),
        }
    }
    Ok(Decision::Nothing)
}

#[cfg(test)]
pub(super) mod testing {
    //! Replies built for tests.

    use crate::source::testing::{attribute, message};

    /// A route of this table, with these attributes.
    pub(in crate::probe) fn route(
        to: [u8; 4],
        length: u8,
        table: u8,
        interface: u32,
        extra: &[(u16, &[u8])],
    ) -> Vec<u8> {
        let mut body = vec![2, length, 0, 0, table, 2, 253, 1, 0, 0, 0, 0];
        if length > 0 {
            body.extend(attribute(1, &to));
        }
        body.extend(attribute(4, &interface.to_le_bytes()));
        for (number, payload) in extra {
            body.extend(attribute(*number, payload));
        }
        message(24, &body)
    }

    /// A rule that leads to a table.
    pub(in crate::probe) fn rule(priority: u32, from: Option<[u8; 4]>, table: u8) -> Vec<u8> {
        let length = if from.is_some() { 32 } else { 0 };
        let mut body = vec![2, 0, length, 0, table, 0, 0, 1, 0, 0, 0, 0];
        if let Some(from) = from {
            body.extend(attribute(2, &from));
        }
        body.extend(attribute(6, &priority.to_le_bytes()));
        message(32, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{route, rule};
    use super::*;
    use crate::source::testing::{attribute, message};

    fn usual() -> Vec<u8> {
        [
            rule(0, None, 255),
            rule(32766, None, 254),
            rule(32767, None, 253),
        ]
        .concat()
    }

    fn net(text: &str) -> Network {
        Network::read(text).unwrap()
    }

    /// Two rails in one network; the first one's route is first.
    fn rails() -> Vec<Route> {
        let bytes = [
            route([0; 4], 0, 254, 2, &[(5, &[192, 168, 0, 1])]),
            route([10, 0, 0, 0], 24, 254, 3, &[(7, &[10, 0, 0, 5])]),
            route([10, 0, 0, 0], 24, 254, 4, &[(7, &[10, 0, 0, 6])]),
            route([10, 0, 0, 0], 24, 102, 4, &[(7, &[10, 0, 0, 6])]),
        ]
        .concat();
        routes(&bytes).unwrap()
    }

    #[test]
    fn of_two_rails_in_one_network_the_first_answers_for_both() {
        let rules = rules(&usual()).unwrap();
        let to = net("10.0.0.0/24");
        let routes = rails();
        assert_eq!(
            way(&rules, &routes, Some([10, 0, 0, 6].into()), to),
            Ok(vec![3])
        );
        assert_eq!(way(&rules, &routes, None, net("8.8.8.0/24")), Ok(vec![2]));
        assert_eq!(way(&rules, &[], None, to), Ok(vec![]));
        assert_eq!(routes[1].to.to_string(), "10.0.0.0/24");
        assert!(routes[0].gateway && !routes[1].gateway);
    }

    #[test]
    fn a_rule_by_source_sends_the_answer_back_by_its_rail() {
        let rules = rules(&[rule(100, Some([10, 0, 0, 6]), 102), usual()].concat()).unwrap();
        let to = net("10.0.0.0/24");
        assert_eq!(
            way(&rules, &rails(), Some([10, 0, 0, 6].into()), to),
            Ok(vec![4])
        );
        assert_eq!(
            way(&rules, &rails(), Some([10, 0, 0, 5].into()), to),
            Ok(vec![3])
        );
        assert!(
            way(&rules, &rails(), None, to).is_err(),
            "which address is not known"
        );
    }

    #[test]
    fn each_family_has_routes_and_rules_of_its_own() {
        let net6 = |second: u8, table: u8, r#type: u8| {
            let mut to = [0; 16];
            to[..4].copy_from_slice(&[0xfd, 0, 0, second]);
            let mut body = vec![10, 64, 0, 0, table, 2, 0, r#type, 0, 0, 0, 0];
            body.extend(attribute(1, &to));
            body.extend(attribute(4, &5u32.to_le_bytes()));
            message(24, &body)
        };
        let mut refusing = vec![10, 32, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0];
        let mut to = [0; 16];
        to[..4].copy_from_slice(&[0xfd, 0, 0, 2]);
        refusing.extend(attribute(1, &to));
        let mut main = vec![10, 0, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0];
        main.extend(attribute(6, &32766u32.to_le_bytes()));
        let six = [message(32, &refusing), message(32, &main)].concat();
        let rules = rules(&[six, usual()].concat()).unwrap();
        let six = [net6(1, 254, 1), net6(2, 254, 1), net6(3, 254, 6)].concat();
        let routes = [rails(), routes(&six).unwrap()].concat();
        let way = |to| way(&rules, &routes, None, net(to));
        assert_eq!(way("fd00:1::/64"), Ok(vec![5]));
        assert_eq!(way("fd00:2::/64"), Ok(vec![]));
        assert_eq!(way("fd00:9::/64"), Ok(vec![]));
        assert_eq!(way("10.0.0.0/24"), Ok(vec![3]));
        let refused = decide(&rules, &routes, None, net("fd00:3::/64"));
        assert!(
            matches!(refused, Ok(Decision::Route(route)) if route.refuses == Some("blackhole"))
        );
    }

    #[test]
    fn a_kernel_with_one_table() {
        let to = net("10.0.0.0/24");
        let from = Some([10, 0, 0, 6].into());
        assert_eq!(way(&one_table(false), &rails(), from, to), Ok(vec![3]));
    }

    #[test]
    fn the_lower_metric_and_the_longer_prefix_win() {
        let bytes = [
            route([10, 0, 0, 0], 24, 254, 3, &[(6, &200u32.to_le_bytes())]),
            route([10, 0, 0, 0], 24, 254, 4, &[(6, &100u32.to_le_bytes())]),
            route([10, 0, 0, 0], 16, 254, 5, &[]),
        ]
        .concat();
        let routes = routes(&bytes).unwrap();
        let rules = rules(&usual()).unwrap();
        assert_eq!(way(&rules, &routes, None, net("10.0.0.0/24")), Ok(vec![4]));
        assert_eq!(way(&rules, &routes, None, net("10.0.9.0/24")), Ok(vec![5]));
    }

    #[test]
    fn rules_that_are_not_for_every_packet_do_not_count() {
        let special = |number: u16, payload: &[u8]| {
            let mut body = vec![2, 0, 0, 0, 102, 0, 0, 1, 0, 0, 0, 0];
            body.extend(attribute(number, payload));
            message(32, &body)
        };
        let to = net("10.0.0.0/24");
        for rule in [
            special(10, &[1, 0, 0, 0]),
            special(17, b"eth4\0"),
            special(3, b"eth4\0"),
            special(22, &[6]),
        ] {
            let rules = rules(&[rule, usual()].concat()).unwrap();
            assert_eq!(way(&rules, &rails(), None, to), Ok(vec![3]));
        }
        let rules_lo = rules(&[special(3, b"lo\0"), usual()].concat()).unwrap();
        assert_eq!(way(&rules_lo, &rails(), None, to), Ok(vec![4]));
        let router = rules(&[special(19, &[1]), usual()].concat()).unwrap();
        assert!(way(&router, &rails(), None, to).is_err());
    }

    #[test]
    fn jumps_suppression_and_drops() {
        let body = |action: u8, extra: &[u8]| {
            let mut body = vec![2, 0, 0, 0, 254, 0, 0, action, 0, 0, 0, 0];
            body.extend(extra);
            message(32, &body)
        };
        let to = net("10.0.0.0/24");
        let jump = body(2, &attribute(4, &32767u32.to_le_bytes()));
        let jump = rules(&[jump, usual()].concat()).unwrap();
        assert_eq!(
            way(&jump, &rails(), None, to),
            Ok(vec![]),
            "over the main table"
        );
        let suppressed = body(1, &attribute(14, &24u32.to_le_bytes()));
        let suppressed = rules(&[suppressed, rule(1, None, 102)].concat()).unwrap();
        assert_eq!(way(&suppressed, &rails(), None, to), Ok(vec![4]));
        let dropped = rules(&[body(6, &[]), usual()].concat()).unwrap();
        assert_eq!(way(&dropped, &rails(), None, to), Ok(vec![]));
    }

    #[test]
    fn several_next_hops() {
        let hop = |interface: u32| {
            let mut hop = vec![16, 0, 0, 0];
            hop.extend(interface.to_le_bytes());
            hop.extend(attribute(5, &[10, 0, 0, 1]));
            hop
        };
        let mut body = vec![2, 0, 0, 0, 254, 2, 0, 1, 0, 0, 0, 0];
        body.extend(attribute(9, &[hop(3), hop(4)].concat()));
        let routes = routes(&message(24, &body)).unwrap();
        assert_eq!(
            (&routes[0].interfaces[..], routes[0].gateway),
            (&[3, 4][..], true)
        );
    }

    #[test]
    fn cut_and_odd_replies_are_errors() {
        let bytes = route([10, 0, 0, 0], 24, 254, 3, &[(7, &[10, 0, 0, 5])]);
        for cut in 1..bytes.len() {
            assert!(routes(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(routes(&route([1; 4], 33, 254, 3, &[])).is_err());
        assert!(routes(&usual()).is_err() && rules(&bytes).is_err());
        assert_eq!(routes(&[]), Ok(vec![]));
    }

    proptest::proptest! {
        #[test]
        fn no_reply_makes_it_panic(bytes: Vec<u8>, at in 0usize..60, byte: u8) {
            let _ = (routes(&bytes), rules(&bytes));
            let mut bytes = [rule(100, Some([10, 0, 0, 6]), 102), usual()].concat();
            bytes[at] = byte;
            if let Ok(rules) = rules(&bytes) {
                let _ = way(&rules, &rails(), None, net("10.0.0.0/24"));
            }
        }
    }
}
