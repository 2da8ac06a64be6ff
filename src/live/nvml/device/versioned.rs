//! Structures that NVML knows by size and version: the newest is tried first, and an older one if the library says so.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlDevice_t, nvmlEccSramErrorStatus_v1_t, nvmlGpuFabricInfo_t,
    nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t, nvmlMarginTemperature_v1_t, nvmlMemory_t,
    nvmlMemory_v2_t,
};
use serde_json::{Map, Value, json};

use crate::live::nvml::reply::{NvmlFailure, NvmlReply, OTHER_VERSION, Plain, call, code};

/// `NVML_STRUCT_VERSION` of nvml.h.
const fn version<T>(version: u32) -> c_uint {
    size_of::<T>() as u32 | version << 24
}

/// Whether an older structure is worth trying: some releases say that the argument is wrong.
fn is_older(failure: NvmlFailure) -> bool {
    matches!(
        failure,
        NvmlFailure::Missing | OTHER_VERSION | NvmlFailure::Code(2)
    )
}

/// Total and used memory; what the driver keeps for itself apart, if it tells.
pub(super) fn memory(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    match newer_memory(lib, device) {
        Err(failure) if is_older(failure) => {}
        said => return said,
    }
    let memory: nvmlMemory_t = call!(lib.nvmlDeviceGetMemoryInfo, device => Plain::zeroed());
    // In this one the driver's own is among the used.
    Ok(json!({ "total": memory.total, "used_with_reserved": memory.used }))
}

fn newer_memory(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let asked = nvmlMemory_v2_t {
        version: version::<nvmlMemory_v2_t>(2),
        ..Plain::zeroed()
    };
    let memory = call!(lib.nvmlDeviceGetMemoryInfo_v2, device => asked);
    Ok(json!({ "total": memory.total, "reserved": memory.reserved, "used": memory.used }))
}

/// Degrees to the nearest of the GPU's thresholds.
pub(super) fn margin(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let asked = nvmlMarginTemperature_v1_t {
        version: version::<nvmlMarginTemperature_v1_t>(1),
        ..Plain::zeroed()
    };
    let margin = call!(lib.nvmlDeviceGetMarginTemperature, device => asked);
    Ok(margin.marginTemperature.into())
}

/// Errors of the SRAM, and whether they are too many.
pub(super) fn sram(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let asked = nvmlEccSramErrorStatus_v1_t {
        version: version::<nvmlEccSramErrorStatus_v1_t>(1),
        ..Plain::zeroed()
    };
    let status = call!(lib.nvmlDeviceGetSramEccErrorStatus, device => asked);
    Ok(json!({
        "aggregateUncParity": status.aggregateUncParity, "aggregateUncSecDed": status.aggregateUncSecDed,
        "volatileUncParity": status.volatileUncParity, "volatileUncSecDed": status.volatileUncSecDed,
        "bThresholdExceeded": status.bThresholdExceeded,
    }))
}

/// A GPU's registration with the NVLink fabric: version 3 (release 575), 2 (550), and the one without (525).
pub(super) fn fabric(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    for (number, is_newest) in [
        (version::<nvmlGpuFabricInfo_v3_t>(3), true),
        // A beginning of the other: NVML writes as much as this number says.
        (version::<nvmlGpuFabricInfo_v2_t>(2), false),
    ] {
        match newer_fabric(lib, device, number, is_newest) {
            Err(failure) if is_older(failure) => {}
            said => return said,
        }
    }
    let info: nvmlGpuFabricInfo_t =
        call!(lib.nvmlDeviceGetGpuFabricInfo, device => Plain::zeroed());
    Ok(common(&info.clusterUuid, info.status, info.cliqueId, info.state).into())
}

fn newer_fabric(lib: &NvmlLib, device: nvmlDevice_t, number: c_uint, is_newest: bool) -> NvmlReply {
    let asked = nvmlGpuFabricInfo_v3_t {
        version: number,
        ..Plain::zeroed()
    };
    let info = call!(lib.nvmlDeviceGetGpuFabricInfoV, device => asked);
    let mut out = common(&info.clusterUuid, info.status, info.cliqueId, info.state);
    out.insert("healthMask".into(), info.healthMask.into());
    if is_newest {
        out.insert("healthSummary".into(), info.healthSummary.into());
    }
    Ok(out.into())
}

fn common(
    uuid: &[u8; 16],
    status: c_uint,
    clique: c_uint,
    state: impl Into<Value>,
) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert(
        "clusterUuid".into(),
        crate::source::wire::to_hex(uuid).into(),
    );
    let status = match code(status) {
        Ok(()) => 0.into(),
        Err(failure) => failure.value(),
    };
    out.insert("status".into(), status);
    out.insert("cliqueId".into(), clique.into());
    out.insert("state".into(), state.into());
    out
}
