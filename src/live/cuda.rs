//! CUDA's driver API: what it reports about the GPUs without a context, and copies between them.
//!
//! The functions, types and constants are cudarc's. The result codes are not: cudarc has them as an enum, in which a code of a newer driver is
//! no value. Nor is its loader: it takes `libcuda.so` first, which is a stub if a toolkit is installed, and programs load `libcuda.so.1`.

mod affinity;
mod copy;
pub(crate) mod driver;

use crate::live::clock;
use std::sync::Arc;

use cudarc::driver::sys::{
    CUdevice_P2PAttribute_enum as Pair, CUdevice_attribute_enum as Attribute,
};
use serde_json::{Map, Value, json};

use crate::source::question::Call;
use crate::source::{Answer, Errno, Question, Refusal};
pub use copy::copy;
use driver::Failure;

/// Pairs of a member's name and CUDA's constant: a row for each.
macro_rules! named {
    ($of:ident: $($name:ident = $constant:ident;)*) => { [$((stringify!($name), $of::$constant)),*] };
}

/// The queried attributes, with their members of the reply. A driver that does not know an attribute gives null.
const ATTRIBUTES: [(&str, Attribute); 17] = named! { Attribute:
    pci_domain = CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID;
    pci_bus = CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;
    pci_device = CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID;
    major = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
    minor = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
    compute_mode = CU_DEVICE_ATTRIBUTE_COMPUTE_MODE;
    integrated = CU_DEVICE_ATTRIBUTE_INTEGRATED;
    unified_addressing = CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
    page_tables = CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    virtual_memory = CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
    gpudirect_rdma = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED;
    gpudirect_rdma_vmm = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
    flush_writes = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS;
    writes_ordering = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING;
    dma_buf = CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;
    fabric_handles = CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
    multicast = CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED;
};

/// What two devices are asked.
const PAIRS: [(&str, Pair); 4] = named! { Pair:
    access = CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    native_atomic = CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    performance_rank = CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
    array_access = CU_DEVICE_P2P_ATTRIBUTE_ACCESS_ACCESS_SUPPORTED;
};

/// Answers `cuDriverGetVersion`, `cuInit`, `cuDeviceGetCount`, and for one device `cuDeviceGetAttribute`, `cuDeviceCanAccessPeer` and
/// `cuDeviceGetP2PAttribute` (all of them, towards every other device). None makes a context.
///
/// `cuInit` starts what is missing of the driver (modules, device nodes) if it may: here it may not, and is asked only if nothing is missing.
///
/// A function that fails is an answer too: `{"failed":"cuInit","code":802,"error":"CUDA_ERROR_SYSTEM_NOT_READY"}`.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    ready()?;
    answer(driver_facts(call))
}

/// Refuses if the driver is not there as a whole.
pub(crate) fn ready() -> Result<(), Refusal> {
    for path in [
        "/proc/driver/nvidia/version",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
    ] {
        if let Some(Err(refusal)) = super::files::ask(None, &Question::stat(path)) {
            return Err(Refusal::NotAsked(
                format!("NVIDIA's driver is not there as a whole: {path}: {refusal}").into(),
            ));
        }
    }
    Ok(())
}

fn answer(said: Result<Value, Failure>) -> Result<Answer, Refusal> {
    match said {
        Ok(value) => Ok(Answer::Value(Arc::new(value))),
        Err(Failure::Refused(refusal)) => Err(refusal),
        Err(Failure::Code { function, code }) => Ok(Answer::Value(Arc::new(json!({
            "failed": function, "code": code, "error": driver::error_name(code),
        })))),
    }
}

fn driver_facts(call: &Call) -> Result<Value, Failure> {
    match &*call.name {
        "cuDriverGetVersion" => Ok(json!({ "version": driver::version()? })),
        "cuInit" => {
            let began = clock::boottime_ns();
            driver::init()?;
            let took = clock::boottime_ns().saturating_sub(began);
            Ok(json!({ "ms": took / 1_000_000 }))
        }
        "cuDeviceGetCount" => Ok(json!({ "count": driver::count()? })),
        "cuDeviceGetAttribute" => attributes(driver::device(ordinal(call)?)?),
        "cuDeviceCanAccessPeer" => {
            let own = ordinal(call)?;
            let access = towards(own, |own, peer| driver::can_access(own, peer).map(Some))?;
            Ok(json!({ "peers": access }))
        }
        "cuDeviceGetP2PAttribute" => {
            let own = ordinal(call)?;
            let mut value = Map::new();
            for (name, attribute) in PAIRS {
                let row = towards(own, |own, peer| {
                    attribute_value(driver::p2p_attribute(attribute, own, peer))
                })?;
                value.insert(name.to_owned(), row);
            }
            Ok(value.into())
        }
        name => Err(Refusal::NotAsked(format!("unknown call {name}").into()).into()),
    }
}

fn ordinal(call: &Call) -> Result<i32, Failure> {
    let number = call.number("device").and_then(|n| i32::try_from(n).ok());
    number.ok_or(Failure::Refused(Refusal::Errno(Errno::EINVAL)))
}

fn attributes(device: i32) -> Result<Value, Failure> {
    let mut value = Map::new();
    value.insert("model".to_owned(), driver::name(device)?.into());
    for (name, attribute) in ATTRIBUTES {
        let said = attribute_value(driver::attribute(attribute, device))?;
        value.insert(name.to_owned(), said.map_or(Value::Null, Value::from));
    }
    Ok(value.into())
}

/// `CUDA_ERROR_INVALID_VALUE` is how a driver says that it does not know an attribute.
fn attribute_value(said: Result<i32, Failure>) -> Result<Option<i32>, Failure> {
    match said {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Code { code: 1, .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// One device's answers towards all, by their order; null for itself.
fn towards(
    own: i32,
    mut said: impl FnMut(i32, i32) -> Result<Option<i32>, Failure>,
) -> Result<Value, Failure> {
    let device = driver::device(own)?;
    let mut row = Vec::new();
    for peer in 0..driver::count()? {
        row.push(if peer == own {
            Value::Null
        } else {
            said(device, driver::device(peer)?)?.map_or(Value::Null, Value::from)
        });
    }
    Ok(row.into())
}

/// The device at a PCI address, among those that CUDA lists.
pub(crate) fn device_at(pci: &str) -> Result<i32, Failure> {
    for ordinal in 0..driver::count()? {
        let device = driver::device(ordinal)?;
        let of = |attribute| driver::attribute(attribute, device);
        let address = format!(
            "{:04x}:{:02x}:{:02x}.0",
            of(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
            of(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
            of(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?,
        );
        if address == pci {
            return Ok(device);
        }
    }
    Err(Refusal::NotAsked(format!("CUDA lists no GPU {pci}").into()).into())
}
