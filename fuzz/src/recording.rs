//! A recording: any bytes, plain or compressed, are refused with a reason or become facts and a redacted copy, without a panic.

use std::path::Path;

use rdma_doctor::examine::recording_text;
use rdma_doctor::fact::Facts;
use rdma_doctor::probe;
use rdma_doctor::source::recording::{Recording, RecordingBudget};
use rdma_doctor::source::redact::Key;

const HEAD: &[u8] = b"{\"rdma-doctor-recording\":\"1.0\",\"node\":\"n1\"}\n";

/// Tries one input.
pub fn run(bytes: &[u8]) {
    let budget = RecordingBudget::of(8 << 20);
    for head in [&[][..], HEAD] {
        let whole = [head, bytes].concat();
        let Ok(recording) = Recording::read_within(whole.as_slice(), Path::new("fuzzed"), budget)
        else {
            continue;
        };
        let mut facts = Facts::new();
        probe::establish(&recording, &mut facts);
        super::without_a_bug(&facts);
        // What is written is read again.
        let text = recording_text::to_text(&recording, Some(Key::from_text("fuzzed")));
        let again = Recording::read(text.as_bytes(), Path::new("redacted"));
        assert!(again.is_ok(), "{:?}", again.err());
    }
}
