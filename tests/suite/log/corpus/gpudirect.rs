//! GPUs' memory and adapters.

use super::causes;
use super::job::{Job, Phase, Version};

fn recent(job: &mut Job) {
    if job.version < Version(19, 0) {
        job.version = Version(22, 3);
        for host in &mut job.hosts {
            host.version = Version(22, 3);
        }
    }
}

causes! {
    "log/gpudirect-off-for-adapter" => |job| {
        recent(job);
        job.subsystems = true;
        job.without_gdr();
    };
    "log/gpudirect-too-far" => |job| {
        recent(job);
        job.subsystems = false;
        job.without_gdr();
        job.info_all(Phase::Graph, "GPU Direct RDMA Disabled for GPU 1b000 / HCA 1 (distance 7 > 4)");
    };
    "log/gpudirect-level-lowered" => |job| {
        recent(job);
        job.subsystems = false;
        job.without_gdr();
        job.env("NCCL_NET_GDR_LEVEL", "LOC");
    };
    "log/gpudirect-read-off" => |job| {
        recent(job);
        job.subsystems = false;
        for host in &mut job.hosts { host.gdr_send = false; }
        job.env("NCCL_NET_GDR_READ", "0");
    };
    "log/gpudirect-unused" => |job| {
        recent(job);
        job.subsystems = false;
        job.without_gdr();
    };
    "log/gpudirect-missing-on-host" => |job| {
        recent(job);
        job.subsystems = false;
        let last = job.hosts.len() - 1;
        job.hosts[last].gdr_send = false;
        job.hosts[last].gdr_receive = false;
    };
    "log/dmabuf-disabled" => |job| {
        recent(job);
        job.subsystems = false;
        job.without_gdr();
        job.env("NCCL_DMABUF_ENABLE", "0");
    };
    "log/dmabuf-refused" => |job| {
        recent(job);
        job.warn(Phase::Channels, 1, "misc/ibvwrap.cc:127", "Call to ibv_reg_dmabuf_mr failed with error Operation not supported errno 95");
        job.dies_in(Phase::Channels);
    };
    "log/gpu-memory-not-registered" => |job| {
        job.warn(Phase::Channels, 1, "misc/ibvwrap.cc:113", "Call to ibv_reg_mr_iova2 failed with error Bad address errno 14");
        job.dies_in(Phase::Channels);
    };
    "log/relaxed-ordering-off" => |job| {
        if job.version < Version(12, 0) {
            job.version = Version(18, 5);
            for host in &mut job.hosts { host.version = Version(18, 5); }
        }
        job.relaxed = false;
        job.env("NCCL_IB_PCI_RELAXED_ORDERING", "0");
    };
    "log/gdrcopy-failed" => |job| {
        job.warn(Phase::Init, 1, "misc/gdrwrap.cc:133", "gdr_pin_buffer(addr 7f1200000000, size 65536) failed: 12");
        job.last = Phase::Running;
    };
}
