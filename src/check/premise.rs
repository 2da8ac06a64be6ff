//! Premises that a check assumes. If one is not known to hold, the finding states it as its condition.

use super::Condition;
use crate::fact::value::written;

written! {
    /// A premise that a check assumes.
    pub enum Premise {
        /// The run takes more than one node, and so needs a network.
        SeveralNodes = "several-nodes",
        /// The event is what failed, or the run takes more than one node: it needs the network either way.
        NeedsNetwork = "needs-network",
        /// The node has RDMA devices.
        HasDevices = "has-devices",
        /// The node has RDMA devices or GPUs.
        HasHardware = "has-hardware",
        /// The node has an active RDMA port.
        ActivePort = "active-port",
        /// Jobs are meant to use the port.
        PortUsed = "port-used",
        /// Jobs run on the node: it has a GPU, a port that is used, or an address where a job meets.
        RunsJobs = "runs-jobs",
        /// Jobs can use GPUDirect RDMA here.
        GpudirectWanted = "gpudirect-wanted",
        /// The network device carries RoCE.
        CarriesRoce = "carries-roce",
        /// Jobs send RoCE in this way.
        RoceUsed = "roce-used",
        /// The node is no virtual machine, in which PCI and CPUs can look other than they are.
        BareMetal = "bare-metal",
        /// The doctor, or the tool, ran in no container, which hides a part of the machine.
        NoContainer = "no-container",
        /// No capability lifts the limit of locked memory.
        LimitBinds = "limit-binds",
        /// The node has several GPUs.
        SeveralGpus = "several-gpus",
        /// The GPU is not divided by MIG.
        Undivided = "undivided",
        /// The PCI function is not a virtual one (SR-IOV).
        WholeDevice = "whole-device",
        /// The GPU is not a virtual function of one.
        WholeGpu = "whole-gpu",
        /// CUDA_VISIBLE_DEVICES hides no GPU from the process.
        Unmasked = "unmasked",
    }
}

/// How a finding says a premise that is not known to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PremiseWords {
    /// Before the finding's sentence: for whom it holds.
    Before(&'static str),
    /// Behind it: what would excuse it.
    Behind(&'static str),
}

impl Premise {
    /// When it is met.
    pub(super) fn condition(self) -> &'static str {
        match self {
            Premise::SeveralNodes => "run.nodes > 1",
            Premise::NeedsNetwork => "run.nodes > 1 or event.role == \"failure\"",
            Premise::HasDevices => "node.devices > 0",
            Premise::HasHardware => "node.devices > 0 or node.gpus > 0",
            Premise::ActivePort => "node.has_active_port",
            Premise::PortUsed => "port.intended",
            Premise::RunsJobs => "node.job_node",
            Premise::GpudirectWanted => "node.gpudirect_wanted",
            Premise::CarriesRoce => "netdev.roce",
            Premise::RoceUsed => "traffic.used",
            Premise::BareMetal => "not node.virtual",
            Premise::NoContainer => "node.container == \"none\"",
            Premise::LimitBinds => "not node.ipc_lock",
            Premise::SeveralGpus => "node.nvml_gpus > 1",
            Premise::Undivided => "gpu.mig != \"on\"",
            Premise::WholeDevice => "not function.virtual_function",
            Premise::WholeGpu => "not gpu.virtual_function",
            Premise::Unmasked => "not node.cuda_masked",
        }
    }

    /// As a finding says it.
    pub fn words(self) -> PremiseWords {
        match self {
            Premise::SeveralNodes | Premise::NeedsNetwork => {
                PremiseWords::Before("if more than one node takes part: ")
            }
            Premise::HasDevices => PremiseWords::Before("if it has RDMA devices: "),
            Premise::HasHardware => PremiseWords::Before("if it has RDMA devices or GPUs: "),
            Premise::ActivePort => PremiseWords::Before("if it has an active RDMA port: "),
            Premise::PortUsed => PremiseWords::Before("if jobs use it: "),
            Premise::RunsJobs => PremiseWords::Before("if jobs run here: "),
            Premise::GpudirectWanted => PremiseWords::Before("if GPUDirect RDMA is wanted: "),
            Premise::CarriesRoce => PremiseWords::Before("if it carries RoCE: "),
            Premise::RoceUsed => PremiseWords::Before("if jobs send RoCE there: "),
            Premise::SeveralGpus => PremiseWords::Before("if the node has several GPUs: "),
            Premise::BareMetal => PremiseWords::Behind("this is a virtual machine"),
            Premise::NoContainer => PremiseWords::Behind("this ran in a container"),
            Premise::LimitBinds => PremiseWords::Behind("it has CAP_IPC_LOCK"),
            Premise::Undivided => PremiseWords::Behind("MIG divides the GPU"),
            Premise::WholeDevice | Premise::WholeGpu => {
                PremiseWords::Behind("it is a virtual function")
            }
            Premise::Unmasked => PremiseWords::Behind("CUDA_VISIBLE_DEVICES hides some"),
        }
    }
}

/// The premise of a check, with its condition typed for the check's subject.
#[derive(Debug)]
pub struct CheckPremise {
    /// Which it is.
    pub premise: Premise,
    pub(super) condition: Condition,
}
