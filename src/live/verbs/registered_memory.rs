//! Registered memory: the host's or a GPU's.

use std::ops::Range;
use std::rc::Rc;

use super::failure::LibraryCall;
use super::gpu::{self, Gpu, Pages};
use super::library::domain::{Addressed, Domain, Registered};
use super::library::pair::Target;
use crate::live::failure::Failure;
use crate::live::pages::PageMemory;
use crate::measure::plan::reply::GpuMemory;
use crate::source::Refusal;

/// Registered memory, by its place.
pub(crate) enum RegisteredMemory {
    Host(Registered),
    Gpu(Registered<Pages>),
}

impl RegisteredMemory {
    /// Allocates and registers host memory.
    pub(crate) fn new_host(domain: &Rc<Domain>, length: usize) -> Result<Self, Failure> {
        let what = format!("{length} bytes");
        let memory = PageMemory::new(length).map_err(Refusal::Errno);
        let registered = Registered::new(domain, memory.in_call("mmap", &what)?);
        let registered =
            (registered.map_err(|(refusal, _)| refusal)).in_call("ibv_reg_mr", &what)?;
        Ok(RegisteredMemory::Host(registered))
    }

    /// Allocates and registers GPU memory. `tried` gets how it was registered, or why not.
    pub(crate) fn new_gpu(
        domain: &Rc<Domain>,
        gpu: &Rc<Gpu>,
        length: usize,
        tried: impl FnOnce(GpuMemory),
    ) -> Result<Self, Failure> {
        gpu::register(domain, gpu, length, tried).map(RegisteredMemory::Gpu)
    }

    /// How many bytes there are.
    pub(crate) fn length(&self) -> usize {
        match self {
            RegisteredMemory::Host(registered) => registered.memory().length(),
            RegisteredMemory::Gpu(registered) => registered.memory().length(),
        }
    }

    /// As this device knows it.
    pub(crate) fn local_target(&self) -> Target {
        match self {
            RegisteredMemory::Host(registered) => registered.near(),
            RegisteredMemory::Gpu(registered) => registered.near(),
        }
    }

    /// The memory's address and key for the other end's device.
    pub(crate) fn remote_target(&self) -> Target {
        match self {
            RegisteredMemory::Host(registered) => registered.far(),
            RegisteredMemory::Gpu(registered) => registered.far(),
        }
    }

    /// Puts bytes into it.
    pub(crate) fn write(&mut self, range: Range<usize>, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            RegisteredMemory::Host(registered) => {
                let place = registered.memory_mut().write(range);
                let length = place.len().min(bytes.len());
                place[..length].copy_from_slice(&bytes[..length]);
                Ok(())
            }
            RegisteredMemory::Gpu(registered) => {
                let length = range.len().min(bytes.len());
                registered.memory().copy_in(range.start, &bytes[..length])
            }
        }
    }

    /// Sets every byte of a range.
    pub(crate) fn set(&mut self, range: Range<usize>, byte: u8) -> Result<(), Failure> {
        match self {
            RegisteredMemory::Host(registered) => {
                registered.memory_mut().write(range).fill(byte);
                Ok(())
            }
            RegisteredMemory::Gpu(registered) => registered.memory().set(range, byte),
        }
    }

    /// Reads a range, after all that arrived.
    pub(crate) fn get(&self, range: Range<usize>, into: &mut [u8]) -> Result<(), Failure> {
        match self {
            RegisteredMemory::Host(registered) => {
                let bytes = registered.memory().read(range);
                into[..bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            RegisteredMemory::Gpu(registered) => {
                let memory = registered.memory();
                memory.flush()?;
                let length = range.len().min(into.len());
                memory.get(range.start, &mut into[..length])
            }
        }
    }
}
