//! A protection domain, and memory that is registered in it.

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::rc::Rc;

use rdma_sys::{ibv_access_flags, ibv_context, ibv_mr, ibv_pd};

use super::context::Context;
use super::pair::Target;
use super::{function, last_error};
use crate::live::pages::PageMemory;
use crate::source::Refusal;

type AllocateDomain = unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd;
type FreeDomain = unsafe extern "C" fn(*mut ibv_pd) -> c_int;
type Register = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
type RegisterAt = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;
/// Since rdma-core 34.
type RegisterFile = unsafe extern "C" fn(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;
type Deregister = unsafe extern "C" fn(*mut ibv_mr) -> c_int;

/// A protection domain; freed when dropped.
pub(crate) struct Domain {
    domain: *mut ibv_pd,
    free: FreeDomain,
    context: Rc<Context>,
}

impl Domain {
    /// A new domain of the device.
    #[expect(unsafe_code, reason = "calls libibverbs")]
    pub(crate) fn new(context: &Rc<Context>) -> Result<Self, Refusal> {
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

/// What the device may do: read, and let other ranks' devices write. The device may order its writes as the PCIe fabric likes best, if the library can
/// ask for it (`IBV_ACCESS_RELAXED_ORDERING`, as NCCL does): what tells of a write still comes after it.
const ACCESS: u32 =
    ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0 | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
const RELAXED: u32 = ACCESS | ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING.0;

/// A registration: a stretch of addresses that the device may read, and other ranks' devices may write. Ends when dropped, before the memory does.
struct Region {
    region: *mut ibv_mr,
    deregister: Deregister,
    _domain: Rc<Domain>,
}

impl Region {
    /// Registers addresses of this process, or of a GPU where a module of the kernel knows them as such.
    #[expect(unsafe_code, reason = "calls libibverbs")]
    fn register_addresses(domain: &Rc<Domain>, start: u64, length: usize) -> Result<Self, Refusal> {
        // Not followed as a pointer: the driver gets a number, which it looks up.
        let pointer = std::ptr::without_provenance_mut::<c_void>(start as usize);
        // SAFETY: the types are those of verbs.h; addresses that are no memory are refused.
        unsafe {
            let deregister = function::<Deregister>("ibv_dereg_mr")?;
            let region = match function::<RegisterAt>("ibv_reg_mr_iova2") {
                Ok(register) => register(domain.raw(), pointer, length, start, RELAXED),
                Err(_) => {
                    let register = function::<Register>("ibv_reg_mr")?;
                    register(domain.raw(), pointer, length, ACCESS.cast_signed())
                }
            };
            Self::given(domain, region, deregister)
        }
    }

    /// Registers memory that is a file, as if it were at these addresses. The file may be closed afterwards.
    #[expect(unsafe_code, reason = "calls libibverbs")]
    fn register_dma_buf(
        domain: &Rc<Domain>,
        file: BorrowedFd<'_>,
        start: u64,
        length: usize,
    ) -> Result<Self, Refusal> {
        // SAFETY: the types are those of verbs.h; the file is open for the call.
        unsafe {
            let deregister = function::<Deregister>("ibv_dereg_mr")?;
            let register = function::<RegisterFile>("ibv_reg_dmabuf_mr")?;
            let (file, access) = (file.as_raw_fd(), RELAXED.cast_signed());
            let region = register(domain.raw(), 0, length, start, file, access);
            Self::given(domain, region, deregister)
        }
    }

    fn given(
        domain: &Rc<Domain>,
        region: *mut ibv_mr,
        deregister: Deregister,
    ) -> Result<Self, Refusal> {
        if region.is_null() {
            return Err(last_error());
        }
        Ok(Region {
            region,
            deregister,
            _domain: Rc::clone(domain),
        })
    }
}

impl Drop for Region {
    #[expect(unsafe_code, reason = "calls libibverbs")]
    fn drop(&mut self) {
        // SAFETY: the region is deregistered once.
        unsafe { (self.deregister)(self.region) };
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
    #[expect(unsafe_code, reason = "reads what libibverbs gave")]
    pub(crate) fn near(&self) -> Target {
        Target {
            address: self.memory.address(),
            // SAFETY: the region is registered as long as `self`.
            key: unsafe { (*self.region.region).lkey },
        }
    }

    /// Where it is, and the key to it: for other ranks' devices.
    #[expect(unsafe_code, reason = "reads what libibverbs gave")]
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
