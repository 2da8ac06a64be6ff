//! What is known proves a fault, and what is unknown only decides its age, cause or severity: the finding is made and says so.

use std::path::Path;
use std::process::Command;

use rdma_doctor::check::Catalogue;
use rdma_doctor::examine::many;
use rdma_doctor::report::{Finding, Policy, Report};
use rdma_doctor::source::recording::Recording;
use serde_json::json;

use crate::place::{Scratch, doctor};

/// A fixture with other replies to some questions: pairs of a question and a reply, as a recording has them.
fn altered(base: &str, replies: &[(serde_json::Value, serde_json::Value)]) -> Recording {
    let header =
        json!({ "rdma-doctor-recording": "1.0", "base": base, "altered": "a fault is planted" });
    let mut text = header.to_string();
    for (question, reply) in replies {
        let mut line = json!({ "probe": "*", "q": question, "n": 0, "t": 9_000_000 });
        let (line_of, said) = (line.as_object_mut().unwrap(), reply.as_object().unwrap());
        line_of.extend(said.clone());
        text.push_str(&format!("\n{line}"));
    }
    text.push('\n');
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/planted.jsonl");
    {
        let files = |path: &std::path::Path| Ok((std::fs::File::open(path)?, 0));
        Recording::read_beside(text.as_bytes(), &beside, &files).unwrap()
    }
}

pub(crate) fn judged(recording: &Recording) -> Report {
    let catalogue = Catalogue::embedded().unwrap();
    let one = std::slice::from_ref(recording);
    many::judged(
        &catalogue,
        one,
        &Policy {
            with_passes: true,
            ..Policy::default()
        },
    )
}

/// The finding of a check, as a cause, a note or a consequence: its severity and sentence.
pub(crate) fn said(report: &Report, id: &str) -> Option<(&'static str, String)> {
    let all = || report.causes.iter().chain(&report.notes);
    let found = all().find(|finding: &&Finding| finding.check == id);
    found.map(|finding| (finding.severity, finding.sentence.to_string()))
}

/// The kernel's log of a machine that booted 100 h ago, or without that clock.
fn kernel_log(now: serde_json::Value, told: &[(f64, &str)]) -> Recording {
    kernel_log_of("modelled-ib.jsonl", now, told)
}

/// The same, of a fixture.
pub(crate) fn kernel_log_of(base: &str, now: serde_json::Value, told: &[(f64, &str)]) -> Recording {
    let told: Vec<_> = told
        .iter()
        .map(|(hours, text)| json!({ "t": (hours * 3.6e9) as u64, "text": text }))
        .collect();
    let value = json!({
        "now": now,
        "markers": rdma_doctor::source::kernel_log_markers::MARKERS,
        "lines": 2000,
        "lost": 0,
        "first": 0,
        "from_boot": true,
        "left_out": 0,
        "told": told,
    });
    altered(
        base,
        &[(json!({ "call": "kernel_log" }), json!({ "value": value }))],
    )
}

pub(crate) const NOW: u64 = 360_000_000_000;
const OFF_BUS: &str =
    "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";

#[test]
fn a_kernel_log_without_age_makes_the_finding_and_says_age_unknown() {
    let lines = [
        "NVRM: Xid (PCI:0000:1b:00): 48, pid=77, DBE (double bit error)",
        OFF_BUS,
        "NVRM: Xid (PCI:0000:1c:00): 119, pid=77, Timeout after 6s of waiting for RPC response from GPU1 GSP!",
        "mlx5_core 0000:18:00.0: poll_health:805:(pid 0): Fatal error 3 detected",
    ];
    type Stamp = fn(usize) -> String;
    let stamps: [(&str, Stamp); 3] = [
        ("seconds", |at| format!("[  90{at}.000000] ")),
        ("dmesg -T", |at| format!("[Fri Jan 17 15:36:1{at} 2025] ")),
        ("iso", |at| {
            format!("kern  :err   : 2025-01-17T15:36:1{at},345059+00:00 ")
        }),
    ];
    for (form, stamp) in stamps {
        let tree = Scratch::new("known-half");
        std::fs::create_dir_all(tree.join("sys/class/infiniband")).unwrap();
        let log: String = lines
            .iter()
            .enumerate()
            .map(|(at, line)| format!("{}{line}\n", stamp(at)))
            .collect();
        std::fs::write(tree.join("dmesg"), log).unwrap();
        let out = Command::new(doctor())
            .args(["check", "--format", "json", "--root"])
            .arg(&*tree)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(2), "{form}");
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let causes = report["causes"].as_array().unwrap();
        for (check, about) in [
            ("kernel/xid-gpu-fault", "Xid 48"),
            ("kernel/xid-gpu-fault", "Xid 79"),
            ("kernel/xid-gpu-fault", "Xid 119"),
            ("kernel/adapter-firmware", "0000:18:00.0"),
        ] {
            let cause = causes.iter().find(|cause| cause["check"] == check);
            let cause = cause.unwrap_or_else(|| panic!("{form}: {check} is a finding"));
            let sentences = format!("{} {}", cause["sentence"], cause["further"]);
            assert!(
                sentences.contains(about) && sentences.contains("at an unknown time"),
                "{form}: {sentences}"
            );
        }
    }
}

#[test]
fn a_fault_that_needs_a_reset_holds_between_one_hour_and_a_day_and_longer() {
    for (check, line) in [
        ("kernel/xid-gpu-fault", OFF_BUS),
        (
            "kernel/gpu-init-failed",
            "NVRM: GPU 0000:1b:00.0: RmInitAdapter failed! (0x24:0x72:1447)",
        ),
        (
            "kernel/sxid-fatal",
            "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 23001, Fatal, Link 12 Always Fatal",
        ),
        (
            "kernel/adapter-firmware",
            "mlx5_core 0000:18:00.0: poll_health:805:(pid 0): Fatal error 3 detected",
        ),
    ] {
        for hours_ago in [0.5, 5.0, 50.0] {
            let report = judged(&kernel_log(NOW.into(), &[(100.0 - hours_ago, line)]));
            let (severity, _) = said(&report, check).expect("it is a finding");
            assert_eq!((severity, report.exit), ("error", 2), "{check} {hours_ago}");
            assert_eq!(said(&report, "kernel/earlier-fault"), None);
        }
    }
}

#[test]
fn an_sxid_that_is_not_fatal_is_a_note() {
    let line = "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 22013, Non-fatal, Link 5 Minion Link DLREQ interrupt";
    let report = judged(&kernel_log(NOW.into(), &[(99.0, line)]));
    let (severity, sentence) = said(&report, "kernel/sxid-nonfatal").unwrap();
    assert_eq!((severity, report.exit), ("note", 0), "{sentence}");
    assert_eq!(said(&report, "kernel/sxid-fatal"), None);
}

#[test]
fn a_fault_before_the_driver_load_or_the_boot_is_a_note() {
    let loaded = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15";
    let report = judged(&kernel_log(NOW.into(), &[(95.0, OFF_BUS), (96.0, loaded)]));
    assert_eq!(report.exit, 0, "{}", report.headline);
    let (severity, sentence) = said(&report, "kernel/earlier-fault").unwrap();
    assert_eq!(severity, "note");
    assert!(
        sentence.contains("failed 5 h ago, before its driver was loaded"),
        "{sentence}"
    );
    let tree = Scratch::new("known-half-boot");
    std::fs::create_dir_all(tree.join("var/log")).unwrap();
    let log = format!(
        "Nov 20 08:00:01 n kernel: [ 7000.000000] {OFF_BUS}\nNov 21 08:00:01 n kernel: [    0.000000] Linux version 6.1.0\n"
    );
    std::fs::write(tree.join("var/log/kern.log"), log).unwrap();
    let out = Command::new(doctor())
        .args(["check", "--format", "json", "--root"])
        .arg(&*tree)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let of = |key: &str, check: &str| {
        let all = report[key].as_array().unwrap();
        all.iter().find(|f| f["check"] == check).cloned()
    };
    assert_eq!(of("causes", "kernel/xid-gpu-fault"), None);
    let note = of("notes", "kernel/earlier-fault").unwrap();
    assert!(note["sentence"].to_string().contains("before this boot"));
}

/// A tree of eight RoCE adapters of one board, each below its root port at 16 GT/s; without /proc/net/route nobody knows which of them carries the
/// machine's own traffic, so whether one is meant to be used, and what it needs of PCIe, is unknown. Adapter 3 runs at 8 GT/s, two others are down.
fn eight_adapters(down: &[usize]) -> Scratch {
    let tree = Scratch::new("known-half-adapters");
    let put = |path: String, text: &str| {
        let path = tree.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    };
    let link = |path: String, target: String| {
        let path = tree.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    };
    put("proc/cpuinfo".into(), "processor\t: 0\nflags\t\t: fpu vme");
    for at in 0..8 {
        let (root, own) = (format!("0000:{at}0:01.0"), format!("0000:{at}1:00.0"));
        let port = format!("devices/pci0000:{at}0/{root}");
        let function = format!("{port}/{own}");
        let speed = if at == 3 { "8.0" } else { "16.0" };
        for (path, class, vendor, speed) in [
            (&port, "0x060400", "0x8086", "16.0"),
            (&function, "0x020000", "0x15b3", speed),
        ] {
            let of = |name: &str| format!("sys/{path}/{name}");
            put(of("class"), class);
            put(of("vendor"), vendor);
            put(of("device"), "0x1021");
            put(of("current_link_speed"), &format!("{speed} GT/s PCIe"));
            put(of("max_link_speed"), "16.0 GT/s PCIe");
            put(of("current_link_width"), "16");
            put(of("max_link_width"), "16");
        }
        link(
            format!("sys/bus/pci/devices/{root}"),
            format!("../../../{port}"),
        );
        link(
            format!("sys/bus/pci/devices/{own}"),
            format!("../../../{function}"),
        );
        let device = format!("{function}/infiniband/mlx5_{at}");
        let (state, phys) = match down.contains(&at) {
            true => ("1: DOWN", "3: Disabled"),
            false => ("4: ACTIVE", "5: LinkUp"),
        };
        for (name, text) in [
            ("node_type", "1: CA"),
            ("hca_type", "MT4129"),
            ("board_id", "MT_0000000838"),
            ("ports/1/state", state),
            ("ports/1/phys_state", phys),
            ("ports/1/link_layer", "Ethernet"),
            ("ports/1/rate", "200 Gb/sec (2X NDR)"),
        ] {
            put(format!("sys/{device}/{name}"), text);
        }
        link(format!("sys/{device}/device"), "../..".into());
        link(
            format!("sys/class/infiniband/mlx5_{at}"),
            format!("../../{device}"),
        );
    }
    tree
}

/// What `check --root` says: the severity and the subjects of a check's finding.
fn of_tree(tree: &Scratch, check: &str) -> Option<(String, Vec<String>)> {
    let out = Command::new(doctor())
        .args(["check", "--format", "json", "--root"])
        .arg(&**tree)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let causes = report["causes"].as_array().unwrap();
    let found = causes.iter().find(|cause| cause["check"] == check)?;
    let words = found["subjects"].as_array().unwrap().iter();
    Some((
        found["severity"].as_str().unwrap().to_owned(),
        words
            .map(|word| word.as_str().unwrap().to_owned())
            .collect(),
    ))
}

#[test]
fn an_adapter_at_8_gt_among_seven_at_16_without_a_routing_table_is_a_finding() {
    let found = of_tree(&eight_adapters(&[]), "pcie/hop-below-capability");
    let expected = ("warning".to_owned(), vec!["0000:31:00.0".to_owned()]);
    assert_eq!(found, Some(expected));
}

#[test]
fn two_of_eight_ports_down_whose_use_is_unknown_are_a_warning() {
    let found = of_tree(&eight_adapters(&[5, 6]), "link/port-down-among-equals");
    let expected = (
        "warning".to_owned(),
        vec!["mlx5_5/1".into(), "mlx5_6/1".into()],
    );
    assert_eq!(found, Some(expected));
    // Half of them are no majority: which half is in use, nobody knows.
    let found = of_tree(
        &eight_adapters(&[4, 5, 6, 7]),
        "link/port-down-among-equals",
    );
    assert_eq!(found, None);
}

fn file(path: &str, text: &str) -> (serde_json::Value, serde_json::Value) {
    (json!({ "read": path }), json!({ "text": text }))
}

#[test]
fn an_active_infiniband_port_whose_ipoib_is_down_is_a_warning() {
    let check = "ib/ipoib-down";
    let operstate = |netdev: &str| file(&format!("/sys/class/net/{netdev}/operstate"), "down\n");
    let flags = |netdev: &str| file(&format!("/sys/class/net/{netdev}/flags"), "0x1002\n");
    let report = judged(&altered("modelled-ib.jsonl", &[operstate("ib3")]));
    let (severity, sentence) = said(&report, check).unwrap();
    assert_eq!((severity, report.exit), ("warning", 1));
    assert!(
        sentence.starts_with("ib3, the IPoIB interface of mlx5_3/1"),
        "{sentence}"
    );
    // Switched off on one rail alone.
    let report = judged(&altered(
        "modelled-ib.jsonl",
        &[operstate("ib3"), flags("ib3")],
    ));
    assert_eq!(said(&report, check).unwrap().0, "warning");
    // Switched off on all: nobody uses it.
    let all: Vec<_> = ["ib0", "ib1", "ib2", "ib3"]
        .iter()
        .flat_map(|netdev| [operstate(netdev), flags(netdev)])
        .collect();
    let report = judged(&altered("modelled-ib.jsonl", &all));
    assert_eq!((said(&report, check), report.exit), (None, 0));
}

#[test]
fn nodes_of_unknown_kind_with_one_slower_leave_the_comparison_unknown() {
    let refused = (
        json!({ "list": "/sys/bus/pci/devices" }),
        json!({ "errno": "EACCES" }),
    );
    let nodes: Vec<Recording> = (1..=4)
        .map(|at| {
            let mut replies = vec![refused.clone()];
            if at == 4 {
                for device in 0..4 {
                    let rate = format!("/sys/class/infiniband/mlx5_{device}/ports/1/rate");
                    replies.push(file(&rate, "100 Gb/sec (4X EDR)\n"));
                }
            }
            let mut recording = altered("modelled-ib.jsonl", &replies);
            recording.header.node = format!("n{at}");
            recording
        })
        .collect();
    let catalogue = Catalogue::embedded().unwrap();
    let report = many::recordings(
        &catalogue,
        &nodes,
        None,
        &Policy {
            with_passes: true,
            ..Policy::default()
        },
    );
    for check in ["cluster/rate-differs", "cluster/counts-differ"] {
        let open = report.open.iter().any(|open| open.check == check);
        let made = report.causes.iter().any(|cause| cause.check == check);
        assert!(open || made, "{check} is open or a finding");
    }
}

#[test]
fn a_cgroup_that_allows_no_rdma_handle_is_an_error() {
    let devices = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"];
    let limits: String = devices
        .iter()
        .map(|device| format!("{device} hca_handle=0 hca_object=max\n"))
        .collect();
    let mut replies = vec![
        file("/proc/self/cgroup", "0::/job\n"),
        file("/sys/fs/cgroup/cgroup.controllers", "cpu memory rdma\n"),
        file("/sys/fs/cgroup/job/rdma.max", &limits),
    ];
    // What the doctor's own process meets then.
    for device in devices {
        let call = json!({ "call": "ibv_query_port", "device": device, "port": 1 });
        replies.push((call, json!({ "errno": "EAGAIN" })));
    }
    let report = judged(&altered("modelled-ib.jsonl", &replies));
    assert_eq!(report.exit, 2);
    let cause = &report.causes[0];
    assert_eq!(
        (&*cause.check, cause.severity, cause.subjects.len()),
        ("host/rdma-cgroup-forbids", "error", 4)
    );
    assert!(
        cause
            .sentence
            .to_string()
            .contains("the cgroup of this process forbids"),
        "{}",
        cause.sentence
    );
}
