use super::*;
use crate::probe::testing::{known, run as run_probe};
use crate::source::testing::{attribute, message};
use crate::source::wire;

fn link(index: u32, flags: u32, name: &str, rest: &[Vec<u8>]) -> Vec<u8> {
    let fixed = [[0; 4], index.to_le_bytes(), flags.to_le_bytes(), [0; 4]].concat();
    let name = attribute(3, format!("{name}\0").as_bytes());
    message(16, &[fixed, name, rest.concat()].concat())
}

fn address(index: u32, bytes: &[u8], prefix: u8, label: Option<&str>) -> Vec<u8> {
    let family = if bytes.len() == 4 { 2 } else { 10 };
    let fixed = [[family, prefix, 0, 0], index.to_le_bytes()].concat();
    let label = label.map(|l| attribute(3, format!("{l}\0").as_bytes()));
    let body = [fixed, attribute(1, bytes), label.unwrap_or_default()];
    message(20, &body.concat())
}

fn line(name: &str, bytes: &[u8]) -> String {
    format!(
        r#"{{"q":{{"netlink":"{name}"}},"hex":"{}"}}"#,
        wire::to_hex(bytes)
    )
}

#[test]
fn links_with_their_addresses_in_the_kernels_order() {
    let links = [
        link(1, 0x49, "lo", &[attribute(4, &65536u32.to_le_bytes())]),
        link(
            2,
            0x1043,
            "eth0",
            &[
                attribute(4, &1500u32.to_le_bytes()),
                attribute(10, &3u32.to_le_bytes()),
            ],
        ),
        link(
            3,
            0x1003,
            "docker0",
            &[attribute(18, &attribute(1, b"bridge\0"))],
        ),
    ]
    .concat();
    let mut local = [0; 16];
    local[0] = 0xfe;
    local[1] = 0x80;
    let addresses = [
        address(1, &[127, 0, 0, 1], 8, Some("lo")),
        address(2, &[10, 1, 2, 3], 24, Some("eth0")),
        address(2, &[10, 1, 2, 4], 24, Some("eth0:1")),
        address(2, &local, 64, None),
    ]
    .concat();
    let (links, addresses) = (
        line("route/getlink", &links),
        line("route/getaddr", &addresses),
    );
    let lines = [
        links.as_str(),
        &addresses,
        r#"{"q":{"link":"/sys/class/net/eth0/device"},"text":"../../../0000:0c:00.0"}"#,
    ];
    let (facts, node) = run_probe(&PROBE, &lines);
    let names: Vec<&str> = facts
        .below(node, Subject::Interface)
        .map(|id| facts.name(id))
        .collect();
    assert_eq!(names, ["lo", "eth0", "eth0:1", "docker0"]);
    assert!(facts.members(Subject::Interface, node).is_ok());
    let of = |name: &str| {
        known(&facts, Subject::Interface, name, interface::ADDRESSES)
            .unwrap()
            .join(" ")
    };
    assert_eq!(of("eth0"), "10.1.2.3/24 fe80::/64");
    assert_eq!(of("eth0:1"), "10.1.2.4/24");
    assert_eq!(of("docker0"), "");
    let flag = |name: &str, key| known(&facts, Subject::Interface, name, key);
    assert_eq!(flag("lo", interface::LOOPBACK), Some(true));
    assert_eq!(flag("lo", interface::PHYSICAL), Some(false));
    assert_eq!(flag("eth0", interface::PHYSICAL), Some(true));
    assert_eq!(flag("docker0", interface::PHYSICAL), Some(false));
    assert_eq!(flag("docker0", interface::RUNNING), Some(false));
    assert_eq!(flag("docker0", interface::UP), Some(true));
    let text = |name: &str, key| known(&facts, Subject::Interface, name, key).unwrap();
    assert_eq!(&*text("eth0", interface::MASTER), "docker0");
    assert_eq!(&*text("docker0", interface::KIND), "bridge");
    assert_eq!(
        known(&facts, Subject::Interface, "eth0", interface::MTU),
        Some(Bytes(1500))
    );
}

#[test]
fn without_addresses_the_interfaces_are_not_all_known() {
    let links = line("route/getlink", &link(1, 0x49, "lo", &[]));
    let refused = r#"{"q":{"netlink":"route/getaddr"},"errno":"EPERM"}"#;
    let (facts, node) = run_probe(&PROBE, &[&links, refused]);
    assert!(facts.members(Subject::Interface, node).is_err());
    assert_eq!(
        known(&facts, Subject::Interface, "lo", interface::UP),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::Interface, "lo", interface::ADDRESSES),
        None
    );
    let (facts, node) = run_probe(&PROBE, &[]);
    assert!(facts.members(Subject::Interface, node).is_err());
}

#[test]
fn messages_that_are_cut_short_are_gaps() {
    let whole = link(7, 0x49, "eth7", &[]);
    for length in 1..whole.len() {
        assert!(messages::links(&whole[..length]).is_err(), "{length}");
    }
    assert!(messages::links(&message(16, &[0; 16])).is_err(), "no name");
    assert!(messages::addresses(&whole).is_err(), "of the other kind");
    let odd = [&[2, 24, 0, 0, 1, 0, 0, 0][..], &attribute(1, &[1, 2, 3])].concat();
    let odd = message(20, &odd);
    assert!(messages::addresses(&odd).is_err());
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        let _ = messages::links(&bytes);
        let _ = messages::links(&message(16, &bytes));
        let _ = messages::addresses(&message(20, &bytes));
    }
}

#[test]
fn an_xdp_program_is_named_and_its_absence_needs_the_attribute() {
    // As Linux 6.12 has it of a veth with a program in the generic hook.
    let program = [attribute(2, &[2]), attribute(4, &12u32.to_le_bytes())].concat();
    let links = [
        link(2, 0x1043, "eth0", &[attribute(43, &program)]),
        link(3, 0x1043, "eth1", &[attribute(43, &attribute(2, &[0]))]),
        link(4, 0x1043, "eth2", &[]),
    ]
    .concat();
    let links = line("route/getlink", &links);
    let (facts, _) = run_probe(&PROBE, &[&links]);
    let of = |name| known(&facts, Subject::Interface, name, interface::XDP);
    assert_eq!(
        of("eth0").as_deref(),
        Some("program 12 in the kernel's generic hook")
    );
    assert_eq!(of("eth1").as_deref(), Some("none"));
    assert_eq!(of("eth2"), None, "older recordings do not hold it");
}
