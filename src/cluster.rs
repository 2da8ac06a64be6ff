//! Many nodes: who takes part, who is meant by a list of names, which pairs are measured when, and what their results accuse.
//!
//! Nothing here asks the machine.

pub mod clock_offset;
pub mod frame;
pub mod gather_tree;
pub mod handshake;
pub mod hostfile;
pub mod key;
pub mod meeting;
pub mod relay_frames;
pub mod session;
pub mod ssh;
pub mod ssh_child;
pub mod steps;
