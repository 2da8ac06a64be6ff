//! What nodes send once they are admitted: parts of messages that relays forward, and contributions to steps. However they are cut, mixed
//! and made up, rank 0 holds no more than it allows, and every step ends.

use std::time::Duration;

use rdma_doctor::cluster::relay_frames::{Reassembly, RelayFrame, RelayPayload};
use rdma_doctor::cluster::session_steps::{StepCoordinator, StepInput};

/// Ranks of the run.
const RANKS: u64 = 4;

/// Bytes that a message may have.
const MOST: u64 = 512;

/// Longer than any node may wait: what an input says in milliseconds are not as many.
const AT_LAST: Duration = Duration::from_secs(u64::MAX);

/// Rank 0 behind its connections.
struct Receiver {
    assembly: Reassembly,
    steps: StepCoordinator,
}

impl Receiver {
    fn take_frame(&mut self, frame: &[u8]) {
        let Some(frame) = RelayFrame::read(frame) else {
            return;
        };
        let written = frame.write();
        let again = RelayFrame::read(&written);
        assert_eq!(again.map(|again| again.rank), Some(frame.rank));
        match frame.payload {
            RelayPayload::Lost(why) => {
                assert!(!why.contains(char::is_control), "a terminal reads it");
                self.assembly.discard(frame.rank, frame.position);
                self.steps.mark_gone(frame.rank % RANKS, &why);
            }
            RelayPayload::Part(whole, part) => {
                let place = (frame.rank, frame.position);
                let message = self.assembly.add_part(place, (whole, part), MOST);
                if let Ok(Some(message)) = message {
                    assert!(message.len() as u64 <= MOST);
                    self.take_message(frame.rank % RANKS, &message);
                }
            }
        }
    }

    fn take_message(&mut self, from: u64, message: &[u8]) {
        if let Ok(input) = serde_json::from_slice::<StepInput>(message) {
            self.steps.add_input(from, input, Duration::ZERO);
        }
    }
}

/// Tries one input: frames, divided by a byte that JSON has not.
pub fn run(bytes: &[u8]) {
    let mut receiver = Receiver {
        assembly: Reassembly::default(),
        steps: StepCoordinator::new(0..RANKS),
    };
    for frame in bytes.split(|byte| *byte == 0xff) {
        receiver.take_frame(frame);
    }
    receiver.steps.expire(AT_LAST);
    assert_eq!(receiver.steps.next_deadline(), None, "a step never ends");
}
