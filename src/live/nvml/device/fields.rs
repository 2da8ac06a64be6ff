//! NVML's fields: numbers that have no function of their own.

use std::ffi::c_uint;

use nvml_wrapper::{FieldIdScheme, Nvml};
use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlFieldValue_t, nvmlValue_t};
use serde_json::Value;

use crate::live::nvml::library;
use crate::live::nvml::reply::{NvmlFailure, NvmlReply, Object, code, symbol};

/// A field: its name in nvml.h without NVML_FI_DEV_, its number, and what of the GPU it is asked for (a link).
pub(in crate::live::nvml) type FieldQuery = (&'static str, c_uint, c_uint);

/// Those of a GPU.
pub(super) const DEVICE: [FieldQuery; 5] = [
    ("MEMORY_TEMP", 82, 0),
    ("NVLINK_LINK_COUNT", 91, 0),
    ("GET_GPU_RECOVERY_ACTION", 230, 0),
    ("CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", 251, 0),
    ("CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN", 253, 0),
];

/// More C2C links than any GPU has: 10 in GH200.
const MOST_C2C: c_uint = 32;

/// The C2C links between a GPU and its Grace processor: how many it has, and how many of them are active. Source: nvml.h, NVML_FI_DEV_C2C_LINK_COUNT and
/// NVML_FI_DEV_C2C_LINK_GET_STATUS (0 inactive, 1 active), of each link by its number as the scope.
pub(super) fn c2c(nvml: &Nvml, device: nvmlDevice_t) -> NvmlReply {
    let count = ("C2C_LINK_COUNT", 170, 0);
    let count = each(nvml, device, &[count])?
        .pop()
        .ok_or(NvmlFailure::Missing)??;
    let count = count.as_u64().unwrap_or(0);
    let links = 0..MOST_C2C.min(count as c_uint);
    let links: Vec<FieldQuery> = links
        .map(|link| ("C2C_LINK_GET_STATUS", 171, link))
        .collect();
    let mut active = 0;
    for status in each(nvml, device, &links)? {
        active += u64::from(status? == 1);
    }
    Ok(serde_json::json!({ "count": count, "active": active }))
}

/// NVIDIA gave 251 to 255 new numbers in release 580.82 (known issues of NVML).
fn number(scheme: FieldIdScheme, id: c_uint) -> c_uint {
    match (scheme, id) {
        (FieldIdScheme::V13Update1, 251..=255) => id + 18,
        _ => id,
    }
}

/// The values of fields, by their names.
pub(in crate::live::nvml) fn values(
    nvml: &Nvml,
    device: nvmlDevice_t,
    fields: &[FieldQuery],
) -> NvmlReply {
    let mut out = Object::default();
    for ((name, ..), said) in fields.iter().zip(each(nvml, device, fields)?) {
        out.insert(name, said);
    }
    Ok(out.into())
}

/// The values of fields, in their order.
fn each(
    nvml: &Nvml,
    device: nvmlDevice_t,
    fields: &[FieldQuery],
) -> Result<Vec<NvmlReply>, NvmlFailure> {
    let lib = library::functions().map_err(|_| NvmlFailure::Missing)?;
    let function = symbol(&lib.nvmlDeviceGetFieldValues)?;
    let mut values: Vec<nvmlFieldValue_t> = fields
        .iter()
        .map(|(_, id, of)| nvmlFieldValue_t {
            fieldId: number(nvml.field_id_scheme(), *id),
            scopeId: *of,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            // A field that the library skipped has no reply.
            nvmlReturn: 3,
            value: nvmlValue_t { ullVal: 0 },
        })
        .collect();
    let count = i32::try_from(values.len()).map_err(|_| NvmlFailure::Code(2))?;
    // SAFETY: the type is that of the bindings; `values` has `count` elements and lives for the call.
    code(unsafe { function(device, count, values.as_mut_ptr()) })?;
    let said = |value: &nvmlFieldValue_t| code(value.nvmlReturn).and_then(|()| number_of(value));
    Ok(values.iter().map(said).collect())
}

/// `nvmlValueType_t` says which member of the union there is.
fn number_of(field: &nvmlFieldValue_t) -> NvmlReply {
    let value = &field.value;
    // SAFETY: any bits are a number in each of the members.
    let number: Value = unsafe {
        match field.valueType {
            0 => value.dVal.into(),
            1 => value.uiVal.into(),
            2 => value.ulVal.into(),
            3 => value.ullVal.into(),
            4 => value.sllVal.into(),
            5 => value.siVal.into(),
            6 => value.usVal.into(),
            _ => return Err(NvmlFailure::Code(2)),
        }
    };
    Ok(number)
}
