//! A stand-in for a libcuda.so.1 of an old driver, which lacks most functions that the doctor calls.
#![expect(
    clippy::missing_safety_doc,
    unsafe_code,
    missing_docs,
    reason = "the functions are CUDA's, and so are their contracts"
)]

use std::ffi::{c_int, c_uint};

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: c_uint) -> c_uint {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_uint {
    unsafe { *version = 9000 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_uint {
    unsafe { *count = 2 };
    0
}
