//! NCCL's log: any bytes, cut anywhere, give the same digest, and the digest becomes facts, without a panic.

use std::sync::Arc;

use rdma_doctor::fact::{Facts, Subject};
use rdma_doctor::nccl_log::{Limits, Reader};
use rdma_doctor::probe::nccl_log::{NAME, establish, file, files};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::{Header, Line};
use rdma_doctor::source::{Answer, Question, Reply};

/// Tries one input.
pub fn run(bytes: &[u8]) {
    let mut whole = Reader::new(Limits::default());
    whole.feed(bytes);
    let whole = whole.finish(None);
    // The first byte says where the input is cut.
    let mut pieces = Reader::new(Limits::default());
    let step = usize::from(bytes.first().copied().unwrap_or(0)) + 1;
    bytes.chunks(step).for_each(|piece| pieces.feed(piece));
    assert_eq!(whole, pieces.finish(None));

    let mut recording = Recording::new(Header {
        log: true,
        ..Header::default()
    });
    let mut add = |question: Question, value: serde_json::Value| {
        recording.add(Line::Reply {
            probe: NAME.into(),
            question,
            repeat: 0,
            reply: Reply {
                at: 0,
                said: Ok(Answer::Value(Arc::new(value))),
            },
        });
    };
    add(files(), serde_json::json!({ "files": ["log"] }));
    let Ok(value) = serde_json::to_value(&whole) else {
        return;
    };
    add(file("log"), value);
    let mut facts = Facts::new();
    establish(&recording, &mut facts);
    // A panic of the probe is caught and told as a gap.
    if let Err(gap) = facts.members(Subject::Run, Facts::CLUSTER) {
        panic!("{gap}");
    }
}
