use super::*;
use crate::fact::Key;
use crate::probe::testing::{known, run as run_probe};

const ONE: &str = r#"{"q":{"call":"nccl_libraries"},"value":[{"from":"Python","path":"/usr/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2","version":"2.27.5"}]}"#;
const HOMES: &str = r#"{"q":{"call":"nccl_files"},"value":{"home":"/home/a","passwd_home":"/home/a","conf_file":null}}"#;
const NO_USER: &str = r#"{"q":{"read":"/home/a/.nccl.conf"},"errno":"ENOENT"}"#;
const NO_SYSTEM: &str = r#"{"q":{"read":"/etc/nccl.conf"},"errno":"ENOENT"}"#;

fn env(vars: &str) -> String {
    format!(r#"{{"q":{{"env":["NCCL_"]}},"value":{{{vars}}}}}"#)
}

fn file(path: &str, text: &str) -> String {
    format!(r#"{{"q":{{"read":"{path}"}},"text":"{text}"}}"#)
}

fn of<T: crate::fact::Typed>(facts: &Facts, name: &str, key: Key<T>) -> Option<T> {
    known(facts, Subject::Variable, name, key)
}

#[test]
fn the_environment_wins_over_the_users_file_and_that_over_the_machines() {
    let env = env(r#""NCCL_DEBUG":"WARN","NCCL_EMPTY":"""#);
    let user = file(
        "/home/a/.nccl.conf",
        "NCCL_DEBUG=INFO\\nNCCL_IB_HCA==mlx5_0\\n",
    );
    let system = file(
        "/etc/nccl.conf",
        "NCCL_IB_HCA=mlx5\\nNCCL_IB_TC=106\\nNCCL_IB_TC=1",
    );
    let (facts, node) = run_probe(&PROBE, &[ONE, &env, HOMES, &user, &system]);
    let value = |name: &str| of(&facts, name, variable::VALUE).unwrap().to_string();
    let origin = |name: &str| of(&facts, name, variable::ORIGIN).unwrap().to_string();
    assert!(facts.members(Subject::Variable, node).is_ok());
    assert_eq!(
        (value("NCCL_DEBUG"), origin("NCCL_DEBUG")),
        ("WARN".into(), "the environment".into())
    );
    assert_eq!(
        (value("NCCL_IB_HCA"), origin("NCCL_IB_HCA")),
        ("=mlx5_0".into(), "/home/a/.nccl.conf line 2".into())
    );
    assert_eq!(value("NCCL_IB_TC"), "106");
    assert_eq!(value("NCCL_EMPTY"), "");
    assert_eq!(of(&facts, "NCCL_IB_HCA", variable::OVERRIDES), Some(true));
    assert_eq!(of(&facts, "NCCL_IB_TC", variable::OVERRIDES), Some(false));
    let files = facts.known(node, node::NCCL_FILES).unwrap();
    assert_eq!(files.join(" "), "/home/a/.nccl.conf /etc/nccl.conf");
    assert_eq!(
        facts.known(node, node::NCCL_VERSION).as_deref(),
        Some("2.27.5")
    );
}

#[test]
fn an_environment_that_was_not_recorded_could_have_set_any_of_them() {
    let system = file("/etc/nccl.conf", "NCCL_IB_TC=106\\n");
    let (facts, node) = run_probe(&PROBE, &[ONE, HOMES, NO_USER, &system]);
    assert!(facts.members(Subject::Variable, node).is_err());
    assert_eq!(of(&facts, "NCCL_IB_TC", variable::VALUE), None);
    assert_eq!(
        of(&facts, "NCCL_IB_TC", variable::NAME).as_deref(),
        Some("NCCL_IB_TC")
    );
}

#[test]
fn carriage_returns_stay_until_2_30() {
    let empty = env("");
    let system = file(
        "/etc/nccl.conf",
        "NCCL_SOCKET_IFNAME=eth0\\r\\nNCCL_DEBUG=\\\"INFO\\\"\\nNCCL_IB_SL=1 \\n",
    );
    let run = |libraries: &str| run_probe(&PROBE, &[libraries, &empty, HOMES, NO_USER, &system]).0;
    let facts = run(ONE);
    assert_eq!(
        of(&facts, "NCCL_SOCKET_IFNAME", variable::VALUE).as_deref(),
        Some("eth0\r")
    );
    assert_eq!(
        of(&facts, "NCCL_SOCKET_IFNAME", variable::MANGLED),
        Some(ValueDefect::CarriageReturn)
    );
    assert_eq!(
        of(&facts, "NCCL_DEBUG", variable::MANGLED),
        Some(ValueDefect::Quotes)
    );
    assert_eq!(
        of(&facts, "NCCL_IB_SL", variable::MANGLED),
        Some(ValueDefect::Space)
    );
    let facts = run(&ONE.replace("2.27.5", "2.30.7"));
    assert_eq!(
        of(&facts, "NCCL_SOCKET_IFNAME", variable::VALUE).as_deref(),
        Some("eth0")
    );
    assert_eq!(
        of(&facts, "NCCL_SOCKET_IFNAME", variable::MANGLED),
        Some(ValueDefect::No)
    );
    let facts = run(r#"{"q":{"call":"nccl_libraries"},"value":[]}"#);
    assert_eq!(of(&facts, "NCCL_SOCKET_IFNAME", variable::VALUE), None);
}

#[test]
fn which_file_is_the_users_depends_on_the_version() {
    let empty = env("");
    let homes = r#"{"q":{"call":"nccl_files"},"value":{"home":"/root","passwd_home":"/home/a","conf_file":null}}"#;
    let a = file("/home/a/.nccl.conf", "NCCL_A=1\\n");
    let root = file("/root/.nccl.conf", "NCCL_B=1\\n");
    let run = |libraries: &str, homes: &str| {
        let (facts, node) = run_probe(&PROBE, &[libraries, &empty, homes, &a, &root, NO_SYSTEM]);
        let names: Vec<String> = facts
            .below(node, Subject::Variable)
            .map(|id| facts.name(id).to_owned())
            .collect();
        (
            names.join(" "),
            facts.members(Subject::Variable, node).is_ok(),
        )
    };
    assert_eq!(run(ONE, homes), ("NCCL_A".into(), true));
    assert_eq!(
        run(&ONE.replace("2.27.5", "2.30.7"), homes),
        ("NCCL_B".into(), true)
    );
    let none = r#"{"q":{"call":"nccl_libraries"},"value":[]}"#;
    assert_eq!(run(none, homes), (String::new(), false));
    let named = r#"{"q":{"call":"nccl_files"},"value":{"home":"/x","passwd_home":"/home/a","conf_file":"/root/.nccl.conf"}}"#;
    assert_eq!(run(ONE, named), ("NCCL_B".into(), true));
    assert_eq!(
        run(&ONE.replace("2.27.5", "2.20.5"), named),
        ("NCCL_A".into(), true)
    );
}

#[test]
fn files_that_cannot_be_read_and_lines_without_effect_are_named() {
    let empty = env("");
    let user = r#"{"q":{"read":"/home/a/.nccl.conf"},"errno":"EACCES"}"#;
    let system = file(
        "/etc/nccl.conf",
        "export NCCL_DEBUG=INFO\\nNCCL_ALGO\\nPATH=/x\\n",
    );
    let (facts, node) = run_probe(&PROBE, &[ONE, &empty, HOMES, user, &system]);
    assert_eq!(facts.known(node, node::NCCL_FILE_UNREADABLE), Some(true));
    let odd = facts.known(node, node::NCCL_ODD_LINES).unwrap();
    assert_eq!(odd.len(), 2, "{odd:?}");
    assert!(odd[0].contains("line 1 sets \"export NCCL_DEBUG\""));
    assert!(facts.members(Subject::Variable, node).is_ok());
    let (facts, node) = run_probe(&PROBE, &[ONE, &empty, HOMES, NO_USER, NO_SYSTEM]);
    assert_eq!(facts.known(node, node::NCCL_FILE_UNREADABLE), Some(false));
    assert_eq!(facts.known(node, node::NCCL_ODD_LINE), Some(false));
}

#[test]
fn several_libraries_leave_the_version_open_unless_one_decides() {
    let list = |from: &str| {
        format!(
            r#"{{"q":{{"call":"nccl_libraries"}},"value":[{{"from":"{from}","path":"/a/libnccl.so.2","version":"2.27.5"}},{{"from":"system","path":"/b/libnccl.so.2","version":"2.18.3"}}]}}"#
        )
    };
    let (facts, node) = run_probe(&PROBE, &[&list("Python")]);
    assert_eq!(facts.known(node, node::NCCL_VERSION), None);
    assert_eq!(facts.known(node, node::NCCL_COPIES_AGREE), Some(false));
    let (facts, node) = run_probe(&PROBE, &[&list("VIRTUAL_ENV")]);
    assert_eq!(
        facts.known(node, node::NCCL_VERSION).as_deref(),
        Some("2.27.5")
    );
    assert_eq!(
        facts.known(node, node::NCCL_FOUND).as_deref(),
        Some("VIRTUAL_ENV")
    );
    let (facts, node) = run_probe(
        &PROBE,
        &[r#"{"q":{"call":"nccl_libraries"},"value":{"x":1}}"#],
    );
    assert_eq!(facts.known(node, node::NCCL_COPIES_AGREE), None);
}

#[test]
fn libraries_that_were_not_read_are_said() {
    let list = r#"{"q":{"call":"nccl_libraries"},"value":[{"from":"system","path":"/b/libnccl.so.2","version":"2.18.3"},{"from":"left out","left_out":3}]}"#;
    let (facts, node) = run_probe(&PROBE, &[list]);
    let said: Vec<Arc<str>> = facts.texts(node, node::LEFT_OUT).collect();
    assert_eq!(
        said,
        ["3 NCCL libraries were not read (more than 32 in all)".into()]
    );
    assert_eq!(
        facts.known(node, node::NCCL_COPIES).unwrap().as_ref(),
        ["2.18.3 (/b/libnccl.so.2)".into()]
    );
}

#[test]
fn a_benchmark_loads_the_first_library_and_says_why() {
    use crate::measure::plan::nccl_library::{Choice, choose};
    let chosen = |list: &str| {
        let reply = format!(r#"{{"q":{{"call":"nccl_libraries"}},"value":{list}}}"#);
        let (facts, node) = run_probe(&PROBE, &[&reply]);
        choose(&facts, node)
    };
    let choice = |path: &str, why: &str| {
        Ok(Choice {
            path: path.into(),
            why: why.into(),
        })
    };
    let two = |from: &str| {
        format!(
            r#"[{{"from":"{from}","path":"/a/libnccl.so.2","version":"2.27.5"}},{{"from":"system","path":"/b/libnccl.so.2","version":"2.18.3"}}]"#
        )
    };
    assert_eq!(
        chosen(&two("Python")),
        choice(
            "/a/libnccl.so.2",
            "found first, by Python; another version is there"
        )
    );
    assert_eq!(
        chosen(&two("VIRTUAL_ENV")),
        choice("/a/libnccl.so.2", "found by VIRTUAL_ENV")
    );
    assert_eq!(
        chosen(r#"[{"from":"system","path":"/b/libnccl.so.2"}]"#),
        choice("/b/libnccl.so.2", "found by system")
    );
    let none = chosen("[]").unwrap_err();
    assert!(none.contains("libnccl.so.2"), "{none}");
    let version = chosen(r#"[{"from":"--nccl","version":"2.27.5"}]"#).unwrap_err();
    assert!(version.contains("a benchmark loads a file"), "{version}");
}
