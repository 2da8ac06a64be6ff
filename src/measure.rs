//! Everything that disturbs: entered only by a subcommand that says so.
//!
//! [`plan`] holds what a measurement is, as plain values; [`run`] carries it out.

pub mod plan;
pub mod run;
