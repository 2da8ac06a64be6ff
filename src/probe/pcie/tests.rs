use super::config::{Acs, Config, Express, Unreadable};
use super::*;
use crate::probe::testing::{known, run};

/// Bytes of a configuration space, written at places.
struct Space(Vec<u8>);

impl Space {
    /// Of a function with PCI Express Capabilities at 0x40, of this kind of port.
    fn express(length: usize, kind: u16) -> Self {
        let mut space = Space(vec![0; length]);
        space.put(0, 0x15b3).put(2, 0x1021).put(6, 0x10);
        space.put(0x34, 0x40);
        if length > 64 {
            space.put(0x40, 0x10).put(0x42, 2 | kind << 4);
        }
        space
    }

    fn put(&mut self, at: usize, value: u16) -> &mut Self {
        self.0[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn extended(&mut self, at: usize, id: u16, next: u16) -> &mut Self {
        self.put(at, id).put(at + 2, 1 | next << 4)
    }

    fn config(&self) -> Config {
        Config::new(&self.0).unwrap()
    }
}

#[test]
fn registers_of_an_adapter() {
    let mut space = Space::express(4096, 0);
    // DevCap: 512 B, extended tags; DevCtl: 256 B, 4096 B, relaxed ordering, extended tags; LnkCtl: ASPM L1; an extended capability
    // of another kind before ATS.
    space.put(0x44, 0x22).put(0x48, 0x5130).put(0x50, 2);
    space
        .extended(0x100, 1, 0x150)
        .extended(0x150, 0xf, 0)
        .put(0x156, 0x8000);
    let config = space.config();
    assert_eq!(
        config.express(),
        Ok(Some(Express {
            kind: 0,
            max_payload_supported: 512,
            max_payload: 256,
            max_read_request: 4096,
            relaxed_ordering: true,
            extended_tags_supported: true,
            extended_tags: true,
            aspm_l1: true,
            link: [0, 0],
        }))
    );
    assert_eq!(config.ats(), Ok(Some(true)));
    assert_eq!(config.acs(), Ok(None));
    assert_eq!(config.id().as_deref(), Ok("15b3:1021"));
}

#[test]
fn ten_bit_tags_are_extended_tags() {
    let mut space = Space::express(256, 0);
    space.put(0x68, 1 << 12);
    assert!(space.config().express().unwrap().unwrap().extended_tags);
    // Version 1 of the structure ends before: what is there is not its own.
    space.put(0x42, 1);
    assert!(!space.config().express().unwrap().unwrap().extended_tags);
}

#[test]
fn what_redirects_and_what_does_not() {
    for (control, redirects, words) in [
        (0, false, "none"),
        (1, false, "SrcValid"),
        (0x1d, true, "SrcValid, ReqRedir, CmpltRedir, UpstreamFwd"),
        (0x04, true, "ReqRedir"),
        (0x08, true, "CmpltRedir"),
        (0x10, true, "UpstreamFwd"),
        (
            0x5d,
            false,
            "SrcValid, ReqRedir, CmpltRedir, UpstreamFwd, DirectTrans",
        ),
    ] {
        let mut space = Space::express(4096, 6);
        space.extended(0x100, 0xd, 0).put(0x106, control);
        let acs = space.config().acs().unwrap().unwrap();
        assert_eq!(acs, Acs(control));
        assert_eq!((acs.redirects(), &*acs.words()), (redirects, words));
    }
}

#[test]
fn what_is_hidden_is_not_absent() {
    // Others than root see the header, which says that there are capabilities.
    let header = Space::express(64, 0);
    assert_eq!(header.config().express(), Err(Unreadable::NotRoot));
    assert_eq!(header.config().acs(), Err(Unreadable::NotRoot));
    // No access to the extended part, as with an old chipset.
    let part = Space::express(256, 6);
    assert!(part.config().express().is_ok());
    assert_eq!(part.config().acs(), Err(Unreadable::NotExtended));
    // A conventional function has none of all that.
    let conventional = Space([0x86, 0x80, 0, 0, 0, 0, 0, 0].repeat(32));
    assert_eq!(conventional.config().express(), Ok(None));
    assert_eq!(conventional.config().acs(), Ok(None));
    assert_eq!(Config::new(&[0xff; 4096]).unwrap_err(), Unreadable::OffBus);
    assert_eq!(Config::new(&[0xff; 64]).unwrap_err(), Unreadable::OffBus);
    // A virtual function: only its ids are ones.
    let mut virtual_function = [0; 64];
    virtual_function[..4].fill(0xff);
    assert!(Config::new(&virtual_function).is_ok());
    assert!(Config::new(&[]).is_err());
    // All zeros in the extended part: no capability there.
    assert_eq!(Space::express(4096, 6).config().acs(), Ok(None));
}

#[test]
fn a_copy_without_the_zeros_at_its_end_is_whole() {
    let mut space = Space::express(4096, 6);
    space.extended(0x100, 0xd, 0).put(0x104, 0x5f);
    // The control register, all zeros, is what the copy lost.
    space.0.truncate(0x105);
    assert_eq!(space.config().acs(), Ok(Some(Acs(0))));
}

#[test]
fn chains_without_an_end_end() {
    let mut space = Space::express(4096, 6);
    space.put(0x40, 0x4001);
    assert!(matches!(space.config().express(), Err(Unreadable::Odd(_))));
    let mut space = Space::express(4096, 6);
    space.extended(0x100, 1, 0x100);
    assert!(matches!(space.config().acs(), Err(Unreadable::Odd(_))));
    let mut space = Space::express(4096, 0);
    space.put(0x48, 6 << 5);
    assert!(matches!(space.config().express(), Err(Unreadable::Odd(_))));
    // Any bytes whatever are read without a panic.
    let mut seed = 1u32;
    for length in [4, 64, 65, 128, 256, 300, 4096] {
        for _ in 0..300 {
            let mut bytes: Vec<u8> = (0..length)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (seed >> 24) as u8
                })
                .collect();
            if let Some(status) = bytes.get_mut(6) {
                *status |= 0x10;
            }
            if let Ok(config) = Config::new(&bytes) {
                let _ = (config.express(), config.acs(), config.ats(), config.id());
            }
        }
    }
}

const NIC: &str = "0000:18:00.0";

fn lines(iommu_type: &str, config_hex: &str, aer: bool) -> Vec<String> {
    let dir = format!("{DEVICES}/{NIC}");
    let root = format!("{DEVICES}/0000:15:01.0");
    let mut lines: Vec<String> = [
        r#"{"q":{"read":"/proc/cmdline"},"text":"ro intel_iommu=on\n"}"#.to_owned(),
        r#"{"q":{"read":"/sys/devices/system/cpu/modalias"},"text":"cpu:type:x86,ven0002fam0019mod0001:feature:,0000\n"}"#.to_owned(),
        r#"{"q":{"list":"/sys/kernel/iommu_groups"},"names":["0","1","21"]}"#.to_owned(),
        format!(r#"{{"q":{{"list":"{DEVICES}"}},"names":["0000:15:01.0","{NIC}"]}}"#),
        format!(r#"{{"q":{{"read":"{root}/class"}},"text":"0x060400\n"}}"#),
        format!(r#"{{"q":{{"read":"{dir}/class"}},"text":"0x020700\n"}}"#),
        format!(r#"{{"q":{{"read":"{dir}/vendor"}},"text":"0x15b3\n"}}"#),
        format!(r#"{{"q":{{"link":"{dir}/driver"}},"text":"../../../../bus/pci/drivers/mlx5_core"}}"#),
        format!(r#"{{"q":{{"list":"{dir}/infiniband"}},"names":["mlx5_0"]}}"#),
        format!(r#"{{"q":{{"link":"{dir}"}},"text":"../../../devices/pci0000:15/0000:15:01.0/{NIC}"}}"#),
        format!(r#"{{"q":{{"link":"{dir}/iommu_group"}},"text":"../../../../kernel/iommu_groups/21"}}"#),
        format!(r#"{{"q":{{"read":"/sys/kernel/iommu_groups/21/type"}},"text":"{iommu_type}\n"}}"#),
        format!(r#"{{"q":{{"list":"{dir}"}},"names":["class","config"]}}"#),
        format!(r#"{{"q":{{"read":"{dir}/current_link_speed"}},"text":"16.0 GT/s PCIe\n"}}"#),
        format!(r#"{{"q":{{"read":"{dir}/current_link_width"}},"text":"0\n"}}"#),
        format!(r#"{{"q":{{"read":"{dir}/max_link_speed"}},"text":"Unknown\n"}}"#),
        format!(r#"{{"q":{{"read":"{dir}/config"}},"hex":"{config_hex}"}}"#),
    ]
    .into();
    match aer {
        true => lines.push(format!(
            r#"{{"q":{{"read":"{dir}/aer_dev_correctable"}},"text":"RxErr 3\nTOTAL_ERR_COR 3\n"}}"#
        )),
        false => lines.push(format!(
            r#"{{"q":{{"read":"{dir}/aer_dev_correctable"}},"errno":"ENOENT"}}"#
        )),
    }
    lines
}

fn facts_of(lines: &[String]) -> (Facts, Id) {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    run(&PROBE, &lines)
}

#[test]
fn an_adapter_below_a_root_port() {
    let (facts, node) = facts_of(&lines("DMA-FQ", "b3152110", true));
    assert_eq!(facts.known(node, node::IOMMU), Some(Iommu::Translating));
    assert_eq!(
        facts
            .known(node, node::IOMMU_TRANSLATED)
            .map(|f| f.join(" ")),
        Some(NIC.to_owned())
    );
    assert_eq!(
        facts.known(node, node::IOMMU_PARAMETERS).as_deref(),
        Some("intel_iommu=on")
    );
    assert_eq!(
        facts.known(node, node::CPU_VENDOR),
        Some(crate::fact::node::CpuVendor::Amd)
    );
    assert!(facts.members(Subject::Bridge, node).is_ok());
    assert!(facts.find(Subject::Bridge, node, "0000:15:01.0").is_some());
    let number = |key| known(&facts, Subject::Function, NIC, key);
    assert_eq!(number(function::LINK_GENERATION), Some(4));
    assert_eq!(number(function::LINK_WIDTH), None, "0 lanes is not a width");
    assert_eq!(number(function::MAX_LINK_GENERATION), None);
    assert_eq!(number(function::LINK_ERRORS), Some(3));
}

#[test]
fn the_header_alone_asks_for_root() {
    let header: String = Space::express(64, 0)
        .0
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let (facts, node) = facts_of(&lines("identity", &header, false));
    let id = facts.find(Subject::Function, node, NIC).unwrap();
    let Fact::Unknown(gap) = facts.get(id, function::MAX_READ_REQUEST) else {
        panic!("it is not in the header");
    };
    assert_eq!(gap.why.remedy(), Some("run as root"));
    assert_eq!(facts.known(node, node::IOMMU), Some(Iommu::Identity));
    assert_eq!(facts.known(id, function::COUNTS_ERRORS), Some(false));
    assert_eq!(facts.known(id, function::LINK_ERRORS), None);
}

#[test]
fn a_path_that_is_not_known_leaves_the_bridges_open() {
    let mut lines = lines("identity", "b3152110", true);
    lines.retain(|line| !line.contains("devices/pci0000"));
    let (facts, node) = facts_of(&lines);
    assert!(facts.members(Subject::Bridge, node).is_err());
    assert_eq!(facts.all(Subject::Bridge).count(), 0);
}

#[test]
fn without_groups_the_iommu_is_off_and_unlisted_it_is_unknown() {
    let (facts, node) = run(
        &PROBE,
        &[
            r#"{"q":{"list":"/sys/kernel/iommu_groups"},"errno":"ENOENT"}"#,
            r#"{"q":{"list":"/sys/kernel"},"names":["mm"]}"#,
            r#"{"q":{"list":"/sys/bus/pci/devices"},"names":[]}"#,
        ],
    );
    assert_eq!(facts.known(node, node::IOMMU), Some(Iommu::Off));
    // A gathered tree without the groups: the firmware's tables tell that there is none, not what one does.
    let tables = |names: &str| {
        let line = format!(r#"{{"q":{{"list":"/sys/firmware/acpi/tables"}},"names":[{names}]}}"#);
        let (facts, node) = run(&PROBE, &[&line]);
        facts.known(node, node::IOMMU)
    };
    assert_eq!(tables(r#""APIC","DSDT","FACP","data""#), Some(Iommu::Off));
    assert_eq!(tables(r#""APIC","DMAR","FACP""#), None);
    assert_eq!(tables(""), None);
    let (facts, node) = run(&PROBE, &[]);
    assert_eq!(facts.known(node, node::IOMMU), None);
    assert!(facts.members(Subject::Bridge, node).is_err());
}
