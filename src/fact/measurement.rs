//! The facts of a measurement of a collective, or of a job, that arms may be compared by.

use std::sync::Arc;

use super::arm::{GpuDirectUse, InterNodeTransport};
use super::schema::subject;
use super::value::words;
use super::{BitRate, Bytes, Percent, Seconds};

words! {
    /// The backend that moved the data, or the source of the table.
    pub enum MeasurementBackend {
        /// NCCL, between GPUs.
        Nccl = "nccl",
        /// RDMA writes in a ring, without NCCL.
        Verbs = "verbs",
        /// Sockets in a ring, without RDMA.
        Tcp = "tcp",
        /// The user's own job, run once for each arm and round.
        Job = "job",
        /// A table that a person wrote.
        Table = "table",
    }
}

words! {
    /// Whether more than one node takes part.
    pub enum NodeSpan {
        /// One node: nothing crosses the network unless it is forced to.
        One = "one-node",
        /// Several nodes.
        Several = "several-nodes",
        /// A table that does not say.
        NotLogged = "not-told",
    }
}

words! {
    /// Where the data is.
    pub enum Memory {
        /// In the host's memory.
        Host = "host",
        /// In the memory of GPUs.
        Gpu = "gpu",
    }
}

words! {
    /// What became of GPUDirect RDMA if it was asked for.
    pub enum GpuDirect {
        /// Every value that was looked at came right from GPU to GPU.
        Works = "works",
        /// The adapter did not get the GPU's memory: it could not be registered.
        Refused = "refused",
        /// It got it, and a transfer failed.
        Fails = "fails",
        /// Transfers ended well, and values arrived wrong.
        Wrong = "wrong",
    }
}

subject! {
    /// A measurement: one operation of one size on these ranks, a job, or a table of what somebody measured.
    Measurement = "measurement" from "collective";

    /// The backend that moved the data, or the source of the table.
    MEANS: MeasurementBackend = "means" from "collective";
    /// Whether the figures are what somebody wrote down: nothing of them was seen.
    USER_REPORTED: bool = "user_reported" from "collective";
    /// What of a table was read in one of several ways, or left out, in words.
    READ_AS: Arc<[Arc<str>]> = "read_as" from "collective";
    /// Whether one arm contradicts the others, of arms that were each run once.
    HAS_OUTLIER: bool = "has_outlier" from "derive arms";
    /// That arm with its figure; both of a pair where nothing tells which of them it is.
    OUTLIER: Arc<str> = "outlier" from "derive arms";
    /// By how much its pair differs from what the other pairs say.
    OUTLIER_BY: Percent = "outlier_by" from "derive arms";
    /// The operation: `all-reduce`; of a job its command, of a table its file.
    OPERATION: Arc<str> = "operation" from "collective";
    /// The size of the operation, as nccl-tests counts it.
    SIZE: Bytes = "size" from "collective";
    /// Whether the message is too small to judge the bandwidth that it reaches: latency decides then.
    SMALL: bool = "small" from "collective";
    /// How many nodes take part.
    NODES: u64 = "nodes" from "collective";
    /// How many ranks take part.
    RANKS: u64 = "ranks" from "collective";
    /// How many ranks the node with most of them has.
    RANKS_PER_NODE: u64 = "ranks_per_node" from "collective";
    /// Whether more than one node takes part.
    SPAN: NodeSpan = "span" from "collective";
    /// The library that the ranks loaded: its path.
    LIBRARY: Arc<str> = "library" from "collective";
    /// Its version, as it reports it.
    LIBRARY_VERSION: Arc<str> = "library_version" from "collective";
    /// How many arms were measured; 1 if nothing was taken away.
    ARMS: u64 = "arms" from "derive arms";
    /// How often the arms were started again.
    ROUNDS: u64 = "rounds" from "derive arms";
    /// Whether arms are compared by this one: of several sizes the last.
    COMPARED: bool = "compared" from "collective";
    /// The bandwidth of the baseline: the median of its rounds.
    FIGURE: Arc<str> = "figure" from "derive arms";
    /// The bus bandwidth of the baseline: the median of its rounds. Source: nccl-tests, `doc/PERFORMANCE.md`.
    BUSBW: BitRate = "busbw" from "derive arms";
    /// The algorithm bandwidth of the baseline: size by time.
    ALGBW: BitRate = "algbw" from "collective";
    /// How long one operation of the baseline takes: the median of all trials.
    TIME: Seconds = "time" from "derive arms";
    /// How far the rounds of the baseline lie apart, of their median; of one round its trials. An arm that had nothing to take away is the baseline
    /// once more.
    SPREAD: Percent = "spread" from "derive arms";
    /// How much the baseline changed from its first round to its last, where it went one way all the time; else zero. Unknown of fewer than three rounds.
    DRIFT: Percent = "drift" from "derive arms";
    /// Whether rounds of the baseline lie close enough together for arms to be compared. A network that others use is not quiet.
    QUIET: bool = "quiet" from "derive arms";
    /// What carried the traffic between nodes, in the baseline.
    BETWEEN: InterNodeTransport = "between" from "derive arms";
    /// Whether GPUDirect RDMA was used, in the baseline.
    DIRECT: GpuDirectUse = "direct" from "derive arms";
    /// Whether channels over NVLink SHARP were set up, in the baseline.
    NVLS: bool = "nvls" from "derive arms";
    /// Pairs of ranks on one node with channels through the host's shared memory, in the baseline.
    PAIRS_SHM: u64 = "pairs_shm" from "derive arms";
    /// Pairs of ranks on one node with channels over the network, in the baseline.
    PAIRS_NET: u64 = "pairs_net" from "derive arms";
    /// What each pair of ranks used, in the baseline: `14 pairs P2P/CUMEM, 2 pairs NET/IB/GDRDMA`.
    PATHS: Arc<str> = "paths" from "derive arms";
    /// Whether no run of the baseline ended well.
    BASELINE_FAILED: bool = "baseline_failed" from "derive arms";
    /// Whether a run of the baseline had wrong results.
    BASELINE_WRONG: bool = "baseline_wrong" from "derive arms";
    /// Where the data is: NCCL's on GPUs, that of sockets in the host's memory, that of RDMA writes if it was asked for.
    MEMORY: Memory = "memory" from "collective";
    /// The outcome of GPUDirect RDMA: for RDMA writes with data on GPUs.
    GPUDIRECT: GpuDirect = "gpudirect" from "collective";
    /// The method that gave access to the GPUs' memory, DMA-BUF or peer memory; or the rank, the function and its error.
    GPUDIRECT_WHY: Arc<str> = "gpudirect_why" from "collective";
    /// The bandwidth of RDMA writes from GPU to GPU, as a share of the same writes in the host's memory, over the same ports in the same run.
    OF_HOST: Percent = "of_host" from "derive arms";
    /// The bandwidth of the same writes in the host's memory.
    HOST_FIGURE: Arc<str> = "host_figure" from "derive arms";
    /// The highest bandwidth of such an operation on the node's hardware. Rule: manual page rdma-doctor-advise(1), CEILINGS.
    CEILING: BitRate = "ceiling" from "derive ablation";
    /// The baseline's share of that.
    OF_CEILING: Percent = "of_ceiling" from "derive ablation";
    /// What binds the ceiling, and where: `nvlink at 0000:1b:00.0`.
    CEILING_BOUND: Arc<str> = "ceiling_bound" from "derive ablation";
}
