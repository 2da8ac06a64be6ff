//! The ground under a job: faults of the host, of settings and in the kernel's log, each with the check that must lead, and set-ups that are unusual
//! and no fault.
//!
//! `tests/vm/ground.sh` makes those of the host and of settings for real. `ground/missed.txt` names those that are not held yet, each with the reason: one
//! that is held and stands there fails the test, so that the list only gets shorter.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::known_half::{NOW, judged, kernel_log_of};
use rdma_doctor::source::kernel_log_markers::MARKERS;

/// Name, the check that must lead (none: nothing may), and the one that did.
pub(crate) type Outcome = (String, Option<String>, Option<String>);

/// Names of `ground.sh` and what each expects.
pub(crate) fn of_the_machine() -> Vec<(String, Option<String>)> {
    let script = include_str!("../vm/ground.sh");
    let truth = |line: &str| {
        let mut words = line.strip_suffix(" <<'MAKE'")?.split(' ');
        let kind = words.next()?;
        let name = words.next()?.to_owned();
        match (kind, words.next()) {
            ("fault", Some(check)) => Some((name, Some(check.to_owned()))),
            ("quiet", None) => Some((name, None)),
            _ => None,
        }
    };
    script.lines().filter_map(truth).collect()
}

/// Compares what led with what must lead, those apart that are known to be missed.
pub(crate) fn hold(outcomes: Vec<Outcome>, say: &dyn Fn(&str)) {
    let missed: BTreeMap<&str, &str> = include_str!("ground/missed.txt")
        .lines()
        .filter_map(|line| line.split_once(": "))
        .collect();
    let (mut held, mut faults, mut wrong, mut table) = (0, 0, String::new(), String::new());
    for (name, expect, led) in outcomes {
        let is = expect == led;
        faults += usize::from(expect.is_some());
        held += usize::from(is && expect.is_some());
        let word = |check: &Option<String>| check.clone().unwrap_or_else(|| "nothing".to_owned());
        let line = format!("{name}: {} leads, expected {}", word(&led), word(&expect));
        let _ = writeln!(table, "{} {line}", if is { "   " } else { "MISS" });
        match (is, missed.contains_key(&*name)) {
            (true, true) => {
                let _ = writeln!(wrong, "held, and named in missed.txt: {name}");
            }
            (false, false) => {
                let _ = writeln!(wrong, "{line}");
            }
            _ => {}
        }
    }
    say(&format!("{table}{held} of {faults} faults lead"));
    assert!(wrong.is_empty(), "{wrong}");
}

/// Lines of the kernel's log as people posted them, with other addresses: what happened, where it was posted, the lines, and the check that must lead.
const LINES: &[(&str, &str, &[&str], &str)] = &[
    (
        "conntrack-full",
        "https://github.com/NordSecurity/nordvpn-linux/issues/36",
        &["nf_conntrack: nf_conntrack: table full, dropping packet"],
        "kernel/network-table-full",
    ),
    (
        "conntrack-full-4.4",
        "https://github.com/wballard/starphleet/pull/352",
        &["nf_conntrack: table full, dropping packet"],
        "kernel/network-table-full",
    ),
    (
        "neighbours-full",
        "https://github.com/rtr7/router7/issues/31",
        &["neighbour: arp_cache: neighbor table overflow!"],
        "kernel/network-table-full",
    ),
    (
        "watchdog-names-interface",
        "the kernel's netdev list, a router whose eth1 is a ConnectX",
        &["NETDEV WATCHDOG: ib0 (mlx5_core): transmit queue 19 timed out"],
        "kernel/adapter-reset",
    ),
    (
        "watchdog-6.8",
        "https://github.com/NVIDIA/NVSentinel",
        &[
            "mlx5_core 0000:18:00.0 ib0: NETDEV WATCHDOG: CPU: 94: transmit queue 3 timed out 5032 ms",
        ],
        "kernel/adapter-reset",
    ),
    (
        "pages-for-packets",
        "https://github.com/Seagate/cortx-prvsnr/issues/5465",
        &["swapper/21: page allocation failure: order:0, mode:0x20"],
        "kernel/allocation-failed",
    ),
    (
        "pages-in-a-row",
        "https://github.com/prometheus/node_exporter/issues/2990",
        &[
            "kworker/u225:3: page allocation failure: order:5, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), nodemask=(null),cpuset=/,mems_allowed=0-1",
        ],
        "kernel/allocation-failed",
    ),
    (
        "off-the-bus",
        "https://github.com/Bumblebee-Project/Bumblebee/issues/554",
        &["NVRM: GPU at 0000:19:00.0 has fallen off the bus."],
        "kernel/xid-gpu-fault",
    ),
    (
        "off-the-bus-when-loaded",
        "https://github.com/NVIDIA/NVSentinel/issues/155",
        &[
            "NVRM: The NVIDIA GPU 0000:19:00.0\nNVRM: (PCI ID: 10de:26b5) installed in this system has\nNVRM: fallen off the bus and is not responding to commands.",
        ],
        "kernel/xid-gpu-fault",
    ),
    (
        "off-the-bus-and-loaded-since",
        "https://github.com/NVIDIA/NVSentinel/issues/155",
        &[
            "NVRM: GPU at 0000:19:00.0 has fallen off the bus.",
            "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01",
        ],
        "kernel/earlier-fault",
    ),
    (
        "adapter-not-initialised",
        "https://github.com/NVIDIA/gpu-operator/issues/1146",
        &["NVRM: GPU 0000:19:00.0: rm_init_adapter failed, device minor number 5"],
        "kernel/gpu-init-failed",
    ),
    (
        "nvlink-discovery",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/971",
        &["NVRM: knvlinkDiscoverPostRxDetLinks_GH100: Getting peer0's postRxDetLinkMask failed!"],
        "kernel/nvlink-discovery-fails",
    ),
    (
        "nvlink-discovery-update",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/971",
        &["NVRM: knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect Link mask!"],
        "kernel/nvlink-discovery-fails",
    ),
    (
        "segfault-in-nccl",
        "https://github.com/aws/eks-node-monitoring-agent",
        &[
            "pt_main_thread[2536443]: segfault at 7f797fe00000 ip 00007f7c7ac69996 sp 00007f7c12fd7c30 error 4 in libnccl.so.2[7f7c7ac00000+d3d3000]",
        ],
        "kernel/program-crashed",
    ),
    (
        "divide-error-in-mlx5",
        "the kernel's rdma list: a divide error in libmlx5",
        &[
            "traps: worker[4711] trap divide error ip:7f8dd1802b8f sp:7ffc63e72a80 error:0 in libmlx5.so.1.12.28.0[7f8dd17eb000+46000]",
        ],
        "kernel/program-crashed",
    ),
    (
        "ipoib-not-registered",
        "the kernel's rdma list: ib0 of a ConnectX-6",
        &[
            "ib0: failed to allocate device WQ",
            "mlx5_1: failed to initialize device: ib0 port 1 (ret = -12)",
            "mlx5_1: couldn't register ipoib port 1; error -12",
        ],
        "kernel/ipoib-failed",
    ),
    (
        "keys-exhausted",
        "https://github.com/openucx/ucx/issues/6264",
        &[
            "infiniband mlx5_0: create_mkey_callback:131:(pid 2298062): async reg mr failed. status -12",
        ],
        "kernel/adapter-exhausted",
    ),
    (
        "limits-exceeded",
        "https://github.com/kvcache-ai/Mooncake/pull/1765",
        &[
            "mlx5_core 0000:18:00.0: mlx5_cmd_out_err:816:(pid 923941): CREATE_MKEY(0x200) op_mod(0x0) failed, status limits exceeded(0x8), syndrome (0x59c8a4), err(-12)",
        ],
        "kernel/adapter-exhausted",
    ),
    (
        "processes-limited",
        "https://github.com/Icinga/icinga2/issues/4918",
        &["cgroup: fork rejected by pids controller in /system.slice/slurmstepd.scope/job_4711"],
        "kernel/limit-reached",
    ),
    (
        "files-limited",
        "lkml: VFS: file-max limit 8192 reached",
        &["VFS: file-max limit 8192 reached"],
        "kernel/limit-reached",
    ),
    (
        "slot-lost",
        "the kernel's pci list: a card in slot 400",
        &[
            "pcieport 0000:17:01.0: pciehp: Slot(400): Link Down",
            "pcieport 0000:17:01.0: pciehp: Slot(400): Card not present",
        ],
        "kernel/device-gone",
    ),
    (
        "config-space-lost",
        "https://github.com/kata-containers/kata-containers/issues/11708",
        &[
            "mlx5_core 0000:18:00.0: Unable to change power state from D3cold to D0, device inaccessible",
        ],
        "kernel/device-gone",
    ),
    (
        "cpu-hot",
        "a report of a laptop's CPU7, and NVIDIA's list of thermal events",
        &[
            "mce: CPU7: Package temperature above threshold, cpu clock throttled (total events = 144933)",
        ],
        "kernel/overheated",
    ),
    (
        "disk-read-only",
        "https://github.com/leptonai/gpud",
        &["EXT4-fs (dm-0): Remounting filesystem read-only"],
        "kernel/disk-failed",
    ),
    (
        "disk-errors",
        "the kernel's block list",
        &[
            "blk_update_request: critical medium error, dev nvme0n1, sector 1953524992 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 0",
        ],
        "kernel/disk-failed",
    ),
];

/// Lines that are printed when nothing is wrong, or when it is over.
const HARMLESS: &[(&str, &[&str])] = &[
    (
        "segfault-elsewhere",
        &["python3[812]: segfault at 0 ip 000055d0 sp 00007ffe error 6 in python3.10[55d0+2b4000]"],
    ),
    (
        "cpu-cool-again",
        &[
            "mce: CPU7: Package temperature above threshold, cpu clock throttled (total events = 3)",
            "mce: CPU7: Package temperature/speed normal (total events = 3)",
        ],
    ),
    (
        "slot-back",
        &[
            "pcieport 0000:17:01.0: pciehp: Slot(400): Link Down",
            "pcieport 0000:17:01.0: pciehp: Slot(400): Link Up",
        ],
    ),
    (
        "slot-of-something-else",
        &["pcieport 0000:00:1c.0: pciehp: Slot(8): Link Down"],
    ),
    (
        "watchdog-of-another-card",
        &["NETDEV WATCHDOG: wlan0 (iwlwifi): transmit queue 0 timed out"],
    ),
    (
        "command-not-supported",
        &[
            "mlx5_core 0000:18:00.0: mlx5_cmd_out_err:838:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x8ceaf2), err(-22)",
        ],
    ),
    (
        "memory-cgroup-of-a-job",
        &["oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0"],
    ),
];

/// What leads, half an hour after these lines. A recording keeps the lines with a marker only.
fn led(lines: &[&str]) -> Option<String> {
    let kept = |line: &&&str| MARKERS.iter().any(|marker| line.contains(marker));
    let told: Vec<(f64, &str)> = lines
        .iter()
        .filter(kept)
        .map(|line| (99.5, *line))
        .collect();
    let report = judged(&kernel_log_of("modelled-gpu-pcie.jsonl", NOW.into(), &told));
    let first = report.causes.first().or(report.notes.first());
    first.map(|finding| finding.check.clone())
}

#[test]
fn lines_of_the_kernel_lead_to_their_cause() {
    let faults = LINES
        .iter()
        .map(|(name, _, lines, check)| ((*name).into(), Some((*check).into()), led(lines)));
    let harmless = HARMLESS
        .iter()
        .map(|(name, lines)| ((*name).into(), None, led(lines)));
    hold(faults.chain(harmless).collect(), &|text| println!("{text}"));
}
