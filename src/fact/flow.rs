//! The facts of what must get through the node's packet filter: a protocol, ports, a direction, an interface.

use std::sync::Arc;

use super::Percent;
use super::schema::subject;
use super::value::words;
use crate::sentence::shell::Command;

words! {
    /// The purpose of a flow.
    pub enum Purpose {
        /// NCCL's bootstrap and the sockets of all launchers: TCP to a port that the kernel picked.
        Bootstrap = "bootstrap",
        /// The same between processes of this node.
        Local = "local",
        /// The rendezvous of a job: TCP to MASTER_PORT.
        Rendezvous = "rendezvous",
        /// RoCE v2: UDP to port 4791.
        Roce = "roce",
        /// ssh, by which launchers start processes.
        Ssh = "ssh",
        /// A router's word that packets are too large for the path.
        PathMtu = "path-mtu",
    }
}

words! {
    /// Which way a flow is opened.
    pub enum Direction {
        /// To this node.
        In = "in",
        /// From this node.
        Out = "out",
    }
}

words! {
    /// Whether a flow passes the packet filter.
    pub enum FlowPassage {
        /// It gets through.
        Accepted = "accepted",
        /// Its packets are dropped: opening it times out.
        Dropped = "dropped",
        /// Its packets are rejected: opening it fails at once.
        Rejected = "rejected",
        /// Some of its ports are dropped or rejected, for certain.
        Partly = "partly",
        /// It depends on the sender, the rate, or a program.
        Depends = "depends",
    }
}

words! {
    /// The condition on which a flow's passage depends.
    pub enum FlowCondition {
        /// The peer's address.
        Source = "source",
        /// The peer's address: some of the interface's own subnet are dropped by name.
        Denied = "denied",
        /// A rule that drops, of which it is not known which packets or which device it is for.
        Unread = "unread",
        /// How many packets or connections there are, or chance.
        Rate = "rate",
        /// A program, or where else the packet is sent.
        Elsewhere = "elsewhere",
        /// Nothing.
        Nothing = "nothing",
    }
}

subject! {
    /// What must get through the node's packet filter: a protocol, ports, a direction, an interface.
    Flow = "flow" from "derive firewall";

    /// The purpose of the flow: bootstrap, rendezvous, RoCE, ssh.
    PURPOSE: Purpose = "purpose" from "derive firewall";
    /// The destination ports, as "32768-60999". Source: ip_local_port_range, MASTER_PORT.
    PORTS: Arc<str> = "ports" from "derive firewall";
    /// Which way it is opened.
    DIRECTION: Direction = "direction" from "derive firewall";
    /// The network interface.
    INTERFACE: Arc<str> = "interface" from "derive firewall";
    /// Whether jobs of several nodes send it over this interface: by NCCL's own choice, else if there is but one.
    USED: bool = "used" from "derive firewall";
    /// Whether the packet filter sees it: hardware sends and receives RoCE by itself.
    FILTERED: bool = "filtered" from "derive firewall";
    /// What becomes of it by the rules in force: of its first packet, and of the reply. For a peer in the interface's own subnet,
    /// where that is known.
    VERDICT: FlowPassage = "verdict" from "derive firewall";
    /// The rule that drops or rejects it, or on which it depends; "none" where it gets through.
    RULE: Arc<str> = "rule" from "derive firewall";
    /// The command that lets it through: deletes the rule, or accepts the interface's own network before a policy.
    REMEDY: Command = "remedy" from "derive firewall";
    /// The command that accepts it before that rule.
    ACCEPTING: Command = "accepting" from "derive firewall";
    /// The first network of the interface, as 10.1.2.0/24; SUBNET if it is not known.
    NETWORK: Arc<str> = "network" from "derive firewall";
    /// Whether that rule names the port, the protocol's own: "none of my business" policies do not.
    EXPLICIT: bool = "explicit" from "derive firewall";
    /// The ports that are dropped or rejected, for certain; "none" if there is none.
    BLOCKED_PORTS: Arc<str> = "blocked_ports" from "derive firewall";
    /// How many of its ports are dropped or rejected, for certain.
    BLOCKED_SHARE: Percent = "blocked_share" from "derive firewall";
    /// The condition on which it depends; of a flow that is partly blocked, the rest of its ports.
    CONDITION: FlowCondition = "condition" from "derive firewall";
}
