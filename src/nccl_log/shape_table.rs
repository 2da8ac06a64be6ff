//! Failures of RDMA's user space and of what runs on it, in the words of the programs that print them: UCX, libfabric, Open MPI, MVAPICH, NVSHMEM,
//! Mooncake, NIXL, libsharp, librdmacm, libibverbs, perftest, SPDK, Ceph, Gloo, Ray, vLLM, SGLang.
//!
//! A row is a shape, and not a program: the class, the call of libibverbs that the words stand for, and what a line of it holds. The first row that
//! fits counts.

use std::sync::LazyLock;

use super::event_table::fits;
use super::grams::Grams;

/// A row.
pub(super) struct Shape {
    pub(super) class: &'static str,
    /// `ibv_reg_mr`, if the line says that in words of its own; empty if it stands for none.
    pub(super) call: &'static str,
    needles: &'static [&'static str],
}

/// What a line must hold to be of a shape: of each row the longest needle.
pub(super) fn needles() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().filter_map(|shape| {
        let longest = shape.needles.iter().max_by_key(|needle| needle.len());
        longest.copied()
    })
}

/// Most lines have none of them: one look spares the rows.
static ANY: LazyLock<Grams> = LazyLock::new(|| Grams::new(needles()));

/// The first shape of a line.
pub(super) fn position(line: &[u8]) -> Option<usize> {
    let hit = ANY.find(line, 0, line.len())?;
    if is_quoted(line.get(..hit.at)?) {
        return None;
    }
    SHAPES.iter().position(|shape| fits(shape.needles, line))
}

/// Whether what follows is in quotation marks, as source code and manuals have messages; the value of a field does too, and is none.
fn is_quoted(before: &[u8]) -> bool {
    let count = |mark: u8| memchr::memchr_iter(mark, before).count();
    if count(b'`') % 2 == 1 {
        return true;
    }
    let opening = memchr::memrchr(b'"', before).filter(|_| count(b'"') % 2 == 1);
    let field = |at: usize| {
        let before = before.get(..at).unwrap_or(&[]);
        matches!(before.last(), None | Some(b',' | b'=' | b':')) || before.ends_with(b": ")
    };
    opening.is_some_and(|at| !field(at))
}

/// The row of this number.
pub(super) fn row(at: usize) -> Option<&'static Shape> {
    SHAPES.get(at)
}

const REG: &str = "ibv_reg_mr";
const QP: &str = "ibv_create_qp";
const CQ: &str = "ibv_create_cq";
const RTR: &str = "ibv_modify_qp";

const fn call(class_call: (&'static str, &'static str), needles: &'static [&'static str]) -> Shape {
    Shape {
        class: class_call.0,
        call: class_call.1,
        needles,
    }
}

const fn shape(class: &'static str, needles: &'static [&'static str]) -> Shape {
    call((class, ""), needles)
}

const fn verbs(name: &'static str, needles: &'static [&'static str]) -> Shape {
    call(("verbs-call", name), needles)
}

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    // What an adapter has no more of, as its driver says it.
    shape("adapter-limit", &["status limits exceeded"]),
    shape("adapter-limit", &["Failed to process command", "comp_status 1 "]),
    // A request that ended with an error: libibverbs' words (ibv_wc_status_str), UCX's, libmlx5's.
    shape("completion", &["(synd 0x", "vend 0x"]),
    shape("completion", &["got completion with error:"]),
    shape("async-fatal", &["async event", "catastrophic error"]),
    shape("async-fatal", &["async event", "CQ error"]),
    shape("async-fatal", &["CQ error on CQN"]),
    shape("async-fatal", &["IBV_EVENT_QP_FATAL"]),
    shape("async-fatal", &["IBV_EVENT_CQ_ERR"]),
    shape("completion", &["retry counter exceeded"]),
    shape("completion", &["local protection error"]),
    shape("completion", &["local QP operation error"]),
    shape("completion", &["local length error"]),
    shape("completion", &["local access error"]),
    shape("completion", &["remote invalid request error"]),
    shape("completion", &["remote access error"]),
    shape("completion", &["remote operation error"]),
    shape("completion", &["Work Request Flushed Error"]),
    shape("completion", &["Process failed for slice", "general error"]),
    shape("completion", &["IBV_WC_", "_ERR"]),
    shape("completion", &["error polling ", "CQ with status"]),
    shape("completion", &["Unresponsive receiver"]),
    shape("mtu-mismatch", &["MTU mismatch with peer", "remote"]),
    // A queue that does not become ready to receive or to send.
    verbs(RTR, &["odify", "QP", "RTR"]),
    verbs(RTR, &["odify", "QP", "RTS"]),
    verbs(RTR, &["odify", "QP", "INIT"]),
    verbs(RTR, &["ailed to modify QP"]),
    verbs(RTR, &["ibv_modify_qp(", "failed"]),
    verbs(RTR, &["status: ", "ibv_modify_qp failed"]),
    verbs(RTR, &["ibv_modify_qp: "]),
    verbs(RTR, &["devx_obj_modify", "RTR"]),
    verbs("ibv_create_ah", &["Unable to create ah"]),
    verbs("ibv_create_ah", &["ibv_create_ah", "failed"]),
    // Memory that cannot be registered.
    verbs(REG, &["max locked memory (ulimit -l)"]),
    verbs(REG, &["ibv_reg_", ") failed"]),
    verbs(REG, &["ibv_reg_", "failed: "]),
    verbs(REG, &["ibv_reg_", "failed with "]),
    verbs(REG, &["ibv_reg_", "annot allocate memory"]),
    verbs(REG, &["status: ", "ibv_reg_mr failed"]),
    verbs(REG, &["ibv_reg_mr: "]),
    verbs(REG, &["ailed to register memory", "["]),
    verbs(REG, &["ailed to register memory", "annot allocate memory"]),
    verbs(REG, &["BTL failed to register memory"]),
    verbs(REG, &["fi_mr_reg", "ret="]),
    verbs(REG, &["ouldn't allocate MR"]),
    shape("gpu-memory-host", &["memory is detected as host"]),
    shape("gpu-memory-host", &["detected as host by UCX"]),
    // Queues that cannot be made.
    verbs(CQ, &["ibv_create_cq", "failed"]),
    verbs(CQ, &["mlx5dv_devx_obj_create(CQ) failed"]),
    verbs(CQ, &["ailed to create a completion queue"]),
    verbs(QP, &["ibv_create_qp", "failed"]),
    verbs(QP, &["mlx5dv_devx_obj_create", "failed"]),
    verbs(QP, &["rdma_create_qp"]),
    verbs(QP, &["ailed to create QP"]),
    verbs(QP, &["ailed to create qp: "]),
    verbs(QP, &["nable to create QP"]),
    // Devices.
    shape("provider-missing", &["libibverbs: Warning: no userspace"]),
    shape("provider-missing", &["libibverbs: Warning: couldn't load driver"]),
    shape("provider-missing", &["does not support the kernel ABI of"]),
    shape("ib-none", &["No IB devices found"]),
    shape("ib-none", &["no RDMA devices found"]),
    shape("ib-none", &["Did not detect devices"]),
    shape("ib-none", &["ibv_get_device_list", "ailed"]),
    shape("device-open", &["ibv_open_device", "failed"]),
    shape("device-open", &["ail to open rdma device"]),
    shape("device-open", &["ailed to open", "RDMA device"]),
    shape("port-not-active", &["Port number ", "state is Down"]),
    shape("port-not-active", &["no active port"]),
    shape("port-not-active", &["No active HCAs found"]),
    shape("peer-memory-missing", &["nv_peer_mem", "nvidia_peermem detected"]),
    shape("peer-memory-missing", &["could not insert 'nv_peer_mem'"]),
    shape("peer-memory-missing", &["could not insert 'nvidia_peermem'"]),
    // Connections by addresses of IP.
    shape("rdmacm-unresolved", &["RDMA_CM_EVENT_ADDR_ERROR", "rror"]),
    shape("rdmacm-unresolved", &["received event RDMA_CM_EVENT_ROUTE_ERROR"]),
    shape("rdmacm-unresolved", &["received event RDMA_CM_EVENT_ADDR_ERROR"]),
    shape("rdmacm-unresolved", &["received event RDMA_CM_EVENT_UNREACHABLE"]),
    shape("rdmacm-unresolved", &["received RDMA_CM_EVENT_ADDR_ERROR"]),
    shape("rdmacm-unresolved", &["received RDMA_CM_EVENT_ROUTE_ERROR"]),
    shape("rdmacm-unresolved", &["received RDMA_CM_EVENT_UNREACHABLE"]),
    shape("rdmacm-unresolved", &["rdma_resolve_", "failed"]),
    shape("rdmacm-unresolved", &["rdma_resolve_addr: "]),
    shape("rdmacm-unresolved", &["rdma_resolve_route: "]),
    shape("rdmacm-rejected", &["received event RDMA_CM_EVENT_REJECTED"]),
    shape("rdmacm-rejected", &["received RDMA_CM_EVENT_REJECTED"]),
    shape("rdmacm-rejected", &["cma event RDMA_CM_EVENT_REJECTED"]),
    shape("rdmacm-rejected", &["Connect rejected: status"]),
    // Transports above.
    shape("no-transport", &["no active messages transport to"]),
    shape("no-transport", &["Peer GPU ", "is not accessible, exiting"]),
    shape("no-transport", &["MPI processes are unable to reach each other"]),
    shape("transport-failed", &["init failed for transport"]),
    shape("transport-failed", &["cannot allocate mlx5dv_devx_uar"]),
    shape("no-transport", &["UCX  ERROR", "no usable transports/devices"]),
    shape("peer-closed", &["NIXL_ERR_REMOTE_DISCONNECT"]),
    shape("transport-failed", &["nvshmem", "Unable to initialize any transports"]),
    shape("transport-failed", &["non-zero status: ", "connect EPS failed"]),
    shape("ofi-call", &["OFI poll failed ("]),
    shape("ofi-call", &["err: ", "My EFA addr: "]),
    shape("ofi-failed", &["fi_getinfo", "output empty list"]),
    shape("ofi-failed", &["fi_getinfo failed"]),
    shape("ofi-failed", &["fi_getinfo() call failed"]),
    shape("collnet-failed", &["ERROR", "sharp_get_"]),
    shape("collnet-failed", &["ERROR", "collect_ports_data"]),
    shape("collnet-failed", &["sharp_coll_init", "ailed"]),
    // Addresses of TCP.
    shape("name-resolution", &["[c10d]", "network addresses of", "cannot be retrieved"]),
    shape("socket-failed", &["failed to listen on any local network address"]),
    shape("bootstrap-no-interface", &["Unable to find interface for"]),
    shape("bootstrap-no-interface", &["Unable to find address for"]),
    shape("connect-failed", &["connectFullMesh failed"]),
    shape("connect-failed", &["rdma connection establishment failed ("]),
    shape("connect-failed", &["RDMA connect error -"]),
    shape("peer-closed", &["gloo/transport/tcp/", "onnection closed by peer"]),
    shape("peer-closed", &["gloo/transport/tcp/", "onnection reset by peer"]),
    shape("connect-failed", &["was unable to complete a TCP connection"]),
    shape("connect-failed", &["Message: ", "connect() to ", "failed"]),
    shape("torch-store", &["Timed out after ", "waiting for clients. ", "clients joined"]),
    shape("connect-failed", &["gloo/transport/tcp/", "onnect"]),
    // CUDA and ROCm, by text, by number and by name.
    shape("cuda", &["Test CUDA failure"]),
    shape("cuda", &["Test HIP failure"]),
    shape("cuda", &["Failed to initialize NVML: Unknown Error"]),
    shape("cuda", &["No CUDA GPUs are available"]),
    shape("cuda", &["HIP error: "]),
    shape("cuda", &["cuda runtime error ("]),
    shape("cuda", &["CUDA error at ", "code="]),
    shape("cuda", &["CUDA failure ", ": "]),
    shape("cuda", &["failed: CUDA_ERROR_CONTAINED"]),
    shape("cuda-memory", &["failed: CUDA_ERROR_OUT_OF_MEMORY"]),
    // Engines and what runs them.
    shape("torch-timeout", &["failed to pass monitoredBarrier in"]),
    shape("torch-timeout", &["horovod/common/stall_inspector", "is stalled for longer than"]),
    shape("torch-timeout", &["DeepEP ", " timeout, channel: "]),
    shape("torch-timeout", &["DeepEP error: ", "timeout"]),
    shape("shared-memory", &["Please check that /dev/shm"]),
    shape("bus-error", &["insufficient shared memory (shm)"]),
    shape("engine-stuck", &["atchdog timeout (self.watchdog_timeout"]),
    shape("engine-stuck", &["RPC call to ", " timed out"]),
    shape("out-of-memory", &["killed due to memory pressure (OOM)"]),
    shape("out-of-memory", &["due to the node running low on memory"]),
    shape("process-ended", &["A worker died or was killed while executing"]),
    shape("process-ended", &["Remote daemon: [[", "on node "]),
    shape("process-ended", &["slurmstepd: error:", "DUE TO NODE FAILURE"]),
    shape("process-ended", &["srun: error: Node failure on"]),
    shape("process-ended", &["Caught signal ", "(Segmentation fault"]),
    shape("process-ended", &["Worker exit type: SYSTEM_ERROR"]),
];
