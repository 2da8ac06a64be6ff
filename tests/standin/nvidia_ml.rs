//! A stand-in for libnvidia-ml.so.1 at its ABI, for tests only: it answers from a description of a machine (`machine.rs`). It asks no hardware,
//! is never shipped, and a recording made over it is no recording of hardware.

#![expect(unsafe_code, reason = "a library in C's terms")]
#![expect(
    clippy::missing_safety_doc,
    reason = "the functions of nvml.h, whose manual says what callers owe"
)]
#![expect(missing_docs, reason = "nvml.h documents them")]

mod machine;

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use machine::Machine;
use nvml_wrapper_sys::bindings::{
    nvmlBAR1Memory_t, nvmlConfComputeSystemState_t, nvmlDevice_t, nvmlEccSramErrorStatus_v1_t,
    nvmlFieldValue_t, nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t,
    nvmlMarginTemperature_v1_t, nvmlMemory_v2_t, nvmlPciInfo_t, nvmlProcessInfo_t,
    nvmlRowRemapperHistogramValues_t, nvmlUtilization_t,
};
use toml::Value;

/// `nvmlReturn_t`.
type Return = c_uint;

const INVALID_ARGUMENT: Return = 2;
const NOT_SUPPORTED: Return = 3;
const NOT_FOUND: Return = 6;
const INSUFFICIENT_SIZE: Return = 7;
const OTHER_VERSION: Return = 25;

/// The code of a name.
fn code(name: &str) -> Return {
    match name {
        "Uninitialized" => 1,
        "InvalidArgument" => INVALID_ARGUMENT,
        "NotSupported" => NOT_SUPPORTED,
        "NoPermission" => 4,
        "NotFound" => NOT_FOUND,
        "DriverNotLoaded" => 9,
        "CorruptedInforom" => 14,
        "GpuIsLost" => 15,
        "ResetRequired" => 16,
        "LibRmVersionMismatch" => 18,
        "ArgumentVersionMismatch" => OTHER_VERSION,
        _ => 999,
    }
}

/// A described value, or the code that is described, or that there is none.
fn said(value: Option<&'static Value>) -> Result<&'static Value, Return> {
    let value = value.ok_or(NOT_SUPPORTED)?;
    match value.as_str().and_then(|text| text.strip_prefix("error: ")) {
        Some(name) => Err(code(name)),
        None => Ok(value),
    }
}

fn number(value: Option<&'static Value>) -> Result<i64, Return> {
    said(value)?.as_integer().ok_or(999)
}

/// The GPU of a handle. Handles are numbers from 1.
fn gpu(device: nvmlDevice_t) -> Result<usize, Return> {
    let number = device as usize;
    match (1..=Machine::get().gpus()).contains(&number) {
        true => Ok(number - 1),
        false => Err(INVALID_ARGUMENT),
    }
}

/// What every function of a device does first.
fn enter(function: &str, device: nvmlDevice_t) -> Result<usize, Return> {
    let gpu = gpu(device)?;
    Machine::get().enter(function, Some(gpu));
    match Machine::get().gpu("nvml", gpu, "all") {
        Some(_) if function != "nvmlDeviceGetPciInfo_v3" => {
            number(Machine::get().gpu("nvml", gpu, "all")).map(|_| gpu)
        }
        _ => Ok(gpu),
    }
}

/// What is described of a device, under a name.
fn of(function: &str, device: nvmlDevice_t, name: &str) -> Result<i64, Return> {
    let gpu = enter(function, device)?;
    number(Machine::get().gpu("nvml", gpu, name))
}

fn done(result: Result<(), Return>) -> Return {
    result.err().unwrap_or(0)
}

/// Writes a number where the caller wants it.
unsafe fn write<T: TryFrom<i64>>(to: *mut T, value: Result<i64, Return>) -> Return {
    done(value.and_then(|value| {
        let value = T::try_from(value).map_err(|_| 999_u32)?;
        // SAFETY: the caller gives room for one.
        unsafe { to.write(value) };
        Ok(())
    }))
}

unsafe fn write_text(
    to: *mut c_char,
    room: c_uint,
    value: Result<&'static Value, Return>,
) -> Return {
    done(value.and_then(|value| {
        let text = value.as_str().ok_or(999_u32)?;
        if text.len() >= room as usize {
            return Err(INSUFFICIENT_SIZE);
        }
        // SAFETY: the caller gives `room` characters.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
            to.add(text.len()).write(0);
        }
        Ok(())
    }))
}

fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(text.bytes().take(N - 1)) {
        *to = from as c_char;
    }
    out
}

/// Functions that give one number of a device.
macro_rules! numbers {
    ($($function:ident: $type:ty),* $(,)?) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(device: nvmlDevice_t, to: *mut $type) -> Return {
            let name = stringify!($function);
            unsafe { write(to, of(name, device, name)) }
        }
    )* };
}

numbers! {
    nvmlDeviceGetMinorNumber: c_uint, nvmlDeviceGetModuleId: c_uint, nvmlDeviceGetArchitecture: c_uint,
    nvmlDeviceGetPersistenceMode: c_uint, nvmlDeviceGetComputeMode: c_uint, nvmlDeviceGetPerformanceState: c_uint,
    nvmlDeviceGetMaxMigDeviceCount: c_uint, nvmlDeviceGetRetiredPagesPendingStatus: c_uint,
    nvmlDeviceGetCurrentClocksEventReasons: c_ulonglong, nvmlDeviceGetPowerUsage: c_uint, nvmlDeviceGetEnforcedPowerLimit: c_uint,
    nvmlDeviceGetPowerManagementDefaultLimit: c_uint, nvmlDeviceGetCurrPcieLinkGeneration: c_uint, nvmlDeviceGetCurrPcieLinkWidth: c_uint,
    nvmlDeviceGetMaxPcieLinkGeneration: c_uint, nvmlDeviceGetGpuMaxPcieLinkGeneration: c_uint, nvmlDeviceGetMaxPcieLinkWidth: c_uint,
    nvmlDeviceGetPcieReplayCounter: c_uint,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceValidateInforom(device: nvmlDevice_t) -> Return {
    let name = "nvmlDeviceValidateInforom";
    done(of(name, device, name).map(|_| ()))
}

/// Functions that give one number of a device for an argument, which the description names.
macro_rules! choices {
    ($($function:ident: $($argument:literal = $name:literal),*;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(device: nvmlDevice_t, argument: c_uint, to: *mut c_uint) -> Return {
            let choice = match argument { $($argument => $name,)* _ => return NOT_SUPPORTED };
            let function = stringify!($function);
            unsafe { write(to, of(function, device, &format!("{function}/{choice}"))) }
        }
    )* };
}

choices! {
    nvmlDeviceGetClockInfo: 0 = "graphics", 1 = "sm", 2 = "memory";
    nvmlDeviceGetMaxClockInfo: 0 = "graphics", 1 = "sm", 2 = "memory";
    nvmlDeviceGetApplicationsClock: 0 = "graphics", 1 = "sm", 2 = "memory";
    nvmlDeviceGetDefaultApplicationsClock: 0 = "graphics", 1 = "sm", 2 = "memory";
    nvmlDeviceGetTemperature: 0 = "gpu";
    nvmlDeviceGetTemperatureThreshold: 0 = "shutdown", 1 = "slowdown", 2 = "memory";
}

/// Functions that give a text of a device.
macro_rules! texts {
    ($($function:ident),* $(,)?) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(device: nvmlDevice_t, to: *mut c_char, room: c_uint) -> Return {
            let name = stringify!($function);
            let value = enter(name, device).and_then(|gpu| said(Machine::get().gpu("nvml", gpu, name)));
            unsafe { write_text(to, room, value) }
        }
    )* };
}

texts! { nvmlDeviceGetName, nvmlDeviceGetSerial, nvmlDeviceGetUUID, nvmlDeviceGetVbiosVersion }

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGspFirmwareVersion(
    device: nvmlDevice_t,
    to: *mut c_char,
) -> Return {
    let name = "nvmlDeviceGetGspFirmwareVersion";
    let value = enter(name, device).and_then(|gpu| said(Machine::get().gpu("nvml", gpu, name)));
    unsafe { write_text(to, 64, value) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlInit_v2() -> Return {
    Machine::get().enter("nvmlInit_v2", None);
    match Machine::get().system("nvml", "nvmlInit_v2") {
        Some(_) => done(said(Machine::get().system("nvml", "nvmlInit_v2")).map(|_| ())),
        None => 0,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Return {
    unsafe { nvmlInit_v2() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlShutdown() -> Return {
    0
}

unsafe fn system_text(name: &str, to: *mut c_char, room: c_uint) -> Return {
    Machine::get().enter(name, None);
    unsafe { write_text(to, room, said(Machine::get().system("nvml", name))) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, room: c_uint) -> Return {
    unsafe { system_text("nvmlSystemGetDriverVersion", to, room) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(to: *mut c_char, room: c_uint) -> Return {
    unsafe { system_text("nvmlSystemGetNVMLVersion", to, room) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(to: *mut c_int) -> Return {
    let name = "nvmlSystemGetCudaDriverVersion_v2";
    Machine::get().enter(name, None);
    unsafe { write(to, number(Machine::get().system("nvml", name))) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetConfComputeState(
    to: *mut nvmlConfComputeSystemState_t,
) -> Return {
    let name = "nvmlSystemGetConfComputeState";
    Machine::get().enter(name, None);
    done(number(Machine::get().system("nvml", name)).map(|feature| {
        // SAFETY: the caller gives room for one.
        unsafe {
            to.write(nvmlConfComputeSystemState_t {
                environment: 2,
                ccFeature: feature as c_uint,
                devToolsMode: 0,
            });
        }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> Return {
    Machine::get().enter("nvmlDeviceGetCount_v2", None);
    unsafe { write(to, Ok(Machine::get().gpus() as i64)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(
    index: c_uint,
    to: *mut nvmlDevice_t,
) -> Return {
    let name = "nvmlDeviceGetHandleByIndex_v2";
    let index = index as usize;
    if index >= Machine::get().gpus() {
        return INVALID_ARGUMENT;
    }
    Machine::get().enter(name, Some(index));
    if let Err(code) = Machine::get()
        .gpu("nvml", index, name)
        .map_or(Ok(0), |value| number(Some(value)))
    {
        return code;
    }
    unsafe { to.write((index + 1) as nvmlDevice_t) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(device: nvmlDevice_t, to: *mut c_uint) -> Return {
    let index = enter("nvmlDeviceGetIndex", device).map(|gpu| gpu as i64);
    unsafe { write(to, index) }
}

/// NVML's spelling: eight digits of domain, upper case.
fn pci_info(address: &str) -> nvmlPciInfo_t {
    let bus_id = format!("0000{}", address.to_uppercase());
    let part = |from: usize, to: usize| u32::from_str_radix(&bus_id[from..to], 16).unwrap_or(0);
    nvmlPciInfo_t {
        busIdLegacy: chars(&address.to_uppercase()),
        domain: part(0, 8),
        bus: part(9, 11),
        device: part(12, 14),
        pciDeviceId: 0,
        pciSubSystemId: 0,
        busId: chars(&bus_id),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(
    device: nvmlDevice_t,
    to: *mut nvmlPciInfo_t,
) -> Return {
    done(enter("nvmlDeviceGetPciInfo_v3", device).map(|gpu| {
        unsafe { to.write(pci_info(Machine::get().pci(gpu))) };
    }))
}

/// Functions that give two numbers.
macro_rules! current_and_pending {
    ($($function:ident),*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(device: nvmlDevice_t, current: *mut c_uint, pending: *mut c_uint) -> Return {
            let name = stringify!($function);
            let one = unsafe { write(current, of(name, device, &format!("{name}/current"))) };
            let other = unsafe { write(pending, of(name, device, &format!("{name}/pending"))) };
            if one == 0 { other } else { one }
        }
    )* };
}

current_and_pending! { nvmlDeviceGetMigMode, nvmlDeviceGetEccMode }

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: nvmlDevice_t,
    index: c_uint,
    to: *mut nvmlDevice_t,
) -> Return {
    match of("nvmlDeviceGetMigDeviceHandleByIndex", device, "mig_devices") {
        Ok(count) if i64::from(index) < count => {
            unsafe { to.write(device) };
            0
        }
        Ok(_) | Err(NOT_SUPPORTED) => NOT_FOUND,
        Err(code) => code,
    }
}

fn kind(kind: c_uint) -> &'static str {
    ["corrected", "uncorrected"]
        .get(kind as usize)
        .unwrap_or(&"?")
}

fn since(since: c_uint) -> &'static str {
    ["volatile", "aggregate"]
        .get(since as usize)
        .unwrap_or(&"?")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: nvmlDevice_t,
    error: c_uint,
    counter: c_uint,
    to: *mut c_ulonglong,
) -> Return {
    let function = "nvmlDeviceGetTotalEccErrors";
    let name = format!("{function}/{}/{}", kind(error), since(counter));
    unsafe { write(to, of(function, device, &name)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryErrorCounter(
    device: nvmlDevice_t,
    error: c_uint,
    counter: c_uint,
    place: c_uint,
    to: *mut c_ulonglong,
) -> Return {
    let function = "nvmlDeviceGetMemoryErrorCounter";
    let place = match place {
        2 => "dram",
        7 => "sram",
        _ => return NOT_SUPPORTED,
    };
    let name = format!("{function}/{}/{}/{place}", kind(error), since(counter));
    unsafe { write(to, of(function, device, &name)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSramEccErrorStatus(
    device: nvmlDevice_t,
    to: *mut nvmlEccSramErrorStatus_v1_t,
) -> Return {
    let function = "nvmlDeviceGetSramEccErrorStatus";
    let own = size_of::<nvmlEccSramErrorStatus_v1_t>() as u32 | 1 << 24;
    if unsafe { (*to).version } != own {
        return OTHER_VERSION;
    }
    let part = |name: &str| of(function, device, &format!("{function}/{name}"));
    done((|| {
        unsafe {
            (*to).aggregateUncParity = part("aggregateUncParity")?.unsigned_abs();
            (*to).aggregateUncSecDed = part("aggregateUncSecDed")?.unsigned_abs();
            (*to).bThresholdExceeded = u32::from(part("bThresholdExceeded")? != 0);
        }
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetRetiredPages(
    device: nvmlDevice_t,
    cause: c_uint,
    count: *mut c_uint,
    _addresses: *mut c_ulonglong,
) -> Return {
    let function = "nvmlDeviceGetRetiredPages";
    let cause = if cause == 0 { "single" } else { "double" };
    let pages = of(function, device, &format!("{function}/{cause}"));
    let room = unsafe { *count };
    match unsafe { write(count, pages) } {
        0 if unsafe { *count } > room => INSUFFICIENT_SIZE,
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetRemappedRows(
    device: nvmlDevice_t,
    corrected: *mut c_uint,
    uncorrected: *mut c_uint,
    pending: *mut c_uint,
    failed: *mut c_uint,
) -> Return {
    let function = "nvmlDeviceGetRemappedRows";
    for (to, name) in [
        (corrected, "corrRows"),
        (uncorrected, "uncRows"),
        (pending, "isPending"),
        (failed, "failureOccurred"),
    ] {
        let code = unsafe { write(to, of(function, device, &format!("{function}/{name}"))) };
        if code != 0 {
            return code;
        }
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetRowRemapperHistogram(
    device: nvmlDevice_t,
    to: *mut nvmlRowRemapperHistogramValues_t,
) -> Return {
    let function = "nvmlDeviceGetRowRemapperHistogram";
    let part = |name: &str| {
        of(function, device, &format!("{function}/{name}")).map(|n| u32::try_from(n).unwrap_or(0))
    };
    done((|| {
        let banks = nvmlRowRemapperHistogramValues_t {
            max: part("max")?,
            high: part("high")?,
            partial: part("partial")?,
            low: part("low")?,
            none: part("none")?,
        };
        unsafe { to.write(banks) };
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMarginTemperature(
    device: nvmlDevice_t,
    to: *mut nvmlMarginTemperature_v1_t,
) -> Return {
    let name = "nvmlDeviceGetMarginTemperature";
    let own = size_of::<nvmlMarginTemperature_v1_t>() as u32 | 1 << 24;
    match unsafe { (*to).version } == own {
        true => unsafe { write(&raw mut (*to).marginTemperature, of(name, device, name)) },
        false => OTHER_VERSION,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: nvmlDevice_t,
    to: *mut nvmlMemory_v2_t,
) -> Return {
    let function = "nvmlDeviceGetMemoryInfo_v2";
    if unsafe { (*to).version } != size_of::<nvmlMemory_v2_t>() as u32 | 2 << 24 {
        return OTHER_VERSION;
    }
    let part =
        |name: &str| of(function, device, &format!("{function}/{name}")).map(i64::unsigned_abs);
    done((|| {
        let (total, reserved, used) = (part("total")?, part("reserved")?, part("used")?);
        unsafe {
            (*to).total = total;
            (*to).reserved = reserved;
            (*to).used = used;
            (*to).free = total - reserved - used;
        }
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetBAR1MemoryInfo(
    device: nvmlDevice_t,
    to: *mut nvmlBAR1Memory_t,
) -> Return {
    let function = "nvmlDeviceGetBAR1MemoryInfo";
    let part =
        |name: &str| of(function, device, &format!("{function}/{name}")).map(i64::unsigned_abs);
    done((|| {
        let (total, used) = (part("total")?, part("used")?);
        let memory = nvmlBAR1Memory_t {
            bar1Total: total,
            bar1Free: total - used,
            bar1Used: used,
        };
        unsafe { to.write(memory) };
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    device: nvmlDevice_t,
    to: *mut nvmlUtilization_t,
) -> Return {
    let name = "nvmlDeviceGetUtilizationRates";
    done((|| {
        let gpu = of(name, device, &format!("{name}/gpu"))? as c_uint;
        let memory = of(name, device, &format!("{name}/memory"))? as c_uint;
        unsafe { to.write(nvmlUtilization_t { gpu, memory }) };
        Ok(())
    })())
}

unsafe fn processes(
    name: &str,
    device: nvmlDevice_t,
    count: *mut c_uint,
    to: *mut nvmlProcessInfo_t,
) -> Return {
    done((|| {
        let gpu = enter(name, device)?;
        let list = said(Machine::get().gpu("nvml", gpu, name))?
            .as_array()
            .ok_or(999_u32)?;
        let room = unsafe { *count } as usize;
        unsafe { *count = list.len() as c_uint };
        if list.len() > room {
            return Err(INSUFFICIENT_SIZE);
        }
        for (at, process) in list.iter().enumerate() {
            let part = |name: &str| process.get(name).and_then(Value::as_integer).unwrap_or(0);
            let info = nvmlProcessInfo_t {
                pid: part("pid") as c_uint,
                usedGpuMemory: part("memory").unsigned_abs(),
                gpuInstanceId: c_uint::MAX,
                computeInstanceId: c_uint::MAX,
            };
            unsafe { to.add(at).write(info) };
        }
        Ok(())
    })())
}

macro_rules! process_lists {
    ($($function:ident),*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(device: nvmlDevice_t, count: *mut c_uint, to: *mut nvmlProcessInfo_t) -> Return {
            unsafe { processes(stringify!($function), device, count, to) }
        }
    )* };
}

process_lists! {
    nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetMPSComputeRunningProcesses_v3
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    device: nvmlDevice_t,
    count: *mut c_uint,
    to: *mut nvmlProcessInfo_t,
) -> Return {
    unsafe { processes("nvmlDeviceGetComputeRunningProcesses_v3", device, count, to) }
}

/// The newest version of the structure that the described library knows.
fn fabric_version(gpu: usize) -> i64 {
    number(Machine::get().gpu("nvml", gpu, "nvmlDeviceGetGpuFabricInfo/version")).unwrap_or(3)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuFabricInfoV(
    device: nvmlDevice_t,
    to: *mut nvmlGpuFabricInfo_v3_t,
) -> Return {
    done((|| {
        let gpu = enter("nvmlDeviceGetGpuFabricInfoV", device)?;
        let part = |name: &str| {
            let name = format!("nvmlDeviceGetGpuFabricInfo/{name}");
            number(Machine::get().gpu("nvml", gpu, &name)).map(|n| n as c_uint)
        };
        let version = unsafe { (*to).version };
        let third = size_of::<nvmlGpuFabricInfo_v3_t>() as u32 | 3 << 24;
        let second = size_of::<nvmlGpuFabricInfo_v2_t>() as u32 | 2 << 24;
        let newest = fabric_version(gpu);
        if version != second && (version != third || newest < 3) {
            return Err(OTHER_VERSION);
        }
        unsafe {
            (*to).status = part("status")?;
            (*to).cliqueId = part("cliqueId")?;
            (*to).state = part("state")? as _;
            (*to).healthMask = part("healthMask")?;
            if version == third {
                (*to).healthSummary = part("healthSummary")? as _;
            }
        }
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuFabricInfo(
    device: nvmlDevice_t,
    to: *mut nvmlGpuFabricInfo_t,
) -> Return {
    done((|| {
        let gpu = enter("nvmlDeviceGetGpuFabricInfo", device)?;
        let part = |name: &str| {
            let name = format!("nvmlDeviceGetGpuFabricInfo/{name}");
            number(Machine::get().gpu("nvml", gpu, &name)).map(|n| n as c_uint)
        };
        unsafe {
            (*to).status = part("status")?;
            (*to).cliqueId = part("cliqueId")?;
            (*to).state = part("state")? as _;
        }
        Ok(())
    })())
}

/// Names of fields, by their numbers; 251 to 253 as before release 580.82.
fn field(id: c_uint) -> Option<(&'static str, bool)> {
    Some(match id {
        82 => ("MEMORY_TEMP", false),
        90 | 164 => ("speed", true),
        91 => ("count", true),
        170 => ("C2C_LINK_COUNT", false),
        171 => ("C2C_LINK_GET_STATUS", false),
        208 => ("NVLINK_COUNT_RCV_ERRORS", true),
        214 => ("NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", true),
        215 => ("NVLINK_COUNT_LINK_RECOVERY_EVENTS", true),
        219 => ("NVLINK_COUNT_EFFECTIVE_ERRORS", true),
        230 => ("GET_GPU_RECOVERY_ACTION", false),
        251 => ("CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", false),
        252 => ("CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", false),
        253 => ("CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN", false),
        _ => return None,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: nvmlDevice_t,
    count: c_int,
    values: *mut nvmlFieldValue_t,
) -> Return {
    let gpu = match enter("nvmlDeviceGetFieldValues", device) {
        Ok(gpu) => gpu,
        Err(code) => return code,
    };
    for at in 0..count.unsigned_abs() as usize {
        let value = unsafe { &mut *values.add(at) };
        let described = match field(value.fieldId) {
            Some((name, true)) => number(Machine::get().link(gpu, value.scopeId as usize, name)),
            // The description may say of one of several what it does not say of all.
            Some((name, false)) => {
                let of_one = format!("field/{name}/{}", value.scopeId);
                let machine = Machine::get();
                let said = machine.gpu("nvml", gpu, &of_one);
                number(said.or_else(|| machine.gpu("nvml", gpu, &format!("field/{name}"))))
            }
            None => Err(NOT_SUPPORTED),
        };
        match described {
            Ok(number) => {
                value.nvmlReturn = 0;
                // NVML_VALUE_TYPE_UNSIGNED_LONG_LONG.
                value.valueType = 3;
                value.value.ullVal = number.unsigned_abs();
            }
            Err(code) => value.nvmlReturn = code,
        }
    }
    0
}

/// A number of a link, where the GPU has the link.
fn of_link(function: &str, device: nvmlDevice_t, link: c_uint, name: &str) -> Result<i64, Return> {
    let gpu = enter(function, device)?;
    match number(Machine::get().link(gpu, 0, "count"))? {
        0 => Err(NOT_SUPPORTED),
        count if i64::from(link) >= count => Err(INVALID_ARGUMENT),
        _ => number(Machine::get().link(gpu, link as usize, name)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(
    device: nvmlDevice_t,
    link: c_uint,
    to: *mut c_uint,
) -> Return {
    unsafe {
        write(
            to,
            of_link("nvmlDeviceGetNvLinkState", device, link, "state"),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkVersion(
    device: nvmlDevice_t,
    link: c_uint,
    to: *mut c_uint,
) -> Return {
    unsafe {
        write(
            to,
            of_link("nvmlDeviceGetNvLinkVersion", device, link, "version"),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkErrorCounter(
    device: nvmlDevice_t,
    link: c_uint,
    counter: c_uint,
    to: *mut c_ulonglong,
) -> Return {
    let name = match counter {
        0 => "error/replay",
        1 => "error/recovery",
        2 => "error/crc-flit",
        _ => return NOT_SUPPORTED,
    };
    let count = of_link("nvmlDeviceGetNvLinkErrorCounter", device, link, name);
    unsafe { write(to, count) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemoteDeviceType(
    device: nvmlDevice_t,
    link: c_uint,
    to: *mut c_uint,
) -> Return {
    let kind = of_link(
        "nvmlDeviceGetNvLinkRemoteDeviceType",
        device,
        link,
        "remote",
    );
    unsafe { write(to, kind) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: nvmlDevice_t,
    link: c_uint,
    to: *mut nvmlPciInfo_t,
) -> Return {
    done((|| {
        let gpu = enter("nvmlDeviceGetNvLinkRemotePciInfo_v2", device)?;
        let address = said(Machine::get().link(gpu, link as usize, "pci"))?;
        unsafe { to.write(pci_info(address.as_str().unwrap_or(""))) };
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetP2PStatus(
    first: nvmlDevice_t,
    second: nvmlDevice_t,
    capability: c_uint,
    to: *mut c_uint,
) -> Return {
    let names = ["read", "write", "nvlink"];
    let Some(name) = names.get(capability as usize) else {
        return INVALID_ARGUMENT;
    };
    let status = enter("nvmlDeviceGetP2PStatus", first)
        .and_then(|first| Ok((first, gpu(second)?)))
        .and_then(|(first, second)| number(Machine::get().pair(first, second, name)));
    unsafe { write(to, status) }
}
