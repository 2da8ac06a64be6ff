//! Structures that NVML knows by size and version: the newest is tried first, and an older one if the library says so.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlDevice_t, nvmlEccSramErrorStatus_v1_t, nvmlGpuFabricInfo_t,
    nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t, nvmlMarginTemperature_v1_t, nvmlMemory_t,
    nvmlMemory_v2_t,
};
use serde_json::{Map, Value, json};

use crate::live::nvml::reply::{NvmlFailure, NvmlReply, OTHER_VERSION, code, symbol};

/// `NVML_STRUCT_VERSION` of nvml.h.
const fn version<T>(version: u32) -> c_uint {
    size_of::<T>() as u32 | version << 24
}

/// Whether an older structure is worth trying: some releases say that the argument is wrong.
fn is_other_version(failure: NvmlFailure) -> bool {
    matches!(failure, OTHER_VERSION | NvmlFailure::Code(2))
}

/// Total and used memory; what the driver keeps for itself apart, if it tells.
#[expect(unsafe_code, reason = "calls NVML")]
pub(super) fn memory(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let newer = symbol(&lib.nvmlDeviceGetMemoryInfo_v2).and_then(|function| {
        let mut memory = nvmlMemory_v2_t {
            version: version::<nvmlMemory_v2_t>(2),
            total: 0,
            reserved: 0,
            free: 0,
            used: 0,
        };
        // SAFETY: the type is that of the bindings, and lives for the call.
        code(unsafe { function(device, &raw mut memory) })?;
        Ok(json!({ "total": memory.total, "reserved": memory.reserved, "used": memory.used }))
    });
    match newer {
        Err(failure) if failure == NvmlFailure::Missing || is_other_version(failure) => {}
        said => return said,
    }
    let function = symbol(&lib.nvmlDeviceGetMemoryInfo)?;
    let mut memory = nvmlMemory_t {
        total: 0,
        free: 0,
        used: 0,
    };
    // SAFETY: the type is that of the bindings, and lives for the call.
    code(unsafe { function(device, &raw mut memory) })?;
    // In this one the driver's own is among the used.
    Ok(json!({ "total": memory.total, "used_with_reserved": memory.used }))
}

/// Degrees to the nearest of the GPU's thresholds.
#[expect(unsafe_code, reason = "calls NVML")]
pub(super) fn margin(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let function = symbol(&lib.nvmlDeviceGetMarginTemperature)?;
    let mut margin = nvmlMarginTemperature_v1_t {
        version: version::<nvmlMarginTemperature_v1_t>(1),
        marginTemperature: 0,
    };
    // SAFETY: the type is that of the bindings, and lives for the call.
    code(unsafe { function(device, &raw mut margin) })?;
    Ok(margin.marginTemperature.into())
}

/// Errors of the SRAM, and whether they are too many.
#[expect(unsafe_code, reason = "calls NVML")]
pub(super) fn sram(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let function = symbol(&lib.nvmlDeviceGetSramEccErrorStatus)?;
    let mut status = nvmlEccSramErrorStatus_v1_t {
        version: version::<nvmlEccSramErrorStatus_v1_t>(1),
        aggregateUncParity: 0,
        aggregateUncSecDed: 0,
        aggregateCor: 0,
        volatileUncParity: 0,
        volatileUncSecDed: 0,
        volatileCor: 0,
        aggregateUncBucketL2: 0,
        aggregateUncBucketSm: 0,
        aggregateUncBucketPcie: 0,
        aggregateUncBucketMcu: 0,
        aggregateUncBucketOther: 0,
        bThresholdExceeded: 0,
    };
    // SAFETY: the type is that of the bindings, and lives for the call.
    code(unsafe { function(device, &raw mut status) })?;
    Ok(json!({
        "aggregateUncParity": status.aggregateUncParity, "aggregateUncSecDed": status.aggregateUncSecDed,
        "volatileUncParity": status.volatileUncParity, "volatileUncSecDed": status.volatileUncSecDed,
        "bThresholdExceeded": status.bThresholdExceeded,
    }))
}

/// A GPU's registration with the NVLink fabric: version 3 (release 575), 2 (550), and the one without (525).
pub(super) fn fabric(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    for ask in [newest_fabric, newer_fabric] {
        match ask(lib, device) {
            Err(failure) if failure == NvmlFailure::Missing || is_other_version(failure) => {}
            said => return said,
        }
    }
    oldest_fabric(lib, device)
}

#[expect(unsafe_code, reason = "calls NVML")]
fn newest_fabric(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let function = symbol(&lib.nvmlDeviceGetGpuFabricInfoV)?;
    let mut info = nvmlGpuFabricInfo_v3_t {
        version: version::<nvmlGpuFabricInfo_v3_t>(3),
        clusterUuid: [0; 16],
        status: 0,
        cliqueId: 0,
        state: 0,
        healthMask: 0,
        healthSummary: 0,
    };
    // SAFETY: the type is that of the bindings, and lives for the call.
    code(unsafe { function(device, &raw mut info) })?;
    let mut out = common(&info.clusterUuid, info.status, info.cliqueId, info.state);
    out.insert("healthMask".into(), info.healthMask.into());
    out.insert("healthSummary".into(), info.healthSummary.into());
    Ok(out.into())
}

#[expect(unsafe_code, reason = "calls NVML")]
fn newer_fabric(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let function = symbol(&lib.nvmlDeviceGetGpuFabricInfoV)?;
    let mut info = nvmlGpuFabricInfo_v2_t {
        version: version::<nvmlGpuFabricInfo_v2_t>(2),
        clusterUuid: [0; 16],
        status: 0,
        cliqueId: 0,
        state: 0,
        healthMask: 0,
    };
    // SAFETY: NVML reads the version and takes the structure for what it says, which is what is there.
    code(unsafe { function(device, (&raw mut info).cast()) })?;
    let mut out = common(&info.clusterUuid, info.status, info.cliqueId, info.state);
    out.insert("healthMask".into(), info.healthMask.into());
    Ok(out.into())
}

#[expect(unsafe_code, reason = "calls NVML")]
fn oldest_fabric(lib: &NvmlLib, device: nvmlDevice_t) -> NvmlReply {
    let function = symbol(&lib.nvmlDeviceGetGpuFabricInfo)?;
    let mut info = nvmlGpuFabricInfo_t {
        clusterUuid: [0; 16],
        status: 0,
        cliqueId: 0,
        state: 0,
    };
    // SAFETY: the type is that of the bindings, and lives for the call.
    code(unsafe { function(device, &raw mut info) })?;
    Ok(common(&info.clusterUuid, info.status, info.cliqueId, info.state).into())
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
