//! Finds the largest packet that passes unfragmented: UDP with *don't fragment*, which needs no
//! privilege, to a socket that reports what arrived.

use crate::live::clock;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};

use super::{Token, is_late};

/// How often a packet is sent before it counts as lost, and how long each answer is awaited.
const TRIES: usize = 3;
const ANSWER: Duration = Duration::from_millis(200);
/// The smallest packet tried: every IPv4 path carries it (RFC 791).
const LEAST: u64 = 576;
/// The resolution of the search in bytes: a VLAN tag has four.
const STEP: u64 = 4;

/// Answers packets until it must stop: with the token, and the number of bytes that arrived.
pub(super) fn answer(socket: &UdpSocket, token: Token, stop: &AtomicBool) {
    let mut packet = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut packet) else {
            continue;
        };
        if packet.get(..length).is_some_and(|p| p.starts_with(&token)) {
            let mut answer = token.to_vec();
            answer.extend((length as u64).to_be_bytes());
            // If the answer is lost, the packet is sent again.
            let _ = socket.send_to(&answer, from);
        }
    }
}

/// The largest packet, up to the interface's MTU, that a responder answers, with the IP and UDP
/// headers; `None` if it answers none.
///
/// # Errors
///
/// No socket, or no route.
pub fn largest_packet(
    from: IpAddr,
    to: SocketAddr,
    token: &Token,
    mtu: u64,
) -> Result<Option<u64>, String> {
    let probe = Probe::new(from, to, *token).map_err(|e| e.to_string())?;
    // The largest UDP packet.
    let mtu = mtu.min(65_535);
    if probe.passes(mtu) {
        return Ok(Some(mtu));
    }
    if mtu <= LEAST || !probe.passes(LEAST) {
        return Ok(None);
    }
    let (mut good, mut bad) = (LEAST, mtu);
    // Tries the most common sizes first.
    for usual in [1500, 2044, 4092, 9000] {
        if good < usual && usual < bad {
            if probe.passes(usual) {
                good = usual
            } else {
                bad = usual
            }
        }
    }
    while bad - good > STEP {
        let middle = good + (bad - good) / 2;
        if probe.passes(middle) {
            good = middle
        } else {
            bad = middle
        }
    }
    // Asks a busy machine once more.
    if probe.passes(mtu) {
        Ok(Some(mtu))
    } else {
        Ok(Some(good))
    }
}

struct Probe {
    socket: UdpSocket,
    token: Token,
    headers: u64,
}

impl Probe {
    fn new(from: IpAddr, to: SocketAddr, token: Token) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::new(from, 0))?;
        // Don't fragment, and ignore the cached path MTU: only the interface's own MTU limits what
        // is sent (ip(7)).
        let headers = match to {
            SocketAddr::V4(_) => {
                set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?;
                28
            }
            SocketAddr::V6(_) => {
                set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?;
                48
            }
        };
        socket.connect(to)?;
        Ok(Probe {
            socket,
            token,
            headers,
        })
    }

    /// Whether a packet of this size is answered.
    fn passes(&self, size: u64) -> bool {
        let payload = size.saturating_sub(self.headers).max(16);
        let mut packet = vec![0; usize::try_from(payload).unwrap_or(0)];
        let Some(head) = packet.get_mut(..16) else {
            return false;
        };
        head.copy_from_slice(&self.token);
        for _ in 0..TRIES {
            if self.socket.send(&packet).is_err() {
                // Larger than the interface's MTU, or the other end refused an earlier packet.
                continue;
            }
            let ends = clock::now() + ANSWER;
            loop {
                let left = ends.saturating_duration_since(clock::now());
                if left.is_zero() || self.socket.set_read_timeout(Some(left)).is_err() {
                    break;
                }
                let mut answer = [0; 64];
                match self.socket.recv(&mut answer) {
                    // The answer to an earlier packet may arrive late.
                    Ok(24)
                        if answer[..16] == self.token
                            && answer[16..24] == payload.to_be_bytes() =>
                    {
                        return true;
                    }
                    Ok(_) => {}
                    Err(error) if is_late(&error) => break,
                    // Refused: the packet arrived, but nothing listens there.
                    Err(_) => {}
                }
            }
        }
        false
    }
}
