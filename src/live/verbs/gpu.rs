//! Memory of a GPU that adapters read and write: GPUDirect RDMA.
//!
//! There are two ways. By DMA-BUF (`cuMemGetHandleForAddressRange`, `ibv_reg_dmabuf_mr`) the GPU's driver hands the memory out as a file, which the adapter's
//! driver maps: it takes CUDA 11.7, a driver whose kernel modules export it (NVIDIA's open ones), Linux 5.12 and rdma-core 34. By peer memory the RDMA core
//! asks a module (`nvidia_peermem`) what the addresses are that it is told. NCCL tries them in this order, too (`src/transport/net.cc`, `ncclIbRegMrDmaBuf`).

use std::ops::Range;
use std::os::fd::AsFd;
use std::rc::Rc;

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;

use super::library::domain::{Addressed, Domain, Registered};
use crate::live::cuda;
use crate::live::cuda::driver::{self, Context, DeviceMemory, Stream};
use crate::live::failure::Failure;
use crate::measure::plan::reply::{GpuMemory, GpuMemoryAccess};
use crate::source::{Errno, Refusal};

/// Memory is handed out in whole pages: the GPU's have 64 KiB, the host's as much at most.
const PAGE: usize = 64 << 10;
/// `CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER`: from here on what an adapter wrote is there for the GPU's work without more ado.
const ORDERED: i32 = 100;
/// `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST`: `cuFlushGPUDirectRDMAWrites` can be called.
const FLUSHES: i32 = 1;
/// `CUDA_ERROR_INVALID_VALUE`: how a driver says that it does not know an attribute.
const INVALID_VALUE: u32 = 1;

/// A GPU that is taken.
pub(crate) struct Gpu {
    context: Context,
    stream: Stream,
    /// Whether an adapter's writes must be flushed before they are read.
    flushes: bool,
}

impl Gpu {
    /// Takes the GPU at a PCI address.
    pub(crate) fn open(pci: &str) -> Result<Self, Failure> {
        cuda::ready().map_err(driver::Failure::from)?;
        driver::init()?;
        let context = Context::of(cuda::device_at(pci)?)?;
        let said = |of| context.attribute(of).unwrap_or(0);
        let ordering = said(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
        let options = said(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
        Ok(Gpu {
            context,
            stream: Stream::new(context)?,
            flushes: ordering < ORDERED && options & FLUSHES != 0,
        })
    }
}

/// Pages of a GPU's memory.
pub(crate) struct Pages {
    memory: DeviceMemory,
    /// Where they begin in it.
    start: usize,
    length: usize,
    gpu: Rc<Gpu>,
}

impl Addressed for Pages {
    fn address(&self) -> u64 {
        self.memory.address() + self.start as u64
    }

    fn length(&self) -> usize {
        self.length
    }
}

impl Pages {
    /// Allocates bytes, rounded up to pages; one page at least.
    fn new(gpu: &Rc<Gpu>, length: usize) -> Result<Self, Failure> {
        let length = length.max(1).next_multiple_of(PAGE);
        let memory = DeviceMemory::new(gpu.context, length + PAGE)?;
        let at = usize::try_from(memory.address()).unwrap_or(0);
        Ok(Pages {
            start: at.next_multiple_of(PAGE) - at,
            length,
            memory,
            gpu: Rc::clone(gpu),
        })
    }

    /// Copies from ordinary memory of the host.
    pub(crate) fn copy_in(&self, at: usize, from: &[u8]) -> Result<(), Failure> {
        let put = self.gpu.stream.put(&self.memory, self.start + at, from);
        Ok(put?)
    }

    /// Copies to ordinary memory of the host.
    pub(crate) fn get(&self, at: usize, into: &mut [u8]) -> Result<(), Failure> {
        Ok((self.gpu.stream).get(&self.memory, self.start + at, into)?)
    }

    /// Sets every byte of a range.
    pub(crate) fn set(&self, range: Range<usize>, byte: u8) -> Result<(), Failure> {
        let (at, bytes) = (self.start + range.start, range.len());
        if bytes > 0 {
            self.gpu.stream.set(&self.memory, at, bytes, byte)?;
        }
        Ok(())
    }

    /// Copies one range over another one of the same length.
    pub(crate) fn copy(&self, from: Range<usize>, to: Range<usize>) -> Result<(), Failure> {
        let (source, target) = (self.start + from.start, self.start + to.start);
        let bytes = from.len().min(to.len());
        if bytes > 0 {
            (self.gpu.stream).shift(&self.memory, source, target, bytes)?;
        }
        Ok(())
    }

    /// Waits until what adapters wrote is there for the GPU's copies.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        if self.gpu.flushes {
            self.gpu.context.flush_writes()?;
        }
        Ok(())
    }
}

/// Why DMA-BUF failed, where the driver does not say that it can, or does not know the question: what that means, or what helps.
fn no_attribute(said: Result<i32, driver::Failure>) -> Option<Failure> {
    const NAME: &str = "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED";
    let failed = |words: String| Failure::new("cuDeviceGetAttribute", words);
    match said {
        Ok(0) => Some(failed(format!(
            "{NAME} is 0: NVIDIA's open kernel modules on Linux 5.12 or newer export it"
        ))),
        Ok(_) => None,
        Err(driver::Failure::Code {
            code: INVALID_VALUE,
            ..
        }) => {
            let words =
                format!("this driver does not know {NAME}, those of CUDA 11.7 and newer do");
            Some(failed(words).code(INVALID_VALUE))
        }
        Err(failure) => Some(no_file("cuDeviceGetAttribute", failure)),
    }
}

/// The same where CUDA gives no file.
fn no_file(function: &str, failure: driver::Failure) -> Failure {
    match failure {
        driver::Failure::Refused(Refusal::SymbolMissing(name)) => Failure::new(
            function,
            format!("libcuda.so.1 has no {name}, that of CUDA 11.7 and newer has it"),
        ),
        driver::Failure::Refused(refusal) => Failure::new(function, refusal.to_string()),
        driver::Failure::Code { function, code } => {
            Failure::new(function, driver::error_name(code)).code(code)
        }
    }
}

/// The same where verbs do not take it.
fn not_registered(refusal: Refusal) -> Failure {
    const FUNCTION: &str = "ibv_reg_dmabuf_mr";
    match refusal {
        Refusal::SymbolMissing(_) => Failure::new(
            FUNCTION,
            format!("libibverbs.so.1 has no {FUNCTION}, that of rdma-core 34 and newer has it"),
        ),
        Refusal::Errno(errno) => {
            let mut words = errno.meaning();
            // libibverbs says one where the adapter's provider lacks it, the kernel the other.
            if matches!(errno, Errno::EOPNOTSUPP | Errno::ENOSYS) {
                words.push_str(", the adapter's driver takes no DMA-BUF");
            }
            Failure::new(FUNCTION, words).code(errno.0)
        }
        refusal => Failure::new(FUNCTION, refusal.to_string()),
    }
}

/// Why peer memory was not the way.
fn no_peer_memory(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Errno(errno @ Errno::EFAULT) => format!(
            "ibv_reg_mr: {}, no module of the kernel knows the address as a GPU's (`modprobe nvidia_peermem`)",
            errno.meaning()
        ),
        refusal => format!("ibv_reg_mr: {refusal}"),
    }
}

/// Registers GPU memory by the first method that works. `tried` gets the outcome of each.
///
/// # Errors
///
/// Not enough memory, or no way: the function that refused DMA-BUF, and why it was not peer memory.
pub(crate) fn register(
    domain: &Rc<Domain>,
    gpu: &Rc<Gpu>,
    length: usize,
    tried: impl FnOnce(GpuMemory),
) -> Result<Registered<Pages>, Failure> {
    let pages = Pages::new(gpu, length)?;
    let (obstacle, pages) = match by_dma_buf(domain, pages) {
        Ok(registered) => {
            tried(GpuMemory {
                way: Some(GpuMemoryAccess::DmaBuf),
                ..GpuMemory::default()
            });
            return Ok(registered);
        }
        Err(refused) => *refused,
    };
    let no_dma_buf = Some(obstacle.to_string());
    match Registered::new(domain, pages) {
        Ok(registered) => {
            tried(GpuMemory {
                way: Some(GpuMemoryAccess::PeerMemory),
                no_dma_buf,
                no_peer_memory: None,
            });
            Ok(registered)
        }
        Err((refusal, _)) => {
            let peer = no_peer_memory(&refusal);
            let error = format!("{}; peer memory fails too: {peer}", obstacle.error);
            tried(GpuMemory {
                way: None,
                no_dma_buf,
                no_peer_memory: Some(peer),
            });
            Err(Failure { error, ..obstacle })
        }
    }
}

fn by_dma_buf(
    domain: &Rc<Domain>,
    pages: Pages,
) -> Result<Registered<Pages>, Box<(Failure, Pages)>> {
    let supported = Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;
    if let Some(obstacle) = no_attribute(pages.gpu.context.attribute(supported)) {
        return Err(Box::new((obstacle, pages)));
    }
    let file = match pages.memory.dma_buf(pages.start, pages.length) {
        Ok(file) => file,
        Err(failure) => {
            let obstacle = no_file("cuMemGetHandleForAddressRange", failure);
            return Err(Box::new((obstacle, pages)));
        }
    };
    Registered::by_file(domain, pages, file.as_fd())
        .map_err(|(refusal, pages)| Box::new((not_registered(refusal), pages)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_obstacle_says_which_function_and_what_helps() {
        let of = |said| no_attribute(said).map(|o| (o.function, o.code, o.error));
        assert!(of(Ok(1)).is_none());
        let (function, code, words) = of(Ok(0)).unwrap();
        assert_eq!((&*function, code), ("cuDeviceGetAttribute", None));
        assert!(words.contains("DMA_BUF_SUPPORTED is 0") && words.contains("open kernel modules"));
        let unknown = driver::Failure::Code {
            function: "cuDeviceGetAttribute",
            code: INVALID_VALUE,
        };
        let (_, code, words) = of(Err(unknown)).unwrap();
        assert_eq!(code, Some(1));
        assert!(words.contains("CUDA 11.7"), "{words}");
        let missing = Refusal::SymbolMissing("cuMemGetHandleForAddressRange".into());
        let of = no_file("cuMemGetHandleForAddressRange", missing.into());
        assert!(
            of.error
                .contains("libcuda.so.1 has no cuMemGetHandleForAddressRange")
        );
        let of = not_registered(Refusal::SymbolMissing("ibv_reg_dmabuf_mr".into()));
        assert!(of.error.contains("rdma-core 34"), "{}", of.error);
        let of = not_registered(Refusal::Errno(Errno::EOPNOTSUPP));
        assert_eq!((&*of.function, of.code), ("ibv_reg_dmabuf_mr", Some(95)));
        assert!(of.error.contains("takes no DMA-BUF"), "{}", of.error);
        let peer = no_peer_memory(&Refusal::Errno(Errno::EFAULT));
        assert!(peer.contains("nvidia_peermem"), "{peer}");
    }
}
