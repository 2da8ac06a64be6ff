//! The numbers of a process among those of its job, as launchers and scripts set them.

use super::{Ask, ENVIRONMENT, FoundSetting, Variables, state};
use crate::fact::setting;
use crate::fact::{Fact, Facts, Gap, Id};
use crate::source::Question;

/// A number, and the variable that says how many there are. Scripts set them by hand for torchrun
/// (`--node_rank=$NODE_RANK --nnodes=$NNODES`) and `env://`
/// (docs.pytorch.org, "Environment variable initialization"); launchers set the others.
const RANKS: [(&str, &str); 6] = [
    ("RANK", "WORLD_SIZE"),
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("GROUP_RANK", "GROUP_WORLD_SIZE"),
    ("NODE_RANK", "NNODES"),
    ("PET_NODE_RANK", "PET_NNODES"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
];

/// States the numbers, each beside how many there are; why they are not known, where something is counted.
pub(super) fn numbers(
    ask: &Ask<'_>,
    facts: &mut Facts,
    node: Id,
    job: &Fact<Variables>,
) -> Option<Gap> {
    let names = RANKS.map(|(name, _)| name);
    let set = ask.read::<Variables>(Question::env(&names));
    let job = job.known()?;
    let (set, origin) = match set {
        Fact::Known(set, origin) => (set, origin),
        Fact::Unknown(gap) => {
            let is_counted = RANKS.iter().any(|(_, count)| job.contains_key(*count));
            return Some(gap).filter(|_| is_counted);
        }
    };
    for (name, count_name) in RANKS {
        let (Some(value), Some(count)) = (set.get(name), job.get(count_name)) else {
            continue;
        };
        // `2:4` of an elastic job: at most four.
        let count = count.rsplit(':').next().unwrap_or_default().trim();
        let Ok(count) = count.parse::<u64>() else {
            continue;
        };
        let one = FoundSetting {
            name: name.to_owned(),
            variable: name.to_owned(),
            value: Fact::Known(value.clone(), origin.clone()),
            source: ENVIRONMENT.into(),
        };
        let id = state(facts, node, &one);
        facts.know(id, setting::COUNT_VARIABLE, count_name.into(), &origin);
        facts.know(id, setting::COUNT, count, &origin);
        let rank = value.trim().parse::<u64>();
        let is_counted = rank.as_ref().is_ok_and(|rank| *rank < count);
        facts.know(id, setting::IS_COUNTED, is_counted, &origin);
        facts.know(id, setting::IS_FIRST, rank == Ok(0), &origin);
    }
    None
}
