//! A reliable connection to another rank: a queue pair, and work for it.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::net::Ipv6Addr;
use std::ptr;
use std::rc::Rc;

use rdma_sys::{
    ibv_access_flags, ibv_ah_attr, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_init_attr,
    ibv_qp_state, ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode,
};

use super::completion::CompletionQueue;
use super::domain::Domain;
use super::{made, status};
use crate::source::Refusal;

functions! {
    ibv_create_qp(domain: *mut ibv_pd, wish: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_modify_qp(pair: *mut ibv_qp, to: *mut ibv_qp_attr, which: c_int) -> c_int;
    ibv_destroy_qp(pair: *mut ibv_qp) -> c_int;
}

/// How often a packet is sent again to a receiver that has no room.
const RETRIES: u8 = 6;
/// How long a sender waits if the receiver has no room: 0.64 ms.
const RECEIVER_WAIT: u8 = 12;

/// How long and how often a queue pair tries to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempts {
    /// An acknowledgement may take 4.096 µs times 2 to the power of this.
    pub(crate) timeout: u8,
    /// How often packets are sent again.
    pub(crate) retries: u8,
}

/// The attempts of a measurement: 1.1 s for an acknowledgement, as NCCL had it from 2.14 to 2.22. On a machine whose processors are all at work, soft-RoCE may
/// well need a tenth of it; and where it sends again what is still under way, it may refuse it. Seven retries soft-RoCE takes for endless ones.
pub(crate) const MEASURED: Attempts = Attempts {
    timeout: 18,
    retries: 6,
};

/// The attempts of a trial whose failure somebody waits for: an eighth of the time, which a machine
/// that is not overloaded keeps easily.
pub(crate) const TRIED: Attempts = Attempts {
    timeout: 15,
    ..MEASURED
};

/// The port of this side, and what its packets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalEndpoint {
    pub(crate) port: u8,
    pub(crate) gid_index: u8,
    pub(crate) pkey_index: u16,
    pub(crate) service_level: u8,
    pub(crate) traffic_class: u8,
    /// The number of the first packet.
    pub(crate) first_packet: u32,
}

/// The other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemoteEndpoint {
    /// The queue pair's number.
    pub(crate) pair: u32,
    /// The number of its first packet.
    pub(crate) first_packet: u32,
    /// The largest packets that both ports carry: `enum ibv_mtu`.
    pub(crate) mtu: u32,
    /// Its address in an InfiniBand subnet; zero over Ethernet.
    pub(crate) lid: u16,
    /// Its global address; `None` if the subnet's address is enough.
    pub(crate) gid: Option<Ipv6Addr>,
}

/// Where memory is: an address, and the key to it. A write comes from one and goes to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) address: u64,
    pub(crate) key: u32,
}

/// A queue pair of a reliable connection; destroyed when dropped.
pub(crate) struct QueuePair {
    pair: *mut ibv_qp,
    domain: Rc<Domain>,
    _queue: Rc<CompletionQueue>,
}

/// A structure of numbers and pointers, all zero.
macro_rules! zeroed {
    ($type:ty) => {{
        // SAFETY: a structure of verbs.h: numbers, for which zero is valid, and pointers, which may be null.
        unsafe { MaybeUninit::<$type>::zeroed().assume_init() }
    }};
}

impl QueuePair {
    /// A queue pair with room for this many sends and receives that are not done yet.
    pub(crate) fn new(
        domain: &Rc<Domain>,
        queue: &Rc<CompletionQueue>,
        sends: u32,
        receives: u32,
    ) -> Result<Self, Refusal> {
        let mut wish = zeroed!(ibv_qp_init_attr);
        wish.send_cq = queue.raw();
        wish.recv_cq = queue.raw();
        wish.cap.max_send_wr = sends;
        wish.cap.max_recv_wr = receives;
        wish.cap.max_send_sge = 1;
        wish.cap.max_recv_sge = 1;
        wish.qp_type = ibv_qp_type::IBV_QPT_RC;
        // SAFETY: domain and queue live as long as the pair.
        let pair = made(unsafe { ibv_create_qp(domain.raw(), &raw mut wish)? })?;
        Ok(QueuePair {
            pair,
            domain: Rc::clone(domain),
            _queue: Rc::clone(queue),
        })
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: the pair lives as long as `self`.
        unsafe { (*self.pair).qp_num }
    }

    fn modify(&self, mut to: ibv_qp_attr, which: &[ibv_qp_attr_mask]) -> Result<(), Refusal> {
        let mask = which.iter().fold(0, |mask, bit| mask | bit.0);
        // SAFETY: the pair lives; the attributes live for the call.
        status(unsafe { ibv_modify_qp(self.pair, &raw mut to, mask.cast_signed())? })
    }

    /// Takes it to INIT: receives may be posted.
    pub(crate) fn initialise(&self, near: &LocalEndpoint) -> Result<(), Refusal> {
        let mut to = zeroed!(ibv_qp_attr);
        to.qp_state = ibv_qp_state::IBV_QPS_INIT;
        to.pkey_index = near.pkey_index;
        to.port_num = near.port;
        to.qp_access_flags = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        let which = [
            ibv_qp_attr_mask::IBV_QP_STATE,
            ibv_qp_attr_mask::IBV_QP_PKEY_INDEX,
            ibv_qp_attr_mask::IBV_QP_PORT,
            ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS,
        ];
        self.modify(to, &which)
    }

    /// Takes it to RTR: it knows the other side, and receives.
    pub(crate) fn ready_to_receive(
        &self,
        near: &LocalEndpoint,
        far: &RemoteEndpoint,
    ) -> Result<(), Refusal> {
        let mut way = zeroed!(ibv_ah_attr);
        way.port_num = near.port;
        way.sl = near.service_level;
        way.dlid = far.lid;
        if let Some(gid) = far.gid {
            way.is_global = 1;
            way.grh.dgid.raw = gid.octets();
            way.grh.sgid_index = near.gid_index;
            way.grh.hop_limit = 255;
            way.grh.traffic_class = near.traffic_class;
        }
        let mut to = zeroed!(ibv_qp_attr);
        to.qp_state = ibv_qp_state::IBV_QPS_RTR;
        to.ah_attr = way;
        to.path_mtu = far.mtu;
        to.dest_qp_num = far.pair;
        to.rq_psn = far.first_packet;
        to.max_dest_rd_atomic = 1;
        to.min_rnr_timer = RECEIVER_WAIT;
        let which = [
            ibv_qp_attr_mask::IBV_QP_STATE,
            ibv_qp_attr_mask::IBV_QP_AV,
            ibv_qp_attr_mask::IBV_QP_PATH_MTU,
            ibv_qp_attr_mask::IBV_QP_DEST_QPN,
            ibv_qp_attr_mask::IBV_QP_RQ_PSN,
            ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC,
            ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER,
        ];
        self.modify(to, &which)
    }

    /// Takes it to RTS: it sends, too.
    pub(crate) fn ready_to_send(
        &self,
        near: &LocalEndpoint,
        attempts: Attempts,
    ) -> Result<(), Refusal> {
        let mut to = zeroed!(ibv_qp_attr);
        to.qp_state = ibv_qp_state::IBV_QPS_RTS;
        to.timeout = attempts.timeout;
        to.retry_cnt = attempts.retries;
        to.rnr_retry = RETRIES;
        to.sq_psn = near.first_packet;
        to.max_rd_atomic = 1;
        let which = [
            ibv_qp_attr_mask::IBV_QP_STATE,
            ibv_qp_attr_mask::IBV_QP_TIMEOUT,
            ibv_qp_attr_mask::IBV_QP_RETRY_CNT,
            ibv_qp_attr_mask::IBV_QP_RNR_RETRY,
            ibv_qp_attr_mask::IBV_QP_SQ_PSN,
            ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC,
        ];
        self.modify(to, &which)
    }

    /// Has room for one arrival more: a message, or a write that tells of itself. Neither has data for this side to place.
    pub(crate) fn receive(&self, id: u64) -> Result<(), Refusal> {
        let mut work = ibv_recv_wr {
            wr_id: id,
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            num_sge: 0,
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the pair's context is open and its table of functions filled; the provider copies the work before it returns.
        let code = unsafe {
            let post = (*self.domain.context().raw()).ops.post_recv;
            let post = post.ok_or_else(|| Refusal::SymbolMissing("post_recv".into()))?;
            post(self.pair, &raw mut work, &raw mut bad)
        };
        status(code)
    }

    fn post(&self, mut work: ibv_send_wr) -> Result<(), Refusal> {
        work.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        let mut bad = ptr::null_mut();
        // SAFETY: as in `receive`; what the work refers to lives for the call, and registered memory until the work is done.
        let code = unsafe {
            let post = (*self.domain.context().raw()).ops.post_send;
            let post = post.ok_or_else(|| Refusal::SymbolMissing("post_send".into()))?;
            post(self.pair, &raw mut work, &raw mut bad)
        };
        status(code)
    }

    /// Writes a range of memory, which begins at `from`, to the other rank, and tells it with a number if there is one. The memory is the device's until the
    /// work is done.
    pub(crate) fn write(
        &self,
        id: u64,
        from: Target,
        range: std::ops::Range<usize>,
        to: Target,
        number: Option<u32>,
    ) -> Result<(), Refusal> {
        let mut piece = ibv_sge {
            addr: from.address + range.start as u64,
            length: u32::try_from(range.len()).unwrap_or(0),
            lkey: from.key,
        };
        let mut work = zeroed!(ibv_send_wr);
        work.wr_id = id;
        work.sg_list = &raw mut piece;
        work.num_sge = 1;
        work.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
        if let Some(number) = number {
            work.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
            work.imm_data_invalidated_rkey_union.imm_data = number.to_be();
        }
        work.wr.rdma.remote_addr = to.address;
        work.wr.rdma.rkey = to.key;
        self.post(work)
    }

    /// Tells the other rank a number.
    pub(crate) fn send_immediate(&self, id: u64, number: u32) -> Result<(), Refusal> {
        let mut work = zeroed!(ibv_send_wr);
        work.wr_id = id;
        work.opcode = ibv_wr_opcode::IBV_WR_SEND_WITH_IMM;
        work.imm_data_invalidated_rkey_union.imm_data = number.to_be();
        self.post(work)
    }

    /// Writes nothing, of which the other rank hears nothing: its device acknowledges it as long as the connection lives.
    pub(crate) fn probe_liveness(&self, id: u64, at: Target) -> Result<(), Refusal> {
        let mut work = zeroed!(ibv_send_wr);
        work.wr_id = id;
        work.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
        work.wr.rdma.remote_addr = at.address;
        work.wr.rdma.rkey = at.key;
        self.post(work)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: the pair came from ibv_create_qp and is destroyed once.
        let _ = unsafe { ibv_destroy_qp(self.pair) };
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// The sizes of rdma-core's `verbs.h` on 64-bit machines: rdma-sys declares some of these by hand.
    #[test]
    fn layout_is_that_of_rdma_core() {
        assert_eq!(size_of::<ibv_send_wr>(), 128);
        assert_eq!(offset_of!(ibv_send_wr, wr), 40);
        assert_eq!(size_of::<rdma_sys::ibv_wc>(), 48);
        assert_eq!(size_of::<ibv_ah_attr>(), 32);
        assert_eq!(size_of::<ibv_qp_attr>(), 144);
        assert_eq!(size_of::<ibv_recv_wr>(), 32);
    }
}
