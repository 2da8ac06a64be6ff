//! Classifies messages of level INFO: kept verbatim, only counted, or unlisted.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::text::{contains, number, run};

/// Made once: these are looked for in lines that each process writes dozens of.
static SET: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [" set by environment to ", " set to "].map(Finder::new));
static MTU: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(" mtu "));
static ENABLED: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new("GPU Direct RDMA Enabled for "));

/// A group of messages, under which they are counted; NCCL's subsystems as far as a log tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageGroup {
    /// Initialisation: INIT, BOOTSTRAP, P2P, SHM, NVLS.
    Init,
    /// Variables: ENV.
    Env,
    /// NET alone, which a default log does not have.
    Net,
    /// GRAPH.
    Graph,
    /// TUNING: algorithms of collectives.
    Tuning,
    /// COLL: calls of collectives.
    Coll,
    /// PROXY, ALLOC, REG, RAS and others that are irrelevant here.
    Other,
    /// A connected channel.
    Channel,
    /// An event.
    Event,
    /// A line of a level that only debugging has.
    Trace,
    /// A truncated line of a channel.
    Torn,
    /// An unlisted message.
    Unlisted,
}

impl MessageGroup {
    /// All, in the order of their numbers, with their names in a digest.
    pub const ALL: [(MessageGroup, &'static str); 12] = [
        (MessageGroup::Init, "init"),
        (MessageGroup::Env, "env"),
        (MessageGroup::Net, "net"),
        (MessageGroup::Graph, "graph"),
        (MessageGroup::Tuning, "tuning"),
        (MessageGroup::Coll, "coll"),
        (MessageGroup::Other, "other"),
        (MessageGroup::Channel, "channel"),
        (MessageGroup::Event, "event"),
        (MessageGroup::Trace, "trace"),
        (MessageGroup::Torn, "torn"),
        (MessageGroup::Unlisted, "unlisted"),
    ];

    /// Its name in a digest.
    pub fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Across which processes equal messages count as one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupScope {
    /// All processes of a host together.
    Host,
    /// Each process by itself.
    Process,
}

/// What the reader does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageAction<'m> {
    /// It is counted.
    Count(MessageGroup),
    /// The first one is kept, and counts all those with the same part.
    Keep(MessageGroup, DedupScope, &'m [u8]),
    /// It is a channel's line.
    Channel,
    /// It is not listed here: it may be an event.
    Unlisted,
}

/// What the reader does with a message of level INFO.
pub fn action_for_info(message: &[u8]) -> MessageAction<'_> {
    let keep = |sort| MessageAction::Keep(sort, DedupScope::Host, message);
    let own = MessageAction::Keep(MessageGroup::Init, DedupScope::Process, message);
    let starts = |with: &str| message.starts_with(with.as_bytes());
    match message.first() {
        Some(b'C') if starts("Channel ") || starts("CollNet ") || starts("Coll ") => {
            MessageAction::Channel
        }
        Some(b'C') if starts("Connected all rings, use") => own,
        Some(b'C') if starts("Connected ") => keep(MessageGroup::Init),
        Some(b'R') if starts("Ring ") => MessageAction::Channel,
        Some(b'0'..=b'9') if contains(message, "] via ") => MessageAction::Channel,
        Some(b'R') if starts("RCCL version") => keep(MessageGroup::Init),
        Some(b'c') if starts("comm 0x") => own,
        Some(b'c') if starts("cudaDriverVersion") => keep(MessageGroup::Init),
        Some(b'n' | b'[') if names_communicator(message) => own,
        Some(b'N') => capital_n(message),
        Some(b'U')
            if starts("Using network")
                || starts("Using internal Network")
                || starts("Using external Network") =>
        {
            keep(MessageGroup::Init)
        }
        Some(b'B') if starts("Bootstrap : Using") || starts("Bootstrap: Using") => {
            keep(MessageGroup::Init)
        }
        Some(b'B') if starts("Bootstrap timings") => own,
        Some(b'I') if starts("Init timings") => own,
        Some(b'I') if starts("Initialized NET plugin") => keep(MessageGroup::Init),
        Some(b'I') if starts("Invalid value ") => keep(MessageGroup::Env),
        Some(b'A') if starts("Assigned NET plugin") => keep(MessageGroup::Init),
        Some(b'P') if starts("Plugin Path") || starts("P2P plugin") => keep(MessageGroup::Init),
        Some(b'P') if starts("Pattern ") => keep(MessageGroup::Graph),
        Some(b'S') if starts("Setting affinity for GPU") => own,
        Some(b'S') if starts("Successfully loaded external") => keep(MessageGroup::Init),
        Some(b'D') if starts("DMA-BUF is available") => keep(MessageGroup::Init),
        Some(b'G') if starts("GPU Direct RDMA Enabled") => direct(message, 0),
        Some(b'L') if starts("Loading topology") => keep(MessageGroup::Graph),
        Some(b'W') if starts("Warning: ENV ") => keep(MessageGroup::Env),
        // Until 2.3 without the collective's name.
        Some(b'o') if starts("opCount ") => MessageAction::Count(MessageGroup::Coll),
        Some(b'=') => MessageAction::Count(MessageGroup::Graph),
        Some(b'0'..=b'9') => digits(message),
        Some(b' ' | b'+') => spaces(message),
        Some(byte) if byte.is_ascii_alphabetic() => letters(message),
        _ => MessageAction::Unlisted,
    }
}

/// `ncclCommInitRank comm 0x55 rank 3 …`, from 2.27 `[Rank 3] ncclCommInitRank comm 0x55 …`
fn names_communicator(message: &[u8]) -> bool {
    let message = match message.strip_prefix(b"[Rank ") {
        Some(rest) => run(rest, |b| b != b' ').1.trim_ascii_start(),
        None => message,
    };
    message.starts_with(b"nccl")
        && run(message, |b| b.is_ascii_alphanumeric())
            .1
            .starts_with(b" comm 0x")
}

fn capital_n(message: &[u8]) -> MessageAction<'_> {
    let keep = |sort| MessageAction::Keep(sort, DedupScope::Host, message);
    let starts = |with: &str| message.starts_with(with.as_bytes());
    if starts("NCCL_") {
        return match SET.iter().any(|set| set.find(message).is_some()) {
            true => keep(MessageGroup::Env),
            false => MessageAction::Unlisted,
        };
    }
    if starts("NET/") {
        let known = [
            "NET/IB : Using",
            "NET/IB : Made virtual",
            "NET/IB: [",
            "NET/Socket : Using",
            "NET/FastSocket : Using",
        ];
        if let Some(at) = known.iter().position(|known| starts(known)) {
            return keep(if matches!(at, 1 | 2) {
                MessageGroup::Net
            } else {
                MessageGroup::Init
            });
        }
        if let Some(at) = ENABLED.find(message) {
            return direct(message, at);
        }
        if starts("NET/Socket: Using")
            || starts("NET/Plugin: Loaded")
            || starts("NET/Plugin: Plugin name")
        {
            return keep(MessageGroup::Init);
        }
        if starts("NET/OFI Selected")
            || starts("NET/OFI Using aws")
            || starts("NET/OFI Initializing")
        {
            return keep(MessageGroup::Init);
        }
        // A row of the graph's paths: `NET/0 :GPU/1000 (…)`.
        if message.get(4).is_some_and(u8::is_ascii_digit) {
            return letters(message);
        }
        // `NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 74 mtu 5 GID 3 (…)`: of a host's connections those of one MTU and GID are one.
        if starts("NET/IB: ")
            && let Some(at) = MTU.find(message)
            && let Some(said) = message.get(at..)
            && (contains(said, " GID ") || contains(said, " LID "))
        {
            let ends = [" (", " fifo", " ctsFifo", " subnet-prefix"];
            let ends = ends.iter().filter_map(|end| Finder::new(end).find(said));
            let end = ends.min().unwrap_or(said.len());
            return MessageAction::Keep(
                MessageGroup::Net,
                DedupScope::Host,
                said.get(..end).unwrap_or(said),
            );
        }
        if starts("NET/IB: Dev ") || starts("NET/IB: IbDev ") {
            return MessageAction::Count(MessageGroup::Net);
        }
        return MessageAction::Unlisted;
    }
    if starts("NVLS multicast support") || starts("NCCL version") || starts("NET : Using interface")
    {
        return keep(MessageGroup::Init);
    }
    if starts("NVLS ") {
        return MessageAction::Count(MessageGroup::Init);
    }
    MessageAction::Unlisted
}

/// `GPU Direct RDMA Enabled for HCA 0 'mlx5_0'`: each adapter counts. `… for GPU 1b000 / HCA 0 (…)`: that there is one does.
fn direct(message: &[u8], at: usize) -> MessageAction<'_> {
    let end = match message
        .get(at..)
        .is_some_and(|said| contains(said, " for HCA"))
    {
        true => message.len(),
        false => at,
    };
    MessageAction::Keep(
        MessageGroup::Net,
        DedupScope::Host,
        message.get(..end).unwrap_or(message),
    )
}

/// `24 coll channels, …`; `1048576 Bytes -> Algo 1 proto 2 time 12.5`
fn digits(message: &[u8]) -> MessageAction<'_> {
    let (_, rest) = run(message, |b| b.is_ascii_digit());
    if rest.starts_with(b" coll channels") {
        return MessageAction::Keep(MessageGroup::Init, DedupScope::Host, message);
    }
    if let Some(choice) = rest.strip_prefix(b" Bytes -> ") {
        return tuning(choice);
    }
    MessageAction::Unlisted
}

/// `AllReduce: opCount …`, `AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}`, `GPU/1000 :GPU/…`
fn letters(message: &[u8]) -> MessageAction<'_> {
    let (name, rest) = run(message, |b| b.is_ascii_alphanumeric() || b == b'_');
    if let Some(rest) = rest.strip_prefix(b": ") {
        if rest.starts_with(b"opCount ") {
            return MessageAction::Count(MessageGroup::Coll);
        }
        if let Some((_, rest)) = number(rest)
            && let Some(choice) = rest.strip_prefix(b" Bytes -> ")
        {
            return tuning(choice);
        }
    }
    if rest.starts_with(b" [") && contains(rest, " Bytes -> ") {
        return tuning(rest);
    }
    let places: [&[u8]; 8] = [
        b"GPU", b"CPU", b"NET", b"PCI", b"NVS", b"NIC", b"GIN", b"DEV",
    ];
    if rest.starts_with(b"/") && places.contains(&name) {
        return MessageAction::Count(MessageGroup::Graph);
    }
    if name == b"Tree" || name == b"Trees" {
        return MessageAction::Count(MessageGroup::Init);
    }
    MessageAction::Unlisted
}

/// `Algo RING proto SIMPLE`: what does not depend on the size.
fn tuning(choice: &[u8]) -> MessageAction<'_> {
    let end = [" time", " channel", " nchannels"]
        .iter()
        .filter_map(|word| memchr::memmem::find(choice, word.as_bytes()))
        .min()
        .unwrap_or(choice.len());
    MessageAction::Keep(
        MessageGroup::Tuning,
        DedupScope::Host,
        choice.get(..end).unwrap_or(&[]),
    )
}

/// `    + PCI[24.0] - GPU/1000 (0)`: which bandwidths there are.
fn spaces(message: &[u8]) -> MessageAction<'_> {
    let rest = message.trim_ascii_start();
    if let Some(link) = rest.strip_prefix(b"+ ") {
        let end = memchr::memchr(b']', link).map_or(link.len().min(24), |at| at + 1);
        return MessageAction::Keep(
            MessageGroup::Graph,
            DedupScope::Host,
            link.get(..end).unwrap_or(&[]),
        );
    }
    match fate_of_trimmed(rest) {
        true => MessageAction::Count(MessageGroup::Graph),
        false => MessageAction::Unlisted,
    }
}

fn fate_of_trimmed(rest: &[u8]) -> bool {
    // Rows of the graph: `0 : NET/0 GPU/0 GPU/1 NET/0`.
    let (_, after) = run(rest, |b| b.is_ascii_digit());
    after.starts_with(b" : ") || matches!(letters(rest), MessageAction::Count(MessageGroup::Graph))
}

/// Beginnings of messages that are irrelevant here, and the group of each: the rows are in `messages.toml`.
const KNOWN: &[(&str, &[&str])] = include!(concat!(env!("OUT_DIR"), "/messages.known.rs"));

/// The sort of a message that is known by how it begins.
pub fn known_group(message: &[u8]) -> Option<MessageGroup> {
    let message = message.trim_ascii_start();
    let begins = |with: &&str| message.starts_with(with.as_bytes());
    let known = KNOWN.iter().find(|(_, words)| words.iter().any(begins));
    let named = |wanted: &str| {
        MessageGroup::ALL
            .into_iter()
            .find(|(_, word)| *word == wanted)
    };
    known
        .and_then(|(group, _)| Some(named(group)?.0))
        .or_else(|| contains(message, " Size ").then_some(MessageGroup::Other))
        .or_else(|| contains(message, "malloc").then_some(MessageGroup::Other))
}

/// `transport/net.cc:123 -> 2`, with a thread behind it: a function that passed a failure on.
pub fn is_unwinding(message: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(message, b" -> ") else {
        return false;
    };
    let (place, rest) = message.split_at(at);
    let Some(colon) = memchr::memrchr(b':', place) else {
        return false;
    };
    let (file, line) = place.split_at(colon);
    line.len() > 1
        && line
            .get(1..)
            .is_some_and(|l| l.iter().all(u8::is_ascii_digit))
        && !file.contains(&b' ')
        && file.contains(&b'.')
        && rest
            .get(4..)
            .is_some_and(|rest| matches!(rest.first(), Some(b'0'..=b'9' | b'[' | b'-')))
}
