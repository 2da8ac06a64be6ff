//! CUDA's driver API: what it reports about the GPUs without a context, and copies between them.
//!
//! The functions, types and constants are cudarc's. The result codes are not: cudarc has them as an enum, in which a code of a newer driver is
//! no value. Nor is its loader: it takes `libcuda.so` first, which is a stub if a toolkit is installed, and programs load `libcuda.so.1`.

mod affinity;
mod copy;
pub(crate) mod driver;

use crate::live::clock;

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
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
const ATTRIBUTES: [(&str, Attribute); 11] = named! { Attribute:
    pci_domain = CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID;
    pci_bus = CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;
    pci_device = CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID;
    major = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
    minor = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
    integrated = CU_DEVICE_ATTRIBUTE_INTEGRATED;
    page_tables = CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    gpudirect_rdma = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED;
    gpudirect_rdma_vmm = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
    dma_buf = CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;
    multicast = CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED;
};

/// Answers `cuDriverGetVersion`, `cuInit`, `cuDeviceGetCount`, and for one device `cuDeviceGetAttribute` and `cuDeviceCanAccessPeer`
/// (towards every other device, by their order; null for itself). None makes a context.
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
            return Err(Refusal::not_asked(format!(
                "NVIDIA's driver is not there as a whole: {path}: {refusal}"
            )));
        }
    }
    Ok(())
}

fn answer(said: Result<Value, Failure>) -> Result<Answer, Refusal> {
    match said {
        Ok(value) => Ok(Answer::from(value)),
        Err(Failure::Refused(refusal)) => Err(refusal),
        Err(Failure::Code { function, code }) => Ok(Answer::from(json!({
            "failed": function, "code": code, "error": driver::error_name(code),
        }))),
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
            let device = driver::device(own)?;
            let access = |peer: i32| match peer == own {
                true => Ok(Value::Null),
                false => driver::can_access(device, driver::device(peer)?).map(Value::from),
            };
            let peers: Result<Value, Failure> = (0..driver::count()?).map(access).collect();
            Ok(json!({ "peers": peers? }))
        }
        name => Err(Refusal::unknown_call(name).into()),
    }
}

fn ordinal(call: &Call) -> Result<i32, Failure> {
    let number = call.number("device").and_then(|n| i32::try_from(n).ok());
    number.ok_or(Failure::Refused(Refusal::Errno(Errno::EINVAL)))
}

fn attributes(device: i32) -> Result<Value, Failure> {
    let of = |(name, attribute): (&str, Attribute)| {
        let value = match driver::attribute(attribute, device) {
            // `CUDA_ERROR_INVALID_VALUE` is how a driver says that it does not know an attribute.
            Err(Failure::Code { code: 1, .. }) => Value::Null,
            said => said?.into(),
        };
        Ok((name.to_owned(), value))
    };
    let all: Result<Map<_, _>, Failure> = ATTRIBUTES.into_iter().map(of).collect();
    all.map(Value::from)
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
    Err(Refusal::not_asked(format!("CUDA lists no GPU {pci}")).into())
}
