//! Every Xid is judged by the immediate action that NVIDIA's catalogue has for it (Ampere and newer, up to Xid 172):
//! <https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html>.

use rdma_doctor::check::Catalogue;
use rdma_doctor::fact::kernel_event::{self, EventClass};
use rdma_doctor::fact::{Fact, Facts, Origin, Seconds, Subject, node};

/// What the catalogue says to do at once.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    /// RESET_GPU, RESTART_BM, RESTART_VM, and the workflow of Xid 48, which ends in a reset.
    Reset,
    /// Memory that was remapped or retired, or could not be, and the program goes on or is restarted.
    Memory,
    /// The workflows of NVLink errors.
    Nvlink,
    /// RESTART_APP, and faults that a program causes.
    RestartApp,
    /// IGNORE, and Xids that accompany others.
    Ignore,
    /// No action, or another one.
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
        | 155..=156
        | 158 => Action::Reset,
        63 | 92 | 94 | 157 | 171..=172 => Action::Memory,
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
        facts.set(event, kernel_event::BESIDE_ODD, Fact::derived(0, "a test"));
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
