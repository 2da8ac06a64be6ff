//! A protection domain, and memory that is registered in it.

use std::ffi::{c_int, c_uint, c_void};
use std::rc::Rc;

use rdma_sys::{ibv_access_flags, ibv_context, ibv_mr, ibv_pd};

use super::context::Context;
use super::memory::Memory;
use super::{function, last_error};
use crate::source::Refusal;

type AllocateDomain = unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd;
type FreeDomain = unsafe extern "C" fn(*mut ibv_pd) -> c_int;
type Register = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
type RegisterAt = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;
type Deregister = unsafe extern "C" fn(*mut ibv_mr) -> c_int;

/// A protection domain; freed when dropped.
pub(in crate::source::live) struct Domain {
    domain: *mut ibv_pd,
    free: FreeDomain,
    context: Rc<Context>,
}

impl Domain {
    /// A new domain of the device.
    #[expect(unsafe_code, reason = "calls libibverbs")]
    pub(in crate::source::live) fn new(context: &Rc<Context>) -> Result<Self, Refusal> {
        // SAFETY: the types are those of verbs.h; the context is open, and stays so as long as the domain.
        unsafe {
            let allocate = function::<AllocateDomain>("ibv_alloc_pd")?;
            let free = function::<FreeDomain>("ibv_dealloc_pd")?;
            let domain = allocate(context.raw());
            if domain.is_null() {
                return Err(last_error());
            }
            Ok(Domain {
                domain,
                free,
                context: Rc::clone(context),
            })
        }
    }

    pub(super) fn raw(&self) -> *mut ibv_pd {
        self.domain
    }

    pub(super) fn context(&self) -> &Rc<Context> {
        &self.context
    }
}

impl Drop for Domain {
    #[expect(unsafe_code, reason = "calls libibverbs")]
    fn drop(&mut self) {
        // SAFETY: the domain came from ibv_alloc_pd and is freed once.
        unsafe { (self.free)(self.domain) };
    }
}

/// Memory that the device may read, and other ranks' devices may write; the registration ends before the memory does.
pub(in crate::source::live) struct Registered {
    region: *mut ibv_mr,
    deregister: Deregister,
    memory: Memory,
    _domain: Rc<Domain>,
}

impl Registered {
    /// Registers memory. Where the library can, the device may order its writes as the PCIe fabric likes best
    /// (`IBV_ACCESS_RELAXED_ORDERING`, as NCCL asks for it): what tells of a write still comes after it.
    #[expect(unsafe_code, reason = "calls libibverbs")]
    pub(in crate::source::live) fn new(
        domain: &Rc<Domain>,
        memory: Memory,
    ) -> Result<Self, Refusal> {
        let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0
            | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        let (start, length) = (memory.start().cast::<c_void>(), memory.length());
        // SAFETY: the types are those of verbs.h; the memory is kept in the same structure, which ends the registration first.
        unsafe {
            let deregister = function::<Deregister>("ibv_dereg_mr")?;
            let region = match function::<RegisterAt>("ibv_reg_mr_iova2") {
                Ok(register) => {
                    let access = access | ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING.0;
                    register(domain.raw(), start, length, start.addr() as u64, access)
                }
                Err(_) => {
                    let register = function::<Register>("ibv_reg_mr")?;
                    register(domain.raw(), start, length, access.cast_signed())
                }
            };
            if region.is_null() {
                return Err(last_error());
            }
            Ok(Registered {
                region,
                deregister,
                memory,
                _domain: Rc::clone(domain),
            })
        }
    }

    /// What this rank's device is told of the memory.
    #[expect(unsafe_code, reason = "reads what libibverbs gave")]
    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: the region is registered as long as `self`.
        unsafe { (*self.region).lkey }
    }

    /// What other ranks' devices are told of it.
    #[expect(unsafe_code, reason = "reads what libibverbs gave")]
    pub(in crate::source::live) fn remote_key(&self) -> u32 {
        // SAFETY: the region is registered as long as `self`.
        unsafe { (*self.region).rkey }
    }

    /// The memory.
    pub(in crate::source::live) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The memory, to be written.
    pub(in crate::source::live) fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

impl Drop for Registered {
    #[expect(unsafe_code, reason = "calls libibverbs")]
    fn drop(&mut self) {
        // SAFETY: the region is deregistered once, before its memory is given back (fields are dropped after this).
        unsafe { (self.deregister)(self.region) };
    }
}
