//! The facts of a PCI function that can do RDMA.

use std::sync::Arc;

use super::pcie::link_subject;
use super::value::words;
use super::{BitRate, Bytes};

words! {
    /// The PCI base class and subclass, as far as they matter.
    pub enum PciClass {
        /// 0x0207xx.
        InfiniBand = "infiniband",
        /// 0x0200xx.
        Ethernet = "ethernet",
        /// Any other.
        Other = "other",
    }
}

words! {
    /// What a function makes of a capability of PCI Express.
    pub enum Feature {
        /// It has it, and it is on.
        On = "on",
        /// It has it, and it is off.
        Off = "off",
        /// It does not have it.
        Absent = "absent",
    }
}

link_subject! {
    /// A PCI function that can do RDMA: of class InfiniBand, of a vendor's RDMA-capable line, or bound to such a driver.
    Function = "function" from "pci";

    /// The PCI class. Source: /sys/bus/pci/devices/*/class.
    CLASS: PciClass = "class" from "pci";
    /// Vendor and device id, as "15b3:1021". Source: sysfs vendor, device.
    ID: Arc<str> = "id" from "pci";
    /// Whether a driver is bound. Source: the sysfs link `driver`.
    BOUND: bool = "bound" from "pci";
    /// The bound driver's name; "none" if none is bound.
    DRIVER: Arc<str> = "driver" from "pci";
    /// Whether the function has an RDMA device. Source: the sysfs directory `infiniband`.
    RDMA: bool = "rdma" from "pci";
    /// Whether the function answers on the bus: its configuration space is not all ones. Source: sysfs config.
    ON_BUS: bool = "on_bus" from "pci";
    /// Whether the function is a virtual one (SR-IOV). Source: the sysfs link `physfn`.
    VIRTUAL_FUNCTION: bool = "virtual_function" from "pci";
    /// Whether the function was handed to a virtual machine or to user space (vfio-pci, uio).
    PASSED_THROUGH: bool = "passed_through" from "pci";
    /// Whether an RDMA device is expected of it: class InfiniBand, or a driver whose hardware always has RDMA.
    RDMA_EXPECTED: bool = "rdma_expected" from "pci";
    /// The PCI addresses from the root port down to the function itself, the host bridge (pci0000:00) first. Source: the sysfs link.
    PATH: Arc<[Arc<str>]> = "path" from "pci";
    /// The NUMA node; unknown if the kernel says -1. Source: sysfs numa_node.
    NUMA_NODE: u64 = "numa_node" from "pci";
    /// The lower end of the link of the path that carries least, as "0000:16:00.0". Source: the hops of the path.
    NARROWEST_HOP: Arc<str> = "narrowest_hop" from "derive pcie_hop";
    /// What the narrowest link of the path to the host bridge carries, one that rests at its best.
    PATH_BANDWIDTH: BitRate = "path_bandwidth" from "derive pcie_hop";
    /// What the link of the slot can carry, both of its ends at their best.
    SLOT_BANDWIDTH: BitRate = "slot_bandwidth" from "derive pcie_hop";
    /// The smallest payload that all ports of the path, and the function itself, support.
    PATH_PAYLOAD_SUPPORTED: Bytes = "path_payload_supported" from "derive pcie_hop";
    /// The smallest payload that a port above it takes now.
    PATH_PAYLOAD: Bytes = "path_payload" from "derive pcie_hop";
    /// The largest piece of memory that it reads with one request. Source: configuration space, Device Control, Max_Read_Request_Size.
    MAX_READ_REQUEST: Bytes = "max_read_request" from "pcie";
    /// Whether it may let its writes overtake each other. Source: configuration space, Device Control, Enable Relaxed Ordering.
    RELAXED_ORDERING: bool = "relaxed_ordering" from "pcie";
    /// Tags of eight or ten bits, for more than 32 reads at a time. Source: configuration space, Device Control, Extended Tag Field Enable.
    EXTENDED_TAGS: Feature = "extended_tags" from "pcie";
    /// Address Translation Services, by which it asks the IOMMU itself. Source: configuration space, capability 0x000f.
    ATS: Feature = "ats" from "pcie";
    /// Whether its link may fall asleep between packets (ASPM L1). Source: configuration space, Link Control.
    ASPM_L1: bool = "aspm_l1" from "pcie";
    /// What its link trained at and what it supports, if that is more: "Gen4 x8, of Gen5 x16";
    /// "none" if it is not. Only of what tools printed.
    LINK_BELOW: Arc<str> = "link_below" from "outputs";
    /// The rate of its fastest intended, active port; 0 if it has none.
    PORT_RATE: BitRate = "port_rate" from "derive pcie_need";
}
