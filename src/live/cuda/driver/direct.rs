//! What other devices need of a GPU's memory, to read and write it by themselves.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    self, CUdevice_attribute, CUdeviceptr, CUflushGPUDirectRDMAWritesScope,
    CUflushGPUDirectRDMAWritesTarget, CUmemRangeHandleType, CUstream,
};

use super::{Context, DeviceMemory, Failure, Stream, attribute, symbol};
use crate::source::{Errno, Refusal};

functions! {
    cuMemGetHandleForAddressRange(handle: *mut c_void, pointer: CUdeviceptr, bytes: usize, kind: CUmemRangeHandleType, flags: c_ulonglong);
    cuFlushGPUDirectRDMAWrites(target: CUflushGPUDirectRDMAWritesTarget, scope: CUflushGPUDirectRDMAWritesScope);
    cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
}

impl Context {
    /// An attribute of its device.
    pub(crate) fn attribute(self, of: CUdevice_attribute) -> Result<i32, Failure> {
        attribute(of, self.device)
    }

    /// Waits until what other devices wrote into the GPU's memory is there for the work of this context.
    pub(crate) fn flush_writes(self) -> Result<(), Failure> {
        self.enter()?;
        let target =
            CUflushGPUDirectRDMAWritesTarget::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX;
        let scope = CUflushGPUDirectRDMAWritesScope::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER;
        // SAFETY: it takes no pointer.
        unsafe { cuFlushGPUDirectRDMAWrites(target, scope) }
    }
}

impl DeviceMemory {
    /// Whole pages of it as a DMA-BUF: a file that drivers of other devices map.
    pub(crate) fn dma_buf(&self, at: usize, bytes: usize) -> Result<OwnedFd, Failure> {
        self.context.enter()?;
        let from = self.room(at, bytes)?;
        let mut file: c_int = -1;
        let kind = CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        // SAFETY: the range lies in the memory; of this kind, the driver writes a file descriptor, for which there is room.
        unsafe {
            cuMemGetHandleForAddressRange((&raw mut file).cast(), from, bytes, kind, 0)?;
        }
        if file < 0 {
            return Err(Failure::Refused(Refusal::Errno(Errno::EBADF)));
        }
        // SAFETY: the driver gave a new descriptor, which is this caller's to close.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }
}

impl Stream {
    /// Copies within a device's memory, and waits until it is done. The ranges do not overlap.
    pub(crate) fn shift(
        &self,
        memory: &DeviceMemory,
        from: usize,
        to: usize,
        bytes: usize,
    ) -> Result<(), Failure> {
        self.context.enter()?;
        let (from, to) = (memory.room(from, bytes)?, memory.room(to, bytes)?);
        // SAFETY: both ranges lie in the memory, which lives until the copy is done.
        unsafe { cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream)? };
        self.wait()
    }
}
