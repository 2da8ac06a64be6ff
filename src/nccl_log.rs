//! Reads NCCL's log: bytes in, recognised lines out. Pure: it reads no files.
//!
//! ```text
//! window   bytes in any pieces become whole lines, in bounded memory
//! anchor   which lines can matter at all: a few needles, searched in the whole window
//! needles  many needles in one pass
//! line_template  lines that differ from an earlier one in digits alone have the same needles
//! row_table  rows of needles, of which a message holds all
//! pasted_text  what pastes, mail and collectors did to lines is taken back
//! prefix   what is before the message: host, process, device, time; whatever a launcher put before that
//! channel  `Channel 00/0 : 1[1] -> 2[2] [send] via NET/IB/0/GDRDMA`
//! message  the other messages of level INFO that say something
//! mtu_mismatch  words for two ends with different RDMA MTUs
//! launch   what launchers say of the number of nodes
//! event    messages that say that something failed, or may explain why: tables
//! failure_words  what else says that something failed
//! several_lines  lines that go on in the next ones
//! setting  settings of NCCL in commands and files
//! sign     lines of the program around NCCL that tell how its work goes
//! excerpt  the part of the stream in which outputs of other tools can stand
//! gather   each line goes to its reader; equal lines become one, with a count
//! digest   the result: kept lines, counts, processes
//! ```
//!
//! The grammar is that of NCCL 2.2 to 2.30 (`src/debug.cc` writes the prefix), of RCCL, and of what PyTorch and launchers
//! say when a run of NCCL fails. Output of many ranks interleaves and tears lines: nothing relies on a line being whole.

pub mod anchor;
pub mod channel;
pub mod clock;
pub mod digest;
pub mod event;
pub mod event_table;
mod excerpt;
pub mod failure_words;
pub mod gather;
pub mod launch;
mod line_template;
pub mod message;
mod mtu_mismatch;
mod needles;
pub mod pasted_text;
pub mod prefix;
mod row_table;
pub mod setting;
mod several_lines;
mod shape_table;
pub mod sign;
pub mod text;
mod window;

#[cfg(test)]
mod tests;

pub use digest::Digest;
pub use gather::{Limits, Reader};
