//! The frames in which relays forward messages to rank 0: each message is cut into parts, so that a
//! relay holds little of it.

use std::collections::HashMap;

use super::frame::FrameError;

/// The longest part of a message, in bytes.
pub const MAX_PART: usize = 64 << 10;
/// The longest frame, in bytes.
pub const MAX_FRAME: u64 = (MAX_PART + HEADER_LENGTH) as u64;
/// Kind, rank, position and length of the whole message come before the bytes.
const HEADER_LENGTH: usize = 1 + 3 * 8;
/// The longest reason of a loss, in bytes.
const MAX_REASON: usize = 400;

const KIND_PART: u8 = 1;
const KIND_LOST: u8 = 2;

/// A frame that a relay forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayFrame<'b> {
    /// The rank that it is about.
    pub rank: u64,
    /// That rank's position in the tree.
    pub position: u64,
    /// What happened.
    pub payload: RelayPayload<'b>,
}

/// What a frame says about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayPayload<'b> {
    /// A part of its message, and the length of the whole.
    Part(u64, &'b [u8]),
    /// The node is lost, and why.
    Lost(String),
}

impl<'b> RelayFrame<'b> {
    /// Parses a frame; `None` if it is malformed.
    pub fn read(frame: &'b [u8]) -> Option<Self> {
        let (head, bytes) = frame.split_at_checked(HEADER_LENGTH)?;
        let number = |at: usize| {
            let bytes = head.get(at..at + 8)?;
            Some(u64::from_be_bytes(bytes.try_into().ok()?))
        };
        let (rank, seat, whole) = (number(1)?, number(9)?, number(17)?);
        let what = match *head.first()? {
            KIND_PART => RelayPayload::Part(whole, bytes),
            KIND_LOST => {
                let text = String::from_utf8_lossy(bytes);
                RelayPayload::Lost(text.chars().filter(|c| !c.is_control()).collect())
            }
            _ => return None,
        };
        Some(RelayFrame {
            rank,
            position: seat,
            payload: what,
        })
    }

    /// The frame's bytes.
    pub fn write(&self) -> Vec<u8> {
        let (kind, whole, bytes) = match &self.payload {
            RelayPayload::Part(whole, bytes) => (KIND_PART, *whole, *bytes),
            RelayPayload::Lost(why) => (
                KIND_LOST,
                0,
                &why.as_bytes()[..why.floor_char_boundary(MAX_REASON)],
            ),
        };
        let mut frame = Vec::with_capacity(HEADER_LENGTH + bytes.len());
        frame.push(kind);
        for number in [self.rank, self.position, whole] {
            frame.extend(number.to_be_bytes());
        }
        frame.extend(bytes);
        frame
    }
}

/// The parts of a message; an empty message has one empty part.
pub fn parts(rank: u64, seat: u64, message: &[u8]) -> impl Iterator<Item = RelayFrame<'_>> {
    let whole = message.len() as u64;
    let empty = message.is_empty().then_some(&message[..0]);
    let parts = message.chunks(MAX_PART).chain(empty);
    parts.map(move |bytes| RelayFrame {
        rank,
        position: seat,
        payload: RelayPayload::Part(whole, bytes),
    })
}

/// Reassembles messages from their parts.
#[derive(Debug, Default)]
pub struct Reassembly {
    incomplete: HashMap<(u64, u64), Vec<u8>>,
}

impl Reassembly {
    /// Adds a part; returns the message once it is complete.
    ///
    /// # Errors
    ///
    /// The message is, or is announced to be, longer than `most` bytes.
    pub fn add_part(
        &mut self,
        (rank, seat): (u64, u64),
        (whole, part): (u64, &[u8]),
        most: u64,
    ) -> Result<Option<Vec<u8>>, FrameError> {
        let message = self.incomplete.entry((rank, seat)).or_default();
        let length = whole.max((message.len() + part.len()) as u64);
        if length > most {
            self.discard(rank, seat);
            return Err(FrameError::TooLong(length, most));
        }
        // Memory grows with the bytes that arrive, not with the announced length.
        message.extend_from_slice(part);
        if message.len() as u64 >= whole {
            Ok(self.incomplete.remove(&(rank, seat)))
        } else {
            Ok(None)
        }
    }

    /// Drops what arrived of this node's message.
    pub fn discard(&mut self, rank: u64, seat: u64) {
        self.incomplete.remove(&(rank, seat));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_frame(assembly: &mut Reassembly, frame: &[u8], most: u64) -> Option<Vec<u8>> {
        let RelayFrame {
            rank,
            position: seat,
            payload: what,
        } = RelayFrame::read(frame).unwrap();
        match what {
            RelayPayload::Part(whole, bytes) => assembly
                .add_part((rank, seat), (whole, bytes), most)
                .unwrap(),
            RelayPayload::Lost(why) => panic!("{why}"),
        }
    }

    #[test]
    fn parts_of_several_nodes_come_mixed() {
        let long: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut assembly = Reassembly::default();
        let first: Vec<Vec<u8>> = parts(1, 7, &long).map(|part| part.write()).collect();
        assert!(first.iter().all(|frame| frame.len() as u64 <= MAX_FRAME));
        let (last, others) = first.split_last().unwrap();
        for frame in others {
            assert_eq!(add_frame(&mut assembly, frame, 1 << 20), None);
        }
        let second: Vec<_> = parts(2, 8, b"short").map(|part| part.write()).collect();
        assert_eq!(add_frame(&mut assembly, &second[0], 9).unwrap(), b"short");
        assert_eq!(add_frame(&mut assembly, last, 1 << 20).unwrap(), long);
        let nothing: Vec<_> = parts(3, 9, b"").map(|part| part.write()).collect();
        assert_eq!(nothing.len(), 1);
        assert_eq!(add_frame(&mut assembly, &nothing[0], 9).unwrap(), b"");
        assert!(assembly.incomplete.is_empty());
    }

    #[test]
    fn too_long_messages_are_refused() {
        let mut assembly = Reassembly::default();
        let long = assembly.add_part((1, 1), (100, &[0; 10]), 99);
        assert!(matches!(long, Err(FrameError::TooLong(100, 99))));
        // A message that is longer than announced.
        assert!(assembly.add_part((1, 1), (20, &[0; 10]), 12).is_err());
        assert!(assembly.incomplete.is_empty());
    }

    #[test]
    fn a_loss_carries_its_reason() {
        let gone = RelayFrame {
            rank: 3,
            position: 4,
            payload: RelayPayload::Lost("its connection closed".into()),
        };
        assert_eq!(RelayFrame::read(&gone.write()), Some(gone.clone()));
        let long = RelayFrame {
            payload: RelayPayload::Lost("ä".repeat(MAX_REASON)),
            ..gone
        };
        let text = match RelayFrame::read(&long.write()).unwrap().payload {
            RelayPayload::Lost(text) => text,
            RelayPayload::Part(..) => String::new(),
        };
        assert_eq!(text, "ä".repeat(MAX_REASON / 2));
        for none in [&b""[..], b"rdd1", &[9; HEADER_LENGTH]] {
            assert_eq!(RelayFrame::read(none), None);
        }
    }
}
