//! Which arms are measured.

use clap::ValueEnum;

use crate::measure::plan::ablation::{Set, name_of};
use crate::measure::plan::run::Arm;

/// The variables each of which takes a path away: all their combinations are arms.
const SWITCHES: [&str; 3] = ["NCCL_IB_DISABLE", "NCCL_SHM_DISABLE", "NCCL_P2P_DISABLE"];

/// Changes that are measured on request, each alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum With {
    /// The algorithms: NCCL_ALGO=Ring, Tree, NVLS, CollNetDirect
    Algo,
    /// Rings that stay on one rail, or do not: NCCL_CROSS_NIC=0, 1, 2
    CrossNic,
    /// GPUDirect RDMA off, and over any distance: NCCL_NET_GDR_LEVEL=LOC, SYS
    Gdr,
    /// Queue pairs for each connection: NCCL_IB_QPS_PER_CONNECTION=2, 4
    Qps,
    /// Sockets with more threads: NCCL_NET=Socket, and with it NCCL_SOCKET_NTHREADS=4
    NetSocket,
    /// NVLink SHARP off: NCCL_NVLS_ENABLE=0
    Nvls,
}

impl With {
    fn sets(self) -> Vec<Set> {
        let one = |name: &str, values: &[&str]| -> Vec<Set> {
            let of = |value: &&str| Set::from([(name.to_owned(), (*value).to_owned())]);
            values.iter().map(of).collect()
        };
        match self {
            With::Algo => one("NCCL_ALGO", &["Ring", "Tree", "NVLS", "CollNetDirect"]),
            With::CrossNic => one("NCCL_CROSS_NIC", &["0", "1", "2"]),
            With::Gdr => one("NCCL_NET_GDR_LEVEL", &["LOC", "SYS"]),
            With::Qps => one("NCCL_IB_QPS_PER_CONNECTION", &["2", "4"]),
            With::NetSocket => {
                let mut sets = one("NCCL_NET", &["Socket"]);
                let mut threads = sets[0].clone();
                threads.insert("NCCL_SOCKET_NTHREADS".into(), "4".into());
                sets.push(threads);
                sets
            }
            With::Nvls => one("NCCL_NVLS_ENABLE", &["0"]),
        }
    }
}

/// What takes GPUDirect RDMA away.
pub fn gdr_off() -> Set {
    Set::from([("NCCL_NET_GDR_LEVEL".to_owned(), "LOC".to_owned())])
}

/// The variables of an arm on the command line: `NAME=VALUE,NAME=VALUE`. A comma in a value is one of the value where no name follows it.
///
/// # Errors
///
/// What is no variable.
pub fn set(text: &str) -> Result<Set, String> {
    let mut set = Set::new();
    let mut last: Option<String> = None;
    for part in text.split(',') {
        let named = part.split_once('=').filter(|(name, _)| is_name(name));
        match (named, &last) {
            (Some((name, value)), _) => {
                set.insert(name.to_owned(), value.to_owned());
                last = Some(name.to_owned());
            }
            (None, Some(name)) => {
                if let Some(value) = set.get_mut(name) {
                    value.push(',');
                    value.push_str(part);
                }
            }
            (None, None) => return Err(format!("{part:?} is no NAME=VALUE")),
        }
    }
    Ok(set)
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters
        .next()
        .is_some_and(|c| c.is_ascii_uppercase() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// All arms: the baseline first, the combinations of the switches, what was asked for besides.
pub fn all(switches: bool, with: &[With], own: &[Set]) -> Vec<Arm> {
    let mut sets: Vec<Set> = vec![Set::new()];
    if switches {
        for bits in 1..1u32 << SWITCHES.len() {
            let of = |(at, name): (usize, &&str)| {
                (bits >> at & 1 == 1).then(|| ((*name).to_owned(), "1".to_owned()))
            };
            sets.push(SWITCHES.iter().enumerate().filter_map(of).collect());
        }
    }
    let more = with.iter().flat_map(|with| with.sets());
    sets.extend(more.chain(own.iter().cloned()));
    let mut arms: Vec<Arm> = Vec::new();
    for set in sets {
        let arm = Arm {
            name: name_of(&set),
            set,
        };
        if arms.iter().all(|other| other.set != arm.set) {
            arms.push(arm);
        }
    }
    // Two arms of one name would be one question.
    for at in 1..arms.len() {
        let (before, rest) = arms.split_at_mut(at);
        if let Some(arm) = rest.first_mut()
            && before.iter().any(|other| other.name == arm.name)
        {
            arm.name = crate::measure::plan::ablation::variables(&arm.set);
        }
    }
    arms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eight_combinations_and_what_was_asked_for() {
        let arms = all(true, &[], &[]);
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "baseline",
                "ib-off",
                "shm-off",
                "ib-off+shm-off",
                "p2p-off",
                "ib-off+p2p-off",
                "shm-off+p2p-off",
                "ib-off+shm-off+p2p-off"
            ]
        );
        let arms = all(false, &[With::Gdr, With::NetSocket], &[]);
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "baseline",
                "gdr-off",
                "gdr-anywhere",
                "ib-off",
                "ib-off+socket-nthreads=4"
            ]
        );
        // `NCCL_NET=Socket` and `NCCL_IB_DISABLE=1` have one meaning and two names.
        let both = all(true, &[With::NetSocket], &[]);
        assert!(both.iter().any(|arm| arm.name == "NCCL_NET=Socket"));
        let own = set("NCCL_IB_DISABLE=1").unwrap();
        assert_eq!(all(true, &[], &[own]).len(), 8);
    }

    #[test]
    fn arms_of_ones_own() {
        let parsed = set("NCCL_ALGO=Ring,NCCL_IB_HCA=mlx5_0,mlx5_1,X=").unwrap();
        assert_eq!(parsed["NCCL_IB_HCA"], "mlx5_0,mlx5_1");
        assert_eq!(parsed["X"], "");
        assert_eq!(parsed.len(), 3);
        for text in ["", "a", "=1", "1A=2", "lower=1"] {
            assert!(set(text).is_err(), "{text}");
        }
    }
}
