//! What was set by hand, and what NCCL sees of the machine.

use super::causes;
use super::job::{Job, Phase, Version};

fn at(job: &mut Job, version: Version) {
    job.version = version;
    for host in &mut job.hosts {
        host.version = version;
    }
}

causes! {
    "log/algorithm-forced" => |job| job.env("NCCL_ALGO", "Ring");
    "log/variable-on-part" => |job| {
        job.env("NCCL_SOCKET_IFNAME", "eth0");
        let rank = job.first_of(job.hosts.len() - 1);
        job.info(Phase::Network, rank, "NCCL_IB_TC set by environment to 106.");
    };
    "log/protocol-forced" => |job| job.env("NCCL_PROTO", "LL");
    "log/entry-not-understood" => |job| {
        at(job, Version(26, 2));
        job.env("NCCL_ALGO", "Rnig");
        job.warn(Phase::Complete, 0, "graph/tuning.cc:109", "Unrecognized element token \"Rnig\" when parsing \"Rnig\"");
        job.dies_in(Phase::Complete);
    };
    "log/no-algorithm" => |job| {
        at(job, Version(24, 3));
        job.env("NCCL_ALGO", "NVLS");
        job.warn(Phase::Failure, 0, "enqueue.cc:1971", "Error : no algorithm/protocol available for function Broadcast with datatype ncclInt8. NCCL_ALGO was set to NVLS.");
    };
    "log/channels-capped" => |job| job.env("NCCL_MAX_NCHANNELS", "1");
    "log/buffer-small" => |job| job.env("NCCL_BUFFSIZE", "65536");
    "log/value-refused" => |job| job.info_all(Phase::Network, "Invalid value 99999999999999999999 for NCCL_IB_TIMEOUT, using default 20.");
    "log/pcie-speed-misread" => |job| {
        at(job, Version(8, 4));
        job.info_all(Phase::Graph, "KV Convert to int : could not find value of '16.0 GT/s PCIe' in dictionary, falling back to 60");
    };
    "log/pcie-speed-missing" => |job| {
        at(job, Version(8, 4));
        job.info_all(Phase::Graph, "KV Convert to int : could not find value of '' in dictionary, falling back to 60");
    };
    "log/adapter-not-on-pci" => |job| {
        at(job, Version(20, 5));
        job.info_all(Phase::Graph, "Topology detection: network path /sys/devices/virtual/net/bond0 is not a PCI device (bond0). Attaching to first CPU");
    };
    "log/adapter-behind-cpu" => |job| {
        job.subsystems = true;
        job.pattern = "NVL/SYS";
        if job.version < Version(13, 0) {
            at(job, Version(18, 5));
        }
    };
    "log/pcie-slow" => |job| {
        job.subsystems = true;
        job.pci = "0.2";
        if job.version < Version(13, 0) {
            at(job, Version(18, 5));
        }
    };
    "log/few-cpus" => |job| job.affinity = "1";
    "log/sharp-refused" => |job| {
        job.env("NCCL_COLLNET_ENABLE", "1");
        job.warn(Phase::Graph, 0, "transport.cc:464", "Cannot initialize CollNet, using point-to-point network instead");
        job.last = Phase::Running;
    };
    "log/iommu-not-passthrough" => |job| {
        job.rccl = true;
        job.warn(Phase::Init, 0, "src/init.cc:163", "Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!");
        job.last = Phase::Running;
    };
    "log/numa-balancing" => |job| {
        job.rccl = true;
        job.warn(Phase::Init, 0, "src/init.cc:142", "NUMA auto balancing enabled which can lead to variability in the RCCL performance! Disable by \"sudo sysctl kernel.numa_balancing=0\"");
        job.last = Phase::Running;
    };
    "log/ctas-capped" => |job| job.env("NCCL_MAX_CTAS", "1");
    "log/debug-trace" => |job| job.env("NCCL_DEBUG", "TRACE");
    "log/graph-not-found" => |job| {
        job.warn(Phase::Graph, 0, "graph/topo.cc:760", "Add NVLink error : could not find GPU 1b000");
        job.dies_in(Phase::Graph);
    };
    "log/no-transport" => |job| {
        job.warn(Phase::Channels, 0, "transport.cc:52", "No transport found for rank 0[1b000] -> rank 1[2b000]");
        job.dies_in(Phase::Channels);
    };
    "log/affinity-not-set" => |job| {
        job.warn(Phase::Graph, 0, "os/linux.cc:600", "sched_setaffinity failed with error: Invalid argument");
        job.last = Phase::Running;
    };
    "log/internal-error" => |job| {
        job.warn(Phase::Graph, 0, "graph/connect.cc:131", "Internal error : tree already has 3 children (1 2 3)");
        job.dies_in(Phase::Graph);
    };
    "log/unrecognised-failure" => |job| {
        job.warn(Phase::Graph, 0, "misc/strange.cc:17", "Doing the splits failed with outcome 4");
        job.dies_in(Phase::Graph);
    };
    "log/feature-not-used" => |job| {
        job.warn(Phase::Graph, 0, "src/init.cc:1954", "MSCCL++: Cannot enable MSCCL++; environment is not MSCCL compatible");
        job.last = Phase::Running;
    };
    "log/wrong-use" => |job| {
        job.warn(Phase::Init, 0, "init.cc:2607", "Invalid device 9 (totalnDev=8)");
        job.dies_in(Phase::Init);
    };
    "log/unrecognised-warning" => |job| {
        job.warn(Phase::Running, 0, "proxy.cc:405", "A warning that no table knows of");
    };
    "log/framework-reports-nccl" => |job| {
        job.raw(Phase::Failure, 2, "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, NCCL version 2.20.5");
    };
}
