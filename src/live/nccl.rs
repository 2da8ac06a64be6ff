//! The functions of NCCL's library, each looked up on its first call, so that a function missing in an old library breaks no other.
//!
//! The types are cudarc's. The result codes are not: cudarc has them as an enum, in which a code of a newer library is no value. Nor is its loader:
//! it ends the program if the library is missing, and does not look for `libnccl.so.2`.
#![expect(unsafe_code, reason = "calls libnccl")]
#![expect(clippy::too_many_arguments, reason = "as many as NCCL has")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::nccl::sys::{
    self, cudaStream_t, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclUniqueId,
};
use libloading::Library;

use crate::live::cuda::driver::Stream;
use crate::live::failure::Failure;
use crate::live::loader_words::loader_words;
use crate::measure::plan::collective::Collective;
use crate::source::wire::{from_hex, to_hex};

/// The library of this process: one is loaded, and never closed.
static LIBRARY: OnceLock<Library> = OnceLock::new();

/// Loads the library. What CUDA's was loaded with holds for it too: it runs no programs and makes no device files.
///
/// # Errors
///
/// The loader's own words.
pub(crate) fn load(path: &str) -> Result<(), Failure> {
    // SAFETY: a person asked for what this library does, and its constructors touch their own memory only.
    let loaded = unsafe { Library::new(path) }
        .map_err(|error| Failure::new("dlopen", loader_words(&error)))?;
    // The first one stays.
    let _ = LIBRARY.set(loaded);
    Ok(())
}

/// A function of the library.
///
/// # Safety
///
/// `F` is the type that the function of this name has in `nccl.h`.
unsafe fn symbol<F: Copy>(name: &str) -> Option<F> {
    // SAFETY: the caller vouches for the type, and the library is never unloaded.
    unsafe { LIBRARY.get()?.get::<F>(name) }
        .ok()
        .map(|symbol| *symbol)
}

/// Declares functions of NCCL with cudarc's own types, the result left a plain number.
macro_rules! functions {
    ($( $name:ident($($arg:ident: $ty:ty),*); )*) => { $(
        #[expect(non_snake_case, reason = "NCCL's own names")]
        unsafe fn $name($($arg: $ty),*) -> Result<(), Failure> {
            // The arguments are those that cudarc declares.
            const _: unsafe fn($($ty),*) -> sys::ncclResult_t = sys::$name;
            type F = unsafe extern "C" fn($($ty),*) -> c_uint;
            static FUNCTION: OnceLock<Option<F>> = OnceLock::new();
            // SAFETY: the type is that of nccl.h, by the line above; an enum is returned like a number.
            let Some(function) = *FUNCTION.get_or_init(|| unsafe { symbol::<F>(stringify!($name)) }) else {
                return Err(missing(stringify!($name)));
            };
            // SAFETY: the caller vouches for the arguments.
            match unsafe { function($($arg),*) } {
                0 => Ok(()),
                code => Err(failed(stringify!($name), code)),
            }
        }
    )* };
}

functions! {
    ncclGetVersion(version: *mut c_int);
    ncclGetUniqueId(id: *mut ncclUniqueId);
    ncclCommInitRank(comm: *mut ncclComm_t, ranks: c_int, id: ncclUniqueId, rank: c_int);
    ncclCommDestroy(comm: ncclComm_t);
    ncclCommAbort(comm: ncclComm_t);
    ncclGroupStart();
    ncclGroupEnd();
    ncclAllReduce(send: *const c_void, receive: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t);
    ncclAllGather(send: *const c_void, receive: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t);
    ncclReduceScatter(send: *const c_void, receive: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t);
    ncclBroadcast(send: *const c_void, receive: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t);
    ncclReduce(send: *const c_void, receive: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t);
    ncclSend(send: *const c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t);
    ncclRecv(receive: *mut c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t);
}

fn missing(function: &str) -> Failure {
    let of = version().map_or(String::new(), |version| format!(" (NCCL {version})"));
    Failure::new(function, format!("the library has no such function{of}"))
}

fn failed(function: &str, code: u32) -> Failure {
    let error = match (error_text(code), last_error()) {
        (what, Some(last)) => format!("{what}: {last}"),
        (what, None) => what,
    };
    Failure::new(function, error).code(code)
}

/// The library's text for a result, without its advice to set a variable that is set.
fn error_text(code: u32) -> String {
    type F = unsafe extern "C" fn(c_uint) -> *const c_char;
    // SAFETY: the type is that of nccl.h, whose enum is a number here.
    let Some(function) = (unsafe { symbol::<F>("ncclGetErrorString") }) else {
        return format!("result {code}");
    };
    // SAFETY: the function takes a number.
    let text = text(unsafe { function(code) }).unwrap_or_else(|| format!("result {code}"));
    match text.find(" (run with NCCL_DEBUG") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// The last WARN line of this process, where the library keeps it (since 2.13).
fn last_error() -> Option<String> {
    type F = unsafe extern "C" fn(ncclComm_t) -> *const c_char;
    // SAFETY: the type is that of nccl.h.
    let function = unsafe { symbol::<F>("ncclGetLastError") }?;
    // SAFETY: the communicator is not used, and may be null (`nccl.h`).
    text(unsafe { function(std::ptr::null_mut()) })
}

/// A text of the library without the line's end; `None` if it is empty.
fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the library's texts end with a NUL and stay.
    let text = unsafe { CStr::from_ptr(pointer) }.to_string_lossy();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The library's version, `2.27.5`.
pub(crate) fn version() -> Result<String, Failure> {
    let mut version: c_int = 0;
    // SAFETY: the number lives for the call.
    unsafe { ncclGetVersion(&raw mut version)? };
    Ok(version_text(version))
}

/// `NCCL_VERSION_CODE`: 2708 is 2.7.8, since 2.9 22705 is 2.27.5.
fn version_text(code: c_int) -> String {
    let (major, rest) = match code {
        ..10000 => (code / 1000, code % 1000),
        _ => (code / 10000, code % 10000),
    };
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

/// The unique id of a communicator, in hexadecimal digits.
///
/// # Errors
///
/// The library found no interface to listen on.
pub(crate) fn unique_id() -> Result<String, Failure> {
    let mut id = ncclUniqueId { internal: [0; 128] };
    // SAFETY: the id lives for the call.
    unsafe { ncclGetUniqueId(&raw mut id)? };
    Ok(to_hex(&id.internal.map(|byte| byte.to_ne_bytes()[0])))
}

/// The id that these digits are.
fn parse_id(digits: &str) -> Option<ncclUniqueId> {
    let bytes: [u8; 128] = from_hex(digits)?.try_into().ok()?;
    let internal = bytes.map(|byte| c_char::from_ne_bytes([byte]));
    Some(ncclUniqueId { internal })
}

/// The part of memory that an operation sends or receives.
#[derive(Clone, Copy)]
pub(crate) struct DeviceBuffer {
    /// Its address on the device.
    pub(crate) at: u64,
    /// Its elements.
    pub(crate) count: usize,
}

impl DeviceBuffer {
    fn pointer(self) -> *mut c_void {
        self.at as *mut c_void
    }
}

/// A rank's communicator. One whose operation failed is aborted when dropped, so that its kernels end; another is destroyed.
pub(crate) struct Communicator {
    comm: ncclComm_t,
    broken: bool,
}

/// The parameters of an operation.
pub(crate) struct Operation<'s> {
    /// The type of an element.
    pub(crate) dtype: ncclDataType_t,
    /// How elements are put together.
    pub(crate) op: ncclRedOp_t,
    /// The stream in which it is queued.
    pub(crate) stream: &'s Stream,
}

impl Operation<'_> {
    fn stream(&self) -> cudaStream_t {
        self.stream.handle().cast()
    }
}

impl Communicator {
    /// Joins the other ranks, on the device of the current context; waits for all of them.
    ///
    /// # Errors
    ///
    /// NCCL's result.
    pub(crate) fn join(id: &str, rank: usize, ranks: usize) -> Result<Self, Failure> {
        let mut comm: ncclComm_t = std::ptr::null_mut();
        let invalid = || Failure::new("ncclCommInitRank", "no communicator's id came from rank 0");
        let id = parse_id(id).ok_or_else(invalid)?;
        let number = |n: usize| c_int::try_from(n).map_err(|_| invalid());
        // SAFETY: the pointer lives for the call.
        unsafe { ncclCommInitRank(&raw mut comm, number(ranks)?, id, number(rank)?)? };
        Ok(Communicator {
            comm,
            broken: false,
        })
    }

    /// Whether the communicator broke since; to be asked while an operation is not done.
    ///
    /// # Errors
    ///
    /// What broke it.
    pub(crate) fn alive(&mut self, doing: &str) -> Result<(), Failure> {
        type F = unsafe extern "C" fn(ncclComm_t, *mut c_uint) -> c_uint;
        const IN_PROGRESS: u32 = 7;
        static FUNCTION: OnceLock<Option<F>> = OnceLock::new();
        let find = || {
            // SAFETY: the type is that of nccl.h, whose enum is a number here.
            unsafe { symbol::<F>("ncclCommGetAsyncError") }
        };
        let Some(function) = *FUNCTION.get_or_init(find) else {
            return Ok(());
        };
        let mut code: c_uint = 0;
        // SAFETY: the communicator is there, and the number lives for the call.
        let said = unsafe { function(self.comm, &raw mut code) };
        match (said, code) {
            (0, 0 | IN_PROGRESS) => Ok(()),
            (0, code) => self.noted(Err(failed(doing, code))),
            (said, _) => self.noted(Err(failed("ncclCommGetAsyncError", said))),
        }
    }

    fn noted(&mut self, said: Result<(), Failure>) -> Result<(), Failure> {
        self.broken |= said.is_err();
        said
    }

    /// Other ranks will not join it any more: it must be aborted.
    pub(crate) fn give_up(&mut self) {
        self.broken = true;
    }

    /// An operation for which NCCL has a function of its own; a root is rank 0.
    pub(crate) fn collective(
        &mut self,
        which: Collective,
        with: &Operation<'_>,
        send: DeviceBuffer,
        receive: DeviceBuffer,
    ) -> Result<(), Failure> {
        let (from, to) = (send.pointer(), receive.pointer());
        let (each, dtype, op) = (send.count, with.dtype, with.op);
        let (comm, stream) = (self.comm, with.stream());
        // SAFETY: the memory is the backend's, which lives until the stream is waited for or the communicator aborted; what an operation
        // sends or receives of all ranks has all ranks' parts.
        let said = unsafe {
            match which {
                Collective::AllReduce => ncclAllReduce(from, to, each, dtype, op, comm, stream),
                Collective::AllGather => ncclAllGather(from, to, each, dtype, comm, stream),
                Collective::ReduceScatter => {
                    ncclReduceScatter(from, to, receive.count, dtype, op, comm, stream)
                }
                Collective::Broadcast => ncclBroadcast(from, to, each, dtype, 0, comm, stream),
                Collective::Reduce => ncclReduce(from, to, each, dtype, op, 0, comm, stream),
                other => {
                    return Err(Failure::new(
                        other.word(),
                        "NCCL has sends and receives for it",
                    ));
                }
            }
        };
        self.noted(said)
    }

    /// Sends and receives as one operation: parts, and the ranks to which they go and from which they come.
    pub(crate) fn exchange(
        &mut self,
        with: &Operation<'_>,
        sends: &[(DeviceBuffer, usize)],
        receives: &[(DeviceBuffer, usize)],
    ) -> Result<(), Failure> {
        let peer = |rank: usize| c_int::try_from(rank).unwrap_or(-1);
        let (dtype, comm, stream) = (with.dtype, self.comm, with.stream());
        let all = || {
            // SAFETY: it takes nothing.
            unsafe { ncclGroupStart()? };
            for (part, to) in sends {
                // SAFETY: as of the collectives.
                unsafe { ncclSend(part.pointer(), part.count, dtype, peer(*to), comm, stream)? };
            }
            for (part, from) in receives {
                // SAFETY: as of the collectives.
                unsafe { ncclRecv(part.pointer(), part.count, dtype, peer(*from), comm, stream)? };
            }
            // SAFETY: it takes nothing, and ends the group that was started.
            unsafe { ncclGroupEnd() }
        };
        let said = all();
        self.noted(said)
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // SAFETY: the communicator is there, and given back once.
        let _ = unsafe {
            match self.broken {
                true => ncclCommAbort(self.comm),
                false => ncclCommDestroy(self.comm),
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_codes() {
        assert_eq!(version_text(22705), "2.27.5");
        assert_eq!(version_text(21005), "2.10.5");
        assert_eq!(version_text(20906), "2.9.6");
        assert_eq!(version_text(2804), "2.8.4");
    }

    #[test]
    fn an_id_is_its_digits() {
        let digits: String = (0..128u8).map(|n| format!("{:02x}", n * 2 + 1)).collect();
        let id = parse_id(&digits).unwrap();
        assert_eq!(id.internal[0], 1);
        assert_eq!(id.internal[127].to_ne_bytes(), [255]);
        assert!(parse_id("00").is_none());
        assert!(parse_id(&"é".repeat(128)).is_none());
    }

    #[test]
    fn a_library_that_is_not_there_is_said_in_the_loaders_words() {
        let failure = load("/no/such/libnccl.so.2").unwrap_err();
        assert_eq!(failure.function, "dlopen");
        assert!(failure.error.contains("/no/such/libnccl.so.2"), "{failure}");
        assert!(failure.error.contains("No such file"), "{failure}");
    }
}
