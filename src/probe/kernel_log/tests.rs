//! Lines in the forms of the kernel's and the drivers' own format strings.

use serde_json::Value;

use super::classes::{RULES, pci_address};
use super::*;
use crate::fact::{BitRate, node as of_node};
use crate::probe::testing::{known, run};
use crate::source::kernel_log_markers::{MARKERS, marker};

/// A log of a machine that booted 10000 s ago.
fn log(lost: &str, lines: &[(u64, &str)]) -> String {
    let told: Vec<Value> = lines
        .iter()
        .map(|(t, text)| serde_json::json!({ "t": t * 1_000_000, "text": text }))
        .collect();
    let value = serde_json::json!({
        "now": 10_000_000_000u64,
        "markers": MARKERS,
        "lines": 1000,
        "lost": serde_json::from_str::<Value>(lost).unwrap(),
        "first": 0,
        "from_boot": true,
        "told": told,
    });
    format!(r#"{{"q":{{"call":"kernel_log"}},"value":{value}}}"#)
}

fn facts(lines: &[(u64, &str)]) -> Facts {
    run(&PROBE, &[&log("0", lines)]).0
}

fn is_seen(facts: &Facts, name: &str) -> Option<bool> {
    known(facts, Subject::KernelEvent, name, fact::SEEN)
}

#[test]
fn a_flood_is_counted_at_least_and_a_log_that_goes_on_is_not_whole() {
    let line = "mlx5_core 0000:1a:00.0 eth2: Link down";
    let flood: Vec<(u64, &str)> = (2000..2120).map(|at| (at, line)).collect();
    let one = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.";
    let lines = [&flood[..], &[(3000, one)]].concat();
    let count = |more: &str| {
        let text = log("0", &lines).replace(r#""lines":1000"#, &format!(r#""lines":1000{more}"#));
        let facts = run(&PROBE, &[&text]).0;
        let of_class = |class: &str| {
            let mut all = facts.all(Subject::KernelEvent);
            all.find(|id| facts.name(*id).starts_with(class)).unwrap()
        };
        let index = fact::COUNT.index;
        let down = of_class("link-down");
        let least = facts.at_least(down, index).map(ToString::to_string);
        let node = facts.all(Subject::Node).next().unwrap();
        let left_out = facts.texts(node, of_node::LEFT_OUT).count();
        let whole = is_seen(&facts, "sxid");
        let exact = facts.known(of_class("xid"), fact::COUNT);
        (
            facts.known(down, fact::COUNT),
            least,
            exact,
            whole,
            left_out,
        )
    };
    let least = Some("120".to_owned());
    assert_eq!(count(""), (Some(120), None, Some(1), Some(false), 0));
    let flooded = count(r#","left_out":900"#);
    assert_eq!(flooded, (None, least, Some(1), Some(false), 0));
    let goes_on = count(r#","goes_on":true"#);
    assert_eq!(goes_on, (Some(120), None, Some(1), None, 1));
}

#[test]
fn every_class_is_looked_for_and_has_its_line() {
    let (uncatalogued, listed) = EventClass::ALL.split_last().unwrap();
    assert_eq!(*uncatalogued, EventClass::Uncatalogued);
    for &class in listed {
        assert!(classes::rules(class).next().is_some(), "{class:?}");
    }
    for (class, place, ..) in RULES {
        assert!(EventClass::from_word(class).is_some(), "{class}");
        let known = "pci probe infiniband first task killed server lustre nvme watchdog library disk \
            nothing";
        assert!(known.split(' ').any(|one| one == *place), "{place}");
    }
    let quiet = facts(&[]);
    for &class in listed {
        assert_eq!(
            is_seen(&quiet, class.word()),
            Some(false),
            "{class:?} is told"
        );
    }
    for (class, line, name) in [
        (
            EventClass::Mlx5Fatal,
            "mlx5_core 0000:1a:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count",
            "mlx5-fatal 0000:1a:00.0",
        ),
        (
            EventClass::Mlx5Fatal,
            "mlx5_core 0000:1a:00.0: poll_health:805:(pid 0): Fatal error 3 detected",
            "mlx5-fatal 0000:1a:00.0",
        ),
        (
            EventClass::Mlx5Fatal,
            "mlx5_core 0000:1a:00.0: print_health_info:434:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
            "mlx5-fatal 0000:1a:00.0",
        ),
        (
            EventClass::Mlx5CommandTimeout,
            "mlx5_core 0000:1a:00.0: wait_func:1148:(pid 77): QUERY_VPORT_COUNTER(0x770) timeout. Will cause a leak of a command resource",
            "mlx5-command-timeout 0000:1a:00.0",
        ),
        (
            EventClass::SlotPower,
            "mlx5_core 0000:1b:00.0: mlx5_pcie_event:299:(pid 9): Detected insufficient power on the PCIe slot (27W).",
            "slot-power 0000:1b:00.0",
        ),
        (
            EventClass::Overheated,
            "mlx5_core 0000:1b:00.0: Port module event[error]: module 0, Cable error, High Temperature",
            "overheated 0000:1b:00.0",
        ),
        (
            EventClass::CableError,
            "mlx5_core 0000:1b:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded",
            "cable-error 0000:1b:00.0",
        ),
        (
            EventClass::PcieBandwidth,
            "mlx5_core 0000:0c:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:00:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)",
            "pcie-bandwidth 0000:0c:00.0",
        ),
        (
            EventClass::AerUncorrected,
            "pcieport 0000:00:1b.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Receiver ID)",
            "aer-uncorrected 0000:00:1b.0",
        ),
        (
            EventClass::AerCorrected,
            "pcieport 0000:00:1c.4: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
            "aer-corrected 0000:00:1c.4",
        ),
        (
            EventClass::GidAdd,
            "infiniband mlx5_2: add_roce_gid GID add failed port=1 index=0",
            "gid-add mlx5_2",
        ),
        (
            EventClass::LinkDown,
            "mlx5_core 0000:9d:00.1 enp157s0f1np1: Link down",
            "link-down 0000:9d:00.1",
        ),
        (
            EventClass::LinkDown,
            "bnxt_en 0000:c1:00.0 eth2: NIC Link is Down",
            "link-down 0000:c1:00.0",
        ),
        (
            EventClass::Multicast,
            "ib0: multicast join failed for ff12:401b:ffff:0000:0000:0000:ffff:ffff, status -22",
            "multicast ib0",
        ),
        (
            EventClass::AdapterReset,
            "mlx5_core 0000:1b:00.0 eth0: TX timeout detected",
            "adapter-reset 0000:1b:00.0",
        ),
        (
            EventClass::AdapterReset,
            "bnxt_en 0000:c1:00.0 eth2: Firmware fatal reset event, data1: 0x2, data2: 0x1",
            "adapter-reset 0000:c1:00.0",
        ),
        (
            EventClass::ProbeFailed,
            "mlx5_core: probe of 0000:1a:00.0 failed with error -110",
            "probe-failed 0000:1a:00.0",
        ),
        (
            EventClass::ProbeFailed,
            "mlx5_core 0000:1a:00.0: probe with driver mlx5_core failed with error -12",
            "probe-failed 0000:1a:00.0",
        ),
        (
            EventClass::SymbolMismatch,
            "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
            "symbol-mismatch nvidia_peermem",
        ),
        (
            EventClass::Xid,
            "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "xid 79 0000:1b:00.0",
        ),
        (
            EventClass::RecoveryAction,
            "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            "recovery-action 0000:1b:00.0",
        ),
        (
            EventClass::SXid,
            "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20009, Non-fatal, Link 28 RX Short Error Rate",
            "sxid 20009 0000:c3:00.0",
        ),
        (
            EventClass::GpuInit,
            "NVRM: GPU 0000:05:00.0: RmInitAdapter failed! (0x24:0x72:1447)",
            "gpu-init 0000:05:00.0",
        ),
        (
            EventClass::DriverMismatch,
            "NVRM: API mismatch: the client has the version 535.104.05, but",
            "driver-mismatch",
        ),
        (
            EventClass::IommuFault,
            "DMAR: [DMA Write NO_PASID] Request device [1a:00.0] fault addr 0xfee00000 [fault reason 0x05] PTE Write access is not set",
            "iommu-fault 0000:1a:00.0",
        ),
        (
            EventClass::IommuFault,
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:c1:00.0 domain=0x0011 address=0xf000 flags=0x0020]",
            "iommu-fault 0000:c1:00.0",
        ),
        (
            EventClass::OutOfMemory,
            "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:1kB",
            "out-of-memory python3",
        ),
        (
            EventClass::MachineCheck,
            "mce: [Hardware Error]: Machine check events logged",
            "machine-check",
        ),
        (
            EventClass::MachineCheck,
            "EDAC MC3: 1 CE memory read error on CPU_SrcID#0_MC#3_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1)",
            "machine-check",
        ),
        (
            EventClass::HungTask,
            "INFO: task nvidia-smi:12345 blocked for more than 120 seconds.",
            "hung-task nvidia-smi",
        ),
        (
            EventClass::CpuStuck,
            "watchdog: BUG: soft lockup - CPU#5 stuck for 26s! [napi/eth0-345:1234]",
            "cpu-stuck",
        ),
        (
            EventClass::ServerSilent,
            "nfs: server nas1 not responding, still trying",
            "server-silent 1",
        ),
        (
            EventClass::AmdFailed,
            "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!. Source:  1",
            "amd-failed 0000:c1:00.0",
        ),
        (
            EventClass::AmdFailed,
            "amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init",
            "amd-failed 0000:03:00.0",
        ),
        (
            EventClass::AmdUncorrected,
            "amdgpu 0000:c3:00.0: amdgpu: socket: 0, die: 1, 2 new uncorrectable hardware errors detected in umc block",
            "amd-uncorrected 0000:c3:00.0",
        ),
        (
            EventClass::AmdUncorrected,
            "amdgpu 0000:c3:00.0: amdgpu: uncorrectable hardware error (ERREVENT_ATHUB_INTERRUPT) detected!",
            "amd-uncorrected 0000:c3:00.0",
        ),
        (
            EventClass::AdapterReset,
            "ice 0000:4c:00.0 rocep76s0: Requesting a reset",
            "adapter-reset 0000:4c:00.0",
        ),
        (
            EventClass::AdapterStalled,
            "bnxt_en 0000:12:00.0: QPLIB: bnxt_re_is_fw_stalled: FW STALL Detected. cmdq[0xe]=0x3 waited (103641 > 100000) msec active 1",
            "adapter-stalled 0000:12:00.0",
        ),
        (
            EventClass::AdapterStalled,
            "efa 0000:9f:00.0 rdmap159s0: The device didn't send any completion for admin cmd CREATE_QP(1) status 0 (id: 5, sq producer: 9, sq consumer: 8, cq consumer: 8)",
            "adapter-stalled 0000:9f:00.0",
        ),
        (
            EventClass::LustreLost,
            "Lustre: scratch-OST0003-osc-ffff9e4b: Connection to scratch-OST0003 (at 10.0.0.5@o2ib) was lost; in progress operations using this service will wait for recovery to complete",
            "lustre-lost 1",
        ),
        (
            EventClass::LustreLost,
            "LustreError: 166-1: MGC10.0.0.5@o2ib: Connection to MGS (at 10.0.0.5@o2ib) was lost; in progress operations using this service will fail",
            "lustre-lost 1",
        ),
        (
            EventClass::StorageReconnects,
            "nvme nvme1: Reconnecting in 10 seconds...",
            "storage-reconnects nvme1",
        ),
        (
            EventClass::StorageReconnects,
            "rpcrdma: connection to 10.0.0.9:20049 closed (-103)",
            "storage-reconnects",
        ),
        (
            EventClass::NetworkTableFull,
            "nf_conntrack: nf_conntrack: table full, dropping packet",
            "network-table-full",
        ),
        (
            EventClass::NetworkTableFull,
            "Neighbour table overflow.",
            "network-table-full",
        ),
        (
            EventClass::AllocationFailed,
            "swapper/21: page allocation failure: order:0, mode:0x20",
            "allocation-failed swapper/21",
        ),
        (
            EventClass::ProgramCrashed,
            "pt_main_thread[2536443]: segfault at 7f797fe00000 ip 00007f7c7ac69996 sp 00007f7c12fd7c30 error 4 in libnccl.so.2[7f7c7ac00000+d3d3000] likely on CPU 3 (core 3, socket 0)",
            "program-crashed libnccl.so.2",
        ),
        (
            EventClass::IpoibFailed,
            "mlx5_1: failed to initialize device: ib0 port 1 (ret = -12)",
            "ipoib-failed mlx5_1",
        ),
        (
            EventClass::AdapterExhausted,
            "infiniband rdmap79s0: Failed to process command CREATE_CQ (opcode 8) comp_status 7 err -12",
            "adapter-exhausted rdmap79s0",
        ),
        (
            EventClass::LimitReached,
            "VFS: file-max limit 8192 reached",
            "limit-reached",
        ),
        (
            EventClass::DeviceGone,
            "nvidia 0000:01:00.0: can't change power state from D3cold to D0 (config space inaccessible)",
            "device-gone 0000:01:00.0",
        ),
        (
            EventClass::CpuOverheated,
            "CPU0: Core temperature above threshold, cpu clock throttled (total events = 1)",
            "cpu-overheated",
        ),
        (
            EventClass::DiskFailed,
            "XFS (nvme0n1p2): Corruption of in-memory data detected.  Shutting down filesystem",
            "disk-failed nvme0n1p2",
        ),
    ] {
        let found = facts(&[(5000, line)]);
        assert_eq!(
            known(&found, Subject::KernelEvent, name, fact::CLASS),
            Some(class),
            "{line}"
        );
        assert_eq!(
            known(&found, Subject::KernelEvent, name, fact::QUIET),
            Some(Seconds(5000.0))
        );
        assert_eq!(
            known(&found, Subject::KernelEvent, name, fact::LINE).as_deref(),
            Some(line)
        );
        assert!(MARKERS.iter().any(|m| line.contains(m)), "{line} is told");
    }
}

#[test]
fn lines_of_a_healthy_boot_are_none() {
    let found = facts(&[
        (3, "ata6: SATA link down (SStatus 4 SControl 300)"),
        (
            3,
            "EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0 IMC#0: DEV 0000:7e:0c.0 (INTERRUPT)",
        ),
        (
            4,
            "mlx5_core 0000:1a:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)",
        ),
        (
            4,
            "mlx5_core 0000:1a:00.0: Port module event: module 0, Cable plugged",
        ),
        (
            5,
            "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07",
        ),
        (60, "mlx5_core 0000:9d:00.1 enp157s0f1np1: Link down"),
        (
            61,
            "acpi PNP0A08:29: _OSC: platform does not support [SHPCHotplug AER DPC]",
        ),
        (62, "mce: CPU0: Thermal monitoring enabled (TM1)"),
        (
            63,
            "amdgpu 0000:c3:00.0: amdgpu: no uncorrectable hardware errors detected in umc block",
        ),
        (
            64,
            "amdgpu 0000:0b:00.0: 2097120 uncorrectable hardware errors detected in umc block",
        ),
        (
            65,
            "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, but soft recovered",
        ),
        (66, "nvme nvme0: 56/0/0 default/read/poll queues"),
        (
            67,
            "bnxt_en 0000:12:00.0 eth0: Broadcom BCM57608 NetXtreme-E 400Gb Ethernet found at mem 3800000, node addr 00:62:0b:00:00:01",
        ),
    ]);
    for &class in EventClass::ALL {
        if is_listed(class) {
            assert_eq!(is_seen(&found, class.word()), Some(false), "{class:?}");
        }
    }
    assert!(!names_uncatalogued(&found));
}

fn names_uncatalogued(facts: &Facts) -> bool {
    let mut events = facts.all(Subject::KernelEvent);
    events.any(|id| facts.name(id) == "uncatalogued")
}

#[test]
fn a_driver_s_trouble_of_no_class_is_quoted_once() {
    let troubles = [
        "infiniband mlx5_0: dump_cqe:272:(pid 709): dump error cqe",
        "infiniband qib0: Couldn't register device with driver model",
        "infiniband mlx5_0: reg_mr_callback:104:(pid 376): async reg mr failed. status -11",
        "mlx5_core 0000:1a:00.0: mlx5_crdump_collect:50:(pid 2415): crdump: failed to lock vsc gw err -16",
        "bnxt_re bnxt_re0: Failed to modify HW QP",
        "irdma 0000:31:00.0: AEQ: abnormal ae_id = 0x501 failed qp 7",
        "ib0: failed to allocate device WQ",
        "efa 0000:9f:00.0: Failed to process command CREATE_QP",
        "hfi1 0000:05:00.0: hfi1_0: Unable to allocate receive context",
    ];
    for trouble in troubles {
        let found = facts(&[(10, trouble), (11, trouble)]);
        let of = |key| known(&found, Subject::KernelEvent, "uncatalogued", key);
        assert_eq!(of(fact::COUNT), Some(2), "{trouble}");
        let line = known(&found, Subject::KernelEvent, "uncatalogued", fact::LINE);
        assert_eq!(line.as_deref(), Some(trouble));
        assert!(marker(trouble).is_some(), "{trouble} is kept");
    }
    for quiet in [
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
        "iommu: DMA domain TLB invalidation policy: lazy mode",
        "pci 0000:17:02.0: BAR 14: failed to assign [mem size 0x00100000]",
        "mlx5_core 0000:1a:00.0: mlx5_health_try_recover:382:(pid 9): health recovery succeeded",
        "mlx5_core 0000:1a:00.0: E-Switch: Total vports 2, per vport: max uc(128) max mc(2048)",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 510",
        "NVRM: Xid (PCI:0000:1b:00): 154, pid='<unknown>', name=<unknown>, GPU recovery action changed from 0x0 (None)",
        "usb 1-1: device descriptor read/64, error -71",
    ] {
        let found = facts(&[(10, quiet)]);
        assert!(!names_uncatalogued(&found), "{quiet}");
    }
}

#[test]
fn what_a_later_line_ends_is_over() {
    let fatal = "mlx5_core 0000:1a:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count";
    let ended = |lines: &[(u64, &str)]| {
        known(
            &facts(lines),
            Subject::KernelEvent,
            "mlx5-fatal 0000:1a:00.0",
            fact::ENDED,
        )
    };
    let recovered =
        "mlx5_core 0000:1a:00.0: mlx5_health_try_recover:382:(pid 9): health recovery succeeded";
    let other = "mlx5_core 0000:1b:00.0: firmware version: 28.39.1002";
    assert_eq!(ended(&[(100, fatal)]), Some(false));
    assert_eq!(ended(&[(100, fatal), (130, recovered)]), Some(true));
    assert_eq!(ended(&[(100, fatal), (130, other)]), Some(false));
    assert_eq!(ended(&[(50, recovered), (100, fatal)]), Some(false));
    assert_eq!(
        ended(&[(100, fatal), (130, recovered), (200, fatal)]),
        Some(false)
    );
    let found = facts(&[
        (100, "nfs: server nas1 not responding, still trying"),
        (101, "nfs: server nas2 not responding, still trying"),
        (130, "nfs: server nas1 OK"),
    ]);
    let ended = |name| known(&found, Subject::KernelEvent, name, fact::ENDED);
    assert_eq!(ended("server-silent 1"), Some(true));
    assert_eq!(ended("server-silent 2"), Some(false));
    let found = facts(&[
        (100, "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!"),
        (101, "amdgpu 0000:c2:00.0: amdgpu: GPU reset begin!"),
        (105, "amdgpu 0000:c1:00.0: amdgpu: GPU reset(3) succeeded!"),
        (
            106,
            "amdgpu 0000:c2:00.0: amdgpu: GPU reset end with ret = -62",
        ),
        (
            110,
            "Lustre: a-OST0003-osc-ffff9e4b: Connection to a-OST0003 (at 10.0.0.5@o2ib) was lost; in progress operations using this service will wait",
        ),
        (
            111,
            "Lustre: a-OST0003-osc-ffff9e4b: Connection restored to  (at 10.0.0.5@o2ib)",
        ),
        (120, "nvme nvme1: Reconnecting in 10 seconds..."),
        (130, "nvme nvme1: Successfully reconnected (1 attempt)"),
    ]);
    let ended = |name| known(&found, Subject::KernelEvent, name, fact::ENDED);
    assert_eq!(ended("amd-failed 0000:c1:00.0"), Some(true));
    assert_eq!(ended("amd-failed 0000:c2:00.0"), Some(false));
    assert_eq!(ended("lustre-lost 1"), Some(true));
    assert_eq!(ended("storage-reconnects nvme1"), Some(true));
}

#[test]
fn a_copied_log_without_a_clock_has_lines_and_no_ages() {
    let line = "mlx5_core 0000:1a:00.0: poll_health:805:(pid 0): Fatal error 3 detected";
    let told = log("null", &[(5000, line)]).replace(r#""now":10000000000"#, r#""now":null"#);
    let (facts, _) = run(&PROBE, &[&told]);
    let name = "mlx5-fatal 0000:1a:00.0";
    assert_eq!(is_seen(&facts, name), Some(true));
    assert_eq!(known(&facts, Subject::KernelEvent, name, fact::QUIET), None);
    assert_eq!(
        known(&facts, Subject::KernelEvent, name, fact::AGED),
        Some(false)
    );
    let age = known(&facts, Subject::KernelEvent, name, fact::AGE);
    assert_eq!(age.as_deref(), Some("at an unknown time"));
}

#[test]
fn a_fault_holds_until_the_driver_load_or_the_boot_after_it() {
    let xid = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.";
    let end = |lines: &[(u64, &str)], name| {
        let end = known(&facts(lines), Subject::KernelEvent, name, fact::END);
        end.unwrap().to_string()
    };
    let name = "xid 79 0000:1b:00.0";
    let open = "and nothing was logged of it since";
    assert_eq!(end(&[(100, xid)], name), open);
    let loaded = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15";
    assert_eq!(
        end(&[(100, xid), (200, loaded)], name),
        "before its driver was loaded"
    );
    assert_eq!(end(&[(50, loaded), (100, xid)], name), open);
    // A reset of this GPU ends it, and that of another does not.
    let reset = |bus: &str| {
        format!(
            "NVRM: Xid (PCI:0000:{bus}:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
        )
    };
    assert_eq!(
        end(&[(100, xid), (200, &reset("1b"))], name),
        "and recovered since"
    );
    assert_eq!(end(&[(100, xid), (200, &reset("1c"))], name), open);
    let fatal = "mlx5_core 0000:1a:00.0: poll_health:805:(pid 0): Fatal error 3 detected";
    let probed = "mlx5_core 0000:1a:00.0: firmware version: 28.39.1002";
    assert_eq!(
        end(&[(100, fatal), (200, probed)], "mlx5-fatal 0000:1a:00.0"),
        "before its driver was loaded"
    );
}

#[test]
fn of_an_earlier_boot_faults_are_told_and_nothing_else() {
    let xid = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.";
    let hung = "INFO: task python3:77 blocked for more than 122 seconds.";
    let told = log("null", &[(5000, xid), (6000, hung)])
        .replace(r#""t":"#, r#""earlier":true,"t":"#)
        .replace(r#""from_boot":true"#, r#""from_boot":false"#);
    let (found, _) = run(&PROBE, &[&told]);
    let name = "xid 79 0000:1b:00.0";
    let of = |key| known(&found, Subject::KernelEvent, name, key);
    assert_eq!(
        (of(fact::ENDED), of(fact::THIS_BOOT)),
        (Some(true), Some(false))
    );
    let end = known(&found, Subject::KernelEvent, name, fact::END);
    assert_eq!(end.as_deref(), Some("before this boot"));
    assert_eq!(known(&found, Subject::KernelEvent, name, fact::QUIET), None);
    assert_eq!(is_seen(&found, "hung-task"), None);
}

#[test]
fn the_last_recovery_action_of_a_gpu_counts() {
    let line = |from: &str, to: &str| {
        format!("NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from {from} to {to}")
    };
    let asked = line("0x0 (None)", "0x1 (GPU Reset Required)");
    let done = line("0x1 (GPU Reset Required)", "0x0 (None)");
    let code = |lines: &[(u64, &str)]| {
        known(
            &facts(lines),
            Subject::KernelEvent,
            "recovery-action 0000:1b:00.0",
            fact::CODE,
        )
    };
    assert_eq!(code(&[(10, &asked)]), Some(1));
    assert_eq!(code(&[(10, &asked), (20, &done)]), Some(0));
    assert_eq!(
        is_seen(&facts(&[(10, &asked)]), "xid"),
        Some(false),
        "it is no fault of its own"
    );
}

#[test]
fn numbers_of_lines_and_what_the_path_carries() {
    let xid = "NVRM: Xid (PCI:0000:1b:00): 13, pid=1, Graphics Exception";
    let found = facts(&[
        (1, xid),
        (2, xid),
        (3, "NVRM: Xid (PCI:0000:1c:00): 13, pid=1, x"),
    ]);
    let count = |name| known(&found, Subject::KernelEvent, name, fact::COUNT);
    assert_eq!(count("xid 13 0000:1b:00.0"), Some(2));
    assert_eq!(count("xid 13 0000:1c:00.0"), Some(1));
    let found = facts(&[(
        1,
        "mlx5_core 0000:0c:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:00:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)",
    )]);
    let rate = known(
        &found,
        Subject::KernelEvent,
        "pcie-bandwidth 0000:0c:00.0",
        fact::PCIE_BANDWIDTH,
    );
    assert_eq!(rate, Some(BitRate(63_008_000_000)));
}

#[test]
fn none_seen_is_not_none_happened() {
    let partial = log("17", &[(9000, "NVRM: Xid (PCI:0000:1b:00): 13, pid=1, x")]);
    let (found, node) = run(&PROBE, &[&partial]);
    assert!(facts_known(&found, node));
    assert_eq!(is_seen(&found, "hung-task"), None);
    assert_eq!(is_seen(&found, "xid 13 0000:1b:00.0"), Some(true));
    let logged = |name| known(&found, Subject::KernelEvent, name, fact::LOGGED);
    assert_eq!(logged("hung-task"), Some(false));
    assert_eq!(logged("xid 13 0000:1b:00.0"), Some(true));
    // Without numbers the greeting tells.
    let (found, _) = run(&PROBE, &[&log("null", &[])]);
    assert_eq!(is_seen(&found, "hung-task"), Some(false));
}

fn facts_known(facts: &Facts, node: Id) -> bool {
    facts.members(Subject::KernelEvent, node).is_ok()
}

#[test]
fn a_class_that_was_not_searched_for_is_unknown() {
    let whole = log("0", &[]);
    let (found, _) = run(
        &PROBE,
        &[&whole
            .replace("blocked for more than", "x")
            .replace("\"task", "x")],
    );
    assert_eq!(is_seen(&found, "hung-task"), None);
    assert_eq!(is_seen(&found, "xid"), Some(false));
}

#[test]
fn a_log_that_may_not_be_read_is_unknown() {
    let (found, _) = run(&PROBE, &[r#"{"q":{"call":"kernel_log"},"errno":"EPERM"}"#]);
    for &class in EventClass::ALL.iter().filter(|class| is_listed(**class)) {
        assert_eq!(is_seen(&found, class.word()), None);
        assert_eq!(
            known(&found, Subject::KernelEvent, class.word(), fact::CLASS),
            Some(class)
        );
    }
    let (found, _) = run(
        &PROBE,
        &[r#"{"q":{"call":"kernel_log"},"value":{"now":1,"told":[7],"markers":[]}}"#],
    );
    assert_eq!(is_seen(&found, "xid"), None);
}

#[test]
fn addresses() {
    for (line, expected) in [
        ("a 0000:1A:00.0: x", Some("0000:1a:00.0")),
        ("NVRM: Xid (PCI:0000:1b:00): 79", Some("0000:1b:00.0")),
        ("device [1a:00.3] fault", Some("0000:1a:00.3")),
        ("at 12:30 and 12:30:45", None),
        ("version 1.2.3.4, ffff:ffff, 10.0.0.1:80", None),
        ("10001:03:00.0", Some("10001:03:00.0")),
        ("", None),
    ] {
        assert_eq!(pci_address(line).as_deref(), expected, "{line}");
    }
}
