//! Which arms an ablation measures.

use super::ablation::{Set, name_of, variables};
use super::run::Arm;

/// The variables each of which takes a path away: all their combinations are arms.
const SWITCHES: [&str; 3] = ["NCCL_IB_DISABLE", "NCCL_SHM_DISABLE", "NCCL_P2P_DISABLE"];

/// Arms that differ by the value of one variable, and are measured on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArmFamily {
    /// NCCL's algorithms.
    Algo,
    /// Rings that stay on one rail, or cross rails.
    CrossNic,
    /// GPUDirect RDMA off, and over any distance.
    Gdr,
    /// Queue pairs for each connection.
    Qps,
    /// Sockets, and sockets with more threads.
    NetSocket,
    /// NVLink SHARP off.
    Nvls,
}

impl ArmFamily {
    fn sets(self) -> Vec<Set> {
        let one = |name: &str, values: &[&str]| -> Vec<Set> {
            let of = |value: &&str| Set::from([(name.to_owned(), (*value).to_owned())]);
            values.iter().map(of).collect()
        };
        match self {
            ArmFamily::Algo => one("NCCL_ALGO", &["Ring", "Tree", "NVLS", "CollNetDirect"]),
            ArmFamily::CrossNic => one("NCCL_CROSS_NIC", &["0", "1", "2"]),
            ArmFamily::Gdr => one("NCCL_NET_GDR_LEVEL", &["LOC", "SYS"]),
            ArmFamily::Qps => one("NCCL_IB_QPS_PER_CONNECTION", &["2", "4"]),
            ArmFamily::NetSocket => {
                let mut sets = one("NCCL_NET", &["Socket"]);
                let mut threads = sets[0].clone();
                threads.insert("NCCL_SOCKET_NTHREADS".into(), "4".into());
                sets.push(threads);
                sets
            }
            ArmFamily::Nvls => one("NCCL_NVLS_ENABLE", &["0"]),
        }
    }
}

/// The variables that disable GPUDirect RDMA.
pub fn gdr_off() -> Set {
    Set::from([("NCCL_NET_GDR_LEVEL".to_owned(), "LOC".to_owned())])
}

/// The variables of an arm on the command line: `NAME=VALUE,NAME=VALUE`. A comma belongs to the
/// value if no name follows it.
///
/// # Errors
///
/// The part that is no variable.
pub fn parse_variables(text: &str) -> Result<Set, String> {
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
            (None, None) => return Err(format!("{part:?} is not a NAME=VALUE")),
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

/// The arms to measure.
#[derive(Clone, Debug, Default)]
pub struct ArmRequest {
    /// Whether all combinations of the three switches are arms.
    pub switches: bool,
    /// Further families.
    pub families: Vec<ArmFamily>,
    /// Further arms, by their variables.
    pub variables: Vec<Set>,
}

impl ArmRequest {
    /// All combinations of the switches, and no more; without NCCL what changes the connections.
    pub fn of_switches() -> Self {
        ArmRequest {
            switches: true,
            ..ArmRequest::default()
        }
    }
}

/// The arms of a request: the baseline, the combinations of the switches, then the others, each
/// once.
pub fn arms(request: &ArmRequest) -> Vec<Arm> {
    let mut sets: Vec<Set> = vec![Set::new()];
    if request.switches {
        for bits in 1..1u32 << SWITCHES.len() {
            let of = |(at, name): (usize, &&str)| {
                (bits >> at & 1 == 1).then(|| ((*name).to_owned(), "1".to_owned()))
            };
            sets.push(SWITCHES.iter().enumerate().filter_map(of).collect());
        }
    }
    let more = request.families.iter().flat_map(|family| family.sets());
    sets.extend(more.chain(request.variables.iter().cloned()));
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
            arm.name = variables(&arm.set);
        }
    }
    arms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(switches: bool, families: &[ArmFamily], variables: &[Set]) -> Vec<Arm> {
        arms(&ArmRequest {
            switches,
            families: families.to_vec(),
            variables: variables.to_vec(),
        })
    }

    #[test]
    fn the_eight_combinations_and_what_was_asked_for() {
        let arms = of(true, &[], &[]);
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
        let arms = of(false, &[ArmFamily::Gdr, ArmFamily::NetSocket], &[]);
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
        let both = of(true, &[ArmFamily::NetSocket], &[]);
        assert!(both.iter().any(|arm| arm.name == "NCCL_NET=Socket"));
        let own = parse_variables("NCCL_IB_DISABLE=1").unwrap();
        assert_eq!(of(true, &[], &[own]).len(), 8);
    }

    #[test]
    fn arms_of_ones_own() {
        let parsed = parse_variables("NCCL_ALGO=Ring,NCCL_IB_HCA=mlx5_0,mlx5_1,X=").unwrap();
        assert_eq!(parsed["NCCL_IB_HCA"], "mlx5_0,mlx5_1");
        assert_eq!(parsed["X"], "");
        assert_eq!(parsed.len(), 3);
        for text in ["", "a", "=1", "1A=2", "lower=1"] {
            assert!(parse_variables(text).is_err(), "{text}");
        }
    }
}
