//! The facts of a machine.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{Bytes, PerSecond, Percent, Seconds};

words! {
    /// What kind of container a process runs in.
    pub enum Container {
        /// Positive evidence of a host: the initial PID namespace.
        None = "none",
        /// Docker or Moby.
        Docker = "docker",
        /// Podman.
        Podman = "podman",
        /// A Kubernetes pod, whatever its runtime.
        Kubernetes = "kubernetes",
        /// LXC or Incus.
        Lxc = "lxc",
        /// Another PID namespace than the initial one, of unknown making.
        Other = "other",
    }
}

words! {
    /// Whether a namespace is the one that the kernel started with.
    pub enum Namespace {
        /// The kernel's first.
        Initial = "initial",
        /// One of its own.
        Private = "private",
    }
}

words! {
    /// What opening a character device for reading and writing says.
    pub enum CharDevice {
        /// It opens.
        Usable = "usable",
        /// There is no node.
        Absent = "absent",
        /// Its mode or owner forbids (`EACCES`).
        Denied = "denied",
        /// A device cgroup or a security module forbids (`EPERM`).
        Forbidden = "forbidden",
        /// The node is there and no driver behind it (`ENXIO`, `ENODEV`).
        Dead = "dead",
    }
}

words! {
    /// Whether RDMA devices belong to all network namespaces or to one (`rdma system`).
    pub enum RdmaNetns {
        /// All network namespaces see all devices.
        Shared = "shared",
        /// A device is seen in one network namespace only.
        Exclusive = "exclusive",
    }
}

words! {
    /// What libibverbs says when it is asked for its devices.
    pub enum Libibverbs {
        /// It lists devices, or that there are none.
        Works = "works",
        /// The library is not installed.
        Missing = "missing",
        /// It says that the kernel has no verbs (`ib_uverbs` is not loaded).
        NoKernelVerbs = "no-kernel-verbs",
        /// It fails in another way.
        Fails = "fails",
    }
}

words! {
    /// What is known of `/dev/shm`.
    pub enum SharedMemory {
        /// A tmpfs that can be written.
        Usable = "usable",
        /// There is none.
        Absent = "absent",
        /// It is mounted read-only.
        ReadOnly = "read-only",
        /// It is no tmpfs: shared memory goes to a disk.
        NotTmpfs = "not-tmpfs",
    }
}

subject! {
    /// A machine, or the container on it in which the doctor runs.
    Node = "node" from "derive";

    /// The kernel's release, as `uname -r`. Source: /proc/sys/kernel/osrelease.
    KERNEL: Arc<str> = "kernel" from "host";
    /// The distribution's name. Source: /etc/os-release, PRETTY_NAME.
    OS: Arc<str> = "os" from "host";
    /// Time since boot. Source: /proc/uptime.
    UPTIME: Seconds = "uptime" from "host";
    /// Whether the machine is a virtual one. Source: the CPU's hypervisor feature (x86) in
    /// /sys/devices/system/cpu/modalias, else /proc/cpuinfo.
    VIRTUAL: bool = "virtual" from "host";
    /// Memory of the machine. Source: /proc/meminfo, MemTotal.
    MEMORY: Bytes = "memory" from "host";
    /// The number of NUMA nodes that are online. Source: /sys/devices/system/node/online.
    NUMA_NODES: u64 = "numa_nodes" from "host";
    /// What kind of container the doctor runs in. Source: PID namespace, marker files, cgroup path.
    CONTAINER: Container = "container" from "host";
    /// The soft limit of locked memory of this process and its children. Source: /proc/self/limits.
    MEMLOCK: Bytes = "memlock" from "host";
    /// Whether this process has CAP_IPC_LOCK in the initial user namespace, which lifts the limit of locked memory.
    IPC_LOCK: bool = "ipc_lock" from "host";
    /// Whether a limit of locked memory binds this process: it is finite, and CAP_IPC_LOCK does not lift it.
    MEMLOCK_BINDS: bool = "memlock_binds" from "derive";
    /// The soft limit of open files. Source: /proc/self/limits.
    NOFILE: u64 = "nofile" from "host";
    /// Whether the IPC namespace is the kernel's first. Source: /proc/self/ns/ipc.
    IPC_NAMESPACE: Namespace = "ipc_namespace" from "host";
    /// Whether the user namespace is the kernel's first. Source: /proc/self/ns/user.
    USER_NAMESPACE: Namespace = "user_namespace" from "host";
    /// What is known of /dev/shm. Source: statvfs(3).
    SHM: SharedMemory = "shm" from "host";
    /// Size of /dev/shm. Source: statvfs(3).
    SHM_SIZE: Bytes = "shm_size" from "host";
    /// Free space of /dev/shm. Source: statvfs(3).
    SHM_FREE: Bytes = "shm_free" from "host";
    /// Whether the cgroup of this process, or one above it, limits RDMA handles or objects. Source: rdma.max.
    RDMA_LIMITED: bool = "rdma_limited" from "host";
    /// The RDMA limits of the cgroup, as rdma.max has them; "none" where nothing is limited.
    RDMA_LIMITS: Arc<str> = "rdma_limits" from "host";
    /// Network devices that carry a default IPv4 route, those below a bond, bridge or VLAN too. Source: /proc/net/route,
    /// sysfs upper_*.
    DEFAULT_ROUTE: Arc<[Arc<str>]> = "default_route" from "netdev";
    /// Whether /dev/infiniband is there.
    DEV_INFINIBAND: bool = "dev_infiniband" from "chardev";
    /// What opening /dev/infiniband/rdma_cm says; "absent" too where the module behind it is not loaded.
    RDMA_CM: CharDevice = "rdma_cm" from "chardev";
    /// What libibverbs says when it is asked for its devices. Source: ibv_get_device_list(3).
    LIBIBVERBS: Libibverbs = "libibverbs" from "verbs";
    /// Whether RDMA devices belong to all network namespaces or to one. Source: netlink RDMA_NLDEV_CMD_SYS_GET.
    RDMA_NETNS: RdmaNetns = "rdma_netns" from "nldev";
    /// How many RDMA devices there are. Source: /sys/class/infiniband.
    DEVICES: u64 = "devices" from "derive";
    /// How many of its PCI functions are RDMA hardware beyond doubt (class 0x0207, or bound to an RDMA-only driver).
    RDMA_FUNCTIONS: u64 = "rdma_functions" from "derive";
    /// How many ports are intended for use.
    INTENDED_PORTS: u64 = "intended_ports" from "derive";
    /// How many ports are active.
    ACTIVE_PORTS: u64 = "active_ports" from "derive";
    /// Whether one port at least is active: known as soon as it is for one, though others may be unknown.
    HAS_ACTIVE_PORT: bool = "has_active_port" from "derive";
    /// Whether the intended, active ports of equal devices run at one rate.
    RATES_AGREE: bool = "rates_agree" from "derive";
    /// The rates of equal devices' ports, where they differ: which port runs at which.
    RATES: Arc<str> = "rates" from "derive";
    /// Whether the intended, active ports of one board have one link layer.
    LINK_LAYERS_AGREE: bool = "link_layers_agree" from "derive";
    /// The link layers of the intended, active ports, where they differ: which port has which.
    LINK_LAYERS: Arc<str> = "link_layers" from "derive";
    /// Whether the intended, active Ethernet ports have their first routable RoCE v2 GID at one index.
    GID_INDEXES_AGREE: bool = "gid_indexes_agree" from "derive";
    /// The indexes of the first routable RoCE v2 GID, where they differ: which port has which.
    GID_INDEXES: Arc<str> = "gid_indexes" from "derive";
    /// Whether no two active ports of the node have one LID in one subnet; virtual functions share that of their adapter.
    LIDS_DISTINCT: bool = "lids_distinct" from "derive";
    /// The ports that share a LID in one subnet.
    SHARED_LIDS: Arc<str> = "shared_lids" from "derive";
    /// The NCCL version that a job on this node would load, as "2.27.5". Source: the library files that are found, manual page rdma-doctor-nccl-env(1).
    NCCL_VERSION: Arc<str> = "nccl_version" from "nccl";
    /// Tasks that run or wait in the kernel, in the last minute, as a part of the CPUs. Source: /proc/loadavg.
    LOAD: Percent = "load" from "process";
    /// Whether the kernel counts stalls: there is /proc/pressure, and it was not switched off at boot.
    STALLS_COUNTED: bool = "stalls_counted" from "process";
    /// The part of the last minute in which all tasks waited for memory. Source: /proc/pressure/memory, full.
    MEMORY_STALLED: Percent = "memory_stalled" from "process";
    /// The part of the last minute in which all tasks waited for disks. Source: /proc/pressure/io, full.
    IO_STALLED: Percent = "io_stalled" from "process";
    /// How many memory controllers count errors. Source: /sys/devices/system/edac/mc.
    MEMORY_CONTROLLERS: u64 = "memory_controllers" from "memory";
    /// Memory errors that were corrected, since boot. Source: EDAC, ce_count.
    MEMORY_CORRECTED: u64 = "memory_corrected" from "memory";
    /// How often a memory error was corrected, since the controllers count. Source: EDAC, ce_count, seconds_since_reset.
    MEMORY_CORRECTED_RATE: PerSecond = "memory_corrected_rate" from "memory";
    /// Memory errors that could not be corrected, since boot. Source: EDAC, ue_count.
    MEMORY_UNCORRECTED: u64 = "memory_uncorrected" from "memory";
    /// The memory modules that had errors, and how many. Source: EDAC, dimm_label.
    MEMORY_MODULES: Arc<str> = "memory_modules" from "memory";
    /// Whether somebody keeps the clock right, as the kernel was told. Source: adjtimex(2), STA_UNSYNC; unknown where chronyd or PTP
    /// may keep it without telling.
    CLOCK_SYNCHRONISED: bool = "clock_synchronised" from "clock";
    /// How wrong the clock is at most, by its keeper's estimate. Source: adjtimex(2), maxerror.
    CLOCK_ERROR: Seconds = "clock_error" from "clock";
    /// Whether munge, by which Slurm authenticates, is set up: there is /run/munge.
    MUNGE: bool = "munge" from "clock";
}
