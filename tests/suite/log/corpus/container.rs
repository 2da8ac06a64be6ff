//! Limits, permissions and what a container hides.

use super::causes;
use super::job::{Phase, Version};

causes! {
    "log/memlock-exhausted" => |job| {
        let rank = job.rng.below(job.ranks());
        let text = if job.version >= Version(19, 0) {
            "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12"
        } else {
            "Call to ibv_reg_mr failed with error Cannot allocate memory"
        };
        job.warn(Phase::Channels, rank, "misc/ibvwrap.cc:113", text);
        job.dies_in(Phase::Channels);
    };
    "log/queue-not-created" => |job| {
        job.warn(Phase::Channels, 2, "misc/ibvwrap.cc:88", "Call to ibv_create_qp failed with error Cannot allocate memory errno 12");
        job.dies_in(Phase::Channels);
    };
    "log/shm-full" => |job| {
        let text = if job.version >= Version(22, 0) {
            "Error: failed to extend /dev/shm/nccl-Y7pX2a to 33030532 bytes, error: No space left on device (28)"
        } else {
            "Error: failed to extend /dev/shm/nccl-Y7pX2a to 33030532 bytes"
        };
        job.warn(Phase::Channels, 4, "misc/shmutils.cc:72", text);
        job.dies_in(Phase::Channels);
    };
    "log/shm-removed" => |job| {
        job.warn(Phase::Channels, 4, "misc/shmutils.cc:157", "unlink shared memory /dev/shm/nccl-Y7pX2a failed, error: No such file or directory (2)");
        job.dies_in(Phase::Channels);
    };
    "log/bus-error" => |job| {
        let host = job.hosts[0].name.clone();
        job.raw(Phase::Failure, 1, format!("[{host}:31017] *** Process received signal ***"));
        job.raw(Phase::Failure, 1, format!("[{host}:31017] Signal: Bus error (7)"));
        job.collapse(1);
    };
    "log/gid-of-another-namespace" => |job| {
        job.version = Version(22, 3);
        job.layer = "RoCE";
        for host in &mut job.hosts { host.version = Version(22, 3); }
        job.warn(Phase::Channels, 2, "transport/net_ib.cc:252", "NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument");
        job.dies_in(Phase::Channels);
    };
    "log/queue-no-such-device" => |job| {
        job.warn(Phase::Channels, 2, "misc/ibvwrap.cc:376", "Call to ibv_modify_qp failed with error No such device errno 19");
        job.dies_in(Phase::Channels);
    };
    "log/queue-not-permitted" => |job| {
        job.warn(Phase::Channels, 2, "misc/ibvwrap.cc:376", "Call to ibv_modify_qp failed with error Operation not permitted errno 1");
        job.dies_in(Phase::Channels);
    };
    "log/topology-unreadable" => |job| {
        job.info_all(Phase::Graph, "Topology detection : could not read /sys/devices/system/node/node0/cpumap, ignoring");
    };
    "log/topology-file-missing" => |job| {
        job.env("NCCL_TOPO_FILE", "/opt/microsoft/ndv4-topo.xml");
        job.warn(Phase::Graph, 0, "graph/xml.cc:378", "Could not open XML topology file /opt/microsoft/ndv4-topo.xml : No such file or directory");
        job.last = Phase::Running;
    };
    "log/local-over-network" => |job| {
        for host in &mut job.hosts { host.local = "NET".into(); }
    };
    "log/out-of-memory" => |job| {
        let host = job.hosts[0].name.clone();
        job.launcher_says(Phase::Failure, &format!("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.0 on {host}. Some of the step tasks have been OOM Killed."));
        job.collapse(1);
    };
    "log/verbs-call-failed" => |job| {
        job.warn(Phase::Channels, 2, "misc/ibvwrap.cc:60", "Call to ibv_query_gid failed with error Input/output error errno 5");
        job.dies_in(Phase::Channels);
    };
}
