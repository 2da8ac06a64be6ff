//! What nodes pass on towards rank 0: recordings in parts, so that who passes them on holds little of each.

use std::collections::HashMap;

use super::frame::FrameError;

/// The longest part of a message.
pub const PART: usize = 64 << 10;
/// The longest frame in which something is passed on.
pub const MOST: u64 = (PART + HEAD) as u64;
/// What stands before the bytes: kind, rank, seat, length of the whole.
const HEAD: usize = 1 + 3 * 8;
/// The longest reason.
const REASON: usize = 400;

const OF_MESSAGE: u8 = 1;
const OF_GONE: u8 = 2;

/// Something that is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed<'b> {
    /// Of which rank.
    pub rank: u64,
    /// On which seat.
    pub seat: u64,
    /// What.
    pub what: What<'b>,
}

/// What is passed on of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What<'b> {
    /// A part of its message, which has so many bytes as a whole.
    Part(u64, &'b [u8]),
    /// It is gone: why.
    Gone(String),
}

impl<'b> Passed<'b> {
    /// Reads a frame; `None` where it is none.
    pub fn read(frame: &'b [u8]) -> Option<Self> {
        let (head, bytes) = frame.split_at_checked(HEAD)?;
        let number = |at: usize| {
            let bytes = head.get(at..at + 8)?;
            Some(u64::from_be_bytes(bytes.try_into().ok()?))
        };
        let (rank, seat, whole) = (number(1)?, number(9)?, number(17)?);
        let what = match *head.first()? {
            OF_MESSAGE => What::Part(whole, bytes),
            OF_GONE => {
                let text = String::from_utf8_lossy(bytes);
                What::Gone(text.chars().filter(|c| !c.is_control()).collect())
            }
            _ => return None,
        };
        Some(Passed { rank, seat, what })
    }

    /// The frame.
    pub fn write(&self) -> Vec<u8> {
        let (kind, whole, bytes) = match &self.what {
            What::Part(whole, bytes) => (OF_MESSAGE, *whole, *bytes),
            What::Gone(why) => (
                OF_GONE,
                0,
                &why.as_bytes()[..why.floor_char_boundary(REASON)],
            ),
        };
        let mut frame = Vec::with_capacity(HEAD + bytes.len());
        frame.push(kind);
        for number in [self.rank, self.seat, whole] {
            frame.extend(number.to_be_bytes());
        }
        frame.extend(bytes);
        frame
    }
}

/// The parts of a message; one of them where it is empty.
pub fn parts(rank: u64, seat: u64, message: &[u8]) -> impl Iterator<Item = Passed<'_>> {
    let whole = message.len() as u64;
    let empty = message.is_empty().then_some(&message[..0]);
    let parts = message.chunks(PART).chain(empty);
    parts.map(move |bytes| Passed {
        rank,
        seat,
        what: What::Part(whole, bytes),
    })
}

/// Puts parts together.
#[derive(Debug, Default)]
pub struct Assembly {
    of: HashMap<(u64, u64), Vec<u8>>,
}

impl Assembly {
    /// Takes a part; the message where it is whole.
    ///
    /// # Errors
    ///
    /// It is, or says that it is going to be, longer than it may be.
    pub fn take(
        &mut self,
        (rank, seat): (u64, u64),
        (whole, part): (u64, &[u8]),
        most: u64,
    ) -> Result<Option<Vec<u8>>, FrameError> {
        let message = self.of.entry((rank, seat)).or_default();
        let length = whole.max((message.len() + part.len()) as u64);
        if length > most {
            self.forget(rank, seat);
            return Err(FrameError::TooLong(length, most));
        }
        // Memory is taken as bytes come.
        message.extend_from_slice(part);
        match message.len() as u64 >= whole {
            true => Ok(self.of.remove(&(rank, seat))),
            false => Ok(None),
        }
    }

    /// Nothing more comes of this one.
    pub fn forget(&mut self, rank: u64, seat: u64) {
        self.of.remove(&(rank, seat));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(assembly: &mut Assembly, frame: &[u8], most: u64) -> Option<Vec<u8>> {
        let Passed { rank, seat, what } = Passed::read(frame).unwrap();
        match what {
            What::Part(whole, bytes) => assembly.take((rank, seat), (whole, bytes), most).unwrap(),
            What::Gone(why) => panic!("{why}"),
        }
    }

    #[test]
    fn parts_of_several_nodes_come_mixed() {
        let long: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut assembly = Assembly::default();
        let first: Vec<Vec<u8>> = parts(1, 7, &long).map(|part| part.write()).collect();
        assert!(first.iter().all(|frame| frame.len() as u64 <= MOST));
        let (last, others) = first.split_last().unwrap();
        for frame in others {
            assert_eq!(passed(&mut assembly, frame, 1 << 20), None);
        }
        let second: Vec<_> = parts(2, 8, b"short").map(|part| part.write()).collect();
        assert_eq!(passed(&mut assembly, &second[0], 9).unwrap(), b"short");
        assert_eq!(passed(&mut assembly, last, 1 << 20).unwrap(), long);
        let nothing: Vec<_> = parts(3, 9, b"").map(|part| part.write()).collect();
        assert_eq!(nothing.len(), 1);
        assert_eq!(passed(&mut assembly, &nothing[0], 9).unwrap(), b"");
        assert!(assembly.of.is_empty());
    }

    #[test]
    fn what_is_too_long_is_not_taken() {
        let mut assembly = Assembly::default();
        let long = assembly.take((1, 1), (100, &[0; 10]), 99);
        assert!(matches!(long, Err(FrameError::TooLong(100, 99))));
        // One that says that it is short, and is not.
        assert!(assembly.take((1, 1), (20, &[0; 10]), 12).is_err());
        assert!(assembly.of.is_empty());
    }

    #[test]
    fn who_is_gone_is_told_with_its_reason() {
        let gone = Passed {
            rank: 3,
            seat: 4,
            what: What::Gone("its connection closed".into()),
        };
        assert_eq!(Passed::read(&gone.write()), Some(gone.clone()));
        let long = Passed {
            what: What::Gone("ä".repeat(REASON)),
            ..gone
        };
        let text = match Passed::read(&long.write()).unwrap().what {
            What::Gone(text) => text,
            What::Part(..) => String::new(),
        };
        assert_eq!(text, "ä".repeat(REASON / 2));
        for none in [&b""[..], b"rdd1", &[9; HEAD]] {
            assert_eq!(Passed::read(none), None);
        }
    }
}
