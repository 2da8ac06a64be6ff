//! The facts of the RoCE traffic of a port, from its traffic class to the switch: a chain that is closed or broken.

use std::sync::Arc;

use super::netdev::Trust;
use super::schema::subject;
use super::value::words;
use super::{Bytes, Percent};

words! {
    /// What sets the traffic class of NCCL's packets.
    pub enum ClassSource {
        /// The driver forces one on every connection of the port.
        Device = "device",
        /// NCCL_IB_TC.
        Variable = "variable",
        /// Nothing: NCCL's default.
        Default = "default",
    }
}

words! {
    /// The first link of the chain from traffic class to switch that is off.
    pub enum BrokenAt {
        /// None: the traffic is protected and congestion is controlled, as far as the node can tell.
        None = "none",
        /// No traffic class is set, and class 0 is not the protected one.
        TrafficClass = "traffic-class",
        /// The port does not look at the DSCP that is set.
        Trust = "trust",
        /// The DSCP maps to a priority other than the protected one.
        DscpMap = "dscp-map",
        /// Neither PFC on any priority nor pause of the link.
        Pfc = "pfc",
        /// The traffic is protected; congestion control is off on its priority.
        Ecn = "ecn",
    }
}

subject! {
    /// The RoCE traffic of a port, from its traffic class to the switch: a chain that is closed or broken.
    Traffic = "traffic" from "derive traffic";

    /// Whether RoCE traffic is expected on the port: it is intended, active and Ethernet.
    USED: bool = "used" from "derive traffic";
    /// The traffic class of NCCL's packets: what the driver forces, else NCCL_IB_TC, else 0.
    CLASS: u64 = "class" from "derive traffic";
    /// What sets the traffic class.
    CLASS_SOURCE: ClassSource = "class_source" from "derive traffic";
    /// The traffic class that NCCL_IB_TC asks for; unknown if it is not set.
    CLASS_WANTED: u64 = "class_wanted" from "derive traffic";
    /// Whether NCCL_IB_TC is set, and to another class than the driver forces.
    CLASS_OVERRIDDEN: bool = "class_overridden" from "derive traffic";
    /// Whether any NCCL variable is in effect where the doctor ran: without one, the environment is hardly a job's.
    JOB_ENVIRONMENT: bool = "job_environment" from "derive traffic";
    /// The DSCP of NCCL's packets: the upper six bits of the traffic class.
    DSCP: u64 = "dscp" from "derive traffic";
    /// What decides over the priority of a packet on the port's netdev.
    TRUST: Trust = "trust" from "derive traffic";
    /// The priority of NCCL's packets: of their DSCP where the port trusts it, else of their VLAN tag, which is 0 without a service level.
    PRIORITY: u64 = "priority" from "derive traffic";
    /// Whether the driver of the port's netdev has data centre bridging.
    DCB: bool = "dcb" from "derive traffic";
    /// Whether PFC is on for the traffic's priority.
    PFC: bool = "pfc" from "derive traffic";
    /// The priorities with PFC of the port's netdev.
    PFC_PRIORITIES: Arc<[Arc<str>]> = "pfc_priorities" from "derive traffic";
    /// The first of them.
    PROTECTED_PRIORITY: Arc<str> = "protected_priority" from "derive traffic";
    /// The DSCPs that lead to a priority with PFC: "24-31, 48".
    PROTECTED_DSCPS: Arc<str> = "protected_dscps" from "derive traffic";
    /// Whether the whole link is paused, in both directions.
    PAUSE: bool = "pause" from "derive traffic";
    /// Whether ECN can be switched by priority, and whether it is known therefore.
    ECN_SWITCHED: bool = "ecn_switched" from "derive traffic";
    /// Whether the adapter both notifies of congestion and reacts to it on the traffic's priority.
    ECN: bool = "ecn" from "derive traffic";
    /// Whether it does one of the two only.
    ECN_HALF: bool = "ecn_half" from "derive traffic";
    /// The DSCP of the congestion notifications that the adapter sends.
    CNP_DSCP: u64 = "cnp_dscp" from "derive traffic";
    /// Whether that DSCP maps to the traffic's own priority, so that notifications wait behind the data.
    CNP_WITH_DATA: bool = "cnp_with_data" from "derive traffic";
    /// Whether no packet of the traffic is dropped for want of room: PFC on its priority, or pause of the whole link.
    LOSSLESS: bool = "lossless" from "derive traffic";
    /// The first link of the chain that is off.
    BROKEN_AT: BrokenAt = "broken_at" from "derive traffic";
    /// Whether ETS gives the traffic's class a share; else it is strict or the vendor's.
    ETS: bool = "ets" from "derive traffic";
    /// The share of the bandwidth that ETS gives the traffic's class.
    SHARE: Percent = "share" from "derive traffic";
    /// Size of the receive buffer of the traffic's priority.
    BUFFER: Bytes = "buffer" from "derive traffic";
    /// Whether priorities without PFC use the receive buffer of the traffic's priority too.
    BUFFER_SHARED: bool = "buffer_shared" from "derive traffic";
    /// Whether the host negotiates DCBX on the port's netdev.
    DCBX_HOST: bool = "dcbx_host" from "derive traffic";
    /// Whether rdma_cm's connections get a default traffic class, as configfs sets it.
    CMA_SET: bool = "cma_set" from "derive traffic";
    /// The priority of rdma_cm's connections.
    CMA_PRIORITY: u64 = "cma_priority" from "derive traffic";
    /// Whether PFC is on for the priority of rdma_cm's connections.
    CMA_PFC: bool = "cma_pfc" from "derive traffic";
}
