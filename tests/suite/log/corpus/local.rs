//! GPUs of one node among each other, and their driver.

use super::causes;
use super::job::{Job, Phase, Version};

fn cuda(job: &mut Job, file: &'static str, number: u32, text: &str) {
    let line = if job.version >= Version(19, 0) {
        format!("Cuda failure {number} '{text}'")
    } else {
        format!("Cuda failure '{text}'")
    };
    job.warn(Phase::Init, 1, file, line);
    job.dies_in(Phase::Init);
}

fn cuda_later(job: &mut Job, number: u32, text: &str) {
    let line = if job.version >= Version(19, 0) {
        format!("Cuda failure {number} '{text}'")
    } else {
        format!("Cuda failure '{text}'")
    };
    job.warn(Phase::Failure, 1, "enqueue.cc:1420", line);
    job.collapse(1);
}

/// A release that says which rank a process is before it connects.
fn tells_ranks(job: &mut Job) {
    if job.version < Version(18, 3) {
        job.version = Version(22, 3);
        for host in &mut job.hosts {
            host.version = Version(22, 3);
        }
    }
}

causes! {
    "log/nvlink-peers-disabled" => |job| {
        job.warn(Phase::Graph, 0, "graph/paths.cc:396", "P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be the case given their connectivity, and is probably due to a hardware issue. If you still want to proceed, you can set NCCL_IGNORE_DISABLED_P2P=1.");
        job.dies_in(Phase::Graph);
    };
    "log/peers-disabled" => |job| {
        for host in &mut job.hosts { host.local = "SHM".into(); }
        job.info_all(Phase::Graph, "P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.");
    };
    "log/p2p-disabled" => |job| {
        for host in &mut job.hosts { host.local = "SHM".into(); }
        job.env("NCCL_P2P_DISABLE", "1");
    };
    "log/shm-disabled" => |job| {
        for host in &mut job.hosts { host.local = "NET".into(); }
        job.env("NCCL_SHM_DISABLE", "1");
    };
    "log/peers-partly-over-shm" => |job| {
        if job.version < Version(13, 0) {
            job.version = Version(18, 5);
            for host in &mut job.hosts { host.version = Version(18, 5); }
        }
        job.hosts[1].local = "some".into();
    };
    "log/nvls-not-bound" => |job| {
        job.version = Version(27, 7);
        for host in &mut job.hosts { host.version = Version(27, 7); }
        job.warn(Phase::Graph, 1, "transport/nvls.cc:285", "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 1 'invalid argument'.");
        job.dies_in(Phase::Graph);
    };
    "log/fabric-manager-not-ready" => |job| cuda(job, "init.cc:1510", 802, "system not yet initialized");
    "log/imex-not-permitted" => |job| {
        job.version = Version(27, 7);
        for host in &mut job.hosts { host.version = Version(27, 7); }
        job.warn(Phase::Init, 1, "mnnvl.cc:74", "MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX channel configuration (/dev/nvidia-caps-imex-channels). Set NCCL_MNNVL_ENABLE=0 to ignore this issue.");
        job.dies_in(Phase::Init);
    };
    "log/gpu-taken-twice" => |job| {
        tells_ranks(job);
        job.warn(Phase::Init, 0, "init.cc:974", "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000");
        job.dies_in(Phase::Init);
    };
    "log/gpu-taken-twice-unnamed" => |job| {
        job.version = Version(12, 12);
        for host in &mut job.hosts { host.version = Version(12, 12); }
        job.warn(Phase::Init, 0, "init.cc:974", "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000");
        job.dies_in(Phase::Init);
    };
    "log/hosts-share-identity" => |job| {
        tells_ranks(job);
        let other = job.first_of(1);
        job.warn(Phase::Init, 0, "init.cc:974", format!("Duplicate GPU detected : rank 0 and rank {other} both on CUDA device 1b000"));
        job.dies_in(Phase::Init);
    };
    "log/cuda-driver-too-old" => |job| cuda(job, "init.cc:1510", 35, "CUDA driver version is insufficient for CUDA runtime version");
    "log/gpu-memory-full" => |job| cuda_later(job, 2, "out of memory");
    "log/gpu-program-faulted" => |job| cuda_later(job, 700, "an illegal memory access was encountered");
    "log/gpu-memory-broken" => |job| cuda_later(job, 214, "uncorrectable ECC error encountered");
    "log/gpu-lost" => |job| cuda_later(job, 999, "unknown error");
    "log/driver-library-differs" => |job| {
        job.warn(Phase::Init, 1, "misc/nvmlwrap.cc:142", "nvmlInit_v2() failed: Driver/library version mismatch");
        job.dies_in(Phase::Init);
    };
    "log/p2p-level-lowered" => |job| {
        for host in &mut job.hosts { host.local = "SHM".into(); }
        job.env("NCCL_P2P_LEVEL", "LOC");
    };
    "log/cuda-not-permitted" => |job| cuda(job, "init.cc:1510", 800, "operation not permitted");
    "log/cuda-unusable" => |job| {
        job.warn(Phase::Bootstrap, 0, "misc/cudawrap.cc:285", "CUDA Driver version found is 10020. Minimum requirement is 11030");
        job.dies_in(Phase::Bootstrap);
    };
    "log/cuda-call-failed" => |job| cuda(job, "init.cc:1510", 1, "invalid argument");
    "log/nvml-failed" => |job| {
        job.warn(Phase::Graph, 0, "misc/nvmlwrap.cc:174", "nvmlDeviceGetCudaComputeCapability(0) failed: Unknown Error");
        job.last = Phase::Running;
    };
    "log/mapping-refused" => |job| {
        job.warn(Phase::Channels, 1, "transport/p2p.cc:355", "failed to peer with device 2(=2b000): 201 invalid device context");
        job.dies_in(Phase::Channels);
    };
}
