//! The IOMMU's mode: IOMMU groups and their types, the kernel's command line.
//!
//! Source: <https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-kernel-iommu_groups>.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fact::node::{CpuVendor, Iommu};
use crate::fact::{Fact, Gap, Origin, Presence};
use crate::probe::{Ask, joined};
use crate::small_sort;

const GROUPS: &str = "/sys/kernel/iommu_groups";

/// Groups whose types stand for those of all, where no GPU and no adapter has one.
const SAMPLE: usize = 8;

/// The groups of the machine.
pub(super) struct Groups {
    listed: Fact<Arc<[Arc<str>]>>,
    /// The kernel's command line, for kernels that do not show the type of a group.
    passthrough: Fact<bool>,
    types: BTreeMap<Arc<str>, Fact<Iommu>>,
}

impl Groups {
    /// Lists them. `cmdline` is the kernel's command line.
    pub(super) fn ask(ask: &Ask<'_>, cmdline: &Fact<Arc<str>>) -> Self {
        let listed = match ask.names_if_any(GROUPS) {
            Presence::Present(names, origin) => Fact::Known(names, origin),
            // A kernel without CONFIG_IOMMU_API has no such directory.
            Presence::Absent(origin) => Fact::Known(Arc::default(), origin),
            Presence::Unknown(gap) => without_tables(ask)
                .ok_or(gap)
                .map_or_else(Fact::Unknown, |origin| Fact::Known(Arc::default(), origin)),
        };
        Groups {
            listed,
            passthrough: cmdline.clone().map(|text| is_passthrough(&text)),
            types: BTreeMap::new(),
        }
    }

    /// Its translation for the function in `dir`.
    pub(super) fn mode_of_function(&mut self, ask: &Ask<'_>, dir: &str) -> Fact<Iommu> {
        match &self.listed {
            Fact::Known(names, origin) if names.is_empty() => {
                return Fact::Known(Iommu::Off, origin.clone());
            }
            Fact::Known(..) => {}
            Fact::Unknown(gap) => return Fact::Unknown(gap.clone()),
        }
        match ask.link_name(format!("{dir}/iommu_group")) {
            Presence::Present(group, _) => self.kind(ask, group),
            // What is in no group is behind no IOMMU.
            Presence::Absent(origin) => Fact::Known(Iommu::Off, origin),
            Presence::Unknown(gap) => Fact::Unknown(gap),
        }
    }

    fn kind(&mut self, ask: &Ask<'_>, group: Arc<str>) -> Fact<Iommu> {
        if let Some(known) = self.types.get(&group) {
            return known.clone();
        }
        let kind = match ask.text_if_any(format!("{GROUPS}/{group}/type")) {
            Presence::Present(text, origin) => {
                Fact::Known(text, origin).and_then(|text| group_type(&text))
            }
            // Kernels before 4.12 show no type: the command line decides.
            Presence::Absent(origin) => match &self.passthrough {
                Fact::Known(true, origin) => Fact::Known(Iommu::Identity, origin.clone()),
                Fact::Known(false, _) => Fact::Unknown(Gap::not_said(
                    "the kernel does not show the type of a group",
                    origin,
                )),
                Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
            },
            Presence::Unknown(gap) => Fact::Unknown(gap),
        };
        self.types.insert(group, kind.clone());
        kind
    }

    /// Its translation for these functions; if there are none, for the first groups.
    pub(super) fn mode_of_node(&mut self, ask: &Ask<'_>, functions: &[Fact<Iommu>]) -> Fact<Iommu> {
        let (names, origin) = match &self.listed {
            Fact::Known(names, origin) => (Arc::clone(names), origin.clone()),
            Fact::Unknown(gap) => return Fact::Unknown(gap.clone()),
        };
        if names.is_empty() {
            return Fact::Known(Iommu::Off, origin);
        }
        if !functions.is_empty() {
            return together(functions, &origin);
        }
        let mut names = names.to_vec();
        small_sort::by_key(&mut names, |name| (name.len(), Arc::clone(name)));
        let first: Vec<Fact<Iommu>> = names
            .into_iter()
            .take(SAMPLE)
            .map(|group| self.kind(ask, group))
            .collect();
        together(&first, &origin)
    }
}

/// Where the firmware's tables say that there is no IOMMU at all: neither Intel's (DMAR), AMD's (IVRS), ARM's (IORT) nor a virtual
/// one (VIOT) among them, though there are tables.
fn without_tables(ask: &Ask<'_>) -> Option<Origin> {
    match ask.names("/sys/firmware/acpi/tables") {
        Fact::Known(names, origin) => {
            let has = |wanted: &str| names.iter().any(|name| name.starts_with(wanted));
            let none = !["DMAR", "IVRS", "IORT", "VIOT"].into_iter().any(has);
            (has("FACP") && none).then_some(origin)
        }
        Fact::Unknown(_) => None,
    }
}

/// One word for several: mixed as soon as two differ.
fn together(all: &[Fact<Iommu>], origin: &Origin) -> Fact<Iommu> {
    let known: Vec<Iommu> = all.iter().filter_map(|f| f.known().copied()).collect();
    let translates = known.contains(&Iommu::Translating);
    if translates && known.iter().any(|k| *k != Iommu::Translating) {
        return Fact::Known(Iommu::Mixed, origin.clone());
    }
    if let Some(gap) = all.iter().find_map(|f| f.as_result().err()) {
        return Fact::Unknown(gap.clone());
    }
    // Without an IOMMU or past it, addresses stay as they are: the two together are no mixture.
    let word = match translates {
        true => Iommu::Translating,
        false if known.contains(&Iommu::Identity) => Iommu::Identity,
        false => Iommu::Off,
    };
    Fact::Known(word, origin.clone())
}

/// The type of a group's default domain.
fn group_type(text: &str) -> Result<Iommu, String> {
    match text.trim() {
        "identity" => Ok(Iommu::Identity),
        "DMA" | "DMA-FQ" => Ok(Iommu::Translating),
        other => Err(crate::probe::is_not(other, "an IOMMU group type")),
    }
}

/// Whether passthrough is set: `iommu=pt`, `iommu.passthrough=1`.
fn is_passthrough(cmdline: &str) -> bool {
    cmdline
        .split_whitespace()
        .any(|word| matches!(word, "iommu=pt" | "iommu.passthrough=1"))
}

/// The IOMMU's options on the kernel's command line.
pub(super) fn parameters(cmdline: &str) -> Arc<str> {
    let said: Vec<&str> = cmdline
        .split_whitespace()
        .filter(|word| {
            let name = word.split('=').next().unwrap_or(word);
            matches!(
                name,
                "iommu"
                    | "intel_iommu"
                    | "amd_iommu"
                    | "iommu.passthrough"
                    | "iommu.strict"
                    | "arm-smmu.disable_bypass"
                    | "pcie_acs_override"
                    | "pci"
            ) && (name != "pci" || word.contains("acs"))
        })
        .collect();
    joined(&said, " ")
}

/// The CPU's vendor: `cpu:type:x86,ven0002fam…` with the kernel's numbers (arch/x86/include/asm/processor.h), `cpu:type:aarch64:…`.
pub(super) fn cpu_vendor(modalias: &str) -> Result<CpuVendor, String> {
    let kind = modalias
        .trim()
        .strip_prefix("cpu:type:")
        .ok_or_else(|| "no modalias of a CPU".to_owned())?;
    Ok(match kind.split([',', ':']).next() {
        Some("aarch64") => CpuVendor::Arm,
        Some("x86") if kind.starts_with("x86,ven0000") => CpuVendor::Intel,
        Some("x86") if kind.starts_with("x86,ven0002") => CpuVendor::Amd,
        _ => CpuVendor::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_by_modalias() {
        for (text, vendor) in [
            (
                "cpu:type:x86,ven0002fam0019mod0001:feature:,0000",
                CpuVendor::Amd,
            ),
            (
                "cpu:type:x86,ven0000fam0006mod008F:feature:,0000",
                CpuVendor::Intel,
            ),
            (
                "cpu:type:x86,ven0009fam0018mod0000:feature:,0000",
                CpuVendor::Other,
            ),
            ("cpu:type:aarch64:feature:,0000,0001", CpuVendor::Arm),
            ("cpu:type:ppc64le:feature:,0000", CpuVendor::Other),
        ] {
            assert_eq!(cpu_vendor(text), Ok(vendor));
        }
        assert!(cpu_vendor("").is_err());
    }

    #[test]
    fn what_the_kernel_was_told() {
        assert_eq!(
            &*parameters(
                "BOOT_IMAGE=/vmlinuz root=UUID=1 intel_iommu=on iommu=pt quiet pci=realloc=off"
            ),
            "intel_iommu=on iommu=pt"
        );
        assert_eq!(&*parameters("quiet splash"), "none");
        assert!(is_passthrough("a iommu=pt b"));
        assert!(!is_passthrough("iommu=pt3 intel_iommu=on"));
    }

    #[test]
    fn several_in_one_word() {
        let fact = |word| Fact::Known(word, Origin::Stated);
        let gap = || Fact::Unknown(Gap::missing("x"));
        let all = |facts: &[Fact<Iommu>]| together(facts, &Origin::Stated).known().copied();
        assert_eq!(
            all(&[fact(Iommu::Identity), fact(Iommu::Off)]),
            Some(Iommu::Identity)
        );
        assert_eq!(
            all(&[fact(Iommu::Translating), fact(Iommu::Identity), gap()]),
            Some(Iommu::Mixed)
        );
        assert_eq!(all(&[fact(Iommu::Translating), gap()]), None);
        assert_eq!(all(&[fact(Iommu::Translating)]), Some(Iommu::Translating));
        assert!(group_type("blocked").is_err());
        assert_eq!(group_type("DMA-FQ\n"), Ok(Iommu::Translating));
    }
}
