//! Many nodes: who takes part, who is meant by a list of names, which pairs are measured when, and what their results accuse.
//!
//! Nothing here asks the machine.

pub mod blame;
pub mod clock;
pub mod exchange;
pub mod frame;
pub mod handshake;
pub mod held;
pub mod hostfile;
pub mod key;
pub mod launch;
pub mod passing;
pub mod schedule;
pub mod seats;
