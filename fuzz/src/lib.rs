//! What the fuzzer tries, and the project's tests with the inputs that it found.

use rdma_doctor::fact::Facts;

pub mod compressed;
pub mod evidence;
pub mod families;
pub mod handshake;
pub mod log;
pub mod recording;
pub mod reply;
pub mod site;

/// Refuses facts of a probe that panicked: outside of a fuzzer a panic is caught and told as a gap.
fn without_a_bug(facts: &Facts) {
    for (_, probe, how) in facts.failures() {
        assert!(!how.contains("a bug in"), "{probe}: {how}");
    }
}
