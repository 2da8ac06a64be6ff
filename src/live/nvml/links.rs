//! The NVLinks of one GPU.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{NvmlLib, nvmlDevice_t};
use serde_json::Value;

use super::device::{self, FieldQuery};
use super::library;
use super::reply::{NvmlFailure, NvmlReply, Object, Plain, call, with};
use crate::live::c_text::c_text;
use crate::source::Refusal;

/// More links than any GPU has: 18 in NVLink 4 and 5.
const MOST: c_uint = 36;

/// Error counters, by their numbers in nvml.h (`nvmlNvLinkErrorCounter_t`).
const COUNTERS: [(&str, c_uint); 3] = [("replay", 0), ("recovery", 1), ("crc-flit", 2)];

/// The links of a GPU, by its number: `{"links":[{"link":0,…}]}`. A place without a link is left out; if no place has one, `why` is what
/// NVML reports about the first.
pub(super) fn describe(index: u32) -> Result<Value, Refusal> {
    let mut out = Object::default();
    let device = match library::device(index)? {
        Ok(device) => device,
        Err(failure) => {
            out.insert("nvmlDeviceGetHandleByIndex_v2", Err(failure));
            return Ok(out.into());
        }
    };
    let lib = library::functions()?;
    let mut links: Vec<Value> = Vec::new();
    let mut why = None;
    for link in 0..MOST {
        match with(&lib.nvmlDeviceGetNvLinkState, device, link) {
            Ok(state) => links.push(describe_link(lib, device, link, state)?),
            // Beyond the last place; and no link in this one.
            Err(failure @ (NvmlFailure::Code(2) | NvmlFailure::Missing)) => {
                why = why.or(Some(failure));
                break;
            }
            Err(failure) => why = why.or(Some(failure)),
        }
    }
    if let (true, Some(why)) = (links.is_empty(), why) {
        out.insert("why", Err(why));
    }
    out.set("links", links);
    Ok(out.into())
}

fn describe_link(
    lib: &NvmlLib,
    device: nvmlDevice_t,
    link: c_uint,
    state: Value,
) -> Result<Value, Refusal> {
    let mut out = Object::default();
    out.set("link", link);
    out.set("nvmlDeviceGetNvLinkState", state.clone());
    out.insert(
        "nvmlDeviceGetNvLinkVersion",
        with(&lib.nvmlDeviceGetNvLinkVersion, device, link),
    );
    for (name, counter) in COUNTERS {
        let count =
            || Ok(call!(lib.nvmlDeviceGetNvLinkErrorCounter, device, link, counter => 0).into());
        out.insert(&format!("nvmlDeviceGetNvLinkErrorCounter/{name}"), count());
    }
    let fields: [FieldQuery; 6] = [
        ("NVLINK_SPEED_MBPS_COMMON", 90, 0),
        ("NVLINK_GET_SPEED", 164, link),
        ("NVLINK_COUNT_RCV_ERRORS", 208, link),
        ("NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", 214, link),
        ("NVLINK_COUNT_LINK_RECOVERY_EVENTS", 215, link),
        ("NVLINK_COUNT_EFFECTIVE_ERRORS", 219, link),
    ];
    out.insert("fields", device::values(library::nvml()?, device, &fields));
    if state == 1 {
        out.insert(
            "nvmlDeviceGetNvLinkRemoteDeviceType",
            with(&lib.nvmlDeviceGetNvLinkRemoteDeviceType, device, link),
        );
        out.insert(
            "nvmlDeviceGetNvLinkRemotePciInfo_v2",
            remote(lib, device, link),
        );
    }
    Ok(out.into())
}

fn remote(lib: &NvmlLib, device: nvmlDevice_t, link: c_uint) -> NvmlReply {
    let info = call!(lib.nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link => Plain::zeroed());
    Ok(c_text(&info.busId).into())
}
