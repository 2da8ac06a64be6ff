//! The paths of modelled nodes: what each carries, and what binds it.

use std::path::Path;

use rdma_doctor::derive::bandwidth_model::Shape;
use rdma_doctor::derive::ceiling::{Ceiling, Network, Transport, Use, ceiling_of};
use rdma_doctor::examine::one;
use rdma_doctor::fact::path::{BANDWIDTH, BOUND_BY, BOUND_WHERE, BoundBy};
use rdma_doctor::fact::{BitRate, Fact, Facts, Id, Subject};
use rdma_doctor::measure::plan::collective::Collective;
use rdma_doctor::source::recording::Recording;

fn fixture(name: &str) -> (Facts, Id) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let recordings = vec![Recording::open(&dir.join(name)).unwrap()];
    let (facts, nodes) = one::facts(&recordings);
    let node = nodes[0].id;
    (facts, node)
}

/// Each path with what it carries and what binds it, or why that is not known.
fn paths(name: &str) -> String {
    let (facts, node) = fixture(name);
    let mut lines = Vec::new();
    if let Err(gap) = facts.members(Subject::Path, node) {
        lines.push(format!("not all known: {}", gap.why));
    }
    for id in facts.below(node, Subject::Path) {
        let name = facts.name(id);
        lines.push(match facts.get(id, BANDWIDTH) {
            Fact::Known(rate, _) => {
                let by = facts.known(id, BOUND_BY).unwrap().word();
                let at = facts.known(id, BOUND_WHERE).unwrap();
                format!("{name}: {rate}, {by} at {at}")
            }
            Fact::Unknown(gap) => format!("{name}: {}", gap.why),
        });
    }
    lines.join("\n")
}

/// What each path of these nodes carries, and what binds it.
#[test]
fn paths_of_modelled_nodes() {
    let mut all = String::new();
    for (name, about) in [
        (
            "modelled-gpu-nvml.jsonl",
            "eight GPUs on NVSwitches, four rails",
        ),
        (
            "modelled-gpu-paths-redirected.jsonl",
            "the same, one switch redirects",
        ),
        (
            "modelled-gpu-paths-shared.jsonl",
            "the same, two ports on one card",
        ),
        ("modelled-gpu-host-no-gpudirect.jsonl", "no GPUDirect RDMA"),
        ("modelled-gpu-pcie.jsonl", "GPUs on PCIe alone"),
        ("modelled-gpu-bridged.jsonl", "GPUs joined in pairs"),
        ("modelled-ib.jsonl", "the PCI bus was not recorded"),
        ("modelled-roce-paths.jsonl", "RoCE, no GPU"),
        ("rxe-healthy.jsonl.zst", "RDMA by software"),
        ("vm-without-rdma.jsonl.zst", "nothing"),
    ] {
        all += &format!("## {name}: {about}\n{}\n\n", paths(name));
    }
    insta::assert_snapshot!(all);
}

/// Eight GPUs on two nodes each, by what carried the traffic.
fn used(nodes: u64, inside: Transport, between: Option<Network>) -> Use {
    Use {
        collective: Collective::AllReduce,
        shape: Shape {
            nodes,
            ranks_per_node: 8,
        },
        inside,
        between,
        nvls: None,
    }
}

fn reached(facts: &Facts, node: Id, used: Use) -> (f64, BoundBy) {
    let ceiling = ceiling_of(facts, node, used);
    let Ceiling {
        busbw, bound_by, ..
    } = ceiling.known().unwrap();
    ((busbw.0 as f64 / 8e8).round() / 10.0, *bound_by)
}

/// A run is held against what it used, not against what the node would choose.
#[test]
fn the_ceiling_follows_what_was_used() {
    let (facts, node) = fixture("modelled-gpu-nvml.jsonl");
    let rdma = |gdr| Some(Network::Rdma { gdr });
    for (used, expected) in [
        (used(1, Transport::P2p, None), (490.3, BoundBy::Nvls)),
        (
            Use {
                nvls: Some(false),
                ..used(1, Transport::P2p, None)
            },
            (370.8, BoundBy::Nvlink),
        ),
        // Two GPUs below each switch: half of what its upper link carries.
        (used(1, Transport::Shm, None), (28.8, BoundBy::SharedHop)),
        // With P2P and shared memory off: eight ranks over four adapters.
        (used(1, Transport::Net, rdma(true)), (24.8, BoundBy::Nic)),
        (used(4, Transport::P2p, rdma(true)), (198.7, BoundBy::Nic)),
        // Through the host's memory each byte crosses the upper link of the switch twice.
        (
            used(4, Transport::P2p, rdma(false)),
            (115.2, BoundBy::GdrOff),
        ),
        // 0.92 * 198.7 * 2 * 15/16.
        (used(2, Transport::P2p, rdma(true)), (342.8, BoundBy::Nic)),
        (
            used(2, Transport::Shm, rdma(true)),
            (28.8, BoundBy::SharedHop),
        ),
        (
            Use {
                shape: Shape {
                    nodes: 2,
                    ranks_per_node: 1,
                },
                ..used(2, Transport::P2p, rdma(true))
            },
            (198.7, BoundBy::Nic),
        ),
    ] {
        assert_eq!(reached(&facts, node, used), expected, "{used:?}");
    }
    // One rank has nobody to send to, and nobody knows the speed of the management network.
    for used in [
        Use {
            shape: Shape {
                nodes: 1,
                ranks_per_node: 1,
            },
            ..used(1, Transport::P2p, None)
        },
        used(2, Transport::P2p, Some(Network::Socket)),
        used(2, Transport::P2p, None),
    ] {
        assert!(ceiling_of(&facts, node, used).known().is_none(), "{used:?}");
    }
}

/// ACS is a setting: it takes from what is reached, and leaves what can be.
#[test]
fn redirection_does_not_lower_the_ceiling() {
    let (facts, node) = fixture("modelled-gpu-paths-redirected.jsonl");
    let gdr = Some(Network::Rdma { gdr: true });
    let found = reached(&facts, node, used(4, Transport::P2p, gdr));
    assert_eq!(found, (198.7, BoundBy::Nic));
    let rate = facts.known(
        facts.find(Subject::Path, node, "network").unwrap(),
        BANDWIDTH,
    );
    // Three rails as they are, and one that crosses the upper link twice: 3 * 397.477 + 230.451.
    assert_eq!(rate, Some(BitRate(1_422_882_000_000)));
}
