//! The latency that the CPU's idle states may have, as processes ask the kernel for it.

use std::io::Read;

use crate::source::{Answer, Refusal};

/// `{"call":"cpu_dma_latency"}` → the lowest latency that anybody asks for, in µs. Reading asks for nothing itself
/// (Documentation/power/pm_qos_interface.rst).
#[expect(
    clippy::disallowed_methods,
    reason = "four bytes, as the kernel keeps the number"
)]
pub fn wanted() -> Result<Answer, Refusal> {
    let mut bytes = [0; 4];
    std::fs::File::open("/dev/cpu_dma_latency").and_then(|mut file| file.read_exact(&mut bytes))?;
    Ok(Answer::from(serde_json::Value::from(i32::from_ne_bytes(
        bytes,
    ))))
}
