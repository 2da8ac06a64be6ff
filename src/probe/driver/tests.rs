use super::*;
use crate::fact::{Key, Typed};
use crate::probe::testing::run;

fn of<T: Typed>(lines: &[&str], key: Key<T>) -> Option<T> {
    let (facts, node) = run(&PROBE, lines);
    facts.known(node, key)
}

#[test]
fn nothing_recorded_is_nothing_known() {
    assert_eq!(of(&[], node::COMPUTE_GPUS), None);
    assert_eq!(of(&[], node::NVIDIA_DRIVER), None);
    assert_eq!(of(&[], node::NVIDIA_LIBRARY), None);
    assert_eq!(of(&[], node::OFED), None);
    assert_eq!(of(&[], node::MEMORY_PEERS), None);
    assert_eq!(of(&[], node::PEERMEM_REGISTERED), None);
    assert_eq!(of(&[], node::GDRDRV_DEVICE), None);
}

#[test]
fn gpus_without_a_display_are_compute_gpus() {
    let lines = [
        r#"{"q":{"list":"/sys/bus/pci/drivers/nvidia"},"names":["0000:1b:00.0","0000:43:00.0","0000:5d:00.0","bind","module","new_id","unbind"]}"#,
        r#"{"q":{"read":"/sys/bus/pci/devices/0000:1b:00.0/class"},"text":"0x030200\n"}"#,
        r#"{"q":{"read":"/sys/bus/pci/devices/0000:43:00.0/class"},"text":"0x030200\n"}"#,
        r#"{"q":{"read":"/sys/bus/pci/devices/0000:5d:00.0/class"},"text":"0x030000\n"}"#,
    ];
    assert_eq!(of(&lines, node::COMPUTE_GPUS), Some(2));
    assert_eq!(
        of(&lines[..3], node::COMPUTE_GPUS),
        None,
        "one class is not known"
    );
    let none = [
        r#"{"q":{"list":"/sys/bus/pci/drivers/nvidia"},"errno":"ENOENT"}"#,
        r#"{"q":{"list":"/sys/bus/pci/drivers"},"names":["virtio-pci"]}"#,
    ];
    assert_eq!(of(&none, node::COMPUTE_GPUS), Some(0));
}

#[test]
fn the_drivers_version_and_kind_as_both_modules_write_them() {
    let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder@U16-I3-B03-05-2)  Tue Mar  5 22:19:12 UTC 2024\nGCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n";
    let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n";
    let grace = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86.15  Release Build  (root@host)  Thu Jan 23 23:38:12 UTC 2025\n";
    for (text, version, is_open) in [
        (open, "550.54.15", true),
        (closed, "535.104.05", false),
        (grace, "570.86.15", true),
    ] {
        assert_eq!(parse::driver_version(text).as_deref(), Ok(version));
        assert_eq!(parse::is_open(text), Ok(is_open));
    }
    for odd in [
        "",
        "NVRM version:",
        "garbage\n\0",
        "NVRM version: NVIDIA UNIX",
    ] {
        assert!(parse::driver_version(odd).is_err(), "{odd:?}");
        assert!(parse::is_open(odd).is_err(), "{odd:?}");
    }
}

#[test]
fn no_driver_is_known_where_proc_says_so() {
    let lines = [
        r#"{"q":{"read":"/proc/driver/nvidia/version"},"errno":"ENOENT"}"#,
        r#"{"q":{"list":"/proc/driver/nvidia"},"errno":"ENOENT"}"#,
        r#"{"q":{"list":"/proc/driver"},"names":["rtc"]}"#,
    ];
    assert_eq!(of(&lines, node::NVIDIA_DRIVER).as_deref(), Some("none"));
    assert_eq!(of(&lines, node::NVIDIA_OPEN), Some(false));
}

#[test]
fn the_library_is_the_first_that_a_link_leads_to() {
    let in_container = ["x86_64-linux-gnu", "aarch64-linux-gnu"].map(|arch| {
        format!(r#"{{"q":{{"link":"/run/nvidia/driver/usr/lib/{arch}/libnvidia-ml.so.1"}},"errno":"ENOENT"}}"#)
    });
    let [first, second] = [&*in_container[0], &*in_container[1]];
    let third =
        r#"{"q":{"link":"/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1"},"errno":"ENOENT"}"#;
    let debian = r#"{"q":{"link":"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"},"errno":"ENOENT"}"#;
    let arm = r#"{"q":{"link":"/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1"},"errno":"ENOENT"}"#;
    let rhel =
        r#"{"q":{"link":"/usr/lib64/libnvidia-ml.so.1"},"text":"libnvidia-ml.so.550.90.07"}"#;
    let found = of(
        &[first, second, third, debian, arm, rhel],
        node::NVIDIA_LIBRARY,
    );
    assert_eq!(found.as_deref(), Some("550.90.07"));
    assert_eq!(
        of(&[debian, arm], node::NVIDIA_LIBRARY),
        None,
        "not all were asked for"
    );
    let nowhere = [
        first,
        second,
        third,
        debian,
        arm,
        r#"{"q":{"link":"/usr/lib64/libnvidia-ml.so.1"},"errno":"ENOENT"}"#,
        r#"{"q":{"link":"/usr/lib/libnvidia-ml.so.1"},"errno":"ENOENT"}"#,
    ];
    assert_eq!(of(&nowhere, node::NVIDIA_LIBRARY).as_deref(), Some("none"));
    // Debian's alternatives lead elsewhere first.
    let odd = r#"{"q":{"link":"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"},"text":"/etc/alternatives/libnvidia-ml.so.1"}"#;
    assert_eq!(of(&[first, second, third, odd], node::NVIDIA_LIBRARY), None);
    // A driver from a container has its library next to it, whatever the host has left over.
    let operator = r#"{"q":{"link":"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"},"text":"libnvidia-ml.so.570.86.15"}"#;
    assert_eq!(
        of(&[operator, rhel], node::NVIDIA_LIBRARY).as_deref(),
        Some("570.86.15")
    );
}

#[test]
fn the_stacks_release_as_its_script_says_it() {
    for (text, version) in [
        ("MLNX_OFED_LINUX-24.10-3.2.5.0:\n", "24.10-3.2.5.0"),
        ("OFED-internal-24.10-1.1.4:\n", "24.10-1.1.4"),
        ("MLNX_OFED_LINUX-4.9-7.1.0.0:", "4.9-7.1.0.0"),
    ] {
        assert_eq!(parse::ofed(text).as_deref(), Ok(version));
    }
    for odd in ["", "\n", "OFED", "é-"] {
        assert!(parse::ofed(odd).is_err(), "{odd:?}");
    }
    let missing = r#"{"q":{"run":["ofed_info","-s"]},"refused":"command-missing"}"#;
    assert_eq!(of(&[missing], node::OFED).as_deref(), Some("none"));
}

#[test]
fn a_module_is_registered_where_the_core_knows_of_it() {
    let no_peers = [
        r#"{"q":{"list":"/sys/kernel/mm/memory_peers"},"errno":"ENOENT"}"#,
        r#"{"q":{"list":"/sys/kernel/mm"},"names":["hugepages","ksm"]}"#,
    ];
    let core = r#"{"q":{"list":"/sys/module/ib_core/holders"},"names":["ib_uverbs","mlx5_ib","nvidia_peermem"]}"#;
    let core_without =
        r#"{"q":{"list":"/sys/module/ib_core/holders"},"names":["ib_uverbs","mlx5_ib"]}"#;
    let uverbs =
        r#"{"q":{"list":"/sys/module/ib_uverbs/holders"},"names":["mlx5_ib","nvidia_peermem"]}"#;
    let uverbs_without = r#"{"q":{"list":"/sys/module/ib_uverbs/holders"},"names":["mlx5_ib"]}"#;
    let registered = |more: &[&str]| {
        let lines: Vec<&str> = no_peers.iter().chain(more).copied().collect();
        of(&lines, node::PEERMEM_REGISTERED)
    };
    assert_eq!(registered(&[core]), Some(true));
    assert_eq!(
        registered(&[core_without, uverbs]),
        Some(true),
        "Ubuntu's kernels"
    );
    assert_eq!(registered(&[core_without, uverbs_without]), Some(false));
    assert_eq!(registered(&[core_without]), None);
    let peers = r#"{"q":{"list":"/sys/kernel/mm/memory_peers"},"names":["nv_mem","nv_mem_nc"]}"#;
    assert_eq!(of(&[peers], node::PEERMEM_REGISTERED), Some(true));
    let amd = r#"{"q":{"list":"/sys/kernel/mm/memory_peers"},"names":["amdkfd"]}"#;
    assert_eq!(
        of(
            &[amd, core_without, uverbs_without],
            node::PEERMEM_REGISTERED
        ),
        Some(false)
    );
}

#[test]
fn a_device_node_that_may_not_be_looked_at_is_not_absent() {
    let there = r#"{"q":{"stat":"/dev/gdrdrv"},"value":{"kind":"char","mode":"0666","uid":0,"gid":0,"rdev":"236:0"}}"#;
    assert_eq!(of(&[there], node::GDRDRV_DEVICE), Some(true));
    let absent = r#"{"q":{"stat":"/dev/gdrdrv"},"errno":"ENOENT"}"#;
    assert_eq!(of(&[absent], node::GDRDRV_DEVICE), Some(false));
    let denied = r#"{"q":{"stat":"/dev/gdrdrv"},"errno":"EACCES"}"#;
    assert_eq!(of(&[denied], node::GDRDRV_DEVICE), None);
}
