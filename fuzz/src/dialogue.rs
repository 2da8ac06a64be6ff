//! What a host says over ssh in the doctor's place: other lines, messages, an assignment.

use rdma_doctor::cluster::ssh_child::{ChildMessage, RunAssignment};

/// Tries one input.
pub fn run(bytes: &[u8]) {
    let mut from = bytes;
    while let Some(message) = ChildMessage::read(&mut from) {
        let line = message.line();
        assert_eq!(ChildMessage::read(&mut line.as_bytes()), Some(message));
        assert!(line.trim_end().chars().all(|c| !c.is_control()), "{line:?}");
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(told) = serde_json::from_slice::<RunAssignment>(line) {
            let again = serde_json::to_vec(&told).expect("it is plain data");
            assert!(serde_json::from_slice::<RunAssignment>(&again).is_ok());
        }
    }
}
