//! The tree through which rank 0 gathers recordings: in a large run most nodes send theirs to
//! another node, so that rank 0 holds few connections.
//!
//! Each node connects to rank 0 first, authenticates, and gets its position: below rank 0, or below
//! a node that joined earlier, so that no node waits for one that never comes. A node that loses
//! its parent disconnects its own children, which join again and send again. Each gets another
//! parent once, one that lost none; a node that cannot reach its parent, or loses a second one, is
//! connected to rank 0 itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::handshake::Nonce;
use crate::cluster::clock_offset::ClockOffset;

/// Up to this many nodes all connect to rank 0 itself: that is faster, and more connections need
/// more open files than a process starts with.
pub const STAR: u64 = 500;
/// How many children a node has by default. The tree of 10,000 nodes is three levels deep.
pub const FANIN: u64 = 32;

/// How many children a node has; `None` if all nodes connect to rank 0.
pub fn fanin(nodes: u64, wished: Option<u64>) -> Option<u64> {
    wished.or_else(|| (nodes > STAR).then_some(FANIN))
}

/// What a node tells rank 0 after the handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The port on which it can relay for others.
    #[serde(rename = "listens")]
    pub relay_port: Option<u16>,
    /// The parent that it lost.
    pub lost: Option<LostParent>,
}

/// A parent that its child lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostParent {
    /// Its rank.
    pub rank: u64,
    /// Whether the child had reached it.
    pub reached: bool,
}

/// What rank 0 sends to a joining node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JoinReply {
    /// Asks for the node's time.
    Clock,
    /// Assigns its position.
    #[serde(rename = "seat")]
    Position(Box<TreePosition>),
}

/// A node's position in the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreePosition {
    /// The position's id, unique in the run.
    #[serde(rename = "number")]
    pub id: u64,
    /// Its parent, unless that is rank 0.
    #[serde(rename = "above")]
    pub parent: Option<ParentAddress>,
    /// Whether rank 0 has its recording already.
    #[serde(rename = "have")]
    pub has_recording: bool,
    /// The text of a key that rank 0 made for this run, for connections between nodes that have
    /// none of their own.
    pub key: Option<String>,
    /// The offset of its clock to rank 0's.
    pub clock: Option<ClockOffset>,
    /// The run in which the offset was measured.
    pub run: u64,
}

/// Where a parent listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentAddress {
    /// Its rank.
    pub rank: u64,
    /// Its name.
    pub name: String,
    /// The address on which it listens.
    pub at: SocketAddr,
}

/// What a node tells its parent: its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildHello {
    /// The position's id.
    #[serde(rename = "seat")]
    pub position: u64,
}

/// A node in the tree.
#[derive(Clone, Debug)]
struct TreeNode {
    name: String,
    at: SocketAddr,
    process: Nonce,
    number: u64,
    parent: u64,
    /// How many nodes are between it and rank 0.
    depth: u64,
    /// How many parents it lost.
    losses: u64,
    /// Where it relays, while other nodes may be sent to it.
    listens: Option<SocketAddr>,
}

/// All nodes of a run with their positions.
#[derive(Debug)]
pub struct GatherTree {
    fanin: Option<u64>,
    nodes: BTreeMap<u64, TreeNode>,
    /// The places that are free below relays.
    free_slots: BTreeSet<FreeSlot>,
    at_rank_0: u64,
    last_id: u64,
    unreached_parents: u64,
}

/// A relay with free places, ordered by depth, then by its number of children, so that losing one
/// relay costs few nodes their position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FreeSlot {
    depth: u64,
    below: u64,
    number: u64,
    rank: u64,
}

/// A node that asks for a position.
#[derive(Clone, Debug)]
pub struct JoiningNode {
    /// Its rank.
    pub rank: u64,
    /// Its name.
    pub name: String,
    /// The address from which it connected.
    pub at: SocketAddr,
    /// Its process, which may join again.
    pub process: Nonce,
}

impl GatherTree {
    /// An empty tree. Each node has at most `fanin` children; `None` connects all nodes to rank 0.
    pub fn new(fanin: Option<u64>) -> Self {
        GatherTree {
            fanin,
            nodes: BTreeMap::new(),
            free_slots: BTreeSet::new(),
            at_rank_0: 0,
            last_id: 0,
            unreached_parents: 0,
        }
    }

    /// The name of the node with this rank, if it is another process than this one.
    pub fn holder_of_rank(&self, rank: u64, life: &Nonce) -> Option<&str> {
        let node = self.nodes.get(&rank)?;
        (node.process != *life).then_some(node.name.as_str())
    }

    /// Whether this process had a position before.
    pub fn has_placed(&self, rank: u64, life: &Nonce) -> bool {
        let node = self.nodes.get(&rank);
        node.is_some_and(|node| node.process == *life)
    }

    /// Assigns a position: its id, and the parent unless that is rank 0.
    pub fn place(
        &mut self,
        node: JoiningNode,
        request: &JoinRequest,
    ) -> (u64, Option<ParentAddress>) {
        let mut losses = self.nodes.get(&node.rank).map_or(0, |one| one.losses);
        let mut reaches = true;
        if let Some(lost) = request.lost {
            losses += 1;
            reaches = lost.reached;
            self.unreached_parents += u64::from(!lost.reached);
            // Its children are disconnected, and join again.
            self.close_subtree(lost.rank);
            self.close_subtree(node.rank);
        }
        self.last_id += 1;
        let number = self.last_id;
        let tree = self.fanin.filter(|fanin| self.unreached_parents < *fanin);
        let parent = match tree {
            Some(fanin) if self.at_rank_0 >= fanin && reaches && losses < 2 => {
                self.pick_parent(node.at, node.rank, fanin)
            }
            _ => None,
        };
        let depth = match &parent {
            Some(parent) => self.nodes.get(&parent.rank).map_or(0, |one| one.depth + 1),
            None => 0,
        };
        self.at_rank_0 += u64::from(parent.is_none());
        let listens = request
            .relay_port
            .map(|port| SocketAddr::new(node.at.ip(), port));
        let rank = node.rank;
        if listens.is_some_and(others_reach) {
            self.free_slots.insert(FreeSlot {
                depth,
                below: 0,
                number,
                rank,
            });
        }
        let node = TreeNode {
            name: node.name,
            at: node.at,
            process: node.process,
            number,
            parent: parent.as_ref().map_or(0, |parent| parent.rank),
            depth,
            losses,
            listens,
        };
        self.nodes.insert(rank, node);
        (number, parent)
    }

    /// Assigns no more children to a node, nor to its descendants.
    fn close_subtree(&mut self, rank: u64) {
        let is_below = |mut at: u64| {
            // Bounded, because a cycle would be a bug that hangs rank 0.
            for _ in 0..=self.nodes.len() {
                match self.nodes.get(&at) {
                    _ if at == rank => return true,
                    Some(one) if one.parent != 0 => at = one.parent,
                    _ => return false,
                }
            }
            false
        };
        let closed: Vec<u64> = self
            .nodes
            .keys()
            .copied()
            .filter(|at| is_below(*at))
            .collect();
        for rank in closed {
            if let Some(node) = self.nodes.get_mut(&rank) {
                node.listens = None;
            }
        }
    }

    /// The best relay with a free place.
    fn pick_parent(&mut self, from: SocketAddr, own: u64, fanin: u64) -> Option<ParentAddress> {
        let local = |at: SocketAddr| at.ip().to_canonical().is_loopback();
        loop {
            let room = *self.free_slots.first()?;
            let node = self.nodes.get(&room.rank);
            let node = node.filter(|one| one.number == room.number && room.rank != own);
            let Some((node, at)) = node.and_then(|one| Some((one, one.listens?))) else {
                self.free_slots.remove(&room);
                continue;
            };
            // A loopback address of rank 0's own host is unreachable for others.
            if local(at) && !local(from) {
                return None;
            }
            let parent = ParentAddress {
                rank: room.rank,
                name: node.name.clone(),
                at,
            };
            self.free_slots.remove(&room);
            let below = room.below + 1;
            if below < fanin {
                self.free_slots.insert(FreeSlot { below, ..room });
            }
            return Some(parent);
        }
    }

    /// Whether this is the node's latest position.
    pub fn is_current(&self, rank: u64, number: u64) -> bool {
        self.nodes
            .get(&rank)
            .is_some_and(|node| node.number == number)
    }

    /// Removes the node from this position, so that another process may take its rank. Returns its
    /// name and address, unless it has a later position.
    pub fn remove(&mut self, rank: u64, number: u64) -> Option<(String, SocketAddr)> {
        if !self.is_current(rank, number) {
            return None;
        }
        self.nodes.remove(&rank).map(|one| (one.name, one.at))
    }

    /// The name of the node with this rank.
    pub fn name(&self, rank: u64) -> Option<&str> {
        self.nodes.get(&rank).map(|one| one.name.as_str())
    }
}

/// A link-local address means nothing on another host.
fn others_reach(at: SocketAddr) -> bool {
    match at.ip().to_canonical() {
        std::net::IpAddr::V6(ip) => !ip.is_unicast_link_local(),
        std::net::IpAddr::V4(ip) => !ip.is_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(rank: u64) -> JoiningNode {
        let [.., high, low] = rank.to_be_bytes();
        JoiningNode {
            rank,
            name: format!("n{rank}"),
            at: SocketAddr::from(([10, 1, high, low], 40000)),
            process: [low; 16],
        }
    }

    fn relay() -> JoinRequest {
        JoinRequest {
            relay_port: Some(20000),
            lost: None,
        }
    }

    fn parent_of(tree: &mut GatherTree, rank: u64, request: &JoinRequest) -> Option<u64> {
        tree.place(node(rank), request).1.map(|parent| parent.rank)
    }

    #[test]
    fn few_nodes_connect_to_rank_0_directly() {
        assert_eq!(fanin(500, None), None);
        assert_eq!(fanin(501, None), Some(32));
        assert_eq!(fanin(9, Some(2)), Some(2));
        let mut tree = GatherTree::new(None);
        for rank in 1..200 {
            assert_eq!(parent_of(&mut tree, rank, &relay()), None);
        }
    }

    #[test]
    fn no_node_holds_more_than_its_share_and_the_tree_is_flat() {
        let fanin = 8;
        let mut tree = GatherTree::new(Some(fanin));
        let mut depth: BTreeMap<u64, u64> = [(0, 0)].into();
        let mut below: BTreeMap<u64, u64> = BTreeMap::new();
        // They join in any order.
        for rank in (1..1000).map(|n| n * 7 % 1000).filter(|rank| *rank > 0) {
            let parent = parent_of(&mut tree, rank, &relay()).unwrap_or(0);
            *below.entry(parent).or_default() += 1;
            depth.insert(rank, depth[&parent] + 1);
        }
        assert!(below.values().all(|count| *count <= fanin));
        // 8 + 64 + 512 are less than 999.
        assert_eq!(depth.values().max(), Some(&4));
    }

    fn lost(rank: u64) -> JoinRequest {
        let lost = Some(LostParent {
            rank,
            reached: true,
        });
        JoinRequest { lost, ..relay() }
    }

    #[test]
    fn a_node_gets_another_parent_once_and_then_rank_0() {
        let mut tree = GatherTree::new(Some(2));
        let parents: Vec<_> = (1..=7).map(|n| parent_of(&mut tree, n, &relay())).collect();
        let expected = [None, None, Some(1), Some(2), Some(1), Some(2), Some(3)];
        assert_eq!(parents, expected);
        // 1 dies. No node is sent to 5, which loses it too, nor to 7, which 3 disconnected: they
        // may still be below each other.
        let (number, parent) = tree.place(node(3), &lost(1));
        assert_eq!(parent.map(|parent| parent.rank), Some(4));
        assert!(tree.is_current(3, number) && !tree.is_current(3, 3));
        assert_eq!(tree.remove(3, 3), None, "it has a later position");
        assert_eq!(parent_of(&mut tree, 7, &lost(3)), Some(6));
        assert_eq!(parent_of(&mut tree, 5, &lost(1)), Some(4));
        // 4 dies: its child lost a second parent, and connects to rank 0.
        assert_eq!(parent_of(&mut tree, 3, &lost(4)), None);
        assert_eq!(parent_of(&mut tree, 8, &relay()), Some(3));
    }

    #[test]
    fn unreachable_relays_leave_all_nodes_at_rank_0() {
        let mut tree = GatherTree::new(Some(2));
        for rank in 1..=6 {
            parent_of(&mut tree, rank, &relay());
        }
        for rank in [3, 4] {
            let lost = Some(LostParent {
                rank: 1,
                reached: false,
            });
            let request = JoinRequest { lost, ..relay() };
            assert_eq!(parent_of(&mut tree, rank, &request), None);
        }
        for rank in 7..20 {
            assert_eq!(parent_of(&mut tree, rank, &relay()), None);
        }
    }

    #[test]
    fn a_rank_belongs_to_one_process() {
        let mut tree = GatherTree::new(None);
        let (number, _) = tree.place(node(1), &JoinRequest::default());
        assert_eq!(tree.holder_of_rank(1, &[1; 16]), None, "it may join again");
        assert_eq!(tree.holder_of_rank(1, &[9; 16]), Some("n1"));
        assert_eq!(tree.remove(1, number), Some(("n1".into(), node(1).at)));
        assert_eq!(tree.holder_of_rank(1, &[9; 16]), None);
    }

    #[test]
    fn unreachable_nodes_get_no_children() {
        let mut tree = GatherTree::new(Some(1));
        let mut own_host = node(1);
        own_host.at = SocketAddr::from(([127, 0, 0, 1], 40000));
        tree.place(own_host, &relay());
        assert_eq!(parent_of(&mut tree, 2, &relay()), None);
        // Nor below a node that does not relay.
        let mut tree = GatherTree::new(Some(1));
        parent_of(&mut tree, 1, &JoinRequest::default());
        assert_eq!(parent_of(&mut tree, 2, &relay()), None);
    }
}
