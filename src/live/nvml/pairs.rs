//! NVML's facts about pairs of GPUs: topology and P2P capabilities.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{NvmlLib, nvmlDevice_t};
use serde_json::Value;

use super::device;
use super::library;
use super::reply::{NvmlReply, Object, code, symbol};
use crate::source::Refusal;

/// The P2P capabilities to query, by NVML's numbers (`nvmlGpuP2PCapsIndex_t`).
const CAPABILITIES: [(&str, c_uint); 4] =
    [("read", 0), ("write", 1), ("nvlink", 2), ("atomics", 3)];

/// All pairs: `{"devices":["00000000:1B:00.0",…],"pairs":[{"first":0,"second":1,"read":0,…}]}`. Every pair is there in both directions,
/// what the two have in common (`level`) in the first.
pub(super) fn describe() -> Result<Value, Refusal> {
    let mut out = Object::default();
    let count = match library::count()? {
        Ok(count) => count,
        Err(failure) => {
            out.insert("nvmlDeviceGetCount_v2", Err(failure));
            return Ok(out.into());
        }
    };
    let lib = library::functions()?;
    let mut addresses: Vec<Value> = Vec::new();
    let mut devices = Vec::new();
    for index in 0..count {
        let device = library::device(index)?;
        let address = device.and_then(|handle| device::pci(lib, handle));
        addresses.push(address.unwrap_or_else(super::reply::NvmlFailure::value));
        devices.extend(device.ok().map(|handle| (index, handle)));
    }
    let mut pairs: Vec<Value> = Vec::new();
    for (first, here) in &devices {
        for (second, there) in devices.iter().filter(|(second, _)| second != first) {
            let mut pair = Object::default();
            pair.set("first", *first);
            pair.set("second", *second);
            for (name, capability) in CAPABILITIES {
                pair.insert(name, status(lib, (*here, *there), capability));
            }
            if first < second {
                pair.insert("level", level(lib, *here, *there));
            }
            pairs.push(pair.into());
        }
    }
    out.set("devices", addresses);
    out.set("pairs", pairs);
    Ok(out.into())
}

#[expect(unsafe_code, reason = "calls NVML")]
fn status(
    lib: &NvmlLib,
    (first, second): (nvmlDevice_t, nvmlDevice_t),
    capability: c_uint,
) -> NvmlReply {
    let function = symbol(&lib.nvmlDeviceGetP2PStatus)?;
    let mut status = 0;
    // SAFETY: the type is that of the bindings; the status lives for the call.
    code(unsafe { function(first, second, capability, &raw mut status) })?;
    Ok(status.into())
}

#[expect(unsafe_code, reason = "calls NVML")]
fn level(lib: &NvmlLib, first: nvmlDevice_t, second: nvmlDevice_t) -> NvmlReply {
    let function = symbol(&lib.nvmlDeviceGetTopologyCommonAncestor)?;
    let mut level = 0;
    // SAFETY: the type is that of the bindings; the level lives for the call.
    code(unsafe { function(first, second, &raw mut level) })?;
    Ok(level.into())
}
