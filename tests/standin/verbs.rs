//! What the kernel's soft-RoCE lacks: an adapter that has the memory of a GPU. Preloaded (`LD_PRELOAD`), it answers for two functions of libibverbs, over the
//! memory of the stand-in of CUDA, and hands everything else on; the RDMA writes are the real ones.
//!
//! `RDMA_DOCTOR_STANDIN_VERBS` says what the adapter can:
//!
//! * `dma-buf`: `ibv_reg_dmabuf_mr` maps the file that CUDA handed out.
//! * `peer-memory`: `ibv_reg_mr` takes the addresses of a GPU, as where nvidia_peermem is loaded.
//! * `elsewhere`: `ibv_reg_dmabuf_mr` maps a copy, so that what arrives never reaches the GPU.
//! * `old`: there is no `ibv_reg_dmabuf_mr`.
//! * anything else, or nothing: what the real library says.
//!
//! The doctor looks its functions up with `dlsym` in a library that it loaded, where nothing that was loaded before comes in between: so this is a `dlsym`.
#![expect(
    clippy::missing_safety_doc,
    unsafe_code,
    missing_docs,
    reason = "the functions are those of libc and libibverbs, and so are their contracts"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a stand-in is told by its environment what it is"
)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type RegisterAt = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, u64, c_uint) -> *mut c_void;

static LOOKUP: AtomicUsize = AtomicUsize::new(0);
/// The real `ibv_reg_mr_iova2`.
static REGISTER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// libc's own: two versions of its name are in use.
fn lookup() -> Option<Lookup> {
    let mut found = LOOKUP.load(Ordering::Relaxed);
    for version in [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"] {
        if found == 0 {
            let name = c"dlsym".as_ptr();
            found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr()) } as usize;
        }
    }
    LOOKUP.store(found, Ordering::Relaxed);
    (found != 0).then(|| unsafe { std::mem::transmute::<usize, Lookup>(found) })
}

fn real(handle: *mut c_void, name: &CStr) -> *mut c_void {
    match lookup() {
        Some(lookup) => unsafe { lookup(handle, name.as_ptr()) },
        None => std::ptr::null_mut(),
    }
}

fn can(what: &str) -> bool {
    std::env::var("RDMA_DOCTOR_STANDIN_VERBS").is_ok_and(|can| can == what)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let name = unsafe { CStr::from_ptr(name) };
    let found = real(handle, name);
    match name.to_bytes() {
        b"ibv_reg_dmabuf_mr" if can("dma-buf") || can("elsewhere") => {
            REGISTER.store(real(handle, c"ibv_reg_mr_iova2"), Ordering::Relaxed);
            ibv_reg_dmabuf_mr as *mut c_void
        }
        // What is not there leaves its error behind.
        b"ibv_reg_dmabuf_mr" if can("old") => real(handle, c"ibv_reg_dmabuf_mr_of_nobody"),
        b"ibv_reg_mr_iova2" if can("peer-memory") && !found.is_null() => {
            REGISTER.store(found, Ordering::Relaxed);
            ibv_reg_mr_iova2 as *mut c_void
        }
        _ => found,
    }
}

fn register() -> Option<RegisterAt> {
    let found = REGISTER.load(Ordering::Relaxed);
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, RegisterAt>(found) })
}

fn map(file: c_int, offset: u64, length: usize, flags: c_int) -> *mut c_void {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let nowhere = std::ptr::null_mut();
    unsafe { libc::mmap(nowhere, length, protection, flags, file, offset as i64) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_dmabuf_mr(
    domain: *mut c_void,
    offset: u64,
    length: usize,
    iova: u64,
    file: c_int,
    access: c_int,
) -> *mut c_void {
    let flags = match can("elsewhere") {
        true => libc::MAP_PRIVATE,
        false => libc::MAP_SHARED,
    };
    let mapped = map(file, offset, length, flags);
    match register() {
        Some(register) if mapped != libc::MAP_FAILED => unsafe {
            register(domain, mapped, length, iova, access as c_uint)
        },
        _ => std::ptr::null_mut(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    domain: *mut c_void,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut c_void {
    let Some(register) = register() else {
        return std::ptr::null_mut();
    };
    let place = match of_gpu(address) {
        Some([file, _, _, place]) => map(file as c_int, place, length, libc::MAP_SHARED),
        None => address,
    };
    unsafe { register(domain, place, length, iova, access) }
}

/// Where memory of the stand-in of CUDA is, which is loaded where there is one.
fn of_gpu(address: *mut c_void) -> Option<[u64; 4]> {
    type Find = unsafe extern "C" fn(u64, *mut [u64; 4]) -> c_int;
    unsafe {
        let cuda = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if cuda.is_null() {
            return None;
        }
        let find = real(cuda, c"standin_memory");
        if find.is_null() {
            return None;
        }
        let find = std::mem::transmute::<*mut c_void, Find>(find);
        let mut found = [0; 4];
        (find(address as u64, &raw mut found) == 1).then_some(found)
    }
}
