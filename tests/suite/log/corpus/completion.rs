//! Work that the adapters could not complete.

use super::causes;
use super::job::{Job, Launcher, Phase, Version};

const GIDS: &str = "localGid ::ffff:10.1.1.7 remoteGids::ffff:10.1.1.9";

/// A completion with an error, in the release's words; later than the first error the others flush and give up.
fn completion(job: &mut Job, phase: Phase, status: u32, vendor: u32, gids: &str) {
    let rank = job.ranks() - 1;
    let peer = job.hosts[0].address.clone();
    let name = match status {
        1 => "IBV_WC_LOC_LEN_ERR",
        2 => "IBV_WC_LOC_QP_OP_ERR",
        4 => "IBV_WC_LOC_PROT_ERR",
        9 => "IBV_WC_REM_INV_REQ_ERR",
        10 => "IBV_WC_REM_ACCESS_ERR",
        11 => "IBV_WC_REM_OP_ERR",
        12 => "IBV_WC_RETRY_EXC_ERR",
        13 => "IBV_WC_RNR_RETRY_EXC_ERR",
        _ => "IBV_WC_GENERAL_ERR",
    };
    let text = match job.version {
        v if v >= Version(29, 0) => format!(
            "NET/IB: Got completion from peer {peer}<50112> with status={name}({status}) opcode=IBV_WC_RDMA_WRITE(1) vendor_err={vendor} {gids} hca mlx5_1"
        ),
        v if v >= Version(28, 7) => format!(
            "NET/IB: Got completion from peer {peer}<50112> with status={name}({status}) opcode=IBV_WC_RDMA_WRITE(1) reqSize=0 vendor_err={vendor} req_type=Send {gids} hca mlx5_1"
        ),
        v if v >= Version(22, 0) => format!(
            "NET/IB: Got completion from peer {peer}<50112> with status={status} opcode=0 len=0 vendor err {vendor} (Send) {gids} hca mlx5_1"
        ),
        v if v >= Version(17, 2) => format!(
            "NET/IB : Got completion from peer {peer}<50112> with status={status} opcode=0 len=0 vendor err {vendor} (Send) {gids}"
        ),
        v if v >= Version(10, 3) => format!(
            "NET/IB : Got completion from peer {peer}<50112> with error {status}, opcode 0, len 0, vendor err {vendor}"
        ),
        _ => format!(
            "NET/IB : Got completion with error {status}, opcode 0, len 0, vendor err {vendor}"
        ),
    };
    job.warn(phase, rank, "transport/net_ib.cc:1295", text);
    let flushed = match job.version {
        v if v >= Version(17, 2) && v < Version(28, 7) => {
            "NET/IB : Got completion from peer 10.35.4.2<50112> with status=5 opcode=0 len=0 vendor err 249 (Send)"
        }
        v if v >= Version(28, 7) => {
            "NET/IB: Got completion from peer 10.35.4.2<50112> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=IBV_WC_SEND(0) vendor_err=249"
        }
        _ => "NET/IB : Got completion with error 5, opcode 0, len 0, vendor err 249",
    };
    job.warn(Phase::After, 1, "transport/net_ib.cc:1295", flushed);
    job.collapse(rank);
    // A job that fails while it connects neither completes nor computes.
    job.unfinished = phase < Phase::Complete;
}

fn modify(job: &mut Job, name: &str, number: u32) {
    let text = if job.version >= Version(24, 0) {
        let index = job.rng.below(4);
        format!(
            "Call to ibv_modify_qp failed with {number} {name}, on dev mlx5_1:1, curr state INIT, next state RTR, local GID index {index}, local GID ::ffff:10.1.1.7, remote GID ::ffff:10.1.1.9"
        )
    } else if job.version >= Version(19, 0) {
        format!("Call to ibv_modify_qp failed with error {name} errno {number}")
    } else {
        format!("Call to ibv_modify_qp failed with error {name}")
    };
    job.warn(Phase::Channels, 2, "misc/ibvwrap.cc:376", text);
    job.dies_in(Phase::Channels);
}

causes! {
    "log/peer-unreachable" => |job| completion(job, Phase::Channels, 12, 129, GIDS);
    "log/peer-stopped-answering" => |job| {
        // Behind Ray's tag a table is not read; the steps of a training show that it had worked.
        job.tests &= job.launcher != Launcher::Ray;
        completion(job, Phase::Failure, 12, 129, GIDS);
    };
    "log/gid-link-local" => |job| {
        job.version = Version(20, 5);
        job.layer = "RoCE";
        for host in &mut job.hosts {
            host.version = Version(20, 5);
            host.hcas = Some(vec!["mlx5_0:1/RoCE".into(), "mlx5_1:1/RoCE".into()]);
        }
        completion(job, Phase::Channels, 12, 129, "localGid fe80::ba59:9fff:fe11:2233 remoteGids::ffff:10.1.1.9");
    };
    "log/peer-unreachable + log/gid-index-forced" => |job| {
        job.layer = "RoCE";
        for host in &mut job.hosts {
            host.hcas = Some(vec!["mlx5_0:1/RoCE".into(), "mlx5_1:1/RoCE".into()]);
        }
        job.env("NCCL_IB_GID_INDEX", "3");
        completion(job, Phase::Channels, 12, 129, GIDS);
    };
    "log/timeout-shortened" => |job| {
        job.env("NCCL_IB_TIMEOUT", "10");
        completion(job, Phase::Failure, 12, 129, GIDS);
    };
    "log/retries-lowered" => |job| {
        job.env("NCCL_IB_RETRY_CNT", "1");
        completion(job, Phase::Failure, 12, 129, GIDS);
    };
    "log/local-protection-error" => |job| completion(job, Phase::Failure, 4, 81, GIDS);
    "log/remote-access-error" => |job| completion(job, Phase::Failure, 10, 136, GIDS);
    "log/remote-refused-request" => |job| completion(job, Phase::Failure, 9, 138, GIDS);
    "log/receiver-not-ready" => |job| completion(job, Phase::Failure, 13, 135, GIDS);
    "log/length-error" => |job| completion(job, Phase::Channels, 1, 105, GIDS);
    "log/remote-operation-error" => |job| completion(job, Phase::Failure, 11, 137, GIDS);
    "log/local-queue-error" => |job| completion(job, Phase::Failure, 2, 0, GIDS);
    "log/completion-failed" => |job| completion(job, Phase::Failure, 21, 0, GIDS);
    "log/queue-refused" => |job| modify(job, "Invalid argument", 22);
    "log/queue-address-unresolved" => |job| modify(job, "Connection timed out", 110);
    "log/queue-network-unreachable" => |job| modify(job, "Network is unreachable", 101);
    "log/queue-refused + log/partition-index-forced" => |job| {
        job.env("NCCL_IB_PKEY", "1");
        modify(job, "Invalid argument", 22);
    };
    "log/rails-crossed" => |job| {
        job.version = Version(28, 9);
        job.layer = "RoCE";
        for host in &mut job.hosts { host.version = Version(28, 9); }
        job.info(Phase::Channels, 2, "NET/IB: There are mismatched physical devices between local (mlx5_0) and remote (mlx5_3)");
        modify(job, "Connection timed out", 110);
    };
    "log/peer-silent" => |job| {
        // Neither the initialisation nor a step is in the log.
        job.warn_only = true;
        completion(job, Phase::Channels, 12, 129, GIDS);
    };
    "log/work-flushed" => |job| {
        let text = match job.version {
            v if v >= Version(28, 7) => "NET/IB: Got completion from peer 10.35.4.2<50112> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=IBV_WC_SEND(0) vendor_err=249",
            v if v >= Version(17, 2) => "NET/IB : Got completion from peer 10.35.4.2<50112> with status=5 opcode=0 len=0 vendor err 249 (Send)",
            _ => "NET/IB : Got completion with error 5, opcode 0, len 0, vendor err 249",
        };
        job.warn(Phase::Failure, 1, "transport/net_ib.cc:1295", text);
    };
    "log/adapter-given-up" => |job| {
        job.version = Version(30, 7);
        for host in &mut job.hosts { host.version = Version(30, 7); }
        job.warn(Phase::Running, 1, "transport/net_ib/p2p_resiliency.cc:312", "NET/IB: ncclIbResiliencyHandleError: Device 1 marked as failed. (Send comm=0x7f1200)");
    };
    "log/completion-recovered" => |job| {
        job.version = Version(30, 7);
        for host in &mut job.hosts { host.version = Version(30, 7); }
        job.info(Phase::Running, 1, "NET/IB: ncclIbResiliencyHandleCompletionError: Got completion with error (devIndex=1, wc->status=(IBV_WC_RETRY_EXC_ERR)12, wc->opcode=0, qp_num=331)");
    };
}
