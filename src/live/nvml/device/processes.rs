//! The processes that use a GPU.

use std::ffi::c_uint;
use std::sync::OnceLock;

use libloading::Library;
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlDevice_t, nvmlProcessInfo_t, nvmlProcessInfo_v1_t, nvmlReturn_t,
};
use serde_json::{Value, json};

use crate::live::files;
use crate::live::nvml::reply::{NvmlFailure, NvmlReply, Object, Plain, code, symbol};

/// How many processes are reported.
const MOST: usize = 256;
/// How many ancestors are reported: shells, launchers and container shims make a dozen.
const GENERATIONS: usize = 32;

/// A function that lists processes.
type ProcessListFunction<T> =
    unsafe extern "C" fn(nvmlDevice_t, *mut c_uint, *mut T) -> nvmlReturn_t;

pub(super) fn describe(lib: &NvmlLib, device: nvmlDevice_t, out: &mut Object) {
    let compute = match symbol(&lib.nvmlDeviceGetComputeRunningProcesses_v3) {
        Ok(function) => users(function, device),
        Err(_) => older(device),
    };
    out.insert("nvmlDeviceGetComputeRunningProcesses", compute);
    for (name, function) in [
        (
            "nvmlDeviceGetGraphicsRunningProcesses",
            symbol(&lib.nvmlDeviceGetGraphicsRunningProcesses_v3),
        ),
        (
            "nvmlDeviceGetMPSComputeRunningProcesses",
            symbol(&lib.nvmlDeviceGetMPSComputeRunningProcesses_v3),
        ),
    ] {
        out.insert(name, function.and_then(|function| users(function, device)));
    }
}

/// The same function before release 510 (`_v2`, whose structure is that of `_v3`) and before 460.
fn older(device: nvmlDevice_t) -> NvmlReply {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: the library is loaded already: this is another handle of it, which is never closed.
    let library = LIBRARY.get_or_init(|| unsafe { Library::new("libnvidia-ml.so.1") }.ok());
    let library = library.as_ref().ok_or(NvmlFailure::Missing)?;
    // SAFETY: the types are those of nvml.h.
    let (second, first) = unsafe {
        (
            library.get::<ProcessListFunction<nvmlProcessInfo_t>>(
                "nvmlDeviceGetComputeRunningProcesses_v2",
            ),
            library.get::<ProcessListFunction<nvmlProcessInfo_v1_t>>(
                "nvmlDeviceGetComputeRunningProcesses",
            ),
        )
    };
    match (second, first) {
        (Ok(function), _) => users(*function, device),
        (_, Ok(function)) => users(*function, device),
        _ => Err(NvmlFailure::Missing),
    }
}

/// A process as NVML has it: its number, and how much memory it uses.
trait User: Plain + Copy {
    fn pid_and_memory(&self) -> (u32, u64);
}

macro_rules! users {
    ($($of:ty),*) => { $(impl User for $of {
        fn pid_and_memory(&self) -> (u32, u64) {
            (self.pid, self.usedGpuMemory)
        }
    })* };
}
users! { nvmlProcessInfo_t, nvmlProcessInfo_v1_t }

fn users<T: User>(function: ProcessListFunction<T>, device: nvmlDevice_t) -> NvmlReply {
    let mut told = vec![T::zeroed(); MOST];
    let mut count = MOST as c_uint;
    // SAFETY: the caller gives a function with the structure that it writes; there is room for `count`.
    code(unsafe { function(device, &raw mut count, told.as_mut_ptr()) })?;
    let told = told.iter().take(usize::try_from(count).unwrap_or(0));
    Ok(told.map(|user| one(user.pid_and_memory())).collect())
}

fn one((pid, memory): (u32, u64)) -> Value {
    // NVML_VALUE_NOT_AVAILABLE.
    let memory = Some(memory).filter(|memory| *memory != u64::MAX);
    json!({ "pid": pid, "memory": memory, "process": name(pid), "ancestors": ancestors(pid) })
}

/// The kernel's name of a process, without arguments; none of one that this process cannot see.
fn name(pid: u32) -> Option<String> {
    Some(
        files::text(None, &format!("/proc/{pid}/comm"))?
            .trim_end()
            .to_owned(),
    )
}

/// The parent, its parent, and so on, down to process 1.
fn ancestors(pid: u32) -> Vec<u64> {
    let parent = |pid: u64| {
        let stat = files::text(None, &format!("/proc/{pid}/stat"))?;
        // pid (name) state ppid: the name may hold anything, so what follows its last parenthesis counts.
        let (_, rest) = stat.rsplit_once(')')?;
        rest.split_whitespace().nth(1)?.parse().ok()
    };
    let above = std::iter::successors(parent(pid.into()), |pid| parent(*pid));
    above.take_while(|pid| *pid > 0).take(GENERATIONS).collect()
}
