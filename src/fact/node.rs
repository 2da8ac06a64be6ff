//! The facts of a machine.

use std::sync::Arc;

use super::gpu_nic::Distance;
use super::schema::subject;
use super::value::words;
use super::{Bytes, PerSecond, Percent, Seconds};
use crate::sentence::Sentence;
use crate::sentence::shell::Command;

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
    /// The result of opening a character device for reading and writing.
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
    /// libibverbs' reply when asked for its devices.
    pub enum Libibverbs {
        /// It lists devices, or that there are none.
        Works = "works",
        /// The library is not installed.
        Missing = "missing",
        /// It reports that the kernel has no verbs (`ib_uverbs` is not loaded).
        NoKernelVerbs = "no-kernel-verbs",
        /// Its file is there, and the loader refuses it.
        NotLoadable = "not-loadable",
        /// It fails in another way.
        Fails = "fails",
    }
}

words! {
    /// The state of `/dev/shm`.
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
    /// Whether NCCL uses the file that describes the machine's topology.
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
    /// How the IOMMU translates the addresses that devices use.
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

words! {
    /// Whose kernel modules drive the RDMA devices.
    pub enum RdmaStack {
        /// The kernel's own, or the distribution's.
        Inbox = "inbox",
        /// NVIDIA's: MLNX_OFED or DOCA-OFED.
        Ofed = "ofed",
    }
}

words! {
    /// Whether GPU memory can be handed to an RDMA device as a DMA-BUF, as far as files tell: CUDA has the last word.
    pub enum DmaBuf {
        /// Nothing speaks against it.
        Possible = "possible",
        /// The kernel is older than 5.12, whose RDMA core was the first that takes DMA-BUFs.
        OldKernel = "old-kernel",
        /// NVIDIA's kernel module is the proprietary one, which exports none.
        ProprietaryModule = "proprietary-module",
        /// NCCL is older than 2.13.
        OldNccl = "old-nccl",
        /// NCCL_DMABUF_ENABLE=0.
        SwitchedOff = "switched-off",
    }
}

words! {
    /// The way on which adapters reach GPU memory, by the rules of the NCCL version found.
    pub enum Gpudirect {
        /// As a DMA-BUF.
        DmaBuf = "dma-buf",
        /// By a client named nv_mem of the peer memory interface of NVIDIA's RDMA stack.
        NvMem = "nv_mem",
        /// By the module nvidia_peermem, which NCCL finds by its name.
        Peermem = "peermem",
        /// On none: all traffic takes a detour through host memory.
        None = "none",
    }
}

words! {
    /// Whether the CPU may run above its nominal frequency.
    pub enum Turbo {
        /// It may.
        On = "on",
        /// It is disabled.
        Off = "off",
        /// The kernel has no switch for it.
        NotSteered = "not-steered",
    }
}

words! {
    /// What became of asking NVML, the library behind nvidia-smi.
    pub enum Nvml {
        /// It works.
        Works = "works",
        /// NVIDIA's driver is not loaded, so the library was not asked: it would load the driver.
        NoDriver = "no-driver",
        /// The driver is loaded, and /dev/nvidiactl, by which programs reach it, is not there.
        NoControlDevice = "no-control-device",
        /// There is no libnvidia-ml.so.1, or it cannot be loaded.
        NoLibrary = "no-library",
        /// The library is of another version than the driver in the kernel.
        Mismatch = "mismatch",
        /// This user may not.
        NoPermission = "no-permission",
        /// It does not answer in time.
        Hangs = "hangs",
        /// It ends the process that asks it.
        Crashes = "crashes",
        /// It fails otherwise.
        Fails = "fails",
    }
}

words! {
    /// What became of asking CUDA's driver API, without which no program computes on a GPU.
    pub enum Cuda {
        /// It works.
        Works = "works",
        /// NVIDIA's driver is not loaded, so the library was not asked: it would load the driver.
        NoDriver = "no-driver",
        /// The driver is loaded, and /dev/nvidiactl or /dev/nvidia-uvm, by which programs reach it, is not there: the library was not
        /// asked, since it would make them.
        NoControlDevice = "no-control-device",
        /// There is no libcuda.so.1, or it cannot be loaded.
        NoLibrary = "no-library",
        /// The library is the stub of a CUDA toolkit, to be linked with and not to be run (CUDA_ERROR_STUB_LIBRARY).
        Stub = "stub",
        /// It works and sees no GPU (CUDA_ERROR_NO_DEVICE).
        NoDevice = "no-device",
        /// The NVLink fabric is not set up yet, or a GPU's confidential computing is not ready (CUDA_ERROR_SYSTEM_NOT_READY).
        NotReady = "not-ready",
        /// The library is of another version than the driver in the kernel (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH).
        Mismatch = "mismatch",
        /// The library is that of a newer driver (forward compatibility), which these GPUs do not take
        /// (CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE).
        CompatUnsupported = "compat-unsupported",
        /// It fails otherwise.
        Fails = "fails",
    }
}

subject! {
    /// A machine, or the container on it in which the doctor runs.
    Node = "node" from "recording";

    /// The kernel's release, as `uname -r`. Source: /proc/sys/kernel/osrelease.
    KERNEL: Arc<str> = "kernel" from "host";
    /// The distribution's name. Source: /etc/os-release, PRETTY_NAME.
    OS: Arc<str> = "os" from "host";
    /// Time since boot. Source: /proc/uptime.
    UPTIME: Seconds = "uptime" from "host";
    /// Whether the machine is a virtual one. Source: the CPU's hypervisor feature (x86) in
    /// /sys/devices/system/cpu/modalias, else /proc/cpuinfo; on other machines what SMBIOS or the device tree names.
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
    MEMLOCK_BINDS: bool = "memlock_binds" from "derive host_limits";
    /// Whether a line of limits.conf(5) sets the soft limit of locked memory of all users. Source: /etc/security/limits.conf, limits.d.
    LOGIN_MEMLOCK_SET: bool = "login_memlock_set" from "host";
    /// The soft limit of locked memory that logins get by PAM, of the users that get most. Source: /etc/security/limits.conf, limits.d.
    LOGIN_MEMLOCK: Bytes = "login_memlock" from "host";
    /// The soft limit of the stack's size of this process and its children. Source: /proc/self/limits.
    STACK: Bytes = "stack" from "host";
    /// The soft limit of open files. Source: /proc/self/limits.
    NOFILE: u64 = "nofile" from "host";
    /// How many open files a process of the job needs: so many for each rank, as far as the environment says how many there are, and a base.
    FILES_NEEDED: u64 = "files_needed" from "derive host_limits";
    /// The soft limit of this process's address space. Source: /proc/self/limits.
    ADDRESS_SPACE: Bytes = "address_space" from "room";
    /// How many mappings of memory a process may have. Source: /proc/sys/vm/max_map_count.
    MAX_MAP_COUNT: u64 = "max_map_count" from "room";
    /// How many ports the kernel gives to sockets that ask for any. Source: ip_local_port_range without ip_local_reserved_ports.
    PORTS_FREE: u64 = "ports_free" from "room";
    /// How many more files all processes together may open. Source: /proc/sys/fs/file-nr.
    FILES_LEFT: u64 = "files_left" from "room";
    /// The share of the memory that a program could get without swapping. Source: /proc/meminfo, MemAvailable.
    MEMORY_AVAILABLE: Percent = "memory_available" from "room";
    /// The directory for temporary files: TMPDIR, else /tmp.
    TMP: Arc<str> = "tmp" from "room";
    /// Whether that directory does not exist. Source: statvfs(3).
    TMP_ABSENT: bool = "tmp_absent" from "room";
    /// Whether its file system is mounted read-only. Source: statvfs(3).
    TMP_READ_ONLY: bool = "tmp_read_only" from "room";
    /// Free space of its file system. Source: statvfs(3).
    TMP_FREE: Bytes = "tmp_free" from "room";
    /// How many more files its file system can have. Source: statvfs(3).
    TMP_INODES: u64 = "tmp_inodes" from "room";
    /// Its state in words: "it does not exist", "it is mounted read-only", "0 B and 12 inodes are free".
    TMP_STATE: Arc<str> = "tmp_state" from "room";
    /// The state of /dev/shm. Source: statvfs(3).
    SHM: SharedMemory = "shm" from "host";
    /// What became of a file without a name in /dev/shm that was allocated, mapped and written as NCCL does: "works", else the step that failed
    /// and the error.
    SHM_REHEARSAL: Arc<str> = "shm_rehearsal" from "rehearsal";
    /// What became of a file without a name in node.tmp that was written and read: "works", "no directory" where TMPDIR names none, else the step
    /// that failed and the error.
    TMP_REHEARSAL: Arc<str> = "tmp_rehearsal" from "rehearsal";
    /// What became of such a file in the directory of NCCL_DEBUG_FILE: "works", also if NCCL writes no file, else the step that failed and the error.
    LOG_REHEARSAL: Arc<str> = "log_rehearsal" from "rehearsal";
    /// What became of a TCP connection to the address of the interface that NCCL uses: "works", else the interface, the step that failed and the
    /// error.
    CONNECTION_REHEARSAL: Arc<str> = "connection_rehearsal" from "derive nccl";
    /// Size of /dev/shm. Source: statvfs(3).
    SHM_SIZE: Bytes = "shm_size" from "host";
    /// Free space of /dev/shm. Source: statvfs(3).
    SHM_FREE: Bytes = "shm_free" from "host";
    /// Whether the cgroup of this process, or one above it, limits RDMA handles or objects. Source: rdma.max.
    RDMA_LIMITED: bool = "rdma_limited" from "host";
    /// The RDMA limits of the cgroup, as rdma.max has them; "none" if nothing is limited.
    RDMA_LIMITS: Arc<str> = "rdma_limits" from "host";
    /// Whether the limits of the cgroup and of all above it were read; unknown if one of them could not be.
    RDMA_LIMITS_READ: bool = "rdma_limits_read" from "host";
    /// Network devices that carry a default IPv4 route, those below a bond, bridge or VLAN too. Source: /proc/net/route,
    /// sysfs upper_*.
    DEFAULT_ROUTE: Arc<[Arc<str>]> = "default_route" from "netdev";
    /// Whether /dev/infiniband is there.
    DEV_INFINIBAND: bool = "dev_infiniband" from "chardev";
    /// The result of opening /dev/infiniband/rdma_cm; "absent" too if the module behind it is not loaded.
    RDMA_CM: CharDevice = "rdma_cm" from "chardev";
    /// libibverbs' reply when asked for its devices. Source: ibv_get_device_list(3).
    LIBIBVERBS: Libibverbs = "libibverbs" from "verbs";
    /// What the loader says of a libibverbs that it refuses. Source: dlopen(3).
    LIBIBVERBS_ERROR: Arc<str> = "libibverbs_error" from "verbs";
    /// Whether RDMA devices belong to all network namespaces or to one. Source: netlink RDMA_NLDEV_CMD_SYS_GET.
    RDMA_NETNS: RdmaNetns = "rdma_netns" from "nldev";
    /// How many RDMA devices there are. Source: /sys/class/infiniband.
    DEVICES: u64 = "devices" from "derive tally";
    /// How many of its PCI functions are RDMA hardware beyond doubt (class 0x0207, or bound to an RDMA-only driver).
    RDMA_FUNCTIONS: u64 = "rdma_functions" from "derive tally";
    /// How many Slingshot adapters it has, which NCCL reaches by libfabric's provider cxi alone. Source: sysfs class/cxi.
    SLINGSHOT: u64 = "slingshot" from "pci";
    /// Its Slingshot adapters whose link is down or failed, as "cxi1 (down)"; "none" if there is none. Source: sysfs class/cxi/NAME/device/port, link of
    /// the first generation, 0/link/state of the second.
    SLINGSHOT_DOWN: Arc<str> = "slingshot_down" from "pci";
    /// Whether jobs of several nodes may run on it: it has a port that is intended for use or a GPU, a rendezvous is set, or it was measured with other nodes.
    JOB_NODE: bool = "job_node" from "derive tally";
    /// How many ports are intended for use.
    INTENDED_PORTS: u64 = "intended_ports" from "derive tally";
    /// How many ports are active.
    ACTIVE_PORTS: u64 = "active_ports" from "derive tally";
    /// Whether one port at least is active: known as soon as it is for one, though others may be unknown.
    HAS_ACTIVE_PORT: bool = "has_active_port" from "derive tally";
    /// Whether the intended, active ports of equal devices run at one rate.
    RATES_AGREE: bool = "rates_agree" from "derive agreement";
    /// The rates of equal devices' ports, if they differ: which port runs at which.
    RATES: Arc<str> = "rates" from "derive agreement";
    /// Whether the intended, active Ethernet ports have their first routable RoCE v2 GID at one index.
    GID_INDEXES_AGREE: bool = "gid_indexes_agree" from "derive agreement";
    /// The indexes of the first routable RoCE v2 GID, if they differ: which port has which.
    GID_INDEXES: Arc<str> = "gid_indexes" from "derive agreement";
    /// Whether no two active ports of the node have one LID in one subnet; virtual functions share that of their adapter.
    LIDS_DISTINCT: bool = "lids_distinct" from "derive agreement";
    /// The ports that share a LID in one subnet.
    SHARED_LIDS: Arc<str> = "shared_lids" from "derive agreement";
    /// The NCCL version that a job on this node would load, as "2.27.5". Source: the library files that are found, manual page rdma-doctor-nccl-env(1).
    NCCL_VERSION: Arc<str> = "nccl_version" from "nccl";
    /// How many known defects that version has on this machine, by its CPUs and settings.
    NCCL_DEFECT_COUNT: u64 = "nccl_defect_count" from "derive known_defects";
    /// What these do, and which version fixes each.
    NCCL_DEFECTS: Arc<[Arc<str>]> = "nccl_defects" from "derive known_defects";
    /// How many PCI functions are bound to NVIDIA's driver that are compute GPUs: of class 0x0302, which has no display.
    /// Source: /sys/bus/pci/drivers/nvidia.
    COMPUTE_GPUS: u64 = "compute_gpus" from "driver";
    /// The version of NVIDIA's kernel driver, as "550.54.15"; "none" if it is not loaded. Source: /proc/driver/nvidia/version.
    NVIDIA_DRIVER: Arc<str> = "nvidia_driver" from "driver";
    /// Whether NVIDIA's kernel driver is the open one. Source: /proc/driver/nvidia/version.
    NVIDIA_OPEN: bool = "nvidia_open" from "driver";
    /// The version of NVIDIA's library (NVML) that programs load; "none" if it is not in the system's directories.
    /// Source: the link libnvidia-ml.so.1.
    NVIDIA_LIBRARY: Arc<str> = "nvidia_library" from "driver";
    /// The NVIDIA OFED that is installed, as "24.10-3.2.5.0"; "none" if none is. Source: `ofed_info -s`.
    OFED: Arc<str> = "ofed" from "driver";
    /// Whether the installed OFED brings kernel modules, and not libraries alone. Source: /etc/infiniband/openib.conf, which belongs to
    /// the script that loads them.
    OFED_MODULES: bool = "ofed_modules" from "driver";
    /// Whose kernel modules drive the RDMA devices. Source: the module mlx_compat, which NVIDIA's stack always loads.
    RDMA_STACK: RdmaStack = "rdma_stack" from "derive driver_stack";
    /// Whether the running mlx5_core is of the OFED that is installed. Source: /sys/module/mlx5_core/version.
    OFED_RUNS: bool = "ofed_runs" from "derive driver_stack";
    /// The clients of the peer memory interface of NVIDIA's RDMA stack. Source: /sys/kernel/mm/memory_peers.
    MEMORY_PEERS: Arc<[Arc<str>]> = "memory_peers" from "driver";
    /// Whether a peer memory module is known to the RDMA core: it holds ib_core or ib_uverbs, or is among node.memory_peers.
    PEERMEM_REGISTERED: bool = "peermem_registered" from "driver";
    /// The peer memory modules in the running kernel: nvidia_peermem, nv_peer_mem.
    PEERMEM_MODULES: Arc<[Arc<str>]> = "peermem_modules" from "derive gpudirect";
    /// Whether NCCL finds a peer memory module where its version looks for one. Source: the paths that src/transport/net_ib.cc
    /// of each version tries.
    PEERMEM_SEEN: bool = "peermem_seen" from "derive gpudirect";
    /// Whether GPU memory can be handed to an RDMA device as a DMA-BUF, as far as files tell; what speaks against it.
    DMA_BUF: DmaBuf = "dma_buf" from "derive gpudirect";
    /// The way on which adapters reach GPU memory; unknown if only CUDA can tell and was not asked.
    GPUDIRECT: Gpudirect = "gpudirect" from "derive gpudirect";
    /// Whether GPUDirect RDMA is to be expected: compute GPUs, and an intended, active port of 100 Gb/s or more of an adapter of
    /// driver mlx5_core.
    GPUDIRECT_WANTED: bool = "gpudirect_wanted" from "derive gpudirect";
    /// Whether /dev/gdrdrv is there, by which GDRCopy reaches GPU memory.
    GDRDRV_DEVICE: bool = "gdrdrv_device" from "driver";
    /// Whether NCCL_GDRCOPY_ENABLE asks NCCL for GDRCopy.
    GDRCOPY_WANTED: bool = "gdrcopy_wanted" from "derive gpudirect";
    /// How many NVSwitches are bound to their driver: those of Ampere and Hopper machines; later ones are not on the PCI bus.
    /// Source: /sys/bus/pci/drivers/nvidia-nvswitch.
    NVSWITCHES: u64 = "nvswitches" from "service";
    /// Whether a file of the boot, as a unit that runs mlnx_qos, sets again what decides over the priority of RoCE.
    QOS_KEPT: bool = "qos_kept" from "boot_setting";
    /// The cpufreq driver, as intel_pstate; "none" if the kernel does not steer the frequency. Source: scaling_driver.
    FREQUENCY_DRIVER: Arc<str> = "frequency_driver" from "tuning";
    /// The cpufreq governors in use, of a sample of the CPUs. Source: scaling_governor.
    GOVERNORS: Arc<[Arc<str>]> = "governors" from "tuning";
    /// The energy preferences in use; empty if the driver has none. Source: energy_performance_preference.
    ENERGY_PREFERENCES: Arc<[Arc<str>]> = "energy_preferences" from "tuning";
    /// The highest frequency allowed, as a share of the CPU's maximum: the lowest of the sampled CPUs. Source: scaling_max_freq, cpuinfo_max_freq.
    FREQUENCY_CEILING: Percent = "frequency_ceiling" from "tuning";
    /// Whether the CPU may run above its nominal frequency. Source: intel_pstate/no_turbo, cpufreq/boost.
    TURBO: Turbo = "turbo" from "tuning";
    /// How long waking from the deepest idle state takes that is enabled for the first CPU and that no request for a lower latency
    /// rules out; 0 if the kernel does not choose idle states. Source: cpuidle, /dev/cpu_dma_latency.
    IDLE_LATENCY: Seconds = "idle_latency" from "tuning";
    /// Automatic NUMA balancing: 0 off, 1 on, 2 memory tiering. Source: /proc/sys/kernel/numa_balancing.
    NUMA_BALANCING: u64 = "numa_balancing" from "tuning";
    /// The kernel's action before it allocates memory on another NUMA node; 0: nothing. Source: /proc/sys/vm/zone_reclaim_mode.
    ZONE_RECLAIM_MODE: u64 = "zone_reclaim_mode" from "tuning";
    /// The clock source in use. Source: sysfs current_clocksource.
    CLOCKSOURCE: Arc<str> = "clocksource" from "tuning";
    /// The clock sources that the kernel trusts. Source: sysfs available_clocksource.
    CLOCKSOURCES: Arc<[Arc<str>]> = "clocksources" from "tuning";
    /// CPUs that are present and offline, those not counted that SMT control took. Source: /sys/devices/system/cpu.
    CPUS_OFFLINE: u64 = "cpus_offline" from "tuning";
    /// The NUMA nodes that have CPUs and no memory; "none" where each has some. Source: /sys/devices/system/node/has_cpu, has_memory.
    NUMA_WITHOUT_MEMORY: Arc<str> = "numa_without_memory" from "tuning";
    /// The soft limit of processes and threads of this user, which does not hold for root. Source: /proc/self/limits, /proc/self/status.
    NPROC: u64 = "nproc" from "tuning";
    /// The lowest limit of processes and threads of this process's cgroup and those above it. Source: pids.max.
    CGROUP_PIDS: u64 = "cgroup_pids" from "tuning";
    /// The share of scheduling periods in which the cgroup of this process ran out of its CPU quota; 0 without a quota. Source: cpu.stat.
    CPU_THROTTLED: Percent = "cpu_throttled" from "tuning";
    /// In how many periods the cgroup of this process wanted CPU time: few prove nothing. Source: cpu.stat, nr_periods.
    CPU_PERIODS: u64 = "cpu_periods" from "tuning";
    /// The lowest limit of memory of this process's cgroup and those above it. Source: memory.max.
    MEMORY_LIMIT: Bytes = "memory_limit" from "tuning";
    /// How many CPUs are online. Source: /sys/devices/system/cpu/online.
    CPUS_ONLINE: u64 = "cpus_online" from "tuning";
    /// How many CPUs this process may use, by its affinity and by the quota of its cgroup, rounded down. Source: Cpus_allowed_list, cpu.max.
    CPUS_USABLE: u64 = "cpus_usable" from "tuning";
    /// What limits them: "it is bound to CPU 3", "the quota of its control group is 0.5 CPUs".
    CPUS_LIMITED_BY: Arc<str> = "cpus_limited_by" from "tuning";
    /// Those CPUs that this process may use and the scheduler does not balance (isolcpus=), if they are several; "none" if not.
    /// Source: /sys/devices/system/cpu/isolated.
    CPUS_ISOLATED: Arc<str> = "cpus_isolated" from "tuning";
    /// Kernel parameters that take CPUs, memory or interrupts away: mem=, maxcpus=, nr_cpus=, nosmp, noapic, nolapic, pci=nomsi;
    /// "none" if there is none. Source: /proc/cmdline.
    LIMITING_PARAMETERS: Arc<str> = "limiting_parameters" from "tuning";
    /// How many GPUs the PCI bus has.
    GPUS: u64 = "gpus" from "derive tally";
    /// The CPUs that this process may run on, as 0-55,112-167. Source: /proc/self/status, Cpus_allowed_list.
    CPUS_ALLOWED: Arc<str> = "cpus_allowed" from "topology";
    /// The NUMA nodes that have CPUs, none of which this process may run on. Source: Cpus_allowed_list, sysfs node/nodeN/cpulist.
    CPU_NODES_FORBIDDEN: Arc<[Arc<str>]> = "cpu_nodes_forbidden" from "topology";
    /// The CPUs of each NUMA node, as "0: 0-55,112-167". Source: sysfs node/nodeN/cpulist.
    NUMA_CPUS: Arc<[Arc<str>]> = "numa_cpus" from "topology";
    /// The NUMA nodes that have memory, none of which this process may use. Source: Mems_allowed_list, sysfs node/has_memory.
    MEMORY_NODES_FORBIDDEN: Arc<[Arc<str>]> = "memory_nodes_forbidden" from "topology";
    /// How many tasks a launcher started on the node beside this one, itself counted; 1 if no launcher says. Source: the environment
    /// (LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS, SLURM_STEP_TASKS_PER_NODE).
    LAUNCHED_TASKS: u64 = "launched_tasks" from "topology";
    /// How many NVIDIA GPUs this process is to use: the entries of CUDA_VISIBLE_DEVICES, else the device files /dev/nvidiaN.
    GPUS_VISIBLE: u64 = "gpus_visible" from "topology";
    /// The file from which NCCL takes the machine's topology; "none" if it asks the kernel. Source: NCCL_TOPO_FILE, else
    /// /var/run/nvidia-topologyd/virtualTopology.xml if it is there (NCCL 2.30, src/graph/topo.cc).
    TOPO_FILE: Arc<str> = "topo_file" from "nccl";
    /// What became of NCCL's topology file.
    TOPO_FILE_STATE: TopoFile = "topo_file_state" from "nccl";
    /// What NCCL cannot read in its topology file; "none" if it reads all.
    TOPO_FILE_PROBLEM: Arc<str> = "topo_file_problem" from "nccl";
    /// The PCI addresses and the network devices that NCCL's topology file names.
    TOPO_FILE_NAMES: Arc<[Arc<str>]> = "topo_file_names" from "nccl";
    /// Links between GPUs and adapters that NCCL's topology file gives no speed or that of PCIe's first generation,
    /// with what it says; "none" if there is none.
    TOPO_FILE_SLOW_LINKS: Arc<str> = "topo_file_slow_links" from "nccl";
    /// The GPUs and adapters of the machine that are not in NCCL's topology file; "none" if all are.
    TOPO_FILE_MISSES: Arc<str> = "topo_file_misses" from "derive topology";
    /// How many adapters have an RDMA port that is meant for use; ports and functions of one card count once.
    COMPUTE_NICS: u64 = "compute_nics" from "derive topology";
    /// How many NUMA nodes have a GPU.
    GPU_NUMA_NODES: u64 = "gpu_numa_nodes" from "derive topology";
    /// The shortest distance of a GPU and an adapter that is meant for use.
    NEAREST_PAIR: Distance = "nearest_pair" from "derive topology";
    /// Whether one of the adapters is an Elastic Fabric Adapter, whose NCCL plugin brings the topology itself.
    EFA: bool = "efa" from "derive topology";
    /// The NUMA nodes of GPUs and adapters whose memory this process may not use; "none" if it may use all.
    MEMORY_LEFT_OUT: Arc<str> = "memory_left_out" from "derive topology";
    /// What the IOMMU does to the addresses of GPUs and RDMA functions; if there are none, to those of the first devices.
    /// Source: /sys/kernel/iommu_groups/*/type.
    IOMMU: Iommu = "iommu" from "pcie";
    /// The GPUs and RDMA functions whose addresses the IOMMU translates. Source: /sys/kernel/iommu_groups/*/type.
    IOMMU_TRANSLATED: Arc<[Arc<str>]> = "iommu_translated" from "pcie";
    /// What the kernel was told of the IOMMU when it booted; "none" where nothing. Source: /proc/cmdline.
    IOMMU_PARAMETERS: Arc<str> = "iommu_parameters" from "pcie";
    /// Whose architecture the CPU has. Source: /sys/devices/system/cpu/modalias.
    CPU_VENDOR: CpuVendor = "cpu_vendor" from "pcie";
    /// Whether all ports that RoCE traffic uses treat it alike: class, trust, PFC, priority.
    QOS_AGREES: bool = "qos_agrees" from "derive traffic";
    /// How ports treat RoCE traffic, if they differ: which port does what.
    QOS: Arc<str> = "qos" from "derive traffic";
    /// The NCCL library whose version that is; "none" where only a version was named.
    NCCL_PATH: Arc<str> = "nccl_path" from "nccl";
    /// How the NCCL library was found: "--nccl", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PATH", "Python", "system".
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
    /// The ports that the kernel gives to sockets that ask for none, as "32768-60999". Source: ip_local_port_range.
    PORT_RANGE: Arc<str> = "port_range" from "firewall";
    /// Whether ufw sets up the packet filter at boot. Source: /etc/ufw/ufw.conf.
    UFW_ENABLED: bool = "ufw_enabled" from "firewall";
    /// How many neighbours the kernel knows. Source: /proc/net/stat/arp_cache, entries.
    NEIGHBOURS: u64 = "neighbours" from "obstacle";
    /// How many gateways and neighbours were asked from this node's own addresses, by the trial of its network.
    ASKED_NEIGHBOURS: u64 = "asked_neighbours" from "neighbours";
    /// How many of them answered an echo or ARP.
    ANSWERING_NEIGHBOURS: u64 = "answering_neighbours" from "neighbours";
    /// How many neighbours the kernel keeps at most. Source: /proc/sys/net/ipv4/neigh/default/gc_thresh3.
    NEIGHBOUR_LIMIT: u64 = "neighbour_limit" from "obstacle";
    /// How full the table of neighbours is.
    NEIGHBOUR_SHARE: Percent = "neighbour_share" from "obstacle";
    /// How many connections are tracked; 0 where none are. Source: /proc/sys/net/netfilter/nf_conntrack_count.
    CONNECTIONS: u64 = "connections" from "obstacle";
    /// How many connections can be tracked. Source: /proc/sys/net/netfilter/nf_conntrack_max.
    CONNECTION_LIMIT: u64 = "connection_limit" from "obstacle";
    /// How full the table of connections is.
    CONNECTION_SHARE: Percent = "connection_share" from "obstacle";
    /// The tool that manages the packet filter, by the names of its chains and tables: ufw, firewalld, both, or "none".
    FIREWALL_MANAGERS: Arc<[Arc<str>]> = "firewall_managers" from "derive firewall";
    /// Whether ufw and firewalld both have rules in force.
    FIREWALLS_COMPETE: bool = "firewalls_compete" from "derive firewall";
    /// Whether no rule of ufw is in force.
    UFW_MISSING: bool = "ufw_missing" from "derive firewall";
    /// Whether the clock shows a time before this program was released. Source: adjtimex(2).
    CLOCK_BEFORE_RELEASE: bool = "clock_before_release" from "clock";
    /// How many ranks the job has that the environment describes; 0 if it describes none. Source: WORLD_SIZE, OMPI_COMM_WORLD_SIZE.
    JOB_RANKS: u64 = "job_ranks" from "setting";
    /// Whether this host's own name has an address, as the C library resolves it. Asked in a job of several nodes only. Source: getaddrinfo(3).
    NAME_RESOLVES: bool = "name_resolves" from "name";
    /// How many nodes the job has that the environment describes; 0 if it describes none. Source: WORLD_SIZE with LOCAL_WORLD_SIZE,
    /// GROUP_WORLD_SIZE, OMPI_COMM_WORLD_SIZE with OMPI_COMM_WORLD_LOCAL_SIZE, SLURM_STEP_NUM_NODES, SLURM_JOB_NUM_NODES, PET_NNODES, NNODES.
    JOB_NODES: u64 = "job_nodes" from "setting";
    /// Whether /etc/hosts gives this host's own name an address of this host alone, as Debian does with 127.0.1.1.
    NAME_LOOPBACK: bool = "name_loopback" from "setting";
    /// Whether GLOO_SOCKET_IFNAME is set.
    GLOO_INTERFACE_SET: bool = "gloo_interface_set" from "derive setting";
    /// How many of its RDMA devices are EFA devices (driver efa).
    EFA_DEVICES: u64 = "efa_devices" from "derive setting";
    /// Tasks that run or wait in the kernel, in the last minute, as a part of the CPUs. Source: /proc/loadavg.
    LOAD: Percent = "load" from "process";
    /// Whether the kernel counts stalls: there is /proc/pressure, and it was not switched off at boot.
    STALLS_COUNTED: bool = "stalls_counted" from "process";
    /// The share of the CPUs that this process may use which processes without an RDMA device or GPU took between the two looks of --sample;
    /// those count that used half a CPU or more. Source: /proc/PID/stat, /proc/PID/fd.
    CPUS_TAKEN: Percent = "cpus_taken" from "process";
    /// Those processes, with their ids.
    CPU_TAKERS: Arc<[Arc<str>]> = "cpu_takers" from "process";
    /// The share of the time between the two looks of --sample in which those CPUs were idle, or worked for a process that is nice. Source: /proc/stat.
    CPUS_IDLE: Percent = "cpus_idle" from "process";
    /// The share of it that the hypervisor gave to other guests. Source: /proc/stat, steal.
    CPUS_STOLEN: Percent = "cpus_stolen" from "process";
    /// The part of the last minute in which all tasks waited for memory. Source: /proc/pressure/memory, full.
    MEMORY_STALLED: Percent = "memory_stalled" from "process";
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
    /// Whether munge, by which Slurm authenticates, is set up: there is /run/munge.
    MUNGE: bool = "munge" from "clock";
    /// How many models of GPUs NVML lists.
    GPU_MODELS: u64 = "gpu_models" from "derive gpu_purpose";
    /// The models of the GPUs, and how many of each, if there are several; "none" if there is one.
    GPU_MODEL_MIX: Arc<str> = "gpu_model_mix" from "derive gpu_purpose";
    /// Whether all GPUs that NVML lists stay initialised while nobody uses them (persistence mode).
    GPUS_PERSISTENT: bool = "gpus_persistent" from "derive gpu_purpose";
    /// How many pairs of GPUs are to reach each other's memory, by gpu_pair.barred.
    PEER_PAIRS: u64 = "peer_pairs" from "derive gpu_peer";
    /// Whether one of them does at least, as NVML says.
    PEER_PAIR_WORKS: bool = "peer_pair_works" from "derive gpu_peer";
    /// What may keep them all from it: what NVML reports about the first, and what of the machine is known to do so.
    PEER_OBSTACLE: Arc<str> = "peer_obstacle" from "derive gpu_peer";
    /// How many GPUs are registered with an NVLink fabric.
    FABRIC_GPUS: u64 = "fabric_gpus" from "derive fabric";
    /// Whether all GPUs that are registered with an NVLink fabric are in one clique of one fabric.
    FABRIC_AGREES: bool = "fabric_agrees" from "derive fabric";
    /// The cliques of the GPUs, if they differ: which GPU is in which; "none" if they are in one.
    FABRIC_CLIQUES: Arc<str> = "fabric_cliques" from "derive fabric";
    /// Whether the NVLink fabric joins GPUs of several nodes: it has a UUID.
    FABRIC_OF_NODES: bool = "fabric_of_nodes" from "derive fabric";
    /// The version of the fabric manager that is installed; "none" if it is not. Source: `nv-fabricmanager --version`.
    FABRIC_MANAGER: Arc<str> = "fabric_manager" from "driver";
    /// Whether the driver was told to leave NVLinks alone. Source: /proc/driver/nvidia/params, NvLinkDisable.
    NVLINK_DISABLED: bool = "nvlink_disabled" from "driver";
    /// What the driver was told by registry keys; "none" where nothing. Source: /proc/driver/nvidia/params, RegistryDwords.
    DRIVER_REGISTRY: Arc<str> = "driver_registry" from "driver";
    /// The GPUs that the driver was told to leave out; "none" where none. Source: /proc/driver/nvidia/params, ExcludedGpus, GpuBlacklist.
    EXCLUDED_GPUS: Arc<str> = "excluded_gpus" from "driver";
    /// How many channels of the IMEX service this process may use, by which programs export memory to other nodes.
    /// Source: /dev/nvidia-caps-imex-channels.
    IMEX_CHANNELS: u64 = "imex_channels" from "driver";
    /// What became of asking NVML, the library behind nvidia-smi. Source: nvmlInitWithFlags.
    NVML: Nvml = "nvml" from "nvml";
    /// What NVML said instead of working, in its own words; "none" where it works; the loader's words of a library that it does not load. Source: nvmlInitWithFlags, dlopen(3).
    NVML_ERROR: Arc<str> = "nvml_error" from "nvml";
    /// The version of the NVML library that was loaded, as "550.54.15": CUDA's major version before it left out.
    /// Source: nvmlSystemGetNVMLVersion.
    NVML_VERSION: Arc<str> = "nvml_version" from "nvml";
    /// The newest version of CUDA that the driver can, as "12.4". Source: nvmlSystemGetCudaDriverVersion_v2.
    NVML_CUDA: Arc<str> = "nvml_cuda" from "nvml";
    /// How many GPUs NVML counts, those that it cannot give included. Source: nvmlDeviceGetCount_v2.
    NVML_GPUS: u64 = "nvml_gpus" from "nvml";
    /// How many NVIDIA GPUs the PCI bus has that are bound to NVIDIA's driver. Source: /sys/bus/pci/devices.
    NVIDIA_GPUS: u64 = "nvidia_gpus" from "nvml";
    /// Whether the GPUs' memory is closed to the host (confidential computing). Source: nvmlSystemGetConfComputeState.
    CONFIDENTIAL: bool = "confidential" from "nvml";

    /// What became of asking CUDA's driver API. Source: cuInit.
    CUDA: Cuda = "cuda" from "cuda";
    /// What CUDA's driver API said instead of working, as "CUDA_ERROR_SYSTEM_NOT_READY (802)"; "none" where it works; the loader's words of a library that
    /// it does not load. Source: cuInit, dlopen(3).
    CUDA_ERROR: Arc<str> = "cuda_error" from "cuda";
    /// How long CUDA's driver API took to begin: without persistence the driver wakes each GPU first. Source: cuInit.
    CUDA_INIT_TIME: Seconds = "cuda_init_time" from "cuda";
    /// The version of CUDA that programs on this node get from their libcuda.so.1, as "12.8". Source: cuDriverGetVersion.
    CUDA_DRIVER: Arc<str> = "cuda_driver" from "cuda";
    /// How many GPUs CUDA shows to this process. Source: cuDeviceGetCount.
    CUDA_DEVICES: u64 = "cuda_devices" from "cuda";
    /// Whether CUDA_VISIBLE_DEVICES is set, which hides GPUs from this process. Source: its environment.
    CUDA_MASKED: bool = "cuda_masked" from "cuda";
    /// Whether CUDA can hand out the memory of each GPU that it shows as a DMA-BUF. Source: CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED.
    CUDA_DMA_BUF: bool = "cuda_dma_buf" from "derive gpudirect";
    /// Whether copies with and between the GPUs were measured. Source: `rdma-doctor bench p2p`.
    P2P_MEASURED: bool = "p2p_measured" from "p2p";
    /// Whether irqbalance runs, which moves interrupts from CPU to CPU as they come.
    IRQ_BALANCED: bool = "irq_balanced" from "derive interrupts";
    /// How many questions NVML did not answer: it hung or crashed, or was not asked again after that.
    NVML_UNANSWERED: u64 = "nvml_unanswered" from "nvml";
    /// Those questions, each with how it ended: "nvml_device(3): no reply within the budget".
    NVML_UNANSWERED_LIST: Arc<[Arc<str>]> = "nvml_unanswered_list" from "nvml";
    /// Whether what is known of the node is what tools printed, as somebody kept it.
    PASTED: bool = "pasted" from "nccl_log";
    /// The state of the subnet manager that the node's port names: "master", "standby", "discovering", "inactive"; "unresponsive" if it does not answer. Source: sminfo(8). Only of what tools printed.
    SUBNET_MANAGER: Arc<str> = "subnet_manager" from "outputs";
    /// How many GIDs `show_gids` lists, of output that went through no filter. Only of what tools printed.
    GIDS_FOUND: u64 = "gids_found" from "outputs";
    /// The outputs that were read, each with its key values: "ibstat: 12 ports, 9 active". Only of
    /// what tools printed.
    OUTPUTS: Arc<[Arc<str>]> = "outputs" from "outputs";
    /// What was not read of what is there of the node, because a reader is bounded or an archive is
    /// cut: a sentence each.
    LEFT_OUT: Arc<[Arc<str>]> = "left_out" from "outputs";
    /// How many GPUs of NVIDIA lspci shows that have NVIDIA's driver, or of which it does not say the driver. Only of what tools printed.
    LSPCI_GPUS: u64 = "lspci_gpus" from "outputs";
    /// The addresses of those that nvidia-smi does not list, where it says the addresses of what it lists: "0000:3d:00.0, 0000:60:00.0". Only of what
    /// tools printed.
    UNLISTED_GPUS: Arc<str> = "unlisted_gpus" from "outputs";
    /// Whether the active RDMA MTU of all used ports of equal boards, with one link layer and one rate, is the same. Source:
    /// ibv_query_port(3), active_mtu.
    MTUS_AGREE: bool = "mtus_agree" from "derive agreement";
    /// Which port has which of them.
    MTUS: Arc<str> = "mtus" from "derive agreement";
    /// Where they differ, the commands that give the network devices of RoCE ports the MTU of most of their equals, or of those with the larger one.
    MTU_COMMANDS: Arc<[Command]> = "mtu_commands" from "derive agreement";
    /// What the kernel made up when it booted: another on each machine and after each boot. Source: /proc/sys/kernel/random/boot_id.
    BOOT_ID: Arc<str> = "boot_id" from "host";
    /// What names and addresses of the recording are: "none" if they are the machine's own, else the mark of the key (record
    /// --redact-key) under which they are pseudonyms; unknown if they are pseudonyms of this recording alone.
    PSEUDONYMS: Arc<str> = "pseudonyms" from "derive comparison";
    /// Whether the recording of the node is whole; false if it was cut short.
    WHOLE: bool = "whole" from "derive comparison";
    /// How many questions were refused for lack of permission.
    WITHHELD: u64 = "withheld" from "recording";
    /// Whether a copied tree was examined, in which a file that is missing is neither present nor absent on the machine.
    TREE: bool = "tree" from "recording";
    /// The major release of CUDA for which the NCCL library was built; 0 if it is of no wheel, whose name says it. Source: the wheel's
    /// name, nvidia_nccl_cu12.
    NCCL_CUDA: u64 = "nccl_cuda" from "nccl";
    /// Whether NCCL was built for a newer major release of CUDA than the driver that programs on this node get.
    CUDA_TOO_OLD: bool = "cuda_too_old" from "derive cuda_release";
    /// The NCCL library that a benchmark loads: the one that jobs load if that is known, else the first that is found. Source: the library files
    /// that are found, manual page rdma-doctor-nccl-env(1).
    NCCL_BENCH_PATH: Arc<str> = "nccl_bench_path" from "nccl";
    /// Why it is this library: how it was found, and that there are others, if they are of other versions.
    NCCL_BENCH_WHY: Arc<str> = "nccl_bench_why" from "nccl";
    /// By which engine the process was started, and which of its processes it is: "Slurm: rank 0 of 6, 3 nodes"; "none" if none says so. Source:
    /// the engine's variables, SLURM_PROCID, OMPI_COMM_WORLD_RANK, RANK, JOB_COMPLETION_INDEX and those beside them.
    LAUNCH: Arc<str> = "launch" from "topology";
    /// The clock's offset to that of the node that gathered the recording; negative if it was behind. Source: an exchange of timestamps after NTP;
    /// over ssh the moment at which the recording began, between its request and its arrival.
    CLOCK_OFFSET: Seconds = "clock_offset" from "together";
    /// The error bound of the offset: half of the round trip.
    CLOCK_OFFSET_WITHIN: Seconds = "clock_offset_within" from "together";
    /// The run in which that was measured: clocks of two runs have no common moment.
    CLOCK_OFFSET_RUN: u64 = "clock_offset_run" from "together";
    /// The interface by which it met the other nodes of its run.
    MET_BY: Arc<str> = "met_by" from "together";
    /// Whether a collective over several nodes was compared with one node, and with what pairs of nodes carry. Source: `rdma-doctor triage`.
    COMPARED: bool = "compared" from "collective";
    /// What all nodes together reach of what was expected: what equal pairs of nodes carry, or a node alone where that is less.
    OF_EXPECTED: Percent = "of_expected" from "collective";
    /// How much slower they are than one node, and what was expected, in a sentence.
    AGAINST_ONE: Sentence = "against_one" from "collective";
    /// Nodes that alone reach much less than the others, and what they reach; "none" if none does.
    SLOW_ALONE: Sentence = "slow_alone" from "collective";
    /// Whether the time of an operation of few bytes was measured, since nothing else told why the nodes are slow.
    STEPS_TIMED: bool = "steps_timed" from "collective";
    /// How long each step of it takes from one rank to the next.
    STEP_LATENCY: Seconds = "step_latency" from "collective";
    /// Which part of its time the rank that waited longest for a CPU waited.
    CPU_WAIT: Percent = "cpu_wait" from "collective";
    /// Which part the middle one of all ranks waited.
    CPU_WAIT_USUAL: Percent = "cpu_wait_usual" from "collective";
    /// Which rank that is, in a sentence.
    CPU_WAIT_OF: Sentence = "cpu_wait_of" from "collective";
    /// Whether parts of a job were measured to find what makes the whole of it slow. Source: `rdma-doctor bench all-reduce --bisect`.
    BISECTED: bool = "bisected" from "collective";
    /// How many nodes make it slow with each other one.
    BISECTED_NODES: u64 = "bisected_nodes" from "collective";
    /// In how many places parts are fast each for themselves and slow with each other.
    BISECTED_BETWEEN: u64 = "bisected_between" from "collective";
    /// What makes it slow, in a sentence.
    BISECTED_SUMMARY: Sentence = "bisected_summary" from "collective";
}
