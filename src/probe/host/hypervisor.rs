//! Whether the machine is a guest of a hypervisor: x86 CPUs say so themselves; elsewhere the firmware's tables do.

use std::sync::Arc;

use super::parse;
use crate::fact::{Fact, Gap, Presence, Why, known};
use crate::probe::Ask;

const DMI: &str = "/sys/class/dmi/id";
const DEVICE_TREE: &str = "/proc/device-tree";

/// From the list of the CPU's features by number, which is short, else from /proc/cpuinfo, else from the firmware.
pub(super) fn is_guest(ask: &Ask<'_>) -> Fact<bool> {
    match ask.text("/sys/devices/system/cpu/modalias") {
        Fact::Known(text, origin) if text.starts_with("cpu:type:x86") => {
            Fact::Known(text, origin).and_then(|text| parse::hypervisor_of_modalias(&text))
        }
        Fact::Known(..) => by_firmware(ask),
        Fact::Unknown(gap) if matches!(gap.why, Why::Refused(_)) => {
            match ask.parse("/proc/cpuinfo", parse::hypervisor_of_cpuinfo) {
                // It was read, and has no line of flags.
                Fact::Unknown(gap) if matches!(gap.why, Why::NotUnderstood(_)) => by_firmware(ask),
                fact => fact,
            }
        }
        Fact::Unknown(gap) => Fact::Unknown(gap),
    }
}

/// SMBIOS names the maker of the machine, a device tree has a node of the hypervisor's (as systemd-detect-virt(1) reads both).
fn by_firmware(ask: &Ask<'_>) -> Fact<bool> {
    let vendor = ask.text_if_any(format!("{DMI}/sys_vendor"));
    let gap = match vendor {
        Presence::Present(vendor, origin) => {
            let product = ask.text_if_any(format!("{DMI}/product_name"));
            let product = known!(product.or_absent("".into()));
            return Fact::Known(is_emulated(&vendor, &product), origin);
        }
        Presence::Absent(origin) => {
            Gap::misread("the firmware names no maker of the machine", origin)
        }
        Presence::Unknown(gap) => gap,
    };
    by_device_tree(ask, gap)
}

fn by_device_tree(ask: &Ask<'_>, gap: Gap) -> Fact<bool> {
    match ask.names(DEVICE_TREE) {
        Fact::Known(names, origin) => {
            let of_hypervisor = |name: &Arc<str>| {
                // QEMU hands its configuration to the guest by this device.
                &**name == "hypervisor" || name.starts_with("fw-cfg@")
            };
            Fact::Known(names.iter().any(of_hypervisor), origin)
        }
        Fact::Unknown(_) => Fact::Unknown(gap),
    }
}

/// Whether a maker and a product are those of a hypervisor. Amazon's machines without one end in `.metal`.
fn is_emulated(vendor: &str, product: &str) -> bool {
    const MAKERS: [&str; 11] = [
        "QEMU",
        "VMware",
        "innotek GmbH",
        "Xen",
        "Bochs",
        "Parallels",
        "BHYVE",
        "Apple Virtualization",
        "Google Compute Engine",
        "OpenStack",
        "KubeVirt",
    ];
    let named = |text: &str| MAKERS.iter().any(|maker| text.starts_with(maker));
    match vendor {
        "Amazon EC2" => !product.contains(".metal"),
        "Microsoft Corporation" => product == "Virtual Machine",
        _ => named(vendor) || named(product) || product.starts_with("KVM"),
    }
}

#[cfg(test)]
mod tests {
    use crate::fact::node;
    use crate::probe::host::PROBE;
    use crate::probe::testing::run;

    const ARM: &str = r#"{"q":{"read":"/sys/devices/system/cpu/modalias"},"text":"cpu:type:aarch64:feature:,0000,0001\n"}"#;

    fn guest(lines: &[&str]) -> Option<bool> {
        let (facts, id) = run(&PROBE, lines);
        facts.known(id, node::VIRTUAL)
    }

    fn made_by(vendor: &str, product: &str) -> Option<bool> {
        let line = |file: &str, text: &str| {
            format!(r#"{{"q":{{"read":"/sys/class/dmi/id/{file}"}},"text":"{text}\n"}}"#)
        };
        guest(&[
            ARM,
            &line("sys_vendor", vendor),
            &line("product_name", product),
        ])
    }

    #[test]
    fn an_arm_machine_by_its_maker() {
        assert_eq!(made_by("QEMU", "KVM Virtual Machine"), Some(true));
        assert_eq!(made_by("Amazon EC2", "c7gn.16xlarge"), Some(true));
        assert_eq!(made_by("Amazon EC2", "c7gn.metal"), Some(false));
        assert_eq!(
            made_by("Microsoft Corporation", "Virtual Machine"),
            Some(true)
        );
        assert_eq!(made_by("Supermicro", "ARS-111GL-NHR"), Some(false));
        assert_eq!(made_by("NVIDIA", "GH200 P4251"), Some(false));
    }

    #[test]
    fn an_arm_machine_by_its_device_tree() {
        let tree = |names: &str| {
            guest(&[
                ARM,
                r#"{"q":{"read":"/sys/class/dmi/id/sys_vendor"},"errno":"ENOENT"}"#,
                &format!(r#"{{"q":{{"list":"/proc/device-tree"}},"names":[{names}]}}"#),
            ])
        };
        assert_eq!(tree(r#""compatible","hypervisor""#), Some(true));
        assert_eq!(tree(r#""compatible","fw-cfg@9020000""#), Some(true));
        assert_eq!(tree(r#""compatible","cpus""#), Some(false));
        assert_eq!(guest(&[ARM]), None, "nothing says it");
    }
}
