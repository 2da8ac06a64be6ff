//! What ranks recorded of their collectives: any bytes give a digest or an error, and the digest becomes facts, without a panic.

use rdma_doctor::fact::{Facts, Subject};
use rdma_doctor::nccl_log::Digest;
use rdma_doctor::probe::nccl_log::{NAME, establish, file, files};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::{Header, Line};
use rdma_doctor::trace;

/// Tries one input: as a dump of rank 0, and beside itself as one of rank 1.
pub fn run(bytes: &[u8]) {
    let Ok(Some(read)) = trace::read(bytes) else {
        return;
    };
    let mut recording = Recording::new(Header {
        log: true,
        ..Header::default()
    });
    let names = ["rank_0", "rank_1"];
    let said = serde_json::json!({ "files": names });
    recording.add(Line::of(NAME, files(), &said, 0));
    let digest = Digest {
        trace: Some(Box::new(read)),
        ..Digest::default()
    };
    for name in names {
        recording.add(Line::of(NAME, file(name), &digest, 0));
    }
    let mut facts = Facts::new();
    establish(&recording, &mut facts);
    // A panic of the probe is caught and told as a gap.
    if let Err(gap) = facts.members(Subject::Run, Facts::CLUSTER) {
        panic!("{gap}");
    }
}
