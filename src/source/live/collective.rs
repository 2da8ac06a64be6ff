//! The ranks of a collective: what each does in its own process, over one of several backends.

pub mod backend;
pub mod element;
pub mod exchange;
pub mod steps;
mod verbs;
