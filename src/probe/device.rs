//! RDMA devices and their ports, as `/sys/class/infiniband` shows them.

mod parse;
mod pkey;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::pci::place;
use super::{Ask, Probe, inside};
use crate::fact::device::{self, NodeType};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Presence, Subject, Why, port};
use crate::source::{Errno, Question, Refusal};

/// The class directory.
pub(super) const CLASS: &str = "/sys/class/infiniband";

/// The probe.
pub const PROBE: Probe = Probe::new("device", run);

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (devices, membership) = devices(ask);
    facts.set_members(Subject::Device, node, membership);
    for name in devices.iter() {
        let dir = inside(CLASS, name);
        let id = facts.instance(Subject::Device, node, name);
        let place = ask.link_target(&*dir);
        let function = PciIds::of(ask, &dir, "");
        identity(ask, facts, id, &dir, &place);
        firmware(ask, facts, id, &dir, &function);
        locate(ask, facts, id, &dir, place);
        let virtual_function = virtual_function(ask, &dir, function);
        facts.set(id, device::VIRTUAL_FUNCTION, virtual_function);
        let (numbers, membership) = port_numbers(ask, &dir);
        facts.set_members(Subject::Port, id, membership);
        for number in numbers {
            let id = facts.instance(Subject::Port, id, &format!("{name}/{number}"));
            describe_port(ask, facts, id, &format!("{dir}/ports/{number}"));
        }
    }
}

/// The names of the devices, and whether these are all.
pub(super) fn devices(ask: &Ask<'_>) -> (Arc<[Arc<str>]>, Membership) {
    ask.members(CLASS)
}

/// The numbers of a device's ports, in order, and whether these are all.
fn port_numbers(ask: &Ask<'_>, dir: &str) -> (Vec<u64>, Membership) {
    // Not every device of the class is one of RDMA: Intel's scif0 has no ports.
    let (names, members) = ask.members(inside(dir, "ports"));
    match (numbers(&names), members) {
        ((numbers, Some(what)), Membership::Known(origin)) => {
            (numbers, Membership::Unknown(Gap::misread(what, origin)))
        }
        ((numbers, _), members) => (numbers, members),
    }
}

/// The names of a table's entries as numbers, in order, and what is no number.
pub(super) fn numbers(names: &[Arc<str>]) -> (Vec<u64>, Option<String>) {
    let mut numbers: Vec<u64> = names.iter().filter_map(|n| n.parse().ok()).collect();
    numbers.sort_unstable();
    let odd = names.iter().find(|n| n.parse::<u64>().is_err());
    (
        numbers,
        odd.map(|odd| format!("{odd:?} is not an entry number")),
    )
}

/// A port as the probes that look inside it find it.
pub(super) struct PortEntry {
    /// The device's name.
    pub(super) device: Arc<str>,
    /// The port's number, counted from 1.
    pub(super) number: u64,
    /// The port's name, `mlx5_0/1`.
    pub(super) name: String,
    /// Its directory.
    pub(super) dir: String,
    /// The port.
    pub(super) id: Id,
}

/// All ports, and whether these are all. A probe cannot rely on what others found: each runs in a process of its own.
pub(super) fn ports(ask: &Ask<'_>, facts: &mut Facts, node: Id) -> (Vec<PortEntry>, Membership) {
    let (devices, mut all) = devices(ask);
    let mut ports = Vec::with_capacity(devices.len());
    for device in devices.iter() {
        let dir = inside(CLASS, device);
        let (numbers, membership) = port_numbers(ask, &dir);
        if let (Membership::Known(_), Membership::Unknown(gap)) = (&all, membership) {
            all = Membership::Unknown(gap);
        }
        let parent = facts.instance(Subject::Device, node, device);
        for number in numbers {
            let name = format!("{device}/{number}");
            ports.push(PortEntry {
                device: Arc::clone(device),
                number,
                id: facts.instance(Subject::Port, parent, &name),
                name,
                dir: format!("{dir}/ports/{number}"),
            });
        }
    }
    (ports, all)
}

/// Driver, kind and whether the device is software.
fn identity(ask: &Ask<'_>, facts: &mut Facts, id: Id, dir: &str, place: &Fact<Arc<str>>) {
    let node_type = ask.parse(inside(dir, "node_type"), parse::node_type);
    // Only soft-RoCE has the file `parent`, with or without a `device` link (kernels before 5.11 had one).
    let parent = ask.text_if_any(inside(dir, "parent"));
    let driver = ask.link_name(inside(dir, "device/driver"));
    let software_iwarp = match node_type.known() {
        Some(NodeType::Rnic) => {
            let description = ask.text(inside(dir, "node_desc"));
            match (description, place) {
                (Fact::Known(text, origin), _) if text.starts_with("Software iWARP") => {
                    Some(origin)
                }
                (_, Fact::Known(place, origin)) if parse::is_virtual(place) => Some(origin.clone()),
                _ => None,
            }
        }
        _ => None,
    };
    let (driver, software) = match (parent, software_iwarp) {
        (Presence::Present(_, origin), _) => Fact::Known(("rdma_rxe".into(), true), origin).unzip(),
        (_, Some(origin)) => Fact::Known(("siw".into(), true), origin).unzip(),
        _ => {
            let missing = Why::NotUnderstood("the device has no driver link".into());
            // An auxiliary device's driver is named `mlx5_core.sf`: the module comes first.
            let module =
                |name: Arc<str>| super::filled(name.split('.').next().unwrap_or("").into());
            let driver = driver.or_gap(missing).and_then(module);
            (driver, place.clone().map(|place| parse::is_virtual(&place)))
        }
    };
    facts.set(id, device::NODE_TYPE, node_type);
    facts.set(id, device::DRIVER, driver);
    facts.set(id, device::SOFTWARE, software);
}

/// Ids of a device's PCI function or of its board.
struct PciIds {
    vendor: Presence<u64>,
    /// Asked for only with a vendor.
    device: Fact<u64>,
}

impl PciIds {
    /// Reads `vendor` and `device`, with `subsystem_` before them for the board's.
    fn of(ask: &Ask<'_>, dir: &str, prefix: &str) -> Self {
        let vendor = ask.text_if_any(format!("{dir}/device/{prefix}vendor"));
        let vendor = vendor.and_then(|text| super::whole_number(&text));
        let device = match &vendor {
            Presence::Absent(_) => Fact::Unknown(Gap::missing("the PCI function")),
            _ => ask.parse(format!("{dir}/device/{prefix}device"), super::whole_number),
        };
        PciIds { vendor, device }
    }

    /// As 14e4:1760.
    fn text(&self) -> Presence<String> {
        match (&self.vendor, &self.device) {
            (Presence::Absent(origin), _) => Presence::Absent(origin.clone()),
            (Presence::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Presence::Unknown(gap.clone()),
            (Presence::Present(vendor, origin), Fact::Known(device, _)) => {
                Presence::Present(format!("{vendor:04x}:{device:04x}"), origin.clone())
            }
        }
    }
}

/// Model, board and firmware. Drivers such as efa, erdma, mana_ib and bnxt_re have no `board_id`, some no `hca_type`: there PCI ids stand in.
fn firmware(ask: &Ask<'_>, facts: &mut Facts, id: Id, dir: &str, function: &PciIds) {
    let instead = match function.vendor {
        // NVIDIA's drivers have both files: a tree without them is an incomplete copy.
        Presence::Present(super::pci::MELLANOX, _) | Presence::Absent(_) => None,
        _ => Some(function.text()),
    };
    for (key, file) in [
        (device::MODEL, "hca_type"),
        (device::BOARD, "board_id"),
        (device::FIRMWARE, "fw_ver"),
    ] {
        let path = inside(dir, file);
        let text = match (ask.text_if_any(&*path), &instead) {
            (Presence::Present(text, origin), _) => {
                Fact::Known(text, origin).and_then(|text| parse::named(&text, file))
            }
            (Presence::Unknown(gap), _) => Fact::Unknown(gap),
            (Presence::Absent(_), Some(ids)) if file == "hca_type" => {
                let no_ids = Why::NotUnderstood("there is no such file".into());
                ids.clone().or_gap(no_ids).map(Arc::from)
            }
            (Presence::Absent(_), Some(ids)) if file == "board_id" => board_ids(ask, dir, ids),
            (Presence::Absent(_), _) => {
                let absent = Refusal::Errno(Errno::ENOENT);
                Fact::Unknown(Gap::refused(&Question::read(path), absent))
            }
        };
        facts.set(id, key, text);
    }
}

/// The ids of the function and, if they are there, those of its board, as 14e4:1760/14e4:d125.
fn board_ids(ask: &Ask<'_>, dir: &str, function: &Presence<String>) -> Fact<Arc<str>> {
    let function = (function.clone()).or_gap(Why::NotUnderstood("there is no such file".into()));
    let board = PciIds::of(ask, dir, "subsystem_").text().if_any();
    function.zip(board).map(|(function, board)| match board {
        Some(board) => format!("{function}/{board}").into(),
        None => function.into(),
    })
}

/// Where the device sits: PCI, NUMA, SR-IOV.
fn locate(ask: &Ask<'_>, facts: &mut Facts, id: Id, dir: &str, by_class: Fact<Arc<str>>) {
    let pci = match ask.link_name(inside(dir, "device")) {
        Presence::Present(name, origin) if place::is_function(&name) => Fact::Known(name, origin),
        // A subfunction is no PCI function, but sits below one; a copied tree may have shortened the link.
        _ => by_class.and_then(|place| match parse::pci_address(&place) {
            Some(address) => Ok(address.into()),
            None if parse::is_whole(&place) => Ok("none".into()),
            None => Err(format!("no PCI address in {place}")),
        }),
    };
    facts.set(id, device::PCI, pci);

    let numa = place::numa_node(ask, &inside(dir, "device"));
    facts.set(id, device::NUMA_NODE, numa);
}

/// A device without PCI has none of these files, and is no virtual function.
fn virtual_function(ask: &Ask<'_>, dir: &str, function: PciIds) -> Fact<bool> {
    let physfn = ask.link_name(inside(dir, "device/physfn"));
    let vendor = match function.vendor {
        Presence::Present(vendor, origin) => Fact::Known(vendor, origin),
        Presence::Absent(origin) => return Fact::Known(false, origin),
        Presence::Unknown(gap) => Fact::Unknown(gap),
    };
    super::pci::virtual_function(physfn, &vendor, &function.device)
}

fn describe_port(ask: &Ask<'_>, facts: &mut Facts, id: Id, dir: &str) {
    let state = ask.parse(inside(dir, "state"), parse::state);
    facts.set(id, port::STATE, state);
    let phys_state = ask.parse(inside(dir, "phys_state"), parse::phys_state);
    facts.set(id, port::PHYS_STATE, phys_state);
    let link_layer = ask.parse(inside(dir, "link_layer"), parse::link_layer);
    facts.set(id, port::LINK_LAYER, link_layer);
    let rate = ask.text(inside(dir, "rate"));
    facts.set(
        id,
        port::RATE,
        rate.clone().and_then(|text| parse::rate(&text)),
    );
    facts.set(id, port::WIDTH, rate.and_then(|text| parse::width(&text)));
    let lid = ask.parse(inside(dir, "lid"), super::whole_number);
    facts.set(id, port::LID, lid);
    let sm_lid = ask.parse(inside(dir, "sm_lid"), super::whole_number);
    facts.set(id, port::SM_LID, sm_lid);
    pkey::table(ask, facts, id, &inside(dir, "pkeys"));
}
