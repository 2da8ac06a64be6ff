//! The commands that mend an MTU, or show where it is too small.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::measure::plan::pairs::{PairDirection, Results};
use crate::sentence::shell::Command;

/// What sets the MTU of interfaces that are smaller than those that send to them; where there is
/// none, what shows the hop.
pub fn mtu_commands(results: &Results, ways: &[PairDirection]) -> Arc<[Command]> {
    let rail = |end| results.plan.rail(end);
    let ends = || {
        ways.iter()
            .filter_map(|way| Some((rail(way.from)?, rail(way.to)?)))
    };
    let smaller = ends().filter(|(from, to)| to.mtu < from.mtu);
    let set: BTreeSet<Command> = smaller
        .map(|(from, to)| {
            let mtu = from.mtu.to_string();
            Command::filled("ip link set {} mtu {}", &[&to.interface, &mtu])
        })
        .collect();
    if !set.is_empty() {
        return set.into_iter().collect();
    }
    let show: BTreeSet<Command> = ends()
        .map(|(_, to)| Command::filled("tracepath -n {}", &[&to.address.to_string()]))
        .collect();
    show.into_iter().collect()
}
