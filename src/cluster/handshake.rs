//! How two nodes of a run find out that they belong together: the same doctor, the same job, the same key.
//!
//! ```text
//! guest  hello    version, job, rank, ranks, name, nonce
//! host   welcome  nonce, code over both nonces        or: refused, why
//! guest  proof    code over both nonces and its rank
//! host   come in                                      or: refused, why
//! ```
//!
//! Each proves that it has the key without saying it, and neither's proof can be sent back to it. What follows is coded with a key of this
//! connection ([`Key::of_session`]).

use std::io::{Read, Write};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::frame::{FrameError, Frames};
use super::key::{Key, Trust};

/// The longest message before both know each other.
const MOST: u64 = 4096;

/// Bytes that are used once.
pub type Nonce = [u8; 16];

/// What both ends have to agree about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// The doctor's version: another one may mean another thing by the same words.
    pub version: String,
    /// The job, in its engine's words; empty where there is none.
    pub job: String,
    /// Which of the nodes it is.
    pub rank: u64,
    /// How many nodes there are.
    pub ranks: u64,
    /// Its name.
    pub name: String,
}

/// What a guest says first.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    party: Party,
    nonce: Nonce,
    key: bool,
    /// The process: it may come again, and another one of its rank not. Who has none is of another version, which is said first.
    #[serde(default)]
    life: Nonce,
}

/// What a host answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Welcome {
    Nonce {
        nonce: Nonce,
        code: Vec<u8>,
        name: String,
    },
    ComeIn,
    Refused(Refused),
}

/// Why a host refuses a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// Another version of the doctor.
    #[error("{name} runs rdma-doctor {host}, this node {guest}: install one version everywhere")]
    Version {
        /// Rank 0's node.
        name: String,
        /// Its version.
        host: String,
        /// The version of who asks.
        guest: String,
    },
    /// Another job.
    #[error(
        "job {host:?} listens there, and not {guest:?}: give each job a port of its own (--rendezvous HOST:PORT)"
    )]
    Job {
        /// Whose port it is.
        host: String,
        /// Who asks.
        guest: String,
    },
    /// Another number of nodes.
    #[error("it expects {host} nodes, and this one is of {guest}")]
    Ranks {
        /// How many are expected.
        host: u64,
        /// How many the one who asks believes there are.
        guest: u64,
    },
    /// Somebody has this rank already.
    #[error("rank {rank} is there already: {name}")]
    Taken {
        /// The rank.
        rank: u64,
        /// Who has it.
        name: String,
    },
    /// Only one of both has a key.
    #[error("{}", match .host { true => "it wants a key, and this node has none (RDMA_DOCTOR_KEY, --key-file)", false => "this node has a key, and it has none (RDMA_DOCTOR_KEY, --key-file)" })]
    OneKey {
        /// Whether it is the host that has one.
        host: bool,
    },
    /// The keys differ.
    #[error("this node's key is another one")]
    WrongKey,
    /// It did not come in time.
    #[error("it waits for nobody any more, and judges without this node (--wait is longer)")]
    Over,
}

/// Why two nodes did not come together.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The stream failed, or brought what is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The message is not understood.
    #[error("what it says is not understood: {0}")]
    Words(String),
    /// The host refused.
    #[error("{0}")]
    Refused(Refused),
    /// This host refused a guest, and told it why.
    #[error("it was told: {why}")]
    TurnedAway {
        /// The rank that the guest said; proved by nothing.
        rank: u64,
        /// The name that it said, as little proved.
        name: String,
        /// What it was told.
        why: Box<Refused>,
    },
    /// The host has not proved that it has the key.
    #[error("what listens there does not have this node's key")]
    Impostor,
    /// Nobody at this address takes part.
    #[error("{0} is no address of this job")]
    Stranger(IpAddr),
}

/// Both directions of a connection whose ends know each other.
pub struct Known {
    /// Who is at the other end.
    pub name: String,
    /// Its rank; 0 for the host.
    pub rank: u64,
    /// Its process; of a host this one.
    pub life: Nonce,
    /// Messages to it.
    pub to: Frames,
    /// Messages from it.
    pub from: Frames,
}

/// The guest's side. `life` is the same as often as this process comes.
///
/// # Errors
///
/// The host refuses, or is none.
pub fn join<S: Read + Write>(
    stream: &mut S,
    own: &Party,
    key: Option<&Key>,
    (nonce, life): (Nonce, Nonce),
) -> Result<Known, HandshakeError> {
    let (mut up, mut down) = (Frames::upward(None), Frames::downward(None));
    let hello = Hello {
        party: own.clone(),
        nonce,
        key: key.is_some(),
        life,
    };
    say(stream, &mut up, &hello)?;
    let (theirs, code, name) = match hear(stream, &mut down)? {
        Welcome::Nonce { nonce, code, name } => (nonce, code, name),
        Welcome::Refused(why) => return Err(HandshakeError::Refused(why)),
        Welcome::ComeIn => return Err(HandshakeError::Words("it says a step too early".into())),
    };
    let mut proof = Vec::new();
    if let Some(key) = key {
        if !key.verifies(&[b"host", &nonce, &theirs], &code) {
            // No proof at all: it tells nothing, and the host learns who has another key.
            say(stream, &mut up, &proof)?;
            return Err(HandshakeError::Impostor);
        }
        proof = key
            .tag(&[b"guest", &theirs, &nonce, &own.rank.to_be_bytes(), &life])
            .to_vec();
    }
    say(stream, &mut up, &proof)?;
    match hear(stream, &mut down)? {
        Welcome::ComeIn => {}
        Welcome::Refused(why) => return Err(HandshakeError::Refused(why)),
        Welcome::Nonce { .. } => return Err(HandshakeError::Words("it says a step twice".into())),
    }
    let session = key.map(|key| key.of_session(&nonce, &theirs));
    Ok(Known {
        name,
        rank: 0,
        life,
        to: Frames::upward(session.clone()),
        from: Frames::downward(session),
    })
}

/// The host's side. `wrong_with` says why a rank cannot come in this process.
///
/// # Errors
///
/// Who is there is no guest, or not this run's; a guest is told why.
pub fn admit<S: Read + Write>(
    stream: &mut S,
    own: &Party,
    trust: &Trust,
    at: IpAddr,
    nonce: Nonce,
    wrong_with: impl Fn(u64, &Nonce) -> Option<Refused>,
) -> Result<Known, HandshakeError> {
    if !trust.admits(at) {
        return Err(HandshakeError::Stranger(at));
    }
    let (mut up, mut down) = (Frames::upward(None), Frames::downward(None));
    let hello: Hello = hear(stream, &mut up)?;
    let guest = &hello.party;
    let mut refuse = |stream: &mut S, why: Refused| {
        // Whether it hears why is its own affair.
        let _ = say(stream, &mut down, &Welcome::Refused(why.clone()));
        refused(guest, why)
    };
    let wrong = if guest.version != own.version {
        Some(Refused::Version {
            name: own.name.clone(),
            host: own.version.clone(),
            guest: guest.version.clone(),
        })
    } else if guest.job != own.job {
        Some(Refused::Job {
            host: own.job.clone(),
            guest: guest.job.clone(),
        })
    } else if hello.key != trust.is_authenticated() {
        Some(Refused::OneKey {
            host: trust.is_authenticated(),
        })
    } else if guest.ranks != own.ranks || guest.rank >= own.ranks {
        Some(Refused::Ranks {
            host: own.ranks,
            guest: guest.ranks,
        })
    } else {
        None
    };
    if let Some(why) = wrong {
        return Err(refuse(stream, why));
    }
    let key = trust.key();
    let code = key.map(|key| key.tag(&[b"host", &hello.nonce, &nonce]).to_vec());
    let welcome = Welcome::Nonce {
        nonce,
        code: code.unwrap_or_default(),
        name: own.name.clone(),
    };
    say(stream, &mut down, &welcome)?;
    let proof: Vec<u8> = hear(stream, &mut up)?;
    let mut refuse = |stream: &mut S, why: Refused| {
        let _ = say(stream, &mut down, &Welcome::Refused(why.clone()));
        refused(guest, why)
    };
    let rank = guest.rank.to_be_bytes();
    let parts: [&[u8]; 5] = [b"guest", &nonce, &hello.nonce, &rank, &hello.life];
    if key.is_some_and(|key| !key.verifies(&parts, &proof)) {
        return Err(refuse(stream, Refused::WrongKey));
    }
    // Only now: who has no key does not learn who is there.
    if let Some(why) = wrong_with(guest.rank, &hello.life) {
        return Err(refuse(stream, why));
    }
    say(stream, &mut down, &Welcome::ComeIn)?;
    let session = key.map(|key| key.of_session(&hello.nonce, &nonce));
    Ok(Known {
        name: shown(&hello.party.name),
        rank: hello.party.rank,
        life: hello.life,
        to: Frames::downward(session.clone()),
        from: Frames::upward(session),
    })
}

/// A guest's own words are shown to people: no longer than a host's name, and without what moves a cursor.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

fn refused(guest: &Party, why: Refused) -> HandshakeError {
    HandshakeError::TurnedAway {
        rank: guest.rank,
        name: shown(&guest.name),
        why: Box::new(why),
    }
}

/// Says something in the doctor's words.
///
/// # Errors
///
/// The stream fails.
pub fn say<S: Write>(
    stream: &mut S,
    frames: &mut Frames,
    message: &impl Serialize,
) -> Result<(), HandshakeError> {
    let text = serde_json::to_vec(message).map_err(|e| HandshakeError::Words(e.to_string()))?;
    Ok(frames.write(stream, &text).map_err(FrameError::from)?)
}

/// Hears something in the doctor's words.
///
/// # Errors
///
/// The stream fails, or what comes is not understood.
pub fn hear<S: Read, T: for<'d> Deserialize<'d>>(
    stream: &mut S,
    frames: &mut Frames,
) -> Result<T, HandshakeError> {
    let text = frames.read(stream, MOST)?;
    serde_json::from_slice(&text).map_err(|e| HandshakeError::Words(e.to_string()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn party(rank: u64) -> Party {
        Party {
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

    /// What both ends say of a guest, at a host that trusts so.
    fn meet(
        guest: Party,
        guest_key: Option<Key>,
        trust: Trust,
    ) -> (Result<Known, HandshakeError>, Result<Known, HandshakeError>) {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let joining = std::thread::spawn(move || {
            join(&mut there, &guest, guest_key.as_ref(), ([1; 16], [3; 16]))
        });
        let taken = |rank, _: &Nonce| {
            let name = "n3".to_owned();
            (rank == 3).then_some(Refused::Taken { rank, name })
        };
        let at = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let admitted = admit(&mut here, &party(0), &trust, at, [2; 16], taken);
        drop(here);
        (joining.join().unwrap(), admitted)
    }

    fn refusal(guest: Party, guest_key: Option<Key>, trust: Trust) -> Refused {
        match meet(guest, guest_key, trust) {
            (
                Err(HandshakeError::Refused(one)),
                Err(HandshakeError::TurnedAway { why: other, .. }),
            ) => {
                assert_eq!(one, *other, "both ends say the same");
                one
            }
            (guest, host) => panic!("{:?} {:?}", guest.err(), host.err()),
        }
    }

    #[test]
    fn who_belongs_together_comes_together() {
        let secret = "a secret of sixteen";
        for (own, trust) in [
            (Some(key(secret)), Trust::Key(key(secret))),
            (None, Trust::Loopback),
        ] {
            let (guest, host) = meet(party(2), own, trust);
            let (mut guest, mut host) = (guest.unwrap(), host.unwrap());
            assert_eq!((host.rank, host.name.as_str()), (2, "n2"));
            assert_eq!(host.life, [3; 16]);
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
    fn who_does_not_is_told_why() {
        let secret = || Some(key("a secret of sixteen"));
        let trust = || Trust::Key(key("a secret of sixteen"));
        let other = Party {
            version: "2".into(),
            ..party(1)
        };
        assert!(matches!(
            refusal(other, secret(), trust()),
            Refused::Version { .. }
        ));
        let other = Party {
            job: "78".into(),
            ..party(1)
        };
        assert!(matches!(
            refusal(other, secret(), trust()),
            Refused::Job { .. }
        ));
        let other = Party {
            ranks: 5,
            ..party(1)
        };
        assert!(matches!(
            refusal(other, secret(), trust()),
            Refused::Ranks { .. }
        ));
        assert_eq!(
            refusal(party(1), None, trust()),
            Refused::OneKey { host: true }
        );
        assert_eq!(
            refusal(party(1), secret(), Trust::Loopback),
            Refused::OneKey { host: false }
        );
        let taken = refusal(party(3), secret(), trust());
        assert_eq!(taken.to_string(), "rank 3 is there already: n3");
        let wrong = key("another secret of sixteen");
        assert!(matches!(
            meet(party(1), Some(wrong), trust()).0,
            Err(HandshakeError::Impostor)
        ));
    }

    #[test]
    fn strangers_are_not_spoken_to() {
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
