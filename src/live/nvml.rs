//! NVML, the library behind nvidia-smi: loaded at run time, in a process of its own that may change nothing.
//!
//! nvml-wrapper loads it, begins and gives devices. What it lacks, and what it would turn into an enum of its own, is asked through the
//! fields of its bindings: replies are numbers as NVML gave them, whatever release they are of.

mod device;
mod library;
mod links;
mod pairs;
mod reply;

use std::time::Duration;

use super::{confine, files};
use crate::live::library_process::LibraryProcess;
use crate::source::Question;
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

static NVML: LibraryProcess = LibraryProcess::new("NVML");

/// How long NVML may take to begin: without persistence the driver wakes GPU after GPU.
const BEGINS: Duration = Duration::from_millis(9000);
/// How long any other answer may take.
const ANSWERS: Duration = Duration::from_millis(7000);

/// Answers `nvml_system`, `nvml_device` (index), `nvml_load` (index), `nvml_links` (index) and `nvml_p2p`: objects from the names of NVML's functions to what they
/// said, a failure as `{"error":"NotSupported"}`.
///
/// Where NVIDIA's driver is not loaded nothing is called: NVML would load it.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    for path in ["/proc/driver/nvidia/version", "/dev/nvidiactl"] {
        if let Some(Err(refusal)) = files::ask(None, &Question::stat(path)) {
            return Err(Refusal::not_asked(format!(
                "NVIDIA's driver is not loaded: {path}: {refusal}"
            )));
        }
    }
    let patience = match &*call.name {
        "nvml_system" => BEGINS,
        _ => ANSWERS,
    };
    NVML.ask(call, patience)
}

/// Answers in the helper's process.
pub(super) fn answer(call: &Call) -> Result<Answer, Refusal> {
    static CONFINED: std::sync::OnceLock<Result<(), Errno>> = std::sync::OnceLock::new();
    let confined = CONFINED.get_or_init(|| confine::confine().map_err(|e| Errno::from(&e)));
    if let Err(errno) = confined {
        return Err(Refusal::not_asked(format!(
            "the kernel cannot keep NVML from changing the machine (seccomp: {errno})"
        )));
    }
    let index = || {
        let index = call.number("index").and_then(|n| u32::try_from(n).ok());
        index.ok_or(Refusal::Errno(Errno::EINVAL))
    };
    let value = match &*call.name {
        "nvml_system" => library::system()?,
        "nvml_device" => device::describe(index()?)?,
        "nvml_load" => device::load(index()?)?,
        "nvml_links" => links::describe(index()?)?,
        "nvml_p2p" => pairs::describe()?,
        name => return Err(Refusal::unknown_call(name)),
    };
    Ok(Answer::from(value))
}
