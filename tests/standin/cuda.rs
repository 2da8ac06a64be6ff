//! A stand-in for libcuda.so.1: the functions of CUDA's driver API that the doctor calls, over memory of the host, with a clock that a
//! description of a machine sets. What it answers is made up; the loading and calling code of the doctor is the real one.
//!
//! What it reads of the description, beside `[behaviour]` and the PCI addresses of GPUs:
//!
//! ```toml
//! [system.cuda]
//! cuInit = "error: 802"              # any function: a text "error: NUMBER" is its result
//! cuDriverGetVersion = 12080
//! [gpu.cuda]                         # attributes by the names below; one that is not there is not known
//! major = 9
//! h2d = 55.0                         # GB/s
//! d2h = 54.0
//! cuDevicePrimaryCtxRetain = "error: 46"
//! [pair.cuda]
//! can_access = 1
//! access = 1                         # and the other attributes of a pair
//! bandwidth = 371.0                  # GB/s, with access; without, copies go through the host
//! latency = 2.2                      # µs that each copy takes at least
//! jitter = 0.5                       # how far trials lie apart, of the bandwidth
//! corrupt = 3                        # so many bytes of each large copy come wrong
//! behaviour = "hangs"                # of a copy: "hangs", "aborts", "error: 700"
//! ```
//!
//! Memory of a device is a file without a name, whose pages come as they are written. Its address, as a GPU's, is one at which the processor finds
//! nothing; `cuMemGetHandleForAddressRange` hands the file out, where `dma_buf` is 1. The stand-in of NCCL finds it, puts its work into streams and says
//! how long that took by the functions `standin_…`, which no library of NVIDIA's has.
#![expect(
    clippy::missing_safety_doc,
    unsafe_code,
    missing_docs,
    reason = "the functions are CUDA's, and so are their contracts"
)]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a stand-in reads its description and fails loudly"
)]

#[path = "machine.rs"]
mod machine;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use machine::Machine;
use toml::Value;

type Code = c_uint;
const INVALID_VALUE: Code = 1;
const OUT_OF_MEMORY: Code = 2;
const NOT_INITIALIZED: Code = 3;
const INVALID_DEVICE: Code = 101;
const INVALID_CONTEXT: Code = 201;
const PEER_ACCESS_UNSUPPORTED: Code = 217;
const NOT_READY: Code = 600;
const ALREADY_ENABLED: Code = 704;
const NOT_ENABLED: Code = 705;
const NOT_SUPPORTED: Code = 801;

/// Through memory of the host, GB/s.
const STAGED: f64 = 18.0;

static STARTED: AtomicBool = AtomicBool::new(false);
static COPIES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static CURRENT: std::cell::Cell<*mut Context> = const { std::cell::Cell::new(std::ptr::null_mut()) };
    static CONTEXTS: std::cell::RefCell<Vec<*mut Context>> = const { std::cell::RefCell::new(Vec::new()) };
}

pub struct Context {
    gpu: usize,
    peers: Vec<usize>,
}

pub struct Stream {
    gpu: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// What is under way in a stream, and how late it is by the device's clock once that is done.
struct Queue {
    ms: f64,
    items: VecDeque<Item>,
}

enum Item {
    /// Another library's work.
    Work,
    /// An event, which is told the time when its turn comes.
    Mark(Moment),
}

type Moment = Arc<Mutex<Option<f64>>>;

impl Stream {
    /// Waits until nothing is under way; then does this.
    fn when_idle<R>(&self, then: impl FnOnce(&mut Queue) -> R) -> R {
        let mut queue = self.queue.lock().unwrap();
        while !queue.items.is_empty() {
            queue = self.changed.wait(queue).unwrap();
        }
        then(&mut queue)
    }
}

pub struct Event {
    moment: Mutex<Moment>,
}

/// The memory of devices, by its address.
static MEMORY: Mutex<BTreeMap<usize, Memory>> = Mutex::new(BTreeMap::new());
static SERIAL: AtomicU64 = AtomicU64::new(1);
/// How often memory was written, by this library.
static WRITES: AtomicU64 = AtomicU64::new(0);

struct Memory {
    bytes: usize,
    file: c_int,
    serial: u64,
    /// Where this library has it mapped.
    mapped: usize,
}

/// Device addresses begin where a GPU's pages do.
const ALIGNED: usize = 2 << 20;

/// Where this library finds what is at an address: a device's, or the host's own.
fn at(address: u64) -> *mut u8 {
    let address = address as usize;
    let memory = MEMORY.lock().unwrap();
    match memory.range(..=address).next_back() {
        Some((base, one)) if address < base + one.bytes => (one.mapped + address - base) as *mut u8,
        _ => address as *mut u8,
    }
}

/// The GPUs that CUDA_VISIBLE_DEVICES leaves, by their numbers in the description.
fn visible() -> Vec<usize> {
    let count = Machine::get().gpus();
    match std::env::var("CUDA_VISIBLE_DEVICES") {
        Err(_) => (0..count).collect(),
        Ok(list) => list
            .split(',')
            .map_while(|one| one.trim().parse().ok().filter(|gpu| *gpu < count))
            .collect(),
    }
}

fn gpu(device: c_int) -> Result<usize, Code> {
    let at = usize::try_from(device).map_err(|_| INVALID_DEVICE)?;
    visible().get(at).copied().ok_or(INVALID_DEVICE)
}

fn float(value: Option<&Value>) -> Option<f64> {
    let value = value?;
    value
        .as_float()
        .or_else(|| value.as_integer().map(|n| n as f64))
}

/// `error: 802` is a result.
fn error(value: Option<&Value>) -> Result<(), Code> {
    match value
        .and_then(Value::as_str)
        .and_then(|text| text.strip_prefix("error: "))
    {
        Some(code) => Err(code.parse().unwrap()),
        None => Ok(()),
    }
}

/// What comes before every function: what the description says of it.
fn enter(function: &str, gpu: Option<usize>) -> Result<(), Code> {
    let machine = Machine::get();
    machine.enter(function, gpu);
    error(machine.system("cuda", function))?;
    if let Some(gpu) = gpu {
        error(machine.gpu("cuda", gpu, function))?;
    }
    match function {
        "cuInit" | "cuDriverGetVersion" => Ok(()),
        _ if STARTED.load(Ordering::Relaxed) => Ok(()),
        _ => Err(NOT_INITIALIZED),
    }
}

fn code(said: Result<(), Code>) -> Code {
    said.err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: c_uint) -> Code {
    code(enter("cuInit", None).and_then(|()| {
        if visible().is_empty() {
            return Err(100);
        }
        STARTED.store(true, Ordering::Relaxed);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: Code, name: *mut *const c_char) -> Code {
    let text = match error {
        1 => c"CUDA_ERROR_INVALID_VALUE",
        3 => c"CUDA_ERROR_NOT_INITIALIZED",
        34 => c"CUDA_ERROR_STUB_LIBRARY",
        46 => c"CUDA_ERROR_DEVICE_UNAVAILABLE",
        100 => c"CUDA_ERROR_NO_DEVICE",
        101 => c"CUDA_ERROR_INVALID_DEVICE",
        217 => c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        801 => c"CUDA_ERROR_NOT_SUPPORTED",
        802 => c"CUDA_ERROR_SYSTEM_NOT_READY",
        803 => c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        804 => c"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        999 => c"CUDA_ERROR_UNKNOWN",
        _ => return INVALID_VALUE,
    };
    unsafe { *name = text.as_ptr() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Code {
    code(enter("cuDriverGetVersion", None).map(|()| {
        let said = Machine::get()
            .system("cuda", "cuDriverGetVersion")
            .and_then(Value::as_integer);
        unsafe { *version = said.unwrap_or(12080) as c_int };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    code(enter("cuDeviceGetCount", None).map(|()| unsafe { *count = visible().len() as c_int }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    code(
        enter("cuDeviceGet", None)
            .and_then(|()| gpu(ordinal))
            .map(|_| unsafe { *device = ordinal }),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> Code {
    let said = gpu(device).and_then(|gpu| {
        enter("cuDeviceGetName", Some(gpu))?;
        let text = Machine::get()
            .gpu("nvml", gpu, "nvmlDeviceGetName")
            .and_then(Value::as_str);
        let text = text.unwrap_or("NVIDIA GPU");
        let taken = text.len().min(length as usize - 1);
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), name, taken);
            *name.add(taken) = 0;
        }
        Ok(())
    });
    code(said)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_uint,
    device: c_int,
) -> Code {
    let said = gpu(device).and_then(|gpu| {
        enter("cuDeviceGetAttribute", Some(gpu))?;
        let machine = Machine::get();
        let part = |at: std::ops::Range<usize>| {
            machine
                .pci(gpu)
                .get(at)
                .and_then(|hex| i64::from_str_radix(hex, 16).ok())
        };
        let name = match attribute {
            50 | 33 | 34 => {
                let range = match attribute {
                    50 => 0..4,
                    33 => 5..7,
                    _ => 8..10,
                };
                unsafe { *value = part(range).unwrap() as c_int };
                return Ok(());
            }
            75 => "major",
            76 => "minor",
            20 => "compute_mode",
            18 => "integrated",
            40 => "copy_engines",
            41 => "unified_addressing",
            100 => "page_tables",
            102 => "virtual_memory",
            116 => "gpudirect_rdma",
            110 => "gpudirect_rdma_vmm",
            117 => "flush_writes",
            118 => "writes_ordering",
            124 => "dma_buf",
            128 => "fabric_handles",
            132 => "multicast",
            _ => return Err(INVALID_VALUE),
        };
        let known = machine.gpu("cuda", gpu, name).and_then(Value::as_integer);
        unsafe { *value = known.ok_or(INVALID_VALUE)? as c_int };
        Ok(())
    });
    code(said)
}

fn pair_number(first: usize, second: usize, what: &str) -> Option<i64> {
    Machine::get()
        .pair_of("cuda", first, second, what)
        .and_then(Value::as_integer)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(
    can: *mut c_int,
    device: c_int,
    peer: c_int,
) -> Code {
    let said = gpu(device).and_then(|own| {
        let peer = gpu(peer)?;
        enter("cuDeviceCanAccessPeer", Some(own))?;
        unsafe { *can = pair_number(own, peer, "can_access").unwrap_or(0) as c_int };
        Ok(())
    });
    code(said)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetP2PAttribute(
    value: *mut c_int,
    attribute: c_uint,
    from: c_int,
    to: c_int,
) -> Code {
    let said = gpu(from).and_then(|own| {
        let peer = gpu(to)?;
        enter("cuDeviceGetP2PAttribute", Some(own))?;
        let name = match attribute {
            1 => "performance_rank",
            2 => "access",
            3 => "native_atomic",
            4 => "array_access",
            _ => return Err(INVALID_VALUE),
        };
        unsafe { *value = pair_number(own, peer, name).unwrap_or(0) as c_int };
        Ok(())
    });
    code(said)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(
    context: *mut *mut Context,
    device: c_int,
) -> Code {
    let said = gpu(device).and_then(|gpu| {
        enter("cuDevicePrimaryCtxRetain", Some(gpu))?;
        let one = CONTEXTS.with_borrow_mut(|all| {
            if let Some(one) = all.iter().find(|one| unsafe { (***one).gpu } == gpu) {
                return *one;
            }
            let fresh = Box::into_raw(Box::new(Context {
                gpu,
                peers: Vec::new(),
            }));
            all.push(fresh);
            fresh
        });
        unsafe { *context = one };
        Ok(())
    });
    code(said)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: *mut Context) -> Code {
    CURRENT.set(context);
    0
}

fn current() -> Result<&'static mut Context, Code> {
    unsafe { CURRENT.get().as_mut() }.ok_or(INVALID_CONTEXT)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxEnablePeerAccess(peer: *mut Context, _flags: c_uint) -> Code {
    let said = current().and_then(|own| {
        enter("cuCtxEnablePeerAccess", Some(own.gpu))?;
        let peer = unsafe { (*peer).gpu };
        if pair_number(own.gpu, peer, "can_access") != Some(1) {
            return Err(PEER_ACCESS_UNSUPPORTED);
        }
        if own.peers.contains(&peer) {
            return Err(ALREADY_ENABLED);
        }
        own.peers.push(peer);
        Ok(())
    });
    code(said)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDisablePeerAccess(peer: *mut Context) -> Code {
    let said = current().and_then(|own| {
        let peer = unsafe { (*peer).gpu };
        let before = own.peers.len();
        own.peers.retain(|one| *one != peer);
        if own.peers.len() == before {
            Err(NOT_ENABLED)
        } else {
            Ok(())
        }
    });
    code(said)
}

/// Memory of the host, its size in front of it.
fn take(bytes: usize) -> *mut u8 {
    let layout = std::alloc::Layout::from_size_align(bytes + 64, 64).unwrap();
    unsafe {
        let block = std::alloc::alloc(layout);
        if block.is_null() {
            return block;
        }
        block.cast::<usize>().write(bytes);
        block.add(64)
    }
}

unsafe fn give(pointer: *mut u8) {
    unsafe {
        let block = pointer.sub(64);
        let bytes = block.cast::<usize>().read();
        std::alloc::dealloc(
            block,
            std::alloc::Layout::from_size_align(bytes + 64, 64).unwrap(),
        );
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) -> Code {
    let said = current().and_then(|own| {
        enter("cuMemAlloc_v2", Some(own.gpu))?;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let limit = float(Machine::get().gpu("cuda", own.gpu, "memory")).unwrap_or(80e9);
        let taken: usize = MEMORY.lock().unwrap().values().map(|one| one.bytes).sum();
        if (taken + bytes) as f64 > limit {
            return Err(OUT_OF_MEMORY);
        }
        let memory = map_file(bytes).ok_or(OUT_OF_MEMORY)?;
        unsafe { *pointer = memory as u64 };
        Ok(())
    });
    code(said)
}

/// A file without a name, its pages taken as they are written.
fn map_file(bytes: usize) -> Option<usize> {
    unsafe {
        let file = libc::memfd_create(c"standin-gpu".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 || libc::ftruncate(file, i64::try_from(bytes).ok()?) != 0 {
            return None;
        }
        let at = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file,
            0,
        );
        if at == libc::MAP_FAILED {
            libc::close(file);
            return None;
        }
        // Addresses of its own, at which nothing can be read or written: all but those are given back.
        let room = bytes.next_multiple_of(4096) + ALIGNED;
        let reserved = libc::mmap(
            std::ptr::null_mut(),
            room,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if reserved == libc::MAP_FAILED {
            libc::munmap(at, bytes);
            libc::close(file);
            return None;
        }
        let base = (reserved as usize).next_multiple_of(ALIGNED);
        let before = base - reserved as usize;
        if before > 0 {
            libc::munmap(reserved, before);
        }
        let end = base + bytes.next_multiple_of(4096);
        libc::munmap(end as *mut c_void, reserved as usize + room - end);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let memory = Memory {
            bytes,
            file,
            serial,
            mapped: at as usize,
        };
        MEMORY.lock().unwrap().insert(base, memory);
        Some(base)
    }
}

/// The file of whole allocations' beginnings only: a file has no beginning in its middle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetHandleForAddressRange(
    handle: *mut c_void,
    address: u64,
    bytes: usize,
    kind: c_uint,
    _flags: std::ffi::c_ulonglong,
) -> Code {
    const DMA_BUF_FD: c_uint = 1;
    let said = current().and_then(|own| {
        enter("cuMemGetHandleForAddressRange", Some(own.gpu))?;
        let supported = Machine::get().gpu("cuda", own.gpu, "dma_buf");
        if supported.and_then(Value::as_integer) != Some(1) {
            return Err(NOT_SUPPORTED);
        }
        let memory = MEMORY.lock().unwrap();
        let one = memory.get(&(address as usize)).ok_or(INVALID_VALUE)?;
        let pages = bytes > 0 && bytes.is_multiple_of(4096) && bytes <= one.bytes;
        if kind != DMA_BUF_FD || !pages {
            return Err(INVALID_VALUE);
        }
        let file = unsafe { libc::fcntl(one.file, libc::F_DUPFD_CLOEXEC, 3) };
        unsafe { *handle.cast::<c_int>() = file };
        Ok(())
    });
    code(said)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFlushGPUDirectRDMAWrites(_target: c_uint, _scope: c_uint) -> Code {
    code(current().and_then(|own| enter("cuFlushGPUDirectRDMAWrites", Some(own.gpu))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(pointer: u64) -> Code {
    let Some(memory) = MEMORY.lock().unwrap().remove(&(pointer as usize)) else {
        return INVALID_VALUE;
    };
    unsafe {
        libc::munmap(pointer as *mut c_void, memory.bytes.next_multiple_of(4096));
        libc::munmap(memory.mapped as *mut c_void, memory.bytes);
        libc::close(memory.file);
    }
    0
}

/// Where this process finds what is at an address of a device.
#[unsafe(no_mangle)]
pub extern "C" fn standin_at(address: u64) -> *mut u8 {
    at(address)
}

/// Where memory of a device is: its file, the allocation's number in this process, its size, and the place of the address in it, which is a device's or
/// where this process finds that. Says whether it is such memory at all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_memory(address: u64, found: *mut [u64; 4]) -> c_int {
    let address = address as usize;
    let memory = MEMORY.lock().unwrap();
    for (base, one) in memory.iter() {
        for begins in [*base, one.mapped] {
            if (begins..begins + one.bytes).contains(&address) {
                let place = (address - begins) as u64;
                unsafe { *found = [one.file as u64, one.serial, one.bytes as u64, place] };
                return 1;
            }
        }
    }
    0
}

/// How often memory was written since the process began, other than by the stand-in of NCCL.
#[unsafe(no_mangle)]
pub extern "C" fn standin_writes() -> u64 {
    WRITES.load(Ordering::Relaxed)
}

/// The GPU of this thread's context, by its number in the description and among those visible; -1 where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_current(ordinal: *mut c_int) -> c_int {
    let Ok(context) = current() else {
        return -1;
    };
    let at = visible().iter().position(|gpu| *gpu == context.gpu);
    unsafe { *ordinal = at.map_or(-1, |at| at as c_int) };
    context.gpu as c_int
}

/// Another library's work begins in a stream, after what is in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_begin(stream: *mut Stream) {
    let stream = unsafe { &*stream };
    stream.queue.lock().unwrap().items.push_back(Item::Work);
}

/// The first work in a stream is done, and took so long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_end(stream: *mut Stream, ms: f64) {
    let stream = unsafe { &*stream };
    let mut queue = stream.queue.lock().unwrap();
    if matches!(queue.items.front(), Some(Item::Work)) {
        queue.items.pop_front();
        queue.ms += ms;
    }
    let now = queue.ms;
    while let Some(Item::Mark(moment)) = queue.items.front() {
        *moment.lock().unwrap() = Some(now);
        queue.items.pop_front();
    }
    stream.changed.notify_all();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(
    pointer: *mut *mut c_void,
    bytes: usize,
    _flags: c_uint,
) -> Code {
    let said = current().and_then(|own| {
        enter("cuMemHostAlloc", Some(own.gpu))?;
        unsafe { *pointer = take(bytes).cast() };
        Ok(())
    });
    code(said)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(pointer: *mut c_void) -> Code {
    unsafe { give(pointer.cast()) };
    0
}

/// Lets a stream's clock go on by a copy of so many bytes at this bandwidth.
fn pass(stream: &Stream, bytes: usize, bandwidth: f64, latency: f64, jitter: f64) {
    // The trials of a jittery way take turns: four copies are one trial.
    let trial = COPIES.fetch_add(1, Ordering::Relaxed) / 4 % 3;
    let bandwidth = bandwidth * (1.0 - jitter * trial as f64 / 2.0);
    stream.when_idle(|queue| {
        queue.ms += (bytes as f64 / (bandwidth * 1e6)).max(latency / 1e3);
    });
}

fn of_gpu(gpu: usize, what: &str) -> Option<f64> {
    float(Machine::get().gpu("cuda", gpu, what))
}

unsafe fn with_host(
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    stream: *mut Stream,
    what: &str,
) -> Code {
    let stream = unsafe { &*stream };
    if what == "h2d" {
        WRITES.fetch_add(1, Ordering::Relaxed);
    }
    // What was queued before comes first.
    stream.when_idle(|_| unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) });
    let wrong = of_gpu(stream.gpu, &format!("{what}_corrupt")).unwrap_or(0.0) as usize;
    if bytes > 4096 {
        for at in 0..wrong {
            unsafe { *to.add(1024 + at) ^= 0x10 };
        }
    }
    let bandwidth = of_gpu(stream.gpu, what).unwrap_or(25.0);
    pass(
        stream,
        bytes,
        bandwidth,
        1.5,
        of_gpu(stream.gpu, "jitter").unwrap_or(0.0),
    );
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: *mut Stream,
) -> Code {
    let said = enter("cuMemcpyHtoDAsync_v2", Some(unsafe { (*stream).gpu }));
    match said {
        Ok(()) => unsafe { with_host(at(to), from.cast(), bytes, stream, "h2d") },
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    stream: *mut Stream,
) -> Code {
    let said = enter("cuMemcpyDtoHAsync_v2", Some(unsafe { (*stream).gpu }));
    match said {
        Ok(()) => unsafe { with_host(to.cast(), at(from), bytes, stream, "d2h") },
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: u64,
    from: u64,
    bytes: usize,
    stream: *mut Stream,
) -> Code {
    let stream = unsafe { &*stream };
    let said = enter("cuMemcpyDtoDAsync_v2", Some(stream.gpu));
    if said.is_ok() {
        WRITES.fetch_add(1, Ordering::Relaxed);
        stream.when_idle(|_| unsafe { std::ptr::copy(at(from), at(to), bytes) });
    }
    code(said)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: *mut Context,
    from: u64,
    from_context: *mut Context,
    bytes: usize,
    stream: *mut Stream,
) -> Code {
    let (stream, from_gpu, to_gpu, direct) = unsafe {
        let (from, to) = (&*from_context, &*to_context);
        (&*stream, from.gpu, to.gpu, from.peers.contains(&to.gpu))
    };
    let machine = Machine::get();
    let of = |what: &str| machine.pair_of("cuda", from_gpu, to_gpu, what);
    let said = enter("cuMemcpyPeerAsync", Some(from_gpu)).and_then(|()| {
        match of("behaviour").and_then(Value::as_str) {
            Some("hangs") => loop {
                std::thread::sleep(std::time::Duration::from_secs(3600));
            },
            Some("aborts") => std::process::abort(),
            _ => {}
        }
        error(of("behaviour"))?;
        WRITES.fetch_add(1, Ordering::Relaxed);
        let (from, to) = (at(from), at(to));
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        if bytes > 4096 {
            for at in 0..float(of("corrupt")).unwrap_or(0.0) as usize {
                unsafe { *to.add(1024 + at) ^= 0x10 };
            }
        }
        let bandwidth = if direct {
            float(of("bandwidth")).unwrap_or(300.0)
        } else {
            STAGED
        };
        let latency = if direct {
            float(of("latency")).unwrap_or(2.0)
        } else {
            15.0
        };
        pass(
            stream,
            bytes,
            bandwidth,
            latency,
            float(of("jitter")).unwrap_or(0.0),
        );
        Ok(())
    });
    code(said)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(
    to: u64,
    byte: c_uchar,
    bytes: usize,
    stream: *mut Stream,
) -> Code {
    let stream = unsafe { &*stream };
    WRITES.fetch_add(1, Ordering::Relaxed);
    stream.when_idle(|_| unsafe { std::ptr::write_bytes(at(to), byte, bytes) });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut *mut Stream, _flags: c_uint) -> Code {
    let said = current().map(|own| unsafe {
        *stream = Box::into_raw(Box::new(Stream {
            gpu: own.gpu,
            queue: Mutex::new(Queue {
                ms: 0.0,
                items: VecDeque::new(),
            }),
            changed: Condvar::new(),
        }));
    });
    code(said)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: *mut Stream) -> Code {
    drop(unsafe { Box::from_raw(stream) });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(stream: *mut Stream) -> Code {
    let stream = unsafe { &*stream };
    code(enter("cuStreamSynchronize", Some(stream.gpu)).map(|()| stream.when_idle(|_| ())))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(stream: *mut Stream) -> Code {
    let stream = unsafe { &*stream };
    let said = enter("cuStreamQuery", Some(stream.gpu)).and_then(|()| {
        match stream.queue.lock().unwrap().items.is_empty() {
            true => Ok(()),
            false => Err(NOT_READY),
        }
    });
    code(said)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWaitEvent(
    stream: *mut Stream,
    event: *mut Event,
    _flags: c_uint,
) -> Code {
    let (stream, event) = unsafe { (&*stream, &*event) };
    let moment = Arc::clone(&event.moment.lock().unwrap());
    let ms = loop {
        if let Some(ms) = *moment.lock().unwrap() {
            break ms;
        }
        std::thread::sleep(Duration::from_micros(100));
    };
    stream.when_idle(|queue| queue.ms = queue.ms.max(ms));
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut *mut Event, _flags: c_uint) -> Code {
    let fresh = Event {
        // One that was never recorded is no moment to wait for.
        moment: Mutex::new(Arc::new(Mutex::new(Some(0.0)))),
    };
    unsafe { *event = Box::into_raw(Box::new(fresh)) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: *mut Event) -> Code {
    drop(unsafe { Box::from_raw(event) });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: *mut Event, stream: *mut Stream) -> Code {
    let (event, stream) = unsafe { (&*event, &*stream) };
    let mut queue = stream.queue.lock().unwrap();
    let now = queue.items.is_empty().then_some(queue.ms);
    let moment: Moment = Arc::new(Mutex::new(now));
    if now.is_none() {
        queue.items.push_back(Item::Mark(Arc::clone(&moment)));
    }
    *event.moment.lock().unwrap() = moment;
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(
    ms: *mut f32,
    start: *mut Event,
    end: *mut Event,
) -> Code {
    let at = |event: *mut Event| {
        let event = unsafe { &*event };
        let moment = Arc::clone(&event.moment.lock().unwrap());
        *moment.lock().unwrap()
    };
    match (at(start), at(end)) {
        (Some(start), Some(end)) => {
            unsafe { *ms = (end - start) as f32 };
            0
        }
        _ => NOT_READY,
    }
}
