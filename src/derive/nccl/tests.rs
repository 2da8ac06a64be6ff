use super::super::testing::{node as new_node, port as new_port, stated};
use super::*;
use crate::fact::node::CharDevice;
use crate::fact::port::PortState;
use crate::fact::variable::VariableEffect;
use crate::fact::{Membership, Origin, gid as gid_key, interface as interface_key};

fn machine(version: Option<&str>, variables: &[(&str, &str)]) -> (Facts, Id) {
    let mut facts = Facts::new();
    let n = new_node(&mut facts);
    match version {
        Some(version) => facts.set(n, node::NCCL_VERSION, stated(version.into())),
        None => facts.set(n, node::NCCL_COPIES, stated([].into())),
    }
    facts.set_members(Subject::Variable, n, Membership::Known(Origin::Stated));
    facts.set_members(Subject::Interface, n, Membership::Known(Origin::Stated));
    for (name, value) in variables {
        let id = facts.instance(Subject::Variable, n, name);
        facts.set(id, variable::VALUE, stated(Arc::from(*value)));
    }
    for (name, address) in [("lo", "127.0.0.1/8"), ("eth0", "10.0.0.5/24")] {
        let id = facts.instance(Subject::Interface, n, name);
        facts.set(
            id,
            interface_key::ADDRESSES,
            stated([Arc::from(address)].into()),
        );
        facts.set(id, interface_key::RUNNING, stated(true));
        facts.set(id, interface_key::LOOPBACK, stated(name == "lo"));
        facts.set(id, interface_key::KIND, stated("none".into()));
    }
    (facts, n)
}

fn roce(facts: &mut Facts, n: Id, name: &str, rows: &[(&str, GidType)]) -> Id {
    let p = new_port(facts, n, name, PortState::Active, 400);
    let d = facts.parent(p).unwrap();
    facts.set(d, device::PROVIDER, stated(true));
    facts.set(d, device::CHAR_DEVICE, stated(CharDevice::Usable));
    facts.set(d, device::ROLE, stated(Role::Compute));
    let other = facts.instance(Subject::Port, d, &format!("{name}/1"));
    assert_eq!(p, other);
    for (index, (address, kind)) in rows.iter().enumerate() {
        let id = facts.instance(Subject::Gid, p, &format!("{name}/1 gid {index}"));
        let parsed: std::net::Ipv6Addr = address.parse().unwrap();
        facts.set(id, gid_key::INDEX, stated(index as u64));
        facts.set(id, gid_key::ADDRESS, stated(Arc::from(*address)));
        facts.set(id, gid_key::TYPE, stated(*kind));
        let place = match (parsed.to_ipv4_mapped(), parsed.is_unicast_link_local()) {
            (Some(_), _) => GidKind::Ipv4,
            (None, true) => GidKind::LinkLocal,
            (None, false) => GidKind::Ipv6,
        };
        facts.set(id, gid_key::KIND, stated(place));
    }
    p
}

const TABLE: [(&str, GidType); 4] = [
    ("fe80::1", GidType::V1),
    ("fe80::1", GidType::V2),
    ("::ffff:10.0.0.1", GidType::V1),
    ("::ffff:10.0.0.1", GidType::V2),
];

/// A port whose link layer is Ethernet. The helper of all derivations makes InfiniBand ones, and the first value stays.
fn ethernet(version: Option<&str>, variables: &[(&str, &str)]) -> (Facts, Id, Id) {
    let (mut facts, n) = machine(version, variables);
    let d = facts.instance(Subject::Device, n, "mlx5_0");
    let p = facts.instance(Subject::Port, d, "mlx5_0/1");
    facts.set(p, port::LINK_LAYER, stated(LinkLayer::Ethernet));
    let p = roce(&mut facts, n, "mlx5_0", &TABLE);
    derive(&mut facts, n);
    (facts, n, p)
}

#[test]
fn the_gid_index_by_version() {
    let index = |version: Option<&str>, variables: &[(&str, &str)]| {
        let (facts, _, p) = ethernet(version, variables);
        (
            facts.known(p, port::NCCL_GID_INDEX),
            facts.known(p, port::NCCL_GID),
        )
    };
    assert_eq!(
        index(Some("2.27.5"), &[]),
        (Some(3), Some(NcclGid::Routable))
    );
    assert_eq!(index(Some("2.20.5"), &[]), (Some(0), Some(NcclGid::V1)));
    assert_eq!(
        index(None, &[]),
        (Some(3), Some(NcclGid::Routable)),
        "all since 2.21 agree"
    );
    let v1 = [("NCCL_IB_ROCE_VERSION_NUM", "1")];
    assert_ne!(index(None, &v1).1, Some(NcclGid::Routable));
    let forced = |n: &'static str| [("NCCL_IB_GID_INDEX", n)];
    assert_eq!(index(None, &forced("7")), (Some(7), Some(NcclGid::Empty)));
    assert_eq!(
        index(None, &forced("1")),
        (Some(1), Some(NcclGid::LinkLocal))
    );
    assert_eq!(
        index(Some("2.27.5"), &forced("-1")),
        (Some(3), Some(NcclGid::Routable))
    );
    assert_eq!(
        index(Some("2.27.5"), &forced("three")).0,
        Some(0),
        "no number is 0"
    );
}

#[test]
fn a_library_that_is_not_known_may_be_an_older_one() {
    let mut facts = Facts::new();
    let n = new_node(&mut facts);
    facts.set_members(Subject::Variable, n, Membership::Known(Origin::Stated));
    facts.set_members(Subject::Interface, n, Membership::Known(Origin::Stated));
    let p = roce(&mut facts, n, "mlx5_0", &TABLE);
    derive(&mut facts, n);
    assert_eq!(facts.known(p, port::NCCL_GID_INDEX), None);
}

#[test]
fn what_switches_rdma_off() {
    let count = |variables: &[(&str, &str)]| {
        let (facts, n, _) = ethernet(None, variables);
        let id = facts.find(Subject::Selection, n, "NCCL").unwrap();
        facts.known(id, selection::HCA_COUNT)
    };
    assert_eq!(count(&[]), Some(1));
    assert_eq!(count(&[("NCCL_IB_DISABLE", "1")]), Some(0));
    assert_eq!(count(&[("NCCL_IB_DISABLE", "true")]), Some(1), "that is 0");
    assert_eq!(count(&[("NCCL_NET", "socket")]), Some(0));
    assert_eq!(count(&[("NCCL_NET", "IB")]), Some(1));
    assert_eq!(count(&[("NCCL_NET", "AWS Libfabric")]), None);
    assert_eq!(count(&[("NCCL_IB_HCA", "=mlx5_1")]), Some(0));
}

#[test]
fn an_environment_that_nobody_knows_leaves_all_choices_open() {
    let mut facts = Facts::new();
    let n = new_node(&mut facts);
    roce(&mut facts, n, "mlx5_0", &TABLE);
    derive(&mut facts, n);
    let id = facts.find(Subject::Selection, n, "NCCL").unwrap();
    assert_eq!(facts.known(id, selection::HCA_COUNT), None);
    assert_eq!(facts.known(id, selection::INTERFACE), None);
    assert!(facts.members(Subject::Selector, n).is_err());
}

#[test]
fn selectors_say_what_they_name() {
    let (mut facts, n) = machine(
        None,
        &[
            ("NCCL_IB_HCA", "mlx5_1,mlx6_0,mlx5_2:2"),
            ("NCCL_SOCKET_IFNAME", "^docker,eth0"),
        ],
    );
    for name in ["mlx5_0", "mlx5_1", "mlx5_10", "mlx5_2"] {
        roce(&mut facts, n, name, &[]);
    }
    derive(&mut facts, n);
    let of = |name: &str| facts.find(Subject::Selector, n, name).unwrap();
    let one = of("NCCL_IB_HCA mlx5_1");
    assert_eq!(facts.known(one, selector::MATCHES), Some(2));
    assert_eq!(facts.known(one, selector::ALSO_LONGER), Some(true));
    assert_eq!(
        facts.known(one, selector::LONGER).unwrap().join(" "),
        "mlx5_10:1"
    );
    let wrong = of("NCCL_IB_HCA mlx6_0");
    assert_eq!(facts.known(wrong, selector::MATCHES), Some(0));
    assert_eq!(
        facts.known(wrong, selector::NEAREST).as_deref(),
        Some("mlx5_0")
    );
    assert_eq!(
        facts.known(of("NCCL_IB_HCA mlx5_2:2"), selector::MATCHES),
        Some(0)
    );
    let docker = of("NCCL_SOCKET_IFNAME docker");
    assert_eq!(facts.known(docker, selector::EXCLUDES), Some(true));
    let chosen = facts.find(Subject::Selection, n, "NCCL").unwrap();
    assert_eq!(
        facts.known(chosen, selection::INTERFACE).as_deref(),
        Some("lo")
    );
    let reach = facts.known(chosen, selection::INTERFACE_REACH);
    assert_eq!(
        reach,
        Some(crate::fact::selection::InterfaceReach::Loopback)
    );
}

#[test]
fn variables_are_told_by_the_version() {
    let (facts, n, _) = ethernet(
        Some("2.20.5"),
        &[
            ("NCCL_IB_ADDR_FAMILY", "AF_INET6"),
            ("NCCL_IB_GIDINDEX", "3"),
            ("NCCL_P2P_DISABLE", "1"),
        ],
    );
    let of = |name: &str| facts.find(Subject::Variable, n, name).unwrap();
    assert_eq!(
        facts.known(of("NCCL_IB_ADDR_FAMILY"), variable::READ),
        Some(false)
    );
    let odd = of("NCCL_IB_GIDINDEX");
    assert_eq!(facts.known(odd, variable::KNOWN), Some(false));
    assert_eq!(
        facts.known(odd, variable::NEAREST).as_deref(),
        Some("NCCL_IB_GID_INDEX")
    );
    assert_eq!(
        facts.known(of("NCCL_P2P_DISABLE"), variable::EFFECT),
        Some(VariableEffect::P2pDisabled)
    );
}
