//! The packet filter's rules, in the terms that nftables and iptables have in common.
//!
//! No fact of the schema can hold them: a probe reads them, a derived fact says what they do to a packet.

use std::sync::Arc;

use super::Gap;

/// All rules of a network namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ruleset {
    /// The tables of all families and of both implementations.
    pub tables: Vec<Table>,
    /// Why there may be further tables: what those here drop is dropped, and what they let through may be dropped by others.
    pub open: Option<Gap>,
}

/// The packets that a table sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4 and IPv6.
    Inet,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Everything that enters or leaves a device.
    Netdev,
    /// Bridged frames, ARP: nothing that an IP packet of this node meets.
    Other,
}

/// The tool that made a table, and that changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// nft(8), or a program that speaks its language.
    Nftables,
    /// iptables(8) over nf_tables.
    IptablesNft,
    /// iptables(8) over ip_tables.
    IptablesLegacy,
    /// tc(8): filters of a device.
    TrafficControl,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The packets that it sees.
    pub family: Family,
    /// Its name.
    pub name: Arc<str>,
    /// The tool that made it.
    pub backend: Backend,
    /// Its chains.
    pub chains: Vec<Chain>,
    /// Why its rules are not known, if they are not.
    pub gap: Option<Arc<str>>,
}

impl Table {
    /// A table without chains.
    pub fn new(family: Family, name: &str, backend: Backend) -> Self {
        Table {
            family,
            name: name.into(),
            backend,
            chains: Vec::new(),
            gap: None,
        }
    }

    /// The chain of this name.
    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|chain| &*chain.name == name)
    }

    /// Family and name, as its tool writes them.
    pub fn title(&self) -> String {
        let family = match (self.family, self.backend) {
            (_, Backend::TrafficControl) => "tc",
            (Family::Ipv4, Backend::IptablesLegacy) => "iptables-legacy",
            (Family::Ipv6, Backend::IptablesLegacy) => "ip6tables-legacy",
            (Family::Inet, _) => "inet",
            (Family::Ipv4, _) => "ip",
            (Family::Ipv6, _) => "ip6",
            (Family::Netdev, _) => "netdev",
            (Family::Other, _) => "other",
        };
        format!("{family} {}", self.name)
    }
}

/// Where on its way a packet meets a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// On arrival from a device.
    Ingress,
    /// Before it is routed.
    Prerouting,
    /// On its way to a process of this node.
    Input,
    /// On sending by a process of this node.
    Output,
    /// After it was routed.
    Postrouting,
    /// As it goes to a device.
    Egress,
    /// A hook that this node's own packets do not meet.
    Other,
}

/// A base chain's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// The hook.
    pub hook: Hook,
    /// Whether only the first packet of a connection meets it.
    pub nat: bool,
    /// Chains of one hook are met in this order.
    pub priority: i64,
    /// Whether a packet that meets its end is dropped.
    pub drops: bool,
    /// The devices of an ingress or egress chain; `None` if they are not known.
    pub devices: Option<Vec<Arc<str>>>,
}

/// A chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Its name.
    pub name: Arc<str>,
    /// Its hook; `None` for a chain that others jump to.
    pub base: Option<Base>,
    /// Its rules, in order.
    pub rules: Vec<Rule>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The rule and where it stands, as its tool writes it.
    pub text: Arc<str>,
    /// Its steps in order; the first match that fails ends it.
    pub steps: Vec<Step>,
}

/// A statement of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The packet has to fit.
    Match(Match),
    /// Decides about the packet.
    Verdict(Verdict),
    /// Decides about the packet by a lookup.
    VerdictMap {
        /// The fields to look up.
        fields: Vec<PacketField>,
        /// The elements: values, one for each field, and the verdict.
        entries: Vec<(Vec<Values>, Verdict)>,
        /// Whether all elements are known.
        whole: bool,
    },
    /// The packet's mark becomes `mark & and ^ xor`; `None`: becomes one that is not known.
    Mark(Option<(u32, u32)>),
    /// The connection's mark changes.
    ConnectionMark,
    /// The packet's connection is not tracked.
    Untrack,
    /// As many packets as a rate, a number or chance allows go on.
    Rate,
    /// A match or a statement that is not understood: the rule may end here.
    Opaque(Arc<str>),
    /// A statement that is not understood, and may decide about the packet.
    OpaqueVerdict(Arc<str>),
    /// The packet gets another destination, or goes to another program or device.
    Divert,
    /// The packet gets another source address, which breaks RoCE's checksum.
    Translate,
    /// A match that was not read, of a rule that may drop what it matches.
    Unread,
}

/// A decision about a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes this base chain.
    Accept,
    /// It is gone.
    Drop,
    /// It is dropped, and its sender is told.
    Reject,
    /// A program decides.
    Queue,
    /// The next rule is looked at.
    Continue,
    /// Back to the rule after the jump.
    Return,
    /// Into a chain, and back.
    Jump(Arc<str>),
    /// Into a chain, and not back to this one.
    Goto(Arc<str>),
}

/// A condition on a packet: one of several alternatives, or none of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// The compared fields; several make a tuple.
    pub fields: Vec<PacketField>,
    /// Whether the packet fits if the fields are *not* among the values.
    pub negate: bool,
    /// Alternatives: values, one for each field.
    pub any: Vec<Vec<Values>>,
    /// Whether all alternatives are known.
    pub whole: bool,
}

impl Match {
    /// Fields that are one of these tuples of values.
    pub fn any(fields: Vec<PacketField>, any: Vec<Vec<Values>>) -> Self {
        Match {
            fields,
            negate: false,
            any,
            whole: true,
        }
    }

    /// A field that has these values.
    pub fn has(field: PacketField, values: Values) -> Self {
        Match::any(vec![field], vec![vec![values]])
    }

    /// A field that is one number.
    pub fn is(field: PacketField, value: u128) -> Self {
        Match::has(field, Values::one(value))
    }

    /// Fields that are compared with what is not known.
    pub fn unknown(fields: Vec<PacketField>) -> Self {
        Match {
            whole: false,
            ..Match::any(fields, Vec::new())
        }
    }

    /// The same, or its contrary.
    pub fn unless(self, negate: bool) -> Self {
        Match { negate, ..self }
    }
}

/// Values of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Numbers from, to (both included): ports, addresses, protocols, flags.
    Ranges(Vec<(u128, u128)>),
    /// `field & mask == value`.
    Masked(u128, u128),
    /// `field & mask != 0`.
    Bits(u128),
    /// Names; one that ends in `*` stands for all that begin so.
    Names(Vec<Arc<str>>),
}

impl Values {
    /// One number.
    pub fn one(value: u128) -> Self {
        Values::Ranges(vec![(value, value)])
    }
}

/// A field that a match compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketField {
    /// The name of the interface by which the packet came in.
    InName,
    /// The name of the interface by which it goes out.
    OutName,
    /// The number of the transport protocol.
    Protocol,
    /// 4 or 6.
    Version,
    /// The source port.
    SourcePort,
    /// The destination port.
    DestinationPort,
    /// The IPv4 source address.
    Source4,
    /// The IPv4 destination address.
    Destination4,
    /// The IPv6 source address.
    Source6,
    /// The IPv6 destination address.
    Destination6,
    /// The state of the packet's connection, as [`state`] has it.
    State,
    /// Which direction of the connection it is: 0 the original one, 1 the reply.
    Direction,
    /// Whether the connection's addresses were rewritten, and other bits of its status.
    Status,
    /// The packet's mark.
    Mark,
    /// The connection's mark.
    ConnectionMark,
    /// The flags of TCP.
    TcpFlags,
    /// The type of an ICMP message.
    IcmpType,
    /// The code of an ICMP message.
    IcmpCode,
    /// The type of an ICMPv6 message.
    Icmp6Type,
    /// The code of an ICMPv6 message.
    Icmp6Code,
    /// To whom the frame is addressed: 0 this host, 1 all, 2 a group, 3 another host.
    PacketType,
    /// What the source address is to this node, as [`address_kind`] has it.
    SourceKind,
    /// What the destination address is to this node, as [`address_kind`] has it.
    DestinationKind,
    /// Whether the route back to the source leaves by the interface of arrival (1) or not (0).
    ReversePath,
    /// A header that the packets that matter here do not have: a fragment's, a source route's.
    Extension,
    /// Something else about the sender: its MAC address, a set that it is in.
    Sender(Arc<str>),
    /// Something that is not known of a packet beforehand.
    Other(Arc<str>),
}

/// Bits of a connection's state (`include/uapi/linux/netfilter/nf_conntrack_common.h`, NF_CT_STATE_BIT).
pub mod state {
    /// It belongs to no connection that makes sense.
    pub const INVALID: u128 = 1;
    /// Both directions were seen.
    pub const ESTABLISHED: u128 = 2;
    /// It belongs to another connection.
    pub const RELATED: u128 = 4;
    /// It opens a connection.
    pub const NEW: u128 = 8;
    /// Connection tracking ignores it.
    pub const UNTRACKED: u128 = 64;
}

/// What an address is to a node (`include/uapi/linux/rtnetlink.h`, RTN_*).
pub mod address_kind {
    /// Reached over the network.
    pub const UNICAST: u128 = 1;
    /// One of the node's own.
    pub const LOCAL: u128 = 2;
    /// All hosts of a link.
    pub const BROADCAST: u128 = 3;
    /// The nearest of several.
    pub const ANYCAST: u128 = 4;
    /// A group.
    pub const MULTICAST: u128 = 5;
}
