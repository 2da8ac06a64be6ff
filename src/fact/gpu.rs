//! The facts of a GPU, as the PCI bus has it.

use std::sync::Arc;

use super::schema::subject;

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
}
