use super::*;
use crate::fact::Seconds;
use crate::probe::testing::run;

const LIMITS: &str = r#"{"q":{"read":"/proc/self/limits"},"text":"Limit                     Soft Limit           Hard Limit           Units     \nMax locked memory         65536                unlimited            bytes     \nMax open files            unlimited            524288               files     \n"}"#;
const PRIVATE_PID: &str = r#"{"q":{"link":"/proc/self/ns/pid"},"text":"pid:[4026532341]"}"#;

fn facts_of(lines: &[&str]) -> (Facts, Id) {
    run(&PROBE, lines)
}

#[test]
fn a_host() {
    let (facts, node) = facts_of(&[
        r#"{"q":{"read":"/proc/sys/kernel/osrelease"},"text":"6.1.0-49-amd64\n"}"#,
        r#"{"q":{"read":"/etc/os-release"},"text":"NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"}"#,
        r#"{"q":{"read":"/proc/uptime"},"text":"12345.67 99.00\n"}"#,
        r#"{"q":{"read":"/sys/devices/system/cpu/modalias"},"text":"cpu:type:x86,ven0000fam0006mod0055:feature:,0000,009E,009F\n"}"#,
        r#"{"q":{"read":"/proc/meminfo"},"text":"MemTotal:       2113375552 kB\nMemFree: 1 kB\n"}"#,
        r#"{"q":{"read":"/sys/devices/system/node/online"},"text":"0-1,4\n"}"#,
        r#"{"q":{"link":"/proc/self/ns/pid"},"text":"pid:[4026531836]"}"#,
        r#"{"q":{"link":"/proc/self/ns/user"},"text":"user:[4026531837]"}"#,
        r#"{"q":{"read":"/proc/self/status"},"text":"Name:\tx\nCapEff:\t0000000000004000\n"}"#,
        LIMITS,
        r#"{"q":{"statvfs":"/dev/shm"},"value":{"magic":"0x1021994","size":67108864,"free":67108000,"read_only":false}}"#,
    ]);
    assert_eq!(
        facts.known(node, node::KERNEL).as_deref(),
        Some("6.1.0-49-amd64")
    );
    assert_eq!(
        facts.known(node, node::OS).as_deref(),
        Some("Debian GNU/Linux 12 (bookworm)")
    );
    assert_eq!(facts.known(node, node::UPTIME), Some(Seconds(12345.67)));
    assert_eq!(facts.known(node, node::VIRTUAL), Some(true));
    assert_eq!(
        facts.known(node, node::MEMORY),
        Some(Bytes(2_113_375_552 * 1024))
    );
    assert_eq!(facts.known(node, node::NUMA_NODES), Some(3));
    assert_eq!(facts.known(node, node::CONTAINER), Some(Container::None));
    assert_eq!(facts.known(node, node::IPC_LOCK), Some(true));
    assert_eq!(facts.known(node, node::MEMLOCK), Some(Bytes(65536)));
    assert_eq!(facts.known(node, node::NOFILE), Some(u64::MAX));
    assert_eq!(facts.known(node, node::SHM), Some(SharedMemory::Usable));
    assert_eq!(facts.known(node, node::SHM_SIZE), Some(Bytes(67_108_864)));
    assert_eq!(facts.known(node, node::RDMA_LIMITED), None);
}

#[test]
fn a_capability_of_another_user_namespace_does_not_count() {
    let status = r#"{"q":{"read":"/proc/self/status"},"text":"CapEff:\t000001ffffffffff\n"}"#;
    let user = r#"{"q":{"link":"/proc/self/ns/user"},"text":"user:[4026532999]"}"#;
    let (facts, node) = facts_of(&[status, user]);
    assert_eq!(facts.known(node, node::IPC_LOCK), Some(false));
    let (facts, node) = facts_of(&[status]);
    assert_eq!(facts.known(node, node::IPC_LOCK), None);
    let (facts, node) =
        facts_of(&[r#"{"q":{"read":"/proc/self/status"},"text":"CapEff:\t0000000000000000\n"}"#]);
    assert_eq!(facts.known(node, node::IPC_LOCK), Some(false));
}

#[test]
fn containers_by_their_marks() {
    let cgroup =
        |path: &str| format!(r#"{{"q":{{"read":"/proc/self/cgroup"}},"text":"0::{path}\n"}}"#);
    let root = |names: &str| format!(r#"{{"q":{{"list":"/"}},"names":[{names}]}}"#);
    let run = |names: &str| format!(r#"{{"q":{{"list":"/run"}},"names":[{names}]}}"#);
    let env =
        |vars: &str| format!(r#"{{"q":{{"env":["KUBERNETES_SERVICE_"]}},"value":{{{vars}}}}}"#);
    let secrets = r#"{"q":{"list":"/run/secrets"},"errno":"ENOENT"}"#.to_owned();
    let systemd = r#"{"q":{"list":"/run/systemd"},"names":[]}"#.to_owned();
    let nspawn = r#"{"q":{"read":"/run/systemd/container"},"text":"lxc"}"#.to_owned();
    let none = r#"{"q":{"read":"/run/systemd/container"},"errno":"ENOENT"}"#.to_owned();
    let in_pod = env(r#""KUBERNETES_SERVICE_HOST":"10.0.0.1""#);
    let docker = root(r#"".dockerenv","run""#);
    let plain = root(r#""run""#);
    for (lines, expected) in [
        (
            vec![
                plain.clone(),
                run(r#""systemd""#),
                env(""),
                secrets.clone(),
                systemd,
                none,
            ],
            Some(Container::Other),
        ),
        (
            vec![docker.clone(), run(""), env(""), secrets.clone()],
            Some(Container::Docker),
        ),
        (
            vec![
                docker.clone(),
                run(r#"".containerenv""#),
                env(""),
                secrets.clone(),
            ],
            Some(Container::Podman),
        ),
        (vec![docker.clone(), in_pod], Some(Container::Kubernetes)),
        (
            vec![plain, run(r#""systemd""#), env(""), secrets, nspawn],
            Some(Container::Lxc),
        ),
        // A mark that could not be looked for would have decided before those that follow.
        (vec![docker], None),
        (vec![], None),
    ] {
        let root_group = cgroup("/");
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.extend([PRIVATE_PID, &root_group]);
        let (facts, node) = facts_of(&lines);
        assert_eq!(facts.known(node, node::CONTAINER), expected, "{lines:?}");
    }
    for (path, expected) in [
        (
            "/kubepods.slice/kubepods-pod1.slice/docker-1.scope",
            Container::Kubernetes,
        ),
        ("/docker/0123", Container::Docker),
        ("/machine.slice/libpod-0123.scope", Container::Podman),
        ("/lxc.payload.c1", Container::Lxc),
    ] {
        // Nothing else marks them.
        let (root, run, env) = (root(r#""run""#), run(""), env(""));
        let secrets = r#"{"q":{"list":"/run/secrets"},"errno":"ENOENT"}"#;
        let (facts, node) = facts_of(&[PRIVATE_PID, &cgroup(path), &root, &run, &env, secrets]);
        assert_eq!(facts.known(node, node::CONTAINER), Some(expected), "{path}");
    }
    let (facts, node) = facts_of(&[&root(r#"".dockerenv","run""#)]);
    assert_eq!(
        facts.known(node, node::CONTAINER),
        None,
        "the namespace decides"
    );
}

#[test]
fn shared_memory_of_all_kinds() {
    let value = |magic, read_only| {
        format!(
            r#"{{"q":{{"statvfs":"/dev/shm"}},"value":{{"magic":"{magic}","size":1,"free":1,"read_only":{read_only}}}}}"#
        )
    };
    let gone = r#"{"q":{"statvfs":"/dev/shm"},"errno":"ENOENT"}"#.to_owned();
    let shm = |lines: &[&str]| {
        let (facts, node) = facts_of(lines);
        facts.known(node, node::SHM)
    };
    assert_eq!(
        shm(&[&value("0x1021994", true)]),
        Some(SharedMemory::ReadOnly)
    );
    assert_eq!(
        shm(&[&value("0xef53", false)]),
        Some(SharedMemory::NotTmpfs)
    );
    assert_eq!(shm(&[&gone]), None);
    assert_eq!(
        shm(&[&gone, r#"{"q":{"list":"/dev"},"names":["null"]}"#]),
        Some(SharedMemory::Absent)
    );
}

#[test]
fn rdma_limits_of_both_versions_of_control_groups() {
    let group = r#"{"q":{"read":"/proc/self/cgroup"},"text":"0::/a/b\n"}"#;
    let controllers =
        r#"{"q":{"read":"/sys/fs/cgroup/cgroup.controllers"},"text":"cpu memory rdma\n"}"#;
    let b = r#"{"q":{"read":"/sys/fs/cgroup/a/b/rdma.max"},"text":"mlx5_0 hca_handle=max hca_object=max\n"}"#;
    let a = r#"{"q":{"read":"/sys/fs/cgroup/a/rdma.max"},"text":"mlx5_0 hca_handle=2 hca_object=max\nmlx5_1 hca_handle=max hca_object=max\n"}"#;
    let top = r#"{"q":{"read":"/sys/fs/cgroup/rdma.max"},"errno":"ENOENT"}"#;
    let top_list = r#"{"q":{"list":"/sys/fs/cgroup"},"names":["a","cgroup.controllers"]}"#;
    let limits = |lines: &[&str]| {
        let (facts, node) = facts_of(lines);
        (
            facts.known(node, node::RDMA_LIMITED),
            facts.known(node, node::RDMA_LIMITS),
        )
    };
    assert_eq!(
        limits(&[group, controllers, a, b, top, top_list]),
        (
            Some(true),
            Some("mlx5_0 hca_handle=2 hca_object=max".into())
        )
    );
    assert_eq!(
        limits(&[group, controllers, b, top, top_list]),
        (None, None),
        "a's file is not recorded"
    );
    // No controller at all.
    let none = r#"{"q":{"read":"/sys/fs/cgroup/cgroup.controllers"},"text":"cpu memory\n"}"#;
    assert_eq!(limits(&[group, none]), (Some(false), Some("none".into())));
    // Version 1: the controller has a hierarchy of its own.
    let v1 = r#"{"q":{"read":"/proc/self/cgroup"},"text":"11:rdma:/\n0::/x\n"}"#;
    let root = r#"{"q":{"read":"/sys/fs/cgroup/rdma/rdma.max"},"errno":"ENOENT"}"#;
    let listing = r#"{"q":{"list":"/sys/fs/cgroup/rdma"},"names":["rdma.current","tasks"]}"#;
    assert_eq!(
        limits(&[v1, root, listing]),
        (Some(false), Some("none".into()))
    );
    // Version 1 without it, and nothing of version 2 mounted.
    let absent = [
        r#"{"q":{"read":"/proc/self/cgroup"},"text":"1:cpu:/\n0::/\n"}"#,
        r#"{"q":{"read":"/sys/fs/cgroup/cgroup.controllers"},"errno":"ENOENT"}"#,
        r#"{"q":{"list":"/sys/fs/cgroup"},"names":["cpu"]}"#,
        r#"{"q":{"read":"/sys/fs/cgroup/unified/cgroup.controllers"},"errno":"ENOENT"}"#,
        r#"{"q":{"list":"/sys/fs/cgroup/unified"},"errno":"ENOENT"}"#,
    ];
    assert_eq!(limits(&absent), (Some(false), Some("none".into())));
    assert_eq!(limits(&absent[..2]), (None, None));
}

#[test]
fn an_older_machine_by_cpuinfo() {
    let cpu = |text: &str| {
        let line = format!(r#"{{"q":{{"read":"/proc/cpuinfo"}},"text":"{text}"}}"#);
        let (facts, node) = facts_of(&[&line]);
        facts.known(node, node::VIRTUAL)
    };
    assert_eq!(
        cpu(r"processor\t: 0\nflags\t\t: fpu vme hypervisor lm\n"),
        Some(true)
    );
    assert_eq!(
        cpu(r"processor\t: 0\nflags\t\t: fpu vme lm\nvmx flags\t: hypervisor\n"),
        Some(false)
    );
    assert_eq!(cpu(r"processor\t: 0\nFeatures\t: fp asimd\n"), None);
}

#[test]
fn damaged_texts_are_gaps() {
    for bad in ["", "online", "1-0", "0-99999999999", "0,", "-1"] {
        assert!(parse::count_of_ranges(bad).is_err(), "{bad}");
    }
    assert!(parse::uptime("uptime").is_err() && parse::uptime("nan 1").is_err());
    assert!(parse::memory("MemTotal: meminfo").is_err());
    assert!(parse::soft_limit("Max locked memory  lots", "Max locked memory").is_err());
    assert!(parse::pretty_name("NAME=x").is_err());
}
