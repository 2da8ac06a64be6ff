//! The facts of what packets meet between a network device and the kernel's IP stack: queueing disciplines, routes, rules, neighbours.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{BitRate, Bytes, PerSecond, Percent, Seconds};
use crate::sentence::shell::Command;

words! {
    /// What an obstacle does to packets.
    pub enum ObstacleKind {
        /// netem loses or corrupts them.
        Loss = "loss",
        /// netem delays, reorders or duplicates them.
        Delay = "delay",
        /// A shaper limits their rate.
        Rate = "rate",
        /// A queue has room for none.
        NoRoom = "no-room",
        /// A queue drops some, between two readings.
        Drops = "drops",
        /// No way leads to the interface's own network.
        Unroutable = "unroutable",
        /// No way leads to a part of the interface's own network.
        PartUnroutable = "part-unroutable",
        /// The way to the interface's own network, or to a part of it, leads out of another one.
        OtherDevice = "other-device",
        /// The way to the interface's own network leads over a gateway.
        Gateway = "gateway",
        /// A route sets a smaller MTU than the interface has.
        RouteMtu = "route-mtu",
        /// The default gateway does not answer.
        GatewayUnanswered = "gateway-unanswered",
        /// The interface asks nobody for hardware addresses.
        NoArp = "no-arp",
        /// The gateway and all neighbours that were asked are silent.
        CutOff = "cut-off",
        /// All neighbours that were asked are silent.
        NeighboursSilent = "neighbours-silent",
        /// Answers to ARP arrive, and the kernel takes none of them.
        AnswersNotTaken = "answers-not-taken",
        /// Another machine has the interface's address.
        AddressTaken = "address-taken",
        /// The hardware address that was written down for a neighbour is not its own.
        NeighbourWrong = "neighbour-wrong",
        /// This node refuses to send to a gateway or neighbour.
        Refused = "refused",
        /// The interface's address is the broadcast address of its network.
        BroadcastAddress = "broadcast-address",
        /// The interface's address is that of its network, and no host's.
        NetworkAddress = "network-address",
        /// The interface's addresses are in no network, and no route leads out of it.
        LoneAddress = "lone-address",
        /// The kernel does not use an address of the interface, since another machine answered for it.
        RefusedAddress = "refused-address",
        /// The interface's address is leased, and nothing renews it.
        EndingAddress = "ending-address",
    }
}

subject! {
    /// What hinders packets between a network device and the kernel's IP stack: a queueing discipline, a route, a rule, a neighbour.
    Obstacle = "obstacle" from "obstacle";

    /// What it does to packets.
    KIND: ObstacleKind = "kind" from "obstacle";
    /// The network interface.
    INTERFACE: Arc<str> = "interface" from "obstacle";
    /// The queueing discipline, route or rule as tc(8) and ip(8) list it.
    WHAT: Arc<str> = "what" from "obstacle";
    /// The command that removes it.
    REMOVAL: Command = "removal" from "obstacle";
    /// The network that cannot be reached, as "10.0.0.0/24"; "none" for what is not about one.
    NETWORK: Arc<str> = "network" from "obstacle";
    /// The address of the gateway that does not answer.
    GATEWAY: Arc<str> = "gateway" from "obstacle";
    /// How many packets are lost or corrupted.
    LOST: Percent = "lost" from "obstacle";
    /// How long packets wait.
    DELAY: Seconds = "delay" from "obstacle";
    /// The rate to which packets are limited.
    RATE: BitRate = "rate" from "obstacle";
    /// The interface's speed. Source: sysfs speed.
    SPEED: BitRate = "speed" from "derive obstacle";
    /// The limited rate in relation to the interface's speed.
    SHARE: Percent = "share" from "derive obstacle";
    /// Packets dropped, between two readings.
    DROP_RATE: PerSecond = "drop_rate" from "obstacle";
    /// When the kernel removes the address.
    ENDS: Seconds = "ends" from "obstacle";
    /// The MTU that a route sets.
    MTU: Bytes = "mtu" from "obstacle";
    /// Whether a job of several nodes meets it: TCP of an interface that it uses, RoCE of the kernel on one, and for routes and neighbours any RoCE, whose
    /// adapters ask the kernel for the way.
    USED: bool = "used" from "derive obstacle";
}
