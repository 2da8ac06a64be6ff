use super::super::testing::{node, port, stated};
use super::*;
use crate::fact::{Membership, Origin, interface};

/// A node with two rails, Ethernet with an address, a loopback and a bridge of containers.
fn machine() -> (Facts, Id) {
    let mut facts = Facts::new();
    let n = node(&mut facts);
    port(&mut facts, n, "mlx5_0", PortState::Active, 400);
    port(&mut facts, n, "mlx5_1", PortState::Down, 400);
    for (name, kind, master, address) in [
        ("lo", "none", "none", "127.0.0.1/8"),
        ("eth0", "none", "none", "10.1.2.3/24"),
        ("ib0", "none", "none", ""),
        ("docker0", "bridge", "none", "172.17.0.1/16"),
        ("veth1", "veth", "docker0", ""),
    ] {
        let id = facts.instance(Subject::Interface, n, name);
        facts.set(id, interface::UP, stated(true));
        facts.set(id, interface::LOOPBACK, stated(name == "lo"));
        facts.set(id, interface::KIND, stated(kind.into()));
        facts.set(id, interface::MASTER, stated(master.into()));
        let addresses: Vec<Arc<str>> = [address]
            .iter()
            .filter(|a| !a.is_empty())
            .map(|a| Arc::from(*a))
            .collect();
        facts.set(id, interface::ADDRESSES, stated(addresses.into()));
    }
    for subject in [Subject::Interface, Subject::Setting] {
        facts.set_members(subject, n, Membership::Known(Origin::Stated));
    }
    (facts, n)
}

fn names(facts: &mut Facts, n: Id, variable: &str, role: SettingRole, value: &str) -> Id {
    let id = facts.instance(Subject::Setting, n, variable);
    facts.set(id, setting::VARIABLE, stated(variable.into()));
    facts.set(id, setting::VALUE, stated(value.into()));
    facts.set(id, setting::ROLE, stated(role));
    derive(facts, n);
    id
}

fn counts(
    variable: &str,
    role: SettingRole,
    value: &str,
) -> (Option<u64>, Option<u64>, Option<u64>) {
    let (mut facts, n) = machine();
    let id = names(&mut facts, n, variable, role, value);
    (
        facts.known(id, setting::MATCHING),
        facts.known(id, setting::MISSING),
        facts.known(id, setting::UNUSABLE),
    )
}

#[test]
fn each_library_reads_names_in_its_way() {
    let interfaces = SettingRole::Interfaces;
    let devices = SettingRole::Devices;
    for (variable, role, value, expected) in [
        ("GLOO_SOCKET_IFNAME", interfaces, "eth0", (1, 0, 0)),
        ("GLOO_SOCKET_IFNAME", interfaces, "eth", (0, 1, 0)),
        ("GLOO_SOCKET_IFNAME", interfaces, "ib0", (1, 0, 1)),
        ("NCCL_SOCKET_IFNAME", interfaces, "eth", (1, 0, 0)),
        ("NCCL_SOCKET_IFNAME", interfaces, "=eth", (0, 1, 0)),
        (
            "btl_tcp_if_include",
            interfaces,
            "10.1.0.0/16,eth9",
            (1, 1, 0),
        ),
        (
            "btl_tcp_if_include",
            interfaces,
            "192.168.0.0/16",
            (0, 1, 0),
        ),
        ("UCX_NET_DEVICES", devices, "mlx5_0:1,eth0", (2, 0, 0)),
        ("UCX_NET_DEVICES", devices, "mlx5_0:2", (0, 1, 0)),
        ("UCX_NET_DEVICES", devices, "all", (1, 0, 0)),
        ("NVSHMEM_HCA_LIST", devices, "mlx5", (1, 0, 0)),
        (
            "NVSHMEM_HCA_PE_MAPPING",
            devices,
            "mlx5_1:1:2,mlx5_7:1:2",
            (1, 1, 1),
        ),
    ] {
        let (matching, missing, unusable) = expected;
        assert_eq!(
            counts(variable, role, value),
            (Some(matching), Some(missing), Some(unusable)),
            "{variable}={value}"
        );
    }
    // Ranges are known to some versions of UCX only.
    assert_eq!(counts("UCX_NET_DEVICES", devices, "mlx5_[0-1]:1").0, None);
}

#[test]
fn a_bridge_of_containers_leads_nowhere() {
    for (value, local) in [
        ("lo", true),
        ("docker0", true),
        ("eth0", false),
        ("lo,eth0", false),
        ("eth9", false),
    ] {
        let (mut facts, n) = machine();
        let id = names(
            &mut facts,
            n,
            "GLOO_SOCKET_IFNAME",
            SettingRole::Interfaces,
            value,
        );
        assert_eq!(facts.known(id, setting::LOCAL_ONLY), Some(local), "{value}");
    }
}

#[test]
fn what_is_not_there_has_a_nearest_name() {
    let (mut facts, n) = machine();
    let id = names(
        &mut facts,
        n,
        "GLOO_SOCKET_IFNAME",
        SettingRole::Interfaces,
        "eth1",
    );
    assert_eq!(facts.known(id, setting::NEAREST).as_deref(), Some("eth0"));
}

#[test]
fn interfaces_that_nobody_listed_leave_it_open() {
    let mut facts = Facts::new();
    let n = node(&mut facts);
    facts.set_members(Subject::Setting, n, Membership::Known(Origin::Stated));
    let id = names(
        &mut facts,
        n,
        "GLOO_SOCKET_IFNAME",
        SettingRole::Interfaces,
        "eth0",
    );
    assert_eq!(facts.known(id, setting::MATCHING), None);
    assert_eq!(facts.known(id, setting::LOCAL_ONLY), None);
}

#[test]
fn ob1_takes_tcp_where_no_btl_knows_rdma() {
    for (btl, without) in [
        ("tcp,self", true),
        ("^openib", true),
        ("openib,self", false),
        ("^tcp", false),
    ] {
        let (mut facts, n) = machine();
        names(&mut facts, n, "btl", SettingRole::Transports, btl);
        let id = names(&mut facts, n, "pml", SettingRole::Transports, "ob1");
        assert_eq!(
            facts.known(id, setting::WITHOUT_RDMA),
            Some(without),
            "{btl}"
        );
    }
}
