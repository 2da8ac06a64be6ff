//! The library: loaded once, begun once, never ended.

use crate::live::clock;
use std::ffi::{c_char, c_int, c_uint};
use std::sync::OnceLock;

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::InitFlags;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlConfComputeSystemState_t, nvmlDevice_t, nvmlReturn_t,
};
use serde_json::{Value, json};

use super::reply::{Failure, Object, Said, characters, code, symbol};
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

/// The library's functions, loaded and not yet begun: some answer even where it cannot begin.
#[expect(unsafe_code, reason = "dlopen runs the library's constructors")]
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
                    // What the loader says of the ordinary way is what matters.
                    Err(error) => missing = missing.or(Some(loader_words(&error))),
                }
            }
            Err(Refusal::LibraryMissing(missing.unwrap_or_default().into()))
        })
        .as_ref()
        .map_err(Clone::clone)
}

/// The loader's own words, where it has any.
fn loader_words(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

struct Begun {
    nvml: Result<Nvml, Failure>,
    took_us: u64,
}

/// Begins, once. `NO_GPUS`: a machine without is no failure.
fn begun() -> Result<&'static Begun, Refusal> {
    static BEGUN: OnceLock<Begun> = OnceLock::new();
    // First, so that a library that cannot be loaded is told as such, and so that it stays loaded where it cannot begin.
    functions()?;
    Ok(BEGUN.get_or_init(|| {
        let began = clock::boottime_ns();
        let nvml = match Nvml::init_with_flags(InitFlags::NO_GPUS) {
            // Before release 384.
            Err(NvmlError::FailedToLoadSymbol(_)) => Nvml::init(),
            other => other,
        };
        Begun {
            nvml: nvml.map_err(failure),
            took_us: clock::boottime_ns().saturating_sub(began) / 1000,
        }
    }))
}

/// The wrapper's error as NVML's code.
fn failure(error: NvmlError) -> Failure {
    match error {
        NvmlError::FailedToLoadSymbol(_) => Failure::Missing,
        error => Failure::Code(nvmlReturn_t::from(error)),
    }
}

/// NVML, begun.
pub(super) fn nvml() -> Result<&'static Nvml, Refusal> {
    let begun = begun()?;
    begun.nvml.as_ref().map_err(|failure| {
        Refusal::NotAsked(format!("NVML does not begin: {}", failure.value()["error"]).into())
    })
}

/// A device's handle; the outer error is no answer at all.
#[expect(unsafe_code, reason = "the wrapper keeps handles to itself")]
pub(super) fn device(index: u32) -> Result<Result<nvmlDevice_t, Failure>, Refusal> {
    let device = nvml()?.device_by_index(index);
    Ok(device
        // SAFETY: NVML's handles are good until it is ended, which it never is here.
        .map(|device| unsafe { device.handle() })
        .map_err(failure))
}

/// How many devices there are.
pub(super) fn count() -> Result<Result<u32, Failure>, Refusal> {
    Ok(nvml()?.device_count().map_err(failure))
}

/// Versions, the number of GPUs, and whether and how soon NVML begins.
pub(super) fn system() -> Result<Value, Refusal> {
    let library = functions()?;
    let begun = begun()?;
    let mut out = Object::default();
    let init = begun.nvml.as_ref().map(|_| 0.into());
    out.put("nvmlInitWithFlags", init.map_err(|failure| *failure));
    out.set("init_us", begun.took_us);
    // Answers in a library that did not begin, too: for that it is asked through the bindings.
    out.put(
        "nvmlSystemGetNVMLVersion",
        version(&library.nvmlSystemGetNVMLVersion),
    );
    let Ok(nvml) = &begun.nvml else {
        return Ok(out.into());
    };
    out.put(
        "nvmlSystemGetDriverVersion",
        version(&library.nvmlSystemGetDriverVersion),
    );
    let cuda: Result<c_int, _> = nvml.sys_cuda_driver_version();
    out.put(
        "nvmlSystemGetCudaDriverVersion_v2",
        cuda.map(Value::from).map_err(failure),
    );
    let count = nvml.device_count().map(Value::from);
    out.put("nvmlDeviceGetCount_v2", count.map_err(failure));
    out.put("nvmlSystemGetConfComputeState", confidential(library));
    Ok(out.into())
}

#[expect(unsafe_code, reason = "calls NVML")]
fn version<E>(
    function: &Result<unsafe extern "C" fn(*mut c_char, c_uint) -> nvmlReturn_t, E>,
) -> Said {
    let function = symbol(function)?;
    let mut buffer: [c_char; 96] = [0; 96];
    // SAFETY: NVML writes no more than the length that it is told, which is less than the buffer's.
    code(unsafe { function(buffer.as_mut_ptr(), 95) })?;
    Ok(characters(&buffer).into())
}

#[expect(unsafe_code, reason = "calls NVML")]
fn confidential(library: &NvmlLib) -> Said {
    let function = symbol(&library.nvmlSystemGetConfComputeState)?;
    let mut state = nvmlConfComputeSystemState_t {
        environment: 0,
        ccFeature: 0,
        devToolsMode: 0,
    };
    // SAFETY: the type is that of the bindings, and lives for the call.
    code(unsafe { function(&raw mut state) })?;
    Ok(
        json!({ "environment": state.environment, "ccFeature": state.ccFeature, "devToolsMode": state.devToolsMode }),
    )
}
