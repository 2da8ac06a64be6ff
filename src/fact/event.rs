//! The facts of an event in a log: a line that NCCL, RCCL, a plugin or PyTorch wrote about something that failed or is worth knowing.

use std::sync::Arc;

use super::Seconds;
use super::schema::subject;
use super::value::words;

words! {
    /// What an event is.
    pub enum LogClass {
        /// `NET/IB : No device found.`
        IbNone = "ib-none",
        /// libibverbs cannot be loaded.
        VerbsMissing = "verbs-missing",
        /// libmlx5 or its direct verbs cannot be loaded.
        ProviderMissing = "provider-missing",
        /// An RDMA device is listed and cannot be opened.
        DeviceOpen = "device-open",
        /// An RDMA device or its port cannot be queried.
        DeviceQuery = "device-query",
        /// No interface for the agreement on IB connections.
        IbNoInterface = "ib-no-interface",
        /// No interface for the bootstrap, or none that fits NCCL_SOCKET_IFNAME.
        BootstrapNoInterface = "bootstrap-no-interface",
        /// No interface in the subnet of NCCL_COMM_ID's address.
        SubnetNoInterface = "subnet-no-interface",
        /// NCCL_OOB_NET_IFNAME fits no device.
        OobNoDevice = "oob-no-device",
        /// No network at all could be initialised, or the one that NCCL_NET names is not there.
        NetworkMissing = "network-missing",
        /// One plugin or network could not be initialised; another may have been.
        PluginInit = "plugin-init",
        /// A plugin's file was not found: usual, except if the platform needs it.
        PluginMissing = "plugin-missing",
        /// A plugin's file is there and cannot be loaded.
        PluginLoad = "plugin-load",
        /// The OFI plugin found no provider.
        OfiFailed = "ofi-failed",
        /// A call of libfabric by the OFI plugin failed, or a request of it: it had found a provider.
        OfiCall = "ofi-call",
        /// A plugin of Google's or another TCP plugin failed.
        PluginFailed = "plugin-failed",
        /// InfiniBand and RoCE ports are to work together.
        LinkLayerMixed = "link-layer-mixed",
        /// The two ends of a connection use adapters of different rails, or different numbers of adapters.
        RailMismatch = "rail-mismatch",
        /// Ranks see different numbers of adapters.
        AdapterCountMismatch = "adapter-count-mismatch",
        /// An adapter has no GPUDirect RDMA: the kernel's module is missing, or dma-buf is not supported.
        GdrMissing = "gdr-missing",
        /// GPUDirect RDMA is not used between a GPU and an adapter: they are too far from each other.
        GdrTooFar = "gdr-too-far",
        /// A call of libibverbs failed; `function` and `errno` say which and how.
        VerbsCall = "verbs-call",
        /// A work request completed with an error; `status` and `vendor_err` say which.
        Completion = "completion",
        /// A work request completed with an error that NCCL worked around (port resiliency).
        CompletionHandled = "completion-handled",
        /// Two ports that were to be connected have different MTUs.
        MtuMismatch = "mtu-mismatch",
        /// NCCL's own hint what a completion error may mean.
        CompletionHint = "completion-hint",
        /// An RDMA device told of an event: a port went down or came up, the subnet manager changed.
        Async = "async",
        /// An RDMA device told of a fatal event.
        AsyncFatal = "async-fatal",
        /// The GIDs of a port changed while the job ran.
        GidChanged = "gid-changed",
        /// The RoCE version of a GID cannot be read.
        GidVersionUnread = "gid-version-unread",
        /// An adapter was given up (port resiliency).
        AdapterFailed = "adapter-failed",
        /// An adapter was taken back (port resiliency).
        AdapterRecovered = "adapter-recovered",
        /// A peer closed a TCP connection: nearly always because it failed first.
        PeerClosed = "peer-closed",
        /// A TCP connection could not be made; `errno` says how.
        ConnectFailed = "connect-failed",
        /// A TCP connection is tried again; harmless unless it goes on.
        ConnectRetry = "connect-retry",
        /// An established TCP connection broke; `errno` says how.
        SocketFailed = "socket-failed",
        /// Something that is not this job connected to one of its ports.
        SocketMagic = "socket-magic",
        /// A name could not be resolved.
        NameResolution = "name-resolution",
        /// The proxy thread could not carry out an operation: `operation`, `peer_rank`.
        ProxyFailed = "proxy-failed",
        /// Ranks disagree on how many they are, or one checked in twice.
        RankCountMismatch = "rank-count-mismatch",
        /// A segment of shared memory could not be made, extended or opened.
        SharedMemory = "shared-memory",
        /// A process may not look into the memory or the files of another one of its node.
        PtraceDenied = "ptrace-denied",
        /// Memory of the host could not be had.
        HostMemory = "host-memory",
        /// A call of CUDA failed; `status` is its number.
        Cuda = "cuda",
        /// CUDA has no memory left, as the framework says it.
        CudaMemory = "cuda-memory",
        /// CUDA's library or driver is missing or too old.
        CudaTooOld = "cuda-too-old",
        /// NVLink SHARP could not be set up.
        NvlsFailed = "nvls-failed",
        /// GPUs that NVLink connects may not reach each other.
        P2pNvlinkDisabled = "p2p-nvlink-disabled",
        /// GPUs may not reach each other.
        P2pDisabled = "p2p-disabled",
        /// Memory of another GPU could not be opened.
        P2pMapping = "p2p-mapping",
        /// NVLink between nodes is there and does not work.
        MnnvlFailed = "mnnvl-failed",
        /// NVML failed.
        Nvml = "nvml",
        /// GDRCopy failed.
        Gdrcopy = "gdrcopy",
        /// SHARP or another CollNet could not be used.
        CollNetFailed = "collnet-failed",
        /// Two ranks on one GPU, or on two hosts that call themselves the same.
        DuplicateGpu = "duplicate-gpu",
        /// Ranks have different versions of the library.
        VersionMismatch = "version-mismatch",
        /// Ranks called different collectives, or with different sizes.
        CollectiveMismatch = "collective-mismatch",
        /// NCCL was called wrongly: an argument, an order, a rank that there is not.
        Usage = "usage",
        /// A variable's value, or an entry in it, is not understood.
        EnvInvalid = "env-invalid",
        /// No algorithm is left for a collective.
        NoAlgorithm = "no-algorithm",
        /// The topology, or a file of it, cannot be read.
        TopologyInvalid = "topology-invalid",
        /// A file of the PCI topology cannot be read.
        TopologyUnread = "topology-unread",
        /// A PCIe speed is written in a way that this version does not know: it reckons with another.
        PciSpeedUnknown = "pci-speed-unknown",
        /// An adapter is not found in the PCI tree.
        AdapterNotPci = "adapter-not-pci",
        /// The speed of an interface is not known.
        InterfaceSpeedUnknown = "interface-speed-unknown",
        /// No path, or none in the order wanted, leads through the node.
        GraphFailed = "graph-failed",
        /// No transport connects two ranks.
        NoTransport = "no-transport",
        /// The CPU affinity could not be set.
        Affinity = "affinity",
        /// RCCL: the kernel's command line lacks `iommu=pt`.
        IommuNotPassthrough = "iommu-not-passthrough",
        /// RCCL: automatic NUMA balancing is on.
        NumaBalancing = "numa-balancing",
        /// RCCL: something else of the host's setting.
        RcclSetting = "rccl-setting",
        /// An internal error of the library.
        Internal = "internal",
        /// A message that says that something failed, in words that name no cause known here.
        Unrecognised = "unrecognised",
        /// A plugin or a feature that NCCL can do without could not be used: MSCCL++, a tuner, a profiler, NVLS.
        FeatureFallback = "feature-fallback",
        /// A WARN line of no class above.
        OtherWarning = "other-warning",
        /// A line that only says where an earlier failure passed (`file.cc:12 -> 2`).
        Unwinding = "unwinding",
        /// A communicator was aborted.
        Abort = "abort",
        /// PyTorch: a collective did not end in its time; `operation`, `sequence`, `timeout`.
        TorchTimeout = "torch-timeout",
        /// PyTorch: the thread that watches collectives is itself stuck.
        TorchHeartbeat = "torch-heartbeat",
        /// PyTorch: NCCL returned an error.
        TorchNccl = "torch-nccl",
        /// PyTorch: the store that ranks meet at is not reached, or closed.
        TorchStore = "torch-store",
        /// PyTorch: the process is taken down because of an earlier failure.
        TorchTeardown = "torch-teardown",
        /// A process was ended by a signal, or ended with a status that is not 0.
        ProcessEnded = "process-ended",
        /// The scheduler lost a node under the job.
        NodeFailed = "node-failed",
        /// A change was refused, because the RDMA device belongs to another network namespace.
        NetnsRefused = "netns-refused",
        /// The files of RDMA devices in /dev are missing, most often in a container.
        DeviceFilesMissing = "device-files-missing",
        /// UCX has no transport of a name that it was told to use.
        TransportMissing = "transport-missing",
        /// UCX has no network device of a name that it was told to use.
        UcxDeviceMissing = "ucx-device-missing",
        /// A library above RDMA's carries data between nodes over TCP: UCX, Mooncake's transfer engine.
        LibraryOverTcp = "library-over-tcp",
        /// A variable is set that the library does not read.
        VariableUnused = "variable-unused",
        /// The limit of locked memory is small, or cannot be raised.
        MemlockSmall = "memlock-small",
        /// A management query of the subnet was not answered.
        MadUnanswered = "mad-unanswered",
        /// One end of a connection uses a GID with an IPv4 address, the other one without.
        GidTypesDiffer = "gid-types-differ",
        /// NVIDIA's driver is not loaded, sees no GPU, or is not in the container.
        GpuDriverMissing = "gpu-driver-missing",
        /// A launcher or scheduler could not start processes of the job.
        LaunchFailed = "launch-failed",
        /// ssh could not log in to another host: the host did not answer, or refused the connection or the key.
        LoginFailed = "login-failed",
        /// The scheduler's daemons do not accept each other's credentials.
        CredentialRefused = "credential-refused",
        /// A line that looks like a failure and is known to be none.
        Harmless = "harmless",
        /// A GID of one end of a connection, as a test prints it.
        GidPrinted = "gid-printed",
        /// A peer answers an echo.
        PingAnswered = "ping-answered",
        /// NCCL's RAS names a rank that has launched fewer operations than the others.
        RankBehind = "rank-behind",
        /// The scheduler ended the job: at its time limit, or for another job.
        JobCancelled = "job-cancelled",
        /// A process was ended for want of memory.
        OutOfMemory = "out-of-memory",
        /// A process met a bus error: most often a full /dev/shm.
        BusError = "bus-error",
        /// A test (nccl-tests) found results that are wrong.
        ResultWrong = "result-wrong",
        /// An adapter has no more of what it gives: keys, queues, pages of doorbells.
        AdapterLimit = "adapter-limit",
        /// A process may start no more threads.
        ThreadsExhausted = "threads-exhausted",
        /// A library takes a GPU's memory for the host's: it was built without CUDA or ROCm.
        GpuMemoryHost = "gpu-memory-host",
        /// A port that a program is to use is not active.
        PortNotActive = "port-not-active",
        /// No module of the kernel gives adapters access to the memory of GPUs.
        PeerMemoryMissing = "peer-memory-missing",
        /// The connection manager finds no RDMA device, or no way, for an address.
        RdmacmUnresolved = "rdmacm-unresolved",
        /// The other end of a connection of the connection manager rejected it.
        RdmacmRejected = "rdmacm-rejected",
        /// A transport of NVSHMEM could not be started.
        TransportFailed = "transport-failed",
        /// A communication library above UCX or libfabric could not start.
        LibraryFailed = "library-failed",
        /// An engine of inference made no step in its time.
        EngineStuck = "engine-stuck",
        /// NCCL's topology of a node is larger than it has room for.
        TopologyOverflow = "topology-overflow",
        /// A line that only a known defect of NCCL writes, or a frame of one in a backtrace.
        DefectSign = "defect-sign",
        /// A Python exception that names none of the above.
        Exception = "exception",
        /// A line that says that something failed, in words of no table.
        Uncatalogued = "uncatalogued",
    }
}

words! {
    /// What an event reports about the run.
    pub enum Role {
        /// Something failed here.
        Failure = "failure",
        /// It follows from a failure elsewhere, most often on another rank.
        Consequence = "consequence",
        /// Something is not as it could be; the run goes on.
        Warning = "warning",
        /// It is worth knowing where something else is wrong; alone it is nothing.
        Benign = "benign",
        /// It says that something failed; what that means for the run is not known.
        Unknown = "unknown",
    }
}

words! {
    /// What came of an event.
    pub enum EventOutcome {
        /// Nothing that follows shows that the run went on, or it ended with a failure.
        Open = "open",
        /// The process, the communicator or the whole run went on after it.
        Recovered = "recovered",
        /// It came after the work had ended.
        Shutdown = "shutdown",
    }
}

words! {
    /// When an event happened, seen from its process.
    pub enum Phase {
        /// Before the process ended the initialisation of its first communicator.
        Init = "init",
        /// After it.
        Running = "running",
    }
}

words! {
    /// When an event happened, seen from its process, as far as the log tells.
    pub enum ReportedPhase {
        /// Before the process ended its initialisation.
        Init = "init",
        /// After it.
        Running = "running",
        /// The log does not tell.
        NotLogged = "not-logged",
    }
}

words! {
    /// What the address of a peer reaches.
    pub enum PeerReach {
        /// The host itself.
        Loopback = "loopback",
        /// Other hosts.
        Others = "others",
        /// The line names none.
        NotLogged = "not-logged",
    }
}

words! {
    /// What a GID reaches.
    pub enum GidScope {
        /// One link: it begins with fe80.
        LinkLocal = "link-local",
        /// What routes lead to.
        Routable = "routable",
        /// The line names none.
        NotLogged = "not-logged",
    }
}

words! {
    /// How the two GIDs of a connection differ.
    pub enum GidPair {
        /// They do not, as far as can be seen.
        Alike = "alike",
        /// One is link-local or an IPv6 address, and the other is not.
        KindsDiffer = "kinds-differ",
        /// Both hold IPv4 addresses, of different networks of 24 bits.
        NetworksDiffer = "networks-differ",
    }
}

words! {
    /// Where two ranks are.
    pub enum PeerHost {
        /// On one host.
        Same = "same",
        /// On two hosts.
        Other = "other",
        /// The log does not tell.
        NotLogged = "not-logged",
    }
}

words! {
    /// What stands where NCCL looks for a PCIe speed.
    pub enum PciSpeed {
        /// Nothing, or that it is unknown.
        None = "none",
        /// A speed.
        Speed = "speed",
        /// A word of another table.
        Other = "other",
    }
}

subject! {
    /// An event of a run: a recognised line that is no ordinary message, together with the lines of the same host that say the same.
    Event = "event" from "nccl_log";

    /// What the event is.
    CLASS: LogClass = "class" from "nccl_log";
    /// What it reports about the run.
    ROLE: Role = "role" from "nccl_log";
    /// Whether it only passes on what another library said.
    PASSED_ON: bool = "passed_on" from "nccl_log";
    /// Whether it is the first failure of the run that was not recovered: by time where lines of several hosts have one, else by the order of the file. Of a run
    /// without a failure, the warning that unwinding follows.
    FIRST: bool = "first" from "nccl_log";
    /// Whether `first` rests on times, or on the order of lines in one file; unknown if several files have no times.
    ORDERED: bool = "ordered" from "nccl_log";
    /// What came of it, by the lines that follow: training steps, `Init COMPLETE`, a benchmark's result, a launcher's summary.
    OUTCOME: EventOutcome = "outcome" from "nccl_log";
    /// The line that shows the outcome; unknown if the outcome is `open`.
    SHOWN_BY: Arc<str> = "shown_by" from "nccl_log";
    /// How many lines say so.
    COUNT: u64 = "count" from "nccl_log";
    /// How many ranks say so.
    RANKS: u64 = "ranks" from "nccl_log";
    /// The first line, without its prefixes.
    TEXT: Arc<str> = "text" from "nccl_log";
    /// The file and line number of the first line: `job-1.log:17`, or `line 17` of a single text.
    PLACE: Arc<str> = "place" from "nccl_log";
    /// The time that is before the first line, as it is there.
    TIME: Arc<str> = "time" from "nccl_log";
    /// That time in seconds since 1970 by the clock of its writer, if the line has a whole date.
    AT: Seconds = "at" from "nccl_log";
    /// How long after the run's first time it came.
    AFTER: Seconds = "after" from "nccl_log";
    /// Whether the process had ended its initialisation; unknown if that is not logged.
    PHASE: Phase = "phase" from "nccl_log";
    /// The rank that says so first.
    RANK: u64 = "rank" from "nccl_log";
    /// The function that failed: `ibv_modify_qp`, `connect`, `recv`.
    FUNCTION: Arc<str> = "function" from "nccl_log";
    /// The error by its name: `ENOMEM`, `ETIMEDOUT`.
    ERRNO: Arc<str> = "errno" from "nccl_log";
    /// A number that the line gives as the outcome: of a completion (ibv_wc_status), of CUDA, of a process; of an Xid.
    STATUS: u64 = "status" from "nccl_log";
    /// The adapter's own code of a completion error.
    VENDOR_ERR: u64 = "vendor_err" from "nccl_log";
    /// The RDMA device, interface or plugin that the line names.
    DEVICE: Arc<str> = "device" from "nccl_log";
    /// The address of the peer that the line names.
    PEER: Arc<str> = "peer" from "nccl_log";
    /// The local GID that the line names.
    LOCAL_GID: Arc<str> = "local_gid" from "nccl_log";
    /// The GID of the other end that the line names.
    REMOTE_GID: Arc<str> = "remote_gid" from "nccl_log";
    /// The number of the collective that a watchdog waits for.
    SEQUENCE: u64 = "sequence" from "nccl_log";
    /// The collective that a watchdog waits for, with how many elements go in.
    OPERATION: Arc<str> = "operation" from "nccl_log";
    /// The group of ranks whose collective that is, as its watchdog names it.
    GROUP: Arc<str> = "group" from "nccl_log";
    /// What the line reports about the kind of event: `port error`, `client reregistration`; the entry that is not understood.
    DETAIL: Arc<str> = "detail" from "nccl_log";
    /// Whether it is the failure that counts: the first of the run, or one of the same kind; where only consequences are logged, the first of these.
    LEADS: bool = "leads" from "derive log";
    /// When it happened, with a word for what is not logged.
    WHEN: ReportedPhase = "when" from "derive log";
    /// The error by its name, `not-logged` if the line gives none.
    FAULT: Arc<str> = "fault" from "derive log";
    /// The number of an error of CUDA, found by its text where an older release gives no number; 0 if neither is known.
    CODE: u64 = "code" from "derive log";
    /// Whether something else in the same text rules out the usual cause of such an event: a
    /// `[[joined]]` of a check that applies to it.
    CAUSE_REFUTED: bool = "cause_refuted" from "derive log";
    /// What rules it out, with its line.
    REFUTED_BY: Arc<str> = "refuted_by" from "derive log";
    /// Whether something else in the same text confirms the usual cause of such an event.
    CAUSE_CONFIRMED: bool = "cause_confirmed" from "derive log";
    /// What confirms it, with its line.
    CONFIRMED_BY: Arc<str> = "confirmed_by" from "derive log";
    /// The error by its name or number, or that none is recognised: for what a finding says.
    REASON: Arc<str> = "reason" from "derive log";
    /// The peer, named as far as the line names it.
    WHOM: Arc<str> = "whom" from "derive log";
    /// The protocol of a foreign connection to a port of NCCL, by its first bytes: `wrong magic` shows them.
    INTRUDER: Arc<str> = "intruder" from "derive log";
    /// The device, or an adapter of which the line does not tell the name.
    ADAPTER: Arc<str> = "adapter" from "derive log";
    /// What the peer's address reaches.
    PEER_REACH: PeerReach = "peer_reach" from "derive log";
    /// What the local GID reaches.
    GID_SCOPE: GidScope = "gid_scope" from "derive log";
    /// How the two GIDs of the connection differ.
    GID_PAIR: GidPair = "gid_pair" from "derive log";
    /// The adapter of the other end that the line names.
    PEER_DEVICE: Arc<str> = "peer_device" from "nccl_log";
    /// That in a few words, if they do.
    GIDS_DIFFER: Arc<str> = "gids_differ" from "derive log";
    /// That the two ends are adapters of different names, in a few words.
    RAILS_DIFFER: Arc<str> = "rails_differ" from "derive log";
    /// The peer's address without its port, or that its GID holds.
    PEER_ADDRESS: Arc<str> = "peer_address" from "derive log";
    /// How many hosts of the log have a failed request to the same peer.
    HOSTS_OF_PEER: u64 = "hosts_of_peer" from "derive log";
    /// How many peers failed requests over the same adapter of this host had.
    PEERS_OF_ADAPTER: u64 = "peers_of_adapter" from "derive log";
    /// Whether the two ranks that the line names are on one host.
    SAME_HOST: PeerHost = "same_host" from "derive log";
    /// Whether the line says that versions do not fit each other.
    MISMATCH: bool = "mismatch" from "derive log";
    /// Whether the line is about a word that is not understood, and not about a number that cannot be read.
    WORD_UNKNOWN: bool = "word_unknown" from "derive log";
    /// Of a value that NCCL does not know among its PCIe speeds: what it is.
    SPEED: PciSpeed = "speed" from "derive log";
}
