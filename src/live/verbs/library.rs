//! libibverbs by `dlopen` and `dlsym`, and its list of devices.

pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod domain;
pub(crate) mod pair;

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use libloading::Library;
use rdma_sys::ibv_device;
use serde_json::{Value, json};

use crate::live::c_text::c_text;
use crate::small_sort;
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};
use context::Context;

/// The library's name on every distribution: the version is that of its interface, not of rdma-core.
const NAME: &str = "libibverbs.so.1";

type GetDeviceList = unsafe extern "C" fn(*mut c_int) -> *mut *mut ibv_device;
type FreeDeviceList = unsafe extern "C" fn(*mut *mut ibv_device);
type GetDeviceGuid = unsafe extern "C" fn(*mut ibv_device) -> u64;

/// Answers a call.
pub(super) fn ask(call: &Call) -> Result<Answer, Refusal> {
    let value = match &*call.name {
        "ibv_library" => library().map(|_| json!({ "loaded": NAME })),
        "ibv_get_device_list" => DeviceList::get()?.describe(),
        "ibv_query_device" => Context::open(device(call)?)?.query_device(),
        "ibv_query_port" => {
            let port = call.number("port").and_then(|port| u8::try_from(port).ok());
            let port = port.ok_or(Refusal::Errno(Errno::EINVAL))?;
            Context::open(device(call)?)?.query_port(port)
        }
        name => Err(Refusal::NotAsked(format!("unknown call {name}").into())),
    }?;
    Ok(Answer::Value(Arc::new(value)))
}

fn device(call: &Call) -> Result<&str, Refusal> {
    call.text("device").ok_or(Refusal::Errno(Errno::EINVAL))
}

/// The library, loaded once and never closed: its providers cannot be unloaded.
#[expect(unsafe_code, reason = "dlopen runs the library's constructors")]
fn library() -> Result<&'static Library, Refusal> {
    static LIBRARY: OnceLock<Result<Library, Refusal>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            // SAFETY: the constructors of libibverbs and its dependencies touch their own memory only; this runs in a
            // process that does nothing but ask.
            unsafe { Library::new(NAME) }.map_err(|e| Refusal::LibraryMissing(loader_words(&e)))
        })
        .as_ref()
        .map_err(Clone::clone)
}

/// The loader's own words: libloading keeps them as the source of its error.
fn loader_words(error: &libloading::Error) -> Arc<str> {
    match std::error::Error::source(error) {
        Some(source) => source.to_string().into(),
        None => error.to_string().into(),
    }
}

/// A function of the library.
///
/// # Safety
///
/// `F` is the type that the function of this name has in `infiniband/verbs.h`.
#[expect(unsafe_code, reason = "a symbol has no type")]
unsafe fn function<F: Copy>(name: &str) -> Result<F, Refusal> {
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

/// Verbs that answer with a status give a positive error number.
fn status(code: c_int) -> Result<(), Refusal> {
    match code {
        0 => Ok(()),
        code => Err(Refusal::Errno(Errno(code.abs()))),
    }
}

/// A GUID as sysfs writes it. The library gives it in network byte order.
fn guid(network_order: u64) -> String {
    let groups: Vec<String> = network_order
        .to_ne_bytes()
        .chunks_exact(2)
        .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
        .collect();
    groups.join(":")
}

/// The list of devices; freed when dropped.
struct DeviceList {
    list: *mut *mut ibv_device,
    count: usize,
    free: FreeDeviceList,
}

impl DeviceList {
    #[expect(unsafe_code, reason = "calls libibverbs")]
    fn get() -> Result<Self, Refusal> {
        // SAFETY: the types are those of verbs.h.
        let (get, free) = unsafe {
            (
                function::<GetDeviceList>("ibv_get_device_list")?,
                function::<FreeDeviceList>("ibv_free_device_list")?,
            )
        };
        let mut count: c_int = 0;
        // SAFETY: `count` lives for the call.
        let list = unsafe { get(&raw mut count) };
        if list.is_null() {
            return Err(last_error());
        }
        Ok(DeviceList {
            list,
            count: usize::try_from(count).unwrap_or(0),
            free,
        })
    }

    fn pointers(&self) -> &[*mut ibv_device] {
        #[expect(unsafe_code, reason = "libibverbs gives an array as a pointer")]
        // SAFETY: the list is not null and has `count` entries until it is freed.
        unsafe {
            std::slice::from_raw_parts(self.list, self.count)
        }
    }

    /// The name, kind and transport of a device.
    #[expect(unsafe_code, reason = "reads what libibverbs gave")]
    fn fields(device: *mut ibv_device) -> (String, i64, i64) {
        // SAFETY: an entry of the list points at a device until the list is freed; rdma-sys has its two enums as plain numbers.
        let device = unsafe { &*device };
        (
            c_text(&device.name),
            i64::from(device.node_type),
            i64::from(device.transport_type),
        )
    }

    fn describe(&self) -> Result<Value, Refusal> {
        #[expect(unsafe_code, reason = "a symbol has no type")]
        // SAFETY: the type is that of verbs.h.
        let get_guid = unsafe { function::<GetDeviceGuid>("ibv_get_device_guid")? };
        let mut devices: Vec<(String, Value)> = self
            .pointers()
            .iter()
            .map(|device| {
                let (name, node_type, transport) = Self::fields(*device);
                #[expect(unsafe_code, reason = "calls libibverbs")]
                // SAFETY: the device is in the list, which is not yet freed.
                let guid = guid(unsafe { get_guid(*device) });
                let value = json!({
                    "name": &name, "guid": guid, "node_type": node_type, "transport": transport,
                });
                (name, value)
            })
            .collect();
        // The library's order is that of its hash of names, and differs between versions.
        small_sort::by(&mut devices, |a, b| a.0.cmp(&b.0));
        let devices: Vec<Value> = devices.into_iter().map(|(_, value)| value).collect();
        Ok(json!({ "devices": devices }))
    }
}

impl Drop for DeviceList {
    #[expect(unsafe_code, reason = "calls libibverbs")]
    fn drop(&mut self) {
        // SAFETY: the list came from ibv_get_device_list and is freed once.
        unsafe { (self.free)(self.list) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_are_written_as_sysfs_does() {
        assert_eq!(
            guid(0xb83f_d203_00c0_ffee_u64.to_be()),
            "b83f:d203:00c0:ffee"
        );
    }

    #[test]
    fn a_missing_library_is_named_in_the_loaders_words() {
        #[expect(unsafe_code, reason = "dlopen")]
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
