//! The GPUs on the PCI bus: the machine's GPUs, whatever driver is loaded.

use std::sync::Arc;

use super::pci::{DEVICES, functions, place};
use super::{Ask, Probe, inside};
use crate::fact::kleene::Several;
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Subject, gpu};
use crate::source::Question;

/// The probe.
pub const PROBE: Probe = Probe::new("gpu", run);

/// NVIDIA, AMD, Habana (Gaudi).
const VENDORS: [u64; 3] = [0x10de, 0x1002, 0x1da3];
const INTEL: u64 = 0x8086;

/// The vendor of a function of a GPU's class, and whether it computes. A BMC's console, a virtual machine's display and an Intel chipset's graphics have the
/// same class and are not meant; of Intel's the Data Center GPUs Max and Flex are (kernel, include/drm/intel/pciids.h: PVC, ATS-M).
pub(super) fn maker(ask: &Ask<'_>, dir: &str) -> Fact<(u64, bool)> {
    let number = |file| ask.parse(inside(dir, file), super::whole_number);
    match number("vendor") {
        Fact::Known(INTEL, _) => number("device").map(|device| {
            let computes = matches!(
                device,
                0x0b69 | 0x0b6e | 0x0bd0..=0x0bdb | 0x0be0..=0x0be5 | 0x56c0..=0x56c2
            );
            (INTEL, computes)
        }),
        vendor => vendor.map(|vendor| (vendor, VENDORS.contains(&vendor))),
    }
}

/// VGA controller, 3D controller, other display controller, processing accelerator (AMD Instinct).
pub(super) fn is_gpu_class(number: u64) -> bool {
    matches!(number >> 8, 0x0300 | 0x0302 | 0x0380 | 0x1200)
}

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (names, mut open, origin) = functions(ask);
    for name in names.iter() {
        match vendor(ask, name) {
            Ok(Some(vendor)) => describe(ask, facts, node, name, &inside(DEVICES, name), vendor),
            Ok(None) => {}
            Err(gap) => open = open.or(Some(gap)),
        }
    }
    let members = Membership::known_unless(open, origin);
    facts.set_members(Subject::Gpu, node, members);
}

/// The vendor of a GPU; none of another function.
fn vendor(ask: &Ask<'_>, name: &str) -> Result<Option<u64>, Gap> {
    let dir = inside(DEVICES, name);
    let class = ask.parse(inside(&dir, "class"), super::whole_number);
    let class = class.map(is_gpu_class);
    if class.known() == Some(&false) {
        return Ok(None);
    }
    // Without its class a function may be anything that its vendor makes.
    let maker = maker(ask, &dir);
    let meant = maker.clone().map(|(_, meant)| meant);
    let is_gpu = Several::from_iter([class, meant]).all(|is| *is)?;
    Ok(maker.known().map(|(vendor, _)| *vendor).filter(|_| is_gpu))
}

fn describe(ask: &Ask<'_>, facts: &mut Facts, node: Id, name: &Arc<str>, dir: &str, vendor: u64) {
    let id = facts.instance(Subject::Gpu, node, name);
    let listed = Origin::Asked(Question::list(DEVICES));
    facts.set(id, gpu::PCI, Fact::Known(Arc::clone(name), listed));
    let device = ask.parse(inside(dir, "device"), super::whole_number);
    facts.set(
        id,
        gpu::ID,
        device.map(|device| format!("{vendor:04x}:{device:04x}").into()),
    );
    let driver = ask.link_name(inside(dir, "driver"));
    facts.set(id, gpu::DRIVER, driver.or_absent("none".into()));
    let physfn = ask.link_name(inside(dir, "physfn"));
    facts.set(id, gpu::VIRTUAL_FUNCTION, physfn.is_present());
    facts.set(id, gpu::NUMA_NODE, place::numa_node(ask, dir));
    facts.set(id, gpu::PATH, place::path(ask, dir));
    facts.set(id, gpu::ON_BUS, on_bus(ask, dir));
}

/// Whether the function's configuration space is more than ones: what answers for a function that is gone.
pub(super) fn on_bus(ask: &Ask<'_>, dir: &str) -> Fact<bool> {
    ask.bytes(Question::read(inside(dir, "config")))
        .and_then(|bytes| {
            super::pcie::config::answers(&bytes)
                .ok_or_else(|| format!("{} bytes of configuration space", bytes.len()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{known, run};

    fn function(name: &str, class: &str, vendor: &str, more: &[&str]) -> Vec<String> {
        let dir = inside(DEVICES, name);
        let mut lines = vec![
            format!(r#"{{"q":{{"read":"{dir}/class"}},"text":"{class}\n"}}"#),
            format!(r#"{{"q":{{"read":"{dir}/vendor"}},"text":"{vendor}\n"}}"#),
            format!(r#"{{"q":{{"read":"{dir}/device"}},"text":"0x2330\n"}}"#),
            format!(r#"{{"q":{{"list":"{dir}"}},"names":["class","config","numa_node"]}}"#),
            format!(r#"{{"q":{{"link":"{dir}/driver"}},"errno":"ENOENT"}}"#),
            format!(r#"{{"q":{{"link":"{dir}/physfn"}},"errno":"ENOENT"}}"#),
        ];
        lines.extend(
            more.iter()
                .map(|line| line.replace("DIR", &dir).to_string()),
        );
        lines
    }

    fn facts_of(functions: &[(&str, Vec<String>)]) -> (Facts, Id) {
        let names: Vec<String> = functions.iter().map(|(n, _)| format!("{n:?}")).collect();
        let mut lines = vec![format!(
            r#"{{"q":{{"list":"{DEVICES}"}},"names":[{}]}}"#,
            names.join(",")
        )];
        lines.extend(functions.iter().flat_map(|(_, lines)| lines.clone()));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        run(&PROBE, &lines)
    }

    #[test]
    fn gpus_and_not_consoles() {
        let place = [
            r#"{"q":{"read":"DIR/numa_node"},"text":"1\n"}"#,
            r#"{"q":{"link":"DIR"},"text":"../../../devices/pci0000:15/0000:15:01.0/0000:1a:00.0"}"#,
            r#"{"q":{"read":"DIR/config"},"hex":"de103023"}"#,
        ];
        let (facts, node) = facts_of(&[
            (
                "0000:1a:00.0",
                function("0000:1a:00.0", "0x030200", "0x10de", &place),
            ),
            // An ASPEED BMC, QEMU's display, an NVSwitch, a sound device of a GPU, an AMD Instinct accelerator.
            (
                "0000:02:00.0",
                function("0000:02:00.0", "0x030000", "0x1a03", &[]),
            ),
            (
                "0000:03:00.0",
                function("0000:03:00.0", "0x030000", "0x1af4", &[]),
            ),
            (
                "0000:04:00.0",
                function("0000:04:00.0", "0x068000", "0x10de", &[]),
            ),
            (
                "0000:05:00.1",
                function("0000:05:00.1", "0x040300", "0x10de", &[]),
            ),
            (
                "0000:06:00.0",
                function("0000:06:00.0", "0x120000", "0x1002", &[]),
            ),
            // Gaudi, and a processor's own graphics.
            (
                "0000:07:00.0",
                function("0000:07:00.0", "0x120000", "0x1da3", &[]),
            ),
            (
                "0000:00:02.0",
                function("0000:00:02.0", "0x038000", "0x8086", &[]),
            ),
        ]);
        assert!(facts.members(Subject::Gpu, node).is_ok());
        let names: Vec<&str> = facts.all(Subject::Gpu).map(|id| facts.name(id)).collect();
        assert_eq!(names, ["0000:1a:00.0", "0000:06:00.0", "0000:07:00.0"]);
        let gpu = "0000:1a:00.0";
        assert_eq!(
            known(&facts, Subject::Gpu, gpu, gpu::ID).as_deref(),
            Some("10de:2330")
        );
        assert_eq!(
            known(&facts, Subject::Gpu, gpu, gpu::DRIVER).as_deref(),
            Some("none")
        );
        assert_eq!(
            known(&facts, Subject::Gpu, gpu, gpu::VIRTUAL_FUNCTION),
            Some(false)
        );
        assert_eq!(known(&facts, Subject::Gpu, gpu, gpu::NUMA_NODE), Some(1));
        assert_eq!(known(&facts, Subject::Gpu, gpu, gpu::ON_BUS), Some(true));
        assert_eq!(
            known(&facts, Subject::Gpu, gpu, gpu::PATH).map(|p| p.join(" ")),
            Some("pci0000:15 0000:15:01.0 0000:1a:00.0".to_owned())
        );
        // Not in the recording: unknown, and no path is made up.
        assert_eq!(known(&facts, Subject::Gpu, "0000:06:00.0", gpu::PATH), None);
    }

    #[test]
    fn no_gpu_is_known_and_an_unread_class_is_not() {
        let (facts, node) = facts_of(&[(
            "0000:02:00.0",
            function("0000:02:00.0", "0x020000", "0x15b3", &[]),
        )]);
        assert!(facts.members(Subject::Gpu, node).is_ok());
        assert_eq!(facts.all(Subject::Gpu).count(), 0);

        let (facts, node) = run(
            &PROBE,
            &[&format!(
                r#"{{"q":{{"list":"{DEVICES}"}},"names":["0000:02:00.0"]}}"#
            )],
        );
        assert!(facts.members(Subject::Gpu, node).is_err());
    }
}
