//! The values of options that measurements have: their names on the command line, and their help.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::measure::plan::ablation_arms::ArmFamily;
use crate::measure::plan::memory_request::MemoryRequest;
use crate::measure::plan::pairs::backend_choice::BackendRequest;

fn named((name, help): (&'static str, &'static str)) -> Option<PossibleValue> {
    Some(PossibleValue::new(name).help(help))
}

impl ValueEnum for MemoryRequest {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Host, Self::Gpu, Self::Both]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        named(match self {
            Self::Host => ("host", "In the host's memory"),
            Self::Gpu => ("gpu", "In the memory of GPUs: GPUDirect RDMA"),
            Self::Both => (
                "both",
                "First in the host's memory, then in that of GPUs, over the same ports",
            ),
        })
    }
}

impl ValueEnum for BackendRequest {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Auto, Self::Verbs, Self::Tcp]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        named(match self {
            Self::Auto => (
                "auto",
                "RDMA writes where each node has a port that works, else sockets",
            ),
            Self::Verbs => ("verbs", "RDMA writes: a node that cannot is named"),
            Self::Tcp => ("tcp", "Sockets"),
        })
    }
}

impl ValueEnum for ArmFamily {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Algo,
            Self::CrossNic,
            Self::Gdr,
            Self::Qps,
            Self::NetSocket,
            Self::Nvls,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        named(match self {
            Self::Algo => (
                "algo",
                "The algorithms: NCCL_ALGO=Ring, Tree, NVLS, CollNetDirect",
            ),
            Self::CrossNic => (
                "cross-nic",
                "Rings that stay on one rail, or do not: NCCL_CROSS_NIC=0, 1, 2",
            ),
            Self::Gdr => (
                "gdr",
                "GPUDirect RDMA off, and over any distance: NCCL_NET_GDR_LEVEL=LOC, SYS",
            ),
            Self::Qps => (
                "qps",
                "Queue pairs for each connection: NCCL_IB_QPS_PER_CONNECTION=2, 4",
            ),
            Self::NetSocket => (
                "net-socket",
                "Sockets with more threads: NCCL_NET=Socket, and with it NCCL_SOCKET_NTHREADS=4",
            ),
            Self::Nvls => ("nvls", "NVLink SHARP off: NCCL_NVLS_ENABLE=0"),
        })
    }
}
