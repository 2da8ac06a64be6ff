//! A device's statistics: of the thousands that an adapter has, those that tell of pauses and of packets dropped for want of room.

use serde_json::{Map, Value};

use super::{Netdev, ioctl};
use crate::source::Refusal;

/// The statistics that are recorded, by their whole names: `Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst`.
const WANTED: &[&str] = &[
    "rx_discards_phy",
    "tx_pause_ctrl_phy",
    "tx_pause_storm_error_events",
];

/// Reads the statistics that matter, as an object.
pub(super) fn read(netdev: &Netdev<'_>) -> Result<Value, Refusal> {
    let wanted = ioctl::statistics(netdev)?
        .into_iter()
        .filter(|(name, _)| is_wanted(name))
        .map(|(name, value)| (name, Value::from(value)));
    Ok(wanted.collect::<Map<_, _>>().into())
}

fn is_wanted(name: &str) -> bool {
    WANTED.contains(&name) || is_pause_of_priority(name)
}

/// `tx_prio3_pause`.
fn is_pause_of_priority(name: &str) -> bool {
    let priority = name
        .strip_prefix("tx_prio")
        .and_then(|rest| rest.strip_suffix("_pause"));
    matches!(priority.map(str::as_bytes), Some([b'0'..=b'7']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_tells_of_pauses_and_drops_is_kept() {
        for kept in ["rx_discards_phy", "tx_prio0_pause", "tx_prio7_pause"] {
            assert!(is_wanted(kept), "{kept}");
        }
        for left in [
            "rx0_packets",
            "tx_prio3_bytes",
            "tx_prio8_pause",
            "tx_prio3_pause_duration",
            "tx_prio_pause",
            "ch0_events",
        ] {
            assert!(!is_wanted(left), "{left}");
        }
    }
}
