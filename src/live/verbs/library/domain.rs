//! A protection domain, and memory that is registered in it.

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::rc::Rc;

use rdma_sys::{ibv_access_flags, ibv_context, ibv_mr, ibv_pd};

use super::context::Context;
use super::made;
use super::pair::Target;
use crate::live::pages::PageMemory;
use crate::source::Refusal;

functions! {
    ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd(domain: *mut ibv_pd) -> c_int;
    ibv_reg_mr(domain: *mut ibv_pd, start: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr;
    ibv_reg_mr_iova2(domain: *mut ibv_pd, start: *mut c_void, length: usize, as_if: u64, access: c_uint) -> *mut ibv_mr;
    // Since rdma-core 34.
    ibv_reg_dmabuf_mr(domain: *mut ibv_pd, offset: u64, length: usize, as_if: u64, file: c_int, access: c_int) -> *mut ibv_mr;
    ibv_dereg_mr(region: *mut ibv_mr) -> c_int;
}

/// A protection domain; freed when dropped.
pub(crate) struct Domain {
    domain: *mut ibv_pd,
    context: Rc<Context>,
}

impl Domain {
    /// A new domain of the device.
    pub(crate) fn new(context: &Rc<Context>) -> Result<Self, Refusal> {
        // SAFETY: the context is open, and stays so as long as the domain.
        let domain = made(unsafe { ibv_alloc_pd(context.raw())? })?;
        Ok(Domain {
            domain,
            context: Rc::clone(context),
        })
    }

    pub(super) fn raw(&self) -> *mut ibv_pd {
        self.domain
    }

    pub(super) fn context(&self) -> &Rc<Context> {
        &self.context
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: the domain came from ibv_alloc_pd and is freed once.
        let _ = unsafe { ibv_dealloc_pd(self.domain) };
    }
}

/// What the device may do: read, and let other ranks' devices write. The device may order its writes as the PCIe fabric likes best, if the library can
/// ask for it (`IBV_ACCESS_RELAXED_ORDERING`, as NCCL does): what tells of a write still comes after it.
const ACCESS: u32 =
    ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0 | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
const RELAXED: u32 = ACCESS | ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING.0;

/// A registration: a stretch of addresses that the device may read, and other ranks' devices may write. Ends when dropped, before the memory does.
struct Region {
    region: *mut ibv_mr,
    _domain: Rc<Domain>,
}

impl Region {
    /// Registers addresses of this process, or of a GPU where a module of the kernel knows them as such.
    fn register_addresses(domain: &Rc<Domain>, start: u64, length: usize) -> Result<Self, Refusal> {
        // Not followed as a pointer: the driver gets a number, which it looks up.
        let pointer = std::ptr::without_provenance_mut::<c_void>(start as usize);
        // SAFETY: addresses that are no memory are refused.
        let region = unsafe {
            match ibv_reg_mr_iova2(domain.raw(), pointer, length, start, RELAXED) {
                Ok(region) => region,
                Err(_) => ibv_reg_mr(domain.raw(), pointer, length, ACCESS.cast_signed())?,
            }
        };
        Self::given(domain, region)
    }

    /// Registers memory that is a file, as if it were at these addresses. The file may be closed afterwards.
    fn register_dma_buf(
        domain: &Rc<Domain>,
        file: BorrowedFd<'_>,
        start: u64,
        length: usize,
    ) -> Result<Self, Refusal> {
        let (file, access) = (file.as_raw_fd(), RELAXED.cast_signed());
        // SAFETY: the file is open for the call.
        let region = unsafe { ibv_reg_dmabuf_mr(domain.raw(), 0, length, start, file, access)? };
        Self::given(domain, region)
    }

    fn given(domain: &Rc<Domain>, region: *mut ibv_mr) -> Result<Self, Refusal> {
        Ok(Region {
            region: made(region)?,
            _domain: Rc::clone(domain),
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region is deregistered once.
        let _ = unsafe { ibv_dereg_mr(self.region) };
    }
}

/// Memory that a device knows by its addresses: it keeps them until it is dropped, and is not moved by being handed around.
pub(crate) trait Addressed {
    /// The address of its first byte, for another rank's device.
    fn address(&self) -> u64;

    /// How many bytes there are.
    fn length(&self) -> usize;
}

impl Addressed for PageMemory {
    fn address(&self) -> u64 {
        PageMemory::address(self)
    }

    fn length(&self) -> usize {
        PageMemory::length(self)
    }
}

/// Memory that is registered: the host's, or a GPU's. Fields are dropped in their order: the registration ends before the memory does.
pub(crate) struct Registered<M = PageMemory> {
    region: Region,
    memory: M,
}

impl<M: Addressed> Registered<M> {
    /// Registers memory by its addresses; gives it back if that fails.
    pub(crate) fn new(domain: &Rc<Domain>, memory: M) -> Result<Self, (Refusal, M)> {
        match Region::register_addresses(domain, memory.address(), memory.length()) {
            Ok(region) => Ok(Registered { region, memory }),
            Err(refusal) => Err((refusal, memory)),
        }
    }

    /// Registers memory, of which this file is the whole, by that; gives it back if that fails.
    pub(crate) fn by_file(
        domain: &Rc<Domain>,
        memory: M,
        file: BorrowedFd<'_>,
    ) -> Result<Self, (Refusal, M)> {
        match Region::register_dma_buf(domain, file, memory.address(), memory.length()) {
            Ok(region) => Ok(Registered { region, memory }),
            Err(refusal) => Err((refusal, memory)),
        }
    }

    /// Where it is, and the key to it: for this rank's device.
    pub(crate) fn near(&self) -> Target {
        Target {
            address: self.memory.address(),
            // SAFETY: the region is registered as long as `self`.
            key: unsafe { (*self.region.region).lkey },
        }
    }

    /// Where it is, and the key to it: for other ranks' devices.
    pub(crate) fn far(&self) -> Target {
        Target {
            address: self.memory.address(),
            // SAFETY: the region is registered as long as `self`.
            key: unsafe { (*self.region.region).rkey },
        }
    }

    /// The memory.
    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory, to be written.
    pub(crate) fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }
}
