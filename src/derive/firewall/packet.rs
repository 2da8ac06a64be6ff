//! What is known of a packet before it is sent.

use std::sync::Arc;

use crate::fact::ruleset::{PacketField, address_kind, state};

/// Why it is not known whether a packet fits a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// It depends on who sends it.
    Source,
    /// It is dropped for some peers of the interface's own subnet, by name.
    Denied,
    /// It depends on how many there are, or on chance.
    Rate,
    /// A program decides, or the packet goes elsewhere.
    Elsewhere,
    /// The rule drops something, and was not read.
    Unread,
    /// The rule is not understood, or what it asks is not known.
    Opaque,
}

/// What a field of a packet is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sight {
    /// The packet has no such field: no match with it fits, negated or not.
    Missing,
    /// A number between these, both included.
    Between(u128, u128),
    /// A name.
    Name(Arc<str>),
    /// It is not known, because of this.
    Unknown(Doubt),
}

impl Sight {
    pub(super) fn one(value: u128) -> Self {
        Sight::Between(value, value)
    }
}

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// IPv4.
    Four,
    /// IPv6.
    Six,
}

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketDirection {
    /// It comes to this node.
    In,
    /// It leaves this node.
    Out,
}

/// An address, or the subnet that it is in; `None` where it is not known.
pub(super) type Addresses = Option<(u128, u128)>;

/// What the transport protocol carries.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Transport {
    /// Ports, from and to; the flags of TCP.
    Tcp {
        source: (u16, u16),
        destination: (u16, u16),
        flags: u8,
    },
    /// Ports, from and to.
    Udp {
        source: (u16, u16),
        destination: (u16, u16),
    },
    /// Type and code, of ICMP or ICMPv6 by the version.
    Icmp { kind: u8, code: u8 },
}

/// A packet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Packet {
    pub(super) way: PacketDirection,
    pub(super) version: Version,
    /// The interface by which it comes or goes.
    pub(super) interface: Arc<str>,
    /// Whether it stays on this node.
    pub(super) local: bool,
    /// This node's own address.
    pub(super) own: Addresses,
    /// The other side's address, or the subnet that it is in.
    pub(super) peer: Addresses,
    pub(super) transport: Transport,
    /// The connection's state, a bit of [`state`].
    pub(super) state: u128,
}

/// What rules change on a packet's way.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Marks {
    /// Its mark; `None` where it is not known.
    pub(super) mark: Option<u32>,
    /// Whether the connection's mark is still what it was.
    pub(super) connection_changed: bool,
    /// Whether connection tracking was told to leave it alone; `None` where it is not known.
    pub(super) untracked: Option<bool>,
}

impl Marks {
    /// A packet that has met no rule.
    pub(super) fn fresh() -> Self {
        Marks {
            mark: Some(0),
            connection_changed: false,
            untracked: Some(false),
        }
    }

    /// What is known where it is not known which of two ways was taken.
    pub(super) fn or(&self, other: &Marks) -> Marks {
        let same = |a: Option<u32>, b: Option<u32>| if a == b { a } else { None };
        Marks {
            mark: same(self.mark, other.mark),
            connection_changed: self.connection_changed || other.connection_changed,
            untracked: if self.untracked == other.untracked {
                self.untracked
            } else {
                None
            },
        }
    }
}

impl Packet {
    /// Whether the connection is new with this packet: chains of type nat see no other.
    pub(super) fn is_first(&self) -> bool {
        self.state == state::NEW
    }

    pub(super) fn see(&self, field: &PacketField, marks: &Marks, arriving: bool) -> Sight {
        let unknown = Sight::Unknown(Doubt::Opaque);
        let incoming = self.way == PacketDirection::In;
        match field {
            // Before a packet is routed it has no interface to leave by, and the other way round.
            PacketField::InName if arriving => Sight::Name(Arc::clone(&self.interface)),
            PacketField::OutName if !arriving => Sight::Name(Arc::clone(&self.interface)),
            PacketField::InName | PacketField::OutName => Sight::Name("".into()),
            PacketField::Protocol => Sight::one(match (&self.transport, self.version) {
                (Transport::Tcp { .. }, _) => 6,
                (Transport::Udp { .. }, _) => 17,
                (Transport::Icmp { .. }, Version::Four) => 1,
                (Transport::Icmp { .. }, Version::Six) => 58,
            }),
            PacketField::Version => Sight::one(match self.version {
                Version::Four => 4,
                Version::Six => 6,
            }),
            PacketField::SourcePort => match self.transport {
                Transport::Tcp { source: p, .. } | Transport::Udp { source: p, .. } => ports(p),
                Transport::Icmp { .. } => Sight::Missing,
            },
            PacketField::DestinationPort => match self.transport {
                Transport::Tcp { destination: p, .. } | Transport::Udp { destination: p, .. } => {
                    ports(p)
                }
                Transport::Icmp { .. } => Sight::Missing,
            },
            PacketField::Source4 => self.address(Version::Four, incoming),
            PacketField::Destination4 => self.address(Version::Four, !incoming),
            PacketField::Source6 => self.address(Version::Six, incoming),
            PacketField::Destination6 => self.address(Version::Six, !incoming),
            PacketField::State => match marks.untracked {
                Some(false) => Sight::one(self.state),
                Some(true) => Sight::one(state::UNTRACKED),
                None => unknown,
            },
            PacketField::Direction => match (marks.untracked, self.state) {
                (Some(false), state::NEW) => Sight::one(0),
                (Some(false), state::ESTABLISHED) => Sight::one(1),
                _ => unknown,
            },
            // A packet that opens a connection has seen no reply, and no rewriting before the rules
            // that do it.
            PacketField::Status if self.is_first() && marks.untracked == Some(false) => {
                Sight::one(0)
            }
            PacketField::Mark => match marks.mark {
                Some(mark) => Sight::one(mark.into()),
                None => unknown,
            },
            PacketField::ConnectionMark if self.is_first() && !marks.connection_changed => {
                Sight::one(0)
            }
            PacketField::TcpFlags => match self.transport {
                Transport::Tcp { flags, .. } => Sight::one(flags.into()),
                _ => Sight::Missing,
            },
            PacketField::IcmpType | PacketField::IcmpCode if self.version == Version::Four => {
                self.icmp(field)
            }
            PacketField::Icmp6Type | PacketField::Icmp6Code if self.version == Version::Six => {
                self.icmp(field)
            }
            PacketField::IcmpType
            | PacketField::IcmpCode
            | PacketField::Icmp6Type
            | PacketField::Icmp6Code => Sight::Missing,
            PacketField::PacketType if incoming && !self.local => Sight::one(0),
            PacketField::SourceKind => Sight::one(if incoming && !self.local {
                address_kind::UNICAST
            } else {
                address_kind::LOCAL
            }),
            PacketField::DestinationKind => Sight::one(if incoming || self.local {
                address_kind::LOCAL
            } else {
                address_kind::UNICAST
            }),
            // A peer of the same link is answered the way it came.
            PacketField::ReversePath if self.peer.is_some() || self.local => Sight::one(1),
            PacketField::ReversePath | PacketField::Sender(_) => Sight::Unknown(Doubt::Source),
            PacketField::Extension => Sight::Missing,
            PacketField::Status
            | PacketField::ConnectionMark
            | PacketField::PacketType
            | PacketField::Other(_) => unknown,
        }
    }

    fn address(&self, version: Version, of_peer: bool) -> Sight {
        if version != self.version {
            return Sight::Missing;
        }
        let addresses = if of_peer { self.peer } else { self.own };
        match addresses {
            Some((from, to)) => Sight::Between(from, to),
            None => Sight::Unknown(Doubt::Source),
        }
    }

    fn icmp(&self, field: &PacketField) -> Sight {
        match (&self.transport, field) {
            (Transport::Icmp { kind, .. }, PacketField::IcmpType | PacketField::Icmp6Type) => {
                Sight::one((*kind).into())
            }
            (Transport::Icmp { code, .. }, _) => Sight::one((*code).into()),
            _ => Sight::Missing,
        }
    }
}

fn ports((from, to): (u16, u16)) -> Sight {
    Sight::Between(from.into(), to.into())
}
