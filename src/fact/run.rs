//! The facts of a run of NCCL, as its log tells it: the processes that share a communicator, and what went between them.

use std::sync::Arc;

use super::Percent;
use super::Seconds;
use super::schema::subject;
use super::value::words;

words! {
    /// Which library wrote the log.
    pub enum Library {
        /// NVIDIA's NCCL.
        Nccl = "nccl",
        /// AMD's RCCL.
        Rccl = "rccl",
    }
}

words! {
    /// The transport that carried, or should carry, traffic between ranks on different nodes.
    pub enum Carrier {
        /// RDMA, and nothing else.
        Rdma = "rdma",
        /// TCP sockets, and nothing else.
        Socket = "socket",
        /// TCP that places data in the GPU's memory (GPUDirect-TCPX, TCPXO): neither RDMA nor plain sockets.
        DirectTcp = "direct-tcp",
        /// NVLink between nodes (MNNVL), and no network.
        Nvlink = "nvlink",
        /// Several of these.
        Mixed = "mixed",
        /// A plugin that the doctor does not know.
        Plugin = "plugin",
    }
}

words! {
    /// On which lines of the log it rests what carried the traffic between nodes; the stronger first.
    pub enum TransportProof {
        /// The lines of connected channels: what was really used.
        Channels = "channels",
        /// Work requests of RDMA that completed with an error: it was in use when it failed.
        Requests = "requests",
        /// Queues of RDMA that could not be made, connected or given memory: it was tried.
        Queues = "queues",
        /// `Using network`: what was chosen.
        Network = "network",
        /// The adapters and interfaces that were found, in a log without `Using network`: before 2.6, or an excerpt.
        Adapters = "adapters",
    }
}

words! {
    /// When RDMA failed.
    pub enum RdmaFailure {
        /// It did not, as far as the log shows.
        None = "none",
        /// While connections were made.
        Start = "start",
        /// After the run had begun.
        Later = "later",
        /// The log does not tell when.
        NotLogged = "not-logged",
    }
}

words! {
    /// How a run ended, as far as its log shows.
    pub enum RunOutcome {
        /// Its work ended as it should: a benchmark's result, a launcher's summary, `run_stop` with success.
        Succeeded = "succeeded",
        /// Steps or results follow all of its failures; its end is not in the log.
        WentOn = "went-on",
        /// It ended with a failure, or nothing shows that it went on after one.
        Failed = "failed",
        /// The log does not tell.
        Unknown = "unknown",
    }
}

subject! {
    /// A run of NCCL in a log: the processes that share a communicator, directly or through others.
    Run = "run" from "nccl_log";

    /// Which library wrote the log.
    LIBRARY: Library = "library" from "nccl_log";
    /// Version of the library that most ranks have, from `NCCL version`.
    VERSION: Arc<str> = "version" from "nccl_log";
    /// All versions of the library that the log names.
    VERSIONS: Arc<[Arc<str>]> = "versions" from "nccl_log";
    /// Version of CUDA for which the library was built.
    CUDA: Arc<str> = "cuda" from "nccl_log";
    /// How many machines take part: `nNodes` of the largest communicator (NCCL 2.20 and later), else the hosts that the log names.
    NODES: u64 = "nodes" from "nccl_log";
    /// Whether the number of machines is NCCL's own (`nNodes`), and not counted from the hosts that logged.
    NODES_STATED: bool = "nodes_stated" from "nccl_log";
    /// How many ranks the largest communicator has.
    RANKS: u64 = "ranks" from "nccl_log";
    /// Whether lines of level INFO are in the log (`NCCL_DEBUG=INFO`): without them nearly nothing is known.
    INFO: bool = "info" from "nccl_log";
    /// Whether no line names the process that wrote it: somebody copied messages without what is before
    /// them, and nobody knows what else the log had.
    EXCERPT: bool = "excerpt" from "nccl_log";
    /// Whether lines of the subsystem ENV are in the log: which variables are set. By default so from 2.16.5.
    ENV_LOGGED: bool = "env_logged" from "nccl_log";
    /// What carried the traffic between nodes; unknown for a run on one node, which has none.
    CARRIER: Carrier = "carrier" from "nccl_log";
    /// Whether lines show that RDMA, or NVLink, carried the traffic between nodes.
    RDMA_SHOWN: bool = "rdma_shown" from "nccl_log";
    /// On which lines the carrier rests.
    PROOF: TransportProof = "proof" from "nccl_log";
    /// The networks that carried the traffic between nodes, in NCCL's names: `IB`, `Socket`, `AWS Libfabric`.
    NETWORKS: Arc<[Arc<str>]> = "networks" from "nccl_log";
    /// Lines of connected channels between nodes over a network; each channel is logged by its sender and by its receiver.
    INTER: u64 = "inter" from "nccl_log";
    /// Those of them that went over RDMA.
    INTER_RDMA: u64 = "inter_rdma" from "nccl_log";
    /// Those of them that went over TCP sockets.
    INTER_SOCKET: u64 = "inter_socket" from "nccl_log";
    /// Those of them that reach the GPU's memory without a stop in the host's: GPUDirect RDMA.
    INTER_GDR: u64 = "inter_gdr" from "nccl_log";
    /// Of the channels between nodes that send, those with GPUDirect RDMA.
    GDR_SEND: Percent = "gdr_send" from "nccl_log";
    /// Of the channels between nodes that receive, those with GPUDirect RDMA.
    GDR_RECEIVE: Percent = "gdr_receive" from "nccl_log";
    /// Lines of connected channels between nodes that go over NVLink (MNNVL) and no network; `inter` does not count them.
    INTER_NVLINK: u64 = "inter_nvlink" from "nccl_log";
    /// Lines of connected channels inside nodes.
    INTRA: u64 = "intra" from "nccl_log";
    /// Those of them from GPU to GPU (NVLink or PCIe: the line does not say which).
    INTRA_P2P: u64 = "intra_p2p" from "nccl_log";
    /// Those of them through the host's shared memory.
    INTRA_SHM: u64 = "intra_shm" from "nccl_log";
    /// Those of them that went over the network, though both ranks are on one node.
    INTRA_NET: u64 = "intra_net" from "nccl_log";
    /// Lines of channels over SHARP or another CollNet; `inter` does not count them.
    COLLNET_CHANNELS: u64 = "collnet_channels" from "nccl_log";
    /// Whether channels over NVLink SHARP were set up.
    NVLS: bool = "nvls" from "nccl_log";
    /// Whether NVLink goes between nodes (MNNVL), as the lines of communicators say.
    MNNVL: bool = "mnnvl" from "nccl_log";
    /// Whether lines show CPUs of ARM's architecture: a library's path, or NVLink between nodes, which
    /// only machines with NVIDIA's own CPUs have.
    ARM: bool = "arm" from "nccl_log";
    /// Whether all ranks that began to initialise the largest communicator ended it, and all of its ranks were seen.
    INITIALISED: bool = "initialised" from "nccl_log";
    /// Ranks of the largest communicator that began its initialisation and did not end it.
    STUCK_RANKS: Arc<[Arc<str>]> = "stuck_ranks" from "nccl_log";
    /// How many these are.
    STUCK: u64 = "stuck" from "nccl_log";
    /// Ranks of the largest communicator of which no line says that they began.
    SILENT_RANKS: Arc<[Arc<str>]> = "silent_ranks" from "nccl_log";
    /// How many these are; unknown if the log is of a few ranks only, which is usual.
    SILENT: u64 = "silent" from "nccl_log";
    /// The longest time that a rank took to initialise a communicator.
    INIT_TIME: Seconds = "init_time" from "nccl_log";
    /// The longest time that a rank took in the bootstrap over TCP, which is part of it.
    BOOTSTRAP_TIME: Seconds = "bootstrap_time" from "nccl_log";
    /// How the run ended.
    OUTCOME: RunOutcome = "outcome" from "nccl_log";
    /// Whether the log holds a failure: an event that is neither benign nor the consequence of another, that was not recovered and did not come
    /// after the end of the work.
    FAILED: bool = "failed" from "nccl_log";
    /// The most RDMA ports that a host of the run lists.
    MOST_PORTS: u64 = "most_ports" from "derive log";
    /// How many different networks the hosts chose, by NCCL's names.
    NETWORKS_CHOSEN: u64 = "networks_chosen" from "derive log";
    /// How many different kinds of network the hosts chose.
    CARRIERS_CHOSEN: u64 = "carriers_chosen" from "derive log";
    /// Which network which hosts chose.
    NETWORKS_BY_HOST: Arc<str> = "networks_by_host" from "derive log";
    /// How many versions of the library the log names.
    VERSIONS_SEEN: u64 = "versions_seen" from "derive log";
    /// Whether a line is of NCCL, or of a program that tells of NCCL: other libraries write the same failures.
    NCCL_LOGGED: bool = "nccl_logged" from "nccl_log";
    /// When a call or a request of RDMA failed first, and led to what followed.
    RDMA_FAILURE: RdmaFailure = "rdma_failure" from "derive log";
    /// How many events followed the failure that counts.
    FOLLOWED: u64 = "followed" from "derive log";
    /// The classes of the events that followed the failure that counts.
    FOLLOWED_CLASSES: Arc<[Arc<str>]> = "followed_classes" from "derive log";
    /// Which ranks are behind the others, by the collectives that their watchdogs wait for.
    BEHIND: Arc<str> = "behind" from "derive log";
    /// The ranks that RAS names as behind the others: `ranks 5 and 6`.
    NAMED_BY_RAS: Arc<str> = "named_by_ras" from "derive log";
    /// Whether ranks called different collectives in one place, by what their watchdogs wait for.
    CALLS_DIFFER: bool = "calls_differ" from "derive log";
    /// What they called.
    DIFFERING: Arc<str> = "differing" from "derive log";
    /// Whether ranks got past the bootstrap, where they meet: a line tells of their nodes, of channels, or of an initialisation that ended.
    MET: bool = "met" from "derive log";
}
