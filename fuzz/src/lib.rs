//! What the fuzzer tries, and the project's tests with the inputs that it found.

use std::path::{Path, PathBuf};

use rdma_doctor::fact::Facts;

pub mod compressed;
pub mod dialogue;
pub mod evidence;
pub mod families;
pub mod frames;
pub mod handshake;
pub mod judged;
pub mod log;
pub mod machines;
pub mod recording;
pub mod reply;
pub mod site;
pub mod tables;
pub mod texts;
pub mod traces;
pub mod verdicts;

/// The project's recordings. The fuzzer's own folder lies below the project's, whose tests try the
/// same inputs.
fn fixtures() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = here.join("fixtures");
    if own.is_dir() {
        own
    } else {
        here.join("../fixtures")
    }
}

/// Refuses facts of a probe that panicked: outside of a fuzzer a panic is caught and told as a gap.
fn without_a_bug(facts: &Facts) {
    for (_, probe, how) in facts.failures() {
        assert!(!how.contains("a bug in"), "{probe}: {how}");
    }
}
