//! How the kernel writes a device's and a port's attributes (`drivers/infiniband/core/sysfs.c`).

use std::sync::Arc;

use crate::fact::BitRate;
use crate::fact::device::NodeType;
use crate::fact::port::{LinkLayer, PhysState, PortState};
use crate::probe::is_not;
use crate::probe::pci::place::is_function;

/// Number and word of `4: ACTIVE`. Both have to be right: a `phys_state` of "4: ACTIVE" was seen.
fn numbered<T: Copy>(text: &str, what: &str, known: &[(u64, &str, T)]) -> Result<T, String> {
    text.split_once(':')
        .and_then(|(number, word)| {
            let number: u64 = number.trim().parse().ok()?;
            let word = word.trim();
            known
                .iter()
                .find(|(n, w, _)| *n == number && w.eq_ignore_ascii_case(word))
        })
        .map(|(.., value)| *value)
        .ok_or_else(|| is_not(text, what))
}

/// `node_type`.
pub(super) fn node_type(text: &str) -> Result<NodeType, String> {
    numbered(
        text,
        "node type",
        &[
            (1, "CA", NodeType::Ca),
            (2, "switch", NodeType::Switch),
            (3, "router", NodeType::Router),
            (4, "RNIC", NodeType::Rnic),
            (5, "usNIC", NodeType::Usnic),
            (6, "usNIC UDP", NodeType::Usnic),
            (7, "unspecified", NodeType::Unspecified),
        ],
    )
}

/// `state`.
pub(super) fn state(text: &str) -> Result<PortState, String> {
    numbered(
        text,
        "port state",
        &[
            (0, "NOP", PortState::NoChange),
            (1, "DOWN", PortState::Down),
            (2, "INIT", PortState::Init),
            (3, "ARMED", PortState::Armed),
            (4, "ACTIVE", PortState::Active),
            (5, "ACTIVE_DEFER", PortState::ActiveDefer),
        ],
    )
}

/// `phys_state`.
pub(super) fn phys_state(text: &str) -> Result<PhysState, String> {
    numbered(
        text,
        "physical port state",
        &[
            (0, "<unknown>", PhysState::NoChange),
            (1, "Sleep", PhysState::Sleep),
            (2, "Polling", PhysState::Polling),
            (3, "Disabled", PhysState::Disabled),
            (4, "PortConfigurationTraining", PhysState::Training),
            (5, "LinkUp", PhysState::LinkUp),
            (6, "LinkErrorRecovery", PhysState::Recovery),
            (7, "Phy Test", PhysState::PhyTest),
        ],
    )
}

/// `link_layer`.
pub(super) fn link_layer(text: &str) -> Result<LinkLayer, String> {
    match text.to_ascii_lowercase().as_str() {
        "infiniband" | "ib" => Ok(LinkLayer::InfiniBand),
        "ethernet" => Ok(LinkLayer::Ethernet),
        "unspecified" => Ok(LinkLayer::Unspecified),
        _ => Err(is_not(text, "a link layer")),
    }
}

/// The rate of `2.5 Gb/sec (1X SDR)`, `10 Gb/sec (4X)`.
pub(super) fn rate(text: &str) -> Result<BitRate, String> {
    let number = text.split_once("Gb/sec").map(|(number, _)| number.trim());
    number
        .filter(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
        .and_then(|n| n.parse::<f64>().ok())
        // 1 Pb/s is beyond every link and far inside what a float holds exactly.
        .filter(|gigabits| *gigabits < 1e6)
        .map(|gigabits| BitRate((gigabits * 1e9).round() as u64))
        .ok_or_else(|| is_not(text, "a rate"))
}

/// The lanes of `100 Gb/sec (4X EDR)`.
pub(super) fn width(text: &str) -> Result<u64, String> {
    text.split_once('(')
        .and_then(|(_, inside)| inside.split(['X', 'x']).next()?.trim().parse().ok())
        .ok_or_else(|| is_not(text, "a rate with a width"))
}

/// A text that is not empty, nor the file's own name (as scrubbed recordings have it).
pub(super) fn named(text: &str, file: &str) -> Result<Arc<str>, String> {
    match text {
        "" => Err("it is empty".to_owned()),
        _ if text == file => Err(format!("it was scrubbed: it says {text:?}")),
        _ => Ok(text.into()),
    }
}

/// Whether the class link leads to a device that hangs on no bus.
pub(super) fn is_virtual(place: &str) -> bool {
    place.contains("/devices/virtual/")
}

/// Whether the class link names the device's whole place, so that a bus that it does not name is none of its own.
pub(super) fn is_whole(place: &str) -> bool {
    place.starts_with("../../devices/")
}

/// The function nearest to the device in the target of its class link.
pub(super) fn pci_address(place: &str) -> Option<&str> {
    place.rsplit('/').find(|part| is_function(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_as_seen_in_the_wild() {
        assert_eq!(state("4: ACTIVE"), Ok(PortState::Active));
        assert_eq!(state("2: INIT"), Ok(PortState::Init));
        assert_eq!(phys_state("5: LinkUp"), Ok(PhysState::LinkUp));
        assert_eq!(phys_state("7: Phy Test"), Ok(PhysState::PhyTest));
        assert_eq!(phys_state("0: <unknown>"), Ok(PhysState::NoChange));
        assert!(phys_state("4: ACTIVE").is_err());
        assert!(state("").is_err() && state("state").is_err() && state("9: ODD").is_err());
        assert_eq!(node_type("6: usNIC UDP"), Ok(NodeType::Usnic));
        assert_eq!(link_layer("IB"), Ok(LinkLayer::InfiniBand));
        assert!(link_layer("link_layer").is_err());
    }

    #[test]
    fn rates_as_seen_in_the_wild() {
        for (text, gigabits, lanes) in [
            ("2.5 Gb/sec (1X SDR)", 2.5, Ok(1)),
            ("10 Gb/sec (4X)", 10.0, Ok(4)),
            ("56 Gb/sec (4X FDR)", 56.0, Ok(4)),
            ("25 Gb/sec (1X EDR)", 25.0, Ok(1)),
            ("400 Gb/sec (4X NDR) ", 400.0, Ok(4)),
        ] {
            assert_eq!(rate(text), Ok(BitRate((gigabits * 1e9) as u64)));
            assert_eq!(width(text), lanes);
        }
        assert_eq!(rate("40 Gb/sec"), Ok(BitRate(40_000_000_000)));
        assert!(width("40 Gb/sec").is_err());
        for bad in [
            "rate",
            "",
            "-1 Gb/sec (4X)",
            "inf Gb/sec",
            "N/A",
            "9e9 Gb/sec",
            "1.2.3 Gb/sec",
        ] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn places() {
        let place = "../../devices/pci0000:80/0000:80:02.2/0000:82:00.0/infiniband/mlx4_0";
        assert_eq!(pci_address(place), Some("0000:82:00.0"));
        let subfunction = "../../devices/pci0000:00/0000:08:00.0/mlx5_core.sf.4/infiniband/mlx5_2";
        assert_eq!(pci_address(subfunction), Some("0000:08:00.0"));
        assert_eq!(pci_address("../../devices/virtual/infiniband/rxe0"), None);
        assert!(is_virtual("../../devices/virtual/infiniband/rxe0") && !is_virtual(place));
        assert!(is_function("10001:01:00.1") && !is_function("pci0000:80") && !is_function(".."));
    }
}
