//! The tree: NUMA node, host bridge, switches, and what hangs below them. Ports on which nothing branches are left out.

use std::collections::BTreeMap;

use super::Topology;
use crate::small_sort;

/// A leaf of the tree: a GPU or an adapter, by its index in the topology's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TreeLeaf {
    Gpu(usize),
    Nic(usize),
}

/// A part of the tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TreePart {
    /// Where paths part: a name and what is below.
    Fork(String, Vec<TreePart>),
    /// An end, and how many switches with nothing else on them are above it.
    End(TreeLeaf, usize),
}

/// Something with a path from a host bridge.
pub(super) struct PlacedLeaf<'t> {
    pub(super) end: TreeLeaf,
    pub(super) path: &'t [String],
}

/// Leaves of a NUMA node, if that is known.
type OfNumaNode<'t> = (Option<u64>, Vec<PlacedLeaf<'t>>);

/// The leaves by NUMA node, those without a known one last; and those without a path.
pub(super) fn by_numa_node(topology: &Topology) -> (Vec<OfNumaNode<'_>>, Vec<TreeLeaf>) {
    let mut placed: Vec<OfNumaNode<'_>> = Vec::new();
    let mut unplaced: Vec<TreeLeaf> = Vec::new();
    let gpus = topology.gpus.iter();
    let gpus = gpus.map(|gpu| (TreeLeaf::Gpu(gpu.index), gpu.numa_node, gpu.path.as_deref()));
    let nics = topology.nics.iter();
    let nics = nics.map(|nic| (TreeLeaf::Nic(nic.index), nic.numa_node, nic.path.as_deref()));
    for (end, at, path) in gpus.chain(nics) {
        let Some(path) = path else {
            unplaced.push(end);
            continue;
        };
        match placed.iter_mut().find(|(other, _)| *other == at) {
            Some((_, here)) => here.push(PlacedLeaf { end, path }),
            None => placed.push((at, vec![PlacedLeaf { end, path }])),
        }
    }
    small_sort::by_key(&mut placed, |(at, _)| (at.is_none(), *at));
    (placed, unplaced)
}

/// The parts below each host bridge, in the order of the bridges.
pub(super) fn host_bridges(placed: &[PlacedLeaf<'_>]) -> Vec<TreePart> {
    let mut bridges: BTreeMap<&str, Vec<&PlacedLeaf<'_>>> = BTreeMap::new();
    for one in placed {
        if let Some(bridge) = one.path.first() {
            bridges.entry(bridge).or_default().push(one);
        }
    }
    bridges
        .into_iter()
        .map(|(bridge, mut below)| {
            small_sort::by_key(&mut below, |one| one.path.last());
            TreePart::Fork(format!("host bridge {bridge}"), parts(&below, 1))
        })
        .collect()
}

/// The parts below a point that all these paths pass: `depth` of their elements are drawn already.
fn parts(below: &[&PlacedLeaf<'_>], depth: usize) -> Vec<TreePart> {
    let mut groups: Vec<(&str, Vec<&PlacedLeaf<'_>>)> = Vec::new();
    for one in below {
        let next = one.path.get(depth).map_or("", String::as_str);
        match groups.iter_mut().find(|(name, _)| *name == next) {
            Some((_, group)) => group.push(one),
            None => groups.push((next, vec![one])),
        }
    }
    groups
        .into_iter()
        .map(|(_, group)| match group.as_slice() {
            [one] => TreePart::End(one.end, hidden_switches(one.path.len(), depth)),
            group => fork(group, depth),
        })
        .collect()
}

/// How many switches of its own an end has between the last fork and itself: each is two ports; the first port belongs to the fork's own switch,
/// or is the root port.
fn hidden_switches(length: usize, depth: usize) -> usize {
    length.saturating_sub(depth + 1) / 2
}

fn fork(group: &[&PlacedLeaf<'_>], depth: usize) -> TreePart {
    let shortest = group.iter().map(|one| one.path.len()).min().unwrap_or(0);
    let mut end = depth;
    let shared = |at: usize| {
        let first = group.first().and_then(|one| one.path.get(at));
        group.iter().all(|one| one.path.get(at) == first)
    };
    while end + 1 < shortest && shared(end) {
        end += 1;
    }
    if end == depth {
        // Paths of the same length that end at one function: it is drawn as often as it is there.
        let ends = group.iter().map(|one| TreePart::End(one.end, 0));
        return TreePart::Fork("one function".to_owned(), ends.collect());
    }
    let name = group
        .first()
        .and_then(|one| one.path.get(end - 1))
        .map_or("?", String::as_str);
    TreePart::Fork(kind(group, end, name), parts(group, end))
}

/// The kind of the last shared port: host bridge, root port and then, two by two, a switch's upstream and downstream ports.
fn kind(group: &[&PlacedLeaf<'_>], end: usize, name: &str) -> String {
    let slots: Vec<&str> = group
        .iter()
        .filter_map(|one| one.path.get(end)?.split('.').next())
        .collect();
    let card = group.iter().all(|one| one.path.len() == end + 1);
    match slots.first() {
        Some(slot) if card && slots.iter().all(|other| other == slot) => format!("card {slot}"),
        _ if card && end.is_multiple_of(2) => format!("port {name}"),
        _ if end == 2 => format!("root port {name}"),
        _ if end % 2 == 1 => format!("switch {name}"),
        _ => format!("switch port {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(paths: &[&str]) -> Vec<String> {
        let paths: Vec<Vec<String>> = paths
            .iter()
            .map(|p| p.split('/').map(str::to_owned).collect())
            .collect();
        let placed: Vec<PlacedLeaf<'_>> = paths
            .iter()
            .enumerate()
            .map(|(at, path)| PlacedLeaf {
                end: TreeLeaf::Gpu(at),
                path,
            })
            .collect();
        let mut lines = Vec::new();
        for part in host_bridges(&placed) {
            write(&part, 0, &mut lines);
        }
        lines
    }

    fn write(part: &TreePart, depth: usize, lines: &mut Vec<String>) {
        let indent = " ".repeat(depth);
        match part {
            TreePart::Fork(name, parts) => {
                lines.push(format!("{indent}{name}"));
                for part in parts {
                    write(part, depth + 1, lines);
                }
            }
            TreePart::End(TreeLeaf::Gpu(at) | TreeLeaf::Nic(at), hidden) => {
                lines.push(format!("{indent}{at} +{hidden}"));
            }
        }
    }

    #[test]
    fn nested_switches_of_a_dgx_a100() {
        let root = "pci0000:00/0000:00:01.1/0000:01:00.0";
        assert_eq!(
            drawn(&[
                &format!(
                    "{root}/0000:02:00.0/0000:03:00.0/0000:04:00.0/0000:05:00.0/0000:06:00.0/0000:07:00.0"
                ),
                &format!("{root}/0000:02:04.0/0000:0a:00.0/0000:0b:00.0/0000:0c:00.0"),
                &format!(
                    "{root}/0000:02:04.0/0000:0a:00.0/0000:0b:10.0/0000:0d:00.0/0000:0e:00.0/0000:0f:00.0"
                ),
                "pci0000:e0/0000:e0:03.1/0000:e1:00.0",
                "pci0000:e0/0000:e0:03.1/0000:e1:00.1",
            ]),
            [
                "host bridge pci0000:00",
                " switch 0000:01:00.0",
                "  0 +2",
                "  switch 0000:0a:00.0",
                "   1 +0",
                "   2 +1",
                "host bridge pci0000:e0",
                " card 0000:e1:00",
                "  3 +0",
                "  4 +0",
            ]
        );
    }

    #[test]
    fn root_ports_and_root_buses() {
        assert_eq!(
            drawn(&[
                "pci0000:00/0000:00:01.0/0000:01:00.0",
                "pci0000:00/0000:00:02.0/0000:02:00.0",
                "pci0000:00/0000:00:05.0"
            ]),
            ["host bridge pci0000:00", " 2 +0", " 0 +0", " 1 +0"]
        );
        assert!(drawn(&[]).is_empty());
        assert_eq!(drawn(&["pci0000:00"]), ["host bridge pci0000:00", " 0 +0"]);
        assert_eq!(
            drawn(&["pci0000:00/0000:00:05.0", "pci0000:00/0000:00:05.0"]),
            [
                "host bridge pci0000:00",
                " one function",
                "  0 +0",
                "  1 +0"
            ]
        );
    }
}
