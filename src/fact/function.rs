//! The facts of a PCI function that can do RDMA.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

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

subject! {
    /// A PCI function that can do RDMA: of class InfiniBand, of a vendor's RDMA-capable line, or bound to such a driver.
    Function = "function" from "pci";

    /// The PCI class. Source: /sys/bus/pci/devices/*/class.
    CLASS: PciClass = "class" from "pci";
    /// Vendor and device id, as "15b3:1021". Source: sysfs vendor, device.
    ID: Arc<str> = "id" from "pci";
    /// Whether a driver is bound. Source: the sysfs link `driver`.
    BOUND: bool = "bound" from "pci";
    /// The bound driver's name; "none" where none is bound.
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
    /// The NUMA node; unknown where the kernel says -1. Source: sysfs numa_node.
    NUMA_NODE: u64 = "numa_node" from "pci";
}
