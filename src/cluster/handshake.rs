//! The handshake in which two nodes of a run verify that they belong together: same version, same
//! job, same key.
//!
//! ```text
//! node   hello    version, job, rank, ranks, name, nonce
//! rank 0 welcome  nonce, code over both nonces        or: refused, why
//! node   proof    code over both nonces and its rank
//! rank 0 come in                                      or: refused, why
//! ```
//!
//! Each side proves that it has the key without sending it, and neither proof can be replayed to
//! its sender. Everything after the handshake is authenticated with a key of this connection
//! ([`Key::derive_session`]).

use std::io::{Read, Write};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::frame::{FrameError, Frames};
use super::key::{Key, Trust};

/// The longest message of the handshake, in bytes.
const MAX_MESSAGE: u64 = 4096;

/// Random bytes that are used once.
pub type Nonce = [u8; 16];

/// What a node says about itself; both sides must agree on version, job and number of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeIdentity {
    /// The doctor's version: messages may differ between versions.
    pub version: String,
    /// The job's id as its scheduler prints it; empty without a scheduler.
    pub job: String,
    /// The node's rank.
    pub rank: u64,
    /// How many nodes there are.
    pub ranks: u64,
    /// Its name.
    pub name: String,
}

/// The joining node's first message.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    party: NodeIdentity,
    nonce: Nonce,
    key: bool,
    /// Identifies the process: the same process may reconnect, another one with its rank may not.
    /// Absent only in other versions, which are refused first.
    #[serde(default, rename = "life")]
    process: Nonce,
}

/// What the admitting side answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Welcome {
    Nonce {
        nonce: Nonce,
        code: Vec<u8>,
        name: String,
    },
    ComeIn,
    Refused(JoinRefusal),
}

/// Why a node was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum JoinRefusal {
    /// The versions differ.
    #[error(
        "{name} runs rdma-doctor {host}, this node {guest}: install the same version on all nodes"
    )]
    Version {
        /// Rank 0's node.
        name: String,
        /// Its version.
        host: String,
        /// The joining node's version.
        guest: String,
    },
    /// The jobs differ.
    #[error(
        "job {host:?} listens there, not {guest:?}: give each job its own port (--rendezvous HOST:PORT)"
    )]
    Job {
        /// The job of the listening side.
        host: String,
        /// The job of the joining node.
        guest: String,
    },
    /// The numbers of nodes differ.
    #[error("rank 0 expects {host} nodes, this node expects {guest}")]
    Ranks {
        /// How many nodes the listening side expects.
        host: u64,
        /// How many nodes the joining node expects.
        guest: u64,
    },
    /// Another process has this rank.
    #[error("rank {rank} has already joined: {name}")]
    Taken {
        /// The rank.
        rank: u64,
        /// The node that has it.
        name: String,
    },
    /// Only one side has a key.
    #[error("{}", match .host { true => "rank 0 requires a key, and this node has none (RDMA_DOCTOR_KEY, --key-file)", false => "this node has a key, and rank 0 has none (RDMA_DOCTOR_KEY, --key-file)" })]
    #[serde(rename = "one-key")]
    KeyOnOneSide {
        /// Whether it is the listening side.
        host: bool,
    },
    /// The keys differ.
    #[error("this node's key differs from rank 0's")]
    WrongKey,
    /// It joined after the deadline.
    #[error("rank 0 no longer waits and judges without this node (raise --wait)")]
    #[serde(rename = "over")]
    TooLate,
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The stream failed, or carried no valid message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The message has another meaning than expected.
    #[error("its message cannot be parsed: {0}")]
    Unparsable(String),
    /// The listening side refused this node.
    #[error("{0}")]
    Refused(JoinRefusal),
    /// This side refused the joining node.
    #[error("refused: {why}")]
    RefusedPeer {
        /// The rank that the node claimed, without proof.
        rank: u64,
        /// The name that it claimed, without proof.
        name: String,
        /// Why it was refused.
        why: Box<JoinRefusal>,
    },
    /// The listening side did not prove that it has the key.
    #[error("the listening process does not have this node's key")]
    Impostor,
    /// The address is not one of the job's nodes.
    #[error("{0} is not an address of this job")]
    Stranger(IpAddr),
}

impl From<std::io::Error> for HandshakeError {
    fn from(error: std::io::Error) -> Self {
        FrameError::from(error).into()
    }
}

/// The other end of an authenticated connection, and both directions of it.
pub struct AuthenticatedPeer {
    /// The other node's name.
    pub name: String,
    /// The other node's rank; 0 for the listening side.
    pub rank: u64,
    /// The joining process.
    pub process: Nonce,
    /// Messages to the other node.
    pub to: Frames,
    /// Messages from the other node.
    pub from: Frames,
}

/// The joining node's side. `process` stays the same for all connections of this process.
///
/// # Errors
///
/// The other side refuses, or does not speak the protocol.
pub fn join<S: Read + Write>(
    stream: &mut S,
    own: &NodeIdentity,
    key: Option<&Key>,
    (nonce, life): (Nonce, Nonce),
) -> Result<AuthenticatedPeer, HandshakeError> {
    let (mut up, mut down) = (Frames::upward(None), Frames::downward(None));
    let hello = Hello {
        party: own.clone(),
        nonce,
        key: key.is_some(),
        process: life,
    };
    send(stream, &mut up, &hello)?;
    let (theirs, code, name) = match receive(stream, &mut down)? {
        Welcome::Nonce { nonce, code, name } => (nonce, code, name),
        Welcome::Refused(why) => return Err(HandshakeError::Refused(why)),
        Welcome::ComeIn => {
            return Err(HandshakeError::Unparsable("out of sequence".into()));
        }
    };
    let mut proof = Vec::new();
    if let Some(key) = key {
        if !key.verifies(&[b"host", &nonce, &theirs], &code) {
            // An empty proof reveals nothing, and lets the other side log a wrong key.
            send(stream, &mut up, &proof)?;
            return Err(HandshakeError::Impostor);
        }
        proof = key
            .tag(&[b"guest", &theirs, &nonce, &own.rank.to_be_bytes(), &life])
            .to_vec();
    }
    send(stream, &mut up, &proof)?;
    match receive(stream, &mut down)? {
        Welcome::ComeIn => {}
        Welcome::Refused(why) => return Err(HandshakeError::Refused(why)),
        Welcome::Nonce { .. } => {
            return Err(HandshakeError::Unparsable("repeated step".into()));
        }
    }
    let session = key.map(|key| key.derive_session(&nonce, &theirs));
    Ok(AuthenticatedPeer {
        name,
        rank: 0,
        process: life,
        to: Frames::upward(session.clone()),
        from: Frames::downward(session),
    })
}

/// The listening side. `wrong_with` returns why this process may not have a rank.
///
/// # Errors
///
/// The other side does not speak the protocol, or is refused and told why.
pub fn admit<S: Read + Write>(
    stream: &mut S,
    own: &NodeIdentity,
    trust: &Trust,
    at: IpAddr,
    nonce: Nonce,
    wrong_with: impl Fn(u64, &Nonce) -> Option<JoinRefusal>,
) -> Result<AuthenticatedPeer, HandshakeError> {
    if !trust.admits(at) {
        return Err(HandshakeError::Stranger(at));
    }
    let (mut up, mut down) = (Frames::upward(None), Frames::downward(None));
    let hello: Hello = receive(stream, &mut up)?;
    let guest = &hello.party;
    let refuse = |stream: &mut S, down: &mut Frames, why: JoinRefusal| {
        // The node may be gone; then nothing is lost.
        let _ = send(stream, down, &Welcome::Refused(why.clone()));
        HandshakeError::RefusedPeer {
            rank: guest.rank,
            name: sanitized_name(&guest.name),
            why: Box::new(why),
        }
    };
    let wrong = if guest.version != own.version {
        Some(JoinRefusal::Version {
            name: own.name.clone(),
            host: own.version.clone(),
            guest: guest.version.clone(),
        })
    } else if guest.job != own.job {
        Some(JoinRefusal::Job {
            host: own.job.clone(),
            guest: guest.job.clone(),
        })
    } else if hello.key != trust.is_authenticated() {
        Some(JoinRefusal::KeyOnOneSide {
            host: trust.is_authenticated(),
        })
    } else if guest.ranks != own.ranks || guest.rank >= own.ranks {
        Some(JoinRefusal::Ranks {
            host: own.ranks,
            guest: guest.ranks,
        })
    } else {
        None
    };
    if let Some(why) = wrong {
        return Err(refuse(stream, &mut down, why));
    }
    let key = trust.key();
    let code = key.map(|key| key.tag(&[b"host", &hello.nonce, &nonce]).to_vec());
    let welcome = Welcome::Nonce {
        nonce,
        code: code.unwrap_or_default(),
        name: own.name.clone(),
    };
    send(stream, &mut down, &welcome)?;
    let proof: Vec<u8> = receive(stream, &mut up)?;
    let rank = guest.rank.to_be_bytes();
    let parts: [&[u8]; 5] = [b"guest", &nonce, &hello.nonce, &rank, &hello.process];
    if key.is_some_and(|key| !key.verifies(&parts, &proof)) {
        return Err(refuse(stream, &mut down, JoinRefusal::WrongKey));
    }
    // Checked last: a process without the key must not learn which nodes joined.
    if let Some(why) = wrong_with(guest.rank, &hello.process) {
        return Err(refuse(stream, &mut down, why));
    }
    send(stream, &mut down, &Welcome::ComeIn)?;
    let session = key.map(|key| key.derive_session(&hello.nonce, &nonce));
    Ok(AuthenticatedPeer {
        name: sanitized_name(&hello.party.name),
        rank: hello.party.rank,
        process: hello.process,
        to: Frames::downward(session.clone()),
        from: Frames::upward(session),
    })
}

/// The name is not authenticated and will be printed: limited in length, without control
/// characters.
fn sanitized_name(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// Sends a message as JSON.
///
/// # Errors
///
/// The stream fails.
pub fn send<S: Write>(
    stream: &mut S,
    frames: &mut Frames,
    message: &impl Serialize,
) -> Result<(), HandshakeError> {
    let text =
        serde_json::to_vec(message).map_err(|e| HandshakeError::Unparsable(e.to_string()))?;
    Ok(frames.write(stream, &text)?)
}

/// Receives a message as JSON.
///
/// # Errors
///
/// The stream fails, or the message cannot be parsed.
pub fn receive<S: Read, T: for<'d> Deserialize<'d>>(
    stream: &mut S,
    frames: &mut Frames,
) -> Result<T, HandshakeError> {
    let text = frames.read(stream, MAX_MESSAGE)?;
    serde_json::from_slice(&text).map_err(|e| HandshakeError::Unparsable(e.to_string()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn party(rank: u64) -> NodeIdentity {
        NodeIdentity {
            version: "1".into(),
            job: "77".into(),
            rank,
            ranks: 4,
            name: format!("n{rank}"),
        }
    }

    fn key(text: &str) -> Key {
        Key::from_text(text).unwrap()
    }

    /// Runs a handshake, and returns the result of each side.
    fn run_handshake(
        guest: NodeIdentity,
        guest_key: Option<Key>,
        trust: Trust,
    ) -> (
        Result<AuthenticatedPeer, HandshakeError>,
        Result<AuthenticatedPeer, HandshakeError>,
    ) {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let joining = std::thread::spawn(move || {
            join(&mut there, &guest, guest_key.as_ref(), ([1; 16], [3; 16]))
        });
        let taken = |rank, _: &Nonce| {
            let name = "n3".to_owned();
            (rank == 3).then_some(JoinRefusal::Taken { rank, name })
        };
        let at = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let admitted = admit(&mut here, &party(0), &trust, at, [2; 16], taken);
        drop(here);
        (joining.join().unwrap(), admitted)
    }

    fn refusal(guest: NodeIdentity, guest_key: Option<Key>, trust: Trust) -> JoinRefusal {
        match run_handshake(guest, guest_key, trust) {
            (
                Err(HandshakeError::Refused(one)),
                Err(HandshakeError::RefusedPeer { why: other, .. }),
            ) => {
                assert_eq!(one, *other, "both sides report the same");
                one
            }
            (guest, host) => panic!("{:?} {:?}", guest.err(), host.err()),
        }
    }

    #[test]
    fn nodes_of_one_run_authenticate() {
        let secret = "a secret of sixteen";
        for (own, trust) in [
            (Some(key(secret)), Trust::Key(key(secret))),
            (None, Trust::Loopback),
        ] {
            let (guest, host) = run_handshake(party(2), own, trust);
            let (mut guest, mut host) = (guest.unwrap(), host.unwrap());
            assert_eq!((host.rank, host.name.as_str()), (2, "n2"));
            assert_eq!(host.process, [3; 16]);
            assert_eq!((guest.rank, guest.name.as_str()), (0, "n0"));
            let mut stream = Vec::new();
            guest.to.write(&mut stream, b"up").unwrap();
            assert_eq!(host.from.read(&mut stream.as_slice(), 9).unwrap(), b"up");
            let mut stream = Vec::new();
            host.to.write(&mut stream, b"down").unwrap();
            assert_eq!(guest.from.read(&mut stream.as_slice(), 9).unwrap(), b"down");
        }
    }

    #[test]
    fn a_refused_node_is_told_why() {
        let secret = || Some(key("a secret of sixteen"));
        let trust = || Trust::Key(key("a secret of sixteen"));
        let other = NodeIdentity {
            version: "2".into(),
            ..party(1)
        };
        assert!(matches!(
            refusal(other, secret(), trust()),
            JoinRefusal::Version { .. }
        ));
        let other = NodeIdentity {
            job: "78".into(),
            ..party(1)
        };
        assert!(matches!(
            refusal(other, secret(), trust()),
            JoinRefusal::Job { .. }
        ));
        let other = NodeIdentity {
            ranks: 5,
            ..party(1)
        };
        assert!(matches!(
            refusal(other, secret(), trust()),
            JoinRefusal::Ranks { .. }
        ));
        assert_eq!(
            refusal(party(1), None, trust()),
            JoinRefusal::KeyOnOneSide { host: true }
        );
        assert_eq!(
            refusal(party(1), secret(), Trust::Loopback),
            JoinRefusal::KeyOnOneSide { host: false }
        );
        let taken = refusal(party(3), secret(), trust());
        assert_eq!(taken.to_string(), "rank 3 has already joined: n3");
        let wrong = key("another secret of sixteen");
        assert!(matches!(
            run_handshake(party(1), Some(wrong), trust()).0,
            Err(HandshakeError::Impostor)
        ));
    }

    #[test]
    fn strangers_get_no_answer() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let far = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let refused = admit(
            &mut here,
            &party(0),
            &Trust::Loopback,
            far,
            [0; 16],
            |_, _| None,
        );
        assert!(matches!(refused, Err(HandshakeError::Stranger(_))));
        drop(there);
        let (mut here, mut there) = UnixStream::pair().unwrap();
        there.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let at = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let refused = admit(
            &mut here,
            &party(0),
            &Trust::Loopback,
            at,
            [0; 16],
            |_, _| None,
        );
        assert!(matches!(
            refused,
            Err(HandshakeError::Frame(FrameError::Foreign))
        ));
    }
}
