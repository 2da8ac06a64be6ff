//! The facts of a machine.

use std::sync::Arc;

use super::gpu_nic::Distance;
use super::schema::subject;
use super::value::words;
use super::{Bytes, Seconds};

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

words! {
    /// What becomes of the file that gives NCCL the machine's topology.
    pub enum TopoFile {
        /// None is named, and none is where NCCL looks by itself.
        None = "none",
        /// The one that is named is not there: NCCL goes on without it.
        Absent = "absent",
        /// This user may not read it: NCCL goes on without it.
        Denied = "denied",
        /// It is no topology: NCCL refuses to start.
        Invalid = "invalid",
        /// It is read.
        Read = "read",
    }
}

words! {
    /// What the IOMMU does to the addresses that devices use.
    pub enum Iommu {
        /// There is none, or it is off.
        Off = "off",
        /// It leaves them as they are (passthrough).
        Identity = "identity",
        /// It translates them.
        Translating = "translating",
        /// It translates those of some devices and not of others.
        Mixed = "mixed",
    }
}

words! {
    /// Whose architecture the CPU has.
    pub enum CpuVendor {
        /// x86 of Intel.
        Intel = "intel",
        /// x86 of AMD.
        Amd = "amd",
        /// 64-bit ARM: NVIDIA Grace, Ampere, Graviton and others.
        Arm = "arm",
        /// Any other.
        Other = "other",
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
    /// How many GPUs the PCI bus has.
    GPUS: u64 = "gpus" from "derive";
    /// The CPUs that this process may run on, as 0-55,112-167. Source: /proc/self/status, Cpus_allowed_list.
    CPUS_ALLOWED: Arc<str> = "cpus_allowed" from "topology";
    /// The NUMA nodes that have CPUs, none of which this process may run on. Source: Cpus_allowed_list, sysfs node/nodeN/cpulist.
    CPU_NODES_FORBIDDEN: Arc<[Arc<str>]> = "cpu_nodes_forbidden" from "topology";
    /// The NUMA nodes that have memory, none of which this process may use. Source: Mems_allowed_list, sysfs node/has_memory.
    MEMORY_NODES_FORBIDDEN: Arc<[Arc<str>]> = "memory_nodes_forbidden" from "topology";
    /// How many tasks a launcher started on the node beside this one, itself counted; 1 where no launcher says. Source: the environment
    /// (LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS, SLURM_STEP_TASKS_PER_NODE).
    LAUNCHED_TASKS: u64 = "launched_tasks" from "topology";
    /// How many NVIDIA GPUs this process is to use: the entries of CUDA_VISIBLE_DEVICES, else the device files /dev/nvidiaN.
    GPUS_VISIBLE: u64 = "gpus_visible" from "topology";
    /// The file from which NCCL takes the machine's topology; "none" where it asks the kernel. Source: NCCL_TOPO_FILE, else
    /// /var/run/nvidia-topologyd/virtualTopology.xml where it is there (NCCL 2.30, src/graph/topo.cc).
    TOPO_FILE: Arc<str> = "topo_file" from "nccl";
    /// What became of NCCL's topology file.
    TOPO_FILE_STATE: TopoFile = "topo_file_state" from "nccl";
    /// What NCCL cannot read in its topology file; "none" where it reads all.
    TOPO_FILE_PROBLEM: Arc<str> = "topo_file_problem" from "nccl";
    /// The PCI addresses and the network devices that NCCL's topology file names.
    TOPO_FILE_NAMES: Arc<[Arc<str>]> = "topo_file_names" from "nccl";
    /// Links between GPUs and adapters that NCCL's topology file gives no speed or that of PCIe's first generation,
    /// with what it says; "none" where there is none.
    TOPO_FILE_SLOW_LINKS: Arc<str> = "topo_file_slow_links" from "nccl";
    /// The GPUs and adapters of the machine that are not in NCCL's topology file; "none" where all are.
    TOPO_FILE_MISSES: Arc<str> = "topo_file_misses" from "derive";
    /// How many adapters have an RDMA port that is meant for use; ports and functions of one card count once.
    COMPUTE_NICS: u64 = "compute_nics" from "derive";
    /// How many NUMA nodes have a GPU.
    GPU_NUMA_NODES: u64 = "gpu_numa_nodes" from "derive";
    /// The shortest distance of a GPU and an adapter that is meant for use.
    NEAREST_PAIR: Distance = "nearest_pair" from "derive";
    /// Whether one of the adapters is an Elastic Fabric Adapter, whose NCCL plugin brings the topology itself.
    EFA: bool = "efa" from "derive";
    /// The NUMA nodes of GPUs and adapters whose memory this process may not use; "none" where it may use all.
    MEMORY_LEFT_OUT: Arc<str> = "memory_left_out" from "derive";
    /// What the IOMMU does to the addresses of GPUs and RDMA functions; where there are none, to those of the first devices.
    /// Source: /sys/kernel/iommu_groups/*/type.
    IOMMU: Iommu = "iommu" from "pcie";
    /// The GPUs and RDMA functions whose addresses the IOMMU translates. Source: /sys/kernel/iommu_groups/*/type.
    IOMMU_TRANSLATED: Arc<[Arc<str>]> = "iommu_translated" from "pcie";
    /// What the kernel was told of the IOMMU when it booted; "none" where nothing. Source: /proc/cmdline.
    IOMMU_PARAMETERS: Arc<str> = "iommu_parameters" from "pcie";
    /// Whose architecture the CPU has. Source: /sys/devices/system/cpu/modalias.
    CPU_VENDOR: CpuVendor = "cpu_vendor" from "pcie";
    /// The NCCL library whose version that is; "none" where only a version was named.
    NCCL_PATH: Arc<str> = "nccl_path" from "nccl";
    /// How the NCCL library was found: "--nccl", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "Python", "system".
    NCCL_FOUND: Arc<str> = "nccl_found" from "nccl";
    /// The NCCL libraries that are installed, with their versions, in the order in which a job would find them.
    NCCL_COPIES: Arc<[Arc<str>]> = "nccl_copies" from "nccl";
    /// Whether all NCCL libraries that are installed have one version.
    NCCL_COPIES_AGREE: bool = "nccl_copies_agree" from "nccl";
    /// The configuration files that NCCL reads, in its order; one that is not there is not named.
    NCCL_FILES: Arc<[Arc<str>]> = "nccl_files" from "nccl";
    /// Whether a configuration file is there that this user cannot read: NCCL passes over it in silence.
    NCCL_FILE_UNREADABLE: bool = "nccl_file_unreadable" from "nccl";
    /// The configuration files that this user cannot read, or that NCCL_CONF_FILE names and that are not there.
    NCCL_FILES_UNREADABLE: Arc<[Arc<str>]> = "nccl_files_unreadable" from "nccl";
    /// Whether lines of the configuration files set nothing that NCCL reads.
    NCCL_ODD_LINE: bool = "nccl_odd_line" from "nccl";
    /// The lines of the configuration files that set nothing that NCCL reads, and why.
    NCCL_ODD_LINES: Arc<[Arc<str>]> = "nccl_odd_lines" from "nccl";
}
