//! `rdma-doctor bench`: measurements that disturb, and are therefore asked for.

pub mod p2p;

use clap::{Args, Subcommand};

use crate::exit::Exit;

/// Measure: copies between GPUs. Uses the GPUs, so not beside a job.
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
    P2p(p2p::P2pArgs),
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, a GPU that is named and not there, an output that cannot be written.
pub fn run(args: &BenchArgs) -> anyhow::Result<Exit> {
    match &args.what {
        Bench::P2p(args) => p2p::run(args),
    }
}
