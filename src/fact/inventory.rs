//! The facts of an item of the site's inventory: what the site expects of a node, and what the node has.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

words! {
    /// What an item is about.
    pub enum InventoryKind {
        /// How many GPUs of a model the node has.
        Gpus = "gpus",
        /// How many adapters of a model it has.
        Adapters = "adapters",
        /// A port that is not there.
        Rail = "rail",
        /// A port's network device.
        Netdev = "netdev",
        /// A port's rate.
        Rate = "rate",
        /// A port's RDMA MTU.
        Mtu = "mtu",
        /// A port's lowest index of a routable RoCE v2 GID.
        GidIndex = "gid_index",
        /// A setting of NCCL.
        Nccl = "nccl",
    }
}

subject! {
    /// An item of the site's inventory for the node: of the first `[[expect]]` in /etc/rdma-doctor/config.toml, or in the file that --config names,
    /// that is for the node.
    Inventory = "inventory" from "inventory";

    /// What the item is about.
    KIND: InventoryKind = "kind" from "inventory";
    /// The model, the port or the variable.
    OF: Arc<str> = "of" from "inventory";
    /// The file that has the item.
    PLACE: Arc<str> = "place" from "inventory";
    /// What the site expects.
    EXPECTED: Arc<str> = "expected" from "inventory";
    /// What the node has, as a sentence.
    OBSERVED: Arc<str> = "observed" from "inventory";
    /// Whether the node has what is expected.
    MET: bool = "met" from "inventory";
    /// Whether the node has less: fewer GPUs or adapters, no such port, a lower rate or MTU.
    LESS: bool = "less" from "inventory";
    /// Whether the port is known to support less than is expected. A port that does not say what it supports is not known to.
    IMPOSSIBLE: bool = "impossible" from "inventory";
    /// The most that the port supports; "not known" if it does not say.
    CEILING: Arc<str> = "ceiling" from "inventory";
}
