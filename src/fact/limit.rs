//! Limits of checks that are read before a check is judged: by a derivation that has to tell outliers before it knows whom they accuse, and by a
//! measurement that decides what it measures again. They stand in `[limits]` of the check that they serve, and a site sets them as any other.

use std::sync::Arc;

use super::{BitRate, Bytes, PerSecond, Percent, Seconds, Typed, Value};

/// A limit of a check, with the value of its file.
#[derive(Clone, Copy, Debug)]
pub struct Limit<T> {
    check: &'static str,
    name: &'static str,
    built_in: T,
}

#[expect(
    dead_code,
    reason = "all limits that are one number: most are read by their check only"
)]
mod built_in {
    use super::{BitRate, Bytes, Limit, PerSecond, Percent, Seconds};

    include!(concat!(env!("OUT_DIR"), "/limits.rs"));
}

/// Declares the limits, and the list of all of them.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $built_in:ident;)*) => {
        $($(#[$doc])* pub const $name: Limit<$kind> = built_in::$built_in;)*

        /// Check and name of each limit that is read outside of its check.
        pub const READ: &[(&str, &str)] = &[$(($name.check, $name.name)),*];

        #[cfg(test)]
        fn values() -> Vec<(&'static str, &'static str, Value)> {
            vec![$(($name.check, $name.name, $name.built_in.into_value())),*]
        }
    };
}

limits! {
    /// How far rounds of a baseline may lie apart for arms to be compared.
    BASELINE_SPREAD: Percent = ABLATION_BASELINE_NOISY_SPREAD;
    /// How far a baseline may drift for arms to be compared.
    BASELINE_DRIFT: Percent = ABLATION_BASELINE_DRIFTS_DRIFT;
    /// A smaller difference between arms is no change.
    CHANGE: Percent = ABLATION_NOT_BOUND_BY_NETWORK_CHANGE;
    /// The least difference between arms that one run alone proves.
    CHANGE_OF_ONE_RUN: Percent = ABLATION_ONE_ROUND_ONLY_CHANGE;
    /// By how much time and throughput may contradict each other.
    CONTRADICTION: Percent = ABLATION_TABLE_CONTRADICTS_ITSELF_APART;
    /// How far the trials of a collective may lie apart for their median to count.
    COLLECTIVE_SPREAD: Percent = BENCH_TRIALS_UNSTEADY_SPREAD;
    /// Below this size latency decides what a collective reaches.
    SMALL: Bytes = BENCH_BELOW_CEILING_SIZE;
    /// The same of many nodes.
    SMALL_OF_MANY: Bytes = BENCH_BELOW_CEILING_SIZE_OF_MANY;
    /// The share of a machine's CPUs that is few for who shows it, as one of eight ranks has.
    FEW_CPUS: Percent = TOOL_BOUND_TO_FEW_SHARE;
    /// The share of an interface's speed from which TCP fills it.
    FILLS_INTERFACE: Percent = LOG_IPERF_BELOW_INTERFACE_FILLS;
    /// How many nodes are many.
    MANY_NODES: u64 = BENCH_BELOW_CEILING_MANY;
    /// The share of what a part of the nodes reaches below which all nodes together are slow.
    SLOW_BESIDE_PART: Percent = BENCH_NODE_SLOWS_JOB_SHARE;
    /// The share of what was expected below which several nodes are slow.
    SLOW_NODES: Percent = BENCH_NODES_BELOW_EXPECTED_SHARE;
    /// How long a step of a small operation between ranks takes at most.
    STEP_LATENCY: Seconds = BENCH_STEPS_TAKE_LONG_STEP;
    /// What CPUs are expected to move over sockets: no faster link is expected to be full.
    SOCKET_RATE: BitRate = BENCH_NODES_BELOW_EXPECTED_SOCKETS;
    /// The share of what nodes reach alone below which one of them is slow.
    SLOW_ALONE: Percent = BENCH_NODE_SLOW_ALONE_SHARE;
    /// How far the trials of copies between GPUs may lie apart for their median to count.
    COPY_SPREAD: Percent = P2P_MEASUREMENT_UNSTEADY_SPREAD;
    /// The share of the median of equal pairs that copies between two GPUs have at least.
    COPY_OF_PAIRS: Percent = P2P_SLOWER_THAN_EQUAL_PAIRS_SHARE;
    /// The share of the median of equal pairs that a small copy takes at most.
    COPY_LATENCY_OF_PAIRS: Percent = P2P_LATENCY_ABOVE_EQUAL_PAIRS_LATENCY;
    /// The share of the median of equal GPUs that copies with the host have at least.
    HOST_COPY_OF_GPUS: Percent = P2P_HOST_COPY_SLOWER_THAN_EQUALS_SHARE;
    /// How far from the middle the clock of a node has to be to be named.
    CLOCK_ODD: Seconds = CLUSTER_CLOCKS_LOOSE_ODD;
    /// How exactly a distance of clocks has to be known to be judged as a number.
    CLOCK_EXACT: Seconds = CLUSTER_CLOCKS_APART_EXACT;
    /// How far from the clock of who asked for it the time of a recording may be.
    RECORDED_NOW: Seconds = CLUSTER_CLOCKS_APART_RECORDED;
    /// How much busier than its equals a node may be.
    LOAD_APART: Percent = CLUSTER_LOAD_DIFFERS_LOAD;
    /// How much less memory than on its equals may be free on a node.
    MEMORY_APART: Percent = CLUSTER_LOAD_DIFFERS_MEMORY;
    /// A smaller part of the ports that a client picks from is met too seldom to block a job.
    PORT_HOLE: Percent = FIREWALL_BOOTSTRAP_PARTLY_BLOCKED_HOLE;
    /// How long after boot links come and go while a machine is configured.
    LINKS_SETTLED: Seconds = KERNEL_LINK_FLAPPED_SETTLED;
    /// The least rate of a port that carries GPUs' traffic.
    RATE_FOR_GPUS: BitRate = GPUDIRECT_NONE_RATE;
    /// So many channels of NCCL's, or fewer, do not fill fast links.
    FEW_CHANNELS: u64 = NCCL_CHANNELS_CAPPED_CHANNELS;
    /// NCCL's buffers are smaller than usual below this size.
    SMALL_BUFFER: u64 = NCCL_BUFFER_SMALL_BYTES;
    /// The least `NCCL_IB_TIMEOUT` that rides out congestion.
    TIMEOUT_LEAST: u64 = NCCL_RETRY_ODD_TIMEOUT_LEAST;
    /// The largest `NCCL_IB_TIMEOUT` that notices a dead peer in time.
    TIMEOUT_MOST: u64 = NCCL_RETRY_ODD_TIMEOUT_MOST;
    /// The fewest retries.
    RETRIES: u64 = NCCL_RETRY_ODD_RETRIES;
    /// A rank that uses less of a CPU does not compute.
    RANK_CPU: Percent = RANKS_NOT_MOVING_CPU;
    /// A rank that moves less data between two looks moves none.
    RANK_DATA: Bytes = RANKS_NOT_MOVING_DATA;
    /// How many times as much of a CPU as each other one a rank uses that these wait for, where they run now and then.
    RANK_ALONE: u64 = RANKS_NOT_MOVING_ALONE;
    /// A GPU in which kernels run for less of the time is idle.
    GPU_IDLE_BELOW: Percent = RANKS_NOT_MOVING_GPU_IDLE;
    /// The share of time from which a kernel that reads and writes nothing spins.
    GPU_SPINS_FROM: Percent = RANKS_NOT_MOVING_GPU_SPINS;
    /// A kernel that uses more of the memory's time moves data.
    GPU_SPINS_MEMORY: Percent = RANKS_NOT_MOVING_GPU_MEMORY;
    /// A GPU that draws this share of its limit computes.
    GPU_SPINS_POWER: Percent = RANKS_NOT_MOVING_GPU_POWER;
    /// The share of one CPU from which a process takes it from others.
    CPU_HOG: Percent = HOST_CPUS_TAKEN_HOG;
    /// How many files a process of a small job opens.
    FILES_LEAST: u64 = HOST_NOFILE_LOW_FILES;
    /// How many files rank 0 of a job opens for each rank.
    FILES_OF_RANK: u64 = HOST_NOFILE_LOW_OF_RANK;
    /// How many files a process of a job opens besides.
    FILES_BESIDES: u64 = HOST_NOFILE_LOW_BESIDES;
    /// Below this share of what equal pairs carry, a pair is slow.
    PAIR_SLOW: Percent = PAIRS_SLOW_SHARE;
    /// The same of a pair with an end that has a slow pair already.
    PAIR_SLOW_BESIDE: Percent = PAIRS_SLOW_SHARE_BESIDE;
    /// How many times the spread of what equal pairs carry is a difference.
    PAIR_SLOW_SPREADS: u64 = PAIRS_SLOW_SPREADS;
    /// A smaller difference from what equal pairs carry is none, however alike they are.
    PAIR_SLOW_LEAST: Percent = PAIRS_SLOW_LEAST;
    /// The share of what the network in use carries from which another one is faster.
    FASTER_NETWORK: Percent = PAIRS_FASTER_NETWORK_SHARE;
    /// How far a predicted figure may be from the measured one to explain it.
    EXPLAINS: Percent = BENCH_NODES_BELOW_EXPECTED_EXPLAINS;
    /// Two causes whose figures are so close bind together.
    BINDS_TOGETHER: Percent = BENCH_NODES_BELOW_EXPECTED_TOGETHER;
    /// Below this share of what it carries in the host's memory, a pair is slow from GPU to GPU.
    PAIR_SLOW_ON_GPUS: Percent = PAIRS_GPU_MEMORY_SLOW_SHARE;
    /// The same of a pair with an end that has such a pair already.
    PAIR_SLOW_ON_GPUS_BESIDE: Percent = PAIRS_GPU_MEMORY_SLOW_SHARE_BESIDE;
    /// The share of the segments that TCP sends again from which a pair loses packets.
    PAIR_LOSS_TCP: Percent = PAIRS_LOSES_PACKETS_TCP;
    /// The same of a pair with an end that has such a pair already.
    PAIR_LOSS_TCP_BESIDE: Percent = PAIRS_LOSES_PACKETS_TCP_BESIDE;
    /// The share of RDMA's packets that are sent again from which a pair loses packets.
    PAIR_LOSS_RDMA: Percent = PAIRS_LOSES_FEW_PACKETS_RDMA;
    /// How many packets have to be sent again for a loss.
    PAIR_LOSS_PACKETS: u64 = PAIRS_LOSES_FEW_PACKETS_PACKETS;
    /// How many times what equal pairs lose is a loss.
    PAIR_LOSS_TIMES: u64 = PAIRS_LOSES_FEW_PACKETS_TIMES;
    /// How many times the round trip of equal pairs is late.
    PAIR_LATE_TIMES: u64 = PAIRS_LATE_TIMES;
    /// How much longer than that of equal pairs a round trip has to be over TCP.
    PAIR_LATE_TCP: Seconds = PAIRS_LATE_TCP;
    /// The same by RDMA.
    PAIR_LATE_RDMA: Seconds = PAIRS_LATE_RDMA;
}

/// The limits that a site sets. Those that it does not set have the values of the built-in files.
#[derive(Clone, Debug, Default)]
pub struct Limits(Vec<(Arc<str>, Arc<str>, Value)>);

impl Limits {
    /// Sets a limit of a check.
    pub fn set(&mut self, check: &str, name: &str, value: Value) {
        self.0
            .retain(|(own, of, _)| (&**own, &**of) != (check, name));
        self.0.push((check.into(), name.into(), value));
    }

    /// The value of a limit.
    pub fn get<T: Typed>(&self, limit: Limit<T>) -> T {
        let is_wanted = |(check, name, _): &&(Arc<str>, Arc<str>, Value)| {
            (&**check, &**name) == (limit.check, limit.name)
        };
        // The loader of checks refuses a value of another type.
        let set = self.0.iter().find(is_wanted);
        set.and_then(|(.., value)| T::from_value(value))
            .unwrap_or(limit.built_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Catalogue;

    #[test]
    fn a_limit_has_the_value_of_its_file() {
        let catalogue = Catalogue::embedded().unwrap();
        for (check, name, value) in values() {
            let limits = &catalogue.get(check).unwrap().limits;
            let of_file = limits.iter().find(|(own, _)| **own == *name).unwrap();
            assert_eq!(of_file.1, value, "{check} {name}");
        }
    }

    #[test]
    fn a_limit_that_a_site_sets_counts() {
        let mut limits = Limits::default();
        let spread = limits.get(BASELINE_SPREAD);
        limits.set(
            "ablation/baseline-noisy",
            "spread",
            Value::Percent(Percent(3.0)),
        );
        assert_ne!(limits.get(BASELINE_SPREAD), spread);
        assert_eq!(limits.get(BASELINE_SPREAD), Percent(3.0));
        limits.set(
            "ablation/baseline-noisy",
            "spread",
            Value::Percent(Percent(4.0)),
        );
        assert_eq!(limits.get(BASELINE_SPREAD), Percent(4.0));
    }
}
