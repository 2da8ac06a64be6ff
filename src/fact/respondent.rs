//! The facts of a part of the node that left questions unanswered.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

words! {
    /// The kind of a respondent.
    #[derive(PartialOrd, Ord)]
    pub enum RespondentKind {
        /// An RDMA device.
        Device = "device",
        /// A port of an RDMA device.
        Port = "port",
        /// A GPU.
        Gpu = "gpu",
        /// A PCI function.
        Function = "function",
        /// A network device.
        Netdev = "netdev",
        /// A library: libibverbs, NVML, CUDA.
        Library = "library",
        /// Files of the kernel or of the system, below one directory.
        Files = "files",
        /// A command.
        Command = "command",
        /// Another interface of the kernel: its log, netlink.
        Kernel = "kernel",
        /// A measurement.
        Measurement = "measurement",
        /// A probe of this program that ended early.
        Probe = "probe",
    }
}

subject! {
    /// A device, library, directory or probe of the node of which a reply is damaged: a timeout, a crash, a reply that is too large, of another kind, empty
    /// where the kernel never is or not understood at all, and every error that is neither an absence, nor withheld, nor ordinary for the question; NVML's
    /// Unknown, Timeout, IrqIssue, GpuIsLost, CorruptedInforom, OperatingSystem and ResetRequired; a name of the kernel's that was listed and then gone. One
    /// that answered all questions, or lacks permission only, is none.
    Respondent = "respondent" from "recording";

    /// What kind of part of the node it is.
    KIND: RespondentKind = "kind" from "recording";
    /// How many questions it was asked.
    ASKED: u64 = "asked" from "recording";
    /// How many of them have a damaged reply.
    FAILED: u64 = "failed" from "recording";
    /// Whether most of the questions failed otherwise than by a crash of the asking process.
    MOSTLY_FAILED: bool = "mostly_failed" from "recording";
    /// Whether a process of the doctor's hangs there that cannot be killed: how many, and since when; "none" if none does.
    HANGS: Arc<str> = "hangs" from "recording";
    /// How the first of them failed, and which these were, four at most; of a probe, how it ended.
    REASON: Arc<str> = "reason" from "recording";
}
