//! The nodes of a run: which hosts take part, how they find and authenticate each other, and what
//! they exchange.
//!
//! ```text
//! hostfile       files that list hosts
//! ssh            commands and doctors on other hosts; ssh_child is the remote end
//! rendezvous     rank 0 listens, the other nodes join by a handshake (key, handshake, frame)
//! gather_tree    the tree of relays through which many nodes send their recordings (relay_frames)
//! session        exchange of values between the joined nodes, in steps (session_steps)
//! clock_offset   the offset between the clocks of two nodes
//! ```

pub mod clock_offset;
pub mod frame;
pub mod gather_tree;
pub mod handshake;
pub mod hostfile;
pub mod key;
pub mod relay_frames;
pub mod rendezvous;
pub mod session;
pub mod session_steps;
pub mod ssh;
pub mod ssh_child;
