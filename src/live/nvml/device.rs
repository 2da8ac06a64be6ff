//! What NVML reports about one GPU.

#![expect(unsafe_code, reason = "calls NVML")]

mod fields;
mod processes;
mod versioned;

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{NvmlLib, nvmlDevice_t, nvmlReturn_t, nvmlUtilization_t};
use serde_json::{Value, json};

use super::library;
use super::reply::{
    DeviceFunction, NvmlFailure, NvmlReply, Object, Plain, call, call_device, code, symbol, text,
    with,
};
use crate::live::c_text::c_text;
use crate::source::Refusal;

pub(super) use fields::{FieldQuery, values};

/// Names of what functions are asked for, and their numbers in nvml.h.
const CLOCKS: [(&str, c_uint); 1] = [("sm", 1)];
const THRESHOLDS: [(&str, c_uint); 3] = [("shutdown", 0), ("slowdown", 1), ("memory", 2)];
const ERRORS: [(&str, c_uint); 2] = [("corrected", 0), ("uncorrected", 1)];
const COUNTERS: [(&str, c_uint); 2] = [("volatile", 0), ("aggregate", 1)];
const PLACES: [(&str, c_uint); 2] = [("dram", 2), ("sram", 7)];
/// Retired for many corrected errors, and for one that was not corrected.
const CAUSES: [(&str, c_uint); 2] = [("single", 0), ("double", 1)];

/// Asks functions, and keeps what they say under their names: those without arguments by the type of what they return, others by a function of
/// this file.
macro_rules! ask {
    ($out:ident, $lib:ident, $device:ident, $how:ident: $($function:ident),* $(,)?) => {
        $( $out.insert(stringify!($function), $how(&$lib.$function, $device)); )*
    };
    ($out:ident, $lib:ident, $device:ident; $($function:ident = $how:path;)*) => {
        $( $out.insert(stringify!($function), $how($lib, $device)); )*
    };
}

/// One GPU, by its number; of one that is lost, what was asked before that turned out.
pub(super) fn describe(index: u32) -> Result<Value, Refusal> {
    let mut out = Object::default();
    let device = match library::device(index)? {
        Ok(device) => device,
        Err(failure) => {
            out.insert("nvmlDeviceGetHandleByIndex_v2", Err(failure));
            return Ok(out.into());
        }
    };
    out.insert("nvmlDeviceGetHandleByIndex_v2", Ok(0.into()));
    let lib = library::functions()?;
    out.insert("nvmlDeviceGetPciInfo_v3", pci(lib, device));
    for part in [
        identity,
        modes,
        errors,
        clocks,
        link_and_memory,
        fields_and_fabric,
        processes::describe,
    ] {
        if !out.is_lost() {
            part(lib, device, &mut out);
        }
    }
    Ok(out.into())
}

/// What one GPU does at this moment, and for whom.
pub(super) fn load(index: u32) -> Result<Value, Refusal> {
    let mut out = Object::default();
    let device = match library::device(index)? {
        Ok(device) => device,
        Err(failure) => {
            out.insert("nvmlDeviceGetHandleByIndex_v2", Err(failure));
            return Ok(out.into());
        }
    };
    let lib = library::functions()?;
    ask!(out, lib, device; nvmlDeviceGetUtilizationRates = utilisation;);
    ask!(out, lib, device, call_device: nvmlDeviceGetPowerUsage, nvmlDeviceGetEnforcedPowerLimit);
    processes::describe(lib, device, &mut out);
    Ok(out.into())
}

/// Percent of the last sample period in which a kernel ran, and in which memory was read or written (nvml.h, `nvmlUtilization_t`).
fn utilisation(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let rates =
        call!(lib.nvmlDeviceGetUtilizationRates, device => nvmlUtilization_t { gpu: 0, memory: 0 });
    Ok(json!({ "gpu": rates.gpu, "memory": rates.memory }))
}

fn fields_and_fabric(lib: &NvmlLib, device: nvmlDevice_t, out: &mut Object) {
    if let Ok(nvml) = library::nvml() {
        out.insert("fields", values(nvml, device, &fields::DEVICE));
        out.insert("c2c", fields::c2c(nvml, device));
    }
    let fabric = versioned::fabric(lib, device);
    out.insert("nvmlDeviceGetGpuFabricInfo", fabric);
}

fn identity(lib: &NvmlLib, device: nvmlDevice_t, out: &mut Object) {
    ask!(out, lib, device, text: nvmlDeviceGetName, nvmlDeviceGetSerial, nvmlDeviceGetUUID, nvmlDeviceGetVbiosVersion);
    ask!(out, lib, device, call_device: nvmlDeviceGetIndex, nvmlDeviceGetMinorNumber, nvmlDeviceGetModuleId);
    ask!(out, lib, device; nvmlDeviceGetGspFirmwareVersion = firmware;);
}

fn firmware(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let function = symbol(&lib.nvmlDeviceGetGspFirmwareVersion)?;
    // NVML takes no length here; nvml.h requires 64 bytes.
    let mut buffer: [std::ffi::c_char; 256] = [0; 256];
    // SAFETY: the handle is NVML's own, and the buffer is longer than what it writes.
    code(unsafe { function(device, buffer.as_mut_ptr()) })?;
    Ok(c_text(&buffer).into())
}

/// A GPU's PCI address, as "00000000:1B:00.0".
pub(super) fn pci(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let info = call!(lib.nvmlDeviceGetPciInfo_v3, device => Plain::zeroed());
    Ok(c_text(&info.busId).into())
}

/// A function with two results.
type TwoNumbersFunction =
    unsafe extern "C" fn(nvmlDevice_t, *mut c_uint, *mut c_uint) -> nvmlReturn_t;

fn current_and_pending<E>(
    function: &Result<TwoNumbersFunction, E>,
    device: nvmlDevice_t,
) -> NvmlReply {
    let function = symbol(function)?;
    let (mut current, mut pending) = (0, 0);
    // SAFETY: the type is that of the bindings; both numbers live for the call.
    code(unsafe { function(device, &raw mut current, &raw mut pending) })?;
    Ok(json!({ "current": current, "pending": pending }))
}

fn modes(lib: &NvmlLib, device: nvmlDevice_t, out: &mut Object) {
    ask!(out, lib, device, call_device: nvmlDeviceGetPersistenceMode, nvmlDeviceGetComputeMode);
    ask!(out, lib, device, current_and_pending: nvmlDeviceGetMigMode, nvmlDeviceGetEccMode);
    ask!(out, lib, device; nvmlDeviceGetMigDeviceHandleByIndex = instances;);
}

/// How many MIG devices a GPU has.
fn instances(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let most = call_device(&lib.nvmlDeviceGetMaxMigDeviceCount, device)?;
    let function = symbol(&lib.nvmlDeviceGetMigDeviceHandleByIndex)?;
    let mut found = 0;
    for index in 0..most.as_u64().unwrap_or(0).min(64) {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the type is that of the bindings, the index is below 64, and the handle is not used.
        match code(unsafe { function(device, index as c_uint, &raw mut handle) }) {
            Ok(()) => found += 1,
            // No device in this place.
            Err(NvmlFailure::Code(6)) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(found.into())
}

fn errors(lib: &NvmlLib, device: nvmlDevice_t, out: &mut Object) {
    for (error, kind) in ERRORS {
        for (counter, since) in COUNTERS {
            let name = format!("nvmlDeviceGetTotalEccErrors/{error}/{counter}");
            let total =
                || Ok(call!(lib.nvmlDeviceGetTotalEccErrors, device, kind, since => 0).into());
            out.insert(&name, total());
            for (place, location) in PLACES {
                let name = format!("nvmlDeviceGetMemoryErrorCounter/{error}/{counter}/{place}");
                let counted = || {
                    let count = call!(lib.nvmlDeviceGetMemoryErrorCounter, device, kind, since, location => 0);
                    Ok(count.into())
                };
                out.insert(&name, counted());
            }
        }
    }
    ask!(out, lib, device; nvmlDeviceGetSramEccErrorStatus = versioned::sram; nvmlDeviceValidateInforom = inforom;);
    for (name, cause) in CAUSES {
        let name = format!("nvmlDeviceGetRetiredPages/{name}");
        out.insert(&name, retired(lib, device, cause));
    }
    ask!(out, lib, device, call_device: nvmlDeviceGetRetiredPagesPendingStatus);
    ask! { out, lib, device;
        nvmlDeviceGetRemappedRows = remapped;
        nvmlDeviceGetRowRemapperHistogram = histogram;
    }
}

/// Whether the checksums of the InfoROM are right: 1, or 0 if one is wrong.
fn inforom(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    const CORRUPTED: nvmlReturn_t = 14;
    let function = symbol(&lib.nvmlDeviceValidateInforom)?;
    // SAFETY: the handle is NVML's own.
    match code(unsafe { function(device) }) {
        Ok(()) => Ok(1.into()),
        Err(NvmlFailure::Code(CORRUPTED)) => Ok(0.into()),
        Err(failure) => Err(failure),
    }
}

fn retired(lib: &NvmlLib, device: nvmlDevice_t, cause: c_uint) -> NvmlReply {
    let function = symbol(&lib.nvmlDeviceGetRetiredPages)?;
    let mut count: c_uint = 0;
    // SAFETY: with a count of none NVML writes no addresses, and says how many there are.
    let said = code(unsafe { function(device, cause, &raw mut count, std::ptr::null_mut()) });
    match said {
        // More than none: it wants room for their addresses.
        Ok(()) | Err(NvmlFailure::Code(7)) => Ok(count.into()),
        Err(failure) => Err(failure),
    }
}

fn remapped(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let function = symbol(&lib.nvmlDeviceGetRemappedRows)?;
    let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
    // SAFETY: the type is that of the bindings; the four numbers live for the call.
    code(unsafe {
        let (corrected, uncorrected) = (&raw mut corrected, &raw mut uncorrected);
        function(
            device,
            corrected,
            uncorrected,
            &raw mut pending,
            &raw mut failed,
        )
    })?;
    Ok(json!({
        "corrRows": corrected, "uncRows": uncorrected, "isPending": pending, "failureOccurred": failed,
    }))
}

fn histogram(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let banks = call!(lib.nvmlDeviceGetRowRemapperHistogram, device => Plain::zeroed());
    Ok(json!({
        "max": banks.max, "high": banks.high, "partial": banks.partial, "low": banks.low, "none": banks.none,
    }))
}

fn clocks(lib: &NvmlLib, device: nvmlDevice_t, out: &mut Object) {
    for (name, clock) in CLOCKS {
        let now = with(&lib.nvmlDeviceGetClockInfo, device, clock);
        out.insert(&format!("nvmlDeviceGetClockInfo/{name}"), now);
        let most = with(&lib.nvmlDeviceGetMaxClockInfo, device, clock);
        out.insert(&format!("nvmlDeviceGetMaxClockInfo/{name}"), most);
    }
    let clock = with(&lib.nvmlDeviceGetApplicationsClock, device, 0);
    out.insert("nvmlDeviceGetApplicationsClock/graphics", clock);
    let clock = with(&lib.nvmlDeviceGetDefaultApplicationsClock, device, 0);
    out.insert("nvmlDeviceGetDefaultApplicationsClock/graphics", clock);
    // Its name before release 535.
    let older: &Result<DeviceFunction<c_ulonglong>, _> =
        &lib.nvmlDeviceGetCurrentClocksThrottleReasons;
    let reasons = match call_device(&lib.nvmlDeviceGetCurrentClocksEventReasons, device) {
        Err(NvmlFailure::Missing) => call_device(older, device),
        said => said,
    };
    out.insert("nvmlDeviceGetCurrentClocksEventReasons", reasons);
    let temperature = with(&lib.nvmlDeviceGetTemperature, device, 0);
    out.insert("nvmlDeviceGetTemperature/gpu", temperature);
    for (name, threshold) in THRESHOLDS {
        let name = format!("nvmlDeviceGetTemperatureThreshold/{name}");
        let said = with(&lib.nvmlDeviceGetTemperatureThreshold, device, threshold);
        out.insert(&name, said);
    }
    ask!(out, lib, device; nvmlDeviceGetMarginTemperature = versioned::margin;);
    ask!(out, lib, device, call_device: nvmlDeviceGetPowerUsage, nvmlDeviceGetEnforcedPowerLimit, nvmlDeviceGetPowerManagementDefaultLimit);
}

fn link_and_memory(lib: &NvmlLib, device: nvmlDevice_t, out: &mut Object) {
    ask!(out, lib, device, call_device:
        nvmlDeviceGetCurrPcieLinkGeneration, nvmlDeviceGetCurrPcieLinkWidth,
        nvmlDeviceGetGpuMaxPcieLinkGeneration, nvmlDeviceGetMaxPcieLinkWidth, nvmlDeviceGetPcieReplayCounter,
    );
    ask! { out, lib, device;
        nvmlDeviceGetMemoryInfo_v2 = versioned::memory;
        nvmlDeviceGetBAR1MemoryInfo = bar1;
    }
}

fn bar1(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let memory = call!(lib.nvmlDeviceGetBAR1MemoryInfo, device => Plain::zeroed());
    Ok(json!({ "total": memory.bar1Total, "used": memory.bar1Used }))
}
