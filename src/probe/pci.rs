//! PCI functions that can do RDMA: what a machine should have, beside what its kernel made of it.

pub mod place;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{Ask, Probe, inside, joined};
use crate::fact::function::{self, PciClass};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Presence, Subject, node};

/// The functions of the bus.
pub(super) const DEVICES: &str = "/sys/bus/pci/devices";

/// The probe.
pub const PROBE: Probe = Probe::new("pci", run);

/// Drivers whose hardware always has RDMA, so that a function bound to one is expected to show a device.
const RDMA_DRIVERS: &[&str] = &[
    "mlx4_core",
    "mlx5_core",
    "ib_mthca",
    "hfi1",
    "ib_qib",
    "efa",
    "erdma",
    "vmw_pvrdma",
    "hns_roce",
];
/// HPE's adapters, which have no verbs: their driver makes a class of its own.
const SLINGSHOT: &str = "/sys/class/cxi";
/// Drivers that hand a function to a virtual machine or to user space.
const PASSING_DRIVERS: &[&str] = &[
    "vfio-pci",
    "mlx5-vfio-pci",
    "mlx5_vfio_pci",
    "uio_pci_generic",
    "igb_uio",
    "pci-stub",
    "xen-pciback",
    "pciback",
];
/// NVIDIA's, formerly Mellanox's, vendor id.
pub(super) const MELLANOX: u64 = 0x15b3;
/// Its virtual functions (drivers/net/ethernet/mellanox/mlx5/core/main.c and mlx4/main.c, `MLX5_PCI_DEV_IS_VF`). Inside a
/// virtual machine the link `physfn` is missing, and only the id tells.
const MELLANOX_VIRTUAL: &[u64] = &[
    0x1002, 0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e, 0xa2d3,
];

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (names, mut open, origin) = functions(ask);
    for name in names.iter() {
        let dir = inside(DEVICES, name);
        match ask.parse(inside(&dir, "class"), super::whole_number) {
            Fact::Known(number, origin) if is_adapter_class(number) => {
                let gap = candidate(ask, facts, node, name, &dir, number, origin);
                open = open.or(gap);
            }
            Fact::Known(..) => {}
            // Without its class a function may be anything.
            Fact::Unknown(gap) => open = open.or(Some(gap)),
        }
    }
    let members = Membership::known_unless(open, origin);
    facts.set_members(Subject::Function, node, members);
    let adapters = ask.names_if_any(SLINGSHOT).or_absent(Arc::default());
    let count = adapters.clone().map(|names| names.len() as u64);
    facts.set(node, node::SLINGSHOT, count);
    let down = adapters.flat_map(|names| slingshot_down(ask, &names));
    facts.set(node, node::SLINGSHOT_DOWN, down);
}

/// The functions of the PCI bus, and why there may be others.
pub(super) fn functions(ask: &Ask<'_>) -> (Arc<[Arc<str>]>, Option<Gap>, Origin) {
    match ask.names_if_any(DEVICES).or_absent(Arc::default()) {
        Fact::Known(names, origin) => (names, None, origin),
        Fact::Unknown(gap) => (Arc::default(), Some(gap.clone()), gap.origin),
    }
}

/// The Slingshot adapters whose link is down. One that comes up, or is not configured yet, is not.
fn slingshot_down(ask: &Ask<'_>, names: &[Arc<str>]) -> Fact<Arc<str>> {
    let mut open = None;
    let mut down = Vec::new();
    for name in names {
        let port = format!("{SLINGSHOT}/{name}/device/port");
        let state = ask.text(format!("{port}/link"));
        let state = state.or_else(|| ask.text(format!("{port}/0/link/state")));
        let state = state.or_open(&mut open);
        if let Some(state @ ("down" | "error")) = state.as_deref().map(str::trim) {
            down.push(format!("{name} ({state})"));
        }
    }
    let how = "the link of each Slingshot adapter";
    Fact::derived(joined(&down, ", "), how).unless(open.filter(|_| down.is_empty()))
}

fn class_of(number: u64) -> PciClass {
    match number >> 8 {
        0x0207 | 0x0c06 => PciClass::InfiniBand,
        0x0200 => PciClass::Ethernet,
        _ => PciClass::Other,
    }
}

/// Whether a class is one that an adapter can have: network controllers, and the InfiniBand serial bus controllers of old.
pub(super) fn is_adapter_class(number: u64) -> bool {
    number >> 16 == 0x02 || number >> 8 == 0x0c06
}

/// How to tell whether a function can do RDMA.
pub(super) struct Signs {
    class: PciClass,
    vendor: Fact<u64>,
    driver: Presence<Arc<str>>,
    rdma: Fact<bool>,
}

impl Signs {
    /// Asks for them.
    pub(super) fn ask(ask: &Ask<'_>, dir: &str, class: u64) -> Self {
        let vendor = ask.parse(inside(dir, "vendor"), super::whole_number);
        let driver = ask.link_name(inside(dir, "driver"));
        let rdma = ask.names_if_any(inside(dir, "infiniband"));
        let rdma = rdma.map(|names| !names.is_empty()).or_absent(false);
        Signs {
            class: class_of(class),
            vendor,
            driver,
            rdma,
        }
    }

    /// Whether the driver's hardware always has RDMA.
    fn rdma_driver(&self) -> bool {
        matches!(&self.driver, Presence::Present(name, _) if RDMA_DRIVERS.contains(&&**name))
    }

    /// Whether the function can do RDMA; a gap if unknown.
    pub(super) fn can_rdma(&self) -> Result<bool, Gap> {
        if self.class == PciClass::InfiniBand
            || self.vendor.known() == Some(&MELLANOX)
            || self.rdma_driver()
            || self.rdma.known() == Some(&true)
        {
            return Ok(true);
        }
        match (&self.vendor, &self.driver) {
            (Fact::Unknown(gap), _) | (_, Presence::Unknown(gap)) => Err(gap.clone()),
            _ => Ok(false),
        }
    }
}

/// Asks further, and makes the instance if the function can do RDMA; a gap if unknown whether it can.
fn candidate(
    ask: &Ask<'_>,
    facts: &mut Facts,
    node: Id,
    name: &str,
    dir: &str,
    number: u64,
    class_origin: Origin,
) -> Option<Gap> {
    let signs = Signs::ask(ask, dir, number);
    let rdma_driver = signs.rdma_driver();
    match signs.can_rdma() {
        Ok(true) => {}
        Ok(false) => return None,
        Err(gap) => return Some(gap),
    }
    let Signs {
        class,
        vendor,
        driver,
        rdma,
    } = signs;

    let id = facts.instance(Subject::Function, node, name);
    let physfn = ask.link_name(inside(dir, "physfn"));
    let device = ask.parse(inside(dir, "device"), super::whole_number);
    let virtual_function = virtual_function(physfn, &vendor, &device);
    let config = super::gpu::on_bus(ask, dir);
    facts.know(id, function::CLASS, class, &class_origin);
    let pci_id =
        vendor.flat_map(|vendor| device.map(|device| format!("{vendor:04x}:{device:04x}").into()));
    facts.set(id, function::ID, pci_id);
    facts.set(id, function::BOUND, driver.is_present());
    facts.set(id, function::RDMA, rdma);
    facts.set(id, function::ON_BUS, config);
    let driver = driver.or_absent("none".into());
    let passed_through = driver.clone().map(|d| PASSING_DRIVERS.contains(&&*d));
    facts.set(id, function::PASSED_THROUGH, passed_through);
    let expected = match (class, &driver, &virtual_function) {
        (PciClass::InfiniBand, ..) => Fact::Known(true, class_origin),
        // An Ethernet function's driver leaves RDMA out by choice of its virtual machine's host.
        (_, Fact::Known(_, origin), _) if !rdma_driver => Fact::Known(false, origin.clone()),
        (_, Fact::Known(_, origin), Fact::Known(virtual_function, _)) => {
            Fact::Known(!virtual_function, origin.clone())
        }
        (_, Fact::Unknown(gap), _) | (.., Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
    };
    facts.set(id, function::DRIVER, driver);
    facts.set(id, function::VIRTUAL_FUNCTION, virtual_function);
    facts.set(id, function::RDMA_EXPECTED, expected);
    facts.set(id, function::PATH, place::path(ask, dir));
    facts.set(id, function::NUMA_NODE, place::numa_node(ask, dir));
    None
}

/// Whether a function is a virtual one: it has a physical one, or the id of one that has.
pub(super) fn virtual_function(
    physfn: Presence<Arc<str>>,
    vendor: &Fact<u64>,
    device: &Fact<u64>,
) -> Fact<bool> {
    match (physfn, vendor, device) {
        (Presence::Present(_, origin), ..) => Fact::Known(true, origin),
        // The id tells also if the link cannot.
        (_, Fact::Known(MELLANOX, _), Fact::Known(device, origin)) => {
            Fact::Known(MELLANOX_VIRTUAL.contains(device), origin.clone())
        }
        (Presence::Unknown(gap), ..) => Fact::Unknown(gap),
        (_, Fact::Known(MELLANOX, _), Fact::Unknown(gap)) | (_, Fact::Unknown(gap), _) => {
            Fact::Unknown(gap.clone())
        }
        (Presence::Absent(origin), ..) => Fact::Known(false, origin),
    }
}
