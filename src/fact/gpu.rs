//! The facts of a GPU, as the PCI bus has it.

use std::sync::Arc;

use super::gpu_nic::Distance;
use super::schema::subject;
use super::{BitRate, Bytes};

subject! {
    /// A GPU, as the PCI bus has it.
    Gpu = "gpu" from "gpu";

    /// Its PCI address, as 0000:1b:00.0.
    PCI: Arc<str> = "pci" from "gpu";
    /// Vendor and device id, as "10de:2330". Source: sysfs vendor, device.
    ID: Arc<str> = "id" from "gpu";
    /// The bound driver's name; "none" where none is bound. Source: the sysfs link `driver`.
    DRIVER: Arc<str> = "driver" from "gpu";
    /// The NUMA node; unknown where the kernel says -1. Source: sysfs numa_node.
    NUMA_NODE: u64 = "numa_node" from "gpu";
    /// The PCI addresses from the root port down to the function itself, the host bridge (pci0000:00) first. Source: the sysfs link.
    PATH: Arc<[Arc<str>]> = "path" from "gpu";
    /// Whether it is a virtual function (SR-IOV, vGPU). Source: the sysfs link `physfn`.
    VIRTUAL_FUNCTION: bool = "virtual_function" from "gpu";
    /// Whether it answers on the bus: its configuration space is not all ones. Source: sysfs config.
    ON_BUS: bool = "on_bus" from "gpu";
    /// Whether the kernel says its NUMA node; -1 where not. Source: sysfs numa_node.
    NUMA_KNOWN: bool = "numa_known" from "derive";
    /// The nearest adapter that is meant for use, by the name of its RDMA device. Of several that are equally near, the one that is left
    /// when as many GPUs as can be have one of their own.
    NEAR_NIC: Arc<str> = "near_nic" from "derive";
    /// How far the nearest adapter that is meant for use is: PIX, PXB, PHB, NODE or SYS.
    NEAR_DISTANCE: Distance = "near_distance" from "derive";
    /// Whether most GPUs of the same model, this one counted, have an adapter on their own PCIe switches (PIX or PXB).
    SIBLINGS_NEAR: bool = "siblings_near" from "derive";
    /// An equal adapter that is the nearest of no GPU, where this GPU has to share its own with another; "none" where there is none.
    IDLE_NIC: Arc<str> = "idle_nic" from "derive";
    /// Whether this process may run on a CPU of the GPU's NUMA node, or that node has no CPU.
    CPUS_ALLOWED: bool = "cpus_allowed" from "derive";
    /// Whether NCCL will use one of its nearest adapters, by its own choice of devices.
    NEAR_NIC_SELECTED: bool = "near_nic_selected" from "derive";
    /// All adapters that are equally near, by the names of their RDMA devices.
    NEAR_NICS: Arc<[Arc<str>]> = "near_nics" from "derive";
    /// The generation of its link now: 1 for 2.5 GT/s, 2 for 5, 3 for 8, 4 for 16, 5 for 32, 6 for 64. Source: sysfs current_link_speed.
    LINK_GENERATION: u64 = "link_generation" from "pcie";
    /// The lanes of its link now. Source: sysfs current_link_width.
    LINK_WIDTH: u64 = "link_width" from "pcie";
    /// The highest generation that it can. Source: sysfs max_link_speed.
    MAX_LINK_GENERATION: u64 = "max_link_generation" from "pcie";
    /// The most lanes that it can. Source: sysfs max_link_width.
    MAX_LINK_WIDTH: u64 = "max_link_width" from "pcie";
    /// The largest payload of a packet that it sends or takes. Source: configuration space, Device Control, Max_Payload_Size.
    MAX_PAYLOAD: Bytes = "max_payload" from "pcie";
    /// The largest payload that it can. Source: configuration space, Device Capabilities, Max_Payload_Size Supported.
    MAX_PAYLOAD_SUPPORTED: Bytes = "max_payload_supported" from "pcie";
    /// Whether it counts errors (Advanced Error Reporting). Source: sysfs, whether aer_dev_correctable is there.
    COUNTS_ERRORS: bool = "counts_errors" from "pcie";
    /// Errors of its link since boot that a repetition mended: receiver errors, bad packets, replays. Source: sysfs aer_dev_correctable.
    LINK_ERRORS: u64 = "link_errors" from "pcie";
    /// Non-fatal errors since boot, unsupported requests left out: looking for devices makes those. Source: sysfs aer_dev_nonfatal.
    NONFATAL_ERRORS: u64 = "nonfatal_errors" from "pcie";
    /// Fatal errors since boot. Source: sysfs aer_dev_fatal, TOTAL_ERR_FATAL.
    FATAL_ERRORS: u64 = "fatal_errors" from "pcie";
    /// The lower end of the link of the path that carries least, as "0000:16:00.0". Source: the hops of the path.
    NARROWEST_HOP: Arc<str> = "narrowest_hop" from "derive";
    /// What the narrowest link of the path to the host bridge carries, one that rests at its best.
    PATH_BANDWIDTH: BitRate = "path_bandwidth" from "derive";
    /// What the link of the slot can carry, both of its ends at their best.
    SLOT_BANDWIDTH: BitRate = "slot_bandwidth" from "derive";
    /// What the links of most GPUs of its kind can carry; its own, where no value has a majority.
    SIBLINGS_SLOT_BANDWIDTH: BitRate = "siblings_slot_bandwidth" from "derive";
}

/// The facts of the function's PCIe link.
pub const LINK: super::pcie::LinkKeys = super::pcie::LinkKeys {
    generation: LINK_GENERATION,
    width: LINK_WIDTH,
    max_generation: MAX_LINK_GENERATION,
    max_width: MAX_LINK_WIDTH,
    max_payload: MAX_PAYLOAD,
    max_payload_supported: MAX_PAYLOAD_SUPPORTED,
    counts_errors: COUNTS_ERRORS,
    link_errors: LINK_ERRORS,
    nonfatal_errors: NONFATAL_ERRORS,
    fatal_errors: FATAL_ERRORS,
};
