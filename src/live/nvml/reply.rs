//! What NVML's functions say, as JSON.
//!
//! A function of the bindings is there or not, since each is looked up by itself: an old library lacks the newer ones.

use std::ffi::{c_char, c_uint};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};
use serde_json::{Map, Value, json};

/// What a function said.
pub(super) type Said = Result<Value, Failure>;

/// A function of a device with one result.
pub(super) type Of<T> = unsafe extern "C" fn(nvmlDevice_t, *mut T) -> nvmlReturn_t;
/// The same with an argument.
pub(super) type OfWith<A, T> = unsafe extern "C" fn(nvmlDevice_t, A, *mut T) -> nvmlReturn_t;
/// A function that gives a text.
type OfText = unsafe extern "C" fn(nvmlDevice_t, *mut c_char, c_uint) -> nvmlReturn_t;

/// `NVML_ERROR_ARGUMENT_VERSION_MISMATCH`: the library does not know this version of a structure.
pub(super) const OTHER_VERSION: Failure = Failure::Code(25);

/// `NVML_ERROR_GPU_IS_LOST`.
const LOST: Failure = Failure::Code(15);

/// Why a function said nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// `nvmlReturn_t`.
    Code(nvmlReturn_t),
    /// The library does not have it.
    Missing,
}

impl Failure {
    /// The name as nvml.h has it, in the spelling of its wrapper; the number of a code that is newer.
    fn name(self) -> String {
        let code = match self {
            Failure::Missing => return "MissingSymbol".into(),
            Failure::Code(code) => code,
        };
        let name = match code {
            1 => "Uninitialized",
            2 => "InvalidArgument",
            3 => "NotSupported",
            4 => "NoPermission",
            5 => "AlreadyInitialized",
            6 => "NotFound",
            7 => "InsufficientSize",
            8 => "InsufficientPower",
            9 => "DriverNotLoaded",
            10 => "Timeout",
            11 => "IrqIssue",
            12 => "LibraryNotFound",
            13 => "FunctionNotFound",
            14 => "CorruptedInforom",
            15 => "GpuIsLost",
            16 => "ResetRequired",
            17 => "OperatingSystem",
            18 => "LibRmVersionMismatch",
            19 => "InUse",
            20 => "Memory",
            21 => "NoData",
            22 => "VgpuEccNotSupported",
            23 => "InsufficientResources",
            24 => "FreqNotSupported",
            25 => "ArgumentVersionMismatch",
            26 => "Deprecated",
            27 => "NotReady",
            28 => "GpuNotFound",
            29 => "InvalidState",
            30 => "ResetTypeNotSupported",
            999 => "Unknown",
            _ => return code.to_string(),
        };
        name.into()
    }

    /// As it stands in a reply.
    pub(super) fn value(self) -> Value {
        json!({ "error": self.name() })
    }
}

/// A return code.
pub(super) fn code(code: nvmlReturn_t) -> Result<(), Failure> {
    match code {
        0 => Ok(()),
        code => Err(Failure::Code(code)),
    }
}

/// A function, where the library has it.
pub(super) fn symbol<F: Copy, E>(function: &Result<F, E>) -> Result<F, Failure> {
    function.as_ref().copied().map_err(|_| Failure::Missing)
}

/// The single result of a function of a device.
#[expect(unsafe_code, reason = "calls NVML")]
pub(super) fn one<T: Default + Into<Value>, E>(
    function: &Result<Of<T>, E>,
    device: nvmlDevice_t,
) -> Said {
    let function = symbol(function)?;
    let mut value = T::default();
    // SAFETY: the bindings give the function's type; the handle is NVML's own; `value` lives for the call.
    code(unsafe { function(device, &raw mut value) })?;
    Ok(value.into())
}

/// The single result of a function of a device with an argument.
#[expect(unsafe_code, reason = "calls NVML")]
pub(super) fn with<A, T: Default + Into<Value>, E>(
    function: &Result<OfWith<A, T>, E>,
    device: nvmlDevice_t,
    argument: A,
) -> Said {
    let function = symbol(function)?;
    let mut value = T::default();
    // SAFETY: as in `one`; the argument is a number.
    code(unsafe { function(device, argument, &raw mut value) })?;
    Ok(value.into())
}

/// The text that a function of a device gives.
#[expect(unsafe_code, reason = "calls NVML")]
pub(super) fn text<E>(function: &Result<OfText, E>, device: nvmlDevice_t) -> Said {
    let function = symbol(function)?;
    let mut buffer: [c_char; 128] = [0; 128];
    // SAFETY: as in `one`; NVML writes no more than the length that it is told, which is less than the buffer's.
    code(unsafe { function(device, buffer.as_mut_ptr(), 127) })?;
    Ok(characters(&buffer).into())
}

/// The characters up to the first NUL, or all.
pub(super) fn characters(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars
        .iter()
        .map(|c| c.cast_unsigned())
        .take_while(|b| *b != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A reply that is being put together.
#[derive(Default)]
pub(super) struct Object {
    members: Map<String, Value>,
    lost: bool,
}

impl Object {
    /// What a function said, under its name.
    pub(super) fn put(&mut self, name: &str, said: Said) {
        self.lost |= said.as_ref().err() == Some(&LOST);
        let value = said.unwrap_or_else(Failure::value);
        self.set(name, value);
    }

    /// Whether a function said that the GPU is lost. Each that is asked after that may wait seconds for what does not answer.
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
