use super::*;
use crate::fact::BitRate;
use crate::fact::port::{LinkLayer, PhysState, PortState};
use crate::probe::testing::{known, run};

fn read(path: &str, text: &str) -> String {
    format!(r#"{{"q":{{"read":"/sys/class/infiniband/{path}"}},"text":"{text}\n"}}"#)
}

fn list(path: &str, names: &str) -> String {
    let names: Vec<String> = names.split_whitespace().map(|n| format!("{n:?}")).collect();
    format!(
        r#"{{"q":{{"list":"/sys/class{path}"}},"names":[{}]}}"#,
        names.join(",")
    )
}

fn link(path: &str, target: &str) -> String {
    format!(r#"{{"q":{{"link":"/sys/class/infiniband/{path}"}},"text":"{target}"}}"#)
}

fn gone(verb: &str, path: &str) -> String {
    format!(r#"{{"q":{{"{verb}":"/sys/class/infiniband/{path}"}},"errno":"ENOENT"}}"#)
}

fn facts_of(lines: &[String]) -> (Facts, Id) {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    run(&PROBE, &lines)
}

#[test]
fn an_adapter() {
    let (facts, node) = facts_of(&[
        list("/infiniband", "mlx5_0"),
        link(
            "mlx5_0",
            "../../devices/pci0000:00/0000:00:01.1/0000:0c:00.0/infiniband/mlx5_0",
        ),
        list(
            "/infiniband/mlx5_0",
            "board_id device fw_ver hca_type node_type ports",
        ),
        list(
            "/infiniband/mlx5_0/device",
            "driver infiniband net numa_node vendor device",
        ),
        list("/infiniband/mlx5_0/ports", "1"),
        read("mlx5_0/node_type", "1: CA"),
        read("mlx5_0/hca_type", "MT4129"),
        read("mlx5_0/board_id", "board_id"),
        read("mlx5_0/fw_ver", "28.39.1002"),
        gone("read", "mlx5_0/parent"),
        link("mlx5_0/device", "../../../0000:0c:00.0"),
        link(
            "mlx5_0/device/driver",
            "../../../../bus/pci/drivers/mlx5_core",
        ),
        gone("link", "mlx5_0/device/physfn"),
        read("mlx5_0/device/vendor", "0x15b3"),
        read("mlx5_0/device/device", "0x1021"),
        read("mlx5_0/device/numa_node", "-1"),
        read("mlx5_0/ports/1/state", "4: ACTIVE"),
        read("mlx5_0/ports/1/phys_state", "4: ACTIVE"),
        read("mlx5_0/ports/1/link_layer", "InfiniBand"),
        read("mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)"),
        read("mlx5_0/ports/1/lid", "lid"),
        read("mlx5_0/ports/1/sm_lid", "0x1"),
        list("/infiniband/mlx5_0/ports/1/pkeys", "0 1"),
        read("mlx5_0/ports/1/pkeys/0", "0x7fff"),
        read("mlx5_0/ports/1/pkeys/1", "0x0000"),
    ]);
    assert!(facts.members(Subject::Device, node).is_ok());
    let text =
        |key| known::<Arc<str>>(&facts, Subject::Device, "mlx5_0", key).map(|t| t.to_string());
    assert_eq!(text(device::DRIVER).as_deref(), Some("mlx5_core"));
    assert_eq!(text(device::PCI).as_deref(), Some("0000:0c:00.0"));
    assert_eq!(text(device::MODEL).as_deref(), Some("MT4129"));
    assert_eq!(text(device::BOARD), None, "scrubbed");
    assert_eq!(text(device::FIRMWARE).as_deref(), Some("28.39.1002"));
    let flag = |key| known(&facts, Subject::Device, "mlx5_0", key);
    assert_eq!(flag(device::SOFTWARE), Some(false));
    assert_eq!(flag(device::VIRTUAL_FUNCTION), Some(false));
    assert_eq!(
        known(&facts, Subject::Device, "mlx5_0", device::NUMA_NODE),
        None
    );
    assert_eq!(facts.all(Subject::Port).count(), 1);
    let name = "mlx5_0/1";
    assert_eq!(
        known(&facts, Subject::Port, name, port::STATE),
        Some(PortState::Active)
    );
    assert_eq!(
        known(&facts, Subject::Port, name, port::PHYS_STATE),
        None::<PhysState>
    );
    assert_eq!(
        known(&facts, Subject::Port, name, port::LINK_LAYER),
        Some(LinkLayer::InfiniBand)
    );
    assert_eq!(
        known(&facts, Subject::Port, name, port::RATE),
        Some(BitRate(400_000_000_000))
    );
    assert_eq!(known(&facts, Subject::Port, name, port::WIDTH), Some(4));
    assert_eq!(known(&facts, Subject::Port, name, port::LID), None);
    assert_eq!(known(&facts, Subject::Port, name, port::SM_LID), Some(1));
    assert_eq!(known(&facts, Subject::Port, name, port::PKEYS), Some(1));
    assert_eq!(
        known(&facts, Subject::Port, name, port::FULL_PKEY),
        Some(false)
    );
    assert_eq!(
        known(&facts, Subject::Port, name, port::DEFAULT_PKEY),
        Some(true)
    );
}

/// As kernels 6.1 and 6.12 show soft-RoCE (`parent`) and soft-iWARP.
#[test]
fn software_devices() {
    for (own, expected) in [("parent", "rdma_rxe"), ("node_desc", "siw")] {
        let (facts, _) = facts_of(&[
            list("/infiniband", "s"),
            link("s", "../../devices/virtual/infiniband/s"),
            list("/infiniband/s", &format!("fw_ver node_type ports {own}")),
            list("/infiniband/s/ports", "1"),
            read(
                "s/node_type",
                if own == "parent" { "1: CA" } else { "4: RNIC" },
            ),
            if own == "parent" {
                read("s/parent", "eth0")
            } else {
                gone("read", "s/parent")
            },
            read("s/fw_ver", ""),
            gone("link", "s/device"),
            gone("list", "s/device"),
            gone("link", "s/device/driver"),
            gone("link", "s/device/physfn"),
            gone("read", "s/device/vendor"),
            gone("read", "s/device/numa_node"),
            list("/infiniband/s/ports/1", "state"),
            gone("list", "s/ports/1/pkeys"),
        ]);
        let driver = known(&facts, Subject::Device, "s", device::DRIVER);
        assert_eq!(driver.as_deref(), Some(expected));
        assert_eq!(
            known(&facts, Subject::Device, "s", device::SOFTWARE),
            Some(true)
        );
        assert_eq!(
            known(&facts, Subject::Device, "s", device::PCI).as_deref(),
            Some("none")
        );
        assert_eq!(
            known(&facts, Subject::Device, "s", device::VIRTUAL_FUNCTION),
            Some(false)
        );
        assert_eq!(known(&facts, Subject::Device, "s", device::FIRMWARE), None);
        assert_eq!(known(&facts, Subject::Port, "s/1", port::PKEYS), Some(0));
    }
}

#[test]
fn no_class_is_no_devices_only_by_its_parents_listing() {
    let (facts, node) = facts_of(&[
        gone("list", "").replace("infiniband/\"", "infiniband\""),
        list("", "net"),
    ]);
    assert!(facts.members(Subject::Device, node).is_ok());
    assert_eq!(facts.all(Subject::Device).count(), 0);
    let (facts, node) = facts_of(&[]);
    assert!(facts.members(Subject::Device, node).is_err());
}

#[test]
fn a_device_without_ports() {
    let known_empty = [
        list("/infiniband", "scif0"),
        gone("list", "scif0/ports"),
        list("/infiniband/scif0", "node_type"),
    ];
    let (facts, _) = facts_of(&known_empty);
    assert_eq!(facts.all(Subject::Port).count(), 0);
    let id = facts.all(Subject::Device).next().unwrap();
    assert!(facts.members(Subject::Port, id).is_ok());
    let (facts, _) = facts_of(&known_empty[..2]);
    let id = facts.all(Subject::Device).next().unwrap();
    assert!(facts.members(Subject::Port, id).is_err());
}

#[test]
fn a_long_pkey_table_is_read_as_far_as_it_settles_something() {
    let names: Vec<String> = (0..128).map(|n| n.to_string()).collect();
    let table = |first: &str, entries: u64| {
        let mut lines = vec![
            list("/infiniband", "m"),
            list("/infiniband/m/ports", "1"),
            list("/infiniband/m/ports/1/pkeys", &names.join(" ")),
            read("m/ports/1/pkeys/0", first),
        ];
        lines.extend((1..entries).map(|n| read(&format!("m/ports/1/pkeys/{n}"), "0x0000")));
        let (facts, _) = facts_of(&lines);
        let id = facts.all(Subject::Port).next().unwrap();
        (
            facts.known(id, port::FULL_PKEY),
            facts.known(id, port::DEFAULT_PKEY),
            facts.known(id, port::PKEYS),
        )
    };
    assert_eq!(table("0xffff", 9), (Some(true), Some(true), None));
    assert_eq!(
        table("0x8001", 9),
        (Some(true), None, None),
        "the rest decides, and is not recorded"
    );
    assert_eq!(table("0x8001", 128), (Some(true), Some(false), Some(1)));
    assert_eq!(table("0x0000", 128), (Some(false), Some(false), Some(0)));
}
