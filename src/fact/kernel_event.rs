//! The facts of a class of lines in the kernel's log that matters.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{BitRate, Seconds};

words! {
    /// The class of a line of the kernel's log.
    pub enum EventClass {
        /// mlx5: the firmware does not answer, or says that it failed.
        Mlx5Fatal = "mlx5-fatal",
        /// mlx5: a command to the firmware got no answer in time.
        Mlx5CommandTimeout = "mlx5-command-timeout",
        /// mlx5: the PCIe slot offers less power than the adapter may draw.
        SlotPower = "slot-power",
        /// mlx5: the adapter or its transceiver is too hot.
        Overheated = "overheated",
        /// mlx5: a cable or transceiver is refused.
        CableError = "cable-error",
        /// The driver measured that the PCIe path carries less than the adapter could use.
        PcieBandwidth = "pcie-bandwidth",
        /// PCIe AER: an uncorrected error.
        AerUncorrected = "aer-uncorrected",
        /// PCIe AER: a corrected error.
        AerCorrected = "aer-corrected",
        /// A GID could not be written to the adapter.
        GidAdd = "gid-add",
        /// A network device lost its link, ten minutes or longer after boot.
        LinkDown = "link-down",
        /// An IPoIB interface could not join a multicast group.
        Multicast = "multicast",
        /// An adapter was reset by its driver or firmware, or its queue hung.
        AdapterReset = "adapter-reset",
        /// A driver gave up on a device.
        ProbeFailed = "probe-failed",
        /// A module does not fit the others: versions of symbols differ, or symbols are missing.
        SymbolMismatch = "symbol-mismatch",
        /// NVIDIA: an Xid.
        Xid = "xid",
        /// NVIDIA: the recovery that the driver asks for (Xid 154).
        RecoveryAction = "recovery-action",
        /// NVIDIA NVSwitch: an SXid.
        SXid = "sxid",
        /// NVIDIA: a GPU could not be initialised.
        GpuInit = "gpu-init",
        /// NVIDIA: a program's library is of another version than the kernel module.
        DriverMismatch = "driver-mismatch",
        /// The IOMMU refused a device's access to memory.
        IommuFault = "iommu-fault",
        /// The out-of-memory killer ended a process.
        OutOfMemory = "out-of-memory",
        /// A machine check or an error of the memory controller.
        MachineCheck = "machine-check",
        /// A task waited in the kernel for longer than the kernel thinks right.
        HungTask = "hung-task",
        /// A CPU was stuck in the kernel.
        CpuStuck = "cpu-stuck",
        /// A file server stopped answering.
        ServerSilent = "server-silent",
        /// amdgpu: a GPU is being reset, or could not be reset, recovered or initialised.
        AmdFailed = "amd-failed",
        /// amdgpu: uncorrectable errors of the GPU's memory or of another of its blocks.
        AmdUncorrected = "amd-uncorrected",
        /// bnxt_re, EFA: the adapter's firmware does not answer.
        AdapterStalled = "adapter-stalled",
        /// Lustre: the connection to a target was lost.
        LustreLost = "lustre-lost",
        /// NVMe over fabrics, NFS over RDMA: a connection broke and is made again.
        StorageReconnects = "storage-reconnects",
        /// A table of the network is full: connections that are tracked, or neighbours.
        NetworkTableFull = "network-table-full",
        /// The kernel or a driver found no memory in one piece.
        AllocationFailed = "allocation-failed",
        /// A program crashed inside a library of the network or of the GPUs.
        ProgramCrashed = "program-crashed",
        /// An IPoIB interface was not made.
        IpoibFailed = "ipoib-failed",
        /// An adapter has no room for another object, memory key or queue.
        AdapterExhausted = "adapter-exhausted",
        /// A limit on processes or files was reached.
        LimitReached = "limit-reached",
        /// A device is no longer in its slot, or does not answer on the PCI bus.
        DeviceGone = "device-gone",
        /// A CPU is throttled because it is too hot.
        CpuOverheated = "cpu-overheated",
        /// A disk cannot be read, or its file system became read-only.
        DiskFailed = "disk-failed",
        /// NVIDIA: the driver cannot read which NVLinks found a peer, and tries again and again.
        NvlinkDiscovery = "nvlink-discovery",
        /// NVIDIA: an Xid that follows from an earlier one, which the line names; the code is that one's.
        XidEcho = "xid-echo",
        /// A line that says error and is known to mean nothing.
        Harmless = "harmless",
        /// A driver of RDMA devices or GPUs reports a trouble that is of no other class.
        Uncatalogued = "uncatalogued",
    }
}

words! {
    /// The kind of device that a line of the log concerns.
    pub enum AffectedDevice {
        /// An RDMA device, its PCI function or its network device.
        Rdma = "rdma",
        /// A GPU.
        Gpu = "gpu",
        /// A bridge above an RDMA device or a GPU.
        Path = "path",
        /// Something else.
        Other = "other",
    }
}

words! {
    /// What the registers that Xid 74 prints say of the NVLink, the gravest first. Source: NVIDIA's Xid catalogue, workflow NVLINK_ERR.
    pub enum LinkError {
        /// An error of ECC or parity that the hardware could not correct.
        Parity = "parity",
        /// Most likely the link's mechanical connection.
        Connection = "connection",
        /// The channel's signal is marginal.
        Signal = "signal",
        /// The catalogue asks to report these bits, or does not list them.
        Unexpected = "unexpected",
        /// It follows from another error.
        Secondary = "secondary",
        /// Many corrected errors: the link goes on.
        Corrected = "corrected",
        /// The driver calls it non-fatal: the link goes on.
        Nonfatal = "nonfatal",
        /// The catalogue says to ignore it.
        Ignorable = "ignorable",
        /// The line prints no registers, or is of another Xid.
        NotPrinted = "not-printed",
    }
}

subject! {
    /// A class of lines in the kernel's log that matters: one for each device that such a line was seen of, and one if none was seen.
    KernelEvent = "kernel_event" from "kernel_log";

    /// The class of the lines.
    CLASS: EventClass = "class" from "kernel_log";
    /// Whether the log holds such a line; unknown if it holds none and has lost its beginning.
    SEEN: bool = "seen" from "kernel_log";
    /// Whether the retained log contains such a line.
    LOGGED: bool = "logged" from "kernel_log";
    /// How many such lines the log holds, of those that were recorded.
    COUNT: u64 = "count" from "kernel_log";
    /// For how long no such line was logged; if there is none, how far back the log reaches.
    QUIET: Seconds = "quiet" from "kernel_log";
    /// Whether it is known how long ago the last such line was logged: not so in a copy of a log beside which no clock was copied.
    AGED: bool = "aged" from "kernel_log";
    /// How long ago the last such line was logged, as a sentence says it: "5 min ago", "at an unknown time".
    AGE: Arc<str> = "age" from "kernel_log";
    /// The last such line's own time, in seconds since 1970 by its machine's clock. Only of lines that somebody kept, as `dmesg -T` dates them.
    AT: Seconds = "at" from "kernel_log";
    /// Whether a failure of RDMA in the same text may follow from it: by their times, or where these are not both known.
    FELT: bool = "felt" from "derive log";
    /// Whether the last such line is of this boot. The files of log daemons hold earlier boots too.
    THIS_BOOT: bool = "this_boot" from "kernel_log";
    /// What the lines are about: a PCI address, a device, a task; "none" if they name nothing.
    ABOUT: Arc<str> = "about" from "kernel_log";
    /// The last such line.
    LINE: Arc<str> = "line" from "kernel_log";
    /// Whether it is over: a later line reports recovery, a reload or answers again, or the machine was booted since.
    ENDED: bool = "ended" from "kernel_log";
    /// How it ended, as a sentence says it: "before this boot", "before its driver was loaded".
    END: Arc<str> = "end" from "kernel_log";
    /// The number that an Xid or an SXid has; the recovery that Xid 154 asks for.
    CODE: u64 = "code" from "kernel_log";
    /// How often it was logged, lines that no end lies between counted once: after a reset, a driver load or a boot it is a new incident.
    INCIDENTS: u64 = "incidents" from "kernel_log";
    /// How many GPUs have this Xid of NVLink while one GPU alone has another; 0 if none is alone.
    BESIDE_ODD: u64 = "beside_odd" from "derive kernel_event";
    /// Whether the last line states that the error is fatal, or uncorrected if there are corrected ones. Of Xids 144 to 150: that it is fatal, if the
    /// reason why the link went down is not one of those for which NVIDIA's catalogue says to ignore it.
    FATAL: bool = "fatal" from "kernel_log";
    /// What the registers of the last Xid 74 say.
    LINK_ERROR: LinkError = "link_error" from "kernel_log";
    /// The PCIe bandwidth that the driver measured.
    PCIE_BANDWIDTH: BitRate = "pcie_bandwidth" from "kernel_log";
    /// The kind of device that the lines concern.
    CONCERNS: AffectedDevice = "concerns" from "derive kernel_event";
    /// The rates of all ports of the RDMA devices that the lines are about, together.
    PORT_RATE: BitRate = "port_rate" from "derive kernel_event";
}
