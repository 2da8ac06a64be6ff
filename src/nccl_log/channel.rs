//! Lines of connected channels: what carries data from one rank to another.
//!
//! `Channel 02/0 : 7[7] -> 8[0] [send] via NET/IB/3(6)/GDRDMA/Shared comm 0x5581 nRanks 16` (`src/transport/net.cc`), and the
//! forms of P2P, SHM and CollNet since 2.4.

use super::text::{hexadecimal, number, run};

/// What carries a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// From GPU to GPU.
    P2p,
    /// Shared memory of the host.
    Shm,
    /// A network.
    Net,
    /// A network that computes.
    CollNet,
}

/// A line of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel<'m> {
    /// The sending rank.
    pub from: u64,
    /// The receiving rank; that of the sender in a line of CollNet, which has no other.
    pub to: u64,
    /// Whether the receiver wrote the line.
    pub receives: bool,
    /// What carries it.
    pub transport: Transport,
    /// The network's name, or the transport's own words.
    pub kind: &'m [u8],
    /// The number of the adapter.
    pub adapter: u64,
    /// Whether another GPU is between this one and the adapter.
    pub pxn: bool,
    /// Whether GPUDirect RDMA is used.
    pub gdr: bool,
    /// The communicator's address in its process, if the line has it; 0 where not.
    pub comm: u64,
}

/// The result of reading a message that begins like a channel's line.
#[derive(Debug, PartialEq, Eq)]
pub enum ChannelLine<'m> {
    /// A connected channel.
    Channel(Channel<'m>),
    /// The order of ranks in a ring, or another line about rings.
    Other,
    /// The line is truncated, and its content unknown.
    Torn,
}

/// What a channel's line says besides the number of the channel, of which a pair of ranks has many: from ` : ` on.
pub(super) fn besides_number(message: &[u8]) -> Option<&[u8]> {
    let (_, rest) = run(message.strip_prefix(b"Channel ")?, |b| {
        b.is_ascii_digit() || b == b'/'
    });
    rest.starts_with(b" : ").then_some(rest)
}

/// Reads a message that begins with `Channel `, `Ring `, `CollNet ` or `Coll `, or with the ranks where somebody cut off the word before them.
pub fn read(message: &[u8]) -> ChannelLine<'_> {
    if message.first().is_some_and(u8::is_ascii_digit) {
        return between(message, false);
    }
    let (rest, collnet) = if let Some(rest) = message.strip_prefix(b"Channel ") {
        (rest, false)
    } else if let Some(rest) = message.strip_prefix(b"Ring ") {
        (rest, false)
    } else if let Some(rest) = message.strip_prefix(b"CollNet ") {
        (rest, true)
    } else if let Some(rest) = message.strip_prefix(b"Coll ") {
        (rest, true)
    } else {
        return ChannelLine::Other;
    };
    let Some((_, rest)) = number(rest) else {
        return ChannelLine::Other;
    };
    let rest = match rest.strip_prefix(b"/").and_then(number) {
        Some((_, rest)) => rest,
        None => rest,
    };
    match rest.strip_prefix(b" : ") {
        Some(rest) => between(rest, collnet),
        None => ChannelLine::Other,
    }
}

/// `7[7] -> 8[0] [send] via …`
fn between(rest: &[u8], collnet: bool) -> ChannelLine<'_> {
    let Some((from, rest)) = number(rest) else {
        return ChannelLine::Other;
    };
    let rest = past_device(rest);
    if collnet {
        let found = direction(rest).and_then(|(receives, rest)| {
            network(rest, b"COLLNET/", Transport::CollNet, from, from, receives)
        });
        return found.map_or(ChannelLine::Torn, ChannelLine::Channel);
    }
    let Some((to, rest)) = rest.strip_prefix(b" -> ").and_then(number) else {
        // `Ring 00 : 1 -> 0 -> 2` is the graph's, `Channel 00/02 :    0   1` the order of ranks.
        return ChannelLine::Other;
    };
    let rest = past_device(rest);
    if rest.starts_with(b" -> ") || rest.starts_with(b"/") {
        return ChannelLine::Other;
    }
    way(rest, from, to).map_or(ChannelLine::Torn, ChannelLine::Channel)
}

/// ` [send] via NET/…`, ` via P2P/…`; `None` where the line is torn.
fn way(rest: &[u8], from: u64, to: u64) -> Option<Channel<'_>> {
    if let Some((receives, rest)) = direction(rest) {
        return network(rest, b"NET/", Transport::Net, from, to, receives);
    }
    let rest = rest.strip_prefix(b" via ")?;
    // Until 2.3 only the receiver logs the network.
    if rest.starts_with(b"NET/") {
        return network(rest, b"NET/", Transport::Net, from, to, true);
    }
    let (transport, kind, rest) = if let Some(rest) = rest.strip_prefix(b"P2P/") {
        let kind = KINDS.iter().find(|kind| rest.starts_with(kind))?;
        let (kind, rest) = rest.split_at(kind.len());
        (Transport::P2p, kind, rest)
    } else if let Some(rest) = rest.strip_prefix(b"SHM") {
        let length = b"/direct/CE".len().min(rest.len());
        let kind =
            memchr::memchr(b' ', rest.get(..length).unwrap_or(&[])).unwrap_or(rest.len().min(16));
        let (kind, rest) = rest.split_at(kind);
        (
            Transport::Shm,
            kind.strip_prefix(b"/").unwrap_or(kind),
            rest,
        )
    } else {
        let rest = rest.strip_prefix(b"direct shared memory")?;
        (Transport::Shm, &b"direct"[..], rest)
    };
    let (_, rest) = flags(rest)?;
    // The GPU in between of an indirect path.
    let rest = match rest.strip_prefix(b"/").and_then(number) {
        Some((_, rest)) => past_device(rest),
        None => rest,
    };
    let (_, rest) = flags(rest)?;
    Some(Channel {
        from,
        to,
        receives: false,
        transport,
        kind,
        adapter: 0,
        pxn: false,
        gdr: false,
        comm: tail(rest)?,
    })
}

const KINDS: [&[u8]; 6] = [
    b"IPC",
    b"direct pointer",
    b"CUMEM",
    b"MNNVL",
    b"common device",
    b"indirect",
];

/// ` [send] via …`
fn direction(rest: &[u8]) -> Option<(bool, &[u8])> {
    if let Some(rest) = rest.strip_prefix(b" [send] via ") {
        Some((false, rest))
    } else {
        Some((true, rest.strip_prefix(b" [receive] via ")?))
    }
}

/// `NET/AWS Libfabric/3(6)/GDRDMA(PCI)/Shared comm 0x… nRanks 16`
fn network<'m>(
    rest: &'m [u8],
    mark: &[u8],
    transport: Transport,
    from: u64,
    to: u64,
    receives: bool,
) -> Option<Channel<'m>> {
    let rest = rest.strip_prefix(mark)?;
    let slash = memchr::memchr(b'/', rest.get(..rest.len().min(64))?)?;
    let (kind, rest) = rest.split_at(slash);
    let (adapter, rest) = rest.strip_prefix(b"/").and_then(number)?;
    let (pxn, rest) = match rest.strip_prefix(b"(").and_then(number) {
        Some((_, rest)) => (true, rest.strip_prefix(b")")?),
        None => (false, rest),
    };
    let (gdr, rest) = flags(rest)?;
    Some(Channel {
        from,
        to,
        receives,
        transport,
        kind,
        adapter,
        pxn,
        gdr,
        comm: tail(rest)?,
    })
}

/// `[3]`, `[1b000]` behind a rank.
fn past_device(rest: &[u8]) -> &[u8] {
    match rest.strip_prefix(b"[") {
        Some(inner) => {
            match memchr::memchr(b']', inner.get(..inner.len().min(20)).unwrap_or(&[])) {
                Some(end) => inner.get(end + 1..).unwrap_or(&[]),
                None => rest,
            }
        }
        None => rest,
    }
}

/// The flags of a channel, `/GDRDMA(PCI)/Shared/flush=None`: whether one says GPUDirect RDMA, and what
/// stands behind them. A flag that no release had yet is passed over; `None` where one is truncated.
fn flags(mut rest: &[u8]) -> Option<(bool, &[u8])> {
    let mut gdr = false;
    while let Some([first, ..]) = rest.strip_prefix(b"/").filter(|_| rest.len() > 1) {
        if !first.is_ascii_alphabetic() {
            break;
        }
        let (flag, behind) = run(rest.get(1..).unwrap_or(&[]), is_flag);
        let (name, _) = run(flag, |b| b.is_ascii_alphanumeric());
        // A truncated `/GDRD` must not pass for a channel without GPUDirect RDMA.
        match name {
            b"GDRDMA" => gdr = true,
            b"GDCopy" => {}
            name if name.starts_with(b"GD") || b"GDRDMA".starts_with(name) => return None,
            _ => {}
        }
        rest = behind;
    }
    Some((gdr, rest))
}

fn is_flag(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'=' | b'(' | b')' | b'_' | b'-' | b'.' | b',')
}

/// The end of the line, perhaps with its communicator; `None` where something else is there.
fn tail(rest: &[u8]) -> Option<u64> {
    let rest = rest.trim_ascii();
    // An exporter's quotation mark may follow.
    if rest
        .iter()
        .all(|b| !b.is_ascii_alphanumeric() && *b != b'/')
    {
        return Some(0);
    }
    let (comm, rest) = hexadecimal(rest.strip_prefix(b"comm ")?)?;
    let rest = rest.trim_ascii_start();
    let whole = rest.is_empty()
        || rest
            .strip_prefix(b"nRanks ")
            .and_then(number)
            .is_some_and(|(_, rest)| rest.iter().all(|b| !b.is_ascii_alphanumeric()));
    whole.then_some(comm)
}
