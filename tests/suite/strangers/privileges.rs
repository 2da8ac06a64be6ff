//! What a probe's process keeps of root's privileges, as the kernel says in the answer that it records.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::place::doctor;
use crate::process::start;

/// `CAP_SYS_MODULE`, `CAP_MKNOD`, `CAP_SETUID`, `CAP_SYS_TIME`, `CAP_SYS_BOOT` (linux/capability.h).
const GIVEN_UP: [u32; 5] = [16, 27, 7, 25, 22];

#[test]
fn a_probes_process_gives_up_what_it_does_not_need() {
    let mut command = Command::new(doctor());
    command.args(["record", "--no-redact", "--output", "-"]);
    let ended = start(command.stdin(Stdio::null())).ends();
    assert_eq!(ended.status, 0, "{}", ended.err);
    let said = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_status = line["q"]["read"] == "/proc/self/status";
        let text = || line["text"].as_str().map(str::to_owned);
        is_status.then(text).flatten()
    };
    let statuses: Vec<String> = ended.out.lines().filter_map(said).collect();
    assert!(!statuses.is_empty(), "no probe asked for its own status");
    for status in statuses {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name} in {status}"))
                .trim()
                .to_owned()
        };
        assert_eq!(field("NoNewPrivs:"), "1");
        for set in ["CapPrm:", "CapEff:", "CapInh:"] {
            let set = u64::from_str_radix(&field(set), 16).unwrap();
            for capability in GIVEN_UP {
                assert_eq!(set >> capability & 1, 0, "capability {capability} is left");
            }
        }
    }
    if !rustix::process::geteuid().is_root() {
        let _ = writeln!(
            std::io::stdout().lock(),
            "privileges: as root there is more to give up"
        );
    }
}
