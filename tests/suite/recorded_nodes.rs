//! `rdma-doctor test`: recordings with expected verdicts beside them, as a site's CI runs them.

use crate::process::run_doctor as doctor;
use std::path::{Path, PathBuf};

use crate::namespaces::{self, shell};
use crate::place::{self, unique};

/// Runs it, and returns its exit status with what it said.
fn run(args: &[&str]) -> (i32, String) {
    let out = doctor(args);
    let text = [out.stdout, out.stderr].concat();
    (out.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// A directory of its own, empty.
fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Writes a fixture whole, as a node of this name.
fn record(fixture: &str, to: &Path, node: &str) {
    let from = fixtures().join(fixture);
    let (code, said) = run(&[
        "record",
        "--from",
        from.to_str().unwrap(),
        "-o",
        to.to_str().unwrap(),
    ]);
    assert_eq!(code, 0, "{said}");
    let text = std::fs::read_to_string(to).unwrap();
    let (header, lines) = text.split_once('\n').unwrap();
    let mut header: serde_json::Value = serde_json::from_str(header).unwrap();
    assert!(header.get("base").is_none(), "{header}");
    header["node"] = node.into();
    std::fs::write(to, format!("{header}\n{lines}")).unwrap();
}

/// Gives a recording another date.
fn redate(path: &Path, utc: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    let (header, lines) = text.split_once('\n').unwrap();
    let mut header: serde_json::Value = serde_json::from_str(header).unwrap();
    header["utc"] = utc.into();
    std::fs::write(path, format!("{header}\n{lines}")).unwrap();
}

/// A walk through a site's CI: two good nodes are blessed, one breaks, its finding is waived, and the waiver expires. `record` writes a node's recording,
/// of the second one as it is when it is broken if that is asked for.
pub(crate) fn walk(
    name: &str,
    options: &[&str],
    broken: [&str; 2],
    record: &dyn Fn(&str, &Path, bool),
) {
    let dir = directory(name);
    let at = |name: &str| dir.join(name);
    let place = dir.to_str().unwrap();
    let test = |more: &[&str]| run(&[&["test", place], options, more].concat());
    for node in ["n1", "n2"] {
        record(node, &at(&format!("{node}.jsonl")), false);
    }
    // Without expectations there is nothing to hold them against.
    let (code, said) = test(&[]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("n1: no expected verdict"), "{said}");
    let (code, said) = test(&["--bless"]);
    assert_eq!(code, 0, "{said}");
    let expected = std::fs::read_to_string(at("n2.expect.toml")).unwrap();
    let (code, said) = test(&[]);
    assert_eq!((code, said.trim()), (0, "2 of 2 as expected"));

    record("n2", &at("n2.jsonl"), true);
    let [check, subject] = broken;
    let came = format!("+ error {check} {subject}");
    let (code, said) = test(&[]);
    assert_eq!(code, 1, "{said}");
    for line in [
        "n2: status is errors, was ",
        &format!("  {came}"),
        "1 of 2 as expected, 1 changed: n2",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let (code, junit) = test(&["--format", "junit"]);
    assert_eq!(code, 1);
    for part in [
        "<testsuite name=\"rdma-doctor test\" tests=\"2\" failures=\"1\" errors=\"0\"",
        "<testcase classname=\"rdma-doctor\" name=\"n1\"",
        "<failure message=\"status is errors, was ",
        &came,
    ] {
        assert!(junit.contains(part), "{part}: {junit}");
    }
    // In a file for a tool; people read the job's log.
    let file = at("junit.xml");
    let (code, said) = test(&["--format", "junit", "--output", file.to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(
        said.contains(&came) && !said.contains("<testsuite"),
        "{said}"
    );
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains(&came), "{written}");
    let (code, tap) = test(&["--format", "tap"]);
    assert_eq!(code, 1);
    assert!(
        tap.starts_with("TAP version 14\n1..2\nok 1 - n1\nnot ok 2 - n2\n"),
        "{tap}"
    );
    let (code, github) = test(&["--format", "github"]);
    assert_eq!(code, 1);
    assert!(github.starts_with("::error file="), "{github}");
    assert!(
        github.contains("n2.jsonl,title=rdma-doctor test::status is errors, was "),
        "{github}"
    );
    let waivers = at("waivers.toml");
    let entry = doctor(&[
        "waive",
        check,
        "--subject",
        subject,
        "--nodes",
        "n2",
        "--until",
        "2099-01-31",
        "--reason",
        "the part is ordered",
        "--owner",
        "ops",
    ]);
    std::fs::write(&waivers, entry.stdout).unwrap();
    let waivers = waivers.to_str().unwrap();
    let (code, said) = test(&["--waivers", waivers]);
    assert_eq!((code, said.trim()), (0, "2 of 2 as expected"));
    redate(&at("n2.jsonl"), "2099-02-01T00:00:00Z");
    let (code, said) = test(&["--waivers", waivers]);
    assert_eq!(code, 1, "{said}");
    for line in [&came, "+ warning waiver/expired waiver 1"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    // A verdict is written only if it changed.
    let (code, said) = test(&["--bless"]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("wrote ") && !said.contains("n1.expect"),
        "{said}"
    );
    assert_ne!(
        std::fs::read_to_string(at("n2.expect.toml")).unwrap(),
        expected
    );
    let (code, said) = test(&[]);
    assert_eq!((code, said.trim()), (0, "2 of 2 as expected"));
}

#[test]
fn a_modelled_node_that_loses_a_rail_is_told_waived_and_told_again() {
    let broken = ["link/not-trained", "mlx5_2/1"];
    walk("walk-modelled", &[], broken, &|node, to, is_broken| {
        let fixture = match is_broken {
            true => "modelled-ib-polling.jsonl",
            false => "modelled-ib.jsonl",
        };
        record(fixture, to, node);
    });
}

/// Two nodes are network namespaces joined by a cable; one loses the interface that NCCL_SOCKET_IFNAME names.
#[test]
fn a_real_node_that_loses_its_interface_is_told_waived_and_told_again() {
    if !namespaces::can_run(
        "recordings of two namespaces",
        &["unshare", "hostname"],
        "true",
    ) {
        return;
    }
    let names = Namespaces([unique("walk-a"), unique("walk-b")]);
    let Namespaces([first, second]) = &names;
    let (made, said) = shell(&format!(
        "set -e; ip netns add {first}; ip netns add {second}
        ip -n {first} link add w0 type veth peer name w0 netns {second}
        ip -n {first} addr add 10.77.0.1/24 dev w0; ip -n {second} addr add 10.77.0.2/24 dev w0
        for ns in {first} {second}; do ip -n $ns link set w0 up; ip -n $ns link set lo up; done"
    ));
    assert!(made, "{said}");
    // What else a machine that tests is found to have changes from one minute to the next.
    let options = ["--only", "nccl/*", "--only", "waiver/*"];
    let broken = ["nccl/interface-missing", "NCCL"];
    walk("walk-real", &options, broken, &|node, to, is_broken| {
        let of = if node == "n1" { first } else { second };
        if is_broken {
            let (done, said) = shell(&format!("ip -n {of} link set w0 down name w1"));
            assert!(done, "{said}");
        }
        let (recorded, said) = shell(&format!(
            "export NCCL_SOCKET_IFNAME=w0; ip netns exec {of} unshare --uts \
            bash -c \"hostname {node} && '{}' record --no-redact -o '{}'\"",
            place::doctor(),
            to.display()
        ));
        assert!(recorded, "{said}");
    });
}

/// Network namespaces, which go with the value.
struct Namespaces([String; 2]);

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            shell(&format!("ip netns del {name}"));
        }
    }
}

#[test]
fn damaged_files_are_named_and_the_others_go_on() {
    let dir = directory("damaged-recordings");
    let at = |name: &str| dir.join(name);
    let place = dir.to_str().unwrap();
    record("modelled-ib.jsonl", &at("good.jsonl"), "good");
    assert_eq!(run(&["test", place, "--bless"]).0, 0);
    std::fs::write(at("broken.jsonl"), "no recording\n").unwrap();
    std::fs::write(at("broken.expect.toml"), "status = \"healthy\"\n").unwrap();
    std::fs::copy(at("good.jsonl"), at("odd.jsonl")).unwrap();
    std::fs::write(at("odd.expect.toml"), "state = \"fine\"\n").unwrap();
    std::fs::copy(at("good.jsonl"), at("twice.jsonl")).unwrap();
    std::fs::copy(at("good.jsonl"), at("twice.jsonl.zst")).unwrap();
    std::fs::copy(at("good.expect.toml"), at("twice.expect.toml")).unwrap();
    std::fs::write(at("gone.expect.toml"), "status = \"healthy\"\n").unwrap();
    let whole = std::fs::read_to_string(at("good.jsonl")).unwrap();
    std::fs::write(at("cut.jsonl"), &whole[..whole.len() / 2]).unwrap();
    std::fs::copy(at("good.expect.toml"), at("cut.expect.toml")).unwrap();
    let (code, said) = run(&["test", place]);
    assert_eq!(code, 1, "{said}");
    for line in [
        "broken: cannot be read: ",
        "odd: odd.expect.toml: line 1: unknown field `state`",
        "gone: no recording",
        "cut: status is undecided, was ",
        "twice: 2 recordings have this name",
        "1 of 6 as expected, 5 changed: broken, cut, gone, odd, twice",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    // One alone is judged alone.
    let one = at("good.jsonl");
    let (code, said) = run(&["test", one.to_str().unwrap()]);
    assert_eq!((code, said.trim()), (0, "1 of 1 as expected"));
    let (_, junit) = run(&["test", place, "--format", "junit"]);
    assert!(junit.contains("failures=\"1\" errors=\"4\""), "{junit}");
    // What cannot be read has no verdict to write.
    let (code, said) = run(&["test", place, "--bless"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("broken: cannot be read: "), "{said}");
    assert_eq!(
        run(&["test", directory("no-recordings").to_str().unwrap()]).0,
        65
    );
    assert_eq!(run(&["test", "/no/such/directory"]).0, 65);
}

#[test]
fn a_directory_of_recordings_is_a_cluster() {
    let dir = directory("recorded-clusters").join("hall");
    let rack = dir.join("rack1");
    std::fs::create_dir_all(&rack).unwrap();
    for node in ["n1", "n2"] {
        record(
            "modelled-ib.jsonl",
            &rack.join(format!("{node}.jsonl")),
            node,
        );
    }
    let place = dir.to_str().unwrap();
    assert_eq!(run(&["test", place, "--bless"]).0, 0);
    assert_eq!(
        run(&["test", place]),
        (0, "1 of 1 as expected\n".to_owned())
    );
    // A node that is expected and has no recording; the list stays when the verdict is written again.
    let expect = dir.join("rack1.expect.toml");
    let text = std::fs::read_to_string(&expect).unwrap();
    std::fs::write(&expect, format!("nodes = \"n[1-3]\"\n{text}")).unwrap();
    let (code, said) = run(&["test", place]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("+ error cluster/node-silent"), "{said}");
    assert_eq!(run(&["test", place, "--bless"]).0, 0);
    assert!(
        std::fs::read_to_string(&expect)
            .unwrap()
            .contains("nodes = \"n[1-3]\"")
    );
    assert_eq!(run(&["test", place]).0, 0);
    // It is the same from further up, under its path.
    let up = dir.parent().unwrap().to_str().unwrap();
    record("modelled-ib-polling.jsonl", &rack.join("n2.jsonl"), "n2");
    let (code, said) = run(&["test", up]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("0 of 1 as expected, 1 changed: hall/rack1"),
        "{said}"
    );
}

#[test]
fn a_lost_area_a_lost_cause_and_another_severity_are_told() {
    let dir = directory("lost-areas");
    record("modelled-ib-polling.jsonl", &dir.join("n1.jsonl"), "n1");
    let place = dir.to_str().unwrap();
    let expect = "\
status   = \"errors\"
headline = \"all is well\"
[areas]
devices = \"examined\"
path    = \"examined\"
host    = \"partly\"
[[cause]]
check    = \"link/not-trained\"
severity = \"warning\"
subjects = [\"mlx5_2/1\", \"mlx5_3/1\"]
[[cause]]
check    = \"roce/v2-gid-missing\"
severity = \"error\"
subjects = [\"mlx5_0/1\"]
";
    std::fs::write(dir.join("n1.expect.toml"), expect).unwrap();
    let (code, said) = run(&["test", place]);
    assert_eq!(code, 1, "{said}");
    for line in [
        "  - error roce/v2-gid-missing mlx5_0/1",
        "  - warning link/not-trained mlx5_3/1",
        "  ~ link/not-trained mlx5_2/1: error, was warning",
        "  area path: not-examined, was examined",
        "n1: headline: mlx5_2/1 is down",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    // What is examined better than it was is no difference.
    assert!(!said.contains("area host"), "{said}");
}

/// A check is a suite of JUnit: areas and causes are its cases.
#[test]
fn check_writes_junit_for_one_recording_and_for_each() {
    let at = |name: &str| fixtures().join(name).to_str().unwrap().to_owned();
    let (good, polling) = (at("modelled-ib.jsonl"), at("modelled-ib-polling.jsonl"));
    let (code, one) = run(&["check", "--format", "junit", &polling]);
    assert_eq!(code, 2);
    for part in [
        "failures=\"1\" errors=\"0\"",
        "<testcase classname=\"rdma-doctor.area\" name=\"ports\"",
        "<testcase classname=\"rdma-doctor.check\" name=\"link/not-trained\" time=\"0.000\"><failure message=\"mlx5_2/1 is down",
    ] {
        assert!(one.contains(part), "{part}: {one}");
    }
    // What is required and was not examined is an error.
    let (code, wanting) = run(&["check", "--format", "junit", "--require", "path", &good]);
    assert_eq!(code, 3);
    assert!(wanting.contains("failures=\"0\" errors=\"1\""), "{wanting}");
    let (code, each) = run(&["check", "--each", "--format", "junit", &good, &polling]);
    assert_eq!(code, 2);
    assert_eq!(each.matches("<testsuite ").count(), 2, "{each}");
    assert!(
        each.contains("modelled-ib-polling.jsonl\" tests="),
        "{each}"
    );
    let (_, lines) = run(&["check", "--each", "--format", "slurm", &good, &polling]);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(
        lines.contains("modelled-ib-polling.jsonl: rdma-doctor: link/not-trained"),
        "{lines}"
    );
    // A time series database takes each metric once.
    assert_eq!(
        run(&["check", "--each", "--format", "prometheus", &good, &polling]).0,
        64
    );
}
