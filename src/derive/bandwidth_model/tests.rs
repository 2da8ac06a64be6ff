//! The model against published numbers: none passes its ceiling, and what healthy systems reach is near it.

use super::*;

/// What a ring gets of this many links of a version.
fn links(version: u64, count: u64, speed: f64) -> f64 {
    nvlink(version, speed).unwrap() * count as f64
}

/// A node's network: adapters of this many Gb/s, by what lies on the wire.
fn network(adapters: u64, gigabits: f64, wire: Wire, mtu: u64) -> f64 {
    adapters as f64 * gigabits / 8.0 * wire_efficiency(wire, mtu).unwrap()
}

fn reduce(nodes: u64, carries: Carries) -> f64 {
    let shape = Shape {
        nodes,
        ranks_per_node: 8,
    };
    let bound = ceiling(Collective::AllReduce, shape, carries);
    bound.unwrap().busbw
}

fn node(ring: f64, switches_add: bool, network: f64) -> Carries {
    Carries {
        ring,
        nvls: switches_add.then(|| nvls(ring, 8).unwrap()),
        network,
    }
}

/// PCIe of x16, as the kernel counts it.
fn x16(generation: u64) -> f64 {
    gigabytes(crate::derive::pcie_hop::bandwidth(generation, 16).unwrap())
}

/// What each system can at most by the model, and what was published of it. Sources: Azure azurehpc-health-checks (its pass levels are
/// `Pass`), stas00/ml-engineering, GoogleCloudPlatform/cluster-health-scanner (pass levels), issues of NVIDIA/nccl and nccl-tests.
#[test]
fn no_published_value_passes_its_ceiling_and_healthy_ones_are_near_it() {
    /// What a published value is.
    #[derive(Debug)]
    enum PublishedValue {
        /// Reached on a healthy system.
        Healthy,
        /// A level that a test asks for: it lies where its author put it.
        Pass,
        /// Reached on a system with a fault, or one that is not known to be healthy.
        Odd,
    }
    use PublishedValue::{Healthy, Odd, Pass};

    let v100 = links(2, 6, 25.781);
    let a100 = links(3, 12, 25.0);
    let h100 = links(4, 18, 26.562);
    let b200 = links(5, 18, 53.125);
    let ib = |count, gigabits| network(count, gigabits, Wire::InfiniBand, 4096);
    let h100_ib = node(h100, true, ib(8, 400.0));
    let a100_roce = node(a100, false, network(8, 100.0, Wire::Roce, 4096));
    for (what, ceiling, is, values) in [
        (
            "8 V100",
            reduce(1, node(v100, false, 0.0)),
            Healthy,
            &[110.0, 130.0][..],
        ),
        (
            "8 A100",
            reduce(1, node(a100, false, 0.0)),
            Healthy,
            &[228.0, 235.0],
        ),
        (
            "8 H100, ring",
            reduce(1, node(h100, false, 0.0)),
            Healthy,
            &[360.0, 367.0, 370.0],
        ),
        (
            "8 H100 and H200, NVLS",
            reduce(1, h100_ib),
            Healthy,
            &[460.0, 480.0, 482.0],
        ),
        ("8 H200, health check", reduce(1, h100_ib), Pass, &[431.0]),
        (
            "8 B200, ring",
            reduce(1, node(b200, false, 0.0)),
            Healthy,
            &[675.0, 680.0],
        ),
        (
            "8 B200, NVLS",
            reduce(1, node(b200, true, 0.0)),
            Healthy,
            &[838.0, 846.0],
        ),
        (
            "DGX A100, 8 x 200 Gb/s InfiniBand, several nodes",
            reduce(4, node(a100, false, ib(8, 200.0))),
            Healthy,
            &[192.0],
        ),
        (
            "8 x 100 Gb/s RoCE, ring",
            reduce(4, a100_roce),
            Odd,
            &[60.0, 75.0],
        ),
        (
            "8 x 100 Gb/s RoCE, tree on two nodes",
            reduce(2, a100_roce),
            Odd,
            &[100.0],
        ),
        (
            "p4d, 4 x 100 Gb/s EFA",
            reduce(4, node(a100, false, network(4, 100.0, Wire::Srd, 4096))),
            Healthy,
            &[42.0],
        ),
        (
            "NDv5, 8 x 400 Gb/s InfiniBand, 4 nodes",
            reduce(4, h100_ib),
            Healthy,
            &[391.0],
        ),
        ("H100, 8 nodes", reduce(8, h100_ib), Healthy, &[350.0]),
        (
            "p6-b200, 8 x 400 Gb/s EFA, 4 nodes",
            reduce(4, node(b200, true, network(8, 400.0, Wire::Srd, 4096))),
            Healthy,
            &[382.0],
        ),
        (
            "one adapter of 100 Gb/s for each node",
            reduce(4, node(v100, false, ib(1, 100.0))),
            Healthy,
            &[11.0, 12.0],
        ),
        (
            "one adapter of 100 Gb/s, through host memory",
            pcie(x16(3)) / 2.0,
            Healthy,
            &[6.0],
        ),
        (
            "ACS in the way of 200 Gb/s",
            pcie(x16(4)) / 2.0,
            Odd,
            &[9.8],
        ),
        (
            "A100 with P2P and shared memory off, health check",
            loopback(ib(8, 200.0), 8).unwrap(),
            Pass,
            &[18.0],
        ),
        ("PCIe 4.0 peer-to-peer", pcie(x16(4)), Healthy, &[24.0]),
        ("PCIe 4.0 peer-to-peer, slower", pcie(x16(4)), Odd, &[18.0]),
        ("PCIe 5.0 peer-to-peer", pcie(x16(5)), Healthy, &[48.0]),
        ("PCIe 5.0 to the GPU", pcie(x16(5)), Healthy, &[48.0, 55.0]),
        (
            "PCIe 3.0 to the GPU, level",
            pcie(x16(3)),
            Pass,
            &[9.0, 10.0],
        ),
        ("ib_write_bw of 100 Gb/s", ib(1, 100.0) * 8.0, Pass, &[95.0]),
        (
            "ib_write_bw of 200 Gb/s",
            ib(1, 200.0) * 8.0,
            Pass,
            &[180.0, 190.0],
        ),
        (
            "ib_write_bw of 400 Gb/s",
            ib(1, 400.0) * 8.0,
            Pass,
            &[360.0, 390.0],
        ),
        (
            "SRD of 200 Gb/s",
            network(1, 200.0, Wire::Srd, 4096) * 8.0,
            Healthy,
            &[193.7],
        ),
        (
            "A3 High",
            reduce(2, node(h100, true, 4.0 * 25.0)),
            Pass,
            &[60.0],
        ),
        (
            "A3 Mega",
            reduce(2, node(h100, true, 8.0 * 25.0)),
            Pass,
            &[150.0],
        ),
        (
            "A3 Ultra",
            reduce(2, node(h100, true, 8.0 * 50.0)),
            Pass,
            &[250.0],
        ),
        (
            "sockets over 25 Gb/s",
            network(1, 25.0, Wire::Tcp, 1500),
            Odd,
            &[1.0, 1.7, 2.5],
        ),
    ] {
        for value in values {
            let part = value / ceiling;
            assert!(part <= 1.0, "{what}: {value} above {ceiling:.1}");
            if let Healthy = is {
                assert!(part >= 0.8, "{what}: {value} far below {ceiling:.1}");
            }
        }
    }
}

#[test]
fn what_the_wire_leaves() {
    for (wire, mtu, expected) in [
        (Wire::InfiniBand, 4096, Some(0.994)),
        (Wire::InfiniBand, 2048, Some(0.987)),
        (Wire::Roce, 4096, Some(0.980)),
        (Wire::Roce, 1024, Some(0.926)),
        (Wire::Srd, 4096, Some(0.97)),
        // 1448 of 1538, and 8948 of 9038.
        (Wire::Tcp, 1500, Some(0.941)),
        (Wire::Tcp, 9000, Some(0.990)),
        (Wire::Roce, 0, None),
        (Wire::Tcp, 40, None),
    ] {
        let rounded = wire_efficiency(wire, mtu).map(|e| (e * 1000.0).round() / 1000.0);
        assert_eq!(rounded, expected, "{wire:?} {mtu}");
    }
}

#[test]
fn nvlinks_by_version_and_speed() {
    for (version, speed, expected) in [
        (1, 20.0, Some(18.0)),
        (2, 25.781, Some(22.0)),
        (3, 25.0, Some(20.0)),
        (3, 14.062, Some(12.0)),
        (4, 26.562, Some(20.6)),
        (5, 53.125, Some(40.1)),
        // Half the speed carries half.
        (4, 12.5, Some(10.3)),
        (6, 100.0, None),
        (0, 25.0, None),
    ] {
        let found = nvlink(version, speed);
        let same = match (found, expected) {
            (Some(found), Some(expected)) => f64::abs(found - expected) < 1e-9,
            (found, expected) => found == expected,
        };
        assert!(same, "{version} {speed}: {found:?}");
    }
}

#[test]
fn the_smaller_side_binds_and_is_named() {
    let carries = Carries {
        ring: 370.0,
        nvls: Some(490.0),
        network: 400.0,
    };
    let shape = |nodes, ranks_per_node| Shape {
        nodes,
        ranks_per_node,
    };
    let of = |nodes, ranks| {
        ceiling(Collective::AllReduce, shape(nodes, ranks), carries)
            .map(|bound| (bound.busbw.round(), bound.side))
    };
    for (nodes, ranks, expected) in [
        (1, 8, Some((490.0, Side::Inside))),
        // 0.92 * 400 * 2 * 15/16 = 690: the GPUs bind.
        (2, 8, Some((490.0, Side::Inside))),
        // 400 * 2 * 23/24 / 1.5 = 511.
        (3, 8, Some((490.0, Side::Inside))),
        (4, 8, Some((400.0, Side::Network))),
        // One GPU on each node: the GPUs of a node exchange nothing.
        (2, 1, Some((400.0, Side::Network))),
        (1, 1, None),
        (0, 8, None),
    ] {
        assert_eq!(of(nodes, ranks), expected, "{nodes} {ranks}");
    }
}

/// Two nodes with 8 ranks each: of 15 parts that a rank sends 8 leave the node, those of all 8 ranks by the same adapters.
#[test]
fn all_to_all_by_hand() {
    let carries = Carries {
        ring: 370.0,
        nvls: None,
        network: 400.0,
    };
    let shape = Shape {
        nodes: 2,
        ranks_per_node: 8,
    };
    let bound = ceiling(Collective::AllToAll, shape, carries).unwrap();
    // 400 / 8 for each rank, of which 8/15 of the data: 50 * 15 / 8.
    assert_eq!((bound.busbw, bound.side), (93.75, Side::Network));
}

#[test]
fn small_messages_are_not_judged() {
    for (mebibytes, nodes, judged) in [
        (255, 1, false),
        (256, 1, true),
        (256, 3, true),
        (256, 4, false),
        (1023, 64, false),
        (1024, 64, true),
    ] {
        assert_eq!(judged_by_bandwidth(Bytes(mebibytes << 20), nodes), judged);
    }
}

#[test]
fn rates_and_gigabytes() {
    assert_eq!(gigabytes(BitRate(400_000_000_000)), 50.0);
    assert_eq!(rate(49.685), BitRate(397_480_000_000));
    assert_eq!(rate(-1.0), BitRate(0));
}
