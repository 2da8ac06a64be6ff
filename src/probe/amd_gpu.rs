//! What the kernel's amdgpu says of AMD's GPUs without a library: errors of memory and logic (RAS), temperatures and power (hwmon), whether programs can
//! compute on them, and their xGMI links (KFD).
//!
//! Modelled on the kernel's documentation (gpu/amdgpu/ras) and on kfd_topology.c; not seen on hardware. The file `xgmi_error` is not read: reading it
//! clears what it says.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pci::DEVICES;
use super::{Ask, Probe, inside};
use crate::fact::kleene::Several;
use crate::fact::{Fact, Facts, Id, Origin, Presence, Subject, gpu};

/// The probe.
pub const PROBE: Probe = Probe::new("amd_gpu", run);

/// The functions that the driver has, and files of its own.
const DRIVER: &str = "/sys/bus/pci/drivers/amdgpu";
const KFD: &str = "/sys/class/kfd/kfd/topology/nodes";

/// The xGMI links of each GPU on which programs can compute, by its PCI address.
type ComputeGpus = BTreeMap<String, Fact<u64>>;

fn run(ask: &Ask<'_>, facts: &mut Facts, own: Id) {
    let Presence::Present(names, _) = ask.names_if_any(DRIVER) else {
        return;
    };
    let compute = compute_gpus(ask);
    let gpus: Vec<&Arc<str>> = names.iter().filter(|name| name.contains(':')).collect();
    // Of each GPU its device id, and its links if the KFD lists it.
    let each: Vec<Fact<(u64, Option<Fact<u64>>)>> = gpus
        .iter()
        .map(|name| {
            let device = ask.parse(format!("{DEVICES}/{name}/device"), super::whole_number);
            let links = compute
                .clone()
                .map(|compute| compute.get(&***name).cloned());
            device.zip(links)
        })
        .collect();
    for (name, of_own) in gpus.into_iter().zip(&each) {
        let id = facts.instance(Subject::Gpu, own, name);
        let in_kfd = compute.clone().map(|compute| compute.contains_key(&**name));
        facts.set(id, gpu::IN_KFD, in_kfd);
        // What a board's graphics is for is no measure of what computes.
        let equals = of_own.clone().flat_map(|(model, _)| {
            let all: Several<(u64, Option<Fact<u64>>)> = each.iter().cloned().collect();
            let count = all.count(|(other, links)| *other == model && links.is_some());
            Fact::of(count, "the GPUs of amdgpu")
        });
        facts.set(id, gpu::EQUALS_IN_KFD, equals);
        if let Fact::Known((model, Some(links)), _) = of_own {
            let of_equals = each.iter().filter_map(|of| match of {
                Fact::Known((other, links), _) => links.clone().filter(|_| other == model),
                Fact::Unknown(gap) => Some(Fact::Unknown(gap.clone())),
            });
            let of_equals: Several<u64> = of_equals.collect();
            let least = of_equals.answered().iter().copied().max().unwrap_or(0);
            let most = Fact::of(
                of_equals.max().map(Option::unwrap_or_default),
                "the GPUs of amdgpu",
            );
            facts.set(id, gpu::XGMI_LINKS, links.clone());
            facts.set_at_least(id, gpu::EQUALS_XGMI_LINKS, most, least);
        }
        // A driver without RAS for this GPU has no such directory.
        let ras = format!("{DEVICES}/{name}/ras");
        if let Presence::Present(files, _) = ask.names_if_any(&*ras) {
            errors(ask, facts, id, &ras, &files);
        }
        let hwmon = format!("{DEVICES}/{name}/hwmon");
        if let Presence::Present(names, _) = ask.names_if_any(&*hwmon)
            && let Some(name) = names.iter().find(|name| name.starts_with("hwmon"))
        {
            sensors(ask, facts, id, &inside(&hwmon, name));
        }
    }
}

/// Temperatures in thousandths of a degree, and power in millionths of a watt: sensor 2 is at the junction, 3 in the memory. A limit of 0 is none.
fn sensors(ask: &Ask<'_>, facts: &mut Facts, id: Id, dir: &str) {
    let of = |file: &str, parts: u64| {
        let value = ask.parse(inside(dir, file), super::whole_number);
        value.map(|value| value.saturating_add(parts / 2) / parts)
    };
    let limit = |file: &str, parts: u64| {
        of(file, parts).and_then(|limit| match limit {
            0 => Err("the limit is 0".to_owned()),
            limit => Ok(limit),
        })
    };
    let (degrees, watts) = (1000, 1_000_000);
    let (now, slows) = (of("temp2_input", degrees), limit("temp2_crit", degrees));
    let margin = slows.clone().zip(now.clone());
    let margin = margin.map(|(slows, now)| slows.saturating_sub(now));
    // Later GPUs measure power at once, earlier ones over a second.
    let power = of("power1_average", watts).or_else(|| of("power1_input", watts));
    for (key, value) in [
        (gpu::TEMPERATURE, now),
        (gpu::SLOWDOWN_TEMPERATURE, slows),
        (gpu::THERMAL_MARGIN, margin),
        (gpu::SHUTDOWN_TEMPERATURE, limit("temp2_emergency", degrees)),
        (gpu::MEMORY_TEMPERATURE, of("temp3_input", degrees)),
        (gpu::MAX_MEMORY_TEMPERATURE, limit("temp3_crit", degrees)),
        (gpu::POWER, power),
        (gpu::POWER_LIMIT, limit("power1_cap", watts)),
        (gpu::DEFAULT_POWER_LIMIT, limit("power1_cap_default", watts)),
    ] {
        facts.set(id, key, value);
    }
}

/// Sums the counts of the GPU's blocks.
fn errors(ask: &Ask<'_>, facts: &mut Facts, id: Id, dir: &str, files: &[Arc<str>]) {
    let counted = files.iter().filter(|file| file.ends_with("_err_count"));
    let blocks: Vec<(Arc<str>, Fact<u64>)> = counted
        .map(|file| {
            let block = file.trim_end_matches("_err_count").into();
            (block, ask.parse(inside(dir, file), uncorrected))
        })
        .collect();
    let several: Several<u64> = blocks.iter().map(|(_, count)| count.clone()).collect();
    let least = several.answered().iter().sum();
    let sum = several.known().map(|_| least);
    let how = || Origin::derived("the files of the directory ras");
    let sum = Fact::from_result(sum, &how());
    facts.set_at_least(id, gpu::RAS_UNCORRECTED, sum, least);
    let failed = blocks.iter().filter_map(|(block, count)| {
        let count = count.known().filter(|count| **count > 0)?;
        Some(format!("{block} {count}").into())
    });
    let failed: Arc<[Arc<str>]> = failed.collect();
    facts.know(id, gpu::RAS_BLOCKS, failed, &how());
}

/// What a block has counted since the driver was loaded: `ue: 0`, `ce: 12`, a line each; newer kernels add `de: 0`.
fn uncorrected(text: &str) -> Result<u64, String> {
    let count = text.lines().find_map(|line| line.strip_prefix("ue:"));
    let count = count.ok_or_else(|| format!("{text:?} has no line ue:"))?;
    let number = count.trim().parse();
    number.map_err(|_| format!("{count:?} is no number"))
}

/// The GPUs on which programs can compute. A GPU that is partitioned has a node for each part: its links are those of the part that has most.
fn compute_gpus(ask: &Ask<'_>) -> Fact<ComputeGpus> {
    let names = ask.names_if_any(KFD).or_absent(Arc::default());
    names.flat_map(|names| {
        let nodes = names.iter().map(|name| {
            let dir = format!("{KFD}/{name}");
            let place = ask.parse(inside(&dir, "properties"), place);
            place
                .map(|place| place.map(|place| (place, xgmi_links(ask, &inside(&dir, "io_links")))))
        });
        let nodes: Several<Option<(String, Fact<u64>)>> = nodes.collect();
        let known = nodes.known().map(|all| {
            let mut gpus = ComputeGpus::new();
            for (place, links) in all.iter().flatten() {
                let most = match gpus.remove(place) {
                    Some(other) => other.zip(links.clone()).map(|(a, b)| a.max(b)),
                    None => links.clone(),
                };
                gpus.insert(place.clone(), most);
            }
            gpus
        });
        Fact::of(known, "the nodes of the KFD")
    })
}

/// How many of a node's links are xGMI: `HSA_IOLINK_TYPE_XGMI` of the kernel's kfd_crat.h.
fn xgmi_links(ask: &Ask<'_>, dir: &str) -> Fact<u64> {
    const XGMI: u64 = 11;
    let links = ask.names_if_any(dir).or_absent(Arc::default());
    links.flat_map(|links| {
        let types = links.iter().map(|link| {
            ask.parse(inside(&inside(dir, link), "properties"), |text| {
                number(text, "type ")
            })
        });
        let types: Several<u64> = types.collect();
        let count = types.count(|kind| *kind == XGMI);
        Fact::of(count, "the links of the KFD's nodes")
    })
}

/// The number of a line `name 11`.
fn number(text: &str, name: &str) -> Result<u64, String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|rest| rest.trim().parse().ok());
    value.ok_or_else(|| format!("no number {name}"))
}

/// The PCI address of a node of the KFD; none of a processor. Bits 28 to 31 of the place are the number of a partition.
fn place(text: &str) -> Result<Option<String>, String> {
    if number(text, "simd_count ")? == 0 {
        return Ok(None);
    }
    let (domain, place) = (number(text, "domain ")?, number(text, "location_id ")?);
    let (bus, device, function) = (place >> 8 & 0xff, place >> 3 & 0x1f, place & 7);
    Ok(Some(format!(
        "{domain:04x}:{bus:02x}:{device:02x}.{function}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{known, run};

    const GPUS: &[&str] = &[
        r#"{"q":{"list":"/sys/bus/pci/drivers/amdgpu"},"names":["0000:06:00.0","0000:26:00.0","0000:c5:00.0","bind","module","uevent"]}"#,
        r#"{"q":{"read":"/sys/bus/pci/devices/0000:06:00.0/device"},"text":"0x74a1\n"}"#,
        r#"{"q":{"read":"/sys/bus/pci/devices/0000:26:00.0/device"},"text":"0x74a1\n"}"#,
        r#"{"q":{"read":"/sys/bus/pci/devices/0000:c5:00.0/device"},"text":"0x164e\n"}"#,
        r#"{"q":{"list":"/sys/bus/pci/devices/0000:06:00.0/ras"},"names":["features","umc_err_count","gfx_err_count"]}"#,
        r#"{"q":{"list":"/sys/bus/pci/devices/0000:26:00.0/ras"},"errno":"ENOENT"}"#,
        r#"{"q":{"list":"/sys/bus/pci/devices/0000:26:00.0"},"names":["class"]}"#,
        r#"{"q":{"read":"/sys/bus/pci/devices/0000:06:00.0/ras/umc_err_count"},"text":"ue: 2\nce: 7\nde: 0\n"}"#,
        r#"{"q":{"list":"/sys/class/kfd/kfd/topology/nodes"},"names":["0","1"]}"#,
        r#"{"q":{"read":"/sys/class/kfd/kfd/topology/nodes/0/properties"},"text":"cpu_cores_count 96\nsimd_count 0\nlocation_id 0\ndomain 0\n"}"#,
        r#"{"q":{"read":"/sys/class/kfd/kfd/topology/nodes/1/properties"},"text":"cpu_cores_count 0\nsimd_count 1216\nlocation_id 1536\ndomain 0\n"}"#,
    ];

    #[test]
    fn errors_are_counted_and_who_cannot_compute_is_known() {
        let more = r#"{"q":{"read":"/sys/bus/pci/devices/0000:06:00.0/ras/gfx_err_count"},"text":"ue: 1\nce: 0\n"}"#;
        let lines: Vec<&str> = GPUS.iter().copied().chain([more]).collect();
        let (facts, _) = run(&PROBE, &lines);
        let first = "0000:06:00.0";
        assert_eq!(
            known(&facts, Subject::Gpu, first, gpu::RAS_UNCORRECTED),
            Some(3)
        );
        let blocks = known(&facts, Subject::Gpu, first, gpu::RAS_BLOCKS);
        assert_eq!(
            blocks.map(|all| all.join(", ")).as_deref(),
            Some("umc 2, gfx 1")
        );
        assert_eq!(known(&facts, Subject::Gpu, first, gpu::IN_KFD), Some(true));
        let second = "0000:26:00.0";
        assert_eq!(
            known(&facts, Subject::Gpu, second, gpu::IN_KFD),
            Some(false)
        );
        assert_eq!(
            known(&facts, Subject::Gpu, second, gpu::RAS_UNCORRECTED),
            None
        );
    }

    #[test]
    fn graphics_beside_gpus_that_compute_have_no_equal_in_the_kfd() {
        let (facts, _) = run(&PROBE, GPUS);
        let of = |name| {
            let in_kfd = known(&facts, Subject::Gpu, name, gpu::IN_KFD);
            (
                in_kfd,
                known(&facts, Subject::Gpu, name, gpu::EQUALS_IN_KFD),
            )
        };
        assert_eq!(of("0000:06:00.0"), (Some(true), Some(1)));
        assert_eq!(of("0000:26:00.0"), (Some(false), Some(1)));
        assert_eq!(of("0000:c5:00.0"), (Some(false), Some(0)));
    }

    #[test]
    fn links_between_gpus_are_counted_and_compared() {
        const NODES: &str = "/sys/class/kfd/kfd/topology/nodes";
        let link = |node: u32, link: u32, kind: u32| {
            format!(
                r#"{{"q":{{"read":"{NODES}/{node}/io_links/{link}/properties"}},"text":"type {kind}\nnode_from {node}\n"}}"#
            )
        };
        let list = |node: u32, names: &str| {
            format!(r#"{{"q":{{"list":"{NODES}/{node}/io_links"}},"names":{names}}}"#)
        };
        let added = [
            format!(r#"{{"q":{{"list":"{NODES}"}},"names":["0","1","2"]}}"#),
            format!(
                r#"{{"q":{{"read":"{NODES}/2/properties"}},"text":"simd_count 1216\nlocation_id 9728\ndomain 0\n"}}"#
            ),
            list(1, r#"["0","1"]"#),
            link(1, 0, 2),
            link(1, 1, 11),
            list(2, r#"["0"]"#),
            link(2, 0, 2),
        ];
        let same = |line: &&&str| !line.contains(r#"topology/nodes"}"#);
        let lines: Vec<&str> = GPUS.iter().filter(same).copied().collect();
        let of = |lines: &[&str], name, key| known(&run(&PROBE, lines).0, Subject::Gpu, name, key);
        let all: Vec<&str> = lines
            .iter()
            .copied()
            .chain(added.iter().map(String::as_str))
            .collect();
        let (first, second) = ("0000:06:00.0", "0000:26:00.0");
        assert_eq!(of(&all, first, gpu::XGMI_LINKS), Some(1));
        assert_eq!(of(&all, second, gpu::XGMI_LINKS), Some(0));
        assert_eq!(of(&all, second, gpu::EQUALS_XGMI_LINKS), Some(1));
        // One link that does not say its type leaves the count open, and what the others have is a bound.
        let lost: Vec<&str> = all
            .iter()
            .copied()
            .filter(|line| !line.contains("/2/io_links/0"))
            .collect();
        assert_eq!(of(&lost, second, gpu::XGMI_LINKS), None);
        let (facts, _) = run(&PROBE, &lost);
        let id = facts
            .all(Subject::Gpu)
            .find(|id| facts.name(*id) == second)
            .unwrap();
        let least = facts.at_least(id, gpu::EQUALS_XGMI_LINKS.index);
        assert_eq!(least, Some(&crate::fact::Value::Count(1)));
    }

    #[test]
    fn a_hot_gpu_with_half_of_its_power() {
        let dir = "/sys/bus/pci/devices/0000:06:00.0/hwmon";
        let files = [
            ("temp2_input", 99_400),
            ("temp2_crit", 100_000),
            ("temp3_crit", 0),
            ("power1_input", 152_600_000),
            ("power1_cap", 375_000_000),
            ("power1_cap_default", 750_000_000),
        ];
        let read = |(name, value)| {
            format!(r#"{{"q":{{"read":"{dir}/hwmon7/{name}"}},"text":"{value}\n"}}"#)
        };
        let mut lines = Vec::from(files.map(read));
        lines.push(format!(r#"{{"q":{{"list":"{dir}"}},"names":["hwmon7"]}}"#));
        lines.extend(GPUS.iter().map(|line| (*line).to_owned()));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (facts, _) = run(&PROBE, &lines);
        for (key, value) in [
            (gpu::TEMPERATURE, Some(99)),
            (gpu::THERMAL_MARGIN, Some(1)),
            (gpu::MAX_MEMORY_TEMPERATURE, None),
            (gpu::POWER, Some(153)),
            (gpu::POWER_LIMIT, Some(375)),
            (gpu::DEFAULT_POWER_LIMIT, Some(750)),
        ] {
            assert_eq!(known(&facts, Subject::Gpu, "0000:06:00.0", key), value);
        }
    }

    #[test]
    fn a_count_that_is_lost_hides_no_other() {
        let (facts, _) = run(&PROBE, GPUS);
        let id = facts.all(Subject::Gpu).next().unwrap();
        assert_eq!(facts.known(id, gpu::RAS_UNCORRECTED), None);
        let least = facts.at_least(id, gpu::RAS_UNCORRECTED.index);
        assert_eq!(least, Some(&crate::fact::Value::Count(2)));
    }

    #[test]
    fn a_partition_has_the_address_of_its_gpu() {
        let text = "simd_count 152\nlocation_id 805309184\ndomain 1\n";
        assert_eq!(place(text), Ok(Some("0001:0b:00.0".into())));
        assert!(place("").is_err() && place("simd_count 8\n").is_err());
        assert!(uncorrected("ce: 0").is_err() && uncorrected("ue: x").is_err());
    }
}
