//! The two GIDs that a line about one connection names, held against each other.

use std::net::Ipv6Addr;

use crate::fact::event::{self, GidPair};
use crate::fact::{Facts, Id, Origin};

/// States how the two GIDs of an event differ, and a few words for it.
pub(super) fn state_gid_pair(facts: &mut Facts, id: Id, origin: &Origin) {
    let gid_of = |key| {
        facts
            .known(id, key)
            .and_then(|gid: std::sync::Arc<str>| address(&gid))
    };
    let (Some(local), Some(remote)) = (gid_of(event::LOCAL_GID), gid_of(event::REMOTE_GID)) else {
        return;
    };
    let pair = compare(local, remote);
    facts.know(id, event::GID_PAIR, pair, origin);
    let told = match pair {
        GidPair::Alike => return,
        GidPair::KindsDiffer => {
            format!("the two GIDs are of different kinds: {local} here, {remote} there")
        }
        GidPair::NetworksDiffer => {
            format!("the two addresses are in different /24 networks: {local} here, {remote} there")
        }
    };
    facts.know(id, event::GIDS_DIFFER, told.into(), origin);
}

/// A GID as the kernel and NCCL write it, or as perftest does: sixteen decimal numbers.
fn address(gid: &str) -> Option<Ipv6Addr> {
    let decimal = || {
        let parts = gid.split(':').map(|part| part.parse::<u8>().ok());
        let bytes: [u8; 16] = parts.collect::<Option<Vec<_>>>()?.try_into().ok()?;
        Some(Ipv6Addr::from(bytes))
    };
    gid.parse().ok().or_else(decimal)
}

/// How two GIDs differ; rails have a network each, most often with 24 bits of prefix.
fn compare(local: Ipv6Addr, remote: Ipv6Addr) -> GidPair {
    match (local.to_ipv4_mapped(), remote.to_ipv4_mapped()) {
        (Some(local), Some(remote)) if local.octets()[..3] == remote.octets()[..3] => {
            GidPair::Alike
        }
        (Some(_), Some(_)) => GidPair::NetworksDiffer,
        (None, None) if local.is_unicast_link_local() == remote.is_unicast_link_local() => {
            GidPair::Alike
        }
        _ => GidPair::KindsDiffer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_no_gid() {
        assert_eq!(address("::ffff:10.1."), None);
    }

    #[test]
    fn gids_are_compared_by_kind_and_network() {
        for (local, remote, pair) in [
            ("::ffff:10.1.2.7", "::ffff:10.1.2.9", GidPair::Alike),
            (
                "::ffff:10.1.2.7",
                "::ffff:10.1.3.7",
                GidPair::NetworksDiffer,
            ),
            ("::ffff:10.1.2.7", "fe80::1", GidPair::KindsDiffer),
            ("fe80::1", "fe80::2", GidPair::Alike),
            ("2001:db8::1", "fe80::2", GidPair::KindsDiffer),
            (
                "254:128:00:00:00:00:00:00:10:192:235:255:254:00:00:01",
                "00:00:00:00:00:00:00:00:00:00:255:255:10:01:02:04",
                GidPair::KindsDiffer,
            ),
        ] {
            let [local, remote] = [local, remote].map(|gid| address(gid).unwrap());
            assert_eq!(compare(local, remote), pair, "{local} {remote}");
            assert_eq!(compare(remote, local), pair, "{remote} {local}");
        }
    }
}
