//! The facts of a bond of network devices.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A bond that carries a RoCE port or a default route.
    Bond = "bond" from "rail";

    /// Its mode, as the kernel names it: 802.3ad, active-backup. Source: sysfs bonding/mode.
    MODE: Arc<str> = "mode" from "rail";
    /// Whether an adapter's RoCE port runs on it or on one of its members. Soft-RoCE does not count: it sends as the kernel does.
    ROCE: bool = "roce" from "rail";
    /// Its transmit hash policy: layer2, layer3+4. Source: sysfs bonding/xmit_hash_policy.
    HASH: Arc<str> = "hash" from "rail";
    /// Whether it watches its members' links, by MII or by ARP. Source: sysfs bonding/miimon, bonding/arp_interval.
    WATCHES: bool = "watches" from "rail";
    /// Its members. Source: sysfs bonding/slaves.
    MEMBERS: Arc<[Arc<str>]> = "members" from "rail";
    /// The members whose link is down. Source: sysfs bonding_slave/mii_status.
    MEMBERS_DOWN: Arc<[Arc<str>]> = "members_down" from "rail";
    /// How many members' links are down.
    DOWN_COUNT: u64 = "down_count" from "rail";
    /// How often members lost their link since they joined. Source: sysfs bonding_slave/link_failure_count.
    LINK_FAILURES: u64 = "link_failures" from "rail";
    /// Whether it negotiates with the switch: mode 802.3ad.
    LACP: bool = "lacp" from "rail";
    /// Whether the switch answers: its system address is not zero. Source: sysfs bonding/ad_partner_mac, which only root reads in full.
    PARTNER: bool = "partner" from "rail";
    /// How many aggregators its members with link are in. Source: sysfs bonding_slave/ad_aggregator_id.
    AGGREGATORS: u64 = "aggregators" from "rail";
    /// The members with link for which the switch does not both collect and distribute. Source: sysfs bonding_slave/ad_partner_oper_port_state.
    MEMBERS_NOT_TAKEN: Arc<[Arc<str>]> = "members_not_taken" from "rail";
    /// How many members with link the switch does not take into the link aggregation.
    NOT_TAKEN_COUNT: u64 = "not_taken_count" from "rail";
    /// Whether all members with link run at one speed. Source: sysfs speed.
    SPEEDS_AGREE: bool = "speeds_agree" from "rail";
    /// The speeds of the members with link. Source: sysfs speed.
    SPEEDS: Arc<[Arc<str>]> = "speeds" from "rail";
}
