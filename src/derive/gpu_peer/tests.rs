use super::*;
use crate::derive::testing::{node, stated};
use crate::fact::gpu_nic::Distance;
use crate::fact::{Membership, Origin};

/// Two H100 below one PCIe switch, without NVLink, that reach each other.
fn two() -> (Facts, Id, [Id; 2], Id) {
    let mut facts = Facts::new();
    let n = node(&mut facts);
    for subject in [Subject::Gpu, Subject::GpuPair, Subject::Bridge] {
        facts.set_members(subject, n, Membership::Known(Origin::Stated));
    }
    let gpus = ["0000:19:00.0", "0000:1a:00.0"].map(|name| facts.instance(Subject::Gpu, n, name));
    let pair = facts.instance(Subject::GpuPair, n, "0000:19:00.0 - 0000:1a:00.0");
    (facts, n, gpus, pair)
}

/// States what is left to state: the first word counts.
fn rest(facts: &mut Facts, n: Id, gpus: [Id; 2], pair: Id) {
    facts.set(n, node::CONFIDENTIAL, stated(false));
    for id in gpus {
        facts.set(id, gpu::IN_NVML, stated(true));
        facts.set(id, gpu::MODEL, stated("NVIDIA H100 PCIe".into()));
        facts.set(id, gpu::PURPOSE, stated(GpuSegment::Compute));
        facts.set(id, gpu::MIG, stated(GpuMode::Off));
        facts.set(id, gpu::VIRTUAL_FUNCTION, stated(false));
        facts.set(id, gpu::NVLINKS_TO_SWITCH, stated(0));
    }
    facts.set(pair, gpu_pair::FIRST, stated("0000:19:00.0".into()));
    facts.set(pair, gpu_pair::SECOND, stated("0000:1a:00.0".into()));
    facts.set(pair, gpu_pair::DISTANCE, stated(Distance::Pix));
    facts.set(pair, gpu_pair::NVLINKS, stated(0));
    for key in STATUSES {
        facts.set(pair, key, stated(P2p::Ok));
    }
}

#[test]
fn the_best_way_that_is_there() {
    let (mut facts, n, gpus, pair) = two();
    rest(&mut facts, n, gpus, pair);
    derive(&mut facts, n);
    assert_eq!(facts.known(pair, gpu_pair::WAY), Some(P2pPath::PcieSwitch));
    assert_eq!(facts.known(pair, gpu_pair::BARRED), Some(P2pExclusion::Not));
    assert_eq!(
        facts.known(pair, gpu_pair::OBSTACLE).as_deref(),
        Some("none")
    );
    assert_eq!(facts.known(n, node::PEER_PAIRS), Some(1));
    assert_eq!(facts.known(pair, gpu_pair::IN_NVML), Some(true));
    assert_eq!(facts.known(pair, gpu_pair::IN_CUDA), None);
    assert_eq!(facts.known(n, node::PEER_PAIR_WORKS), Some(true));

    let (mut facts, n, gpus, pair) = two();
    facts.set(pair, gpu_pair::NVLINKS, stated(12));
    rest(&mut facts, n, gpus, pair);
    derive(&mut facts, n);
    assert_eq!(facts.known(pair, gpu_pair::WAY), Some(P2pPath::Nvlink));

    let (mut facts, n, gpus, pair) = two();
    for id in gpus {
        facts.set(id, gpu::NVLINKS_TO_SWITCH, stated(18));
    }
    rest(&mut facts, n, gpus, pair);
    derive(&mut facts, n);
    assert_eq!(facts.known(pair, gpu_pair::WAY), Some(P2pPath::Nvswitch));

    // One of the two has lost all its links, and what is at their other end with them.
    let (mut facts, n, gpus, pair) = two();
    facts.set(gpus[0], gpu::NVLINKS_TO_SWITCH, stated(18));
    facts.set(gpus[1], gpu::NVLINKS_ACTIVE, stated(0));
    facts.set(pair, gpu_pair::DISTANCE, stated(Distance::Sys));
    rest(&mut facts, n, gpus, pair);
    derive(&mut facts, n);
    assert_eq!(facts.known(pair, gpu_pair::WAY), Some(P2pPath::Host));

    // A virtual machine hides the other ends.
    let (mut facts, n, gpus, pair) = two();
    facts.set(pair, gpu_pair::P2P_NVLINK, stated(P2p::Ok));
    rest(&mut facts, n, gpus, pair);
    derive(&mut facts, n);
    assert_eq!(facts.known(pair, gpu_pair::WAY), Some(P2pPath::Nvswitch));
}

#[test]
fn nothing_known_is_no_way() {
    let (mut facts, n, _, pair) = two();
    derive(&mut facts, n);
    assert_eq!(facts.known(pair, gpu_pair::WAY), None);
    assert_eq!(facts.known(pair, gpu_pair::BARRED), None);
    assert_eq!(facts.known(pair, gpu_pair::OBSTACLE), None);
    assert_eq!(facts.known(n, node::PEER_PAIRS), None);
    assert_eq!(facts.known(n, node::PEER_PAIR_WORKS), None);
}

/// Changes the facts of a node, its two GPUs and their pair.
type Change = dyn Fn(&mut Facts, Id, [Id; 2], Id);

#[test]
fn what_bars_two_gpus() {
    let with = |change: &Change| {
        let (mut facts, n, gpus, pair) = two();
        change(&mut facts, n, gpus, pair);
        rest(&mut facts, n, gpus, pair);
        derive(&mut facts, n);
        let count = facts.known(n, node::PEER_PAIRS);
        assert_eq!(count, Some(0), "a pair that is barred does not count");
        facts.known(pair, gpu_pair::BARRED)
    };
    assert_eq!(
        with(&|f, _, g, _| f.set(g[1], gpu::MIG, stated(GpuMode::On))),
        Some(P2pExclusion::Mig)
    );
    assert_eq!(
        with(&|f, n, _, _| f.set(n, node::CONFIDENTIAL, stated(true))),
        Some(P2pExclusion::Confidential)
    );
    assert_eq!(
        with(&|f, _, g, _| f.set(g[0], gpu::PURPOSE, stated(GpuSegment::Consumer))),
        Some(P2pExclusion::Consumer)
    );
    assert_eq!(
        with(&|f, _, g, _| f.set(g[0], gpu::VIRTUAL_FUNCTION, stated(true))),
        Some(P2pExclusion::VirtualFunction)
    );
    assert_eq!(
        with(&|f, _, g, _| f.set(g[0], gpu::MODEL, stated("NVIDIA L4".into()))),
        Some(P2pExclusion::Unlike)
    );
    assert_eq!(
        with(&|f, _, _, p| {
            for key in STATUSES {
                f.set(p, key, stated(P2p::GpuNotSupported));
            }
        }),
        Some(P2pExclusion::Unsupported)
    );
}

#[test]
fn a_pair_is_where_both_are() {
    let (mut facts, n, gpus, pair) = two();
    facts.set(gpus[0], gpu::IN_NVML, stated(false));
    facts.set(gpus[0], gpu::IN_CUDA, stated(true));
    facts.set(gpus[1], gpu::IN_CUDA, stated(true));
    facts.set(pair, gpu_pair::FIRST, stated("0000:19:00.0".into()));
    facts.set(pair, gpu_pair::SECOND, stated("0000:1a:00.0".into()));
    derive(&mut facts, n);
    assert_eq!(facts.known(pair, gpu_pair::IN_NVML), Some(false));
    assert_eq!(facts.known(pair, gpu_pair::IN_CUDA), Some(true));
}

#[test]
fn a_consumers_bridge_of_nvlink_works() {
    let (mut facts, n, gpus, pair) = two();
    facts.set(gpus[0], gpu::PURPOSE, stated(GpuSegment::Consumer));
    facts.set(pair, gpu_pair::NVLINKS, stated(4));
    rest(&mut facts, n, gpus, pair);
    derive(&mut facts, n);
    assert_eq!(facts.known(pair, gpu_pair::BARRED), Some(P2pExclusion::Not));
}

#[test]
fn a_bar_is_known_though_the_rest_is_not() {
    let (mut facts, n, gpus, pair) = two();
    facts.set(gpus[0], gpu::MIG, stated(GpuMode::On));
    facts.set(pair, gpu_pair::FIRST, stated("0000:19:00.0".into()));
    facts.set(pair, gpu_pair::SECOND, stated("0000:1a:00.0".into()));
    derive(&mut facts, n);
    assert_eq!(facts.known(pair, gpu_pair::BARRED), Some(P2pExclusion::Mig));
}

#[test]
fn the_obstacle_is_named() {
    let (mut facts, n, gpus, pair) = two();
    for key in STATUSES {
        facts.set(pair, key, stated(P2p::ChipsetNotSupported));
    }
    facts.set(n, node::DRIVER_REGISTRY, stated("RMDisableP2P=0x1".into()));
    facts.set(n, node::IOMMU, stated(Iommu::Translating));
    let path: [Arc<str>; 3] = [
        "pci0000:15".into(),
        "0000:17:00.0".into(),
        "0000:19:00.0".into(),
    ];
    facts.set(gpus[0], gpu::PATH, stated(path.into()));
    for (name, between, redirects) in [
        ("0000:17:00.0", BypassedPeers::GpuGpu, true),
        ("0000:27:00.0", BypassedPeers::GpuGpu, true),
    ] {
        let id = facts.instance(Subject::Bridge, n, name);
        facts.set(id, bridge::BETWEEN, stated(between));
        facts.set(id, bridge::ACS_REDIRECT, stated(redirects));
    }
    rest(&mut facts, n, gpus, pair);
    derive(&mut facts, n);
    assert_eq!(
        facts.known(n, node::PEER_OBSTACLE).as_deref(),
        Some(
            "NVML says chipset-not-supported; the driver was told RMDisableP2P=0x1; ACS of 0000:17:00.0 sends it up to the root complex; the IOMMU translates"
        )
    );
    assert_eq!(facts.known(n, node::PEER_PAIR_WORKS), Some(false));

    let (mut facts, n, gpus, pair) = two();
    for id in gpus {
        facts.set(id, gpu::NVLINKS_TO_SWITCH, stated(18));
    }
    facts.set(gpus[1], gpu::FABRIC_STATE, stated(FabricState::InProgress));
    facts.set(pair, gpu_pair::P2P_READ, stated(P2p::NotSupported));
    rest(&mut facts, n, gpus, pair);
    derive(&mut facts, n);
    assert_eq!(
        facts.known(pair, gpu_pair::OBSTACLE).as_deref(),
        Some("NVML says not-supported; the fabric of 0000:1a:00.0 is in-progress")
    );
}
