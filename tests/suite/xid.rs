//! Every Xid is judged by the immediate action that NVIDIA's catalogue has for it (Ampere and newer, up to Xid 172):
//! <https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html>.

use rdma_doctor::check::Catalogue;
use rdma_doctor::fact::kernel_event::{self, EventClass, LinkError};
use rdma_doctor::fact::{Fact, Facts, Origin, Seconds, Subject, node};

use crate::known_half::{NOW, judged, kernel_log_of};

/// What the catalogue says to do at once.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    /// RESET_GPU, RESTART_BM, RESTART_VM, and the workflow of Xid 48, which ends in a reset; 171 and 172 are logged in addition to Xid 48.
    Reset,
    /// Memory that was remapped or retired, or could not be, and the program goes on or is restarted.
    Memory,
    /// The workflows of NVLink errors.
    Nvlink,
    /// RESTART_APP, and faults that a program causes.
    RestartApp,
    /// IGNORE, and Xids that accompany others.
    Ignore,
    /// No action, or another one; Xid 155, whose action is a reset, and which is logged of links that are taken down on purpose too.
    Unclassified,
}

fn action(xid: u64) -> Action {
    match xid {
        46
        | 48
        | 62
        | 64
        | 79
        | 95
        | 109..=110
        | 119..=120
        | 136
        | 140
        | 143
        | 151
        | 156
        | 158
        | 171..=172 => Action::Reset,
        63 | 92 | 94 | 157 => Action::Memory,
        74 | 144..=150 => Action::Nvlink,
        8
        | 11
        | 13
        | 25
        | 31..=32
        | 39..=41
        | 43
        | 60
        | 68..=72
        | 75..=77
        | 80
        | 82..=86
        | 88..=89
        | 96..=105
        | 126..=135
        | 137
        | 139 => Action::RestartApp,
        14 | 37..=38 | 44..=45 | 66..=67 | 93 | 106..=108 | 121 | 141 | 152..=154 | 160..=161 => {
            Action::Ignore
        }
        _ => Action::Unclassified,
    }
}

#[test]
fn every_xid_is_judged_by_its_action_in_the_catalogue() {
    let catalogue = Catalogue::embedded().unwrap();
    for xid in 1..=200 {
        let mut facts = Facts::new();
        let n = facts.new_node("n");
        let event = facts.instance(Subject::KernelEvent, n, "xid");
        let yes = |value| Fact::Known(value, Origin::Stated);
        facts.set(n, node::PASTED, yes(false));
        facts.set(event, kernel_event::SEEN, yes(true));
        facts.set(event, kernel_event::LOGGED, yes(true));
        facts.set(event, kernel_event::ENDED, yes(false));
        facts.set(event, kernel_event::THIS_BOOT, yes(true));
        facts.set(event, kernel_event::FATAL, yes(false));
        facts.set(event, kernel_event::INCIDENTS, Fact::derived(1, "a test"));
        facts.set(event, kernel_event::BESIDE_ODD, Fact::derived(0, "a test"));
        let printed = Fact::Known(LinkError::NotPrinted, Origin::Stated);
        facts.set(event, kernel_event::LINK_ERROR, printed);
        let class = Fact::Known(EventClass::Xid, Origin::Stated);
        facts.set(event, kernel_event::CLASS, class);
        facts.set(event, kernel_event::CODE, Fact::Known(xid, Origin::Stated));
        let quiet = Fact::Known(Seconds(60.0), Origin::Stated);
        facts.set(event, kernel_event::QUIET, quiet);
        let of_events = catalogue.checks.iter();
        let failing: Vec<&str> = of_events
            .filter(|check| check.subject == Subject::KernelEvent)
            .filter(|check| check.judge(&facts, event).word() == "fails")
            .map(|check| &*check.id)
            .collect();
        let expected: &[&str] = match action(xid) {
            Action::Reset => &["kernel/xid-gpu-fault"],
            Action::Memory => &["kernel/xid-memory"],
            Action::Nvlink => &["kernel/xid-nvlink"],
            Action::RestartApp => &["kernel/xid-program"],
            Action::Ignore => &[],
            Action::Unclassified => &["kernel/xid-not-judged"],
        };
        assert_eq!(failing, expected, "Xid {xid}");
    }
}

/// Xids 144 to 150 as the driver writes them, and whether their immediate action in the catalogue's decoding is RESET_GPU.
const NVLINK5: [(&str, bool); 9] = [
    (
        "144, SAW_MVB Fatal XC0 i0 Link 00 (0x00000001 0x00000002 0x0 0x0 0x0 0x0)",
        true,
    ),
    (
        "144, SAW_MVB Nonfatal XC0 i0 Link 00 (0x00000001 0x00000008 0x0 0x0 0x0 0x0)",
        false,
    ),
    (
        "145, RLW_REMAP Fatal XC0 i0 Link 03 (0x00000004 0x00000040 0x0 0x0 0x0 0x0)",
        true,
    ),
    (
        "145, RLW_RXPIPE Nonfatal XC0 i0 Link 03 (0x0409a0c2 0x00000008 0x1 0x0 0x00100000 0x4)",
        false,
    ),
    (
        "146, TLW_CTRL Fatal XC0 i0 Link 07 (0x00000009 0x00000004 0x0 0x0 0x0 0x0)",
        true,
    ),
    (
        "149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 02 (0x00000013 0x00000001 0x0 0x0 0x0 0x0)",
        false,
    ),
    (
        "149, NETIR_LINK_DOWN Fatal XC0 i0 Link 14 (0x004001c6 0x00000000 0x0 0x0 0x0 0x0)",
        true,
    ),
    // The other end was reset: the action is IGNORE.
    (
        "149, NETIR_LINK_DOWN Fatal XC0 i0 Link 14 (0x026001c6 0x00000000 0x0 0x0 0x0 0x0)",
        false,
    ),
    (
        "150, MSE_WATCHDOG Fatal XC0 i0 Link -1 (0x00000000 0x00000000 0x0 0x0 0x0 0x0)",
        true,
    ),
];

#[test]
fn an_xid_of_nvlink_orders_a_reset_if_the_driver_calls_it_fatal() {
    for (line, resets) in NVLINK5 {
        let line = format!("NVRM: Xid (PCI:0000:1b:00): {line}");
        let report = judged(&kernel_log_of(
            "modelled-ib.jsonl",
            NOW.into(),
            &[(99.0, &line)],
        ));
        let checks: Vec<&str> = report.causes.iter().map(|cause| &*cause.check).collect();
        // A link that went on by itself is a remark.
        let is_nonfatal = line.contains(" Nonfatal ");
        let expected: &[&str] = match (resets, is_nonfatal) {
            (true, _) => &["kernel/xid-gpu-fault"],
            (false, false) => &["kernel/xid-nvlink"],
            (false, true) => &[],
        };
        assert_eq!(checks, expected, "{line}");
        let notes = report.notes.iter().map(|note| &*note.check);
        let told = notes.filter(|check| *check == "kernel/xid-nvlink-nonfatal");
        assert_eq!(told.count(), usize::from(is_nonfatal), "{line}");
    }
}

#[test]
fn an_xid_that_comes_again_after_two_resets_asks_for_a_replacement() {
    let xid = "NVRM: Xid (PCI:0000:1b:00): 119, pid=77, Timeout after 6s of waiting for RPC response from GPU1 GSP!";
    let loaded = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15";
    let reset = "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)";
    let checks = |told: &[&str]| -> Vec<String> {
        let times = (0u8..).map(|at| 90.0 + f64::from(at));
        let told: Vec<(f64, &str)> = times.zip(told.iter().copied()).collect();
        let report = judged(&kernel_log_of("modelled-ib.jsonl", NOW.into(), &told));
        let all = report.causes.iter().chain(&report.notes);
        all.map(|finding| finding.check.to_string()).collect()
    };
    let repeats = "kernel/xid-repeats".to_owned();
    // Lines of one incident are no repetition.
    let once = checks(&[xid, xid, xid, xid]);
    assert!(!once.contains(&repeats), "{once:?}");
    let twice = checks(&[xid, reset, xid, loaded]);
    assert!(!twice.contains(&repeats), "{twice:?}");
    let again = checks(&[xid, reset, xid, loaded, xid]);
    assert!(again.contains(&repeats), "{again:?}");
    assert_eq!(again[0], "kernel/xid-gpu-fault");
    let over = checks(&[xid, reset, xid, loaded, xid, loaded]);
    assert_eq!(over, [repeats]);
}
