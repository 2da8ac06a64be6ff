//! The replies of NVML's functions as JSON.
//!
//! Each function is looked up by itself: an old library lacks the newer ones.

#![expect(unsafe_code, reason = "calls NVML")]

use std::ffi::{c_char, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlBAR1Memory_t, nvmlConfComputeSystemState_t, nvmlDevice_t, nvmlEccSramErrorStatus_v1_t,
    nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v3_t, nvmlMarginTemperature_v1_t, nvmlMemory_t,
    nvmlMemory_v2_t, nvmlPciInfo_t, nvmlProcessInfo_t, nvmlProcessInfo_v1_t, nvmlReturn_t,
    nvmlRowRemapperHistogramValues_t,
};
use serde_json::{Map, Value, json};

use crate::live::c_text::c_text;

/// The reply of a function.
pub(super) type NvmlReply = Result<Value, NvmlFailure>;

/// A function of a device with one result.
pub(super) type DeviceFunction<T> = unsafe extern "C" fn(nvmlDevice_t, *mut T) -> nvmlReturn_t;
/// The same with an argument.
pub(super) type DeviceFunctionWith<A, T> =
    unsafe extern "C" fn(nvmlDevice_t, A, *mut T) -> nvmlReturn_t;
/// A function that returns a text.
type DeviceTextFunction = unsafe extern "C" fn(nvmlDevice_t, *mut c_char, c_uint) -> nvmlReturn_t;

/// `NVML_ERROR_ARGUMENT_VERSION_MISMATCH`: the library does not know this version of a structure.
pub(super) const OTHER_VERSION: NvmlFailure = NvmlFailure::Code(25);

/// `NVML_ERROR_GPU_IS_LOST`.
const LOST: NvmlFailure = NvmlFailure::Code(15);

/// Why a function returned nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NvmlFailure {
    /// `nvmlReturn_t`.
    Code(nvmlReturn_t),
    /// The library does not have it.
    Missing,
}

impl NvmlFailure {
    /// The name as nvml.h has it, in the spelling of its wrapper; the number of a code that is newer.
    fn name(self) -> String {
        let code = match self {
            NvmlFailure::Missing => return "MissingSymbol".into(),
            NvmlFailure::Code(code) => code,
        };
        const CODES: &[(nvmlReturn_t, &str)] =
            include!(concat!(env!("OUT_DIR"), "/nvml_errors.codes.rs"));
        match CODES.iter().find(|(known, _)| *known == code) {
            Some((_, name)) => (*name).into(),
            None => code.to_string(),
        }
    }

    /// As it is in a reply.
    pub(super) fn value(self) -> Value {
        json!({ "error": self.name() })
    }
}

/// A return code.
pub(super) fn code(code: nvmlReturn_t) -> Result<(), NvmlFailure> {
    match code {
        0 => Ok(()),
        code => Err(NvmlFailure::Code(code)),
    }
}

/// A function, if the library has it.
pub(super) fn symbol<F: Copy, E>(function: &Result<F, E>) -> Result<F, NvmlFailure> {
    function.as_ref().copied().map_err(|_| NvmlFailure::Missing)
}

/// Calls a function of NVML that gives its result through the last argument; what it fails with is returned.
macro_rules! call {
    ($function:expr $(, $argument:ident)* => $value:expr) => {{
        let function = $crate::live::nvml::reply::symbol(&$function)?;
        let mut value = $value;
        // SAFETY: the bindings give the function's type; handles are NVML's own; the value lives for the call.
        #[expect(unsafe_code, reason = "calls NVML")]
        let said = unsafe { function($($argument,)* &raw mut value) };
        $crate::live::nvml::reply::code(said)?;
        value
    }};
}
pub(super) use call;

/// A structure of numbers alone.
///
/// # Safety
///
/// All bits zero are a value of it.
pub(super) unsafe trait Plain: Sized {
    /// All numbers zero.
    fn zeroed() -> Self {
        // SAFETY: the trait says so.
        unsafe { std::mem::zeroed() }
    }
}

macro_rules! plain {
    ($($of:ty),* $(,)?) => { $(
        // SAFETY: nvml.h declares numbers and arrays of numbers.
        unsafe impl Plain for $of {}
    )* };
}
plain! {
    nvmlBAR1Memory_t, nvmlConfComputeSystemState_t, nvmlEccSramErrorStatus_v1_t, nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v3_t,
    nvmlMarginTemperature_v1_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlPciInfo_t, nvmlProcessInfo_t, nvmlProcessInfo_v1_t,
    nvmlRowRemapperHistogramValues_t,
}

/// The single result of a function of a device.
pub(super) fn call_device<T: Default + Into<Value>, E>(
    function: &Result<DeviceFunction<T>, E>,
    device: nvmlDevice_t,
) -> NvmlReply {
    Ok(call!(*function, device => T::default()).into())
}

/// The single result of a function of a device with an argument.
pub(super) fn with<A: Copy, T: Default + Into<Value>, E>(
    function: &Result<DeviceFunctionWith<A, T>, E>,
    device: nvmlDevice_t,
    argument: A,
) -> NvmlReply {
    Ok(call!(*function, device, argument => T::default()).into())
}

/// The text that a function of a device returns.
pub(super) fn text<E>(function: &Result<DeviceTextFunction, E>, device: nvmlDevice_t) -> NvmlReply {
    let function = symbol(function)?;
    let mut buffer: [c_char; 128] = [0; 128];
    // SAFETY: as in `one`; NVML writes no more than the length that it is told, which is less than the buffer's.
    code(unsafe { function(device, buffer.as_mut_ptr(), 127) })?;
    Ok(c_text(&buffer).into())
}

/// A reply that is being put together.
#[derive(Default)]
pub(super) struct Object {
    members: Map<String, Value>,
    lost: bool,
}

impl Object {
    /// Stores the reply of a function under its name.
    pub(super) fn insert(&mut self, name: &str, said: NvmlReply) {
        self.lost |= said.as_ref().err() == Some(&LOST);
        let value = said.unwrap_or_else(NvmlFailure::value);
        self.set(name, value);
    }

    /// Whether a function reported that the GPU is lost. Each further query may wait seconds for a device that does not respond.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Something else.
    pub(super) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.members.insert(name.to_owned(), value.into());
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Value {
        Value::Object(object.members)
    }
}
