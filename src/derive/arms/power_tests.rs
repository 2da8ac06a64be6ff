//! How often a change is found that is there, and claimed where there is none, on simulated arms
//! with known effects.

use crate::fact::arms::{Arms, Figures, Set, Unit};
use crate::fact::{Facts, Origin, Subject, factor, measurement};
use crate::measure::plan::ablation::name_of;

/// Numbers of a normal distribution with mean 0 and deviation 1 (the sum of twelve uniform ones),
/// the same in each run of the test.
struct Normal(u64);

impl Normal {
    fn next(&mut self) -> f64 {
        let mut uniform = || {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }
}

const NAMES: [&str; 3] = ["NCCL_IB_DISABLE", "NCCL_SHM_DISABLE", "NCCL_P2P_DISABLE"];

/// What is said of a change: in how many pairs it is slower, faster, and the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Said {
    slower: u64,
    faster: u64,
    unchanged: u64,
}

/// What is said of each of the three changes of a table of eight arms; `effect` gives what an arm
/// reaches by what is off.
fn said(noise: f64, rounds: u64, normal: &mut Normal, effect: impl Fn(usize) -> f64) -> [Said; 3] {
    let mut facts = Facts::new();
    let node = facts.instance(Subject::Node, Facts::CLUSTER, "n1");
    let id = facts.instance(Subject::Measurement, node, "simulated");
    let figures = (0..8).map(|off| {
        let is_off = |bit: &usize| off & (1 << bit) != 0;
        let set: Set = (0..3)
            .filter(is_off)
            .map(|bit| (NAMES[bit].to_owned(), "1".to_owned()))
            .collect();
        let reached = |round| (round, effect(off) * (1.0 + noise * normal.next()));
        Figures {
            name: name_of(&set),
            set,
            rounds: (0..rounds).map(reached).collect(),
            ..Figures::default()
        }
    });
    let arms = Arms {
        figures: figures.collect(),
        unit: Unit::Time,
        written: Vec::new(),
        reported_failures: Vec::new(),
        runs: None,
        origin: Origin::Stated,
        in_host: None,
    };
    arms.state(&mut facts, id);
    assert!(facts.known(id, measurement::ARMS).is_some());
    NAMES.map(|name| {
        let change = facts
            .find(Subject::Factor, id, &format!("{name}=1"))
            .unwrap();
        let count = |key| facts.known(change, key).unwrap_or_default();
        Said {
            slower: count(factor::SLOWER),
            faster: count(factor::FASTER),
            unchanged: count(factor::UNCHANGED),
        }
    })
}

const TABLES: usize = 1000;

#[test]
fn no_change_is_claimed_where_there_is_none() {
    let mut normal = Normal(0x9e37_79b9_7f4a_7c15);
    for rounds in [2, 3, 5] {
        let tables: Vec<[Said; 3]> = (0..TABLES)
            .map(|_| said(0.02, rounds, &mut normal, |_| 1.0))
            .collect();
        let claims =
            |table: &&[Said; 3]| table.iter().any(|change| change.slower + change.faster > 0);
        let claimed = tables.iter().filter(claims).count();
        assert!(
            claimed * 100 <= TABLES,
            "{rounds} rounds: {claimed} of {TABLES}"
        );
        // And that nothing changes is said, where three rounds or more let it be said.
        let unchanged = tables
            .iter()
            .filter(|table| table[0].unchanged == 4)
            .count();
        assert!(
            rounds < 3 || unchanged * 100 >= 95 * TABLES,
            "{rounds} rounds: {unchanged} of {TABLES}"
        );
    }
}

#[test]
fn a_tenth_is_found_in_three_rounds() {
    let mut normal = Normal(0x2545_f491_4f6c_dd1d);
    let tables: Vec<[Said; 3]> = (0..TABLES)
        .map(|_| {
            said(
                0.02,
                3,
                &mut normal,
                |off| if off & 1 != 0 { 0.9 } else { 1.0 },
            )
        })
        .collect();
    let found = tables
        .iter()
        .filter(|table| table[0].slower == 4 && table[0].faster == 0)
        .count();
    assert!(found * 100 >= 95 * TABLES, "{found} of {TABLES}");
}

#[test]
fn what_costs_beside_another_change_only_is_not_pooled_away() {
    let mut normal = Normal(0x0123_4567_89ab_cdef);
    // Shared memory matters where P2P is off.
    let effect = |off: usize| match off & 6 {
        6 => 0.63,
        4 => 0.72,
        _ => 1.0,
    };
    let tables: Vec<[Said; 3]> = (0..TABLES)
        .map(|_| said(0.01, 3, &mut normal, effect))
        .collect();
    let found = tables
        .iter()
        .filter(|table| table[1].slower == 2 && table[1].unchanged == 2)
        .count();
    assert!(found * 100 >= 95 * TABLES, "{found} of {TABLES}");
}
