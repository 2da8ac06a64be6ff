//! Which adapters of the others this node reaches over sockets.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::PairRounds;
use crate::measure::plan::pairs::Reach;
use crate::measure::plan::pairs::schedule::End;
use crate::measure::run::pairs;

/// How long a connection may take to open and to be answered.
pub(super) const KNOCK: Duration = Duration::from_secs(2);
/// How many others a node tries at once.
pub(super) const AT_ONCE: usize = 32;
/// How many of those that did not answer are tried once more.
const AGAIN_AT_ONCE: usize = 256;

impl PairRounds<'_> {
    /// Where an adapter is reached, and from which address of this node's.
    pub(super) fn post(&self, from: End, end: End) -> Option<(IpAddr, SocketAddr, SocketAddr)> {
        let own = &self.nodes[self.own].contact.rails.get(from.1)?.address;
        let card = &self.nodes.get(end.0)?.contact;
        let to: IpAddr = card.rails.get(end.1)?.address.parse().ok()?;
        let (tcp, udp) = *card.ports.get(end.1)?;
        Some((
            own.parse().ok()?,
            SocketAddr::new(to, tcp),
            SocketAddr::new(to, udp),
        ))
    }

    /// What this node reaches of those with which it is in a pair.
    pub(super) fn reach(&self) -> Vec<Reach> {
        let count = self.nodes.len();
        let rounds = self.times.extent.rounds(count, self.rails).into_iter();
        let other = |(a, b): (End, End)| match self.own {
            own if own == a.0 => Some(b),
            own if own == b.0 => Some(a),
            _ => None,
        };
        let mut ends: Vec<End> = rounds.flatten().filter_map(other).collect();
        // Each begins with its next, so that not all knock at one.
        ends.sort_unstable_by_key(|(node, rail)| (*rail, (node + count - self.own) % count));
        // Over a port without an address nothing can be tried.
        ends.retain(|end| self.post((self.own, end.1), *end).is_some());
        let next = AtomicUsize::new(0);
        let found = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..ends.len().min(AT_ONCE) {
                scope.spawn(|| {
                    while let Some(end) = ends.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let reach = self.reach_of(*end);
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.push(reach);
                    }
                });
            }
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|reach| (reach.rail, reach.to));
        // What a busy machine did not answer in time it may answer now, when nobody else knocks.
        std::thread::scope(|scope| {
            let failed = found.iter_mut().filter(|reach| reach.tcp.is_err());
            for reach in failed.take(AGAIN_AT_ONCE) {
                scope.spawn(|| reach.tcp = self.knock((reach.to, reach.rail)));
            }
        });
        found
    }

    /// How long a post took to answer a connection, in microseconds.
    pub(super) fn knock(&self, end: End) -> Result<u64, String> {
        let Some((from, tcp, _)) = self.post((self.own, end.1), end) else {
            return Err("it has no address".into());
        };
        let time = pairs::ping(from, tcp, &self.nodes[end.0].contact.token, KNOCK)?;
        Ok(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }

    fn reach_of(&self, end: End) -> Reach {
        let token = &self.nodes[end.0].contact.token;
        let mtu = self.nodes[self.own]
            .contact
            .rails
            .get(end.1)
            .map(|rail| rail.mtu);
        let packet = match (self.post((self.own, end.1), end), mtu) {
            (Some((from, _, udp)), Some(mtu)) => pairs::largest_packet(from, udp, token, mtu).ok(),
            _ => None,
        };
        Reach {
            to: end.0,
            rail: end.1,
            tcp: self.knock(end),
            packet: packet.flatten(),
        }
    }
}
