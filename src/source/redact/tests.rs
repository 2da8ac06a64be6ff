mod machine;
mod planted;

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const NODE: &str = "node1720.cluster.example";

fn redactor(key: &str) -> Redactor {
    Redactor::new(
        Key::from_text(key),
        NODE,
        &["alice", "/lustre/people/alice"],
    )
}

fn text(input: &str, kind: Kind) -> String {
    redactor("k").scan(input, kind)
}

fn read(path: &str, input: &str) -> Result<Answer, Refusal> {
    redactor("k").answer(&Question::read(path), Answer::Text(input.into()))
}

fn read_text(path: &str, input: &str) -> String {
    match read(path, input) {
        Ok(Answer::Text(text)) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_identity_stays() {
    for same in [
        "4: ACTIVE\n",
        "400 Gb/sec (4X NDR)\n",
        "20.31.2354",
        "0x15b3\n",
        "0x3a4",
        "0000:0c:00.0",
        "../../../0000:0c:00.0",
        "/sys/devices/pci0000:00/0000:00:01.0/0000:0c:00.0/infiniband/mlx5_0/ports/1/gids/0",
        "../../../devices/pci0000:64/0000:64:05.5/pci10000:00/10000:00:02.0/10000:e1:00.0",
        "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/pci0001:00/0001:00:00.0",
        "../../../../kernel/iommu_groups/21",
        "cpu:type:x86,ven0002fam0019mod0001:feature:,0000,0002",
        "RxErr 2\nBadTLP 0\nTOTAL_ERR_COR 2\n",
        "BOOT_IMAGE=/boot/vmlinuz-6.1.0 ro intel_iommu=on iommu=pt pci=realloc=off",
        "12:34:56",
        "2026-11-20T10:11:12Z",
        "18446744073709551615",
        "131072 66 12",
        "1234567890123456",
        "MT_0000000838",
        "eth0 ib0 ens1f0np0 mlx5_0 bond0.100 rxe0",
        "0xffff",
        "00000000,0000ffff",
        "0-15,32-47",
        "N/A (no PMA)",
        "max rss 0x0000000000140204 0x00000000f6800000",
        "0xffffffffc0a00000",
        "CapEff:\t000001ffffffffff",
        "version 5.4.0.84-1",
        "fw 20.31.23.54",
        "std::vec::Vec",
        "::",
        "fe80::",
        "0.0.0.0",
        "255.255.255.0",
        "127.0.0.1",
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "0000:0000:0000:0000",
        "fe80:0000:0000:0000:0000:0000:0000:0000",
        "0000:0000:0000:0000:0000:0000:0000:0000",
        "v1-10.0.0.1",
        "a1.2.3.4",
        "1.2.3.4.5",
        "MT4129 ConnectX7   Mellanox Technologies",
        "PCI_ID=15B3:101B",
        "16.0 GT/s PCIe",
        "/root/x",
        "Ubuntu 24.04.1 LTS",
        "1-2-3-4",
        "eth0:1",
    ] {
        assert_eq!(text(same, Kind::KERNEL), same);
        assert_eq!(text(same, Kind::FREE), same);
    }
    for (path, same) in [
        ("/sys/class/infiniband/bnxt_re0/fw_ver", "218.0.219.13\n"),
        ("/sys/module/mlx5_core/version", "5.4.0.84\n"),
        (
            "/proc/sys/kernel/osrelease",
            "5.4.0.84-abcdefabcdef.x86_64\n",
        ),
        (
            "/proc/self/status",
            "CapEff:\tb83fd203000c0fee\nSigCgt:\tb83fd2fffec0ffee\n",
        ),
        (
            "/proc/modules",
            "mlx5_core 1 2 mlx5_ib, Live 0xb83fd203000c0fee\n",
        ),
        (
            "/sys/bus/pci/devices/0000:0c:00.0/resource",
            "0xb83fd203000c0fee 0x0 0x0\n",
        ),
        (
            "/etc/os-release",
            "PRETTY_NAME=\"Rocky Linux 10.0.0.1 (Green Obsidian)\"\nVERSION_ID=9\n",
        ),
        (
            "/sys/class/infiniband/mlx5_0/node_desc",
            "MT4129 ConnectX7   Mellanox Technologies\n",
        ),
        ("/proc/sys/kernel/domainname", "(none)\n"),
    ] {
        assert_eq!(read_text(path, same), same, "{path}");
    }
}

#[test]
fn what_is_an_identity_is_replaced_in_its_form() {
    let key = Key::from_text("k");
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let mac = key.mac([0xb8, 0x3f, 0xd2, 0xc0, 0xff, 0xee]);
    let pairs: Vec<String> = mac.iter().map(|b| format!("{b:02x}")).collect();
    let (mac_colons, mac_hex) = (pairs.join(":"), hex(&mac));
    let guid = format!("{:016x}", key.guid(0xb83f_d203_00c0_ffee));
    let groups = |g: &str| format!("{}:{}:{}:{}", &g[..4], &g[4..8], &g[8..12], &g[12..]);
    assert_eq!(
        guid,
        format!("{}0300{}", &mac_hex[..6], &mac_hex[6..]),
        "the GUID holds the MAC"
    );
    let ip = key.ipv4([10, 1, 2, 3].into());
    let host = key.host(NODE);
    let short = key.host("node1720");
    assert!(host.starts_with(&short));
    for (input, output) in [
        ("b8:3f:d2:c0:ff:ee\n", format!("{mac_colons}\n")),
        ("ether b8:3f:d2:c0:ff:ee:", format!("ether {mac_colons}:")),
        ("B8-3F-D2-C0-FF-EE", pairs.join("-").to_uppercase()),
        ("upper_enxb83fd2c0ffee", format!("upper_enx{mac_hex}")),
        ("enxb83fd2c0ffee", format!("enx{mac_hex}")),
        ("rocexb83fd20300c0ffee", format!("rocex{guid}")),
        ("b83f:d203:00c0:ffee\n", format!("{}\n", groups(&guid))),
        ("0xb83fd20300c0ffee", format!("0x{guid}")),
        ("S-b83fd20300c0ffee", format!("S-{guid}")),
        (
            "fe80:0000:0000:0000:b83f:d203:00c0:ffee",
            format!("fe80:0000:0000:0000:{}", groups(&guid)),
        ),
        (
            "80:00:02:08:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:c0:ff:ee",
            format!(
                "80:00:02:08:fe:80:00:00:00:00:00:00:{}",
                key.hardware(&[0xb8, 0x3f, 0xd2, 3, 0, 0xc0, 0xff, 0xee])
                    .unwrap()
                    .iter()
                    .map(|b| format!("{b:02x}"))
                    .collect::<Vec<_>>()
                    .join(":")
            ),
        ),
        ("inet 10.1.2.3/32,", format!("inet {ip}/32,")),
        ("10.1.2.3:4791", format!("{ip}:4791")),
        ("10.1.2.3.", format!("{ip}.")),
        ("10.1.2.3-10.1.2.3", format!("{ip}-{ip}")),
        ("::ffff:10.1.2.3", format!("::ffff:{ip}")),
        (
            "0000:0000:0000:0000:0000:ffff:0a01:0203",
            format!(
                "0000:0000:0000:0000:0000:ffff:{:04x}:{:04x}",
                u32::from(ip) >> 16,
                u32::from(ip) & 0xffff
            ),
        ),
        ("node1720.cluster.example up", format!("{host} up")),
        ("(node1720)", format!("({short})")),
        ("NODE1720-ib0", format!("{short}-ib0")),
    ] {
        assert_eq!(text(input, Kind::KERNEL), output, "{input}");
    }
    assert_eq!(
        read_text("/sys/class/infiniband/mlx5_0/node_desc", "old77 HCA-5\n"),
        format!("{} HCA-5\n", key.host("old77"))
    );
    assert_eq!(
        read_text("/proc/sys/kernel/hostname", "node1720\n"),
        format!("{short}\n")
    );
    assert_eq!(
        read_text("/sys/class/net/eth0/phys_switch_id", "eeffc00003d23fb8\n"),
        format!("{:016x}\n", key.guid(0xb83f_d203_00c0_ffee).swap_bytes())
    );
    let free = text(
        "node1721 node[1-3] alice=alice /home/alice/secret/run.log; token=abc12 GPU-8932f937 GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
        Kind::FREE,
    );
    assert!(!free.contains("alice") && !free.contains("secret") && !free.contains("node1721"));
    assert!(
        free.contains("/run.log;") && free.contains("token=redacted"),
        "{free}"
    );
    let gpus: Vec<&str> = free.split(" GPU-").skip(1).collect();
    assert!(
        gpus[1].starts_with(gpus[0]) && gpus[0] != "8932f937",
        "{free}"
    );
}

#[test]
fn what_smpquery_says_keeps_its_numbers_and_not_its_keys() {
    let said = "Mkey:............................0x00000000c0ffee77\nGidPrefix:.......................0xfe80000000000000\n\
        Lid:.............................932\nCapMask:.........................0xa651e848\nLinkSpeedSupported:..............2.5 Gbps or 5.0 Gbps\n";
    let expected = said.replace("0x00000000c0ffee77", "redacted");
    let answer = redactor("k").answer(
        &Question::run(&["smpquery", "-C", "mlx5_0", "-P", "1", "-D", "portinfo", "0"]),
        Answer::Text(said.into()),
    );
    assert_eq!(answer, Ok(Answer::Text(expected.into())));
}

#[test]
fn versions_of_driver_stacks_and_states_of_services_stay() {
    let command = |argv: &[&str], said: &str| {
        redactor("k").answer(&Question::run(argv), Answer::Text(said.into()))
    };
    for (argv, said) in [
        (&["ofed_info", "-s"][..], "MLNX_OFED_LINUX-24.10-3.2.5.0:\n"),
        (&["ofed_info", "-s"], "OFED-internal-24.10-1.1.4.0:\n"),
        (
            &["systemctl", "show", "ibacm.socket"],
            "Id=ibacm.socket\nLoadState=loaded\nActiveState=active\nSubState=listening\nUnitFileState=enabled\n",
        ),
    ] {
        assert_eq!(command(argv, said), Ok(Answer::Text(said.into())));
    }
    let built = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (root@node1720)\n";
    let shown = read_text("/proc/driver/nvidia/version", built);
    assert!(
        shown.contains("550.54.15") && !shown.contains("node1720"),
        "{shown}"
    );
    for (question, value) in [
        (
            Question::call(
                "running_commands",
                [("names", "ibacm nv-fabricmanage".into())],
            ),
            serde_json::json!({ "running": ["nv-fabricmanage"], "all": true }),
        ),
        (Question::call("cpu_dma_latency", []), 2_000_000_000.into()),
    ] {
        let said = redactor("k").answer(&question, Answer::Value(Arc::new(value.clone())));
        assert_eq!(said, Ok(Answer::Value(Arc::new(value))));
        assert_eq!(redactor("k").question(question.clone()), question);
    }
}

#[test]
fn the_routing_table_keeps_its_subnets() {
    let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t0102010A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        eth0\t0002010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
    let mapped = read_text("/proc/net/route", table);
    let rows: Vec<Vec<&str>> = mapped.lines().map(|l| l.split('\t').collect()).collect();
    assert_eq!(mapped.lines().next(), table.lines().next());
    assert_eq!((rows[1][1], rows[1][7]), ("00000000", "00000000"));
    let address = |hex| u32::from_str_radix(hex, 16).unwrap().swap_bytes();
    let (gateway, net) = (address(rows[1][2]), address(rows[2][1]));
    assert_eq!(gateway >> 24, 10);
    assert_eq!(net, gateway & 0xffff_ff00);
    assert_ne!(rows[1][2], "0102010A");
    assert_eq!(rows[2][7], "00FFFFFF");
}

#[test]
fn the_serial_number_in_configuration_space_is_that_of_the_mac_address() {
    let mut config = vec![0u8; 4096];
    config[..2].copy_from_slice(&[0xb3, 0x15]);
    config[0x100..0x104].copy_from_slice(&(0x1500_0001u32 | 1 << 16).to_le_bytes());
    config[0x150..0x154].copy_from_slice(&(3u32 | 1 << 16).to_le_bytes());
    config[0x154..0x15c].copy_from_slice(&0xb83f_d2ff_fec0_ffeeu64.to_le_bytes());
    let mapped = files::pci_config(&Key::from_text("k"), &config);
    let guid = Key::from_text("k").guid(0xb83f_d2ff_fec0_ffee);
    assert_eq!(mapped[0x154..0x15c], guid.to_le_bytes());
    assert_eq!(
        (&mapped[..0x154], &mapped[0x15c..]),
        (&config[..0x154], &config[0x15c..])
    );
}

#[test]
fn what_cannot_be_redacted_is_left_out_and_says_so() {
    let left_out = Err(Refusal::not_asked(LEFT_OUT));
    let answer = |q, a| redactor("k").answer(&q, a);
    let bytes = || Answer::Bytes([0xb8, 0x3f, 0xd2, 0xc0, 0xff, 0xee].into());
    assert_eq!(read("/proc/net/tcp", "x"), left_out);
    assert_eq!(read("/etc/hosts", "10.0.0.1 x"), left_out);
    assert_eq!(
        answer(Question::netlink("route/link-get", []), bytes()),
        left_out
    );
    assert_eq!(answer(Question::call("f", []), bytes()), left_out);
    assert_eq!(
        answer(Question::read("/sys/x"), Answer::Bytes([0, 0xff].into())),
        left_out
    );
    assert_eq!(
        answer(Question::read("/sys/x"), Answer::Bytes([b'a', 0xff].into())),
        Ok(Answer::Bytes([b'a', 0xff].into()))
    );
}

#[test]
fn a_host_that_is_called_like_a_directory_of_the_kernel_loses_no_question() {
    let redactor = Redactor::new(Key::from_text("k"), "vm", &[]);
    let question = Question::read("/proc/sys/vm/zone_reclaim_mode");
    assert_eq!(redactor.question(question.clone()), question);
}

#[test]
fn ordinary_names_are_no_identity() {
    let redactor = Redactor::new(Key::from_text("k"), "localhost", &["root", "", "/root"]);
    assert_eq!(
        redactor.scan("localhost root /root/x", Kind::FREE),
        "localhost root /root/x"
    );
    let redactor = Redactor::new(Key::from_text("k"), "c0", &[]);
    assert_eq!(redactor.scan("0000:c0:00.0", Kind::KERNEL), "0000:c0:00.0");
    assert_ne!(
        redactor
            .header(Header {
                node: "c0".into(),
                ..Header::default()
            })
            .node,
        "c0"
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(input in ".{0,60}", path in "[/a-z0-9:._ é]{0,40}") {
        let redactor = redactor("k");
        for kind in [Kind::KERNEL, Kind::NAME, Kind::FREE] {
            redactor.scan(&input, kind);
        }
        for question in [Question::read(format!("/sys/{path}")), Question::read(path.as_str()), Question::link(path.as_str()),
            Question::read("/proc/net/route"), Question::read("/sys/a/config"), Question::run(&[&path])] {
            let _ = redactor.answer(&question, Answer::Text(input.as_str().into()));
            let _ = redactor.answer(&question, Answer::Bytes(input.as_bytes().into()));
            redactor.question(question);
        }
    }

    #[test]
    fn no_hard_text_makes_it_panic(input in "[0-9a-fx:./%@=é/ \\-_GPUhomeno\u{0}]{0,60}", users in "[/a-zé]{0,9}", node in "[.a-z0-9é-]{0,9}") {
        let redactor = Redactor::new(Key::from_text("k"), &node, &[&users]);
        for kind in [Kind::KERNEL, Kind::NAME, Kind::FREE] {
            redactor.scan(&input, kind);
        }
    }

    #[test]
    fn every_address_in_any_place_is_found(a: u32, mac: [u8; 6], v6: u128, before in "[ \\[(=,/@\"]?", after in "[ \\]),%\"]?") {
        prop_assume!(a >> 24 != 127 && a >> 28 != 15 && a != 0 && a >> 8 != 0xe0_0000);
        let address = std::net::Ipv4Addr::from(a);
        let mapped = Key::from_text("k").ipv4(address);
        let whole = format!("{before}{address}{after}");
        prop_assert_eq!(text(&whole, Kind::KERNEL), format!("{before}{mapped}{after}"));
        let colons = |m: [u8; 6]| m.map(|b| format!("{b:02x}")).join(":");
        let whole = format!("{before}{}{after}", colons(mac));
        prop_assert_eq!(text(&whole, Kind::KERNEL), format!("{before}{}{after}", colons(Key::from_text("k").mac(mac))));
        let address = std::net::Ipv6Addr::from(v6);
        let mapped = Key::from_text("k").ipv6(address);
        let written = text(&format!("{before}{address}{after}"), Kind::KERNEL);
        let inside = &written[before.len()..written.len() - after.len()];
        prop_assert_eq!(inside.parse::<std::net::Ipv6Addr>(), Ok(mapped));
    }

    #[test]
    fn a_name_means_the_same_in_a_path_and_in_a_text(mac: [u8; 6]) {
        let name: String = "enx".chars().chain(mac.iter().flat_map(|b| format!("{b:02x}").chars().collect::<Vec<_>>())).collect();
        let path: Arc<str> = format!("/sys/class/net/{name}/mtu").into();
        prop_assert_eq!(&*redactor("k").path(&path), format!("/sys/class/net/{}/mtu", text(&name, Kind::KERNEL)));
    }
}
