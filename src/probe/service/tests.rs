use super::*;
use crate::fact::Facts;
use crate::probe::testing::{known, run};

/// What systemd 252 of Debian 12 says, in a machine whose nvidia-persistenced was made to fail.
const SHOWN: &str = r"Id=openibd.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\n\nId=opensm.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\n\nId=opensmd.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\n\nId=ibacm.service\nLoadState=loaded\nActiveState=inactive\nSubState=dead\nUnitFileState=enabled\n\nId=ibacm.socket\nLoadState=loaded\nActiveState=active\nSubState=listening\nUnitFileState=enabled\n\nId=rdma-ndd.service\nLoadState=loaded\nActiveState=inactive\nSubState=dead\nUnitFileState=static\n\nId=nvidia-fabricmanager.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\n\nId=nvidia-persistenced.service\nLoadState=loaded\nActiveState=failed\nSubState=failed\nUnitFileState=static\n\nId=nvidia-imex.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\n\nId=irqbalance.service\nLoadState=loaded\nActiveState=inactive\nSubState=dead\nUnitFileState=enabled\n\nId=numad.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\n\nId=tuned.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\n";

const NO_SWITCHES: [&str; 2] = [
    r#"{"q":{"list":"/sys/bus/pci/drivers/nvidia-nvswitch"},"errno":"ENOENT"}"#,
    r#"{"q":{"list":"/sys/bus/pci/drivers"},"names":["virtio-pci"]}"#,
];
const SWITCHES: &str = r#"{"q":{"list":"/sys/bus/pci/drivers/nvidia-nvswitch"},"names":["0000:05:00.0","0000:06:00.0","bind","module","unbind"]}"#;
const HOST: &str = r#"{"q":{"link":"/proc/self/ns/pid"},"text":"pid:[4026531836]"}"#;
const CONTAINER: &str = r#"{"q":{"link":"/proc/self/ns/pid"},"text":"pid:[4026532541]"}"#;

/// The question that is put to systemctl.
fn command() -> String {
    let units: Vec<&str> = SERVICES.iter().flat_map(|s| s.2).copied().collect();
    let units = units.join("\",\"");
    format!(
        r#""q":{{"run":["systemctl","show","--no-pager","--property=Id,LoadState,ActiveState,SubState,UnitFileState","{units}"]}}"#
    )
}

fn systemd() -> String {
    format!(r#"{{{},"text":"{SHOWN}"}}"#, command())
}

fn no_systemd() -> [String; 2] {
    [
        format!(
            r#"{{{},"refused":"command-failed 1: System has not been booted with systemd as init system (PID 1). Can't operate."}}"#,
            command()
        ),
        r#"{"q":{"stat":"/run/systemd/units"},"errno":"ENOENT"}"#.to_owned(),
    ]
}

fn processes(reply: &str) -> String {
    let names: Vec<&str> = SERVICES
        .iter()
        .map(|s| s.1)
        .filter(|name| !name.is_empty())
        .collect();
    format!(
        r#"{{"q":{{"call":"running_commands","names":"{}"}},"value":{reply}}}"#,
        names.join(" ")
    )
}

fn examine(lines: &[&str]) -> Facts {
    run(&PROBE, lines).0
}

fn is_active(facts: &Facts, name: &str) -> Option<bool> {
    known(facts, Subject::Service, name, service::ACTIVE)
}

fn says(facts: &Facts, name: &str) -> Option<Arc<str>> {
    known(facts, Subject::Service, name, service::STATE)
}

#[test]
fn what_systemd_says() {
    let shown = systemd();
    let facts = examine(&[NO_SWITCHES[0], NO_SWITCHES[1], HOST, &shown]);
    let failed = |name| known(&facts, Subject::Service, name, service::FAILED);
    let enabled = |name| known(&facts, Subject::Service, name, service::ENABLED);
    assert_eq!(
        is_active(&facts, "ibacm"),
        Some(true),
        "its socket is enough"
    );
    assert_eq!(
        says(&facts, "ibacm").as_deref(),
        Some("ibacm.socket: active (listening)")
    );
    assert_eq!(enabled("ibacm"), Some(true));
    assert_eq!(is_active(&facts, "nvidia-persistenced"), Some(false));
    assert_eq!(failed("nvidia-persistenced"), Some(true));
    assert_eq!(
        says(&facts, "nvidia-persistenced").as_deref(),
        Some("nvidia-persistenced.service: failed (failed)")
    );
    assert_eq!(is_active(&facts, "irqbalance"), Some(false));
    assert_eq!(
        (enabled("irqbalance"), failed("irqbalance")),
        (Some(true), Some(false))
    );
    assert_eq!(is_active(&facts, "opensm"), Some(false));
    assert_eq!(
        says(&facts, "opensm").as_deref(),
        Some("opensm.service: not installed")
    );
    assert_eq!(enabled("openibd"), Some(false));
}

#[test]
fn a_containers_own_systemd_tells_what_runs_and_not_what_does_not() {
    let shown = systemd();
    let facts = examine(&[NO_SWITCHES[0], NO_SWITCHES[1], CONTAINER, &shown]);
    assert_eq!(is_active(&facts, "ibacm"), Some(true));
    assert_eq!(is_active(&facts, "nvidia-fabricmanager"), None);
    assert_eq!(is_active(&facts, "openibd"), None);
    assert_eq!(
        known(&facts, Subject::Service, "openibd", service::ENABLED),
        None
    );
}

#[test]
fn without_systemd_processes_tell_and_in_a_container_only_of_those_that_run() {
    let [command, units] = no_systemd();
    let some = processes(r#"{"running":["ibacm"],"all":true}"#);
    let facts = examine(&[
        NO_SWITCHES[0],
        NO_SWITCHES[1],
        HOST,
        &command,
        &units,
        &some,
    ]);
    assert_eq!(is_active(&facts, "ibacm"), Some(true));
    assert_eq!(says(&facts, "ibacm").as_deref(), Some("process ibacm runs"));
    assert_eq!(is_active(&facts, "numad"), Some(false));
    assert_eq!(is_active(&facts, "openibd"), None, "it is no process");
    assert_eq!(
        known(&facts, Subject::Service, "ibacm", service::FAILED),
        None
    );

    let facts = examine(&[
        NO_SWITCHES[0],
        NO_SWITCHES[1],
        CONTAINER,
        &command,
        &units,
        &some,
    ]);
    assert_eq!(is_active(&facts, "ibacm"), Some(true));
    assert_eq!(is_active(&facts, "numad"), None);

    let hidden = processes(r#"{"running":[],"all":false}"#);
    let facts = examine(&[
        NO_SWITCHES[0],
        NO_SWITCHES[1],
        HOST,
        &command,
        &units,
        &hidden,
    ]);
    assert_eq!(is_active(&facts, "ibacm"), None, "another user's may run");
}

#[test]
fn a_fabric_manager_beside_systemd_is_found_before_it_is_missed() {
    let shown = systemd();
    let runs = processes(r#"{"running":["nv-fabricmanage"],"all":true}"#);
    let facts = examine(&[SWITCHES, HOST, &shown, &runs]);
    assert_eq!(is_active(&facts, "nvidia-fabricmanager"), Some(true));
    assert_eq!(
        says(&facts, "nvidia-fabricmanager").as_deref(),
        Some("nvidia-fabricmanager.service: not installed, its process runs beside systemd")
    );
    let none = processes(r#"{"running":[],"all":true}"#);
    let facts = examine(&[SWITCHES, HOST, &shown, &none]);
    assert_eq!(is_active(&facts, "nvidia-fabricmanager"), Some(false));
    // If the processes are not known, it is not known to be missing; the other services do not depend on them.
    let facts = examine(&[SWITCHES, HOST, &shown]);
    assert_eq!(is_active(&facts, "nvidia-fabricmanager"), None);
    assert_eq!(is_active(&facts, "numad"), Some(false));
    let node = facts.all(Subject::Node).next().unwrap();
    assert_eq!(facts.known(node, node::NVSWITCHES), Some(2));
}

#[test]
fn a_persistence_daemon_beside_systemd_is_found_too() {
    let shown = systemd();
    let driver = r#"{"q":{"stat":"/proc/driver/nvidia/version"},"value":{"kind":"file"}}"#;
    let runs = processes(r#"{"running":["nvidia-persiste"],"all":true}"#);
    let lines = [NO_SWITCHES[0], NO_SWITCHES[1], driver, HOST, &shown, &runs];
    assert_eq!(
        is_active(&examine(&lines), "nvidia-persistenced"),
        Some(true)
    );
    assert_eq!(
        is_active(&examine(&lines[..5]), "nvidia-persistenced"),
        None
    );
}

#[test]
fn in_a_copied_tree_systemds_links_tell_what_ran() {
    let facts = examine(&[
        NO_SWITCHES[0],
        NO_SWITCHES[1],
        HOST,
        r#"{"q":{"stat":"/run/systemd/units"},"value":{"kind":"directory"}}"#,
        r#"{"q":{"link":"/run/systemd/units/invocation:openibd.service"},"text":"7d4f6a2e780547dfacc9d1981635d898"}"#,
        r#"{"q":{"link":"/run/systemd/units/invocation:ibacm.service"},"errno":"ENOENT"}"#,
        r#"{"q":{"link":"/etc/systemd/system/multi-user.target.wants/openibd.service"},"text":"/usr/lib/systemd/system/openibd.service"}"#,
    ]);
    assert_eq!(is_active(&facts, "openibd"), Some(true));
    assert_eq!(
        known(&facts, Subject::Service, "openibd", service::ENABLED),
        Some(true)
    );
    assert_eq!(
        is_active(&facts, "ibacm"),
        None,
        "its socket has no such link"
    );
}

#[test]
fn nothing_recorded_is_nothing_known() {
    let facts = examine(&[]);
    for id in facts.all(Subject::Service) {
        assert_eq!(facts.known(id, service::ACTIVE), None);
        assert_eq!(facts.known(id, service::FAILED), None);
        assert_eq!(facts.known(id, service::ENABLED), None);
        assert!(facts.known(id, service::NAME).is_some());
    }
}

#[test]
fn odd_replies_are_not_understood() {
    let block = "Id=a.service\nLoadState=loaded\nActiveState=active\nSubState=running\n";
    assert!(parse::units(block, 1).is_ok());
    assert!(parse::units(block, 2).is_err());
    for odd in [
        "",
        "Id=a\n",
        "garbage",
        "Id=a\nLoadState=loaded\nActiveState=\n",
        "Id=a\nLoadState=loaded\nActiveState=odd\n",
    ] {
        assert!(parse::units(odd, 1).is_err(), "{odd:?}");
    }
}
