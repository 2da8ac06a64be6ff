//! NVML's facts about pairs of GPUs: P2P capabilities.

use std::ffi::c_uint;

use serde_json::Value;

use super::device;
use super::library;
use super::reply::{Object, call};
use crate::source::Refusal;

/// The P2P capabilities to query, by NVML's numbers (`nvmlGpuP2PCapsIndex_t`).
const CAPABILITIES: [(&str, c_uint); 3] = [("read", 0), ("write", 1), ("nvlink", 2)];

/// All pairs: `{"devices":["00000000:1B:00.0",…],"pairs":[{"first":0,"second":1,"read":0,…}]}`. Every pair is there in both directions.
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
                let (here, there) = (*here, *there);
                let status =
                    || Ok(call!(lib.nvmlDeviceGetP2PStatus, here, there, capability => 0).into());
                pair.insert(name, status());
            }
            pairs.push(pair.into());
        }
    }
    out.set("devices", addresses);
    out.set("pairs", pairs);
    Ok(out.into())
}
