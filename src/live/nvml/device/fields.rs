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

/// NVIDIA gave 251 to 255 new numbers in release 580.82 (known issues of NVML).
fn number(scheme: FieldIdScheme, id: c_uint) -> c_uint {
    match (scheme, id) {
        (FieldIdScheme::V13Update1, 251..=255) => id + 18,
        _ => id,
    }
}

/// The values of fields, by their names.
#[expect(unsafe_code, reason = "calls NVML")]
pub(in crate::live::nvml) fn values(
    nvml: &Nvml,
    device: nvmlDevice_t,
    fields: &[FieldQuery],
) -> NvmlReply {
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
    let mut out = Object::default();
    for ((name, ..), value) in fields.iter().zip(&values) {
        let said = code(value.nvmlReturn).and_then(|()| number_of(value));
        out.insert(name, said);
    }
    Ok(out.into())
}

/// `nvmlValueType_t` says which member of the union there is.
#[expect(unsafe_code, reason = "reads a union")]
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
