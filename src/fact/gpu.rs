//! The facts of a GPU, as the PCI bus has it.

use std::sync::Arc;

use super::gpu_nic::Distance;
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
}
