//! What programs beside NCCL say of RDMA, in the stream of a job.

use super::causes;
use super::job::Phase;

causes! {
    "log/adapter-limit-reached" => |job| job.raw(Phase::Failure, 1, "[88412.330172] mlx5_core 0000:c1:00.0: mlx5_cmd_out_err:838:(pid 4410): CREATE_MKEY(0x200) op_mod(0x0) failed, status limits exceeded(0x8), syndrome (0x59c8a4), err(-11)");
    "log/threads-exhausted" => |job| job.raw(Phase::Failure, 1, "RuntimeError: can't start new thread");
    "log/queue-gid-empty" => |job| job.raw(Phase::Failure, 1, "E1117 20:40:12.551904 91214 rdma_endpoint.cpp:402] [Handshake] Failed to modify QP to RTR, check mtu, gid, peer lid, peer qp num: No data available [61]");
    "log/peer-memory-missing" => |job| job.raw(Phase::Failure, 1, "/src/modules/transport/ibrc/ibrc.cpp:nvshmemt_init:1851: neither nv_peer_mem, or nvidia_peermem detected. Skipping transport.");
    "log/port-not-active" => |job| job.raw(Phase::Failure, 1, " Port number 1 state is Down");
    "log/rdmacm-unresolved" => |job| job.raw(Phase::Failure, 1, "cma event RDMA_CM_EVENT_ADDR_ERROR, error -19");
    "log/rdmacm-rejected" => |job| job.raw(Phase::Failure, 1, "nvme_rdma.c: 546:nvme_rdma_validate_cm_event: *ERROR*: Expected RDMA_CM_EVENT_ESTABLISHED but received RDMA_CM_EVENT_REJECTED (8) from CM event channel (status = 8)");
    "log/transport-not-started" => |job| job.raw(Phase::Failure, 1, "/src/host/transport/transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA");
    "log/engine-stuck" => |job| job.raw(Phase::Failure, 1, "[2025-09-05 03:53:37 TP2] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)");
    "log/address-is-loopback" => |job| job.raw(Phase::Failure, 1, "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:14215");
}
