//! The facts of a process of a running job, named with --as: the limits and the environment that count.

use std::sync::Arc;

use super::schema::subject;
use super::{Bytes, Percent};

subject! {
    /// A process of a running job, named with --as: the limits and the environment that count.
    Job = "job" from "job";

    /// Its name, as the kernel has it (comm), without arguments. Source: /proc/PID/comm.
    COMMAND: Arc<str> = "command" from "job";
    /// Its soft limit of locked memory. Source: /proc/PID/limits.
    MEMLOCK: Bytes = "memlock" from "job";
    /// Whether that limit binds it: it is finite, and the process has no CAP_IPC_LOCK in the initial user namespace.
    MEMLOCK_BINDS: bool = "memlock_binds" from "job";
    /// Its soft limit of open files. Source: /proc/PID/limits.
    NOFILE: u64 = "nofile" from "job";
    /// How many descriptors it has open. Source: /proc/PID/fd.
    OPEN_FILES: u64 = "open_files" from "job";
    /// How many CPUs it may run on. Source: /proc/PID/status, Cpus_allowed_list.
    CPUS: u64 = "cpus" from "job";
    /// The NUMA nodes to which those CPUs belong. Source: /sys/devices/system/node/node*/cpulist.
    NUMA_NODES: Arc<[Arc<str>]> = "numa_nodes" from "job";
    /// Whether one of those NUMA nodes has an RDMA device that is intended for use.
    NEAR_RDMA: bool = "near_rdma" from "derive job_place";
    /// The NUMA nodes that have an RDMA device that is intended for use.
    RDMA_NUMA_NODES: Arc<[Arc<str>]> = "rdma_numa_nodes" from "derive job_place";
    /// Whether its control group, or one above it, limits RDMA handles or objects. Source: rdma.max.
    RDMA_LIMITED: bool = "rdma_limited" from "job";
    /// The RDMA limits of its control group, as rdma.max has them; "none" if nothing is limited.
    RDMA_LIMITS: Arc<str> = "rdma_limits" from "job";
    /// Its soft limit of processes and threads of its user; 4194304, the most that a kernel has, where nothing limits it, as for root.
    /// Source: /proc/PID/limits, /proc/PID/status.
    NPROC: u64 = "nproc" from "job";
    /// How many processes and threads its control group, or one above it, may have; 4194304 where nothing limits it. Source: pids.max.
    CGROUP_PIDS: u64 = "cgroup_pids" from "job";
    /// The share of periods in which its control group, or one above it, used up its CPU time. Source: cpu.stat, nr_throttled of nr_periods.
    CPU_THROTTLED: Percent = "cpu_throttled" from "job";
    /// In how many periods its control group wanted CPU time: few prove nothing. Source: cpu.stat, nr_periods.
    CPU_PERIODS: u64 = "cpu_periods" from "job";
    /// How many processes of its control group the kernel has killed because the group may have no more memory, since the group was
    /// made. Source: oom_kill in memory.events; version 1: memory.oom_control.
    OOM_KILLS: u64 = "oom_kills" from "job";
    /// The NUMA nodes whose memory it may use. Source: /proc/PID/status, Mems_allowed_list.
    MEMORY_NODES: Arc<[Arc<str>]> = "memory_nodes" from "job";
    /// Whether one of those NUMA nodes has an RDMA device that is intended for use.
    MEMORY_NEAR_RDMA: bool = "memory_near_rdma" from "derive job_place";
    /// Whether it sees /dev/infiniband. Source: /proc/PID/root/dev.
    DEV_INFINIBAND: bool = "dev_infiniband" from "job";
    /// Size of the /dev/shm that it sees. Source: statvfs(3) of /proc/PID/root/dev/shm.
    SHM_SIZE: Bytes = "shm_size" from "job";
    /// How often it has an RDMA verbs device open. Source: /proc/PID/fd.
    VERBS_OPEN: u64 = "verbs_open" from "job";
    /// How often it has a GPU open. Source: /proc/PID/fd.
    GPUS_OPEN: u64 = "gpus_open" from "job";
    /// The files of NCCL's library that it has mapped. Source: /proc/PID/maps.
    NCCL: Arc<[Arc<str>]> = "nccl" from "job";
    /// How many files of NCCL's library it has mapped.
    NCCL_COPIES: u64 = "nccl_copies" from "job";
    /// How many ranks the job has, as its launcher says (WORLD_SIZE, OMPI_COMM_WORLD_SIZE, PMI_SIZE, SLURM_NTASKS); 1 if none does.
    RANKS: u64 = "ranks" from "job";
    /// The variables of NCCL, UCX and libfabric that this shell has and the process lacks, or has with another value.
    LOST_VARIABLES: Arc<[Arc<str>]> = "lost_variables" from "job";
    /// Whether it has all variables of NCCL, UCX and libfabric that this shell has, with their values.
    HAS_VARIABLES: bool = "has_variables" from "job";
}
