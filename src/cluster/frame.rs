//! Messages on a stream: a length, an authentication code if there is a key, and the bytes.

use std::io::{self, Read, Write};

use super::key::{Key, TAG_BYTES};

/// The first bytes of every message, which no other protocol sends.
pub const MAGIC: [u8; 4] = *b"rdd1";

/// The messages of one direction. Each is numbered, so that none can be dropped, repeated or
/// reflected.
pub struct Frames {
    key: Option<Key>,
    direction: &'static [u8],
    next: u64,
}

/// Why reading a message failed.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream ended, failed, or timed out.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are no message of rdma-doctor.
    #[error("it does not speak rdma-doctor's protocol")]
    Foreign,
    /// The message is longer than allowed.
    #[error("a message of {0} bytes exceeds the limit of {1} bytes")]
    TooLong(u64, u64),
    /// The message's authentication code does not match the key.
    #[error("a message whose authentication code does not match the key")]
    Forged,
}

impl Frames {
    /// Messages from the joining node to the node that it joins.
    pub fn upward(key: Option<Key>) -> Self {
        Frames {
            key,
            direction: b"up",
            next: 0,
        }
    }

    /// Messages to the joining node.
    pub fn downward(key: Option<Key>) -> Self {
        Frames {
            key,
            direction: b"down",
            next: 0,
        }
    }

    /// Writes a message.
    ///
    /// # Errors
    ///
    /// The stream fails.
    pub fn write(&mut self, out: &mut impl Write, message: &[u8]) -> io::Result<()> {
        let mut head = Vec::with_capacity(12 + TAG_BYTES);
        head.extend(MAGIC);
        head.extend((message.len() as u64).to_be_bytes());
        if let Some(key) = &self.key {
            head.extend(key.tag(&[self.direction, &self.next.to_be_bytes(), message]));
        }
        self.next += 1;
        out.write_all(&head)?;
        out.write_all(message)?;
        out.flush()
    }

    /// Reads a message of at most `most` bytes.
    ///
    /// # Errors
    ///
    /// The stream fails, or the message is not valid.
    pub fn read(&mut self, from: &mut impl Read, most: u64) -> Result<Vec<u8>, FrameError> {
        let mut head = [0; 12];
        from.read_exact(&mut head[..4])?;
        if head[..4] != MAGIC {
            return Err(FrameError::Foreign);
        }
        from.read_exact(&mut head[4..])?;
        let mut length = [0; 8];
        length.copy_from_slice(&head[4..]);
        let length = u64::from_be_bytes(length);
        if length > most {
            return Err(FrameError::TooLong(length, most));
        }
        let mut tag = [0; TAG_BYTES];
        if self.key.is_some() {
            from.read_exact(&mut tag)?;
        }
        // Memory grows with the bytes that arrive: the announced length is not authenticated.
        let mut message = Vec::new();
        let got = from.take(length).read_to_end(&mut message)?;
        if got as u64 != length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if let Some(key) = &self.key
            && !key.verifies(&[self.direction, &self.next.to_be_bytes(), &message], &tag)
        {
            return Err(FrameError::Forged);
        }
        self.next += 1;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Option<Key> {
        Some(Key::from_text(text).unwrap())
    }

    const SECRET: &str = "a secret of sixteen";

    #[test]
    fn messages_come_as_they_were_sent() {
        for secret in [None, key(SECRET)] {
            let mut stream = Vec::new();
            let mut sender = Frames::upward(secret.clone());
            sender.write(&mut stream, b"one").unwrap();
            sender.write(&mut stream, b"").unwrap();
            let mut receiver = Frames::upward(secret);
            let mut stream = stream.as_slice();
            assert_eq!(receiver.read(&mut stream, 3).unwrap(), b"one");
            assert_eq!(receiver.read(&mut stream, 3).unwrap(), b"");
            assert!(matches!(
                receiver.read(&mut stream, 3),
                Err(FrameError::Io(_))
            ));
        }
    }

    #[test]
    fn forged_repeated_and_reflected_messages_are_refused() {
        let mut stream = Vec::new();
        Frames::upward(key(SECRET))
            .write(&mut stream, b"one")
            .unwrap();
        let read = |mut frames: Frames, stream: &[u8]| frames.read(&mut { stream }, 99);
        let other = Frames::upward(key("another secret of sixteen"));
        assert!(matches!(read(other, &stream), Err(FrameError::Forged)));
        let down = Frames::downward(key(SECRET));
        assert!(matches!(read(down, &stream), Err(FrameError::Forged)));
        let mut twice = Frames::upward(key(SECRET));
        twice.read(&mut stream.as_slice(), 99).unwrap();
        assert!(matches!(read(twice, &stream), Err(FrameError::Forged)));
        let mut bent = stream.clone();
        *bent.last_mut().unwrap() ^= 1;
        assert!(matches!(
            read(Frames::upward(key(SECRET)), &bent),
            Err(FrameError::Forged)
        ));
    }

    #[test]
    fn strangers_cost_nothing() {
        let read = |bytes: &[u8]| Frames::upward(None).read(&mut { bytes }, 10);
        assert!(matches!(
            read(b"GET / HTTP/1.1\r\n"),
            Err(FrameError::Foreign)
        ));
        let mut long = MAGIC.to_vec();
        long.extend(u64::MAX.to_be_bytes());
        assert!(matches!(
            read(&long),
            Err(FrameError::TooLong(u64::MAX, 10))
        ));
        assert!(matches!(read(b"rd"), Err(FrameError::Io(_))));
    }
}
