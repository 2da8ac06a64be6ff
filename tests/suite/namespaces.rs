//! What tests with network namespaces share: whether they can run, a shell, and names that nobody else has.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::place::unique;

pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Whether namespaces can be made here, these tools are there, and a script works in such a namespace, whose name is `$ns`; says why not.
/// `RDMA_DOCTOR_NETNS=0` skips `what`, `require` makes it a failure.
pub(crate) fn can_run(what: &str, tools: &[&str], trial: &str) -> bool {
    let wish = std::env::var("RDMA_DOCTOR_NETNS").unwrap_or_default();
    if wish == "0" {
        say(&format!("skipped: {what} (RDMA_DOCTOR_NETNS=0)"));
        return false;
    }
    let lacks = |tool: &&&str| !shell(&format!("command -v {tool}")).0;
    let why = if !rustix::process::geteuid().is_root() {
        Some("not root".to_owned())
    } else if let Some(tool) = ["ip"].iter().chain(tools).find(lacks) {
        Some(format!("no {tool}"))
    } else {
        let (done, said) = shell(&format!(
            "ns={}; ip netns add $ns && {{ {trial}\n}}; done=$?; ip netns del $ns; exit $done",
            unique("rd-try")
        ));
        (!done).then(|| format!("namespaces do not work: {said}"))
    };
    match why {
        None => true,
        Some(why) if wish == "require" => panic!("{what} are required and cannot run: {why}"),
        Some(why) => {
            say(&format!("skipped: {what} ({why})"));
            false
        }
    }
}

/// Runs a script: whether it ended well, and what it said.
pub(crate) fn shell(script: &str) -> (bool, String) {
    let out = Command::new("bash")
        .args(["-c", script])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    (out.status.success(), said.into_owned())
}
