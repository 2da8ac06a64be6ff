//! The facts of an RDMA device.

use std::sync::Arc;

use super::node::CharDevice;
use super::schema::subject;
use super::value::words;

words! {
    /// The kind of RDMA device.
    pub enum NodeType {
        /// Channel adapter: InfiniBand or RoCE.
        Ca = "ca",
        /// A switch.
        Switch = "switch",
        /// A router.
        Router = "router",
        /// iWARP.
        Rnic = "rnic",
        /// Cisco usNIC and its UDP form.
        Usnic = "usnic",
        /// Another transport, such as EFA.
        Unspecified = "unspecified",
    }
}

words! {
    /// The use of a device.
    pub enum Role {
        /// It carries the job's traffic, or may.
        Compute = "compute",
        /// It carries the machine's own traffic: it holds the only default route.
        Management = "management",
    }
}

subject! {
    /// An RDMA device, as /sys/class/infiniband lists them.
    Device = "device" from "device";

    /// The kernel driver. Source: the sysfs link device/driver; for software devices the module that made it.
    DRIVER: Arc<str> = "driver" from "device";
    /// Whether the device is software on a network device (soft-RoCE, soft-iWARP).
    SOFTWARE: bool = "software" from "device";
    /// The kind of device. Source: sysfs node_type.
    NODE_TYPE: NodeType = "node_type" from "device";
    /// The vendor's name of the model, as MT4129. Source: sysfs hca_type; of drivers without it the PCI ids, as 1d0f:efa2.
    MODEL: Arc<str> = "model" from "device";
    /// The board, as MT_0000000838 (NVIDIA's PSID). Source: sysfs board_id; of drivers without it the PCI ids, as 14e4:1760/14e4:d125.
    BOARD: Arc<str> = "board" from "device";
    /// Firmware version. Source: sysfs fw_ver.
    FIRMWARE: Arc<str> = "firmware" from "device";
    /// PCI address; "none" if the device is not on PCI. Source: the sysfs link `device`.
    PCI: Arc<str> = "pci" from "device";
    /// The NUMA node. Source: sysfs device/numa_node.
    NUMA_NODE: u64 = "numa_node" from "device";
    /// The settings of its firmware that change with its next reset: "LINK_TYPE_P1 is IB(1), and ETH(2) after the next reset"; "none" if none does. Source: mlxconfig.
    PENDING_SETTINGS: Arc<str> = "pending_settings" from "outputs";
    /// Whether the device is a virtual function. Source: the sysfs link device/physfn.
    VIRTUAL_FUNCTION: bool = "virtual_function" from "device";
    /// The name of the device's verbs character device, as uverbs0; "none" if it has none.
    UVERBS: Arc<str> = "uverbs" from "chardev";
    /// The result of opening the device's verbs character device. Source: open(2) of /dev/infiniband/uverbsN.
    CHAR_DEVICE: CharDevice = "char_device" from "chardev";
    /// Whether user space has a provider for the device: libibverbs lists it. Source: ibv_get_device_list(3).
    PROVIDER: bool = "provider" from "verbs";
    /// The use of the device. Rule: manual page rdma-doctor-check(5), INTENDED.
    ROLE: Role = "role" from "derive netdev_of_port";
    /// Whether the device is equal to others of the node: same driver, model and board.
    HAS_EQUALS: bool = "has_equals" from "derive agreement";
    /// Whether the firmware is that of all equal devices of the node, or of more than half of them.
    FIRMWARE_AGREES: bool = "firmware_agrees" from "derive agreement";
    /// The firmware versions of the equal devices that differ, with their devices.
    FIRMWARE_OF_EQUALS: Arc<str> = "firmware_of_equals" from "derive agreement";
    /// Whether one port of the device is intended for use.
    INTENDED: bool = "intended" from "derive tally";
    /// Whether the cgroup of this process, or one above it, allows no handle or no object of the device. Source: rdma.max.
    CGROUP_FORBIDS: bool = "cgroup_forbids" from "derive host_limits";
    /// What rdma.max of the cgroup has for the device; "none" if nothing is limited.
    CGROUP_LIMIT: Arc<str> = "cgroup_limit" from "derive host_limits";
    /// Whether this process may run on a CPU of the device's NUMA node, or that node has no CPU.
    CPUS_ALLOWED: bool = "cpus_allowed" from "derive topology";
    /// How many of its interrupt vectors are in use. Source: msi_irqs, /proc/irq/*/effective_affinity_list.
    VECTORS: u64 = "vectors" from "interrupt";
    /// How many different CPUs serve them.
    VECTOR_CPUS: u64 = "vector_cpus" from "interrupt";
    /// How many of them are served by a CPU that is local to the device. Source: local_cpulist.
    VECTORS_LOCAL: u64 = "vectors_local" from "interrupt";
}
