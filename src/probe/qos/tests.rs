use std::sync::Arc;

use super::*;
use crate::probe::testing::{known, run};
use crate::source::wire::to_hex;

const NODE: [&str; 6] = [
    r#"{"q":{"list":"/sys/class/infiniband"},"names":["mlx5_0"]}"#,
    r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/ports"},"names":["1"]}"#,
    r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/link_layer"},"text":"Ethernet\n"}"#,
    r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs"},"names":["0"]}"#,
    r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"},"text":"eth2\n"}"#,
    r#"{"q":{"link":"/sys/class/infiniband/mlx5_0/device/driver"},"text":"../../../bus/pci/drivers/mlx5_core"}"#,
];
const LISTED: &str = r#"{"q":{"list":"/sys/class/net/eth2"},"names":["ecn","mtu"]}"#;
const NOT_SAMPLED: &str =
    r#"{"q":{"wait":"sample"},"refused":"not-asked: no sample was asked for (--sample SECONDS)"}"#;

fn over(extra: &[&str]) -> Facts {
    run(&PROBE, &[&NODE[..], extra].concat()).0
}

fn dcb_line(netdev: &str, reply: &[u8]) -> String {
    format!(
        r#"{{"q":{{"netlink":"route/getdcb","netdev":"{netdev}"}},"hex":"{}"}}"#,
        to_hex(reply)
    )
}

fn texts(facts: &Facts, name: &str, key: crate::fact::Key<Arc<[Arc<str>]>>) -> Option<String> {
    known(facts, Subject::Netdev, name, key).map(|texts| texts.join(" "))
}

#[test]
fn one_bit_names_the_error_correction() {
    for (active, expected) in [
        (4, Some(Fec::Off)),
        (8, Some(Fec::Rs)),
        (16, Some(Fec::BaseR)),
        (32, Some(Fec::LowLatency)),
        // None, not known, left to the adapter, two at once.
        (0, None),
        (1, None),
        (2, None),
        (24, None),
    ] {
        let line = format!(
            r#"{{"q":{{"call":"ethtool_fec","netdev":"eth2"}},"value":{{"active":{active}}}}}"#
        );
        let facts = over(&[LISTED, &line]);
        let fec = known(&facts, Subject::Netdev, "eth2", netdev::FEC);
        assert_eq!(fec, expected, "{active}");
    }
}

#[test]
fn pfc_trust_and_map_of_mlx5() {
    let all: Vec<(u8, u8)> = (0..64).map(|dscp| (dscp, dscp >> 3)).collect();
    let line = dcb_line("eth2", &dcb::testing::reply("eth2", 0b1000, &all, 0x0d));
    let facts = over(&[LISTED, &line]);
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::DCB),
        Some(true)
    );
    assert_eq!(texts(&facts, "eth2", netdev::PFC).as_deref(), Some("3"));
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::TRUST),
        Some(Trust::Dscp)
    );
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::DCBX_HOST),
        Some(true)
    );
    let map = known(&facts, Subject::Netdev, "eth2", netdev::DSCP_PRIORITIES).unwrap();
    assert_eq!((map.len(), &*map[26], &*map[63]), (64, "3", "7"));
    let scheduling = texts(&facts, "eth2", netdev::SCHEDULING).unwrap();
    assert_eq!(
        scheduling,
        "vendor vendor vendor vendor vendor vendor vendor vendor"
    );
    assert_eq!(
        texts(&facts, "eth2", netdev::BUFFERS).as_deref(),
        Some("0 0 0 1 0 0 0 0")
    );
}

#[test]
fn a_driver_without_bridging_has_no_pfc_and_that_is_known() {
    let refused = r#"{"q":{"netlink":"route/getdcb","netdev":"eth2"},"errno":"EOPNOTSUPP"}"#;
    let facts = over(&[LISTED, refused]);
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::DCB),
        Some(false)
    );
    assert_eq!(texts(&facts, "eth2", netdev::PFC).as_deref(), Some(""));
    assert_eq!(known(&facts, Subject::Netdev, "eth2", netdev::TRUST), None);
    // Not recorded is another thing.
    let facts = over(&[LISTED]);
    assert_eq!(known(&facts, Subject::Netdev, "eth2", netdev::DCB), None);
    assert_eq!(texts(&facts, "eth2", netdev::PFC), None);
}

#[test]
fn the_members_of_a_bond_speak_for_it_where_they_agree() {
    let ndev = r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"},"text":"bond0\n"}"#;
    let mut lines = NODE.to_vec();
    lines[4] = ndev;
    lines.extend([
        r#"{"q":{"list":"/sys/class/net/bond0"},"names":["bonding","lower_eth2","lower_eth3"]}"#,
        r#"{"q":{"list":"/sys/class/net/eth2"},"names":["mtu","upper_bond0"]}"#,
        r#"{"q":{"list":"/sys/class/net/eth3"},"names":["mtu","upper_bond0"]}"#,
        r#"{"q":{"call":"ethtool_pause","netdev":"eth2"},"value":{"autoneg":0,"rx":1,"tx":1}}"#,
        r#"{"q":{"call":"ethtool_pause","netdev":"eth3"},"value":{"autoneg":0,"rx":1,"tx":0}}"#,
    ]);
    let one = dcb_line("eth2", &dcb::testing::reply("eth2", 8, &[], 1));
    let same = dcb_line("eth3", &dcb::testing::reply("eth3", 8, &[], 1));
    let facts = run(&PROBE, &[&lines[..], &[&one, &same]].concat()).0;
    assert_eq!(texts(&facts, "bond0", netdev::PFC).as_deref(), Some("3"));
    assert_eq!(
        known(&facts, Subject::Netdev, "bond0", netdev::PAUSE_TX),
        None
    );
    let other = dcb_line("eth3", &dcb::testing::reply("eth3", 16, &[], 1));
    let facts = run(&PROBE, &[&lines[..], &[&one, &other]].concat()).0;
    assert_eq!(texts(&facts, "bond0", netdev::PFC), None);
}

#[test]
fn what_the_driver_forces() {
    let dir = r#"{"q":{"list":"/sys/class/infiniband/mlx5_0"},"names":["device","ports","tc"]}"#;
    let file = r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/tc/1/traffic_class"},"text":"Global tclass=106\n"}"#;
    let facts = over(&[dir, file]);
    assert_eq!(
        known(&facts, Subject::Port, "mlx5_0/1", port::CLASS_FORCED),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::Port, "mlx5_0/1", port::FORCED_CLASS),
        Some(106)
    );
    let empty = r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/tc/1/traffic_class"},"text":""}"#;
    let facts = over(&[dir, empty]);
    assert_eq!(
        known(&facts, Subject::Port, "mlx5_0/1", port::CLASS_FORCED),
        Some(false)
    );
    let inbox = r#"{"q":{"list":"/sys/class/infiniband/mlx5_0"},"names":["device","ports"]}"#;
    let facts = over(&[inbox]);
    assert_eq!(
        known(&facts, Subject::Port, "mlx5_0/1", port::CLASS_FORCED),
        Some(false)
    );
    assert_eq!(
        known(&facts, Subject::Port, "mlx5_0/1", port::FORCED_CLASS),
        None
    );
    let facts = over(&[dir]);
    assert_eq!(
        known(&facts, Subject::Port, "mlx5_0/1", port::CLASS_FORCED),
        None
    );
}

#[test]
fn what_rdma_cm_begins_with() {
    let mounted = r#"{"q":{"list":"/sys/kernel/config"},"names":["rdma_cm"]}"#;
    let set = [
        mounted,
        r#"{"q":{"list":"/sys/kernel/config/rdma_cm"},"names":["mlx5_0"]}"#,
        r#"{"q":{"read":"/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode"},"text":"IB/RoCE v1\n"}"#,
        r#"{"q":{"read":"/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"},"text":"106\n"}"#,
    ];
    let facts = over(&set);
    assert_eq!(
        known(&facts, Subject::Port, "mlx5_0/1", port::CMA_MODE),
        Some(CmaMode::V1)
    );
    assert_eq!(
        known(&facts, Subject::Port, "mlx5_0/1", port::CMA_TOS),
        Some(106)
    );
    let facts = over(&[
        mounted,
        r#"{"q":{"list":"/sys/kernel/config/rdma_cm"},"names":[]}"#,
    ]);
    assert_eq!(
        known(&facts, Subject::Port, "mlx5_0/1", port::CMA_MODE),
        Some(CmaMode::Default)
    );
    assert_eq!(
        known(&facts, Subject::Port, "mlx5_0/1", port::CMA_TOS_SET),
        Some(false)
    );
    let facts = over(&[r#"{"q":{"list":"/sys/kernel/config"},"names":[]}"#]);
    assert_eq!(
        known(&facts, Subject::Port, "mlx5_0/1", port::CMA_MODE),
        None,
        "not mounted"
    );
}

#[test]
fn ecn_of_the_vendors_driver() {
    let enabled = |point: &str, on: u8| -> Vec<String> {
        (0..8)
            .map(|p| {
                format!(
                    r#"{{"q":{{"read":"/sys/class/net/eth2/ecn/{point}/enable/{p}"}},"text":"{}\n"}}"#,
                    on >> p & 1
                )
            })
            .collect()
    };
    let lines = [enabled("roce_np", 0xff), enabled("roce_rp", 0x08)].concat();
    let mut all = vec![LISTED];
    all.extend(lines.iter().map(String::as_str));
    let facts = over(&all);
    assert_eq!(
        texts(&facts, "eth2", netdev::ECN_REACTS).as_deref(),
        Some("3")
    );
    assert_eq!(
        texts(&facts, "eth2", netdev::ECN_NOTIFIES).as_deref(),
        Some("0 1 2 3 4 5 6 7")
    );
    let facts = over(&[r#"{"q":{"list":"/sys/class/net/eth2"},"names":["mtu"]}"#]);
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::ECN_SWITCHED),
        Some(false)
    );
}

#[test]
fn statistics_read_once_and_twice() {
    let first = r#"{"q":{"call":"ethtool_statistics","netdev":"eth2"},"n":0,"t":1000000,"value":{"rx_discards_phy":100,"tx_pause_ctrl_phy":7}}"#;
    let facts = over(&[LISTED, first, NOT_SAMPLED]);
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::DISCARDS),
        Some(100)
    );
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::PAUSE_STORMS),
        Some(0)
    );
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::SAMPLED),
        Some(false)
    );
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::DISCARD_RATE),
        None
    );
    let facts = over(&[
        LISTED,
        first,
        r#"{"q":{"wait":"sample"},"t":3000000,"value":2.0}"#,
        r#"{"q":{"call":"ethtool_statistics","netdev":"eth2"},"n":1,"t":3000000,"value":{"rx_discards_phy":90,"tx_pause_ctrl_phy":27}}"#,
    ]);
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::SAMPLED),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::PAUSE_SENT_RATE),
        Some(PerSecond(10.0))
    );
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::DISCARD_RATE),
        None,
        "it went down"
    );
    let none = r#"{"q":{"call":"ethtool_statistics","netdev":"eth2"},"value":{}}"#;
    let facts = over(&[LISTED, none, NOT_SAMPLED]);
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::COUNTS_DROPS),
        Some(false)
    );
    let facts = over(&[LISTED]);
    assert_eq!(
        known(&facts, Subject::Netdev, "eth2", netdev::COUNTS_DROPS),
        None
    );
}

#[test]
fn ports_of_infiniband_have_none_of_it() {
    let mut lines = NODE.to_vec();
    lines[2] =
        r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/link_layer"},"text":"InfiniBand\n"}"#;
    let (facts, _) = run(&PROBE, &lines);
    assert_eq!(facts.all(Subject::Netdev).count(), 0);
}
