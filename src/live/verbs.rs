//! libibverbs, loaded at run time.
//!
//! ```text
//! library   the calls, and what they hand out
//! port      which device, port and row of the GID table a measurement uses
//! port_request  what NCCL's variables ask for
//! address   what two ends of a connection tell each other
//! failure   why a call failed
//! gpu       a GPU's memory, and how adapters come to it
//! registered_memory  memory that is registered, the host's or a GPU's
//! rehearsal  a queue pair that writes to itself
//! ```
//!
//! The types come from rdma-sys; none of its functions is referred to, so that the doctor starts on a node without the library.

use crate::source::question::Call;
use crate::source::{Answer, Refusal};

#[cfg(feature = "verbs")]
pub(crate) mod address;
#[cfg(feature = "verbs")]
pub(crate) mod failure;
#[cfg(feature = "verbs")]
pub(crate) mod gpu;
#[cfg(feature = "verbs")]
pub(crate) mod library;
#[cfg(feature = "verbs")]
pub(crate) mod port;
#[cfg(feature = "verbs")]
pub(crate) mod port_request;
#[cfg(feature = "verbs")]
pub(crate) mod registered_memory;
#[cfg(feature = "verbs")]
pub(crate) mod rehearsal;

/// Answers `ibv_library`, `ibv_get_device_list`, `ibv_query_device` (device) and `ibv_query_port` (device, port).
///
/// Only `ibv_library` is harmless everywhere: it loads the library and calls nothing. The others open an RDMA netlink socket,
/// for which the kernel may load `ib_core`, so probes ask them only where `ib_uverbs` is there.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    #[cfg(feature = "verbs")]
    {
        library::ask(call)
    }
    #[cfg(not(feature = "verbs"))]
    {
        let _ = call;
        Err(Refusal::NotAsked(
            "this binary was built without the verbs feature".into(),
        ))
    }
}
