//! Frames and the handshake: whatever a stranger sends, rank 0 admits nobody without the key, and does not panic.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};

use rdma_doctor::cluster::frame::Frames;
use rdma_doctor::cluster::handshake::{NodeIdentity, admit};
use rdma_doctor::cluster::key::{Key, Trust};

/// What a stranger sends; nothing of what it hears matters.
struct Stranger<'b>(&'b [u8]);

impl Read for Stranger<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Stranger<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Messages in frames: the input's parts, divided by a byte that JSON has not.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut frames = Frames::upward(None);
    for part in bytes.split(|byte| *byte == 0) {
        // Writing to memory does not fail.
        let _ = frames.write(&mut stream, part);
    }
    stream
}

/// Tries one input.
pub fn run(bytes: &[u8]) {
    let own = NodeIdentity {
        version: "1".into(),
        job: "7".into(),
        rank: 0,
        ranks: 4,
        name: "n0".into(),
    };
    let Ok(key) = Key::from_text("a secret of sixteen") else {
        return;
    };
    let trust = Trust::Key(key);
    let at = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for stream in [bytes.to_vec(), framed(bytes)] {
        let admitted = admit(&mut Stranger(&stream), &own, &trust, at, [2; 16], |_, _| {
            None
        });
        assert!(admitted.is_err(), "admitted without the key");
    }
}
