//! The functions of `libcuda.so.1`, each looked up on its call, so that a function missing in an old library breaks no other.
#![expect(unsafe_code, reason = "calls libcuda")]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUstream,
};
use libloading::Library;

use crate::live::confine;
use crate::live::loader_words::loader_words;
use crate::source::{Errno, Refusal};

/// The library's name on every distribution: what the CUDA runtime and NCCL load.
const NAME: &str = "libcuda.so.1";

/// Why a function gave nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It could not be called.
    Refused(Refusal),
    /// It returned this.
    Code {
        /// The function.
        function: &'static str,
        /// Its result, `CUresult`.
        code: u32,
    },
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Refused(refusal)
    }
}

/// The library, loaded once and never closed.
fn library() -> Result<&'static Library, Refusal> {
    static LIBRARY: OnceLock<Result<Library, Refusal>> = OnceLock::new();
    let load = || {
        // CUDA would run nvidia-modprobe for what of the driver is missing.
        confine::confine().map_err(|error| {
            let why =
                format!("the kernel cannot keep CUDA from changing the machine (seccomp: {error})");
            Refusal::not_asked(why)
        })?;
        // SAFETY: the constructors of libcuda touch their own memory only; this runs in a process that does nothing but ask.
        unsafe { Library::new(NAME) }.map_err(|error| Refusal::of_loader(&loader_words(&error)))
    };
    LIBRARY.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// A function of the library.
///
/// # Safety
///
/// `F` is the type that the function of this name has in `cuda.h`.
unsafe fn symbol<F: Copy>(name: &str) -> Result<F, Refusal> {
    // SAFETY: the caller vouches for the type, and the library is never unloaded.
    match unsafe { library()?.get::<F>(name) } {
        Ok(symbol) => Ok(*symbol),
        Err(_) => Err(Refusal::SymbolMissing(name.into())),
    }
}

/// Declares functions of the driver with cudarc's own types, the result left a plain number.
macro_rules! functions {
    ($( $name:ident($($arg:ident: $ty:ty),*); )*) => { $(
        #[expect(non_snake_case, reason = "the driver's own names")]
        unsafe fn $name($($arg: $ty),*) -> Result<(), Failure> {
            // The arguments are those that cudarc declares.
            const _: unsafe fn($($ty),*) -> sys::CUresult = sys::$name;
            type F = unsafe extern "C" fn($($ty),*) -> c_uint;
            static FUNCTION: OnceLock<Result<F, Refusal>> = OnceLock::new();
            // SAFETY: the type is that of cuda.h, by the line above; an enum is returned like a number.
            let found = FUNCTION.get_or_init(|| unsafe { symbol::<F>(stringify!($name)) });
            let function = found.as_ref().map_err(Clone::clone)?;
            // SAFETY: the caller vouches for the arguments.
            match unsafe { function($($arg),*) } {
                0 => Ok(()),
                code => Err(Failure::Code { function: stringify!($name), code }),
            }
        }
    )* };
}

#[cfg(feature = "verbs")]
mod direct;

functions! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuCtxSetCurrent(context: CUcontext);
    cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint);
    cuCtxDisablePeerAccess(peer: CUcontext);
    cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytes: usize);
    cuMemFree_v2(pointer: CUdeviceptr);
    cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(pointer: *mut c_void);
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemcpyPeerAsync(to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext, bytes: usize, stream: CUstream);
    cuMemsetD8Async(to: CUdeviceptr, byte: c_uchar, bytes: usize, stream: CUstream);
    cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    cuStreamDestroy_v2(stream: CUstream);
    cuStreamSynchronize(stream: CUstream);
    cuStreamQuery(stream: CUstream);
    cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    cuEventCreate(event: *mut CUevent, flags: c_uint);
    cuEventDestroy_v2(event: CUevent);
    cuEventRecord(event: CUevent, stream: CUstream);
    cuEventElapsedTime(ms: *mut f32, start: CUevent, end: CUevent);
}

/// The driver's name of a result, as `CUDA_ERROR_SYSTEM_NOT_READY`; empty if it has none.
pub(crate) fn error_name(code: u32) -> String {
    type F = unsafe extern "C" fn(c_uint, *mut *const c_char) -> c_uint;
    let mut name: *const c_char = std::ptr::null();
    // SAFETY: the type is that of cuda.h.
    let Ok(function) = (unsafe { symbol::<F>("cuGetErrorName") }) else {
        return String::new();
    };
    // SAFETY: `name` lives for the call; the name is a constant of the library, ended by a NUL.
    unsafe {
        match function(code, &raw mut name) {
            0 if !name.is_null() => CStr::from_ptr(name).to_string_lossy().into_owned(),
            _ => String::new(),
        }
    }
}

/// `cuInit`.
pub(crate) fn init() -> Result<(), Failure> {
    // SAFETY: it takes no pointer.
    unsafe { cuInit(0) }
}

/// A number that a function writes to a pointer.
fn number(call: impl FnOnce(*mut c_int) -> Result<(), Failure>) -> Result<i32, Failure> {
    let mut value: c_int = 0;
    call(&raw mut value)?;
    Ok(value)
}

/// The version of CUDA that the driver has: 12080 for 12.8. Needs no `cuInit`.
pub(crate) fn version() -> Result<i32, Failure> {
    // SAFETY: the number lives for the call.
    number(|value| unsafe { cuDriverGetVersion(value) })
}

/// How many devices the driver shows to this process.
pub(crate) fn count() -> Result<i32, Failure> {
    // SAFETY: the number lives for the call.
    number(|value| unsafe { cuDeviceGetCount(value) })
}

/// The device of this number.
pub(crate) fn device(ordinal: i32) -> Result<CUdevice, Failure> {
    // SAFETY: the number lives for the call.
    number(|value| unsafe { cuDeviceGet(value, ordinal) })
}

/// An attribute of a device.
pub(crate) fn attribute(attribute: CUdevice_attribute, device: CUdevice) -> Result<i32, Failure> {
    // SAFETY: the number lives for the call.
    number(|value| unsafe { cuDeviceGetAttribute(value, attribute, device) })
}

/// Whether a device may read and write the memory of another, by the driver's word.
pub(crate) fn can_access(device: CUdevice, peer: CUdevice) -> Result<i32, Failure> {
    // SAFETY: the number lives for the call.
    number(|value| unsafe { cuDeviceCanAccessPeer(value, device, peer) })
}

/// A device's primary context: what the CUDA runtime and NCCL use. It is kept until the process ends, which lets it go.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Context {
    /// The device.
    pub(crate) device: CUdevice,
    context: CUcontext,
}

impl Context {
    /// Makes it, or takes it if it is there.
    pub(crate) fn of(device: CUdevice) -> Result<Self, Failure> {
        let mut context: CUcontext = std::ptr::null_mut();
        // SAFETY: the pointer lives for the call.
        unsafe { cuDevicePrimaryCtxRetain(&raw mut context, device)? };
        Ok(Context { device, context })
    }

    /// Makes it the one in which this thread works.
    pub(crate) fn enter(self) -> Result<(), Failure> {
        // SAFETY: the context is retained.
        unsafe { cuCtxSetCurrent(self.context) }
    }

    /// Lets this context's work reach the memory of another device. It holds until [`Context::forbid`].
    pub(crate) fn allow(self, peer: Context) -> Result<(), Failure> {
        self.enter()?;
        // SAFETY: both contexts are retained.
        match unsafe { cuCtxEnablePeerAccess(peer.context, 0) } {
            // Peer access is already enabled.
            Err(Failure::Code { code: 704, .. }) => Ok(()),
            said => said,
        }
    }

    /// Takes it back: a context reaches a limited number of peers.
    pub(crate) fn forbid(self, peer: Context) {
        // What fails here was not allowed before.
        let _ = self.enter();
        // SAFETY: both contexts are retained.
        let _ = unsafe { cuCtxDisablePeerAccess(peer.context) };
    }
}

/// Memory of a device; freed when dropped.
pub(crate) struct DeviceMemory {
    /// Its address.
    pub(crate) context: Context,
    pointer: CUdeviceptr,
    bytes: usize,
}

impl DeviceMemory {
    /// Takes memory.
    pub(crate) fn new(context: Context, bytes: usize) -> Result<Self, Failure> {
        context.enter()?;
        let mut pointer: CUdeviceptr = 0;
        // SAFETY: the pointer lives for the call.
        unsafe { cuMemAlloc_v2(&raw mut pointer, bytes)? };
        Ok(DeviceMemory {
            context,
            pointer,
            bytes,
        })
    }

    /// Its address, for libraries that work on it.
    pub(crate) fn address(&self) -> CUdeviceptr {
        self.pointer
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of a place in it that has this many bytes.
    fn room(&self, at: usize, bytes: usize) -> Result<CUdeviceptr, Failure> {
        match at.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(self.pointer + at as CUdeviceptr),
            _ => Err(Failure::Refused(Refusal::Errno(Errno::EINVAL))),
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: the memory came from cuMemAlloc, is freed once, and every stream that used it has been waited for or has failed.
        let _ = unsafe { cuMemFree_v2(self.pointer) };
    }
}

/// Memory of the host that devices reach by themselves (pinned); freed when dropped.
pub(crate) struct HostMemory {
    pointer: *mut c_void,
    bytes: usize,
}

impl HostMemory {
    /// Takes memory, on the NUMA node of the CPU that asks.
    pub(crate) fn new(context: Context, bytes: usize) -> Result<Self, Failure> {
        /// `CU_MEMHOSTALLOC_PORTABLE`: every context may use it.
        const PORTABLE: c_uint = 1;
        context.enter()?;
        let mut pointer: *mut c_void = std::ptr::null_mut();
        // SAFETY: the pointer lives for the call.
        unsafe { cuMemHostAlloc(&raw mut pointer, bytes, PORTABLE)? };
        let memory = HostMemory { pointer, bytes };
        // SAFETY: the driver gave this many bytes, which hold no other object.
        unsafe { std::ptr::write_bytes(memory.pointer.cast::<u8>(), 0, bytes) };
        Ok(memory)
    }

    /// Its bytes. No copy may be under way.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the driver gave this many bytes, and they were written.
        unsafe { std::slice::from_raw_parts(self.pointer.cast::<u8>(), self.bytes) }
    }

    /// Its bytes, to be written. No copy may be under way.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has a reference.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.cast::<u8>(), self.bytes) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: the memory came from cuMemHostAlloc and is freed once.
        let _ = unsafe { cuMemFreeHost(self.pointer) };
    }
}

/// A queue of work of one context; destroyed when dropped.
pub(crate) struct Stream {
    context: Context,
    stream: CUstream,
}

impl Stream {
    /// Makes one.
    pub(crate) fn new(context: Context) -> Result<Self, Failure> {
        /// `CU_STREAM_NON_BLOCKING`: it waits for no other.
        const NON_BLOCKING: c_uint = 1;
        context.enter()?;
        let mut stream: CUstream = std::ptr::null_mut();
        // SAFETY: the pointer lives for the call.
        unsafe { cuStreamCreate(&raw mut stream, NON_BLOCKING)? };
        Ok(Stream { context, stream })
    }

    /// Waits until all its work is done.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        self.context.enter()?;
        // SAFETY: the stream is there.
        unsafe { cuStreamSynchronize(self.stream) }
    }

    /// Whether all its work is done.
    pub(crate) fn done(&self) -> Result<bool, Failure> {
        /// `CUDA_ERROR_NOT_READY`
        const NOT_READY: u32 = 600;
        self.context.enter()?;
        // SAFETY: the stream is there.
        match unsafe { cuStreamQuery(self.stream) } {
            Ok(()) => Ok(true),
            Err(Failure::Code {
                code: NOT_READY, ..
            }) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Its handle, for libraries that work in it.
    pub(crate) fn handle(&self) -> CUstream {
        self.stream
    }

    /// Sets bytes of a device's memory, and waits until they are.
    pub(crate) fn set(
        &self,
        to: &DeviceMemory,
        at: usize,
        bytes: usize,
        byte: u8,
    ) -> Result<(), Failure> {
        self.context.enter()?;
        let to = to.room(at, bytes)?;
        // SAFETY: the memory has these bytes, and lives until they are set.
        unsafe { cuMemsetD8Async(to, byte, bytes, self.stream)? };
        self.wait()
    }

    /// Copies ordinary memory of the host to a place in a device's, and waits until it is there.
    pub(crate) fn put(&self, to: &DeviceMemory, at: usize, from: &[u8]) -> Result<(), Failure> {
        self.context.enter()?;
        let to = to.room(at, from.len())?;
        // SAFETY: both have these bytes, and live until the copy is done: should waiting fail, the device copies no more.
        unsafe { cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), from.len(), self.stream)? };
        self.wait()
    }

    /// Copies from a place in a device's memory to ordinary memory of the host, and waits until it is there.
    pub(crate) fn get(&self, from: &DeviceMemory, at: usize, to: &mut [u8]) -> Result<(), Failure> {
        self.context.enter()?;
        let from = from.room(at, to.len())?;
        // SAFETY: as above, and nobody else has a reference.
        unsafe { cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from, to.len(), self.stream)? };
        self.wait()
    }

    /// Lets what follows wait for an event of this or another stream.
    pub(crate) fn after(&self, event: &Event) -> Result<(), Failure> {
        self.context.enter()?;
        // SAFETY: both are there.
        unsafe { cuStreamWaitEvent(self.stream, event.event, 0) }
    }

    /// Sets every byte.
    pub(crate) fn fill(&self, memory: &DeviceMemory, byte: u8) -> Result<(), Failure> {
        memory.context.enter()?;
        // SAFETY: the memory has this many bytes.
        unsafe { cuMemsetD8Async(memory.pointer, byte, memory.bytes, self.stream) }
    }

    /// Copies from the host to a device.
    pub(crate) fn load(
        &self,
        to: &DeviceMemory,
        from: &HostMemory,
        bytes: usize,
    ) -> Result<(), Failure> {
        self.context.enter()?;
        let bytes = bytes.min(to.bytes).min(from.bytes);
        // SAFETY: both have this many bytes, and live until the stream has been waited for.
        unsafe { cuMemcpyHtoDAsync_v2(to.pointer, from.pointer, bytes, self.stream) }
    }

    /// Copies from a device to the host.
    pub(crate) fn store(
        &self,
        to: &HostMemory,
        from: &DeviceMemory,
        bytes: usize,
    ) -> Result<(), Failure> {
        self.context.enter()?;
        let bytes = bytes.min(to.bytes).min(from.bytes);
        // SAFETY: both have this many bytes, and live until the stream has been waited for; only the driver writes meanwhile.
        unsafe { cuMemcpyDtoHAsync_v2(to.pointer, from.pointer, bytes, self.stream) }
    }

    /// Copies from device to device.
    pub(crate) fn pass(
        &self,
        to: &DeviceMemory,
        from: &DeviceMemory,
        bytes: usize,
    ) -> Result<(), Failure> {
        self.context.enter()?;
        let bytes = bytes.min(to.bytes).min(from.bytes);
        // SAFETY: both have this many bytes, and live until the stream has been waited for.
        unsafe {
            cuMemcpyPeerAsync(
                to.pointer,
                to.context.context,
                from.pointer,
                from.context.context,
                bytes,
                self.stream,
            )
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: the stream is destroyed once.
        let _ = unsafe { cuStreamDestroy_v2(self.stream) };
    }
}

/// A moment in a stream; destroyed when dropped.
pub(crate) struct Event {
    event: CUevent,
}

impl Event {
    /// Creates an event with timing.
    pub(crate) fn new(context: Context) -> Result<Self, Failure> {
        context.enter()?;
        let mut event: CUevent = std::ptr::null_mut();
        // SAFETY: the pointer lives for the call.
        unsafe { cuEventCreate(&raw mut event, 0)? };
        Ok(Event { event })
    }

    /// Records the event in a stream of the event's context.
    pub(crate) fn mark(&self, stream: &Stream) -> Result<(), Failure> {
        stream.context.enter()?;
        // SAFETY: both are there.
        unsafe { cuEventRecord(self.event, stream.stream) }
    }

    /// Milliseconds from this moment to a later one; both have passed.
    pub(crate) fn until(&self, end: &Event) -> Result<f64, Failure> {
        let mut ms: f32 = 0.0;
        // SAFETY: the number lives for the call; both events are there.
        unsafe { cuEventElapsedTime(&raw mut ms, self.event, end.event)? };
        Ok(f64::from(ms))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is destroyed once.
        let _ = unsafe { cuEventDestroy_v2(self.event) };
    }
}
