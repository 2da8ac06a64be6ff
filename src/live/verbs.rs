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

pub(crate) mod address;
pub(crate) mod failure;
pub(crate) mod gpu;
pub(crate) mod library;
pub(crate) mod port;
pub(crate) mod port_request;
pub(crate) mod registered_memory;
pub(crate) mod rehearsal;

/// Answers `ibv_library`, `ibv_get_device_list` and `ibv_query_port` (device, port).
///
/// Only `ibv_library` is harmless everywhere: it loads the library and calls nothing. The others open an RDMA netlink socket,
/// for which the kernel may load `ib_core`, so probes ask them only where `ib_uverbs` is there.
pub(super) use library::ask;
