//! `rdma-doctor topo`: the drawings of fixtures, and the command as its user meets it.
//!
//! `INSTA_UPDATE=always` (make bless) writes the drawings.

use crate::process::run_doctor as doctor;
use std::path::{Path, PathBuf};

use rdma_doctor::examine::one;
use rdma_doctor::report::topology::{Topology, text};
use rdma_doctor::source::recording::Recording;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

fn topology(name: &str) -> Topology {
    let recording = Recording::open(&fixture(name)).unwrap();
    let recordings = [recording];
    let (facts, nodes) = one::facts(&recordings);
    Topology::of(&facts, nodes[0].id)
}

fn drawn(topology: &Topology, width: usize) -> String {
    let mut page = Vec::new();
    text::write(&mut page, topology, width).unwrap();
    String::from_utf8(page).unwrap()
}

#[test]
fn drawings() {
    for name in [
        "modelled-topology.jsonl",
        "modelled-topology-misplaced.jsonl",
        "modelled-topology-contended.jsonl",
        "modelled-topology-vm.jsonl",
        "modelled-topology-file.jsonl",
        "modelled-roce.jsonl",
        "rxe-two-healthy.jsonl.zst",
        "host-without-rdma.jsonl.zst",
        "container-without-sysfs.jsonl.zst",
    ] {
        let page = drawn(&topology(name), 100);
        for line in page.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
        insta::assert_snapshot!(name.split('.').next().unwrap(), page);
    }
}

#[test]
fn a_narrow_terminal_gets_the_matrix_in_blocks() {
    let page = drawn(&topology("modelled-topology.jsonl"), 40);
    let columns = |line: &str| line.chars().count();
    assert!(page.lines().all(|line| columns(line) <= 72), "{page}");
    assert_eq!(page.matches("NUMA\n").count(), 1);
    // Each end is there once in the tree, and each GPU heads a row and a column.
    for end in ["NIC3  mlx5_3", "GPU7  0000:4a:00.0"] {
        assert_eq!(page.matches(end).count(), 1, "{end}");
    }
}

#[test]
fn the_json_form_has_every_pair_and_null_for_what_is_not_known() {
    let topology = serde_json::to_value(topology("modelled-topology-vm.jsonl")).unwrap();
    assert_eq!(topology["schema"], "rdma-doctor-topology/1.1");
    assert_eq!(topology["gpus"].as_array().unwrap().len(), 8);
    assert_eq!(topology["nics"].as_array().unwrap().len(), 4);
    assert_eq!(topology["distances"].as_array().unwrap().len(), 28 + 32);
    let gpu = &topology["gpus"][0];
    assert_eq!(gpu["pci"], "0000:19:00.0");
    assert!(gpu["numa_node"].is_null());
    assert_eq!(gpu["near_distance"], "PHB");
    let port = &topology["nics"][0]["ports"][0];
    assert_eq!(port["name"], "mlx5_0/1");
    assert_eq!(port["rate"], 400_000_000_000_u64);
    let unknown = topology["unknown"].as_array().unwrap();
    assert!(unknown.iter().any(|why| {
        let why = why.as_str().unwrap();
        why.starts_with("gpu.numa_node") && why.contains("-1")
    }));
}

#[test]
fn the_command() {
    let path = fixture("modelled-topology.jsonl");
    let path = path.to_str().unwrap();
    let out = doctor(&["topo", path]);
    assert_eq!(out.status.code(), Some(0));
    let page = String::from_utf8(out.stdout).unwrap();
    assert_eq!(page, drawn(&topology("modelled-topology.jsonl"), 100));
    let colored = doctor(&["topo", "--color", "always", path]).stdout;
    assert!(colored.contains(&0x1b));

    let out = doctor(&["topo", "--format", "json", path]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["node"], "ib-node");

    // A machine, whatever it has; a tree that says nothing of it; no such recording; a recording and a tree.
    assert_eq!(doctor(&["topo"]).status.code(), Some(0));
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("topo-tree");
    std::fs::create_dir_all(tree.join("copy/etc")).unwrap();
    let of = |tree: &Path| doctor(&["topo", "--root", tree.to_str().unwrap()]);
    let empty = of(&tree.join("copy"));
    assert_eq!(empty.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&empty.stdout).contains("GPUs unknown · adapters unknown"));
    // A level too high is no tree, and the one below is named.
    let above = of(&tree);
    assert_eq!(above.status.code(), Some(65));
    let said = String::from_utf8_lossy(&above.stderr).into_owned();
    assert!(
        said.contains("no sys, proc or etc") && said.contains("topo-tree/copy?"),
        "{said}"
    );
    assert_eq!(doctor(&["topo", "/no/such/file"]).status.code(), Some(65));
    let both = ["topo", "--root", "/", path];
    assert_eq!(doctor(&both).status.code(), Some(64));
}
