//! The schema: which subjects there are, which facts each has, of what type, from which probe.

use std::marker::PhantomData;

use super::value::Type;

/// What the source of a derived fact begins with; the derivation's name follows.
pub const DERIVED: &str = "derive ";

/// Declares the subjects, each with the module of its schema.
macro_rules! subjects {
    ($($(#[$doc:meta])* $subject:ident: $module:ident;)*) => {
        /// The subjects: what facts are about, and what checks are judged for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Subject { $($(#[$doc])* $subject),* }

        impl Subject {
            /// All subjects, in the order of the schema.
            pub const ALL: [Subject; [$(stringify!($subject)),*].len()] = [$(Subject::$subject),*];

            /// What the subject is, its facts, and the probe that knows which there are.
            pub fn schema(self) -> &'static SubjectSchema {
                match self { $(Subject::$subject => &super::$module::SCHEMA),* }
            }
        }
    };
}

subjects! {
    /// All nodes that are judged together.
    Cluster: cluster;
    /// What several nodes are compared by.
    Comparison: comparison;
    /// A machine.
    Node: node;
    /// A PCI function that can do RDMA.
    Function: function;
    /// An RDMA device.
    Device: device;
    /// A port of an RDMA device.
    Port: port;
    /// A GID that is in use.
    Gid: gid;
    /// A counter of a port.
    Counter: counter;
    /// A network device that belongs to an RDMA device.
    Netdev: netdev;
    /// A kernel module that matters.
    Module: module;
    /// A network interface, as getifaddrs(3) lists them: NCCL, MPI and Gloo choose among these.
    Interface: interface;
    /// A bond of network devices.
    Bond: bond;
    /// The RoCE traffic of a port, from its traffic class to the switch: a chain that is closed or broken.
    Traffic: traffic;
    /// A GPU, as the PCI bus has it, or NVML.
    Gpu: gpu;
    /// A GPU and an RDMA-capable PCI function of the same node.
    GpuNic: gpu_nic;
    /// Two GPUs of a node.
    GpuPair: gpu_pair;
    /// An NVLink of a GPU.
    Nvlink: nvlink;
    /// A PCIe link on the path of a GPU or of an RDMA function: a function and the port above it.
    Hop: hop;
    /// A PCIe bridge on the path of a GPU or of an RDMA function.
    Bridge: bridge;
    /// A path of data in a node, or out of it: its bandwidth and its bottleneck.
    Path: path;
    /// What must get through the node's packet filter: a protocol, ports, a direction, an interface.
    Flow: flow;
    /// What hinders packets between a network device and the kernel's IP stack: a queueing discipline, a route, a rule, a neighbour.
    Obstacle: obstacle;
    /// A setting that holds now, or that a file sets, beside what the next boot makes of it.
    BootSetting: boot_setting;
    /// A service of the system that matters to RDMA, GPUs or latency.
    Service: service;
    /// A process that hogs the CPU or memory, or that is stuck in the kernel.
    Process: process;
    /// A process of a running job, named with --as: the limits and the environment that count.
    Job: job;
    /// A class of lines in the kernel's log that matters, and that was seen.
    KernelEvent: kernel_event;
    /// A part of the node that left questions unanswered.
    Respondent: respondent;
    /// A NCCL_* variable in effect.
    Variable: variable;
    /// An entry of NCCL_IB_HCA or NCCL_SOCKET_IFNAME.
    Selector: selector;
    /// What NCCL will choose on this node, by its own rules.
    Selection: selection;
    /// A setting besides NCCL's that decides where traffic goes: of Gloo, UCX, Open MPI, libfabric, the launcher.
    Setting: setting;
    /// A mounted file system that can use RDMA.
    Mount: mount;
    /// A measurement of a collective, or of a job, that arms are compared by.
    Measurement: measurement;
    /// An arm of a measurement.
    Arm: arm;
    /// A change over all pairs of arms that differ by it alone.
    Factor: factor;
    /// A change between two arms.
    Effect: effect;
    /// What pairs of nodes accuse of something.
    Suspect: suspect;
    /// What ways between nodes that were tried accuse of something.
    Reach: reach;
    /// A link of the InfiniBand fabric, as a tool listed it on the node.
    FabricLink: fabric_link;
    /// A switch of the InfiniBand fabric, as a tool described it on the node.
    Switch: switch;
    /// What a tool says of something that it tried or tested.
    ToolResult: tool_result;
    /// A host of the InfiniBand fabric, as its adapters are described.
    FabricHost: fabric_host;
    /// The InfiniBand fabric as a whole.
    IbFabric: ib_fabric;
    /// What a command printed that several hosts of a text ran.
    ShownOutput: shown_output;
    /// A waiver of the site for the node.
    Waiver: waiver;
    /// An item of the site's inventory for the node.
    Inventory: inventory;
    /// What the ranks of a job recorded of their collectives.
    Trace: trace;
    /// What ranks of a job wait for.
    Stall: stall;
    /// A running job, as its ranks' processes on a node show it.
    LiveJob: live_job;
    /// A node of a running job.
    LiveNode: live_node;
    /// A rank's process of a running job.
    LiveRank: live_rank;
    /// A run of NCCL in a log.
    Run: run;
    /// Results of a benchmark that are in a log.
    Benchmark: benchmark;
    /// A host of a run, as the log names it.
    Host: host;
    /// A known defect of NCCL that a run hits.
    Defect: defect;
    /// A rank of a run.
    Rank: rank;
    /// Channels from one rank to another.
    Channel: channel;
    /// A port of an RDMA device that NCCL lists as usable.
    Hca: hca;
    /// A variable that the log shows in effect.
    Env: env;
    /// An event in the log.
    Event: event;
}

impl Subject {
    /// The name as checks write it.
    pub fn name(self) -> &'static str {
        self.schema().name
    }

    /// Its name for people.
    pub fn noun(self) -> &'static str {
        match self {
            Subject::Gpu => "GPU",
            Subject::Gid => "GID",
            Subject::Nvlink => "NVLink",
            Subject::KernelEvent => "kernel message",
            Subject::GpuPair => "GPU pair",
            Subject::GpuNic => "GPU-adapter pair",
            Subject::Hop => "PCIe link",
            Subject::FabricLink => "fabric link",
            Subject::ToolResult => "result of a tool",
            Subject::FabricHost => "fabric host",
            Subject::IbFabric => "InfiniBand fabric",
            Subject::ShownOutput => "output",
            Subject::Reach => "way between nodes",
            Subject::LiveJob => "running job",
            Subject::LiveNode => "node of a running job",
            Subject::LiveRank => "rank's process",
            Subject::Arm => "measured setting",
            other => other.name(),
        }
    }

    /// The subject of this name.
    pub fn from_name(name: &str) -> Option<Subject> {
        Subject::ALL.into_iter().find(|s| s.name() == name)
    }

    /// How many instances below one parent are judged, so that no recording makes work and memory
    /// without end. No real node comes near.
    pub fn bound(self) -> usize {
        const GPUS: usize = 64;
        match self {
            Subject::Gpu => GPUS,
            Subject::GpuPair => GPUS * (GPUS - 1) / 2,
            Subject::GpuNic => 1024,
            Subject::FabricLink | Subject::FabricHost => 65536,
            of_node if of_node.scope().any(|above| above == Subject::Node) => 8192,
            // Logs and clusters have bounds of their own.
            _ => usize::MAX,
        }
    }

    /// The subject to which this one belongs.
    pub fn parent(self) -> Option<Subject> {
        Some(match self {
            Subject::Cluster => return None,
            Subject::Comparison
            | Subject::Node
            | Subject::Reach
            | Subject::Trace
            | Subject::LiveJob
            | Subject::Run
            | Subject::Benchmark => Subject::Cluster,
            Subject::Stall => Subject::Trace,
            Subject::LiveNode | Subject::LiveRank => Subject::LiveJob,
            Subject::Host | Subject::Defect => Subject::Run,
            Subject::Rank | Subject::Channel | Subject::Hca | Subject::Env | Subject::Event => {
                Subject::Host
            }
            Subject::Port => Subject::Device,
            Subject::Gid | Subject::Counter | Subject::Traffic => Subject::Port,
            Subject::GpuNic | Subject::Nvlink => Subject::Gpu,
            Subject::Arm | Subject::Factor => Subject::Measurement,
            Subject::Effect => Subject::Factor,
            Subject::Function
            | Subject::Device
            | Subject::Netdev
            | Subject::Module
            | Subject::Interface
            | Subject::Bond
            | Subject::Gpu
            | Subject::GpuPair
            | Subject::Hop
            | Subject::Bridge
            | Subject::Path
            | Subject::Flow
            | Subject::Obstacle
            | Subject::BootSetting
            | Subject::Service
            | Subject::Process
            | Subject::Job
            | Subject::KernelEvent
            | Subject::Respondent
            | Subject::Variable
            | Subject::Selector
            | Subject::Selection
            | Subject::Setting
            | Subject::Mount
            | Subject::Measurement
            | Subject::Suspect
            | Subject::FabricLink
            | Subject::Switch
            | Subject::ToolResult
            | Subject::FabricHost
            | Subject::IbFabric
            | Subject::ShownOutput
            | Subject::Waiver
            | Subject::Inventory => Subject::Node,
        })
    }

    /// The subject and its ancestors, nearest first: what a condition can name.
    pub fn scope(self) -> impl Iterator<Item = Subject> {
        std::iter::successors(Some(self), |s| s.parent())
    }
}

/// A subject, and its facts.
pub struct SubjectSchema {
    /// The name as checks write it.
    pub name: &'static str,
    /// What one instance is.
    pub doc: &'static str,
    /// The probe that knows which instances there are.
    pub probe: &'static str,
    /// The facts.
    pub facts: &'static [FactSchema],
}

impl SubjectSchema {
    /// The place of a fact in the list, and its type.
    pub fn place(&self, fact: &str) -> Option<(usize, Type)> {
        let at = self.facts.iter().position(|one| one.name == fact)?;
        Some((at, self.facts.get(at)?.ty))
    }
}

/// The meaning of a fact.
pub struct FactSchema {
    /// The name as conditions write it, without its subject.
    pub name: &'static str,
    /// Its type.
    pub ty: Type,
    /// Whether its value is a command, quoted for a shell.
    pub is_command: bool,
    /// Meaning, unit and source.
    pub doc: &'static str,
    /// The probe that establishes it; `derive NAME` for one that `src/derive/NAME.rs` works out from others, `recording` for one that a recording says
    /// of itself, `waivers` for one of the site's waivers.
    pub probe: &'static str,
}

/// A fact of the schema together with the Rust type of its value.
pub struct Key<T> {
    /// The subject.
    pub subject: Subject,
    /// The fact's place in the subject's list.
    pub index: usize,
    ty: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    /// A key; made by the `subject!` macro only.
    pub(crate) const fn new(subject: Subject, index: usize) -> Self {
        Key {
            subject,
            index,
            ty: PhantomData,
        }
    }

    /// The fact's name with its subject, as conditions write it.
    pub fn path(&self) -> String {
        let schema = self.subject.schema();
        format!("{}.{}", schema.name, schema.facts[self.index].name)
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Key<T> {}

/// The place of a name in a list that has it, found while compiling.
pub(crate) const fn position(names: &[&str], name: &str) -> usize {
    let mut at = 0;
    while at < names.len() {
        let (one, other) = (names[at].as_bytes(), name.as_bytes());
        let mut same = one.len() == other.len();
        let mut i = 0;
        while same && i < one.len() {
            same = one[i] == other[i];
            i += 1;
        }
        if same {
            return at;
        }
        at += 1;
    }
    // Only a macro that lists other names than it looks up comes here, and then it does not compile.
    usize::MAX
}

/// Declares a subject: its schema, and a typed key for each of its facts.
macro_rules! subject {
    (
        $(#[doc = $doc:literal])*
        $subject:ident = $name:literal from $probe:literal;
        $( $(#[doc = $fact_doc:literal])* $key:ident: $ty:ty = $fact:literal from $fact_probe:literal; )*
    ) => {
        const NAMES: &[&str] = &[$($fact),*];
        $(
            $(#[doc = $fact_doc])*
            pub const $key: $crate::fact::Key<$ty> = $crate::fact::Key::new(
                $crate::fact::Subject::$subject,
                $crate::fact::schema::position(NAMES, $fact),
            );
        )*
        $(#[doc = $doc])*
        pub static SCHEMA: $crate::fact::SubjectSchema = $crate::fact::SubjectSchema {
            name: $name,
            doc: concat!($($doc, "\n"),*),
            probe: $probe,
            facts: &[$($crate::fact::FactSchema {
                name: $fact,
                ty: <$ty as $crate::fact::Typed>::TYPE,
                is_command: <$ty as $crate::fact::Typed>::IS_COMMAND,
                doc: concat!($($fact_doc, "\n"),*),
                probe: $fact_probe,
            }),*],
        };
    };
}
pub(crate) use subject;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the project's own files")]
    fn names_are_unique_documented_and_made_of_plain_letters() {
        for subject in Subject::ALL {
            let schema = subject.schema();
            assert_eq!(Subject::from_name(schema.name), Some(subject));
            assert!(!schema.doc.trim().is_empty());
            let mut seen = std::collections::HashSet::new();
            for fact in schema.facts {
                assert!(
                    seen.insert(fact.name),
                    "{}.{} twice",
                    schema.name,
                    fact.name
                );
                assert!(
                    fact.doc.trim().len() > 15,
                    "{}.{} needs a meaning",
                    schema.name,
                    fact.name
                );
                assert!(
                    fact.name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
                );
                for probe in [fact.probe, schema.probe] {
                    assert!(
                        ["recording", "waivers", "inventory"].contains(&probe)
                            || probe.strip_prefix(DERIVED).is_some_and(|name| {
                                let file = format!("src/derive/{name}.rs");
                                std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                                    .join(file)
                                    .exists()
                            })
                            || probe == crate::probe::nccl_log::NAME
                            || crate::probe::PROBES
                                .iter()
                                .chain(crate::probe::BENCHES)
                                .chain(crate::probe::OF_JOBS)
                                .chain(crate::probe::OUTPUTS)
                                .any(|p| p.name == probe),
                        "{}.{}: no probe {probe}",
                        schema.name,
                        fact.name
                    );
                }
            }
        }
    }
}
