//! The RDMA MTU that a network device's MTU allows.

use super::Derivation;
use crate::fact::port::LinkLayer;
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Subject, port};

/// Headers that the kernel keeps room for: GRH or IPv6 40, UDP 8, BTH 12, XRC 4, AtomicETH 28, ICRC
/// 4 (include/rdma/ib_addr.h, iboe_get_mtu).
const HEADERS: u64 = 40 + 8 + 12 + 4 + 28 + 4;

/// The largest RDMA MTU that fits a network device's MTU; `None` where not even the smallest does.
pub fn fitting(netdev_mtu: Bytes) -> Option<Bytes> {
    let room = netdev_mtu.0.checked_sub(HEADERS)?;
    [4096, 2048, 1024, 512, 256]
        .into_iter()
        .find(|mtu| *mtu <= room)
        .map(Bytes)
}

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("mtu", &["port.netdev_mtu"], derive);

/// Works out the fitting MTU of each Ethernet port.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    for port in facts.below(node, Subject::Port).collect::<Vec<_>>() {
        let fact = match (
            facts.get(port, port::LINK_LAYER),
            facts.get(port, port::NETDEV_MTU),
            facts.get(port, port::MAX_MTU),
        ) {
            (Fact::Known(LinkLayer::Ethernet, _), Fact::Known(mtu, _), Fact::Known(max, _)) => {
                let missing = || Gap::missing("an RDMA MTU that fits the netdev MTU");
                let fit = fitting(mtu).map(|fit| fit.min(max)).ok_or_else(missing);
                Fact::of(fit, format!("netdev MTU {mtu} less {HEADERS} B of headers"))
            }
            (Fact::Known(LinkLayer::Ethernet, _), Fact::Unknown(gap), _)
            | (Fact::Known(LinkLayer::Ethernet, _), _, Fact::Unknown(gap))
            | (Fact::Unknown(gap), ..) => Fact::Unknown(gap),
            (Fact::Known(..), ..) => Fact::Unknown(Gap::missing("an Ethernet port")),
        };
        facts.set(port, port::FITTING_MTU, fact);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_steps() {
        for (netdev, rdma) in [
            (1000, 512),
            (1500, 1024),
            (2143, 1024),
            (2144, 2048),
            (4191, 2048),
            (4192, 4096),
            (9000, 4096),
        ] {
            assert_eq!(fitting(Bytes(netdev)), Some(Bytes(rdma)), "{netdev}");
        }
        assert_eq!(fitting(Bytes(68)), None);
    }
}
