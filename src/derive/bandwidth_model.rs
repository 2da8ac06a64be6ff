//! What hardware can carry: a collective's bandwidth against NVLink, PCIe, adapters and the wire.
//!
//! Plain numbers in, plain numbers out. Bandwidths are GB/s (10^9 bytes) in one direction. `busbw`
//! is that of nccl-tests (doc/PERFORMANCE.md): algbw times 2(n-1)/n for an all-reduce, (n-1)/n for
//! an all-gather and a reduce-scatter, so that it compares with what a link carries, whatever the
//! number of ranks.
//!
//! A ceiling is what a healthy system does not pass, and comes near to; it is no target, and no
//! promise.

use crate::fact::{BitRate, Bytes};
use crate::measure::plan::collective::Collective;

/// Bytes in a gigabyte, as busbw counts them.
const GIGA: f64 = 1e9;

/// A rate in GB/s.
pub fn gigabytes(rate: BitRate) -> f64 {
    rate.0 as f64 / 8.0 / GIGA
}

/// A number of GB/s as a rate, to a megabit.
pub fn rate(gigabytes: f64) -> BitRate {
    BitRate((gigabytes.max(0.0) * 8000.0).round() as u64 * 1_000_000)
}

/// What a ring gets out of one NVLink of this version that runs at this speed (GB/s, one
/// direction); `None` for a version that is not known.
///
/// NCCL's own numbers by generation (src/graph/topo.h, NCCL 2.30: SM60 18, SM80 20, SM86 12, SM90
/// 20.6, SM100 40.1). For NVLink 2 that would be 20, and published runs on eight V100 reach 130
/// over six links: 22. A link that runs below its generation's speed carries less in proportion.
pub fn nvlink(version: u64, speed: f64) -> Option<f64> {
    // What the link can, and what a ring gets of it.
    let (nominal, ring) = match version {
        1 => (20.0, 18.0),
        2 => (25.0, 22.0),
        // Of two speeds: that of the A100, and that of the A40, the RTX A6000 and their like.
        3 if speed < 20.0 => (14.0, 12.0),
        3 => (25.0, 20.0),
        4 => (25.0, 20.6),
        5 => (50.0, 40.1),
        _ => return None,
    };
    Some(ring * (speed / nominal).min(1.0))
}

/// What NVLink SHARP (NVLS) carries of an all-reduce, as busbw, where a ring carries `ring`.
///
/// The switches add: each GPU sends its buffer once, and an n-th of the result to all others, where
/// a ring sends 2(n-1)/n of the buffer. So busbw is 2(n-1)/(n+1) of what the links carry, of which
/// NVLS reaches 0.85 (src/graph/tuning.cc, `nvlsEfficiency` of Hopper; that of Blackwell, 0.74, is
/// passed by published runs).
pub fn nvls(ring: f64, ranks: u64) -> Option<f64> {
    let n = ranks as f64;
    (ranks >= 2).then(|| 0.85 * ring * 2.0 * (n - 1.0) / (n + 1.0))
}

/// What a PCIe link carries of data, where its lanes carry `raw` after the encoding.
///
/// A packet has at most 256 bytes of data where GPUs take part, and 24 beside them: framing and
/// sequence number 4, header 16, LCRC 4 (PCI Express Base Specification 4.0, sections 2.2 and 3.6).
pub fn pcie(raw: f64) -> f64 {
    raw * 256.0 / (256.0 + 24.0)
}

/// What lies on the wire around the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// InfiniBand: LRH 8, BTH 12, ICRC 4, VCRC 2.
    InfiniBand,
    /// RoCE v2 over IPv4: preamble and gap 20, Ethernet 18, IP 20, UDP 8, BTH 12, ICRC 4.
    Roce,
    /// AWS's SRD, whose headers are not published: 193.7 of 200 Gb/s were measured.
    Srd,
    /// TCP over IPv4: preamble and gap 20, Ethernet 18; IP 20, TCP 20 and its time stamp 12 are
    /// inside the MTU.
    Tcp,
}

/// The part of the wire's rate that is data, for full packets of this MTU; `None` for an MTU that
/// has no room for data.
pub fn wire_efficiency(wire: Wire, mtu: u64) -> Option<f64> {
    let m = mtu as f64;
    match wire {
        _ if mtu < 256 => None,
        Wire::InfiniBand => Some(m / (m + 26.0)),
        Wire::Roce => Some(m / (m + 82.0)),
        Wire::Srd => Some(0.97),
        Wire::Tcp => Some((m - 52.0) / (m + 38.0)),
    }
}

/// How many ranks there are, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Nodes.
    pub nodes: u64,
    /// Ranks on each.
    pub ranks_per_node: u64,
}

impl Shape {
    /// All ranks.
    pub fn ranks(self) -> u64 {
        self.nodes.saturating_mul(self.ranks_per_node)
    }
}

/// What one node carries, in GB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carries {
    /// Between its GPUs, over a ring.
    pub ring: f64,
    /// Between its GPUs, where their switches add; `None` where they do not.
    pub nvls: Option<f64>,
    /// To other nodes: all adapters that NCCL uses, in one direction. Not asked on one node.
    pub network: f64,
}

/// What binds a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What GPUs of one node exchange.
    Inside,
    /// What the nodes exchange.
    Network,
}

/// A ceiling: busbw, and what binds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// busbw in GB/s.
    pub busbw: f64,
    /// What binds.
    pub side: Side,
}

/// The ceiling of a collective's busbw for large messages, over the best algorithm that NCCL has
/// for the shape; `None` where there is nothing to measure (fewer than two ranks), or no model
/// (scatter, gather, send and receive, which a single adapter may bind).
pub fn ceiling(collective: Collective, shape: Shape, carries: Carries) -> Option<Bound> {
    if shape.ranks() < 2 {
        return None;
    }
    let (inside, network) = match collective {
        Collective::AllToAll => (carries.ring, all_to_all(shape, carries.network)),
        // Over a ring each link carries busbw.
        Collective::AllGather
        | Collective::ReduceScatter
        | Collective::Broadcast
        | Collective::Reduce => (carries.ring, carries.network),
        Collective::Scatter | Collective::Gather | Collective::SendRecv => return None,
        Collective::AllReduce => {
            let inside = carries
                .nvls
                .map_or(carries.ring, |nvls| nvls.max(carries.ring));
            let over_tree = tree_network(shape, carries.network);
            (inside, over_tree.max(carries.network))
        }
    };
    // One rank on each node exchanges nothing inside it, and one node nothing with others.
    let inside = (shape.ranks_per_node > 1).then_some(inside);
    let network = (shape.nodes > 1).then_some(network);
    let (busbw, side) = match (inside, network) {
        (Some(inside), Some(network)) if inside <= network => (inside, Side::Inside),
        (_, Some(network)) => (network, Side::Network),
        (Some(inside), None) => (inside, Side::Inside),
        (None, None) => return None,
    };
    Some(Bound { busbw, side })
}

/// What two binary trees make of the network, as busbw.
///
/// Each node but the root sends half of the buffer up in each tree, and half down to each of its
/// children. On two nodes that is the buffer once, so that busbw is 2(n-1)/n of the network: nearly
/// twice, of which 0.92 are reached. On three nodes the busiest sends one and a half buffers. From
/// four nodes on it is an inner node of one tree and a leaf of the other, and sends two: the same
/// as over a ring. Source: src/graph/trees.cc, `ncclGetDtree`.
fn tree_network(shape: Shape, network: f64) -> f64 {
    // 2(n-1)/n: what busbw counts of the buffer.
    let whole = network * Collective::AllReduce.bus_factor(shape.ranks());
    match shape.nodes {
        0 | 1 => network,
        2 => 0.92 * whole,
        3 => whole / 1.5,
        _ => whole / 2.0,
    }
}

/// Of each rank's buffer the part for ranks of other nodes leaves the node, that of all its ranks
/// by the same adapters.
fn all_to_all(shape: Shape, network: f64) -> f64 {
    let (n, g) = (shape.ranks() as f64, shape.ranks_per_node as f64);
    if shape.nodes > 1 {
        network * (n - 1.0) / (g * (n - g))
    } else {
        network
    }
}

/// What a ring on one node gets where all of its ranks have to go through adapters: with P2P and
/// shared memory off. Each rank sends to the next by an adapter.
pub fn loopback(network: f64, ranks: u64) -> Option<f64> {
    (ranks >= 2).then(|| network / ranks as f64)
}

/// Whether a buffer of this size may be judged by its bandwidth. Smaller ones spend their time on
/// latency: on a healthy job of 4 nodes with 8 GPUs each, 16 MiB reach an eighth of the peak and
/// 256 MiB less than half.
pub fn judged_by_bandwidth(buffer: Bytes, nodes: u64) -> bool {
    let least = match nodes {
        0..4 => 256 << 20,
        _ => 1 << 30,
    };
    buffer.0 >= least
}

#[cfg(test)]
mod tests;
