//! The facts of the RoCE traffic of a port, from its traffic class to the switch: a chain that is closed or broken.

use super::schema::subject;

subject! {
    /// The RoCE traffic of a port, from its traffic class to the switch: a chain that is closed or broken.
    Traffic = "traffic" from "derive";

    /// Whether RoCE traffic is expected on the port: it is intended, active and Ethernet.
    USED: bool = "used" from "derive";
}
