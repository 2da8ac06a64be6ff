use super::parse;
use crate::fact::setting::SettingRole;

#[test]
fn files_of_assignments() {
    let text = "# comment\n\nbtl_tcp_if_include = eth0\nexport NCCL_DEBUG=\"INFO\"\nnonsense\nUCX_TLS=rc,tcp\n";
    let found = parse::assignments(text);
    let found: Vec<(&str, &str)> = found.iter().map(|(n, v)| (n.as_str(), &**v)).collect();
    assert_eq!(
        found,
        [
            ("btl_tcp_if_include", "eth0"),
            ("NCCL_DEBUG", "INFO"),
            ("UCX_TLS", "rc,tcp")
        ]
    );
    let yaml = "compute_environment: LOCAL_MACHINE\ndeepspeed_config:\n  deepspeed_hostfile: /job/hostfile\nmain_process_ip: null\nmain_process_port: '29500'\nnum_machines: 2 # nodes\n";
    let found = parse::yaml_keys(yaml);
    let value = |key: &str| found.iter().find(|(k, _)| k == key).map(|(_, v)| &**v);
    assert_eq!(value("deepspeed_hostfile"), Some("/job/hostfile"));
    assert_eq!(value("main_process_ip"), None);
    assert_eq!(value("main_process_port"), Some("29500"));
    assert_eq!(value("num_machines"), Some("2"));
}

#[test]
fn addresses_that_lead_back() {
    for back in [
        "127.0.0.1",
        "127.0.1.1",
        "::1",
        "[::1]",
        "localhost",
        "LOCALHOST.localdomain",
        "0.0.0.0",
    ] {
        assert!(parse::is_loopback(back), "{back}");
    }
    for away in ["10.0.0.1", "node1", "", "fd00::1"] {
        assert!(!parse::is_loopback(away), "{away}");
    }
    let of = |list: &[&str]| parse::loopback(serde_json::json!({ "addresses": list }).into());
    assert_eq!(of(&["127.0.1.1"]), Ok(true));
    assert_eq!(of(&["127.0.1.1", "10.0.0.1"]), Ok(false));
    assert_eq!(of(&[]), Ok(false));
}

#[test]
fn what_is_left_out_names_nothing_that_has_to_be_there() {
    assert_eq!(
        parse::role("NCCL_SOCKET_IFNAME", "^docker0,lo"),
        SettingRole::Exclusion
    );
    assert_eq!(
        parse::role("UCX_NET_DEVICES", "mlx5_0:1"),
        SettingRole::Devices
    );
    assert_eq!(
        parse::disables("NCCL_IB_DISABLE", "true"),
        "none",
        "NCCL reads 0"
    );
    assert_ne!(parse::disables("NCCL_IB_DISABLE", "1"), "none");
}
