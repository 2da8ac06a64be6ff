use super::*;
use crate::fact::node::Turbo;
use crate::fact::{Key, Percent, Seconds, Typed};
use crate::probe::testing::run;

fn of<T: Typed>(lines: &[&str], key: Key<T>) -> Option<T> {
    let (facts, node) = run(&PROBE, lines);
    facts.known(node, key)
}

fn texts(found: Option<Arc<[Arc<str>]>>) -> Option<String> {
    found.map(|texts| texts.join(" "))
}

#[test]
fn nothing_recorded_is_nothing_known() {
    let (facts, node) = run(&PROBE, &[]);
    for (index, fact) in crate::fact::Subject::Node.schema().facts.iter().enumerate() {
        if fact.probe == PROBE.name {
            assert!(
                matches!(facts.look(node, index), Some(Fact::Unknown(_))),
                "{}",
                fact.name
            );
        }
    }
}

/// A machine of this many policies.
fn policies(count: usize, governor: impl Fn(usize) -> &'static str) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|n| format!("\"policy{n}\"")).collect();
    let dir = "/sys/devices/system/cpu/cpufreq";
    let mut lines = vec![format!(
        r#"{{"q":{{"list":"{dir}"}},"names":["boost",{}]}}"#,
        names.join(",")
    )];
    for n in 0..count {
        let mut file = |name: &str, text: &str| {
            lines.push(format!(
                r#"{{"q":{{"read":"{dir}/policy{n}/{name}"}},"text":"{text}\n"}}"#
            ));
        };
        file("scaling_driver", "amd-pstate-epp");
        file("scaling_governor", governor(n));
        file("energy_performance_preference", "balance_performance");
        file("scaling_max_freq", "3000000");
        file("cpuinfo_max_freq", "4000000");
    }
    lines.push(
        r#"{"q":{"read":"/sys/devices/system/cpu/intel_pstate/no_turbo"},"errno":"ENOENT"}"#.into(),
    );
    lines.push(r#"{"q":{"list":"/sys/devices/system/cpu/intel_pstate"},"errno":"ENOENT"}"#.into());
    lines.push(r#"{"q":{"list":"/sys/devices/system/cpu"},"names":["cpu0","cpufreq"]}"#.into());
    lines.push(format!(r#"{{"q":{{"read":"{dir}/boost"}},"text":"0\n"}}"#));
    lines
}

#[test]
fn large_machines_are_sampled_and_their_ends_always_asked() {
    for (count, odd) in [(1, 0), (8, 7), (256, 255), (256, 0)] {
        let lines = policies(
            count,
            |n| if n == odd { "powersave" } else { "performance" },
        );
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let governors = texts(of(&lines, node::GOVERNORS)).unwrap();
        assert!(
            governors.contains("powersave"),
            "{count} {odd}: {governors}"
        );
        assert_eq!(of(&lines, node::FREQUENCY_CEILING), Some(Percent(75.0)));
        assert_eq!(of(&lines, node::TURBO), Some(Turbo::Off));
        assert_eq!(
            texts(of(&lines, node::ENERGY_PREFERENCES)).as_deref(),
            Some("balance_performance")
        );
        assert_eq!(
            of(&lines, node::FREQUENCY_DRIVER).as_deref(),
            Some("amd-pstate-epp")
        );
    }
    // An unread governor among the sampled leaves them open.
    let lines = policies(4, |_| "performance");
    let less: Vec<&str> = lines
        .iter()
        .map(String::as_str)
        .filter(|line| !line.contains("policy2/scaling_governor"))
        .collect();
    assert_eq!(of(&less, node::GOVERNORS), None);
}

#[test]
fn a_virtual_machine_does_not_steer_its_frequency() {
    let none = r#"{"q":{"list":"/sys/devices/system/cpu/cpufreq"},"names":[]}"#;
    assert_eq!(of(&[none], node::FREQUENCY_DRIVER).as_deref(), Some("none"));
    assert_eq!(of(&[none], node::TURBO), Some(Turbo::NotSteered));
    assert_eq!(texts(of(&[none], node::GOVERNORS)).as_deref(), Some(""));
}

#[test]
fn the_deepest_idle_state_that_is_enabled_and_not_ruled_out() {
    let dir = "/sys/devices/system/cpu/cpu0/cpuidle";
    let line =
        |file: &str, text: &str| format!(r#"{{"q":{{"read":"{dir}/{file}"}},"text":"{text}\n"}}"#);
    let base = [
        format!(r#"{{"q":{{"list":"{dir}"}},"names":["state0","state1","state2"]}}"#),
        line("state0/latency", "0"),
        line("state0/disable", "0"),
        line("state1/latency", "2"),
        line("state1/disable", "0"),
        line("state2/latency", "170"),
    ];
    let latency = |disabled: &str, wanted: &str| {
        let mut lines = base.to_vec();
        lines.push(line("state2/disable", disabled));
        if !wanted.is_empty() {
            lines.push(format!(r#"{{"q":{{"call":"cpu_dma_latency"}},{wanted}}}"#));
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        of(&lines, node::IDLE_LATENCY).map(|s: Seconds| (s.0 * 1e6).round() as u64)
    };
    assert_eq!(latency("0", r#""value":2000000000"#), Some(170));
    assert_eq!(latency("1", r#""value":2000000000"#), Some(2));
    assert_eq!(
        latency("0", r#""value":0"#),
        Some(0),
        "tuned holds a request"
    );
    assert_eq!(
        latency("0", r#""errno":"EACCES""#),
        None,
        "only root sees it"
    );
    assert_eq!(latency("0", r#""value":-1"#), None);
    assert_eq!(latency("x", r#""value":2000000000"#), None);
}

#[test]
fn threads_that_smt_control_took_are_not_missed() {
    let cpus = |present: &str, online: &str, smt: &str| {
        let read = |file: &str, text: &str| {
            format!(r#"{{"q":{{"read":"/sys/devices/system/cpu/{file}"}},"text":"{text}\n"}}"#)
        };
        let lines = [
            read("present", present),
            read("online", online),
            read("smt/control", smt),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        of(&lines, node::CPUS_OFFLINE)
    };
    assert_eq!(cpus("0-255", "0-255", "on"), Some(0));
    assert_eq!(cpus("0-255", "0-127", "off"), Some(0));
    assert_eq!(cpus("0-255", "0-125,128-255", "on"), Some(2));
    assert_eq!(cpus("0-255", "0-253", "notsupported"), Some(2));
    assert_eq!(cpus("0-255", "all", "on"), None);
}

#[test]
fn memory_of_numa_nodes() {
    let dir = "/sys/devices/system/node";
    let lines = |cpu: &str, memory: &str| {
        [
            format!(r#"{{"q":{{"read":"{dir}/has_cpu"}},"text":"{cpu}\n"}}"#),
            format!(r#"{{"q":{{"read":"{dir}/has_memory"}},"text":"{memory}\n"}}"#),
        ]
    };
    let both = lines("0-1", "0-9");
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    assert_eq!(
        of(&both, node::NUMA_WITHOUT_MEMORY).as_deref(),
        Some("none")
    );
    let one = lines("0-1", "0");
    let one: Vec<&str> = one.iter().map(String::as_str).collect();
    assert_eq!(
        of(&one, node::NUMA_WITHOUT_MEMORY).as_deref(),
        Some("node1")
    );
}

#[test]
fn limits_of_control_groups_of_both_versions() {
    let read = |file: &str, text: &str| format!(r#"{{"q":{{"read":"{file}"}},"text":"{text}"}}"#);
    let absent = |file: &str| format!(r#"{{"q":{{"read":"{file}"}},"errno":"ENOENT"}}"#);
    let list = |dir: &str, names: &str| format!(r#"{{"q":{{"list":"{dir}"}},"names":[{names}]}}"#);
    let second = [
        read("/proc/self/cgroup", "0::/kubepods.slice/pod1\\n"),
        read("/sys/fs/cgroup/kubepods.slice/pod1/pids.max", "1024\\n"),
        read("/sys/fs/cgroup/kubepods.slice/pids.max", "max\\n"),
        absent("/sys/fs/cgroup/pids.max"),
        list("/sys/fs/cgroup", "\"cgroup.procs\",\"kubepods.slice\""),
        read(
            "/sys/fs/cgroup/kubepods.slice/pod1/cpu.max",
            "400000 100000\\n",
        ),
        read(
            "/sys/fs/cgroup/kubepods.slice/pod1/cpu.stat",
            "usage_usec 5\\nnr_periods 1000\\nnr_throttled 250\\nthrottled_usec 7\\n",
        ),
        read("/sys/fs/cgroup/kubepods.slice/cpu.max", "max 100000\\n"),
        absent("/sys/fs/cgroup/cpu.max"),
    ];
    let lines: Vec<&str> = second.iter().map(String::as_str).collect();
    assert_eq!(of(&lines, node::CGROUP_PIDS), Some(1024));
    assert_eq!(of(&lines, node::CPU_THROTTLED), Some(Percent(25.0)));
    assert_eq!(of(&lines, node::CPU_PERIODS), Some(1000));
    let online = |cpus: &str| read("/sys/devices/system/cpu/online", cpus);
    let (four, five) = (online("0-3\\n"), online("0-4\\n"));
    let four = [&lines[..], &[&*four]].concat();
    assert_eq!(of(&four, node::CPU_THROTTLED), Some(Percent(0.0)));
    let five = [&lines[..], &[&*five]].concat();
    assert_eq!(of(&five, node::CPU_THROTTLED), Some(Percent(25.0)));
    let status = read("/proc/self/status", "Cpus_allowed_list:\\t0-7\\n");
    let bound = [&lines[..], &[&*status]].concat();
    assert_eq!(of(&bound, node::CPUS_USABLE), Some(4));
    let by = of(&bound, node::CPUS_LIMITED_BY);
    assert_eq!(
        by.as_deref(),
        Some("the quota of its control group is 4.0 CPUs")
    );
    // The group that limits most is the one that is not known: then nothing is.
    assert_eq!(of(&lines[..1], node::CGROUP_PIDS), None);

    let first = [
        read(
            "/proc/self/cgroup",
            "8:pids:/\\n1:cpu,cpuacct:/job\\n0::/\\n",
        ),
        read("/sys/fs/cgroup/pids/pids.max", "4096\\n"),
        read("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\\n"),
        read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\\n"),
    ];
    let lines: Vec<&str> = first.iter().map(String::as_str).collect();
    assert_eq!(of(&lines, node::CGROUP_PIDS), Some(4096));
    assert_eq!(of(&lines, node::CPU_THROTTLED), Some(Percent(0.0)));
    let outside = [read("/proc/self/cgroup", "0::/../../system.slice/x\\n")];
    assert_eq!(of(&[&outside[0]], node::CGROUP_PIDS), None);
}

#[test]
fn settings_of_features_that_a_kernel_lacks() {
    let lines = [
        r#"{"q":{"list":"/proc/sys/kernel"},"names":["acct","pid_max"]}"#,
        r#"{"q":{"read":"/proc/sys/kernel/numa_balancing"},"errno":"ENOENT"}"#,
        r#"{"q":{"read":"/sys/devices/system/clocksource/clocksource0/current_clocksource"},"text":"hpet\n"}"#,
        r#"{"q":{"read":"/sys/devices/system/clocksource/clocksource0/available_clocksource"},"text":"hpet acpi_pm \n"}"#,
        r#"{"q":{"read":"/proc/self/limits"},"text":"Limit                     Soft Limit           Hard Limit           Units     \nMax stack size            8388608              unlimited            bytes     \nMax processes             unlimited            94000                processes \n"}"#,
    ];
    assert_eq!(of(&lines, node::NUMA_BALANCING), Some(0));
    assert_eq!(of(&lines, node::ZONE_RECLAIM_MODE), None);
    assert_eq!(of(&lines, node::CLOCKSOURCE).as_deref(), Some("hpet"));
    assert_eq!(
        texts(of(&lines, node::CLOCKSOURCES)).as_deref(),
        Some("hpet acpi_pm")
    );
    assert_eq!(of(&lines, node::NPROC), None, "it may be root's");
    let limits = r#"{"q":{"read":"/proc/self/limits"},"text":"Max processes             1024                 94000                processes \n"}"#;
    let user =
        r#"{"q":{"read":"/proc/self/status"},"text":"Name:\tx\nUid:\t1000\t1000\t1000\t1000\n"}"#;
    let root = r#"{"q":{"read":"/proc/self/status"},"text":"Name:\tx\nUid:\t0\t0\t0\t0\n"}"#;
    assert_eq!(of(&[limits, user], node::NPROC), Some(1024));
    assert_eq!(of(&[limits, root], node::NPROC), Some(u64::MAX));
}

#[test]
fn parameters_that_limit_and_those_that_only_look_so() {
    for (cmdline, expected) in [
        ("BOOT_IMAGE=/vmlinuz root=UUID=x ro quiet iommu=pt", "none"),
        ("quiet mem=64G maxcpus=16", "mem=64G, maxcpus=16"),
        ("pci=nomsi,noaer noapic", "pci=nomsi,noaer, noapic"),
        ("pci=realloc=off memmap=4G!12G memory=x nosmt", "none"),
        ("quiet -- mem=1G", "none"),
        ("", "none"),
    ] {
        assert_eq!(&*parse::limiting(cmdline), expected, "{cmdline}");
    }
}

#[test]
fn odd_texts_are_not_understood() {
    for odd in ["", "\n", "0-", "5-1", "0-99999999999", "a,b", "-", "\u{e9}"] {
        let parsed = cpu_list::numbers(odd);
        assert!(parsed.is_err() || parsed == Ok(Vec::new()), "{odd:?}");
        assert!(parse::throttled(odd).is_err(), "{odd:?}");
    }
    assert!(parse::limit("many").is_err());
    assert_eq!(parse::limit("9223372036854771712\n"), Ok(u64::MAX));
    assert_eq!(parse::limit("9223372036854710272"), Ok(u64::MAX));
    assert_eq!(parse::limit("68719476736"), Ok(64 << 30));
}
