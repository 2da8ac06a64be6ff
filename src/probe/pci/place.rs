//! Where a PCI function is in the machine: its way up to the host bridge, and its NUMA node. For every probe that asks about functions.

use std::sync::Arc;

use crate::fact::{Fact, Why};
use crate::probe::Ask;
use crate::source::Question;

/// The functions from the host bridge down to the function in `dir`, as the link in /sys/bus/pci/devices has them.
///
/// Source: <https://docs.kernel.org/PCI/sysfs-pci.html>. Unknown where `dir` is no link, as in a copied tree of plain directories.
pub fn path(ask: &Ask<'_>, dir: &str) -> Fact<Arc<[Arc<str>]>> {
    let name = dir.rsplit('/').next().unwrap_or(dir);
    ask.text_of(Question::link(dir))
        .and_then(|target| path_of_link(&target, name))
}

/// Reads `../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0` as the host bridge and the functions below it.
///
/// What is above the host bridge (ACPI, platform and VMBus devices) is no part of it. A host bridge that is itself inside a
/// function (Intel VMD, a domain beyond `ffff`) begins a path of its own: no PCIe link leads from the one to the other.
pub fn path_of_link(target: &str, name: &str) -> Result<Arc<[Arc<str>]>, String> {
    let mut path: Vec<Arc<str>> = Vec::new();
    for part in target.split('/') {
        if is_host_bridge(part) {
            path.clear();
            path.push(part.into());
        } else if is_function(part) && !path.is_empty() {
            path.push(part.into());
        }
    }
    match path.last() {
        Some(last) if path.len() > 1 && **last == *name => Ok(path.into()),
        _ => Err(format!(
            "{:?} is not a path from a host bridge to {name}",
            target.chars().take(200).collect::<String>()
        )),
    }
}

/// `pci0000:00`: a host bridge, by domain and bus.
fn is_host_bridge(part: &str) -> bool {
    part.strip_prefix("pci")
        .and_then(|rest| rest.split_once(':'))
        .is_some_and(|(domain, bus)| is_hex(domain, 4, 8) && is_hex(bus, 2, 2))
}

/// `0000:01:00.0`: a function, by domain, bus, device and function.
pub fn is_function(part: &str) -> bool {
    let mut fields = part.split(':');
    let (Some(domain), Some(bus), Some(rest), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return false;
    };
    is_hex(domain, 4, 8)
        && is_hex(bus, 2, 2)
        && rest
            .split_once('.')
            .is_some_and(|(device, function)| is_hex(device, 2, 2) && is_hex(function, 1, 1))
}

fn is_hex(text: &str, least: usize, most: usize) -> bool {
    (least..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The NUMA node of the function in `dir`; unknown if the kernel says -1, or has no such file.
pub fn numa_node(ask: &Ask<'_>, dir: &str) -> Fact<u64> {
    // A kernel without CONFIG_NUMA has no such file.
    ask.text_if_any(format!("{dir}/numa_node"))
        .or_gap(Why::NotUnderstood("there is no such file".into()))
        .and_then(|text| match text.trim() {
            "-1" => Err("-1: not known".to_owned()),
            number => crate::probe::whole_number(number),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_real_machines() {
        for (target, name, expected) in [
            (
                "../../../devices/pci0000:00/0000:00:02.1/0000:01:00.0",
                "0000:01:00.0",
                "pci0000:00 0000:00:02.1 0000:01:00.0",
            ),
            (
                "../../../devices/pci0000:a2/0000:a2:00.0",
                "0000:a2:00.0",
                "pci0000:a2 0000:a2:00.0",
            ),
            // Hyper-V hands each device a domain of its own, below VMBus.
            (
                "../../../devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001-0000-3130-444531454238/pci0001:00/0001:00:00.0",
                "0001:00:00.0",
                "pci0001:00 0001:00:00.0",
            ),
            // Intel VMD: a host bridge inside a function, with a domain of five digits.
            (
                "../../../devices/pci0000:64/0000:64:05.5/pci10000:00/10000:00:02.0/10000:01:00.0",
                "10000:01:00.0",
                "pci10000:00 10000:00:02.0 10000:01:00.0",
            ),
            (
                "../../../devices/platform/soc@0/1c00000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0",
                "0000:01:00.0",
                "pci0000:00 0000:00:00.0 0000:01:00.0",
            ),
            (
                "/sys/devices/pci-0/pci0009:00/0009:00:00.0/0009:01:00.0",
                "0009:01:00.0",
                "pci0009:00 0009:00:00.0 0009:01:00.0",
            ),
        ] {
            let path = path_of_link(target, name).unwrap();
            assert_eq!(path.join(" "), expected);
        }
    }

    #[test]
    fn what_is_no_path_is_none() {
        for (target, name) in [
            ("", "0000:01:00.0"),
            (
                "../../../devices/pci0000:00/0000:00:01.0/0000:02:00.0",
                "0000:01:00.0",
            ),
            ("../../../devices/virtual/0000:01:00.0", "0000:01:00.0"),
            ("../../../devices/pci0000:00", "pci0000:00"),
            ("pci000g:00/0000:00:01.0", "0000:00:01.0"),
        ] {
            assert!(path_of_link(target, name).is_err(), "{target}");
        }
        assert!(!is_function("0000:00:02.1:pcie010"));
        assert!(!is_function("0000:00:02"));
    }
}
