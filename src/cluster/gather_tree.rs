//! To whom each node gives its recording: to rank 0, or, of many nodes, through a tree in which rank 0 holds few connections.
//!
//! Each node comes to rank 0 first, proves what it is, and is told its *seat*: at rank 0, or below a node that came before it. So nobody is sent to
//! a node that never comes. Who loses the node above it lets go of those below, who come again too: whatever was under way is given again. Each gets
//! another seat once, below a node that lost nobody; who does not reach the node above it, or loses a second one, sits at rank 0 itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::handshake::Nonce;
use crate::cluster::clock_offset::Offset;

/// Up to so many nodes all give their recordings to rank 0 itself: that is faster, and more connections need more files than a process is given at first.
pub const STAR: u64 = 500;
/// How many nodes sit below one, where nobody says another number. 10,000 nodes are three deep in it.
pub const FANIN: u64 = 32;

/// How many sit below one: `None` where all sit at rank 0.
pub fn fanin(nodes: u64, wished: Option<u64>) -> Option<u64> {
    wished.or_else(|| (nodes > STAR).then_some(FANIN))
}

/// What a node says once rank 0 knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The port at which others can give it their recordings.
    pub listens: Option<u16>,
    /// The node above it, which it lost.
    pub lost: Option<Lost>,
}

/// A node that one below it lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Its rank.
    pub rank: u64,
    /// Whether it was reached before.
    pub reached: bool,
}

/// What rank 0 says to a node that gave its card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// What time is it there?
    Clock,
    /// Its seat.
    Seat(Box<Seat>),
}

/// Where a node sits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seat {
    /// The seat's number: no other one of the run has it.
    pub number: u64,
    /// The node above it, where that is not rank 0.
    pub above: Option<Above>,
    /// Whether rank 0 has its recording already.
    pub have: bool,
    /// The text of the key by which nodes know each other that have none of their own: made for this run, and told to those that rank 0 knows.
    pub key: Option<String>,
    /// How far its clock is from rank 0's.
    pub clock: Option<Offset>,
    /// The run in which that was measured.
    pub run: u64,
}

/// A node above another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Above {
    /// Its rank.
    pub rank: u64,
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub at: SocketAddr,
}

/// What a node says to the one above it: its seat there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sits {
    /// The seat's number.
    pub seat: u64,
}

/// A node that has a seat.
#[derive(Clone, Debug)]
struct Sitting {
    name: String,
    at: SocketAddr,
    life: Nonce,
    number: u64,
    above: u64,
    /// How many there are between it and rank 0.
    depth: u64,
    /// How many nodes above it were lost.
    losses: u64,
    /// Where others reach it, as long as they do.
    listens: Option<SocketAddr>,
}

/// Who sits where.
#[derive(Debug)]
pub struct Seats {
    fanin: Option<u64>,
    sitting: BTreeMap<u64, Sitting>,
    /// Who has room below.
    room: BTreeSet<Room>,
    at_rank_0: u64,
    last: u64,
    unreached: u64,
}

/// Room below a node: the least deep first, and of these where the fewest sit, so that one node that is lost costs few others their seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Room {
    depth: u64,
    below: u64,
    number: u64,
    rank: u64,
}

/// Who asks for a seat.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its rank.
    pub rank: u64,
    /// Its name.
    pub name: String,
    /// From where it came.
    pub at: SocketAddr,
    /// Its process, which may come again.
    pub life: Nonce,
}

impl Seats {
    /// No seat is taken. So many sit below each, or all at rank 0.
    pub fn new(fanin: Option<u64>) -> Self {
        Seats {
            fanin,
            sitting: BTreeMap::new(),
            room: BTreeSet::new(),
            at_rank_0: 0,
            last: 0,
            unreached: 0,
        }
    }

    /// Who has this rank, where it is another process than this one.
    pub fn taken(&self, rank: u64, life: &Nonce) -> Option<&str> {
        let sitting = self.sitting.get(&rank)?;
        (sitting.life != *life).then_some(sitting.name.as_str())
    }

    /// Whether this process sat before.
    pub fn knows(&self, rank: u64, life: &Nonce) -> bool {
        let sitting = self.sitting.get(&rank);
        sitting.is_some_and(|sitting| sitting.life == *life)
    }

    /// Gives a node a seat: its number, and who is above it where that is not rank 0.
    pub fn sit(&mut self, guest: Guest, card: &Card) -> (u64, Option<Above>) {
        let mut losses = self.sitting.get(&guest.rank).map_or(0, |one| one.losses);
        let mut reaches = true;
        if let Some(lost) = card.lost {
            losses += 1;
            reaches = lost.reached;
            self.unreached += u64::from(!lost.reached);
            // Those below it are let go, and come again.
            self.close_below(lost.rank);
            self.close_below(guest.rank);
        }
        self.last += 1;
        let number = self.last;
        let tree = self.fanin.filter(|fanin| self.unreached < *fanin);
        let above = match tree {
            Some(fanin) if self.at_rank_0 >= fanin && reaches && losses < 2 => {
                self.above(guest.at, guest.rank, fanin)
            }
            _ => None,
        };
        let depth = match &above {
            Some(above) => self.sitting.get(&above.rank).map_or(0, |one| one.depth + 1),
            None => 0,
        };
        self.at_rank_0 += u64::from(above.is_none());
        let listens = card
            .listens
            .map(|port| SocketAddr::new(guest.at.ip(), port));
        let rank = guest.rank;
        if listens.is_some_and(others_reach) {
            self.room.insert(Room {
                depth,
                below: 0,
                number,
                rank,
            });
        }
        let sitting = Sitting {
            name: guest.name,
            at: guest.at,
            life: guest.life,
            number,
            above: above.as_ref().map_or(0, |above| above.rank),
            depth,
            losses,
            listens,
        };
        self.sitting.insert(rank, sitting);
        (number, above)
    }

    /// Nobody is sent to a node any more, nor to those that sit below it.
    fn close_below(&mut self, rank: u64) {
        let is_below = |mut at: u64| {
            // As deep as it is, and no deeper.
            for _ in 0..=self.sitting.len() {
                match self.sitting.get(&at) {
                    _ if at == rank => return true,
                    Some(one) if one.above != 0 => at = one.above,
                    _ => return false,
                }
            }
            false
        };
        let closed: Vec<u64> = self
            .sitting
            .keys()
            .copied()
            .filter(|at| is_below(*at))
            .collect();
        for rank in closed {
            if let Some(sitting) = self.sitting.get_mut(&rank) {
                sitting.listens = None;
            }
        }
    }

    /// The best that has room.
    fn above(&mut self, from: SocketAddr, own: u64, fanin: u64) -> Option<Above> {
        let local = |at: SocketAddr| at.ip().to_canonical().is_loopback();
        loop {
            let room = *self.room.first()?;
            let sitting = self.sitting.get(&room.rank);
            let sitting = sitting.filter(|one| one.number == room.number && room.rank != own);
            let Some((sitting, at)) = sitting.and_then(|one| Some((one, one.listens?))) else {
                self.room.remove(&room);
                continue;
            };
            // On rank 0's own host; nobody else reaches it there.
            if local(at) && !local(from) {
                return None;
            }
            let above = Above {
                rank: room.rank,
                name: sitting.name.clone(),
                at,
            };
            self.room.remove(&room);
            let below = room.below + 1;
            if below < fanin {
                self.room.insert(Room { below, ..room });
            }
            return Some(above);
        }
    }

    /// Whether a node sits on this seat, and on no later one.
    pub fn holds(&self, rank: u64, number: u64) -> bool {
        self.sitting
            .get(&rank)
            .is_some_and(|sitting| sitting.number == number)
    }

    /// A node left this seat; another process may take its rank. Its name and from where it came, unless it sits elsewhere by now.
    pub fn leave(&mut self, rank: u64, number: u64) -> Option<(String, SocketAddr)> {
        if !self.holds(rank, number) {
            return None;
        }
        self.sitting.remove(&rank).map(|one| (one.name, one.at))
    }

    /// The name of who has this rank.
    pub fn name(&self, rank: u64) -> Option<&str> {
        self.sitting.get(&rank).map(|one| one.name.as_str())
    }
}

/// An address of a link means another link on another host.
fn others_reach(at: SocketAddr) -> bool {
    match at.ip().to_canonical() {
        std::net::IpAddr::V6(ip) => !ip.is_unicast_link_local(),
        std::net::IpAddr::V4(ip) => !ip.is_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(rank: u64) -> Guest {
        let [.., high, low] = rank.to_be_bytes();
        Guest {
            rank,
            name: format!("n{rank}"),
            at: SocketAddr::from(([10, 1, high, low], 40000)),
            life: [low; 16],
        }
    }

    fn relay() -> Card {
        Card {
            listens: Some(20000),
            lost: None,
        }
    }

    fn above(seats: &mut Seats, rank: u64, card: &Card) -> Option<u64> {
        seats.sit(guest(rank), card).1.map(|above| above.rank)
    }

    #[test]
    fn few_nodes_sit_at_rank_0() {
        assert_eq!(fanin(500, None), None);
        assert_eq!(fanin(501, None), Some(32));
        assert_eq!(fanin(9, Some(2)), Some(2));
        let mut seats = Seats::new(None);
        for rank in 1..200 {
            assert_eq!(above(&mut seats, rank, &relay()), None);
        }
    }

    #[test]
    fn no_node_holds_more_than_its_share_and_the_tree_is_flat() {
        let fanin = 8;
        let mut seats = Seats::new(Some(fanin));
        let mut depth: BTreeMap<u64, u64> = [(0, 0)].into();
        let mut below: BTreeMap<u64, u64> = BTreeMap::new();
        // They come in any order.
        for rank in (1..1000).map(|n| n * 7 % 1000).filter(|rank| *rank > 0) {
            let parent = above(&mut seats, rank, &relay()).unwrap_or(0);
            *below.entry(parent).or_default() += 1;
            depth.insert(rank, depth[&parent] + 1);
        }
        assert!(below.values().all(|count| *count <= fanin));
        // 8 + 64 + 512 are less than 999.
        assert_eq!(depth.values().max(), Some(&4));
    }

    fn lost(rank: u64) -> Card {
        let lost = Some(Lost {
            rank,
            reached: true,
        });
        Card { lost, ..relay() }
    }

    #[test]
    fn who_loses_the_one_above_sits_elsewhere_and_then_at_rank_0() {
        let mut seats = Seats::new(Some(2));
        let parents: Vec<_> = (1..=7).map(|n| above(&mut seats, n, &relay())).collect();
        let expected = [None, None, Some(1), Some(2), Some(1), Some(2), Some(3)];
        assert_eq!(parents, expected);
        // 1 dies. Nobody is sent to 5, which loses it too, nor to 7, which 3 let go: all of them may still be below each other.
        let (number, parent) = seats.sit(guest(3), &lost(1));
        assert_eq!(parent.map(|above| above.rank), Some(4));
        assert!(seats.holds(3, number) && !seats.holds(3, 3));
        assert_eq!(seats.leave(3, 3), None, "it sits elsewhere by now");
        assert_eq!(above(&mut seats, 7, &lost(3)), Some(6));
        assert_eq!(above(&mut seats, 5, &lost(1)), Some(4));
        // 4 dies: whom it held for the second time comes to rank 0.
        assert_eq!(above(&mut seats, 3, &lost(4)), None);
        assert_eq!(above(&mut seats, 8, &relay()), Some(3));
    }

    #[test]
    fn where_nodes_do_not_reach_each_other_all_sit_at_rank_0() {
        let mut seats = Seats::new(Some(2));
        for rank in 1..=6 {
            above(&mut seats, rank, &relay());
        }
        for rank in [3, 4] {
            let lost = Some(Lost {
                rank: 1,
                reached: false,
            });
            let card = Card { lost, ..relay() };
            assert_eq!(above(&mut seats, rank, &card), None);
        }
        for rank in 7..20 {
            assert_eq!(above(&mut seats, rank, &relay()), None);
        }
    }

    #[test]
    fn a_rank_belongs_to_one_process() {
        let mut seats = Seats::new(None);
        let (number, _) = seats.sit(guest(1), &Card::default());
        assert_eq!(seats.taken(1, &[1; 16]), None, "it may come again");
        assert_eq!(seats.taken(1, &[9; 16]), Some("n1"));
        assert_eq!(seats.leave(1, number), Some(("n1".into(), guest(1).at)));
        assert_eq!(seats.taken(1, &[9; 16]), None);
    }

    #[test]
    fn nobody_is_sent_where_it_cannot_go() {
        let mut seats = Seats::new(Some(1));
        let mut own_host = guest(1);
        own_host.at = SocketAddr::from(([127, 0, 0, 1], 40000));
        seats.sit(own_host, &relay());
        assert_eq!(above(&mut seats, 2, &relay()), None);
        // Nor to who does not listen.
        let mut seats = Seats::new(Some(1));
        above(&mut seats, 1, &Card::default());
        assert_eq!(above(&mut seats, 2, &relay()), None);
    }
}
