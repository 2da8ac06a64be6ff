//! `rdma-doctor --version --verbose`: how this program was built, for a bug report.

use std::fmt::Write as _;

use crate::check::Catalogue;
use crate::live::own_process;

/// The line of `--version`.
pub const LINE: &str = concat!("rdma-doctor ", env!("CARGO_PKG_VERSION"), "\n");

/// All of it, a line each. The builder states the commit and the oldest glibc that the program starts with.
pub fn verbose(commit: Option<&str>, oldest_glibc: Option<&str>) -> String {
    let mut text = String::from(LINE);
    let verbs = match cfg!(feature = "verbs") {
        true => "verbs",
        false => "none (built without verbs: libibverbs is not asked)",
    };
    let glibc = match (own_process::glibc(), oldest_glibc) {
        (here, Some(oldest)) => format!("{here} here, {oldest} or newer is needed"),
        (here, None) => format!("{here} here"),
    };
    let checks = match Catalogue::embedded() {
        Ok(catalogue) => catalogue.count().to_string(),
        Err(error) => error.to_string(),
    };
    for (name, value) in [
        ("commit", commit.unwrap_or("not stated when it was built")),
        ("target", env!("RDMA_DOCTOR_TARGET")),
        ("glibc", &glibc),
        ("features", verbs),
        ("checks", &checks),
    ] {
        // Writing to a text does not fail.
        let _ = writeln!(text, "{name:8} {value}");
    }
    text
}
