//! Many nodes: which of them take part, how they meet and trust each other, and what passes between them.
//!
//! ```text
//! hostfile       files that list hosts
//! ssh            commands and doctors on other hosts; ssh_child is the other end
//! meeting        rank 0 listens, the others join by a handshake (key, handshake, frame)
//! gather_tree    recordings of many nodes go through relays (relay_frames)
//! session        after they have met, nodes exchange values in steps
//! clock_offset   how far the clocks of two nodes are apart
//! ```

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
