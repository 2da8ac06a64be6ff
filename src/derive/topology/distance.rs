//! How far two PCI functions are from each other, by their paths from the host bridge down.

use std::sync::Arc;

use crate::fact::gpu_nic::Distance;
use crate::fact::{Fact, known};

/// A function's place: its path from the host bridge down to itself, and its NUMA node.
pub(super) struct PciLocation {
    /// The host bridge first, the function itself last.
    pub(super) path: Fact<Arc<[Arc<str>]>>,
    /// The NUMA node.
    pub(super) numa_node: Fact<u64>,
}

/// The distance of two functions; `numa_nodes` is how many NUMA nodes the machine has.
///
/// A switch shows as two bridges, its upstream port and the downstream port that leads on. Two
/// functions are on one switch (PIX) where both hang, by at most one bridge each, below the last
/// port that they share: what NCCL gets by going up two steps at a time (src/graph/xml.cc,
/// ncclTopoGetXmlFromSys), and nvidia-smi by counting bridges. Further apart below one root port it
/// is PXB.
pub(super) fn distance(a: &PciLocation, b: &PciLocation, numa_nodes: &Fact<u64>) -> Fact<Distance> {
    let (one, other) = (known!(&a.path), known!(&b.path));
    let shared = one.iter().zip(other.iter()).take_while(|(x, y)| x == y);
    let shared = shared.count();
    match shared {
        0 => across_host_bridges(a, b, numa_nodes),
        1 => Fact::derived(Distance::Phb, format!("both below host bridge {}", one[0])),
        _ => {
            let last = &one[shared - 1];
            let below = |path: &[Arc<str>]| path.len() - shared;
            if below(one) <= 2 && below(other) <= 2 {
                Fact::derived(Distance::Pix, format!("both on the switch below {last}"))
            } else {
                Fact::derived(
                    Distance::Pxb,
                    format!("both below {last}, by several switches"),
                )
            }
        }
    }
}

fn across_host_bridges(a: &PciLocation, b: &PciLocation, numa_nodes: &Fact<u64>) -> Fact<Distance> {
    match (&a.numa_node, &b.numa_node, numa_nodes) {
        (Fact::Known(one, _), Fact::Known(other, _), _) if one == other => Fact::derived(
            Distance::Node,
            format!("two host bridges of NUMA node {one}"),
        ),
        (Fact::Known(one, _), Fact::Known(other, _), _) => {
            Fact::derived(Distance::Sys, format!("NUMA nodes {one} and {other}"))
        }
        (_, _, Fact::Known(0 | 1, _)) => Fact::derived(
            Distance::Node,
            "two host bridges of a machine with one NUMA node",
        ),
        (_, _, Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
        (Fact::Unknown(gap), ..) | (_, Fact::Unknown(gap), _) => Fact::Unknown(gap.clone()),
    }
}

/// Switches of Broadcom (PEX88000, PEX890xx) that show as two levels, and that NCCL takes for one
/// (src/graph/topo.cc, ncclTopoFlattenBcmSwitches): to it what hangs on any inner level is equally
/// near.
const TWO_LEVELS: [&str; 2] = ["1000:c010", "1000:c030"];

/// Whether two functions that are PXB are on one such switch; `id` says a bridge's vendor and
/// device.
pub(super) fn on_one_broadcom_switch(
    a: &[Arc<str>],
    b: &[Arc<str>],
    id: impl Fn(&str) -> Fact<Arc<str>>,
) -> Fact<bool> {
    let shared = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    // Host bridge, root port, and then two ports for each level: the even places are upstream
    // ports.
    let top = shared.saturating_sub(1) & !1;
    let levels = |path: &[Arc<str>]| -> Vec<Arc<str>> {
        let below = (top + 2..path.len().saturating_sub(1)).step_by(2);
        below.filter_map(|at| path.get(at).cloned()).collect()
    };
    let (one, other) = (levels(a), levels(b));
    let Some(port) = a.get(top).filter(|_| top >= 2) else {
        return Fact::derived(false, "no switch above both");
    };
    if one.len() > 1 || other.len() > 1 {
        return Fact::derived(false, "several levels of switches");
    }
    let (kind, origin) = known!(id(port), with origin);
    if !TWO_LEVELS.contains(&&*kind) {
        return Fact::Known(false, origin);
    }
    for port in one.iter().chain(&other) {
        let (other, origin) = known!(id(port), with origin);
        if other != kind {
            return Fact::Known(false, origin);
        }
    }
    Fact::Known(true, origin)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::stated;
    use super::*;
    use crate::fact::Gap;

    fn place(path: &str, numa_node: Option<u64>) -> PciLocation {
        let parts: Vec<Arc<str>> = path.split('/').map(Arc::from).collect();
        PciLocation {
            path: stated(parts.into()),
            numa_node: match numa_node {
                Some(n) => stated(n),
                None => Fact::Unknown(Gap::missing("numa_node")),
            },
        }
    }

    fn of(a: (&str, Option<u64>), b: (&str, Option<u64>), numa_nodes: u64) -> Option<Distance> {
        let (a, b) = (place(a.0, a.1), place(b.0, b.1));
        let there = distance(&a, &b, &stated(numa_nodes)).known().copied();
        let back = distance(&b, &a, &stated(numa_nodes)).known().copied();
        assert_eq!(there, back);
        there
    }

    /// Paths of an NVIDIA DGX A100: three levels of switches. `nvidia-smi topo -m` says PXB for
    /// each GPU and both NICs of its root port.
    #[test]
    fn dgx_a100() {
        let root = "pci0000:00/0000:00:01.1/0000:01:00.0";
        let gpu = format!(
            "{root}/0000:02:00.0/0000:03:00.0/0000:04:00.0/0000:05:00.0/0000:06:00.0/0000:07:00.0"
        );
        let other = format!(
            "{root}/0000:02:04.0/0000:0a:00.0/0000:0b:10.0/0000:0d:00.0/0000:0e:00.0/0000:0f:00.0"
        );
        let nic = format!("{root}/0000:02:04.0/0000:0a:00.0/0000:0b:00.0/0000:0c:00.0");
        let second = format!("{root}/0000:02:08.0/0000:10:00.0/0000:11:10.0/0000:12:00.0");
        let far = "pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:04.0/0000:49:00.0/0000:4a:00.0/0000:4b:00.0";
        for (a, b) in [
            (&gpu, &nic),
            (&gpu, &second),
            (&other, &nic),
            (&other, &second),
            (&nic, &second),
            (&gpu, &other),
        ] {
            assert_eq!(of((a, None), (b, None), 2), Some(Distance::Pxb), "{a} {b}");
        }
        assert_eq!(of((&gpu, Some(3)), (far, Some(3)), 8), Some(Distance::Node));
        assert_eq!(of((&gpu, Some(3)), (far, Some(1)), 8), Some(Distance::Sys));
        // Nobody knows which NUMA nodes: within one host bridge it does not matter, between two it
        // does.
        assert_eq!(of((&gpu, None), (far, Some(1)), 8), None);
        assert_eq!(of((&gpu, None), (far, None), 1), Some(Distance::Node));
    }

    #[test]
    fn one_switch_is_pix_and_two_levels_are_pxb() {
        // NVIDIA DGX-1: root port, upstream port, one downstream port for each function.
        let gpu = "pci0000:00/0000:00:02.0/0000:04:00.0/0000:05:08.0/0000:06:00.0";
        let nic = "pci0000:00/0000:00:02.0/0000:04:00.0/0000:05:0c.0/0000:07:00.0";
        assert_eq!(of((gpu, None), (nic, None), 2), Some(Distance::Pix));
        // Broadcom PEX890xx: a switch that shows as two levels (each GPU and NIC of the tree below
        // has its own inner switch).
        let gpu = "pci0000:08/0000:08:01.0/0000:09:00.0/0000:0a:01.0/0000:0d:00.0/0000:0e:00.0/0000:0f:00.0";
        let nic = "pci0000:08/0000:08:01.0/0000:09:00.0/0000:0a:00.0/0000:0b:00.0/0000:0c:00.0/0000:0d:00.0";
        assert_eq!(of((gpu, None), (nic, None), 2), Some(Distance::Pxb));
        // Two ports of one adapter.
        let port = |n| format!("pci0000:00/0000:00:02.0/0000:04:00.0/0000:05:0c.0/0000:07:00.{n}");
        assert_eq!(
            of((&port(0), None), (&port(1), None), 2),
            Some(Distance::Pix)
        );
        // A virtual function sits beside its physical one.
        let vf = "pci0000:00/0000:00:02.0/0000:04:00.0/0000:05:0c.0/0000:07:01.2";
        assert_eq!(
            of((gpu_on_switch(), None), (vf, None), 2),
            Some(Distance::Pix)
        );
    }

    fn gpu_on_switch() -> &'static str {
        "pci0000:00/0000:00:02.0/0000:04:00.0/0000:05:08.0/0000:06:00.0"
    }

    #[test]
    fn host_bridges() {
        // Each behind its own root port.
        let a = "pci0000:00/0000:00:01.0/0000:01:00.0";
        let b = "pci0000:00/0000:00:03.0/0000:02:00.0";
        assert_eq!(of((a, None), (b, None), 2), Some(Distance::Phb));
        // Directly on the root bus of a virtual machine.
        let a = "pci0000:00/0000:00:05.0";
        let b = "pci0000:00/0000:00:06.0";
        assert_eq!(of((a, None), (b, None), 1), Some(Distance::Phb));
        // Hyper-V gives each function a domain of its own.
        let a = ("pci0001:00/0001:00:00.0", Some(0));
        let b = ("pci0101:00/0101:00:00.0", Some(0));
        assert_eq!(of(a, b, 2), Some(Distance::Node));
    }

    #[test]
    fn a_path_that_nobody_knows_leaves_it_open() {
        let a = place("pci0000:00/0000:00:05.0", Some(0));
        let b = PciLocation {
            path: Fact::Unknown(Gap::missing("function.path")),
            numa_node: stated(0),
        };
        let known = distance(&a, &b, &stated(1));
        assert_eq!(
            known.as_result().unwrap_err().why.to_string(),
            "function.path is unknown"
        );
    }

    #[test]
    fn nccls_one_switch_of_two_levels() {
        let parts = |text: &str| -> Vec<Arc<str>> { text.split('/').map(Arc::from).collect() };
        // As in the tree of an HGX H100: an inner level for each GPU and for each adapter.
        let gpu = parts(
            "pci0000:07/0000:07:01.0/0000:08:00.0/0000:09:00.0/0000:0d:00.0/0000:0e:00.0/0000:0f:00.0",
        );
        let nic = parts(
            "pci0000:07/0000:07:01.0/0000:08:00.0/0000:09:01.0/0000:0a:00.0/0000:0b:00.0/0000:0c:00.0",
        );
        let outer = parts("pci0000:07/0000:07:01.0/0000:08:00.0/0000:09:02.0/0000:10:00.0");
        let deeper = parts(
            "pci0000:07/0000:07:01.0/0000:08:00.0/0000:09:01.0/0000:0a:00.0/0000:0b:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0",
        );
        let all = |kind: &'static str| move |_: &str| stated(Arc::from(kind));
        let known = |fact: Fact<bool>| fact.known().copied();
        assert_eq!(
            known(on_one_broadcom_switch(&gpu, &nic, all("1000:c030"))),
            Some(true)
        );
        assert_eq!(
            known(on_one_broadcom_switch(&gpu, &outer, all("1000:c010"))),
            Some(true)
        );
        assert_eq!(
            known(on_one_broadcom_switch(&gpu, &deeper, all("1000:c030"))),
            Some(false)
        );
        assert_eq!(
            known(on_one_broadcom_switch(&gpu, &nic, all("11f8:4000"))),
            Some(false)
        );
        let mixed = |port: &str| {
            stated(Arc::from(if port == "0000:0a:00.0" {
                "10b5:8749"
            } else {
                "1000:c030"
            }))
        };
        assert_eq!(
            known(on_one_broadcom_switch(&gpu, &nic, mixed)),
            Some(false)
        );
        let gap = |_: &str| Fact::Unknown(Gap::missing("bridge.id"));
        assert_eq!(known(on_one_broadcom_switch(&gpu, &nic, gap)), None);
        let root = parts("pci0000:07/0000:07:02.0/0000:20:00.0");
        assert_eq!(
            known(on_one_broadcom_switch(&gpu, &root, all("1000:c030"))),
            Some(false)
        );
    }
}
