//! libibverbs by `dlopen` and `dlsym`, and its list of devices.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::OnceLock;

use libloading::Library;
use rdma_sys::ibv_device;
use serde_json::{Value, json};

use crate::live::c_text::c_text;
use crate::live::loader_words::loader_words;
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

/// The library's name on every distribution: the version is that of its interface, not of rdma-core.
const NAME: &str = "libibverbs.so.1";

/// Functions of the library, with the types that they have in `infiniband/verbs.h`, each looked up once.
macro_rules! functions {
    ($( $name:ident($($arg:ident: $ty:ty),*) -> $out:ty; )*) => { $(
        unsafe fn $name($($arg: $ty),*) -> Result<$out, $crate::source::Refusal> {
            type F = unsafe extern "C" fn($($ty),*) -> $out;
            static FUNCTION: std::sync::OnceLock<Result<F, $crate::source::Refusal>> = std::sync::OnceLock::new();
            // SAFETY: the type is that of verbs.h.
            let found = FUNCTION.get_or_init(|| unsafe { $crate::live::verbs::library::symbol(stringify!($name)) });
            let function = found.as_ref().map_err(Clone::clone)?;
            // SAFETY: the caller vouches for the arguments.
            Ok(unsafe { function($($arg),*) })
        }
    )* };
}

pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod domain;
pub(crate) mod pair;

use context::Context;

functions! {
    ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list(list: *mut *mut ibv_device) -> ();
}

/// Answers a call.
pub(in crate::live) fn ask(call: &Call) -> Result<Answer, Refusal> {
    let value = match &*call.name {
        "ibv_library" => library().map(|_| json!({ "loaded": NAME })),
        "ibv_get_device_list" => Ok(DeviceList::get()?.describe()),
        "ibv_query_port" => {
            let port = call.number("port").and_then(|port| u8::try_from(port).ok());
            match (call.text("device"), port) {
                (Some(device), Some(port)) => Context::open(device)?.query_port(port),
                _ => Err(Refusal::Errno(Errno::EINVAL)),
            }
        }
        name => Err(Refusal::unknown_call(name)),
    }?;
    Ok(Answer::from(value))
}

/// The library, loaded once and never closed: its providers cannot be unloaded.
fn library() -> Result<&'static Library, Refusal> {
    static LIBRARY: OnceLock<Result<Library, Refusal>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            // SAFETY: the constructors of libibverbs and its dependencies touch their own memory only; this runs in a
            // process that does nothing but ask.
            unsafe { Library::new(NAME) }.map_err(|e| Refusal::of_loader(&loader_words(&e)))
        })
        .as_ref()
        .map_err(Clone::clone)
}

/// A function of the library.
///
/// # Safety
///
/// `F` is the type that the function of this name has in `infiniband/verbs.h`.
unsafe fn symbol<F: Copy>(name: &str) -> Result<F, Refusal> {
    // SAFETY: the caller vouches for the type, and the library is never unloaded.
    match unsafe { library()?.get::<F>(name) } {
        Ok(symbol) => Ok(*symbol),
        Err(_) => Err(Refusal::SymbolMissing(name.into())),
    }
}

/// The error number of this thread, right after a call that failed.
fn last_error() -> Refusal {
    Refusal::Errno(Errno::from(&std::io::Error::last_os_error()))
}

/// What a function made; it gives a null pointer if it failed.
fn made<T>(pointer: *mut T) -> Result<*mut T, Refusal> {
    match pointer.is_null() {
        true => Err(last_error()),
        false => Ok(pointer),
    }
}

/// Verbs that answer with a status give a positive error number.
fn status(code: c_int) -> Result<(), Refusal> {
    match code {
        0 => Ok(()),
        code => Err(Refusal::Errno(Errno(code.abs()))),
    }
}

/// The list of devices; freed when dropped.
struct DeviceList {
    list: *mut *mut ibv_device,
    count: usize,
}

impl DeviceList {
    fn get() -> Result<Self, Refusal> {
        let mut count: c_int = 0;
        // SAFETY: `count` lives for the call.
        let list = made(unsafe { ibv_get_device_list(&raw mut count)? })?;
        let count = usize::try_from(count).unwrap_or(0);
        Ok(DeviceList { list, count })
    }

    fn pointers(&self) -> &[*mut ibv_device] {
        // SAFETY: the list is not null and has `count` entries until it is freed.
        unsafe { std::slice::from_raw_parts(self.list, self.count) }
    }

    /// The name of a device.
    fn name(device: *mut ibv_device) -> String {
        // SAFETY: an entry of the list points at a device until the list is freed.
        c_text(unsafe { &(*device).name })
    }

    fn describe(&self) -> Value {
        let names = self.pointers().iter().map(|device| Self::name(*device));
        // The library's order is that of its hash of names, and differs between versions.
        let names: BTreeSet<String> = names.collect();
        let devices = names.into_iter().map(|name| json!({ "name": name }));
        json!({ "devices": devices.collect::<Value>() })
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the list came from ibv_get_device_list and is freed once.
        let _ = unsafe { ibv_free_device_list(self.list) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_in_the_loaders_words() {
        // SAFETY: nothing is loaded.
        let error = unsafe { Library::new("libno-such.so.1") }.err().unwrap();
        assert!(loader_words(&error).contains("libno-such.so.1"));
    }

    #[test]
    fn bad_arguments_and_names_are_refused() {
        let asked = |call: &Call| ask(call).unwrap_err();
        assert_eq!(
            asked(&Call::new("ibv_query_port", [("device", "x".into())])),
            Refusal::Errno(Errno::EINVAL)
        );
        assert!(matches!(
            asked(&Call::new("ibv_reboot", [])),
            Refusal::NotAsked(_)
        ));
    }
}
