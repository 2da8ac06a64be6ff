//! Several texts that are given beside each other: files of one machine are one machine, as their directory is; files of several stay several.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::place::{Scratch, doctor};

const IBSTAT: &str = "\
$ ibstat
CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 12
\t\tSM lid: 1
\t\tLink layer: InfiniBand
";
const ULIMIT: &str = "$ ulimit -l\n64\n";
const DMESG: &str = "\
[   12.000000] mlx5_core 0000:17:00.0: firmware version: 28.39.1002
[ 4242.000000] mlx5_core 0000:17:00.0: mlx5_cmd_out_err: CREATE_MKEY(0x200) op_mod(0x0) failed, status limits exceeded(0x8), syndrome (0x5ac0), err(-12)
";

struct Bundle {
    _room: Scratch,
    directory: PathBuf,
}

fn bundle(name: &str, files: &[(&str, &str)]) -> Bundle {
    let room = Scratch::new(name);
    let directory = room.join("bundle");
    fs::create_dir(&directory).unwrap();
    for (file, text) in files {
        fs::write(directory.join(file), text).unwrap();
    }
    Bundle {
        _room: room,
        directory,
    }
}

/// The report on these paths.
fn report(paths: &[&Path]) -> Value {
    let mut check = Command::new(doctor());
    check.args(["check", "--format", "json"]).args(paths);
    let out = check.output().unwrap();
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out.stderr)))
}

fn causes(report: &Value) -> Vec<(&Value, &Value)> {
    let causes = report["causes"].as_array().unwrap().iter();
    causes
        .map(|cause| (&cause["check"], &cause["sentence"]))
        .collect()
}

fn nodes(report: &Value) -> usize {
    report["nodes"].as_array().unwrap().len()
}

#[test]
fn files_of_one_machine_are_one_as_their_directory_is() {
    let files = [("a.txt", IBSTAT), ("b.txt", ULIMIT), ("c.txt", DMESG)];
    let bundle = bundle("beside-one", &files);
    let paths = files.map(|(file, _)| bundle.directory.join(file));
    let [whole, apart] = [
        report(&[&bundle.directory]),
        report(&paths.each_ref().map(PathBuf::as_path)),
    ];
    assert_eq!((nodes(&whole), nodes(&apart)), (1, 1));
    assert!(!causes(&whole).is_empty());
    assert_eq!(causes(&whole), causes(&apart));
    assert_eq!(whole["headline"], apart["headline"]);
}

/// Whatever the files are called.
#[test]
fn two_answers_to_one_question_are_of_two_machines() {
    let down = IBSTAT
        .replace("Active", "Down")
        .replace("LinkUp", "Disabled");
    for [first, second] in [
        ["n1", "n2"],
        ["ibstat-before", "ibstat-after"],
        ["a b", "a c"],
    ] {
        let files = [first, second].map(|name| format!("{name}.txt"));
        let bundle = bundle("beside-two", &[(&files[0], IBSTAT), (&files[1], &down)]);
        let paths = files.each_ref().map(|file| bundle.directory.join(file));
        let said = report(&paths.each_ref().map(PathBuf::as_path));
        let names = said["nodes"].as_array().unwrap().iter();
        let mut names: Vec<&str> = names.map(|node| node["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        let mut expected = [first, second];
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}

/// An empty file says nothing of its machine: it is a silent node, and not passed over.
#[test]
fn an_empty_file_is_a_node_that_is_silent() {
    let bundle = bundle("beside-empty", &[("n1.txt", IBSTAT), ("n2.txt", "\n")]);
    let paths = ["n1.txt", "n2.txt"].map(|file| bundle.directory.join(file));
    let said = report(&paths.each_ref().map(PathBuf::as_path));
    assert!(
        said["headline"].as_str().unwrap().contains("n2"),
        "{}",
        said["headline"]
    );
}
