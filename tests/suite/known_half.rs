//! What is known proves a fault, and what is unknown only decides its age, cause or severity: the finding is made and says so.

use std::path::Path;
use std::process::Command;

use rdma_doctor::check::Catalogue;
use rdma_doctor::cli::check;
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
    Recording::read(text.as_bytes(), &beside, 4).unwrap()
}

fn judged(recording: &Recording) -> Report {
    let catalogue = Catalogue::embedded().unwrap();
    let one = std::slice::from_ref(recording);
    check::judged(&catalogue, one, Policy::default(), true)
}

/// The finding of a check, as a cause, a note or a consequence: its severity and sentence.
fn said(report: &Report, id: &str) -> Option<(&'static str, String)> {
    let all = || report.causes.iter().chain(&report.notes);
    let found = all().find(|finding: &&Finding| finding.check == id);
    found.map(|finding| (finding.severity, finding.sentence.clone()))
}

/// The kernel's log of a machine that booted 100 h ago, or without that clock.
fn kernel_log(now: serde_json::Value, told: &[(f64, &str)]) -> Recording {
    let told: Vec<_> = told
        .iter()
        .map(|(hours, text)| json!({ "t": (hours * 3.6e9) as u64, "text": text }))
        .collect();
    let value = json!({
        "now": now,
        "markers": rdma_doctor::source::live::kernel_log::MARKERS,
        "lines": 2000,
        "lost": 0,
        "first": 0,
        "from_boot": true,
        "left_out": 0,
        "told": told,
    });
    altered(
        "modelled-ib.jsonl",
        &[(json!({ "call": "kernel_log" }), json!({ "value": value }))],
    )
}

const NOW: u64 = 360_000_000_000;
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
            ("kernel/mlx5-fatal", "0000:18:00.0"),
        ] {
            let cause = causes.iter().find(|cause| cause["check"] == check);
            let cause = cause.unwrap_or_else(|| panic!("{form}: {check} is a finding"));
            let sentences = format!("{} {}", cause["sentence"], cause["further"]);
            assert!(
                sentences.contains(about) && sentences.contains("(age unknown)"),
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
            "kernel/mlx5-fatal",
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
