//! The stand-in of CUDA, which this process has loaded before.

use std::ffi::{c_int, c_void};

use libloading::Library;

/// Its functions that only stand-ins have.
pub(crate) struct Cuda {
    library: Library,
}

/// A stream of a caller, which outlives what is put into it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Stream(pub(crate) *mut c_void);

// SAFETY: the stand-in's streams are locked.
unsafe impl Send for Stream {}

impl Cuda {
    pub(crate) fn load() -> Option<Cuda> {
        // SAFETY: the stand-in has no constructors.
        let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
        Some(Cuda { library })
    }

    /// The GPU of this thread, by its number in the description and in CUDA.
    pub(crate) fn current(&self) -> Option<(usize, c_int)> {
        type F = unsafe extern "C" fn(*mut c_int) -> c_int;
        let mut ordinal = -1;
        // SAFETY: the stand-in has it so.
        let gpu = unsafe { self.library.get::<F>("standin_current").ok()?(&raw mut ordinal) };
        Some((usize::try_from(gpu).ok()?, ordinal))
    }

    /// Where this process finds what is at an address of a device.
    pub(crate) fn at(&self, address: *mut c_void) -> *mut c_void {
        type F = extern "C" fn(u64) -> *mut c_void;
        // SAFETY: the stand-in has it so.
        let at = unsafe { self.library.get::<F>("standin_at") };
        at.map_or(address, |at| at(address as u64))
    }

    /// File, number, size of the allocation, and the place of the address in it.
    pub(crate) fn memory(&self, address: *const c_void) -> Option<[u64; 4]> {
        type F = unsafe extern "C" fn(u64, *mut [u64; 4]) -> c_int;
        let mut found = [0; 4];
        // SAFETY: the stand-in has it so.
        let is = unsafe {
            self.library.get::<F>("standin_memory").ok()?(address as u64, &raw mut found)
        };
        (is == 1).then_some(found)
    }

    /// How often this process wrote memory.
    pub(crate) fn writes(&self) -> u64 {
        type F = extern "C" fn() -> u64;
        // SAFETY: the stand-in has it so.
        unsafe { self.library.get::<F>("standin_writes") }.map_or(0, |writes| writes())
    }

    pub(crate) fn begin(&self, stream: Stream) {
        type F = unsafe extern "C" fn(*mut c_void);
        // SAFETY: the stand-in has it so, and the stream is its own.
        if let Ok(begin) = unsafe { self.library.get::<F>("standin_begin") } {
            unsafe { begin(stream.0) };
        }
    }

    pub(crate) fn end(&self, stream: Stream, ms: f64) {
        type F = unsafe extern "C" fn(*mut c_void, f64);
        // SAFETY: as above.
        if let Ok(end) = unsafe { self.library.get::<F>("standin_end") } {
            unsafe { end(stream.0, ms) };
        }
    }
}
