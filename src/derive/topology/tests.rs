use super::super::testing::{node, port, stated};
use super::*;
use crate::fact::node::TopoFile;
use crate::fact::port::PortState;
use crate::fact::{Membership, Origin, bridge, gpu_nic, gpu_pair, node as n, selection};

/// A machine with two sockets, to which GPUs and adapters are added.
fn machine() -> (Facts, Id) {
    let mut facts = Facts::new();
    let id = node(&mut facts);
    for subject in [Subject::Gpu, Subject::Selection] {
        facts.set_members(subject, id, Membership::Known(Origin::Stated));
    }
    facts.set(id, n::NUMA_NODES, stated(2));
    facts.set(id, n::CPU_NODES_FORBIDDEN, stated([].into()));
    facts.set(id, n::MEMORY_NODES_FORBIDDEN, stated([].into()));
    facts.set(id, n::TOPO_FILE_STATE, stated(TopoFile::None));
    facts.set(id, n::TOPO_FILE_NAMES, stated([].into()));
    (facts, id)
}

fn path(text: &str) -> Fact<Arc<[Arc<str>]>> {
    let parts: Vec<Arc<str>> = text.split('/').map(Arc::from).collect();
    stated(parts.into())
}

fn gpu_at(facts: &mut Facts, node: Id, at: &str, numa: Option<u64>) -> Id {
    let name = at.rsplit('/').next().unwrap();
    let id = facts.instance(Subject::Gpu, node, name);
    facts.set(id, gpu::PCI, stated(name.into()));
    facts.set(id, gpu::ID, stated("10de:2330".into()));
    facts.set(id, gpu::VIRTUAL_FUNCTION, stated(false));
    facts.set(id, gpu::PATH, path(at));
    facts.set(id, gpu::NUMA_NODE, numa_fact(numa));
    id
}

fn numa_fact(numa: Option<u64>) -> Fact<u64> {
    match numa {
        Some(numa) => stated(numa),
        None => Fact::Known(0, Origin::Stated).and_then(|_: u64| Err("-1: not known".to_owned())),
    }
}

fn nic_at(facts: &mut Facts, node: Id, device: &str, at: &str, numa: Option<u64>) -> Id {
    let name: Arc<str> = at.rsplit('/').next().unwrap().into();
    let id = facts.instance(Subject::Function, node, &name);
    facts.set(id, function::ID, stated("15b3:1021".into()));
    facts.set(id, function::RDMA, stated(true));
    facts.set(id, function::PASSED_THROUGH, stated(false));
    facts.set(id, function::VIRTUAL_FUNCTION, stated(false));
    facts.set(id, function::PATH, path(at));
    facts.set(id, function::NUMA_NODE, numa_fact(numa));
    let port = port(facts, node, device, PortState::Active, 400);
    let device = facts.parent(port).unwrap();
    facts.set(device, device::PCI, stated(name));
    facts.set(device, device::NUMA_NODE, numa_fact(numa));
    facts.set(device, device::INTENDED, stated(true));
    id
}

/// Two sockets with two switches each; on each switch one GPU and one adapter.
fn four_switches() -> (Facts, Id) {
    let (mut facts, node) = machine();
    for (at, root) in ["10", "20", "30", "40"].into_iter().enumerate() {
        let switch = format!("pci0000:{root}/0000:{root}:01.0/0000:{root}:02.0");
        let numa = Some(at as u64 / 2);
        gpu_at(
            &mut facts,
            node,
            &format!("{switch}/0000:{root}:03.0/0000:{root}:06.0"),
            numa,
        );
        let nic = format!("{switch}/0000:{root}:04.0/0000:{root}:07.0");
        nic_at(&mut facts, node, &format!("mlx5_{at}"), &nic, numa);
    }
    (facts, node)
}

fn of_gpus<T: crate::fact::Typed>(facts: &Facts, key: crate::fact::Key<T>) -> Vec<Option<T>> {
    facts
        .all(Subject::Gpu)
        .map(|id| facts.known(id, key))
        .collect()
}

fn names(found: Vec<Option<Arc<str>>>) -> Vec<String> {
    found
        .into_iter()
        .map(|n| n.map_or("?".into(), |n| n.to_string()))
        .collect()
}

#[test]
fn each_gpu_has_its_adapter() {
    let (mut facts, node) = four_switches();
    derive(&mut facts, node);
    assert_eq!(
        names(of_gpus(&facts, gpu::NEAR_NIC)),
        ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    );
    assert!(
        of_gpus(&facts, gpu::NEAR_DISTANCE)
            .iter()
            .all(|d| *d == Some(Distance::Pix))
    );
    assert!(
        names(of_gpus(&facts, gpu::IDLE_NIC))
            .iter()
            .all(|n| n == "none")
    );
    assert_eq!(facts.known(node, n::COMPUTE_NICS), Some(4));
    assert_eq!(facts.known(node, n::GPU_NUMA_NODES), Some(2));
    assert_eq!(facts.known(node, n::NEAREST_PAIR), Some(Distance::Pix));
    assert_eq!(facts.all(Subject::GpuPair).count(), 6);
    assert_eq!(facts.all(Subject::GpuNic).count(), 16);
    let far = facts
        .all(Subject::GpuPair)
        .filter(|p| facts.known(*p, gpu_pair::DISTANCE) == Some(Distance::Sys));
    assert_eq!(far.count(), 4);
    let pair = facts.all(Subject::GpuNic).next().unwrap();
    assert_eq!(facts.known(pair, gpu_nic::NIC).as_deref(), Some("mlx5_0"));
}

/// Two GPUs and an adapter on a switch, and a second adapter of this model one level of bridges further down; the two levels have these ids.
fn one_adapter_deeper(model: &str, levels: [Option<&str>; 2]) -> Vec<String> {
    let (mut facts, node) = machine();
    let switch = "pci0000:10/0000:10:01.0/0000:11:00.0";
    for (port, gpu) in [("00", "13"), ("01", "14")] {
        let at = format!("{switch}/0000:12:{port}.0/0000:{gpu}:00.0");
        gpu_at(&mut facts, node, &at, Some(0));
    }
    let near = format!("{switch}/0000:12:02.0/0000:15:00.0");
    nic_at(&mut facts, node, "mlx5_0", &near, Some(0));
    let deep = format!("{switch}/0000:12:03.0/0000:16:00.0/0000:17:00.0/0000:18:00.0");
    let other = facts.instance(Subject::Function, node, "0000:18:00.0");
    facts.set(other, function::ID, stated(model.into()));
    nic_at(&mut facts, node, "mlx5_1", &deep, Some(0));
    for (port, id) in ["0000:11:00.0", "0000:16:00.0"].into_iter().zip(levels) {
        if let Some(id) = id {
            let bridge = facts.instance(Subject::Bridge, node, port);
            facts.set(bridge, bridge::ID, stated(id.into()));
        }
    }
    derive(&mut facts, node);
    names(of_gpus(&facts, gpu::IDLE_NIC))
}

/// NVIDIA/nccl#820: a level of virtual bridges too many, and two GPUs of one switch claim one adapter.
#[test]
fn two_gpus_claim_one_adapter_and_its_equal_is_idle() {
    let equal = "15b3:1021";
    let plx = [Some("10b5:8749"), Some("10b5:8749")];
    assert_eq!(one_adapter_deeper(equal, plx), ["mlx5_1", "mlx5_1"]);
    // An adapter of another model is no substitute.
    assert_eq!(one_adapter_deeper("15b3:101d", plx), ["none", "none"]);
    // NCCL takes Broadcom's two levels for one switch, and the two adapters for equally near.
    let broadcom = [Some("1000:c030"), Some("1000:c030")];
    assert_eq!(one_adapter_deeper(equal, broadcom), ["none", "none"]);
    // Which switches they are is not known.
    let unknown = [Some("1000:c030"), None];
    assert_eq!(one_adapter_deeper(equal, unknown), ["?", "?"]);
}

#[test]
fn a_storage_adapter_at_the_cpu_is_not_idle() {
    // Eight GPUs on four adapters by design, and four equal ones at the CPUs for storage.
    let (mut facts, node) = machine();
    for root in 1..=4 {
        let switch = format!("pci0000:{root}0/0000:{root}0:01.0/0000:{root}1:00.0");
        for port in 0..2 {
            let at = format!(
                "{switch}/0000:{root}2:0{port}.0/0000:{root}{}:00.0",
                port + 3
            );
            gpu_at(&mut facts, node, &at, Some(0));
        }
        let nic = format!("{switch}/0000:{root}2:02.0/0000:{root}5:00.0");
        nic_at(&mut facts, node, &format!("mlx5_{root}"), &nic, Some(0));
        let storage = format!("pci0000:{root}8/0000:{root}8:01.0/0000:{root}9:00.0");
        nic_at(
            &mut facts,
            node,
            &format!("mlx5_1{root}"),
            &storage,
            Some(0),
        );
    }
    derive(&mut facts, node);
    assert_eq!(facts.known(node, n::COMPUTE_NICS), Some(8));
    assert!(
        names(of_gpus(&facts, gpu::IDLE_NIC))
            .iter()
            .all(|n| n == "none")
    );
    assert!(
        of_gpus(&facts, gpu::SIBLINGS_NEAR)
            .iter()
            .all(|s| *s == Some(true))
    );
}

#[test]
fn ports_and_virtual_functions_of_a_card_are_one_adapter() {
    let (mut facts, node) = machine();
    let switch = "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:02.0";
    for (at, function) in ["0000:15:00.0", "0000:15:00.1", "0000:15:01.2"]
        .into_iter()
        .enumerate()
    {
        let id = facts.instance(Subject::Function, node, function);
        facts.set(id, function::VIRTUAL_FUNCTION, stated(at == 2));
        nic_at(
            &mut facts,
            node,
            &format!("mlx5_{at}"),
            &format!("{switch}/{function}"),
            Some(0),
        );
    }
    // Two cards on the root bus of a virtual machine.
    nic_at(
        &mut facts,
        node,
        "mlx5_3",
        "pci0000:00/0000:00:05.0",
        Some(0),
    );
    nic_at(
        &mut facts,
        node,
        "mlx5_4",
        "pci0000:00/0000:00:06.0",
        Some(0),
    );
    derive(&mut facts, node);
    assert_eq!(facts.known(node, n::COMPUTE_NICS), Some(3));
}

#[test]
fn what_is_not_meant_for_use_is_nobodys_nearest() {
    let (mut facts, node) = machine();
    let switch = "pci0000:10/0000:10:01.0/0000:11:00.0";
    gpu_at(
        &mut facts,
        node,
        &format!("{switch}/0000:12:00.0/0000:13:00.0"),
        Some(0),
    );
    nic_at(
        &mut facts,
        node,
        "mlx5_0",
        "pci0000:30/0000:30:01.0/0000:31:00.0",
        Some(1),
    );
    let device = facts.instance(Subject::Device, node, "mlx5_1");
    facts.set(device, device::INTENDED, stated(false));
    nic_at(
        &mut facts,
        node,
        "mlx5_1",
        &format!("{switch}/0000:12:02.0/0000:15:00.0"),
        Some(0),
    );
    derive(&mut facts, node);
    assert_eq!(of_gpus(&facts, gpu::NEAR_DISTANCE), [Some(Distance::Sys)]);
    assert_eq!(names(of_gpus(&facts, gpu::NEAR_NIC)), ["mlx5_0"]);
}

#[test]
fn a_port_whose_use_is_open_leaves_the_nearest_open_only_where_it_is_nearer() {
    for (at, expected) in [
        (
            "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:02.0/0000:15:00.0",
            None,
        ),
        ("pci0000:30/0000:30:01.0/0000:31:00.0", Some(Distance::Node)),
    ] {
        let (mut facts, node) = machine();
        gpu_at(
            &mut facts,
            node,
            "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0",
            Some(0),
        );
        nic_at(
            &mut facts,
            node,
            "mlx5_0",
            "pci0000:20/0000:20:01.0/0000:21:00.0",
            Some(0),
        );
        let port = port(&mut facts, node, "mlx5_9", PortState::Down, 400);
        let device = facts.parent(port).unwrap();
        let name = at.rsplit('/').next().unwrap();
        facts.set(device, device::PCI, stated(name.into()));
        let id = facts.instance(Subject::Function, node, name);
        facts.set(id, function::RDMA, stated(true));
        facts.set(id, function::PATH, path(at));
        facts.set(id, function::NUMA_NODE, stated(1));
        derive(&mut facts, node);
        assert_eq!(of_gpus(&facts, gpu::NEAR_DISTANCE), [expected]);
        assert_eq!(facts.known(node, n::COMPUTE_NICS), None);
    }
}

#[test]
fn cpus_and_memory_near_a_gpu() {
    let (mut facts, node) = four_switches();
    derive(&mut facts, node);
    assert!(
        of_gpus(&facts, gpu::CPUS_ALLOWED)
            .iter()
            .all(|a| *a == Some(true))
    );
    assert_eq!(
        facts.known(node, n::MEMORY_LEFT_OUT).as_deref(),
        Some("none")
    );

    let far: Arc<[Arc<str>]> = [Arc::from("1")].into();
    let mut facts = Facts::new();
    let node = super::super::testing::node(&mut facts);
    facts.set_members(Subject::Gpu, node, Membership::Known(Origin::Stated));
    facts.set(node, n::CPU_NODES_FORBIDDEN, stated(Arc::clone(&far)));
    facts.set(node, n::MEMORY_NODES_FORBIDDEN, stated(far));
    gpu_at(&mut facts, node, "pci0000:10/0000:10:01.0", Some(0));
    gpu_at(&mut facts, node, "pci0000:10/0000:10:02.0", Some(1));
    gpu_at(&mut facts, node, "pci0000:10/0000:10:03.0", None);
    derive(&mut facts, node);
    assert_eq!(
        of_gpus(&facts, gpu::CPUS_ALLOWED),
        [Some(true), Some(false), None]
    );
    assert_eq!(facts.known(node, n::MEMORY_LEFT_OUT).as_deref(), Some("1"));
}

#[test]
fn nccls_choice_against_the_nearest() {
    for (hcas, expected) in [
        (
            vec!["mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1"],
            vec![Some(true); 4],
        ),
        (
            vec!["mlx5_0:1", "mlx5_2:1"],
            vec![Some(true), Some(false), Some(true), Some(false)],
        ),
        (vec![], vec![None; 4]),
    ] {
        let (mut facts, node) = four_switches();
        let id = facts.instance(Subject::Selection, node, "NCCL");
        let hcas: Vec<Arc<str>> = hcas.into_iter().map(Arc::from).collect();
        facts.set(id, selection::HCAS, stated(hcas.into()));
        derive(&mut facts, node);
        assert_eq!(of_gpus(&facts, gpu::NEAR_NIC_SELECTED), expected);
    }
    // Of what NCCL will choose nothing is known.
    let (mut facts, node) = four_switches();
    derive(&mut facts, node);
    assert_eq!(of_gpus(&facts, gpu::NEAR_NIC_SELECTED), [None; 4]);
}

#[test]
fn what_a_topology_file_misses() {
    for (named, expected) in [
        (
            vec![
                "0000:10:06.0",
                "0000:20:06.0",
                "0000:30:06.0",
                "0000:40:06.0",
                "mlx5_0",
                "mlx5_1",
                "0000:30:07.0",
                "mlx5_3",
            ],
            "none",
        ),
        (
            vec![
                "0001:00:00.0",
                "mlx5_0",
                "mlx5_1",
                "mlx5_2",
                "mlx5_3",
                "0000:10:06.0",
                "0000:20:06.0",
                "0000:30:06.0",
            ],
            "GPU 0000:40:06.0",
        ),
    ] {
        let mut facts = Facts::new();
        let node = super::super::testing::node(&mut facts);
        facts.set_members(Subject::Gpu, node, Membership::Known(Origin::Stated));
        facts.set(node, n::TOPO_FILE_STATE, stated(TopoFile::Read));
        let named: Vec<Arc<str>> = named.into_iter().map(Arc::from).collect();
        facts.set(node, n::TOPO_FILE_NAMES, stated(named.into()));
        for (at, root) in ["10", "20", "30", "40"].into_iter().enumerate() {
            gpu_at(
                &mut facts,
                node,
                &format!("pci0000:{root}/0000:{root}:06.0"),
                Some(0),
            );
            nic_at(
                &mut facts,
                node,
                &format!("mlx5_{at}"),
                &format!("pci0000:{root}/0000:{root}:07.0"),
                Some(0),
            );
        }
        derive(&mut facts, node);
        assert_eq!(
            facts.known(node, n::TOPO_FILE_MISSES).as_deref(),
            Some(expected)
        );
    }
}

#[test]
fn unknown_places_leave_distances_unknown_and_no_pair_is_lost() {
    let (mut facts, node) = machine();
    let id = facts.instance(Subject::Gpu, node, "0000:13:00.0");
    facts.set(id, gpu::ID, stated("10de:2330".into()));
    nic_at(
        &mut facts,
        node,
        "mlx5_0",
        "pci0000:20/0000:20:01.0/0000:21:00.0",
        Some(0),
    );
    derive(&mut facts, node);
    let pair = facts.all(Subject::GpuNic).next().unwrap();
    assert_eq!(facts.known(pair, gpu_nic::DISTANCE), None);
    assert_eq!(of_gpus(&facts, gpu::NEAR_DISTANCE), [None]);
    assert_eq!(of_gpus(&facts, gpu::IDLE_NIC), [None]);
}
