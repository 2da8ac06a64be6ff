//! A device's statistics: of the thousands that an adapter has, those that tell of pauses and of packets dropped for want of room.

use serde_json::{Map, Value};

use super::{Netdev, ioctl};
use crate::source::Refusal;

/// The statistics that are recorded, by their whole names: `Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst`.
const WANTED: &[&str] = &[
    "rx_discards_phy",
    "rx_out_of_buffer",
    "rx_pause_ctrl_phy",
    "tx_pause_ctrl_phy",
    "tx_pause_storm_error_events",
    "tx_pause_storm_warning_events",
    "outbound_pci_stalled_wr_events",
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
    WANTED.contains(&name) || priority_counter(name).is_some()
}

/// `rx_prio3_pause`, `tx_prio3_pause`, `rx_prio3_discards`: which, of a priority.
fn priority_counter(name: &str) -> Option<&str> {
    let rest = name
        .strip_prefix("rx_prio")
        .or_else(|| name.strip_prefix("tx_prio"))?;
    let (priority, what) = rest.split_once('_')?;
    matches!(priority.as_bytes(), [b'0'..=b'7'])
        .then_some(what)
        .filter(|what| matches!(*what, "pause" | "discards"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_tells_of_pauses_and_drops_is_kept() {
        for kept in [
            "rx_discards_phy",
            "rx_prio0_pause",
            "tx_prio7_pause",
            "rx_prio3_discards",
        ] {
            assert!(is_wanted(kept), "{kept}");
        }
        for left in [
            "rx0_packets",
            "tx_prio3_bytes",
            "rx_prio8_pause",
            "rx_prio3_pause_duration",
            "rx_prio_pause",
            "ch0_events",
        ] {
            assert!(!is_wanted(left), "{left}");
        }
    }
}
