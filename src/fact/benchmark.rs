//! The facts of a benchmark's results, as its output in a log tells them.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{BitRate, Bytes, Percent, Seconds};

words! {
    /// What printed the results.
    pub enum BenchmarkTool {
        /// nccl-tests, or rccl-tests.
        NcclTests = "nccl-tests",
        /// `all_reduce_bench.py`, of PyTorch's collectives.
        AllReduceBench = "all_reduce_bench",
        /// perftest: `ib_write_bw` and the others.
        Perftest = "perftest",
        /// iperf3: TCP and UDP.
        Iperf3 = "iperf3",
    }
}

words! {
    /// How a benchmark failed.
    pub enum BenchmarkFailure {
        /// It did not.
        None = "none",
        /// The other end was not reached over TCP, where both exchange their addresses.
        NotConnected = "not-connected",
        /// A queue pair could not be made ready.
        Queue = "queue",
        /// A request completed with an error.
        Completion = "completion",
        /// Another message of the tool.
        Other = "other",
    }
}

subject! {
    /// Results of a benchmark that are in a log: a table of nccl-tests or `all_reduce_bench.py`, or what perftest printed.
    Benchmark = "benchmark" from "nccl_log";

    /// What printed them.
    TOOL: BenchmarkTool = "tool" from "nccl_log";
    /// The test, as `all_reduce_perf` or `RDMA_Write BW Test`; unknown if the log does not name it.
    TEST: Arc<str> = "test" from "nccl_log";
    /// Whether the test adds up what ranks have, and its bus bandwidth is that of the slowest link: an all-reduce, a reduce-scatter, a reduce. Source: nccl-tests'
    /// column "redop".
    REDUCES: bool = "reduces" from "nccl_log";
    /// How many jobs printed their ranks before the table: more than one where processes that were to be one job did not join, 0 if the ranks
    /// are not in the log. Source: nccl-tests, ranks 0.
    JOBS: u64 = "jobs" from "nccl_log";
    /// How many ranks took part. Source: nccl-tests, "# Using devices".
    RANKS: u64 = "ranks" from "nccl_log";
    /// How many hosts they were on.
    HOSTS: u64 = "hosts" from "nccl_log";
    /// The GPUs' model, or models.
    GPUS: Arc<str> = "gpus" from "nccl_log";
    /// Where they begin: `job-1.log:17`, or `line 17` of a single text.
    PLACE: Arc<str> = "place" from "nccl_log";
    /// How many rows of results were read.
    ROWS: u64 = "rows" from "nccl_log";
    /// The largest message of them.
    LARGEST: Bytes = "largest" from "nccl_log";
    /// The most that a row reached: bus bandwidth (nccl-tests, all_reduce_bench), average bandwidth (perftest).
    BANDWIDTH: BitRate = "bandwidth" from "nccl_log";
    /// The same as benchmarks print it, and as links are rated.
    FIGURE: Arc<str> = "figure" from "derive log";
    /// What the text says of the adapters of a host: how many ports of which rate together.
    STATED_RATE: BitRate = "stated_rate" from "nccl_log";
    /// That in words, with its line.
    STATED_PORTS: Arc<str> = "stated_ports" from "nccl_log";
    /// Whether the largest message is too small to judge the bandwidth: latency decides then.
    SMALL: bool = "small" from "derive log";
    /// Whether there is a ceiling to compare with: of a recording beside the log, of ports that the same text shows, or of what the text says of them.
    COMPARED: bool = "compared" from "derive log";
    /// The highest bus bandwidth of an all-reduce over the hosts. Rule: manual page rdma-doctor-log(1), RESULTS OF BENCHMARKS.
    CEILING: BitRate = "ceiling" from "derive log";
    /// What the ceiling is of.
    CEILING_BOUND: Arc<str> = "ceiling_bound" from "derive log";
    /// Whether the ceiling counts what joins the GPUs inside a host, too.
    CEILING_WHOLE: bool = "ceiling_whole" from "derive log";
    /// What the best row reached of the ceiling.
    OF_CEILING: Percent = "of_ceiling" from "derive log";
    /// The interface that carries no more than what was reached, in the same text.
    FILLED: Arc<str> = "filled" from "derive log";
    /// Whether the log names a model of GPUs that has NVLink between all GPUs of a host.
    NVLINK: bool = "nvlink" from "derive log";
    /// The mean over all rows, as nccl-tests prints it. Source: "# Avg bus bandwidth".
    MEAN_BANDWIDTH: BitRate = "mean_bandwidth" from "nccl_log";
    /// The smallest message. Source: nccl-tests, the first row.
    SMALLEST: Bytes = "smallest" from "nccl_log";
    /// The time of the smallest message: nccl-tests' first row, perftest's average latency.
    LATENCY: Seconds = "latency" from "nccl_log";
    /// How many wrong values all rows together have. Source: nccl-tests, columns "#wrong" and "# Out of bounds values"; unknown if the
    /// test did not look (N/A), or the table ends early.
    WRONG: u64 = "wrong" from "nccl_log";
    /// Which rows have wrong values; "none" if no row has.
    WRONG_ROWS: Arc<str> = "wrong_rows" from "nccl_log";
    /// Whether the results end as the tool ends them.
    COMPLETE: bool = "complete" from "nccl_log";
    /// The RDMA device that perftest used.
    DEVICE: Arc<str> = "device" from "nccl_log";
    /// The link layer that perftest names: IB or Ethernet.
    LINK_LAYER: Arc<str> = "link_layer" from "nccl_log";
    /// The GID index that perftest used.
    GID_INDEX: u64 = "gid_index" from "nccl_log";
    /// The GIDs of both ends, where perftest printed two that are no addresses of one kind; "none" if they are.
    GIDS_APART: Arc<str> = "gids_apart" from "nccl_log";
    /// Which of the two ends printed a GID of zeros: nothing stands at its index. Not known where neither did.
    GIDS_EMPTY: Arc<str> = "gids_empty" from "nccl_log";
    /// How it failed; none if it printed results, unknown if it printed neither.
    FAILURE: BenchmarkFailure = "failure" from "nccl_log";
    /// Its message about that.
    FAILURE_TEXT: Arc<str> = "failure_text" from "nccl_log";
    /// The completion's status. Source: enum ibv_wc_status, as perftest prints it: "Failed status 12".
    STATUS: u64 = "status" from "nccl_log";
    /// How many requests had completed when one failed: perftest's `ccnt`.
    COMPLETED: u64 = "completed" from "nccl_log";
}
