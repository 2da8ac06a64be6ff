//! What adapters, ports and the fabric report while the job runs.

use super::causes;
use super::job::{Job, Phase, Version};

/// The event, while the job runs.
fn event(job: &mut Job, text: &str) {
    let rank = job.rng.below(job.ranks());
    let (file, line) = match job.version {
        v if v >= Version(28, 7) => (
            "transport/net_ib/common.cc:179",
            format!("NET/IB : mlx5_1:1 Got non-fatal async event: {text}(10)"),
        ),
        v if v >= Version(23, 4) => (
            "transport/net_ib.cc:212",
            format!("NET/IB : mlx5_1:1 Got async error event: {text}"),
        ),
        v if v >= Version(20, 3) => (
            "transport/net_ib.cc:103",
            format!("NET/IB : mlx5_1:1 Got async event : {text}"),
        ),
        _ => (
            "transport/net_ib.cc:95",
            format!("NET/IB : Got async event : {text}"),
        ),
    };
    job.warn(Phase::Running, rank, file, line);
}

/// What a rank says of a RoCE connection that it makes.
fn connection(version: Version, mtu: u32, gid: &str) -> String {
    match version {
        v if v >= Version(29, 7) => format!(
            "NET/IB: ncclIbConnect: NCCL Dev 0 IbDev 0 Port 1 qp_num 74 mtu {mtu} GID {gid} ctsFifoRkey=0x1 ctsFifoLkey=0x1"
        ),
        v if v >= Version(20, 3) => format!(
            "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 74 mtu {mtu} query_ece={{supported=1, vendor_id=0x15b3, options=0x30000002, comp_mask=0x0}} GID {gid} fifoRkey=0x1 fifoLkey=0x1"
        ),
        _ => format!("NET/IB: Dev 0 Port 1 qpn 74 mtu {mtu} GID {gid}"),
    }
}

/// A peer that no longer answers, and what follows.
fn unanswered(job: &mut Job) {
    let rank = job.ranks() - 1;
    let text = match job.version {
        v if v >= Version(28, 7) => {
            "NET/IB: Got completion from peer 10.35.4.2<50112> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129"
        }
        v if v >= Version(17, 2) => {
            "NET/IB : Got completion from peer 10.35.4.2<50112> with status=12 opcode=0 len=0 vendor err 129 (Send)"
        }
        _ => "NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129",
    };
    job.warn(Phase::Failure, rank, "transport/net_ib.cc:1295", text);
    job.collapse(rank);
}

causes! {
    "log/queue-mtu-small" => |job| {
        let gid = "3 (0/208230AFFFF0000)";
        job.info_all(Phase::Channels, &connection(job.version, 3, gid));
    };
    "log/queue-link-local" => |job| {
        let gid = "0 (80FE/2E1DFFFE8BB39E42)";
        job.info_all(Phase::Channels, &connection(job.version, 5, gid));
    };
    "log/port-flapped" => |job| { event(job, "port error"); unanswered(job); };
    "log/subnet-manager-changed" => |job| { event(job, "client reregistration"); unanswered(job); };
    "log/partition-changed" => |job| { event(job, "P_Key change"); unanswered(job); };
    "log/adapter-failed" => |job| {
        let rank = job.rng.below(job.ranks());
        if job.version >= Version(23, 4) {
            job.warn(Phase::Failure, rank, "transport/net_ib.cc:123", "NET/IB : mlx5_1:1 async fatal event: local catastrophic error");
        } else {
            event(job, "local catastrophic error");
        }
        job.collapse(rank);
    };
    "log/queue-broken" => |job| {
        job.version = Version(26, 2);
        for host in &mut job.hosts { host.version = Version(26, 2); }
        job.warn(Phase::Failure, 2, "transport/net_ib.cc:137", "NET/IB : mlx5_1:1 async fatal event on QP (0x7f10c0012340): local access violation work queue error");
        job.collapse(2);
    };
    "log/gid-table-changed" => |job| {
        job.version = Version(28, 9);
        for host in &mut job.hosts { host.version = Version(28, 9); }
        job.warn(Phase::Failure, 1, "transport/net_ib/common.cc:153", "NET/IB : mlx5_1:1 GID table changed");
    };
    "log/collective-timed-out" => |job| {
        job.raw(Phase::Failure, 3, "[rank3]:[E1121 10:44:11.104313226 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1921, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.");
    };
    "log/collectives-differ" => |job| {
        job.raw(Phase::Failure, 3, "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running collective: CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=7, OpType=BROADCAST).");
    };
    "log/collectives-differ" => |job| {
        job.warn(Phase::Init, 2, "bootstrap.cc:236", "Message truncated : received 1032 bytes instead of 8");
        job.dies_in(Phase::Init);
    };
    "log/process-ended" => |job| {
        job.launcher_says(Phase::Failure, "srun: error: node07: task 1: Killed");
        job.collapse(1);
    };
    "log/results-wrong" => |job| {
        job.tests = false;
        job.raw(Phase::Failure, 0, "  1073741824     268435456     float     sum      -1   4810.2  223.22  418.54  81920   4806.9  223.38  418.83  81920");
        job.raw(Phase::Failure, 0, "# Out of bounds values : 2 FAILED");
    };
}
