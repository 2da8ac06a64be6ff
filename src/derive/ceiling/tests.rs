//! Paths of nodes built by hand.

use super::*;
use crate::derive::testing::{node, stated};
use crate::fact::hop::IdleReduction;
use crate::fact::port::LinkLayer;
use crate::fact::{Bytes, device, function, hop, port};

/// A link of so many Gb/s, after the encoding.
fn link(facts: &mut Facts, n: Id, name: &str, gigabits: u64) -> Id {
    let id = facts.instance(Subject::Hop, n, name);
    facts.set(id, hop::REST, stated(IdleReduction::Nothing));
    let rate = BitRate(gigabits * 1_000_000_000);
    facts.set(id, hop::BANDWIDTH, stated(rate));
    id
}

/// An InfiniBand adapter below these links, whose port NCCL uses.
fn adapter(facts: &mut Facts, n: Id, name: &str, gigabits: u64, links: &[Id]) {
    let f = facts.instance(Subject::Function, n, &format!("pci-{name}"));
    for link in links {
        facts.relate(f, *link);
    }
    facts.set(f, function::PATH, stated([].into()));
    let d = facts.instance(Subject::Device, n, name);
    facts.set(d, device::PCI, stated(format!("pci-{name}").into()));
    facts.set(d, device::SOFTWARE, stated(false));
    facts.set(d, device::DRIVER, stated("mlx5_core".into()));
    let p = facts.instance(Subject::Port, d, &format!("{name}/1"));
    facts.set(p, port::LINK_LAYER, stated(LinkLayer::InfiniBand));
    facts.set(p, port::RATE, stated(BitRate(gigabits * 1_000_000_000)));
    facts.set(p, port::MTU, stated(Bytes(4096)));
}

/// A node without GPUs whose PCIe links are all known, and NCCL's choice.
fn machine(facts: &mut Facts, hcas: &[&str]) -> Id {
    let n = node(facts);
    for subject in [Subject::Gpu, Subject::Hop] {
        facts.set_members(subject, n, Membership::Known(Origin::Stated));
    }
    let chosen = facts.instance(Subject::Selection, n, "NCCL");
    facts.set(chosen, selection::WANTS_HCAS, stated(true));
    let hcas = hcas.iter().map(|name| Arc::from(*name)).collect();
    facts.set(chosen, selection::HCAS, stated(hcas));
    n
}

fn path_of(facts: &Facts, n: Id, name: &str) -> (Option<String>, Option<BoundBy>, Option<String>) {
    let id = facts.find(Subject::Path, n, name).unwrap();
    (
        facts
            .known(id, path::BANDWIDTH)
            .map(|rate| rate.to_string()),
        facts.known(id, path::BOUND_BY),
        facts.known(id, path::BOUND_WHERE).map(|at| at.to_string()),
    )
}

/// Two ports of 100 Gb/s on a card in sixteen lanes of the third generation: each alone has room, both together do not.
#[test]
fn ports_that_share_a_link_carry_no_more_than_it() {
    let mut facts = Facts::new();
    let n = machine(&mut facts, &["a:1", "b:1"]);
    let card = link(&mut facts, n, "card", 126);
    adapter(&mut facts, n, "a", 100, &[card]);
    adapter(&mut facts, n, "b", 100, &[card]);
    derive(&mut facts, n);
    let (rate, by, at) = path_of(&facts, n, "rail a:1");
    assert_eq!(rate.as_deref(), Some("99.369 Gb/s"));
    assert_eq!(by, Some(BoundBy::Nic));
    assert_eq!(at.as_deref(), Some("a:1 (100 Gb/s, MTU 4096)"));
    // 126 Gb/s * 256/280.
    let (rate, by, at) = path_of(&facts, n, "network");
    assert_eq!(rate.as_deref(), Some("115.2 Gb/s"));
    assert_eq!(
        (by, at.as_deref()),
        (Some(BoundBy::SharedHop), Some("card"))
    );
    let network = facts.find(Subject::Path, n, "network").unwrap();
    // 115.2 of 198.738.
    assert_eq!(facts.known(network, path::OF_RATES), Some(Percent(58.0)));
}

/// A slow card below the link that it shares with a fast one leaves the fast one more of it.
#[test]
fn links_are_cut_from_the_ends_to_the_root() {
    let mut facts = Facts::new();
    let n = machine(&mut facts, &["a:1", "b:1", "c:1"]);
    let up = link(&mut facts, n, "up", 252);
    let narrow = link(&mut facts, n, "narrow", 63);
    let wide = link(&mut facts, n, "wide", 252);
    let alone = link(&mut facts, n, "alone", 252);
    adapter(&mut facts, n, "a", 200, &[up, narrow]);
    adapter(&mut facts, n, "b", 100, &[up, wide]);
    adapter(&mut facts, n, "c", 100, &[alone]);
    derive(&mut facts, n);
    let (rate, by, at) = path_of(&facts, n, "network");
    // 63 * 256/280 + 2 * 100 * 4096/4122; what is above has room for that.
    assert_eq!(rate.as_deref(), Some("256.338 Gb/s"));
    assert_eq!(
        (by, at.as_deref()),
        (Some(BoundBy::PcieHop), Some("narrow"))
    );
}

#[test]
fn a_link_that_nobody_knows_leaves_the_path_unknown() {
    let mut facts = Facts::new();
    let n = machine(&mut facts, &["a:1"]);
    let card = facts.instance(Subject::Hop, n, "card");
    facts.set(card, hop::REST, stated(IdleReduction::Nothing));
    adapter(&mut facts, n, "a", 100, &[card]);
    derive(&mut facts, n);
    assert_eq!(path_of(&facts, n, "network"), (None, None, None));
    let network = facts.find(Subject::Path, n, "network").unwrap();
    assert_eq!(facts.known(network, path::OF_RATES), None);
    assert!(facts.members(Subject::Path, n).is_ok());
}

#[test]
fn which_ports_nobody_knows_leaves_the_paths_open() {
    let mut facts = Facts::new();
    let n = machine(&mut facts, &[]);
    let other = facts.new_node("other");
    for subject in [Subject::Gpu, Subject::Hop] {
        facts.set_members(subject, other, Membership::Known(Origin::Stated));
    }
    derive(&mut facts, other);
    assert!(facts.members(Subject::Path, other).is_err());
    // No port and no interface is known to be chosen: not the same as none.
    derive(&mut facts, n);
    assert!(facts.members(Subject::Path, n).is_err());
}

#[test]
fn what_was_reached_is_a_share_of_the_ceiling() {
    let ceiling = Ceiling::of(
        Term {
            carries: 370.8,
            by: BoundBy::Nvlink,
            at: "18 NVLinks of GPU 0000:19:00.0".into(),
        },
        &[],
    );
    let level = |gigabytes| BitRate((gigabytes * 8e9) as u64);
    assert_eq!(ceiling.share(level(367.0)), Percent(99.0));
}
