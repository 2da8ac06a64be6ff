//! What became of work that a device was given.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use rdma_sys::{ibv_comp_channel, ibv_context, ibv_cq, ibv_wc, ibv_wc_opcode};

use super::context::Context;
use super::{last_error, made, status};
use crate::source::{Errno, Refusal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

functions! {
    ibv_create_cq(
        context: *mut ibv_context, room: c_int, tag: *mut c_void, channel: *mut ibv_comp_channel, vector: c_int
    ) -> *mut ibv_cq;
    ibv_destroy_cq(queue: *mut ibv_cq) -> c_int;
    ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    ibv_get_cq_event(channel: *mut ibv_comp_channel, queue: *mut *mut ibv_cq, tag: *mut *mut c_void) -> c_int;
    ibv_ack_cq_events(queue: *mut ibv_cq, count: c_uint) -> ();
}

/// How many completions are taken at once.
const AT_ONCE: usize = 32;

/// What arrived, if the work was a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Nothing: this rank's own work is done.
    Nothing,
    /// A message without data, and its number.
    Message(u32),
    /// An RDMA write with an immediate, and the immediate.
    Write(u32),
}

/// Work that is done, or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The id of the work request.
    pub(crate) id: u64,
    /// `enum ibv_wc_status`: zero if it was done.
    pub(crate) status: u32,
    /// The vendor's error code.
    pub(crate) vendor: u32,
    /// What arrived.
    pub(crate) arrived: Arrival,
}

/// A queue of completions, which can be waited for; destroyed when dropped.
pub(crate) struct CompletionQueue {
    queue: *mut ibv_cq,
    channel: *mut ibv_comp_channel,
    context: Rc<Context>,
}

impl CompletionQueue {
    /// A queue with room for so many.
    pub(crate) fn new(context: &Rc<Context>, room: usize) -> Result<Self, Refusal> {
        let room = c_int::try_from(room).map_err(|_| Refusal::Errno(Errno::EINVAL))?;
        // SAFETY: the types are those of verbs.h; the context is open, and stays so as long as the queue.
        unsafe {
            let channel = made(ibv_create_comp_channel(context.raw())?)?;
            let queue = ibv_create_cq(context.raw(), room, ptr::null_mut(), channel, 0);
            let queue = queue.and_then(made).inspect_err(|_| {
                let _ = ibv_destroy_comp_channel(channel);
            })?;
            Ok(CompletionQueue {
                queue,
                channel,
                context: Rc::clone(context),
            })
        }
    }

    pub(super) fn raw(&self) -> *mut ibv_cq {
        self.queue
    }

    /// Requests a wake-up by the next completion. Earlier ones wake nothing: the queue must be polled once more before the wait.
    pub(crate) fn arm(&self) -> Result<(), Refusal> {
        // SAFETY: the context is open and its table of functions filled; the queue lives.
        let code = unsafe {
            let arm = (*self.context.raw()).ops.req_notify_cq;
            let arm = arm.ok_or_else(|| Refusal::SymbolMissing("req_notify_cq".into()))?;
            arm(self.queue, 0)
        };
        status(code)
    }

    /// Waits until the queue, which is armed, wakes this thread, or so long.
    pub(crate) fn wait(&self, at_most: Duration) -> Result<(), Refusal> {
        // SAFETY: the channel lives, and its descriptor is open as long as it does.
        let descriptor = unsafe { BorrowedFd::borrow_raw((*self.channel).fd) };
        let mut waits = [PollFd::new(&descriptor, PollFlags::IN)];
        let limit = Timespec {
            tv_sec: at_most.as_secs().cast_signed(),
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        match poll(&mut waits, Some(&limit)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(Refusal::Errno(Errno(error.raw_os_error()))),
        }
        let (mut queue, mut with) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel lives and has an event, so that the call does not wait; each event is acknowledged, as the queue's end needs it.
        unsafe {
            if ibv_get_cq_event(self.channel, &raw mut queue, &raw mut with)? != 0 {
                return Err(last_error());
            }
            ibv_ack_cq_events(queue, 1)?;
        }
        Ok(())
    }

    /// Takes what is there; says how many there were. Does not wait.
    pub(crate) fn poll(&self, mut each: impl FnMut(Completion)) -> Result<usize, Refusal> {
        let mut taken = [const { MaybeUninit::<ibv_wc>::uninit() }; AT_ONCE];
        // SAFETY: the context is open and its table of functions filled; the provider fills as many entries as it says it did.
        let count = unsafe {
            let poll = (*self.context.raw()).ops.poll_cq;
            let poll = poll.ok_or_else(|| Refusal::SymbolMissing("poll_cq".into()))?;
            poll(self.queue, AT_ONCE as c_int, taken.as_mut_ptr().cast())
        };
        let count = usize::try_from(count).map_err(|_| last_error())?;
        for entry in taken.iter().take(count) {
            // SAFETY: the provider filled the first `count`; all fields are numbers.
            let entry = unsafe { entry.assume_init_ref() };
            // SAFETY: the union's members are both numbers of 32 bits.
            let number = || u32::from_be(unsafe { entry.imm_data_invalidated_rkey_union.imm_data });
            // If work failed, only its id, its status and the vendor's number are there.
            let arrived = match entry.opcode {
                _ if entry.status != 0 => Arrival::Nothing,
                ibv_wc_opcode::IBV_WC_RECV => Arrival::Message(number()),
                ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM => Arrival::Write(number()),
                _ => Arrival::Nothing,
            };
            each(Completion {
                id: entry.wr_id,
                status: entry.status,
                vendor: entry.vendor_err,
                arrived,
            });
        }
        Ok(count)
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: the queue came from ibv_create_cq and is destroyed once. Where a queue pair still refers to it the call is refused, and
        // nothing happens.
        unsafe {
            let _ = ibv_destroy_cq(self.queue);
            let _ = ibv_destroy_comp_channel(self.channel);
        }
    }
}

/// A completion's status, in the words of `ibv_wc_status_str` of rdma-core, and its name in `verbs.h`.
pub(crate) fn status_words(status: u32) -> (&'static str, &'static str) {
    const STATUSES: &[(u32, &str, &str)] =
        include!(concat!(env!("OUT_DIR"), "/completion.statuses.rs"));
    let found = STATUSES.iter().find(|(number, ..)| *number == status);
    found.map_or(("unknown status", "?"), |(_, words, name)| (words, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma_sys::ibv_wc_status;

    #[test]
    fn each_status_has_the_name_of_verbs_h() {
        for (status, name) in [
            (ibv_wc_status::IBV_WC_SUCCESS, "IBV_WC_SUCCESS"),
            (ibv_wc_status::IBV_WC_LOC_PROT_ERR, "IBV_WC_LOC_PROT_ERR"),
            (ibv_wc_status::IBV_WC_WR_FLUSH_ERR, "IBV_WC_WR_FLUSH_ERR"),
            (
                ibv_wc_status::IBV_WC_REM_ACCESS_ERR,
                "IBV_WC_REM_ACCESS_ERR",
            ),
            (ibv_wc_status::IBV_WC_RETRY_EXC_ERR, "IBV_WC_RETRY_EXC_ERR"),
            (
                ibv_wc_status::IBV_WC_RNR_RETRY_EXC_ERR,
                "IBV_WC_RNR_RETRY_EXC_ERR",
            ),
            (ibv_wc_status::IBV_WC_FATAL_ERR, "IBV_WC_FATAL_ERR"),
            (ibv_wc_status::IBV_WC_GENERAL_ERR, "IBV_WC_GENERAL_ERR"),
            (
                ibv_wc_status::IBV_WC_TM_RNDV_INCOMPLETE,
                "IBV_WC_TM_RNDV_INCOMPLETE",
            ),
        ] {
            assert_eq!(status_words(status).1, name);
        }
        assert_eq!(status_words(12).0, "transport retry counter exceeded");
        assert_eq!(status_words(99), ("unknown status", "?"));
    }
}
