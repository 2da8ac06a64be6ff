//! The facts of what must get through the node's packet filter: a protocol, ports, a direction, an interface.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// What must get through the node's packet filter: a protocol, ports, a direction, an interface.
    Flow = "flow" from "derive";

    /// The protocol: tcp or udp.
    PROTOCOL: Arc<str> = "protocol" from "derive";
}
