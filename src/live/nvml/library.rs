//! The library: loaded once, begun once, never ended.

#![expect(unsafe_code, reason = "calls NVML")]

use std::ffi::{c_char, c_int, c_uint};
use std::sync::OnceLock;

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::InitFlags;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlConfComputeSystemState_t, nvmlDevice_t, nvmlReturn_t,
};
use serde_json::{Value, json};

use super::reply::{NvmlFailure, NvmlReply, Object, Plain, call, code, symbol};
use crate::live::c_text::c_text;
use crate::live::loader_words::loader_words;
use crate::source::Refusal;

/// The library's name everywhere: the version is that of its interface.
const NAME: &str = "libnvidia-ml.so.1";

/// Where else it is: a container brings the driver to a Kubernetes node, or a system image without package manager has it apart.
const ELSEWHERE: [&str; 4] = [
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
    "/run/nvidia/driver/usr/lib64",
    "/home/kubernetes/bin/nvidia/lib64",
];

/// The library's functions, loaded and not yet begun: some answer even if it cannot begin.
pub(super) fn functions() -> Result<&'static NvmlLib, Refusal> {
    static LIBRARY: OnceLock<Result<NvmlLib, Refusal>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            let elsewhere = ELSEWHERE.iter().map(|dir| format!("{dir}/{NAME}"));
            let mut missing = None;
            // Once it is loaded from anywhere, the loader finds it by its name.
            for path in std::iter::once(NAME.to_owned()).chain(elsewhere) {
                // SAFETY: this runs in a process that does nothing but ask NVML, and may do little else.
                match unsafe { NvmlLib::new(&path) } {
                    Ok(library) => return Ok(library),
                    // The loader's error for the standard name is the one to report.
                    Err(error) => missing = missing.or(Some(loader_words(&error))),
                }
            }
            Err(Refusal::of_loader(&missing.unwrap_or_default()))
        })
        .as_ref()
        .map_err(Clone::clone)
}

/// Begins, once. `NO_GPUS`: a machine without is no failure.
fn initialised() -> Result<&'static Result<Nvml, NvmlFailure>, Refusal> {
    static BEGUN: OnceLock<Result<Nvml, NvmlFailure>> = OnceLock::new();
    // Loaded first, so that a loader error is reported as such, and the library stays loaded if `nvmlInit` fails.
    functions()?;
    Ok(BEGUN.get_or_init(|| {
        let nvml = match Nvml::init_with_flags(InitFlags::NO_GPUS) {
            // Before release 384.
            Err(NvmlError::FailedToLoadSymbol(_)) => Nvml::init(),
            other => other,
        };
        nvml.map_err(failure)
    }))
}

/// The wrapper's error as NVML's code.
fn failure(error: NvmlError) -> NvmlFailure {
    match error {
        NvmlError::FailedToLoadSymbol(_) => NvmlFailure::Missing,
        error => NvmlFailure::Code(nvmlReturn_t::from(error)),
    }
}

/// NVML, begun.
pub(super) fn nvml() -> Result<&'static Nvml, Refusal> {
    initialised()?.as_ref().map_err(|failure| {
        Refusal::not_asked(format!("NVML does not begin: {}", failure.value()["error"]))
    })
}

/// A device's handle; the outer error is no answer at all.
pub(super) fn device(index: u32) -> Result<Result<nvmlDevice_t, NvmlFailure>, Refusal> {
    let device = nvml()?.device_by_index(index);
    Ok(device
        // SAFETY: NVML's handles are good until it is ended, which it never is here.
        .map(|device| unsafe { device.handle() })
        .map_err(failure))
}

/// How many devices there are.
pub(super) fn count() -> Result<Result<u32, NvmlFailure>, Refusal> {
    Ok(nvml()?.device_count().map_err(failure))
}

/// Versions, the number of GPUs, and whether NVML begins.
pub(super) fn system() -> Result<Value, Refusal> {
    let library = functions()?;
    let begun = initialised()?;
    let mut out = Object::default();
    let init = begun.as_ref().map(|_| 0.into());
    out.insert("nvmlInitWithFlags", init.map_err(|failure| *failure));
    // Answers in a library that did not begin, too: for that it is asked through the bindings.
    out.insert(
        "nvmlSystemGetNVMLVersion",
        version(&library.nvmlSystemGetNVMLVersion),
    );
    let Ok(nvml) = begun else {
        return Ok(out.into());
    };
    let cuda: Result<c_int, _> = nvml.sys_cuda_driver_version();
    out.insert(
        "nvmlSystemGetCudaDriverVersion_v2",
        cuda.map(Value::from).map_err(failure),
    );
    let count = nvml.device_count().map(Value::from);
    out.insert("nvmlDeviceGetCount_v2", count.map_err(failure));
    out.insert("nvmlSystemGetConfComputeState", confidential(library));
    Ok(out.into())
}

fn version<E>(
    function: &Result<unsafe extern "C" fn(*mut c_char, c_uint) -> nvmlReturn_t, E>,
) -> NvmlReply {
    let function = symbol(function)?;
    let mut buffer: [c_char; 96] = [0; 96];
    // SAFETY: NVML writes no more than the length that it is told, which is less than the buffer's.
    code(unsafe { function(buffer.as_mut_ptr(), 95) })?;
    Ok(c_text(&buffer).into())
}

fn confidential(library: &NvmlLib) -> NvmlReply {
    let state: nvmlConfComputeSystemState_t =
        call!(library.nvmlSystemGetConfComputeState => Plain::zeroed());
    Ok(
        json!({ "environment": state.environment, "ccFeature": state.ccFeature, "devToolsMode": state.devToolsMode }),
    )
}
