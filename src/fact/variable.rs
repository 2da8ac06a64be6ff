//! The facts of a NCCL_* variable in effect.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

words! {
    /// Extra characters around a value that NCCL takes as part of it.
    pub enum ValueDefect {
        /// Nothing.
        No = "no",
        /// Quotation marks, which only a shell takes away.
        Quotes = "quotes",
        /// A carriage return, the end of a line as Windows writes it.
        CarriageReturn = "carriage-return",
        /// White space at the beginning or the end.
        Space = "space",
    }
}

words! {
    /// The effect of a variable's value on a job.
    pub enum VariableEffect {
        /// Nothing that is known to cost.
        None = "none",
        /// InfiniBand and RoCE are off.
        IbDisabled = "ib-disabled",
        /// The network is forced to TCP sockets.
        SocketForced = "socket-forced",
        /// GPUs of one node do not reach each other directly.
        P2pDisabled = "p2p-disabled",
        /// Processes of one node do not share memory.
        ShmDisabled = "shm-disabled",
        /// GPUDirect RDMA is off, or allowed for fewer pairs than by default.
        GdrLowered = "gdr-lowered",
        /// GPUDirect RDMA goes through the CPU.
        GdrRaised = "gdr-raised",
        /// DMA-BUF is off.
        DmabufDisabled = "dmabuf-disabled",
        /// NVLink SHARP is off.
        NvlsDisabled = "nvls-disabled",
        /// The algorithm or the protocol is not NCCL's choice.
        AlgorithmForced = "algorithm-forced",
        /// The number of channels or thread blocks is capped.
        ChannelsCapped = "channels-capped",
        /// The size of buffers is not the default.
        BufferChanged = "buffer-changed",
        /// It writes much, or checks much.
        DebugLeft = "debug-left",
        /// Retransmission gives up too early, or an odd number of times.
        RetryOdd = "retry-odd",
        /// The field or table that the number goes to has no room for it.
        OutOfRange = "out-of-range",
        /// It names a network that neither NCCL nor a known plugin has.
        NetworkUnknown = "network-unknown",
    }
}

subject! {
    /// A NCCL_* variable in effect.
    Variable = "variable" from "nccl";

    /// Its name, as NCCL_IB_HCA.
    NAME: Arc<str> = "name" from "nccl";
    /// Its value, as NCCL gets it.
    VALUE: Arc<str> = "value" from "nccl";
    /// Where the value comes from: "the environment", or a file and its line. NCCL takes the first of the environment, the user's file, /etc/nccl.conf.
    ORIGIN: Arc<str> = "origin" from "nccl";
    /// Whether a file that NCCL reads later sets it to another value.
    OVERRIDES: bool = "overrides" from "nccl";
    /// The values that are not in effect, and where they stand; "none" if there are none.
    OVERRIDDEN: Arc<str> = "overridden" from "nccl";
    /// Extra characters around the value that NCCL takes as part of it.
    MANGLED: ValueDefect = "mangled" from "nccl";
    /// Whether NCCL, a plugin of it, a framework or an image is known to read it.
    KNOWN: bool = "known" from "derive nccl";
    /// The known name that is nearest to it; "none" if none is near, or it is known itself.
    NEAREST: Arc<str> = "nearest" from "derive nccl";
    /// Whether the NCCL version found reads it; names that others read than NCCL count as read.
    READ: bool = "read" from "derive nccl";
    /// In which versions NCCL reads it, in words.
    READ_BY: Arc<str> = "read_by" from "derive nccl";
    /// What NCCL makes of the value: a number (strtoll with base 0), a text, the default.
    READ_AS: Arc<str> = "read_as" from "derive nccl";
    /// Whether NCCL reads another number than the value shows: "true" is 0, "4M" is 4.
    MISREAD: bool = "misread" from "derive nccl";
    /// Whether NCCL refuses or ignores the value: it is no word that the variable can have.
    REFUSED: bool = "refused" from "derive nccl";
    /// The least and the largest number that the field takes to which it goes, as "0 to 7"; "any" if no bound is known.
    RANGE: Arc<str> = "range" from "derive nccl";
    /// Whether the plugin's file that it names by a path does not exist for this process. Source: statvfs(3).
    FILE_MISSING: bool = "file_missing" from "nccl";
    /// The effect of the value on a job.
    EFFECT: VariableEffect = "effect" from "derive nccl";
}
