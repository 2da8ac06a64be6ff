//! `rdma-doctor bench`: measurements that disturb, and are therefore asked for.

pub mod assembly;
pub mod collective;
pub mod latency;
pub mod measuring;
pub mod p2p;
pub mod pairs;
pub mod shared_verdict;

use clap::{Args, Subcommand};

use collective::CollectiveArgs;

use super::deferred::Deferred;
use crate::exit::Exit;
use crate::measure::plan::collective::Collective;

/// Measure: collectives between ranks, pairs of nodes, copies between GPUs. Uses GPUs and links: not while a job runs.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What is measured.
    #[command(subcommand)]
    pub what: Bench,
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Copies between every two GPUs, and between each GPU and the host: verified byte by byte, bandwidth and latency
    P2p(Deferred<p2p::P2pArgs>),
    /// Nodes with each other: who reaches whom, which packets get through, what each pair carries and loses; names the node, the rail or the pair that is bad
    Pairs(Deferred<pairs::PairsArgs>),
    /// Each rank ends with the sum of all ranks' buffers: what training waits for
    AllReduce(Deferred<CollectiveArgs>),
    /// Each rank ends with all ranks' parts
    AllGather(Deferred<CollectiveArgs>),
    /// Each rank ends with its part of the sum
    ReduceScatter(Deferred<CollectiveArgs>),
    /// All ranks end with the first rank's buffer
    Broadcast(Deferred<CollectiveArgs>),
    /// The first rank ends with the sum
    Reduce(Deferred<CollectiveArgs>),
    /// Each rank ends with its part of the first rank's buffer
    Scatter(Deferred<CollectiveArgs>),
    /// The first rank ends with all ranks' parts
    Gather(Deferred<CollectiveArgs>),
    /// Each rank ends with the part that each other has for it
    AllToAll(Deferred<CollectiveArgs>),
    /// Each rank sends to the next one, and receives from the one before
    SendRecv(Deferred<CollectiveArgs>),
    /// One large all-reduce against a thousand small ones, and what operations of all sizes cost
    Latency(Deferred<latency::LatencyArgs>),
    /// A flag for all ranks by a small all-reduce, against gathering objects
    Flags(Deferred<latency::FlagsArgs>),
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, a GPU that is named and not there, an output that cannot be written.
pub fn run(args: &BenchArgs) -> anyhow::Result<Exit> {
    match &args.what {
        Bench::P2p(args) => p2p::run(args),
        Bench::Pairs(args) => pairs::run(args),
        Bench::AllReduce(args) => collective::run(Collective::AllReduce, args),
        Bench::AllGather(args) => collective::run(Collective::AllGather, args),
        Bench::ReduceScatter(args) => collective::run(Collective::ReduceScatter, args),
        Bench::Broadcast(args) => collective::run(Collective::Broadcast, args),
        Bench::Reduce(args) => collective::run(Collective::Reduce, args),
        Bench::Scatter(args) => collective::run(Collective::Scatter, args),
        Bench::Gather(args) => collective::run(Collective::Gather, args),
        Bench::AllToAll(args) => collective::run(Collective::AllToAll, args),
        Bench::SendRecv(args) => collective::run(Collective::SendRecv, args),
        Bench::Latency(args) => latency::latency(args),
        Bench::Flags(args) => latency::flags(args),
    }
}
