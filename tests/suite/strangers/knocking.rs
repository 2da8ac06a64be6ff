//! Connections of processes that do not belong to the run: they keep no node out, and the report names them where a node is missing.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdma_doctor::live::own_process::allow_many_files;

use crate::place::free_port;
use crate::process::{start, wait_until};
use crate::together::{KEY, ROCE, replaying, wait_for};

/// What rank 0 gets from a stranger, byte by byte: a message that never ends.
const SLOW: &[u8] = b"rdd1\0\0\0\0\0\0\x0f\xff";

/// Connects this many times and sends a byte on each connection now and then, until told to stop; connections that are closed are made again.
fn knock(port: u16, count: usize, stop: Arc<AtomicBool>) -> impl FnOnce() {
    let connect = move || {
        TcpStream::connect(("127.0.0.1", port))
            .ok()
            .map(|one| (one, 0))
    };
    let mut all: Vec<_> = (0..count).map(|_| connect()).collect();
    move || {
        while !stop.load(Ordering::Relaxed) {
            for slot in &mut all {
                let sent = slot.as_mut().is_some_and(|(stream, at)| {
                    *at += 1;
                    let byte = SLOW.get(*at - 1).unwrap_or(&b'x');
                    stream.write_all(&[*byte]).is_ok()
                });
                if !sent {
                    *slot = connect();
                }
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

#[test]
fn slow_strangers_keep_no_node_out() {
    allow_many_files();
    let port = free_port();
    let rank_0 = start(replaying(0, 2, port, ROCE).env("RDMA_DOCTOR_KEY", KEY));
    wait_for(port);
    let stop = Arc::new(AtomicBool::new(false));
    let knocking = std::thread::spawn(knock(port, 560, Arc::clone(&stop)));
    let rank_1 = start(replaying(1, 2, port, ROCE).env("RDMA_DOCTOR_KEY", KEY));
    let ended = rank_0.ends();
    stop.store(true, Ordering::Relaxed);
    knocking.join().unwrap();
    let report = ended.report();
    assert_eq!(report.nodes().len(), 2, "{ended:?}");
    assert!(!ended.out.contains("did not connect"), "{ended:?}");
    assert!(
        !ended.out.contains("rank 0 refused"),
        "it does not matter: {ended:?}"
    );
    assert!(rank_1.ends().status <= 2);
}

#[test]
fn strangers_are_named_where_a_node_is_missing() {
    let port = free_port();
    let mut rank_0 = replaying(0, 2, port, ROCE);
    rank_0.args(["--wait", "4", "--deadline", "4"]);
    let rank_0 = start(rank_0.env("RDMA_DOCTOR_KEY", KEY));
    wait_for(port);
    for _ in 0..3 {
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // Rank 0 closes it.
        stranger.set_nonblocking(true).unwrap();
        wait_until(
            "the end of a refused connection",
            || !matches!(stranger.peek(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock),
        );
    }
    let ended = rank_0.ends();
    assert!(
        ended
            .out
            .contains("rank 0 refused 3 connections, from 127.0.0.1 (3)"),
        "{ended:?}"
    );
}
