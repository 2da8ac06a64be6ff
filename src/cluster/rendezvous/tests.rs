use crate::live::own_process;
use std::io::Write;
use std::net::TcpStream;

use super::*;
use crate::cluster::handshake::{HandshakeError, JoinRefusal};
use crate::cluster::key::Key;

fn party(rank: u64, ranks: u64) -> NodeIdentity {
    NodeIdentity {
        version: "1".into(),
        job: "7".into(),
        rank,
        ranks,
        name: format!("n{rank}"),
    }
}

fn key(text: &str) -> Trust {
    Trust::Key(Key::from_text(text).unwrap())
}

/// Joins on loopback without a key.
fn joined(port: u16, rank: u64, ranks: u64) -> Result<JoinedNode, JoinError> {
    let (own, trust) = (party(rank, ranks), Trust::Loopback);
    JoinedNode::join("127.0.0.1", port, &own, &trust, SOON, false)
}

const SECRET: &str = "a secret of sixteen";
/// A deadline that the test waits out because a node never joins: long enough for the others on a busy machine.
const LATE: Duration = Duration::from_secs(8);
/// A deadline that is not reached, because all nodes join.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn all_nodes_join_send_and_get_the_result() {
    let host = Rendezvous::open(0, party(0, 4), key(SECRET)).unwrap();
    let port = host.port().unwrap();
    let guests: Vec<_> = (1..4)
        .map(|rank| {
            std::thread::spawn(move || {
                let own = party(rank, 4);
                let mut guest =
                    JoinedNode::join("127.0.0.1", port, &own, &key(SECRET), SOON, false).unwrap();
                guest.send(format!("of {rank}").as_bytes()).unwrap();
                guest.receive(SOON, 99).unwrap()
            })
        })
        .collect();
    // A port scanner in between does not disturb.
    let mut scanner = TcpStream::connect(("127.0.0.1", port)).unwrap();
    scanner.write_all(b"\x16\x03\x01\x02\x00").unwrap();
    let mut gathered = host.gather(4, SOON, 99, |_| {});
    let of = |rank| gathered.nodes[&rank].message.clone();
    assert_eq!((of(1), of(3)), (b"of 1".to_vec(), b"of 3".to_vec()));
    assert_eq!(gathered.broadcast(b"healthy", SOON), []);
    for guest in guests {
        assert_eq!(guest.join().unwrap(), b"healthy");
    }
}

#[test]
fn a_node_that_does_not_join_is_missing_at_the_deadline() {
    let host = Rendezvous::open(0, party(0, 3), Trust::Loopback).unwrap();
    let port = host.port().unwrap();
    let came = std::thread::spawn(move || {
        let mut guest = joined(port, 2, 3).unwrap();
        guest.send(b"x").unwrap();
        guest
    });
    let gathered = host.gather(3, LATE, 99, |_| {});
    assert_eq!(gathered.nodes.keys().collect::<Vec<_>>(), [&2]);
    drop(came.join());
}

#[test]
fn a_node_that_is_not_of_the_run_is_told_why() {
    let host = Rendezvous::open(0, party(0, 2), key(SECRET)).unwrap();
    let port = host.port().unwrap();
    let joining = std::thread::spawn(move || {
        let own = NodeIdentity {
            job: "8".into(),
            ..party(1, 2)
        };
        JoinedNode::join("127.0.0.1", port, &own, &key(SECRET), SOON, false).err()
    });
    let gathered = host.gather(2, LATE, 99, |_| {});
    assert!(gathered.nodes.is_empty());
    assert!(matches!(
        joining.join().unwrap(),
        Some(JoinError::Answered {
            error: HandshakeError::Refused(JoinRefusal::Job { .. }),
            ..
        })
    ));
    assert_eq!(gathered.refused_count, 1);
}

#[test]
fn an_unreachable_host_is_named_with_its_port() {
    let free = Rendezvous::open(0, party(0, 2), Trust::Loopback).unwrap();
    let port = free.port().unwrap();
    drop(free);
    let wait = Duration::from_millis(100);
    let error = JoinedNode::join(
        "127.0.0.1",
        port,
        &party(1, 2),
        &Trust::Loopback,
        wait,
        false,
    )
    .err();
    let said = error.map(|error| error.to_string()).unwrap();
    assert!(
        said.starts_with(&format!("rank 0 was not reached at 127.0.0.1:{port} in ")),
        "{said}"
    );
    assert!(
        said.ends_with("Connection refused (os error 111)"),
        "{said}"
    );
}

#[test]
fn a_node_whose_first_connection_broke_is_taken_once_it_is_gone() {
    let host = Rendezvous::open(0, party(0, 2), Trust::Loopback).unwrap();
    let port = host.port().unwrap();
    let join = move || joined(port, 1, 2);
    let joining = std::thread::spawn(move || {
        // The second one joins while rank 0 still waits for the first one's message.
        let first = join().unwrap();
        let second = std::thread::spawn(move || join().unwrap());
        std::thread::sleep(Duration::from_millis(100));
        drop(first);
        let mut second = second.join().unwrap();
        second.send(b"again").unwrap();
        second
    });
    let gathered = host.gather(2, SOON, 99, |_| {});
    assert_eq!(gathered.nodes[&1].message, b"again");
    drop(joining.join());
}

#[test]
fn a_host_without_an_address_is_asked_for_until_the_time_is_up() {
    let wait = Duration::from_millis(300);
    let host = "no-such-host.invalid";
    let error = JoinedNode::join(host, 9, &party(1, 2), &Trust::Loopback, wait, false).err();
    assert!(matches!(error, Some(JoinError::NoAddress { .. })));
}

#[test]
fn a_message_that_is_too_long_is_not_taken() {
    let host = Rendezvous::open(0, party(0, 2), Trust::Loopback).unwrap();
    let port = host.port().unwrap();
    let joining = std::thread::spawn(move || {
        let mut guest = joined(port, 1, 2).unwrap();
        let _ = guest.send(&[0; 100]);
        guest.receive(SOON, 9).is_err()
    });
    let gathered = host.gather(2, LATE, 99, |_| {});
    let why = &gathered.refused[0].why;
    assert_eq!(
        why,
        "it connected, but sent no recording: a message of 100 bytes exceeds the limit of 99 bytes"
    );
    assert!(joining.join().unwrap());
}

/// Joins as a node that relays for others.
fn in_tree(port: u16, rank: u64, ranks: u64) -> JoinedNode {
    let (own, trust) = (party(rank, ranks), key(SECRET));
    JoinedNode::join("127.0.0.1", port, &own, &trust, SOON, true).unwrap()
}

/// A node's message: longer than one part.
fn message_of(rank: u64) -> Vec<u8> {
    let length = usize::try_from(rank * 997 % 150_000).unwrap();
    vec![rank.to_le_bytes()[0]; length]
}

#[test]
fn many_nodes_send_through_a_tree_and_each_unresponsive_one_is_named() {
    own_process::allow_many_files();
    let nodes = 260;
    let (killed, silent, other_key) = (1, 200, 201);
    let host = Rendezvous::open(0, party(0, nodes), key(SECRET)).unwrap();
    let host = host.with_fanin(Some(8));
    let port = host.port().unwrap();
    let (all_in, in_seats) = mpsc::channel();
    let (go, going) = mpsc::channel::<()>();
    let wait = Duration::from_secs(45);
    let gathering = std::thread::spawn(move || host.gather(nodes, wait, 1 << 20, |_| {}));
    // The first node to join is the first to relay.
    let first = in_tree(port, killed, nodes);
    let going = Arc::new(Mutex::new(going));
    let guests: Vec<_> = (1..nodes)
        .filter(|rank| ![killed, other_key].contains(rank))
        .map(|rank| {
            let all_in = all_in.clone();
            let going = Arc::clone(&going);
            std::thread::spawn(move || {
                let mut guest = in_tree(port, rank, nodes);
                all_in.send(rank).unwrap();
                if rank == silent {
                    return guest.receive(SOON, 99).map_err(|e| e.to_string());
                }
                // Half of them send before the first is killed, and half after it.
                if rank % 2 == 1 {
                    let _ = going.lock().unwrap().recv();
                }
                guest.send(&message_of(rank)).unwrap();
                guest.receive(SOON, 99).map_err(|e| e.to_string())
            })
        })
        .collect();
    let stranger = std::thread::spawn(move || {
        let own = party(other_key, nodes);
        let trust = key("another secret of sixteen");
        JoinedNode::join("127.0.0.1", port, &own, &trust, SOON, true).err()
    });
    for _ in 0..nodes - 3 {
        in_seats.recv().unwrap();
    }
    drop(first);
    drop(go);
    let mut gathered = gathering.join().unwrap();
    let missing: Vec<u64> = (1..nodes)
        .filter(|rank| !gathered.nodes.contains_key(rank))
        .collect();
    assert_eq!(missing, [killed, silent, other_key]);
    for (rank, came) in &gathered.nodes {
        assert_eq!(came.name, format!("n{rank}"));
        assert!(came.message == message_of(*rank), "of {rank}");
    }
    assert_eq!(
        gathered.without_message,
        [(silent, "n200".to_owned())].into()
    );
    let why: Vec<String> = gathered.refused.iter().map(ToString::to_string).collect();
    assert_eq!(why.len(), 2, "{why:?}");
    let said = |who: &str, what: &str| {
        let is = |text: &&String| text.contains(who) && text.ends_with(what);
        assert!(why.iter().any(|text| is(&text)), "{who} {what}: {why:?}");
    };
    said(
        "which claims to be n1, rank 1",
        "it connected, but disconnected before it sent its recording",
    );
    said(
        "which claims to be n201, rank 201",
        "refused: this node's key differs from rank 0's",
    );
    assert!(matches!(
        stranger.join().unwrap(),
        Some(JoinError::Answered {
            error: HandshakeError::Impostor,
            ..
        })
    ));
    // Nearly all children of the killed node found another relay.
    assert!(gathered.connections <= 8 + 8, "{}", gathered.connections);
    assert_eq!(gathered.broadcast(b"healthy", SOON), []);
    for guest in guests {
        assert_eq!(guest.join().unwrap(), Ok(b"healthy".to_vec()));
    }
}

#[test]
fn a_node_that_loses_its_relay_while_rank_0_judges_gets_the_result() {
    let host = Rendezvous::open(0, party(0, 4), key(SECRET)).unwrap();
    let host = host.with_fanin(Some(1));
    let port = host.port().unwrap();
    let gathering = std::thread::spawn(move || host.gather(4, SOON, 99, |_| {}));
    // Each is the child of the one before it.
    let mut chain: Vec<JoinedNode> = (1..4).map(|rank| in_tree(port, rank, 4)).collect();
    for (guest, text) in chain.iter_mut().zip([b"one", b"two", b"six"]) {
        guest.send(text).unwrap();
    }
    let mut gathered = gathering.join().unwrap();
    assert_eq!(gathered.connections, 1);
    assert_eq!(gathered.nodes[&3].message, b"six");
    drop(chain.remove(1));
    // Another process of a rank that joined is still refused.
    let (other, trust, soon) = (party(1, 4), key(SECRET), LATE);
    let other = JoinedNode::join("127.0.0.1", port, &other, &trust, soon, true).err();
    let other = other.map(|error| error.to_string()).unwrap();
    assert!(other.contains("rank 1 has already joined: n1"), "{other}");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(gathered.broadcast(b"healthy", SOON), []);
    for guest in &mut chain {
        assert_eq!(guest.receive(SOON, 99).unwrap(), b"healthy");
    }
}

#[test]
fn nodes_without_a_key_get_one_for_relaying() {
    let trust = || Trust::Allocation(vec![Ipv4Addr::LOCALHOST.into()]);
    let host = Rendezvous::open(0, party(0, 6), trust()).unwrap();
    let host = host.with_fanin(Some(2));
    let port = host.port().unwrap();
    let guests: Vec<_> = (1..6)
        .map(|rank| {
            std::thread::spawn(move || {
                let trust = Trust::Allocation(Vec::new());
                let own = party(rank, 6);
                let mut guest =
                    JoinedNode::join("127.0.0.1", port, &own, &trust, SOON, true).unwrap();
                let clock = guest.clock.unwrap();
                assert!(clock.ns.unsigned_abs() <= clock.within_ns, "{clock:?}");
                guest.send(&message_of(rank)).unwrap();
                guest.receive(SOON, 99).unwrap()
            })
        })
        .collect();
    let mut gathered = host.gather(6, SOON, 1 << 20, |_| {});
    assert_eq!(gathered.connections, 2);
    assert!(
        gathered
            .nodes
            .iter()
            .all(|(rank, came)| came.message == message_of(*rank))
    );
    assert_eq!(gathered.broadcast(b"healthy", SOON), []);
    for guest in guests {
        assert_eq!(guest.join().unwrap(), b"healthy");
    }
}
