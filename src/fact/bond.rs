//! The facts of a bond of network devices.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A bond of network devices.
    Bond = "bond" from "rail";

    /// Its mode, as the kernel names it: 802.3ad, active-backup. Source: sysfs bonding/mode.
    MODE: Arc<str> = "mode" from "rail";
}
