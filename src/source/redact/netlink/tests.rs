use proptest::prelude::*;

use super::*;
use crate::source::testing::{has, message};

const AF_INET: u8 = 2;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWNEIGH: u16 = 28;
const RTM_NEWRULE: u16 = 32;
const RTM_GETDCB: u16 = 78;

fn map(bytes: &[u8]) -> Option<Vec<u8>> {
    reply(&Names::new(Key::from_text("k"), "", &[]), bytes)
}

#[test]
fn guids_are_replaced_at_any_depth_and_the_rest_stays() {
    let guid = 0xb83f_d203_00c0_ffeeu64;
    let body = [
        attribute(2, b"mlx5_0\0"),
        attribute(6, &guid.to_le_bytes()),
        attribute(
            19 | 0x8000,
            &attribute(20, &attribute(7, &guid.to_le_bytes())),
        ),
        attribute(8, &(0xfe80u64 << 48).to_le_bytes()),
        attribute(9, &0x3a4u32.to_le_bytes()),
        attribute(
            33,
            &[&[2, 0, 0x12, 0xb7, 10, 1, 2, 3][..], &[0; 120]].concat(),
        ),
        attribute(300, &guid.to_le_bytes()),
    ]
    .concat();
    let raw = [message(5 << 10 | 1, &body), message(3, &[0; 4])].concat();
    let mapped = map(&raw).unwrap();
    let new = Key::from_text("k").guid(guid);
    assert!(has(&raw, &guid.to_le_bytes()) && !has(&mapped, &guid.to_le_bytes()));
    assert!(has(&mapped, &attribute(6, &new.to_le_bytes())));
    assert!(has(&mapped, &attribute(7, &new.to_le_bytes())));
    assert!(has(&mapped, &attribute(300, &[])));
    assert!(has(&mapped, b"mlx5_0\0") && has(&mapped, &0x3a4u32.to_le_bytes()));
    assert!(has(&mapped, &(0xfe80u64 << 48).to_le_bytes()));
    assert!(!has(&mapped, &[10, 1, 2, 3]));
    assert!(has(&mapped, &[2, 0, 0x12, 0xb7, 10]));
}

#[test]
fn other_families_and_broken_messages_are_left_out() {
    assert_eq!(map(&message(17, &[1, 2, 3, 4])), None);
    assert_eq!(map(&message(5 << 10 | 1, &[3, 0, 0, 0])), None);
    assert_eq!(map(&message(5 << 10 | 1, &[0; 4])[..18]), None);
    assert_eq!(map(b""), Some(vec![]));
}

proptest! {
    #[test]
    fn no_bytes_of_rdma_make_it_panic(bytes: Vec<u8>, number: u16) {
        let _ = map(&bytes);
        let _ = map(&message(5 << 10 | 1, &bytes));
        let _ = map(&message(5 << 10 | 1, &attribute(number % 100, &bytes)));
    }
}

#[test]
fn names_with_a_mac_address_and_addresses_are_replaced_and_subnets_stay() {
    let link = [
        &[0; 16][..],
        &attribute(3, b"enxb83fd2c0ffee\0"),
        &attribute(1, &[0xb8, 0x3f, 0xd2, 0xc0, 0xff, 0xee]),
        &attribute(4, &1500u32.to_le_bytes()),
        &attribute(18, &[attribute(1, b"veth\0"), attribute(2, b"x")].concat()),
    ]
    .concat();
    let mapped = map(&message(16, &link)).unwrap();
    assert!(!has(&mapped, b"b83fd2c0ffee") && !has(&mapped, &[0xb8, 0x3f, 0xd2]));
    assert!(has(&mapped, b"veth\0") && has(&mapped, &1500u32.to_le_bytes()));
    assert!(has(&mapped, b"enx"));

    let address = |last: u8| {
        let body = [
            &[2, 24, 0, 0, 1, 0, 0, 0][..],
            &attribute(2, &[10, 1, 2, last]),
        ];
        message(20, &body.concat())
    };
    let mapped = map(&[address(3), address(4)].concat()).unwrap();
    let key = Key::from_text("k");
    for last in [3, 4] {
        assert!(!has(&mapped, &[10, 1, 2, last]));
        let new = key.ipv4([10, 1, 2, last].into()).octets();
        assert!(has(&mapped, &attribute(2, &new)));
    }
}

#[test]
fn what_is_no_address_is_cleared() {
    assert_eq!(map(&message(16, &[0; 8])), None);
    let odd = message(20, &[2, 24, 0, 0, 1, 0, 0, 0, 6, 0, 2, 0, 1, 2, 0, 0]);
    let cleared = message(20, &[2, 24, 0, 0, 1, 0, 0, 0, 4, 0, 2, 0]);
    assert_eq!(map(&odd), Some(cleared));
}

proptest! {
    #[test]
    fn no_bytes_of_links_make_it_panic(bytes: Vec<u8>, kind in 15u16..21) {
        let _ = map(&bytes);
        let _ = map(&message(kind, &bytes));
    }
}

#[test]
fn a_route_keeps_its_form_and_loses_its_addresses() {
    let hop = [
        &[16, 0, 0, 0, 4, 0, 0, 0][..],
        &attribute(5, &[10, 1, 2, 3]),
    ]
    .concat();
    let body = [
        &[AF_INET, 24, 0, 0, 254, 2, 253, 1, 0, 0, 0, 0][..],
        &attribute(1, &[10, 1, 2, 0]),
        &attribute(7, &[10, 1, 2, 5]),
        &attribute(4, &7u32.to_le_bytes()),
        &attribute(9, &hop),
        &attribute(18, &[2, 0, 10, 1, 2, 9]),
    ]
    .concat();
    let raw = message(RTM_NEWROUTE, &body);
    let mapped = map(&raw).unwrap();
    let key = Key::from_text("k");
    let net = key.ipv4_net([10, 1, 2, 0].into(), 24).octets();
    assert!(net[3] == 0 && has(&mapped, &attribute(1, &net)));
    let own = key.ipv4([10, 1, 2, 5].into()).octets();
    assert!(has(&mapped, &attribute(7, &own)) && own[..3] == net[..3]);
    assert!(has(&mapped, &attribute(4, &7u32.to_le_bytes())));
    assert!(has(
        &mapped,
        &attribute(5, &key.ipv4([10, 1, 2, 3].into()).octets())
    ));
    assert!(has(&mapped, &attribute(18, &[])));
    assert!(has(&raw, &[10, 1, 2]) && !has(&mapped, &[10, 1, 2]));
}

#[test]
fn a_rule_and_a_bridge_lose_names_made_of_mac_addresses() {
    let name = b"enxb83fd2c0ffee\0";
    let rule = [
        &[AF_INET, 0, 32, 0, 101, 0, 0, 1, 0, 0, 0, 0][..],
        &attribute(2, &[10, 1, 2, 5]),
        &attribute(3, name),
        &attribute(15, &101u32.to_le_bytes()),
    ]
    .concat();
    let mapped = map(&message(RTM_NEWRULE, &rule)).unwrap();
    let own = Key::from_text("k").ipv4([10, 1, 2, 5].into()).octets();
    assert!(has(&mapped, &attribute(2, &own)) && has(&mapped, &101u32.to_le_bytes()));
    assert!(!has(&mapped, b"c0ffee"));
    let dcb = [
        &[0, 21, 0, 0][..],
        &attribute(1, name),
        &attribute(13 | 0x8000, &attribute(2, &[8; 136])),
        &attribute(14, &[9]),
        &attribute(7, &[1; 6]),
    ]
    .concat();
    let mapped = map(&message(RTM_GETDCB, &dcb)).unwrap();
    assert!(!has(&mapped, b"c0ffee") && has(&mapped, &[8; 136]));
    assert!(has(&mapped, &attribute(14, &[9])) && has(&mapped, &attribute(7, &[])));
}

#[test]
fn a_neighbour_loses_its_addresses() {
    let body = [
        &[AF_INET, 0, 0, 0, 2, 0, 0, 0, 0x80, 0, 0, 1][..],
        &attribute(1, &[10, 1, 2, 3]),
        &attribute(2, &[2, 4, 6, 8, 10, 12]),
    ];
    let mapped = map(&message(RTM_NEWNEIGH, &body.concat())).unwrap();
    let key = Key::from_text("k");
    let own = key.ipv4([10, 1, 2, 3].into()).octets();
    assert!(has(&mapped, &attribute(1, &own)) && has(&mapped, &[0x80, 0, 0, 1]));
    assert!(has(&mapped, &attribute(2, &key.mac([2, 4, 6, 8, 10, 12]))));
}

#[test]
fn broken_routes_are_left_out() {
    assert_eq!(map(&message(RTM_NEWROUTE, &[0; 11])), None);
    assert_eq!(map(&message(RTM_NEWROUTE, &[0; 14])), None);
}

proptest! {
    #[test]
    fn no_bytes_of_routes_make_it_panic(bytes: Vec<u8>, number: u16) {
        let _ = map(&bytes);
        let mut body = vec![AF_INET; 12];
        body.extend(attribute(number % 32, &bytes));
        let _ = map(&message(RTM_NEWROUTE, &body));
        let _ = map(&message(RTM_NEWRULE, &body));
        let _ = map(&message(RTM_GETDCB, &body));
    }
}

fn control(kind: u16, attributes: &[Vec<u8>]) -> Option<Vec<u8>> {
    let body = [vec![0; TCMSG], attributes.concat()].concat();
    map(&message(kind, &body))
}

#[test]
fn filters_lose_addresses_and_keep_what_they_do() {
    let key = Key::from_text("k");
    let drop = [
        attribute(1, b"gact\0"),
        attribute(2, &attribute(2, &[2; 20])),
    ]
    .concat();
    let edit = [
        attribute(1, b"pedit\0"),
        attribute(2, &attribute(2, &[10, 1, 2, 3])),
    ]
    .concat();
    let actions = [attribute(1, &drop), attribute(2, &edit)].concat();
    let flower = [
        attribute(4, &[2, 4, 6, 8, 10, 12]),
        attribute(9, &[17]),
        attribute(12, &[10, 1, 2, 0]),
        attribute(13, &[255, 255, 255, 0]),
        attribute(3, &actions),
    ];
    let mapped = control(
        44,
        &[attribute(1, b"flower\0"), attribute(2, &flower.concat())],
    )
    .unwrap();
    let net = key.ipv4_net([10, 1, 2, 0].into(), 24).octets();
    assert!(has(&mapped, &attribute(12, &net)) && has(&mapped, &[2; 20]));
    assert!(has(&mapped, &attribute(9, &[17])) && has(&mapped, &attribute(4, &[])));
    assert!(!has(&mapped, &[10, 1, 2]));

    let one = |mask: [u8; 4], value: [u8; 4], at: u8| {
        [&mask[..], &value, &[at, 0, 0, 0, 0, 0, 0, 0]].concat()
    };
    let selector = [
        vec![1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        one([255; 4], [10, 1, 2, 3], 16),
        one([0, 0, 255, 255], [0, 0, 18, 183], 20),
    ];
    let u32 = attribute(5, &selector.concat());
    let mapped = control(44, &[attribute(1, b"u32\0"), attribute(2, &u32)]).unwrap();
    assert!(has(&mapped, &key.ipv4([10, 1, 2, 3].into()).octets()) && has(&mapped, &[18, 183]));
}

#[test]
fn disciplines_stay_and_other_messages_are_left_out() {
    let netem = [
        attribute(1, b"netem\0"),
        attribute(2, &[7; 24]),
        attribute(9, &[1; 4]),
    ];
    let mapped = control(36, &netem).unwrap();
    assert!(has(&mapped, &[7; 24]) && !has(&mapped, &[1; 4]));
    assert_eq!(control(17, &netem), None);
}

proptest! {
    #[test]
    fn no_bytes_of_filters_make_it_panic(bytes: Vec<u8>, number in 0u16..16) {
        let _ = control(44, std::slice::from_ref(&bytes));
        for kind in [&b"flower\0"[..], b"u32\0", b"matchall\0", b"bpf\0"] {
            let _ = control(44, &[attribute(1, kind), attribute(2, &attribute(number, &bytes))]);
        }
    }
}
